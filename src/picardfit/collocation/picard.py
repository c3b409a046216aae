"""The Picard operator on a mesh, the matrices of Newton's method for its fixed point, and exact multipliers.

On each segment, with h its length and A the integration weights of the rule (section 4 of the design):

    (P u)_i = x + h * sum_k A[i, k] f(t_k, u_k, p)

Axis order: path u (segments, nodes, states), start states x (segments, states), parameters p (segments, 1, parameters);
derivatives carry one more axis with the columns [states x | free parameters].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from picardfit.collocation.mesh import AnySegments, Indices, Rule, Segments
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.model.measurement import Padded


@dataclass(frozen=True)
class Field:
    """The right-hand side bound to the nodes of a mesh and to the inputs there."""

    rhs: BatchedMap | NumericMap | Padded
    mesh: AnySegments
    inputs: Array  # (segments, nodes, inputs)

    def part(self, segments: slice | Indices) -> Field:
        """The same on some of the segments."""
        mesh = self.mesh
        if isinstance(segments, slice) and segments == slice(0, len(mesh.length)):
            return self
        part = Segments(mesh.rule, mesh.length[segments], mesh.node_times[segments], mesh.integral[segments])
        return Field(self.rhs, part, self.inputs[segments])

    def slopes(self, path: Array, params: Array) -> Array:
        """f at the nodes: (segments, nodes, states)."""
        return self.rhs.value(self.mesh.node_times, path, params, self.inputs)

    def linearise(self, path: Array, params: Array) -> tuple[Array, Array, Array]:
        """f, its derivatives with respect to states and to parameters, at the nodes."""
        return self.rhs.linearise(self.mesh.node_times, path, params, self.inputs)


def apply(mesh: AnySegments, x: Array, slopes: Array) -> Array:
    """P u at the nodes, given f along u."""
    return x[:, None, :] + mesh.integral @ slopes


def end_states(mesh: AnySegments, x: Array, path: Array) -> Array:
    """The path at the end of every segment: (segments, states)."""
    if mesh.rule.nodes[-1] == 1.0:  # the end is a node
        return path[:, -1]
    weights = mesh.rule.along(np.ones(1))[0]
    ends: Array = weights[0] * x + weights[1:] @ path
    return ends


def integrate(mesh: AnySegments, moved: Array) -> Array:
    """h A applied along the nodes of an array (segments, nodes, states, columns)."""
    return (mesh.integral @ moved.reshape(*moved.shape[:2], -1)).reshape(moved.shape)


def newton_matrix(mesh: AnySegments, wrt_x: Array) -> Array:
    """I - h A (x) f_x, one matrix a segment: (segments, nodes * states, nodes * states).

    Both Newton's contraction towards u = P u and the exact multipliers (n = infinity) are solves with it.
    """
    segments, nodes, states, _ = wrt_x.shape
    size = nodes * states
    scaled = -mesh.length[:, None, None, None] * wrt_x
    rows = scaled.transpose(0, 2, 1, 3).reshape(segments, 1, states, size)  # long rows: fast to multiply
    matrix = _repeated_weights(mesh.rule, states) * rows
    matrix.reshape(segments, size * size)[:, :: size + 1] += 1
    return matrix.reshape(segments, size, size)


@lru_cache(maxsize=32)
def _repeated_weights(rule: Rule, states: int) -> Array:
    """(nodes, 1, nodes * states): each weight once for every state."""
    return np.repeat(rule.weights, states, axis=1)[:, None, :]


def defect(mesh: AnySegments, wrt_x: Array, right: Array, solved: Array) -> Array:
    """right - (I - h A (x) f_x) solved, without the matrix: (segments, nodes * states, columns)."""
    moved = wrt_x @ solved.reshape(*wrt_x.shape[:3], -1)
    return right - solved + integrate(mesh, moved).reshape(right.shape)


def exact_multipliers(mesh: AnySegments, inverse: Array, wrt_p: Array) -> Array:
    """S = (I - h A (x) f_x)^-1 [I, h A f_p]: derivative of the fixed point u = P u by (x, p).

    `inverse` is the inverse of `newton_matrix`. Returns (segments, nodes, states, states + parameters).
    """
    return (inverse @ right_sides(mesh, wrt_p)).reshape(*wrt_p.shape[:3], -1)


@lru_cache
def _unit(states: int) -> Array:
    return np.eye(states)


def right_sides(mesh: AnySegments, wrt_p: Array) -> Array:
    """[I, h A f_p], what `newton_matrix` is solved for: (segments, nodes * states, states + parameters)."""
    segments, nodes, states, columns = wrt_p.shape
    right = np.empty((segments, nodes, states, states + columns))
    right[..., :states] = _unit(states)
    right[..., states:] = integrate(mesh, wrt_p)
    return right.reshape(segments, nodes * states, states + columns)


def end_derivatives(mesh: AnySegments, linked: Indices, multipliers: Array) -> Array:
    """(linked, states, columns): derivative of the end state of the `linked` segments, from those of the path."""
    if mesh.rule.nodes[-1] == 1.0:
        last: Array = multipliers[linked, -1]
        return last
    weights = mesh.rule.along(np.ones(1))[0]
    flat = multipliers[linked].reshape(len(linked), len(weights) - 1, -1)
    ends: Array = (weights[1:] @ flat).reshape(len(linked), *multipliers.shape[2:])
    ends[..., : ends.shape[1]] += weights[0] * np.eye(ends.shape[1])
    return ends


def residual(field: Field, x: Array, path: Array, params: Array) -> Array:
    """u - P u at the nodes."""
    return path - apply(field.mesh, x, field.slopes(path, params))


def tails(mesh: AnySegments, slopes: Array) -> Array:
    """(segments, states): size of the last two Legendre modes of f times h, what the mesh does not resolve."""
    modes = mesh.rule.modes[-2:] @ slopes
    size: Array = mesh.length[:, None] * np.abs(modes).max(axis=1)
    return size
