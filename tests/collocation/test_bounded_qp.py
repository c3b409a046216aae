"""Bounded steps against SciPy and their own KKT conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize

from arrows import whole
from picardfit.collocation.bounded_qp import ActiveSet, solve_box, solve_on_line


def random_box(seed, experiments=3, local=2, width=5, rank=None, tightness=0.5):
    """An arrow (experiments, width, width) of given rank with its slope, and a box around 0."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((experiments, rank or width + 2, width))
    hessian, slope = rows.transpose(0, 2, 1) @ rows, 3 * rng.standard_normal((experiments, width))
    lower, upper = (-tightness * rng.exponential(size=(experiments, width)) for _ in range(2))
    upper = -upper
    lower[:, local:], upper[:, local:] = lower[:1, local:], upper[:1, local:]
    return hessian, slope, local, lower, upper


def gathered(hessian, slope, local):
    """The arrow over one vector [local of each experiment | shared], and the map from it to (experiments, width)."""
    experiments, width = slope.shape
    shared = width - local
    chart = np.zeros((experiments, width, experiments * local + shared))
    for e in range(experiments):
        chart[e, :local, e * local : (e + 1) * local] = np.eye(local)
        chart[e, local:, experiments * local :] = np.eye(shared)
    matrix = np.einsum("ewi,ewv,evj->ij", chart, hessian, chart)
    return matrix, np.einsum("ewi,ew->i", chart, slope), chart


def value(hessian, slope, step) -> float:
    return 0.5 * np.einsum("ew,ewv,ev->", step, hessian, step) + float(np.sum(slope * step))


def by_scipy(hessian, slope, local, lower, upper) -> np.ndarray:
    """The bounded minimum by SciPy's least squares on a square root of the gathered matrix."""
    matrix, right, chart = gathered(hessian, slope, local)
    low, high = (np.einsum("ewi,ew->i", chart, b) / chart.sum(axis=(0, 1)) for b in (lower, upper))
    root = np.linalg.cholesky(matrix).T
    open_ = high > low
    value = np.where(open_, 0.0, low)
    target = -np.linalg.solve(root.T, right) - root @ value
    value[open_] = lsq_linear(root[:, open_], target, (low[open_], high[open_]), tol=1e-14, method="bvls").x
    return chart @ value


@pytest.mark.parametrize("tightness", [100, 1, 0.3, 0.01])
@pytest.mark.parametrize("local, width", [(2, 5), (0, 4), (3, 3)])
def test_bounded_step_is_that_of_scipy(local, width, tightness):
    box = random_box(3, local=local, width=width, tightness=tightness)
    np.testing.assert_allclose(solve_box(*box), by_scipy(*box), rtol=1e-7, atol=1e-8 * tightness)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("local", [0, 2])
def test_what_is_at_a_bound_stays_or_leaves_as_in_scipy(seed, local):
    hessian, slope, local, lower, upper = random_box(seed, local=local)
    lower[:, 0], upper[:, 1] = 0.0, 0.0
    lower[:, 3], upper[:, 4] = 0.0, 0.0
    box = (hessian, slope, local, lower, upper)
    np.testing.assert_allclose(solve_box(*box), by_scipy(*box), atol=1e-9)


def test_fixed_columns_keep_their_value():
    hessian, slope, local, lower, upper = random_box(4)
    lower[1, 0] = upper[1, 0] = 0.3
    lower[:, 3] = upper[:, 3] = -0.2
    box = (hessian, slope, local, lower, upper)
    np.testing.assert_allclose(solve_box(*box), by_scipy(*box), atol=1e-9)


def test_infinite_bounds_never_act():
    hessian, slope, local, lower, _ = random_box(5)
    matrix, right, chart = gathered(hessian, slope, local)
    free = np.full_like(lower, np.inf)
    np.testing.assert_allclose(
        solve_box(hessian, slope, local, -free, free), chart @ np.linalg.solve(matrix, -right), rtol=1e-8
    )


def test_a_column_without_curvature_stays_finite_in_a_finite_box():
    """What the data do not feel has no preferred value; the others must come out right all the same."""
    hessian, slope, local, lower, upper = random_box(6)
    hessian[:, :, 4] = hessian[:, 4, :] = 0.0
    slope[:, 4] = 0.0
    step = solve_box(hessian, slope, local, lower, upper)
    less = [np.delete(a, 4, axis=1) for a in (slope, lower, upper)]
    inside = np.delete(np.delete(hessian, 4, axis=1), 4, axis=2)
    np.testing.assert_allclose(
        np.delete(step, 4, axis=1), by_scipy(inside, less[0], local, *less[1:]), atol=1e-9
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    experiments=st.integers(1, 4),
    local=st.integers(0, 3),
    shared=st.integers(0, 3),
    tightness=st.sampled_from([0.05, 0.5, 5.0]),
)
def test_bounded_step_meets_the_kkt_conditions(seed, experiments, local, shared, tightness):
    if local + shared == 0:
        local = 1
    hessian, slope, local, lower, upper = random_box(
        seed, experiments, local, local + shared, tightness=tightness
    )
    step = solve_box(hessian, slope, local, lower, upper)
    assert np.all((step >= lower) & (step <= upper))
    assert np.all(step[:, local:] == step[:1, local:])
    gradient = slope + np.einsum("ewv,ev->ew", hessian, step)
    gradient[:, local:] = gradient[:, local:].sum(axis=0)
    small = 1e-8 * (1 + np.abs(slope).max() + np.abs(hessian).max())
    assert np.all(gradient[step > lower] < small)
    assert np.all(gradient[step < upper] > -small)


