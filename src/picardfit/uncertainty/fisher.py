"""Covariance of the estimates from the condensed Fisher information.

The reduced Hessian that condense.py leaves on the border, with continuity enforced and no damping, is the Fisher
information of all unknowns with the inner states eliminated; it costs one more linearisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.condense import dense, factorise, unknowns_index
from picardfit.lifted import Point, linearise
from picardfit.meshing import state_scale
from picardfit.solvers.iterate import Solution

CONTINUITY = 1e9  # weight of continuity in units of the data's curvature: exact to nine digits
DETERMINED = 1e-12  # eigenvalues of the scaled information below this are directions the data do not determine


@dataclass(frozen=True)
class Information:
    """Fisher information of the unknowns that exist and are not at a bound."""

    labels: tuple[str, ...]
    index: np.ndarray  # (unknowns, 2): experiment and border column; global columns have experiment 0
    matrix: np.ndarray  # (unknowns, unknowns), internal coordinates, for residuals of unit variance
    slope: np.ndarray  # (unknowns,): gradient of the objective
    at_bound: tuple[str, ...]

    def covariance(self, variance: float = 1.0) -> np.ndarray:
        """Inverse of the information; infinite variance for what the data do not determine."""
        diagonal = np.diag(self.matrix)
        if not len(diagonal):
            return np.zeros((0, 0))
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        values, vectors = np.linalg.eigh(self.matrix * scale[:, None] * scale)
        weak = values <= DETERMINED * max(values.max(initial=0.0), 1e-300)
        inverse = np.where(weak, 0.0, 1 / np.where(weak, 1.0, values))
        covariance = scale[:, None] * scale * ((vectors * inverse) @ vectors.T) * variance
        lost = (np.abs(vectors[:, weak]) > 1e-6).any(axis=1) | (diagonal <= 0)
        covariance[lost, lost] = np.inf
        return covariance


def information(solution: Solution, data: float) -> Information:
    """The information at a solution. `data` is the value of the objective there."""
    system = solution.system
    problem = system.problem
    unknowns = problem.unknowns
    outputs = np.zeros_like(problem.samples.data)  # not needed by the linearisation
    point = Point(solution.border, solution.states, solution.path, solution.jumps, outputs, data, 0.0)
    scale = state_scale(problem, [solution.path])
    weight = problem.objective.curvature(problem.output_scale) / len(system.mesh)
    quadratic = linearise(system, point).quadratic
    penalty = CONTINUITY * weight / scale**2
    factor = factorise(system.mesh, unknowns.border, quadratic, penalty, np.zeros_like(scale))
    reduced = factor.reduce(quadratic.slope, quadratic.jump)
    bound = at_bound(solution)
    index = unknowns_index(unknowns.exists & ~bound, unknowns.local)
    matrix, slope = dense(factor.hessian, reduced.slope, unknowns.local, index)
    labels = tuple(unknowns.label(e, c) for e, c in index)
    return Information(labels, index, matrix, slope, labels_at_bound(solution))


def at_bound(solution: Solution) -> np.ndarray:
    """(experiments, width): unknowns that sit on a bound."""
    unknowns, border = solution.system.problem.unknowns, solution.border
    with np.errstate(invalid="ignore"):
        width = np.where(np.isfinite(unknowns.upper - unknowns.lower), unknowns.upper - unknowns.lower, np.abs(border))
        near = 1e-9 * np.maximum(width, 1e-300)
        touching = (border - unknowns.lower <= near) | (unknowns.upper - border <= near)
    return touching & unknowns.exists


def labels_at_bound(solution: Solution) -> tuple[str, ...]:
    unknowns, bound = solution.system.problem.unknowns, at_bound(solution)
    found = [unknowns.label(e, c) for e in range(len(bound)) for c in range(unknowns.local) if bound[e, c]]
    return (*found, *(unknowns.label(0, c) for c in range(unknowns.local, unknowns.width) if bound[0, c]))
