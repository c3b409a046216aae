"""From a fit to what samplers need: a mesh that is fine enough, a starting point and a metric for each mode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from picardfit.collocation.adaptation import merge_breaks, split, state_scale
from picardfit.collocation.mesh import Mesh, rule
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.attempt import LaneSettings, Track
from picardfit.inference.posterior.coordinates import LARGEST, Coordinates, coordinates_of
from picardfit.inference.posterior.density import Lanes, Target
from picardfit.inference.posterior.nuts import root_of
from picardfit.problem.problem import Problem

if TYPE_CHECKING:
    from picardfit.fit import Fit


@dataclass(frozen=True)
class MeshSettings:
    """The mesh of the draws: coarse, as long as the log-likelihood is exact enough. The values are chosen."""

    nodes: int = 6
    fewest: int = 4  # segments of an experiment
    aligned: int = 40  # sampling times up to which they are all knots, where collocation is most accurate
    resolutions: tuple[float, ...] = (0.1, 0.02, 4e-3, 8e-4, 1e-4, 1e-5)  # last Legendre modes, tried in turn
    rounds: int = 12  # halvings of a segment
    segments: int = 100_000  # of all experiments, at most
    error: float = (
        2e-3  # of the log-likelihood at a few points: a density that is wrong by 0.2 % shows in no draw
    )
    points: int = 4  # at which it is compared with an independent integration: the mode, and others around it
    spread: float = 1.5  # standard deviations of these others
    verified: int = 12  # draws that are compared in the end
    biased: float = (
        0.05  # standard deviation of the log-likelihood's error over draws that is worth a warning
    )
    least_state: float = 1e-6  # scale of a state that is zero throughout, relative to the largest


@dataclass(frozen=True)
class Mode:
    """An optimum in unconstrained coordinates, with the covariance that the Fisher information promises there."""

    z: Array  # (d,)
    covariance: Array  # (d, d)
    at_bound: tuple[str, ...]  # unknowns whose optimum is at a bound


def check_fit(fit: Fit) -> None:
    """InputError unless a fit has a posterior: a noise model, an optimum, and nothing that is left entirely open.

    Events move the knots of a mesh, which draws keep.
    """
    problem = fit.problem
    if problem.scatter is None:
        raise InputError("inference.posterior_without_noise")
    if problem.timed is not None:
        raise InputError("inference.posterior_events")
    if fit.solution is None or not fit.status.converged:
        raise InputError("inference.posterior_of_failed_fit", ended=fit.conclusion)
    coordinates = coordinates_of(problem)
    unclosed = {
        label for label, closed in zip(coordinates.labels, coordinates.closed, strict=True) if not closed
    }
    lost = [label for label in fit.information.undetermined if label in unclosed]
    if lost:
        raise InputError("inference.posterior_improper", lost[0], names=lost)


@dataclass(frozen=True)
class FarAway:
    """Where it is asked whether the data close an unknown that neither a bound nor a prior closes; chosen."""

    distances: tuple[float, ...] = (1e2, 1e4)  # in units of the optimum, or of one where that is smaller
    closed: float = 12.0  # loss of log-likelihood there that is enough: e^-12 is six in a million


def left_open(problem: Problem, mode: Mode, settings: FarAway = FarAway()) -> tuple[str, ...]:
    """Unknowns whose likelihood hardly falls towards infinity, where their density is flat: no posterior exists then.

    The others keep their values at the mode: they could only make up for what is lost.
    """
    coordinates, found = coordinates_of(problem), []
    best = log_likelihood(problem, coordinates, mode.z)
    y = coordinates.internal(mode.z[None])[0][0]
    for k in np.flatnonzero(~coordinates.closed):
        steps = (sign * one for one in settings.distances for sign in (1.0, -1.0))
        for step in steps:
            far = y.copy()
            far[k] += (
                np.sign(step) * np.log(abs(step)) if coordinates.scales[k].log else step * max(abs(y[k]), 1.0)
            )
            if not coordinates.lower[k] < far[k] < coordinates.upper[k]:
                continue
            if log_likelihood(problem, coordinates, coordinates.external(far)) > best - settings.closed:
                found.append(coordinates.labels[k])
                break
    return tuple(found)


def mode_of(fit: Fit) -> Mode:
    """The optimum of a fit; unknowns at a bound move to where the density of z is largest.

    At a distance d from its bound the cost of such an unknown is about g d + h d^2 / 2, and z = log d is most probable
    where g d + h d^2 = 1.
    """
    assert fit.solution is not None
    coordinates, found = coordinates_of(fit.problem), fit.whole_information
    y = fit.solution.unknowns[tuple(coordinates.index.T)].copy()
    hessian = np.where(np.isfinite(found.matrix), found.matrix, 0.0)
    slope, curvature = np.where(np.isfinite(found.slope), found.slope, 0.0), np.diag(hessian)
    named = set(fit.information.at_bound)
    at_bound = np.array([label in named for label in coordinates.labels], bool)
    for k in np.flatnonzero(at_bound):
        low, high = coordinates.lower[k], coordinates.upper[k]
        side = 1.0 if y[k] - low <= high - y[k] else -1.0
        g, h = max(side * float(slope[k]), 0.0), max(float(curvature[k]), 0.0)
        room = 0.5 * (high - low) if np.isfinite(high - low) else 1.0
        distance = 2 / (g + np.sqrt(g * g + 4 * h)) if g + h > 0 else room
        y[k] = (low if side > 0 else high) + side * min(distance, room)
    z = coordinates.external(y, room=1e-6)
    _, by_z, _, by_volume = coordinates.internal(z)
    bent = np.where(at_bound, np.maximum(slope * by_z * by_volume, 0.0), 0.0)
    both = np.isfinite(coordinates.lower) & np.isfinite(coordinates.upper)
    matrix = by_z[:, None] * hessian * by_z + np.diag(bent + np.where(both, 0.5 * (1 - by_volume**2), 0.0))
    labels = tuple(np.array(coordinates.labels, object)[at_bound])
    return Mode(z, inverse_of(matrix), labels)


def inverse_of(matrix: Array, widest: float = 1e4) -> Array:
    """The inverse of a curvature; directions that have next to none get the variance `widest`."""
    size = np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1 / widest))
    values, vectors = np.linalg.eigh(matrix / size[:, None] / size)
    values = np.maximum(values, 1e-8)
    covariance = (vectors / values) @ vectors.T / size[:, None] / size
    shrink = np.sqrt(np.minimum(1.0, widest / np.maximum(np.diag(covariance), 1e-300)))
    return np.asarray(shrink[:, None] * covariance * shrink)


def target_of(
    fit: Fit, mode: Mode, lanes: int, rng: np.random.Generator, settings: MeshSettings = MeshSettings()
) -> Target:
    """The log-density on the coarsest mesh whose error does not matter, checked by independent integrations."""
    assert fit.solution is not None
    problem, coordinates = fit.problem, coordinates_of(fit.problem)
    scale = state_scale(problem, [fit.solution.path.copy()], least=settings.least_state)
    root = root_of(mode.covariance)
    points = [mode.z]
    points += [
        mode.z + settings.spread * root @ rng.standard_normal(len(root)) for _ in range(settings.points - 1)
    ]
    exact = [log_likelihood(problem, coordinates, z) for z in points]
    chosen = [k for k, one in enumerate(exact) if np.isfinite(one)] or [0]
    mesh = first_mesh(problem, settings)
    target = Target(coordinates, Lanes(problem, mesh, scale, lanes, LaneSettings()))
    for resolution in settings.resolutions:
        target, costs = _resolved(target, [points[k] for k in chosen], resolution, settings)
        gaps = [abs(cost + exact[k]) for cost, k in zip(costs, chosen, strict=True)]
        if max(gaps) <= settings.error or not np.isfinite(exact[chosen[0]]):
            break
    return replace(target, lanes=target.lanes.apart)


def first_mesh(problem: Problem, settings: MeshSettings) -> Mesh:
    """Few segments; sampling times are knots where there are not many of them."""
    knots = []
    for e, one in enumerate(problem.experiments):
        start, stop = problem.span(e)
        if stop <= start:
            knots.append(np.array([start, start + 64 * np.spacing(max(abs(start), 1e-30))]))
            continue
        times = np.unique(one.times[(one.times > start) & (one.times < stop)])
        even = np.linspace(start, stop, settings.fewest + 1)
        inside = times if settings.fewest <= len(times) + 1 <= settings.aligned else even[1:-1]
        knots.append(merge_breaks(np.concatenate([[start], inside, [stop]]), problem.knots(e)))
    return Mesh(rule(settings.nodes), tuple(knots))


def _resolved(
    target: Target, points: list[Array], resolution: float, settings: MeshSettings
) -> tuple[Target, list[float]]:
    """A target whose mesh resolves the paths of these points, and the cost of the data at each."""
    costs: list[float] = []
    for _ in range(settings.rounds):
        found = _solved(target, points)
        costs = [cost for cost, _ in found]
        tails = [target.lanes.tails(track) for _, track in found if track is not None]
        if not tails:
            return target, costs
        coarse = np.max(tails, axis=0) > resolution
        if not coarse.any() or len(coarse) + coarse.sum() > settings.segments:
            break
        finer, _, _ = split(target.lanes.mesh, coarse)
        target = replace(target, lanes=replace(target.lanes, mesh=finer))
    return target, costs


def _solved(target: Target, points: list[Array], gradient: bool = False) -> list[tuple[float, Track | None]]:
    """Cost of the data and solution at each point; with `gradient` as a Hamiltonian path finds them."""
    lanes, found = target.lanes, []
    for first in range(0, len(points), lanes.count):
        some = points[first : first + lanes.count]
        z = np.array([*some, *[some[0]] * (lanes.count - len(some))])
        solved = lanes.solve(
            target.coordinates.unknowns(target.coordinates.internal(z)[0]), [None] * len(z), gradient
        )
        found += list(zip(solved.cost.tolist(), solved.tracks, strict=True))[: len(some)]
    return found


def log_likelihood(problem: Problem, coordinates: Coordinates, z: Array) -> float:
    """By an integration that is independent of the mesh; -inf without a solution."""
    unknowns = coordinates.unknowns(coordinates.internal(z[None])[0])[0]
    rows = problem.predicted_rows(
        problem.layout.measured_values(unknowns), problem.layout.initial(unknowns)[0]
    )
    if rows is None:
        return -np.inf
    value = problem.objective.value(rows)
    return -float(value) if np.isfinite(value) else -np.inf


def verified(target: Target, draws: Array, settings: MeshSettings = MeshSettings()) -> float:
    """Standard deviation of the error of the log-likelihood over some of the draws (k, d); NaN if there is none."""
    chosen = draws[np.linspace(0, len(draws) - 1, min(settings.verified, len(draws))).astype(int)]
    problem, gaps = target.lanes.problem, []
    for (cost, _), z in zip(_solved(target, list(chosen), gradient=True), chosen, strict=True):
        exact = log_likelihood(problem, target.coordinates, z)
        if np.isfinite(exact) and np.isfinite(cost):
            gaps.append(cost + exact)
    return float(np.std(gaps)) if len(gaps) > 1 else np.nan


def far_away(
    coordinates: Coordinates, mode: Mode, z: Array, settings: Flight | None = None
) -> tuple[str, ...]:
    """Unknowns whose draws z (k, d) run off to numbers without meaning: those that nothing but the data closes."""
    settings = Flight() if settings is None else settings
    least = np.maximum(np.abs(coordinates.natural(coordinates.internal(mode.z)[0])), 1.0)
    with np.errstate(over="ignore"):
        size = np.abs(coordinates.natural(coordinates.internal(z)[0])) / least
        ratio = np.where(coordinates.relative, np.exp(np.minimum(np.abs(z - mode.z), LARGEST)), size)
    found = ~coordinates.closed & (ratio.max(axis=0) > settings.far)
    return tuple(np.array(coordinates.labels, object)[found])


@dataclass(frozen=True)
class Flight:
    """Where it is asked whether the density of z falls along the axes that the data hardly determine; chosen."""

    loose: float = 3.0  # standard deviation of a logarithm from which an axis is followed: a factor of 20
    distance: float = 500.0  # change of a logarithm along it: even x^-0.03 falls by that much over 1e217
    fallen: float = 12.0  # loss of log-density there that is enough: e^-12 is six in a million
    share: float = 0.1  # of the largest part of an axis that makes an unknown a part of it
    far: float = 1e30  # times the optimum, or one: draws there are explained by no scale of data


def running_off(target: Target, mode: Mode, settings: Flight = Flight()) -> tuple[str, ...]:
    """Unknowns that can run off together: along an axis of the mode the density of z does not fall.

    Where a product of two is all that data see, their logarithms run in opposite directions. A prior that does not
    vanish at zero then leaves log p(z) level on that side, and its integral diverges. An axis matters only where some
    unknown on it is closed neither by bounds nor by a prior: else the integral of the priors is finite.
    """
    coordinates = target.coordinates
    if coordinates.closed.all():
        return ()
    size = np.where(coordinates.relative, 1.0, np.maximum(np.abs(mode.z), 1.0))
    values, axes = np.linalg.eigh(mode.covariance / size[:, None] / size)
    (best,) = target.positions([(mode.z, None)], gradient=False)
    for axis in axes.T[values > settings.loose**2]:
        parts = np.abs(axis) >= settings.share * np.max(np.abs(axis))
        logarithms = parts & coordinates.relative
        if not (logarithms & ~coordinates.closed).any():
            continue
        step = settings.distance * size * axis / np.max(np.abs(axis[logarithms]))
        ends = target.positions([(mode.z + sign * step, None) for sign in (1, -1)], gradient=False)
        if max(one.log_density for one in ends) > best.log_density - settings.fallen:
            return tuple(np.array(coordinates.labels, object)[parts])
    return ()
