"""What is known about a parameter before the data: the densities `pf.priors.Normal` and others.

A prior acts on the value itself, or with `base` on its logarithm (PEtab's parameterScale priors: the density is then
that of the logarithm). It is cut off at the bounds of its parameter. A prior names its family and the arguments of it;
families (picardfit.model.prior_families) state the densities in the coordinate x that the prior acts on: the value, or
its logarithm to `base`. `ends` are the possible x; `of_value` says that the density is that of the value itself
although x is its logarithm. picardfit.model.prior_terms turns them to other scales.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf, log
from typing import ClassVar, get_args

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.model.prior_families import (
    BETA,
    CAUCHY,
    EXPONENTIAL,
    GAMMA,
    HALF_CAUCHY,
    HALF_NORMAL,
    INVERSE_GAMMA,
    LAPLACE,
    NORMAL,
    RAYLEIGH,
    ROUNDING,
    STUDENT,
    UNIFORM,
    Family,
    Terms,
)

__all__ = [
    "Beta",
    "Cauchy",
    "Exponential",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Laplace",
    "LogLaplace",
    "LogNormal",
    "LogUniform",
    "Normal",
    "Rayleigh",
    "StudentT",
    "Uniform",
]
_POSITIVE = ("sd", "scale", "rate", "shape", "degrees", "alpha", "beta")  # fields that must be above zero
_LOG = float(np.e)


@dataclass(frozen=True)
class Density:
    """What all priors have in common. The arguments of a family are the fields of a prior, without `base`."""

    family: ClassVar[Family]
    ends: ClassVar[tuple[float, float]] = (-inf, inf)
    of_value: ClassVar[bool] = False

    def __post_init__(self) -> None:
        base = getattr(self, "base", None)
        for name, value in self._named().items():
            number = as_number(value, f"{name} of the prior")
            if name in _POSITIVE and not number > 0:
                raise InputError("model.prior_not_positive", field=name, value=number)
        if base is not None and not (is_number(base) and base > 1):
            raise InputError("model.prior_base", value=base)

    def _named(self) -> dict[str, float]:
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "base"}

    @property
    def arguments(self) -> tuple[float, ...]:
        return tuple(self._named().values())

    def terms(self, x: Array) -> Terms:
        """-log density at x with slope and curvature."""
        return self.family.terms(x, *self.arguments)

    def below(self, x: Array) -> Array:
        """The probability below x."""
        return self.family.below(x, *self.arguments)

    def above(self, x: Array) -> Array:
        """The probability above x, exact where it is tiny."""
        return self.family.above(x, *self.arguments)

    def quantile(self, part: Array) -> Array:
        """x with this probability below it."""
        return self.family.quantile(part, *self.arguments)

    def upper_quantile(self, part: Array) -> Array:
        """x with this probability above it."""
        return self.family.upper_quantile(part, *self.arguments)


@dataclass(frozen=True)
class Normal(Density):
    """Normal with `mean` and standard deviation `sd`; with `base`, of the logarithm of the value to that base."""

    mean: float
    sd: float
    base: float | None = None
    family: ClassVar[Family] = NORMAL


@dataclass(frozen=True)
class LogNormal(Density):
    """The natural logarithm of the value is normal with `mean` and `sd`; density of the value itself."""

    mean: float
    sd: float
    base: ClassVar[float] = _LOG
    of_value: ClassVar[bool] = True
    family: ClassVar[Family] = NORMAL


@dataclass(frozen=True)
class HalfNormal(Density):
    """The absolute value of a normal number around zero with standard deviation `sd`."""

    sd: float
    base: ClassVar[None] = None
    ends: ClassVar[tuple[float, float]] = (0.0, inf)
    family: ClassVar[Family] = HALF_NORMAL


@dataclass(frozen=True)
class StudentT(Density):
    """Student's t with `degrees` of freedom around `location`, multiplied by `scale`."""

    degrees: float
    location: float
    scale: float
    base: ClassVar[None] = None
    family: ClassVar[Family] = STUDENT


@dataclass(frozen=True)
class Cauchy(Density):
    """Cauchy around `location`, with quartiles `scale` below and above it; it has no mean."""

    location: float
    scale: float
    base: ClassVar[None] = None
    family: ClassVar[Family] = CAUCHY


@dataclass(frozen=True)
class HalfCauchy(Density):
    """The absolute value of a Cauchy number around zero; `scale` is its median."""

    scale: float
    base: ClassVar[None] = None
    ends: ClassVar[tuple[float, float]] = (0.0, inf)
    family: ClassVar[Family] = HALF_CAUCHY


