"""Recursions along the segments of each experiment: derivatives forwards in time, multipliers backwards.

With exact continuity the start state of every segment is a function of the unknowns: it is the end state of the segment
before it. With B_j = [derivative of the end state of segment j by its start state | by the free parameters] derivatives
and first-order corrections of start states run forwards (X_{j+1} = B_j [X_j; ..] + c_j), and the adjoint variables of
continuity run backwards (y_j = g_j + B_j' y_{j+1}). Segments of different experiments are handled together.
"""

from __future__ import annotations

import numpy as np

from picardfit.collocation.condensing import Quadratic
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Flags, Mesh
from picardfit.formulas.kernels import Array


def forward(mesh: Mesh, ends: Array, columns: Array, added: Array | None = None) -> Array:
    """Fill the first rows of `columns` from segment to segment, in place: z_{j+1}[:states] = B_j z_j + c_j.

    `ends` (linked, states, rows): B; `columns` (segments, rows, k): z, given in the first segment of each experiment
    and in the rows beyond the states; `added` (linked, states, k): c, by default zero. Returns `columns`.
    """
    states = ends.shape[1]
    if len(mesh.first) == 1:  # plain products are several times faster than indexed ones
        for j, end in enumerate(ends):
            np.matmul(end, columns[j], out=columns[j + 1, :states])
            if added is not None:
                columns[j + 1, :states] += added[j]
        return columns
    link = np.full(len(mesh), -1)
    link[mesh.linked] = np.arange(len(mesh.linked))
    for step in range(mesh.counts.max() - 1):
        segment = mesh.first[mesh.counts > step + 1] + step
        here = link[segment]
        moved = ends[here] @ columns[segment]
        columns[segment + 1, :states] = moved if added is None else moved + added[here]
    return columns


def backward(mesh: Mesh, ends: Array, slope: Array, values: Array, chosen: Flags) -> Array:
    """Adjoint variables at the chosen knots, from the last one back: y_j = g_(j+1) + B_(j+1)' y_(j+1).

    Knot j follows the segment `mesh.linked[j]`. `ends` (linked, states, states): B, the derivative of the end of the
    segment before a knot by its start; `slope` (segments, states): g; `values` (linked, states): y where it is known;
    `chosen` (linked,) bool: knots where it is not. Returns y (linked, states).
    """
    linked, result, number = mesh.linked, values.copy(), np.flatnonzero(chosen)
    if not len(number):
        return result
    follows = np.append(linked[1:] == linked[:-1] + 1, False)  # another knot comes after the next segment
    unknown_next = follows & np.append(chosen[1:], False)
    known = np.flatnonzero(~unknown_next)
    depth = known[np.searchsorted(known, number)] - number  # unknown knots between this one and a known value
    order = np.argsort(depth, kind="stable")
    for ready in np.split(number[order], np.cumsum(np.bincount(depth))[:-1]):
        demand = slope[linked[ready] + 1]
        linking = follows[ready]
        after = ready[linking] + 1
        demand[linking] += (ends[after].transpose(0, 2, 1) @ result[after][..., None])[..., 0]
        result[ready] = demand
    return result


def closing_step(mesh: Mesh, quadratic: Quadratic, jumps: Array) -> Array:
    """(segments, states): steps of the start states that close the jumps to first order, first states held.

    d_{j+1} = B_j d_j + c_j with the jumps c (linked, states).
    """
    states = jumps.shape[1]
    step = np.zeros((len(mesh), states, 1))
    return forward(mesh, quadratic.end[..., :states], step, jumps[..., None])[..., 0]


def start_derivatives(system: Discretisation, quadratic: Quadratic) -> Array:
    """(segments, states + free parameters, width): derivative of each segment's own variables by the unknowns.

    The own variables of a segment are its start state and the free parameters.
    """
    mesh, layout = system.mesh, system.problem.layout.columns
    states = quadratic.initial.shape[1]
    columns = np.zeros((len(mesh), states + len(layout.parameters), layout.width))
    columns[:, states + np.arange(len(layout.parameters)), layout.parameters] = 1
    columns[mesh.first, :states] = quadratic.initial
    return forward(mesh, quadratic.end, columns)


def reduced(system: Discretisation, quadratic: Quadratic, columns: Array) -> tuple[Array, Array]:
    """Hessian (experiments, width, width) and slope (experiments, width) of the objective in the unknowns alone.

    `columns` are the `start_derivatives`: inner start states are functions of the unknowns, continuity is exact.
    """
    back, first = columns.transpose(0, 2, 1), system.mesh.first
    hessian = np.add.reduceat(back @ quadratic.hessian @ columns, first)
    return hessian, np.add.reduceat((back @ quadratic.slope[..., None])[..., 0], first)


def chained(system: Discretisation, quadratic: Quadratic) -> tuple[Array, Array]:
    """`reduced` with the start derivatives of the same model."""
    return reduced(system, quadratic, start_derivatives(system, quadratic))
