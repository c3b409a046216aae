"""The curvature in parts, as large models have it, against the curvature of each segment."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.condensing import Quadratic, reduced
from picardfit.collocation.curvature import Blockwise, Curvature, data_curvature, with_continuity
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Mesh, rule

MODEL = pf.Model("x' = -a*x + b*y; y' = a*x - y")


@pytest.fixture(params=["a sample in every segment", "several in few segments"])
def system(request) -> Discretisation:
    """Two experiments, `a` with a value of its own in each."""
    few = request.param.startswith("several")
    times = [0.05, 0.1, 0.12, 3.9] if few else [0.5, 1.5, 2.5, 3.5]
    runs = [pf.Experiment(times, {"x": np.ones(4), "y": np.ones(4)}, name, t0=0.0) for name in "pq"]
    problem = pf.Problem(MODEL, runs, {"a": pf.Parameter(0.1, 5, local=True), "b": (0.1, 5)})
    return Discretisation(problem, Mesh(rule(3), (np.linspace(0, 4, 14 if few else 5),) * 2))


@pytest.fixture
def both(system) -> tuple[np.ndarray, Curvature]:
    """The curvature of random rows, of each segment and in parts."""
    blocks, columns = system.blocks, 2 + len(system.problem.layout.columns.parameters)
    rows = np.random.default_rng(0).standard_normal((len(blocks.segment), 2 * blocks.width, columns))
    whole = data_curvature(system, rows)
    parts = data_curvature(system, rows, Blockwise(fewest=1))
    assert isinstance(whole, np.ndarray)
    assert isinstance(parts, Curvature)
    return whole, parts


def test_parts_have_the_sums_of_the_segments(system, both):
    whole, parts = both
    first = system.mesh.first
    dense = parts.dense(system.mesh)
    np.testing.assert_allclose(dense[:, :2], whole[:, :2], atol=1e-12)
    np.testing.assert_allclose(dense[:, :, :2], whole[:, :, :2], atol=1e-12)
    np.testing.assert_allclose(np.add.reduceat(dense, first), np.add.reduceat(whole, first), atol=1e-12)


def test_continuity_adds_the_same_to_the_parts(system, both):
    mesh, rng = system.mesh, np.random.default_rng(1)
    ends = rng.standard_normal((len(mesh.linked), 2, both[0].shape[2]))
    penalty = rng.uniform(0.1, 10, (len(mesh.linked), 2))
    one, other = (with_continuity(mesh, each, ends, penalty, penalty[..., None] * ends) for each in both)
    for expected, found in zip(one, other, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_parts_reduce_to_the_same_curvature_of_the_unknowns(system, both):
    mesh, layout, rng = system.mesh, system.problem.layout, np.random.default_rng(2)
    ends = rng.standard_normal((len(mesh.linked), 2, both[0].shape[2]))
    initial = rng.standard_normal((2, 2, layout.width))
    slope, jumps = rng.standard_normal(both[0].shape[:2]), np.zeros((len(mesh.linked), 2))
    whole, parts = (reduced(system, Quadratic(each, slope, ends, jumps, initial)) for each in both)
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-9, atol=1e-9 * np.abs(whole[0]).max())
    np.testing.assert_array_equal(parts[1], whole[1])
