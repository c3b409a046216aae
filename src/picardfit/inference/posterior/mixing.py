"""What draws are worth: rank-normalised split R-hat, effective sample sizes, Monte Carlo errors, E-BFMI.

Vehtari, Gelman, Simpson, Carpenter and Bürkner, Rank-normalization, folding, and localization: an improved R-hat
(Bayesian Analysis, 2021). Arrays are (chains, draws).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class Mixing:
    """When draws are not trusted; the limits are those of Vehtari et al. and of Stan."""

    r_hat: float = 1.01  # largest
    effective: float = 100.0  # least effective draws for each chain
    energy: float = 0.3  # least E-BFMI


def r_hat(draws: Array) -> float:
    """The larger of rank-normalised split R-hat and that of the distances from the median; NaN for fewer than 4."""
    if draws.shape[1] < 4 or not np.isfinite(draws).all():
        return np.nan
    halves = split(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_r_hat(rank_normal(halves)), _r_hat(rank_normal(folded)))


def ess_bulk(draws: Array) -> float:
    """Effective draws for the middle of the distribution: those of the rank-normalised draws."""
    return _ess(rank_normal(split(draws)))


def ess_tail(draws: Array) -> float:
    """Effective draws for its tails: the smaller of those of both 5 % quantiles."""
    return min(_ess(split((draws <= np.quantile(draws, part)).astype(float))) for part in (0.05, 0.95))


def mcse_mean(draws: Array) -> float:
    """Monte Carlo standard error of the mean."""
    count = _ess(split(draws))
    return float(np.std(draws, ddof=1) / np.sqrt(count)) if count > 0 else np.nan


def e_bfmi(energy: Array) -> Array:
    """(chains,): how well momenta explore the energies; low where the tails are too heavy for the sampler."""
    changes = np.sum(np.diff(energy, axis=1) ** 2, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = changes / np.sum((energy - energy.mean(axis=1, keepdims=True)) ** 2, axis=1)
    return found


def weighted_effective(values: Array, weights: Array, ends: tuple[float, float]) -> tuple[float, float]:
    """What weighted draws (n,) are worth for the mean and for the ends of an interval, whose tails have other weights.

    The error of a weighted average of f is sum w^2 (f - mean f)^2 for weights that sum to 1; that of the probability
    below a quantile is p (1 - p) / count.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gaps = values - weights @ values
        gaps = gaps / np.max(np.abs(gaps))
    order = np.argsort(values, kind="stable")
    counts = []
    for part in ends:
        below = np.empty(len(values))
        below[order] = np.cumsum(weights[order]) <= part
        counts.append(part * (1 - part) / float(weights**2 @ (below - part) ** 2))
    spread = float(weights @ gaps**2)
    return (spread / float(weights**2 @ gaps**2) if spread > 0 else np.nan), min(counts)


def split(draws: Array) -> Array:
    """(2 chains, draws / 2): the halves of the chains; the middle draw of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]]) if half else draws


def rank_normal(draws: Array) -> Array:
    """Normal scores of the ranks among all draws; equal draws share their mean rank."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(draws, method="average").reshape(draws.shape)
    return np.asarray(ndtri((ranks - 0.375) / (draws.size + 0.25)))


def _r_hat(draws: Array) -> float:
    chains, count = draws.shape
    between = count * np.var(draws.mean(axis=1), ddof=1) if chains > 1 else 0.0
    within = float(np.mean(np.var(draws, axis=1, ddof=1)))
    if not within > 0:
        return np.nan if between == 0 else np.inf
    return float(np.sqrt((between / within + count - 1) / count))


def _autocovariance(draws: Array) -> Array:
    """(chains, draws): at every lag, by Fourier transforms."""
    from scipy.fft import irfft, next_fast_len, rfft

    count = draws.shape[1]
    size = next_fast_len(2 * count)
    spectrum = rfft(draws - draws.mean(axis=1, keepdims=True), size, axis=1)
    return np.asarray(irfft(spectrum * np.conj(spectrum), size, axis=1))[:, :count] / count


def _ess(draws: Array) -> float:
    """Effective sample size by Geyer's initial monotone sequence (Vehtari et al., appendix C)."""
    chains, count = draws.shape
    if count < 4 or not np.isfinite(draws).all():
        return np.nan
    if np.ptp(draws) < np.finfo(float).resolution:
        return float(draws.size)
    covariance = _autocovariance(draws)
    within = float(covariance[:, 0].mean()) * count / (count - 1)
    total = within * (count - 1) / count
    if chains > 1:
        total += float(np.var(draws.mean(axis=1), ddof=1))
    correlation = 1 - (within - covariance.mean(axis=0)) / total
    correlation[0] = 1.0
    # sums of neighbours decrease and stay positive for a reversible chain: cut off where they do not
    pairs = (count - 4) // 2 if count % 2 == 0 else (count - 3) // 2
    sums = correlation[0 : 2 * pairs : 2] + correlation[1 : 2 * pairs : 2]
    negative = np.flatnonzero(sums < 0)
    kept = int(negative[0]) if len(negative) else pairs
    decreasing = np.minimum.accumulate(sums[:kept])
    rest = max(float(correlation[2 * kept]), 0.0) if 2 * kept < count else 0.0
    time = -1 + 2 * float(decreasing.sum()) + rest
    return float(draws.size / max(time, 1 / np.log10(draws.size)))
