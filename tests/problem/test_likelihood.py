"""Objectives: values against SciPy's distributions, slopes against differences, curvatures against their averages."""

import numpy as np
import pytest
import scipy.stats as st

from picardfit.model.densities import Shape
from picardfit.model.scatter import Column
from picardfit.problem.common_noise import CommonNoise
from picardfit.problem.least_squares import LeastSquares
from picardfit.problem.likelihood import Likelihood
from picardfit.problem.objective import curved, whitened

SAMPLES, OUTPUTS = 7, 3


def _data(rng, positive=False):
    data = rng.normal(size=(SAMPLES, OUTPUTS)) + 2.0
    data = np.abs(data) + 0.1 if positive else data
    data[2, 1] = data[5, 0] = np.nan
    data[6, :2] = np.nan
    return data


def _rows(rng, blocks=2):
    g = 1.0 + rng.uniform(size=(SAMPLES, OUTPUTS))
    s = 0.2 + rng.uniform(size=(SAMPLES, OUTPUTS))
    third = 2.5 + 3 * rng.uniform(size=(SAMPLES, OUTPUTS))
    return np.concatenate([g, s, third][:blocks], axis=1)


COLUMNS = {
    "normal": (Column(), lambda y, g, s: st.norm.logpdf(y, g, s)),
    "log": (Column(base=np.e), lambda y, g, s: st.lognorm.logpdf(y, s, scale=g)),
    "log10": (
        Column(base=10.0),
        lambda y, g, s: st.norm.logpdf(np.log10(y), np.log10(g), s) - np.log(y * np.log(10)),
    ),
    "laplace": (Column(Shape.LAPLACE), lambda y, g, s: st.laplace.logpdf(y, g, s)),
    "log-laplace": (
        Column(Shape.LAPLACE, base=np.e),
        lambda y, g, s: st.laplace.logpdf(np.log(y), np.log(g), s) - np.log(y),
    ),
    "student": (Column(Shape.STUDENT, degrees=4.0), lambda y, g, s: st.t.logpdf(y, 4.0, g, s)),
}


def _likelihood(kind, rng):
    return Likelihood(_data(rng, positive=COLUMNS[kind][0].base is not None), (COLUMNS[kind][0],) * OUTPUTS)


@pytest.mark.parametrize("kind", COLUMNS)
def test_nllh_is_that_of_scipy(kind):
    rng = np.random.default_rng(0)
    one, rows = _likelihood(kind, rng), _rows(rng)
    g, s = rows[:, :OUTPUTS], rows[:, OUTPUTS:]
    assert one.nllh(rows) == pytest.approx(-np.nansum(COLUMNS[kind][1](one.data, g, s)), rel=1e-12)


def test_kinds_mix():
    rng = np.random.default_rng(1)
    chosen = [COLUMNS[k] for k in ("normal", "log10", "student")]
    one, rows = Likelihood(_data(rng, positive=True), tuple(c for c, _ in chosen)), _rows(rng)
    expected = [
        np.nansum(f(one.data[:, k], rows[:, k], rows[:, OUTPUTS + k])) for k, (_, f) in enumerate(chosen)
    ]
    assert one.nllh(rows) == pytest.approx(-sum(expected), rel=1e-12)


def _difference(function, rows, step=1e-6):
    slope = np.zeros_like(rows)
    for place in np.ndindex(*rows.shape):
        up, down = rows.copy(), rows.copy()
        up[place] += step
        down[place] -= step
        slope[place] = (function(up) - function(down)) / (2 * step)
    return slope


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("kind", COLUMNS)
def test_slope_is_that_of_differences(kind, frozen):
    rng = np.random.default_rng(2)
    one, rows = _likelihood(kind, rng), _rows(rng)
    if frozen:
        one = one.with_frozen(rows[:, OUTPUTS:] * 1.3)
    terms = one.terms(rows)
    assert terms.value == pytest.approx(one.value(rows), rel=1e-14)
    np.testing.assert_allclose(terms.slope, _difference(one.value, rows), atol=2e-6)


def test_slope_by_degrees_of_freedom():
    rng = np.random.default_rng(3)
    one, rows = Likelihood(_data(rng), (Column(Shape.STUDENT),) * OUTPUTS), _rows(rng, 3)
    np.testing.assert_allclose(one.terms(rows).slope, _difference(one.value, rows), atol=2e-6)


@pytest.mark.parametrize("frozen", [False, True])
def test_slope_of_common_noise(frozen):
    rng = np.random.default_rng(4)
    one, rows = CommonNoise(_data(rng)), _rows(rng, 3)
    if frozen:
        one = one.with_frozen(rows[:, OUTPUTS:] * 1.3)
    np.testing.assert_allclose(one.terms(rows).slope, _difference(one.value, rows), atol=2e-6)


