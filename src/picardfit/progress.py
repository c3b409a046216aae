"""A line on the terminal that says how far long work has come; nothing at all on a pipe or in a file."""

from __future__ import annotations

import sys
import time
from typing import TextIO

QUIET_SECONDS = 1.0  # work that ends sooner shows nothing
EVERY = 0.2  # seconds between two versions of the line
WIDTH = 24


class Bar:
    """`bar.show(done, total)` as work goes on, `bar.close()` at its end."""

    def __init__(self, words: str, stream: TextIO | None = None) -> None:
        self._words, self._stream = words, stream or sys.stderr
        self._began = self._shown = time.monotonic()
        self._first: int | None = None  # what a ledger had done before
        self._visible = self._stream.isatty()
        self._drawn = False

    def show(self, done: int, total: int, note: str = "") -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = done - 1
        if not self._visible or now - self._began < QUIET_SECONDS or now - self._shown < EVERY:
            return
        self._shown, self._drawn = now, True
        rate = (done - self._first) / (now - self._began)
        full = WIDTH * done // max(total, 1)
        left = _duration((total - done) / rate)
        line = (
            f"{'█' * full}{'░' * (WIDTH - full)} {done} of {total} {self._words}, {rate:.3g}/s, {left} left"
        )
        self._stream.write(f"\r\x1b[K{line}{', ' if note else ''}{note}")
        self._stream.flush()

    def close(self) -> None:
        """Wipe the line."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
