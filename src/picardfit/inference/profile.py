"""Profile likelihood: how the best objective rises when one unknown, or a formula, is held away from its estimate.

With c the value held, F(c) the lowest objective there and `unit` what one unit of variance costs (the residual
variance for least squares, 1 for a likelihood), z(c) = sign(c - estimate) sqrt(2 (F(c) - F_min) / unit) is compared
with a quantile: Student's t when the variance is estimated from the residuals (then 2 (F - F_min) / unit is compared
with the quantile of the F distribution, which is exact for linear models), else the normal one (chi-squared); see
Yardstick for likelihoods that estimate their noise levels.
z is a straight line where Fisher's interval is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import picture, shown
from picardfit.errors import InputError, Notice
from picardfit.evidence.fisher import Yardstick
from picardfit.evidence.optima import SameOptimum
from picardfit.inference.profile_side import End, Knot, March, ProfileSettings, cross, cubic
from picardfit.inference.refits import Tools, run_many, solution_of
from picardfit.parallel.ordered_map import Work, Written, single_threaded
from picardfit.problem.named_values import units_of
from picardfit.problem.problem import Problem
from picardfit.problem.quantity import quantity
from picardfit.problem.records import array, get
from picardfit.problem.serialisation import digest
from picardfit.solvers.refit import Refit, place_at, refined, refit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.fit import Fit


@shown
@dataclass(frozen=True)
class Profile:
    """The profile of one quantity; arrays are in order of its value, in natural units."""

    name: str
    estimate: float
    values: np.ndarray  # (points,)
    rises: np.ndarray  # (points,): 2 (F - F_min) / unit
    unknowns: dict[str, np.ndarray]  # the best other unknowns at each point
    level: float  # up to which it was followed
    yardstick: Yardstick  # how far an interval reaches
    ends: tuple[End, End]  # below and above the estimate
    internal: (
        np.ndarray
    )  # (points,): the values in the coordinate that was stepped in (log for log parameters)
    slopes: np.ndarray  # (points,): d rise / d internal
    curvature: float  # d^2 rise / d internal^2 at the estimate by Fisher's information
    log: bool
    refits: int  # fits of the other unknowns that were made
    linearisations: int  # in all of them
    unit: str = ""  # of the quantity, where one was given
    remarks: tuple[Notice, ...] = ()  # why a side broke down, and other optima that fit as well

    @property
    def better(self) -> dict[str, float] | None:
        """Unknowns with a clearly lower objective than the fit's, if the profile met some: fit again from there."""
        lowest = int(np.argmin(self.rises))
        if self.rises[lowest] > -ProfileSettings.better:
            return None
        return {name: float(values[lowest]) for name, values in self.unknowns.items()}

    def threshold(self, level: float | None = None) -> float:
        """The rise that a confidence interval of this level may have."""
        return self.yardstick.rise(self.level if level is None else level)

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Confidence interval; the bound where that is met first, infinite where the data set no limit.

        NaN where the profile could not be followed. `level` may be at most that of the profile.
        """
        level = self.level if level is None else level
        limit = self.yardstick.rise(level) ** 0.5
        if level > self.level:
            raise InputError("inference.profile_level", self.name, reached=self.level, level=level)
        return self._end(limit, -1), self._end(limit, 1)

    def curve(self, points: int = 201) -> tuple[np.ndarray, np.ndarray]:
        """Values and rises on a fine grid: cubics in z between the computed points."""
        if len(self.values) < 2:
            return self.values, self.rises
        grid = np.linspace(self.internal[0], self.internal[-1], points)
        z = np.sign(self.internal - self.internal[self._centre]) * np.sqrt(np.maximum(self.rises, 0.0))
        steep = self._steepness(z)
        k = np.clip(np.searchsorted(self.internal, grid, side="right") - 1, 0, len(z) - 2)
        width = self.internal[k + 1] - self.internal[k]
        fine = cubic(
            (grid - self.internal[k]) / width, z[k], z[k + 1], width * steep[k], width * steep[k + 1]
        )
        return np.exp(grid) if self.log else grid, fine**2

    def parabola(self, points: int = 201) -> tuple[np.ndarray, np.ndarray] | None:
        """What Fisher's information takes the profile for, over the same values; None if it determines nothing."""
        if not self.curvature > 0:
            return None
        grid = np.linspace(self.internal[0], self.internal[-1], points)
        away = grid - self.internal[self._centre]
        rise = self.slopes[self._centre] * away + 0.5 * self.curvature * away**2
        return np.exp(grid) if self.log else grid, rise

    def _steepness(self, z: np.ndarray) -> np.ndarray:
        """dz/dc at every point; where z vanishes, from the chords beside it."""
        chord = np.diff(z) / np.diff(self.internal)
        beside = 0.5 * (np.append(chord, chord[-1]) + np.insert(chord, 0, chord[0]))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.abs(z) > 1e-3 * np.abs(z).max(), 0.5 * self.slopes / z, beside)

    def plot(self, path: str | Path | None = None) -> Figure:
        """The rise over the value, with the threshold and Fisher's parabola."""
        return picture(self, path)

    def _end(self, limit: float, side: int) -> float:
        """First place beside the estimate where z reaches the limit."""
        centre = self._centre
        order = np.arange(centre, len(self.values)) if side > 0 else np.arange(centre, -1, -1)
        reached = np.flatnonzero(self.rises[order] >= (1 - ProfileSettings.close) * limit**2)
        if len(reached) == 0:
            edge, endless = float(self.values[order[-1]]), 0.0 if self.log and side < 0 else side * np.inf
            return {End.BOUND: edge, End.AT_BOUND: edge, End.OPEN: endless}.get(self.ends[side > 0], np.nan)
        k = int(reached[0])
        if self.rises[order[k]] <= (1 + ProfileSettings.close) * limit**2 or k == 0:
            return float(self.values[order[k]])
        near, far = order[k - 1], order[k]
        c = cross(self.internal[[near, far]], self.rises[[near, far]], self.slopes[[near, far]], limit)
        return float(np.exp(c)) if self.log else c

    @property
    def _centre(self) -> int:
        return int(np.argmin(np.abs(self.values - self.estimate)))


