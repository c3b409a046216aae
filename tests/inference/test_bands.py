"""Bands against closed forms, other inputs and initial states, and the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint, record

DECAY = pf.Model("x' = -k*x", observables={"y": "3*x"})
DOSED = pf.Model("x' = -k*x + dose", inputs=["dose"])
TIMES = np.linspace(0, 3, 25)
LATER = np.array([0.0, 1.0, 7.0])


def decay(initial=None, model=DECAY, **parameters) -> pf.Fit:
    noise = 0.05 * np.random.default_rng(0).standard_normal(len(TIMES))
    size = 3.0 if model is DECAY else 1.0
    one = pf.Experiment(TIMES, {model.observables[0]: size * 2 * np.exp(-0.7 * TIMES) + noise}, "pond")
    return pf.fit(pf.Problem(model, one, parameters, initial))


@pytest.fixture(scope="module")
def known():
    return decay({"x": 2.0})


@pytest.fixture(scope="module")
def free():
    return decay()


def test_a_decay_with_known_start_has_the_closed_form(known):
    """x = 2 exp(-k t): standard error t x sd(k), in the data's span and beyond."""
    found = known.bands("pond", LATER)
    x = 2 * np.exp(-known.parameters["k"] * LATER)
    error = LATER * x * known.standard_errors["k"]
    np.testing.assert_allclose(found["x"].value, x, rtol=1e-8)
    np.testing.assert_allclose(found["x"].standard_error, error, rtol=1e-6)
    np.testing.assert_allclose(found["y"].standard_error, 3 * error, rtol=1e-6)


def test_the_quantile_is_that_of_intervals(known):
    """At t = 1 the band of x is the transformed interval of k, but for curvature."""
    band = known.bands("pond", [1e-4], level=0.9)["x"]
    low, high = known.intervals(0.9)["k"]
    assert band.high[0] - band.low[0] == pytest.approx(2e-4 * (high - low), rel=1e-3)


def test_unknown_initial_states_take_part(free):
    found = free.bands("pond", [0.0])
    assert found["x"].standard_error[0] == pytest.approx(free.standard_errors["x(0)"], rel=1e-6)
    low, high = free.intervals()["x(0)"]
    assert (found["x"].low[0], found["x"].high[0]) == pytest.approx((low, high), rel=1e-6)


def test_a_new_measurement_scatters_more(free):
    plain, noisy = (free.bands("pond", LATER, noise=n) for n in (False, True))
    expected = np.sqrt(plain["y"].standard_error ** 2 + free.residual_variance)
    np.testing.assert_allclose(noisy["y"].standard_error, expected)
    np.testing.assert_array_equal(noisy["x"].low, plain["x"].low)


def test_a_new_measurement_scatters_as_the_noise_model_says():
    values = 6 * np.exp(-0.7 * TIMES) * (1 + 0.1 * np.random.default_rng(2).standard_normal(len(TIMES)))
    one = pf.Experiment(TIMES, {"y": values}, "pond")
    for noise, expected in (
        (pf.Noise(additive=0.2, proportional=0.1), lambda y: 0.04 + 0.01 * y**2),
        (pf.LogNormal(sigma=0.1), lambda y: 0.01 * y**2),
    ):
        fit = pf.fit(pf.Problem(DECAY, one, noise=noise))
        plain, noisy = (fit.bands("pond", LATER, noise=n)["y"] for n in (False, True))
        added = noisy.standard_error**2 - plain.standard_error**2
        np.testing.assert_allclose(added, expected(plain.value), rtol=1e-6)


def test_estimated_levels_do_not_widen_the_curve():
    one = pf.Experiment(TIMES, {"y": 6 * np.exp(-0.7 * TIMES) + 0.05 * np.cos(50 * TIMES)}, "pond")
    known, estimated = (
        pf.fit(pf.Problem(DECAY, one, noise=pf.Noise(additive=level))) for level in (0.05, (0.001, 1.0))
    )
    size = known.standard_errors["k"] / estimated.standard_errors["k"]
    np.testing.assert_allclose(
        known.bands("pond", LATER)["y"].standard_error,
        size * estimated.bands("pond", LATER)["y"].standard_error,
        rtol=1e-3,
    )


def test_new_initial_states_are_known(free):
    found = free.bands("pond", LATER, initial={"x": 5.0})
    assert found["x"].standard_error[0] == 0
    np.testing.assert_allclose(found["x"].value, 5 * np.exp(-free.parameters["k"] * LATER), rtol=1e-8)
    np.testing.assert_allclose(
        found["x"].standard_error, LATER * found["x"].value * free.standard_errors["k"], rtol=1e-6
    )


