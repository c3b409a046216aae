"""Profile likelihood: how the best objective rises when one unknown, or a formula, is fixed away from its estimate.

With c the fixed value, F(c) the lowest objective there and `unit` what one unit of variance costs (the residual
variance for least squares, 1 for a likelihood), z(c) = sign(c - estimate) sqrt(2 (F(c) - F_min) / unit) is compared
with a quantile: Student's t when the variance is estimated from the residuals (then 2 (F - F_min) / unit is compared
with the quantile of the F distribution, which is exact for linear models), else the normal one (chi-squared); see
Yardstick for likelihoods that estimate their noise levels.
z is a straight line where Fisher's interval is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import picture, shown
from picardfit.errors import InputError, Notice
from picardfit.evidence.event_kinks import held_at, kink_at
from picardfit.evidence.fisher import Yardstick
from picardfit.evidence.optima import unknowns_at
from picardfit.inference.profile_continuation import (
    DEFAULT,
    Branch,
    Continuation,
    End,
    Origin,
    ProfileSettings,
    cross,
    cubic,
    follow_branch,
)
from picardfit.inference.refits import Tools, named_unknowns, run_many, solution_of
from picardfit.model.scales import Scales
from picardfit.parallel.ordered_map import Work, Written, single_threaded
from picardfit.problem.derived import derived_units
from picardfit.problem.json_values import array, get
from picardfit.problem.named_values import units_of
from picardfit.problem.quantity import quantity
from picardfit.problem.serialisation import digest
from picardfit.solvers.refit import expansion_at, refined, refit

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
    level: float  # of the interval up to whose ends it was followed
    yardstick: Yardstick  # how far an interval reaches
    ends: tuple[End, End]  # below and above the estimate
    internal: np.ndarray  # (points,): the values in the coordinate of the steps, which has this `scale`
    slopes: np.ndarray  # (points,): d rise / d internal
    curvature: float  # d^2 rise / d internal^2 at the estimate by Fisher's information
    scale: Scales  # that of the steps
    refits: int  # of the other unknowns, in total
    linearisations: int  # in all refits
    unit: str = ""  # of the quantity, where one was given
    elsewhere: tuple[float, ...] = ()  # values in other optima that fit as well, beyond the interval
    remarks: tuple[Notice, ...] = ()  # why a branch broke down, and that there are values elsewhere
    settings: ProfileSettings = field(default=DEFAULT, repr=False)

    @property
    def better(self) -> dict[str, float] | None:
        """Unknowns with a clearly lower objective than the fit's, if the profile found some: fit again from there."""
        lowest = int(np.argmin(self.rises))
        if self.rises[lowest] > -self.settings.better:
            return None
        return {name: float(values[lowest]) for name, values in self.unknowns.items()}

    def threshold(self, level: float | None = None) -> float:
        """The rise at the ends of a confidence interval of this level."""
        return self.yardstick.rise(self.level if level is None else level)

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Confidence interval; ends at a bound that is reached first, infinite where the data set no limit.

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
        s = (grid - self.internal[k]) / width
        fine = cubic(s, z[k], z[k + 1], width * steep[k], width * steep[k + 1])
        return self.scale.natural(grid), fine**2

    def parabola(self, points: int = 201) -> tuple[np.ndarray, np.ndarray] | None:
        """Fisher's quadratic model of the profile over the same values; None if the information is zero."""
        if not self.curvature > 0:
            return None
        grid = np.linspace(self.internal[0], self.internal[-1], points)
        away = grid - self.internal[self._centre]
        rise = self.slopes[self._centre] * away + 0.5 * self.curvature * away**2
        return self.scale.natural(grid), rise

    def _steepness(self, z: np.ndarray) -> np.ndarray:
        """dz/dc at every point; where z vanishes, the mean of the neighbouring chords."""
        chord = np.diff(z) / np.diff(self.internal)
        beside = 0.5 * (np.append(chord, chord[-1]) + np.insert(chord, 0, chord[0]))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.abs(z) > 1e-3 * np.abs(z).max(), 0.5 * self.slopes / z, beside)

    def plot(self, path: str | Path | None = None) -> Figure:
        """The rise over the value, with the threshold and Fisher's parabola."""
        return picture(self, path)

    def _end(self, limit: float, sign: int) -> float:
        """The first value below (-1) or above (+1) the estimate at which z reaches the limit."""
        centre = self._centre
        order = np.arange(centre, len(self.values)) if sign > 0 else np.arange(centre, -1, -1)
        reached = np.flatnonzero(self.rises[order] >= (1 - self.settings.close) * limit**2)
        if len(reached) == 0:
            edge, endless = (
                float(self.values[order[-1]]),
                0.0 if self.scale.log and sign < 0 else sign * np.inf,
            )
            return {End.BOUND: edge, End.AT_BOUND: edge, End.OPEN: endless}.get(self.ends[sign > 0], np.nan)
        k = int(reached[0])
        if self.rises[order[k]] <= (1 + self.settings.close) * limit**2 or k == 0:
            return float(self.values[order[k]])
        near, far = order[k - 1], order[k]
        c = cross(self.internal[[near, far]], self.rises[[near, far]], self.slopes[[near, far]], limit)
        return float(self.scale.natural(c))

    @property
    def _centre(self) -> int:
        return int(np.argmin(np.abs(self.values - self.estimate)))


