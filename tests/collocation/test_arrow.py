"""Arrows and their inverses against the same matrices without structure."""

from __future__ import annotations

import numpy as np
import pytest

from arrows import whole
from picardfit.collocation.arrow import Arrow, arrow_of, invert
from picardfit.problem.unknowns import unknowns_index

LOCAL, SHARED = 3, 4
LEAST = 1e-12
LOST = {
    "nothing": 0,
    "one shared": 1,
    "one local and a pair of another experiment": 2,
    "a local one of each experiment with a shared one": 1,
    "all kinds": 3,
}


def hessians(experiments: int, kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(experiments, width, width) from random rows in wild units, and which unknowns there are."""
    rng = np.random.default_rng(seed)
    width = LOCAL + SHARED
    rows = rng.standard_normal((experiments, 12, width)) * 10.0 ** rng.uniform(-3, 3, width)
    if kind == "one shared":
        rows[..., LOCAL] = 0
    if kind == "one local and a pair of another experiment":
        rows[0, :, 0], rows[1, :, 1] = 0, 2 * rows[1, :, 0]
    if kind in ("a local one of each experiment with a shared one", "all kinds"):
        rows[..., 0] = 3 * rows[..., LOCAL]
    if kind == "all kinds":
        rows[..., LOCAL + 1] = rows[..., LOCAL + 2]
        rows[2, :, 1] = 0
    chosen = np.ones((experiments, width), bool)
    chosen[0, 1] = chosen[:, -1] = False
    return rows.transpose(0, 2, 1) @ rows, chosen


def both(experiments: int, kind: str) -> tuple[Arrow, np.ndarray, np.ndarray]:
    """The arrow, the same matrix added up experiment by experiment, and the places of its unknowns."""
    hessian, chosen = hessians(experiments, kind)
    index = unknowns_index(chosen, LOCAL)
    matrix = np.zeros((len(index), len(index)))
    for e in range(experiments):
        mine = np.flatnonzero((index[:, 1] >= LOCAL) | (index[:, 0] == e))
        columns = index[mine, 1]
        matrix[np.ix_(mine, mine)] += hessian[e][np.ix_(columns, columns)]
    return arrow_of(hessian, LOCAL, chosen), matrix, index


def spectrum(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit scale, eigenvectors, and eigenvalues with 0 for those that count as none."""
    diagonal = np.diag(matrix)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(matrix * scale * scale[:, None])
    return scale, vectors, np.where(values <= LEAST * values.max(), 0.0, values)


def pseudo_inverse(matrix: np.ndarray) -> np.ndarray:
    scale, vectors, values = spectrum(matrix)
    inverse = np.where(values > 0, 1 / np.where(values > 0, values, 1.0), 0.0)
    return scale * scale[:, None] * ((vectors * inverse) @ vectors.T)


EVERY = [(e, kind) for e in (5, 30) for kind in LOST] + [(1, "nothing"), (1, "one shared")]


@pytest.fixture(params=EVERY, ids=[f"{e} experiments, {kind}" for e, kind in EVERY])
def case(request):
    return both(*request.param), LOST[request.param[1]]


def test_the_arrow_is_the_matrix(case):
    (arrow, matrix, _), _ = case
    np.testing.assert_allclose(arrow.dense(), matrix, rtol=1e-13)
    np.testing.assert_allclose(arrow.diagonal(), np.diag(matrix), rtol=1e-13)
    assert len(arrow) == len(matrix)


def test_products(case):
    (arrow, matrix, _), _ = case
    vector = np.random.default_rng(1).standard_normal(len(matrix))
    size = np.abs(matrix) @ np.abs(vector)
    assert np.all(np.abs(arrow @ vector - matrix @ vector) <= 1e-13 * size)
    assert np.all(np.abs(arrow.absolute() @ np.abs(vector) - size) <= 1e-13 * size)


def test_parts_and_changes(case):
    (arrow, matrix, _), _ = case
    chosen = np.arange(len(matrix)) % 3 > 0
    part = matrix[np.ix_(chosen, chosen)]
    np.testing.assert_allclose(arrow.restricted(chosen).dense(), part, rtol=1e-13)
    numbers = np.arange(1.0, len(matrix) + 1)
    np.testing.assert_allclose(arrow.scaled(numbers).dense(), matrix * numbers * numbers[:, None], rtol=1e-13)
    np.testing.assert_allclose(arrow.raised(numbers).dense(), matrix + np.diag(numbers), rtol=1e-13)


def test_solutions(case):
    (arrow, matrix, _), _ = case
    scale, _, _ = spectrum(matrix)
    right = np.random.default_rng(2).standard_normal((len(matrix), 2))
    unit, ridge = arrow.scaled(scale), np.full(len(matrix), 1e-3)
    expected = np.linalg.solve(unit.dense() + 1e-3 * np.eye(len(matrix)), right)
    np.testing.assert_allclose(unit.raised(ridge).solve(right), expected, rtol=1e-8)


def test_a_matrix_that_is_not_positive_definite_has_no_solution():
    arrow, matrix, _ = both(5, "nothing")
    with pytest.raises(np.linalg.LinAlgError):
        arrow.raised(-2 * np.diag(matrix)).solve(np.zeros((len(matrix), 1)))


def test_the_inverse_is_that_of_the_whole_matrix(case):
    (arrow, matrix, _), _ = case
    scale, _, _ = spectrum(matrix)
    found, expected = invert(arrow, LEAST), pseudo_inverse(matrix)
    unit = np.outer(scale, scale)
    block = found.block(np.arange(len(matrix)))
    np.testing.assert_allclose(block / unit, expected / unit, atol=1e-12 * (expected / unit).max())
    np.testing.assert_allclose(
        found.diagonal() / scale**2, np.diag(expected) / scale**2, atol=1e-12 * (expected / unit).max()
    )
    vector = np.random.default_rng(5).standard_normal(len(matrix)) / scale
    along = (expected / unit) @ (vector * scale)
    np.testing.assert_allclose(found.times(vector) / scale, along, atol=1e-11 * (expected / unit).max())
    some = np.array([len(matrix) - 1, 0, 3])
    np.testing.assert_allclose(found.block(some), block[np.ix_(some, some)], rtol=1e-9, atol=1e-14)


def test_what_is_lost_is_that_of_the_whole_matrix(case):
    (arrow, matrix, _), lost = case
    _, vectors, values = spectrum(matrix)
    found = invert(arrow, LEAST)
    assert np.sum(values == 0) == lost
    assert found.null.shape[1] + np.sum(found.own_null**2) == pytest.approx(lost)
    np.testing.assert_array_equal(found.lost(), (np.abs(vectors[:, values == 0]) > 1e-6).any(axis=1))


def test_energies_are_quadratic_forms(case):
    (arrow, matrix, index), _ = case
    rng = np.random.default_rng(3)
    experiment = rng.integers(0, len(arrow.there), 6)
    rows = rng.standard_normal((6, LOCAL + SHARED))
    mine = (index[:, 1] >= LOCAL) | (index[:, 0] == experiment[:, None])
    vectors = np.where(mine, rows[:, index[:, 1]], 0.0)
    found, expected = invert(arrow, LEAST), pseudo_inverse(matrix)
    wanted = np.einsum("qi,ij,qj->q", vectors, expected, vectors)
    energy, lost = found.energies(experiment, rows)
    np.testing.assert_allclose(energy, wanted, rtol=1e-8)
    np.testing.assert_allclose([found.energy(v) for v in vectors], wanted, rtol=1e-8)
    scale, directions, values = spectrum(matrix)
    inside = (vectors * scale) @ directions[:, values == 0]
    np.testing.assert_array_equal(lost, (np.abs(inside) > 1e-5).any(axis=1))


def test_a_quantity_beside_what_is_lost_is_determined():
    """The sum of unknowns of which only the sum is felt: the lost direction does not touch it."""
    rows = np.random.default_rng(4).standard_normal((3, 9, 3))
    rows[..., 0] = rows[..., 2]
    arrow = arrow_of(rows.transpose(0, 2, 1) @ rows, 2, np.ones((3, 3), bool))
    found = invert(arrow, LEAST)
    _, lost = found.energies(np.array([0, 0]), np.array([[1.0, 0, 1.0], [1.0, 0, 0]]))
    assert lost.tolist() == [False, True]


def test_a_matrix_without_structure():
    rows = np.random.default_rng(5).standard_normal((9, 4))
    matrix = rows.T @ rows
    np.testing.assert_allclose(invert(whole(matrix), LEAST).block(np.arange(4)), np.linalg.inv(matrix))
    right = np.ones((4, 1))
    np.testing.assert_allclose(whole(matrix).solve(right), np.linalg.solve(matrix, right))


# curvature that is observed


def tilted(values) -> tuple[Arrow, np.ndarray]:
    """A matrix with these eigenvalues and a unit diagonal up to a rotation, and its eigenvectors."""
    vectors = np.linalg.qr(np.random.default_rng(4).standard_normal((len(values), len(values))))[0]
    matrix = (vectors * values) @ vectors.T
    scale = 1 / np.sqrt(np.diag(matrix))
    return whole(matrix * scale * scale[:, None]), vectors


def test_agreeing_observations_replace_curvature_that_is_next_to_none():
    arrow, _ = tilted([1e-15, 1e-14, 0.5, 1.0, 2.0])
    seen = np.array([[2e-3, 1e-3], [1e-3, 2e-3]])
    asked = []

    def observe(directions):
        asked.append(directions)
        return seen, 1.1 * seen

    found = invert(arrow, LEAST, observe)
    (directions,) = asked
    expected = pseudo_inverse(arrow.dense()) + directions @ np.linalg.inv(0.9667 * seen) @ directions.T
    assert not found.lost().any()
    np.testing.assert_allclose(found.block(np.arange(5)), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        (np.diag([1e-3, 2e-3]), np.diag([4e-3, 8e-3])),
        (-np.eye(2), -np.eye(2)),
        (np.full((2, 2), np.nan),) * 2,
    ],
    ids=["none", "grows with the step", "negative", "not finite"],
)
def test_other_observations_do_not_count(answer):
    arrow, _ = tilted([1e-15, 1e-14, 0.5, 1.0, 2.0])
    found, plain = invert(arrow, LEAST, lambda _: answer), invert(arrow, LEAST)
    assert found.null.shape[1] == 2
    np.testing.assert_array_equal(found.lost(), plain.lost())
    np.testing.assert_allclose(found.diagonal(), plain.diagonal(), rtol=1e-9)


def test_nothing_is_asked_where_all_is_determined():
    def refuse(_):
        raise AssertionError

    invert(tilted([0.1, 0.5, 1.0])[0], LEAST, refuse)


def test_a_small_part_in_a_direction_that_bends_a_little_is_none():
    """The part of the others in a direction between two values that fall together shrinks with its curvature."""
    for apart in (1e-6, 1e-7):
        rows = np.array([[1.0, 1.0 + apart, 0.3], [0.5, 0.5, 1.0], [0.0, 20 * apart, 0.0]])
        assert invert(whole(rows.T @ rows), 1e-9).lost().tolist() == [True, True, False]
