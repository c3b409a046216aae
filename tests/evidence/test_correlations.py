"""Correlations of residuals: against statsmodels, against dense traces, and the size of the tests by simulation."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.evidence.correlations import (
    CorrelationSettings,
    Series,
    autocorrelation,
    cross_correlation,
    irregular,
    simulated_correlations,
)

STEPS = np.arange(60)
WAVES = np.sin(0.7 * STEPS) + 0.5 * np.cos(2.3 * STEPS**1.1) + ((STEPS * 7919) % 13 - 6) / 6
WAVES = WAVES - WAVES.mean()


def series(values, basis=None, own=0, **inputs):
    return Series(values, np.zeros((len(values), 0)) if basis is None else basis, own, inputs)


def test_autocorrelation_is_that_of_statsmodels():
    """statsmodels 0.15.0: acf(WAVES, nlags=6, fft=False)[1:]."""
    expected = [
        0.37726330183020945,
        -0.006244491195677671,
        -0.41421136596569597,
        -0.6623182568292337,
        -0.38586880611843993,
        -0.08480743309675973,
    ]
    np.testing.assert_allclose(autocorrelation([series(WAVES)]).values[:6], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("lags", "statistic", "probability"),
    [
        (1, 8.97387572775, 0.00273867044767),
        (5, 59.3842648036, 1.62909423907e-11),
        (10, 82.2726629785, 1.79740757289e-13),
    ],
)
def test_ljung_box_is_that_of_statsmodels(lags, statistic, probability):
    """statsmodels 0.15.0: acorr_ljungbox(WAVES, lags=[1, 5, 10])."""
    found = autocorrelation([series(WAVES)], CorrelationSettings(tested=lags, simulated=0))
    assert found.freedom == lags
    assert found.statistic == pytest.approx(statistic, rel=1e-10)
    assert found.probability == pytest.approx(probability, rel=1e-9)


@pytest.mark.parametrize("count, trend", [(20, False), (40, False), (60, True)])
def test_small_probabilities_of_independent_errors_are_as_small_as_they_say(count, trend):
    """1,500 series, within four standard deviations; chi-square calls 1.4 to 2 % of them less probable than 1 %."""
    basis = np.linalg.qr(np.vander(np.linspace(0, 1, count), 3))[0] if trend else None
    rng, found = np.random.default_rng(count), []
    for _ in range(1500):
        errors = rng.standard_normal(count)
        errors = errors if basis is None else errors - basis @ (basis.T @ errors)
        found.append(autocorrelation([series(errors, basis, own=3 if trend else 0)]).probability)
    for level in (0.01, 0.05):
        spread = np.sqrt(level * (1 - level) / len(found))
        assert abs(np.mean(np.array(found) < level) - level) < 4 * spread


def test_chi_square_alone_would_be_too_small():
    rng, plain = np.random.default_rng(1), CorrelationSettings(simulated=0)
    errors = rng.standard_normal((1500, 60))
    found = [autocorrelation([series(one)], plain).probability for one in errors]
    assert np.mean(np.array(found) < 0.01) > 0.014


def test_errors_of_several_experiments_are_simulated_with_shared_and_own_unknowns():
    """A direction of each series and one that both share: residuals are orthogonal to them, as simulated ones are."""
    rng = np.random.default_rng(4)
    own, both = rng.standard_normal((2, 20, 1)), rng.standard_normal((40, 1))
    full = np.linalg.qr(np.concatenate([np.kron(np.eye(2), np.ones((20, 1))) * own.reshape(40, 1), both], 1))[
        0
    ]
    parts = [np.stack([full[20 * k : 20 * k + 20, k], full[20 * k : 20 * k + 20, 2]], 1) for k in (0, 1)]
    draws = simulated_correlations(
        [series(np.zeros(20), part, own=1) for part in parts], np.array([1, 2]), 4000
    )
    errors = rng.standard_normal((4000, 40))
    left = (errors - errors @ full @ full.T).reshape(4000, 2, 20)
    expected = (
        np.stack([(left[..., :-k] * left[..., k:]).sum((1, 2)) for k in (1, 2)], 1)
        / (left**2).sum((1, 2))[:, None]
    )
    np.testing.assert_allclose(draws.mean(0), expected.mean(0), atol=0.01)
    np.testing.assert_allclose(np.cov(draws.T), np.cov(expected.T), atol=0.002)


def test_cross_correlation_is_that_of_statsmodels():
    """statsmodels 0.15.0: ccf(WAVES, u, adjusted=False)[:6]."""
    expected = [
        -0.02445861408455332,
        -0.02847691153756171,
        -0.13515724809354407,
        -0.1540304573379414,
        -0.05359570240053451,
        0.034009075155558635,
    ]
    found = cross_correlation([series(WAVES, u=np.sign(np.sin(0.21 * STEPS)))], "u")
    np.testing.assert_allclose(found.values[found.lags >= 0][:6], expected, rtol=1e-10)


def test_bands_of_known_curves_are_those_of_white_noise():
    low, high = autocorrelation([series(WAVES)]).band(0.95)
    lags = np.arange(1, len(high) + 1)
    np.testing.assert_allclose(high, 1.959963984540054 * np.sqrt((60 - lags) / (60 * 62)), rtol=1e-9)
    np.testing.assert_allclose(low, -high, rtol=1e-12)


def fitted_series(lengths, own, shared, rng):
    """Residuals of a linear model with directions of each experiment and of all, and the dense M."""
    total, blocks = sum(lengths), []
    for k, n in enumerate(lengths):
        part = np.zeros((total, own))
        part[sum(lengths[:k]) : sum(lengths[: k + 1])] = rng.standard_normal((n, own)).cumsum(axis=0)
        blocks.append(part)
    everywhere = rng.standard_normal((total, shared)).cumsum(axis=0)
    basis = np.linalg.qr(np.concatenate([*blocks, everywhere], axis=1))[0]
    residuals = rng.standard_normal(total)
    residuals -= basis @ (basis.T @ residuals)
    found, begin = [], 0
    for k, n in enumerate(lengths):
        rows = slice(begin, begin + n)
        columns = [*range(k * own, (k + 1) * own), *range(len(lengths) * own, basis.shape[1])]
        found.append(series(residuals[rows], basis[rows][:, columns], own, u=rng.standard_normal(n)))
        begin += n
    return found, np.eye(total) - basis @ basis.T


def test_moments_are_traces_of_the_projection():
    lengths = (12, 9, 15)
    every, projection = fitted_series(lengths, 2, 3, np.random.default_rng(0))
    found = autocorrelation(every)
    shifts = []
    for k in found.lags:
        parts = [0.5 * (np.eye(n, k=k) + np.eye(n, k=-k)) for n in lengths]
        ends = np.cumsum((0, *lengths))
        whole = np.zeros((36, 36))
        for part, a, b in zip(parts, ends[:-1], ends[1:], strict=True):
            whole[a:b, a:b] = part
        shifts.append(projection @ whole)
    freedom = np.trace(projection)
    means = np.array([np.trace(one) for one in shifts])
    products = np.array([[2 * np.trace(a @ b) for b in shifts] for a in shifts])
    covariance = (np.outer(means, means) + products) / (freedom * (freedom + 2)) - np.outer(
        means, means
    ) / freedom**2
    np.testing.assert_allclose(found.expected, means / freedom, rtol=1e-10)
    np.testing.assert_allclose(found.errors, np.sqrt(np.diag(covariance)), rtol=1e-8)


def test_errors_of_cross_correlations_are_those_of_the_projection():
    every, projection = fitted_series((12, 9, 15), 2, 3, np.random.default_rng(0))
    found = cross_correlation(every, "u")
    centred = np.concatenate([one.inputs["u"] - one.inputs["u"].mean() for one in every])
    unit = centred / np.linalg.norm(centred)
    expected = np.sqrt(unit @ projection @ unit / np.trace(projection))
    assert found.errors[found.lags == 0] == pytest.approx(expected)


def test_long_series_forget_the_fit_where_it_would_take_too_much_memory():
    every, _ = fitted_series((40,), 0, 2, np.random.default_rng(0))
    assert np.any(autocorrelation(every).expected != 0)
    assert np.all(autocorrelation(every, CorrelationSettings(most=10)).expected == 0)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0, 1, 2, 3], False),
        ([0, 1, 2.1, 3], False),
        ([0, 1, 2, 5], True),
        ([0, 0.25, 0.5, 1, 2, 4, 8], True),
        ([0, 0, 1, 1, 2, 2], True),
        ([0, 3], False),
    ],
)
def test_irregular_times_are_recognised(times, expected):
    assert irregular(np.array(times, float)) is expected


def test_constant_inputs_have_no_correlogram():
    assert cross_correlation([series(WAVES, u=np.full(60, 0.3))], "u") is None


def test_few_residuals_have_no_correlogram():
    assert autocorrelation([series(WAVES[:7])]) is None


MOTOR = pf.Model("w' = (gain*u - drag*w - c*w*abs(w))", inputs=["u"])


def motor(seed, quadratic=0.0, gap=False, sd=0.02):
    rng, times = np.random.default_rng(seed), np.linspace(0, 10, 60)
    levels = pf.Table(np.arange(0, 10, 0.5), np.random.default_rng(seed % 7).choice([-1.0, 0.0, 1.0], 20))
    values = {"gain": 2.0, "drag": 0.6, "c": quadratic}
    clean = pf.simulate(MOTOR, values, {"w": 0.0}, times, inputs={"u": levels}).observables["w"]
    noisy = clean + sd * rng.standard_normal(len(times))
    if gap:
        noisy[20:30] = np.nan
    run = pf.Experiment(times, {"w": noisy}, name="run", inputs={"u": levels})
    return pf.Problem(MOTOR, run, {"gain": (0.1, 10), "drag": (0.01, 5), "c": 0.0}, {"w": (-1, 1)})


def test_a_missing_term_is_found():
    found = pf.fit(motor(1, quadratic=0.3)).diagnostics
    assert found.autocorrelated == ("w",)
    assert found.autocorrelation["w"].values[0] > 0.5


def test_a_missing_effect_of_the_input_is_found():
    problem = motor(3)
    slow = pf.Problem(MOTOR, problem.experiments, {"gain": 1.0, "drag": (0.01, 5), "c": 0.0}, {"w": (-1, 1)})
    found = pf.fit(slow).diagnostics
    assert found.following == (("w", "u"),)
    assert "evidence.residuals_follow_input" in [one.code for one in found.remarks]


def test_right_models_give_no_remark():
    found = pf.fit(motor(2)).diagnostics
    assert found.remarks == ()
    assert found.irregular == ()


def test_gaps_leave_the_samples_that_are_there():
    found = pf.fit(motor(2, gap=True)).diagnostics
    assert found.autocorrelation["w"].count == 50
    assert found.cross_correlation["w"]["u"].count == 50


def test_words_say_when_times_are_irregular():
    problem = motor(2)
    one = problem.experiments[0]
    kept = np.unique(np.round(np.geomspace(1, 59, 30)).astype(int))
    thin = pf.Experiment(one.times[kept], {"w": one.values[kept, 0]}, name="run", inputs=one.inputs, t0=0)
    fit = pf.fit(problem.with_experiments([thin]))
    assert fit.diagnostics.irregular == ("run",)
    assert "irregular" in str(fit.diagnostics)


def test_picture_has_a_panel_for_residuals_and_for_each_input(tmp_path):
    figure = pf.fit(motor(2)).plot_autocorrelation(tmp_path / "acf.png")
    assert [panel.get_title().split(" (")[0] for panel in figure.axes] == ["residuals of w", "w with input u"]
    assert (tmp_path / "acf.png").stat().st_size > 1000


def test_correlogram_prints_and_draws(tmp_path):
    found = pf.fit(motor(2)).diagnostics.autocorrelation["w"]
    assert str(found).splitlines()[1].split()[0] == "1"
    assert len(found.plot(tmp_path / "one.png").axes) == 1
    assert found.largest in found.lags


def test_too_few_residuals_have_no_picture():
    run = pf.Experiment([0, 1, 2, 3], {"x": [1.0, 0.5, 0.3, 0.1]})
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), run, {"k": (0, 5)}, {"x": 1.0}))
    with pytest.raises(pf.InputError) as caught:
        fit.plot_autocorrelation()
    assert caught.value.code == "display.nothing_to_correlate"


@pytest.mark.slow
@pytest.mark.parametrize("count", [14, 60])
def test_size_of_the_tests_is_five_per_cent(count):
    """600 data sets of the right model: rejections at 5 % within four standard deviations, 1.4 to 8.6 %.

    Without the correction for fitted unknowns the test of Ljung and Box rejects too many of the short series.
    """
    times, rejected, tested = np.linspace(0, 6, count), np.zeros(2), 600
    levels = pf.Table(np.arange(0, 6, 0.5), np.random.default_rng(5).choice([-1.0, 0.0, 1.0], 12))
    values = {"gain": 2.0, "drag": 0.6, "c": 0.0}
    clean = pf.simulate(MOTOR, values, {"w": 0.5}, times, inputs={"u": levels}).observables["w"]
    rng = np.random.default_rng(11)
    for _ in range(tested):
        noisy = clean + 0.05 * rng.standard_normal(count)
        run = pf.Experiment(times, {"w": noisy}, name="run", inputs={"u": levels})
        bounds = {"gain": (0.1, 10), "drag": (0.01, 5), "c": (-1, 1)}
        fit = pf.fit(pf.Problem(MOTOR, run, bounds, {"w": (-3, 3)}), policy=pf.SearchPolicy(most=1))
        found = fit.diagnostics
        rejected += (
            found.autocorrelation["w"].probability < 0.05,
            found.cross_correlation["w"]["u"].probability < 0.05,
        )
    rate, spread = rejected / tested, np.sqrt(0.05 * 0.95 / tested)
    assert abs(rate[0] - 0.05) < 4 * spread
    assert (
        rate[1] < 0.05 + 4 * spread
    )  # correlations with inputs are bounded: with few samples it rejects less
