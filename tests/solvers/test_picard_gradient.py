"""Algorithms 1-4: gradients against finite differences, fixed points against the statements of the paper."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import picardfit as pf
import picardfit.examples as problems
import picardfit.solvers.loop as iterate
from complaints import complaint
from picardfit.collocation.mesh import Nodes
from picardfit.collocation.picard import residual
from picardfit.errors import Status
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter
from picardfit.problem.experiment import Experiment
from picardfit.problem.problem import Problem
from picardfit.search.starts import make_start
from picardfit.solvers.picard_gradient.algorithms import (
    ExtendedGradientContractMultiplier,
    GradientContractive,
    GradientContractMultiplier,
    GradientDescent,
    lipschitz,
)
from picardfit.solvers.picard_gradient.extended_loss import applied, gradient, loss
from picardfit.solvers.picard_gradient.sets import Ball, Box, HalfSpace

ALL = [
    GradientDescent(order=3),
    GradientContractive(),
    GradientContractMultiplier(),
    ExtendedGradientContractMultiplier(),
]
every_method = pytest.mark.parametrize("method", ALL, ids=lambda m: type(m).__name__)


def run(method, problem, start=None):
    """The loop in its shortest form."""
    state = method.init(problem, start or make_start(problem))
    for _ in range(method.max_iterations):
        if state.status is not None:
            break
        state = method.step(state)
    return state


def values(state) -> np.ndarray:
    """(width,): the unknowns of the first experiment in natural units."""
    return state.setting.system.problem.layout.natural(state.candidate.unknowns)[0]


def van_der_pol(t, x, a=1.0, b=1.0):
    return [a * x[1], -a * x[0] + b * (1 - x[0] ** 2) * x[1]]


def lorenz(t, x, s=1.0, r=2.8, b=8 / 3):
    return [10 * s * (x[1] - x[0]), 10 * x[0] * (r - x[2]) - x[1], 10 * x[0] * x[1] - b * x[2]]


def noisy(field, x0, times, noise):
    exact = solve_ivp(field, (0, times[-1]), x0, t_eval=times, rtol=1e-10, atol=1e-12).y
    return exact + noise * np.random.default_rng(0).normal(size=exact.shape)


@cache
def van_der_pol_problem(noise=0.05, horizon=2.0, samples=21) -> Problem:
    model = Model("x1' = a*x2\nx2' = -a*x1 + b*(1 - x1**2)*x2")
    times = np.linspace(0, horizon, samples)
    y = noisy(van_der_pol, [1.0, 0.5], times, noise)
    return Problem(
        model, Experiment(times, {"x1": y[0], "x2": y[1]}), parameters={"a": (0.5, 1.5), "b": (0.5, 1.5)}
    )


@cache
def lorenz_problem() -> Problem:
    model = Model("x1' = 10*s*(x2 - x1)\nx2' = 10*x1*(r - x3) - x2\nx3' = 10*x1*x2 - b*x3")
    times = np.linspace(0, 0.2, 21)
    y = noisy(lorenz, [1.46, 0.90, -1.57], times, 0.02)
    data = Experiment(times, {"x1": y[0], "x2": y[1], "x3": y[2]})
    return Problem(model, data, parameters={"s": (0.5, 1.5), "r": (1.4, 4.2), "b": (4 / 3, 4)})


@cache
def optimum() -> np.ndarray:
    """Unknowns of the Van der Pol problem by least squares over an independent integration."""
    problem = van_der_pol_problem()
    times, data = problem.samples.times, problem.samples.data

    def residuals(z):
        path = solve_ivp(
            van_der_pol, (0, times[-1]), z[:2], t_eval=times, args=tuple(z[2:]), rtol=1e-9, atol=1e-11
        )
        return (path.y.T - data).ravel()

    return least_squares(residuals, [1.0, 0.5, 1.0, 1.0], xtol=1e-12, ftol=1e-12, gtol=1e-12).x


@cache
def ponds_problem() -> Problem:
    """Two experiments with everything: partial and blank data, log and local parameters, an input that jumps,
    a parameter in g, one that stands only in an initial formula, known, formula and free initial states."""
    model = Model(
        """
        prey' = r*prey*(1 - prey/4) - a*prey*pred + dose
        pred' = k*a*prey*pred - c*pred
        waste' = c*pred - waste
        """,
        observables={"count": "scale*prey", "total": "prey + pred**2"},
        inputs=["dose"],
    )
    one = Experiment(
        [0.1, 0.4, 0.8, 1.0],
        {"count": [2.0, 2.5, np.nan, 3.0], "total": [2.0, 2.2, 2.4, np.nan]},
        name="one",
        inputs={"dose": ([0.0, 0.55], [0.0, 1.0])},
        initial={"prey": 1.1, "pred": "start*k"},
    )
    two = Experiment(
        [0.0, 0.5, 1.3],
        {"count": [1.0, 1.2, 1.5]},
        name="two",
        inputs={"dose": 0.3},
        initial={"prey": (0.1, 5), "pred": Parameter(0.1, 5, log=True)},
    )
    parameters = {
        "r": Parameter(0.1, 3, local=True),
        "a": Parameter(0.1, 3, log=True),
        "k": (0.1, 2),
        "c": 0.7,
        "scale": Parameter(0.5, 4, log=True),
        "start": (0.2, 3),
    }
    return Problem(model, [one, two], parameters=parameters, initial={"waste": (-3, 3)})


def ruffled(method):
    """A state off every stationary point: unknowns and path moved at random."""
    problem = ponds_problem()
    rng = np.random.default_rng(3)
    state = method.init(problem, make_start(problem))
    candidate, layout = state.candidate, problem.layout
    unknowns = candidate.unknowns + 0.1 * rng.normal(size=candidate.unknowns.shape) * layout.exists
    unknowns[:, layout.local :] = unknowns[0, layout.local :]
    candidate = state.setting.candidate(
        unknowns, candidate.knots + 0.1 * rng.normal(size=candidate.knots.shape)
    )
    return state.setting, candidate, state.path + 0.1 * rng.normal(size=state.path.shape)


def slope_by_unknowns(setting, candidate, path, step=1e-6) -> np.ndarray:
    """Central differences of the loss: shared columns moved in all experiments at once."""
    layout = setting.system.problem.layout
    slopes = np.zeros_like(candidate.unknowns)
    for e, column in np.argwhere(layout.exists):
        rows = slice(None) if column >= layout.local else e
        for sign in (1, -1):
            unknowns = candidate.unknowns.copy()
            unknowns[rows, column] += sign * step
            slopes[e, column] += (
                sign * loss(setting, setting.candidate(unknowns, candidate.knots), path) / (2 * step)
            )
    return slopes


def slope_by_knots(setting, candidate, path, step=1e-6) -> np.ndarray:
    slopes = np.zeros_like(candidate.knots)
    for index in np.ndindex(slopes.shape):
        for sign in (1, -1):
            knots = candidate.knots.copy()
            knots[index] += sign * step
            slopes[index] += (
                sign * loss(setting, setting.candidate(candidate.unknowns, knots), path) / (2 * step)
            )
    return slopes


# gradient of L

EVERY_ORDER = [
    GradientContractive(segments=3),
    *(GradientDescent(order=n, segments=3) for n in (1, 2, 3)),
    *(ExtendedGradientContractMultiplier(order=n, segment_length=0.4) for n in (1, 2, 3)),
]
every_order = pytest.mark.parametrize(
    "method", EVERY_ORDER, ids=lambda m: f"{type(m).__name__}-{getattr(m, 'order', 0)}"
)


@every_order
def test_gradient_by_the_unknowns_agrees_with_finite_differences(method):
    setting, candidate, path = ruffled(method)
    np.testing.assert_allclose(
        gradient(setting, candidate, path).unknowns,
        slope_by_unknowns(setting, candidate, path),
        atol=1e-7,
        rtol=1e-6,
    )


@every_order
def test_gradient_by_the_knots_agrees_with_finite_differences(method):
    setting, candidate, path = ruffled(method)
    np.testing.assert_allclose(
        gradient(setting, candidate, path).knots,
        slope_by_knots(setting, candidate, path),
        atol=1e-7,
        rtol=1e-6,
    )


@every_order
def test_gradient_and_loss_report_the_same_value(method):
    setting, candidate, path = ruffled(method)
    assert gradient(setting, candidate, path).loss == pytest.approx(loss(setting, candidate, path), rel=1e-14)


def test_loss_is_the_formula_of_the_paper():
    """L = 1/(2 N_s) sum |y - g|^2 + lambda sum |jump|^2, with N_s the number of sampling instants."""
    setting, candidate, path = ruffled(ExtendedGradientContractMultiplier(order=1, segment_length=0.4))
    system = setting.system
    slopes = system.field.slopes(path, candidate.spread)
    segment, fraction = system.located
    weights = (system.mesh.length[segment][:, None] * system.mesh.rule.integrals(fraction))[:, None, :]
    sampled = candidate.x[segment] + (weights @ slopes[segment])[:, 0]
    outputs = system.outputs(sampled, candidate.params)
    ends = candidate.x + system.mesh.length[:, None] * (system.mesh.rule.end @ slopes)
    jumps = (ends[:-1] - candidate.x[1:])[np.diff(system.mesh.experiment) == 0]
    expected = np.nansum((outputs - system.problem.samples.data) ** 2) / (2 * 7) + 5.0 * np.sum(jumps**2)
    assert loss(setting, candidate, path) == pytest.approx(expected, rel=1e-12)


def test_gradient_in_natural_units_under_a_given_set():
    """d/d(log a) = a d/da."""
    problem = ponds_problem()
    shared = problem.layout.width - problem.layout.local
    plain, given = (
        ruffled(ExtendedGradientContractMultiplier(segments=2, parameter_set=convex))
        for convex in (None, Box((0.01,) * shared, (9.0,) * shared))
    )
    logs = problem.layout.log[0, problem.layout.local :]
    natural = problem.layout.natural(given[1].unknowns)[0, problem.layout.local :]
    inner, outer = (gradient(*one).unknowns[0, problem.layout.local :] for one in (plain, given))
    np.testing.assert_allclose(inner, outer * np.where(logs, natural, 1.0), rtol=1e-12)


def test_gradient_of_a_high_order_approaches_the_shooting_gradient():
    """Theorem 1: P^n u_0 and its derivatives converge to the solution map and its sensitivities."""
    problem = van_der_pol_problem()
    samples, start = problem.samples, make_start(problem)

    def shooting(z):
        path = solve_ivp(
            van_der_pol, (0, 2.0), z[:2], t_eval=samples.times, args=tuple(z[2:]), rtol=1e-12, atol=1e-13
        )
        return 0.5 * np.mean(np.sum((path.y.T - samples.data) ** 2, axis=1))

    z, step = start.unknowns[0], 1e-5 * np.eye(4)
    wanted = np.array([(shooting(z + e) - shooting(z - e)) / 2e-5 for e in step])
    errors = [
        np.abs(GradientDescent(order=n, nodes=6).init(problem, start).gradient.unknowns[0] - wanted).max()
        for n in (4, 8, 16)
    ]
    assert errors[0] > 10 * errors[1] > 1000 * errors[2]
    assert errors[2] < 1e-8


# fixed points


@pytest.fixture(scope="module")
def third():
    """Algorithm 3 at its fixed points, by order."""
    problem = van_der_pol_problem()
    return {n: run(GradientContractMultiplier(order=n, segments=4), problem) for n in (1, 2, 6)}


@pytest.fixture(scope="module")
def fourth():
    """Algorithm 4 at its fixed points."""
    oscillator = ExtendedGradientContractMultiplier(segments=4, tolerance=1e-5)
    chaos = ExtendedGradientContractMultiplier(order=1, segment_length=0.05, tolerance=1e-4)
    return {"van der pol": run(oscillator, van_der_pol_problem()), "lorenz": run(chaos, lorenz_problem())}


@pytest.mark.parametrize("order", [1, 2, 6])
def test_algorithm_3_converges(third, order):
    assert third[order].status is Status.CONVERGED


@pytest.mark.parametrize("order", [1, 2, 6])
def test_fixed_point_of_algorithm_3_is_feasible(third, order):
    state = third[order]
    assert np.abs(applied(state.setting, state.candidate, state.path) - state.path).max() < 1e-6


def test_fixed_point_of_algorithm_3_is_stationary(third):
    assert np.abs(third[2].gradient.unknowns).max() < 1e-6


def test_bias_of_algorithm_3_shrinks_as_the_order_grows(third):
    bias = [np.linalg.norm(values(third[n]) - optimum()) for n in (1, 2, 6)]
    assert bias[0] > 2 * bias[1] > 20 * bias[2]


def test_algorithm_3_of_high_order_finds_the_least_squares_optimum(third):
    np.testing.assert_allclose(values(third[6]), optimum(), atol=1e-3)


def test_algorithm_1_of_high_order_finds_the_least_squares_optimum():
    state = run(GradientDescent(order=14, segments=4), van_der_pol_problem())
    np.testing.assert_allclose(values(state), optimum(), atol=1e-4)


@pytest.mark.parametrize("name", ["van der pol", "lorenz"])
def test_algorithm_4_converges(fourth, name):
    assert fourth[name].status is Status.CONVERGED


@pytest.mark.parametrize("name", ["van der pol", "lorenz"])
def test_fixed_point_of_algorithm_4_is_feasible(fourth, name):
    """u = P u on every segment, by the operator of picard.py."""
    state = fourth[name]
    gap = residual(state.setting.system.field, state.candidate.x, state.path, state.candidate.spread)
    assert np.abs(gap).max() < 1e-4


@pytest.mark.parametrize("name", ["van der pol", "lorenz"])
def test_fixed_point_of_algorithm_4_is_stationary(fourth, name):
    slope = fourth[name].gradient
    assert max(np.abs(slope.unknowns).max(), np.abs(slope.knots).max()) < 1e-4


def test_penalty_leaves_jumps_in_inverse_proportion_to_its_weight():
    """Stationarity: 2 lambda * jump is the multiplier of continuity, which hardly depends on lambda."""
    methods = [ExtendedGradientContractMultiplier(segments=2, continuity=c, tolerance=1e-5) for c in (1, 2)]
    single, double = (run(method, van_der_pol_problem()).gradient.jumps for method in methods)
    np.testing.assert_allclose(single, 2 * double, rtol=0.05)


@pytest.mark.parametrize("order, attracts", [(1, False), (2, True)])
def test_first_order_repels_from_the_truth_when_the_penalty_is_large(order, attracts):
    """Van der Pol as in the paper: T = 0.25 on [0, 10], lambda = 5.

    With u = P u the gradient is a vector field of (x, theta) which is no gradient for small n: descent moves
    away from a zero where its Jacobian has an eigenvalue with negative real part.
    """
    problem = van_der_pol_problem(0.0, 10.0, 101)
    method = ExtendedGradientContractMultiplier(order=order, segment_length=0.25, nodes=4)
    setting = method.init(problem, make_start(problem)).setting
    times = setting.system.mesh.knots[0][:-1]
    truth = solve_ivp(van_der_pol, (0, 10), [1.0, 0.5], t_eval=times, rtol=1e-10, atol=1e-12).y.T

    def slope(z):
        candidate = setting.candidate(np.append(z[:2], z[-2:])[None], z[2:-2].reshape(-1, 2))
        path = np.repeat(candidate.x[:, None, :], 4, axis=1)
        for _ in range(15):
            path = applied(setting, candidate, path)
        found = gradient(setting, candidate, path)
        return np.concatenate([found.unknowns[0, :2], found.knots.ravel(), found.unknowns[0, 2:]])

    z = np.append(truth.ravel(), [1.0, 1.0])
    jacobian = np.array([(slope(z + e) - slope(z - e)) / 2e-5 for e in 1e-5 * np.eye(len(z))])
    assert bool(np.linalg.eigvals(jacobian).real.min() > 0) is attracts


def test_fixed_point_of_algorithm_2_is_feasible():
    state = run(GradientContractive(segments=4), van_der_pol_problem())
    assert np.abs(applied(state.setting, state.candidate, state.path) - state.path).max() < 1e-6


def test_algorithm_2_does_not_move_what_the_output_does_not_contain():
    problem = van_der_pol_problem()
    start = make_start(problem)
    np.testing.assert_array_equal(
        run(GradientContractive(), problem, start).candidate.unknowns, start.unknowns
    )


def test_algorithm_2_moves_a_parameter_of_the_output():
    model = Model("x' = -x", observables={"y": "scale*x"})
    times = np.linspace(0, 1, 11)
    data = Experiment(times, {"y": 3 * np.exp(-times)}, initial={"x": 1.0})
    problem = Problem(model, data, parameters={"scale": (0.1, 10)})
    assert values(run(GradientContractive(tolerance=1e-9), problem))[0] == pytest.approx(3.0, abs=1e-6)


# projections and steps


@every_method
def test_bounds_hold_at_every_step(method):
    problem = replace(van_der_pol_problem(), parameters={"a": (1.1, 1.5), "b": (0.5, 0.9)})
    state = method.init(problem, make_start(problem))
    for _ in range(20):
        state = method.step(state)
        a, b = values(state)[2:]
        assert 1.1 <= a <= 1.5
        assert 0.5 <= b <= 0.9


def test_active_bound_does_not_block_the_end():
    problem = replace(van_der_pol_problem(), parameters={"a": (1.1, 1.5), "b": (0.5, 1.5)})
    state = run(GradientContractMultiplier(segments=4), problem)
    assert (state.status, values(state)[2]) == (Status.CONVERGED, 1.1)


def test_parameter_set_holds_for_the_result():
    state = run(
        GradientContractMultiplier(segments=4, parameter_set=HalfSpace((1, 1), 1.5)), van_der_pol_problem()
    )
    assert values(state)[2:].sum() == pytest.approx(1.5, abs=1e-9)


def test_parameter_set_counts_in_natural_units_for_log_parameters():
    parameters = {"a": Parameter(0.1, 3, log=True), "b": Parameter(0.1, 3, log=True)}
    problem = replace(van_der_pol_problem(), parameters=parameters)
    state = run(GradientContractMultiplier(segments=4, parameter_set=Ball((0.5, 0.5), 0.25)), problem)
    assert np.linalg.norm(values(state)[2:] - 0.5) == pytest.approx(0.25, abs=1e-9)


def test_state_set_holds_for_every_segment():
    method = ExtendedGradientContractMultiplier(
        segments=3, state_set=Ball((0.0, 0.0), 1.0), max_iterations=50
    )
    state = run(method, van_der_pol_problem())
    assert np.linalg.norm(state.candidate.x, axis=1).max() <= 1 + 1e-12


def test_known_initial_states_stay_exactly():
    state = run(ExtendedGradientContractMultiplier(max_iterations=20), ponds_problem())
    assert state.candidate.x[0, 0] == 1.1


def test_initial_states_by_formula_follow_the_parameters():
    state = run(ExtendedGradientContractMultiplier(max_iterations=20), ponds_problem())
    layout = state.setting.system.problem.layout
    natural = dict(zip(layout.names, layout.parameters(state.candidate.unknowns)[0], strict=True))
    assert state.candidate.x[0, 1] == pytest.approx(natural["start"] * natural["k"], rel=1e-15)


def test_fixed_rate_makes_the_printed_step():
    method = GradientContractMultiplier(rate=0.01)
    before = method.init(van_der_pol_problem(), make_start(van_der_pol_problem()))
    after = method.step(before)
    np.testing.assert_array_equal(
        after.candidate.unknowns, before.candidate.unknowns - 0.01 * before.gradient.unknowns
    )


def test_path_moves_by_the_share_sigma():
    method = ExtendedGradientContractMultiplier(sigma=0.3)
    before = method.init(van_der_pol_problem(), make_start(van_der_pol_problem()))
    after = method.step(before)
    image = applied(before.setting, after.candidate, before.path)
    np.testing.assert_allclose(after.path, 0.7 * before.path + 0.3 * image, atol=1e-14)


def test_algorithm_1_keeps_its_constant_path():
    problem = van_der_pol_problem()
    start = make_start(problem)
    state = run(GradientDescent(order=3, max_iterations=20), problem, start)
    np.testing.assert_array_equal(state.path, np.broadcast_to(start.unknowns[0, :2], state.path.shape))


def test_loss_falls_at_every_step_of_the_line_search():
    method = GradientDescent(order=6)
    state = method.init(van_der_pol_problem(), make_start(van_der_pol_problem()))
    losses = [state.loss]
    for _ in range(60):
        state = method.step(state)
        losses.append(state.loss)
    assert np.all(np.diff(losses) < 0)


def test_step_is_pure():
    method = ExtendedGradientContractMultiplier()
    state = method.init(ponds_problem(), make_start(ponds_problem()))
    first, second = method.step(state), method.step(state)
    np.testing.assert_array_equal(first.path, second.path)


# the chained operator, meshes, solutions


def test_chained_segments_act_as_one_operator():
    """P over the whole span does not depend on how many segments hold a path that they all resolve."""
    problem = van_der_pol_problem()
    start = make_start(problem)
    one, many = (
        GradientDescent(order=3, segments=k, nodes=m).init(problem, start).loss for k, m in ((1, 30), (7, 9))
    )
    assert one == pytest.approx(many, rel=1e-11)


@pytest.mark.parametrize("method", [GradientDescent(order=14), *ALL[1:]], ids=lambda m: type(m).__name__)
def test_path_of_the_solution_solves_the_equation(method):
    solution = method.solution(run(replace(method, max_iterations=200), van_der_pol_problem()))
    system = solution.system
    spread = system.spread(system.parameters(solution.unknowns))
    gap = residual(system.field, solution.states, solution.path, spread)
    assert np.abs(gap).max() < 2e-3


def test_chained_segments_see_the_jump_of_an_input():
    """x' = a*dose with a dose of 1 from 0.3 on: x(1) = 0.7 a."""
    data = Experiment([0, 1], {"x": [0, 7]}, inputs={"dose": ([0, 0.3], [0, 1])}, initial={"x": 0})
    problem = Problem(Model("x' = a*dose", inputs=["dose"]), data, parameters={"a": (0, 20)})
    assert values(run(GradientDescent(order=1, segments=1), problem))[0] == pytest.approx(10, abs=1e-5)


