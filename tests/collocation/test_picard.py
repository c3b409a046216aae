"""The Picard operator: orders of convergence in h and in n, contraction, derivatives, exact multipliers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import factorial

import numpy as np
import pytest

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Mesh, Nodes, rule, uniform_knots
from picardfit.collocation.picard import (
    Contraction,
    Field,
    FixedPoint,
    Newton,
    apply,
    contract,
    end_states,
    exact_multipliers,
    integrate,
    newton,
    newton_matrix,
    residual,
    tails,
)
from picardfit.model.inputs import Table
from picardfit.model.model import Model
from picardfit.problem.experiment import Experiment
from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class Case:
    """An equation with a closed-form solution map and its derivatives."""

    text: str
    x: float
    p: tuple[float, ...]
    solution: object  # (t, x, *p) -> state
    slopes: object = None  # (t, x, *p) -> derivatives by x and p


def _logistic(t, x, r):
    return x / (x + (1 - x) * np.exp(-r * t))


def _logistic_slopes(t, x, r):
    decay = np.exp(-r * t)
    below = (x + (1 - x) * decay) ** 2
    return [decay / below, x * (1 - x) * t * decay / below]


def _riccati(t, x, c):
    """All derivatives are positive, so no leading error term vanishes by accident."""
    return np.sqrt(c) * np.tan(np.sqrt(c) * t + np.arctan(x / np.sqrt(c)))


CASES = {
    "linear": Case(
        "x' = -a*x + b",
        2.0,
        (1.3, 0.7),
        lambda t, x, a, b: b / a + (x - b / a) * np.exp(-a * t),
        lambda t, x, a, b: [
            np.exp(-a * t),
            -b / a**2 * (1 - np.exp(-a * t)) - (x - b / a) * t * np.exp(-a * t),
            (1 - np.exp(-a * t)) / a,
        ],
    ),
    "logistic": Case("x' = r*x*(1 - x)", 0.4, (1.8,), _logistic, _logistic_slopes),
    "riccati": Case("x' = c + x**2", 0.2, (0.3,), _riccati),
}
every_case = pytest.mark.parametrize("name", CASES)


@cache
def model_of(text: str) -> Model:
    return Model(text)


def field_of(text: str, knots, count=5, family=Nodes.RADAU) -> Field:
    mesh = Mesh(rule(count, family), (np.asarray(knots, float),))
    return Field(model_of(text).rhs, mesh, np.zeros((len(mesh), count, 0)))


def solve(field: Field, x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The fixed point u = P u by Newton's contraction from the constant path."""
    path = np.repeat(x[:, None, :], len(field.mesh.rule.nodes), axis=1)
    return newton(equation(field, x, params), path, 0.0, Newton(steps=12, fresh=True)).path


def equation(field: Field, x: np.ndarray, params: np.ndarray) -> FixedPoint:
    return FixedPoint(field, x, params, np.ones(x.shape[1]))


def iterate(field: Field, x: np.ndarray, path: np.ndarray, params: np.ndarray, order: int) -> np.ndarray:
    """The n-th Picard iterate P^n u at the nodes."""
    for _ in range(order):
        path = apply(field.mesh, x, field.slopes(path, params))
    return path


def iterate_with_derivatives(field: Field, x, path, params, order: int):
    """P^n u and its derivative S_n by the recursion S <- [I 0] + h A (f_x S + f_p), S_0 = 0."""
    mesh, states = field.mesh, x.shape[-1]
    derivative = np.zeros((*path.shape, states + params.shape[-1]))
    for _ in range(order):
        slopes, wrt_x, wrt_p = field.linearise(path, params)
        moved = wrt_x @ derivative
        moved[..., states:] += wrt_p
        path = apply(mesh, x, slopes)
        derivative = integrate(mesh, moved)
        derivative[..., :states] += np.eye(states)
    return path, derivative


def end_error(case: Case, knots: np.ndarray, count: int, family: Nodes = Nodes.RADAU) -> float:
    """Error at the last knot when every segment starts where the one before ended."""
    x, params = np.array([[case.x]]), np.array([[case.p]])
    for start, stop in pairwise(knots):
        field = field_of(case.text, [start, stop], count, family)
        x = end_states(field.mesh, x, solve(field, x, params))
    return abs(x[0, 0] - case.solution(knots[-1], case.x, *case.p))


VAN_DER_POL = "x' = a*y\ny' = -a*x + b*(1 - x**2)*y"


