"""Typical values to begin with: all individuals together without random effects, or each with values of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.problem.problem import Problem
from picardfit.search.estimate import estimate
from picardfit.search.searches import Ending, Request, exact_method, parts_of, search
from picardfit.solvers.loop import is_exact

Judge = Callable[[Array], float]  # typical values -> the marginal objective with a first covariance


@dataclass(frozen=True)
class FirstStage:
    """How typical values are found; chosen."""

    agree: float = 0.1  # difference of log-likelihoods of two searches that count as one answer
    better: float = 2.0  # gain in log-likelihood from which on a user's start decides which optimum is meant
    iterations: int = 120  # of each search: a start need not be an optimum
    searches: int = 4  # without random effects, from different starts
    individuals: int = 60  # that these searches use, evenly chosen: enough for a start, at a bounded cost


def typical_start(
    request: Request, individual: Problem, index: int, judge: Judge, settings: FirstStage = FirstStage()
) -> Array | None:
    """(width,): typical values in the order of the individual problem's columns; None where there are none.

    Searches without random effects that agree on the best likelihood are the answer, and of several optima that fit
    alike the one nearest to the middle of the bounds. Otherwise the marginal likelihood decides between them and a
    search in which each individual has values of its own. A start that the user gives is followed where it leads to a
    clearly better fit: where both fit alike the answer must not depend on it. Later starts, with an index above 0,
    begin elsewhere.
    """
    request, individual = _some(_limited(request, settings.iterations), individual, settings.individuals)
    open_ = replace(request, given=np.full_like(request.given, np.nan))
    if index > 0:
        drawn = parts_of(open_, index + 2)[index + 1]
        elsewhere = _theta(request.problem, individual, search(open_, (index + 1, drawn)))
        return elsewhere if elsewhere is not None and np.isfinite(judge(elsewhere)) else None
    found = [search(open_, (k, part)) for k, part in enumerate(parts_of(open_, settings.searches))]
    own = search(request, (0, None)) if request.has_given else None
    best = min((one.value for one in found if one.status.success), default=np.inf)
    alike = [one for one in found if one.status.success and one.value < best + settings.agree]
    if len(alike) > 1 and (own is None or not own.value < best - settings.better):
        return _theta(request.problem, individual, _nearest(request.problem, alike))
    candidates = found if own is None else [*found, own]
    thetas = [_theta(request.problem, individual, one) for one in candidates]
    thetas.append(_medians(individual, request))
    chosen = _best([one for one in thetas if one is not None], judge)
    return _policy(open_, individual) if chosen is None else chosen


def _nearest(problem: Problem, alike: list[Ending]) -> Ending:
    """The one whose values are nearest to the middle of their bounds.

    Without random effects some optima fit exactly alike: a drug absorbed fast and eliminated slowly, or the other way
    round. The bounds are what the user knows of which is meant.
    """
    layout = problem.layout
    with np.errstate(invalid="ignore"):
        middle, width = 0.5 * (layout.lower[0] + layout.upper[0]), layout.upper[0] - layout.lower[0]
    finite = np.isfinite(middle) & (width > 0) & ~layout.noise_columns

    def distance(one: Ending) -> float:
        assert one.unknowns is not None
        return float(np.sum(np.abs(one.unknowns[0] - middle)[finite] / width[finite]))

    return min(alike, key=lambda one: round(distance(one), 3))


def _some(request: Request, individual: Problem, most: int) -> tuple[Request, Problem]:
    """The request and the individual problem with at most so many individuals."""
    count = len(individual.experiments)
    if count <= most:
        return request, individual
    chosen = np.unique(np.linspace(0, count - 1, most).round().astype(int))
    fewer = [request.problem.experiments[k] for k in chosen]
    smaller = request.problem.with_experiments(fewer), individual.with_experiments(fewer)
    return replace(request, problem=smaller[0], given=request.given[chosen]), smaller[1]


def _best(thetas: list[Array], judge: Judge) -> Array | None:
    """The typical values with the best marginal likelihood; None if none is finite."""
    values = [judge(one) for one in thetas]
    finite = [k for k, value in enumerate(values) if np.isfinite(value)]
    return thetas[min(finite, key=values.__getitem__)] if finite else None


def _limited(request: Request, iterations: int) -> Request:
    if not is_exact(request.method):
        return request
    method = exact_method(request)
    return replace(request, method=method.with_limit(iterations))


def _medians(individual: Problem, request: Request) -> Array | None:
    """The median over individuals of values that each has for itself, by one search."""
    given = np.full(individual.layout.lower.shape, np.nan)
    found = search(replace(request, problem=individual, given=given), (0, None))
    return None if found.unknowns is None else np.asarray(np.median(found.unknowns, axis=0))


def _policy(request: Request, individual: Problem) -> Array | None:
    """The best of the searches that the policy of every fit asks for."""
    found = estimate(request, None, None, False)
    if found.solution is None:
        return None
    return _ordered(request.problem, individual, found.solution.unknowns[0])


def _theta(pooled: Problem, individual: Problem, found: Ending) -> Array | None:
    return None if found.unknowns is None else _ordered(pooled, individual, found.unknowns[0])


def _ordered(pooled: Problem, individual: Problem, unknowns: Array) -> Array:
    """Unknowns of the pooled problem in the order of the individual one's columns."""
    place = {k: c for c, k in enumerate(pooled.layout.column_parameters)}
    return np.array([unknowns[place[k]] for k in individual.layout.column_parameters])