@every_method
def test_the_one_loop_runs_every_method(method):
    method = replace(method, max_iterations=7)
    outcome = iterate.run(method, method.init(ponds_problem(), make_start(ponds_problem())))
    assert (outcome.status, outcome.trace.shape) == (Status.ITERATION_LIMIT, (7, 3))


@every_method
def test_shapes_of_the_solution(method):
    solution = method.solution(method.init(ponds_problem(), make_start(ponds_problem())))
    mesh = solution.system.mesh
    shapes = solution.states.shape, solution.path.shape, solution.jumps.shape
    assert shapes == ((len(mesh), 3), (len(mesh), 5, 3), (len(mesh.linked), 3))


@every_method
def test_jumps_of_inputs_are_knots(method):
    state = method.init(ponds_problem(), make_start(ponds_problem()))
    assert 0.55 in state.setting.system.mesh.knots[0]


def test_segments_are_counted_for_each_experiment():
    state = ExtendedGradientContractMultiplier(segments=4).init(ponds_problem(), make_start(ponds_problem()))
    assert state.setting.system.mesh.counts.tolist() == [5, 4]  # one more for the jump of the input


def test_segment_length_is_the_longest_segment():
    problem = van_der_pol_problem()
    state = ExtendedGradientContractMultiplier(segment_length=0.25).init(problem, make_start(problem))
    assert state.setting.system.mesh.counts.tolist() == [8]


