"""An append-only record of finished tasks, so that an interrupted run can be resumed.

JSON, one line each: first a header that says whose tasks these are, then `{"task": 7, "result": ...}` for a finished
task and `{"task": 8, "failed": "why"}` for one that was given up (the next run tries it again). A line that was being
written when the run was killed is dropped. The file is not locked: two simultaneous runs need two files.
Where the disk is full the run goes on without its ledger, which says so in `broken`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from picardfit.errors import InputError, Notice
from picardfit.problem.json_values import plain
from picardfit.whole_files import regular_target, write_bytes

FORMAT = {"format": "picardfit ledger", "version": 1}
R = TypeVar("R")
_RESULT = re.compile(rb'\{"task": (?P<task>\d{1,18}), "result": [^\n]+\}\n')  # as `append` writes it


@dataclass(frozen=True)
class LedgerSettings:
    """How a ledger is written and read. Both are choices."""

    sync_seconds: float = 1.0  # between two calls of fsync; a power cut loses at most that much work
    most_bytes: int = 2**26  # of a file that is read: some 25,000 starts
    most_values: int = (
        2**21
    )  # of one line, which then need at most 300 MB as objects; 40 MB as numbers of 17 digits


class _Results(Mapping[int, object]):
    """Task -> result, from task -> line. A line is text until somebody asks: objects need up to 25 times its memory."""

    def __init__(self, lines: Mapping[int, bytes]) -> None:
        self._lines = lines

    def __getitem__(self, task: int) -> object:
        return json.loads(self._lines[task])["result"]

    def __contains__(self, task: object) -> bool:  # without reading the line, which may be damaged
        return task in self._lines

    def __iter__(self) -> Iterator[int]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


class Ledger:
    """`done`: task -> result in the file. `identity` describes the run and must be that of the run that began the file.

    `broken`: why nothing more is written, or None.
    """

    def __init__(
        self,
        path: str | Path,
        identity: Mapping[str, object],
        settings: LedgerSettings = LedgerSettings(),
    ) -> None:
        self.path, self._target = Path(path), regular_target(path)
        self._texts: dict[int, bytes] = {}  # task -> its line in the file
        self.done: Mapping[int, object] = _Results(self._texts)
        self.failed: dict[int, str] = {}
        self.broken: Notice | None = None
        self._lines: dict[int, int] = {}  # task -> line of its result
        self._identity = {key: plain(value, "the identity of a ledger") for key, value in identity.items()}
        self._synced, self._settings = time.monotonic(), settings
        try:
            whole = self._read()
            if not whole:
                header = _line(_header(self._identity))
                write_bytes(self._target, header)
                whole = len(header)
            # Unbuffered: a buffer would keep what a full disk refuses, and try again when the file is closed.
            self._file = self._target.open("r+b", buffering=0)
            self._file.truncate(whole)
            self._file.seek(whole)
        except OSError as error:
            raise InputError("parallel.ledger_not_opened", str(path), reason=error.strerror) from None
        self._whole = whole  # bytes of complete lines

    def result(self, task: int, decode: Callable[[Any], R]) -> R:
        """The result of a task in the file, as `decode` understands it."""
        try:
            return decode(self.done[task])
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError):
            raise InputError("parallel.ledger_line", str(self.path), line=self._lines[task]) from None

    def append(self, task: int, result: object) -> None:
        """Note a finished task."""
        self._write({"task": task, "result": plain(result, f"result of task {task}")})

    def fail(self, task: int, sentence: str) -> None:
        """Note a task that was given up."""
        self._write({"task": task, "failed": sentence})

    def sync(self) -> None:
        """Wait until the disk has everything."""
        if self.broken is None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                self._give_up(error)
        self._synced = time.monotonic()

    def close(self) -> None:
        if not self._file.closed:
            self.sync()
            self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _write(self, record: dict) -> None:
        """Write one line. Results matter more than their record: a full disk ends the record, not the run."""
        if self.broken is not None:
            return
        line = _line(record)
        try:
            _write_all(self._file, line)
        except OSError as error:
            self._give_up(error)
            return
        self._whole += len(line)
        if time.monotonic() - self._synced > self._settings.sync_seconds:
            self.sync()

    def _give_up(self, error: OSError) -> None:
        """Write nothing more, and drop the half line that a full disk may have left."""
        self.broken = Notice("parallel.ledger_broke", str(self.path), {"reason": error.strerror})
        with suppress(OSError):
            self._file.truncate(self._whole)

    def _read(self) -> int:
        """Fill `done` and `failed` from the file; return how many of its bytes are complete lines."""
        if not self._target.exists():
            return 0
        if self._target.stat().st_size > self._settings.most_bytes:
            limit = self._settings.most_bytes // 2**20
            raise InputError("parallel.ledger_too_large", str(self.path), megabytes=limit)
        with self._target.open("rb") as file:
            header = file.readline()
            if not header.endswith(b"\n"):  # half a line, or nothing
                if header and not _line(_header(self._identity)).startswith(header):
                    raise InputError("parallel.not_a_ledger", str(self.path))
                return 0
            self._check_header(self._parsed(header))
            return len(header) + self._read_tasks(file)

    def _read_tasks(self, file: BinaryIO) -> int:
        """Fill `done` and `failed` from the lines after the header; return the bytes of those that are complete."""
        size, wrong = 0, 0
        for number, line in enumerate(file, 2):
            if not line.endswith(b"\n"):
                break
            if wrong:  # only the last line may be damaged: it was being written when the run was killed
                raise InputError("parallel.ledger_line", str(self.path), line=wrong)
            record = self._parsed(line)
            if record is None or type(task := record.get("task")) is not int:
                wrong = number
                continue
            if "result" in record:
                self._texts[task], self._lines[task] = line, number
                self.failed.pop(task, None)
            else:
                self.failed[task] = str(record.get("failed", ""))
            size += len(line)
        return size

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        """The record in a line, whose result is left for later; None for anything else."""
        if line.count(b",") > self._settings.most_values:
            return None
        if own := _RESULT.fullmatch(line):
            return {"task": int(own["task"]), "result": ...}
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return record if isinstance(record, dict) else None

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


def _write_all(file: FileIO, line: bytes) -> None:
    """Write a whole line: one call may write less."""
    written = 0
    while written < len(line):
        written += file.write(line[written:])


def _line(record: dict) -> bytes:
    return json.dumps(record, allow_nan=False).encode() + b"\n"
