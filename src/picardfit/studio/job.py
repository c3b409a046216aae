"""Work in a process of its own, as the page sees it: what it tells, how to stop it, how it ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from picardfit.cli.common import error_record
from picardfit.errors import InputError

LONGEST_LINE = 2**25  # bytes of a record: curves of many experiments
LAST_WORDS = 2000  # characters of standard error that are kept


class Phase(Enum):
    """Where a piece of work stands."""

    IDLE = auto()
    RUNNING = auto()
    STOPPING = auto()
    ENDED = auto()
    STOPPED = auto()  # before there was a result
    FAILED = auto()


@dataclass
class Job:
    """One piece of work at a time. `told` is called after everything that changes."""

    told: Callable[[], None]
    phase: Phase = Phase.IDLE
    kind: str = ""
    names: tuple[str, ...] = ()
    words: str = ""
    losses: list[tuple[int, int, float | None]] = field(default_factory=list)
    curves: dict[str, Any] = field(default_factory=dict)
    done: tuple[int, int] = (0, 0)
    errors: list[Mapping[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    outcome: Phase | None = None  # what the process has told; the phase changes when it is gone
    began: float = 0.0
    seconds: float = 0.0
    process: asyncio.subprocess.Process | None = None

    @property
    def busy(self) -> bool:
        return self.phase in (Phase.RUNNING, Phase.STOPPING)

    @property
    def elapsed(self) -> float:
        """Seconds since the work began, or that it took."""
        return time.monotonic() - self.began if self.busy else self.seconds

    async def start(self, kind: str, folder: Path, names: Sequence[str] = ()) -> None:
        """Begin, and return when the work has ended; what runs already goes on instead."""
        if self.busy:
            return
        self.phase, self.kind, self.names = Phase.RUNNING, kind, tuple(names)
        self.words, self.losses, self.curves, self.done = "", [], {}, (0, 0)
        self.errors, self.result, self.began, self.outcome = [], {}, time.monotonic(), None
        self.told()
        command = [sys.executable, "-m", "picardfit.studio.worker", kind, str(folder), *names]
        pipe = asyncio.subprocess.PIPE
        try:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                cwd=folder,
                limit=LONGEST_LINE,
                start_new_session=os.name == "posix",  # Ctrl-C in the terminal is for the server alone
            )
            last_words = asyncio.create_task(_tail(self.process.stderr))
            await self._listen(self.process.stdout)
            code = await self.process.wait()
            self._end(code, await last_words)
        except OSError as error:
            self._end(None, str(error))
        self.process = None
        self.told()

    async def _listen(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while line := await stream.readline():
            with suppress(ValueError):  # half a line of a process that was killed
                self._take(json.loads(line))
                self.told()

    def _take(self, record: dict[str, Any]) -> None:
        self.seconds = time.monotonic() - self.began
        match record.get("kind"):
            case "news":
                self.losses += [tuple(one) for one in record.get("losses", [])]
                self.words = record.get("words", self.words)
                self.curves = record.get("curves", self.curves)
                self.done = record.get("done", self.done[0]), record.get("total", self.done[1])
            case "ended":
                self.result, self.outcome = record, Phase.ENDED
                self.errors = record.get("errors", [])
            case "stopped":
                self.outcome = Phase.STOPPED
            case "failed":
                self.errors, self.outcome = record["errors"], Phase.FAILED

    def _end(self, code: int | None, last_words: str) -> None:
        """How the work ended: as it told, or with a process that is gone without a word."""
        self.seconds = time.monotonic() - self.began
        if self.outcome is None:
            reason = last_words.strip().splitlines()[-1:] or [f"exit code {code}"]
            self.errors = [error_record(InputError("studio.process_died", self.kind, reason=reason[0]))]
        self.phase = self.outcome or Phase.FAILED

    def stop(self, at_once: bool = False) -> None:
        """Ask the work to stop with the best so far; a second time, or `at_once`, end it."""
        if self.process is None or not self.busy:
            return
        with suppress(ProcessLookupError):
            if at_once or self.phase is Phase.STOPPING:
                self.process.kill()
            else:
                self.process.send_signal(signal.SIGINT)
        self.phase = Phase.STOPPING
        self.told()


async def _tail(stream: asyncio.StreamReader | None) -> str:
    """The end of what a process writes on standard error."""
    assert stream is not None
    found = ""
    while part := await stream.read(4096):
        found = (found + part.decode(errors="replace"))[-LAST_WORDS:]
    return found
