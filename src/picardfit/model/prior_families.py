"""Families of densities: -log density with slope and curvature, probabilities below and above, and quantiles.

All are functions of arrays x and of the arguments of the family. Probabilities above are functions of their own: the
difference 1 - below loses all digits in the upper tail, where bounds may cut a prior off.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from picardfit.formulas.kernels import Array

TINY = float(np.finfo(float).tiny)
ROUNDING = (
    1e-3  # |gap| of a Laplace density becomes sqrt(gap^2 + ROUNDING^2) - ROUNDING, which has a curvature
)


class Terms(NamedTuple):
    """-log density, its slope, and a curvature of at least 0: the second derivative where that is positive."""

    cost: Array
    slope: Array
    curvature: Array


class Family(NamedTuple):
    """Functions of (x, *arguments); quantiles of (probability, *arguments)."""

    terms: Callable[..., Terms]
    below: Callable[..., Array]
    above: Callable[..., Array]
    quantile: Callable[..., Array]
    upper_quantile: Callable[..., Array]


def _symmetric(
    cost: Callable[..., Terms], below: Callable[..., Array], quantile: Callable[..., Array]
) -> tuple[Family, Family]:
    """A family with a location and a scale as its last arguments, and that of |x|, which has no location.

    `cost` is that of x, location and scale; `below` and `quantile` are those of (x - location) / scale.
    """

    def parts(arguments: tuple[float, ...]) -> tuple[tuple[float, ...], float, float]:
        *shape, location, scale = arguments
        return tuple(shape), location, scale

    def lower(x: Array, *arguments: float) -> Array:
        shape, location, scale = parts(arguments)
        return np.asarray(below((x - location) / scale, *shape))

    def upper(x: Array, *arguments: float) -> Array:
        shape, location, scale = parts(arguments)
        return np.asarray(below((location - x) / scale, *shape))

    def point(part: Array, *arguments: float) -> Array:
        shape, location, scale = parts(arguments)
        return np.asarray(location + scale * quantile(np.asarray(part), *shape))

    def upper_point(part: Array, *arguments: float) -> Array:
        shape, location, scale = parts(arguments)
        return np.asarray(location - scale * quantile(np.asarray(part), *shape))

    def half_terms(x: Array, scale: float) -> Terms:
        whole = cost(x, 0.0, scale)
        return whole._replace(cost=whole.cost - log(2))

    half = Family(
        half_terms,
        lambda x, scale: np.maximum(lower(x, 0.0, scale) - upper(x, 0.0, scale), 0.0),
        lambda x, scale: np.minimum(2 * upper(x, 0.0, scale), 1.0),
        lambda part, scale: point(0.5 + 0.5 * np.asarray(part), 0.0, scale),
        lambda part, scale: upper_point(0.5 * np.asarray(part), 0.0, scale),
    )
    return Family(cost, lower, upper, point, upper_point), half


# ---- normal, Laplace, Student --------------------------------------------------------------------------------------


def _normal_terms(x: Array, mean: float, sd: float) -> Terms:
    gap = (x - mean) / sd
    return Terms(
        0.5 * gap * gap + log(sd) + 0.5 * log(2 * np.pi), gap / sd, np.full(np.shape(gap), 1 / sd**2)
    )


def _normal_below(gap: Array) -> Array:
    from scipy.special import ndtr

    return np.asarray(ndtr(gap))


def _normal_quantile(part: Array) -> Array:
    from scipy.special import ndtri

    return np.asarray(ndtri(part))


def _laplace_terms(x: Array, mean: float, scale: float) -> Terms:
    gap = (x - mean) / scale
    smooth = np.sqrt(gap * gap + ROUNDING**2)
    return Terms(smooth - ROUNDING + log(2 * scale), gap / smooth / scale, 1 / smooth / scale**2)


def _laplace_below(gap: Array) -> Array:
    return np.where(gap > 0, 1 - 0.5 * np.exp(-np.abs(gap)), 0.5 * np.exp(-np.abs(gap)))


def _laplace_quantile(part: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(part > 0.5, -1.0, 1.0) * np.log(2 * np.where(part > 0.5, 1 - part, part)))


def _student_terms(x: Array, degrees: float, location: float, scale: float) -> Terms:
    """The curvature is the weight of iterated least squares, slope over gap, which is positive in the tails too."""
    from scipy.special import gammaln

    gap = (x - location) / scale
    constant = gammaln(degrees / 2) - gammaln((degrees + 1) / 2) + 0.5 * log(degrees * np.pi) + log(scale)
    with np.errstate(over="ignore"):
        weight = (degrees + 1) / (degrees + gap * gap)
        cost = 0.5 * (degrees + 1) * np.log1p(gap * gap / degrees) + constant
    return Terms(cost, weight * gap / scale, weight / scale**2)


def _student_below(gap: Array, degrees: float) -> Array:
    from scipy.special import stdtr

    return np.asarray(stdtr(degrees, gap))


def _student_quantile(part: Array, degrees: float) -> Array:
    from scipy.special import stdtrit

    return np.asarray(stdtrit(degrees, part))


def _cauchy_terms(x: Array, location: float, scale: float) -> Terms:
    return _student_terms(x, 1.0, location, scale)


def _cauchy_below(gap: Array) -> Array:
    return np.asarray(
        np.arctan2(1.0, -np.asarray(gap)) / np.pi
    )  # 1/2 + arctan(gap)/pi, exact in the lower tail


def _cauchy_quantile(part: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(-1 / np.tan(np.pi * part))


NORMAL, HALF_NORMAL = _symmetric(_normal_terms, _normal_below, _normal_quantile)
LAPLACE, _ = _symmetric(_laplace_terms, _laplace_below, _laplace_quantile)
STUDENT, _ = _symmetric(_student_terms, _student_below, _student_quantile)
CAUCHY, HALF_CAUCHY = _symmetric(_cauchy_terms, _cauchy_below, _cauchy_quantile)


# ---- gamma, inverse gamma, beta, uniform ---------------------------------------------------------------------------


def _gamma_terms(x: Array, shape: float, rate: float) -> Terms:
    from scipy.special import gammaln

    x, power = np.maximum(x, TINY), shape - 1
    cost = rate * x - power * np.log(x) - shape * log(rate) + gammaln(shape)
    with np.errstate(over="ignore"):
        return Terms(cost, rate - power / x, max(power, 0.0) / x**2)


def _gamma(name: str) -> Callable[[float, ArrayLike], Array]:
    """One of SciPy's incomplete gamma functions, loaded when it is needed."""

    def function(shape: float, x: ArrayLike) -> Array:
        import scipy.special

        return np.asarray(getattr(scipy.special, name)(shape, x))

    return function