def test_lipschitz_of_a_linear_model_is_its_norm():
    model = Model("x' = 3*y\ny' = -4*x + a*0")
    problem = Problem(model, Experiment([0, 1], {"x": [1, 2], "y": [0, 1]}), parameters={"a": 1.0})
    assert lipschitz(problem, make_start(problem)) == pytest.approx(4.0)


def test_segment_length_comes_from_the_lipschitz_constant():
    model = Model("x' = -8*x + a")
    problem = Problem(model, Experiment([0, 1], {"x": [1, 0.1]}), parameters={"a": (-1, 1)})
    state = ExtendedGradientContractMultiplier().init(problem, make_start(problem))
    assert state.setting.system.mesh.counts.tolist() == [8]


# failures


@every_method
def test_overflow_is_a_status(method):
    model = Model("x' = exp(a*x)")
    problem = Problem(model, Experiment([0, 1], {"x": [1e4, 2e4]}), parameters={"a": (1, 2)})
    state = run(method, problem)
    assert state.status is Status.NOT_FINITE


def test_diverging_rate_is_a_status():
    state = run(GradientDescent(rate=1e6), van_der_pol_problem_without_bounds())
    assert state.status is Status.DIVERGED


def test_diverging_rate_keeps_a_finite_loss():
    assert np.isfinite(run(GradientDescent(rate=1e6), van_der_pol_problem_without_bounds()).loss)


