"""Tanks that run empty: the slope of sqrt(max(x, 0)) is infinite at the end of the outflow and zero after it."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.mesh import Mesh, rule
from picardfit.collocation.picard import Contraction, Field, FixedPoint, contract

TANK = pf.Model("x' = -a*sqrt(max(x, 0))")


def _level(a, level, times):
    return np.maximum(np.sqrt(level) - a * times / 2, 0) ** 2


@pytest.mark.parametrize(
    "a, level, over, noise", [(1.0, 1.0, 1.3, 0.02), (0.5, 4.0, 2.0, 0.02), (2.0, 1.0, 2.0, 0.0)]
)
def test_a_tank_is_fitted_past_the_time_it_is_empty(a, level, over, noise):
    times = np.linspace(0, 2 * np.sqrt(level) / a * over, 13)
    data = _level(a, level, times) + noise * np.random.default_rng(0).normal(size=13)
    run = pf.Experiment(times, {"x": data})
    fit = pf.fit(pf.Problem(TANK, run, {"a": (0.01, 10)}, {"x": (0, 20)}))
    assert fit.success
    assert fit.parameters["a"] == pytest.approx(a, rel=1e-6 + noise)


def test_a_segment_across_the_kink_is_contracted():
    """Newton's method goes to and fro between a full and an overdrawn tank unless its steps are shortened."""
    mesh = Mesh(rule(5), (np.array([0.0, 2.0]),))
    field = Field(TANK.rhs, mesh, np.zeros((1, 5, 0)))
    hasty = Contraction(patient_steps=10, patient_lengths=4)
    equation = FixedPoint(field, np.array([[0.3]]), np.array([1.0]), np.ones(1))
    path = np.full((1, 5, 1), 0.3)
    assert (
        contract(equation, path).error
        <= Contraction().tolerance
        < contract(equation, path, settings=hasty).error
    )


def test_a_power_with_an_unknown_exponent_has_a_finite_slope_at_zero():
    model = pf.Model("x' = -a*max(x, 0)^n")
    x, p = np.array([[0.0], [-1.0], [0.0], [2.0]]), np.array([[1.0, 0.4], [1.0, 0.4], [1.0, 1.0], [1.0, 3.0]])
    slopes = model.rhs.linearise(np.zeros(4), x, p, np.zeros((4, 0)))[1].ravel()
    assert slopes == pytest.approx([0.0, 0.0, -1.0, -12.0])


def test_a_tank_that_runs_empty_does_not_jump():
    assert TANK.state_jumps == ()
