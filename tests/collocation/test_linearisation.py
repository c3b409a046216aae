"""Derivatives of the lifted problem against finite differences, order of the second-order correction, failures."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.bounded_qp import solve_box
from picardfit.collocation.condensing import factorise
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import advance, curvature_of_step, linearise
from picardfit.collocation.mesh import Mesh, Nodes, rule
from picardfit.collocation.point import contract_from, evaluate
from picardfit.problem.objective import CONTRACTED

RICH = pf.Model(
    "x' = -k*x*z + dose; z' = q*x - m*z*sin(t)",
    observables={"y": "s*x + z**2", "w": "z + k*dose"},
    inputs=["dose"],
)


def rich_problem() -> pf.Problem:
    """Two experiments with a jumping input, local, log, fixed and extra parameters, an initial formula, gaps."""
    rng = np.random.default_rng(0)
    times = np.array([0.0, 0.3, 0.5, 0.5, 1.1, 1.9, 2.0])
    columns = rng.uniform(0.5, 1.5, (2, 2, len(times)))
    columns[0, 0, 2] = columns[1, 1, 4] = columns[1, 1, 0] = np.nan
    return pf.Problem(
        RICH,
        [
            pf.Experiment(
                times, {"y": columns[0, 0], "w": columns[0, 1]}, inputs={"dose": "0.2*t"}, name="a"
            ),
            pf.Experiment(
                times + 0.1,
                {"y": columns[1, 0], "w": columns[1, 1]},
                inputs={"dose": ([0, 0.8, 1.6], [0.5, 1.0, 0.0])},
                initial={"x": "c*k", "z": 0.7},
                name="b",
            ),
        ],
        parameters={
            "k": pf.Parameter(0.1, 5, log=True),
            "q": pf.Parameter(0.1, 5, local=True),
            "m": pf.Parameter(0.05, 5, log=True, local=True),
            "s": (0, 3),
            "c": (0, 2),
        },
    )


def rich_system(nodes=4, family=Nodes.RADAU) -> Discretisation:
    problem = rich_problem()
    knots = (np.array([0, 0.45, 1.0, 2.0]), np.array([0, 0.8, 1.6, 1.9, 2.1]))
    return Discretisation(problem, Mesh(rule(nodes, family), knots))


def unknowns_at(problem, seed=1) -> np.ndarray:
    """Random unknowns inside the bounds, shared columns equal."""
    layout, rng = problem.layout, np.random.default_rng(seed)
    unknowns = rng.uniform(0.4, 0.9, layout.lower.shape)
    unknowns[:, layout.local :] = unknowns[:1, layout.local :]
    return np.where(layout.exists, unknowns, layout.lower)


def point_of(system, seed=1):
    """A point off the data, with jumps at every knot."""
    rng = np.random.default_rng(seed)
    states = rng.uniform(0.5, 1.5, (len(system.mesh), len(system.problem.model.states)))
    point, _ = contract_from(system, unknowns_at(system.problem, seed), states, np.ones(states.shape[1]))
    return point


SYSTEMS = {"radau": (4, Nodes.RADAU), "lobatto": (5, Nodes.LOBATTO), "chebyshev": (4, Nodes.CHEBYSHEV)}


@pytest.fixture(scope="module", params=SYSTEMS.values(), ids=SYSTEMS)
def place(request):
    system = rich_system(*request.param)
    point = point_of(system)
    return system, point, linearise(system, point)


STEP = 1e-6


def moved(place, states=0.0, unknowns=0.0):
    """The point with start states and unknowns moved, contracted by Newton's method."""
    system, point, linear = place
    return evaluate(
        system, point.unknowns + unknowns, point.states + states, point.path, np.ones(2), linear.nearby
    )


def differences(place, of) -> np.ndarray:
    """Central differences of of(point) (rows, k) by [start state of the row's own segment | free parameters].

    All segments move at once: what belongs to a segment depends on no other start state.
    """
    columns = []
    for state in range(2):
        step = STEP * np.eye(2)[state]
        ahead, behind = (moved(place, states=a * step) for a in (1, -1))
        columns.append((of(ahead) - of(behind)) / (2 * STEP))
    layout = place[0].problem.layout
    for column in layout.columns.parameters:
        step = STEP * np.eye(layout.width)[column]
        ahead, behind = (moved(place, unknowns=a * step) for a in (1, -1))
        columns.append((of(ahead) - of(behind)) / (2 * STEP))
    return np.stack(columns, axis=-1)


def test_free_parameters_are_those_of_the_model_that_are_not_fixed(place):
    layout = place[0].problem.layout
    assert [layout.names[k] for k in layout.free_parameters] == ["q", "m", "k", "s"]