def van_der_pol_problem_without_bounds() -> Problem:
    return replace(van_der_pol_problem(), parameters={})


@pytest.mark.parametrize(
    "make, code, subject",
    [
        (lambda: GradientDescent(order=0), "errors.not_whole", "order"),
        (lambda: GradientContractMultiplier(order=1.5), "errors.not_whole", "order"),
        (lambda: GradientContractMultiplier(order=2.0), "errors.not_whole", "order"),
        (lambda: GradientContractive(sigma=0), "errors.not_positive", "sigma"),
        (lambda: GradientContractive(sigma=1.1), "solvers.above_one", "sigma"),
        (lambda: GradientDescent(rate=-1), "errors.not_positive", "rate"),
        (lambda: GradientDescent(rate=np.inf), "errors.not_finite", "rate"),
        (lambda: GradientDescent(tolerance=None), "errors.not_positive", "tolerance"),
        (lambda: GradientDescent(segments=None), "errors.not_whole", "segments"),
        (lambda: GradientDescent(max_iterations=0), "errors.not_whole", "max_iterations"),
        (lambda: GradientDescent(nodes=1), "errors.not_whole", "nodes"),
        (lambda: GradientDescent(family="radau"), "solvers.not_a_family", ""),
        (lambda: GradientDescent(parameter_set=(0, 1)), "solvers.not_a_set", "parameter_set"),
        (lambda: ExtendedGradientContractMultiplier(continuity=-1), "solvers.negative", "continuity"),
        (lambda: ExtendedGradientContractMultiplier(continuity=np.inf), "errors.not_finite", "continuity"),
        (
            lambda: ExtendedGradientContractMultiplier(segment_length=0),
            "errors.not_positive",
            "segment_length",
        ),
        (
            lambda: ExtendedGradientContractMultiplier(segment_length=1, segments=3),
            "solvers.both_segments",
            "",
        ),
    ],
)
def test_bad_settings_are_named(make, code, subject):
    error = complaint(make)
    assert (error.code, error.subject) == (code, subject)


