"""One search, and its rescue by single shooting: a long search pauses, and continues on a better path if there is one.

Where little is determined the way to the optimum is a curved valley in the space of unknowns and segment states; among
the unknowns alone it may be short.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.second_derivatives import has_second_order
from picardfit.errors import Status
from picardfit.evidence.certificate import path_value
from picardfit.problem.problem import Problem, Start
from picardfit.search.screening import along, downhill
from picardfit.solvers.gauss_newton.state import State
from picardfit.solvers.loop import (
    IterationState,
    Method,
    News,
    Outcome,
    Run,
    Solution,
    ignore,
    is_exact,
    iterate,
)


@dataclass(frozen=True)
class Rescue:
    """When a long search is paused for single shooting, and what that must gain."""

    after: tuple[int, ...] = (60, 120, 240)  # iterations; easy searches take 6 to 10, hard ones 20 to 40
    experiments: int = 20  # up to which shooting takes no longer than a few iterations
    samples: int = 3000  # of one experiment, for the same reason
    closed: float = (
        1e-3  # largest jump, relative to the states' scale, of a path whose objective means something
    )
    gain: float = 1e-4  # part of the objective's size; less is not worth a new beginning


NO_RESCUE = Rescue(after=())


def run_search(
    method: Method,
    problem: Problem,
    begin: Start | Solution,
    news: News = ignore,
    rescue: Rescue = Rescue(),
) -> Outcome:
    """Run one search, from a start or on from an earlier solution.

    After each of `rescue.after` iterations single shooting may lead to a better state, once.
    """

    def shoot(state: IterationState) -> IterationState | None:
        return by_shooting(method, problem, state, rescue)

    with np.errstate(all="ignore"):  # what is not finite becomes a rejected step or a status
        return run_in_pieces(method, first_state(method, problem, begin), shoot, rescue.after, news)


def first_state(method: Method, problem: Problem, begin: Start | Solution) -> IterationState:
    """The state of a method at a start, or on the path of an earlier solution."""
    if isinstance(begin, Start):
        return method.init(problem, begin)
    if not is_exact(method):
        raise TypeError(f"{type(method).__name__} cannot continue from a solution")
    return method.resume(problem, begin)


def run_in_pieces(
    method: Method,
    state: IterationState,
    better: Callable[[IterationState], IterationState | None],
    pauses: tuple[int, ...],
    news: News = ignore,
) -> Outcome:
    """Run the method, and continue from a `better` state that is found at one of the pauses (iterations)."""
    run, found = Run(state, state.status), None
    for pause in pauses:
        run = iterate(method, run, min(pause, method.max_iterations), news)
        if run.status is not None or len(run.trace) < pause:
            break
        began = time.perf_counter()
        try:
            found = better(run.state)
        except KeyboardInterrupt:
            run = replace(run, status=Status.INTERRUPTED)
        run = replace(run, seconds=run.seconds + time.perf_counter() - began)
        if found is not None:
            run = replace(run, state=found, status=found.status)
            break
    return iterate(method, run, method.max_iterations, news).outcome(method)


def by_shooting(
    method: Method, problem: Problem, state: IterationState, rescue: Rescue = Rescue()
) -> IterationState | None:
    """The state on the path to which single shooting leads from the unknowns of a state, if that is a better one.

    Python functions of a user may fail at values far from the search, so that they are not shot.
    """
    if not is_exact(method) or not isinstance(state, State) or not has_second_order(state.system):
        return None
    samples = [len(one.times) for one in problem.experiments]
    too_large = len(samples) > rescue.experiments or max(samples) > rescue.samples
    if state.jump > rescue.closed or too_large:
        return None
    here, point = method.solution(state), state.point
    if here is None:
        return None
    path = along(problem, downhill(problem, point.unknowns), method.nodes, method.resolution)
    gain = rescue.gain * problem.objective.size(point.outputs, point.data)
    if path is None or not path_value(path) < path_value(here) - gain:
        return None
    rescued = method.resume(problem, path, stiff=True)
    return rescued if rescued.status is None else None
