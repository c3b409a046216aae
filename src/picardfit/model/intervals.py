"""Probabilities of intervals of standardised residuals: what a censored measurement contributes to a likelihood.

A censored measurement is known to lie in [low, high]. With a, b = (h(low) - h(g)) / s, (h(high) - h(g)) / s, the
density f = exp(-rho) of a residual e and its distribution function F, it costs -log P with P = F(b) - F(a). The scores
of an exact residual are psi = (rho', e rho' - 1), by location and by scale (and by degrees of freedom for Student's t);
those of an interval are the means of psi over it, and by partial integration

    E[psi | a < e < b] = -(f(b) - f(a), b f(b) - a f(a)) / P.

All is computed from logarithms in the tail where the numbers are small, so that it keeps its digits far out.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.model.densities import Shape, degrees_terms, rho

TINY = float(np.finfo(float).tiny)


def log_below(shape: Shape, e: Array, degrees: Array) -> Array:
    """log F(e)."""
    from scipy.special import log_ndtr, stdtr

    if shape is Shape.NORMAL:
        return np.asarray(log_ndtr(e))
    if shape is Shape.LAPLACE:
        return np.where(e < 0, e - np.log(2), np.log1p(-0.5 * np.exp(-np.maximum(e, 0.0))))
    return np.asarray(np.log(stdtr(degrees, e)))


def log_between(shape: Shape, a: Array, b: Array, degrees: Array) -> Array:
    """log(F(b) - F(a)) for a < b, either of which may be infinite; from the nearer tail."""
    upper = a + b > 0
    low, high = np.where(upper, -b, a), np.where(upper, -a, b)
    with np.errstate(all="ignore"):
        most, least = log_below(shape, high, degrees), log_below(shape, low, degrees)
        return most + np.log(-np.expm1(np.minimum(least - most, 0.0)))


def interval_scores(shape: Shape, a: Array, b: Array, degrees: Array) -> tuple[Array, Array, Array, Array]:
    """log P, the mean scores by location and scale over [a, b], and the curvature of -log P by location."""
    log_p = log_between(shape, a, b, degrees)
    (at_a, slope_a), (at_b, slope_b) = (_weighed(shape, end, degrees, log_p) for end in (a, b))
    with np.errstate(all="ignore"):
        by_location = at_a - at_b
        by_scale = np.where(at_a > 0, a * at_a, 0.0) - np.where(at_b > 0, b * at_b, 0.0)
        curvature = by_location**2 + slope_b * at_b - slope_a * at_a
    return log_p, by_location, by_scale, curvature


def _weighed(shape: Shape, end: Array, degrees: Array, log_p: Array) -> tuple[Array, Array]:
    """f(end) / P and rho'(end); zero at infinity."""
    finite = np.isfinite(end)
    cost, slope = rho(shape, np.where(finite, end, 0.0), degrees, 0.0)
    with np.errstate(all="ignore"):
        return np.where(finite, np.exp(-cost - log_p), 0.0), np.where(finite, slope, 0.0)


def interval_loss(shape: Shape, a: Array, b: Array, degrees: Array, free: bool = False) -> Array:
    """(..., 2, 2), or (..., 3, 3) with `free` degrees: information that is lost where residuals in [a, b] are censored.

    An exact residual there has the information E[psi psi'; a < e < b], the interval m m' / P, m = E[psi; a < e < b].
    """
    log_p, by_location, by_scale, _ = interval_scores(shape, a, b, degrees)
    second = _second_moments(shape, a, b, degrees, free)
    mean = [by_location, by_scale]
    if free:
        mean.append(mean_degrees_score(a, b, degrees, log_p))
    scores = np.stack(mean, axis=-1)
    with np.errstate(all="ignore"):
        known = np.exp(log_p)[..., None, None] * scores[..., :, None] * scores[..., None, :]
    return np.where(np.exp(log_p)[..., None, None] > TINY, second - known, 0.0)


def mean_degrees_score(a: Array, b: Array, degrees: Array, log_p: Array) -> Array:
    """The mean over [a, b] of the score of Student's t by its degrees of freedom."""
    e, weight = _student_points(a, b, degrees)
    score = -degrees_terms(e, np.ones_like(e), degrees[..., None])[0]
    with np.errstate(all="ignore"):
        return np.asarray(np.sum(weight * score, axis=-1) / np.exp(log_p))


def _second_moments(shape: Shape, a: Array, b: Array, degrees: Array, free: bool) -> Array:
    """E[psi psi'; a < e < b]."""
    if shape is Shape.STUDENT:
        e, weight = _student_points(a, b, degrees)
        every = degrees[..., None]
        slope = rho(shape, e, every, 0.0)[1]
        scores = [slope, e * slope - 1]
        if free:
            scores.append(-degrees_terms(e, np.ones_like(e), every)[0])
        psi = np.stack(scores, axis=-2)
        return np.asarray((psi * weight[..., None, :]) @ np.swapaxes(psi, -1, -2))
    primitive = _normal_primitives if shape is Shape.NORMAL else _laplace_primitives
    squares, cross, scales = (there - here for there, here in zip(primitive(b), primitive(a), strict=True))
    return np.stack([np.stack([squares, cross], -1), np.stack([cross, scales], -1)], -2)


def _normal_primitives(e: Array) -> tuple[Array, Array, Array]:
    """Integrals up to e of f times e^2, e (e^2 - 1) and (e^2 - 1)^2."""
    from scipy.special import ndtr

    below, finite = ndtr(e), np.where(np.isfinite(e), e, 0.0)
    f = np.where(np.isfinite(e), np.exp(-0.5 * finite**2) / np.sqrt(2 * np.pi), 0.0)
    return below - finite * f, -(finite**2 + 1) * f, 2 * below - (finite**3 + finite) * f


def _laplace_primitives(e: Array) -> tuple[Array, Array, Array]:
    """Integrals of f times 1, sign(e) (|e| - 1) and (|e| - 1)^2, up to constants."""
    size = np.minimum(np.abs(e), 700.0)  # exp(-700) is next to nothing
    left, sign = np.exp(-size), np.sign(e)
    return 0.5 * sign * (1 - left), -0.5 * size * left, 0.5 * sign * (1 - (size**2 + 1) * left)


@lru_cache
def _gauss_legendre(count: int = 64) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


def _student_points(a: Array, b: Array, degrees: Array) -> tuple[Array, Array]:
    """(..., nodes): residuals in [a, b] and weights whose sum of products is an integral with Student's density.

    With e = sqrt(degrees) tan(angle) the density is proportional to cos(angle)^(degrees - 1), smooth on a finite range.
    """
    from scipy.special import gammaln

    nodes, weights = _gauss_legendre()
    root = np.sqrt(degrees)
    first, last = np.arctan(a / root), np.arctan(b / root)
    angle = first[..., None] + (last - first)[..., None] * nodes
    constant = np.exp(gammaln((degrees + 1) / 2) - gammaln(degrees / 2)) / np.sqrt(np.pi)
    density = constant[..., None] * np.maximum(np.cos(angle), 0.0) ** (degrees[..., None] - 1)
    return root[..., None] * np.tan(angle), density * weights * (last - first)[..., None]
