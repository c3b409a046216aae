"""Fits of models with events and switching times."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.condensing import start_derivatives
from picardfit.collocation.linearisation import linearise
from picardfit.importers import sbml

FALLING = pf.Model("x' = -k*x^2*t\nwhen x < c: x = x + v")


def exact(values, times):
    """The closed form of x' = -k x^2 t with x += v when x falls to c: 1/x = 1/a + k (t^2 - s^2)/2 after a at s."""
    first, k, c, v = values
    found = []
    for t in times:
        a, s = first, 0 * first
        while (end := np.sqrt(s**2 + 2 / k * (1 / c - 1 / a))).real <= t:
            a, s = c + v, end
        found.append(1 / (1 / a + k * (t**2 - s**2) / 2))
    return np.array(found)


TRUTH = {"k": 0.7, "c": 0.5, "v": 1.5}


@pytest.fixture(scope="module", params=["c", "v"])
def falling(request):
    """A fit of exact data; the data determine 1/c - 1/(c + v) only, so that one of the two is known."""
    times, bounds = np.linspace(0.1, 4.5, 45), {"k": (0.1, 3), "c": (0.2, 1.5), "v": (0.3, 5)}
    data = pf.Experiment(times, {"x": exact([2.0, *TRUTH.values()], times)})
    known = {request.param: TRUTH[request.param]}
    problem = pf.Problem(FALLING, data, bounds | known, initial={"x": (0.5, 5)})
    return pf.fit(problem, pf.LiftedGaussNewton(resolution=1e-9), start={"k": 0.65}, progress=False)


def test_values_of_repeated_events_are_those_of_the_closed_form(falling):
    point, times = falling.solution.point, falling.problem.experiments[0].times
    values = [point.states[0, 0], *(falling.parameters[name] for name in "kcv")]
    np.testing.assert_allclose(point.outputs[:, 0], exact(values, times), rtol=1e-8)


def test_derivatives_through_events_are_those_of_the_closed_form(falling):
    system, point = falling.solution.system, falling.solution.point
    linear = linearise(system, point)
    found = linear.at_samples(system) @ start_derivatives(system, linear.quadratic)[system.segment]
    values = np.array([point.states[0, 0], *(falling.parameters[name] for name in "kcv")], complex)
    times = falling.problem.experiments[0].times
    free = [n for n in falling.problem.layout.names if falling.problem.parameters[n].fixed is None]
    for column, k in enumerate([0, *(1 + "kcv".index(n) for n in free)]):
        step = np.zeros(4, complex)
        step[k] = 1e-30j
        slope = exact(values + step, times).imag / 1e-30
        np.testing.assert_allclose(found[:, 0, column], slope, atol=1e-8 * np.abs(slope).max())


def test_exact_data_are_fitted_exactly(falling):
    assert falling.success
    assert falling.parameters == pytest.approx(TRUTH, rel=1e-6)


def fitted(model, truth, initial, times, sd, observable, parameters, unknown, seed=3):
    """A fit of noisy data that were simulated at the truth."""
    clean = pf.simulate(model, truth, initial, times).observables[observable]
    noise = sd * np.random.default_rng(seed).standard_normal(len(times))
    data = pf.Experiment(times, {observable: clean + noise})
    return pf.fit(pf.Problem(model, data, parameters, initial=unknown), progress=False)


def within(fit, truth, limit=3.5):
    return all(
        abs(fit.parameters[n] - truth[n]) < limit * se for n, se in fit.standard_errors.items() if n in truth
    )


def test_a_bouncing_ball():
    model = pf.Model("h' = w\nw' = -g\nwhen h < 0: w = -e*w", observables=["h"])
    truth, times = {"g": 9.81, "e": 0.8}, np.linspace(0.02, 2.5, 80)
    unknown = {"h": (0.2, 5), "w": (-5, 5)}
    fit = fitted(model, truth, {"h": 1, "w": 0}, times, 0.02, "h", {"g": (2, 40), "e": (0.2, 1)}, unknown)
    assert fit.success
    assert fit.certificate.mismatch < 1e-6
    assert within(fit, truth)


TANK = pf.Model(
    "level' = pump*q - k*level\npump' = 0\nwhen level > high: pump = 0\nwhen level < low: pump = 1",
    observables=["level"],
)
TANK_TRUTH = {"q": 2.0, "k": 0.3, "high": 3.0, "low": 1.0}


@pytest.fixture(scope="module")
def tank():
    bounds = {"q": (0.4, 10), "k": (0.06, 1.5), "high": (1.0, 10), "low": (0.1, 3)}
    times, unknown = np.linspace(0.2, 20, 80), {"level": (0.5, 5), "pump": 1.0}
    return fitted(TANK, TANK_TRUTH, {"level": 2, "pump": 1}, times, 0.05, "level", bounds, unknown)


def test_a_tank_that_thresholds_switch(tank):
    assert tank.success
    assert tank.certificate.mismatch < 1e-6
    assert within(tank, TANK_TRUTH)


def test_curves_of_a_fit_follow_its_events(tank):
    times = np.linspace(0, 20, 401)
    level = tank.predict(tank.problem.names[0], times)["level"]
    assert level.max() == pytest.approx(tank.parameters["high"], abs=0.05)


def test_a_fit_with_events_is_saved_and_loaded(tank, tmp_path):
    tank.save(tmp_path / "fit.json")
    again = pf.load(tmp_path / "fit.json")
    assert again.parameters == tank.parameters
    assert again.standard_errors == pytest.approx(tank.standard_errors, rel=1e-9)


def test_a_profile_of_a_threshold(tank):
    low, high = tank.profile("high").interval(0.95)
    assert low < tank.parameters["high"] < high


