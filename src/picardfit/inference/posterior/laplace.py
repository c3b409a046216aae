"""Draws around the mode, weighted by Pareto-smoothed importance sampling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.chart import chart_of
from picardfit.inference.posterior.density import Position, Target
from picardfit.inference.posterior.methods import Drawn, LaplaceDraws, Show
from picardfit.inference.posterior.mixing import smoothed
from picardfit.inference.posterior.nuts import root_of
from picardfit.inference.posterior.setup import Mode, inverse_of


def run_laplace(method: LaplaceDraws, target: Target, mode: Mode, seed: int, show: Show) -> Drawn:
    """Equally weighted draws: points of the Gaussian, resampled by their smoothed weights."""
    rng = np.random.default_rng([seed, 2])
    top, covariance = maximum(method, replace(target, lanes=target.lanes.exact), mode)
    chart = chart_of(target, top, covariance, seed, method.bending)
    degrees, size = method.tails, len(top.z)
    scattered = rng.standard_normal((method.draws, size))
    scattered /= np.sqrt(rng.chisquare(degrees, method.draws) / degrees)[:, None]
    z = chart.points(scattered)
    log_density, done = _densities(method, target, z, scattered, top, show)
    exploded = int(np.sum(~np.isfinite(log_density)))
    if exploded == done:
        raise InputError("inference.posterior_no_start")
    log_weights, khat = _weights(method, log_density, scattered)
    weights = np.exp(log_weights)
    chosen = rng.permutation(_resampled(weights, done, rng))
    return Drawn(
        z[chosen][None],
        log_density[chosen][None],
        exploded=exploded,
        weighted=(z[:done], weights),
        khat=khat,
        missing=method.draws - done if khat < method.hopeless else 0,
    )


def _weights(method: LaplaceDraws, log_density: Array, v: Array) -> tuple[Array, float]:
    """Smoothed log weights (done,) of the first points against the density they were drawn from, and k-hat."""
    degrees, count = method.tails, len(log_density)
    drawn_from = -0.5 * (degrees + v.shape[1]) * np.log1p(np.sum(v[:count] ** 2, axis=1) / degrees)
    return smoothed(log_density - drawn_from)


def _densities(
    method: LaplaceDraws, target: Target, z: Array, v: Array, top: Position, show: Show
) -> tuple[Array, int]:
    """Log-densities of the first points z, and how many there are.

    These are all, unless Ctrl-C ends a later group or the weights of the groups so far are beyond hope, which more
    points do not mend.

    Points of a group are solved by their radius in the chart, v, because a batch needs as many steps as its farthest
    point. Each starts from the nearest of the points that were solved last, or from the mode.
    """
    log_density, done, radius = np.empty(len(z)), 0, np.sum(v**2, axis=1)
    width = method.lanes * method.group
    known = [(np.zeros(v.shape[1]), top.track)]
    try:
        for first in range(0, len(z), width):
            group = first + np.argsort(radius[first : first + width], kind="stable")
            for begin in range(0, len(group), method.lanes):
                some = group[begin : begin + method.lanes]
                gaps = np.sum((v[some][:, None] - np.array([one for one, _ in known])) ** 2, axis=2)
                nearest = [known[k][1] for k in gaps.argmin(axis=1)]
                found = target.positions(list(zip(z[some], nearest, strict=True)), gradient=False)
                log_density[some] = [one.log_density for one in found]
                solved = [
                    (v[k], one.track) for k, one in zip(some, found, strict=True) if one.track is not None
                ]
                known = known[:1] + [*known[1:], *solved][-method.near :]
                show(first + begin + len(some), len(z), 0)
            done = first + len(group)
            if done < len(z) and not _weights(method, log_density[:done], v)[1] < method.hopeless:
                break
    except KeyboardInterrupt:
        if not done:
            raise
    return log_density[:done], done


def _resampled(weights: Array, count: int, rng: np.random.Generator) -> Array:
    """(count,): indices by systematic resampling: each as often as its weight says, up to one."""
    places = (np.arange(count) + rng.uniform()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)


def maximum(method: LaplaceDraws, target: Target, mode: Mode) -> tuple[Position, Array]:
    """The largest log-density in z near a mode, and minus the inverse of its second derivative there."""
    (here,) = target.positions([(mode.z, None)])
    if not here.possible:
        raise InputError("inference.posterior_no_start")
    covariance = mode.covariance
    for _ in range(method.steps):
        covariance = curvature(method, target, here, covariance)
        step = covariance @ here.slope
        gain = 0.5 * float(here.slope @ step)
        if not gain > method.enough:
            break
        lengths = 0.5 ** np.arange(8)
        trials = target.positions([(here.z + length * step, here.track) for length in lengths])
        best = max(trials, key=lambda one: one.log_density)
        if not best.log_density > here.log_density:
            break
        here = best
    return here, covariance


def curvature(method: LaplaceDraws, target: Target, here: Position, covariance: Array) -> Array:
    """The covariance of the Gaussian at a position: from differences of the gradient along whitened directions."""
    root = root_of(covariance)
    if len(root) > method.exact:
        return covariance
    moves = [sign * method.width * root[:, k] for k in range(len(root)) for sign in (1, -1)]
    found = target.positions([(here.z + move, here.track) for move in moves])
    if not all(one.possible for one in found):
        return covariance
    slopes = np.array([one.slope for one in found]) @ root
    hessian = -(slopes[0::2] - slopes[1::2]) / (2 * method.width)
    return np.asarray(root @ inverse_of(0.5 * (hessian + hessian.T)) @ root.T)
