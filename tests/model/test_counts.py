"""Distributions of counts: probabilities against SciPy's, slopes against differences, information by summation."""

import numpy as np
import pytest
import scipy.stats as st

import picardfit as pf
from complaints import complaint
from picardfit.model.counts import count_below, count_cost, count_terms, count_variance, draw_counts
from picardfit.model.densities import Shape

K = 1.7
LAWS = {
    Shape.POISSON: (4.2, lambda m, k: st.poisson(m), 400),
    Shape.NEGATIVE_BINOMIAL: (4.2, lambda m, k: st.nbinom(k, k / (k + m)), 3000),
    Shape.BINOMIAL: (0.3, lambda m, k: st.binom(20, m), 21),
}


def _arguments(shape, mean=None, level=K):
    first, law, count = LAWS[shape]
    y = np.arange(float(count))
    mean = first if mean is None else mean
    return (y, np.full(count, mean), np.full(count, level), np.full(count, 20.0)), law(mean, level)


@pytest.mark.parametrize("shape", LAWS)
def test_costs_are_those_of_scipy(shape):
    (y, *others), law = _arguments(shape)
    few = y <= 60
    cost = count_cost(shape, y, *others)
    assert cost[few] == pytest.approx(-law.logpmf(y[few]), rel=1e-11)


@pytest.mark.parametrize("shape", LAWS)
def test_slopes_and_information(shape):
    """Slopes by differences; E[slope^2] is the information, mean and level are orthogonal."""
    arguments, law = _arguments(shape)
    found, y = count_terms(shape, *arguments, expected=True), arguments[0]
    step = 1e-6
    for position, slope in ((1, found.slope), (2, found.level_slope)):
        low, high = (list(arguments) for _ in range(2))
        low[position], high[position] = arguments[position] - step, arguments[position] + step
        difference = (count_cost(shape, *high) - count_cost(shape, *low)) / (2 * step)
        assert slope[:21] == pytest.approx(difference[:21], rel=1e-6, abs=1e-7)
    weight = law.pmf(y)
    assert found.weight[0] == pytest.approx(np.sum(weight * found.slope**2), rel=1e-9)
    assert found.level_weight[0] == pytest.approx(np.sum(weight * found.level_slope**2), rel=1e-9, abs=1e-12)
    assert np.sum(weight * found.slope * found.level_slope) == pytest.approx(0, abs=1e-9)


def test_information_on_the_dispersion_of_large_counts():
    """Later terms of the sum are added in blocks."""
    y = np.arange(0.0, 60000.0)
    mean, level = np.full(1, 4000.0), np.full(1, 20.0)
    slope = count_terms(
        Shape.NEGATIVE_BINOMIAL, y, np.full(y.shape, 4000.0), np.full(y.shape, 20.0), y, False
    )
    weight = st.nbinom(20, 20 / 4020).pmf(y)
    found = count_terms(Shape.NEGATIVE_BINOMIAL, y[:1], mean, level, y[:1], True).level_weight[0]
    assert found == pytest.approx(np.sum(weight * slope.level_slope**2), rel=2e-3)


def test_the_search_overestimates_the_information_on_the_dispersion():
    (y, *others), _ = _arguments(Shape.NEGATIVE_BINOMIAL)
    quick = count_terms(Shape.NEGATIVE_BINOMIAL, y, *others, expected=False)
    exact = count_terms(Shape.NEGATIVE_BINOMIAL, y, *others, expected=True)
    assert quick.level_weight[0] >= exact.level_weight[0]


@pytest.mark.parametrize("shape", LAWS)
def test_probabilities_of_less_and_of_at_most(shape):
    (y, *others), law = _arguments(shape)
    below, most = count_below(shape, y, *others)
    assert most == pytest.approx(law.cdf(y), abs=1e-13)
    assert below == pytest.approx(law.cdf(y - 1), abs=1e-13)


@pytest.mark.parametrize("shape", LAWS)
def test_draws_have_mean_and_variance(shape):
    size, (mean, law, _) = 40_000, LAWS[shape]
    arrays = [np.full(size, one) for one in (mean, K, 20.0)]
    drawn, one = draw_counts(shape, *arrays, np.random.default_rng(0)), law(mean, K)
    assert drawn.mean() == pytest.approx(one.mean(), abs=4 * one.std() / np.sqrt(size))
    assert drawn.var() == pytest.approx(one.var(), rel=0.05)
    unit = 20.0 if shape is Shape.BINOMIAL else 1.0
    assert count_variance(shape, *arrays)[0] * unit**2 == pytest.approx(one.var())


@pytest.mark.parametrize("shape", LAWS)
def test_impossible_means_have_no_cost_and_rounding_errors_do(shape):
    one = [np.zeros(1), np.full(1, K), np.full(1, 20.0)]
    assert np.isnan(count_cost(shape, one[0], np.full(1, -0.1), *one[1:]))
    assert count_cost(shape, one[0], np.full(1, -1e-12), *one[1:]) == 0
    assert np.isinf(count_cost(shape, one[0] + 1, np.zeros(1), *one[1:]))


@pytest.mark.parametrize(
    "noise, code",
    [
        (pf.Poisson(), "model.impossible_mean"),
        (pf.NegativeBinomial(dispersion=3.0), "model.impossible_mean"),
        (pf.LogNormal(0.1), "model.impossible_mean"),
        (pf.Binomial(trials=9), "model.impossible_share"),
    ],
)
def test_no_count_scatters_around_a_falling_increment(noise, code):
    model = pf.Model("x' = -k*x", observables={"new": "increment(x)"})
    values = {"k": 1.0}, {"x": 5.0}, [1.0, 2.0]
    error = complaint(pf.simulate, model, *values, noise=noise)
    assert (error.code, error.subject, error.values["value"]) == (
        code,
        "new",
        pytest.approx(5 * np.exp(-1) - 5),
    )
    run = pf.Experiment([1.0, 2.0], {"new": [3.0, 2.0]}, initial={"x": 5.0})
    problem = pf.Problem(model, run, {"k": (0.1, 3.0)}, noise=noise)
    assert complaint(problem.simulate_data, {"k": 1.0}).code == code