def test_an_unknown_time_of_a_dose():
    model = pf.Model("gut' = -ka*gut\nc' = ka*gut/v - ke*c\nwhen t > lag: gut = gut + 10", observables=["c"])
    truth, times = {"ka": 1.2, "ke": 0.25, "v": 2.0, "lag": 1.3}, np.linspace(0.25, 12, 24)
    bounds = {"ka": (0.3, 10), "ke": (0.02, 1), "v": (0.2, 20), "lag": (0.01, 5)}
    zero = {"gut": 0.0, "c": 0.0}
    fit = fitted(model, truth, zero, times, 0.05, "c", bounds, zero)
    assert fit.success
    assert within(fit, truth)


def test_a_switching_time_in_a_condition():
    model = pf.Model("x' = a*(t < ts) - k*x")
    truth, times = {"a": 2.0, "ts": 3.3, "k": 0.6}, np.linspace(0.25, 10, 40)
    fit = fitted(
        model,
        truth,
        {"x": 0.0},
        times,
        0.03,
        "x",
        {"a": (0.1, 10), "ts": (0.2, 9), "k": (0.05, 5)},
        {"x": 0.0},
    )
    assert fit.success
    assert fit.certificate.mismatch < 1e-6
    assert within(fit, truth)
    assert "ts" in fit.standard_errors


def test_an_event_that_never_happens_is_said():
    model = pf.Model("x' = -k*x\nwhen x > 50: x = 0")
    fit = fitted(model, {"k": 0.5}, {"x": 1.0}, np.linspace(0, 5, 20), 0.01, "x", {"k": (0.1, 3)}, {"x": 1.0})
    assert fit.success
    assert "search.event_never" in [one.code for one in fit.warnings]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x' = -k*x\nwhen t > 0: x = x + 1", "search.event_at_start"),
        ("x' = -k*x\nwhen x < 0.9: x = 0.8", "simulation.event_not_left"),
    ],
)
def test_events_that_make_no_sense_are_refused(text, code):
    data = pf.Experiment([0.5, 1, 2, 3], {"x": [0.8, 0.7, 0.5, 0.3]})
    problem = pf.Problem(pf.Model(text), data, {"k": (0.1, 3)}, initial={"x": 1.0})
    with pytest.raises(pf.InputError) as caught:
        pf.fit(problem, progress=False)
    assert caught.value.code == code


def test_algorithms_without_events_refuse_them():
    data = pf.Experiment([0.5, 1, 2, 3], {"x": [0.8, 0.7, 0.5, 0.3]})
    problem = pf.Problem(
        pf.Model("x' = -k*x\nwhen x < 0.4: x = 1"), data, {"k": (0.1, 3)}, initial={"x": 1.0}
    )
    with pytest.raises(pf.InputError) as caught:
        pf.fit(problem, pf.GradientDescent(), progress=False)
    assert caught.value.code == "collocation.events"


def test_a_sample_beside_an_event_stays_on_the_side_that_the_data_show():
    model = pf.Model("mass' = r*mass\nwhen mass > full: mass = 1.0", observables=["mass"])
    rng, times = np.random.default_rng(9), np.linspace(0.2, 8, 40)
    begin = float(np.random.default_rng([9, 1]).uniform(1.0, 1.95))
    clean = pf.simulate(model, {"r": 0.45, "full": 2.0}, {"mass": begin}, times).observables["mass"]
    data = pf.Experiment(times, {"mass": clean + 0.03 * rng.standard_normal(len(times))})
    problem = pf.Problem(
        model, data, {"r": (0.1, 2), "full": (1.1, 5)}, {"mass": (0.5, 3)}, noise=pf.Noise(0.03)
    )
    fit = pf.fit(problem, progress=False)
    assert fit.success
    assert fit.certificate.mismatch < 1e-6
    assert "search.event_side" in [one.code for one in fit.warnings]
    assert fit.parameters["full"] == pytest.approx(2.0, abs=0.1)


def test_a_tank_is_exported_to_scipy_and_refused_by_programs_without_events(tank, tmp_path):
    tank.export(tmp_path / "tank.py")
    space = {"__name__": "tank"}
    exec(compile((tmp_path / "tank.py").read_text(), "tank.py", "exec"), space)
    times = np.linspace(0, 20, 30)
    found = space["simulate"](tank.problem.names[0], times)
    expected = tank.predict(tank.problem.names[0], times)["level"]
    np.testing.assert_allclose(found["level"], expected, rtol=1e-6)
    with pytest.raises(pf.InputError) as caught:
        tank.export(tmp_path / "tank.mo")
    assert caught.value.code == "exporters.event"


@pytest.mark.parametrize("ending", ["xml", "ant"])
def test_a_tank_as_sbml_and_antimony_is_read_back_with_its_events(tank, tmp_path, ending):
    pytest.importorskip("libsbml")
    pytest.importorskip("antimony")
    path, times = tank.export(tmp_path / f"tank.{ending}"), np.linspace(0, 20, 60)
    system = sbml.load(path)
    start = {n: float(e) for n, e in system.start({}).items() if n in system.states}
    model = system.model(tuple(dict.fromkeys((*system.variables, *system.definitions))))
    assert len(model.events) == len(tank.problem.model.events)
    found = pf.simulate(model, system.values, start, times).states
    expected = tank.predict(tank.problem.names[0], times)
    np.testing.assert_allclose(found["level"], expected["level"], rtol=1e-6)


def test_bands_of_a_fit_with_events(tank):
    bands = tank.bands(tank.problem.names[0], np.linspace(0.1, 20, 40))
    assert np.isfinite(bands.observables["level"].high).all()