@dataclass(frozen=True)
class Origin:
    """Where all profiles of a fit begin."""

    problem: Problem
    settled: Refit
    unit: float
    limit: float
    settings: ProfileSettings

    def march(self, name: str) -> tuple[March, Knot]:
        march = March(quantity(self.problem, name), self.unit, self.settled.value, self.limit, self.settings)
        return march, march.first(self.settled)


@dataclass(frozen=True)
class Side:
    """One side of a profile, from the estimate outwards."""

    values: np.ndarray  # (points,), internal
    rises: np.ndarray  # (points,)
    slopes: np.ndarray  # (points,)
    many_unknowns: np.ndarray  # (points, experiments, width)
    end: End
    refits: int = 0
    linearisations: int = 0


def profile(
    fit: Fit,
    name: str,
    level: float = 0.95,
    tools: Tools | None = None,
    follow: Callable[[Origin, tuple[str, int]], Side] | None = None,
) -> Profile:
    """The profile of an unknown or formula around a fit, followed to both ends of its interval of this level."""
    found = profiles(fit, [name], level, tools, follow)
    if not found:
        raise KeyboardInterrupt
    return found[name]


def profiles(
    fit: Fit,
    wanted: Sequence[str],
    level: float,
    tools: Tools | None = None,
    follow: Callable[[Origin, tuple[str, int]], Side] | None = None,
) -> dict[str, Profile]:
    """Profiles by name; the sides are tasks of their own. After Ctrl-C those of which at least one side is done.

    `follow`: computes one side, by default `follow_side`.
    """
    tools = tools or Tools()
    origin = _origin(fit, wanted, level)
    keys = {_key(name, sign): (name, sign) for name in wanted for sign in (-1, 1)}
    work = run_many(
        fit,
        partial(follow or follow_side, origin),
        keys,
        {"level": float(level)},
        tools,
        "sides of profiles",
        Written(_encoded, partial(_decoded, solution_of(fit).unknowns.shape)),
    )
    if work.failures and not work.results and not work.interrupted:
        reason = next(iter(work.failures.values())).rstrip(".")
        raise InputError("inference.no_profile", names=list(wanted), reason=reason)
    found = {}
    for name in wanted:
        own = [_key(name, sign) for sign in (-1, 1)]
        sides = [_done(work, key, solution_of(fit).unknowns.shape) for key in own]
        if not all(side.end is End.INTERRUPTED for side in sides):
            whole = _collect(fit, origin, name, sides, level)
            reasons = [work.failures[key] for key in own if key in work.failures]
            broken = [Notice("inference.profile_broke_down", name, {"reason": reason}) for reason in reasons]
            found[name] = replace(whole, remarks=(*broken, *_elsewhere(fit, name)))
    return found


