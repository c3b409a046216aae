"""Condensed solves against dense ones: random experiments, local and shared columns, bounds, missing unknowns."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from picardfit.collocation.arrow import Arrow, arrow_of, invert
from picardfit.collocation.bounded_qp import solve_box
from picardfit.collocation.condensing import Quadratic, factorise
from picardfit.collocation.mesh import Mesh, rule
from picardfit.problem.unknowns import UnknownsColumns, unknowns_index
from properties import Properties

solves = Properties(few=40, many=3000)

LEAST = 1e-12
seeds = st.integers(0, 99_999)
counts = st.lists(st.integers(1, 6), min_size=1, max_size=5)


@st.composite
def widths(draw) -> tuple[int, int]:
    """Local and shared columns, at least one in all."""
    local = draw(st.integers(0, 4))
    return local, draw(st.integers(0 if local else 1, 4))


def random_quadratic(rng, counts, states, local, shared) -> tuple[Mesh, UnknownsColumns, Quadratic]:
    """Data on some segments only; every column may move the initial states, some of them the dynamics."""
    mesh, width = Mesh(rule(2), tuple(np.arange(n + 1.0) for n in counts)), local + shared
    parameters = np.flatnonzero(rng.random(width) < 0.7)
    columns = states + len(parameters)
    rows = rng.standard_normal((len(mesh), 3, columns)) * (rng.random((len(mesh), 3, 1)) < 0.5)
    model = Quadratic(
        hessian=rows.transpose(0, 2, 1) @ rows,
        slope=rng.standard_normal((len(mesh), columns)),
        end=rng.standard_normal((len(mesh.linked), states, columns)),
        jump=rng.standard_normal((len(mesh.linked), states)),
        initial=rng.standard_normal((len(counts), states, width)),
    )
    return mesh, UnknownsColumns(local, width, parameters), model


def whole_gradient(mesh, unknowns, model, penalty, damping, step, states) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of the whole quadratic by inner states (inner, states) and unknowns (experiments, width).

    Written as in the docstring of condensing.py, segment by segment: `step` (experiments, width) of the unknowns,
    `states` (segments, states) of the starts of the segments.
    """
    count = states.shape[1]
    by_state, by_unknowns = np.zeros_like(states), np.zeros_like(step)

    def add(j: int, pull: np.ndarray) -> None:
        by_state[j] += pull[:count]
        by_unknowns[mesh.experiment[j], unknowns.parameters] += pull[count:]

    for j, e in enumerate(mesh.experiment):
        moved = np.append(states[j], step[e, unknowns.parameters])
        add(j, model.slope[j] + model.hessian[j] @ moved)
        if j in mesh.linked:
            k = int(np.flatnonzero(mesh.linked == j)[0])
            gap = penalty * (model.jump[k] + model.end[k] @ moved - states[j + 1])
            add(j, model.end[k].T @ gap)
            by_state[j + 1] -= gap
    for e, first in enumerate(mesh.first):
        by_unknowns[e] += model.initial[e].T @ by_state[first]
    return by_state[mesh.inner] + damping * states[mesh.inner], by_unknowns


@solves.holds(
    seed=seeds,
    counts=counts,
    states=st.integers(1, 3),
    width=widths(),
    tightness=st.sampled_from([0.03, 0.5, 8.0, np.inf]),
)
def test_a_bounded_condensed_step_is_optimal_for_the_whole_quadratic(seed, counts, states, width, tightness):
    rng, (local, shared) = np.random.default_rng(seed), width
    mesh, unknowns, model = random_quadratic(rng, counts, states, local, shared)
    penalty, damping = 10 ** rng.uniform(-2, 2, states), 10 ** rng.uniform(-3, 0, states)
    factor = factorise(mesh, unknowns, model, penalty, damping)
    reduced = factor.reduce(model.slope, model.jump)
    ridge = 10 ** rng.uniform(-3, 0, (len(counts), unknowns.width))
    lower, upper = (side * tightness * rng.uniform(0, 2, reduced.slope.shape) for side in (-1, 1))
    fixed = rng.random(lower.shape) < 0.1
    lower[fixed] = upper[fixed] = 0.01
    for table in (lower, upper, ridge):
        table[:, local:] = table[:1, local:]
    hessian = factor.hessian + ridge[:, None] * np.eye(unknowns.width)
    step = solve_box(hessian, reduced.slope, local, lower, upper)
    moved = reduced.states(step)
    inner, outer = whole_gradient(mesh, unknowns, model, penalty, damping, step, moved)
    outer += ridge * step
    outer[:, local:] = outer[:, local:].sum(axis=0)
    size = (
        1e-8
        * (1 + np.abs(moved).max() + np.abs(step).max())
        * (1 + penalty.max())
        * (1 + np.abs(model.end).max(initial=0.0)) ** 2
    )
    np.testing.assert_allclose(
        moved[mesh.first], (model.initial @ step[..., None])[..., 0], atol=1e-12 + 1e-12 * size
    )
    np.testing.assert_array_equal(step[:, local:], np.broadcast_to(step[:1, local:], step[:, local:].shape))
    assert np.all((step >= lower) & (step <= upper))
    assert np.all(np.abs(inner) < size)
    assert np.all(outer[(step > lower) & ~fixed] < size)
    assert np.all(outer[(step < upper) & ~fixed] > -size)


