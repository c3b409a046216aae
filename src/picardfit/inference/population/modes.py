"""The most probable random effects of all individuals at once.

With effects eta = L z the mode of an individual minimises q(z) = cost(theta + L z) + z'z / 2. Newton's method runs for
all individuals side by side, each with a step length of its own: with the exact second derivatives where they are
positive definite, and with the expected ones elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from picardfit.collocation.mesh import Flags, Indices
from picardfit.formulas.kernels import Array
from picardfit.inference.population.paths import (
    Paths,
    PathSettings,
    moved_paths,
    new_paths,
    resolved_paths,
    with_derivatives,
)
from picardfit.inference.population.predictions import Measurements, Predictions, predict
from picardfit.inference.population.views import Sums, View, sums
from picardfit.problem.problem import Problem

Looking = Callable[[Predictions, Array], View]  # predictions and effects -> the view of an approximation


@dataclass(frozen=True)
class InnerSettings:
    """Newton's method for the modes; z is in standard deviations of the effects. The values are chosen."""

    steps: int = 40
    enough: float = (
        1e-5  # length of a step after which the next point is exact: its error is the square of it
    )
    longest: float = 3.0
    shorter: float = 0.3  # factor of a step that did not go down
    rounding: float = 1e-10  # rise of q, relative to 1 + |q|, that may be rounding
    definite: float = 1e-2  # least eigenvalue of the exact matrix, whose prior part is 1, that is trusted


@dataclass(frozen=True)
class Setting:
    """What does not change while modes are looked for."""

    problem: Problem  # of the individuals
    measurements: Measurements
    effects: int
    paths: PathSettings
    inner: InnerSettings

    def unknowns(self, theta: Array, eta: Array) -> Array:
        """(individuals, width): theta + eta."""
        found = np.tile(theta, (len(eta), 1))
        found[:, : self.effects] += eta
        return found


@dataclass(frozen=True)
class Modes:
    """The modes of all individuals, and what is known there."""

    z: Array  # (individuals, effects)
    paths: Paths  # with derivatives
    predictions: Predictions
    view: View
    sums: Sums
    converged: Flags  # (individuals,)
    steps: int

    @property
    def joint(self) -> Array:
        """(individuals,): q at the modes."""
        return np.asarray(self.sums.cost + 0.5 * np.sum(self.z**2, axis=1))


def paths_at(setting: Setting, unknowns: Array, near: Paths | None) -> Paths:
    """Paths with derivatives; on a new mesh where there are none nearby, or where one of them fails."""
    found = None if near is None else moved_paths(near, unknowns)
    if found is None or found.failed.any():
        fresh = new_paths(setting.problem, unknowns, setting.paths)
        found = fresh if found is None or fresh.failed.sum() < found.failed.sum() else found
    return with_derivatives(found)


def find_modes(
    setting: Setting, theta: Array, factor: Array, z: Array, near: Paths | None, look: Looking, outer: bool
) -> Modes:
    """The modes from a first guess z; `outer`: with all that a gradient of the marginal likelihood needs."""

    def at(z: Array, near: Paths | None) -> Modes:
        return _at(setting, theta, factor, z, near, look, np.arange(setting.effects), False)

    z, near, converged, count = _descended(at, factor, z, near, setting.inner)
    if near is not None and (better := resolved_paths(near)) is not near:
        # the modes lie far from where the mesh was made: they move a little on one that resolves them
        near = with_derivatives(better)
        z, near, converged, more = _descended(at, factor, z, near, setting.inner)
        count += more
    columns = np.arange(len(theta) if outer else setting.effects)
    last = _at(setting, theta, factor, z, near, look, columns, outer)
    return Modes(z, last.paths, last.predictions, last.view, last.sums, converged, count)


def _descended(
    at: Callable[[Array, Paths | None], Modes],
    factor: Array,
    z: Array,
    near: Paths | None,
    inner: InnerSettings,
) -> tuple[Array, Paths | None, Flags, int]:
    """Newton's method on one mesh: the modes, paths near them, which of them converged, and how many steps it took."""
    point = at(z, near)
    joint, step = point.joint, _steps(point, factor, inner)
    near = near if point.paths.failed.any() else point.paths
    length, count = np.ones(len(z)), 1
    lost = ~np.isfinite(joint)
    if lost.any() and z.any():  # the guess is too far away for some: they begin with typical values
        z = np.where(lost[:, None], 0.0, z)
        point = at(z, None)
        joint, step, near = point.joint, _steps(point, factor, inner), point.paths
    while count < inner.steps:
        ahead = length[:, None] * step
        if not (np.abs(ahead).max(initial=0.0) > inner.enough):
            break
        count += 1
        point = at(z + ahead, near)
        near, trial = near if point.paths.failed.any() else point.paths, point.joint
        taken = trial <= joint + inner.rounding * (1 + np.abs(joint))
        z, joint = np.where(taken[:, None], z + ahead, z), np.where(taken, trial, joint)
        step = np.where(taken[:, None], _steps(point, factor, inner), step)
        length = np.where(taken, 1.0, inner.shorter * length)
    ahead = length[:, None] * step
    converged = np.isfinite(joint) & (np.abs(ahead).max(axis=1, initial=0.0) <= inner.enough)
    return np.where(converged[:, None], z + ahead, z), near, converged, count


def _at(
    setting: Setting,
    theta: Array,
    factor: Array,
    z: Array,
    near: Paths | None,
    look: Looking,
    columns: Indices,
    outer: bool,
) -> Modes:
    """Everything at given z."""
    eta = z @ factor.T
    paths = paths_at(setting, setting.unknowns(theta, eta), near)
    found = predict(setting.measurements, paths, columns)
    view = look(found, eta)
    total = sums(setting.measurements, view, outer)
    return Modes(z, paths, found, view, total, np.zeros(len(z), bool), 0)


def _steps(point: Modes, factor: Array, inner: InnerSettings) -> Array:
    """(individuals, effects): Newton's steps, at most `longest`; zero where the point is not finite."""
    slope = point.sums.by_eta @ factor + point.z
    exact, expected = (in_z(factor, one) for one in (point.sums.eta_eta, point.sums.information))
    finite = np.isfinite(exact).all(axis=(1, 2)) & np.isfinite(slope).all(axis=1) & np.isfinite(point.joint)
    finite &= np.isfinite(expected).all(axis=(1, 2))
    unit = np.eye(len(factor))
    exact = np.where(finite[:, None, None], exact, unit)
    trusted = np.linalg.eigvalsh(exact)[:, 0] > inner.definite
    matrix = np.where((trusted | ~finite)[:, None, None], exact, expected)
    step = -np.linalg.solve(matrix, np.where(finite[:, None], slope, 0.0)[..., None])[..., 0]
    size = np.abs(step).max(axis=1, initial=0.0, keepdims=True)
    return np.asarray(step * np.minimum(1.0, inner.longest / np.maximum(size, 1e-300)))


def in_z(factor: Array, by_eta: Array) -> Array:
    """(individuals, effects, effects): I + L' H L."""
    return np.asarray(np.eye(len(factor)) + factor.T @ by_eta @ factor)
