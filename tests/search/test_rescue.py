"""A search that takes long is paused, and continues where single shooting leads from its unknowns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.rescue import Rescue, by_shooting, run_in_pieces
from picardfit.search.screening import along
from picardfit.search.starts import make_start

PAUSES = Rescue().after
LONG = PAUSES[0]


@dataclass(frozen=True)
class Count:
    """The state of a method that only counts."""

    number: int
    loss: float = 0.0
    jump: float = 0.0
    residual: float = 0.0

    @property
    def status(self) -> pf.Status | None:
        return pf.Status.CONVERGED if self.number >= 100 else None


class Counting:
    max_iterations = 1000

    def step(self, state: Count) -> Count:
        return replace(state, number=state.number + 1)

    def solution(self, state: Count) -> None:
        return None


@pytest.mark.parametrize(("rescued", "iterations"), [(95, LONG + 5), (100, LONG), (None, 100)])
def test_a_long_search_continues_from_a_better_state(rescued, iterations):
    asked = []

    def better(state):
        asked.append(state.number)
        return None if rescued is None else Count(rescued)

    found = run_in_pieces(Counting(), Count(0), better, PAUSES)
    assert (found.status, found.iterations, asked) == (pf.Status.CONVERGED, iterations, [LONG])


def test_each_pause_asks_for_a_better_state_until_there_is_one():
    asked = []
    run_in_pieces(Counting(), Count(100 - 5 * LONG), lambda state: asked.append(state.number), PAUSES)
    assert asked == [100 - 4 * LONG, 100 - 3 * LONG, 100 - LONG]


def test_a_search_that_was_rescued_is_not_paused_again():
    asked = []

    def better(state):
        asked.append(state.number)
        return Count(100 - 4 * LONG)

    found = run_in_pieces(Counting(), Count(100 - 5 * LONG), better, PAUSES)
    assert asked == [100 - 4 * LONG]
    assert found.status is pf.Status.CONVERGED


def test_a_short_search_is_not_paused():
    def better(state):
        raise AssertionError

    assert run_in_pieces(Counting(), Count(100 - LONG + 1), better, PAUSES).iterations == LONG - 1


def states_of(problem: pf.Problem, method) -> list:
    state = method.init(problem, make_start(problem))
    found = [state]
    while state.status is None:
        state = method.step(state)
        found.append(state)
    return found


def test_shooting_leads_from_a_closed_path_to_the_optimum():
    problem, method = pf.examples.van_der_pol.generate(seed=1, eps=0.2), pf.LiftedGaussNewton()
    states = states_of(problem, method)
    best = states[-1]
    away = best.point.unknowns * 1.1
    closed = method.resume(problem, along(problem, away, method.nodes, method.resolution))
    rescued = by_shooting(method, problem, closed)
    assert closed.loss > 1.2 * best.loss
    assert rescued.loss == pytest.approx(best.loss, rel=1e-2)
    assert rescued.jump < 1e-6
    assert by_shooting(method, problem, best) is None  # nothing to gain
    assert by_shooting(method, problem, next(one for one in states if one.jump > 0.01)) is None


@pytest.mark.parametrize(("experiments", "samples"), [(21, 31), (1, 3001)])
def test_many_experiments_and_long_ones_are_not_shot(experiments, samples):
    problem = pf.examples.lorenz.generate(seed=1, experiments=experiments, samples=samples)
    method = pf.LiftedGaussNewton()
    state = method.init(problem, make_start(problem))
    closed = replace(state, point=replace(state.point, jumps=np.zeros_like(state.point.jumps)))
    assert by_shooting(method, problem, closed) is None


def test_functions_of_the_user_are_not_shot():
    def slope(t, x, p, u):
        return [-p[0] * x[0] if x[0] > 0 else 0.0]

    times = np.linspace(0, 3, 9)
    model = pf.Model.from_function(slope, states=["x"], parameters=["k"])
    problem = pf.Problem(model, pf.Experiment(times, {"x": 2 * np.exp(-times)}), {"k": (0.1, 3.0)})
    method = pf.LiftedGaussNewton()
    away = problem.layout.internal(np.full_like(problem.layout.lower, 1.5))
    closed = method.resume(problem, along(problem, away, method.nodes, method.resolution))
    assert by_shooting(method, problem, closed) is None


def test_shooting_is_for_the_default_method_only():
    problem = pf.examples.van_der_pol.generate(seed=1)
    state = states_of(problem, pf.LiftedGaussNewton())[-1]
    assert by_shooting(pf.GradientContractive(), problem, state) is None


def test_an_interrupted_pause_ends_the_search():
    def better(state):
        raise KeyboardInterrupt

    found = run_in_pieces(Counting(), Count(0), better, PAUSES)
    assert (found.status, found.iterations) == (pf.Status.INTERRUPTED, LONG)