def test_new_inputs():
    """x' = -k x + dose from 0 under a constant dose: x = dose/k (1 - exp(-k t))."""
    noise = 0.02 * np.random.default_rng(1).standard_normal(len(TIMES))
    one = pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES) + noise}, "pond", inputs={"dose": 0.0})
    fit = pf.fit(pf.Problem(DOSED, one))
    k = fit.parameters["k"]
    found = fit.bands("pond", LATER, inputs={"dose": 4.0}, initial={"x": 0.0})["x"]
    np.testing.assert_allclose(found.value, 4 / k * (1 - np.exp(-k * LATER)), rtol=1e-8)
    slope = 4 / k * LATER * np.exp(-k * LATER) - 4 / k**2 * (1 - np.exp(-k * LATER))
    np.testing.assert_allclose(
        found.standard_error, np.abs(slope) * fit.standard_errors["k"], rtol=1e-6, atol=1e-12
    )


def test_bootstrap_bands_agree_with_the_delta_method(free):
    """200 samples: 5 %."""
    samples = free.bootstrap(200)
    plain, drawn = free.bands("pond", LATER), free.bands("pond", LATER, bootstrap=samples)
    np.testing.assert_allclose(drawn["y"].standard_error, plain["y"].standard_error, rtol=0.2)
    np.testing.assert_allclose(drawn["y"].value, plain["y"].value, rtol=1e-8)
    noisy = free.bands("pond", LATER, bootstrap=samples, noise=True)
    assert np.all(noisy["y"].high - noisy["y"].low > drawn["y"].high - drawn["y"].low)


def test_order_of_the_times_is_kept(free):
    forward, mixed = free.bands("pond", [0, 1, 7]), free.bands("pond", [7, 0, 1])
    np.testing.assert_array_equal(mixed["x"].high, forward["x"].high[[2, 0, 1]])


def test_what_only_a_pair_determines_is_predicted_all_the_same():
    """a*b is determined, a and b are not: the curve of x is, that of a hidden z' = a is not."""
    model = pf.Model("x' = -a*b*x; z' = a", observables=["x"])
    fit = decay({"z": 0.0}, model, a=(0.01, 100), b=(0.01, 100))
    simple = decay(None, pf.Model("x' = -k*x"))
    found, expected = fit.bands("pond", [1.0]), simple.bands("pond", [1.0])
    assert fit.standard_errors["a"] == np.inf
    assert found["x"].standard_error[0] == pytest.approx(expected["x"].standard_error[0], rel=0.05)
    assert found["z"].standard_error[0] == np.inf


def test_local_parameters_belong_to_their_experiment():
    runs = [
        pf.Experiment(TIMES, {"x": np.exp(-k * TIMES) + 0.03 * np.cos(40 * TIMES)}, n)
        for n, k in (("a", 0.3), ("b", 0.9))
    ]
    model = pf.Model("x' = -k*x")
    fit = pf.fit(pf.Problem(model, runs, {"k": pf.Parameter(0, 5, local=True)}, {"x": 1.0}))
    for name in "ab":
        x = np.exp(-fit.parameters[f"k[{name}]"] * 2.0)
        error = fit.bands(name, [2.0])["x"].standard_error[0]
        assert error == pytest.approx(2 * x * fit.standard_errors[f"k[{name}]"], rel=1e-6)


def test_log_parameters():
    plain, log = decay(), decay(k=pf.Parameter(0.01, 9, log=True))
    np.testing.assert_allclose(
        plain.bands("pond", LATER)["x"].standard_error,
        log.bands("pond", LATER)["x"].standard_error,
        rtol=1e-4,
    )


@pytest.mark.parametrize("times, shown", [(LATER, 3), (np.linspace(0, 3, 25), 10)])
def test_text_is_a_short_table(free, times, shown):
    found = free.bands("pond", times)
    head, names, *rows = str(found).splitlines()
    assert (head, names.split()) == ("95 % bands", ["time", "x", "low", "high", "y", "low", "high"])
    values = np.array([row.split() for row in rows[:shown]], float)
    np.testing.assert_allclose(values[:, 0], times[:shown], rtol=1e-4)
    np.testing.assert_allclose(values[:, 5], found["y"].low[:shown], rtol=1e-4)
    more = [f"... and {len(times) - shown} more times (bands.to_frame())"] if len(times) > shown else []
    assert rows[shown:] == more
    assert found._repr_html_().split("</style>")[1].count("low") == 2


def test_samples_of_another_fit_are_refused(free, known):
    assert (
        complaint(lambda: free.bands("pond", LATER, bootstrap=known.bootstrap(2))).code
        == "inference.bootstrap_of_other_problem"
    )
    other = decay(initial={"x": 2.0}, k=(0.0, 0.5))
    assert record(complaint(lambda: known.bands("pond", LATER, bootstrap=other.bootstrap(2)))) == (
        "inference.bootstrap_of_other_fit",
        "k",
        (),
    )
    assert complaint(lambda: free.bands("pond", LATER, bootstrap=3)).code == "inference.not_a_bootstrap"


def test_no_times_are_refused(free):
    assert complaint(lambda: free.bands("pond", [])).code == "inference.no_times"


def test_a_table_of_all(free):
    frame = free.bands("pond", LATER).to_frame()
    assert list(frame["quantity"].unique()) == ["x", "y"]
    assert len(frame) == 6


