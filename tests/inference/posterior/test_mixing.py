"""R-hat, effective draws, Monte Carlo errors, E-BFMI and Pareto smoothing: known answers of ArviZ 0.23.4."""

import numpy as np
import pytest

from picardfit.inference.posterior.mixing import (
    e_bfmi,
    ess_bulk,
    ess_tail,
    mcse_mean,
    pareto_fit,
    r_hat,
    smoothed,
    weighted_effective,
)
from picardfit.inference.posterior.nuts import StepSize, Warmup
from picardfit.inference.posterior.predictive import loo, waic

RNG = np.random.default_rng(7)


def autoregressive(phi, shift, count=201):
    x, steps = np.zeros((3, count)), RNG.standard_normal((3, count))
    for k in range(1, count):
        x[:, k] = phi * x[:, k - 1] + steps[:, k]
    return x + np.array(shift)[:, None]


DRAWS = {
    "slow": autoregressive(0.8, [0, 0, 0]),
    "shifted": autoregressive(0.3, [0, 1, 0]),
    "alternating": autoregressive(-0.5, [0, 0, 0], 200),
    "heavy": np.random.default_rng(3).standard_cauchy((4, 150)),
}
ARVIZ = {  # R-hat, bulk and tail effective sizes, Monte Carlo error of the mean
    "slow": (1.0191318156572744, 68.71802784617043, 123.0611545804872, 0.18117200642434983),
    "shifted": (1.15538681607732, 14.83013618144722, 374.16416564442096, 0.3118617091961807),
    "alternating": (1.0044440163037678, 1666.890750230186, 503.7862296860393, 0.02948442790021602),
    "heavy": (0.9995937626268381, 628.8996534688406, 665.9535707800118, 0.4469576840671696),
}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("number, function", list(enumerate([r_hat, ess_bulk, ess_tail, mcse_mean])))
def test_numbers_are_those_of_arviz(kind, number, function):
    assert function(DRAWS[kind]) == pytest.approx(ARVIZ[kind][number], rel=1e-9)


def test_e_bfmi_is_that_of_arviz():
    energy = np.random.default_rng(5).gamma(3, 1, (2, 100))
    np.testing.assert_allclose(e_bfmi(energy), [2.082417957929327, 2.099948684893696])


def test_independent_draws_count_fully():
    draws = np.random.default_rng(1).standard_normal((4, 1000))
    assert ess_bulk(draws) == pytest.approx(4000, rel=0.1)


def test_too_few_draws_have_no_r_hat():
    assert np.isnan(r_hat(np.zeros((2, 3))))


def test_smoothed_weights_are_those_of_arviz():
    log_weights, khat = smoothed(np.random.default_rng(6).standard_t(3, 1000))
    weights = np.exp(log_weights)
    assert khat == pytest.approx(1.358539110930374, rel=1e-9)
    assert weights.max() == pytest.approx(0.4713276007896529, rel=1e-9)
    assert np.sum(weights**2) == pytest.approx(0.23923970725197358, rel=1e-9)
    assert weights.sum() == pytest.approx(1.0)


def test_pareto_shape_is_found():
    values = np.random.default_rng(2).pareto(2.0, 20_000)  # a generalised Pareto distribution of shape 1/2
    assert pareto_fit(values)[0] == pytest.approx(0.5, abs=0.03)


def test_loo_and_waic_are_those_of_arviz():
    # ArviZ divides variances by the number of draws, and takes a tail that depends on their autocorrelation
    log_densities = np.random.default_rng(8).normal(-1, 0.4, (4, 250, 12)).reshape(1000, 12)
    left_out, wide = loo(log_densities), waic(log_densities)
    assert left_out.value == pytest.approx(-13.012914827713955, rel=1e-5)
    assert left_out.standard_error == pytest.approx(0.04268224237888297, rel=1e-3)
    assert wide.value == pytest.approx(-13.003306179579491, rel=2e-4)
    assert wide.effective_parameters == pytest.approx(1.9170613052929335 * 1000 / 999, rel=1e-9)


def test_measurements_with_heavy_weights_are_warned_of():
    log_densities = -np.abs(np.random.default_rng(8).standard_cauchy((1000, 3)))
    assert [one.code for one in loo(log_densities).warnings] == ["inference.loo_not_trusted"]
    assert [one.code for one in waic(log_densities).warnings] == ["inference.waic_not_trusted"]


def test_windows_of_the_warmup_double_and_leave_time_for_the_step_size():
    assert Warmup().windows(400) == [85, 135, 340]
    assert Warmup().windows(0) == []


def test_a_step_size_without_experience_stays_as_it_was():
    assert np.exp(StepSize(0.3, 0.8, Warmup()).mean) == pytest.approx(0.3)


def test_equal_weights_are_worth_what_independent_draws_are():
    values = np.random.default_rng(0).standard_normal(4000)
    mean, tail = weighted_effective(values, np.full(4000, 1 / 4000), (0.025, 0.975))
    np.testing.assert_allclose([mean, tail], 4000, rtol=0.03)


def test_a_tail_of_few_heavy_draws_is_worth_less_than_the_mean():
    """One draw in six has a weight that varies, and most of the weight lies there."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal(4000)
    raw = np.where(values < -1.0, 5.0 * rng.exponential(size=4000) ** 2, 1.0)
    weights = raw / raw.sum()
    mean, tail = weighted_effective(values, weights, (0.025, 0.975))
    assert tail < 0.7 * mean
    # the promised error of the probability below a quantile is the one that repeated draws have
    found = []
    for _ in range(400):
        other = rng.standard_normal(4000)
        again = np.where(other < -1.0, 5.0 * rng.exponential(size=4000) ** 2, 1.0)
        found.append(again[other < -2.5].sum() / again.sum())
    part = float(np.mean(found))
    _, count = weighted_effective(values, weights, (part, part))
    np.testing.assert_allclose(np.std(found), np.sqrt(part * (1 - part) / count), rtol=0.35)


def test_values_without_a_spread_are_worth_nothing():
    assert np.isnan(weighted_effective(np.full(10, 1e300), np.full(10, 0.1), (0.025, 0.975))[0])


def test_chains_that_never_moved_have_no_effective_draws():
    still = np.full((2, 100), 3.0)
    assert np.isnan([ess_bulk(still), ess_tail(still), mcse_mean(still)]).all()


def test_the_error_of_a_mean_does_not_depend_on_the_unit():
    draws = DRAWS["slow"]
    assert mcse_mean(draws * 1e-200) == pytest.approx(1e-200 * mcse_mean(draws))
    assert mcse_mean(draws * 1e200) == pytest.approx(1e200 * mcse_mean(draws))


def test_one_heavy_draw_is_worth_one():
    """Its distance from the weighted mean, which is that draw, is next to nothing."""
    values, weights = np.arange(100.0), np.full(100, 1e-16)
    weights[40] = 1.0
    assert max(weighted_effective(values, weights, (0.025, 0.975))) < 1.5
