"""Continuity at the knots: the unit in which jumps are measured, and the multipliers that close them.

A force is a multiplier of the augmented Lagrangian times its penalty. Stationarity of the state at a knot demands
y_j = g_(j+1) + B_(j+1)' y_(j+1), with g the slope of the data on the segment after the knot and B the derivative of
that segment's end by its start (collocation/recursion.py).
"""

from __future__ import annotations

import numpy as np

from picardfit.collocation.adaptation import segment_scales
from picardfit.collocation.condensing import Quadratic, backward
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, linearise
from picardfit.collocation.point import Point


def knot_scales(system: Discretisation, point: Point, scale: np.ndarray) -> np.ndarray:
    """(linked, states): the unit of the jumps."""
    return segment_scales(system.mesh, point.states, point.path, scale)[system.mesh.inner_rows]


def continuity_unit(system: Discretisation, point: Point) -> float:
    """The penalty that weighs as much as the data, in scaled states.

    With several samples in a segment that is their curvature per segment. With several segments between samples the
    links between them act in series, so each must be stiffer by their number.
    """
    problem, segments, samples = system.problem, len(system.mesh), len(system.problem.samples.times)
    per_sample = system.objective.curvature(problem.output_scale, point.outputs) / samples
    return per_sample * max(samples / segments, segments / samples)


def stationary_forces(system: Discretisation, point: Point) -> np.ndarray:
    """(linked, states): the forces at all knots if the point is a solution."""
    every = np.ones(len(point.jumps), bool)
    return _demanded(system, linearise(system, point).quadratic, np.zeros_like(point.jumps), every)


def carried_forces(
    fine: Discretisation, point: Point, origin: np.ndarray, forces: np.ndarray
) -> tuple[np.ndarray, Linearisation | None]:
    """Forces on a finer mesh: knots of the old mesh keep theirs, a new knot gets what stationarity demands.

    `origin` (linked,): the knot of the old mesh that each knot was, or -1. Also returns the linearisation at the point
    if it was needed.
    """
    fresh = origin < 0
    kept = np.where(fresh[:, None], 0.0, forces[origin])
    if not fresh.any() or not forces.any():
        return kept, None
    linear = linearise(fine, point)
    return _demanded(fine, linear.quadratic, kept, fresh), linear


def _demanded(
    system: Discretisation, quadratic: Quadratic, forces: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """(linked, states): the forces with those of the chosen knots (bool) as stationarity demands."""
    states = forces.shape[1]
    return backward(system.mesh, quadratic.end[:, :, :states], quadratic.slope[:, :states], forces, chosen)
