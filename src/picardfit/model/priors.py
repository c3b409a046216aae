"""What is known about a parameter before the data: densities, as PEtab has them.

A prior acts on the value itself, or with `base` on its logarithm (PEtab's parameterScale priors: the density is then
that of the logarithm). `LogNormalPrior` and `LogLaplacePrior` are densities of the value whose logarithm is normal or
Laplace. The search minimises -log density on top of the data's cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, exp, inf, log, nan, sqrt
from typing import ClassVar

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError, Notice

LARGEST_EXPONENT = log(np.finfo(float).max)


@dataclass(frozen=True)
class Normal:
    """Normal with mean and standard deviation; with `base` the logarithm of the value to that base is."""

    mean: float
    sd: float
    base: float | None = None

    def __post_init__(self) -> None:
        _check(self, ("mean",), ("sd",))

    @property
    def support(self) -> tuple[float, float]:
        return (-inf if self.base is None else 0.0), inf

    def density(self, value: float) -> tuple[float, float, float]:
        """-log density, slope and curvature (at least 0) by the coordinate the prior acts on."""
        gap = (value - self.mean) / self.sd
        return 0.5 * gap * gap + log(self.sd) + 0.5 * log(2 * np.pi), gap / self.sd, 1 / self.sd**2


@dataclass(frozen=True)
class LaplacePrior:
    """Laplace around `mean` with mean absolute deviation `scale`; with `base` the logarithm of the value is.

    Its kink is rounded off within a thousandth of the scale. An estimate that ends there is off by about as much, and
    the objective by up to 3e-4; its standard error means nothing there: take a profile.
    """

    mean: float
    scale: float
    base: float | None = None
    rounding: ClassVar[float] = (
        1e-3  # |gap| becomes sqrt(gap^2 + rounding^2) - rounding, which has a curvature
    )

    def __post_init__(self) -> None:
        _check(self, ("mean",), ("scale",))

    @property
    def support(self) -> tuple[float, float]:
        return (-inf if self.base is None else 0.0), inf

    def density(self, value: float) -> tuple[float, float, float]:
        gap = (value - self.mean) / self.scale
        smooth = float(np.sqrt(gap * gap + self.rounding**2))
        return (
            smooth - self.rounding + log(2 * self.scale),
            gap / smooth / self.scale,
            1 / smooth / self.scale**2,
        )


@dataclass(frozen=True)
class LogNormalPrior:
    """The natural logarithm of the value is normal with `mean` and `sd`; density of the value itself."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        _check(self, ("mean",), ("sd",))

    support = (0.0, inf)
    base = float(np.e)
    of_value = True  # -log density has + log(value) on top

    def density(self, value: float) -> tuple[float, float, float]:
        return Normal(self.mean, self.sd).density(value)


@dataclass(frozen=True)
class LogLaplacePrior:
    """The natural logarithm of the value is Laplace around `mean`; density of the value itself."""

    mean: float
    scale: float

    def __post_init__(self) -> None:
        _check(self, ("mean",), ("scale",))

    support = (0.0, inf)
    base = float(np.e)
    of_value = True

    def density(self, value: float) -> tuple[float, float, float]:
        return LaplacePrior(self.mean, self.scale).density(value)


@dataclass(frozen=True)
class Uniform:
    """Equally likely from `lower` to `upper`, impossible outside; with `base` these bound the logarithm."""

    lower: float
    upper: float
    base: float | None = None

    def __post_init__(self) -> None:
        _check(self, ("lower", "upper"), ())
        if not self.lower < self.upper:
            raise InputError("model.uniform_ends", lower=self.lower, upper=self.upper)

    @property
    def support(self) -> tuple[float, float]:
        if self.base is None:
            return self.lower, self.upper
        return self.base**self.lower, self.base**self.upper

    def density(self, value: float) -> tuple[float, float, float]:
        return log(self.upper - self.lower), 0.0, 0.0


Prior = Normal | LaplacePrior | LogNormalPrior | LogLaplacePrior | Uniform
KINDS = (Normal, LaplacePrior, LogNormalPrior, LogLaplacePrior, Uniform)


def terms(prior: Prior, internal: float, is_log: bool) -> tuple[float, float, float]:
    """-log density of a prior, with slope and curvature by the search coordinate (log(value) if `is_log`)."""
    value = _exp(internal) if is_log else internal
    if prior.base is None:
        cost, slope, curvature = prior.density(value)
        chain = value if is_log else 1.0
        return cost, slope * chain, curvature * chain**2
    if value <= 0:
        return inf, 0.0, 0.0
    unit = log(prior.base)
    cost, slope, curvature = prior.density((internal if is_log else log(value)) / unit)
    chain = (1.0 if is_log else 1 / value) / unit
    cost, slope, curvature = cost, slope * chain, curvature * chain**2
    if isinstance(prior, LogNormalPrior | LogLaplacePrior):
        cost, slope = cost + log(value), slope + (1.0 if is_log else 1 / value)
    return cost, slope, curvature


