"""Recursions along segments against the products written out, for one and for several experiments."""

from __future__ import annotations

import numpy as np
import pytest

from picardfit.collocation.mesh import Mesh, rule
from picardfit.collocation.recursion import backward, forward


def mesh_of(*counts: int) -> Mesh:
    return Mesh(rule(3), tuple(np.linspace(0, 1, count + 1) for count in counts))


meshes = pytest.mark.parametrize("counts", [(1,), (5,), (4, 1, 6), (2, 2)])


@meshes
def test_forward_is_the_product_of_the_ends(counts):
    rng, mesh, states, rows = np.random.default_rng(1), mesh_of(*counts), 2, 3
    ends = rng.standard_normal((len(mesh.linked), states, rows))
    added = rng.standard_normal((len(mesh.linked), states, 4))
    columns = rng.standard_normal((len(mesh), rows, 4))
    expected = columns.copy()
    for k, segment in enumerate(mesh.linked):
        expected[segment + 1, :states] = ends[k] @ expected[segment] + added[k]
    np.testing.assert_allclose(forward(mesh, ends, columns.copy(), added), expected, rtol=1e-12)
    plain = forward(mesh, ends, columns.copy())
    for k, segment in enumerate(mesh.linked):
        np.testing.assert_allclose(plain[segment + 1, :states], ends[k] @ plain[segment], rtol=1e-12)


@meshes
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_backward_satisfies_its_equation_at_the_chosen_knots_and_keeps_the_others(counts, share):
    rng, mesh, states = np.random.default_rng(2), mesh_of(*counts), 2
    knots = len(mesh.linked)
    ends, values = rng.standard_normal((knots, states, states)), rng.standard_normal((knots, states))
    slope, chosen = rng.standard_normal((len(mesh), states)), rng.uniform(size=knots) < share
    found = backward(mesh, ends, slope, values, chosen)
    np.testing.assert_array_equal(found[~chosen], values[~chosen])
    for k in np.flatnonzero(chosen):
        after = mesh.linked[k] + 1
        expected = slope[after].copy()
        if after in mesh.linked:
            expected += ends[k + 1].T @ found[k + 1]
        np.testing.assert_allclose(found[k], expected, rtol=1e-12)


@meshes
def test_backward_is_the_adjoint_of_forward(counts):
    """<g, d> over all segments, d driven by c, is <y, c> at the knots with y driven by g."""
    rng, mesh, states = np.random.default_rng(3), mesh_of(*counts), 3
    knots = len(mesh.linked)
    ends, added = rng.standard_normal((knots, states, states)), rng.standard_normal((knots, states, 1))
    slope = rng.standard_normal((len(mesh), states))
    moved = forward(mesh, ends, np.zeros((len(mesh), states, 1)), added)
    adjoint = backward(mesh, ends, slope, np.zeros((knots, states)), np.ones(knots, bool))
    assert np.sum(slope * moved[..., 0]) == pytest.approx(
        np.sum(adjoint * added[..., 0]), rel=1e-10, abs=1e-12
    )
