"""A line that shows the progress of long work on a terminal or in a notebook; a pipe or a file gets nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TextIO

from picardfit.solvers.loop import Progress


@dataclass(frozen=True)
class Pace:
    """When the line is drawn, in seconds, and how wide its bar is. All are choices."""

    quiet: float = 1.0  # work that ends sooner shows nothing
    every: float = 0.2  # between two updates of the line
    width: int = 24  # characters of the bar on a terminal


class Bar:
    """Call `bar.show(done, total)` as work goes on and `bar.close()` at its end. `clock` gives seconds."""

    def __init__(
        self,
        words: str,
        stream: TextIO | None = None,
        pace: Pace = Pace(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._words, self._pace, self._clock = words, pace, clock
        self._began = self._shown = clock()
        self._first: int | None = None  # tasks that a ledger had done before
        self._surface = _surface(stream, pace.width)
        self._drawn = False
        self._last = ""

    def show(self, done: int, total: int, note: str = "") -> None:
        now = self._clock()
        if self._first is None:
            self._first = done - 1
        spent, more = now - self._began, f", {note}" if note else ""
        self._last = f"{done} of {total} {self._words} in {duration(spent)}{more}"
        if self._surface is None or spent < self._pace.quiet or now - self._shown < self._pace.every:
            return
        self._shown, self._drawn = now, True
        rate = (done - self._first) / spent
        left = duration((total - done) / rate)
        text = f"{done} of {total} {self._words}, {rate:.3g}/s, {left} left{more}"
        self._surface.draw(done / max(total, 1), text)

    def show_search(self, news: Progress) -> None:
        """Show how far a search has come; how many more there will be is not known."""
        now = self._clock()
        spent = now - self._began
        self._last = f"{search_words(news)} after {duration(spent)}"
        if self._surface is None or spent < self._pace.quiet or now - self._shown < self._pace.every:
            return
        self._shown, self._drawn = now, True
        self._surface.draw(None, self._last)

    def close(self) -> None:
        """Wipe the line; a notebook keeps a summary."""
        if self._drawn and self._surface is not None:
            self._surface.finish(self._last)


class _Terminal:
    """A line that overwrites itself."""

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream, self._width = stream, width

    def draw(self, part: float | None, text: str) -> None:
        full = 0 if part is None else int(self._width * part)
        bar = "" if part is None else f"{'█' * full}{'░' * (self._width - full)} "
        self._write(f"{bar}{text}")

    def finish(self, text: str) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()


class _Notebook:
    """An output of the running cell, updated in place."""

    def __init__(self, display) -> None:
        self._display, self._handle = display, None

    def draw(self, part: float | None, text: str) -> None:
        value = "" if part is None else f' value="{part:.4f}" max="1"'
        self._put({"text/plain": text, "text/html": f"<progress{value}></progress> {escape(text)}"})

    def finish(self, text: str) -> None:
        self._put({"text/plain": text, "text/html": f"<span>{escape(text)}</span>"})

    def _put(self, content: dict[str, str]) -> None:
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def search_words(news: Progress) -> str:
    """`search 2, continuity stage 1 of 3, iteration 7, loss 0.0123, largest jump 1e-03; 1 search done`."""
    done = f"; {news.done} search{'' if news.done == 1 else 'es'} done" if news.done else ""
    if news.candidates:
        return f"simulated candidates, step {news.iteration}, best loss {news.loss:.6g}{done}"
    only = news.starts == 1 and news.start == 0
    which = f"search {news.start + 1}" + (f" of {news.starts}" if news.starts > news.start else "")
    stage = "" if news.stage is None else "continuity stage {} of {}".format(*news.stage)
    where = f"iteration {news.iteration}, loss {news.loss:.6g}, largest jump {news.jump:.0e}"
    return ", ".join(words for words in ("" if only else which, stage, where) if words) + done


def _surface(stream: TextIO | None, width: int) -> _Terminal | _Notebook | None:
    """Where to draw: a given stream if it is a terminal; by default the running notebook or the terminal of stderr."""
    if stream is None and (display := notebook_display()) is not None:
        return _Notebook(display)
    stream = stream or sys.stderr
    return _Terminal(stream, width) if stream.isatty() else None


def notebook_display():
    """IPython's `display` inside a notebook, else None; outside IPython is not imported."""
    shell = sys.modules["IPython"].get_ipython() if {"IPython", "ipykernel"} <= sys.modules.keys() else None
    if shell is None or "IPKernelApp" not in shell.config:
        return None
    from IPython.display import display

    return display


def duration(seconds: float) -> str:
    """`2 h 1 min`, `1 min 1 s`, `7 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
