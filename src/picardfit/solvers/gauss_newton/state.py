"""Where LiftedGaussNewton stands, and the merit that its steps lower."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation
from picardfit.collocation.point import Point
from picardfit.errors import Status


@dataclass(frozen=True)
class State:
    """Where the iteration stands."""

    system: Discretisation
    scale: np.ndarray  # (states,): size of variation of each state
    knot_scale: np.ndarray  # (linked, states): unit of the jumps
    point: Point
    multipliers: np.ndarray  # (linked, states), divided by the penalty
    demanded: np.ndarray  # the multipliers that the model of the last accepted step asks for
    weight: float  # curvature of the data term per segment in scaled states: the unit of the penalties
    floor: float  # values of the objective below this are rounding errors
    size: np.ndarray  # (experiments, width): by how much each unknown may reasonably move
    positive: np.ndarray  # (states,) bool: states that cannot reach zero
    penalty: float  # weight of continuity, in units of `weight`
    damping: float
    clock_weight: float = 1.0  # of jumps of the clock, where events move knots
    stage: int = 0
    stage_steps: int = 0  # accepted in this stage
    rejections: int = 0  # in a row
    calm: int = 0  # accepted steps in a row that could gain next to nothing
    lowest: float = np.inf  # objective when it last fell by more than a little
    idle: int = 0  # steps since then, accepted or not
    second_order: bool = False  # second derivatives may help: the last step used or needed them
    failures: int = 0  # of steps with second derivatives, in a row
    pause: int = 0  # steps until they are tried again
    barrier: float = 0.0  # the damping of the last rejected step, forgotten little by little
    last_jump: float = np.inf  # at the latest update of the multipliers
    joined_at: float = np.inf  # the jump when joining segments of this mesh was last tried
    linear: Linearisation | None = None  # at the point or close by, if it is known already
    status: Status | None = None

    @cached_property
    def knot_penalty(self) -> np.ndarray:
        """(linked, states): weight of a squared jump."""
        weights = self.penalty * self.weight / self.knot_scale**2
        if self.system.events is not None:
            weights[:, -1] *= self.clock_weight
        return weights

    @property
    def value(self) -> float:
        """The objective along the path."""
        return self.point.data

    @property
    def loss(self) -> float:
        return self.system.problem.mean_loss(self.point.data)

    @cached_property
    def jump(self) -> float:
        """Largest jump relative to the states' scale."""
        return float(np.abs(self.point.jumps / self.scale).max(initial=0.0))

    @property
    def residual(self) -> float:
        """Largest |u - P u| relative to the states' scale."""
        return self.point.residual

    @property
    def segments(self) -> int:
        return len(self.system.mesh)

    @property
    def block(self) -> int:
        """Nodes times states of a segment."""
        return len(self.system.mesh.rule.nodes) * len(self.scale)


@dataclass(frozen=True)
class NoPath:
    """The state where no path can be computed at the starting values."""

    status: Status = Status.NOT_FINITE
    loss: float = np.inf
    value: float = np.inf
    jump: float = np.nan
    residual: float = np.nan
    segments: int = 0
    block: int = 0


def merit(state: State, point: Point | None) -> float:
    """The augmented Lagrangian at a point, up to a constant; infinite where there is none.

    data + 1/2 (c + mu)' W (c + mu), with jumps c, penalties W and multipliers mu divided by them.
    """
    if point is None:
        return np.inf
    shifted = point.jumps + state.multipliers
    return point.data + 0.5 * float(np.vdot(shifted, state.knot_penalty * shifted))


def merit_size(state: State) -> float:
    """What changes of the merit are compared with: least squares with itself, a likelihood with its natural size.

    Jumps count, but not the multipliers: they may cost any amount where they mean nothing yet.
    """
    point = state.point
    jumps = 0.5 * float(np.vdot(point.jumps, state.knot_penalty * point.jumps))
    return state.system.objective.size(point.outputs, point.data) + jumps
