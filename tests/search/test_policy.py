"""The decisions of the search policy, as tables."""

import pytest

import picardfit as pf
from picardfit.search.policy import Action, Evidence, Next, SearchFacts, decide

POLICY = pf.SearchPolicy()


def hit(work=10.0, optimum=0):
    return SearchFacts(work, optimum=optimum)


def failed(work=10.0):
    return SearchFacts(work)


def waits(work):
    return SearchFacts(work, ended=False)


def limited(work=10.0):
    return SearchFacts(work, limited=True)


def of(*searches, **more):
    return Evidence(dict(enumerate(searches)), **more)


@pytest.mark.parametrize(
    ("evidence", "what", "index"),
    [
        (Evidence(), Next.SEARCH, 0),
        (of(hit()), Next.SEARCH, 1),  # one search proves nothing
        (of(hit(), hit()), Next.CERTIFY, -1),
        (of(hit(), hit(), certified=True), Next.STOP, -1),
        (of(hit(), hit(), hidden=True), Next.EXCHANGE, -1),  # another order of the rates may fit as well
        (of(hit(), hit(), hidden=True, exchanged=True), Next.CERTIFY, -1),
        (of(hit(), hidden=True), Next.SEARCH, 1),  # first an optimum that is trusted
        (of(hit(), hit(), certified=True, contradicted=True), Next.SEARCH, 2),  # larger than the known noise
        (
            of(hit(), hit(), hit(), hit(), contradicted=True),
            Next.CERTIFY,
            -1,
        ),  # the model may be wrong, after all
        (of(hit(), hit(optimum=1)), Next.SEARCH, 2),  # two optima
        (of(hit(), hit(optimum=1), hit()), Next.SEARCH, 3),  # where there are two, two hits are not enough
        (of(hit(), hit(optimum=1), hit(), hit(), hit()), Next.CERTIFY, -1),
        (of(hit(), failed()), Next.SEARCH, 2),
        (of(hit(100), hit(200, 1), hit(200, 1)), Next.RESCUE, -1),  # five times the work of the quickest
        (of(hit(10), hit(20, 1), hit(20, 1)), Next.SEARCH, 3),  # little work is never too much
        (of(hit(100), hit(200, 1), hit(200, 1), rescues=1, candidates=(8, 9)), Next.SEARCH, 8),
        (of(hit(100), hit(200, 1), hit(200, 1), rescues=1), Next.CERTIFY, -1),  # no candidate is left
        (of(hit(), hit(), plateau=True), Next.SEARCH, 2),  # to agree that nothing is determined says nothing
        (of(hit(), hit(), at_bound=True), Next.SEARCH, 2),  # at a bound two hits are not enough, nor three
        (of(hit(), hit(), hit(), hit(), at_bound=True), Next.CERTIFY, -1),
        (of(hit(100), hit(200, 1), asked=True), Next.CERTIFY, -1),  # the user asked for two searches
        (of(failed()), Next.SEARCH, 1),
        (of(failed(), failed(), failed()), Next.RESCUE, -1),
        (of(failed(), failed(), failed(), rescues=1, candidates=(8,)), Next.SEARCH, 8),
        (of(failed(), failed(), failed(), rescues=1), Next.RESCUE, -1),  # once more, polished
        (of(failed(), failed(), failed(), rescues=2), Next.STOP, -1),
        (of(waits(390), waits(410)), Next.RESCUE, -1),  # candidates cost no more than these have
        (of(waits(390), waits(400)), Next.SEARCH, 0),
        (of(waits(390), waits(410), jumps=True), Next.SEARCH, 0),  # but here none can be simulated
        (of(waits(390), waits(410), rescues=2), Next.SEARCH, 0),  # or none could be integrated
        (Evidence({0: waits(480), 1: waits(520), 8: failed()}, rescues=2), Next.STOP, -1),
        (of(limited(), limited(), limited()), Next.STOP, -1),  # the user's own limit
        (of(limited(), limited(), failed()), Next.RESCUE, -1),
        (of(failed(), hopeless=True), Next.STOP, -1),
        (of(failed(), failed(), failed(), jumps=True), Next.STOP, -1),
        (of(hit(), failed(), hit(), better_point=1), Next.CARRY_ON, 1),
        (of(hit(), failed(), hit(), better_point=1, carried=1), Next.CERTIFY, -1),
        (of(hit(), waits(40), hit(), better_point=1), Next.SEARCH, 1),  # until it has become an optimum
        (of(hit(), hit(), better_point=-1), Next.CARRY_ON, -1),  # the given start itself
        (of(waits(40)), Next.SEARCH, 1),  # nobody holds up the others
        (of(waits(40), waits(40)), Next.SEARCH, 0),
        (of(waits(40), hit(20)), Next.SEARCH, 2),
        (of(waits(400), hit(100), hit(100, 1)), Next.RESCUE, -1),
    ],
)
def test_what_comes_next(evidence, what, index):
    action = decide(evidence, POLICY)
    assert (action.what, action.index) == (what, index)


