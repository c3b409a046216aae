"""Tells the searches of one fit as they begin and end, and what the policy decides: the records of told.py."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from picardfit.problem.named_values import parameters_of
from picardfit.search.policy import Action, Evidence, Next, SearchPolicy
from picardfit.search.searches import Ending, Request, parts_of, start_at, undrawn
from picardfit.search.told import LOG, Contradicted, Origin, SearchBegins, decision, tell_ended


class Story:
    """Tells the searches of one fit; nothing is computed where nobody listens."""

    def __init__(self, request: Request, policy: SearchPolicy, told: Collection[int] = ()) -> None:
        self._request, self._policy = request, policy
        self._told = set(told)  # searches whose end has been told
        self._optima: set[int] = set()

    def decided(self, evidence: Evidence, action: Action, endings: Mapping[int, Ending]) -> None:
        """Tell how searches ended since the last decision, then this one."""
        if not LOG.isEnabledFor(logging.INFO):
            return
        for index in endings.keys() - self._told:
            tell_ended(self._request.problem, index, endings[index])
        self._told |= endings.keys()
        optima = {k for k, one in evidence.searches.items() if one.optimum is not None}
        for index in sorted(self._optima - optima):
            LOG.info(Contradicted(index + 1))
        self._optima = optima
        LOG.info(decision(evidence, action, self._policy))
        if action.what is Next.SEARCH and action.index not in evidence.searches:
            self._tell_begin(action.index, action.index in evidence.candidates)

    def _tell_begin(self, index: int, candidate: bool) -> None:
        request = self._request
        if candidate:
            LOG.info(SearchBegins(index + 1, Origin.CANDIDATE, {}))
            return
        part = parts_of(request, index + 1)[index]
        origin = Origin.DRAWN if index >= undrawn(request) else Origin.DATA
        if index == 0 and request.has_given:
            origin = Origin.GIVEN
        start = start_at(request, (index, part))
        LOG.info(SearchBegins(index + 1, origin, parameters_of(request.problem, start.unknowns)))