def test_common_noise_is_the_multivariate_normal_of_what_was_measured():
    rng = np.random.default_rng(5)
    one, rows = CommonNoise(_data(rng)), _rows(rng, 3)
    total = 0.0
    for y, row in zip(one.data, rows, strict=True):
        seen = np.isfinite(y)
        g, a, v = (row[k * OUTPUTS : (k + 1) * OUTPUTS][seen] for k in range(3))
        total -= st.multivariate_normal.logpdf(y[seen], g, np.diag(a**2) + np.outer(v, v))
    assert one.nllh(rows) == pytest.approx(total, rel=1e-12)


CASES = {
    **{kind: (lambda data, c=column: Likelihood(data, (c,) * 2), 2) for kind, (column, _) in COLUMNS.items()},
    "student-free": (lambda data: Likelihood(data, (Column(Shape.STUDENT),) * 2), 3),
    "common": (CommonNoise, 3),
}


@pytest.mark.parametrize("kind", CASES)
def test_factor_is_the_root_of_the_average_square_of_the_slope(kind):
    build, blocks = CASES[kind]
    draws = 60_000
    row = np.array([1.5, 2.0, 0.3, 0.5, 4.0, 6.0][: 2 * blocks])
    rows = np.tile(row, (draws, 1))
    one = build(np.ones((draws, 2)))
    data = one.sample(rows, np.random.default_rng(6))
    slope = build(data).terms(rows).slope
    average = slope.T @ slope / draws
    factor = build(data).terms(rows, expected=True).factor[0]
    information = np.diag(factor**2) if factor.ndim == 1 else factor.T @ factor
    size = np.sqrt(np.outer(np.diag(information), np.diag(information)))
    np.testing.assert_allclose(average / size, information / size, atol=0.07)
    np.testing.assert_allclose(slope.mean(axis=0) / np.sqrt(np.diag(information)), 0.0, atol=0.02)


@pytest.mark.parametrize("kind", CASES)
def test_residuals_of_samples_are_standard_normal(kind):
    build, blocks = CASES[kind]
    rows = np.tile(np.array([1.5, 2.0, 0.3, 0.5, 4.0, 6.0][: 2 * blocks]), (4000, 1))
    data = build(np.ones((4000, 2))).sample(rows, np.random.default_rng(7))
    residuals = build(data).residuals(rows)
    assert st.kstest(residuals[:, 0], "norm").pvalue > 1e-3
    assert st.kstest(residuals[:, 1], "norm").pvalue > 1e-3
    assert abs(np.corrcoef(residuals.T)[0, 1]) < 0.06


def test_samples_keep_gaps():
    rng = np.random.default_rng(8)
    data = _data(rng)
    for one, rows in (
        (LeastSquares(data), _rows(rng, 1)),
        (Likelihood(data, (Column(),) * OUTPUTS), _rows(rng)),
        (CommonNoise(data), _rows(rng, 3)),
    ):
        drawn = one.sample(rows, rng, 0.1)
        np.testing.assert_array_equal(np.isnan(drawn), np.isnan(data))


def test_full_and_diagonal_factors_act_alike():
    rng = np.random.default_rng(9)
    diagonal, rows, jacobian = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 5))
    full = diagonal[:, :, None] * np.eye(3)
    np.testing.assert_allclose(whitened(diagonal, jacobian), whitened(full, jacobian))
    np.testing.assert_allclose(curved(diagonal, rows), curved(full, rows))


def test_least_squares_likelihood_takes_the_best_variance():
    rng = np.random.default_rng(10)
    data, g = _data(rng), _rows(rng, 1)
    one = LeastSquares(data)
    gap = (data - g)[np.isfinite(data)]
    expected = -st.norm.logpdf(gap, 0, np.sqrt(np.mean(gap**2))).sum()
    assert one.nllh(g) == pytest.approx(expected, rel=1e-12)


def test_size_does_not_depend_on_units():
    rng = np.random.default_rng(11)
    one, rows = _likelihood("normal", rng), _rows(rng)
    other = Likelihood(1e3 * one.data, one.columns)
    assert other.size(1e3 * rows, 0.0) == pytest.approx(one.size(rows, 0.0), rel=1e-12)


def test_levels_that_are_not_positive_have_no_value():
    rng = np.random.default_rng(12)
    one, rows = _likelihood("normal", rng), _rows(rng)
    rows[0, OUTPUTS] = -0.1
    assert not np.isfinite(one.value(rows))
