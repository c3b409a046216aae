"""Live progress of a fit on standard error, and Ctrl-C that keeps the best result so far."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from picardfit.solvers.loop import Progress


@contextmanager
def watched(
    quiet: bool = False, catch: bool = True, every: float = 0.1
) -> Iterator[Callable[[Progress], None]]:
    """A function for `fit(progress=...)` that shows one line on a terminal, nothing on a pipe.

    The first Ctrl-C stops the search at its next iteration, which returns the best result so far; a second Ctrl-C
    stops the program. Without `catch` Ctrl-C is not handled here: with several processes `fit` handles it.
    """
    asked = threading.Event()

    def on_interrupt(*_) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        sys.stderr.write(
            "\nStopping at the next iteration with the best so far. Press Ctrl-C again to stop at once.\n"
        )

    with _handler(on_interrupt, catch), line(quiet) as show:
        last = 0.0

        def update(progress: Progress) -> None:
            nonlocal last
            if asked.is_set():
                raise KeyboardInterrupt
            now = time.monotonic()
            if now - last >= every:
                last = now
                show(_words(progress))

        yield update


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


@contextmanager
def line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A function that shows a line in place of the previous one; on a pipe it shows nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


def _words(progress: Progress) -> str:
    start = f"start {progress.start + 1} of {max(progress.starts, progress.start + 1)}, "
    return (
        f"{start if progress.starts > 1 or progress.start else ''}iteration {progress.iteration}, "
        f"loss {progress.loss:.6g}, largest jump {progress.jump:.0e}"
    )