def test_contracted_path_is_a_fixed_point(place):
    assert place[1].residual < CONTRACTED


def test_jacobian_of_the_outputs_is_that_of_differences(place):
    system, _, linear = place
    expected = differences(place, lambda p: p.outputs)
    np.testing.assert_allclose(linear.at_samples(system), expected, rtol=1e-6, atol=1e-7)


def test_end_derivatives_are_those_of_differences(place):
    """A jump is the end of one segment minus the start of the next, so the common move of all starts is added back."""
    system, _, linear = place
    expected = differences(place, lambda p: p.jumps + p.states[system.mesh.linked + 1])
    np.testing.assert_allclose(linear.quadratic.end, expected, rtol=1e-6, atol=1e-7)


def test_slope_is_that_of_differences_of_the_objective(place):
    system, point, linear = place
    for segment in range(len(system.mesh)):
        for state in range(2):
            step = np.zeros_like(point.states)
            step[segment, state] = STEP
            change = moved(place, states=step).data - moved(place, states=-step).data
            assert linear.quadratic.slope[segment, state] == pytest.approx(
                change / (2 * STEP), rel=1e-5, abs=1e-7
            )


def test_parameter_slope_is_that_of_differences_of_the_objective(place):
    system, point, linear = place
    summed = np.add.reduceat(linear.quadratic.slope[:, 2:], system.mesh.first)
    for e in range(2):
        for k, column in enumerate(system.problem.layout.columns.parameters):
            step = np.zeros_like(point.unknowns)
            step[e, column] = STEP
            change = moved(place, unknowns=step).data - moved(place, unknowns=-step).data
            assert summed[e, k] == pytest.approx(change / (2 * STEP), rel=1e-5, abs=1e-7)


def test_hessian_is_the_gauss_newton_matrix_of_what_was_measured(place):
    system, _, linear = place
    jacobian = differences(place, lambda p: p.outputs)
    expected = np.zeros_like(linear.quadratic.hessian)
    for k, segment in enumerate(system.segment):
        for row in np.flatnonzero(np.isfinite(system.problem.samples.data[k])):
            expected[segment] += np.outer(jacobian[k, row], jacobian[k, row])
    np.testing.assert_allclose(linear.quadratic.hessian, expected, rtol=1e-5, atol=1e-6)


def test_initial_derivative_is_that_of_differences(place):
    system, point, linear = place
    layout = system.problem.layout
    for column in range(layout.width):
        step = STEP * np.eye(layout.width)[column] * layout.exists
        ahead, behind = layout.initial(point.unknowns + step)[0], layout.initial(point.unknowns - step)[0]
        expected = (ahead - behind) / (2 * STEP)
        np.testing.assert_allclose(linear.quadratic.initial[..., column], expected, rtol=1e-7, atol=1e-8)


def test_multipliers_are_the_derivative_of_the_contracted_path(place):
    *_, linear = place
    expected = differences(place, lambda p: p.path)
    np.testing.assert_allclose(linear.multipliers, expected, rtol=1e-6, atol=1e-7)


def test_missing_data_have_no_say():
    system = rich_system()
    point = point_of(system)
    factor = linearise(system, point).factor
    np.testing.assert_array_equal(factor == 0, np.isnan(system.problem.samples.data))


# moving


def test_advance_with_no_step_stays():
    system = rich_system()
    point = point_of(system)
    linear = linearise(system, point)
    zero = np.zeros_like(point.unknowns), np.zeros_like(point.states)
    trial = advance(system, point, linear, *zero, np.ones(2), np.zeros(2, bool))
    np.testing.assert_allclose(trial.path, point.path, atol=1e-10)


def test_advance_ties_first_states_to_the_unknowns():
    system = rich_system()
    point, rng = point_of(system), np.random.default_rng(2)
    step = 1e-2 * rng.standard_normal(point.unknowns.shape) * system.problem.layout.exists
    trial = advance(
        system, point, linearise(system, point), step, 0.1 * point.states, np.ones(2), np.zeros(2, bool)
    )
    expected, _ = system.problem.layout.initial(trial.unknowns)
    np.testing.assert_array_equal(trial.states[system.mesh.first], expected)


def gentle_place():
    """Two decays, which contract from everywhere."""
    model = pf.Model("x' = -k*x; z' = -q*z")
    data = pf.Experiment([0, 1, 2], {"x": [1, 0.5, 0.2], "z": [1, 0.6, 0.3]})
    problem = pf.Problem(
        model, data, parameters={"k": (0, 1), "q": (0.2, 2)}, initial={"x": (0, 2), "z": (0, 2)}
    )
    system = Discretisation(problem, Mesh(rule(4), (np.array([0.0, 0.5, 1, 2]),)))
    point, _ = contract_from(system, np.array([[1.0, 1, 0.5, 0.5]]), np.ones((3, 2)), np.ones(2))
    return system, point, linearise(system, point)