def van_der_pol(segments=3, length=0.4, count=4, family=Nodes.RADAU):
    """Field, start states, a path off the solution and parameters that differ from segment to segment."""
    field = field_of(VAN_DER_POL, np.arange(segments + 1) * length, count, family)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(segments, 2))
    path = x[:, None, :] + 0.3 * rng.normal(size=(segments, count, 2))
    return field, x, path, 1 + 0.2 * rng.normal(size=(segments, 1, 2))


# order in h

ORDERS = {
    Nodes.RADAU: lambda count: 2 * count - 1,
    Nodes.LOBATTO: lambda count: 2 * count - 2,
    Nodes.CHEBYSHEV: lambda count: count + count % 2,
}
COUNTS = {Nodes.RADAU: (1, 2, 3), Nodes.LOBATTO: (2, 3, 4), Nodes.CHEBYSHEV: (2, 3, 4)}


@every_case
@pytest.mark.parametrize("family, count", [(family, count) for family in Nodes for count in COUNTS[family]])
def test_order_of_convergence_in_h(name, family, count):
    segments = {1: 16, 2: 6}.get(count, 4)
    knots = (np.linspace(0, 1, k + 1) for k in (segments, 2 * segments))
    coarse, fine = (end_error(CASES[name], k, count, family) for k in knots)
    assert np.log2(coarse / fine) == pytest.approx(ORDERS[family](count), abs=0.25)


@every_case
@pytest.mark.parametrize("family", list(Nodes))
def test_many_nodes_reach_the_solution(name, family):
    assert end_error(CASES[name], np.array([0.0, 1.0]), 14, family) < 1e-10


def test_segments_of_unequal_length_reach_the_solution():
    assert end_error(CASES["riccati"], uniform_knots((0, 1.2), 0.4, (0.05, 1.1)), 6) < 1e-11


@pytest.mark.parametrize("family", list(Nodes))
def test_solution_between_the_nodes(family):
    """(P u)(t) = x + h sum w(t) f(u) holds at any time, not only at nodes."""
    case = CASES["logistic"]
    field = field_of(case.text, [0, 1.0], 12, family)
    x, params = np.array([[case.x]]), np.array([[case.p]])
    slopes = field.slopes(solve(field, x, params), params)[0]
    times = np.linspace(0, 1, 9)
    got = case.x + field.mesh.rule.integrals(times) @ slopes[:, 0]
    np.testing.assert_allclose(got, case.solution(times, case.x, *case.p), atol=1e-9)


@pytest.mark.parametrize("family", Nodes)
def test_end_of_a_contracted_path_is_the_integral_of_f(family):
    case = CASES["logistic"]
    field = field_of(case.text, [0, 0.4, 1.0], 6, family)
    x, params = np.array([[case.x], [0.5]]), np.array([[case.p]])
    path = solve(field, x, params)
    integral = x + field.mesh.length[:, None] * (field.mesh.rule.end @ field.slopes(path, params))
    np.testing.assert_allclose(end_states(field.mesh, x, path), integral, atol=1e-12)


# order in n


@pytest.mark.parametrize("order", [0, 1, 2, 3, 5])
def test_iterates_of_a_linear_equation_are_taylor_polynomials(order):
    """x' = -a x, u_0 = x: P^n u_0 = x sum_{j <= n} (-a t)^j / j!."""
    field = field_of("x' = -a*x", [0, 0.8], 6)
    path = iterate(field, np.array([[2.0]]), np.full((1, 6, 1), 2.0), np.array([[[1.5]]]), order)
    times = field.mesh.node_times[0]
    exact = 2 * sum((-1.5 * times) ** j / factorial(j) for j in range(order + 1))
    np.testing.assert_allclose(path[0, :, 0], exact, atol=1e-13)


@every_case
@pytest.mark.parametrize("order", [1, 2, 4, 8])
def test_iterates_converge_like_the_factorial(name, order):
    """|P^n u - u*| <= (h K)^n / n! |u - u*| in the largest norm, with K the largest |f_x| on the way."""
    case, h = CASES[name], 1.2
    field = field_of(case.text, [0, h], 16)
    x, params = np.array([[case.x]]), np.array([[case.p]])
    constant = np.full((1, 16, 1), case.x)
    target = solve(field, x, params)
    reached = np.linspace(min(case.x, target.min()), max(case.x, target.max()) + 0.5, 200)[:, None]
    _, wrt_x, _ = model_of(case.text).rhs.linearise(0.0, reached, np.array(case.p), np.zeros(0))
    bound = (h * np.abs(wrt_x).max()) ** order / factorial(order) * np.abs(constant - target).max()
    assert np.abs(iterate(field, x, constant, params, order) - target).max() <= bound * (1 + 1e-9) + 1e-12


