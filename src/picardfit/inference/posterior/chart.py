"""Coordinates in which a posterior is nearly standard normal: whitened at the mode, and bent along its ridges.

Experiments are independent given what they share, so that the precision is an arrow. With w whitened displacements of
the shared unknowns (s) and of those of each experiment (e),

    z_s = mode_s + C_s w_s,    z_e = mode_e + B_e C_s w_s + C_e w_e,

where B_e follows the conditional mean. Where data bend the posterior, as those of a path that starts near a separatrix,
its narrow directions follow a parabola of the wide ones. So a chain moves in v,

    w_k = v_k + 1/2 sum_ij A_kij g(v_i) g(v_j),    i and j before k,

with the shared directions first and the others from wide to narrow. This shear keeps volumes, has an inverse, and costs
one product for each experiment. A_kij comes from gradients: to second order log p has the slope 1/2 w' A_k w in
direction k at w_k = 0. g(v) is v close to the mode and levels off, so that tails are moved, not bent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.mesh import Flags, Indices
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.attempt import Track
from picardfit.inference.posterior.coordinates import Coordinates
from picardfit.inference.posterior.density import Position, Target


@dataclass(frozen=True)
class Bending:
    """How ridges are measured; lengths are in standard deviations. The values are chosen."""

    widths: tuple[float, ...] = (
        1.0,
        0.5,
        0.25,
    )  # of the differences, each tried: wide ones see more of the bulk
    level: float = 4.0  # where g levels off
    pairs: int = 400  # of directions at most; beyond these only squares are measured
    trials: int = 24  # points of the Gaussian whose log weights are compared
    normal: float = 0.3  # standard deviation of these that nothing needs to lower
    worth: float = (
        0.7  # bent where the log weights of these vary by less than this part of the straight ones'
    )
    empty: float = (
        4.0  # below the median a log weight beyond this is no part of the bulk: chains seldom come there
    )
    paid: float = 1.1  # how much more the bulk may vary than in straight coordinates


@dataclass(frozen=True)
class Bend:
    """The quadratic part: halves of A, zero where i or j do not come before k."""

    shared: Array  # (q, q * q)
    own: Array  # (experiments, n, (q + n) ** 2)
    level: float

    def limited(self, v: Array) -> tuple[Array, Array]:
        """g = v / (1 + (v / level)^4)^(1/4), and its slope."""
        grown = 1 + (v / self.level) ** 4
        return v * grown**-0.25, grown**-1.25


@dataclass(frozen=True)
class Chart:
    """The map from v (k, d) to z (k, d). Each direction of v has the place of an unknown of the same group."""

    centre: Array  # (d,)
    shared: Indices  # (q,)
    own: Indices  # (experiments, n); d where an experiment has fewer unknowns of its own
    shared_root: Array  # (q, q): C_s
    follow: Array  # (experiments, n, q): B_e C_s
    own_root: Array  # (experiments, n, n): C_e
    bend: Bend | None = None

    @property
    def together(self) -> Flags:
        """(d, d): directions of the same group, whose covariances are learnt."""
        group = np.full(len(self.centre) + 1, -1)
        group[self.own] = np.arange(len(self.own))[:, None]
        found: Flags = group[:-1, None] == group[:-1]
        return found

    def points(self, v: Array) -> Array:
        """z (k, d) of v (k, d)."""
        shared, own = self._parts(v)
        if self.bend is not None:
            near, _ = self.bend.limited(shared)
            products, _ = self._products(near, self.bend.limited(own)[0])
            shared = shared + (near[:, :, None] * near[:, None]).reshape(len(v), -1) @ self.bend.shared.T
            own = own + (self.bend.own @ products[..., None])[..., 0]
        z = np.empty((len(v), len(self.centre) + 1))
        z[:, self.shared] = shared @ self.shared_root.T
        z[:, self.own] = (self.follow @ shared[:, None, :, None] + self.own_root @ own[..., None])[..., 0]
        return np.asarray(self.centre + z[:, :-1])

    def slopes(self, v: Array, by_z: Array) -> Array:
        """Slopes by v (k, d) from slopes by z (k, d)."""
        by_shared, by_own = self._whitened(by_z)
        if self.bend is not None:
            shared, own = self._parts(v)
            (near, by_near), (close, by_close) = self.bend.limited(shared), self.bend.limited(own)
            q, every = len(self.shared), self._products(near, close)[1]
            pulled = (by_own[..., None, :] @ self.bend.own).reshape(*every.shape, every.shape[-1])
            added = 2 * (pulled @ every[..., None])[..., 0]
            square = (by_shared @ self.bend.shared).reshape(len(v), q, q)
            by_shared = by_shared + by_near * (
                2 * (square @ near[..., None])[..., 0] + added[..., :q].sum(axis=1)
            )
            by_own = by_own + by_close * added[..., q:]
        return self._placed(by_shared, by_own)

    def _parts(self, v: Array) -> tuple[Array, Array]:
        """(k, q) and (k, experiments, n)."""
        padded = np.concatenate([v, np.zeros((len(v), 1))], axis=1)
        return v[:, self.shared], padded[:, self.own]

    def _placed(self, shared: Array, own: Array) -> Array:
        v = np.empty((len(shared), len(self.centre) + 1))
        v[:, self.shared], v[:, self.own] = shared, own
        return v[:, :-1]

    def _products(self, near: Array, close: Array) -> tuple[Array, Array]:
        """(k, experiments, m * m) products of the directions of each experiment, and these (k, experiments, m)."""
        every = np.concatenate([np.repeat(near[:, None], len(self.own), axis=1), close], axis=2)
        return (every[..., None] * every[..., None, :]).reshape(*every.shape[:2], every.shape[2] ** 2), every

    def _whitened(self, by_z: Array) -> tuple[Array, Array]:
        """Slopes by w (k, q) and (k, experiments, n)."""
        shared, own = self._parts(by_z)
        followed = (own[..., None, :] @ self.follow)[..., 0, :].sum(axis=1)
        return shared @ self.shared_root + followed, (own[..., None, :] @ self.own_root)[..., 0, :]


def positions(
    target: Target, charts: Sequence[Chart], points: Sequence[tuple[Array, Track | None]]
) -> list[Position]:
    """The density at points (v, track of a point close by), each in its own chart: positions hold v and slopes by v."""
    z, slopes = np.empty((2, len(points), len(charts[0].centre)))
    v = np.array([one for one, _ in points])
    groups: dict[int, list[int]] = {}
    for k, chart in enumerate(charts):
        groups.setdefault(id(chart), []).append(k)
    for some in groups.values():
        z[some] = charts[some[0]].points(v[some])
    found = target.positions([(one, track) for one, (_, track) in zip(z, points, strict=True)])
    by_z = np.array([one.slope for one in found])
    for some in groups.values():
        slopes[some] = charts[some[0]].slopes(v[some], by_z[some])
    return [
        Position(*one)
        for one in zip(
            v, [one.log_density for one in found], slopes, [one.track for one in found], strict=True
        )
    ]


def straight(centre: Array, covariance: Array, coordinates: Coordinates, states: Array) -> Chart:
    """The linear chart of a Gaussian; `states` is their scale. With one experiment all unknowns are one group."""
    index, count = coordinates.index, len(centre)
    owner = np.where(index[:, 1] < coordinates.layout.local, index[:, 0], -1)
    if len(coordinates.layout.exists) == 1:
        owner[:] = -1
    shared, sizes = np.flatnonzero(owner < 0), np.bincount(owner[owner >= 0], minlength=1)
    own = np.full((len(sizes) if sizes.any() else 0, int(sizes.max())), count)
    for e in range(len(own)):
        own[e, : sizes[e]] = np.flatnonzero(owner == e)
    precision = np.eye(count + 1)
    precision[:-1, :-1] = np.linalg.inv(covariance)
    scale = np.append(coordinates.sizes(centre, np.sqrt(np.diag(covariance)), states), 1.0)
    inner = np.linalg.inv(precision[own[:, :, None], own[:, None, :]])
    shared_root = _sorted_root(covariance[np.ix_(shared, shared)], scale[shared])
    follow = -inner @ precision[own[:, :, None], shared] @ shared_root
    return Chart(centre, shared, own, shared_root, follow, _sorted_root(inner, scale[own]))


def _sorted_root(covariance: Array, scale: Array) -> Array:
    """C (..., n, n) with C C' the covariance; columns are principal axes from wide to narrow, relative to the scale."""
    values, axes = np.linalg.eigh(covariance / scale[..., :, None] / scale[..., None, :])
    return np.asarray(
        (scale[..., :, None] * axes * np.sqrt(np.maximum(values, 1e-14))[..., None, :])[..., ::-1]
    )


