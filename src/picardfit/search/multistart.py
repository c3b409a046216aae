"""Searches from many starting points: where they begin, how they travel to workers, what a ledger keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from picardfit.errors import Status
from picardfit.evidence.certificate import path_value
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.ordered_map import Failure, Interrupted, Work, Written, run_tasks
from picardfit.parallel.progress import Bar
from picardfit.problem.problem import Problem
from picardfit.problem.records import Record, array, get, get_optional, number, plain
from picardfit.problem.serialisation import digest, problem_digest
from picardfit.search.rescue import run_search
from picardfit.search.solution_record import as_record, solution_of, solution_record, trace_of
from picardfit.search.starts import make_start, spread_evenly
from picardfit.solvers.loop import Method, News, Outcome, Progress, Solution

Task = tuple[int, np.ndarray | None]  # index of a start, and where it lies between the bounds


@dataclass(frozen=True)
class Ranking:
    """How searches are compared."""

    closed: float = (
        1e-3  # largest jump, relative to the states' scale, of a path whose objective means something
    )


@dataclass(frozen=True)
class Request:
    """Everything that the result of a search depends on, besides the index of its start."""

    problem: Problem
    method: Method
    given: np.ndarray  # (experiments, width): values to begin with, internal, NaN where open
    starts: int | None  # None: one, and more if it leaves a doubt
    seed: int


@dataclass(frozen=True)
class Ending:
    """How one search ended. Only the best so far keeps path and trace, because thousands would fill the memory."""

    status: Status
    value: float  # the objective, infinite where there is none
    iterations: int
    seconds: float
    jump: float
    unknowns: np.ndarray | None  # (experiments, width)
    solution: Solution | Record | None = None  # a record when it came from a worker or a ledger
    trace: np.ndarray | None = None  # (iterations, 3)

    def rank(self, index: int, ranking: Ranking = Ranking()) -> tuple[bool, bool, float, int]:
        """A key that sorts searches: success first, then continuous paths, then small objectives, then first ones."""
        success = self.status.success
        return not success, not (success or self.jump <= ranking.closed), self.value, index


BROKEN = Ending(Status.FAILED, np.inf, 0, 0.0, np.nan, None)  # a search that raised


@dataclass(frozen=True)
class Searches:
    """The searches that were done, by index of their start."""

    endings: dict[int, Ending]
    failures: dict[int, str]
    interrupted: bool
    spared: bool = False  # a second look was called for, but the problem is too large

    @property
    def best(self) -> int:
        """The index of the best search by `Ending.rank`."""
        return min(self.endings, key=lambda index: self.endings[index].rank(index))


def search_all(
    request: Request,
    executor: Executor | None,
    ledger: str | Path | None,
    progress: Callable[[Progress], None] | Literal[False] | None,
) -> Searches:
    """Search from every start that was asked for."""
    starts, news = request.starts or 1, progress or None
    book = None if ledger is None else Ledger(ledger, identity(request))
    bar = Bar("starts") if progress is None and starts > 1 else None
    try:
        found = search_some(
            request, dict(enumerate(parts_of(request, starts))), {}, executor, news, book, bar
        )
    finally:
        if bar:
            bar.close()
        if book:
            book.close()
    if not found.endings:
        raise KeyboardInterrupt
    return found


def outcome_of(request: Request, index: int, ending: Ending) -> Outcome:
    """The whole outcome of a search; if its path was dropped, the search is repeated and gives the same one."""
    if ending.solution is None and np.isfinite(ending.value):
        ending = search(request, (index, parts_of(request, index + 1)[index]))
    trace = np.zeros((0, 3)) if ending.trace is None else ending.trace
    return Outcome(path_of(request, ending), ending.status, ending.iterations, ending.seconds, trace)


def path_of(request: Request, ending: Ending) -> Solution | None:
    """The solution of an ending, rebuilt if it came from a worker or a ledger."""
    if ending.solution is None or isinstance(ending.solution, Solution):
        return ending.solution
    return solution_of(request.problem, as_record(plain(ending.solution, "a path")))


def search(request: Request, task: Task, progress: Callable[[Progress], None] | None = None) -> Ending:
    """One search; the first start has no place between the bounds and begins at what is given.

    Every second of the others is not matched to the data: matched starts are often all alike.
    """
    index, part = task
    begin = make_start(request.problem, request.given, part=part, matched=part is None or index % 2 == 0)
    outcome = run_search(request.method, request.problem, begin, reporter(request, index, progress))
    ending = ending_of(outcome)
    if outcome.status is Status.INTERRUPTED:
        raise Interrupted((index, ending))
    return ending


def reporter(request: Request, index: int, progress: Callable[[Progress], None] | None) -> News:
    """The function by which the loop reports its iterations."""

    def news(iteration: int, loss: float, jump: float) -> None:
        if progress is not None:
            progress(Progress(index, request.starts or 1, iteration, loss, jump))

    return news


def identity(request: Request) -> Record:
    """What must be the same for a ledger to be continued. More starts may be added: they extend the sequence."""
    from picardfit import __version__

    return {
        "picardfit": __version__,
        "problem": problem_digest(request.problem),
        "method": repr(request.method),
        "start": digest(request.given),
        "seed": request.seed,
    }


def parts_of(request: Request, starts: int) -> list[np.ndarray | None]:
    """How far between the bounds each start lies, (experiments, width); None for the first, at what is given."""
    if starts == 1:
        return [None]
    return [None, *spread_evenly(request.problem.layout, starts - 1, request.seed)]


def search_some(
    request: Request,
    parts: Mapping[int, np.ndarray | None],
    before: Mapping[int, Ending],
    executor: Executor | None,
    news: Callable[[Progress], None] | None,
    book: Ledger | None = None,
    bar: Bar | None = None,
) -> Searches:
    """The searches `before` and those from these starts, by index.

    `parts`: see `parts_of`. `book` keeps finished searches, `bar` shows how many there are.
    """
    best = _BestSoFar(parts)

    def show(done: int, total: int, index: int, ending: Ending | Failure) -> None:
        if bar:
            bar.show(done, total, f"best loss {request.problem.mean_loss(best.value):.6g}")
        if news and executor is not None and isinstance(ending, Ending):
            loss = request.problem.mean_loss(ending.value)
            news(Progress(index, request.starts or 1, ending.iterations, loss, ending.jump))

    if book is not None:
        for index in parts.keys() & book.done.keys():
            best(index, _decoded(book.done[index]))
    here = partial(search, request, progress=news)
    tasks: dict[int, Task] = {index: (index, part) for index, part in parts.items()}
    work = run_tasks(
        here if executor is None else partial(_packed_search, request),
        tasks,
        executor=executor,
        ledger=book,
        keep=best,
        written=Written(_encoded, _decoded),
        progress=show,
    )
    return _gather(work, before)


def _packed_search(request: Request, task: Task) -> Ending:
    """A search whose path travels without the problem."""
    ending = search(request, task)
    if not isinstance(ending.solution, Solution):
        return ending
    return replace(ending, solution=solution_record(ending.solution))


class _BestSoFar:
    """Drops the path and trace of every search that is not the best so far."""

    def __init__(self, indices: Iterable[int]) -> None:
        self._rank: tuple[bool, bool, float, int] = (True, True, np.inf, max(indices) + 1)

    @property
    def value(self) -> float:
        return self._rank[2]

    def __call__(self, index: int, ending: Ending) -> Ending:
        rank = ending.rank(index)
        if rank < self._rank:
            self._rank = rank
            return ending
        return replace(ending, solution=None, trace=None)


def _gather(work: Work[Ending], before: Mapping[int, Ending]) -> Searches:
    endings = {**before, **work.results}
    for index in work.failures:
        endings[index] = BROKEN
    if work.partial is not None:
        index, ending = work.partial
        endings[index] = ending
    return Searches(dict(sorted(endings.items())), work.failures, work.interrupted)


def ending_of(outcome: Outcome) -> Ending:
    """The ending of a search; a path that is not finite is dropped."""
    solution = outcome.solution
    value = np.inf if solution is None else path_value(solution)
    jump = float(outcome.trace[-1, 1]) if len(outcome.trace) else np.nan
    unknowns = None if solution is None else solution.unknowns
    if solution is not None and not (np.isfinite(value) and np.isfinite(solution.path).all()):
        solution, value = None, np.inf
    return Ending(
        outcome.status, value, outcome.iterations, outcome.seconds, jump, unknowns, solution, outcome.trace
    )


# ---- as a record -------------------------------------------------------------------------------------------


def _encoded(ending: Ending) -> Record:
    solution = ending.solution
    return {
        "status": ending.status.name,
        "value": ending.value,
        "iterations": ending.iterations,
        "seconds": ending.seconds,
        "jump": ending.jump,
        "unknowns": ending.unknowns,
        "solution": solution_record(solution) if isinstance(solution, Solution) else solution,
        "trace": ending.trace,
    }


def _decoded(content: object) -> Ending:
    record = as_record(content)
    unknowns, trace = get_optional(record, "unknowns", list), get_optional(record, "trace", list)
    return Ending(
        Status[get(record, "status", str)],
        number(get(record, "value"), "value"),
        get(record, "iterations", int),
        number(get(record, "seconds"), "seconds"),
        number(get(record, "jump"), "jump"),
        None if unknowns is None else array(unknowns, (None, None), "unknowns"),
        get_optional(record, "solution", dict),
        None if trace is None else trace_of(trace),
    )
