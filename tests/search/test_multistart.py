"""Help for a search that takes long: single shooting from its unknowns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.multistart import Request, by_shooting
from picardfit.search.screening import along
from picardfit.search.starts import make_start
from picardfit.solvers.loop import LONG, run


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


@pytest.mark.parametrize(("helped", "iterations"), [(95, LONG + 5), (100, LONG), (None, 100)])
def test_a_long_search_is_helped(helped, iterations):
    asked = []

    def help_out(state):
        asked.append(state.number)
        return None if helped is None else Count(helped)

    found = run(Counting(), Count(0), help_out=help_out)
    assert (found.status, found.iterations, asked) == (pf.Status.CONVERGED, iterations, [LONG])


def test_help_is_offered_again_to_a_search_that_goes_on():
    asked = []
    run(Counting(), Count(100 - 5 * LONG), help_out=lambda state: asked.append(state.number))
    assert asked == [100 - 4 * LONG, 100 - 3 * LONG, 100 - LONG]


def test_a_search_that_was_helped_is_left_alone():
    asked = []

    def help_out(state):
        asked.append(state.number)
        return Count(100 - 4 * LONG)

    found = run(Counting(), Count(100 - 5 * LONG), help_out=help_out)
    assert asked == [100 - 4 * LONG]
    assert found.status is pf.Status.CONVERGED


def test_a_short_search_needs_no_help():
    def help_out(state):
        raise AssertionError

    assert run(Counting(), Count(100 - LONG + 1), help_out=help_out).iterations == LONG - 1


def request_of(problem: pf.Problem, method) -> Request:
    return Request(problem, method, np.full_like(problem.layout.lower, np.nan), 1, 0)


def states_of(problem: pf.Problem, method) -> list:
    state = method.init(problem, make_start(problem))
    found = [state]
    while state.status is None:
        state = method.step(state)
        found.append(state)
    return found


def test_shooting_leads_from_a_closed_path_to_the_optimum():
    problem, method = pf.examples.van_der_pol.generate(seed=1, eps=0.2), pf.LiftedGaussNewton()
    request, states = request_of(problem, method), states_of(problem, method)
    best = states[-1]
    away = best.point.unknowns * 1.1
    closed = method.resume(problem, along(problem, away, method.nodes, method.resolution))
    helped = by_shooting(request, closed)
    assert closed.loss > 1.2 * best.loss
    assert helped.loss == pytest.approx(best.loss, rel=1e-2)
    assert helped.jump < 1e-6
    assert by_shooting(request, best) is None  # nothing to gain
    assert by_shooting(request, next(one for one in states if one.jump > 0.01)) is None


@pytest.mark.parametrize(("experiments", "samples"), [(21, 31), (1, 3001)])
def test_many_experiments_and_long_ones_are_not_shot(experiments, samples):
    problem = pf.examples.lorenz.generate(seed=1, experiments=experiments, samples=samples)
    method = pf.LiftedGaussNewton()
    state = method.init(problem, make_start(problem))
    closed = replace(state, point=replace(state.point, jumps=np.zeros_like(state.point.jumps)))
    assert by_shooting(request_of(problem, method), closed) is None


def test_functions_of_the_user_are_not_shot():
    def slope(t, x, p, u):
        return [-p[0] * x[0] if x[0] > 0 else 0.0]

    times = np.linspace(0, 3, 9)
    model = pf.Model.from_function(slope, states=["x"], parameters=["k"])
    problem = pf.Problem(model, pf.Experiment(times, {"x": 2 * np.exp(-times)}), {"k": (0.1, 3.0)})
    method = pf.LiftedGaussNewton()
    away = problem.layout.internal(np.full_like(problem.layout.lower, 1.5))
    closed = method.resume(problem, along(problem, away, method.nodes, method.resolution))
    assert by_shooting(request_of(problem, method), closed) is None


def test_shooting_is_for_the_default_method_only():
    problem = pf.examples.van_der_pol.generate(seed=1)
    state = states_of(problem, pf.LiftedGaussNewton())[-1]
    assert by_shooting(request_of(problem, pf.GradientContractive()), state) is None
