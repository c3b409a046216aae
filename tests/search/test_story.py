"""What a fit tells while it searches: records on a logger."""

from __future__ import annotations

import logging

import pytest

import picardfit as pf
from picardfit.search.policy import Action, Evidence, Next, SearchFacts, SearchPolicy
from picardfit.search.told import Decision, Origin, SearchBegins, SearchEnded, SearchesBegin, decision
from wells import rescued


@pytest.fixture
def told(caplog):
    """Fit a problem and return the records that it told."""

    def fit(problem, **options):
        with caplog.at_level(logging.INFO, logger="picardfit.search"):
            found = pf.fit(problem, progress=False, **options)
        return found, [record.msg for record in caplog.records]

    return fit


def decay():
    run = pf.Experiment([0, 1, 2, 3], {"x": [1.0, 0.7, 0.3, 0.2]})
    return pf.Problem(pf.Model("x' = -k*x"), run, {"k": (0.1, 2)}, {"x": (0.1, 2)})


def of_kind(records, kind):
    return [one for one in records if isinstance(one, kind)]


def test_every_search_is_told_from_its_beginning_to_its_end(told):
    fit, records = told(decay())
    begun = [one.search for one in of_kind(records, SearchBegins)]
    ended = {one.search: one.status for one in of_kind(records, SearchEnded)}
    assert begun == [one.start + 1 for one in fit.searches]
    assert ended == {one.start + 1: one.status for one in fit.searches}


def test_decisions_come_in_their_order(told):
    _, records = told(decay())
    decided = [one.what for one in of_kind(records, Decision)]
    assert decided == [Next.SEARCH, Next.SEARCH, Next.CERTIFY, Next.STOP]


def test_a_given_start_is_told_with_its_values(told):
    _, records = told(decay(), start={"k": 1.5})
    first, second, *_ = of_kind(records, SearchBegins)
    assert (first.origin, first.parameters["k"]) == (Origin.GIVEN, 1.5)
    assert second.origin is Origin.DATA


def test_searches_that_were_asked_for_are_told_as_they_end(told):
    _, records = told(decay(), starts=3)
    assert of_kind(records, SearchesBegin) == [SearchesBegin(3, 0)]
    assert [one.search for one in of_kind(records, SearchEnded)] == [1, 2, 3]


def test_candidates_are_told(caplog):
    with caplog.at_level(logging.INFO, logger="picardfit.search"):
        rescued(progress=False)
    records = [record.msg for record in caplog.records]
    assert Next.RESCUE in [one.what for one in of_kind(records, Decision)]
    assert Origin.CANDIDATE in [one.origin for one in of_kind(records, SearchBegins)]


def test_nothing_is_told_to_nobody(caplog):
    pf.fit(decay(), progress=False)
    assert caplog.records == []


def test_a_decision_counts_what_speaks_for_it():
    searches = {
        0: SearchFacts(10, optimum=0),
        1: SearchFacts(10, optimum=1),
        2: SearchFacts(10, ended=False),
        3: SearchFacts(10),
    }
    evidence = Evidence(searches=searches, at_bound=True)
    found = decision(evidence, Action(Next.SEARCH, 4), SearchPolicy())
    assert (found.agreeing, found.needed, found.others) == (1, 6, 1)
    assert (found.ended, found.waiting, found.goes_on) == (3, 1, False)
