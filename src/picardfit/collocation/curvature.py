"""The curvature of data and continuity by the variables of each segment, its start state and the free parameters.

The free parameters are the same in all segments of an experiment, so only the sum of their curvatures matters. For
large models it is one product of large matrices, and the sums of each segment are never formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Indices, Mesh
from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class Blockwise:
    """When the normal equations are assembled and solved in large blocks; measured (docs/decisions/016)."""

    fewest: int = 12  # states; below, one call of LAPACK's band solver and one product per segment are faster


BLOCKWISE = Blockwise()


@dataclass(frozen=True)
class Curvature:
    """A sum over segments of 1/2 d' H d in parts, with d = (start state, free parameters)."""

    of_states: Array  # (segments, states, states)
    mixed: Array  # (segments, states, parameters)
    of_parameters: Array  # (experiments, parameters, parameters)

    def dense(self, mesh: Mesh) -> Array:
        """(segments, columns, columns); the first segment of an experiment has all curvature of parameters alone."""
        segments, states, parameters = self.mixed.shape
        hessian = np.zeros((segments, states + parameters, states + parameters))
        hessian[:, :states, :states], hessian[:, :states, states:] = self.of_states, self.mixed
        hessian[:, states:, :states] = self.mixed.transpose(0, 2, 1)
        hessian[mesh.first, states:, states:] = self.of_parameters
        return hessian

    def reduced(self, mesh: Mesh, columns: Array, parameters: Indices) -> Array:
        """(experiments, width, width): the curvature by unknowns that all start states are functions of.

        `columns` (segments, states + parameters, width) are derivatives by the unknowns, of which `parameters` are the
        free parameters.
        """
        states, width = self.of_states.shape[1], columns.shape[2]
        of_states = columns[:, :states]
        half = 0.5 * self.of_states @ of_states
        half[..., parameters] += self.mixed
        result = np.empty((len(mesh.first), width, width))
        for e, (a, b) in enumerate(pairwise([*mesh.first.tolist(), len(mesh)])):
            product = of_states[a:b].reshape(-1, width).T @ half[a:b].reshape(-1, width)
            result[e] = product + product.T
        result[:, parameters[:, None], parameters] += self.of_parameters
        return result


def data_curvature(
    system: Discretisation, rows: Array, blockwise: Blockwise = BLOCKWISE
) -> Array | Curvature:
    """R' R of rows R (blocks, rows, columns), summed over the blocks of each segment: (segments, columns, columns)."""
    blocks, mesh, states = system.blocks, system.mesh, len(system.problem.model.states)
    if states < blockwise.fewest:
        return blocks.by_segment(rows.transpose(0, 2, 1) @ rows)
    of_states, of_parameters = rows[..., :states], rows[..., states:]
    back, begins = of_states.transpose(0, 2, 1), np.searchsorted(blocks.segment, mesh.first).tolist()
    squares = _squares(of_parameters, pairwise([*begins, len(rows)]))
    return Curvature(blocks.by_segment(back @ of_states), blocks.by_segment(back @ of_parameters), squares)


def with_continuity(
    mesh: Mesh, curvature: Array | Curvature, ends: Array, penalty: Array, weighted: Array
) -> tuple[Array, Array, Array]:
    """H + B' W B by states (segments, states, states), by states and free parameters, and by free parameters.

    The last are sums over each experiment (experiments, parameters, parameters). `ends`: B, `penalty`: W, `weighted`:
    W B (linked, states, columns).
    """
    states, linked = ends.shape[1], mesh.linked_rows
    if not isinstance(curvature, Curvature):
        total = curvature.copy()
        total[linked] += ends.transpose(0, 2, 1) @ weighted
        by_parameters = np.add.reduceat(total[:, states:, states:], mesh.first)
        return total[:, :states, :states], total[:, :states, states:], by_parameters
    back = ends[..., :states].transpose(0, 2, 1)
    of_states, mixed = curvature.of_states.copy(), curvature.mixed.copy()
    of_states[linked] += back @ weighted[..., :states]
    mixed[linked] += back @ weighted[..., states:]
    squares = _squares(np.sqrt(penalty)[..., None] * ends[..., states:], iter(mesh.inner_ranges))
    return of_states, mixed, curvature.of_parameters + squares


def _squares(rows: Array, ranges: Iterator[tuple[int, int]]) -> Array:
    """(ranges, columns, columns): R' R of each range of an array (k, rows, columns)."""
    parts = [rows[a:b].reshape(-1, rows.shape[2]) for a, b in ranges]
    return np.stack([part.T @ part for part in parts])