_lower, _upper = _gamma("gammainc"), _gamma("gammaincc")
_lower_inverse, _upper_inverse = _gamma("gammaincinv"), _gamma("gammainccinv")


def _inverse_gamma_terms(x: Array, shape: float, scale: float) -> Terms:
    from scipy.special import gammaln

    x, power = np.maximum(x, TINY), shape + 1
    with np.errstate(over="ignore", invalid="ignore"):
        cost = scale / x + power * np.log(x) - shape * log(scale) + gammaln(shape)
        curvature = np.maximum((2 * scale / x - power) / x**2, 0.0)
        return Terms(cost, (power - scale / x) / x, curvature)


def _over(scale: float, x: ArrayLike) -> Array:
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(scale / np.maximum(x, TINY))


def _beta_terms(x: Array, alpha: float, beta: float) -> Terms:
    from scipy.special import betaln

    a, b = alpha - 1, beta - 1
    low, high = np.maximum(x, TINY), np.maximum(1 - x, TINY)
    cost = -a * np.log(low) - b * np.log(high) + betaln(alpha, beta)
    with np.errstate(over="ignore"):
        return Terms(cost, b / high - a / low, max(a, 0.0) / low**2 + max(b, 0.0) / high**2)


def _beta_below(x: Array, alpha: float, beta: float) -> Array:
    from scipy.special import betainc

    return np.asarray(betainc(alpha, beta, np.clip(x, 0.0, 1.0)))


def _beta_quantile(part: Array, alpha: float, beta: float) -> Array:
    from scipy.special import betaincinv

    return np.asarray(betaincinv(alpha, beta, part))


def _rayleigh_terms(x: Array, scale: float) -> Terms:
    x = np.maximum(x, TINY)
    gap = x / scale
    with np.errstate(over="ignore"):
        cost = 0.5 * gap * gap - np.log(x) + 2 * log(scale)
        return Terms(cost, gap / scale - 1 / x, 1 / scale**2 + 1 / x**2)


def _uniform_terms(x: Array, lower: float, upper: float) -> Terms:
    flat = np.zeros(np.shape(x))
    return Terms(flat + log(upper - lower), flat, flat)


GAMMA = Family(
    _gamma_terms,
    lambda x, shape, rate: _lower(shape, rate * np.maximum(x, 0.0)),
    lambda x, shape, rate: _upper(shape, rate * np.maximum(x, 0.0)),
    lambda part, shape, rate: _lower_inverse(shape, part) / rate,
    lambda part, shape, rate: _upper_inverse(shape, part) / rate,
)
EXPONENTIAL = Family(
    lambda x, rate: _gamma_terms(x, 1.0, rate),
    lambda x, rate: -np.expm1(-rate * np.maximum(x, 0.0)),
    lambda x, rate: np.exp(-rate * np.maximum(x, 0.0)),
    lambda part, rate: -np.log1p(-np.asarray(part)) / rate,
    lambda part, rate: -np.log(part) / rate,
)
INVERSE_GAMMA = Family(
    _inverse_gamma_terms,
    lambda x, shape, scale: _upper(shape, _over(scale, x)),
    lambda x, shape, scale: _lower(shape, _over(scale, x)),
    lambda part, shape, scale: _over(scale, _upper_inverse(shape, part)),
    lambda part, shape, scale: _over(scale, _lower_inverse(shape, part)),
)
BETA = Family(
    _beta_terms,
    _beta_below,
    lambda x, alpha, beta: _beta_below(1 - np.asarray(x), beta, alpha),
    _beta_quantile,
    lambda part, alpha, beta: 1 - _beta_quantile(part, beta, alpha),
)
RAYLEIGH = Family(
    _rayleigh_terms,
    lambda x, scale: -np.expm1(-0.5 * (np.maximum(x, 0.0) / scale) ** 2),
    lambda x, scale: np.exp(-0.5 * (np.maximum(x, 0.0) / scale) ** 2),
    lambda part, scale: scale * np.sqrt(-2 * np.log1p(-np.asarray(part))),
    lambda part, scale: scale * np.sqrt(-2 * np.log(part)),
)
UNIFORM = Family(
    _uniform_terms,
    lambda x, lower, upper: np.clip((x - lower) / (upper - lower), 0.0, 1.0),
    lambda x, lower, upper: np.clip((upper - x) / (upper - lower), 0.0, 1.0),
    lambda part, lower, upper: np.asarray(lower + (upper - lower) * part),
    lambda part, lower, upper: np.asarray(upper - (upper - lower) * part),
)