def test_set_of_another_size_is_refused():
    method = GradientDescent(parameter_set=Ball((0, 0, 0), 1))
    error = complaint(run, method, van_der_pol_problem())
    assert error.code == "solvers.parameter_set_size"
    assert (error.values["names"], error.values["size"]) == (("a", "b"), 2)


def test_state_set_with_some_initial_states_known_is_refused():
    error = complaint(run, GradientDescent(state_set=Ball(0, 9)), ponds_problem())
    assert (error.code, error.subject) == ("solvers.partly_free_states", "one")
    assert (error.values["count"], error.values["states"]) == (1, 3)


@pytest.mark.parametrize("family", list(Nodes))
def test_every_family_of_nodes_gives_the_same_loss(family):
    problem = van_der_pol_problem()
    start = make_start(problem)
    reference = GradientDescent(order=4, nodes=12).init(problem, start).loss
    other = GradientDescent(order=4, nodes=9, family=family).init(problem, start).loss
    assert other == pytest.approx(reference, rel=1e-9)


def test_iterates_that_overflow_from_a_finite_start_diverge():
    problem = problems.van_der_pol.generate(seed=1)
    assert GradientDescent().init(problem, make_start(problem)).status is Status.DIVERGED


# the paper's own problem, as long as one Picard operator contracts over all of it


