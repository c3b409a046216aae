"""The states of a solution at any times: along its path, and beyond the data by integration."""

from __future__ import annotations

import numpy as np

from picardfit.collocation.picard import end_states
from picardfit.errors import InputError
from picardfit.model.increments import differenced
from picardfit.simulation.trajectories import Run, trajectories
from picardfit.solvers.loop import Solution


def states_along(solution: Solution, e: int, times: np.ndarray) -> np.ndarray:
    """(times, states) of experiment e: along the path inside the data's span, by integration from its end beyond."""
    system = solution.system
    problem, mesh = system.problem, system.mesh
    one, last = problem.experiments[e], mesh.knots[e][-1]
    if len(times) and times.min() < one.t0:
        early, t0 = one.time_texts(np.array([times.min(), one.t0]))
        raise InputError("evidence.before_t0", one.name, time=early, t0=t0)
    if problem.timed is not None:
        return _with_events(solution, e, times)
    segment, fraction = mesh.locate(np.minimum(times, last), np.full(len(times), e))
    own_states = len(problem.model.states)  # running states come after them
    weights, states, path = (
        mesh.rule.along(fraction),
        solution.states[:, :own_states],
        solution.path[..., :own_states],
    )
    values = weights[:, :1] * states[segment] + (weights[:, None, 1:] @ path[segment])[:, 0]
    beyond = times > last
    if beyond.any():
        end, _ = mesh.locate(np.array([last]), np.array([e]))
        begin = end_states(mesh, states, path)[end[0]]
        wanted, back = np.unique(times[beyond], return_inverse=True)
        own = system.parameters(solution.unknowns)[e, : len(problem.model.parameters)]
        later = None if (jumps := problem.jumps[e]) is None else jumps.of_first(own_states).after(last)
        run = Run(last, begin, own, one.signals, wanted, problem.model.breaks(one.signals), later)
        ahead = trajectories(problem.model, [run])[0]
        values[beyond] = np.nan if ahead is None else ahead[back]
    return values


def _with_events(solution: Solution, e: int, times: np.ndarray) -> np.ndarray:
    """(times, states) of experiment e of a problem with events, by integration with event location."""
    problem, count = solution.system.problem, len(solution.system.problem.model.states)
    one, begin = problem.experiments[e], problem.layout.initial(solution.unknowns)[0][e, :count]
    wanted, back = np.unique(times, return_inverse=True)
    own, breaks = problem.layout.model_values(solution.unknowns)[e], problem.model.breaks(one.signals)
    jumps = problem.own_jumps(e)
    run = Run(one.t0, begin, own, one.signals, wanted, breaks, jumps, begun=one.rest is not None)
    found = trajectories(problem.model, [run])[0]
    return np.full((len(times), count), np.nan) if found is None else found[back]


def outputs_at(solution: Solution, e: int, times: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(times, observables) of experiment e, from its states (times, states); increments since the time before."""
    problem = solution.system.problem
    model, one = problem.model, problem.experiments[e]
    params = problem.layout.model_values(solution.unknowns)[e]
    values = model.output.value(times, states, params, one.inputs_at(model.inputs, times))
    if not model.increments:
        return values
    begin = np.array([one.t0])
    first = model.output.value(
        begin, states_along(solution, e, begin), params, one.inputs_at(model.inputs, begin)
    )
    order = np.argsort(times, kind="stable")
    changes = np.empty_like(values)
    changes[order] = differenced(model, times[order], values[order], first[0])
    return changes


def checked_times(times: object) -> np.ndarray:
    """The times as (times,)."""
    try:
        array = np.atleast_1d(np.asarray(times, float))
    except (TypeError, ValueError):
        array = np.full(1, np.nan)
    if array.ndim != 1 or not np.all(np.isfinite(array)):
        raise InputError("evidence.times")
    return array
