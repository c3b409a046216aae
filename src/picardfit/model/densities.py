"""Densities of standardised residuals: -log density, slope, Fisher information, draws."""

from __future__ import annotations

from enum import Enum

import numpy as np

from picardfit.formulas.kernels import Array


class Shape(Enum):
    """Density of a standardised residual, or distribution of a count."""

    NORMAL = "normal"
    LAPLACE = "laplace"
    STUDENT = "student"
    POISSON = "poisson"
    NEGATIVE_BINOMIAL = "negative binomial"
    BINOMIAL = "binomial"


COUNTS = (Shape.POISSON, Shape.NEGATIVE_BINOMIAL, Shape.BINOMIAL)


def rho(shape: Shape, e: Array, degrees: Array, width: float) -> tuple[Array, Array]:
    """-log density at e and its slope; the kink of Laplace is rounded to sqrt(e^2 + width^2)."""
    if shape is Shape.NORMAL:
        return 0.5 * e * e + 0.5 * np.log(2 * np.pi), e
    if shape is Shape.LAPLACE:
        smooth = np.sqrt(e * e + width**2)
        return smooth + np.log(2), e / np.where(smooth > 0, smooth, 1.0)
    from scipy.special import gammaln

    constant = gammaln((degrees + 1) / 2) - gammaln(degrees / 2) - 0.5 * np.log(np.pi * degrees)
    tail = (degrees + 1) / 2
    return tail * np.log1p(e * e / degrees) - constant, 2 * tail * e / (degrees + e * e)


def information(shape: Shape, degrees: Array) -> tuple[Array | float, Array | float]:
    """Fisher information of location and of scale at scale 1."""
    if shape is Shape.STUDENT:
        return (degrees + 1) / (degrees + 3), 2 * degrees / (degrees + 3)
    return 1.0, 2.0 if shape is Shape.NORMAL else 1.0


def degrees_terms(e: Array, s: Array, degrees: Array) -> tuple[Array, Array, Array]:
    """Student's t at residuals e and scales s: slope by the degrees, their Fisher information, that with the scale."""
    from scipy.special import digamma, polygamma

    d, square = degrees, e * e
    by_degrees = 0.5 * (digamma(d / 2) - digamma((d + 1) / 2) + 1 / d + np.log1p(square / d))
    by_degrees = by_degrees - 0.5 * (d + 1) * square / (d * (d + square))
    own = 0.25 * (polygamma(1, d / 2) - polygamma(1, (d + 1) / 2)) - 0.5 * (d + 5) / (d * (d + 1) * (d + 3))
    return by_degrees, own, -2 / (s * (d + 1) * (d + 3))


def as_normal(shape: Shape, e: Array, degrees: Array) -> Array:
    """The standard normal number with the same probability below it."""
    if shape is Shape.NORMAL:
        return e
    from scipy.special import ndtri, stdtr

    # from the lower tail, where probabilities keep their digits
    low = 0.5 * np.exp(-np.abs(e)) if shape is Shape.LAPLACE else stdtr(degrees, -np.abs(e))
    normal: Array = ndtri(low)
    return -np.sign(e) * normal


def draw(shape: Shape, size: tuple[int, int], degrees: Array, rng: np.random.Generator) -> Array:
    """Random standardised residuals."""
    if shape is Shape.NORMAL:
        return rng.standard_normal(size)
    if shape is Shape.LAPLACE:
        return rng.laplace(size=size)
    return rng.standard_t(degrees, size)