@pytest.mark.parametrize(
    ("policy", "evidence", "what"),
    [
        (pf.SearchPolicy(most=1), of(hit()), Next.CERTIFY),
        (pf.SearchPolicy(most=1), of(failed()), Next.STOP),
        (pf.SearchPolicy(agree=3), of(hit(), hit()), Next.SEARCH),
        (pf.SearchPolicy(most=2), of(hit(), hit(optimum=1)), Next.RESCUE),
        (pf.SearchPolicy(most=2, rescue=None), of(hit(), hit(optimum=1)), Next.CERTIFY),
        (pf.SearchPolicy(rescue=None), of(failed(), failed(), failed()), Next.STOP),
        (pf.SearchPolicy(failures=1), of(failed()), Next.RESCUE),
        (pf.SearchPolicy(searching=1.5, least=1, rescue=None), of(hit(10), failed(5)), Next.CERTIFY),
        (pf.SearchPolicy(effort=1.5), of(hit(10), failed(5)), Next.CERTIFY),  # of the whole fit
        (pf.SearchPolicy(effort=1.5), of(failed(10), failed(5)), Next.SEARCH),  # no search has converged yet
        (pf.SearchPolicy(effort=6), of(hit(100), hit(200, 1), hit(200, 1)), Next.RESCUE),
        (pf.SearchPolicy(effort=5), of(hit(100), hit(200, 1), hit(200, 1)), Next.CERTIFY),
        (pf.SearchPolicy(effort=9), of(hit(100), hit(300, 1), rescues=1, candidates=(8,)), Next.SEARCH),
        (  # one that ended where another had been took less than a search does
            pf.SearchPolicy(effort=6),
            of(hit(100), SearchFacts(1, optimum=0, arrived=True), hit(400, 1)),
            Next.RESCUE,
        ),
        (
            pf.SearchPolicy(effort=2),
            of(hit(100), hit(300), plateau=True, rescues=1, candidates=(8,)),
            Next.SEARCH,
        ),
        (
            pf.SearchPolicy(effort=9),
            of(hit(100), hit(300, 1), rescues=1, simulated=500, candidates=(8,)),
            Next.CERTIFY,
        ),
        (pf.SearchPolicy(doubt=0), of(hit(), hit(), at_bound=True), Next.CERTIFY),
    ],
)
def test_fields_of_the_policy_decide(policy, evidence, what):
    assert decide(evidence, policy).what is what


@pytest.mark.parametrize(
    ("evidence", "work"),
    [
        (Evidence(), 60.0),
        (of(hit(20)), 60.0),
        (of(hit(50)), 100.0),  # twice what another needed
        (of(waits(40), waits(40)), 80.0),  # twice what it had
        (of(waits(390), waits(400)), 400.0),  # until candidates are simulated
    ],
)
def test_how_far_a_search_may_go(evidence, work):
    assert decide(evidence, POLICY).work == work


def test_candidates_may_do_the_work_that_is_left():
    policy = pf.SearchPolicy(effort=8)
    assert decide(of(hit(100), hit(200, 1), hit(200, 1)), policy) == Action(Next.RESCUE, work=300.0)


def test_a_search_that_waits_cannot_begin_more_than_two():
    assert decide(of(waits(40), waits(80)), POLICY) == Action(Next.SEARCH, 0, 80.0)


@pytest.mark.parametrize(
    "name", ["agree", "most", "failures", "failing", "fine", "effort", "searching", "slice", "improbable"]
)
@pytest.mark.parametrize("value", [0, -1, "two", None])
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(pf.InputError) as caught:
        pf.SearchPolicy(**{name: value})
    assert name in caught.value.subject


def test_a_rescue_is_a_record_or_none():
    with pytest.raises(pf.InputError) as caught:
        pf.SearchPolicy(rescue=True)
    assert caught.value.code == "search.policy_rescue"


def test_a_policy_is_a_record():
    with pytest.raises(pf.InputError) as caught:
        pf.fit(pf.examples.van_der_pol.generate(1), policy="careful")
    assert caught.value.code == "fit.not_a_policy"
