"""Typical values to begin with, from fits without random effects, in which all individuals have the same values.

Candidates all over the bounds go downhill side by side, by shooting (search/rescue). Where several of them agree on the
best likelihood, they are the answer; otherwise searches on the Picard operator join in, one of them with values of its
own for every individual, and the marginal likelihood decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.problem.problem import Problem
from picardfit.search.estimate import estimate
from picardfit.search.rescue.relay import find_candidates
from picardfit.search.rescue.settings import Rescue
from picardfit.search.searches import Request, exact_method, parts_of, search
from picardfit.solvers.loop import is_exact

Judge = Callable[[Array], float]  # typical values -> the marginal objective with a first covariance


@dataclass(frozen=True)
class FirstStage:
    """How typical values are found; chosen."""

    agree: float = 0.1  # difference of log-likelihoods of two searches that count as one answer
    better: float = 2.0  # gain in log-likelihood from which on a user's start decides which optimum is meant
    agreeing: int = 3  # candidates that must agree on the best likelihood
    iterations: int = 60  # of each search on the Picard operator: a start need not be an optimum
    searches: int = 3  # of these, where the candidates do not agree
    individuals: int = 24  # that are fitted, evenly chosen: enough for a start, at a bounded cost
    judged: int = 4  # best optima whose marginal likelihood is computed
    rivals: int = 2  # other optima that are followed at most
    apart: float = 0.3  # largest difference of typical values, in their units, that counts as one optimum
    shooting: Rescue = field(
        default=Rescue(
            lead=None,
            candidates=64,
            lanes=16,
            experiments=1000,
            parents=2,
            finalists=16,
            patience=3,
            vain=0.0,
        )
    )


@dataclass(frozen=True)
class Beginning:
    """Typical values (width,) to begin with, and other ones that fit as well without random effects."""

    theta: Array
    rivals: tuple[Array, ...] = ()


@dataclass(frozen=True)
class _End:
    """Where a fit without random effects ended."""

    theta: Array  # (width,), in the order of the pooled problem's columns
    value: float  # -log-likelihood


def typical_start(
    request: Request, individual: Problem, index: int, judge: Judge, settings: FirstStage = FirstStage()
) -> Beginning | None:
    """Typical values in the order of the individual problem's columns; None where there are none.

    Of several optima that fit alike the one nearest to the middle of the bounds is taken, and the others are its
    rivals. A start that the user gives is followed where it leads to a clearly better fit: where both fit alike the
    answer must not depend on it. Later searches, with an index above 0, begin elsewhere and follow the likelihood.
    """
    request, individual = _some(_limited(request, settings.iterations), individual, settings.individuals)
    open_ = replace(request, given=np.full_like(request.given, np.nan))
    pooled, seed = request.problem, request.seed + index
    found = _shot(replace(open_, seed=seed), settings)
    own = _searched(request, [None]) if request.has_given else []
    best = min((one.value for one in found), default=np.inf)
    alike = [one for one in found if one.value < best + settings.agree]
    misled = any(one.value < best - settings.better for one in own)
    if len(alike) >= settings.agreeing and not misled:
        modes = _modes(pooled, alike, settings.apart)
        if index > 0:  # further starts follow further optima, good ones first
            worse = _modes(pooled, [*modes, *found], settings.apart, False)
            theta = worse[index % len(worse)].theta
            return Beginning(_ordered(pooled, individual, theta))
        first, *others = (_ordered(pooled, individual, one.theta) for one in modes)
        return Beginning(first, tuple(others[: settings.rivals]))
    further = _searched(open_, parts_of(open_, index + settings.searches)[index:])
    every = _modes(pooled, sorted([*found, *own, *further], key=lambda one: one.value), settings.apart, False)
    thetas = [_ordered(pooled, individual, one.theta) for one in every[: settings.judged]]
    chosen = _best([*thetas, *_medians(individual, open_)], judge)
    if chosen is None:
        chosen = _policy(open_, individual)
    return None if chosen is None else Beginning(chosen)


def _shot(request: Request, settings: FirstStage) -> list[_End]:
    """Candidates after going downhill side by side, best first."""
    problem = request.problem
    none = np.zeros((0, *request.given.shape))
    found = find_candidates(problem, request.given, request.seed, none, settings.shooting)
    if found.interrupted:
        raise KeyboardInterrupt
    return [
        _End(unknowns[0], float(value))
        for unknowns, value in zip(found.many_unknowns, found.values, strict=True)
    ]


def _searched(request: Request, parts: Sequence[Array | None]) -> list[_End]:
    """Searches on the Picard operator from these parts of the bounds."""
    ends = [search(request, (k, part)) for k, part in enumerate(parts)]
    return [_End(one.unknowns[0], one.value) for one in ends if one.unknowns is not None]


def _modes(problem: Problem, alike: Sequence[_End], apart: float, by_middle: bool = True) -> list[_End]:
    """One of each group of ends with nearly the same typical values; nearest to the middle of the bounds first.

    Without random effects some optima fit exactly alike: a drug absorbed fast and eliminated slowly, or the other way
    round. The bounds are what the user knows of which is meant.
    """
    layout = problem.layout
    with np.errstate(invalid="ignore"):
        middle, width = 0.5 * (layout.lower[0] + layout.upper[0]), layout.upper[0] - layout.lower[0]
    finite = np.isfinite(middle) & (width > 0) & ~layout.noise_columns

    def distance(one: _End) -> float:
        return float(np.sum(np.abs(one.theta - middle)[finite] / width[finite]))

    modes: list[_End] = []
    for one in sorted(alike, key=lambda one: round(distance(one), 3)) if by_middle else alike:
        unit = layout.unit(np.tile(one.theta, (len(layout.experiments), 1)))[0]
        gaps = [np.abs((one.theta - other.theta) / unit)[~layout.noise_columns] for other in modes]
        if all(gap.max(initial=0.0) > apart for gap in gaps):
            modes.append(one)
    return modes


def _some(request: Request, individual: Problem, most: int) -> tuple[Request, Problem]:
    """The request and the individual problem with about so many individuals; every observable is measured in some."""
    count = len(individual.experiments)
    if count <= most:
        return request, individual
    chosen = set(np.linspace(0, count - 1, most).round().astype(int).tolist())
    for name in individual.model.observables:
        measuring = [k for k, one in enumerate(individual.experiments) if name in one.observables]
        chosen |= set(measuring[:: max(1, len(measuring) // 3)][:3])
    order = sorted(chosen)
    fewer = [request.problem.experiments[k] for k in order]
    smaller = request.problem.with_experiments(fewer), individual.with_experiments(fewer)
    return replace(request, problem=smaller[0], given=request.given[order]), smaller[1]


def _best(thetas: Sequence[Array], judge: Judge) -> Array | None:
    """The typical values with the best marginal likelihood; None if none is finite."""
    values = [judge(one) for one in thetas]
    finite = [k for k, value in enumerate(values) if np.isfinite(value)]
    return thetas[min(finite, key=values.__getitem__)] if finite else None


def _limited(request: Request, iterations: int) -> Request:
    if not is_exact(request.method):
        return request
    method = exact_method(request)
    return replace(request, method=method.with_limit(iterations))


def _medians(individual: Problem, request: Request) -> list[Array]:
    """The median over individuals of values that each has for itself, by one search."""
    given = np.full(individual.layout.lower.shape, np.nan)
    found = search(replace(request, problem=individual, given=given), (0, None))
    return [] if found.unknowns is None else [np.asarray(np.median(found.unknowns, axis=0))]


def _policy(request: Request, individual: Problem) -> Array | None:
    """The best of the searches that the policy of every fit asks for."""
    found = estimate(request, None, None, False)
    if found.solution is None:
        return None
    return _ordered(request.problem, individual, found.solution.unknowns[0])


def _ordered(pooled: Problem, individual: Problem, unknowns: Array) -> Array:
    """Unknowns of the pooled problem in the order of the individual one's columns."""
    place = {k: c for c, k in enumerate(pooled.layout.column_parameters)}
    return np.array([unknowns[place[k]] for k in individual.layout.column_parameters])
