"""What ends a stage of LiftedGaussNewton and what comes next: decisions without side effects.

early stage --(hardly anything left to gain, or patience ends)--> NEXT_STAGE: stronger continuity
last stage  --(jumps closed, many segments)----------------------> COARSEN
            --(first time near the minimum)----------------------> BEGIN_MULTIPLIERS: and refine the mesh
            --(kinks of the likelihood are rounded, calm)--------> SHARPEN
            --(near the minimum, jumps open)---------------------> UPDATE_MULTIPLIERS
            --(nothing left to gain, jumps closed)---------------> FINISH: refine the mesh, or end there
a rejected step -------------------------------------------------> DAMP, or NEXT_STAGE, or STALLED
a long last stage -----------------------------------------------> STAY, or STALLED
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from picardfit.solvers.gauss_newton.settings import Acceptance, Crawling, Damping, MeshRefinement, Stages


class Next(Enum):
    """What to do after a step."""

    STAY = auto()  # step again
    NEXT_STAGE = auto()
    COARSEN = auto()  # join segments that the path no longer needs
    BEGIN_MULTIPLIERS = auto()  # the first update, on a mesh that resolves the path
    SHARPEN = auto()  # make the rounded kinks of a density narrower
    UPDATE_MULTIPLIERS = auto()
    FINISH = auto()  # converged, if the final mesh resolves the path
    DAMP = auto()  # reject the step and damp more
    STALLED = auto()


class Verdict(Enum):
    """What to make of a trial step."""

    ACCEPT = auto()
    REJECT = auto()
    ROUNDING = auto()  # it failed, but it promised less than rounding errors hide


class Pace(Enum):
    """How a long last stage goes on."""

    FALLING = auto()  # the loss still falls
    WAITING = auto()
    CRAWLING = auto()  # the loss has hardly fallen for many steps


@dataclass(frozen=True)
class Limits:
    """The public settings of LiftedGaussNewton that decide about stages."""

    tolerance: float  # decrease still expected, relative to the merit, at which to stop
    resolution: float  # of the final mesh, relative to the states' scale
    patience: int  # accepted steps


@dataclass(frozen=True)
class StageEvidence:
    """What is known after an accepted step."""

    last: bool  # whether this is the last stage
    left: float  # decrease of the merit that further steps may bring
    size: float  # what decreases are compared with
    floor: float  # decreases below this are rounding errors
    steps: int  # accepted in this stage
    calm: int = 0  # accepted steps in a row, before this one, that could gain next to nothing
    jump: float = np.inf  # largest, in units of the states' scale
    last_jump: float = np.inf  # at the latest update of the multipliers
    joined_at: float = np.inf  # jump when joining segments was last tried
    segments: int = 0
    rounded: bool = False  # whether kinks of the likelihood are rounded off
    closed: bool = False  # whether every jump is within the jump tolerance; matters where `nothing_left`

    def left_over(self, part: float) -> bool:
        """Whether further steps may bring more than a part of the merit's size."""
        return self.left > part * self.size + self.floor


def is_calm(evidence: StageEvidence, stages: Stages) -> bool:
    """Whether further steps can gain next to nothing."""
    return not evidence.left_over(stages.calm)


def nothing_left(evidence: StageEvidence, stages: Stages, limits: Limits) -> bool:
    """Whether the loss cannot fall any further, so that only open jumps may keep the search from its end."""
    crawls = is_calm(evidence, stages) and evidence.calm >= limits.patience  # hardly determined by the data
    return evidence.last and (crawls or not evidence.left_over(limits.tolerance))


def decide(evidence: StageEvidence, stages: Stages, limits: Limits, mesh: MeshRefinement) -> Next:
    """What to do after an accepted step."""
    if not evidence.last:
        goes_on = evidence.left_over(stages.done) and evidence.steps < limits.patience
        return Next.STAY if goes_on else Next.NEXT_STAGE
    if _is_worth_joining(evidence, limits, mesh):
        return Next.COARSEN
    slow = evidence.jump > stages.slow * evidence.last_jump
    if evidence.left_over(stages.nearer if slow else stages.near):
        return Next.STAY
    return _near_the_minimum(evidence, stages, limits)


def _is_worth_joining(evidence: StageEvidence, limits: Limits, mesh: MeshRefinement) -> bool:
    narrow = evidence.jump < min(limits.resolution, mesh.joined_again * evidence.joined_at)
    return narrow and evidence.segments > mesh.joined_segments


def _near_the_minimum(evidence: StageEvidence, stages: Stages, limits: Limits) -> Next:
    """What to do near the minimum for given multipliers."""
    if not np.isfinite(evidence.last_jump):
        return Next.BEGIN_MULTIPLIERS
    if evidence.rounded and is_calm(evidence, stages):
        return Next.SHARPEN
    ends = evidence.closed and nothing_left(evidence, stages, limits)
    return Next.FINISH if ends else Next.UPDATE_MULTIPLIERS


def judge(gained: float, predicted: float, merit: float, hidden: float, rules: Acceptance) -> Verdict:
    """Whether to accept a step that gained what it did where its model predicted another decrease.

    `merit` is the value before the step, `hidden` the decrease that rounding errors may hide.
    """
    if gained >= rules.sufficient * predicted - rules.rounding * abs(merit):
        return Verdict.ACCEPT
    return Verdict.ROUNDING if abs(predicted) <= hidden else Verdict.REJECT


def still_to_gain(
    gained: float, predicted: float, damping: float, last: bool, rules: Damping, trust: float
) -> float:
    """An estimate of the decrease that further steps may bring, after one that gained what its model predicted.

    A step that is hardly damped leaves what its model missed. A short step gains little wherever it begins.
    """
    if damping <= rules.undamped:
        return max(abs(predicted - gained), trust * predicted)
    if last:
        return (1 + damping) * predicted
    return np.inf if damping > rules.heavy else predicted


def after_rejection(damping: float, last: bool, rules: Damping) -> Next:
    """What to do after a rejected step; `damping` is what the next attempt would have."""
    if damping < rules.largest:
        return Next.DAMP
    return Next.STALLED if last else Next.NEXT_STAGE


def pace(loss: float, lowest: float, size: float, idle: int, rules: Crawling) -> Pace:
    """How the loss falls in a long last stage; `lowest` is its value when it last fell, `idle` steps ago."""
    if loss < lowest - rules.decrease * size:
        return Pace.FALLING
    return Pace.WAITING if idle < rules.steps else Pace.CRAWLING


def after_crawling(promised: float, size: float, rules: Crawling) -> Next:
    """Give up where an undamped step would promise much; less than that is slow convergence."""
    return Next.STAY if promised < rules.promised * size else Next.STALLED
