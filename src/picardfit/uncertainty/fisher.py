"""Covariance of the estimates from the condensed Fisher information.

With exact continuity every inner state is a function of the unknowns, so that carrying derivatives from segment to
segment gives the Fisher information of the unknowns; it costs one more linearisation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from picardfit.condense import Quadratic, dense, unknowns_index
from picardfit.discretise import Discretisation
from picardfit.errors import InputError
from picardfit.lifted import linearise, point_at
from picardfit.parameters import is_number
from picardfit.solvers.iterate import Solution

DETERMINED = (
    1e-12  # eigenvalues of the scaled information below this are directions the data do not determine
)


@dataclass(frozen=True)
class Held:
    """An unknown that sits on a bound: how the objective rises when it leaves it, the others following."""

    label: str
    place: tuple[int, int]  # experiment and border column
    side: int  # -1 on its lower bound, 1 on its upper bound
    slope: float  # away from the bound, at least 0
    curvature: float

    def reach(self, rise: float) -> float:
        """How far from the bound the objective has risen by so much; inf where it never does."""
        root = np.sqrt(self.slope**2 + 2 * self.curvature * rise)
        return float(2 * rise / (self.slope + root)) if self.slope + root > 0 else np.inf


@dataclass(frozen=True)
class Information:
    """Fisher information of the unknowns that exist and are not at a bound."""

    labels: tuple[str, ...]
    index: np.ndarray  # (unknowns, 2): experiment and border column; global columns have experiment 0
    matrix: np.ndarray  # (unknowns, unknowns), internal; least squares: for residuals of unit variance
    slope: np.ndarray  # (unknowns,): gradient of the objective
    at_bound: tuple[str, ...]
    held: tuple[Held, ...] = ()  # the unknowns at a bound

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Unknowns that these data do not determine."""
        return tuple(n for n, v in zip(self.labels, np.diag(self.covariance()), strict=True) if np.isinf(v))

    def covariance(self, variance: float = 1.0) -> np.ndarray:
        """Inverse of the information; infinite variance for what the data do not determine."""
        if not np.all(np.isfinite(self.matrix)):
            return np.full_like(self.matrix, np.inf)
        scale, vectors, inverse = self._spectrum
        covariance = scale[:, None] * scale * ((vectors * inverse) @ vectors.T) * variance
        lost = (np.abs(vectors[:, inverse == 0]) > 1e-6).any(axis=1) | (np.diag(self.matrix) <= 0)
        covariance[lost, lost] = np.inf
        return covariance

    def spread(self, jacobian: np.ndarray, variance: float = 1.0) -> np.ndarray:
        """(...,): standard error of quantities whose derivatives by the unknowns are (..., unknowns).

        Infinite where a quantity depends on what the data do not determine.
        """
        if not np.all(np.isfinite(self.matrix)):
            return np.where(np.any(jacobian != 0, axis=-1), np.inf, 0.0)
        scale, vectors, inverse = self._spectrum
        along = (jacobian * scale) @ vectors
        size = np.sqrt(np.sum(along**2, axis=-1, keepdims=True))
        lost = ((np.abs(along) > 1e-6 * size) & (inverse == 0)).any(axis=-1)
        return np.where(lost, np.inf, np.sqrt(np.sum(inverse * along**2, axis=-1) * variance))

    def promised_decrease(self) -> float:
        """1/2 g' H^-1 g over the determined directions: what one more Gauss-Newton step would gain."""
        if not np.all(np.isfinite(self.matrix)):
            return np.nan
        scale, vectors, inverse = self._spectrum
        return float(0.5 * np.sum(inverse * (vectors.T @ (scale * self.slope)) ** 2))

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scale to unit diagonal, eigenvectors of the scaled matrix, inverse eigenvalues (0 where not determined)."""
        diagonal = np.diag(self.matrix)
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        values, vectors = np.linalg.eigh(self.matrix * scale[:, None] * scale)
        weak = values <= DETERMINED * max(values.max(initial=0.0), 1e-300)
        return scale, vectors, np.where(weak, 0.0, 1 / np.where(weak, 1.0, values))


def quantile(level: float, freedom: float) -> float:
    """How many standard errors an interval of this level reaches to either side: of Student's t, or normal for inf."""
    if not is_number(level) or not 0 < level < 1:
        raise InputError(f"level = {level!r} is not between 0 and 1: write for example 0.95.")
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2) if np.isfinite(freedom) else ndtri(0.5 + level / 2))