def chart_of(
    target: Target, centre: Position, covariance: Array, seed: int, settings: Bending = Bending()
) -> Chart:
    """The chart of a mode, bent where that makes the density more nearly normal.

    Where one tail is far thinner than that of the Gaussian, a few points there decide how much all log weights vary.
    So a bend must not make those of the bulk vary more: that is where chains are.
    """
    line = straight(centre.z, covariance, target.coordinates, target.lanes.scale)
    rng = np.random.default_rng([seed, 6])
    trials = rng.standard_normal((settings.trials, len(centre.z)))

    def spread(chart: Chart) -> tuple[float, float]:
        """Standard deviation of the log weights, and that of the bulk."""
        found = np.array([one.log_density for one in _along(target, chart, centre, trials)])
        if not np.isfinite(found).all():
            return np.inf, np.inf
        weights = found + 0.5 * np.sum(trials**2, axis=1)
        bulk = np.maximum(weights, np.median(weights) - settings.empty)
        return float(np.std(weights)), float(np.std(bulk))

    before, bulk = spread(line)
    if before < settings.normal:
        return line
    curves = [_bent(line, target, centre, width, settings) for width in settings.widths]
    found = [(spread(one), one) for one in curves if one is not None]
    kept = [(all_of_it, one) for (all_of_it, inner), one in found if inner <= settings.paid * bulk]
    least, best = min(kept, key=lambda one: one[0], default=(np.inf, line))
    return best if least < settings.worth * before else line