def test_iterates_converge_even_where_one_step_expands():
    """h K = 4: the first iterates move away, the factorial wins in the end."""
    field = field_of("x' = -a*x", [0, 4.0], 24)
    x, params, constant = np.array([[1.0]]), np.array([[[1.0]]]), np.ones((1, 24, 1))
    target = np.exp(-field.mesh.node_times[0])
    errors = [np.abs(iterate(field, x, constant, params, n)[0, :, 0] - target).max() for n in (1, 2, 40)]
    assert errors[0] < errors[1]
    assert errors[2] < 1e-9


# contraction


@pytest.mark.parametrize("h", [0.1, 0.5, 2.0])
def test_contraction_factor_of_a_linear_equation_is_h_times_its_constant(h):
    """Constant difference of two paths: |P u - P v| = h K |u - v|, attained at the end."""
    field, params = field_of("x' = -a*x", [0, h]), np.array([[[1.7]]])
    paths = [np.full((1, 5, 1), c) for c in (1.0, 1.5)]
    one, other = (apply(field.mesh, np.zeros((1, 1)), field.slopes(path, params)) for path in paths)
    assert np.abs(one - other).max() / 0.5 == pytest.approx(1.7 * h, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_picard_contracts_by_at_most_h_times_the_lipschitz_constant(seed):
    """Smooth paths of the Van der Pol equation in |x|, |y| <= 1.5, Euclidean norm at every node."""
    rng = np.random.default_rng(seed)
    field = field_of(VAN_DER_POL, [0, 0.25], 8)
    nodes, params, x = field.mesh.rule.nodes, np.ones((1, 1, 2)), np.zeros((1, 2))
    waves = np.stack([np.ones_like(nodes), np.sin(3 * nodes), np.cos(5 * nodes)], axis=1)
    one, other = (0.5 * waves @ rng.uniform(-1, 1, (3, 2)) for _ in range(2))
    side = np.linspace(-1.5, 1.5, 31)
    square = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    _, wrt_x, _ = field.rhs.linearise(0.0, square, np.ones(2), np.zeros(0))
    constant = np.linalg.norm(wrt_x, 2, axis=(1, 2)).max()
    images = [apply(field.mesh, x, field.slopes(path[None], params)) for path in (one, other)]
    after, before = (np.linalg.norm(np.subtract(*pair), axis=-1).max() for pair in (images, (one, other)))
    assert after <= 0.25 * constant * before


def test_newton_contracts_where_picard_diverges():
    """x' = -a (x - cos t) with h a = 200: stiff."""
    field = field_of("x' = -a*(x - cos(t))", [0, 1.0], 6)
    x, params, path = np.array([[1.0]]), np.array([[[200.0]]]), np.ones((1, 6, 1))
    assert np.abs(residual(field, x, iterate(field, x, path, params, 5), params)).max() > 1e3
    assert np.abs(residual(field, x, solve(field, x, params), params)).max() < 1e-10


def test_newton_converges_quadratically():
    field, x, path, params = van_der_pol()
    fresh = [Newton(steps=k, fresh=True) for k in (1, 2, 4)]
    sizes = [newton(equation(field, x, params), path, 0.0, how).error for how in fresh]
    assert sizes[1] < sizes[0] ** 1.7
    assert sizes[2] < 1e-13


def test_old_newton_matrix_still_contracts():
    """One inverse serves for several contractions: linear convergence."""
    field, x, path, params = van_der_pol()
    old = field.inverses_along(path, params)
    found = newton(equation(field, x, params), path, 1e-10, Newton(steps=20), old)
    assert found.inverse is old
    assert found.rate < 1
    assert np.abs(residual(field, x, found.path, params)).max() < 1e-10


def test_a_contraction_ends_as_soon_as_the_path_is_good_enough():
    field, x, path, params = van_der_pol()
    task, wanted = equation(field, x, params), (1e-2, 1e-5, 1e-10)
    errors = [contract(task, path, settings=Contraction(tolerance=one)).error for one in wanted]
    assert 1e-2 > errors[0] > 1e-5 > errors[1] > 1e-10 > errors[2]


def test_segments_where_whole_steps_fail_get_shorter_ones():
    """x' = -a atan(20 x) from x = 2: whole Newton steps overshoot, with old and with fresh matrices."""
    field = field_of("x' = -a*atan(20*x)", [0, 1.0, 2.0], 5)
    x, path = np.array([[2.0], [1e-3]]), np.array([2.0, 1e-3])[:, None, None] * np.ones((2, 5, 1))
    task = equation(field, x, np.array([3.0]))
    quick = newton(task, path, 1e-10, Contraction().quick)
    assert quick.error > 1
    assert newton(task, path, 1e-10, Newton(steps=10, fresh=True)).error > 1
    found = contract(task, path)
    assert found.error < 1e-10
    assert found.inverse is None
    np.testing.assert_array_equal(found.path[1], quick.path[1])  # the other segment stays as it was


def test_old_matrices_are_given_up_once_most_segments_will_not_arrive():
    """x' = -a x: matrices of another a leave a constant fraction of |u - P u|."""
    field = field_of("x' = -a*x", [0, 1.0, 2.0, 3.0], 5)
    x, path, params = np.ones((3, 1)), np.ones((3, 5, 1)), np.array([3.0])
    old, task = field.inverses_along(path, np.array([2.0])), equation(field, x, params)
    whole, early = (newton(task, path, 1e-10, Newton(7, reach=reach), old) for reach in (np.inf, 1e-4))
    assert early.error > 10 * whole.error > 1e-6
    assert newton(task, path, 1e-10, Newton(7, reach=10.0), old).error == whole.error
    easy = equation(field, x * np.array([[1.0], [0.0], [0.0]]), params)  # two segments are at their solution
    assert newton(easy, path * easy.start[:, None], 1e-10, Newton(7, reach=1e-4), old).error < early.error


def test_a_step_with_matrices_that_are_not_kept_is_the_same():
    field, x, path, params = van_der_pol()
    gap = -residual(field, x, path, params)
    inverse = field.inverses_along(path, params)
    kept = field.solve(inverse, gap.reshape(len(path), -1, 1)).reshape(path.shape)
    np.testing.assert_allclose(field.newton_step(path, params, gap), kept, rtol=1e-10, atol=1e-13)
    path[0] = np.nan
    with np.errstate(all="ignore"):
        step = field.newton_step(path, params, gap)
    assert np.isnan(step[0]).all()
    np.testing.assert_allclose(step[1:], kept[1:], rtol=1e-10, atol=1e-13)


def test_a_segment_that_is_not_finite_does_not_stop_the_others():
    field = field_of("x' = -a*log(x)", [0, 0.5, 1.0], 5)
    x, params, path = np.array([[-1.0], [2.0]]), np.array([[[1.0]]]), np.full((2, 5, 1), 2.0)
    path[0] = -1.0
    with np.errstate(all="ignore"):
        found = newton(equation(field, x, params), path, 1e-10, Contraction().first)
    assert not np.isfinite(found.gap[0]).any()
    assert np.abs(found.gap[1]).max() < 1e-10


# derivatives


@pytest.mark.parametrize("family", list(Nodes))
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivative_recursion_agrees_with_finite_differences(order, family):
    field, x, path, params = van_der_pol(family=family)
    _, derivative = iterate_with_derivatives(field, x, path, params, order)
    step = 1e-6
    for column in range(4):
        move_x, move_p = np.zeros(2), np.zeros(2)
        (move_x if column < 2 else move_p)[column % 2] = step
        ahead = iterate(field, x + move_x, path, params + move_p, order)
        behind = iterate(field, x - move_x, path, params - move_p, order)
        np.testing.assert_allclose(derivative[..., column], (ahead - behind) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("order", [0, 1, 4])
def test_recursion_returns_the_iterate_itself(order):
    field, x, path, params = van_der_pol()
    iterated, _ = iterate_with_derivatives(field, x, path, params, order)
    np.testing.assert_array_equal(iterated, iterate(field, x, path, params, order))


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_derivatives_of_iterates_converge_to_the_sensitivities(name):
    """Theorem 1: grad P^n u -> grad phi, from any path."""
    case = CASES[name]
    field = field_of(case.text, [0, 1.0], 14)
    x, params = np.array([[case.x]]), np.array([[case.p]])
    exact = np.stack(case.slopes(field.mesh.node_times[0], case.x, *case.p), axis=-1)
    path = np.full((1, 14, 1), 0.5)
    slopes = [iterate_with_derivatives(field, x, path, params, n)[1][0, :, 0] for n in (2, 8, 40)]
    errors = [np.abs(slope - exact).max() for slope in slopes]
    assert errors[0] > 10 * errors[1]
    assert errors[2] < 1e-8


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_exact_multipliers_are_the_sensitivities(name):
    case = CASES[name]
    field = field_of(case.text, [0, 1.0], 14)
    x, params = np.array([[case.x]]), np.array([[case.p]])
    _, wrt_x, wrt_p = field.linearise(solve(field, x, params), params)
    got = exact_multipliers(field, np.linalg.inv(newton_matrix(field.mesh, wrt_x)), wrt_p)
    exact = np.stack(case.slopes(field.mesh.node_times[0], case.x, *case.p), axis=-1)
    np.testing.assert_allclose(got[0, :, 0], exact, atol=1e-8)


def test_exact_multipliers_are_the_limit_of_the_recursion():
    field, x, _, params = van_der_pol()
    path = solve(field, x, params)
    _, wrt_x, wrt_p = field.linearise(path, params)
    limit = exact_multipliers(field, np.linalg.inv(newton_matrix(field.mesh, wrt_x)), wrt_p)
    _, derivative = iterate_with_derivatives(field, x, path, params, 60)
    np.testing.assert_allclose(derivative, limit, atol=1e-11)


def test_newton_matrix_is_the_derivative_of_the_residual():
    field, x, path, params = van_der_pol()
    _, wrt_x, _ = field.linearise(path, params)
    matrix = newton_matrix(field.mesh, wrt_x)
    direction = np.random.default_rng(1).normal(size=path.shape)
    ahead, behind = (residual(field, x, path + s * direction, params) for s in (1e-6, -1e-6))
    expected = (ahead - behind) / 2e-6
    got = (matrix @ direction.reshape(len(path), -1, 1)).reshape(path.shape)
    np.testing.assert_allclose(got, expected, atol=1e-8)


def test_integration_of_derivatives_is_that_of_their_columns():
    field, x, path, params = van_der_pol()
    _, wrt_x, _ = field.linearise(path, params)
    column = apply(field.mesh, np.zeros_like(x), wrt_x[..., 1])
    np.testing.assert_allclose(integrate(field.mesh, wrt_x)[..., 1], column, atol=1e-15)


# resolution


def test_tails_vanish_for_a_path_that_the_nodes_resolve():
    field = field_of("x' = 1 + 0*x", [0, 2.0], 5)
    slopes = (3 + field.mesh.rule.nodes + field.mesh.rule.nodes**2)[None, :, None]
    assert tails(field.mesh, slopes).max() < 1e-13


def test_tails_show_what_the_nodes_do_not_resolve():
    field = field_of("x' = 1 + 0*x", [0, 2.0], 5)
    slopes = (3 * (2 * field.mesh.rule.nodes - 1) ** 4)[None, :, None]
    assert tails(field.mesh, slopes)[0, 0] == pytest.approx(2.0 * 3 * 8 / 35)  # x^4 = 8/35 P_4 + ...


# inputs


def dosed(family: Nodes, count: int) -> Discretisation:
    """x' = dose, where the dose jumps from 1 to 5 at t = 0.4."""
    data = Experiment([0.0, 0.2, 0.4, 1.0], {"x": [0, 0, 0, 0]}, inputs={"dose": Table([0, 0.4], [1, 5])})
    problem = Problem(Model("x' = dose", inputs=["dose"]), data)
    knots = uniform_knots(problem.span(0), 1.0, problem.breaks(0))
    return Discretisation(problem, Mesh(rule(count, family), (knots,)))


@pytest.mark.parametrize("family", list(Nodes))
def test_nodes_on_a_knot_see_their_own_side_of_a_jump(family):
    np.testing.assert_array_equal(dosed(family, 3).field.inputs[..., 0], [[1, 1, 1], [5, 5, 5]])


@pytest.mark.parametrize("family", list(Nodes))
def test_integral_over_a_jump_is_exact(family):
    system = dosed(family, 3)
    x, empty = np.array([[0.0], [0.4]]), np.zeros((2, 1, 0))
    path = apply(system.mesh, x, system.field.slopes(np.zeros((2, 3, 1)), empty))
    np.testing.assert_allclose(system.at_samples(x, path)[:, 0], [0, 0.2, 0.4, 3.4], atol=1e-14)