@pytest.fixture(scope="module")
def first_unit_of_time() -> pf.Problem:
    """Van der Pol of the paper up to t = 1."""
    whole = pf.examples.van_der_pol.generate(seed=0, eps=0.01)
    one = whole.experiments[0]
    kept = one.times <= 1.0
    data = {name: one.values[kept, k] for k, name in enumerate(one.observables)}
    return pf.Problem(whole.model, pf.Experiment(one.times[kept], data, t0=one.t0), dict(whole.parameters))


@pytest.mark.parametrize(
    ("method", "within"),
    [(pf.GradientDescent(order=6), 0.15), (pf.GradientContractMultiplier(order=6), 1e-3)],
    ids=["Algorithm 1", "Algorithm 3"],
)
def test_gradient_methods_reach_the_optimum_of_the_papers_problem(first_unit_of_time, method, within):
    best = pf.fit(first_unit_of_time)
    found = pf.fit(first_unit_of_time, method)
    assert best.success
    assert best.loss <= found.loss < (1 + within) * best.loss
    assert found.parameters == pytest.approx(best.parameters, rel=5e-3)


def test_algorithm_2_ends_elsewhere_on_the_papers_problem(first_unit_of_time):
    found = pf.fit(first_unit_of_time, pf.GradientContractive())
    assert found.status is pf.Status.APPROXIMATE
    assert not found.success
    assert found.loss > 2 * pf.fit(first_unit_of_time).loss
