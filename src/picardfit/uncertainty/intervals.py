"""Intervals and correlations of the unknowns from the Fisher information."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.solvers.iterate import Solution
from picardfit.uncertainty.fisher import Information


def interval_ends(
    solution: Solution, found: Information, factor: float, variance: float
) -> dict[str, tuple[float, float]]:
    """(low, high) of every unknown in natural units, `factor` standard errors wide, cut off at the bounds.

    An unknown at its bound: from there as far as the quadratic model of its profile stays below factor^2 / 2.
    """
    unknowns, border = solution.system.problem.unknowns, solution.border
    at = tuple(found.index.T)
    spread = factor * np.sqrt(found.variances(variance))
    low, high = np.full_like(unknowns.lower, np.nan), np.full_like(unknowns.lower, np.nan)
    low[at], high[at] = border[at] - spread, border[at] + spread
    for one in found.held:
        bound = border[one.place]
        other = bound - one.side * one.reach(0.5 * factor**2 * variance)
        low[one.place], high[one.place] = min(bound, other), max(bound, other)
    low = unknowns.natural(np.maximum(low, unknowns.lower))
    high = unknowns.natural(np.minimum(high, unknowns.upper))
    places = [*map(tuple, found.index), *(one.place for one in found.held)]
    return {unknowns.label(*p): (float(low[p]), float(high[p])) for p in places}


def correlation(found: Information, names: Iterable[str], variance: float) -> np.ndarray:
    """(names, names): correlation of some of the unknowns; NaN where one of them is not determined."""
    number = {name: k for k, name in enumerate(found.labels)}
    for name in (names := list(names)):
        if name not in number:
            raise InputError(
                f"`{name}` is not an unknown with a covariance ({listing(number)})."
                + did_you_mean(str(name), number)
            )
    covariance = found.covariance(variance, np.array([number[name] for name in names], int))
    size = np.sqrt(np.diag(covariance))
    with np.errstate(invalid="ignore"):
        return covariance / size / size[:, None]
