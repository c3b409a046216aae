"""Pareto-smoothed importance sampling: weights whose largest ones follow the tail that they suggest.

Vehtari, Simpson, Gelman, Yao and Gabry, Pareto smoothed importance sampling (JMLR, 2024). The shape k-hat of the
generalised Pareto distribution of the largest weights says whether averages with these weights can be trusted: below
0.7 the error of n draws falls as it should.
"""

from __future__ import annotations

import numpy as np

from picardfit.formulas.kernels import Array

TRUSTED = 0.7  # largest k-hat (Vehtari et al., section 3)


def smoothed(log_ratios: Array) -> tuple[Array, float]:
    """(log weights (draws,), which sum to 1 as weights, and k-hat) from log importance ratios."""
    from scipy.special import logsumexp

    ratios = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
    weights = ratios - ratios.max()
    count = len(weights)
    tail = int(np.ceil(min(0.2 * count, 3 * np.sqrt(count))))
    order = np.argsort(weights, kind="stable")
    last = order[-tail:]
    cutoff = weights[order[-tail - 1]] if count > tail else -np.inf
    shape = np.inf
    if tail >= 5 and np.isfinite(cutoff) and weights[last[-1]] > weights[last[0]]:
        edge = np.exp(cutoff)
        shape, scale = pareto_fit(np.exp(weights[last]) - edge)
        if np.isfinite(shape):
            parts = (np.arange(tail) + 0.5) / tail
            smooth = (
                scale * np.expm1(-shape * np.log1p(-parts)) / shape
                if abs(shape) > 1e-12
                else -scale * np.log1p(-parts)
            )
            weights[last] = np.minimum(np.log(smooth + edge), 0.0)
    return weights - logsumexp(weights), float(shape)


def pareto_fit(values: Array) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution of positive values (Zhang and Stephens 2009).

    The shape is drawn a little towards 1/2, as ten more observations would.
    """
    x = np.sort(values)
    count = len(x)
    if not x[-1] > 0:
        return np.inf, np.nan
    prior, quartile = 3.0, x[int(np.floor(count / 4 + 0.5)) - 1]
    points = 30 + int(np.sqrt(count))
    grid = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    grid = grid / (prior * max(quartile, np.finfo(float).tiny)) + 1 / x[-1]
    shapes = np.mean(np.log1p(-grid[:, None] * x), axis=1)
    likelihood = count * (np.log(-grid / shapes) - shapes - 1)
    weights = np.exp(likelihood - likelihood.max())
    weights = weights / weights.sum()
    kept = weights >= 10 * np.finfo(float).eps
    weights, grid = weights[kept] / weights[kept].sum(), grid[kept]
    theta = float(np.sum(grid * weights))
    shape = float(np.mean(np.log1p(-theta * x)))
    scale = -shape / theta
    return (count * shape + 10 * 0.5) / (count + 10), scale
