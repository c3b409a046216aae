"""What is known about a parameter before the data: densities, as PEtab has them.

A prior acts on the value itself, or with `base` on its logarithm (PEtab's parameterScale priors: the density is then
that of the logarithm). `LogNormalPrior` and `LogLaplacePrior` are densities of the value whose logarithm is normal or
Laplace. The search minimises -log density on top of the data's cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import erfc, exp, inf, log, nan, sqrt
from typing import ClassVar

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError, Notice
from picardfit.model.scales import LINEAR, Scales

LARGEST_EXPONENT = log(np.finfo(float).max)


@dataclass(frozen=True)
class Normal:
    """Normal with `mean` and standard deviation `sd`; with `base`, of the logarithm of the value to that base."""

    mean: float
    sd: float
    base: float | None = None

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class LaplacePrior:
    """Laplace around `mean` with mean absolute deviation `scale`; with `base`, of the logarithm of the value.

    Its kink is rounded off within a thousandth of the scale. An estimate that ends there is off by about as much, and
    the objective by up to 3e-4; its standard error means nothing there: take a profile.
    """

    mean: float
    scale: float
    base: float | None = None
    # |gap| becomes sqrt(gap^2 + rounding^2) - rounding, which has a curvature
    rounding: ClassVar[float] = 1e-3

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class LogNormalPrior:
    """The natural logarithm of the value is normal with `mean` and `sd`; density of the value itself."""

    mean: float
    sd: float
    base: ClassVar[float] = float(np.e)

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class LogLaplacePrior:
    """The natural logarithm of the value is Laplace around `mean`; density of the value itself."""

    mean: float
    scale: float
    base: ClassVar[float] = float(np.e)

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class Uniform:
    """Equally likely from `lower` to `upper`, impossible outside; with `base` these bound the logarithm."""

    lower: float
    upper: float
    base: float | None = None

    def __post_init__(self) -> None:
        _check(self)
        if not self.lower < self.upper:
            raise InputError("model.uniform_ends", lower=self.lower, upper=self.upper)


Peaked = Normal | LaplacePrior | LogNormalPrior | LogLaplacePrior
Prior = Peaked | Uniform
KINDS = (Normal, LaplacePrior, LogNormalPrior, LogLaplacePrior, Uniform)


def _check(prior: Prior) -> None:
    for name in (one.name for one in fields(prior) if one.name != "base"):
        value = as_number(getattr(prior, name), f"{name} of the prior")
        if name in ("sd", "scale") and not value > 0:
            raise InputError("model.prior_not_positive", field=name, value=value)
    if prior.base is not None and not (is_number(prior.base) and prior.base > 1):
        raise InputError("model.prior_base", value=prior.base)


def support(prior: Prior) -> tuple[float, float]:
    """The interval of possible values, natural units."""
    if not isinstance(prior, Uniform):
        return (-inf if prior.base is None else 0.0), inf
    if prior.base is None:
        return prior.lower, prior.upper
    return prior.base**prior.lower, prior.base**prior.upper


def _spread(prior: Peaked) -> float:
    return prior.sd if isinstance(prior, Normal | LogNormalPrior) else prior.scale


def _density(prior: Prior, value: float) -> tuple[float, float, float]:
    """-log density, slope and curvature (at least 0) by the coordinate the prior acts on."""
    if isinstance(prior, Uniform):
        return log(prior.upper - prior.lower), 0.0, 0.0
    spread = _spread(prior)
    gap = (value - prior.mean) / spread
    if isinstance(prior, Normal | LogNormalPrior):
        return 0.5 * gap * gap + log(spread) + 0.5 * log(2 * np.pi), gap / spread, 1 / spread**2
    rounding = LaplacePrior.rounding
    smooth = sqrt(gap * gap + rounding**2)
    return smooth - rounding + log(2 * spread), gap / smooth / spread, 1 / smooth / spread**2


def terms(prior: Prior, internal: float, scale: Scales = LINEAR) -> tuple[float, float, float]:
    """-log density of a prior, with slope and curvature by the search coordinate, which has this scale."""
    value, slope_of_value = _natural(internal, scale)
    if prior.base is None:
        cost, slope, curvature = _density(prior, value)
        return cost, slope * slope_of_value, curvature * slope_of_value**2
    if value <= 0:
        return inf, 0.0, 0.0
    unit = log(prior.base)
    cost, slope, curvature = _density(prior, (internal if scale.log else log(value)) / unit)
    log_slope = 1.0 if scale.log else slope_of_value / value
    chain = log_slope / unit
    slope, curvature = slope * chain, curvature * chain**2
    if isinstance(prior, LogNormalPrior | LogLaplacePrior):  # density of the value: + log(value)
        cost, slope = cost + log(value), slope + log_slope
    return cost, slope, curvature


def moments(prior: Prior, internal: float, scale: Scales = LINEAR) -> tuple[float, float]:
    """Mean and standard deviation in the search coordinate; the latter linearised at a value where necessary.

    A Uniform says no more than bounds do: its mean is NaN, its standard deviation infinite.
    """
    if isinstance(prior, Uniform):
        return nan, inf
    sd = prior.sd if isinstance(prior, Normal | LogNormalPrior) else sqrt(2) * prior.scale
    value, slope = _natural(internal, scale)
    if prior.base is None:
        inside = not scale.log or prior.mean > 0
        return float(scale.internal(prior.mean)) if inside else nan, sd / slope
    mean, sd = prior.mean * log(prior.base), sd * log(prior.base)
    return (mean, sd) if scale.log else (float(scale.internal(_exp(mean))), sd * abs(value) / slope)


def _natural(internal: float, scale: Scales) -> tuple[float, float]:
    """The value at a search coordinate, and its slope there."""
    value = _exp(internal) if scale.log else float(scale.natural(internal))
    return value, value if scale.log else float(scale.slopes(value))


def reach(prior: Prior, lower: float, upper: float) -> float:
    """Probability of a value at least as far from the prior's median as the bounds (natural units) are.

    At least 1/2 if the median lies between the bounds, however wide the prior is. A Uniform has no peak: 1.
    """
    if isinstance(prior, Uniform):
        return 1.0
    if prior.base is not None:
        unit = log(prior.base)
        lower, upper = (inf if b == inf else log(b) / unit if b > 0 else -inf for b in (lower, upper))
    gap = max(lower - prior.mean, prior.mean - upper) / _spread(prior)
    if isinstance(prior, Normal | LogNormalPrior):
        return 0.5 * erfc(gap / sqrt(2))
    return 0.5 * exp(-gap) if gap > 0 else 1 - 0.5 * exp(gap)


def _exp(x: float) -> float:
    """e^x, or the largest float where that would overflow."""
    return exp(min(x, LARGEST_EXPONENT))


@dataclass(frozen=True)
class Priors:
    """All priors of a problem. Unknowns shared by the experiments occur once, in row 0."""

    shape: tuple[int, int]  # (experiments, width)
    entries: tuple[tuple[int, int, Scales, Prior], ...]  # (experiment, column, scale, prior)

    def value(self, unknowns: np.ndarray) -> float:
        return sum(terms(prior, float(unknowns[e, c]), scale)[0] for e, c, scale, prior in self.entries)

    def terms(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope and curvature, each (experiments, width)."""
        slope, curvature = np.zeros(self.shape), np.zeros(self.shape)
        for e, c, scale, prior in self.entries:
            _, slope[e, c], curvature[e, c] = terms(prior, float(unknowns[e, c]), scale)
        return slope, curvature

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
            if not isinstance(prior, Uniform) and reach(prior, low, high) < least:
                middle, spread = prior.mean, _spread(prior)
                code = "model.prior_contradicts"
                if prior.base is not None:  # natural units: the spread is a factor
                    code = "model.log_prior_contradicts"
                    middle, spread = _exp(middle * log(prior.base)), _exp(spread * log(prior.base))
                values = {"middle": middle, "spread": spread, "lower": low, "upper": high}
                found.append(Notice(code, label(e, c), values))
        return tuple(found)

    def moments(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations, each (experiments, width); NaN and inf where there is no prior."""
        mean, sd = np.full(self.shape, np.nan), np.full(self.shape, np.inf)
        for e, c, scale, prior in self.entries:
            mean[e, c], sd[e, c] = moments(prior, float(unknowns[e, c]), scale)
        return mean, sd
