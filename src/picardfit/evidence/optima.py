"""Which of many searches found the same optimum.

Two of them did when their losses are equal and their unknowns differ by a small part of a standard error. Unknowns
that the data do not determine are left out of the comparison: they end anywhere, and would make one flat optimum look
like hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from picardfit.errors import Status
from picardfit.evidence.fisher import Information, information
from picardfit.problem.least_squares import LeastSquares
from picardfit.problem.named_values import unknowns_from
from picardfit.problem.problem import Problem
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class SameOptimum:
    """When two searches found the same optimum, and when another one fits as well."""

    distance: float = (
        0.1  # standard errors, in the metric of the Fisher information, between two sights of one optimum
    )
    objective: float = 0.01  # difference of the objectives of one optimum, in units of the residual variance
    vicinity: float = 0.2  # standard errors from an optimum within which a search has come to it
    in_vicinity: float = 0.1  # and the difference of the objectives there, in units of the residual variance
    nearly_closed: float = 1e-2  # largest jump of such a search, relative to the states' scale
    as_good: float = 1.92  # of another optimum that fits as well: half the 95 % quantile of chi-square(1)
    elsewhere: float = 5.0  # standard errors between values of an unknown that are clearly different
    least_difference: float = 1e-3  # relative difference of values that is worth mentioning
    exact: float = (
        1e-10  # sum of squares, relative to that of the data, that counts as none: data without noise
    )
    rounding: float = 1e-7  # relative difference of the objectives that the tolerance of a search leaves
    direction: float = 1e-6  # part of the longest direction that counts as none: rounding


DEFAULT = SameOptimum()


@dataclass(frozen=True)
class SearchSummary:
    """How one of the searches of a fit ended."""

    start: int  # index of its starting point: 0 is that of the first search
    loss: float  # what was minimised, as `Fit.objective`
    status: Status
    iterations: int
    seconds: float
    parameters: dict[str, float]
    cluster: int | None = None  # which of `fit.optima` it reached; None when it did not converge
    initial: dict[str, float] | None = None  # estimated initial states by label, where it reached an optimum


@dataclass(frozen=True)
class Optimum:
    """An optimum that one or more starts reached; the best comes first in `fit.optima`."""

    loss: float
    count: int  # starts that ended here
    start: int  # the best of them
    parameters: dict[str, float]  # as that one found them
    varying: dict[
        str, tuple[float, float]
    ]  # smallest and largest value of those that differ between the starts
    initial: dict[str, float] = field(default_factory=dict)  # estimated initial states, by label

    @property
    def flat(self) -> bool:
        """Whether the data leave parameters open here: other values fit as well."""
        return bool(self.varying)


def clusters(
    best: Solution,
    value: float,
    found: Mapping[int, tuple[float, np.ndarray]],
    same: SameOptimum = DEFAULT,
) -> dict[int, int]:
    """Number of the optimum (0 is the best) of each start, from its (objective, unknowns).

    `best`, `value`: the best solution and its objective.
    """
    problem = best.system.problem
    metric = _Metric(best, information(best, everything=True), _variance(problem, value))
    numbers: dict[int, int] = {}
    heads: list[tuple[float, np.ndarray]] = []
    for start in sorted(found, key=lambda k: (found[k][0], k)):
        objective, unknowns = found[start]
        place = metric.coordinates(unknowns)

        def is_same(head: tuple[float, np.ndarray], objective=objective, place=place) -> bool:
            least, other = head
            variance = _variance(problem, least)
            near = np.sum((place - other) ** 2) <= same.distance**2 * variance
            return near and objective - least <= same.objective * variance

        number = next((k for k, head in enumerate(heads) if is_same(head)), len(heads))
        if number == len(heads):
            heads.append((objective, place))
        numbers[start] = number
    return numbers


class Vicinity:
    """The neighbourhood of an optimum, in which a search that has not converged yet has come to it.

    That is known at about half of the work of a search, as the rest of it only makes the optimum more exact. A path
    with a smaller objective is no sign of the optimum: its jumps are still open, or there is a better one.
    """

    def __init__(self, best: Solution, value: float, same: SameOptimum = DEFAULT) -> None:
        problem = best.system.problem
        self._value, self._variance, self._same = value, _variance(problem, value), same
        self._metric = _Metric(best, information(best, everything=True), self._variance)
        self._place = self._metric.coordinates(best.unknowns)
        layout, columns = problem.layout, self._metric.columns
        self._of_model = (columns >= len(layout.initial_states)) & ~layout.noise_columns[columns]

    @property
    def is_plateau(self) -> bool:
        """Whether there are unknown parameters of the model and the data determine none of them there.

        Curves that no parameter moves are no optimum of the equations; searches agree on them wherever they are.
        """
        return bool(self._of_model.any()) and not (self._metric.determined & self._of_model).any()

    def is_near(self, unknowns: np.ndarray) -> bool:
        """Whether unknowns (experiments, width) are within a part of a standard error of the optimum."""
        distance = np.sum((self._metric.coordinates(unknowns) - self._place) ** 2)
        return bool(distance <= self._same.vicinity**2 * self._variance)

    def is_as_good(self, value: float) -> bool:
        """Whether an objective is that of the optimum, or little more."""
        excess = (value - self._value) / self._variance
        return -self._same.objective <= excess <= self._same.in_vicinity


def unknowns_at(problem: Problem, optimum: Optimum) -> np.ndarray:
    """(experiments, width): the unknowns of an optimum, in internal coordinates."""
    layout = problem.layout
    initial: dict[str, dict[str, float]] = {name: {} for name in problem.names}
    for e, column in np.argwhere(layout.exists[:, : len(layout.initial_states)]):
        state = layout.states[layout.initial_states[column]]
        initial[problem.names[e]][state] = optimum.initial[layout.label(e, column)]
    return unknowns_from(problem, optimum.parameters, initial)


def count_hits(starts: Sequence[SearchSummary]) -> int:
    """How many of the starts reached the best optimum."""
    return sum(one.cluster == 0 for one in starts)


def unseen_share(searches: Sequence[SearchSummary]) -> float:
    """The part of the starting points that leads to optima which no search has found, by Good and Turing's estimate.

    That is the number of optima found once over the number of searches that converged; 0 where every optimum was found
    twice, 1 where nothing is known.
    """
    found = [one.cluster for one in searches if one.cluster is not None]
    return sum(found.count(one) == 1 for one in found) / len(found) if found else 1.0


def same_value(problem: Problem, value: float, same: SameOptimum = DEFAULT) -> float:
    """Difference of the objectives up to which two values are those of one optimum."""
    return same.objective * _variance(problem, value)


def margin_as_good(problem: Problem, loss: float, same: SameOptimum = DEFAULT) -> float:
    """Difference of the losses (`Fit.objective`) up to which the data cannot tell an optimum from the best one.

    A negative log-likelihood has no unit; a sum of squares has that of its residuals, whose variance is estimated as
    2 loss / (measurements - unknowns). Zero where no measurement is left to estimate it from.
    """
    if not isinstance(problem.objective, LeastSquares):
        return same.as_good
    freedom = problem.measurements - problem.layout.count()
    return same.as_good * 2 * loss / freedom if freedom > 0 else 0.0


def optima_of(starts: Sequence[SearchSummary], errors: Mapping[str, float]) -> tuple[Optimum, ...]:
    """The optima that clustered starts reached; `errors`: standard errors by name."""
    members: dict[int, list[SearchSummary]] = {}
    for one in starts:
        if one.cluster is not None:
            members.setdefault(one.cluster, []).append(one)
    return tuple(_optimum(members[number], errors) for number in sorted(members))


def _optimum(members: Sequence[SearchSummary], errors: Mapping[str, float]) -> Optimum:
    best = min(members, key=lambda one: (one.loss, one.start))
    varying = {}
    for name in best.parameters:
        values = [one.parameters[name] for one in members]
        low, high = min(values), max(values)
        error = errors.get(name, np.nan)
        slack = 2 * DEFAULT.distance * error if np.isfinite(error) else 0.0
        if high - low > max(slack, DEFAULT.least_difference * max(abs(low), abs(high))):
            varying[name] = (low, high)
    return Optimum(best.loss, len(members), best.start, best.parameters, varying, best.initial or {})


class _Metric:
    """Distances over the unknowns that are determined, in standard errors for residuals of variance 1.

    The others may follow freely: with H = L L' the information, the square of a distance d is the least of
    |L'(d, x)|^2 over them, so that L'(d, 0) loses its part in the span of L'(0, x).
    """

    def __init__(self, best: Solution, found: Information, variance: float) -> None:
        self._at, self._found = tuple(found.index.T), found
        sizes = best.system.problem.layout.size(best.unknowns)[self._at]
        self.determined = np.sqrt(variance * found.variances()) <= sizes  # (unknowns,)
        self.columns = found.index[:, 1]  # (unknowns,)
        if not found.arrow.finite:
            return
        arrow, (own, shared) = found.arrow, found.arrow.split(~self.determined)
        images = found.inverse.own_half @ (np.eye(own.shape[1]) * own[:, None, :])
        self._own_span = _span(images)
        self._span = np.zeros((0, 0))
        if shared.any():
            nothing, units = np.zeros_like(own, float), np.eye(len(shared))[shared]
            self._span = _span(
                np.stack([self._without_own(arrow.join(nothing, unit)) for unit in units], axis=1)
            )

    def coordinates(self, unknowns: np.ndarray) -> np.ndarray:
        """Coordinates in which distances are plain."""
        if not self._found.arrow.finite:
            return np.zeros(0)
        place = self._without_own(np.where(self.determined, unknowns[self._at], 0.0))
        return place - self._span @ (self._span.T @ place) if self._span.size else place

    def _without_own(self, vector: np.ndarray) -> np.ndarray:
        """L' of a vector, without what the undetermined unknowns of single experiments can follow."""
        own, shared = self._found.inverse.coordinates(self._found.arrow @ vector)
        own = own[..., None] - self._own_span @ (self._own_span.transpose(0, 2, 1) @ own[..., None])
        return np.concatenate([own.ravel(), shared])


def _span(columns: np.ndarray) -> np.ndarray:
    """Orthonormal columns of the same span, 0 for those that add nothing: (..., rows, columns)."""
    vectors, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return (
        vectors * (sizes > DEFAULT.direction * sizes.max(initial=0.0, axis=-1, keepdims=True))[..., None, :]
    )


def _variance(problem: Problem, value: float) -> float:
    """Variance of one residual at an optimum, not smaller than rounding allows; 1 for a likelihood."""
    if not isinstance(problem.objective, LeastSquares):
        return 1.0
    freedom = max(problem.measurements - problem.layout.count(), 1)
    least = DEFAULT.exact * float(np.nansum(problem.samples.data**2)) / problem.measurements
    return max(2 * value / freedom, least, np.finfo(float).tiny)
