"""Independent integration of a solution with events, in which samples beside an event stay on the side that they show.

Where an estimated event is close to a sample, closer than its time is known, the data may show the sample on one side
and the simulation on the other. The likelihood jumps there. A fit keeps the sample on its side: the states before the
event are continued up to it, or those after the event backwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.evidence.event_times import EventTime, event_times
from picardfit.evidence.residual_variance import residual_variance
from picardfit.model.inputs import constant_between_breaks, values_at
from picardfit.problem.event_runs import event_run, timed_model
from picardfit.problem.problem import Problem, Schedule
from picardfit.simulation.event_location import EventRun, integrate
from picardfit.simulation.trajectories import SCIPY_ALONE
from picardfit.solvers.loop import Solution

Sides = list[tuple[int, int, int]]  # experiment, sample, happening


@dataclass(frozen=True)
class Beside:
    """How far from an event a sample may be that counts on the other side of it than a simulation has it."""

    errors: float = (
        4.0  # standard errors of the time of the event: beyond, the data contradict the simulation
    )
    rounding: float = 1e-6  # of the experiment


def rows_on_sides(solution: Solution, rtol: float, limits: Beside = Beside()) -> np.ndarray | None:
    """(samples, rows) by integration with event location; None where it fails or finds other events."""
    problem, unknowns = solution.system.problem, solution.unknowns
    params, (initial, _) = problem.layout.measured_values(unknowns), problem.layout.initial(unknowns)
    rows = problem.predicted_rows(params, initial, rtol, SCIPY_ALONE)
    sides = samples_beside_events(solution)
    if rows is None or sides is None or not sides:
        return rows
    if not _are_beside(solution, sides, limits):
        return None
    rows = rows.copy()
    first = np.searchsorted(problem.samples.experiment, np.arange(len(problem.experiments)))
    runs = {e: _run(problem, e, unknowns, rtol) for e, _, _ in sides}
    for e, sample, happening in sides:
        x = _on_side(problem, e, sample, happening, unknowns, solution.system.mesh.schedule, runs[e], rtol)
        if x is None:
            return None
        one = problem.experiments[e]
        time = one.times[sample : sample + 1]
        inputs = values_at(one.signals, problem.solved_model.inputs, time)
        states = np.append(x, time)[None]
        rows[first[e] + sample] = problem.measurement.value(time, states, params[e], inputs)[0]
    return rows


def _are_beside(solution: Solution, sides: Sides, limits: Beside) -> bool:
    """Whether all samples are as close to their events as the times of these are known."""
    problem, variance = solution.system.problem, residual_variance(solution)
    if not np.isfinite(variance):
        return True
    every: dict[int, list[EventTime]] = {}
    for one in event_times(solution, variance):
        every.setdefault(one.experiment, []).append(one)
    for e, sample, happening in sides:
        own = solution.system.mesh.schedule[e]
        event = every[e][sum(bool(one.events) for one in own[:happening])]
        start, stop = problem.span(e)
        limit = limits.errors * event.error + limits.rounding * (stop - start)
        if abs(problem.experiments[e].times[sample] - event.time) > limit:
            return False
    return True


def samples_beside_events(solution: Solution) -> Sides | None:
    """Samples that a simulation has on the other side of an event; None if it finds other events."""
    problem, found = solution.system.problem, []
    for e, own in enumerate(solution.system.mesh.schedule):
        run = _run(problem, e, solution.unknowns, 1e-9)
        fired = [one.events for one in own if one.events]
        times = problem.experiments[e].times
        inside = [one for one in run.happenings if problem.experiments[e].t0 < one.time < times[-1]]
        if run.states is None or [one.events for one in inside] != fired:
            return None
        moving = [k for k, one in enumerate(own) if one.events]
        for k, happening in zip(moving, inside, strict=True):
            simulated = int(np.searchsorted(times, happening.time))
            between = range(min(simulated, own[k].before), max(simulated, own[k].before))
            found += [(e, sample, k) for sample in between]
    return found


def _run(problem: Problem, e: int, unknowns: np.ndarray, rtol: float) -> EventRun:
    return integrate(timed_model(problem).simulated, event_run(problem, e, unknowns), rtol)


def _on_side(
    problem: Problem,
    e: int,
    sample: int,
    happening: int,
    unknowns: np.ndarray,
    schedule: Schedule,
    run: EventRun,
    rtol: float,
) -> np.ndarray | None:
    """(states of the simulated model,) at a sample, without the event between it and the side that it shows."""
    from scipy.integrate import solve_ivp

    model, one = timed_model(problem).simulated, problem.experiments[e]
    number = sum(bool(entry.events) for entry in schedule[e][:happening])
    fired, x = run.happenings[number], run.before[number]
    params = problem.layout.model_values(unknowns)[e]
    inputs = one.inputs_at(model.inputs, np.array([fired.time]))[0]
    varying = not all(constant_between_breaks(one.signals[name]) for name in model.inputs)
    if sample >= schedule[e][happening].before:  # it shows the states after the event, which happens later
        for event in fired.events:
            x = model.event_maps.resets[event].value(fired.time, x, params, inputs)

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        now = one.inputs_at(model.inputs, np.array([t]))[0] if varying else inputs
        return np.asarray(model.rhs.value(t, y, params, now))

    found = solve_ivp(
        slope, (fired.time, float(one.times[sample])), x, "DOP853", rtol=max(rtol, 1e-12), atol=1e-12
    )
    return found.y[:, -1] if found.success else None
