"""Distributions of counts around their expectation: cost, slope, Fisher information, probabilities, draws.

`mean` is the observable g: the expected count of a Poisson or negative binomial number, and the probability of a
success for a binomial one, whose counts are out of `trials`. `level` is the dispersion k of the negative binomial, with
variance mean + mean^2 / k; the others have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.model.densities import Shape


@dataclass(frozen=True)
class CountSettings:
    """Limits of the computations with counts; the values are chosen."""

    least: float = (
        1e-10  # mean (or distance of a probability from 0 and 1) in the information, which is infinite at 0
    )
    rounding: float = (
        1e-8  # mean (or probability) below zero that is an error of the computation and counts as zero
    )
    exact: int = 64  # terms of the sum for the information on the dispersion that are added one by one
    growth: float = (
        1.05  # ratio of the ends of the following blocks of terms, with one probability for each block
    )
    surrogate: float = 0.5  # least count whose variance is used while levels are frozen


DEFAULT = CountSettings()


@dataclass(frozen=True)
class CountTerms:
    """Cost of counts and derivatives, by the mean and by the level; arrays of one shape."""

    slope: Array
    weight: Array  # Fisher information of the mean
    level_slope: Array
    level_weight: Array


def count_cost(shape: Shape, y: Array, mean: Array, level: Array, trials: Array) -> Array:
    """-log probability of counts y; NaN where the mean is impossible."""
    from scipy.special import gammaln, xlog1py, xlogy

    possible, mean = _possible(shape, mean)
    with np.errstate(all="ignore"):
        if shape is Shape.POISSON:
            cost = mean - xlogy(y, mean) + gammaln(y + 1)
        elif shape is Shape.BINOMIAL:
            ways = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
            cost = -(ways + xlogy(y, mean) + xlog1py(trials - y, -mean))
        else:
            ways = gammaln(y + level) - gammaln(level) - gammaln(y + 1)
            cost = -ways + (y + level) * np.log1p(mean / level) - xlogy(y, mean / level)
        return np.where(possible, cost, np.nan)


def possible_means(shape: Shape, mean: Array) -> np.ndarray:
    """Which means of counts are possible, up to errors of the computation."""
    return _possible(shape, mean)[0]


def _possible(shape: Shape, mean: Array) -> tuple[np.ndarray, Array]:
    """Which means are possible, up to errors of the computation, and the nearest possible ones."""
    most = 1.0 if shape is Shape.BINOMIAL else np.inf
    within = (mean >= -DEFAULT.rounding) & (mean <= most + DEFAULT.rounding)
    return within, np.clip(mean, 0.0, most)


def count_terms(
    shape: Shape, y: Array, mean: Array, level: Array, trials: Array, expected: bool
) -> CountTerms:
    """Slopes and Fisher information; that of the dispersion is an upper bound unless `expected`.

    Mean and dispersion of a negative binomial number are orthogonal.
    """
    least, zero, mean = DEFAULT.least, np.zeros(np.shape(y)), _possible(shape, mean)[1]
    with np.errstate(all="ignore"):
        ratio = np.where(y > 0, y / mean, 0.0)
        safe = np.maximum(mean, least)
        if shape is Shape.POISSON:
            return CountTerms(1 - ratio, 1 / safe, zero, zero)
        if shape is Shape.BINOMIAL:
            failed = np.where(y < trials, (trials - y) / (1 - mean), 0.0)
            return CountTerms(failed - ratio, trials / (safe * np.maximum(1 - mean, least)), zero, zero)
        slope = (y + level) / (level + mean) - ratio
        return CountTerms(slope, 1 / (safe + safe**2 / level), *_dispersion_terms(y, mean, level, expected))


def _dispersion_terms(y: Array, mean: Array, level: Array, expected: bool) -> tuple[Array, Array]:
    """Slope by the dispersion k and its information, trigamma(k) - E trigamma(y + k) - mean / (k (k + mean)).

    The difference of the first two is the sum over j of P(y > j) / (k + j)^2. By Jensen's inequality, trigamma at the
    mean count makes it larger.
    """
    from scipy.special import betainc, digamma, polygamma

    slope = digamma(level) - digamma(y + level) + np.log1p(mean / level) + (y - mean) / (level + mean)
    subtracted = mean / (level * (level + mean))
    if not expected:
        return slope, np.maximum(polygamma(1, level) - polygamma(1, level + mean) - subtracted, 0.0)
    largest = float(np.nanmax(np.where(np.isfinite(mean), mean, 0.0), initial=1.0))
    edges = _blocks(largest * (1 + 40 / np.sqrt(max(float(np.nanmin(level, initial=1.0)), 0.05))) + 100)
    sums = -np.diff(polygamma(1, level[..., None] + edges), axis=-1)  # of 1 / (k + j)^2 over each block
    middle = 0.5 * (edges[:-1] + edges[1:] - 1)
    total = np.sum(sums * betainc(middle + 1, level[..., None], (mean / (level + mean))[..., None]), axis=-1)
    return slope, np.maximum(total - subtracted, 0.0)


def _blocks(last: float) -> Array:
    """The first term of each block of 0, 1, ... up to about `last`: single terms, then longer and longer blocks."""
    edges = [float(k) for k in range(DEFAULT.exact)]
    while edges[-1] < last:
        edges.append(np.ceil(edges[-1] * DEFAULT.growth) + 1)
    return np.array(edges)


def count_variance(shape: Shape, mean: Array, level: Array, trials: Array) -> Array:
    """The variance of a count; that of a binomial one divided by the trials squared, as the fraction of successes."""
    if shape is Shape.BINOMIAL:
        return np.maximum(mean * (1 - mean), 0.0) / trials
    return mean if shape is Shape.POISSON else mean + mean**2 / level


def count_below(shape: Shape, y: Array, mean: Array, level: Array, trials: Array) -> tuple[Array, Array]:
    """Probability of fewer than y and of at most y."""
    from scipy.special import betaincc, gammaincc

    def at_most(k: Array) -> Array:
        k, some = np.maximum(k, 0.0), k >= 0
        with np.errstate(all="ignore"):
            if shape is Shape.POISSON:
                found = np.where(mean > 0, gammaincc(k + 1, np.maximum(mean, 0.0)), 1.0)
            elif shape is Shape.BINOMIAL:
                inside = np.minimum(np.maximum(trials - k, 0.0), trials)
                found = np.where(inside > 0, betaincc(k + 1, np.maximum(inside, 0.5), mean), 1.0)
            else:
                found = betaincc(k + 1, level, mean / (level + mean))
        return np.where(some, found, 0.0)

    return at_most(y - 1), at_most(y)


def draw_counts(shape: Shape, mean: Array, level: Array, trials: Array, rng: np.random.Generator) -> Array:
    """Random counts; NaN where the mean is impossible."""
    possible, nearest = _possible(shape, mean)
    safe = np.where(possible, nearest, 0.0)
    if shape is Shape.BINOMIAL:
        found = rng.binomial(np.asarray(np.round(trials), int), safe)
    elif shape is Shape.POISSON:
        found = rng.poisson(safe)
    else:
        found = rng.poisson(rng.gamma(level, safe / level))
    return np.where(possible, found, np.nan)
