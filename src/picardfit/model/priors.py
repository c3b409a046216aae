"""What is known about a parameter before the data: the densities `pf.priors.Normal` and others.

A prior acts on the value itself, or with `base` on its logarithm (PEtab's parameterScale priors: the density is then
that of the logarithm). It is cut off at the bounds of its parameter. Each class states -log density with slope and a
curvature that is never negative, the probability below a value, and quantiles, all in the coordinate x that it acts on
(the value, or its logarithm to `base`), for arrays. `ends` are the possible x; `of_value` says that the density is that
of the value itself although x is its logarithm. picardfit.model.prior_terms turns them to other scales.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf, log
from typing import ClassVar, NamedTuple, get_args

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array

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
TINY = float(np.finfo(float).tiny)
_POSITIVE = ("sd", "scale", "rate", "shape", "degrees", "alpha", "beta")  # fields that must be above zero
_LOG_ROOT = 0.5 * log(2 * np.pi)


class Terms(NamedTuple):
    """-log density, its slope, and a curvature of at least 0: the second derivative where that is positive."""

    cost: Array
    slope: Array
    curvature: Array


def _check(prior: Prior) -> None:
    for name in (one.name for one in fields(prior) if one.name != "base"):
        value = as_number(getattr(prior, name), f"{name} of the prior")
        if name in _POSITIVE and not value > 0:
            raise InputError("model.prior_not_positive", field=name, value=value)
    if prior.base is not None and not (is_number(prior.base) and prior.base > 1):
        raise InputError("model.prior_base", value=prior.base)


def _normal_terms(x: Array, mean: float, sd: float) -> Terms:
    gap = (x - mean) / sd
    return Terms(0.5 * gap * gap + log(sd) + _LOG_ROOT, gap / sd, np.full(gap.shape, 1 / sd**2))


def _normal_below(x: Array, mean: float, sd: float) -> Array:
    from scipy.special import ndtr

    return np.asarray(ndtr((x - mean) / sd))


def _normal_quantile(part: Array, mean: float, sd: float) -> Array:
    from scipy.special import ndtri

    return np.asarray(mean + sd * ndtri(part))


def _laplace_terms(x: Array, mean: float, scale: float, rounding: float) -> Terms:
    gap = (x - mean) / scale
    smooth = np.sqrt(gap * gap + rounding**2)
    return Terms(smooth - rounding + log(2 * scale), gap / smooth / scale, 1 / smooth / scale**2)


def _laplace_below(x: Array, mean: float, scale: float) -> Array:
    gap = (x - mean) / scale
    return np.where(gap > 0, 1 - 0.5 * np.exp(-np.abs(gap)), 0.5 * np.exp(-np.abs(gap)))


def _laplace_quantile(part: Array, mean: float, scale: float) -> Array:
    side = np.where(part > 0.5, 1.0, -1.0)
    return np.asarray(mean - scale * side * np.log(2 * np.where(part > 0.5, 1 - part, part)))


def _student_terms(x: Array, degrees: float, location: float, scale: float) -> Terms:
    """The curvature is the weight of iterated least squares, slope over gap, which is positive in the tails too."""
    from scipy.special import gammaln

    gap = (x - location) / scale
    constant = gammaln(degrees / 2) - gammaln((degrees + 1) / 2) + 0.5 * log(degrees * np.pi) + log(scale)
    weight = (degrees + 1) / (degrees + gap * gap)
    cost = 0.5 * (degrees + 1) * np.log1p(gap * gap / degrees) + constant
    return Terms(cost, weight * gap / scale, weight / scale**2)


@dataclass(frozen=True)
class Normal:
    """Normal with `mean` and standard deviation `sd`; with `base`, of the logarithm of the value to that base."""

    mean: float
    sd: float
    base: float | None = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        return _normal_terms(x, self.mean, self.sd)

    def below(self, x: Array) -> Array:
        return _normal_below(x, self.mean, self.sd)

    def quantile(self, part: Array) -> Array:
        return _normal_quantile(part, self.mean, self.sd)


@dataclass(frozen=True)
class LogNormal:
    """The natural logarithm of the value is normal with `mean` and `sd`; density of the value itself."""

    mean: float
    sd: float
    base: ClassVar[float] = float(np.e)
    of_value: ClassVar[bool] = True
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        return _normal_terms(x, self.mean, self.sd)

    def below(self, x: Array) -> Array:
        return _normal_below(x, self.mean, self.sd)

    def quantile(self, part: Array) -> Array:
        return _normal_quantile(part, self.mean, self.sd)


@dataclass(frozen=True)
class HalfNormal:
    """The absolute value of a normal number around zero with standard deviation `sd`."""

    sd: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        whole = _normal_terms(x, 0.0, self.sd)
        return whole._replace(cost=whole.cost - log(2))

    def below(self, x: Array) -> Array:
        return np.maximum(2 * _normal_below(x, 0.0, self.sd) - 1, 0.0)

    def quantile(self, part: Array) -> Array:
        return _normal_quantile(0.5 + 0.5 * part, 0.0, self.sd)


@dataclass(frozen=True)
class StudentT:
    """Student's t with `degrees` of freedom around `location`, multiplied by `scale`."""

    degrees: float
    location: float
    scale: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        return _student_terms(x, self.degrees, self.location, self.scale)

    def below(self, x: Array) -> Array:
        from scipy.special import stdtr

        return np.asarray(stdtr(self.degrees, (x - self.location) / self.scale))

    def quantile(self, part: Array) -> Array:
        from scipy.special import stdtrit

        return np.asarray(self.location + self.scale * stdtrit(self.degrees, part))


