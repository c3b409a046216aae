"""Intervals and correlations of the unknowns from the Fisher information."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from picardfit.errors import InputError, closest
from picardfit.evidence.fisher import Information
from picardfit.solvers.loop import Solution


def interval_ends(
    solution: Solution, found: Information, factor: float, variance: float
) -> dict[str, tuple[float, float]]:
    """(low, high) of every unknown in natural units, `factor` standard errors wide, cut off at the bounds.

    An unknown at its bound: from there as far as the quadratic model of its profile stays below factor^2 / 2. The
    intervals of the others are longer in the direction in which they move when it leaves its bound.
    """
    layout, unknowns = solution.system.problem.layout, solution.unknowns
    at = tuple(found.index.T)
    logit, slopes = layout.scales.logit, layout.slopes(unknowns)
    with np.errstate(invalid="ignore"):  # a logit changes slowly at its bounds, where the value does not
        room = np.where(logit, (layout.scales.high - layout.scales.low) / slopes, layout.upper - layout.lower)
    below, above = _reaches(found, room, factor, variance)
    low, high = np.full_like(layout.lower, np.nan), np.full_like(layout.lower, np.nan)
    low[at], high[at] = unknowns[at] - below, unknowns[at] + above
    for one in found.bounded:
        bound = unknowns[one.index]
        other = bound - one.sign * one.reach(0.5 * factor**2 * variance)
        if logit[one.index]:
            other = layout.natural(unknowns)[one.index] + (other - bound) * slopes[one.index]
            other = layout.scales[one.index].internal(other)
        low[one.index], high[one.index] = min(bound, other), max(bound, other)
    low = layout.natural(np.maximum(low, layout.lower))
    high = layout.natural(np.minimum(high, layout.upper))
    every = [*map(tuple, found.index), *(one.index for one in found.bounded)]
    return {layout.label(*one): (float(low[one]), float(high[one])) for one in every}


def _reaches(
    found: Information, room: np.ndarray, factor: float, variance: float
) -> tuple[np.ndarray, np.ndarray]:
    """(unknowns,) below and above the estimates; unknowns at their bounds are released one at a time."""
    variances = found.variances()
    below = factor * np.sqrt(variance * variances)
    above = below.copy()
    for one in found.bounded:
        follow = found.follow(one)
        reach = one.carried(np.abs(follow), variances, 0.5 * factor**2 * variance, room[one.index])
        below = np.where(follow < 0, np.maximum(below, reach), below)
        above = np.where(follow > 0, np.maximum(above, reach), above)
    return below, above


def natural_covariance(solution: Solution, found: Information, variance: float) -> np.ndarray:
    """(unknowns, unknowns): covariance in natural units, for this variance of one measurement."""
    slopes = _slopes(solution, found)
    return found.covariance(variance) * slopes[:, None] * slopes


def standard_errors(solution: Solution, found: Information, variance: float) -> dict[str, float]:
    """Standard errors of the unknowns in natural units, by name."""
    errors = np.sqrt(found.variances(variance)) * _slopes(solution, found)
    return dict(zip(found.labels, errors.tolist(), strict=True))


def _slopes(solution: Solution, found: Information) -> np.ndarray:
    """(unknowns,): d natural / d internal."""
    return solution.system.problem.layout.slopes(solution.unknowns)[tuple(found.index.T)]


def correlation(found: Information, names: Iterable[str], variance: float) -> np.ndarray:
    """(names, names): correlation of some of the unknowns; NaN where one of them is not determined."""
    number = {name: k for k, name in enumerate(found.labels)}
    for name in (names := list(names)):
        if name not in number:
            close = closest(str(name), number)
            raise InputError("evidence.no_covariance", str(name), known=list(number), close=close)
    covariance = found.covariance(variance, np.array([number[name] for name in names], int))
    size = np.sqrt(np.diag(covariance))
    with np.errstate(invalid="ignore"):
        return covariance / size / size[:, None]
