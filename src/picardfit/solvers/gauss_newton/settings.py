"""The thresholds of LiftedGaussNewton, grouped by what they decide.

All are relative numbers without a unit unless a comment says otherwise. Where no other origin is given, a value was
chosen by measurement on the problems of benchmarks/.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from picardfit.checks import as_whole, is_number, is_whole
from picardfit.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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
    fair: float = 0.25  # the same of a model that is fair (textbook value)
    after_good: float = 0.1  # factor of the damping after such a step
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

    sufficient: float = 1e-3  # part of the predicted decrease that a step must bring (Armijo's rule)
    rounding: float = 1e-13  # of the merit: rounding error of a difference of two merits
    negligible: float = 1e-12  # predicted decrease, relative to the merit, that rounding errors may swallow
    closer: float = 0.1  # part of |u - P u| that contracting anew may leave for a path to be replaced
    trust: float = 0.01  # part of a step's decrease that may remain although the model predicted it exactly


@dataclass(frozen=True)
class Correction:
    """Second-order corrections: what the linear model missed is taken back with the same factors."""

    most: int = 6  # of one step; along curved valleys one does not suffice
    satisfied: float = 0.5  # part of the predicted decrease from which on no (further) correction is tried
    helpful: float = 0.5  # part of the excess over the old merit that may be left for another to follow


@dataclass(frozen=True)
class SecondDerivatives:
    """When steps of the last stage use second derivatives (Newton's method in place of Gauss-Newton)."""

    missed: float = 0.1  # part of the predicted decrease by which a model must miss; infinite: never
    further_steps: int = 2  # and so many more Gauss-Newton steps would not reach the tolerance
    jump: float = 1e-2  # largest jump, in units of the states' scale
    damping: float = 1e-6  # at most: Newton's model needs little
    longest_pause: int = 8  # steps until the next attempt after failed ones: 1, 2, 4, 8


@dataclass(frozen=True)
class Stages:
    """What ends a stage, and what happens in the last one."""

    done: float = 5e-2  # decrease still expected, relative to the merit, at which an early stage ends
    near: float = 1e-2  # decrease still expected at which multipliers are updated
    nearer: float = 1e-5  # the same while jumps shrink slowly, as multipliers then need a better minimum
    slow: float = 0.5  # part of the jumps that may be left by an update that is not slow
    calm: float = 1e-6  # decrease still expected of a step that gains next to nothing
    contracted: float = 1e-4  # |u - P u| relative to the states' scale, while continuity is loose


@dataclass(frozen=True)
class Crawling:
    """When a long last stage is given up: it hardly lowers the loss although much is left to gain."""

    decrease: float = 3e-4  # of the loss, relative to its size, that `steps` must bring
    steps: int = 40  # accepted or not
    promised: float = 5e-4  # decrease by an undamped step, relative to the merit; less is slow convergence


@dataclass(frozen=True)
class Multipliers:
    """The augmented Lagrangian of the last stage: when its penalty grows."""

    slow: float = 0.2  # part of the jumps that an update may leave near the end
    growth: float = 10.0  # factor of the penalty where it leaves more
    largest_penalty: float = 1e6  # beyond it the banded system loses too many digits
    least_scale: float = 1e-6  # of a state, relative to the largest, in which final jumps are measured


@dataclass(frozen=True)
class MeshRefinement:
    """How the mesh follows the path: between stages, in the last one, and when neighbours are joined."""

    first_rounds: int = 8  # halvings of first segments that are too long to contract
    rounds: int = 8  # halvings of a segment in one go
    open_rounds: int = 2  # the same while wide jumps make layers that will vanish
    narrow: float = 1e-3  # jumps, in units of the states' scale, that make no layers
    block: int = 120  # nodes times states of a segment up to which more nodes are cheap
    joined_segments: int = 64  # meshes up to this many segments are not worth joining
    joined_again: float = 0.01  # part of the jumps at the last attempt that may be left before the next one


def check_record(name: str, record: object, usual: DataclassInstance) -> None:
    """InputError unless a record of thresholds is of the usual kind, with no negative number in it."""
    if not isinstance(record, type(usual)):
        raise InputError("solvers.not_a_record", name, value=record, expected=type(usual).__name__)
    for one in fields(usual):
        value, example = getattr(record, one.name), getattr(usual, one.name)
        if is_whole(example):
            as_whole(value, f"{name}.{one.name}", 0, example)
        elif not is_number(value) or not value >= 0:
            raise InputError("solvers.negative", f"{name}.{one.name}", value=value, example=example)
