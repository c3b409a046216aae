"""Continuation along a profile: move one quantity away from its estimate and refit the other unknowns after each step.

Each of the two branches, below and above the estimate, takes steps after which z, the square root of the rise, should
have grown by equal amounts. It ends where z reaches its limit.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from picardfit.collocation.bounded_qp import LineStep
from picardfit.collocation.event_links import as_clocked
from picardfit.errors import InputError
from picardfit.inference.profile_sides import SideLimits
from picardfit.model.scales import Scales
from picardfit.problem.problem import Schedule
from picardfit.problem.quantity import quantity as named_quantity
from picardfit.solvers.refit import Expansion, Refit, model_step, on_sides, refined, refit

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class ProfileSettings:
    """How a profile is followed. z is the square root of the rise of the objective, in units of the variance."""

    close: float = 1e-3  # relative difference from the threshold at which an end point is found
    settled: float = 1e-5  # decrease that a refit may still promise, in units of the variance
    settled_estimate: float = 1e-8  # likewise at the estimate, from which all rises are measured
    better: float = 1e-2  # decrease below the estimate's objective, in units of the variance, worth reporting
    steps: int = 4  # from the estimate to an end, in z
    last_step: float = 0.8  # fraction of the limit of z beyond which a step goes all the way to it
    first_step: float = 1e-3  # largest first step, as a fraction of the farthest distance
    growth: float = 3.0  # largest ratio of neighbouring steps
    most_points: int = 40  # of one branch
    retreats: int = 8  # times a step is divided by four before a branch counts as failed
    closings: int = 40  # refits between a point inside and one beyond the end
    farthest_log: float = 25.0  # from the estimate, in logarithms: a factor of 7e10
    farthest: float = 1e6  # from the estimate, in sizes of the unknown
    resolution: float = 1e-3  # largest unresolved component of a path, relative to the states' scale
    at_bound: float = 1e-12  # relative distance from its bound of an estimate that lies on it
    to_bound: float = 1e-3  # fraction of a step that is not worth another one before the bound
    inside: float = (
        1e-7  # fraction of the way to a corner of the box to stop short, as no unknown can move there
    )
    sides: int = 4  # refits of a point after which samples have passed an event


DEFAULT = ProfileSettings()


class End(Enum):
    """How one branch of a profile ended."""

    FOUND = "found"  # the threshold is reached
    BOUND = "bound"  # the bound comes before the threshold
    AT_BOUND = "at bound"  # the estimate itself lies on its bound
    OPEN = "open"  # the threshold is never reached: not determined
    FAILED = "failed"  # no further point could be fitted
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Origin:
    """The estimate from which all profiles of a fit start."""

    settled: Refit
    unit: float  # what one unit of variance costs in the objective
    limit: float  # of z
    at_samples: frozenset[tuple[int, int]] = (
        frozenset()
    )  # events (experiment, number) that are held at samples
    settings: ProfileSettings = DEFAULT


@dataclass(frozen=True)
class Branch:
    """One branch of a profile, from the estimate outwards."""

    values: np.ndarray  # (points,), internal
    rises: np.ndarray  # (points,)
    slopes: np.ndarray  # (points,)
    many_unknowns: np.ndarray  # (points, experiments, width)
    end: End
    refits: int = 0
    linearisations: int = 0


@dataclass(frozen=True)
class ProfilePoint:
    """A constrained optimum: the other unknowns fitted with the quantity fixed at c."""

    c: float
    rise: float
    slope: float  # d rise / dc
    curvature: float  # Fisher's second derivative of the rise
    direction: np.ndarray  # (unknowns,): d unknowns / dc
    unknowns: np.ndarray
    expansion: Expansion | None  # only the first and the last point keep it, to save memory

    @property
    def base(self) -> Expansion:
        """The expansion to step from."""
        if self.expansion is None:
            raise ValueError("This point has dropped its expansion.")
        return self.expansion


def follow_branch(origin: Origin, task: tuple[str, int]) -> Branch:
    """The branch of the profile of task = (name, sign) below (-1) or above (+1) the estimate."""
    name, sign = task
    continuation = Continuation(origin, name)
    points, end = continuation.follow(sign)
    return Branch(
        np.array([one.c for one in points]),
        np.array([one.rise for one in points]),
        np.array([one.slope for one in points]),
        np.array([one.unknowns for one in points]).reshape(-1, *continuation.estimate.unknowns.shape),
        end,
        continuation.refits,
        continuation.linearisations,
    )


class Continuation:
    """Steps of one quantity away from its `estimate`; counts the refits and linearisations they cost."""

    def __init__(self, origin: Origin, name: str) -> None:
        """Where the estimate lies on a bound of the quantity, the objective has a slope there."""
        self.origin, self.settings, settled = origin, origin.settings, origin.settled
        problem = settled.expansion.system.problem
        self.layout, self.quantity = problem.layout, named_quantity(problem, name)
        self.refits = self.linearisations = 0
        c = self.quantity.value(self.layout, settled.point.unknowns)
        model = model_step(settled.expansion, self.quantity, c) if np.isfinite(c) else None
        if model is None:
            raise InputError("inference.profile_of_singular_formula", self.quantity.label, value=c)
        self.limits = SideLimits(problem, self.quantity)
        self.kept = _not_as_clocked(settled) - origin.at_samples
        limited = self.limits.limited(settled.expansion, self.kept)
        if limited is not settled.expansion:
            settled = replace(settled, expansion=limited)
            model = model_step(limited, self.quantity, c) or model
        self.estimate = self._point(settled, c, model)

    @property
    def scale(self) -> Scales:
        """The scale in which the quantity is stepped."""
        return self.quantity.scale(self.layout)

    def follow(self, sign: int) -> tuple[list[ProfilePoint], End]:
        """Points from the estimate outwards, and how that branch ended."""
        bound, settings = self.quantity.bounds(self.layout)[sign > 0], self.settings
        points, far = [self.estimate], self._farthest()
        if abs(bound - self.estimate.c) <= settings.at_bound * max(abs(self.estimate.c), TINY):
            return [], End.AT_BOUND
        while len(points) <= settings.most_points:
            if self.quantity.formula is not None:
                bound = self._corner(points[-1], sign)
                if self._blocked(points[-1], sign):
                    return points[1:], End.BOUND
            step = self._plan(points, sign, far)
            target = points[-1].c + sign * step
            on_bound = sign * (target - bound) >= -settings.to_bound * step
            point = self._step(points, bound if on_bound else target)
            if point is None:
                return points[1:], End.FAILED
            if point.rise > (1 + settings.close) * self.origin.limit**2:
                return self._close(points, point)
            if len(points) > 1:
                points[-1] = replace(points[-1], expansion=None)  # it holds the derivatives of all segments
            points.append(point)
            end = self._ended(point, bound, far)
            if end is not None:
                return points[1:], end
        return points[1:], End.OPEN

    def _ended(self, point: ProfilePoint, bound: float, far: float) -> End | None:
        """How a branch ends at a point that is not beyond the threshold, or None if it continues."""
        if point.rise >= (1 - self.settings.close) * self.origin.limit**2:
            return End.FOUND
        if point.c == bound and self.quantity.formula is None:
            return End.BOUND
        return End.OPEN if abs(point.c - self.estimate.c) > far else None

    def _farthest(self) -> float:
        """The largest distance from the estimate at which the threshold is sought."""
        if self.scale.log:
            return self.settings.farthest_log
        quantity, estimate = self.quantity, self.estimate
        size = 1.0 if quantity.formula is not None else self.layout.size(estimate.unknowns)[quantity.place]
        spread = self.origin.limit / np.sqrt(estimate.curvature / 2) if estimate.curvature > 0 else 0.0
        return self.settings.farthest * float(max(abs(estimate.c), size, spread))

    def _plan(self, points: list[ProfilePoint], sign: int, far: float) -> float:
        """The step after which z should have grown by limit/steps, from the slope and curvature of the rise."""
        point, limit, settings = points[-1], self.origin.limit, self.settings
        goal = np.sqrt(max(point.rise, 0.0)) + limit / settings.steps
        if goal > settings.last_step * limit:
            goal = limit
        slope, curvature = max(sign * point.slope, 0.0), point.curvature
        last = abs(point.c - points[-2].c) if len(points) > 1 else np.inf
        if len(points) > 2:  # the true curvature also contains the second derivatives of the residuals
            curvature = abs(point.slope - points[-2].slope) / last
        wanted = goal**2 - point.rise
        root = slope**2 + 2 * curvature * wanted
        step = 2 * wanted / (slope + np.sqrt(root)) if root > 0 else np.inf
        return min(step, settings.growth * last if np.isfinite(last) else settings.first_step * far)

    def _step(self, points: list[ProfilePoint], target: float) -> ProfilePoint | None:
        """The point at the target, or nearer if the refit there fails; None if it fails everywhere."""
        begin = points[-1].c
        for _ in range(self.settings.retreats):
            point = self._at(points, target)
            if point is not None:
                return point
            target = begin + (target - begin) / 4
        return None

    def _at(self, points: list[ProfilePoint], target: float) -> ProfilePoint | None:
        """The constrained optimum with the quantity at the target, from the last point."""
        begin, unit, settled = points[-1], self.origin.unit, self.settings.settled
        guess = None
        if len(points) > 2 and self.quantity.formula is None:
            ahead = target - begin.c
            bend = (begin.direction - points[-2].direction) / (begin.c - points[-2].c)
            guess = np.clip(ahead * begin.direction + 0.5 * ahead**2 * bend, *begin.base.box())
        found = refit(begin.base, unit, self.quantity, target, settled, guess)
        self.refits += 1
        if found is None:
            return None
        self.linearisations += found.steps
        finer = refined(found.expansion, self.settings.resolution)
        if finer is not found.expansion:
            found = refit(finer, unit, self.quantity, target, settled)
            if found is None:
                return None
            self.linearisations += found.steps
        found = self._on_sides(found, target)
        return None if found is None else self._point(found, target, found.last)

    def _on_sides(self, found: Refit, target: float) -> Refit | None:
        """The point with every sample on the side of the events on which it has come to be.

        A refit keeps samples on their sides, so that its objective is smooth. Along a profile an event passes samples,
        and the likelihood has kinks there. Samples that the estimate itself has on the other side stay there.
        """
        for _ in range(self.settings.sides):
            schedule = _as_clocked(found, self.kept | self._limited(found))
            if schedule == found.expansion.system.mesh.schedule:
                break
            again = self._on(found, schedule, target)
            if again is None:
                return None
            found = again
        for _ in range(self.settings.sides):
            tried = [self._on(found, one, target) for one in self.limits.others(found, self.kept)]
            least = self.limits.settings.lower * abs(found.value)
            lower = [one for one in tried if one is not None and one.value < found.value - least]
            if not lower:
                break
            found = min(lower, key=lambda one: one.value)
        return found

    def _limited(self, found: Refit) -> set[tuple[int, int]]:
        """Events whose samples are on the sides of the clock, because limits keep them there."""
        schedule = found.expansion.system.mesh.schedule
        every = ((e, k) for e, own in enumerate(schedule) for k, one in enumerate(own) if one.events)
        return {one for one in every if self.limits.is_limited(found.expansion, *one)}

    def _on(self, found: Refit, schedule: Schedule, target: float) -> Refit | None:
        """The constrained optimum with samples on these sides, from another one."""
        here = on_sides(replace(found.expansion, point=found.point), schedule)
        if here is None:
            return None
        here = self.limits.limited(here, self.kept)
        again = refit(here, self.origin.unit, self.quantity, target, self.settings.settled)
        self.refits += 1
        self.linearisations += 0 if again is None else again.steps
        return again

    def _close(self, points: list[ProfilePoint], outside: ProfilePoint) -> tuple[list[ProfilePoint], End]:
        """The end point between the last point and one beyond the threshold.

        It is sought on the cubic through both, or by bisection after a step that did not halve their distance.
        """
        threshold = self.origin.limit**2
        inside, kept, slow = points[-1], points[1:], False
        for _ in range(self.settings.closings):
            pair, width = (inside, outside), abs(outside.c - inside.c)
            c = 0.5 * (inside.c + outside.c)
            if not slow:
                at, rise, slope = (np.array([getattr(k, f) for k in pair]) for f in ("c", "rise", "slope"))
                c = cross(at, rise, slope, self.origin.limit)
            near = min(pair, key=lambda k: abs(k.c - c))
            point = self._at([near], c) or self._step([inside], c)
            if point is None:
                return kept, End.FAILED
            if abs(point.rise - threshold) <= self.settings.close * threshold:
                return [*kept, point], End.FOUND
            if point.rise > threshold:
                outside = point
            else:
                inside, kept = point, [*kept, replace(point, expansion=None)]
            slow = abs(outside.c - inside.c) > 0.5 * width
        return [*kept, outside], End.FOUND

    def _corner(self, point: ProfilePoint, sign: int) -> float:
        """The formula with all its unknowns on the bounds towards which it grows; sign * inf if there are none."""
        layout, index = self.layout, point.base.index
        normal = sign * self.quantity.slope(layout, point.unknowns, index)
        corner = point.unknowns.copy()
        for (e, c), rate in zip(index, normal, strict=True):
            if rate != 0:
                rows = slice(None) if c >= layout.local else e
                corner[rows, c] = (layout.upper if rate > 0 else layout.lower)[e, c]
        away = sign * (self.quantity.value(layout, corner) - point.c)
        if not (np.isfinite(away) and away > 0):
            return sign * np.inf
        return point.c + sign * away * (1 - self.settings.inside)

    def _blocked(self, point: ProfilePoint, sign: int) -> bool:
        """Whether every unknown of the formula lies on the bound that stops it."""
        at = tuple(point.base.index.T)
        normal = sign * self.quantity.slope(self.layout, point.unknowns, point.base.index)
        below, above = point.base.box()
        room = np.where(normal > 0, above, -below)
        near = room <= 10 * self.settings.inside * np.maximum(np.abs(point.unknowns[at]), TINY)
        return bool(np.all((normal == 0) | near))

    def _point(self, found: Refit, c: float, model: LineStep) -> ProfilePoint:
        unit = self.origin.unit
        return ProfilePoint(
            c=c,
            rise=2 * (found.value - self.origin.settled.value) / unit,
            slope=2 * model.slope / unit,
            curvature=2 / (model.variance * unit) if model.variance > 0 else 0.0,
            direction=model.direction,
            unknowns=found.point.unknowns,
            expansion=found.expansion,
        )


def _as_clocked(found: Refit, kept: Collection[tuple[int, int]]) -> Schedule:
    """The schedule of a refit with samples on the sides on which its clock has them."""
    system = found.expansion.system
    times = [one.times for one in system.problem.experiments]
    return as_clocked(system.mesh, found.point.states, times, kept) if system.mesh.schedule else ()


def _not_as_clocked(found: Refit) -> set[tuple[int, int]]:
    """Experiment and number of the events that have samples on the other side than the clock."""
    mine, clocked = found.expansion.system.mesh.schedule, _as_clocked(found, ())
    pairs = (
        (e, k, *both)
        for e, own in enumerate(mine)
        for k, both in enumerate(zip(own, clocked[e], strict=True))
    )
    return {(e, k) for e, k, one, other in pairs if one != other}


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
