"""The log-density of the posterior in unconstrained coordinates with its gradient, for many points at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.attempt import Track
from picardfit.inference.posterior.coordinates import Coordinates
from picardfit.inference.posterior.lanes import Lanes


@dataclass(frozen=True)
class Position:
    """A point with the log-density there; `track` is its solution, from which points close by are solved."""

    z: Array  # (d,)
    log_density: float
    slope: Array  # (d,)
    track: Track | None

    @property
    def possible(self) -> bool:
        return bool(np.isfinite(self.log_density))

    def at(self, z: Array) -> Position:
        """Another point, where nothing is known yet."""
        return Position(z, np.nan, np.zeros_like(z), None)


@dataclass(frozen=True)
class Target:
    """log p(z | data) up to a constant: log likelihood + log prior + log |dy/dz|.

    Where no prior is given the density is flat in the value, or in its logarithm for a log parameter.
    """

    coordinates: Coordinates
    lanes: Lanes
    pool: Executor | None = None  # threads that solve the lanes, where each has a batch of its own

    def positions(
        self, points: Sequence[tuple[Array, Track | None]], gradient: bool = True
    ) -> list[Position]:
        """The density at points (z, track of a point close by), as many at a time as there are lanes."""
        count = self.lanes.count
        groups = [points[first : first + count] for first in range(0, len(points), count)]
        every = map if self.pool is None or len(groups) == 1 else self.pool.map
        return [one for some in every(lambda group: self._some(group, gradient), groups) for one in some]

    def _some(self, points: Sequence[tuple[Array, Track | None]], gradient: bool) -> list[Position]:
        missing = self.lanes.count - len(points)
        every = [*points, *[points[0]] * missing]  # lanes that nobody needs repeat the first one
        z = np.array([one for one, _ in every])
        log_density, slope, tracks = self.evaluate(z, [track for _, track in every], gradient)
        return [Position(*one) for one in zip(z, log_density.tolist(), slope, tracks, strict=True)][
            : len(points)
        ]

    def evaluate(
        self, z: Array, tracks: Sequence[Track | None], gradient: bool = True
    ) -> tuple[Array, Array, tuple[Track | None, ...]]:
        """Log-density (lanes,), gradient (lanes, d) and solutions at z (lanes, d); -inf without a solution."""
        y, by_z, volume, by_volume = self.coordinates.internal(z)
        unknowns = self.coordinates.unknowns(y)
        solved = self.lanes.solve(unknowns, tracks, gradient)
        priors = self.lanes.problem.priors
        cost, slope = solved.cost, solved.slope
        with np.errstate(invalid="ignore"):
            if priors is not None:
                prior_cost, prior_slope = priors.density(unknowns)
                cost = cost + prior_cost
                slope = None if slope is None else slope + prior_slope
            flat, by_flat = self.coordinates.flat_density(y)
            log_density = volume.sum(axis=1) + flat.sum(axis=1) - cost
            if slope is None:
                found = np.zeros(z.shape)
            else:
                found = by_volume + (by_flat - self.coordinates.gathered(slope)) * by_z
        fine = np.isfinite(log_density) & np.isfinite(found).all(axis=1)
        log_density = np.where(fine, log_density, -np.inf)
        return log_density, np.where(fine[:, None], found, 0.0), solved.tracks
