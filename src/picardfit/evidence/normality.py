"""The test of Shapiro and Wilk by Royston's approximation (Applied Statistics 44, 1995, algorithm AS R94).

The one of SciPy gives the same probabilities, but loading it takes longer than most fits.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.polynomial import polyval

LAST = (0.0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056)  # of 1/sqrt(n), corrects the largest weight
LAST_BUT_ONE = (0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633)
FEW = 11  # values up to which 1 - W is transformed with a shift
SHIFT = (-2.273, 0.459)  # of n
FEW_MEAN, FEW_LOG_SD = (
    (0.544, -0.39978, 0.025054, -6.714e-4),
    (1.3822, -0.77857, 0.062767, -0.0020322),
)  # of n
MEAN, LOG_SD = (-1.5861, -0.31082, -0.083751, 0.0038915), (-0.4803, -0.082676, 0.0030302)  # of log n


def shapiro_wilk(values: np.ndarray) -> tuple[float, float]:
    """(W, probability of a smaller W) for 6 to 5000 values (n,) that are normal and not all equal."""
    from scipy.special import ndtr

    ordered = np.sort(np.asarray(values, float))
    ordered = ordered - ordered[len(ordered) // 2]
    spread = float(np.sum((ordered - ordered.mean()) ** 2))
    statistic = min(float(_weights(len(ordered)) @ ordered) ** 2 / spread, 1.0)
    n = len(ordered)
    rest = np.log(max(1.0 - statistic, np.finfo(float).tiny))
    if n <= FEW:
        room = polyval(n, SHIFT) - rest
        if room <= 0:
            return statistic, 0.0
        score = (-np.log(room) - polyval(n, FEW_MEAN)) / np.exp(polyval(n, FEW_LOG_SD))
    else:
        size = np.log(n)
        score = (rest - polyval(size, MEAN)) / np.exp(polyval(size, LOG_SD))
    return statistic, float(ndtr(-score))


def _weights(n: int) -> np.ndarray:
    """(n,): the weights of the ordered values, antisymmetric and of length 1."""
    from scipy.special import ndtri

    scores = ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25))  # expected ordered values, about
    square = float(scores @ scores)
    corrections = np.array([polyval(n**-0.5, LAST_BUT_ONE), polyval(n**-0.5, LAST)])
    outer = scores[-2:] / np.sqrt(square) + corrections
    scale = (square - 2 * float(scores[-2:] @ scores[-2:])) / (1.0 - 2 * float(outer @ outer))
    inner = scores[2:-2] / np.sqrt(scale)
    return np.concatenate([-outer[::-1], inner, outer])
