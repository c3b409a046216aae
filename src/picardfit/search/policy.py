"""The search policy: what a fit does next, decided from what its searches have shown.

One rule makes a fit trusted: two searches that began at different values and took different paths agree on the best
optimum found so far, the data determine a parameter there, and its certificate holds. Two more must agree for each
reason to doubt: every other optimum that was seen, an optimum that touches a bound, residuals that contradict a known
noise level. Until then the fit searches on, within a budget; then it simulates many candidates side by side, and
searches from the best of these. Where the data hide states, one more search begins where fast and slow states of the
optimum have changed places (exchange.py): it finds the other of two explanations that fit equally well.
`decide` is a pure function of the evidence; driver.py executes what it says. How many iterations or seconds a search
took is no evidence of anything and is not part of `Evidence`; work only limits how long a fit continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from math import inf

from picardfit.checks import as_whole, is_number
from picardfit.errors import InputError
from picardfit.search.rescue.settings import Rescue


@dataclass(frozen=True)
class SearchPolicy:
    """When a fit searches again, and when it stops.

    Work is counted in steps on the first mesh (`picardfit.solvers.loop.StepCost`), so that the same fit takes the same
    decisions on every machine. `effort` bounds all of it as soon as a search has converged, but for the end of a search
    that has begun; that of the candidates is bounded by `rescue.work`, too.
    """

    agree: int = 2  # searches that must end in the best optimum
    doubt: int = 2  # how many more for each reason to doubt it (see above): docs/decisions/017
    most: int = 8  # searches at most, besides those from candidates or exchanged rates; 1: exactly one
    effort: float = 100.0  # work of the whole fit, in units of the first search that converged
    searching: float = 5.0  # part of it after which no slice begins before candidates are simulated
    least: float = 200.0  # work that is spent on searches anyway, in steps: less than the candidates cost
    failures: int = 3  # searches that end without an optimum before candidates are simulated
    failing: float = 800.0  # and the work of searches, in steps, if none converged: two at their limit of 400
    fine: float = 4.0  # segments for a sample beyond which a first mesh is no measure of a step
    slice: float = 60.0  # work after which a search waits for others; three of four take less, in steps
    improbable: float = (
        0.005  # probability of so large residuals, below which they contradict a known noise level
    )
    rescue: Rescue | None = field(default=Rescue())  # the simulated candidates; None: there are none

    def __post_init__(self) -> None:
        for name, fewest in (("agree", 1), ("doubt", 0), ("most", 1), ("failures", 1)):
            as_whole(getattr(self, name), name, fewest)
        for name in ("effort", "searching", "least", "failing", "fine", "slice", "improbable"):
            value = getattr(self, name)
            if not is_number(value) or not value > 0:
                raise InputError("search.policy_not_positive", name, value=value)
        if self.rescue is not None and not isinstance(self.rescue, Rescue):
            raise InputError("search.policy_rescue", value=self.rescue)


@dataclass(frozen=True)
class StartLimits:
    """How many starts a fit may be asked for."""

    most: int = 100_000  # chosen: a day of the quickest fits; all points of a billion would fill the memory


START_LIMITS = StartLimits()


class Next(Enum):
    """What to do next."""

    SEARCH = auto()  # begin a search, or continue one that waits
    CERTIFY = auto()  # check the best optimum by an independent integration
    EXCHANGE = auto()  # search from where fast and slow states of the best optimum have changed places
    CARRY_ON = auto()  # continue from a point that is better than every optimum, until it is one
    RESCUE = auto()  # simulate candidates, from which further searches begin
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
    arrived: bool = False  # whether it ended early, where another one had been
    limited: bool = False  # whether the user's limit of iterations, less than a slice, ended it
    begun: bool = True  # False if its start has no path: the equations are infinite there


@dataclass(frozen=True)
class Evidence:
    """What the searches have shown so far."""

    searches: Mapping[int, SearchFacts] = field(default_factory=dict)  # by index in the sequence of starts
    better_point: int | None = None  # a search that is below the best optimum, but not at an optimum
    carried: int = 0  # how many such points have been carried on
    certified: bool = False  # whether the best optimum has been checked; one that fails the check is none
    contradicted: bool = False  # whether residuals at the best optimum contradict a known noise level
    plateau: bool = False  # whether the data determine no parameter there, so that agreement says nothing
    at_bound: bool = False  # whether the best optimum touches a bound
    hidden: bool = False  # whether the data hide states, so that rates may be exchanged unseen
    exchanged: bool = False  # whether a search has begun at exchanged rates
    rescues: int = 0  # how often candidates have been simulated
    simulated: float = 0.0  # the work of that, in the unit of the searches
    candidates: tuple[int, ...] = ()  # searches that may begin from them, the best first
    asked: bool = False  # whether the user asked for a number of searches, all of which have been made
    hopeless: bool = False  # whether the equations cannot be evaluated anywhere
    jumps: bool = False  # whether the equations jump as a state changes: shooting has no slopes either


def decide(evidence: Evidence, policy: SearchPolicy) -> Action:
    """What to do next."""
    if not evidence.searches:
        return Action(Next.SEARCH, 0, policy.slice)
    if evidence.hopeless:
        return Action(Next.STOP)
    if not _trusted(evidence, policy):
        left = _left(evidence, policy)
        if evidence.candidates and left > 0:
            return Action(Next.SEARCH, evidence.candidates[0])
        action = None if evidence.rescues else _search(evidence, policy)
        if action is not None:
            return action
        if _may_rescue(evidence, policy) and left > 0:
            return Action(Next.RESCUE, work=left)
    return _conclude(evidence, policy)


def _trusted(evidence: Evidence, policy: SearchPolicy) -> bool:
    """Whether enough searches agree on the best optimum, and nothing contradicts it."""
    agreeing, needed = agreement(evidence, policy)
    if evidence.asked:
        return any(one.optimum is not None for one in evidence.searches.values())
    return agreeing >= needed and not evidence.plateau


def agreement(evidence: Evidence, policy: SearchPolicy) -> tuple[int, int]:
    """How many searches found the best optimum, and how many must."""
    optima = [one.optimum for one in evidence.searches.values() if one.optimum is not None]
    others = max(len(set(optima)) - 1, 0)
    needed = policy.agree + policy.doubt * (others + evidence.at_bound + evidence.contradicted)
    return optima.count(0), min(needed, policy.most)


def _may_rescue(evidence: Evidence, policy: SearchPolicy) -> bool:
    """Whether candidates may be simulated: once, and once more, polished, if no search from them converged."""
    searches = evidence.searches.values()
    if policy.most == 1 or policy.rescue is None or evidence.jumps:
        return False
    if not any(one.optimum is not None for one in searches):
        ended = [one.limited for one in searches if one.ended]
        return evidence.rescues < 2 and not (ended and all(ended))
    return not evidence.rescues


def _conclude(evidence: Evidence, policy: SearchPolicy) -> Action:
    """When no search need agree any more: other rates are tried, a point below becomes an optimum, that is checked."""
    if evidence.hidden and not evidence.exchanged and _trusted(evidence, policy):
        return Action(Next.EXCHANGE, work=_fair_share(evidence, policy))
    if all(one.optimum is None for one in evidence.searches.values()):
        none_simulated = max(evidence.searches) < policy.most  # no candidate could be integrated
        longer = _longer(_waiting(evidence), evidence, policy) if none_simulated else None
        return longer or Action(Next.STOP)
    point = evidence.better_point
    if point is not None and point in evidence.searches and not evidence.searches[point].ended:
        return Action(Next.SEARCH, point)
    if point is not None and not evidence.carried:
        return Action(Next.CARRY_ON, point)
    return Action(Next.STOP if evidence.certified else Next.CERTIFY)


def _search(evidence: Evidence, policy: SearchPolicy) -> Action | None:
    """The search that has done the least work so far continues, or a new one begins; None when the budget is spent.

    So no search can hold up the others: one that crawls gets as much work as those beside it, or twice as much as
    another needed.
    """
    searches, waiting = evidence.searches, _waiting(evidence)
    converged = _converged(evidence)
    new = max(searches) + 1
    begun = sum(one.begun for one in searches.values())  # one that could not begin was no search
    if begun < policy.most and (converged or len(waiting) < min(policy.agree, policy.most)):
        waiting[new] = 0.0
    failed = sum(one.ended and one.optimum is None for one in searches.values())
    budget = policy.failing if _may_rescue(evidence, policy) else inf
    if converged:
        budget = max(policy.searching * min(converged), policy.least)
    spent = sum(one.work for one in searches.values())
    if spent >= budget or _left(evidence, policy) <= 0 or (not converged and failed >= policy.failures):
        return None
    longer = _longer(waiting, evidence, policy)
    if longer is None or converged:
        return longer
    return replace(longer, work=min(longer.work, waiting[longer.index] + budget - spent))


def _waiting(evidence: Evidence) -> dict[int, float]:
    """The work of the searches that wait."""
    return {index: one.work for index, one in evidence.searches.items() if not one.ended}


def _longer(waiting: Mapping[int, float], evidence: Evidence, policy: SearchPolicy) -> Action | None:
    """The search with the least work so far goes on until it has done twice as much; None where none waits."""
    if not waiting:
        return None
    index = min(waiting, key=lambda k: (waiting[k], k))
    return Action(Next.SEARCH, index, max(2 * waiting[index], _fair_share(evidence, policy)))


def _fair_share(evidence: Evidence, policy: SearchPolicy) -> float:
    """The work after which a search waits for others: a slice, or twice what the quickest one needed."""
    return max(2 * min(_converged(evidence), default=0.0), policy.slice)


def _left(evidence: Evidence, policy: SearchPolicy) -> float:
    """The work that the fit may still do; without limit as long as no search has converged where data say something.

    A search that ended where another one had been, or that began at a candidate, takes less work than a search.
    """
    searches = evidence.searches
    whole = [
        k for k, one in searches.items() if one.optimum is not None and not one.arrived and k < policy.most
    ]
    if evidence.plateau or not whole:
        return inf
    spent = evidence.simulated + sum(one.work for one in searches.values())
    return policy.effort * searches[min(whole)].work - spent


def _converged(evidence: Evidence) -> list[float]:
    """The work of the searches that converged."""
    return [one.work for one in evidence.searches.values() if one.optimum is not None]