def test_advance_never_leaves_the_bounds():
    system, point, linear = gentle_place()
    step = np.array([[3.0, -3, 5, -5]])
    trial = advance(system, point, linear, step, np.zeros((3, 2)), np.ones(2), np.zeros(2, bool))
    np.testing.assert_array_equal(trial.unknowns, [[2, 0, 1, 0.2]])


def test_positive_states_lose_at_most_nine_tenths():
    system, point, linear = gentle_place()
    trial = advance(
        system, point, linear, np.zeros((1, 4)), np.full((3, 2), -2.0), np.ones(2), np.array([True, False])
    )
    np.testing.assert_allclose(trial.states[1:], [[0.1, -1], [0.1, -1]])


LOTKA = pf.Model("x' = a*x - b*x*y; y' = d*x*y - c*y")
TRUTH = {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}


def exact_solution():
    """A Lotka-Volterra system at the truth with the data it predicts itself: residual and jumps are zero."""
    times = np.linspace(0, 4, 21)
    run = pf.simulate(LOTKA, TRUTH, {"x": 2.0, "y": 1.0}, times)
    problem = pf.Problem(LOTKA, pf.Experiment(times, run.observables))
    system = Discretisation(problem, Mesh(rule(9), (np.linspace(0, 4, 9),)))
    unknowns = np.array([[2.0, 1.0, *(TRUTH[n] for n in LOTKA.parameters)]])
    knots = pf.simulate(LOTKA, TRUTH, {"x": 2.0, "y": 1.0}, system.mesh.start).states
    point, _ = contract_from(system, unknowns, np.stack([knots["x"], knots["y"]], axis=1), np.ones(2))
    return system, point


def errors_of_steps(size) -> tuple[float, float]:
    """Distance from the exact solution after a Gauss-Newton step from `size` away, without and with correction."""
    system, exact = exact_solution()
    rng, layout = np.random.default_rng(3), system.problem.layout
    unknowns = exact.unknowns + size * rng.uniform(-1, 1, exact.unknowns.shape)
    states = exact.states + size * rng.uniform(-1, 1, exact.states.shape)
    states[0] = unknowns[0, :2]
    begin = evaluate(system, unknowns, states, exact.path, np.ones(2))
    linear = linearise(system, begin)
    factor = factorise(system.mesh, layout.columns, linear.quadratic, np.ones(2), np.zeros(2))
    free, nothing = np.full_like(unknowns, np.inf), np.zeros(2, bool)

    def step(point, slope, jumps):
        reduced = factor.reduce(slope, jumps)
        move = solve_box(factor.hessian, reduced.slope, layout.local, -free, free)
        return advance(system, point, linear, move, reduced.states(move), np.ones(2), nothing)

    trial = step(begin, linear.quadratic.slope, begin.jumps)
    better = step(trial, *curvature_of_step(system, begin, linear, trial))
    return tuple(
        float(max(np.abs(p.unknowns - exact.unknowns).max(), np.abs(p.states - exact.states).max()))
        for p in (trial, better)
    )


@pytest.mark.parametrize("which, order", [(0, 2), (1, 3)], ids=["plain", "corrected"])
def test_order_of_the_error_after_a_step(which, order):
    sizes = np.array([2e-2, 1e-2, 5e-3])
    errors = [errors_of_steps(size)[which] for size in sizes]
    orders = np.diff(np.log(errors)) / np.diff(np.log(sizes))
    np.testing.assert_allclose(orders, order, atol=0.25)


def test_a_linear_model_has_no_curvature_to_correct():
    """The solution of x' = r is linear in r and x(0)."""
    model = pf.Model("x' = r", observables={"y": "x"})
    problem = pf.Problem(model, pf.Experiment([0, 1, 2], {"y": [1, 2, 4]}))
    system = Discretisation(problem, Mesh(rule(3), (np.array([0.0, 1, 2]),)))
    point, _ = contract_from(system, np.array([[1.0, 0.5]]), np.array([[1.0], [3.0]]), np.ones(1))
    linear = linearise(system, point)
    trial = advance(
        system,
        point,
        linear,
        np.array([[0.3, 0.7]]),
        np.array([[0.3], [-1.0]]),
        np.ones(1),
        np.zeros(1, bool),
    )
    slope, jumps = curvature_of_step(system, point, linear, trial)
    np.testing.assert_allclose(slope, 0, atol=1e-12)
    np.testing.assert_allclose(jumps, 0, atol=1e-12)