@dataclass(frozen=True)
class Cauchy:
    """Cauchy around `location`, with quartiles `scale` below and above it; it has no mean."""

    location: float
    scale: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        return _student_terms(x, 1.0, self.location, self.scale)

    def below(self, x: Array) -> Array:
        return np.asarray(0.5 + np.arctan((x - self.location) / self.scale) / np.pi)

    def quantile(self, part: Array) -> Array:
        return np.asarray(self.location + self.scale * np.tan(np.pi * (part - 0.5)))


@dataclass(frozen=True)
class HalfCauchy:
    """The absolute value of a Cauchy number around zero; `scale` is its median."""

    scale: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        whole = _student_terms(x, 1.0, 0.0, self.scale)
        return whole._replace(cost=whole.cost - log(2))

    def below(self, x: Array) -> Array:
        return np.asarray(2 / np.pi * np.arctan(np.maximum(x, 0.0) / self.scale))

    def quantile(self, part: Array) -> Array:
        return np.asarray(self.scale * np.tan(0.5 * np.pi * part))


@dataclass(frozen=True)
class Exponential:
    """Exponential with `rate`, as in Stan and PyMC: the mean is 1 / rate."""

    rate: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        return Terms(self.rate * x - log(self.rate), np.full(x.shape, self.rate), np.zeros(x.shape))

    def below(self, x: Array) -> Array:
        return np.asarray(-np.expm1(-self.rate * np.maximum(x, 0.0)))

    def quantile(self, part: Array) -> Array:
        return np.asarray(-np.log1p(-part) / self.rate)


@dataclass(frozen=True)
class Gamma:
    """Gamma with `shape` and `rate`, as in Stan and PyMC: the mean is shape / rate."""

    shape: float
    rate: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        from scipy.special import gammaln

        x, power = np.maximum(x, TINY), self.shape - 1
        cost = self.rate * x - power * np.log(x) - self.shape * log(self.rate) + gammaln(self.shape)
        with np.errstate(over="ignore"):
            return Terms(cost, self.rate - power / x, max(power, 0.0) / x**2)

    def below(self, x: Array) -> Array:
        from scipy.special import gammainc

        return np.asarray(gammainc(self.shape, self.rate * np.maximum(x, 0.0)))

    def quantile(self, part: Array) -> Array:
        from scipy.special import gammaincinv

        return np.asarray(gammaincinv(self.shape, part) / self.rate)


@dataclass(frozen=True)
class InverseGamma:
    """The inverse of a gamma number with `shape` and rate `scale`: the mean is scale / (shape - 1) for shape > 1."""

    shape: float
    scale: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        from scipy.special import gammaln

        x, power = np.maximum(x, TINY), self.shape + 1
        with np.errstate(over="ignore", invalid="ignore"):
            cost = self.scale / x + power * np.log(x) - self.shape * log(self.scale) + gammaln(self.shape)
            curvature = np.maximum((2 * self.scale / x - power) / x**2, 0.0)
            return Terms(cost, (power - self.scale / x) / x, curvature)

    def below(self, x: Array) -> Array:
        from scipy.special import gammaincc

        return np.asarray(gammaincc(self.shape, self.scale / np.maximum(x, TINY)))

    def quantile(self, part: Array) -> Array:
        from scipy.special import gammainccinv

        return np.asarray(self.scale / gammainccinv(self.shape, part))


@dataclass(frozen=True)
class Beta:
    """Beta between 0 and 1, with a density proportional to x^(alpha - 1) (1 - x)^(beta - 1)."""

    alpha: float
    beta: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        from scipy.special import betaln

        x, a, b = x, self.alpha - 1, self.beta - 1
        low, high = np.maximum(x, TINY), np.maximum(1 - x, TINY)
        cost = -a * np.log(low) - b * np.log(high) + betaln(self.alpha, self.beta)
        with np.errstate(over="ignore"):
            return Terms(cost, b / high - a / low, max(a, 0.0) / low**2 + max(b, 0.0) / high**2)

    def below(self, x: Array) -> Array:
        from scipy.special import betainc

        return np.asarray(betainc(self.alpha, self.beta, np.clip(x, 0.0, 1.0)))

    def quantile(self, part: Array) -> Array:
        from scipy.special import betaincinv

        return np.asarray(betaincinv(self.alpha, self.beta, part))


