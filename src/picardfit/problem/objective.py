"""What an objective hands to the solvers, and what likelihoods have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CONTRACTED = 1e-10  # |u - P u| relative to the states' scale that counts as a fixed point
LEAST_LEVEL = 0.1  # frozen levels are at least this part of their median


@dataclass(frozen=True)
class Terms:
    """Value, slope (samples, rows) and a square root of the curvature.

    The factor is diagonal, (samples, rows), or full, (samples, k, rows): the curvature is then factor' factor.
    """

    value: float
    slope: np.ndarray
    factor: np.ndarray


def whitened(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A factor, diagonal or full, applied to derivatives (..., rows, columns)."""
    return factor[..., None] * rows if factor.ndim < rows.ndim else factor @ rows


def curved(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The curvature factor' factor applied to rows (samples, rows)."""
    if factor.ndim == 2:
        return factor**2 * rows
    return (factor.transpose(0, 2, 1) @ (factor @ rows[..., None]))[..., 0]


def sum_of_medians(each: np.ndarray, size: np.ndarray) -> float:
    """Sum over the columns of (samples, outputs) of count times median times size^2; NaN entries do not count."""
    total = 0.0
    for column, one in zip(each.T, size, strict=True):
        seen = column[np.isfinite(column)]
        if len(seen):
            total += len(seen) * float(np.median(seen)) * float(one) ** 2
    return total


def not_too_small(levels: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Levels with those far below the median of their column raised, and those without a value at it."""
    result = np.array(levels, float)
    for k in range(measured.shape[1]):
        seen = measured[:, k] & np.isfinite(result[:, k]) & (result[:, k] > 0)
        middle = float(np.median(result[seen, k])) if seen.any() else 1.0
        column = np.where(np.isfinite(result[:, k]), result[:, k], middle)
        result[:, k] = np.maximum(column, LEAST_LEVEL * middle)
    return result
