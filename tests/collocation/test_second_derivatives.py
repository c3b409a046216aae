"""Second derivatives against differences of the slope, and what they do for a search in noisy data."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.bounded_qp import is_convex
from picardfit.collocation.condensing import factorise
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, linearise
from picardfit.collocation.mesh import Mesh, Nodes, rule
from picardfit.collocation.picard import Contraction
from picardfit.collocation.point import contract_from
from picardfit.collocation.second_derivatives import has_second_order, newton_model
from picardfit.solvers.gauss_newton.stages import SecondDerivatives

TIMES = np.linspace(0.1, 1.9, 7)
EQUATIONS = "x' = a*x - b*x*y; y' = c*x*y - y/(k + y)"
SCALE = np.array([1.0, 0.8])
PLAIN = dict.fromkeys("abck", (0.1, 3.0))
LOG = {name: pf.Parameter(0.1, 3.0, log=True) for name in "abck"}
CASES = {
    "states measured": ({"y": "y", "x": "x"}, PLAIN, None),
    "log parameters": ({"x": "x"}, LOG, None),
    "formulas measured": ({"o": "log(x) + a*y^2", "x": "x"}, LOG, None),
    "fixed and local": ({"x": "x"}, {**PLAIN, "a": 0.9, "b": pf.Parameter(0.1, 3.0, local=True)}, None),
    "log initial state": ({"x": "x"}, PLAIN, {"x": pf.Parameter(0.1, 3.0, log=True)}),
    "initial formula": ({"x": "x*y"}, PLAIN, {"x": "a*b^2", "y": 0.7}),
}


LIKELIHOODS = {
    "estimated level": pf.Noise(additive=(0.05, 2.0)),
    "proportional": pf.Noise(additive=0.1, proportional=0.3),
    "one factor for all": pf.Noise(additive=0.1, proportional=0.3, common=True),
    "student": pf.StudentT(additive=0.2, degrees=(2.0, 20.0)),
    "log normal": pf.LogNormal(sigma="0.2 + 0.1*x"),
}


def system_of(observables, parameters, initial, noise=None, knots=(0.0, 0.6, 1.1, 2.0), family=Nodes.RADAU):
    model = pf.Model(EQUATIONS, observables=observables)
    data = {name: 1 + 0.5 * np.sin(3 * TIMES + k) for k, name in enumerate(observables)}
    experiments = [pf.Experiment(TIMES, data, name=name) for name in ("one", "two")]
    problem = pf.Problem(model, experiments, parameters, initial=initial, noise=noise)
    return Discretisation(problem, Mesh(rule(6, family), (np.array(knots), np.array(knots) * 0.99 + 0.01)))


def place(system: Discretisation):
    """Unknowns and segment states away from any solution."""
    layout, rng = system.problem.layout, np.random.default_rng(0)
    unknowns = layout.internal(np.full((2, layout.width), 0.8) + 0.1 * rng.random(layout.width))
    return unknowns, 0.7 + 0.2 * rng.random((len(system.mesh), 2))


def model_at(system: Discretisation, unknowns, states, forces):
    """The linear model and the slope by segment states and parameters, with constant forces on the ends."""
    point, _ = contract_from(system, unknowns, states, SCALE, Contraction(tolerance=1e-13))
    linear = linearise(system, point)
    slope = linear.quadratic.slope.copy()
    slope[system.mesh.linked] += (forces[:, None, :] @ linear.quadratic.end)[:, 0]
    return point, linear, slope


@pytest.mark.parametrize("family", [Nodes.RADAU, Nodes.LOBATTO, Nodes.CHEBYSHEV])
@pytest.mark.parametrize("case", [*CASES][:4])
def test_columns_of_segments_are_differences_of_the_slope(case, family):
    system = system_of(*CASES[case], family=family)
    unknowns, states = place(system)
    forces = np.random.default_rng(1).normal(size=(len(system.mesh.linked), 2))
    point, linear, _ = model_at(system, unknowns, states, forces)
    found = newton_model(system, point, linear, forces, SCALE).hessian
    np.testing.assert_allclose(found, found.transpose(0, 2, 1), atol=1e-12)
    free = np.setdiff1d(
        np.arange(len(system.mesh)), system.mesh.first
    )  # the first ones start at the unknowns
    columns, step = system.problem.layout.columns.parameters, 1e-5
    for k in range(found.shape[2]):
        slopes = []
        for sign in (1, -1):
            moved_unknowns, moved = unknowns.copy(), states.copy()
            if k < 2:
                moved[:, k] += sign * step
            else:
                moved_unknowns[:, columns[k - 2]] += sign * step
            slopes.append(model_at(system, moved_unknowns, moved, forces)[2])
        expected = (slopes[0] - slopes[1]) / (2 * step)
        np.testing.assert_allclose(found[free, :, k], expected[free], rtol=1e-5, atol=2e-6)
    curved = np.abs(found - linear.quadratic.hessian).max()
    assert curved > 0.1 * np.abs(linear.quadratic.hessian).max()


@pytest.mark.parametrize("case", CASES)
def test_reduced_matrix_is_that_of_the_whole_objective(case):
    """On one segment there is no continuity: the matrix is the Hessian of the data by the unknowns."""
    check_reduced_matrix(system_of(*CASES[case], knots=(0.0, 2.0)))


@pytest.mark.parametrize("noise", LIKELIHOODS)
def test_reduced_matrix_of_a_likelihood(noise):
    case = {"x": "x", "both": "x + y"}, LOG, None
    check_reduced_matrix(system_of(*case, noise=LIKELIHOODS[noise], knots=(0.0, 2.0)))


def test_kinks_keep_the_curvature_of_the_search():
    """A Laplace density with a formula as observable: only the formula and the path add theirs."""
    system = system_of({"o": "x*y"}, PLAIN, None, noise=pf.Laplace(scale=0.2))
    assert not system.objective.smooth
    unknowns, states = place(system)
    forces = np.zeros((len(system.mesh.linked), 2))
    point, linear, _ = model_at(system, unknowns, states, forces)
    added = newton_model(system, point, linear, forces, SCALE).hessian - linear.quadratic.hessian
    assert 0 < np.abs(added).max() < 100 * np.abs(linear.quadratic.slope).max()


def check_reduced_matrix(system: Discretisation) -> None:
    layout, none = system.problem.layout, np.zeros((0, 2))
    unknowns, states = place(system)

    def reduced(quadratic):
        return factorise(system.mesh, layout.columns, quadratic, none, np.zeros(2))

    def slope(unknowns):
        linear = model_at(system, unknowns, states, none)[1]
        return reduced(linear.quadratic).reduce(linear.quadratic.slope, none).slope

    point, linear, _ = model_at(system, unknowns, states, none)
    found = reduced(newton_model(system, point, linear, none, SCALE)).hessian
    for k in range(layout.width):
        step = np.zeros_like(unknowns)
        step[:, k] = 1e-5
        expected = (slope(unknowns + step) - slope(unknowns - step)) / 2e-5
        np.testing.assert_allclose(found[:, :, k], expected, rtol=1e-5, atol=2e-6 * np.abs(found).max())


def test_differences_of_differences_are_not_used():
    model = pf.Model.from_function(
        lambda t, x, p, u: [-p[0] * x[0] if x[0] > 0 else 0.0], states=["x"], parameters=["k"]
    )
    data = pf.Experiment(TIMES, {"x": np.exp(-TIMES)})
    system = Discretisation(
        pf.Problem(model, data, {"k": (0.1, 2.0)}), Mesh(rule(4), (np.array([0.0, 2.0]),))
    )
    assert not has_second_order(system)
    assert has_second_order(system_of(*CASES["states measured"]))


@pytest.mark.parametrize("local", [0, 1, 2])
def test_convex_is_what_the_eigenvalues_of_the_whole_matrix_say(local):
    rng, seen = np.random.default_rng(local), set()
    for _ in range(60):
        half = rng.normal(size=(3, 4, 4))
        hessian = half @ half.transpose(0, 2, 1) + 1.5 * rng.normal() * np.eye(4)
        held = np.zeros((3, 4), bool)
        held[:, local:] = rng.random(4 - local) < 0.3
        held[:, :local] = rng.random((3, local)) < 0.3
        whole = np.zeros((3 * local + 4 - local,) * 2)
        for e in range(3):
            index = np.r_[e * local : (e + 1) * local, 3 * local : len(whole)]
            whole[np.ix_(index, index)] += hessian[e]
        free = np.concatenate([~held[:, :local].ravel(), ~held[0, local:]])
        expected = bool((np.linalg.eigvalsh(whole[np.ix_(free, free)]) > 0).all())
        assert is_convex(hessian, local, held) == expected
        seen.add(expected)
    assert seen == {True, False}


def test_noise_no_longer_slows_the_last_steps():
    """Gauss-Newton takes more than a hundred iterations here; both end at the same optimum."""
    problem = pf.examples.fitzhugh_nagumo.generate(seed=3, eps=0.2, eps_is="variance")
    slow = pf.fit(
        problem,
        method=pf.LiftedGaussNewton(second_derivatives=SecondDerivatives(missed=np.inf)),
        policy=pf.SearchPolicy(most=1),
    )
    fast = pf.fit(problem, policy=pf.SearchPolicy(most=1))
    assert fast.status is slow.status is pf.Status.CONVERGED
    assert slow.loss * (1 - 1e-6) < fast.loss < slow.loss * (1 + 1e-9)
    assert 2 * fast.iterations < slow.iterations


def test_linearisation_is_left_as_it_was():
    """A step with second derivatives must not leave them in the derivatives that the next step uses again."""
    problem = pf.examples.fitzhugh_nagumo.generate(seed=3, eps=0.2, eps_is="variance")
    seen: list[Linearisation] = []

    class Watched(pf.LiftedGaussNewton):
        def step(self, state):
            after = super().step(state)
            if state.second_order and after.linear is not None:
                seen.append(after.linear)
            return after

    pf.fit(problem, method=Watched(), policy=pf.SearchPolicy(most=1))
    assert seen
    for linear in seen:
        assert (
            np.linalg.eigvalsh(linear.quadratic.hessian) > -1e-9 * np.abs(linear.quadratic.hessian).max()
        ).all()
