"""X and Theta of the paper: where the unknowns of Algorithms 1-4 may be, and in which coordinates they move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.errors import InputError, listing
from picardfit.model.parameters import natural_slope, to_internal, to_natural
from picardfit.problem.unknowns import Unknowns
from picardfit.solvers.picard_gradient.sets import ConvexSet

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Feasible:
    """Coordinates of the search, and the projection onto X and Theta in them.

    Unknowns under a given set are searched in the natural units of that set, all others in internal
    coordinates (logarithms of log parameters) and clipped to their bounds.
    """

    unknowns: Unknowns
    parameter_set: ConvexSet | None
    state_set: ConvexSet | None

    def __post_init__(self) -> None:
        unknowns = self.unknowns
        if self.parameter_set is not None:
            shared = [unknowns.names[k] for k in unknowns.global_parameters]
            _check_size("parameter_set", self.parameter_set, shared, "shared free parameters")
        if self.state_set is None:
            return
        _check_size("state_set", self.state_set, unknowns.states, "states")
        free = unknowns.exists[:, : len(unknowns.initial_states)].sum(axis=1)
        for name, count in zip(unknowns.experiments, free, strict=True):
            if 0 < count < len(unknowns.states):
                raise InputError(
                    f"state_set needs initial states which are all free or all given, but `{name}` has "
                    f"{count} free of {len(unknowns.states)}: bound these with initial= instead of state_set."
                )

    @cached_property
    def _own(self) -> np.ndarray:
        """(width,): columns under a given set."""
        column = np.arange(self.unknowns.width)
        states = (column < len(self.unknowns.initial_states)) & (self.state_set is not None)
        return states | ((column >= self.unknowns.local) & (self.parameter_set is not None))

    @cached_property
    def _exp(self) -> np.ndarray:
        """(experiments, width): log columns which are searched in natural units."""
        return self.unknowns.log & self._own

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        free = self._own & self.unknowns.exists
        return np.where(free, -np.inf, self.unknowns.lower), np.where(free, np.inf, self.unknowns.upper)

    def coordinates(self, border: np.ndarray) -> np.ndarray:
        """Internal coordinates (experiments, width) -> coordinates of the search."""
        return to_natural(border, self._exp) if self._exp.any() else border

    def border(self, coordinates: np.ndarray) -> np.ndarray:
        """The inverse; a set which lets a log parameter reach 0 is cut off just above it."""
        if not self._exp.any():
            return coordinates
        return to_internal(np.maximum(coordinates, np.where(self._exp, TINY, -np.inf)), self._exp)

    def slopes(self, border: np.ndarray) -> np.ndarray | float:
        """d internal / d coordinate."""
        return 1 / natural_slope(self.coordinates(border), self._exp) if self._exp.any() else 1.0

    def project(self, coordinates: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """argmin |z - x| over x in X and Theta."""
        unknowns, projected = self.unknowns, np.minimum(np.maximum(coordinates, self._box[0]), self._box[1])
        if self.parameter_set is not None:
            projected[:, unknowns.local :] = self.parameter_set.project(projected[0, unknowns.local :])
        if self.state_set is not None:
            states = len(unknowns.initial_states)
            whole = unknowns.exists[:, :states].all(axis=1) & (states > 0)
            projected[whole, :states] = self.state_set.project(projected[whole, :states])
            knots = self.state_set.project(knots)
        return projected, knots

    def square(self, border: np.ndarray, knots: np.ndarray) -> float:
        """|z|^2 over all unknowns: shared columns count once."""
        own, shared = border[:, : self.unknowns.local], border[0, self.unknowns.local :]
        return float(np.vdot(own, own) + np.vdot(shared, shared) + np.vdot(knots, knots))


def _check_size(argument: str, candidate: ConvexSet, names: Sequence[str], words: str) -> None:
    """InputError unless the set takes points with one component for each name."""
    try:
        candidate.project(np.zeros(len(names)))
    except InputError:
        raise InputError(
            f"{argument} = {candidate!r} is of another size than the {words} ({listing(names)}): "
            f"give it {len(names)} components, in this order."
        ) from None