def profile(
    fit: Fit,
    name: str,
    level: float = 0.95,
    tools: Tools | None = None,
    follow: Callable[[Origin, tuple[str, int]], Branch] = follow_branch,
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
    follow: Callable[[Origin, tuple[str, int]], Branch] = follow_branch,
    settings: ProfileSettings = DEFAULT,
) -> dict[str, Profile]:
    """Profiles by name; every branch is a task. After Ctrl-C those of which at least one branch is finished.

    `follow` computes one branch.
    """
    origin = _origin(fit, wanted, level, settings)
    shape = solution_of(fit).unknowns.shape
    work = run_many(
        fit,
        partial(follow, origin),
        {_key(name, sign): (name, sign) for name in wanted for sign in (-1, 1)},
        {"level": float(level)},
        tools or Tools(),
        "sides of profiles",
        Written(_encoded, partial(_decoded, shape)),
    )
    if work.failures and not work.results and not work.interrupted:
        reason = next(iter(work.failures.values()))
        raise InputError("inference.no_profile", names=list(wanted), reason=reason)
    found = {}
    for name in wanted:
        keys = [_key(name, sign) for sign in (-1, 1)]
        below, above = (_branch(work, key, shape) for key in keys)
        if below.end is End.INTERRUPTED and above.end is End.INTERRUPTED:
            continue
        reasons = [work.failures[key] for key in keys if key in work.failures]
        broken = [Notice("inference.profile_broke_down", name, {"reason": reason}) for reason in reasons]
        joined = _joined(fit, Continuation(origin, name), below, above, level)
        elsewhere = _elsewhere(fit, joined, level)
        found[name] = replace(joined, elsewhere=elsewhere, remarks=(*broken, *_told(name, elsewhere)))
    return found


def _elsewhere(fit: Fit, found: Profile, level: float) -> tuple[float, ...]:
    """Values in other optima that the searches found, as good as this level asks, beyond the interval.

    The lowest objective at such a value is at most that of its optimum, so that the confidence set holds it too.
    """
    layout, asked = fit.problem.layout, quantity(fit.problem, found.name)
    below, above = found.interval(level)
    low = found.values[0] if np.isnan(below) else below
    high = found.values[-1] if np.isnan(above) else above
    beyond = []
    for one in fit.optima[1:]:
        rise = 2 * (one.loss - fit.optima[0].loss) / fit.residual_variance
        if rise <= fit.yardstick.rise(level):
            value = float(asked.natural(layout, np.array(asked.value(layout, unknowns_at(fit.problem, one)))))
            beyond += [value] if not low <= value <= high and np.isfinite(value) else []
    return tuple(beyond)