@solves.holds(seed=seeds, counts=counts, states=st.integers(1, 3), width=widths())
def test_the_condensed_matrix_is_the_schur_complement(seed, counts, states, width):
    """The whole matrix by its columns (the gradient is linear), reduced without structure."""
    rng, (local, shared) = np.random.default_rng(seed), width
    mesh, unknowns, model = random_quadratic(rng, counts, states, local, shared)
    penalty, damping = 10 ** rng.uniform(-2, 2, states), 10 ** rng.uniform(-2, 0, states)
    inner = len(mesh.inner) * states
    size = inner + len(counts) * unknowns.width

    def gradient(z: np.ndarray) -> np.ndarray:
        step, moved = z[inner:].reshape(len(counts), -1), np.empty((len(mesh), states))
        moved[mesh.inner] = z[:inner].reshape(-1, states)
        moved[mesh.first] = (model.initial @ step[..., None])[..., 0]
        parts = whole_gradient(mesh, unknowns, model, penalty, damping, step, moved)
        return np.concatenate([part.ravel() for part in parts])

    slope = gradient(np.zeros(size))
    matrix = np.stack([gradient(unit) - slope for unit in np.eye(size)], axis=1)
    solved = np.linalg.solve(matrix[:inner, :inner], np.column_stack([matrix[:inner, inner:], slope[:inner]]))
    dense = matrix[inner:, inner:] - matrix[inner:, :inner] @ solved[:, :-1]
    factor = factorise(mesh, unknowns, model, penalty, damping)
    blocks = dense.reshape(len(counts), unknowns.width, len(counts), unknowns.width)
    expected = blocks[np.arange(len(counts)), :, np.arange(len(counts))]
    scale = 1 + np.abs(matrix).max() + np.abs(solved).max(initial=0.0) * np.abs(matrix).max()
    np.testing.assert_allclose(factor.hessian, expected, atol=1e-11 * scale)
    down = (slope[inner:] - matrix[inner:, :inner] @ solved[:, -1]).reshape(len(counts), -1)
    np.testing.assert_allclose(factor.reduce(model.slope, model.jump).slope, down, atol=1e-11 * scale)


def random_arrow(seed: int, experiments: int, local: int, shared: int, lost: str) -> tuple[Arrow, np.ndarray]:
    """An arrow in wild units, with some unknowns missing, and the same matrix added up without structure."""
    rng, width = np.random.default_rng(seed), local + shared
    units = 10.0 ** rng.uniform(-3, 3, width)
    rows = rng.standard_normal((experiments, width + 4, width)) * units
    one, other = rng.integers(width, size=2)
    if lost == "a column":
        rows[..., one] = 0.0
    if lost == "a pair" and one != other:
        rows[..., one] = rows[..., other] * units[one] / units[other]
    chosen = rng.random((experiments, width)) < 0.8
    chosen[:, local:] = chosen[0, local:]
    chosen[0, -1 if shared else 0] = True
    if shared:
        chosen[:, -1] = True
    hessian, index = rows.transpose(0, 2, 1) @ rows, unknowns_index(chosen, local)
    matrix = np.zeros((len(index), len(index)))
    for e in range(experiments):
        mine = np.flatnonzero((index[:, 1] >= local) | (index[:, 0] == e))
        matrix[np.ix_(mine, mine)] += hessian[e][np.ix_(index[mine, 1], index[mine, 1])]
    return arrow_of(hessian, local, chosen), matrix


def unit_scale(matrix: np.ndarray) -> np.ndarray:
    diagonal = np.diag(matrix)
    return 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


arrows = {"seed": seeds, "experiments": st.integers(1, 6), "width": widths()}


@solves.holds(**arrows)
def test_arrows_are_solved_and_multiplied_like_whole_matrices(seed, experiments, width):
    arrow, matrix = random_arrow(seed, experiments, *width, "nothing")
    np.testing.assert_allclose(arrow.dense(), matrix, rtol=1e-12)
    scale, right = unit_scale(matrix), np.random.default_rng(seed).standard_normal((len(matrix), 2))
    unit = matrix * scale * scale[:, None]
    np.testing.assert_allclose(arrow.scaled(scale) @ right[:, 0], unit @ right[:, 0], atol=1e-12)
    ridge = np.full(len(matrix), 1e-3)
    expected = np.linalg.solve(unit + np.diag(ridge), right)
    np.testing.assert_allclose(
        arrow.scaled(scale).raised(ridge).solve(right), expected, atol=1e-8 * np.abs(expected).max()
    )


@solves.holds(**arrows, lost=st.sampled_from(["nothing", "a column", "a pair"]))
def test_inverses_of_arrows_are_those_of_whole_matrices(seed, experiments, width, lost):
    arrow, matrix = random_arrow(seed, experiments, *width, lost)
    scale = unit_scale(matrix)
    values, vectors = np.linalg.eigh(matrix * scale * scale[:, None])
    weak = values <= LEAST * values.max()
    expected = (vectors[:, ~weak] / values[~weak]) @ vectors[:, ~weak].T
    found = invert(arrow, LEAST)
    block = found.block(np.arange(len(matrix))) / np.outer(scale, scale)
    small = 1e-10 * (1 + np.abs(expected).max()) / max(values[~weak].min(initial=1.0), 1e-6)
    np.testing.assert_allclose(block, expected, atol=small)
    np.testing.assert_allclose(found.diagonal() / scale**2, np.diag(expected), atol=small)
    np.testing.assert_array_equal(found.lost(), (np.abs(vectors[:, weak]) > 1e-6).any(axis=1))


test_many_solves = solves.many()
