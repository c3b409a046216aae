"""What is said about residuals holds its level: with many numbers or many observables chance is no news."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.evidence.residual_tests import (
    Diagnostics,
    ResidualTests,
    diagnose,
    many_probability,
    shapiro_wilk,
)

DOUBTFUL, UNFIT = ResidualTests.doubtful, ResidualTests.unfit

DECAY = pf.Model("x' = -k*x")


def decayed(count, sd, noise, draw=None, parameters=None, model=DECAY, seed=0) -> pf.Fit:
    """A fit to a decay with noise of standard deviation (or scale) sd."""
    times = np.linspace(0, 3, count)
    drawn = (draw or np.random.Generator.standard_normal)(np.random.default_rng(seed), size=count)
    values = 2 * np.exp(-0.5 * times) + sd * drawn
    return pf.fit(pf.Problem(model, pf.Experiment(times, {"x": values}), parameters, noise=noise))


def test_part_of_normal_numbers_beyond_four_standard_deviations():
    from scipy.special import ndtr

    expected = Diagnostics({}, np.nan, 0, None, count=1_000_000).expected_outliers
    assert pytest.approx(2e6 * ndtr(-4.0), rel=1e-12) == expected


@pytest.mark.parametrize("number, expected", [(1, 0.3), (3, 0.3), (17, 6.3)])
def test_probability_of_many_rare_events(number, expected):
    from scipy.stats import poisson

    assert many_probability(number, expected) == pytest.approx(poisson.sf(number - 1, expected), rel=1e-10)


@pytest.mark.parametrize("outliers, count, said", [(17, 300_000, False), (17, 3_000, True), (1, 100, True)])
def test_outliers_are_told_when_they_are_more_than_expected(outliers, count, said):
    text = str(Diagnostics({"x": 0.5}, 0.5, outliers, 1.0, count))
    assert (f"{outliers} of {count} residuals lie beyond four standard deviations" in text.lower()) == said
    assert ("nothing remarkable" in text) != said


def test_patterns_hold_their_level_over_observables():
    many = {f"y{k}": 0.5 for k in range(9)} | {"z": 0.004}
    assert Diagnostics(many, 0.5, 0, None).patterned == ()
    assert Diagnostics({"z": 0.004}, 0.5, 0, None).patterned == ("z",)
    assert Diagnostics({**many, "z": 0.0005}, 0.5, 0, None).patterned == ("z",)


def test_a_second_pattern_is_judged_among_those_left():
    assert Diagnostics({"a": 0.0001, "b": 0.008}, 0.5, 0, None).patterned == (
        "a",
        "b",
    )  # Holm, not Bonferroni


def test_false_alarms_are_rare_with_twenty_observables():
    rng = np.random.default_rng(0)
    alarms = sum(
        bool(diagnose({"e": {f"y{k}": rng.standard_normal(60) for k in range(20)}}, 1.0).patterned)
        for _ in range(300)
    )
    assert alarms <= 300 * DOUBTFUL + 3 * np.sqrt(300 * DOUBTFUL)


# ---- the size of residuals ----


@pytest.mark.parametrize("freedom", [1, 12, 300])
def test_the_size_is_remarked_on_beyond_the_quantiles_of_chi_square(freedom):
    from scipy.stats import chi2

    low, high = chi2.ppf([UNFIT, 1 - UNFIT], freedom) / freedom
    for value, words in (
        (0.99 * low, "smaller than"),
        (1.01 * low, "nothing remarkable"),
        (0.99 * high, "nothing remarkable"),
        (1.01 * high, "larger than"),
    ):
        assert words in str(Diagnostics({"x": 0.5}, 0.5, 0, value, freedom + 2, freedom=(freedom, freedom)))


def test_the_size_says_nothing_where_levels_were_estimated():
    """Four measurements, three unknowns: the reduced chi-square is 4 by construction."""
    fit = decayed(4, 0.1, pf.Noise(additive=(1e-3, 1.0)))
    assert fit.reduced_chi_square == pytest.approx(4.0, rel=1e-4)
    assert fit.diagnostics.freedom is None
    assert "than the noise model says" not in str(fit.diagnostics)


def test_a_level_in_a_formula_counts_as_estimated():
    fit = decayed(10, 0.3, pf.Noise(additive="spread*x"), parameters={"spread": (1e-3, 9.0)})
    assert fit.diagnostics.freedom is None


@pytest.mark.parametrize("sd, words", [(0.25, "larger than"), (0.03, "smaller than"), (0.1, "")])
def test_the_size_is_tested_with_known_levels(sd, words):
    fit = decayed(20, sd, pf.Noise(additive=0.1))
    assert fit.diagnostics.freedom == (18, 18)
    assert words in str(fit.diagnostics)
    assert ("than the noise model says" in str(fit.diagnostics)) == bool(words)


def test_unknowns_that_the_data_do_not_determine_take_no_degree_of_freedom():
    bounds = {"a": (0.01, 50.0), "b": (0.01, 50.0)}
    fit = decayed(20, 0.1, pf.Noise(additive=0.1), parameters=bounds, model=pf.Model("x' = -a/b*x"))
    assert fit.diagnostics.freedom == (17, 19)


def test_unknowns_with_a_prior_may_take_no_degree_of_freedom():
    believed = {"k": pf.Parameter(0.01, 5, prior=pf.priors.Normal(0.5, 1e-3))}
    assert decayed(20, 0.1, pf.Noise(additive=0.1), parameters=believed).diagnostics.freedom == (18, 19)


def test_robust_noise_leaves_room_for_unknowns_that_cost_less():
    noise = pf.StudentT(additive=0.1)
    fit = decayed(20, 0.1, noise, draw=lambda rng, size: rng.standard_t(4, size))
    assert fit.diagnostics.freedom == (18, 20)
    assert "than the noise model says" not in str(fit.diagnostics)
    assert "larger than the noise model says" in str(decayed(20, 1.0, noise).diagnostics)


@pytest.mark.parametrize("count, noise", [(2, pf.Noise(additive=0.1)), (20, None)])
def test_without_noise_model_or_degrees_of_freedom_there_is_no_chi_square(count, noise):
    fit = decayed(count, 0.1, noise)
    assert fit.reduced_chi_square is None
    assert fit.diagnostics.chi_square is None
    assert "reduced chi-square" not in str(fit)


def test_outliers_under_students_t_have_their_remedy():
    def draw(rng, size):
        return rng.standard_normal(size) * np.where(np.arange(size) % 12 == 5, 1000.0, 1.0)

    heavy = decayed(60, 0.05, pf.StudentT(additive=0.05), draw=draw)
    assert heavy.diagnostics.normality < DOUBTFUL
    assert "degrees=(1, 50)" in str(heavy.diagnostics)


def test_residuals_that_change_their_sign_often_are_no_pattern():
    """Few samples with unknowns of their own have such residuals, whatever the model is."""
    alternating = {"a": {"y": np.tile([1.0, -1.1], 40)}}
    waves = {"a": {"y": np.sin(np.linspace(0, 12, 80))}}
    assert diagnose(alternating, None).patterned == ()
    assert diagnose(waves, None).patterned == ("y",)


def test_local_unknowns_of_few_samples_raise_no_alarm():
    rng, times, runs = np.random.default_rng(2), np.linspace(0, 8, 6), []
    for e in range(25):
        top, first = 10 * np.exp(0.2 * rng.standard_normal()), rng.uniform(0.5, 3)
        values = top / (1 + (top / first - 1) * np.exp(-times)) + 0.1 * rng.standard_normal(6)
        runs.append(pf.Experiment(times, {"x": values}, f"e{e}"))
    model = pf.Model("x' = r*x*(1 - x/K)")
    fit = pf.fit(pf.Problem(model, runs, {"r": (0.1, 10), "K": pf.Parameter(1, 100, local=True)}))
    assert fit.diagnostics.patterned == ()


@pytest.mark.parametrize("size", [6, 8, 11, 12, 40, 500, 5000])
@pytest.mark.parametrize("kind", ["normal", "exponential", "cauchy"])
def test_shapiro_wilk_as_scipy(size, kind):
    from scipy.stats import shapiro

    rng = np.random.default_rng(size)
    draw = {
        "normal": rng.standard_normal,
        "exponential": rng.standard_exponential,
        "cauchy": rng.standard_cauchy,
    }
    for _ in range(5):
        values = 1e3 + draw[kind](size)
        statistic, probability = shapiro_wilk(values)
        expected = shapiro(values)
        assert statistic == pytest.approx(expected.statistic, abs=1e-6)
        assert probability == pytest.approx(expected.pvalue, rel=1e-4, abs=1e-12)


def test_probabilities_of_normal_values_are_uniform():
    rng = np.random.default_rng(3)
    found = [shapiro_wilk(rng.standard_normal(20))[1] for _ in range(2000)]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.015)
    assert np.mean(found) == pytest.approx(0.5, abs=0.03)


def test_nothing_but_rounding_errors_from_normal_scores():
    from scipy.special import ndtri

    statistic, probability = shapiro_wilk(ndtri((np.arange(1, 10) - 0.375) / 9.25))
    assert 0.99 < statistic <= 1.0
    assert probability > 0.9
