"""A first path exists wherever f is finite at the initial states, whatever the guessed states are."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.adaptation import first_mesh
from picardfit.collocation.mesh import Nodes, rule
from picardfit.search.starts import make_start
from picardfit.solvers.gauss_newton.stages import MeshRefinement
from picardfit.solvers.gauss_newton.state import State

TIMES = np.linspace(0, 10, 31)


def saturated():
    """Noise lifts the data beyond the total of 1, past a pole at 1.1."""
    model = pf.Model("s = 1 - x\nx' = v*s/(0.1 + s) - k*x")
    data = 1 + 0.3 * np.sin(7 * TIMES)
    return pf.Problem(
        model, pf.Experiment(TIMES, {"x": data}, initial={"x": 0.0}), {"v": (0.1, 100), "k": (0.01, 10)}
    )


def hidden_total():
    """A hidden state and a measured one share a total that the guesses exceed."""
    model = pf.Model("s = 3 - x - z\nx' = v*s/(0.1 + s) - k*x\nz' = k*x - v*z*(1 + s)", observables=["x"])
    data = 2.9 + 0.3 * np.sin(7 * TIMES)
    known = {"x": 1.0, "z": 0.5}
    return pf.Problem(
        model, pf.Experiment(TIMES, {"x": data}, initial=known), {"v": (0.01, 100), "k": (0.01, 100)}
    )


def stiff_oscillator():
    """Steps between samples where a wrong stiffness explodes."""
    model = pf.Model("x' = y\ny' = mu*(1 - x^2)*y - w^2*x", observables=["x"])
    data = 2 * np.sign(np.cos(TIMES)) * (1 - (TIMES % np.pi) / 7)
    return pf.Problem(
        model, pf.Experiment(TIMES, {"x": data}), {"mu": pf.Parameter(1, 1e4, log=True), "w": (1, 100)}
    )


def logarithm():
    model = pf.Model("x' = y\ny' = -w^2*x", observables={"l": "log(x)"})
    run = pf.Experiment(TIMES, {"l": np.cos(TIMES)}, initial={"x": 1.0, "y": 0.0})
    return pf.Problem(model, run, {"w": (0.1, 20)})


@pytest.mark.parametrize("build", [saturated, hidden_total, stiff_oscillator, logarithm])
def test_every_start_has_a_path(build):
    problem = build()
    for seed in range(10):
        start = make_start(problem, rng=np.random.default_rng(seed), matched=bool(seed % 2))
        state = pf.LiftedGaussNewton().init(problem, start)
        assert isinstance(state, State)
        assert np.isfinite(state.point.path).all()
        assert state.residual < 1e-4


def explosion():
    """From x = 1 the solution of x' = 1000 x^2 ends after a thousandth of the time between two samples."""
    run = pf.Experiment(TIMES, {"x": 1 + 0.1 * np.cos(TIMES)})
    return pf.Problem(pf.Model("x' = k*x^2 - x"), run, {"k": pf.Parameter(1e-3, 1e15, log=True)})


def test_a_start_that_explodes_between_samples_still_converges():
    problem = explosion()
    fit = pf.fit(problem, start={"k": 1000.0}, policy=pf.SearchPolicy(most=1, rescue=None))
    assert fit.success
    assert fit.parameters["k"] == pytest.approx(pf.fit(problem, start={"k": 1.0}).parameters["k"], rel=1e-4)


def test_a_first_path_makes_no_more_segments_than_allowed():
    """Where only 16,000 segments contract the start is given up; a search from another one costs less than a step."""
    problem = explosion()
    few, by_default, many = segments_of_first_paths(problem, MeshRefinement().first_growth, 256)
    assert by_default == 0
    assert many > 100 * few


def segments_of_first_paths(problem, *growths):
    """Segments of the first mesh, and of the first paths with these limits; none where there is no path."""
    start = make_start(problem, problem.layout.internal(np.array([[np.nan, 1000.0]])), matched=False)
    found = [len(first_mesh(problem, start, rule(5, Nodes.RADAU), np.ones(1)))]
    for growth in growths:
        method = pf.LiftedGaussNewton(refinement=MeshRefinement(first_growth=growth))
        found.append(method.init(problem, start).segments)
    return found