@pytest.mark.parametrize(
    "options, code, subject",
    [
        ({"experiment": "lake"}, "problem.no_such_experiment", "lake"),
        ({"times": [-1.0]}, "evidence.before_t0", "pond"),
        ({"times": "soon"}, "evidence.times", ""),
        ({"level": 2}, "evidence.level", ""),
        ({"initial": {"q": 1.0}}, "inference.unknown_state", "q"),
        ({"inputs": {"dose": 1.0}}, "inference.unknown_input", "dose"),
        ({"initial": {"x": "much"}}, "errors.not_a_number", "x"),
    ],
)
def test_bad_input_is_named(free, options, code, subject):
    error = complaint(lambda: free.bands(**({"experiment": "pond", "times": [1.0]} | options)))
    assert (error.code, error.subject) == (code, subject)


def test_a_band_that_is_not_there(free):
    assert record(complaint(lambda: free.bands("pond", [1.0])["q"])) == ("inference.no_band", "q", ())


def test_plot_with_bands(free, tmp_path):
    figure = free.plot(tmp_path / "fit.png", band=0.95)
    assert figure.axes[0].collections
    assert not free.plot().axes[0].collections


def test_bands_end_where_the_solution_does():
    times = np.linspace(0, 1.5, 20)
    data = 0.5 / (1 - 0.5 * times) + 0.01 * np.random.default_rng(0).standard_normal(20)
    problem = pf.Problem(pf.Model("x' = k*x^2"), pf.Experiment(times, {"x": data}, "e"), {"k": (0.1, 5)})
    fit = pf.fit(problem)
    both = fit.bands("e", [0.0, 1.5, 3.0, 1.0])["x"]
    assert np.isfinite(both.value).tolist() == [True, True, False, True]
    assert np.isfinite(both.high).tolist() == [True, True, False, True]
    alone = fit.bands("e", [0.0, 1.0, 1.5])["x"]
    np.testing.assert_allclose(both.low[[0, 3, 1]], alone.low, rtol=1e-6)


def test_predict_gives_the_same_bands(free):
    times = [0.5, 3.0, 12.0]
    found = free.predict("pond", times, bands=True, level=0.8, noise=True)
    expected = free.bands("pond", times, 0.8, noise=True)
    for name, values in free.predict("pond", times).items():
        np.testing.assert_array_equal(found[name].high, expected[name].high)
        np.testing.assert_allclose(found[name].value, values, rtol=1e-6)


def test_a_level_without_bands_is_refused(free):
    assert complaint(lambda: free.predict("pond", [1.0], level=0.9)).code == "fit.level_without_bands"


def test_noise_without_bands_is_refused(free):
    assert complaint(lambda: free.predict("pond", [1.0], noise=True)).code == "fit.noise_without_bands"


def well_known(noise):
    """A decay whose rate and start are known so well that only the noise of a new measurement counts."""
    times = np.linspace(0, 3, 400)
    data = pf.Experiment(times, {"x": np.exp(-times)}, "pond", initial={"x": 1.0})
    return pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0.5, 2)}, noise=noise))


def test_measurements_with_noise_in_logs_are_positive_and_scatter_by_a_factor():
    found = well_known(pf.LogNormal(1.0)).bands("pond", [0.0, 1.0], noise=True)["x"]
    factor = np.exp(1.959964)
    np.testing.assert_allclose(found.high / found.value, factor, rtol=0.01)
    np.testing.assert_allclose(found.value / found.low, factor, rtol=0.01)


@pytest.mark.parametrize(
    "noise, quantile",
    [
        (pf.StudentT(0.1, degrees=2.0), 4.302653),  # 97.5 % of Student's t with 2 degrees of freedom
        (pf.Laplace(0.1), np.log(20)),  # 2 of 40 Laplace numbers lie beyond
    ],
)
def test_measurements_reach_as_far_as_the_quantile_of_their_noise(noise, quantile):
    found = well_known(noise).bands("pond", [1.0], noise=True)["x"]
    assert (found.high - found.value)[0] == pytest.approx(0.1 * quantile, rel=0.02)


def test_curves_under_noise_in_logs_have_bands_by_a_factor():
    """Positive however far the prediction goes: the error of the logarithm; states keep theirs."""
    rng = np.random.default_rng(3)
    data = 2 * np.exp(-0.7 * TIMES[:6]) * np.exp(0.8 * rng.standard_normal(6))
    one = pf.Experiment(TIMES[:6], {"x": data}, "pond")
    found = pf.fit(pf.Problem(pf.Model("x' = -k*x"), one, noise=pf.LogNormal(1.0))).bands("pond", LATER)
    curve = found.observables["x"]
    assert (curve.low > 0).all()
    np.testing.assert_allclose(curve.low * curve.high, curve.value**2)
    np.testing.assert_allclose(
        np.log(curve.high / curve.value), 1.959964 * curve.standard_error / curve.value, rtol=1e-6
    )
    state = found.states["x"]
    np.testing.assert_allclose(state.high - state.value, state.value - state.low)
