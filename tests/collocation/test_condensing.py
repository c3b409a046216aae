"""The banded elimination against one dense matrix, and the recursions along segments against written-out products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from picardfit.collocation.bounded_qp import solve_box
from picardfit.collocation.condensing import Quadratic, backward, factorise, forward
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
    "many states": {"counts": (4, 1, 3), "states": 13, "local": 4},
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


def test_shared_unknowns_are_listed_once():
    index = unknowns_index(np.ones((3, 4), bool), local=1)
    assert index.tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [0, 2], [0, 3]]


def mesh_of(*counts: int) -> Mesh:
    return Mesh(rule(3), tuple(np.linspace(0, 1, count + 1) for count in counts))


meshes = pytest.mark.parametrize("counts", [(1,), (5,), (4, 1, 6), (2, 2)])


@meshes
def test_forward_is_the_product_of_the_ends(counts):
    rng, mesh, states, rows = np.random.default_rng(1), mesh_of(*counts), 2, 3
    ends = rng.standard_normal((len(mesh.linked), states, rows))
    added = rng.standard_normal((len(mesh.linked), states, 4))
    columns = rng.standard_normal((len(mesh), rows, 4))
    expected = columns.copy()
    for k, segment in enumerate(mesh.linked):
        expected[segment + 1, :states] = ends[k] @ expected[segment] + added[k]
    np.testing.assert_allclose(forward(mesh, ends, columns.copy(), added), expected, rtol=1e-12)
    plain = forward(mesh, ends, columns.copy())
    for k, segment in enumerate(mesh.linked):
        np.testing.assert_allclose(plain[segment + 1, :states], ends[k] @ plain[segment], rtol=1e-12)


@meshes
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_backward_satisfies_its_equation_at_the_chosen_knots_and_keeps_the_others(counts, share):
    rng, mesh, states = np.random.default_rng(2), mesh_of(*counts), 2
    knots = len(mesh.linked)
    ends, values = rng.standard_normal((knots, states, states)), rng.standard_normal((knots, states))
    slope, chosen = rng.standard_normal((len(mesh), states)), rng.uniform(size=knots) < share
    found = backward(mesh, ends, slope, values, chosen)
    np.testing.assert_array_equal(found[~chosen], values[~chosen])
    for k in np.flatnonzero(chosen):
        after = mesh.linked[k] + 1
        expected = slope[after].copy()
        if after in mesh.linked:
            expected += ends[k + 1].T @ found[k + 1]
        np.testing.assert_allclose(found[k], expected, rtol=1e-12)


@meshes
def test_backward_is_the_adjoint_of_forward(counts):
    """<g, d> over all segments, d driven by c, is <y, c> at the knots with y driven by g."""
    rng, mesh, states = np.random.default_rng(3), mesh_of(*counts), 3
    knots = len(mesh.linked)
    ends, added = rng.standard_normal((knots, states, states)), rng.standard_normal((knots, states, 1))
    slope = rng.standard_normal((len(mesh), states))
    moved = forward(mesh, ends, np.zeros((len(mesh), states, 1)), added)
    adjoint = backward(mesh, ends, slope, np.zeros((knots, states)), np.ones(knots, bool))
    assert np.sum(slope * moved[..., 0]) == pytest.approx(
        np.sum(adjoint * added[..., 0]), rel=1e-10, abs=1e-12
    )
