"""Profile likelihood of typical values, noise levels and spreads of a population.

One coordinate is held, all others are optimised. The ends of the interval are where the objective -2 log L rises by the
quantile of chi-squared with one degree of freedom. A spread is a coordinate of its own if its effect comes first in its
group, so the group is reordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from picardfit.display.hook import shown
from picardfit.errors import InputError, Notice, closest
from picardfit.evidence.fisher import quantile
from picardfit.formulas.kernels import Array
from picardfit.inference.population.covariance import Covariance
from picardfit.inference.population.estimation import (
    Box,
    EstimationSettings,
    Optimum,
    box_of,
    spread_of_gradients,
    valued,
)
from picardfit.inference.population.objective import Evaluation, evaluate
from picardfit.inference.population.quasi_newton import minimise
from picardfit.inference.refits import Tools, run_many
from picardfit.parallel.ordered_map import Written
from picardfit.problem.json_values import array, get, number

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.inference.population.answer import PopulationFit


@dataclass(frozen=True)
class ProfileSteps:
    """How a profile is followed; chosen."""

    first: float = 1.9  # standard errors of the first step
    most: int = 12  # points on each side
    close: float = 0.02  # distance of the root of the rise from its target, relative
    longest: float = 2.5  # factor between the distances of one point and the next
    enough: float = 1e-5  # promised decrease of -log L at which the other coordinates are optimal


@shown
@dataclass(frozen=True)
class PopulationProfile:
    """The profile of one number, in natural units; `rises` are those of -2 log L."""

    name: str
    estimate: float
    values: np.ndarray  # (points,), ascending
    rises: np.ndarray  # (points,)
    level: float
    ends: tuple[
        float, float
    ]  # of the interval of this level: a bound that is reached first, infinite where open
    elsewhere: tuple[float, ...] = ()  # as of other profiles; a population has one optimum
    remarks: tuple[Notice, ...] = ()

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """The confidence interval, of at most the level of the profile."""
        if level is None or level == self.level:
            return self.ends
        if level > self.level:
            raise InputError("inference.profile_level", self.name, reached=self.level, level=level)
        root = np.sqrt(np.maximum(self.rises, 0.0)) * np.sign(self.values - self.estimate)
        limit = quantile(level, np.inf)
        low, high = np.interp([-limit, limit], root, self.values)
        return float(low), float(high)


def profile(
    fit: PopulationFit, name: str, level: float, steps: ProfileSteps = ProfileSteps()
) -> PopulationProfile:
    """The profile of a parameter `ka` or a spread `sd(ka)`."""
    if not fit.success or fit.optimum is None:
        raise InputError("inference.no_solution", ended=fit.status)
    known = list(fit.errors())
    if name not in known:
        raise InputError("inference.unknown_profile", name, known=known, close=closest(name, known))
    return _Profiled(fit, fit.optimum, name, level, steps).profile()


def profiles(
    fit: PopulationFit, names: Sequence[str], level: float, tools: Tools
) -> dict[str, PopulationProfile]:
    """Several profiles, on any executor; the same with each."""
    for name in names:
        if name not in fit.errors():
            raise InputError("inference.unknown_profile", name, known=list(fit.errors()))
    work = run_many(
        cast("Fit", fit),  # it has the face of a Fit
        partial(_one, fit, level),
        dict(enumerate(names)),
        {"names": list(names), "level": level},
        tools,
        "profiles",
        Written(_encoded, _decoded),
    )
    return {one.name: one for one in work.results.values()}


def _one(fit: PopulationFit, level: float, name: str) -> PopulationProfile:
    return profile(fit, name, level)


def _encoded(one: PopulationProfile) -> dict[str, object]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(one).items()
    }


def _decoded(record: Any) -> PopulationProfile:
    low, high = array(get(record, "ends"), (2,), "ends").tolist()
    return PopulationProfile(
        get(record, "name", str),
        number(get(record, "estimate"), "estimate"),
        array(get(record, "values"), (None,), "values"),
        array(get(record, "rises"), (None,), "rises"),
        number(get(record, "level"), "level"),
        (low, high),
    )


class _Profiled:
    """One profile."""

    def __init__(
        self, fit: PopulationFit, optimum: Optimum, name: str, level: float, steps: ProfileSteps
    ) -> None:
        self.name, self.level, self.steps, self.settings = name, level, steps, EstimationSettings()
        study = optimum.at.study
        width = study.setting.problem.layout.width
        names = [
            study.setting.problem.layout.names[k] for k in study.setting.problem.layout.column_parameters
        ]
        self.spread = name not in names
        self.study, self.point, self.column = study, optimum.at.point, width
        if self.spread:
            effect = study.covariance.names.index(name[3:-1])
            if effect in study.covariance.fixed:
                raise InputError("inference.profile_of_fixed", name)
            reordered = _reordered(study.covariance, effect)
            penalty = None if study.penalty is None else replace(study.penalty, covariance=reordered)
            self.study = replace(study, covariance=reordered, penalty=penalty)
            theta, coordinates = study.split(self.point)
            matrix = study.covariance.matrix(coordinates)
            self.point = np.concatenate([theta, self.study.covariance.coordinates(matrix)])
            own = [one.row == one.column == effect for one in self.study.covariance.entries]
            self.column += own.index(True)
        else:
            self.column = names.index(name)
        self.box = box_of(self.study, self.study.split(self.point)[0], self.settings)
        self.start = optimum.at if not self.spread else evaluate(self.study, self.point, None)
        error = fit.errors("fisher")[name]
        centre, step = float(self.point[self.column]), 1e-6
        slope = (self._natural(centre + step) - self._natural(centre - step)) / (2 * step)
        self.error = error / slope
        if not np.isfinite(self.error) or self.error <= 0:
            self.error = 0.3 * self.box.unit[self.column]

    def profile(self) -> PopulationProfile:
        centre = float(self.point[self.column])
        sides = {sign: self._side(sign) for sign in (-1, 1)}
        every = sorted([(centre, 0.0), *sides[-1][0], *sides[1][0]])
        values = np.array([self._natural(x) for x, _ in every])
        rises = np.array([rise for _, rise in every])
        ends = (sides[-1][1], sides[1][1])
        return PopulationProfile(self.name, self._natural(centre), values, rises, self.level, ends)

    def _natural(self, x: float) -> float:
        """A coordinate in natural units."""
        if self.spread:
            return float(np.exp(x))
        layout = self.study.setting.problem.layout
        every = np.tile(self.point[: layout.width], (len(layout.experiments), 1))
        every[:, self.column] = x
        return float(layout.natural(every)[0, self.column])

    def _side(self, sign: int) -> tuple[list[tuple[float, float]], float]:
        """Points (coordinate, rise) on one side, and the end of the interval there, in natural units."""
        centre, target = float(self.point[self.column]), quantile(self.level, np.inf)
        bound = float((self.box.upper if sign > 0 else self.box.lower)[self.column])
        limit = abs(bound - centre)
        near, distance, found = self.start, self.steps.first * self.error, [(0.0, 0.0)]
        matrix = None
        for _ in range(self.steps.most):
            distance = min(distance, limit)
            near, rise, matrix = self._held(centre + sign * distance, near, matrix)
            root = np.sqrt(max(rise, 0.0))
            found.append((distance, root))
            if abs(root - target) < self.steps.close * target:
                break
            if root < target and distance >= limit:
                natural = self._natural(bound)
                open_ = 0.0 if self.spread and sign < 0 else natural
                return self._points(found, centre, sign), open_
            distance = self._next(found, target)
        crossing = self._next(found, target) if found[-1][1] > 0 else np.inf
        return self._points(found, centre, sign), self._natural(centre + sign * min(crossing, limit))

    def _points(
        self, found: list[tuple[float, float]], centre: float, sign: int
    ) -> list[tuple[float, float]]:
        return [(centre + sign * distance, root**2) for distance, root in found[1:]]

    def _next(self, found: list[tuple[float, float]], target: float) -> float:
        """The distance where the root of the rise meets its target, by the secant through the points around it."""
        below = max((one for one in found if one[1] < target), key=lambda one: one[1])
        above = [one for one in found if one[1] >= target]
        if above:
            other = min(above, key=lambda one: one[1])
        else:
            others = [one for one in found if one != below]
            other = max(others, key=lambda one: one[1]) if others else below
        slope = (other[1] - below[1]) / (other[0] - below[0]) if other[0] != below[0] else 0.0
        ahead = below[0] + (target - below[1]) / slope if slope > 0 else np.inf
        farthest = max(one[0] for one in found)
        return float(min(ahead, self.steps.longest * farthest))

    def _held(self, value: float, near: Evaluation, matrix: Array | None) -> tuple[Evaluation, float, Array]:
        """The optimum of all other coordinates with this one held, and the rise of -2 log L."""
        lower, upper = self.box.lower.copy(), self.box.upper.copy()
        lower[self.column] = upper[self.column] = value
        point = near.point.copy()
        point[self.column] = value
        first = evaluate(self.study, point, near)
        box = Box(lower, upper, self.box.unit)
        if matrix is None:
            matrix = spread_of_gradients(self.start, box, self.settings.ridge)
        start = valued(first)
        found = minimise(
            lambda x, at: valued(evaluate(self.study, x, at)),
            start,
            matrix,
            box.bounds,
            box.unit,
            self.settings.outer,
            self.steps.enough,
            lambda *_: None,
        )
        return found.at.state, 2 * (found.at.value - self.start.value), found.matrix


def _reordered(covariance: Covariance, effect: int) -> Covariance:
    """The covariance with an effect first in its group."""
    groups = tuple(
        (effect, *(k for k in group if k != effect)) if effect in group else group
        for group in covariance.groups
    )
    return replace(covariance, groups=groups)