def _told(name: str, elsewhere: tuple[float, ...]) -> list[Notice]:
    """A notice of values elsewhere, which a profile does not reach."""
    if not elsewhere:
        return []
    code = "inference.another_optimum" if len(elsewhere) == 1 else "inference.other_optima"
    return [Notice(code, name, {"count": len(elsewhere), "values": {name: elsewhere[0]}})]


def _origin(fit: Fit, wanted: Sequence[str], level: float, settings: ProfileSettings) -> Origin:
    """The settled estimate from which the profiles start; refuses what cannot be profiled."""
    if fit.solution is None or not fit.success:
        raise InputError("inference.profile_of_failed_fit", ended=fit.conclusion)
    for name in wanted:
        quantity(fit.problem, name)
    unit, limit = fit.residual_variance, fit.yardstick.rise(level) ** 0.5
    if not (np.isfinite(unit) and unit > 0):
        raise InputError("inference.no_freedom")
    with single_threaded():
        at = None if fit.problem.timed is None else kink_at(fit.solution)
        held = None if at is None else held_at(fit.solution, at)
        if held is not None and held.is_minimum:
            return Origin(held.lower, unit, limit, held.kink.happenings, settings)
        settled, expansion = None, expansion_at(fit.problem, fit.solution)
        if expansion is not None:
            expansion = refined(expansion, settings.resolution)
            settled = refit(expansion, unit, tolerance=settings.settled_estimate)
    if settled is None:
        raise InputError("inference.profile_not_started", names=list(wanted))
    return Origin(settled, unit, limit, settings=settings)


def _branch(work: Work, key: int, shape: tuple[int, int]) -> Branch:
    """A branch of the work; one that is missing has no points."""
    end, nothing = End.FAILED if key in work.failures else End.INTERRUPTED, np.zeros(0)
    return work.results.get(key, Branch(nothing, nothing, nothing, np.zeros((0, *shape)), end))


def _key(name: str, sign: int) -> int:
    """The number of a branch in a ledger, whatever else is profiled, so that more names may follow later."""
    return int(digest([name, sign])[:12], 16)


def _encoded(branch: Branch) -> dict[str, object]:
    return {**vars(branch), "end": branch.end.name}


def _decoded(shape: tuple[int, int], record: dict) -> Branch:
    points = array(get(record, "values"), (None,), "values")
    rises, slopes = (array(get(record, key), (len(points),), key) for key in ("rises", "slopes"))
    many_unknowns = array(get(record, "many_unknowns"), (len(points), *shape), "many_unknowns")
    refits, linearisations = (get(record, key, int) for key in ("refits", "linearisations"))
    end = End[get(record, "end", str)]
    return Branch(points, rises, slopes, many_unknowns, end, refits, linearisations)


def _joined(fit: Fit, continuation: Continuation, below: Branch, above: Branch, level: float) -> Profile:
    """The profile of both branches and the estimate between them."""
    estimate, label = continuation.estimate, continuation.quantity.label
    internal = np.concatenate([below.values[::-1], [estimate.c], above.values])
    many_unknowns = np.concatenate([below.many_unknowns[::-1], estimate.unknowns[None], above.many_unknowns])
    values = continuation.quantity.natural(fit.problem.layout, internal)
    return Profile(
        name=label,
        estimate=float(values[len(below.values)]),
        values=values,
        rises=np.concatenate([below.rises[::-1], [estimate.rise], above.rises]),
        unknowns=named_unknowns(fit.problem, many_unknowns),
        level=level,
        yardstick=fit.yardstick,
        ends=(below.end, above.end),
        internal=internal,
        slopes=np.concatenate([below.slopes[::-1], [estimate.slope], above.slopes]),
        curvature=estimate.curvature,
        scale=continuation.scale,
        refits=below.refits + above.refits,
        linearisations=below.linearisations + above.linearisations,
        unit={**units_of(fit.problem), **derived_units(fit.problem)}.get(label, ""),
        settings=continuation.settings,
    )
