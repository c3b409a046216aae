"""As many searches as a user asked for, here or on the workers of an executor, kept in a ledger."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import numpy as np

from picardfit.parallel.ledger import Ledger
from picardfit.parallel.ordered_map import Failure, Written, run_tasks
from picardfit.parallel.progress import Bar
from picardfit.problem.json_values import Record
from picardfit.problem.serialisation import digest, problem_digest
from picardfit.search.ending_record import decoded, encoded
from picardfit.search.searches import BROKEN, Ending, Request, Searches, Task, parts_of, search
from picardfit.search.solution_record import solution_record
from picardfit.search.told import LOG, SearchesBegin, tell_ended
from picardfit.solvers.loop import Progress, Solution


def search_all(
    request: Request,
    executor: Executor | None,
    book: Ledger | None,
    progress: Callable[[Progress], None] | None,
    bar: Bar | None,
) -> Searches:
    """Search from every start that was asked for, here or on the executor's workers."""
    parts = parts_of(request, request.starts)
    best = _BestSoFar(len(parts))

    def show(done: int, total: int, index: int, ending: Ending | Failure) -> None:
        if isinstance(ending, Ending):
            tell_ended(request.problem, index, ending)
        if bar:
            bar.show(done, total, f"best loss {request.problem.mean_loss(best.value):.6g}")
        if progress and executor is not None and isinstance(ending, Ending):
            loss = request.problem.mean_loss(ending.value)
            progress(Progress(index, request.starts, ending.iterations, loss, ending.jump))

    earlier = set() if book is None else book.done.keys() & set(range(len(parts)))
    LOG.info(SearchesBegin(request.starts, len(earlier)))
    if book is not None:
        for index in earlier:
            best(index, book.result(index, decoded))
    here = partial(search, request, progress=progress)
    work = run_tasks(
        here if executor is None else partial(_packed_search, request),
        dict(enumerate(enumerate(parts))),
        executor=executor,
        ledger=book,
        keep=best,
        written=Written(encoded, decoded),
        progress=show,
    )
    endings = {**work.results, **dict.fromkeys(work.failures, BROKEN)}
    if work.partial is not None:
        index, ending = work.partial
        endings[index] = ending
    return Searches(dict(sorted(endings.items())), work.failures, work.interrupted)


def _packed_search(request: Request, task: Task) -> Ending:
    """A search whose path travels without the problem."""
    ending = search(request, task)
    if not isinstance(ending.solution, Solution):
        return ending
    return replace(ending, solution=solution_record(ending.solution))


class _BestSoFar:
    """Drops the path and trace of every search that is not the best so far."""

    def __init__(self, count: int) -> None:
        self._rank: tuple[bool, float, int] = (True, np.inf, count)

    @property
    def value(self) -> float:
        return self._rank[1]

    def __call__(self, index: int, ending: Ending) -> Ending:
        rank = ending.rank(index)
        if rank < self._rank:
            self._rank = rank
            return ending
        return replace(ending, solution=None, trace=None)


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
