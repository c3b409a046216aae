"""Fits with events beside inputs that vary, states of rest before an experiment, and resets."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.condensing import start_derivatives
from picardfit.collocation.linearisation import linearise

TIMES = np.linspace(0.2, 8, 40)
INTEGRATING = pf.Model("x' = a*u - k*x\nwhen x > c: x = x - 1", inputs=["u"])
TRUTH = {"a": 1.5, "k": 0.3, "c": 1.4}
BOUNDS = {"a": (0.3, 6), "k": (0.03, 2), "c": (1.05, 4)}
GRID = np.linspace(0, 9, 37)
DRIVES = {
    "a formula": "1 + 0.5*sin(2*t)",
    "a table of lines": pf.Table(GRID, 1 + 0.5 * np.sin(2 * GRID), kind="linear"),
    "a table of few lines": pf.Table([0.0, 3.0, 5.0, 9.0], [0.5, 1.3, 0.6, 1.1], kind="linear"),
    "a function": pf.Signal(lambda t: 1 + 0.5 * np.sin(2 * t), breakpoints=[]),
}


def problem_of(model, truth, bounds, noise, initial, known, **experiment):
    """A problem with data that were simulated at the truth, with noise of this standard deviation."""
    data = pf.Experiment(TIMES, {"x": np.zeros(len(TIMES))}, **experiment)
    problem = pf.Problem(model, data, bounds, initial=known)
    return problem.simulate_data(truth, initial, sd=noise, seed=3)


@pytest.mark.parametrize("drive", DRIVES.values(), ids=DRIVES)
def test_inputs_that_vary(drive):
    problem = problem_of(INTEGRATING, TRUTH, BOUNDS, 0.02, {"x": 0.2}, {"x": 0.2}, inputs={"u": drive})
    fit = pf.fit(problem, start={"a": 1.4, "k": 0.35, "c": 1.45}, progress=False)
    assert fit.success
    assert fit.certificate.mismatch < 1e-6
    for name, error in fit.standard_errors.items():
        assert abs(fit.parameters[name] - TRUTH[name]) < 3.5 * error


@pytest.fixture(scope="module")
def driven():
    known = {"x": 0.2}
    problem = problem_of(
        INTEGRATING, TRUTH, BOUNDS, 0.0, known, known, inputs={"u": DRIVES["a formula"]}, t0=0.0
    )
    return pf.fit(problem, pf.LiftedGaussNewton(resolution=1e-9), start={"a": 1.4}, progress=False)


def predicted(problem, values, change=None):
    changed = dict(values) if change is None else values | {change[0]: values[change[0]] + change[1]}
    run = pf.simulate(problem.model, changed, {"x": 0.2}, TIMES, problem.experiments[0].inputs)
    return run.states["x"]


def test_derivatives_of_event_times_under_an_input_are_those_of_differences(driven):
    system, point = driven.solution.system, driven.solution.point
    linear = linearise(system, point)
    found = (linear.at_samples(system) @ start_derivatives(system, linear.quadratic)[system.segment])[:, 0]
    values, step = driven.parameters, 1e-5
    for column, name in enumerate(driven.problem.layout.names):
        ahead, behind = (predicted(driven.problem, values, (name, h)) for h in (step, -step))
        slope = (ahead - behind) / (2 * step)
        np.testing.assert_allclose(found[:, column], slope, atol=2e-6 * np.abs(slope).max())


def test_equations_of_an_open_path_are_checked_at_the_inputs_that_it_has():
    """Far from its end a search sees an input as a line, whose values are no fault of the compiled equations."""
    known = {"x": 0.2}
    problem = problem_of(INTEGRATING, TRUTH, BOUNDS, 0.02, known, known, inputs={"u": DRIVES["a formula"]})
    fit = pf.fit(
        problem, pf.LiftedGaussNewton(max_iterations=3), policy=pf.SearchPolicy(most=1), progress=False
    )
    assert not fit.success
    assert fit.certificate.formula_error == 0


def test_a_noise_level_that_an_input_decides():
    known = {"x": 0.2}
    problem = problem_of(INTEGRATING, TRUTH, BOUNDS, 0.02, known, known, inputs={"u": DRIVES["a formula"]})
    noisy = pf.Problem(
        problem.model, problem.experiments, BOUNDS, initial=known, noise=pf.Noise(additive="0.02*u")
    )
    fit = pf.fit(noisy, start=TRUTH, progress=False)
    assert fit.success
    assert fit.certificate.mismatch < 1e-6


RELAXING = pf.Model("x' = q*u - k*x\nwhen x > top: x = bottom", inputs=["u"])
REST = {"q": 2.0, "k": 0.5, "top": 3.0, "bottom": 0.5}
REST_BOUNDS = {"q": (0.5, 8), "k": (0.1, 2), "top": (2.0, 6), "bottom": 0.5}


def test_an_experiment_that_begins_at_rest():
    rest = pf.Rest({"u": 0.5}, {"x": 0.0})
    problem = problem_of(RELAXING, REST, REST_BOUNDS, 0.02, {}, {}, inputs={"u": 1.0}, rest=rest)
    assert problem.simulate_data(REST, {}, sd=1e-12).experiments[0].observations["x"][0] == pytest.approx(
        4.0 + (2.0 - 4.0) * np.exp(-0.5 * TIMES[0]), rel=1e-8
    )
    fit = pf.fit(problem, progress=False)
    assert fit.success
    assert fit.certificate.mismatch < 1e-6
    for name, error in fit.standard_errors.items():
        assert abs(fit.parameters[name] - REST[name]) < 3.5 * error


def test_resets_beside_events():
    experiment = {"inputs": {"u": 1.0}, "resets": [3.0, 6.5]}
    problem = problem_of(RELAXING, REST, REST_BOUNDS, 0.02, {"x": 1.0}, {"x": 1.0}, **experiment)
    assert np.isclose(problem.simulate_data(REST, {}, sd=1e-12).experiments[0].values[14, 0], 1.0)
    fit = pf.fit(problem, progress=False)
    assert fit.success
    assert fit.certificate.mismatch < 1e-6
    for name, error in fit.standard_errors.items():
        assert abs(fit.parameters[name] - REST[name]) < 3.5 * error


def test_a_regimen_before_an_experiment_is_refused():
    model = pf.Model("x' = -k*x\nwhen x > 4: x = 1")
    rest = pf.Rest(doses=pf.Doses([0], [1], into="x"), every=2)
    with pytest.raises(pf.InputError) as caught:
        pf.Problem(model, pf.Experiment([1, 2], {"x": [1, 1]}, rest=rest), {"k": (0.1, 3)})
    assert caught.value.code == "problem.regimen_with_events"


PULSE = pf.Model("x' = amp*((t > begin + lag) & (t < begin + lag + width)) - 0.1*x", inputs=["begin"])
PULSES = {"amp": (1, 1e3), "width": (0.001, 5), "lag": (0, 5)}


def pulse(times, begin, amp, width, lag):
    """x after a pulse: amp/0.1 (1 - exp(-0.1 s)) exp(-0.1 (t - end)), with s the time since its beginning so far."""
    since = np.clip(times - begin - lag, 0, width)
    return amp / 0.1 * (1 - np.exp(-0.1 * since)) * np.exp(-0.1 * np.maximum(times - begin - lag - width, 0))


@pytest.mark.parametrize("begin", [3.0, 13.0, 27.0])
@pytest.mark.parametrize("width", [0.3, 0.02])
def test_a_short_pulse_at_a_time_of_inputs_and_parameters_is_not_stepped_over(begin, width):
    times = np.array([10.0, 20.0, 40.0])
    expected = pulse(times, begin, 100.0, width, 1.0)
    data = pf.Experiment(times, {"x": expected}, inputs={"begin": begin})
    problem = pf.Problem(PULSE, data, PULSES, {"x": 0.0})
    assert problem.loss({"amp": 100.0, "width": width, "lag": 1.0}) < 1e-16 * np.sum(expected**2)


@pytest.mark.parametrize("level", ["0.995", "c"])
def test_a_train_of_short_pulses_is_not_stepped_over(level):
    """Each lasts 2 (2.5 - begin), with sin(0.2 pi begin) = 0.995, around 2.5, 12.5, 22.5."""
    model = pf.Model(f"x' = amp*(sin(2*pi*t/10) > {level}) - 0.1*x")
    times, begin = np.array([20.0, 40.0]), 10 * np.arcsin(0.995) / (2 * np.pi)
    begins = begin + 10 * np.arange(4)
    expected = sum(pulse(times, one, 100.0, 5 - 2 * begin, 0.0) for one in begins)
    values = {"amp": 100.0} | ({"c": 0.995} if level == "c" else {})
    problem = pf.Problem(
        model, pf.Experiment(times, {"x": expected}), dict.fromkeys(values, (0, 1000.0)), {"x": 0.0}
    )
    assert problem.loss(values) < 1e-16 * np.sum(expected**2)


def test_a_time_that_inputs_shift_is_estimated():
    times, truth = np.linspace(0.5, 12, 24), {"amp": 2.0, "width": 3.3, "lag": 1.2}
    data = [
        pf.Experiment(times, {"x": pulse(times, begin, **truth)}, f"from {begin}", inputs={"begin": begin})
        for begin in (0.1, 2.6)
    ]
    fit = pf.fit(pf.Problem(PULSE, data, PULSES, {"x": 0.0}), start={"amp": 3.0, "width": 2.5, "lag": 0.7})
    assert fit.success
    assert fit.parameters == pytest.approx(truth, rel=1e-6)
