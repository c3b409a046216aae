"""Many small fits around one fit: on any executor, kept in a ledger, with a progress bar."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from picardfit import __version__
from picardfit.errors import InputError
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.ordered_map import Work, Written, check_tools, run_tasks
from picardfit.parallel.progress import Bar
from picardfit.problem.serialisation import digest, problem_digest
from picardfit.problem.unknowns import unknowns_index
from picardfit.solvers.loop import Solution

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.problem.problem import Problem

News = Callable[[int, int], None] | Literal[False] | None


@dataclass(frozen=True)
class Tools:
    """How the work is done; the results do not depend on it.

    `executor`: a `concurrent.futures.Executor`, or None for this process. `ledger`: a file that keeps what is finished.
    `progress`: called with the numbers of finished tasks and of all; None shows a progress bar, False nothing.
    """

    executor: Executor | None = None
    ledger: str | Path | None = None
    progress: News = None

    def __post_init__(self) -> None:
        check_tools(self.executor, self.ledger, self.progress, "two numbers, done and all")


def solution_of(fit: Fit) -> Solution:
    """The solution of a fit; InputError if it has none."""
    if fit.solution is None:
        raise InputError("inference.no_solution", ended=fit.status)
    return fit.solution


def named_unknowns(problem: Problem, unknowns: np.ndarray) -> dict[str, np.ndarray]:
    """name -> (...), natural units, of unknowns (..., experiments, width) in internal coordinates."""
    layout, natural = problem.layout, problem.layout.natural(unknowns)
    index = unknowns_index(layout.exists, layout.local)
    return {layout.label(e, column): natural[..., e, column] for e, column in index}


def run_many(
    fit: Fit,
    function: Callable,
    tasks: Mapping[int, object],
    settings: Mapping[str, object],
    tools: Tools,
    words: str,
    written: Written | None = None,
) -> Work:
    """Run `function(task)` for every task; `words` name the tasks in the progress bar.

    `settings`: what must be the same, beside the fit, to continue a ledger.
    """
    book, bar = None, Bar(words) if tools.progress is None else None
    if tools.ledger is not None:
        identity = {
            "picardfit": __version__,
            "work": words,
            "problem": problem_digest(fit.problem),
            "estimates": digest(solution_of(fit).unknowns),
            **settings,
        }
        book = Ledger(tools.ledger, identity)

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
        for one in (bar, book):
            if one:
                one.close()
        if book and book.broken:
            warnings.warn(str(book.broken), stacklevel=4)
