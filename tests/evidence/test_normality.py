import numpy as np
import pytest

from picardfit.evidence.normality import shapiro_wilk


@pytest.mark.parametrize("size", [6, 8, 11, 12, 40, 500, 5000])
@pytest.mark.parametrize("kind", ["normal", "exponential", "cauchy"])
def test_as_scipy(size, kind):
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
