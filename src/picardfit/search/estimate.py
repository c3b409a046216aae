"""From a request to a checked optimum: the searches, the independent integration, the final status, the warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from picardfit.errors import Notice, Status, listing
from picardfit.evidence.certificate import NOTHING_CERTIFIED, Certificate, certify, misfit, path_value
from picardfit.evidence.optima import StartResult, clusters, count_hits
from picardfit.model.inputs import Table
from picardfit.parallel.ordered_map import single_threaded
from picardfit.problem.experiment import after_a_void
from picardfit.problem.named_values import parameters_of
from picardfit.problem.problem import Problem
from picardfit.search.multistart import Ending, Request, outcome_of, search_all
from picardfit.search.nonfinite_start import never_finite, nonfinite_at_start
from picardfit.search.second_look import IMPLAUSIBLE, LITTLE, look_again
from picardfit.search.starts import make_start
from picardfit.solvers.loop import Method, Outcome, Progress, Solution, is_exact, run

OPTIMAL = 1e-3  # decrease of the loss that an optimum may still promise, relative to the loss
NEARLY = 1e-5  # the same for methods whose fixed point need not be an optimum
SETTLED = 1e-6  # the same of a search that could not go on
CLOSED = 1e-8  # the largest jump of its path
ASTRAY = 1e6  # loss, relative to that of curves at zero, of a search that went astray
ROUNDING = 1e-13  # residuals relative to the data that are nothing but rounding
FEWEST = 3  # searches of a second look that can disagree
REFINEMENTS = 3  # times the mesh is refined when the independent integration disagrees


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
    warnings: tuple[str, ...]


def estimate(
    request: Request,
    executor: Executor | None,
    ledger: str | Path | None,
    progress: Callable[[Progress], None] | Literal[False] | None,
) -> SearchResult:
    """Search for the optimum as requested, check the best solution independently, and say how it all ended."""
    problem, method, asked = request.problem, request.method, request.starts
    found = search_all(request, executor, ledger, progress)
    if asked is None:
        try:
            found = look_again(request, executor, progress or None, found)
        except KeyboardInterrupt:
            found = replace(found, interrupted=True)
    best = found.best
    with single_threaded():
        outcome, certificate = _certified(problem, method, outcome_of(request, best, found.endings[best]))
        status = _final_status(problem, method, outcome, certificate)
        if not status.converged:
            certificate = replace(certificate, undetermined=None)
        starts = _start_results(problem, outcome.solution, found.endings)
        return SearchResult(
            problem=problem,
            method=method,
            solution=outcome.solution,
            status=status,
            certificate=certificate,
            iterations=outcome.iterations,
            seed=request.seed,
            starts=starts,
            asked=asked,
            trace=outcome.trace,
            warnings=(
                *_nonfinite(request, status),
                *_warnings(problem, status, certificate),
                *_contradiction(None if status is Status.DIVERGED else outcome.solution),
                *found.remarks(asked, ledger),
                *_lonely(request, status, outcome.solution, starts),
            ),
        )


def _lonely(
    request: Request, status: Status, solution: Solution | None, starts: Sequence[StartResult]
) -> list[str]:
    """A warning when a second look leaves the doubt: no other search ended where the best one did."""
    ended = sum(one.status.success for one in starts)
    if request.starts is not None or not status.success or ended < FEWEST or count_hits(solution, starts) > 1:
        return []
    return [
        f"A second look was taken, and only one of {ended} searches ended in this optimum: there may be a better one, "
        f"try more starts (starts=20)."
    ]


def _start_results(
    problem: Problem, solution: Solution | None, endings: Mapping[int, Ending]
) -> tuple[StartResult, ...]:
    """How every start ended, and in which optimum."""
    reached = {
        k: (one.value, one.unknowns)
        for k, one in endings.items()
        if one.status.success and np.isfinite(one.value)
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


def _certified(problem: Problem, method: Method, outcome: Outcome) -> tuple[Outcome, Certificate]:
    """Certify; where path and independent integration disagree, refine the mesh and go on from there."""
    if outcome.solution is None or not _is_finite(outcome.solution):
        return replace(outcome, solution=None), NOTHING_CERTIFIED
    certificate = certify(outcome.solution)
    for round_ in range(1, REFINEMENTS + 1):
        if not is_exact(method) or not outcome.status.success or certificate.mismatch <= 1e-6:
            break
        finer = method.with_resolution(method.resolution * 1e-2**round_)
        again = run(finer, finer.resume(problem, outcome.solution))
        if not again.status.success:
            break
        renewed = certify(again.solution)
        if not renewed.mismatch < certificate.mismatch:
            break
        trace = np.concatenate([outcome.trace, again.trace])
        outcome = replace(again, trace=trace, iterations=len(trace), seconds=outcome.seconds + again.seconds)
        certificate = renewed
    return outcome, certificate


def _final_status(problem: Problem, method: Method, outcome: Outcome, certificate: Certificate) -> Status:
    settled = outcome.status is Status.STALLED and _is_settled(problem, certificate)
    if not outcome.status.success and not settled:
        nothing = problem.mean_loss(problem.least_squares.nothing)
        lost = nothing > 0 and certificate.loss > ASTRAY * nothing
        exact = method.exact or problem.scatter is not None
        return Status.DIVERGED if lost and not exact else outcome.status
    if outcome.solution is None:
        return Status.DIVERGED
    if not certificate.agrees:
        return Status.INACCURATE if method.exact else Status.APPROXIMATE
    if not certificate.gradient <= (OPTIMAL if method.exact else NEARLY):
        return Status.STALLED if method.exact else Status.APPROXIMATE
    if _switching(problem):
        return Status.UNDECIDED
    return Status.CONVERGED_AT_BOUND if certificate.at_bound else Status.CONVERGED


def _is_settled(problem: Problem, certificate: Certificate) -> bool:
    """Whether only rounding errors can have kept a search from its end; path and integration agree on it.

    The optimality conditions are met by far, or the loss is zero up to rounding.
    """
    if not certificate.agrees:
        return False
    if certificate.gradient <= SETTLED and certificate.largest_jump <= CLOSED:
        return True
    nothing = problem.mean_loss(problem.least_squares.nothing)
    return problem.scatter is None and certificate.loss <= ROUNDING**2 * nothing


def _switching(problem: Problem) -> list[str]:
    """Free parameters that only decide when something switches."""
    return [n for n in problem.model.switching_parameters if problem.parameters[n].fixed is None]


def _nonfinite(request: Request, status: Status) -> list[Notice]:
    """What could not be evaluated, when that ended the search at its start, or may have spoiled it."""
    if status.success or status is Status.INTERRUPTED:
        return []
    found = None
    if status is Status.NOT_FINITE:
        found = nonfinite_at_start(request.problem, make_start(request.problem, request.given))
    found = found or never_finite(request.problem)
    return [found] if found else []


def _warnings(problem: Problem, status: Status, certificate: Certificate) -> tuple[str | Notice, ...]:
    count, measured = problem.layout.count(), problem.measurements
    said = [*problem.remarks, *_early_starts(problem), *_short_tables(problem)]
    for name in (switching := _switching(problem)):
        said.append(
            f"`{name}` only decides when something switches: the loss has no slope in it, so it stays near its start; "
            f"try several values with pf.fit(..., start={{'{name}': ...}}) or starts=20."
        )
    said += [
        f"`{name}` is not estimated: it stands only in `{helper} = ...`, which no equation uses."
        for name, helper in problem.model.dropped.items()
    ]
    said += [
        f"`{name}` was never measured in `{experiment}`: remove it from that experiment, or add its data."
        for experiment, name in problem.unmeasured
    ]
    if np.isinf(certificate.reintegrated_loss) and certificate != NOTHING_CERTIFIED:
        said.append(Notice("simulation.no_solution_at_estimates"))
    lost = [n for n in certificate.undetermined or () if n.split("[")[0] not in switching]
    lost.sort(key=lambda name: "[" in name)  # what all experiments share is the first to fix
    if measured < count:
        said.append(
            f"There are fewer measurements ({measured}) than unknowns ({count}): "
            f"the answer is one of many, fix some parameters or initial states."
        )
    elif lost and (status.success or status is Status.UNDECIDED):
        said.append(
            f"These data do not determine {listing(lost[:8])}{_rest(lost, 8)}: "
            f"other values fit as well; fix some of them, or add data that feel them."
        )
    return tuple(said)


def _rest(names: Sequence[str], shown: int) -> str:
    return f" and {len(names) - shown} more" if len(names) > shown else ""


def _contradiction(solution: Solution | None) -> list[str]:
    """A warning when the residuals are far larger than the noise model, or the scatter of the samples, allows."""
    if solution is None:
        return []
    times, left = misfit(solution)
    if not times > IMPLAUSIBLE and left > LITTLE:
        return [
            f"The curves follow only {max(1 - left, 0.0):.0%} of the variation of the data: unless the rest is noise, "
            f"try more starts (starts=20) or check the equations."
        ]
    if not times > IMPLAUSIBLE:
        return []
    if solution.system.problem.noise is None:
        return [
            f"The residuals are {times:.3g} times as large as the scatter of neighbouring samples: try more starts "
            f"(starts=20), or check the equations."
        ]
    return [
        f"The residuals are {times:.3g} times as large as the noise model says: try more starts (starts=20), or check "
        f"the noise levels and the equations."
    ]


def _short_tables(problem: Problem) -> list[str]:
    """A warning when the table of an input begins after t0: its first value holds before."""
    for one in problem.experiments:
        for name in problem.model.inputs:
            table = one.inputs.get(name)
            if isinstance(table, Table) and table.times[0] > one.t0:
                return [
                    f"The table of the input `{name}` begins at {table.times[0]:g}, after t0 = {one.t0:g} of "
                    f"`{one.name}`: its first value, {table.values[0]:g}, is used before; add a row if that is wrong."
                ]
    return []


def _early_starts(problem: Problem) -> list[str]:
    """A warning when an unknown initial state is sought long before the first sample."""
    free = problem.layout.exists[:, : len(problem.layout.initial_states)].any(axis=1)
    for one in (e for e, open_ in zip(problem.experiments, free, strict=True) if open_):
        first = float(one.times[0])
        if after_a_void(one.t0, one.times):
            return [
                f"The initial state of `{one.name}` is sought at t0 = {one.t0:g}, long before its first sample at "
                f"{first:g}: pass t0={first:g} to the experiment unless that is meant."
            ]
    return []


def _is_finite(solution: Solution) -> bool:
    """Whether the equations can be evaluated along the path."""
    return bool(np.isfinite(solution.point.slopes).all() and np.isfinite(solution.point.data))