@dataclass(frozen=True)
class Exponential(Density):
    """Exponential with `rate`, as in Stan and PyMC: the mean is 1 / rate."""

    rate: float
    base: ClassVar[None] = None
    ends: ClassVar[tuple[float, float]] = (0.0, inf)
    family: ClassVar[Family] = EXPONENTIAL


@dataclass(frozen=True)
class Gamma(Density):
    """Gamma with `shape` and `rate`, as in Stan and PyMC: the mean is shape / rate."""

    shape: float
    rate: float
    base: ClassVar[None] = None
    ends: ClassVar[tuple[float, float]] = (0.0, inf)
    family: ClassVar[Family] = GAMMA


@dataclass(frozen=True)
class InverseGamma(Density):
    """The inverse of a gamma number with `shape` and rate `scale`: the mean is scale / (shape - 1) for shape > 1."""

    shape: float
    scale: float
    base: ClassVar[None] = None
    ends: ClassVar[tuple[float, float]] = (0.0, inf)
    family: ClassVar[Family] = INVERSE_GAMMA


@dataclass(frozen=True)
class Beta(Density):
    """Beta between 0 and 1, with a density proportional to x^(alpha - 1) (1 - x)^(beta - 1)."""

    alpha: float
    beta: float
    base: ClassVar[None] = None
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)
    family: ClassVar[Family] = BETA


@dataclass(frozen=True)
class Rayleigh(Density):
    """The length of a vector of two normal numbers with mean 0 and standard deviation `scale`."""

    scale: float
    base: ClassVar[None] = None
    ends: ClassVar[tuple[float, float]] = (0.0, inf)
    family: ClassVar[Family] = RAYLEIGH


@dataclass(frozen=True)
class Uniform(Density):
    """Equally likely from `lower` to `upper`, impossible outside; with `base` these bound the logarithm."""

    lower: float
    upper: float
    base: float | None = None
    family: ClassVar[Family] = UNIFORM

    def __post_init__(self) -> None:
        Density.__post_init__(self)
        if not self.lower < self.upper:
            raise InputError("model.uniform_ends", lower=self.lower, upper=self.upper)

    @property
    def ends(self) -> tuple[float, float]:  # type: ignore[override]
        return self.lower, self.upper


@dataclass(frozen=True)
class LogUniform(Density):
    """The logarithm is equally likely between those of `lower` and `upper`; density of the value itself."""

    lower: float
    upper: float
    base: ClassVar[float] = _LOG
    of_value: ClassVar[bool] = True
    family: ClassVar[Family] = UNIFORM

    def __post_init__(self) -> None:
        Density.__post_init__(self)
        if not self.lower > 0:
            raise InputError("model.prior_not_positive", field="lower", value=self.lower)
        if not self.lower < self.upper:
            raise InputError("model.uniform_ends", lower=self.lower, upper=self.upper)

    @property
    def ends(self) -> tuple[float, float]:  # type: ignore[override]
        return log(self.lower), log(self.upper)

    @property
    def arguments(self) -> tuple[float, ...]:
        return self.ends


@dataclass(frozen=True)
class Laplace(Density):
    """Laplace around `mean` with mean absolute deviation `scale`; with `base`, of the logarithm of the value.

    Its kink is rounded off within a thousandth of the scale. An estimate that ends there is off by about as much, and
    the objective by up to 3e-4; its standard error means nothing there: take a profile.
    """

    mean: float
    scale: float
    base: float | None = None
    family: ClassVar[Family] = LAPLACE
    rounding: ClassVar[float] = ROUNDING


@dataclass(frozen=True)
class LogLaplace(Density):
    """The natural logarithm of the value is Laplace around `mean`; density of the value itself."""

    mean: float
    scale: float
    base: ClassVar[float] = _LOG
    of_value: ClassVar[bool] = True
    family: ClassVar[Family] = LAPLACE


Prior = (
    Normal
    | LogNormal
    | HalfNormal
    | StudentT
    | Cauchy
    | HalfCauchy
    | Exponential
    | Gamma
    | InverseGamma
    | Beta
    | Rayleigh
    | Uniform
    | LogUniform
    | Laplace
    | LogLaplace
)
KINDS: tuple[type[Prior], ...] = get_args(Prior)
EVEN = (Uniform, LogUniform)  # they say no more than bounds do


def __dir__() -> list[str]:
    """What `pf.priors.<tab>` shows: the priors."""
    return sorted(__all__)
