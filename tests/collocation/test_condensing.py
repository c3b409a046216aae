"""The banded elimination against one dense matrix, and the bounded step against SciPy and its own KKT conditions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize

import picardfit.collocation.condensing as condense
from picardfit.collocation.condensing import Quadratic, factorise, solve_box
from picardfit.collocation.mesh import Mesh, rule
from picardfit.problem.unknowns import UnknownsColumns, unknowns_index


@dataclass(frozen=True)
class Case:
    mesh: Mesh
    unknowns: UnknownsColumns
    model: Quadratic
    penalty: np.ndarray
    damping: np.ndarray

    @property
    def factor(self):
        return factorise(self.mesh, self.unknowns, self.model, self.penalty, self.damping)

    @property
    def reduced(self):
        return self.factor.reduce(self.model.slope, self.model.jump)


def random_case(seed, counts=(4, 1, 3), states=2, local=3, shared=2, extra=1) -> Case:
    """A random quadratic: some segments without data, `extra` shared columns that act on initial states only."""
    rng = np.random.default_rng(seed)
    mesh = Mesh(rule(2), tuple(np.arange(n + 1.0) for n in counts))
    width, linked = local + shared + extra, len(mesh.linked)
    parameters = np.arange(min(1, local), local + shared)  # the first local column is an initial state
    columns = states + len(parameters)
    rows = rng.standard_normal((len(mesh), 3, columns)) * rng.integers(0, 2, (len(mesh), 3, 1))
    model = Quadratic(
        hessian=rows.transpose(0, 2, 1) @ rows,
        slope=rng.standard_normal((len(mesh), columns)),
        end=rng.standard_normal((linked, states, columns)),
        jump=rng.standard_normal((linked, states)),
        initial=rng.standard_normal((len(counts), states, width)),
    )
    penalty, damping = 10 ** rng.uniform(-1, 1, states), 10 ** rng.uniform(-3, 0, states)
    return Case(mesh, UnknownsColumns(local, width, parameters), model, penalty, damping)


def whole(case: Case) -> tuple[np.ndarray, np.ndarray, int]:
    """Matrix and slope over all inner states and then the unknowns of each experiment; and how many inner ones."""
    mesh, width, model = case.mesh, case.unknowns.width, case.model
    states = model.end.shape[1]
    inner = [j for j in range(len(mesh)) if j not in mesh.first]
    place = {j: slice(k * states, (k + 1) * states) for k, j in enumerate(inner)}
    offset = len(inner) * states
    size = offset + len(mesh.first) * width
    matrix, slope = np.zeros((size, size)), np.zeros(size)
    maps = []
    for j, e in enumerate(mesh.experiment):
        own = slice(offset + e * width, offset + (e + 1) * width)
        chart = np.zeros((model.slope.shape[1], size))
        if j in place:
            chart[:states, place[j]] = np.eye(states)
        else:
            chart[:states, own] = model.initial[e]
        chart[states:, own] = np.eye(width)[case.unknowns.parameters]
        maps.append(chart)
        matrix += chart.T @ model.hessian[j] @ chart
        slope += chart.T @ model.slope[j]
    for k, j in enumerate(mesh.linked):
        link = model.end[k] @ maps[j] - maps[j + 1][:states]
        matrix += link.T @ (case.penalty[:, None] * link)
        slope += link.T @ (case.penalty * model.jump[k])
    matrix[np.arange(offset), np.arange(offset)] += np.tile(case.damping, len(inner))
    return matrix, slope, offset


def schur(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Reduced matrix (experiments, width, width) and slope from the dense matrix."""
    matrix, slope, n = whole(case)
    solved = np.linalg.solve(matrix[:n, :n], np.column_stack([matrix[:n, n:], slope[:n]]))
    full = matrix[n:, n:] - matrix[n:, :n] @ solved[:, :-1]
    count, width = len(case.mesh.first), case.unknowns.width
    blocks = full.reshape(count, width, count, width)[np.arange(count), :, np.arange(count)]
    return blocks, (slope[n:] - matrix[n:, :n] @ solved[:, -1]).reshape(count, width)


CASES = {
    "one experiment": {"counts": (5,)},
    "several of different length": {"counts": (4, 1, 3, 2)},
    "single segments only": {"counts": (1, 1, 1)},
    "first and last of one segment": {"counts": (1, 4, 1)},
    "no local columns": {"local": 0},
    "no shared columns": {"shared": 0, "extra": 0},
    "one state": {"states": 1},
    "four states": {"states": 4, "local": 5},
}
shapes = pytest.mark.parametrize("shape", CASES.values(), ids=CASES)


