"""Unconstrained coordinates z of the unknowns: every z is possible, and the density of z has no edge.

With y the internal coordinate of an unknown (log(value) for a log parameter, else the value) and bounds on y:

    no bound   y = z                       one bound   y = lower + e^z, y = upper - e^z
    two        y = lower + (upper - lower) / (1 + e^-z)

A density of y becomes one of z by the factor dy/dz, whose logarithm is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.collocation.mesh import Flags
from picardfit.formulas.kernels import Array
from picardfit.model.prior_terms import Priors, value_measure
from picardfit.model.scales import Scales
from picardfit.problem.problem import Problem
from picardfit.problem.unknowns import UnknownsLayout, unknowns_index

LARGEST = 700.0  # e^z stays finite


@dataclass(frozen=True)
class Coordinates:
    """The map between z (k, d) and unknowns (k, experiments, width) of a layout."""

    layout: UnknownsLayout
    priors: Priors | None = None

    @cached_property
    def index(self) -> Array:
        """(d, 2): experiment and column of each coordinate; shared unknowns have experiment 0."""
        return np.asarray(unknowns_index(self.layout.exists, self.layout.local))

    @cached_property
    def scales(self) -> Scales:
        """Of each coordinate."""
        return self.layout.scales[tuple(self.index.T)]

    @cached_property
    def believed(self) -> Flags:
        """(d,) bool: unknowns that have a prior."""
        known = set() if self.priors is None else {(e, c) for e, c, *_ in self.priors.entries}
        return np.array([tuple(at) in known for at in self.index.tolist()], bool)

    @cached_property
    def closed(self) -> Flags:
        """(d,) bool: unknowns that two bounds or a prior keep from infinity."""
        found: Flags = np.isfinite(self.lower) & np.isfinite(self.upper) | self.believed
        return found

    @cached_property
    def relative(self) -> Flags:
        """(d,) bool: coordinates that are logarithms or logits, where one is a factor of e."""
        both, low, high = self._kinds
        found: Flags = both | low | high | self.scales.log | self.scales.logit
        return found

    def beyond(self, z: Array) -> Flags:
        """Which points z (k, d) no floating-point number can hold."""
        return np.asarray(np.any(self.relative & (np.abs(z) > LARGEST), axis=-1))

    @property
    def count(self) -> int:
        return len(self.index)

    @cached_property
    def lower(self) -> Array:
        return np.asarray(self.layout.lower[tuple(self.index.T)])

    @cached_property
    def upper(self) -> Array:
        return np.asarray(self.layout.upper[tuple(self.index.T)])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.layout.label(e, c) for e, c in self.index)

    @cached_property
    def _kinds(self) -> tuple[Flags, Flags, Flags]:
        """(d,) bool each: both bounds, only a lower one, only an upper one."""
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        return low & high, low & ~high, high & ~low

    def internal(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """y, dy/dz, log(dy/dz) and the slope of that logarithm, each (..., d)."""
        both, low, high = self._kinds
        z = np.where(self.relative, np.clip(z, -LARGEST, LARGEST), z)
        grown = np.exp(np.where(low | high, z, 0.0))
        part, rest = 1 / (1 + np.exp(-np.where(both, z, 0.0))), 1 / (1 + np.exp(np.where(both, z, 0.0)))
        with np.errstate(invalid="ignore"):
            width = np.where(both, self.upper - self.lower, 1.0)
        lower, upper = np.where(low | both, self.lower, 0.0), np.where(high | both, self.upper, 0.0)
        inside = np.where(part < 0.5, lower + width * part, upper - width * rest)
        y = np.where(both, inside, np.where(low, lower + grown, np.where(high, upper - grown, z)))
        slope = np.where(both, width * part * rest, np.where(low, grown, np.where(high, -grown, 1.0)))
        with np.errstate(divide="ignore"):
            log_slope = np.log(np.abs(slope))
        return y, slope, log_slope, np.where(both, rest - part, np.where(low | high, 1.0, 0.0))

    def external(self, y: Array, room: float = 1e-10) -> Array:
        """z of internal coordinates (..., d), which are moved off their bounds by `room` of their size."""
        both, low, high = self._kinds
        with np.errstate(invalid="ignore", divide="ignore"):
            width = np.where(both, self.upper - self.lower, np.maximum(np.abs(y), 1e-100))
            above = np.maximum(y - np.where(low | both, self.lower, 0.0), room * width)
            below = np.maximum(np.where(high | both, self.upper, 0.0) - y, room * width)
            return np.where(
                both, np.log(above / below), np.where(low, np.log(above), np.where(high, np.log(below), y))
            )

    def sizes(self, z: Array, spread: Array, states: Array) -> Array:
        """(d,): what displacements are small or large against: one for logarithms and logits, else the value.

        `states` (states,): scale of the states, for initial states that may be close to zero.
        """
        plain, column = ~self.relative, self.index[:, 1]
        found = np.where(plain, np.maximum(np.abs(z), spread), 1.0)
        first = plain & (column < len(self.layout.initial_states))
        found[first] = np.maximum(found[first], states[self.layout.initial_states[column[first]]])
        return found

    def unknowns(self, y: Array) -> Array:
        """(k, experiments, width) from y (k, d); shared unknowns are the same in every experiment."""
        local = self.layout.local
        found = np.repeat(self.layout.lower[None], len(y), axis=0)
        own = self.index[:, 1] < local
        found[:, self.index[own, 0], self.index[own, 1]] = y[:, own]
        found[:, :, self.index[~own, 1]] = y[:, None, ~own]
        return found

    def gathered(self, slope: Array) -> Array:
        """(k, d): a slope by the unknowns (k, experiments, width) by each coordinate y; shared ones are summed."""
        own = self.index[:, 1] < self.layout.local
        found = np.empty((len(slope), self.count))
        found[:, own] = slope[:, self.index[own, 0], self.index[own, 1]]
        found[:, ~own] = slope[:, :, self.index[~own, 1]].sum(axis=1)
        return found

    def natural(self, y: Array) -> Array:
        """Values in natural units, of y (..., d)."""
        return np.asarray(self.scales.natural(y))

    def flat_density(self, y: Array) -> tuple[Array, Array]:
        """log |d value / d y| of the unknowns on the logit scale that are flat in their values, with its slope, (k, d).

        Without a prior other unknowns are flat in y itself: in the value, or in its logarithm.
        """
        volume, slope = np.zeros(y.shape), np.zeros(y.shape)
        for k in np.flatnonzero(self.scales.logit & ~self.believed):
            volume[:, k], slope[:, k] = value_measure(y[:, k], self.scales[k])
        return volume, slope


def coordinates_of(problem: Problem) -> Coordinates:
    """The coordinates of a problem's unknowns."""
    return Coordinates(problem.layout, problem.priors)
