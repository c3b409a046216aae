"""The words in which a fit tells what it does, line by line: the records of search/story.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from picardfit.display.text import number
from picardfit.errors import Status
from picardfit.search.policy import Next
from picardfit.search.told import Origin

if TYPE_CHECKING:
    from picardfit.search.told import Contradicted, Decision, SearchBegins, SearchEnded, SearchesBegin

ORIGINS = {
    Origin.GIVEN: "at the given values",
    Origin.DATA: "where data and bounds suggest",
    Origin.DRAWN: "at values drawn between the bounds",
    Origin.CANDIDATE: "at the best of the simulated candidates",
}
STEPS = {
    Next.EXCHANGE: "a search begins where fast and slow states have changed places",
    Next.CERTIFY: "the best optimum is checked by an independent integration",
    Next.RESCUE: "many candidates are simulated side by side, as no more searches are due",
}
ENDS = {
    Status.CONVERGED: "converged",
    Status.CONVERGED_AT_BOUND: "converged with unknowns at their bounds",
    Status.APPROXIMATE: "met the stopping rule of its method",
    Status.STALLED: "found no further step that lowers the loss",
    Status.ITERATION_LIMIT: "reached the limit of iterations",
    Status.NOT_FINITE: "found no path, because the equations are not finite there or change too fast",
    Status.DIVERGED: "diverged",
    Status.FAILED: "failed with an error",
    Status.INTERRUPTED: "was interrupted",
}


def begins_text(one: SearchBegins, most: int = 8) -> str:
    """`search 2 begins at values drawn between the bounds: birth 0.5, hunt 0.02`."""
    shown = [f"{name} {number(value, 3)}" for name, value in list(one.parameters.items())[:most]]
    more = [f"and {len(one.parameters) - most} more"] if len(one.parameters) > most else []
    where = f": {', '.join([*shown, *more])}" if shown else ""
    return f"search {one.search} begins {ORIGINS[one.origin]}{where}"


def begin_text(one: SearchesBegin) -> str:
    """`20 searches begin: the first where data and bounds suggest, the others at values drawn between the bounds`."""
    earlier = f"; {one.earlier} of them are in the ledger already" if one.earlier else ""
    first, others = ORIGINS[Origin.DATA], ORIGINS[Origin.DRAWN]
    return f"{one.count} searches begin: the first {first}, the others {others}{earlier}"


def ended_text(one: SearchEnded) -> str:
    """`search 1 converged after 9 iterations and 0.2 s: loss 14.16`."""
    count = f"{one.iterations} iteration{'' if one.iterations == 1 else 's'}"
    spent = f"after {count} and {number(one.seconds, 2)} s"
    if one.arrived_at is not None:
        return f"search {one.search} arrived {spent} at the optimum that search {one.arrived_at} had found"
    return f"search {one.search} {ENDS.get(one.status, 'ended')} {spent}: loss {number(one.loss, 6)}"


def contradicted_text(one: Contradicted) -> str:
    return (
        f"an independent integration contradicts the optimum of search {one.search}, which no longer counts"
    )


def decision_text(one: Decision) -> str:
    """What the fit does next, and why."""
    if one.what is Next.SEARCH and one.goes_on:
        return f"search {one.search} goes on: of those that wait it has done the least work"
    if one.what is Next.CARRY_ON:
        source = f"search {one.search} ended" if one.search else "the given values lie"
        return f"the fit goes on from a better point: {source} below the best optimum, but at no optimum"
    if one.what in STEPS:
        return f"{STEPS[one.what]}: {_standing(one)}"
    if one.what is Next.STOP:
        checked = ", and an independent integration confirms it" if one.certified and one.agreeing else ""
        return f"the fit ends: {_standing(one)}{checked}"
    return f"another search: {_standing(one)}" if one.ended + one.waiting else "a first search"


def _standing(one: Decision) -> str:
    """What is known of the best optimum, and what is missing until it is trusted."""
    if not one.agreeing:
        waiting = f", and {one.waiting} {'waits' if one.waiting == 1 else 'wait'}" if one.waiting else ""
        return f"no search has found an optimum{waiting}"
    found = f"{one.agreeing} search{'' if one.agreeing == 1 else 'es'} found the best optimum"
    if one.asked:
        return f"all searches that were asked for have ended, and {found}"
    reasons = [f"{one.others} other{'' if one.others == 1 else 's'} seen"] if one.others else []
    reasons += ["it touches a bound"] if one.at_bound else []
    reasons += ["its residuals contradict the known noise"] if one.contradicted else []
    if one.agreeing < one.needed:
        why = f" ({', '.join(reasons)})" if reasons else ""
        found = f"{one.agreeing} of {one.needed} searches that must agree{why} found the best optimum"
    return f"{found}, but the data determine no parameter there" if one.plateau else found
