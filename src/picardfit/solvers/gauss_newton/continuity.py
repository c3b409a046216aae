"""Continuity at the knots: in what unit jumps are measured, and the multipliers that close them."""

from __future__ import annotations

import numpy as np

from picardfit.collocation.adaptation import segment_scales
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, linearise
from picardfit.collocation.point import Point


def knot_scales(system: Discretisation, point: Point | None, scale: np.ndarray) -> np.ndarray:
    """(linked, states): what jumps are measured by."""
    mesh = system.mesh
    if point is None:
        return np.broadcast_to(scale, (len(mesh.linked), len(scale)))
    return segment_scales(mesh, point.states, point.path, scale)[mesh.inner_rows]


def continuity_unit(system: Discretisation, point: Point | None) -> float:
    """The penalty that weighs as much as the data, in scaled states.

    With several samples in a segment that is their curvature per segment. With several segments between samples the
    links between them act in series, so each must be stiffer by their number.
    """
    if point is None:
        return 1.0
    problem, segments, samples = system.problem, len(system.mesh), len(system.problem.samples.times)
    per_sample = system.objective.curvature(problem.output_scale, point.outputs) / samples
    return per_sample * max(samples / segments, segments / samples)


def adjoint_multipliers(system: Discretisation, point: Point, penalty: np.ndarray) -> np.ndarray:
    """What the multipliers are if the point is a solution: stationarity of every inner state, from the last one back.

    With y the multiplier of the knot before a segment and B the derivative of the segment's end by its start:
    y = grad(data in that segment) + B' y(next knot).
    """
    mesh, states = system.mesh, point.states.shape[1]
    quadratic = linearise(system, point).quadratic
    demand = quadratic.slope[:, :states].copy()
    link = np.full(len(mesh), -1)
    link[mesh.linked] = np.arange(len(mesh.linked))
    for step in range(mesh.counts.max() - 2, 0, -1):
        segment = mesh.first[mesh.counts > step + 1] + step
        forward = quadratic.end[link[segment], :, :states].transpose(0, 2, 1)
        demand[segment] += (forward @ demand[segment + 1][..., None])[..., 0]
    return demand[mesh.linked + 1] / penalty


def new_forces(
    fine: Discretisation, point: Point, origin: np.ndarray, forces: np.ndarray
) -> tuple[np.ndarray, Linearisation | None]:
    """Multipliers times penalty on a finer mesh: old knots keep theirs, a new knot gets what stationarity asks for.

    `origin` (linked,) tells which knot of the old mesh each knot was, or -1. Also returns the linearisation at the
    point, if it had to be made.

    With y the force at a knot and B the derivative of the end of the segment after it by its start:
    y = grad(data in that segment) + B' y(next knot).
    """
    states, linked, fresh = point.states.shape[1], fine.mesh.linked, origin < 0
    result = np.where(fresh[:, None], 0.0, forces[origin])
    if not fresh.any() or not forces.any():
        return result, None
    linear = linearise(fine, point)
    slope, end = linear.quadratic.slope, linear.quadratic.end[:, :, :states].transpose(0, 2, 1)
    follows = np.append(linked[1:] == linked[:-1] + 1, False)  # another knot comes after the next segment
    while fresh.any():  # new knots in a row: the last one first
        ready = np.flatnonzero(fresh & ~(follows & np.append(fresh[1:], False)))
        demand = slope[linked[ready] + 1, :states]
        chained = follows[ready]
        after = ready[chained] + 1
        demand[chained] += (end[after] @ result[after][..., None])[..., 0]
        result[ready] = demand
        fresh[ready] = False
    return result, linear