@shapes
def test_reduced_hessian_is_the_dense_schur_complement(shape):
    case = random_case(1, **shape)
    expected, _ = schur(case)
    np.testing.assert_allclose(case.factor.hessian, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@shapes
def test_reduced_slope_is_that_of_the_dense_elimination(shape):
    case = random_case(2, **shape)
    _, expected = schur(case)
    np.testing.assert_allclose(case.reduced.slope, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@shapes
def test_back_substitution_minimises_over_the_inner_states(shape):
    case = random_case(3, **shape)
    matrix, slope, n = whole(case)
    unknowns = np.random.default_rng(0).standard_normal((len(case.mesh.first), case.unknowns.width))
    expected = np.linalg.solve(matrix[:n, :n], -slope[:n] - matrix[:n, n:] @ unknowns.ravel())
    got = np.delete(case.reduced.states(unknowns), case.mesh.first, axis=0)
    np.testing.assert_allclose(got.ravel(), expected, rtol=1e-8, atol=1e-9)


def test_first_states_follow_the_unknowns():
    case = random_case(4)
    unknowns = np.random.default_rng(0).standard_normal((3, case.unknowns.width))
    got = case.reduced.states(unknowns)[case.mesh.first]
    np.testing.assert_allclose(got, np.einsum("esw,ew->es", case.model.initial, unknowns))


@shapes
def test_directional_slope_is_the_slope_of_the_whole_quadratic(shape):
    case = random_case(5, **shape)
    _, slope, n = whole(case)
    unknowns = np.random.default_rng(1).standard_normal((len(case.mesh.first), case.unknowns.width))
    states = case.reduced.states(unknowns)
    inner = np.delete(states, case.mesh.first, axis=0).ravel()
    expected = slope[:n] @ inner + slope[n:] @ unknowns.ravel()
    assert case.reduced.directional_slope(states, unknowns) == pytest.approx(expected, rel=1e-9)


def test_reduce_leaves_the_slope_it_was_given_alone():
    case = random_case(6)
    before = case.model.slope.copy()
    case.factor.reduce(case.model.slope, case.model.jump)
    np.testing.assert_array_equal(case.model.slope, before)


def test_one_factor_serves_other_right_hand_sides():
    case, other = random_case(7), random_case(8)
    slope, jump = other.model.slope, other.model.jump
    model = Quadratic(case.model.hessian, slope, case.model.end, jump, case.model.initial)
    _, expected = schur(Case(case.mesh, case.unknowns, model, case.penalty, case.damping))
    np.testing.assert_allclose(case.factor.reduce(slope, jump).slope, expected, rtol=1e-9, atol=1e-9)


def test_an_indefinite_inner_block_is_refused():
    case = random_case(9)
    model = Quadratic(
        case.model.hessian - 1e3 * np.eye(case.model.hessian.shape[1]),
        case.model.slope,
        case.model.end,
        case.model.jump,
        case.model.initial,
    )
    with pytest.raises(np.linalg.LinAlgError):
        factorise(case.mesh, case.unknowns, model, case.penalty, case.damping)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    states=st.integers(1, 3),
    local=st.integers(0, 4),
    shared=st.integers(0, 3),
)
def test_eliminated_step_solves_the_dense_system(seed, counts, states, local, shared):
    """Unbounded: gradient of the whole quadratic vanishes at the step (shared columns summed over experiments)."""
    case = random_case(seed, tuple(counts), states, local, shared, extra=1)
    hessian = case.factor.hessian + 1e-2 * np.eye(case.unknowns.width)
    free = np.full(case.reduced.slope.shape, np.inf)
    unknowns = solve_box(hessian, case.reduced.slope, case.unknowns.local, -free, free)
    step = np.delete(case.reduced.states(unknowns), case.mesh.first, axis=0)
    matrix, slope, n = whole(case)
    gradient = matrix @ np.concatenate([step.ravel(), unknowns.ravel()]) + slope
    on_unknowns = gradient[n:].reshape(unknowns.shape) + 1e-2 * unknowns
    on_unknowns[:, case.unknowns.local :] = on_unknowns[:, case.unknowns.local :].sum(axis=0)
    size = 1 + np.abs(slope).max() + np.abs(matrix).max() * np.abs(unknowns).max()
    assert max(np.abs(gradient[:n]).max(initial=0.0), np.abs(on_unknowns).max()) < 1e-9 * size


# the bounded step


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
    """A least-squares arrow of low rank with a whiff of damping: slope and matrix come from the same rows."""
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
def test_a_cycling_active_set_still_ends_at_the_minimum(seed, rank, damping, monkeypatch):
    calls, fallback = [], condense._solve_box_downhill
    monkeypatch.setattr(condense, "_solve_box_downhill", lambda *a: (calls.append(1), fallback(*a))[1])
    hessian, slope, local, lower, upper = nearly_singular_box(seed, rank, damping)
    step = solve_box(hessian, slope, local, lower, upper)
    assert calls, "this box was chosen because the active set cycles on it"
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


def test_shared_unknowns_are_listed_once():
    index = unknowns_index(np.ones((3, 4), bool), local=1)
    assert index.tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [0, 2], [0, 3]]
