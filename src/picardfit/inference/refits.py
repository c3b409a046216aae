"""Many small fits around one fit: over any executor, kept in a ledger, with a line that says how far they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from picardfit.errors import InputError
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.ordered_map import Work, Written, check_tools, run_tasks
from picardfit.parallel.progress import Bar
from picardfit.problem.serialisation import digest, problem_digest
from picardfit.solvers.loop import Solution

if TYPE_CHECKING:
    from picardfit.fit import Fit

News = Callable[[int, int], None] | Literal[False] | None


@dataclass(frozen=True)
class Tools:
    """How the work is done; the results depend on none of it.

    `executor`: a `concurrent.futures.Executor`, or None for here. `ledger`: a file that keeps what is finished.
    `progress`: called with how many tasks are done and how many there are; None shows a line, False nothing.
    """

    executor: Executor | None = None
    ledger: str | Path | None = None
    progress: News = None

    def __post_init__(self) -> None:
        check_tools(self.executor, self.ledger, self.progress, "two numbers, done and all")


def solution_of(fit: Fit) -> Solution:
    """The solution of a fit, which inference starts from."""
    if fit.solution is None:
        raise InputError("inference.no_solution", message=fit.status.sentence().rstrip("."))
    return fit.solution


def run_many(
    fit: Fit,
    function: Callable,
    tasks: Mapping[int, object],
    settings: Mapping[str, object],
    tools: Tools,
    words: str,
    written: Written | None = None,
) -> Work:
    """`function(task)` for every task. `settings`: what else than the fit must be the same to continue a ledger."""
    book = None if tools.ledger is None else Ledger(tools.ledger, _identity(fit, settings, words))
    bar = Bar(words) if tools.progress is None else None

    def show(done: int, total: int, *_) -> None:
        if bar:
            bar.show(done, total)
        if tools.progress:
            tools.progress(done, total)

    try:
        return run_tasks(
            function, tasks, executor=tools.executor, ledger=book, written=written, progress=show
        )
    finally:
        if bar:
            bar.close()
        if book:
            book.close()


def _identity(fit: Fit, settings: Mapping[str, object], words: str) -> dict[str, object]:
    from picardfit import __version__

    return {
        "picardfit": __version__,
        "work": words,
        "problem": problem_digest(fit.problem),
        "estimates": digest(solution_of(fit).unknowns),
        **settings,
    }
