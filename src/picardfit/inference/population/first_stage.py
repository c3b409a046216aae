"""Typical values to begin with: all individuals together, without random effects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.problem.problem import Problem
from picardfit.search.estimate import estimate
from picardfit.search.searches import Ending, Request, parts_of, search


@dataclass(frozen=True)
class FirstStage:
    """When two searches without random effects are taken as one answer; chosen."""

    agree: float = 0.1  # difference of their log-likelihoods
    better: float = 0.5  # gain in log-likelihood from which on a user's start decides which optimum is meant


def typical_start(request: Request, index: int, settings: FirstStage = FirstStage()) -> Array | None:
    """(width,): typical values of the problem without random effects; None where no search found any.

    The first start is the best that two searches agree on. A start that the user gives is tried as well, and followed
    where it leads to a clearly better fit: where both fit alike the answer must not depend on it. Later starts, with an
    index above 0, begin elsewhere.
    """
    if index > 0:
        found = search(request, (index, parts_of(request, index + 1)[index]))
        return None if found.unknowns is None else found.unknowns[0]
    open_ = replace(request, given=np.full_like(request.given, np.nan))
    drawn = parts_of(open_, 2)[1]
    first, second = search(open_, (0, None)), search(open_, (1, drawn))
    best = first
    agreed = first.status.success and second.status.success
    if not agreed or abs(first.value - second.value) > settings.agree:
        best = _policy(open_, min((first, second), key=lambda one: one.rank(0)), settings)
    if request.has_given:
        own = search(request, (0, None))
        if own.unknowns is not None and own.value < best.value - settings.better:
            best = own
    return None if best.unknowns is None else best.unknowns[0]


def _policy(request: Request, so_far: Ending, settings: FirstStage) -> Ending:
    """The best of the searches that the policy of every fit asks for."""
    found = estimate(request, None, None, False)
    if found.solution is None:
        return so_far
    value = float(found.solution.point.data)
    if so_far.unknowns is not None and so_far.value <= value + settings.agree:
        return so_far
    return replace(so_far, status=found.status, value=value, unknowns=found.solution.unknowns)


def theta_of(pooled: Problem, individual: Problem, unknowns: Array) -> Array:
    """Unknowns of the pooled problem in the order of the individual one's columns."""
    place = {k: c for c, k in enumerate(pooled.layout.column_parameters)}
    return np.array([unknowns[place[k]] for k in individual.layout.column_parameters])
