"""From a request to a checked optimum: the searches, the independent integration, the final status, the warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from picardfit.errors import Notice, Status
from picardfit.evidence.certificate import Certificate, path_value
from picardfit.evidence.optima import SearchSummary, clusters
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.progress import Bar
from picardfit.problem.named_values import initial_by_label, parameters_of
from picardfit.problem.problem import Problem
from picardfit.search.driver import Found, run_policy
from picardfit.search.final_status import SearchEvidence, decide_status
from picardfit.search.many_searches import identity, search_all
from picardfit.search.notices import all_notices, switching_parameters
from picardfit.search.policy import SearchPolicy
from picardfit.search.searches import Ending, Request, with_arrivals
from picardfit.search.smooth_switches import smoothed
from picardfit.solvers.loop import Method, Progress, Solution


@dataclass(frozen=True)
class SearchResult:
    """What the searches for an optimum found: the record from which a `Fit` is made."""

    problem: Problem
    method: Method
    solution: Solution | None
    status: Status
    certificate: Certificate  # NOTHING_CERTIFIED when there is no solution
    iterations: int
    seed: int
    searches: tuple[SearchSummary, ...]
    policy: SearchPolicy
    asked: int  # how many searches were asked for; 1: as many as the policy needs
    trace: np.ndarray  # (iterations, 3): loss, largest relative jump, Picard residual (NaN: not known)
    warnings: tuple[Notice, ...]


def estimate(
    request: Request,
    executor: Executor | None,
    ledger: str | Path | None,
    progress: Callable[[Progress], None] | Literal[False] | None,
) -> SearchResult:
    """Search for the optimum as requested, check the best solution independently, and decide how it all ended."""
    book = None if ledger is None else Ledger(ledger, identity(request))
    bar = Bar("searches") if progress is None else None
    news = progress or (bar.show_search if bar else None)
    try:
        request, before = smoothed(request, news)
        if request.starts > 1 and not (before and before.interrupted):
            before = search_all(request, executor, book, progress or None, bar)
            if not before.endings:
                raise KeyboardInterrupt
        found = run_policy(request, book, news, before)
    finally:
        if bar:
            bar.close()
        if book:
            book.close()
    result = _result(request, found, ledger)
    if book is None or book.broken is None:
        return result
    return replace(result, warnings=(*result.warnings, book.broken))


def _result(request: Request, found: Found, ledger: str | Path | None) -> SearchResult:
    """The best of the searches with its status and warnings."""
    problem, outcome, certificate = request.problem, found.outcome, found.certificate
    evidence = SearchEvidence(
        ended=outcome.status,
        certificate=certificate,
        exact_method=request.method.exact,
        least_squares=problem.scatter is None,
        zero_curves_loss=problem.mean_loss(problem.least_squares.nothing),
        switching=bool(switching_parameters(problem)),
    )
    status, solution = decide_status(evidence), outcome.solution
    if not status.converged:
        certificate = replace(certificate, undetermined=None)
    endings = dict(found.searches.endings)
    if status.success:  # a search that rounding stopped at the optimum has reached it, too
        value = endings[found.best].value if solution is None else path_value(solution)
        unknowns = None if solution is None else solution.unknowns
        endings[found.best] = replace(endings[found.best], status=status, value=value, unknowns=unknowns)
    searches = search_summaries(problem, solution, endings)
    return SearchResult(
        problem=problem,
        method=request.method,
        solution=solution,
        status=status,
        certificate=certificate,
        iterations=outcome.iterations,
        seed=request.seed,
        searches=searches,
        policy=request.policy,
        asked=request.starts,
        trace=outcome.trace,
        warnings=all_notices(request, found.searches, status, certificate, solution, searches, ledger),
    )


def search_summaries(
    problem: Problem, solution: Solution | None, endings: Mapping[int, Ending]
) -> tuple[SearchSummary, ...]:
    """How every search ended, and in which optimum."""
    reached = {
        k: (one.value, one.unknowns)
        for k, one in endings.items()
        if one.status.success and np.isfinite(one.value) and one.unknowns is not None
    }
    numbers = dict.fromkeys(reached, 0)
    if solution is not None and len(reached) > 1:
        numbers = clusters(solution, path_value(solution), reached)
    numbers = with_arrivals(numbers, endings)
    return tuple(
        SearchSummary(
            k,
            problem.mean_loss(one.value),
            one.status,
            one.iterations,
            one.seconds,
            parameters_of(problem, one.unknowns),
            numbers.get(k),
            initial_by_label(problem, one.unknowns) if k in numbers else None,
        )
        for k, one in endings.items()
    )
