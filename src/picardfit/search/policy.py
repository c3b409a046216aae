"""The search policy: what a fit does next, decided from what its searches have shown.

One rule makes a fit trusted: two searches that began at different values and took different paths agree on the best
optimum found so far (three if another optimum was seen, and so on), its certificate holds, and no known noise level
contradicts it. Until then the fit searches on, within a budget. `decide` is a pure function of the evidence; driver.py
executes what it says. How many iterations or seconds a search took is no evidence of anything and is not part of
`Evidence`; work only limits how long a fit continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf

from picardfit.checks import as_whole, is_number
from picardfit.errors import InputError
from picardfit.search.rescue.settings import Rescue


@dataclass(frozen=True)
class SearchPolicy:
    """When a fit searches again, and when it stops.

    Work is counted in steps on the first mesh (`picardfit.solvers.loop.StepCost`), so that the same fit takes the same
    decisions on every machine.
    """

    agree: int = 2  # searches that must end in the best optimum; one more for every other optimum seen
    most: int = 8  # searches at most, besides the rescue; 1 makes a fit exactly one search
    effort: float = 5.0  # work in units of the quickest search that converged, after which no slice begins
    failures: int = 3  # searches that end without an optimum before the rescue is tried
    slice: float = 40.0  # work after which a search waits for others; easy searches take 10 steps
    excess: float = 3.0  # residuals over known noise (r.m.s.), from which on they contradict an optimum
    rescue: Rescue | None = field(default=Rescue())  # what to do when no search converges; None: nothing

    def __post_init__(self) -> None:
        for name in ("agree", "most", "failures"):
            as_whole(getattr(self, name), name, 1)
        for name in ("effort", "slice", "excess"):
            value = getattr(self, name)
            if not is_number(value) or not value > 0:
                raise InputError("search.policy_not_positive", name, value=value)
        if self.rescue is not None and not isinstance(self.rescue, Rescue):
            raise InputError("search.policy_rescue", value=self.rescue)


class Next(Enum):
    """What to do next."""

    SEARCH = auto()  # begin a search, or continue one that waits
    CERTIFY = auto()  # check the best optimum by an independent integration
    CARRY_ON = auto()  # continue from a point that is better than every optimum, until it is one
    RESCUE = auto()  # search from simulated candidates
    STOP = auto()


@dataclass(frozen=True)
class Action:
    """What to do next; `index` is the search to run or the point to continue from, `work` how far it may go."""

    what: Next
    index: int = -1
    work: float = inf


@dataclass(frozen=True)
class SearchFacts:
    """What is known of one search."""

    work: float  # in units of the first step of the first search
    ended: bool = True  # False while it waits
    optimum: int | None = None  # in which optimum it ended, 0 is the best so far; None: in none
    limited: bool = False  # whether the user's limit of iterations, less than a slice, ended it


@dataclass(frozen=True)
class Evidence:
    """What the searches have shown so far."""

    searches: Mapping[int, SearchFacts] = field(default_factory=dict)  # by index in the sequence of starts
    better_point: int | None = None  # a search that is below the best optimum, but not at an optimum
    carried: int = 0  # how many such points have been carried on
    certified: bool = False  # whether the best optimum has been checked; one that fails the check is none
    contradicted: bool = False  # whether residuals at the best optimum contradict a known noise level
    rescued: bool = False  # whether the rescue has been tried
    hopeless: bool = False  # whether the equations cannot be evaluated anywhere
    jumps: bool = False  # whether the equations jump as a state changes: shooting has no slopes either


def decide(evidence: Evidence, policy: SearchPolicy) -> Action:
    """What to do next."""
    searches = evidence.searches
    if not searches:
        return Action(Next.SEARCH, 0, policy.slice)
    if evidence.hopeless:
        return Action(Next.STOP)
    optima = [one.optimum for one in searches.values() if one.optimum is not None]
    if not optima:
        return _without_optimum(evidence, policy)
    needed = policy.agree + len(set(optima)) - 1
    agreed = optima.count(0) >= min(needed, policy.most)
    trusted = agreed and not evidence.contradicted
    action = None if trusted else _search(evidence, policy)
    return action or _conclude(evidence)


def _conclude(evidence: Evidence) -> Action:
    """When there is nothing more to search: a point below the best optimum becomes one, and that is checked."""
    point = evidence.better_point
    if point is not None and point in evidence.searches and not evidence.searches[point].ended:
        return Action(Next.SEARCH, point)
    if point is not None and not evidence.carried:
        return Action(Next.CARRY_ON, point)
    return Action(Next.STOP if evidence.certified else Next.CERTIFY)


def _without_optimum(evidence: Evidence, policy: SearchPolicy) -> Action:
    """While no search has converged: a few starts, then the rescue."""
    searches = evidence.searches
    failed = sum(one.ended for one in searches.values())
    if failed < policy.failures and not evidence.rescued:
        action = _search(evidence, policy)
        if action is not None:
            return action
    limited = all(one.limited for one in searches.values() if one.ended)
    if policy.most == 1 or policy.rescue is None or evidence.rescued or evidence.jumps or limited:
        return Action(Next.STOP)
    return Action(Next.RESCUE)


def _search(evidence: Evidence, policy: SearchPolicy) -> Action | None:
    """The search that has done the least work so far continues, or a new one begins; None when the budget is spent.

    So no search can hold up the others: one that crawls gets as much work as those beside it.
    """
    searches = evidence.searches
    waiting = {index: one.work for index, one in searches.items() if not one.ended}
    open_ = min(policy.agree, policy.most)
    new = max(searches) + 1
    converged = [one.work for one in searches.values() if one.optimum is not None]
    if new < policy.most and (converged or len(waiting) < open_):
        waiting[new] = 0.0
    spent = sum(one.work for one in searches.values())
    if not waiting or spent >= policy.effort * min(converged, default=inf):
        return None
    index = min(waiting, key=lambda k: (waiting[k], k))
    return Action(Next.SEARCH, index, max(2 * waiting[index], policy.slice))
