"""From a population problem to its optimum: a fit without random effects, first effects, quasi-Newton steps.

1. All individuals together, without random effects, by the searches of every fit: typical values from poor starts.
2. A few steps of iterative two-stage estimation: the modes of all individuals give the typical values and the
   covariance that fit them best.
3. Quasi-Newton steps with exact gradients, first with the spread of the individuals' gradients as the matrix (Berndt,
   Hall, Hall and Hausman 1974), last with the exact matrix of second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from picardfit.collocation.mesh import Flags
from picardfit.errors import Status
from picardfit.formulas.kernels import Array
from picardfit.inference.population.objective import Evaluation, Study, evaluate
from picardfit.inference.population.quasi_newton import Minimum, OuterSettings, Valued, minimise
from picardfit.problem.problem import Problem

News = Callable[[int, Valued[Evaluation]], None]
Report = Callable[[int, float], None]  # called with the number of steps and the objective


@dataclass(frozen=True)
class EstimationSettings:
    """How a population is searched; the values are chosen."""

    spread: float = 0.3  # first standard deviation of an effect, in units of its parameter (1 in a logarithm)
    least_spread: float = 1e-4  # smallest one that is searched, in these units: nothing that data could show
    most_spread: float = 10.0
    negligible: float = 0.1  # standard deviation, in these units, at which zero is tried
    as_good: float = 1e-3  # rise of -log L up to which zero is kept
    decisive: float = (
        10.0  # difference of -2 log L of two optima from which on it decides, and not the bounds
    )
    two_stage: int = 6  # steps of two-stage estimation
    settled: float = 0.05  # change, in these units, at which they end
    ridge: float = 0.1  # of the first matrix, relative to its diagonal
    difference: float = 1e-4  # step of differences of gradients, in these units
    moved: float = (
        3e-3  # change of a point, in these units, after which second derivatives are computed again
    )
    outer: OuterSettings = field(default=OuterSettings())


class Box(NamedTuple):
    """Bounds of the outer coordinates and their units."""

    lower: Array
    upper: Array
    unit: Array

    @property
    def bounds(self) -> tuple[Array, Array]:
        return self.lower, self.upper


@dataclass(frozen=True)
class Rival:
    """Another optimum, found roughly."""

    point: Array  # (outer,)
    value: float  # -log L without constants


@dataclass(frozen=True)
class Optimum:
    """Where a search of a population ended."""

    at: Evaluation
    box: Box
    hessian: Array | None  # (outer, outer): second derivatives of -log L; None before they are known
    steps: int
    status: Status
    rivals: tuple[Rival, ...] = ()


def box_of(study: Study, theta: Array, settings: EstimationSettings) -> Box:
    """Bounds of typical values as given, and of standard deviations in units of their parameters at theta."""
    layout, covariance = study.setting.problem.layout, study.covariance
    unit = layout.unit(np.tile(theta, (len(layout.experiments), 1)))[0]
    effects = np.array([unit[one.row] for one in covariance.entries])
    diagonal = covariance.diagonal
    free = np.where(diagonal, 1.0, effects)
    low = np.where(diagonal, np.log(settings.least_spread * effects + ~diagonal), -np.inf)
    high = np.where(diagonal, np.log(settings.most_spread * effects + ~diagonal), np.inf)
    return Box(
        np.concatenate([layout.lower[0], low]),
        np.concatenate([layout.upper[0], high]),
        np.concatenate([unit, free]),
    )


def first_covariance(study: Study, theta: Array, problem: Problem, settings: EstimationSettings) -> Array:
    """Coordinates of the covariance to begin with: the user's variances, else those of the settings."""
    unit = box_of(study, theta, settings).unit
    variances = [(settings.spread * unit[k]) ** 2 for k in range(len(study.covariance.names))]
    given = {} if problem.random is None else problem.random.start
    for k, name in enumerate(study.covariance.names):
        variances[k] = given.get(name, variances[k])
    return study.covariance.coordinates(np.diag(variances))


def two_stage(study: Study, start: Evaluation, held: Flags, settings: EstimationSettings) -> Evaluation:
    """Steps that set typical values to the mean of the modes, and the covariance to their second moments.

    A step that does not lower -log L is not taken. `held` (outer,): coordinates that a user gave.
    """
    at = start
    for _ in range(settings.two_stage):
        theta, coordinates = study.split(at.point)
        factor, box = study.covariance.factor(coordinates), box_of(study, theta, settings)
        if not np.isfinite(at.value):
            return at
        within = factor @ np.linalg.inv(at.curvature) @ factor.T  # conditional covariance of each
        eta, moved = at.eta, theta.copy()
        moved[: eta.shape[1]] += eta.mean(axis=0)
        about = eta - eta.mean(axis=0)
        matrix = (np.einsum("ie,if->ef", about, about) + within.sum(axis=0)) / len(eta)
        matrix = np.where(study.covariance.pattern, matrix, 0.0)
        point = np.concatenate([moved, study.covariance.coordinates(matrix)])
        point = np.where(held, at.point, np.clip(point, *box.bounds))
        there = evaluate(study, point, at)
        if not there.value < at.value:
            return at
        change = np.abs((point - at.point) / box.unit).max(initial=0.0)
        at = there
        if change < settings.settled:
            break
    return at