def nearly_singular_box(seed, rank, damping):
    """A least-squares arrow of low rank with a little damping: slope and matrix come from the same rows."""
    rng = np.random.default_rng(seed)
    experiments, local, width = 3, 2, 6
    rows = rng.standard_normal((experiments, rank, width))
    slope = np.einsum("erw,er->ew", rows, 3 * rng.standard_normal((experiments, rank)))
    hessian = rows.transpose(0, 2, 1) @ rows
    diagonal = np.einsum("eii->ei", hessian).copy()
    diagonal[:, local:] = diagonal[:, local:].mean(axis=0)
    hessian[:, np.arange(width), np.arange(width)] += damping * diagonal
    return hessian, slope, local, *random_box(seed, experiments, local, width)[3:]


CYCLING = [(25, 1, 1e-14), (29, 1, 1e-6), (62, 1, 1e-10), (133, 2, 1e-6), (150, 2, 1e-10)]


@pytest.mark.parametrize("seed, rank, damping", CYCLING)
def test_a_cycling_active_set_still_ends_at_the_minimum(seed, rank, damping):
    hessian, slope, local, lower, upper = nearly_singular_box(seed, rank, damping)
    step = solve_box(hessian, slope, local, lower, upper)
    cycled = solve_box(hessian, slope, local, lower, upper, ActiveSet(projections=0))
    assert not np.array_equal(step, cycled), "this box was chosen because the active set cycles on it"
    matrix, right, chart = gathered(hessian, slope, local)
    low, high = (np.einsum("ewi,ew->i", chart, b) / chart.sum(axis=(0, 1)) for b in (lower, upper))
    best = minimize(
        lambda v: (0.5 * v @ matrix @ v + right @ v, matrix @ v + right),
        np.zeros(len(right)),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 10_000},
    ).fun
    assert value(hessian, slope, step) == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("damping", [0.0, 1e-14, 1e-8])
def test_nearly_singular_boxes_give_steps_inside(rank, damping):
    for seed in range(20):
        hessian, slope, local, lower, upper = nearly_singular_box(seed, rank, damping)
        step = solve_box(hessian, slope, local, lower, upper)
        assert np.all((step >= lower) & (step <= upper)), seed
        assert value(hessian, slope, step) < 0, seed


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("line", [False, True])
def test_a_bounded_step_on_a_line_is_the_minimum(seed, line):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((9, 5))
    matrix, slope = rows.T @ rows, 5 * rng.standard_normal(5)
    low, high = -rng.uniform(0, 0.5, 5), rng.uniform(0, 0.5, 5)
    normal = rng.standard_normal(5) if line else None
    gap = 0.1 * rng.standard_normal() if line else 0.0
    found = solve_on_line(whole(matrix), slope, normal, gap, low, high)
    constraints = [{"type": "eq", "fun": lambda d: normal @ d - gap, "jac": lambda d: normal}] if line else []
    expected = minimize(
        lambda d: 0.5 * d @ matrix @ d + slope @ d,
        np.zeros(5),
        jac=lambda d: matrix @ d + slope,
        bounds=list(zip(low, high, strict=True)),
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    np.testing.assert_allclose(found.step, expected.x, atol=1e-6)


def test_a_line_outside_the_box_has_no_step():
    assert solve_on_line(whole(np.eye(2)), np.zeros(2), np.ones(2), 5.0, -np.ones(2), np.ones(2)) is None


def test_the_slope_is_the_derivative_of_the_minimum():
    rng = np.random.default_rng(1)
    rows, slope, normal = rng.standard_normal((9, 4)), rng.standard_normal(4), rng.standard_normal(4)
    matrix, wide = rows.T @ rows, np.full(4, np.inf)

    def least(gap):
        d = solve_on_line(whole(matrix), slope, normal, gap, -wide, wide).step
        return 0.5 * d @ matrix @ d + slope @ d

    found = solve_on_line(whole(matrix), slope, normal, 0.3, -wide, wide)
    assert found.slope == pytest.approx((least(0.3001) - least(0.2999)) / 2e-4, rel=1e-6)
    assert 1 / found.variance == pytest.approx((least(0.31) - 2 * least(0.3) + least(0.29)) / 1e-4, rel=1e-6)
