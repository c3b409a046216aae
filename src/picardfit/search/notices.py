"""What a user should know about a fit besides its status: the warnings of `Fit.warnings`, as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from picardfit.errors import Notice, Status
from picardfit.evidence.certificate import (
    NOTHING_CERTIFIED,
    Certificate,
    CertificateSettings,
    misfit,
    path_rows,
    path_value,
)
from picardfit.evidence.event_kinks import kinks_at
from picardfit.evidence.event_sides import samples_beside_events
from picardfit.evidence.event_times import event_times
from picardfit.evidence.input_check import input_errors
from picardfit.evidence.optima import SameOptimum, SearchSummary, Vicinity
from picardfit.evidence.residual_variance import residual_variance
from picardfit.model.increments import increment_columns
from picardfit.model.inputs import Signal, Table
from picardfit.problem.experiment import LongGap
from picardfit.problem.problem import Problem
from picardfit.search.nonfinite_start import never_finite, nonfinite_at_start
from picardfit.search.searches import (
    QuickIntegration,
    Request,
    Searches,
    continue_from,
    exact_method,
    value_at,
)
from picardfit.search.starts import make_start
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class Plausibility:
    """What residuals may be before they contradict the data; see `picardfit.evidence.certificate.Misfit`."""

    excess: float = (
        3.0  # residuals over noise, r.m.s.: three standard deviations, where right models stay near 1
    )
    rounding: float = 1e-6  # of the largest increment: less below zero is an error of the computation
    unexplained: float = 0.5  # part of the variation of the data that curves of a right model may leave


def all_notices(
    request: Request,
    found: Searches,
    status: Status,
    certificate: Certificate,
    solution: Solution | None,
    searches: Sequence[SearchSummary],
    ledger: str | Path | None,
) -> tuple[Notice, ...]:
    """Likely causes of a failure first, then what concerns the problem, its solution, and the searches."""
    problem = request.problem
    return (
        *nonfinite_formulas(request, status),
        *(() if status.success else islice(jumps_in_states(problem), 1)),
        *falling_increments(request, status.success, solution),
        *problem_notices(problem),
        *(smoothed_jumps(request, solution) if status.success and solution is not None else ()),
        *event_notices(request, solution),
        *(events_at_samples(solution) if solution is not None and status.converged else ()),
        *function_inputs(problem, solution),
        *determination_notices(problem, status, certificate, solution),
        *(contradictions(solution) if solution is not None and status is not Status.DIVERGED else ()),
        *search_notices(found, request.starts, ledger, searches),
        *disagreement(request, status, searches),
    )


def jumps_in_states(problem: Problem) -> Iterator[Notice]:
    """Formulas at which the right-hand side jumps as a state changes, a likely cause of a failure."""
    for one in problem.model.as_written.state_jumps:
        values = {"state": one.state, "difference": one.difference, "smooth": one.smooth}
        yield Notice("search.jump_in_state", one.formula, values)


def smoothed_jumps(request: Request, solution: Solution) -> Iterator[Notice]:
    """Which formulas were smoothed, how far the objective is from that of the equations as written.

    And whether the estimates still move by more than `SameOptimum.vicinity` standard errors with the width.
    """
    problem = solution.system.problem
    model = problem.model
    if not model.smoothing:
        return
    as_written = value_at(replace(problem, model=model.as_written), solution.unknowns, QuickIntegration())
    value = path_value(solution)
    jumps = {one.formula: one for one in model.as_written.state_jumps}
    for formula, width in model.smoothing.items():
        one = jumps[formula]
        values: dict[str, object] = {"smooth": one.smooth_with(width), "difference": one.difference}
        if np.isfinite(as_written):
            values["error"] = abs(as_written - value) / max(abs(value), abs(as_written))
        yield Notice("search.smoothed_jump" if "error" in values else "search.smoothed_only", formula, values)
    if len(request.stages) > 1:
        wider = continue_from(exact_method(request), request.stages[-2], solution).solution
        if wider is not None and not Vicinity(solution, value).is_near(wider.unknowns):
            yield Notice("search.smoothing_matters", values={"formulas": list(model.smoothing)})


def switching_parameters(problem: Problem) -> list[str]:
    """Free parameters that only decide when a condition on states switches: the loss has no slope in them."""
    switching = problem.model.switching_parameters
    moved = set() if problem.timed is None or not switching else problem.timed.names
    return [name for name in switching if problem.parameters[name].fixed is None and name not in moved]


def nonfinite_formulas(request: Request, status: Status) -> Iterator[Notice]:
    """The formula that could not be evaluated, if that ended the search at its start or may have misled it."""
    if status.success or status is Status.INTERRUPTED:
        return
    found = None
    if status is Status.NOT_FINITE:
        found = nonfinite_at_start(request.problem, make_start(request.problem, request.given))
    found = found or never_finite(request.problem)
    if found is not None:
        yield found


def falling_increments(request: Request, success: bool, solution: Solution | None) -> Iterator[Notice]:
    """Increments that are negative somewhere, at the solution; without one, where the search ended or began."""
    problem = request.problem
    if not problem.model.increments:
        return
    if solution is not None and success:
        found: list[np.ndarray | None] = [path_rows(solution)]
    else:  # along a path with jumps increments may be any number
        ends = [] if solution is None else [solution.unknowns]
        found = [
            _integrated_rows(problem, one) for one in (*ends, make_start(problem, request.given).unknowns)
        ]
    for column, name in zip(increment_columns(problem.model), problem.model.increments, strict=True):
        there = problem.sampled[:, column]
        for values in (rows[there, column] for rows in found if rows is not None and there.any()):
            if values.min() < -Plausibility().rounding * np.abs(values).max():
                yield Notice("search.falling_increment", name, {"least": float(values.min())})
                break


def _integrated_rows(problem: Problem, unknowns: np.ndarray) -> np.ndarray | None:
    """The predicted rows at these unknowns by SciPy; None where the equations have no solution."""
    with np.errstate(all="ignore"):
        initial, _ = problem.layout.initial(unknowns)
        return problem.predicted_rows(problem.layout.measured_values(unknowns), initial)


def problem_notices(problem: Problem) -> Iterator[Notice]:
    """What is odd about the problem itself, whatever was found."""
    yield from problem.remarks
    yield from early_initial_time(problem)
    yield from late_input_table(problem)
    for name in switching_parameters(problem):
        yield Notice("search.switching", name)
    for name, helper in problem.model.dropped.items():
        yield Notice("search.unused_parameter", name, {"helper": helper})
    for experiment, name in problem.unmeasured:
        yield Notice("search.never_measured", name, {"experiment": experiment})


def event_notices(request: Request, solution: Solution | None) -> Iterator[Notice]:
    """Events that never happen, and experiments whose events changed in number or order during the search."""
    problem = request.problem
    if problem.timed is None or solution is None:
        return
    found = solution.system.mesh.schedule
    fired = {event for own in found for one in own for event in one.events}
    for k, event in enumerate(problem.model.events):
        if k not in fired:
            yield Notice("search.event_never", event.condition)
    with np.errstate(all="ignore"):
        beside = samples_beside_events(solution) or []
        held = {(kink.experiment, kink.sample) for kink in kinks_at(solution)}
        beside = [one for one in beside if one[:2] not in held]
        first = make_start(problem, request.given).schedule
    sides: dict[tuple[int, int], list[float]] = {}
    for e, sample, happening in beside:
        key = e, found[e][happening].events[0]
        sides.setdefault(key, []).append(float(problem.experiments[e].times[sample]))
    for (e, number), times in sides.items():
        values = {"experiment": problem.names[e], "times": [f"{time:.6g}" for time in times]}
        yield Notice("search.event_side", problem.timed.simulated.events[number].condition, values)
    for name, begun, ended in zip(problem.names, first, found, strict=True):
        before, after = ([one.events for one in own if one.events] for own in (begun, ended))
        if before != after:
            yield Notice("search.event_order", name, {"before": len(before), "after": len(after)})


@dataclass(frozen=True)
class BesideSamples:
    """When an event is so close to a sample that its standard error is not to be trusted."""

    near: float = 1.0
    """Distance in standard errors. At this distance an interval of 95 % held an unknown lag in 70 % of data sets,
    half-way between two samples in 95 % (benchmarks/events.py)."""


def events_at_samples(solution: Solution, beside: BesideSamples = BesideSamples()) -> Iterator[Notice]:
    """Events close to a sample, whose likelihood has a kink or a jump there; each event once."""
    problem, told = solution.system.problem, set[int]()
    if problem.timed is None:
        return
    variance = residual_variance(solution)
    for one in event_times(solution, variance) if np.isfinite(variance) else ():
        times = problem.experiments[one.experiment].times
        sample = float(times[np.abs(times - one.time).argmin()])
        if abs(sample - one.time) <= beside.near * one.error < np.inf and one.event not in told:
            told.add(one.event)
            event = problem.timed.simulated.events[one.event]
            values = {"experiment": problem.names[one.experiment], "time": one.time, "error": one.error}
            yield Notice("search.event_at_sample", event.condition, {**values, "sample": sample})


def early_initial_time(problem: Problem) -> Iterator[Notice]:
    """The first experiment whose unknown initial state lies long before its first sample."""
    layout = problem.layout
    unknown = np.asarray(layout.exists[:, : len(layout.initial_states)].any(axis=1))
    for one, free in zip(problem.experiments, unknown, strict=True):
        if free and LongGap().between(one.t0, one.times):
            yield Notice("search.early_t0", one.name, {"t0": one.t0, "first": float(one.times[0])})
            return


def late_input_table(problem: Problem) -> Iterator[Notice]:
    """The first table of an input that begins after t0, so that its first value is used before."""
    for one in problem.experiments:
        for name in problem.model.inputs:
            table = one.inputs.get(name)
            if isinstance(table, Table) and table.times[0] > one.t0:
                first, value = float(table.times[0]), float(table.values[0])
                values = {"first": first, "t0": one.t0, "experiment": one.name, "value": value}
                yield Notice("search.late_table", name, values)
                return


def function_inputs(problem: Problem, solution: Solution | None) -> Iterator[Notice]:
    """The first input given as a function that the mesh has not resolved, or whose jumps are not known."""
    errors = {} if solution is None else input_errors(solution)
    for (experiment, name), error in errors.items():
        if error > CertificateSettings.inputs:
            yield Notice("search.input_unresolved", name, {"experiment": experiment, "error": error})
            return
    for one in problem.experiments:
        for name in problem.model.inputs:
            source = one.inputs.get(name)
            if isinstance(source, Signal) and not source.told:
                yield Notice("search.function_input", name, {"experiment": one.name})
                return


def determination_notices(
    problem: Problem, status: Status, certificate: Certificate, solution: Solution | None
) -> Iterator[Notice]:
    """Estimates without a solution of the equations or a likelihood, and unknowns that the data do not determine."""
    if np.isinf(certificate.reintegrated_loss) and certificate != NOTHING_CERTIFIED:
        rows = None if solution is None else _integrated_rows(problem, solution.unknowns)
        there = problem.sampled
        solved = rows is not None and np.isfinite(rows[:, : there.shape[1]][there]).all()
        yield Notice("search.impossible_data" if solved else "simulation.no_solution_at_estimates")
    if (certificate.formula_error or 0.0) > CertificateSettings.formulas:
        yield Notice("search.formula_error", values={"error": certificate.formula_error})
    unknowns, measured = problem.layout.count(), problem.measurements
    if measured < unknowns:
        yield Notice("search.few_measurements", values={"measured": measured, "unknowns": unknowns})
        return
    switching = switching_parameters(problem)
    undetermined = [n for n in certificate.undetermined or () if n.split("[")[0] not in switching]
    undetermined.sort(key=lambda name: "[" in name)  # fixing what all experiments share helps most
    if undetermined and status.converged:
        yield Notice("search.undetermined", values={"names": undetermined})


def contradictions(solution: Solution, plausible: Plausibility = Plausibility()) -> Iterator[Notice]:
    """Residuals far larger than the noise model, or the scatter of neighbouring samples, explains."""
    excess, unexplained, _ = misfit(solution)
    if excess > plausible.excess:
        known = solution.system.problem.noise is not None
        yield Notice("search.above_noise" if known else "search.above_scatter", values={"times": excess})
    elif unexplained > plausible.unexplained:
        yield Notice("search.follows_little", values={"followed": max(1 - unexplained, 0.0)})


def search_notices(
    found: Searches, asked: int, ledger: str | Path | None, searches: Sequence[SearchSummary]
) -> Iterator[Notice]:
    """Searches that were interrupted or failed; `asked`: how many were asked for, 1 for as many as needed."""
    if found.interrupted:
        yield from _interruption(found, asked, ledger, sum(one.cluster == 0 for one in searches))
    if found.failures:
        start, reason = next(iter(found.failures.items()))
        values = {"failed": len(found.failures), "all": max(asked, len(found.endings)), "start": start}
        yield Notice("search.broke_down", values={**values, "reason": str(reason).rstrip(".")})


def _interruption(found: Searches, asked: int, ledger: str | Path | None, hits: int) -> Iterator[Notice]:
    """How far the searches came; the interruption of a first one shows in its status."""
    done = sum(one.status is not Status.INTERRUPTED for one in found.endings.values())
    if asked == 1 and done and hits < 2:
        yield Notice("search.unconfirmed")
    if asked > 1:
        code = "search.interrupted" if ledger is None else "search.interrupted_with_ledger"
        yield Notice(code, values={"done": done, "asked": asked})


def disagreement(request: Request, status: Status, searches: Sequence[SearchSummary]) -> Iterator[Notice]:
    """Fewer searches than the policy asks for ended in the best optimum, or in one as low, although there were more."""
    if len(searches) == 1 or not status.success or any(one.status is Status.INTERRUPTED for one in searches):
        return
    best = min((one.loss for one in searches if one.cluster == 0), default=np.inf)
    limit = best + SameOptimum().rounding * abs(best)
    ties = {one.cluster for one in searches if one.cluster is not None and one.loss <= limit}
    hits = sum(one.cluster in ties for one in searches)
    others = {one.cluster for one in searches} - ties - {None}
    policy, most = request.policy, request.starts if request.starts > 1 else request.policy.most
    if hits < min(policy.agree + policy.doubt * len(others), most):
        more = max(50, 3 * request.starts)
        yield Notice("search.disagree", values={"hits": hits, "searches": len(searches), "more": more})
