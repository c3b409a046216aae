"""Derivatives of solutions against closed forms and differences of solutions."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.sensitivity import sensitivity
from picardfit.model.inputs import as_input
from picardfit.simulation.trajectories import Run, trajectories

DOSED = pf.Model("x' = -k*x + dose; z' = k*x - q*z/(1 + z)", inputs=["dose"])
STEPS = {"dose": as_input("dose", ([0.0, 1.3, 2.7], [1.0, 0.0, 2.0]))}
STIFF = pf.Model("x' = mu*(x - x^3/3 - y); y' = x/mu")


def run(model, initial, params, times, inputs=None, breaks=()):
    return Run(
        0.0, np.array(initial, float), np.array(params, float), inputs or {}, np.array(times, float), breaks
    )


def test_decay_has_the_closed_form():
    times = np.array([0.0, 0.4, 3.0, 9.0])
    found = sensitivity(pf.Model("x' = -k*x"), run(None, [2.0], [0.7], times))
    x = 2 * np.exp(-0.7 * times)
    np.testing.assert_allclose(found.states[:, 0], x, rtol=1e-9)
    np.testing.assert_allclose(found.derivatives[:, 0, 0], x / 2, rtol=1e-9)
    np.testing.assert_allclose(found.derivatives[:, 0, 1], -times * x, rtol=1e-9)


@pytest.mark.parametrize(
    "model, one",
    [
        (DOSED, run(DOSED, [0.5, 0.2], [0.8, 0.5], np.linspace(0, 5, 9), STEPS, (1.3, 2.7))),
        (STIFF, run(STIFF, [2.0, 0.0], [8.0], [0.5, 3.0, 9.0])),
    ],
    ids=["dosed", "stiff"],
)
def test_derivatives_are_those_of_differences(model, one):
    found = sensitivity(model, one)
    centre = np.concatenate([one.initial, one.params])
    count = len(one.initial)
    for k in range(len(centre)):
        step = 1e-5 * np.eye(len(centre))[k]
        ends = [
            Run(0.0, p[:count], p[count:], one.inputs, one.times, one.breaks)
            for p in (centre + step, centre - step)
        ]
        ahead, behind = trajectories(model, ends)
        expected = (ahead - behind) / 2e-5
        np.testing.assert_allclose(
            found.derivatives[..., k], expected, atol=2e-5 * max(np.abs(expected).max(), 1)
        )


def test_given_knots_change_nothing():
    one = run(DOSED, [0.5, 0.2], [0.8, 0.5], np.linspace(0, 5, 9), STEPS, (1.3, 2.7))
    plain, on_knots = sensitivity(DOSED, one), sensitivity(DOSED, one, np.linspace(0, 2, 5))
    np.testing.assert_allclose(on_knots.derivatives, plain.derivatives, rtol=1e-6, atol=1e-9)


def test_at_the_initial_time_only():
    found = sensitivity(DOSED, run(DOSED, [0.5, 0.2], [0.8, 0.5], [0.0, 0.0], STEPS))
    np.testing.assert_array_equal(found.derivatives, np.tile(np.eye(2, 4), (2, 1, 1)))


def test_no_solution_is_none():
    assert sensitivity(pf.Model("x' = k*x^2"), run(None, [1.0], [1.0], [2.0])) is None


def test_derivatives_beside_an_event_do_not_span_its_jump():
    model = pf.Model("x' = 1\non' = 0\nwhen x > level: on = 1")
    times = np.array([0.5, 1 - 1e-8, 1 + 1e-8, 2.0])
    found = sensitivity(model, Run(0.0, np.zeros(2), np.array([1.0]), {}, times))
    np.testing.assert_allclose(found.states, np.stack([times, times > 1], axis=1), atol=1e-8)
    np.testing.assert_allclose(found.derivatives[:, 1, [0, 2]], 0.0, atol=1e-6)