def information(solution: Solution, everything: bool = False) -> Information:
    """The information at a solution; with `everything` also of the unknowns at a bound."""
    system = solution.system
    problem = system.problem
    unknowns = problem.unknowns
    point = point_at(system, solution.border, solution.states, solution.path)
    with np.errstate(over="ignore", invalid="ignore"):  # exploding derivatives end as an infinite variance
        hessian, gradient = chained(system, linearise(system, point, expected=True).quadratic)
    if problem.priors is not None:
        slope, curvature = problem.priors.terms(solution.border)
        hessian = hessian + curvature[:, :, None] * np.eye(unknowns.width)
        gradient = gradient + slope
    bound = at_bound(solution)
    every = unknowns_index(unknowns.exists, unknowns.local)
    matrix, slope = dense(hessian, gradient, unknowns.local, every)
    free = everything | ~bound[tuple(every.T)]
    index = every[free]
    labels = tuple(unknowns.label(e, c) for e, c in index)
    inner = Information(labels, index, matrix[np.ix_(free, free)], slope[free], labels_at_bound(solution))
    return replace(inner, held=_held(solution, inner, every, matrix, slope, free))


def _held(solution: Solution, inner: Information, every, matrix, slope, free) -> tuple[Held, ...]:
    """The unknowns at a bound, each let loose alone: its curvature is the Schur complement against the free ones."""
    if free.all() or not np.all(np.isfinite(matrix)):
        return ()
    unknowns = solution.system.problem.unknowns
    scale, vectors, inverse = inner._spectrum
    found = []
    for k in np.flatnonzero(~free):
        e, c = (int(i) for i in every[k])
        middle = 0.5 * (unknowns.lower[e, c] + unknowns.upper[e, c])
        side = 1 if solution.border[e, c] > middle else -1
        along = (matrix[k, free] * scale) @ vectors
        curvature = max(matrix[k, k] - float(np.sum(inverse * along**2)), 0.0)
        found.append(Held(unknowns.label(e, c), (e, c), side, max(-side * float(slope[k]), 0.0), curvature))
    return tuple(found)


def chained(system: Discretisation, quadratic: Quadratic) -> tuple[np.ndarray, np.ndarray]:
    """Hessian (experiments, width, width) and slope (experiments, width), inner states as functions of the border.

    Continuity is exact: the derivative of a segment's start state is carried from segment to segment.
    """
    return reduced(system, quadratic, start_derivatives(system, quadratic))


def reduced(
    system: Discretisation, quadratic: Quadratic, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same from the start derivatives."""
    back, first = columns.transpose(0, 2, 1), system.mesh.first
    hessian = np.add.reduceat(back @ quadratic.hessian @ columns, first)
    return hessian, np.add.reduceat((back @ quadratic.slope[..., None])[..., 0], first)


def start_derivatives(system: Discretisation, quadratic: Quadratic) -> np.ndarray:
    """(segments, states + free parameters, width): derivative of each segment's own unknowns by the border."""
    mesh, border = system.mesh, system.problem.unknowns.border
    states = quadratic.initial.shape[1]
    columns = np.zeros((len(mesh), states + len(border.parameters), border.width))
    columns[:, states + np.arange(len(border.parameters)), border.parameters] = 1
    columns[mesh.first, :states] = quadratic.initial
    if len(mesh.first) == 1:  # plain products are several times faster than indexed ones
        for j, end in enumerate(quadratic.end):
            np.matmul(end, columns[j], out=columns[j + 1, :states])
        return columns
    link = np.full(len(mesh), -1)
    link[mesh.linked] = np.arange(len(mesh.linked))
    for step in range(mesh.counts.max() - 1):
        segment = mesh.first[mesh.counts > step + 1] + step
        columns[segment + 1, :states] = quadratic.end[link[segment]] @ columns[segment]
    return columns


def at_bound(solution: Solution) -> np.ndarray:
    """(experiments, width): unknowns that sit on a bound."""
    unknowns, border = solution.system.problem.unknowns, solution.border
    with np.errstate(invalid="ignore"):
        width = unknowns.upper - unknowns.lower
        near = 1e-9 * np.minimum(
            np.where(np.isfinite(width), width, np.inf), np.maximum(np.abs(border), 1e-300)
        )
        touching = (border - unknowns.lower <= near) | (unknowns.upper - border <= near)
    return touching & unknowns.exists


def labels_at_bound(solution: Solution) -> tuple[str, ...]:
    unknowns, bound = solution.system.problem.unknowns, at_bound(solution)
    found = [unknowns.label(e, c) for e in range(len(bound)) for c in range(unknowns.local) if bound[e, c]]
    return (*found, *(unknowns.label(0, c) for c in range(unknowns.local, unknowns.width) if bound[0, c]))