def _elsewhere(fit: Fit, name: str) -> list[Notice]:
    """A notice when other starts found optima that are as good: a profile does not see them."""
    others = fit.rivals
    if not others:
        return []
    values = {
        other: value
        for other, value in others[0].parameters.items()
        if not isclose(value, fit.parameters[other], rel_tol=SameOptimum.least_difference)
    }
    code = "inference.another_optimum" if len(others) == 1 else "inference.other_optima"
    return [Notice(code, name, {"count": len(others), "values": values})]


def _origin(fit: Fit, wanted: Sequence[str], level: float) -> Origin:
    """Where the profiles begin; refuses what cannot be profiled."""
    if fit.solution is None or not fit.success:
        raise InputError("inference.profile_of_failed_fit", message=fit.message.rstrip("."))
    for name in wanted:
        quantity(fit.problem, name)
    unit, limit = fit.residual_variance, fit.yardstick.rise(level) ** 0.5
    if not (np.isfinite(unit) and unit > 0):
        raise InputError("inference.no_freedom")
    settings = ProfileSettings()
    with single_threaded():
        place = place_at(fit.problem, fit.solution)
        settled = (
            None
            if place is None
            else refit(refined(place, settings.resolution), unit, tolerance=settings.settled_estimate)
        )
    if settled is None:
        raise InputError("inference.profile_not_started", names=list(wanted))
    return Origin(fit.problem, settled, unit, limit, settings)


def follow_side(origin: Origin, task: tuple[str, int]) -> Side:
    """One side of the profile of one quantity."""
    name, sign = task
    march, middle = origin.march(name)
    knots, end = march.side(middle, sign)
    return Side(
        np.array([k.c for k in knots]),
        np.array([k.rise for k in knots]),
        np.array([k.slope for k in knots]),
        np.array([k.unknowns for k in knots]).reshape(-1, *middle.unknowns.shape),
        end,
        march.refits,
        march.linearisations,
    )


def _done(work: Work, key: int, shape: tuple[int, int]) -> Side:
    """A side of the work; one that is missing has no points."""
    end = End.FAILED if key in work.failures else End.INTERRUPTED
    return work.results.get(key, Side(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros((0, *shape)), end))


def _key(name: str, sign: int) -> int:
    """A number for a side that does not depend on what else is profiled, so that a ledger can get more of them."""
    return int(digest([name, sign])[:12], 16)


def _encoded(side: Side) -> dict[str, object]:
    return {**vars(side), "end": side.end.name}


def _decoded(shape: tuple[int, int], record: dict) -> Side:
    points = array(get(record, "values"), (None,), "values")
    rises, slopes = (array(get(record, key), (len(points),), key) for key in ("rises", "slopes"))
    many_unknowns = array(get(record, "many_unknowns"), (len(points), *shape), "many_unknowns")
    refits, linearisations = (get(record, key, int) for key in ("refits", "linearisations"))
    end = End[get(record, "end", str)]
    return Side(points, rises, slopes, many_unknowns, end, refits, linearisations)


def _collect(fit: Fit, origin: Origin, name: str, sides: Sequence[Side], level: float) -> Profile:
    below, above = sides
    march, middle = origin.march(name)
    held, layout, index = march.held, fit.problem.layout, middle.base.index
    internal = np.concatenate([below.values[::-1], [middle.c], above.values])
    many_unknowns = np.concatenate([below.many_unknowns[::-1], middle.unknowns[None], above.many_unknowns])
    natural = layout.natural(many_unknowns)[:, index[:, 0], index[:, 1]]
    return Profile(
        name=held.label,
        estimate=float(held.natural(layout, np.array(middle.c))),
        values=held.natural(layout, internal),
        rises=np.concatenate([below.rises[::-1], [middle.rise], above.rises]),
        unknowns={layout.label(e, c): natural[:, i] for i, (e, c) in enumerate(index)},
        level=level,
        yardstick=fit.yardstick,
        ends=(below.end, above.end),
        internal=internal,
        slopes=np.concatenate([below.slopes[::-1], [middle.slope], above.slopes]),
        curvature=middle.curvature,
        log=held.formula is None and bool(layout.log[held.place]),
        refits=below.refits + above.refits,
        linearisations=below.linearisations + above.linearisations,
        unit=units_of(fit.problem).get(held.label, ""),
    )
