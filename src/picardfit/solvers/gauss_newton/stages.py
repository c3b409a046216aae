"""What ends a stage of LiftedGaussNewton and what comes next: thresholds, and decisions without side effects.

early stage --(hardly anything left to gain, or patience ends)--> NEXT_STAGE: stronger continuity
last stage  --(jumps closed, many segments)----------------------> COARSEN
            --(first time near the minimum)----------------------> BEGIN_MULTIPLIERS: and refine the mesh
            --(kinks of the likelihood are rounded, calm)--------> SHARPEN
            --(near the minimum, jumps open)---------------------> UPDATE_MULTIPLIERS
            --(nothing left to gain, jumps closed)---------------> FINISH: refine the mesh, or end there
a rejected step -------------------------------------------------> DAMP, or NEXT_STAGE, or STALLED
a long last stage -----------------------------------------------> STAY, or STALLED

Thresholds are relative numbers without a unit unless a comment says otherwise. A value without an origin was chosen by
hand; the decisions that were measured are in docs/decisions (003 penalties, 004 second derivatives, 006 joining).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import numpy as np


@dataclass(frozen=True)
class Damping:
    """Levenberg-Marquardt damping d: the diagonal of the Hessian grows by the factor 1 + d."""

    start: float = 1e-2
    resumed: float = 1e-4  # at an earlier solution, and at most this at the start of a stage
    after_failure: float = 1e-2  # at the start of a stage that follows because no damping helped before
    least: float = 1e-14  # about 50 machine precisions: below it the damping changes nothing
    largest: float = 1e8  # a step that fails with more is shorter than rounding errors of the merit
    grow: float = 8.0  # factor after a rejected step, to the power of the rejections in a row
    good: float = 0.75  # gained / predicted decrease of a step whose model is good (textbook value)
    fair: float = 0.25  # and of one whose model is fair (textbook value)
    after_good: float = 0.1  # factor of the damping after a step with a good model
    after_fair: float = 0.3
    after_poor: float = 2.0
    barrier: float = 2.0  # the damping stays above this many times the last one that was too small
    forget: float = 0.3  # factor of that last one after every accepted step
    undamped: float = 1e-2  # up to here a step goes nearly all the way to the minimum of the model
    heavy: float = 0.1  # from here on a step tells nothing about the distance to the minimum
    weakest: float = 1e-10  # least damped curvature relative to the largest, unknowns scaled by their sizes

    def factor(self, ratio: float) -> float:
        """By how much the damping changes after a step with this ratio of gained and predicted decrease."""
        if ratio > self.good:
            return self.after_good
        return self.after_fair if ratio > self.fair else self.after_poor


@dataclass(frozen=True)
class Acceptance:
    """Which steps are accepted."""

    sufficient: float = 1e-3  # fraction of the predicted decrease that a step must bring (Armijo's rule)
    rounding: float = 1e-13  # of the merit: rounding error of a difference of two merits
    negligible: float = 1e-12  # predicted decrease, relative to the merit, that rounding errors may hide
    closer: float = 0.1  # fraction of |u - P u| that another contraction may leave for a path to be replaced
    trust: float = 0.01  # fraction of a step's decrease that may remain although the model was exact


@dataclass(frozen=True)
class SecondDerivatives:
    """When steps of the last stage use second derivatives: Newton's method, not Gauss-Newton (docs/decisions/004)."""

    missed: float = 0.1  # fraction of the predicted decrease by which a model must miss; infinite: never
    further_steps: int = 2  # and this many more Gauss-Newton steps would not reach the tolerance
    jump: float = 1e-2  # largest jump, in units of the states' scale
    damping: float = 1e-6  # at most: Newton's model needs little
    longest_pause: int = 8  # steps until the next attempt after failed ones: 1, 2, 4, 8

    def may_help(self, ratio: float, predicted: float, tolerance: float) -> bool:
        """Whether Gauss-Newton converges too slowly after a step with this ratio of gained and predicted decrease.

        A Gauss-Newton step leaves the fraction `missed` of an error, and its square of a decrease. `tolerance`: the
        decrease at which to stop.
        """
        missed = abs(ratio - 1)
        return missed > self.missed and missed ** (2 * self.further_steps) * predicted > tolerance


@dataclass(frozen=True)
class Stages:
    """What ends a stage, and what happens in the last one."""

    done: float = 5e-2  # decrease still expected, relative to the merit, at which an early stage ends
    near: float = 1e-2  # decrease still expected at which multipliers are updated
    nearer: float = 1e-5  # and while jumps shrink slowly, as multipliers then need a better minimum
    slow: float = 0.5  # fraction of the jumps that may be left by an update that is not slow
    calm: float = 1e-6  # decrease still expected of a step that gains next to nothing
    contracted: float = 1e-4  # |u - P u| relative to the states' scale, while continuity is loose


@dataclass(frozen=True)
class Crawling:
    """When a long last stage is given up: it hardly lowers the loss although much is left to gain."""

    decrease: float = 3e-4  # of the loss, relative to its size, that `steps` must bring
    steps: int = 40  # accepted or not
    promised: float = 5e-4  # decrease by an undamped step, relative to the merit; less is slow convergence

    def is_falling(self, loss: float, lowest: float, size: float) -> bool:
        """Whether the loss is clearly below its value when it last fell."""
        return loss < lowest - self.decrease * size

    def gives_up(self, promised: float, size: float) -> bool:
        """Whether a stage that no longer falls should end: an undamped step would still promise much."""
        return not promised < self.promised * size


@dataclass(frozen=True)
class MeshRefinement:
    """How the mesh follows the path: between stages, in the last one, and when neighbours are joined."""

    first_rounds: int = 8  # halvings of first segments that are too long to contract
    borrowing_rounds: int = 30  # and where they begin at the state of a segment that does
    first_growth: int = (
        32  # times as many segments as the first mesh after which no more are made for a first path
    )
    rounds: int = 8  # halvings of a segment in one go
    open_rounds: int = 2  # and while wide jumps make layers that will vanish
    narrow: float = 1e-3  # jumps, in units of the states' scale, that make no layers
    block: int = 120  # nodes times states of a segment up to which more nodes are cheap
    joined_segments: int = 64  # meshes up to this many segments are not worth joining (docs/decisions/006)
    joined_again: float = 0.01  # fraction of the jumps at the last attempt at which the next one follows
    numbers: int = 30_000_000  # in the Newton matrices of the segments, at most, for each experiment: 240 MB

    def most_segments(self, experiments: int, block: int) -> int:
        """How many segments the memory allows; `block`: nodes times states of a segment."""
        return max(1, experiments * self.numbers // block**2)


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
    """Whether to accept a trial step."""

    ACCEPT = auto()
    REJECT = auto()
    ROUNDING = auto()  # it failed, but it promised less than rounding errors hide


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

    def left_over(self, fraction: float) -> bool:
        """Whether further steps may bring more than a fraction of the merit's size."""
        return self.left > fraction * self.size + self.floor


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
    narrow = evidence.jump < min(limits.resolution, mesh.joined_again * evidence.joined_at)
    if narrow and evidence.segments > mesh.joined_segments:
        return Next.COARSEN
    slow = evidence.jump > stages.slow * evidence.last_jump
    if evidence.left_over(stages.nearer if slow else stages.near):
        return Next.STAY
    return _near_the_minimum(evidence, stages, limits)


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