def moments(prior: Prior, internal: float, is_log: bool) -> tuple[float, float]:
    """Mean and standard deviation by the search coordinate, the latter by the slope of the coordinate at a value.

    A Uniform knows no more than bounds do: its mean is NaN, its standard deviation infinite.
    """
    if isinstance(prior, Uniform):
        return nan, inf
    sd = prior.sd if isinstance(prior, Normal | LogNormalPrior) else sqrt(2) * prior.scale
    value = _exp(internal) if is_log else internal
    if prior.base is None:
        mean = prior.mean if not is_log else log(prior.mean) if prior.mean > 0 else nan
        return mean, sd / value if is_log else sd
    mean, sd = prior.mean * log(prior.base), sd * log(prior.base)
    return (mean, sd) if is_log else (_exp(mean), sd * abs(value))


def reach(prior: Prior, lower: float, upper: float) -> float:
    """Probability that a prior gives to a value as far to the side of the bounds as they are, natural units.

    At least 1/2 when its middle lies between the bounds, however wide it is. A Uniform has no middle: 1.
    """
    if isinstance(prior, Uniform):
        return 1.0
    if prior.base is not None:
        lower, upper = (
            end if end == inf else log(end) / log(prior.base) if end > 0 else -inf for end in (lower, upper)
        )
    spread = prior.sd if isinstance(prior, Normal | LogNormalPrior) else prior.scale
    gap = max(lower - prior.mean, prior.mean - upper) / spread
    if isinstance(prior, Normal | LogNormalPrior):
        return 0.5 * erfc(gap / sqrt(2))
    return 0.5 * exp(-gap) if gap > 0 else 1 - 0.5 * exp(gap)


def typical(prior: Normal | LaplacePrior | LogNormalPrior | LogLaplacePrior) -> tuple[float, float]:
    """Middle and spread of a prior in natural units; with a `base` the spread is a factor."""
    spread = prior.sd if isinstance(prior, Normal | LogNormalPrior) else prior.scale
    if prior.base is None:
        return prior.mean, spread
    return _exp(prior.mean * log(prior.base)), _exp(spread * log(prior.base))


def _exp(x: float) -> float:
    """e^x, the largest float where that would overflow."""
    return exp(min(x, LARGEST_EXPONENT))


@dataclass(frozen=True)
class Priors:
    """All priors of a problem. Unknowns shared by the experiments stand once, in row 0."""

    shape: tuple[int, int]  # (experiments, width)
    entries: tuple[tuple[int, int, bool, Prior], ...]  # (experiment, column, is log, prior)

    def value(self, unknowns: np.ndarray) -> float:
        return sum(terms(prior, float(unknowns[e, c]), is_log)[0] for e, c, is_log, prior in self.entries)

    def terms(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope and curvature, each (experiments, width)."""
        slope, curvature = np.zeros(self.shape), np.zeros(self.shape)
        for e, c, is_log, prior in self.entries:
            _, slope[e, c], curvature[e, c] = terms(prior, float(unknowns[e, c]), is_log)
        return slope, curvature

    def outside(
        self, lower: np.ndarray, upper: np.ndarray, label: Callable[[int, int], str], least: float = 0.01
    ) -> tuple[Notice, ...]:
        """A warning for every prior that contradicts the bounds, both (experiments, width) in natural units.

        It does when the probability of values as far out as the bounds is below `least`: one in a hundred, what is
        commonly called significant. `label`: the name of an unknown.
        """
        found = []
        for e, c, _, prior in self.entries:
            low, high = float(lower[e, c]), float(upper[e, c])
            if not isinstance(prior, Uniform) and reach(prior, low, high) < least:
                middle, spread = typical(prior)
                code = "model.prior_contradicts" if prior.base is None else "model.log_prior_contradicts"
                values = {"middle": middle, "spread": spread, "lower": low, "upper": high}
                found.append(Notice(code, label(e, c), values))
        return tuple(found)

    def moments(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations, each (experiments, width); NaN and inf where there is no prior."""
        mean, sd = np.full(self.shape, np.nan), np.full(self.shape, np.inf)
        for e, c, is_log, prior in self.entries:
            mean[e, c], sd[e, c] = moments(prior, float(unknowns[e, c]), is_log)
        return mean, sd


def _check(prior: Prior, numbers: tuple[str, ...], positive: tuple[str, ...]) -> None:
    kind = type(prior).__name__
    for name in (*numbers, *positive):
        as_number(getattr(prior, name), f"{name} of a {kind} prior")
    for name in positive:
        if not getattr(prior, name) > 0:
            raise InputError("model.prior_not_positive", name, kind=kind, value=getattr(prior, name))
    base = getattr(prior, "base", None)
    if base is not None and not (is_number(base) and base > 1):
        raise InputError("model.prior_base", value=base)
