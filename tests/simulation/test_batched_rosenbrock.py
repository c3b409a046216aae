import numpy as np
import pytest

import picardfit as pf
from picardfit.problem.side_by_side import courses_of
from picardfit.simulation import batched_rosenbrock
from picardfit.simulation.batched_rosenbrock import Integrated, RosenbrockSteps, Tracks

TIMES = np.linspace(0.5, 4.0, 8)


def a_problem(text: str, times=TIMES, **experiment) -> pf.Problem:
    model = pf.Model(text, inputs=list(experiment.get("inputs", {})))
    data = {name: np.zeros(len(times)) for name in model.states}
    return pf.Problem(model, [pf.Experiment(times, data, t0=0.0, **experiment)])


def one_track(initial, params) -> Tracks:
    return Tracks(np.zeros(1, int), np.array(initial, float)[None], np.array(params, float)[None])


def integrated(problem: pf.Problem, tracks: Tracks, rtol: float) -> Integrated:
    return batched_rosenbrock.integrate(courses_of(problem), tracks, rtol, RosenbrockSteps())


def states_of(problem: pf.Problem, initial, params, rtol: float) -> np.ndarray:
    return integrated(problem, one_track(initial, params), rtol).states(0)


def test_the_error_falls_with_the_tolerance():
    problem = a_problem("x' = y\ny' = -x")
    exact = np.stack([np.sin(TIMES), np.cos(TIMES)], axis=1)
    errors = []
    for rtol in (1e-3, 1e-5, 1e-7):
        states = states_of(problem, [0.0, 1.0], [], rtol)
        errors.append(np.abs(states - exact).max())
    assert errors[0] < 1e-2
    assert errors[1] < 0.05 * errors[0]
    assert errors[2] < 0.05 * errors[1]


def test_stiff_decay_onto_a_moving_target():
    problem = a_problem("x' = -k*(x - cos(t)) - sin(t)")
    states = states_of(problem, [0.0], [1e6], 1e-3)[:, 0]
    assert states == pytest.approx(np.cos(TIMES), abs=1e-4)


def test_steps_land_on_the_jumps_of_an_input():
    problem = a_problem("x' = u", inputs={"u": ([0.0, 1.3], [1.0, -2.0])})
    states = states_of(problem, [0.0], [], 1e-3)[:, 0]
    exact = np.where(TIMES < 1.3, TIMES, 1.3 - 2 * (TIMES - 1.3))
    assert states == pytest.approx(exact, abs=1e-6)


def test_derivatives_are_close_although_the_tolerance_is_loose():
    problem = a_problem("x' = -k*x^2")
    found = integrated(problem, one_track([1.0], [0.7]), 1e-3)
    slopes = found.slopes(np.array([0]), np.array([[[0.0, 1.0]]]), np.array([[[1.0, 0.0]]]))[0][:, 0]
    size = 1 + 0.7 * TIMES
    assert slopes[:, 0] == pytest.approx(-TIMES / size**2, rel=5e-3)
    assert slopes[:, 1] == pytest.approx(1 / size**2, rel=5e-3)


@pytest.mark.parametrize("rhs", ["-k*x^2*exp(-q*t)", "-k*x^2 + q*u"])
def test_derivatives_are_those_of_the_numbers_computed(rhs):
    inputs = {"inputs": {"u": ([0.0, 1.3], [1.0, -0.2])}} if "u" in rhs else {}
    problem = a_problem(f"x' = {rhs} - y\ny' = 30*(q*x - y)", **inputs)
    begin, params = np.array([1.0, 0.3]), np.array([0.7, 0.4])
    found = integrated(problem, one_track(begin, params), 1e-2)
    ways = np.eye(4)
    slopes = found.slopes(np.array([0]), ways[None, :2], ways[None, 2:])[0]
    for k, way in enumerate(ways):
        up, down = (
            integrated(problem, one_track(begin + h * way[:2], params + h * way[2:]), 1e-2).states(0)
            for h in (1e-6, -1e-6)
        )
        assert slopes[..., k] == pytest.approx((up - down) / 2e-6, rel=2e-3, abs=2e-4)


def test_derivatives_of_a_function_and_of_chosen_tracks_only():
    def f(t, x, p, u):
        return [-p[0] * x[0] ** 2]

    model = pf.Model.from_function(f, states=["x"], parameters=["k"])
    problem = pf.Problem(model, [pf.Experiment(TIMES, {"x": np.zeros(len(TIMES))}, t0=0.0)])
    tracks = Tracks(np.zeros(2, int), np.ones((2, 1)), np.array([[0.2], [0.7]]))
    (slopes,) = integrated(problem, tracks, 1e-4).slopes(
        np.array([1]), np.zeros((1, 1, 1)), np.ones((1, 1, 1))
    )
    assert slopes[:, 0, 0] == pytest.approx(-TIMES / (1 + 0.7 * TIMES) ** 2, rel=5e-3)


def test_a_track_that_explodes_fails_alone():
    problem = a_problem("x' = k*x^2")
    tracks = Tracks(np.zeros(2, int), np.ones((2, 1)), np.array([[1.0], [-1.0]]))
    found = integrated(problem, tracks, 1e-3)
    assert np.isnan(found.states(0)).all()
    assert found.states(1)[:, 0] == pytest.approx(1 / (1 + TIMES), rel=1e-3)


def test_a_track_that_needs_far_more_steps_than_many_others_is_given_up():
    problem = a_problem("x' = w*y\ny' = -w*x")

    def failed(slow: int, quick: int) -> np.ndarray:
        params = np.array([[20.0 if k < slow else 0.1] for k in range(slow + quick)])
        tracks = Tracks(np.zeros(len(params), int), np.tile([0.0, 1.0], (len(params), 1)), params)
        found = integrated(problem, tracks, 1e-3)
        return np.array([np.isnan(found.states(k)).any() for k in range(len(params))])

    assert failed(1, 20).tolist() == [True] + 20 * [False]
    assert not failed(1, 8).any()  # too few to say what is usual
    assert not failed(8, 20).any()  # too many to be stragglers
