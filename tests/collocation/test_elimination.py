"""Elimination state by state against the inverse of the whole Newton matrix; which models are eliminated."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.elimination import Plan, Sparsity, inverted_in_order, plan_of, planned, sources
from picardfit.collocation.linearisation import linearise
from picardfit.collocation.mesh import Mesh, rule
from picardfit.collocation.picard import Field, exact_multipliers, newton_matrix
from picardfit.collocation.point import point_at

SEGMENTS = Mesh(rule(3), (np.array([0.0, 0.4, 1.0, 1.1]),))


def chain(states: int, closed: bool = False) -> np.ndarray:
    """The pattern of states that depend on themselves and on the one before; the first on the last if it is closed."""
    pattern = np.eye(states, dtype=bool) | np.eye(states, k=-1, dtype=bool)
    pattern[0, -1] |= closed
    return pattern


def scattered(states: int, share: float) -> np.ndarray:
    return np.random.default_rng(4).random((states, states)) < share


PATTERNS = {
    "cascade": chain(7),
    "ring": chain(7, closed=True),
    "all states feed one": chain(6) | (np.arange(6) == 2)[:, None],
    "one state feeds all": chain(6) | (np.arange(6) == 2),
    "scattered": scattered(9, 0.2),
    "dense": scattered(5, 1.1),
    "uncoupled, without a diagonal": np.zeros((4, 4), bool),
}
patterns = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)


def derivatives(pattern: np.ndarray) -> np.ndarray:
    """Random f_x (segments, nodes, states, states) with this pattern."""
    nodes = len(SEGMENTS.rule.nodes)
    return np.random.default_rng(1).standard_normal((len(SEGMENTS), nodes, *pattern.shape)) * pattern


def entries_of(plan: Plan, wrt_x: np.ndarray) -> np.ndarray:
    """(entries, segments, nodes)."""
    return wrt_x[:, :, plan.entries[:, 0], plan.entries[:, 1]].transpose(2, 0, 1)


@patterns
@pytest.mark.parametrize("columns", [1, 4])
def test_solution_is_that_of_the_whole_matrix(pattern, columns):
    plan, wrt_x = planned(pattern), derivatives(pattern)
    matrix = newton_matrix(SEGMENTS, wrt_x)
    right = np.random.default_rng(2).standard_normal((*matrix.shape[:2], columns))
    eliminated = plan.eliminate(SEGMENTS.integral, entries_of(plan, wrt_x))
    np.testing.assert_allclose(
        plan.solve(eliminated, right.copy()), np.linalg.solve(matrix, right), atol=1e-12, rtol=1e-10
    )
    transposed = np.linalg.solve(matrix.transpose(0, 2, 1), right)
    np.testing.assert_allclose(
        plan.solve_transposed(eliminated, right.copy()), transposed, atol=1e-12, rtol=1e-10
    )


@patterns
def test_multipliers_are_the_solution_for_sparse_right_hand_sides(pattern):
    plan, wrt_x, rng = planned(pattern), derivatives(pattern), np.random.default_rng(5)
    entries = np.argwhere(rng.random((len(pattern), 6)) < 0.3)  # a state and a parameter
    values = rng.standard_normal((*wrt_x.shape[:2], len(entries)))
    right = np.zeros((*wrt_x.shape[:3], len(pattern) + 6))
    right[..., : len(pattern)] = np.eye(len(pattern))
    right[:, :, entries[:, 0], len(pattern) + entries[:, 1]] = values
    given = sources(entries, len(pattern), values)
    flat = right.reshape(len(right), -1, right.shape[3])
    np.testing.assert_array_equal(given.dense(np.arange(len(right)), right.shape[3]), flat)
    np.testing.assert_allclose(given.total(np.full((len(right), right.shape[3]), 2.0)), 2 * right.sum(axis=3))
    eliminated = plan.eliminate(SEGMENTS.integral, entries_of(plan, wrt_x))
    found = plan.multipliers(eliminated, given, np.full_like(right, np.nan))
    exact = np.linalg.solve(newton_matrix(SEGMENTS, wrt_x), flat)
    np.testing.assert_allclose(found.reshape(flat.shape), exact, atol=1e-12, rtol=1e-10)


@patterns
def test_entries_stand_for_the_whole_derivative(pattern):
    plan, wrt_x = planned(pattern), derivatives(pattern)
    vector = np.random.default_rng(6).standard_normal(wrt_x.shape[:3])
    entries = entries_of(plan, wrt_x)
    np.testing.assert_array_equal(plan.dense(entries), wrt_x)
    np.testing.assert_allclose(plan.times(entries, vector), (wrt_x @ vector[..., None])[..., 0], atol=1e-14)


@pytest.mark.parametrize("each", [1, 3, 100])
def test_inverses_in_the_order_of_the_rows(each):
    matrix = np.eye(5) + 0.2 * np.random.default_rng(7).standard_normal((10, 5, 5))
    matrix[4, 2, 2] = np.inf
    found, others = inverted_in_order(matrix.transpose(1, 2, 0), each).transpose(2, 0, 1), np.arange(10) != 4
    np.testing.assert_allclose(found[others], np.linalg.inv(matrix[others]), rtol=1e-10, atol=1e-12)
    assert not np.isfinite(found[4]).all()


def test_elimination_of_a_cascade_fills_nothing_in():
    plan = planned(chain(30))
    assert plan.blocks == chain(30).sum()
    assert not len(plan.core)


def test_blocks_of_a_ring_grow_like_its_states():
    counts = np.array([planned(chain(n, closed=True)).blocks for n in (20, 40, 80)])
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def test_a_matrix_that_is_not_finite_spoils_no_other_segment():
    plan, wrt_x = planned(chain(7)), derivatives(chain(7))
    wrt_x[1, 0, 3, 3] = np.inf
    right = np.ones((len(SEGMENTS), wrt_x.shape[1] * 7, 1))
    with np.errstate(invalid="ignore"):
        solved = plan.solve(plan.eliminate(SEGMENTS.integral, entries_of(plan, wrt_x)), right)
    assert np.isnan(solved[1]).any()
    assert np.isfinite(solved[[0, 2]]).all()


def cascade(states: int, pull: str = "") -> pf.Model:
    """Each state is produced from the one before; `pull` is added to the first equation."""
    lines = [f"x0' = 1 - a*x0 {pull}"]
    lines += [f"x{i}' = b*x{i - 1}/(1 + x{i}) - a*x{i}" for i in range(1, states)]
    return pf.Model("; ".join(lines))


def everyone(states: int) -> pf.Model:
    """Each state depends on all."""
    total = " + ".join(f"x{i}" for i in range(states))
    return pf.Model("; ".join(f"x{i}' = a*sin({total}) - b*x{i}" for i in range(states)))


@pytest.mark.parametrize(
    ("model", "sparsity", "eliminated"),
    [
        (cascade(12), Sparsity(), True),
        (cascade(4), Sparsity(), False),
        (cascade(4), Sparsity(fewest=4), True),
        (everyone(12), Sparsity(), False),
        (everyone(12), Sparsity(largest_core=1.0), True),
    ],
)
def test_large_sparse_models_are_eliminated(model, sparsity, eliminated):
    assert (plan_of(model.rhs, sparsity) is not None) == eliminated


def derivatives_of(model: pf.Model, knots: list[float], nodes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """S by `linearise`, and S by the whole matrices, along a random path."""
    times, rng = np.linspace(0, knots[-1], 5), np.random.default_rng(3)
    data = pf.Experiment(times, {name: np.ones(len(times)) for name in model.states})
    problem = pf.Problem(model, data, dict.fromkeys(model.parameters, (0.1, 5.0)))
    system = Discretisation(problem, Mesh(rule(nodes), (np.array(knots),)))
    states = rng.uniform(0.5, 1, (len(system.mesh), len(model.states)))
    path = rng.uniform(0.5, 1, (len(system.mesh), nodes, len(model.states)))
    unknowns = np.full((1, problem.layout.width), 1.0)
    point = point_at(system, unknowns, states, path)
    assert system.field.plan is not None
    whole = Field(problem.rhs, system.mesh, system.field.inputs)
    _, wrt_x, wrt_p = whole.linearise(path, system.spread(point.params))
    exact = exact_multipliers(whole, whole.inverses(wrt_x), wrt_p[..., problem.layout.free_columns])
    return linearise(system, point).multipliers, exact


def test_derivatives_of_a_large_model_are_those_of_the_whole_matrix():
    found, exact = derivatives_of(cascade(12), [0, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)


def test_derivatives_are_exact_where_a_pivot_is_singular():
    """x0' = r (x0 - x11): I - h A r is singular for 1/r = h times the real eigenvalue of A; the whole matrix is not."""
    values = np.linalg.eigvals(rule(3).weights)
    rate = 1 / float(values[np.abs(values.imag).argmin()].real)
    model = cascade(12, pull=f"+ a*x0 + {rate!r}*(x0 - x11)")
    found, exact = derivatives_of(model, [0.0, 1.0], nodes=3)
    largest = np.abs(
        exact
    ).max()  # of order 1e11, as is the condition number: kernels of BLAS differ by 1e-5 of it
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4 * largest)
