"""What a fit does, told as it happens: how searches begin and end, what the policy decides, and why.

The records go to the logger `picardfit.search` at the level INFO; their words are in display/story.py. `picardfit fit
-v` shows them, and in Python `logging.basicConfig(level="INFO")` does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import shown
from picardfit.errors import Status
from picardfit.search.policy import Action, Evidence, Next, SearchPolicy, agreement

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem
    from picardfit.search.searches import Ending

LOG = logging.getLogger("picardfit.search")


class Origin(Enum):
    """Where the values come from at which a search begins."""

    GIVEN = auto()  # by the user; the others from data and bounds
    DATA = auto()  # data and bounds
    DRAWN = auto()  # drawn between the bounds
    CANDIDATE = auto()  # the best of the simulated candidates


@shown
@dataclass(frozen=True)
class SearchBegins:
    """A search begins at these parameter values; those of a candidate are not known here."""

    search: int  # from 1, as people count
    origin: Origin
    parameters: Mapping[str, float]


@shown
@dataclass(frozen=True)
class SearchesBegin:
    """As many searches begin as the user asked for."""

    count: int
    earlier: int  # of them in a ledger already


@shown
@dataclass(frozen=True)
class SearchEnded:
    """How a search ended."""

    search: int
    status: Status
    iterations: int
    loss: float
    seconds: float
    arrived_at: int | None = None  # the search that had found the optimum to which it came


@shown
@dataclass(frozen=True)
class Contradicted:
    """An independent integration does not confirm the optimum of a search."""

    search: int


@shown
@dataclass(frozen=True)
class Decision:
    """What the policy decided, with the evidence that explains it."""

    what: Next
    search: int  # that begins, goes on, or ended below the best optimum; 0: the values that the user gave
    goes_on: bool  # whether that search has begun already
    ended: int  # searches that have ended
    waiting: int  # searches that wait
    agreeing: int  # searches that found the best optimum
    needed: int  # searches that must
    others: int  # other optima that were seen
    at_bound: bool
    contradicted: bool
    plateau: bool
    certified: bool  # whether an independent integration has confirmed the best optimum
    rescued: bool  # whether candidates were simulated before
    asked: bool  # whether the user asked for a number of searches


def tell_ended(problem: Problem, index: int, ending: Ending) -> None:
    """Tell how a search ended."""
    loss = problem.mean_loss(ending.value) if np.isfinite(ending.value) else np.inf
    came = None if ending.arrived_at is None else ending.arrived_at + 1
    LOG.info(SearchEnded(index + 1, ending.status, ending.iterations, loss, ending.seconds, came))


def decision(evidence: Evidence, action: Action, policy: SearchPolicy) -> Decision:
    """The decision as a record for people."""
    agreeing, needed = agreement(evidence, policy)
    facts = evidence.searches
    optima = {one.optimum for one in facts.values() if one.optimum is not None}
    return Decision(
        what=action.what,
        search=action.index + 1,
        goes_on=action.index in facts,
        ended=sum(one.ended for one in facts.values()),
        waiting=sum(not one.ended for one in facts.values()),
        agreeing=agreeing,
        needed=needed,
        others=max(len(optima) - 1, 0),
        at_bound=evidence.at_bound,
        contradicted=evidence.contradicted,
        plateau=evidence.plateau,
        certified=evidence.certified,
        rescued=evidence.rescues > 0,
        asked=evidence.asked,
    )
