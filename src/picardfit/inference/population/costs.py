"""What a measurement costs, -log density, as a function of its mean m and standard deviation s, with derivatives.

An exact measurement with e = (y - m) / s costs e^2 / 2 + log s; the constant log(2 pi) / 2 is left out. A censored one
costs -log P of its interval (model/intervals.py), the method M3 of Beal (2001). The expected information of an exact
one is diag(1, 2) / s^2; a censored one counts with the curvature of its cost by m, which is never negative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.inference.population.predictions import Measurements
from picardfit.model.densities import Shape
from picardfit.model.intervals import interval_scores


@dataclass(frozen=True)
class Costs:
    """Costs of measurements and their derivatives by (m, s)."""

    value: Array  # (measurements,)
    slope: Array  # (measurements, 2)
    curvature: Array  # (measurements, 2, 2), observed
    information: Array  # (measurements, 2): its diagonal, expected
    information_slope: Array  # (measurements, 2, 2): of each entry by (m, s)


def costs(measurements: Measurements, rows: Array) -> Costs:
    """The costs at rows (m, s); infinite where a prediction is not finite or a deviation not positive."""
    with np.errstate(all="ignore"):
        found = _exact(measurements.target, rows)
        if len(measurements.censored):
            found = _with_censored(measurements, rows, found)
        bad = ~(np.isfinite(found.value) & np.isfinite(rows).all(axis=1) & (rows[:, 1] > 0))
    return replace(found, value=np.where(bad, np.inf, found.value)) if bad.any() else found


def _exact(target: Array, rows: Array) -> Costs:
    m, s = rows.T
    e, count = (target - m) / s, len(m)
    curvature, slope_of = np.empty((count, 2, 2)), np.zeros((count, 2, 2))
    curvature[:, 0, 0] = 1 / s**2
    curvature[:, 0, 1] = curvature[:, 1, 0] = 2 * e / s**2
    curvature[:, 1, 1] = (3 * e**2 - 1) / s**2
    slope_of[:, 0, 1], slope_of[:, 1, 1] = -2 / s**3, -4 / s**3
    return Costs(
        0.5 * e**2 + np.log(s),
        np.stack([-e / s, (1 - e**2) / s], axis=1),
        curvature,
        np.stack([1 / s**2, 2 / s**2], axis=1),
        slope_of,
    )


def _with_censored(measurements: Measurements, rows: Array, found: Costs, step: float = 1e-5) -> Costs:
    """The costs with those of censored measurements; their higher derivatives are central differences.

    `step`: half of one, in units of s.
    """
    chosen = measurements.censored
    low, high = measurements.low[chosen], measurements.high[chosen]

    def scores(m: Array, s: Array) -> tuple[Array, Array, Array]:
        """Cost, slope (k, 2) and curvature by m."""
        log_p, location, scale, bent = interval_scores(
            Shape.NORMAL, (low - m) / s, (high - m) / s, np.ones_like(s)
        )
        return -log_p, np.stack([-location / s, -scale / s], axis=1), np.maximum(bent, 0.0) / s**2

    m, s = rows[chosen].T
    half = step * s
    value, slope, bent = scores(m, s)
    ends = [(scores(m + half, s), scores(m - half, s)), (scores(m, s + half), scores(m, s - half))]
    by = [
        [(a - b) / (2 * half.reshape(-1, *[1] * (a.ndim - 1))) for a, b in zip(*pair, strict=True)]
        for pair in ends
    ]
    curvature = np.stack([one[1] for one in by], axis=2)
    curvature = 0.5 * (curvature + curvature.transpose(0, 2, 1))
    curvature[:, 0, 0] = bent
    arrays = [np.array(one) for one in vars(found).values()]
    arrays[0][chosen], arrays[1][chosen], arrays[2][chosen] = value, slope, curvature
    arrays[3][chosen] = np.stack([bent, np.zeros_like(bent)], axis=1)
    arrays[4][chosen] = 0.0
    arrays[4][chosen, 0] = np.stack([one[2] for one in by], axis=1)
    return Costs(*arrays)