def _along(target: Target, chart: Chart, centre: Position, v: Array) -> list[Position]:
    return positions(target, [chart] * len(v), [(one, centre.track) for one in v])


def _bent(line: Chart, target: Target, centre: Position, step: float, settings: Bending) -> Chart | None:
    """The chart with the bend that gradients at pairs of opposite points show; None where one has no solution."""
    q, (experiments, n) = len(line.shared), line.own.shape
    m = q + n
    pairs = [(i, j) for i in range(m) for j in range(i + 1)]
    if len(pairs) > settings.pairs:
        pairs = [(i, i) for i in range(m)]
    moves = np.zeros((len(pairs), m))
    for k, (i, j) in enumerate(pairs):
        moves[k, [i, j]] = step if i == j else step / np.sqrt(2)
    own = np.repeat(moves[:, None, q:], experiments, axis=1)
    v = line._placed(moves[:, :q], own)
    found = _along(target, line, centre, np.concatenate([v, -v]))
    if not all(one.possible for one in found):
        return None
    slopes = np.array([one.slope for one in found])
    even = (slopes[: len(v)] + slopes[len(v) :]) / step**2  # A along the move
    by_shared, by_own = line._parts(even)
    whole = np.concatenate([by_shared, by_own.reshape(len(v), -1)], axis=1)
    bends = np.zeros((whole.shape[1], m, m))
    for k, (i, j) in enumerate(pairs):
        if i == j:
            bends[:, i, i] = whole[k]
    for k, (i, j) in enumerate(pairs):
        if i != j:
            bends[:, i, j] = bends[:, j, i] = whole[k] - 0.5 * (bends[:, i, i] + bends[:, j, j])
    first, each = bends[:q, :q, :q].copy(), bends[q:].reshape(experiments, n, m, m)
    for k in range(q):
        first[k, k:], first[k, :, k:] = 0.0, 0.0
    for k in range(n):
        each[:, k, q + k :], each[:, k, :, q + k :] = 0.0, 0.0
    bend = Bend(0.5 * first.reshape(q, q * q), 0.5 * each.reshape(experiments, n, m * m), settings.level)
    return replace(line, bend=bend)
