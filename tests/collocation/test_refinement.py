"""Joining segments that a path no longer needs, and halving those that do not resolve it."""

from __future__ import annotations

import numpy as np

import picardfit as pf
from picardfit.collocation.adaptation import even_knots
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Mesh, rule
from picardfit.collocation.point import contract_from
from picardfit.collocation.refinement import Joining, Resolution, coarsened, refined

DOSED = pf.Model("x' = -k*x + dose; z' = k*x - q*z", inputs=["dose"])


def dosed(times, breaks=()) -> pf.Problem:
    dose = (np.array([0.0, *breaks]), np.arange(len(breaks) + 1.0)) if breaks else 1.0
    data = {"x": 1 + np.asarray(times), "z": 2 + np.cos(times)}
    return pf.Problem(DOSED, pf.Experiment(times, data, inputs={"dose": dose}))


def fine_point(problem: pf.Problem, parts: int):
    """A simulated path on many short segments, with closed jumps."""
    knots = [even_knots(problem, e, 7.0 / parts) for e in range(len(problem.experiments))]
    system = Discretisation(problem, Mesh(rule(6), tuple(knots)))
    unknowns = np.full_like(problem.layout.lower, 0.5)
    params, start = {"k": 0.5, "q": 0.5}, {"x": 0.5, "z": 0.5}
    inputs = problem.experiments[0].inputs
    times = knots[0][:-1]
    run = pf.simulate(DOSED, params, start, np.append(times, knots[0][-1]), inputs=inputs)
    states = np.stack([np.asarray(run.states[name])[:-1] for name in ("x", "z")], axis=1)
    point, failed = contract_from(system, unknowns, states, np.ones(2))
    assert not failed.any() or point is not None
    return system, point


def test_segments_that_are_not_needed_are_joined():
    system, point = fine_point(dosed(np.linspace(1, 7, 12)), 96)
    fewer, moved, origin = coarsened(system, point, np.ones(2), 1e-4)
    assert len(fewer.mesh) <= 24
    assert set(fewer.mesh.knots[0]) <= set(system.mesh.knots[0])
    np.testing.assert_allclose(moved.outputs, point.outputs, atol=1e-5)
    inner = system.mesh.knots[0][1:-1][origin]
    np.testing.assert_array_equal(inner, fewer.mesh.knots[0][1:-1])


def test_breaks_stay_knots():
    breaks = (1.3, 4.1)
    system, point = fine_point(dosed(np.linspace(1, 7, 12), breaks), 96)
    fewer, _, _ = coarsened(system, point, np.ones(2), 1e-4)
    assert len(fewer.mesh) < 40
    assert set(breaks) <= set(fewer.mesh.knots[0])


def test_open_jumps_are_no_place_to_join():
    system, point = fine_point(dosed(np.linspace(1, 7, 12)), 96)
    states = point.states + 0.05 * (np.arange(len(point.states)) % 2)[:, None]
    opened, _ = contract_from(system, point.unknowns, states, np.ones(2))
    assert coarsened(system, opened, np.ones(2), 1e-4).system is system


def test_a_mesh_that_is_needed_stays():
    system, point = fine_point(dosed(np.linspace(1, 7, 12)), 4)
    found = coarsened(system, point, np.ones(2), 1e-9)
    assert found.system is system
    assert found.point is point


def test_joining_that_changes_the_objective_is_refused():
    system, point = fine_point(dosed(np.linspace(1, 7, 12)), 96)
    strict = Joining(value_change=0.0)
    assert coarsened(system, point, np.ones(2), 1e-4, strict).system is system


# refining

FOLLOWER = pf.Model("x' = -x; y' = k*(x - y)")


def layered_point(k: float):
    """A path whose knots lie off the slow manifold y = x, so that a layer of width 1/k begins at each of them."""
    times = np.linspace(0, 2, 9)
    problem = pf.Problem(FOLLOWER, pf.Experiment(times, {"x": np.exp(-times)}), parameters={"k": (1.0, 1e9)})
    system = Discretisation(problem, Mesh(rule(6), (even_knots(problem, 0, 0.25),)))
    unknowns = np.full_like(problem.layout.lower, k)
    unknowns[:, : len(problem.layout.initial_states)] = 1.0
    x = np.exp(-system.mesh.knots[0][:-1])
    point, _ = contract_from(system, unknowns, np.stack([x, x + 1.0], axis=1), np.ones(2))
    assert point is not None
    return system, point


def test_layers_that_can_be_resolved_are():
    system, point = layered_point(100.0)
    finer = refined(system, point, np.ones(2), [Resolution(None, 1e-6, rounds=12, segments=5000)])
    assert len(system.mesh) < len(finer.system.mesh) < 1000


def test_a_refinement_that_resolves_nothing_is_not_made():
    """Every new knot lies off the manifold, too, and begins a layer that is as little resolved."""
    system, point = layered_point(1e9)
    finer = refined(system, point, np.ones(2), [Resolution(None, 1e-6, rounds=4, segments=5000)])
    assert finer.system is system
