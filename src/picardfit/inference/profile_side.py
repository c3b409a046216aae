"""One side of a profile: steps of a quantity away from its estimate, the other unknowns fitted anew after each.

Steps are chosen so that z, the root of the rise, grows by equal parts; the end point lies where z reaches its limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from picardfit.collocation.bounded_qp import LineStep
from picardfit.errors import InputError
from picardfit.problem.quantity import Quantity
from picardfit.solvers.refit import Place, Refit, model_step, refined, refit

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class ProfileSettings:
    """How a profile is followed. z is the root of the rise of the objective, in units of the variance."""

    close: float = 1e-3  # relative difference from the threshold at which an end point is found
    settled: float = 1e-5  # decrease that a refit may still promise, in units of the variance
    settled_estimate: float = 1e-8  # the same at the estimate, from which all rises are counted
    better: float = (
        1e-2  # decrease below the estimate's objective, in units of the variance, that is reported
    )
    steps: int = 4  # from the estimate to an end, in z
    last_step: float = 0.8  # part of the limit of z beyond which a step goes all the way to it
    first_step: float = 1e-3  # largest first step, as a part of the farthest distance
    growth: float = 3.0  # largest ratio of neighbouring steps
    most_points: int = 40  # on one side
    retreats: int = 8  # times a step is divided by four before a side counts as failed
    closings: int = 40  # refits between a point inside and one beyond the end
    farthest_log: float = 25.0  # from the estimate, in logarithms: a factor of 7e10
    farthest: float = 1e6  # from the estimate, in sizes of the unknown
    resolution: float = 1e-3  # largest unresolved part of a path, relative to the states' scale
    at_bound: float = 1e-12  # relative distance from its bound of an estimate that sits on it
    to_bound: float = 1e-3  # part of a step that is not worth another one before the bound
    inside: float = (
        1e-7  # part of the way to a corner of the box that is left, as nothing can move in the corner
    )


class End(Enum):
    """How one side of a profile ended."""

    FOUND = "found"  # the threshold is reached
    BOUND = "bound"  # the bound comes before the threshold
    AT_BOUND = "at bound"  # the estimate itself sits on its bound
    OPEN = "open"  # the threshold is never reached: not determined
    FAILED = "failed"  # no further point could be fitted
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Knot:
    """One point of a side."""

    c: float
    rise: float
    slope: float  # d rise / dc
    curvature: float  # Fisher's second derivative of the rise
    direction: np.ndarray  # (unknowns,): d unknowns / dc
    place: Place | None  # only of the first and the last
    unknowns: np.ndarray

    @property
    def base(self) -> Place:
        """The place to step from; a knot between the first and the last has dropped its own, to save memory."""
        if self.place is None:
            raise ValueError("This knot has dropped its place.")
        return self.place


class March:
    """Steps away from the estimate, with a count of what they cost."""

    def __init__(
        self,
        held: Quantity,
        unit: float,
        least: float,
        limit: float,
        settings: ProfileSettings = ProfileSettings(),
    ) -> None:
        self.held, self.unit, self.least, self.limit, self.settings = held, unit, least, limit, settings
        self.refits = self.linearisations = 0

    def first(self, settled: Refit) -> Knot:
        """The estimate; where it sits on a bound of its own the objective has a slope there."""
        c = self.held.value(settled.place.system.problem.layout, settled.point.unknowns)
        model = model_step(settled.place, self.held, c) if np.isfinite(c) else None
        if model is None:
            raise InputError("inference.profile_of_singular_formula", self.held.label, value=c)
        return self._knot(settled, c, model)

    def side(self, middle: Knot, sign: int) -> tuple[list[Knot], End]:
        """Knots from the estimate outwards and how that side ended."""
        layout = middle.base.system.problem.layout
        bound = self.held.bounds(layout)[sign > 0]
        far, knots = self._farthest(middle), [middle]
        if abs(bound - middle.c) <= self.settings.at_bound * max(abs(middle.c), TINY):
            return [], End.AT_BOUND
        while len(knots) <= self.settings.most_points:
            if self.held.formula is not None:
                bound = self._corner(knots[-1], sign)
                if self._blocked(knots[-1], sign):
                    return knots[1:], End.BOUND
            step = self._plan(knots, sign, far)
            target = knots[-1].c + sign * step
            on_bound = sign * (target - bound) >= -self.settings.to_bound * step
            knot = self._follow(knots, bound if on_bound else target)
            if knot is None:
                return knots[1:], End.FAILED
            if knot.rise > (1 + self.settings.close) * self.limit**2:
                return self._close(knots, knot)
            if len(knots) > 1:
                knots[-1] = replace(knots[-1], place=None)  # a place holds the derivatives of all segments
            knots.append(knot)
            end = self._ended(knot, bound, abs(knot.c - middle.c) > far)
            if end is not None:
                return knots[1:], end
        return knots[1:], End.OPEN

    def _ended(self, knot: Knot, bound: float, is_far: bool) -> End | None:
        """How a side ends at a knot below the threshold, or None if it continues."""
        if knot.rise >= (1 - self.settings.close) * self.limit**2:
            return End.FOUND
        if knot.c == bound and self.held.formula is None:
            return End.BOUND
        return End.OPEN if is_far else None

    def _farthest(self, middle: Knot) -> float:
        held, layout = self.held, middle.base.system.problem.layout
        if held.formula is None and layout.log[held.place]:
            return self.settings.farthest_log
        size = 1.0 if held.formula is not None else layout.size(middle.unknowns)[held.place]
        spread = self.limit / np.sqrt(middle.curvature / 2) if middle.curvature > 0 else 0.0
        return self.settings.farthest * float(max(abs(middle.c), size, spread))

    def _plan(self, knots: list[Knot], sign: int, far: float) -> float:
        """A step after which z should have grown by one part, from the slope and curvature of the rise."""
        knot = knots[-1]
        z = np.sqrt(max(knot.rise, 0.0))
        goal = z + self.limit / self.settings.steps
        if goal > self.settings.last_step * self.limit:
            goal = self.limit
        slope, curvature = sign * knot.slope, knot.curvature
        last = abs(knot.c - knots[-2].c) if len(knots) > 1 else np.inf
        if len(knots) > 2:  # the true curvature also has the residuals' share
            curvature = abs(knot.slope - knots[-2].slope) / last
        wanted = goal**2 - knot.rise
        root = max(slope, 0.0) ** 2 + 2 * curvature * wanted
        step = 2 * wanted / (max(slope, 0.0) + np.sqrt(root)) if root > 0 else np.inf
        if not np.isfinite(last):
            return min(step, self.settings.first_step * far)
        return min(step, self.settings.growth * last)

    def _follow(self, knots: list[Knot], target: float) -> Knot | None:
        """The knot at the target, or nearer if the way there is too far; None if there is no way."""
        begin = knots[-1]
        for _ in range(self.settings.retreats):
            knot = self._at(knots, target)
            if knot is not None:
                return knot
            target = begin.c + (target - begin.c) / 4
        return None

    def _at(self, knots: list[Knot], target: float) -> Knot | None:
        """The constrained optimum at a value of the quantity, from the last knot."""
        begin = knots[-1]
        guess = None
        if len(knots) > 2 and self.held.formula is None:
            ahead = target - begin.c
            bend = (begin.direction - knots[-2].direction) / (begin.c - knots[-2].c)
            guess = ahead * begin.direction + 0.5 * ahead**2 * bend
            low, high = begin.base.box()
            guess = np.clip(guess, low, high)
        found = refit(begin.base, self.unit, self.held, target, self.settings.settled, guess)
        self.refits += 1
        if found is None:
            return None
        self.linearisations += found.steps
        place = refined(found.place, self.settings.resolution)
        if place is not found.place:
            found = refit(place, self.unit, self.held, target, self.settings.settled)
            if found is None:
                return None
            self.linearisations += found.steps
        return self._knot(found, target, found.last)

    def _close(self, knots: list[Knot], outside: Knot) -> tuple[list[Knot], End]:
        """The end point between the last knot and one beyond the threshold.

        By the cubic through both, or in the middle where that did not halve what is between them.
        """
        inside, kept, slow = knots[-1], knots[1:], False
        for _ in range(self.settings.closings):
            pair, width = (inside, outside), abs(outside.c - inside.c)
            c = 0.5 * (inside.c + outside.c)
            if not slow:
                at, rise, slope = (np.array([getattr(k, f) for k in pair]) for f in ("c", "rise", "slope"))
                c = cross(at, rise, slope, self.limit)
            near = min(pair, key=lambda k: abs(k.c - c))
            knot = self._at([near], c) or self._follow([inside], c)
            if knot is None:
                return kept, End.FAILED
            if abs(knot.rise - self.limit**2) <= self.settings.close * self.limit**2:
                return [*kept, knot], End.FOUND
            if knot.rise > self.limit**2:
                outside = knot
            else:
                inside, kept = knot, [*kept, replace(knot, place=None)]
            slow = abs(outside.c - inside.c) > 0.5 * width
        return [*kept, outside], End.FOUND

    def _corner(self, knot: Knot, sign: int) -> float:
        """The formula where all its unknowns are on the bounds towards which it grows; sign * inf if there are none."""
        place, layout = knot.base, knot.base.system.problem.layout
        normal = sign * self.held.slope(layout, knot.unknowns, place.index)
        corner = knot.unknowns.copy()
        for (e, c), rate in zip(place.index, normal, strict=True):
            if rate != 0:
                rows = slice(None) if c >= layout.local else e
                corner[rows, c] = (layout.upper if rate > 0 else layout.lower)[e, c]
        away = sign * (self.held.value(layout, corner) - knot.c)
        # a hair inside, because nothing is free to move in the corner itself
        return (
            knot.c + sign * away * (1 - self.settings.inside)
            if np.isfinite(away) and away > 0
            else sign * np.inf
        )

    def _blocked(self, knot: Knot, sign: int) -> bool:
        """Whether every unknown of the formula sits on the bound that stops it."""
        place, layout = knot.base, knot.base.system.problem.layout
        normal, at = sign * self.held.slope(layout, knot.unknowns, place.index), tuple(place.index.T)
        room = np.where(
            normal > 0, layout.upper[at] - knot.unknowns[at], knot.unknowns[at] - layout.lower[at]
        )
        return bool(
            np.all(
                (normal == 0)
                | (room <= 10 * self.settings.inside * np.maximum(np.abs(knot.unknowns[at]), TINY))
            )
        )

    def _knot(self, found: Refit, c: float, model: LineStep) -> Knot:
        return Knot(
            c=c,
            rise=2 * (found.value - self.least) / self.unit,
            slope=2 * model.slope / self.unit,
            curvature=2 / (model.variance * self.unit) if model.variance > 0 else 0.0,
            direction=model.direction,
            place=found.place,
            unknowns=found.point.unknowns,
        )


def cross(c: np.ndarray, rise: np.ndarray, slope: np.ndarray, limit: float) -> float:
    """Where z = sqrt(rise) reaches the limit between two points, by the cubic with the slopes of z."""
    z = np.sqrt(np.maximum(rise, 0.0))
    width = c[1] - c[0]
    chord = (z[1] - z[0]) / width
    with np.errstate(divide="ignore", invalid="ignore"):
        steep = np.where(z > 1e-6 * limit, 0.5 * slope / z, chord)
    low, high = 0.0, 1.0
    for _ in range(60):  # bisection cannot fail
        s = 0.5 * (low + high)
        below = cubic(s, z[0], z[1], width * steep[0], width * steep[1]) < limit
        low, high = (s, high) if below else (low, s)
    return float(c[0] + low * width)


def cubic(s, first, last, slope_first, slope_last):
    """Hermite's cubic at the fractions s of an interval."""
    t = 1 - s
    return (
        (1 + 2 * s) * t**2 * first
        + s * t**2 * slope_first
        + s**2 * (3 - 2 * s) * last
        - s**2 * t * slope_last
    )
