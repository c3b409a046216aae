"""What an objective hands to the solvers, and what likelihoods have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class Accuracy:
    """How accurate values of an objective are."""

    contracted: float = 1e-10  # |u - P u| over the scale of the states that counts as a fixed point
    rounding: float = 1e-13  # error of a sum over measurements relative to it: some hundred roundings
    negligible: float = 1e-12  # least squares this small, over those of zero outputs, are an exact fit


CONTRACTED = Accuracy().contracted


@dataclass(frozen=True)
class Terms:
    """Value, slope (samples, rows) and a square root of the curvature.

    The factor is diagonal, (samples, rows), or full, (samples, k, rows): the curvature is then factor' factor.
    """

    value: float
    slope: Array
    factor: Array


def whitened(factor: Array, rows: Array) -> Array:
    """A factor, diagonal or full, applied to derivatives (..., rows, columns)."""
    return factor[..., None] * rows if factor.ndim < rows.ndim else factor @ rows


def curved(factor: Array, rows: Array) -> Array:
    """The curvature factor' factor applied to rows (samples, rows)."""
    if factor.ndim == 2:
        return factor**2 * rows
    return (factor.transpose(0, 2, 1) @ (factor @ rows[..., None]))[..., 0]


def sum_of_medians(each: Array, size: Array) -> float:
    """Sum over the columns of (samples, outputs) of count times median times size^2; NaN entries do not count."""
    total = 0.0
    for column, one in zip(each.T, size, strict=True):
        seen = column[np.isfinite(column)]
        if len(seen):
            total += len(seen) * float(np.median(seen)) * float(one) ** 2
    return total


def not_too_small(levels: Array, measured: NDArray[np.bool_], least: float = 0.1) -> Array:
    """Levels raised to `least` times the median of their column, and set to it where they have no value.

    A tenth lets levels differ as in practice, while no measurement counts more than a hundred times a typical one.
    """
    result = np.array(levels, float)
    for k in range(measured.shape[1]):
        seen = measured[:, k] & np.isfinite(result[:, k]) & (result[:, k] > 0)
        middle = float(np.median(result[seen, k])) if seen.any() else 1.0
        column = np.where(np.isfinite(result[:, k]), result[:, k], middle)
        result[:, k] = np.maximum(column, least * middle)
    return result
