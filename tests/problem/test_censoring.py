"""Censored measurements: values against SciPy's, slopes against differences, information by integration."""

import numpy as np
import pytest
import scipy.stats as st
from scipy.integrate import quad

import picardfit as pf
from picardfit.model.densities import Shape
from picardfit.model.scatter import Column
from picardfit.problem.censoring import censoring
from picardfit.problem.likelihood import Likelihood

COLUMNS = {
    "normal": (Column(), lambda g, s: st.norm(g, s)),
    "log-normal": (Column(base=np.e), lambda g, s: st.lognorm(s, scale=g)),
    "laplace": (Column(Shape.LAPLACE), lambda g, s: st.laplace(g, s)),
    "student": (Column(Shape.STUDENT, degrees=3.5), lambda g, s: st.t(3.5, g, s)),
}
CELLS = [(-np.inf, 0.8), (1.9, np.inf), (0.9, 1.3)]
ROWS = np.array([[1.1, 0.4], [1.6, 0.5], [0.7, 0.3], [1.2, 0.6]])


def _likelihood(column, cells=CELLS, exact=1.4):
    """One exact measurement, and one in each cell."""
    limits = np.full((1 + len(cells), 1, 2), np.nan)
    limits[1:, 0] = cells
    data = np.array([[exact], *([one[1] if np.isinf(one[0]) else one[0]] for one in cells)])
    known = censoring(limits, data, np.zeros(len(data), int))
    return Likelihood(data, (column,), censored=known)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_censored_value_costs_the_probability_of_its_interval(kind):
    column, dist = COLUMNS[kind]
    expected = -dist(*ROWS[0]).logpdf(1.4)
    for (low, high), row in zip(CELLS, ROWS[1:], strict=True):
        expected -= np.log(dist(*row).cdf(high) - dist(*row).cdf(low))
    assert _likelihood(column).nllh(ROWS) == pytest.approx(expected, rel=1e-12)


def test_far_tails_keep_their_digits():
    one = _likelihood(Column(), [(-np.inf, 0.0)])
    rows = np.array([[1.4, 1.0], [30.0, 1.0]])
    assert one.nllh(rows) == pytest.approx(0.5 * np.log(2 * np.pi) - st.norm.logcdf(-30.0), rel=1e-13)
    assert np.isfinite(one.terms(rows).slope).all()


@pytest.mark.parametrize("kind", [*COLUMNS, "free degrees"])
@pytest.mark.parametrize("frozen", [False, True])
def test_slopes_are_exact(kind, frozen):
    free = kind == "free degrees"
    column = Column(Shape.STUDENT) if free else COLUMNS[kind][0]
    one, rows = _likelihood(column), np.column_stack([ROWS, np.full(4, 3.5)]) if free else ROWS
    if frozen:
        one = one.with_frozen(rows[:, 1:])
    slope, step = one.terms(rows).slope, 1e-6
    for k in range(1 if frozen else rows.shape[1]):
        moved = np.zeros_like(rows)
        moved[:, k] = step
        for i in range(len(rows)):
            here = np.zeros_like(rows)
            here[i, k] = step
            difference = (one.value(rows + here) - one.value(rows - here)) / (2 * step)
            assert slope[i, k] == pytest.approx(difference, rel=2e-6, abs=2e-7 if frozen else 2e-6)


