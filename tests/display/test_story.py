"""The words in which a fit tells what it does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from picardfit.errors import Status
from picardfit.search.policy import Next
from picardfit.search.told import Contradicted, Decision, Origin, SearchBegins, SearchEnded, SearchesBegin

SEARCH = Decision(
    what=Next.SEARCH,
    search=3,
    goes_on=False,
    ended=2,
    waiting=0,
    agreeing=1,
    needed=2,
    others=0,
    at_bound=False,
    contradicted=False,
    plateau=False,
    certified=False,
    rescued=False,
    asked=False,
)


@pytest.mark.parametrize(
    "record, words",
    [
        (
            SearchBegins(2, Origin.DRAWN, {"a": 0.5, "b": 2.0}),
            "search 2 begins at values drawn between the bounds: a 0.5, b 2",
        ),
        (SearchBegins(9, Origin.CANDIDATE, {}), "search 9 begins at the best of the simulated candidates"),
        (
            SearchBegins(1, Origin.DATA, {f"p{k}": 1.0 for k in range(10)}),
            "search 1 begins where data and bounds suggest: "
            "p0 1, p1 1, p2 1, p3 1, p4 1, p5 1, p6 1, p7 1, and 2 more",
        ),
        (
            SearchesBegin(20, 3),
            "20 searches begin: the first where data and bounds suggest, the others at values "
            "drawn between the bounds; 3 of them are in the ledger already",
        ),
        (
            SearchEnded(1, Status.CONVERGED, 9, 14.16, 0.25),
            "search 1 converged after 9 iterations and 0.25 s: loss 14.16",
        ),
        (
            SearchEnded(2, Status.ARRIVED, 1, 14.16, 0.25, arrived_at=1),
            "search 2 arrived after 1 iteration and 0.25 s at the optimum that search 1 had found",
        ),
        (
            Contradicted(4),
            "an independent integration contradicts the optimum of search 4, which no longer counts",
        ),
        (replace(SEARCH, ended=0, agreeing=0), "a first search"),
        (SEARCH, "another search: 1 of 2 searches that must agree found the best optimum"),
        (
            replace(SEARCH, others=2, at_bound=True, contradicted=True, needed=6),
            "another search: 1 of 6 searches that must agree (2 others seen, it touches a bound, "
            "its residuals contradict the known noise) found the best optimum",
        ),
        (
            replace(SEARCH, goes_on=True, search=2),
            "search 2 goes on: of those that wait it has done the least work",
        ),
        (
            replace(SEARCH, what=Next.RESCUE, agreeing=0, waiting=1),
            "many candidates are simulated side by side, as no more searches are due: no search has found an "
            "optimum, and 1 waits",
        ),
        (
            replace(SEARCH, what=Next.EXCHANGE, agreeing=2),
            "a search begins where fast and slow states have changed places: 2 searches found the best optimum",
        ),
        (
            replace(SEARCH, what=Next.CARRY_ON, search=2),
            "the fit goes on from a better point: search 2 ended below the best optimum, but at no optimum",
        ),
        (
            replace(SEARCH, what=Next.CARRY_ON, search=0),
            "the fit goes on from a better point: the given values lie below the best optimum, "
            "but at no optimum",
        ),
        (
            replace(SEARCH, what=Next.CERTIFY, agreeing=2),
            "the best optimum is checked by an independent integration: 2 searches found the best optimum",
        ),
        (
            replace(SEARCH, what=Next.STOP, agreeing=2, certified=True),
            "the fit ends: 2 searches found the best optimum, and an independent integration confirms it",
        ),
        (
            replace(SEARCH, what=Next.STOP, agreeing=2, plateau=True),
            "the fit ends: 2 searches found the best optimum, but the data determine no parameter there",
        ),
        (
            replace(SEARCH, what=Next.STOP, asked=True, agreeing=20, certified=True),
            "the fit ends: all searches that were asked for have ended, and 20 searches found "
            "the best optimum, and an independent integration confirms it",
        ),
    ],
)
def test_words(record, words):
    assert str(record) == words
