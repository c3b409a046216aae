import numpy as np
import pytest

import picardfit as pf
from picardfit.marching import Tracks, march

TIMES = np.linspace(0.5, 4.0, 8)


def a_problem(text: str, times=TIMES, **experiment) -> pf.Problem:
    model = pf.Model(text, inputs=list(experiment.get("inputs", {})))
    data = {name: np.zeros(len(times)) for name in model.states}
    return pf.Problem(model, [pf.Experiment(times, data, t0=0.0, **experiment)])


def one_track(initial, params) -> Tracks:
    return Tracks(np.zeros(1, int), np.array(initial, float)[None], np.array(params, float)[None])


def test_the_error_falls_with_the_tolerance():
    problem = a_problem("x' = y\ny' = -x")
    exact = np.stack([np.sin(TIMES), np.cos(TIMES)], axis=1)
    errors = []
    for rtol in (1e-3, 1e-5, 1e-7):
        states = march(problem, one_track([[0.0, 1.0]], np.zeros((1, 0))), rtol)[0][:, 0]
        errors.append(np.abs(states - exact).max())
    assert errors[0] < 1e-2
    assert errors[1] < 0.05 * errors[0]
    assert errors[2] < 0.05 * errors[1]


def test_stiff_decay_onto_a_moving_target():
    problem = a_problem("x' = -k*(x - cos(t)) - sin(t)")
    states = march(problem, one_track([[0.0]], [[1e6]]), 1e-3)[0][:, 0, 0]
    assert states == pytest.approx(np.cos(TIMES), abs=1e-4)


def test_steps_land_on_the_jumps_of_an_input():
    problem = a_problem("x' = u", inputs={"u": ([0.0, 1.3], [1.0, -2.0])})
    states = march(problem, one_track([[0.0]], np.zeros((1, 0))), 1e-3)[0][:, 0, 0]
    exact = np.where(TIMES < 1.3, TIMES, 1.3 - 2 * (TIMES - 1.3))
    assert states == pytest.approx(exact, abs=1e-6)


def test_differences_between_lanes_are_derivatives_although_the_tolerance_is_loose():
    problem = a_problem("x' = -k*x^2")
    step = 1e-6
    states = march(problem, one_track([[1.0], [1.0]], [[0.7], [0.7 + step]]), 1e-3)[0][..., 0]
    slope = (states[:, 1] - states[:, 0]) / step
    assert slope == pytest.approx(-TIMES / (1 + 0.7 * TIMES) ** 2, rel=5e-3)


def test_a_track_that_explodes_fails_alone():
    problem = a_problem("x' = k*x^2")
    tracks = Tracks(np.zeros(2, int), np.ones((2, 1, 1)), np.array([[[1.0]], [[-1.0]]]))
    lost, kept = march(problem, tracks, 1e-3)
    assert np.isnan(lost).all()
    assert kept[:, 0, 0] == pytest.approx(1 / (1 + TIMES), rel=1e-3)