@pytest.mark.parametrize("kind", ["normal", "laplace", "student"])
def test_information_is_that_of_data_censored_wherever_they_would_be(kind):
    """E[score score'] over exact values and intervals, by integration."""
    column, dist = COLUMNS[kind]
    one = _likelihood(column)
    factor = one.terms(ROWS, expected=True).factor
    for i, (g, s) in enumerate(ROWS):
        law = dist(g, s)

        def score(y, row=(g, s)):
            single = Likelihood(np.array([[y]]), (column,), width=1e-9)
            return single.terms(np.array([row])).slope[0]

        expected = np.zeros((2, 2))
        for a, b in ((0.8, 0.9), (1.3, 1.9)):
            kink = [g] if a < g < b else None
            for j, k in ((0, 0), (0, 1), (1, 1)):

                def product(y, j=j, k=k, law=law, score=score):
                    return score(y)[j] * score(y)[k] * law.pdf(y)

                expected[j, k] += quad(product, a, b, points=kink)[0]
        expected[1, 0] = expected[0, 1]
        for low, high in CELLS:
            held = Likelihood(
                np.array([[1.0]]),
                (column,),
                censored=censoring(np.array([[[low, high]]]), np.array([[1.0]]), np.zeros(1, int)),
            )
            of_cell = held.terms(np.array([[g, s]])).slope[0]
            expected += (law.cdf(high) - law.cdf(low)) * np.outer(of_cell, of_cell)
        assert factor[i].T @ factor[i] == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_curvature_of_the_search_is_that_of_the_interval():
    """By location, the second derivative of -log P of normal noise."""
    one, step = _likelihood(Column()), 1e-5
    factor = one.terms(ROWS).factor
    for i in range(1, 4):
        moved = np.zeros_like(ROWS)
        moved[i, 0] = step
        second = (one.terms(ROWS + moved).slope - one.terms(ROWS - moved).slope)[i, 0] / (2 * step)
        assert factor[i, 0] ** 2 >= second * (1 - 1e-6)


def test_exact_values_have_the_intervals_of_their_series_that_do_not_hold_them():
    limits = np.full((4, 1, 2), np.nan)
    limits[1, 0], limits[2, 0] = (-np.inf, 0.25), (-np.inf, 0.5)
    data = np.array([[0.3], [0.125], [0.25], [2.0]])
    found = censoring(limits, data, np.zeros(4, int)).every
    assert list(zip(found.sample.tolist(), found.high.tolist(), strict=True)) == [
        (0, 0.25),
        (1, 0.25),
        (2, 0.5),
        (3, 0.5),
    ]


def test_new_data_are_censored_again():
    problem = _decay(["<0.25", 1.5, 0.9, 0.5, "0.1..0.2", "<0.25"])
    again = problem.with_data(np.array([[0.3], [0.2], [0.15], [3.0], [0.22], [0.01]]))
    assert again.experiments[0].observations["x"].tolist() == [0.3, "<0.25", "<0.25", 3.0, 0.22, "<0.25"]


def _decay(values):
    run = pf.Experiment(np.arange(len(values), dtype=float), {"x": values}, "run")
    return pf.Problem(
        pf.Model("x' = -k*x"), run, {"k": (0.01, 5)}, {"x": (0.1, 10)}, noise=pf.Noise(additive=0.1)
    )


def test_residuals_are_randomised_quantiles():
    """Those of censored values are standard normal too; the same seed gives the same ones."""
    rng = np.random.default_rng(4)
    rows = np.column_stack([np.full(4000, 0.3), np.full(4000, 0.2)])
    y = 0.3 + 0.2 * rng.standard_normal((4000, 1))
    limits = np.where(y[..., None] < 0.25, [-np.inf, 0.25], np.nan)
    one = Likelihood(y, (Column(),), censored=censoring(limits, y, np.zeros(4000, int)))
    residuals = one.residuals(rows)[:, 0]
    assert st.kstest(residuals, "norm").pvalue > 0.05
    assert np.array_equal(residuals, one.residuals(rows)[:, 0])
    assert (residuals[y[:, 0] < 0.25] < (0.25 - 0.3) / 0.2).all()


def test_a_residual_far_beyond_its_limit_is_a_number():
    run = pf.Experiment([0, 1], {"x": [5, ">1000"]})
    problem = pf.Problem(pf.Model("x' = -k*x"), run, {"k": (0.01, 3)}, {"x": (0.1, 20)}, noise=pf.Noise(0.1))
    fit = pf.fit(problem, policy=pf.SearchPolicy(most=1))
    assert 4e3 < max(one.values["times"] for one in fit.warnings if one.code == "search.above_noise") < 1e5
