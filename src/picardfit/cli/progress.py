"""Live progress of a fit on standard error, and Ctrl-C that keeps the best result so far."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from picardfit.parallel.progress import search_words

if TYPE_CHECKING:
    from rich.status import Status

    from picardfit.solvers.loop import Progress


@contextmanager
def watched(
    quiet: bool = False,
    catch: bool = True,
    verbose: bool = False,
    every: float = 0.1,
    also: Callable[[Progress], None] | None = None,
) -> Iterator[Callable[[Progress], None]]:
    """A function for `fit(progress=...)` that shows one line on a terminal, nothing on a pipe.

    The first Ctrl-C stops the search at its next iteration, which returns the best result so far; a second Ctrl-C
    stops the program. Without `catch` Ctrl-C is not handled here: with several processes `fit` handles it. With
    `verbose` standard error also gets a line for all that the search does, on a pipe as well. `also` is called with
    every progress, too.
    """
    asked = threading.Event()

    def on_interrupt(*_) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        sys.stderr.write(
            "\nStopping at the next iteration with the best so far. Press Ctrl-C again to stop at once.\n"
        )

    with _handler(on_interrupt, catch), _status(quiet) as line, _story(verbose, line):
        last = 0.0

        def update(progress: Progress) -> None:
            nonlocal last
            if asked.is_set():
                raise KeyboardInterrupt
            if also is not None:
                also(progress)
            now = time.monotonic()
            if line is not None and now - last >= every:
                last = now
                line.update(search_words(progress))

        yield update


@contextmanager
def _story(verbose: bool, line: Status | None) -> Iterator[None]:
    """Write what the search tells to standard error, above the line of progress, each line with the seconds so far."""
    from picardfit.search.told import LOG

    if not verbose:
        yield
        return
    began, level, write = time.monotonic(), LOG.level, sys.stderr.write
    if line is not None:
        write = partial(line.console.print, end="", markup=False, highlight=False, soft_wrap=True)

    class ToStandardError(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write(f"{time.monotonic() - began:7.2f} s  {record.getMessage()}\n")

    handler = ToStandardError()
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


@contextmanager
def _handler(function: Callable, catch: bool) -> Iterator[None]:
    """Handles Ctrl-C by `function` in this context; only the main thread may install handlers."""
    if not catch or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, function)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _status(quiet: bool) -> AbstractContextManager[Status | None]:
    """A line on standard error that can be updated; None if quiet or not on a terminal."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status("starting")
