"""Warm fits against fits from scratch."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.evidence.certificate import path_value
from picardfit.search.searches import along
from picardfit.solvers.loop import run
from picardfit.solvers.refit import expansion_at, refined, refit


@pytest.mark.parametrize("name", pf.examples.ALL)
def test_new_data_give_the_fit_from_scratch(name):
    module = pf.examples.ALL[name]
    first = pf.fit(module.generate(seed=1))
    other = module.generate(seed=1)
    rng = np.random.default_rng(5)
    runs = [
        type(one)(
            one.times,
            {n: v + 0.02 * rng.standard_normal(len(v)) for n, v in one.observations.items()},
            one.name,
            one.inputs,
            one.initial,
            one.t0,
        )
        for one in other.experiments
    ]
    problem = other.with_experiments(runs)
    cold = pf.fit(problem)
    warm = refit(expansion_at(problem, first.solution), first.residual_variance, tolerance=1e-8)
    assert warm.value == pytest.approx(path_value(cold.solution), rel=1e-5)
    assert np.abs(warm.point.jumps / expansion_at(problem, first.solution).scale).max() <= 1e-9


def test_at_the_optimum_there_is_nothing_to_do():
    fit = pf.fit(pf.examples.van_der_pol.generate(seed=1))
    found = refit(expansion_at(fit.problem, fit.solution), fit.residual_variance)
    assert found.steps == 0
    assert found.value == pytest.approx(path_value(fit.solution), rel=1e-12)


def test_a_finer_mesh_changes_nothing():
    fit = pf.fit(pf.examples.van_der_pol.generate(seed=1))
    expansion = expansion_at(fit.problem, fit.solution)
    finer = refined(expansion, 1e-9)
    assert len(finer.system.mesh) > len(expansion.system.mesh)
    np.testing.assert_allclose(finer.matrix.dense(), expansion.matrix.dense(), rtol=1e-5)
    assert finer.point.data == pytest.approx(expansion.point.data, rel=1e-7)


def test_where_small_jumps_matter_much_a_warm_search_does_not_stray():
    """With a small penalty the minimum at the first multipliers lies far off: it took 140 to 400 iterations."""
    model = pf.Model("x' = y\ny' = mu*(1 - x^2)*y - w^2*x", observables=["x"])
    truth, times = {"mu": 20.0, "w": 1.0}, np.linspace(0, 104.7, 120)
    exact = np.asarray(pf.simulate(model, truth, {"x": 2.0, "y": 0.0}, times).observables["x"])
    data = exact + 0.05 * np.random.default_rng(1).standard_normal(len(exact))
    bounds = {name: pf.Parameter(value / 10, 10 * value, log=True) for name, value in truth.items()}
    problem, method = pf.Problem(model, [pf.Experiment(times, {"x": data})], bounds), pf.LiftedGaussNewton()
    unknowns = np.array([[2.01261485, -0.43058987, 2.63451367, -0.17132055]])  # in a narrow valley
    with np.errstate(all="ignore"):
        path = along(problem, unknowns, method.nodes, method.resolution)
        outcome = run(method, method.resume(problem, path, stiff=True))
    assert outcome.status is pf.Status.CONVERGED
    assert outcome.iterations < 100
    assert outcome.trace[-1, 0] < 0.98 * 0.5 * np.mean((data - exact) ** 2)