def optimise(
    study: Study, start: Evaluation, box: Box, settings: EstimationSettings, report: Report
) -> Optimum:
    """The optimum near a start; Ctrl-C ends the search with the best point so far."""
    best, taken = [start], [0]
    function = _function(study)

    def news(count: int, at: Valued[Evaluation]) -> None:
        best[0], taken[0] = at.state, taken[0] + 1
        report(taken[0], 2 * at.value)

    outer = settings.outer
    try:
        found = _roughly(study, start, box, settings, news)
        steps = found.steps
        at, collapsed = _collapsed(study, found.at.state, box, settings)
        hessian = second_derivatives_of(study, at, collapsed, settings)
        for _ in range(3):  # once is enough, unless the first search ended far from the optimum
            model = _definite(hessian, spread_of_gradients(at, box, settings.ridge))
            found = minimise(
                function, valued(at), model, collapsed.bounds, box.unit, outer, outer.enough, news
            )
            steps += found.steps
            change = np.abs((found.at.x - at.point) / box.unit).max(initial=0.0)
            at = found.at.state
            if change < settings.moved:
                break
            hessian = second_derivatives_of(study, at, collapsed, settings)
        status = Status.CONVERGED if found.converged else Status.STALLED
        if steps >= outer.steps:
            status = Status.ITERATION_LIMIT
        return Optimum(at, collapsed, hessian, steps, status)
    except KeyboardInterrupt:
        return Optimum(best[0], box, None, taken[0], Status.INTERRUPTED)


def explore(study: Study, start: Evaluation, box: Box, settings: EstimationSettings) -> Evaluation:
    """Near the optimum that a start leads to: the promised decrease of -log L is `OuterSettings.roughly`."""
    return _roughly(study, start, box, settings, lambda *_: None).at.state


def _roughly(
    study: Study, start: Evaluation, box: Box, settings: EstimationSettings, news: News
) -> Minimum[Evaluation]:
    """Steps before the exact matrix of second derivatives is known."""
    matrix, outer = spread_of_gradients(start, box, settings.ridge), settings.outer
    return minimise(_function(study), valued(start), matrix, box.bounds, box.unit, outer, outer.roughly, news)


def _function(study: Study) -> Callable[[Array, Evaluation], Valued[Evaluation]]:
    return lambda x, near: valued(evaluate(study, x, near))


def valued(found: Evaluation) -> Valued[Evaluation]:
    return Valued(found.point, found.value, found.gradient, found)


def spread_of_gradients(at: Evaluation, box: Box, ridge: float) -> Array:
    """sum_i (g_i - mean)(g_i - mean)' of the individuals' gradients, which estimates the information; with a ridge."""
    assert at.slopes is not None
    slopes = np.where(np.isfinite(at.slopes), at.slopes, 0.0)
    about = slopes - slopes.mean(axis=0)
    matrix = about.T @ about
    size = np.diag(matrix) * box.unit**2
    least = max(float(size.max(initial=0.0)) * 1e-6, 1e-12)
    if at.study.penalty is not None:
        matrix = matrix + at.study.penalty.terms(at.point)[2]
    return np.asarray(matrix + np.diag((ridge * size + least) / box.unit**2))


def _definite(hessian: Array, otherwise: Array) -> Array:
    """The matrix if it is positive definite, otherwise the other one."""
    free = np.diag(hessian) != 0
    try:
        np.linalg.cholesky(hessian[np.ix_(free, free)])
    except np.linalg.LinAlgError:
        return otherwise
    return np.where(np.outer(free, free), hessian, otherwise * np.eye(len(hessian)))


def second_derivatives_of(study: Study, at: Evaluation, box: Box, settings: EstimationSettings) -> Array:
    """(outer, outer): differences of the exact gradient; zero for coordinates that are held by the box."""
    count = len(at.point)
    found, free = np.zeros((count, count)), box.lower < box.upper
    for k in np.flatnonzero(free):
        step = np.zeros(count)
        step[k] = settings.difference * box.unit[k]
        found[:, k] = (evaluate(study, at.point + step, at).gradient - at.gradient) / step[k]
    found[~free] = 0.0
    return np.asarray(0.5 * (found + found.T))


def _collapsed(
    study: Study, at: Evaluation, box: Box, settings: EstimationSettings
) -> tuple[Evaluation, Box]:
    """Hold entries of D at their smallest value where that is as good: no spread, or a correlation of one.

    Near zero the gradient by log D vanishes whether or not zero is the optimum, so zero is tried.
    """
    width, upper = len(study.split(at.point)[0]), box.upper.copy()
    for k, one in enumerate(study.covariance.entries, width):
        negligible = box.lower[k] + np.log(settings.negligible / settings.least_spread)
        if one.row != one.column or at.point[k] > negligible:
            continue
        point = at.point.copy()
        point[k] = box.lower[k]
        there = evaluate(study, point, at)
        if there.value <= at.value + settings.as_good:
            at, upper[k] = there, box.lower[k]
    return at, Box(box.lower, upper, box.unit)