@dataclass(frozen=True)
class Rayleigh:
    """The length of a vector of two normal numbers with mean 0 and standard deviation `scale`."""

    scale: float
    base: ClassVar[None] = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (0.0, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        x = np.maximum(x, TINY)
        gap = x / self.scale
        with np.errstate(over="ignore"):
            cost = 0.5 * gap * gap - np.log(x) + 2 * log(self.scale)
            return Terms(cost, gap / self.scale - 1 / x, 1 / self.scale**2 + 1 / x**2)

    def below(self, x: Array) -> Array:
        return np.asarray(-np.expm1(-0.5 * (np.maximum(x, 0.0) / self.scale) ** 2))

    def quantile(self, part: Array) -> Array:
        return np.asarray(self.scale * np.sqrt(-2 * np.log1p(-part)))


def _even_terms(x: Array, width: float) -> Terms:
    flat = np.zeros(np.shape(x))
    return Terms(flat + log(width), flat, flat)


@dataclass(frozen=True)
class Uniform:
    """Equally likely from `lower` to `upper`, impossible outside; with `base` these bound the logarithm."""

    lower: float
    upper: float
    base: float | None = None
    of_value: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)
        if not self.lower < self.upper:
            raise InputError("model.uniform_ends", lower=self.lower, upper=self.upper)

    @property
    def ends(self) -> tuple[float, float]:
        return self.lower, self.upper

    def terms(self, x: Array) -> Terms:
        return _even_terms(x, self.upper - self.lower)

    def below(self, x: Array) -> Array:
        return np.clip((x - self.lower) / (self.upper - self.lower), 0.0, 1.0)

    def quantile(self, part: Array) -> Array:
        return np.asarray(self.lower + (self.upper - self.lower) * part)


@dataclass(frozen=True)
class LogUniform:
    """The logarithm is equally likely between those of `lower` and `upper`; density of the value itself."""

    lower: float
    upper: float
    base: ClassVar[float] = float(np.e)
    of_value: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self)
        if not self.lower > 0:
            raise InputError("model.prior_not_positive", field="lower", value=self.lower)
        if not self.lower < self.upper:
            raise InputError("model.uniform_ends", lower=self.lower, upper=self.upper)

    @property
    def ends(self) -> tuple[float, float]:
        return log(self.lower), log(self.upper)

    def terms(self, x: Array) -> Terms:
        return _even_terms(x, log(self.upper / self.lower))

    def below(self, x: Array) -> Array:
        low, high = self.ends
        return np.clip((x - low) / (high - low), 0.0, 1.0)

    def quantile(self, part: Array) -> Array:
        low, high = self.ends
        return np.asarray(low + (high - low) * part)


@dataclass(frozen=True)
class Laplace:
    """Laplace around `mean` with mean absolute deviation `scale`; with `base`, of the logarithm of the value.

    Its kink is rounded off within a thousandth of the scale. An estimate that ends there is off by about as much, and
    the objective by up to 3e-4; its standard error means nothing there: take a profile.
    """

    mean: float
    scale: float
    base: float | None = None
    of_value: ClassVar[bool] = False
    ends: ClassVar[tuple[float, float]] = (-inf, inf)
    # |gap| becomes sqrt(gap^2 + rounding^2) - rounding, which has a curvature
    rounding: ClassVar[float] = 1e-3

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        return _laplace_terms(x, self.mean, self.scale, self.rounding)

    def below(self, x: Array) -> Array:
        return _laplace_below(x, self.mean, self.scale)

    def quantile(self, part: Array) -> Array:
        return _laplace_quantile(part, self.mean, self.scale)


@dataclass(frozen=True)
class LogLaplace:
    """The natural logarithm of the value is Laplace around `mean`; density of the value itself."""

    mean: float
    scale: float
    base: ClassVar[float] = float(np.e)
    of_value: ClassVar[bool] = True
    ends: ClassVar[tuple[float, float]] = (-inf, inf)

    def __post_init__(self) -> None:
        _check(self)

    def terms(self, x: Array) -> Terms:
        return _laplace_terms(x, self.mean, self.scale, Laplace.rounding)

    def below(self, x: Array) -> Array:
        return _laplace_below(x, self.mean, self.scale)

    def quantile(self, part: Array) -> Array:
        return _laplace_quantile(part, self.mean, self.scale)


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
