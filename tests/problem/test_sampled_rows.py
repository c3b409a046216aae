"""An observable needs a value only where it is measured: B/t is 0/0 at t = 0, where only A is measured."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf

TIMES = np.linspace(0, 5, 21)
A = np.exp(-0.5 * TIMES)


def problem(noise=None, **more):
    ratio = np.full(21, np.nan)
    ratio[1:] = (1 - A[1:]) / TIMES[1:]
    model = pf.Model("A' = -k*A\nB' = k*A*s", observables={"A": "A", "y": "B/t"})
    rng = np.random.default_rng(0)
    data = {"A": A + 0.01 * rng.standard_normal(21), "y": ratio + 0.01 * rng.standard_normal(21)}
    bounds = {"k": (0.05, 5), "s": (0.1, 5)} | more
    run = pf.Experiment(TIMES, data)
    return pf.Problem(model, run, bounds, initial={"A": (0.1, 3), "B": 0.0}, noise=noise)


@pytest.mark.parametrize(
    ("noise", "more"),
    [
        (None, {}),
        (pf.Noise(additive="sd"), {"sd": (1e-3, 1.0)}),
        (
            {"A": pf.Noise(additive="sd"), "y": pf.Noise(additive="sd", proportional=0.01)},
            {"sd": (1e-3, 1.0)},
        ),
    ],
)
def test_fit_with_an_observable_that_is_infinite_where_it_is_not_measured(noise, more):
    fit = pf.fit(problem(noise, **more), progress=False)
    assert fit.success, fit.message
    assert fit.parameters["k"] == pytest.approx(0.5, rel=0.05)
    assert fit.parameters["s"] == pytest.approx(1.0, rel=0.05)


def test_rows_and_derivatives_are_zero_where_nothing_is_measured_and_infinite():
    one = problem()
    states, inputs = np.column_stack([A, 1 - A]), np.zeros((21, 0))
    rows, by_states, by_parameters = one.measurement_at_samples.linearise(TIMES, states, [0.5, 1.0], inputs)
    assert rows[0].tolist() == [1.0, 0.0]
    assert by_states[0].tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert not by_parameters.any()
    np.testing.assert_allclose(by_states[1:, 1, 1], 1 / TIMES[1:])


def test_a_measured_number_that_is_infinite_stays_so():
    run = pf.Experiment(TIMES, {"y": A})
    one = pf.Problem(pf.Model("x' = -k*x", {"y": "x/t"}), run, {"k": (0.05, 5)}, initial={"x": 1.0})
    fit = pf.fit(one, progress=False)
    assert fit.status is pf.Status.NOT_FINITE
    assert "`1/t` in the observable `y` is infinite at t = 0" in fit.message


def test_structure_is_examined_where_an_observable_is_infinite_at_the_beginning():
    assert pf.structural(problem()).identifiable
