"""X and Theta of the paper: closed convex sets with their projections Pi_X(z) = argmin over x in X of |z - x|_2.

Points are arrays (..., n): the last axis holds the components, all leading axes are batch. `Feasible` joins the sets of
a method with the bounds of a problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from picardfit.checks import as_number, as_whole, is_number
from picardfit.errors import InputError
from picardfit.model.scales import Scales
from picardfit.problem.unknowns import UnknownsLayout

Vector = float | tuple[float, ...]  # one number stands for the same number in every component


class ConvexSet(Protocol):
    """Anything with a projection can restrict parameters or states."""

    def project(self, point: np.ndarray) -> np.ndarray: ...

    def contains(self, point: np.ndarray, tolerance: float = 0.0) -> bool | np.ndarray: ...


@dataclass(frozen=True)
class Box:
    """lower <= x <= upper in every component; a number as bound holds for all components, inf is no bound."""

    lower: Vector
    upper: Vector

    def __post_init__(self) -> None:
        lower, upper = _vector(self.lower, "lower", True), _vector(self.upper, "upper", True)
        if isinstance(lower, tuple) and isinstance(upper, tuple) and len(lower) != len(upper):
            raise InputError("solvers.box_sizes", lower=len(lower), upper=len(upper))
        if not np.all(np.asarray(lower) <= np.asarray(upper)):
            raise InputError("solvers.box_empty", lower=lower, upper=upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.lower), np.array(self.upper)

    def project(self, point: np.ndarray) -> np.ndarray:
        """argmin |z - x| over lower <= x <= upper: z clipped."""
        point = _checked(point, *self._bounds)
        return np.clip(point, *self._bounds)

    def contains(self, point: np.ndarray, tolerance: float = 0.0) -> bool | np.ndarray:
        """Whether no component leaves the bounds by more than the tolerance."""
        lower, upper = self._bounds
        point = _checked(point, lower, upper)
        return np.all((point >= lower - tolerance) & (point <= upper + tolerance), axis=-1)


@dataclass(frozen=True)
class Ball:
    """|x - centre|_2 <= radius."""

    centre: Vector
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", _vector(self.centre, "centre"))
        radius = as_number(self.radius, "radius", "Ball")
        if radius < 0:
            raise InputError("solvers.ball_radius", value=radius)
        object.__setattr__(self, "radius", radius)

    @cached_property
    def _middle(self) -> np.ndarray:
        return np.array(self.centre)

    def project(self, point: np.ndarray) -> np.ndarray:
        """argmin |z - x| over |x - centre| <= radius: z moved straight towards the centre."""
        point = _checked(point, self._middle)
        away = point - self._middle
        distance = np.linalg.norm(away, axis=-1, keepdims=True)
        outside = distance > self.radius
        shrink = self.radius / np.where(outside, distance, 1.0)
        return np.where(outside, self._middle + shrink * away, point)

    def contains(self, point: np.ndarray, tolerance: float = 0.0) -> bool | np.ndarray:
        """Whether the distance from the centre exceeds the radius by no more than the tolerance."""
        point = _checked(point, self._middle)
        return np.linalg.norm(point - self._middle, axis=-1) <= self.radius + tolerance


@dataclass(frozen=True)
class HalfSpace:
    """normal . x <= offset."""

    normal: tuple[float, ...]
    offset: float

    def __post_init__(self) -> None:
        normal = _vector(self.normal, "normal")
        if not isinstance(normal, tuple) or not any(normal):
            raise InputError("solvers.half_space_normal", value=self.normal)
        object.__setattr__(self, "normal", normal)
        object.__setattr__(self, "offset", as_number(self.offset, "offset", "HalfSpace"))

    @cached_property
    def _unit(self) -> tuple[np.ndarray, float]:
        """The same set with a normal of length 1."""
        length = float(np.linalg.norm(self.normal))
        return np.array(self.normal) / length, self.offset / length

    def project(self, point: np.ndarray) -> np.ndarray:
        """argmin |z - x| over normal . x <= offset: z moved against the normal."""
        unit, offset = self._unit
        point = _checked(point, unit)
        return point - np.maximum(point @ unit - offset, 0.0)[..., None] * unit

    def contains(self, point: np.ndarray, tolerance: float = 0.0) -> bool | np.ndarray:
        """Whether the distance from the set is at most the tolerance."""
        unit, offset = self._unit
        return _checked(point, unit) @ unit <= offset + tolerance


@dataclass(frozen=True)
class Simplex:
    """x >= 0 with sum x = total: fractions of a whole."""

    total: float = 1.0

    def __post_init__(self) -> None:
        total = as_number(self.total, "total", "Simplex")
        if total <= 0:
            raise InputError("solvers.simplex_total", value=total)
        object.__setattr__(self, "total", total)

    def project(self, point: np.ndarray) -> np.ndarray:
        """argmin |z - x| over x >= 0, sum x = total: max(z - shift, 0), the shift found by sorting."""
        point = _checked(point)
        point = point - point.max(axis=-1, keepdims=True)  # the same answer, exact for huge components too
        falling = -np.sort(-point, axis=-1)
        shifts = (np.cumsum(falling, axis=-1) - self.total) / np.arange(1, point.shape[-1] + 1)
        positive = np.count_nonzero(falling > shifts, axis=-1, keepdims=True)  # they come first
        shift = np.take_along_axis(shifts, np.maximum(positive, 1) - 1, axis=-1)
        return np.maximum(point - shift, 0.0)

    def contains(self, point: np.ndarray, tolerance: float = 0.0) -> bool | np.ndarray:
        """Whether no component is below -tolerance and the sum is the total up to the tolerance."""
        point = _checked(point)
        return np.all(point >= -tolerance, axis=-1) & (np.abs(point.sum(axis=-1) - self.total) <= tolerance)


@dataclass(frozen=True)
class Product:
    """The first sizes[0] components in sets[0], the next sizes[1] in sets[1], and so on."""

    sets: tuple[ConvexSet, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sets", tuple(self.sets))
        object.__setattr__(self, "sizes", tuple(self.sizes))
        if not self.sets or len(self.sets) != len(self.sizes):
            raise InputError("solvers.product_sizes", sets=len(self.sets), sizes=len(self.sizes))
        for size in self.sizes:
            as_whole(size, "size of a factor of Product", 1)
        for one in self.sets:
            check_set(one, "factor of Product")

    def _blocks(self, point: np.ndarray) -> list[np.ndarray]:
        point = np.asarray(point, float)
        _check_size(point, sum(self.sizes))
        return np.split(point, np.cumsum(self.sizes)[:-1], axis=-1)

    def project(self, point: np.ndarray) -> np.ndarray:
        """argmin |z - x| over the product: each block projected on its own."""
        blocks = zip(self.sets, self._blocks(point), strict=True)
        return np.concatenate([one.project(block) for one, block in blocks], axis=-1)

    def contains(self, point: np.ndarray, tolerance: float = 0.0) -> bool | np.ndarray:
        """Whether every block is in its set up to the tolerance."""
        blocks = zip(self.sets, self._blocks(point), strict=True)
        return np.all(np.stack([one.contains(block, tolerance) for one, block in blocks]), axis=0)


@dataclass(frozen=True)
class Feasible:
    """Coordinates of the search, and the projection onto X and Theta in them.

    Unknowns under a given set are searched in the natural units of that set, all others in internal
    coordinates (logarithms of log parameters, logits) and clipped to their bounds.
    """

    layout: UnknownsLayout
    parameter_set: ConvexSet | None
    state_set: ConvexSet | None

    def __post_init__(self) -> None:
        layout = self.layout
        if self.parameter_set is not None:
            shared = [layout.names[k] for k in layout.global_parameters]
            _check_components("solvers.parameter_set_size", self.parameter_set, shared)
        if self.state_set is None:
            return
        _check_components("solvers.state_set_size", self.state_set, layout.states)
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
    def _natural(self) -> Scales:
        """(experiments, width): the scales of columns which are searched in natural units."""
        return self.layout.scales.where(self._own)

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        free = self._own & self.layout.exists
        return np.where(free, -np.inf, self.layout.lower), np.where(free, np.inf, self.layout.upper)

    def coordinates(self, unknowns: np.ndarray) -> np.ndarray:
        """Internal coordinates (experiments, width) -> coordinates of the search."""
        return unknowns if self._natural.linear else self._natural.natural(unknowns)

    def unknowns(self, coordinates: np.ndarray) -> np.ndarray:
        """The inverse; a set which lets a log parameter reach 0 is cut off just above it."""
        if self._natural.linear:
            return coordinates
        least = np.where(self._natural.log, np.finfo(float).tiny, -np.inf)
        return self._natural.internal(np.maximum(coordinates, least))

    def slopes(self, unknowns: np.ndarray) -> np.ndarray | float:
        """d internal / d coordinate."""
        return 1.0 if self._natural.linear else 1 / self._natural.slopes(self.coordinates(unknowns))

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


def _check_components(code: str, candidate: ConvexSet, names: Sequence[str]) -> None:
    """InputError unless the set takes points with one component for each name."""
    try:
        candidate.project(np.zeros(len(names)))
    except InputError:
        raise InputError(code, value=candidate, names=tuple(names), size=len(names)) from None


def check_set(candidate: object, subject: str) -> None:
    """InputError unless the candidate can project points."""
    if not callable(getattr(candidate, "project", None)):
        raise InputError("solvers.not_a_set", subject, value=candidate)


def _vector(values: Vector | Sequence[float], name: str, infinite: bool = False) -> Vector:
    """A number as float, a sequence as tuple of floats."""
    if is_number(values):
        return as_number(values, "value", name, infinite)
    try:
        numbers = tuple(np.asarray(values).tolist())
    except (TypeError, ValueError):
        numbers = ()
    if not numbers:
        raise InputError("solvers.not_a_vector", name, value=values)
    return tuple(as_number(v, f"entry {k}", name, infinite) for k, v in enumerate(numbers, 1))


def _checked(point: np.ndarray, *vectors: np.ndarray) -> np.ndarray:
    """The point as floats, of the size that the vectors of the set have."""
    point = np.asarray(point, float)
    for vector in vectors:
        if vector.ndim:
            _check_size(point, len(vector))
    if not point.ndim:
        raise InputError("solvers.point_is_a_number", value=float(point))
    return point


def _check_size(point: np.ndarray, size: int) -> None:
    if not point.ndim or point.shape[-1] != size:
        raise InputError("solvers.point_size", have=point.shape[-1] if point.ndim else 0, size=size)
