"""X and Theta of the paper: where the unknowns of Algorithms 1-4 may be, and in which coordinates they move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.errors import InputError
from picardfit.model.parameters import natural_slope, to_internal, to_natural
from picardfit.problem.unknowns import UnknownsLayout
from picardfit.solvers.picard_gradient.sets import ConvexSet


@dataclass(frozen=True)
class Feasible:
    """Coordinates of the search, and the projection onto X and Theta in them.

    Unknowns under a given set are searched in the natural units of that set, all others in internal
    coordinates (logarithms of log parameters) and clipped to their bounds.
    """

    layout: UnknownsLayout
    parameter_set: ConvexSet | None
    state_set: ConvexSet | None

    def __post_init__(self) -> None:
        layout = self.layout
        if self.parameter_set is not None:
            shared = [layout.names[k] for k in layout.global_parameters]
            _check_size("solvers.parameter_set_size", self.parameter_set, shared)
        if self.state_set is None:
            return
        _check_size("solvers.state_set_size", self.state_set, layout.states)
        free = layout.exists[:, : len(layout.initial_states)].sum(axis=1)
        for name, count in zip(layout.experiments, free, strict=True):
            if 0 < count < len(layout.states):
                raise InputError("solvers.partly_free_states", name, count=count, states=len(layout.states))

    @cached_property
    def _own(self) -> np.ndarray:
        """(width,): columns under a given set."""
        column = np.arange(self.layout.width)
        states = (column < len(self.layout.initial_states)) & (self.state_set is not None)
        return states | ((column >= self.layout.local) & (self.parameter_set is not None))

    @cached_property
    def _exp(self) -> np.ndarray:
        """(experiments, width): log columns which are searched in natural units."""
        return self.layout.log & self._own

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        free = self._own & self.layout.exists
        return np.where(free, -np.inf, self.layout.lower), np.where(free, np.inf, self.layout.upper)

    def coordinates(self, unknowns: np.ndarray) -> np.ndarray:
        """Internal coordinates (experiments, width) -> coordinates of the search."""
        return to_natural(unknowns, self._exp) if self._exp.any() else unknowns

    def unknowns(self, coordinates: np.ndarray) -> np.ndarray:
        """The inverse; a set which lets a log parameter reach 0 is cut off just above it."""
        if not self._exp.any():
            return coordinates
        return to_internal(
            np.maximum(coordinates, np.where(self._exp, np.finfo(float).tiny, -np.inf)), self._exp
        )

    def slopes(self, unknowns: np.ndarray) -> np.ndarray | float:
        """d internal / d coordinate."""
        return 1 / natural_slope(self.coordinates(unknowns), self._exp) if self._exp.any() else 1.0

    def project(self, coordinates: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """argmin |z - x| over x in X and Theta."""
        layout, projected = self.layout, np.minimum(np.maximum(coordinates, self._box[0]), self._box[1])
        if self.parameter_set is not None:
            projected[:, layout.local :] = self.parameter_set.project(projected[0, layout.local :])
        if self.state_set is not None:
            states = len(layout.initial_states)
            whole = layout.exists[:, :states].all(axis=1) & (states > 0)
            projected[whole, :states] = self.state_set.project(projected[whole, :states])
            knots = self.state_set.project(knots)
        return projected, knots

    def square(self, unknowns: np.ndarray, knots: np.ndarray) -> float:
        """|z|^2 over all unknowns: shared columns count once."""
        own, shared = unknowns[:, : self.layout.local], unknowns[0, self.layout.local :]
        return float(np.vdot(own, own) + np.vdot(shared, shared) + np.vdot(knots, knots))


def _check_size(code: str, candidate: ConvexSet, names: Sequence[str]) -> None:
    """InputError unless the set takes points with one component for each name."""
    try:
        candidate.project(np.zeros(len(names)))
    except InputError:
        raise InputError(code, value=candidate, names=tuple(names), size=len(names)) from None
