"""What is known about a parameter before the data: densities, as PEtab has them.

A prior acts on the value itself, or with `base` on its logarithm (PEtab's parameterScale priors: the density is then
that of the logarithm). `LogNormalPrior` and `LogLaplacePrior` are densities of the value whose logarithm is normal or
Laplace. The search minimises -log density on top of the data's cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, inf, log, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.problem.unknowns import UnknownsLayout

OUTSIDE = 0.01  # probability of values as far out as the bounds, below which these contradict the prior
SMOOTH = 1e-3  # |d| of a Laplace density is sqrt(d^2 + w^2) - w, with this w


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
    the objective by up to 3e-4; its standard error says nothing, take a profile.
    """

    mean: float
    scale: float
    base: float | None = None

    def __post_init__(self) -> None:
        _check(self, ("mean",), ("scale",))

    @property
    def support(self) -> tuple[float, float]:
        return (-inf if self.base is None else 0.0), inf

    def density(self, value: float) -> tuple[float, float, float]:
        gap = (value - self.mean) / self.scale
        smooth = float(np.sqrt(gap * gap + SMOOTH**2))
        return (
            smooth - SMOOTH + log(2 * self.scale),
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
            raise InputError(
                f"Uniform({self.lower:g}, {self.upper:g}) has no room between its ends: the first must be smaller."
            )

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
    value = exp(min(internal, 700.0)) if is_log else internal
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
    value = exp(min(internal, 700.0)) if is_log else internal
    if prior.base is None:
        mean = prior.mean if not is_log else log(prior.mean) if prior.mean > 0 else nan
        return mean, sd / value if is_log else sd
    mean, sd = prior.mean * log(prior.base), sd * log(prior.base)
    return (mean, sd) if is_log else (exp(min(mean, 700.0)), sd * abs(value))


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


def told(prior: Normal | LaplacePrior | LogNormalPrior | LogLaplacePrior) -> str:
    """A prior in words: `5 ± 0.1`, or `2 within a factor of 1.5`."""
    spread = prior.sd if isinstance(prior, Normal | LogNormalPrior) else prior.scale
    if prior.base is None:
        return f"{prior.mean:g} ± {spread:g}"
    middle, factor = (exp(min(x * log(prior.base), 700.0)) for x in (prior.mean, spread))
    return f"{middle:.3g} within a factor of {factor:.3g}"


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

    def outside(self, layout: UnknownsLayout) -> tuple[str, ...]:
        """A sentence for every prior that hardly leaves room within the bounds."""
        lower, upper = layout.natural(layout.lower), layout.natural(layout.upper)
        return tuple(
            f"The prior of `{layout.label(e, c)}` says {told(prior)}, but its bounds are {lower[e, c]:g} to "
            f"{upper[e, c]:g}: correct one of them."
            for e, c, _, prior in self.entries
            if reach(prior, float(lower[e, c]), float(upper[e, c])) < OUTSIDE
        )

    def moments(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations, each (experiments, width); NaN and inf where there is no prior."""
        mean, sd = np.full(self.shape, np.nan), np.full(self.shape, np.inf)
        for e, c, is_log, prior in self.entries:
            mean[e, c], sd[e, c] = moments(prior, float(unknowns[e, c]), is_log)
        return mean, sd


def _check(prior: Prior, numbers: tuple[str, ...], positive: tuple[str, ...]) -> None:
    for name in (*numbers, *positive):
        as_number(getattr(prior, name), f"{name} of a {type(prior).__name__} prior")
    for name in positive:
        if not getattr(prior, name) > 0:
            raise InputError(
                f"{name} = {getattr(prior, name):g} of a {type(prior).__name__} prior is not positive: "
                f"give a positive number."
            )
    base = getattr(prior, "base", None)
    if base is not None and not (is_number(base) and base > 1):
        raise InputError(f"base = {base!r} is not the base of a logarithm: write base=10, or leave it out.")