# failures


def exploding(knots) -> Discretisation:
    """x' = x^2 from 1: the solution ends at t = 1, so a segment longer than 1/x has none."""
    problem = pf.Problem(pf.Model("x' = k*x^2"), pf.Experiment([0, knots[-1]], {"x": [1, 1]}))
    return Discretisation(problem, Mesh(rule(5), (np.asarray(knots, float),)))


def test_contract_from_flags_the_segments_that_fail():
    system = exploding([0, 0.2, 3.0, 3.1])
    point, failed = contract_from(system, np.array([[1.0, 1.0]]), np.ones((3, 1)), np.ones(1))
    assert point is None
    assert failed.tolist() == [False, True, False]


def test_contract_from_succeeds_on_short_segments():
    system = exploding([0, 0.2, 0.4, 0.6])
    point, _ = contract_from(system, np.array([[1.0, 1.0]]), np.ones((3, 1)), np.ones(1))
    ends = point.jumps[:, 0] + 1  # x(0.2) = 1 / (1 - 0.2)
    np.testing.assert_allclose(ends, 1.25, rtol=1e-6)


def test_a_path_that_does_not_contract_is_no_point():
    system = exploding([0, 3.0])
    assert evaluate(system, np.array([[1.0, 1.0]]), np.ones((1, 1)), np.ones((1, 5, 1)), np.ones(1)) is None


def test_a_pole_of_the_model_is_no_point():
    problem = pf.Problem(pf.Model("x' = k/x"), pf.Experiment([0, 1], {"x": [1, 1]}))
    system = Discretisation(problem, Mesh(rule(3), (np.array([0.0, 1.0]),)))
    point, failed = contract_from(system, np.array([[0.0, 1.0]]), np.zeros((1, 1)), np.ones(1))
    assert point is None
    assert failed.all()


def test_only_segments_without_finite_outputs_are_too_long():
    """The logarithm of a state that overshoots zero in the last segment says nothing against the others."""
    model = pf.Model("x' = -k", observables={"y": "log(x)"})
    data = pf.Experiment([0.5, 1.5, 2.9], {"y": [0.0, 0.0, 0.0]})
    problem = pf.Problem(model, data, {"k": (0.5, 2)}, initial={"x": (0.1, 5)})
    system = Discretisation(problem, Mesh(rule(4), (np.array([0.5, 1, 2, 2.9]),)))
    states = np.array([[2.0], [1.5], [0.5]])
    point, failed = contract_from(system, np.array([[2.0, 1.0]]), states, np.ones(1))
    assert point is None
    assert failed.tolist() == [False, False, True]
    states[2] = 1.0
    assert contract_from(system, np.array([[2.0, 1.0]]), states, np.ones(1))[0] is not None


def test_a_segment_at_a_pole_borrows_the_state_before_it():
    """At x = 1 no segment is short enough; from x = 0.5 the solution is 1 - sqrt(1/4 - 2 t)."""
    problem = pf.Problem(pf.Model("x' = k/(1 - x)"), pf.Experiment([0, 0.3], {"x": [1, 1]}))
    system = Discretisation(problem, Mesh(rule(5), (np.array([0, 0.05, 0.1, 0.15]),)))
    given = (system, np.array([[0.5, 1.0]]), np.array([[0.5], [1.0], [0.3]]), np.ones(1))
    point, failed = contract_from(*given)
    assert point is None
    assert failed[1]
    point, failed = contract_from(*given, borrow=True)
    assert not failed.any()
    assert point.states[:, 0].tolist() == [0.5, 0.5, 0.3]
    np.testing.assert_allclose(point.path[1, -1, 0], 1 - np.sqrt(0.25 - 0.1), rtol=1e-4)


def test_segments_borrow_from_their_own_experiment():
    runs = [pf.Experiment([0, 1], {"x": [1, 1]}), pf.Experiment([0, 1], {"x": [1, 1]})]
    problem = pf.Problem(pf.Model("x' = -k/(1 - x)"), runs)
    system = Discretisation(problem, Mesh(rule(5), (np.array([0, 0.5, 1]), np.array([0, 0.5, 1]))))
    unknowns = np.array([[0.5, 1.0], [-0.5, 1.0]])
    point, _ = contract_from(
        system, unknowns, np.array([[0.5], [1.0], [-0.5], [1.0]]), np.ones(1), borrow=True
    )
    assert point.states[:, 0].tolist() == [0.5, 0.5, -0.5, -0.5]
