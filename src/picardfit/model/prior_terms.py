"""Priors in the coordinates of a search or of draws: -log density, moments, reach, draws; all priors of a problem.

A coordinate has a scale: it is the value, its logarithm or its logit. The search minimises -log density on top of the
data's cost. Draws need the density by the coordinate itself: `measure` adds the logarithm of d value / d coordinate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, log, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from picardfit.errors import Notice
from picardfit.formulas.kernels import Array
from picardfit.model.prior_families import Terms
from picardfit.model.priors import EVEN, Laplace, LogLaplace, LogNormal, Normal, Prior
from picardfit.model.scales import LINEAR, Scales

Indices = NDArray[np.intp]
LARGEST_EXPONENT = log(np.finfo(float).max)
PARTS = np.array([0.15865525393145707, 0.5, 0.8413447460685429])  # normal: mean - sd, mean, mean + sd


def support(prior: Prior) -> tuple[float, float]:
    """The interval of possible values, natural units."""
    lower, upper = prior.ends
    if prior.base is None:
        return lower, upper
    return _power(prior.base, lower), _power(prior.base, upper)


def terms(prior: Prior, internal: ArrayLike, scale: Scales = LINEAR) -> Terms:
    """-log density of a prior, with slope and curvature (at least 0) by the coordinate, which has this scale."""
    internal = np.asarray(internal, float)
    value, by_coordinate = _natural(internal, scale)
    if prior.base is None:
        cost, slope, curvature = prior.terms(value)
        return Terms(cost, slope * by_coordinate, curvature * by_coordinate**2)
    unit, possible = log(prior.base), value > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = internal if scale.log else np.log(np.where(possible, value, 1.0))
        log_slope = np.ones(value.shape) if scale.log else np.where(possible, by_coordinate / value, 0.0)
    cost, slope, curvature = prior.terms(logarithm / unit)
    chain = log_slope / unit
    slope, curvature = slope * chain, curvature * chain**2
    if prior.of_value:  # + log(value)
        cost, slope = cost + logarithm, slope + log_slope
    return Terms(np.where(possible, cost, inf), slope, curvature)


def _natural(internal: Array, scale: Scales) -> tuple[Array, Array]:
    """Values at coordinates of one scale, and their slopes there."""
    if scale.log:
        value = _exp(internal)
        return value, value
    if not scale.logit:
        return internal, np.ones(internal.shape)
    value = np.asarray(scale.natural(internal), float)
    return value, np.asarray(scale.slopes(value), float)


def value_measure(internal: ArrayLike, scale: Scales) -> tuple[Array, Array]:
    """log |d value / d coordinate| with its slope."""
    internal = np.asarray(internal, float)
    flat = np.zeros(internal.shape)
    if scale.log:
        return internal, flat + 1.0
    if not scale.logit:
        return flat, flat
    with np.errstate(over="ignore", divide="ignore"):
        volume = np.log(np.asarray(scale.slopes(scale.natural(internal)), float))
        return volume, 1 - 2 / (1 + np.exp(-internal))


def measure(prior: Prior, internal: ArrayLike, scale: Scales = LINEAR) -> tuple[Array, Array]:
    """log |d x / d coordinate| with its slope, where x is what the density of `terms` is a density of."""
    volume, slope = value_measure(internal, scale)
    if prior.base is None or prior.of_value:
        return volume, slope
    unit = log(log(prior.base))  # a density of the logarithm
    if scale.log:
        return np.zeros(volume.shape) - unit, np.zeros(volume.shape)
    value, by_coordinate = _natural(np.asarray(internal, float), scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        return volume - np.log(value) - unit, slope - by_coordinate / value


def moments(prior: Prior, internal: float, scale: Scales = LINEAR) -> tuple[float, float]:
    """Mean and standard deviation in the search coordinate; the latter linearised at a value where necessary.

    For priors that are not symmetric or have no moments: the median, and half the width of the interval that holds
    what one standard deviation of a normal number does. A uniform prior says no more than bounds do: its mean is NaN,
    its standard deviation infinite.
    """
    if isinstance(prior, EVEN):
        return nan, inf
    value, slope = (float(one) for one in _natural(np.array(internal), scale))
    if isinstance(prior, Normal | Laplace | LogNormal | LogLaplace):
        sd = prior.sd if isinstance(prior, Normal | LogNormal) else sqrt(2) * prior.scale
        if prior.base is None:
            inside = not scale.log or prior.mean > 0
            return float(scale.internal(prior.mean)) if inside else nan, sd / slope
        mean, sd = prior.mean * log(prior.base), sd * log(prior.base)
        return (mean, sd) if scale.log else (float(scale.internal(_exp(mean))), sd * abs(value) / slope)
    low, middle, high = prior.quantile(PARTS).tolist()
    if scale.log:
        return (log(middle), 0.5 * log(high / low)) if low > 0 else (nan, 0.5 * (high - low) / value)
    return float(scale.internal(middle)), 0.5 * (high - low) / slope


def reach(prior: Prior, lower: float, upper: float) -> float:
    """Probability of a value at least as far from the prior's median as the bounds (natural units) are.

    At least 1/2 if the median lies between the bounds, however wide the prior is. A uniform prior has no peak: 1.
    """
    if isinstance(prior, EVEN):
        return 1.0
    low, high = _in_its_coordinate(prior, lower), _in_its_coordinate(prior, upper)
    if isinstance(
        prior, Normal | Laplace | LogNormal | LogLaplace
    ):  # symmetric: small numbers keep their digits
        return _below(prior, min(2 * prior.mean - low, high))
    return min(float(prior.above(np.array(low))), _below(prior, high))


def draws(prior: Prior, lower: float, upper: float, rng: np.random.Generator, count: int) -> Array:
    """(count,): values from a prior that is cut off at bounds, in natural units."""
    return quantile_of_value(prior, lower, upper, rng.uniform(size=count))


def quantile_of_value(prior: Prior, lower: float, upper: float, part: ArrayLike) -> Array:
    """Values in natural units below which this part of a prior lies that is cut off at bounds."""
    low, high, upper_tail = _mass(prior, lower, upper)
    part = np.asarray(part)
    if upper_tail:
        found = prior.upper_quantile(high - (high - low) * part)
    else:
        found = prior.quantile(low + (high - low) * part)
    natural = found if prior.base is None else _exp(found * log(prior.base))
    return np.clip(natural, lower, upper)


def _mass(prior: Prior, lower: float, upper: float) -> tuple[float, float, bool]:
    """Probabilities below both bounds; those above them, the smaller one first, and True beyond the median."""
    ends = [np.array(_in_its_coordinate(prior, bound)) for bound in (lower, upper)]
    low, high = (float(prior.below(end)) for end in ends)
    if low < 0.5:
        return low, high, False
    most, least = (float(prior.above(end)) for end in ends)
    return least, most, True


def density_of_value(prior: Prior, lower: float, upper: float, values: Array) -> Array:
    """The density of a prior that is cut off at bounds, at values in natural units; 0 outside."""
    low, high, _ = _mass(prior, lower, upper)
    least, most = support(prior)
    inside = (values >= max(lower, least)) & (values <= min(upper, most))
    safe = np.where(inside, values, 1.0)
    with np.errstate(all="ignore"):
        log_density = measure(prior, safe)[0] - terms(prior, safe).cost
        return np.where(inside, np.exp(log_density) / (high - low), 0.0)


def _below(prior: Prior, x: float) -> float:
    return float(prior.below(np.array(x)))


def _in_its_coordinate(prior: Prior, bound: float) -> float:
    """A bound in natural units as the x of a prior."""
    if prior.base is None:
        return bound
    return inf if bound == inf else log(bound) / log(prior.base) if bound > 0 else -inf


def _exp(x: ArrayLike) -> Array:
    """e^x, or the largest float where that would overflow."""
    return np.asarray(np.exp(np.minimum(x, LARGEST_EXPONENT)))


def _power(base: float, x: float) -> float:
    """base^x for x that may be infinite."""
    return 0.0 if x == -inf else inf if x == inf else base**x


@dataclass(frozen=True)
class Priors:
    """All priors of a problem. Unknowns shared by the experiments occur once, in row 0."""

    shape: tuple[int, int]  # (experiments, width)
    entries: tuple[tuple[int, int, Scales, Prior], ...]  # (experiment, column, scale, prior)

    @cached_property
    def _groups(self) -> list[tuple[Prior, Scales, tuple[Indices, Indices]]]:
        """Prior, scale, and (experiments, columns) of the unknowns that have both."""
        found: dict[object, tuple[Prior, Scales, list[tuple[int, int]]]] = {}
        for e, c, scale, prior in self.entries:
            ends = (float(scale.low), float(scale.high)) if scale.logit else ()
            found.setdefault((prior, bool(scale.log), ends), (prior, scale, []))[2].append((e, c))
        return [
            (prior, scale, (np.array([e for e, _ in at]), np.array([c for _, c in at])))
            for prior, scale, at in found.values()
        ]

    def value(self, unknowns: np.ndarray) -> float:
        return float(sum(terms(prior, unknowns[at], scale).cost.sum() for prior, scale, at in self._groups))

    def terms(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope and curvature, each (experiments, width)."""
        slope, curvature = np.zeros(self.shape), np.zeros(self.shape)
        for prior, scale, at in self._groups:
            _, slope[at], curvature[at] = terms(prior, unknowns[at], scale)
        return slope, curvature

    def density(self, many_unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """-log density by the unknowns' own coordinates, (k,), and its slope, both of (k, experiments, width).

        Unknowns shared by the experiments have their slope in row 0.
        """
        cost, slope = np.zeros(len(many_unknowns)), np.zeros(many_unknowns.shape)
        for prior, scale, (row, column) in self._groups:
            here = many_unknowns[:, row, column]
            found, (volume, by_volume) = terms(prior, here, scale), measure(prior, here, scale)
            cost += (found.cost - volume).sum(axis=1)
            slope[:, row, column] = found.slope - by_volume
        return cost, slope

    def outside(
        self, lower: np.ndarray, upper: np.ndarray, label: Callable[[int, int], str], least: float = 0.01
    ) -> tuple[Notice, ...]:
        """A warning for every prior that contradicts the bounds, both (experiments, width) in natural units.

        It does if values as far out as the bounds have a probability below `least`: one in a hundred, a usual level of
        significance. `label`: the name of an unknown.
        """
        found = []
        for e, c, _, prior in self.entries:
            low, high = float(lower[e, c]), float(upper[e, c])
            if reach(prior, low, high) < least:
                middle, spread = _middle_and_spread(prior)
                code = "model.prior_contradicts"
                if prior.base is not None:  # natural units: the spread is a factor
                    code = "model.log_prior_contradicts"
                    middle, spread = exp(middle * log(prior.base)), exp(spread * log(prior.base))
                values = {"middle": middle, "spread": spread, "lower": low, "upper": high}
                found.append(Notice(code, label(e, c), values))
        return tuple(found)

    def moments(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations, each (experiments, width); NaN and inf where there is no prior."""
        mean, sd = np.full(self.shape, np.nan), np.full(self.shape, np.inf)
        for e, c, scale, prior in self.entries:
            mean[e, c], sd[e, c] = moments(prior, float(unknowns[e, c]), scale)
        return mean, sd


def _middle_and_spread(prior: Prior) -> tuple[float, float]:
    """Centre and scale of a prior, in the coordinate that it acts on."""
    match prior:
        case Normal() | LogNormal():
            return prior.mean, prior.sd
        case Laplace() | LogLaplace():
            return prior.mean, prior.scale
    low, middle, high = prior.quantile(PARTS).tolist()
    return middle, 0.5 * (high - low)
