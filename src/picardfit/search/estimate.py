"""From a request to a checked optimum: the searches, the independent integration, the final status, the warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from picardfit.errors import Notice, Status
from picardfit.evidence.certificate import NOTHING_CERTIFIED, Certificate, certify, path_value
from picardfit.evidence.optima import StartResult, clusters
from picardfit.parallel.ordered_map import single_threaded
from picardfit.problem.named_values import parameters_of
from picardfit.problem.problem import Problem
from picardfit.search.final_status import SearchEvidence, decide_status
from picardfit.search.multistart import Ending, Request, Searches, outcome_of, search_all
from picardfit.search.notices import all_notices, switching_parameters
from picardfit.search.rescue import NO_RESCUE, run_search
from picardfit.search.second_look import look_again
from picardfit.solvers.loop import Method, Outcome, Progress, Solution, is_exact


@dataclass(frozen=True)
class Refinement:
    """When the mesh of a solution is refined, because an independent integration disagrees with its loss."""

    mismatch: float = 1e-6  # relative difference of the losses; a tenth of what `Certificate.agrees` allows
    factor: float = (
        1e-2  # of the mesh's resolution from one round to the next; its square in the second, and so on
    )
    rounds: int = 3


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
    starts: tuple[StartResult, ...]
    asked: int | None  # how many searches were asked for; None: one, and more where that leaves a doubt
    trace: np.ndarray  # (iterations, 3): loss, largest relative jump, Picard residual (NaN: not known)
    warnings: tuple[Notice, ...]


def estimate(
    request: Request,
    executor: Executor | None,
    ledger: str | Path | None,
    progress: Callable[[Progress], None] | Literal[False] | None,
) -> SearchResult:
    """Search for the optimum as requested, check the best solution independently, and decide how it all ended."""
    found = search_all(request, executor, ledger, progress)
    if request.starts is None:
        try:
            found = look_again(request, executor, progress or None, found)
        except KeyboardInterrupt:
            found = replace(found, interrupted=True)
    with single_threaded():
        return _checked(request, found, ledger)


def _checked(request: Request, found: Searches, ledger: str | Path | None) -> SearchResult:
    """The best of the searches with its certificate, status and warnings."""
    problem, best = request.problem, found.best
    outcome, certificate = certify_outcome(request, outcome_of(request, best, found.endings[best]))
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
    starts = start_results(problem, solution, found.endings)
    return SearchResult(
        problem=problem,
        method=request.method,
        solution=solution,
        status=status,
        certificate=certificate,
        iterations=outcome.iterations,
        seed=request.seed,
        starts=starts,
        asked=request.starts,
        trace=outcome.trace,
        warnings=all_notices(request, found, status, certificate, solution, starts, ledger),
    )


def start_results(
    problem: Problem, solution: Solution | None, endings: Mapping[int, Ending]
) -> tuple[StartResult, ...]:
    """How every start ended, and in which optimum."""
    reached = {
        k: (one.value, one.unknowns)
        for k, one in endings.items()
        if one.status.success and np.isfinite(one.value) and one.unknowns is not None
    }
    numbers = dict.fromkeys(reached, 0)
    if solution is not None and len(reached) > 1:
        numbers = clusters(solution, path_value(solution), reached)
    return tuple(
        StartResult(
            k,
            problem.mean_loss(one.value),
            one.status,
            one.iterations,
            one.seconds,
            parameters_of(problem, one.unknowns),
            numbers.get(k),
        )
        for k, one in endings.items()
    )


def certify_outcome(
    request: Request, outcome: Outcome, settings: Refinement = Refinement()
) -> tuple[Outcome, Certificate]:
    """The outcome with its certificate; where an independent integration disagrees, on a finer mesh if possible."""
    if outcome.solution is None or not _is_finite(outcome.solution):
        return replace(outcome, solution=None), NOTHING_CERTIFIED
    certificate = certify(outcome.solution)
    if not outcome.status.success or certificate.mismatch <= settings.mismatch:
        return outcome, certificate
    return _refined(request, outcome, certificate, settings)


def _refined(
    request: Request, outcome: Outcome, certificate: Certificate, settings: Refinement
) -> tuple[Outcome, Certificate]:
    """Continue an exact search on finer and finer meshes, as long as that reduces the mismatch and it is too large."""
    method = request.method
    for round_ in range(1, settings.rounds + 1):
        if not is_exact(method) or outcome.solution is None or certificate.mismatch <= settings.mismatch:
            break
        finer = method.with_resolution(method.resolution * settings.factor**round_)
        again = run_search(finer, request.problem, outcome.solution, rescue=NO_RESCUE)
        if not again.status.success or again.solution is None:
            break
        renewed = certify(again.solution)
        if not renewed.mismatch < certificate.mismatch:
            break
        outcome, certificate = _after(outcome, again), renewed
    return outcome, certificate


def _after(first: Outcome, second: Outcome) -> Outcome:
    """The second outcome with the iterations and seconds of both."""
    trace = np.concatenate([first.trace, second.trace])
    return replace(second, trace=trace, iterations=len(trace), seconds=first.seconds + second.seconds)


def _is_finite(solution: Solution) -> bool:
    """Whether the equations can be evaluated along the path."""
    return bool(np.isfinite(solution.point.slopes).all() and np.isfinite(solution.point.data))
