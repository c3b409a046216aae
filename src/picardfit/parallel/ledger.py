"""An append-only record of finished tasks, so that an interrupted run can be resumed.

JSON, one line each: first a header that says whose tasks these are, then `{"task": 7, "result": ...}` for a finished
task and `{"task": 8, "failed": "why"}` for one that was given up (the next run tries it again). A line that was being
written when the run was killed is dropped. The file is not locked: two simultaneous runs need two files.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from picardfit.errors import InputError
from picardfit.problem.json_values import plain

FORMAT = {"format": "picardfit ledger", "version": 1}


class Ledger:
    """`done`: task -> result in the file. `identity` describes the run and must be that of the run that began the file.

    `sync_seconds`: time between two calls of fsync; a power cut loses at most that much work.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, object], sync_seconds: float = 1.0) -> None:
        self.path = Path(path)
        self.done: dict[int, object] = {}
        self.failed: dict[int, str] = {}
        self._identity = {key: plain(value, "the identity of a ledger") for key, value in identity.items()}
        self._synced, self._sync_seconds = time.monotonic(), sync_seconds
        try:
            whole = self._read()
            self._file = self.path.open("r+b" if whole else "wb")
        except OSError as error:
            raise InputError("parallel.ledger_not_opened", str(path), reason=error.strerror) from None
        self._file.truncate(whole)
        self._file.seek(whole)
        if not whole:
            self._write(_header(self._identity))

    def append(self, task: int, result: object) -> None:
        """Note a finished task."""
        self._write({"task": task, "result": plain(result, f"result of task {task}")})

    def fail(self, task: int, sentence: str) -> None:
        """Note a task that was given up."""
        self._write({"task": task, "failed": sentence})

    def sync(self) -> None:
        """Wait until the disk has everything."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        self.sync()
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _write(self, record: dict) -> None:
        self._file.write(_line(record))
        self._file.flush()
        if time.monotonic() - self._synced > self._sync_seconds:
            self.sync()

    def _read(self) -> int:
        """Fill `done` and `failed` from the file; return how many of its bytes are complete lines."""
        if not self.path.exists():
            return 0
        content = self.path.read_bytes()
        lines = content.split(b"\n")[:-1]  # what follows the last line end is empty, or half a line
        if not lines:
            if content and not _line(_header(self._identity)).startswith(content):
                raise InputError("parallel.not_a_ledger", str(self.path))
            return 0
        self._check_header(_parsed(lines[0]))
        size = len(lines[0]) + 1
        for number, line in enumerate(lines[1:], 2):
            record = _parsed(line)
            if record is None or not isinstance(record.get("task"), int):
                if number == len(lines):
                    break
                raise InputError("parallel.ledger_line", str(self.path), line=number)
            task = record["task"]
            if "result" in record:
                self.done[task] = record["result"]
                self.failed.pop(task, None)
            else:
                self.failed[task] = str(record.get("failed", ""))
            size += len(line) + 1
        return size

    def _check_header(self, header: dict | None) -> None:
        theirs = None if header is None else header.get("run")
        if header is None or header.get("format") != FORMAT["format"] or not isinstance(theirs, dict):
            raise InputError("parallel.not_a_ledger", str(self.path))
        if header.get("version") != FORMAT["version"]:
            raise InputError("parallel.ledger_version", str(self.path))
        mine = self._identity
        other = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        if other:
            raise InputError("parallel.ledger_of_another_run", str(self.path), names=other)


def _header(identity: object) -> dict:
    return {**FORMAT, "run": identity}


def _line(record: dict) -> bytes:
    return json.dumps(record, allow_nan=False).encode() + b"\n"


def _parsed(line: bytes) -> dict | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
