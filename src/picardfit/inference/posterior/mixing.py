"""What draws are worth: R-hat, effective sample sizes, Monte Carlo errors, E-BFMI, k-hat of weights, and what to doubt.

Vehtari, Gelman, Simpson, Carpenter and Bürkner, Rank-normalization, folding, and localization: an improved R-hat
(Bayesian Analysis, 2021); Vehtari, Simpson, Gelman, Yao and Gabry, Pareto smoothed importance sampling (JMLR, 2024).
Arrays of chains are (chains, draws).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from picardfit.errors import Notice
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.methods import NUTS, LaplaceDraws

if TYPE_CHECKING:
    from picardfit.inference.posterior.posterior import Posterior


@dataclass(frozen=True)
class Mixing:
    """When draws are not trusted; the limits are those of Vehtari et al. and of Stan."""

    r_hat: float = 1.01  # largest
    effective: float = 100.0  # least effective draws for each chain
    energy: float = 0.3  # least E-BFMI
    fewest: int = 26  # weighted draws of which k-hat sees the five largest


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
    size = np.max(np.abs(draws), initial=0.0)
    if not (np.isfinite(size) and size > 0):
        return np.nan
    scaled = draws / size  # squares of large draws overflow
    count = _ess(split(scaled))
    return float(size * np.std(scaled, ddof=1) / np.sqrt(count)) if count > 0 else np.nan


def e_bfmi(energy: Array) -> Array:
    """(chains,): how well momenta explore the energies; low where the tails are too heavy for the sampler."""
    changes = np.sum(np.diff(energy, axis=1) ** 2, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = changes / np.sum((energy - energy.mean(axis=1, keepdims=True)) ** 2, axis=1)
    return found


def weighted_effective(values: Array, weights: Array, ends: tuple[float, float]) -> tuple[float, float]:
    """What weighted draws (n,) are worth for the mean and for the ends of an interval, whose tails have other weights.

    The error of a weighted average of f is sum w^2 (f - mean f)^2 for weights that sum to 1; that of the probability
    below a quantile is p (1 - p) / count. Distances are those from the mean of the other draws, (f - mean f) / (1 - w):
    a draw with nearly all weight is the mean, and its distance from itself says nothing.
    """
    most = float(len(values))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gaps = values - weights @ values
        gaps = gaps / np.max(np.abs(gaps)) / np.maximum(1 - weights, np.finfo(float).eps)
    order = np.argsort(values, kind="stable")
    counts = []
    for part in ends:
        below = np.empty(len(values))
        below[order] = np.cumsum(weights[order]) <= part
        counts.append(part * (1 - part) / float(weights**2 @ (below - part) ** 2))
    spread = float(weights @ gaps**2)
    error = float(weights**2 @ gaps**2)
    return (min(spread / error, most) if spread > 0 and error > 0 else np.nan), min(*counts, most)


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
    if np.ptp(draws) == 0:  # chains that never moved tell nothing
        return np.nan
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


# ---- weights ---------------------------------------------------------------------------------------------------------

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


# ---- doubts ----------------------------------------------------------------------------------------------------------

DOUBTS = {
    "inference.not_mixed",
    "inference.few_effective",
    "inference.few_weights",
    "inference.divergent",
    "inference.low_energy",
    "inference.weights_not_trusted",
    "inference.few_draws",
    "inference.posterior_inexact",
    "inference.posterior_unverified",
    "inference.posterior_open",
    "inference.draws_run_off",
    "inference.several_modes",
    "inference.one_mode",
    "inference.no_diagnostics",
}


def mixing_notices(one: Posterior) -> list[Notice]:
    """What R-hat, effective draws, divergences and energies say."""
    limits, table = one.limits, _judged(one)
    found = [
        Notice("inference.derived_not_finite", name, {"count": int(np.sum(~np.isfinite(x))), "draws": x.size})
        for name, x in one.draws.items()
        if not np.isfinite(x).all()
    ]
    least = {
        name: float(np.nan_to_num(np.minimum(row["ess_bulk"], row["ess_tail"])))
        for name, row in table.items()
    }
    poorest, wanted = min(least, key=lambda name: least[name]), limits.effective * one.method.independent
    few = {"count": least[poorest], "wanted": wanted}
    if one.drawn.khat is not None:
        return found + _weight_notices(one, one.drawn.khat, poorest, few)
    (chains, draws), method = one.shape, one.method
    assert not isinstance(method, LaplaceDraws)
    if draws < 4:
        return [Notice("inference.no_diagnostics", "", {"draws": draws})]
    worst = max(table, key=lambda name: np.nan_to_num(table[name]["r_hat"], nan=np.inf))
    if not table[worst]["r_hat"] <= limits.r_hat:
        found.append(Notice("inference.not_mixed", worst, {"r_hat": table[worst]["r_hat"]}))
    if least[poorest] < wanted:
        found.append(Notice("inference.few_effective", poorest, few))
    if one.divergences:
        found.append(Notice("inference.divergent", "", {"count": one.divergences, "draws": chains * draws}))
    if isinstance(method, NUTS) and one.drawn.depth is not None:
        full = int((one.drawn.depth >= method.depth).sum())
        values = {"count": full, "draws": chains * draws, "depth": method.depth}
        found += [Notice("inference.deep", "", values)] * bool(full)
    low = float(np.min(one.e_bfmi, initial=np.inf))
    if low < limits.energy:
        found.append(Notice("inference.low_energy", "", {"value": low}))
    return found


def _weight_notices(one: Posterior, khat: float, poorest: str, few: dict[str, float]) -> list[Notice]:
    """What is said of weights: that they are too few, cannot be trusted, or are worth little."""
    if np.isinf(khat) and one.shape[1] < one.limits.fewest:
        return [Notice("inference.few_draws", "", {"draws": one.shape[1]})]
    if not khat < TRUSTED:
        return [Notice("inference.weights_not_trusted", "", {"khat": khat})]
    return [Notice("inference.few_weights", poorest, few)] if few["count"] < few["wanted"] else []


def _judged(one: Posterior) -> dict[str, dict[str, float]]:
    """The rows that tell whether the draws have mixed: those of constants and of values at infinity do not."""
    return {
        name: row
        for name, row in one.table.items()
        if name in one.labels or (np.isfinite(one[name]).all() and np.ptp(one[name]) > 0)
    }
