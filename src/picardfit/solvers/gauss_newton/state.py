"""Where LiftedGaussNewton stands, and the small changes of it that need no settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation
from picardfit.collocation.point import Point, evaluate
from picardfit.errors import Status
from picardfit.solvers.gauss_newton.continuity import continuity_unit
from picardfit.solvers.noise_levels import fit_levels

LARGEST_PENALTY = 1e6  # beyond it the banded system loses too many digits


@dataclass(frozen=True)
class State:
    """Where the iteration stands."""

    system: Discretisation
    scale: np.ndarray  # (states,): size of variation of each state
    knot_scale: np.ndarray  # (linked, states): what jumps are measured by
    point: Point | None
    multipliers: np.ndarray  # (linked, states), divided by the penalty
    demanded: np.ndarray  # the multipliers that the model of the last accepted step asks for
    weight: float  # curvature of the data term per segment in scaled states: the unit of the penalties
    floor: float  # values below this are rounding errors
    size: np.ndarray  # (experiments, width): by how much each unknown may reasonably move
    positive: np.ndarray  # (states,) bool: states that cannot reach zero
    penalty: float  # weight of continuity, in units of `weight`
    stage: int = 0
    stage_steps: int = 0  # accepted in this stage
    damping: float = 1e-2
    rejections: int = 0  # in a row
    calm: int = 0  # accepted steps in a row that could gain next to nothing
    lowest: float = np.inf  # value of the data when it last fell by more than a little
    idle: int = 0  # steps since then, accepted or not
    bent: bool = False  # second derivatives may help: the last step had them, or its model missed without
    failures: int = 0  # of steps with second derivatives, in a row
    pause: int = 0  # steps until they are tried again
    barrier: float = 0.0  # the damping of the last rejected step, forgotten little by little
    last_jump: float = np.inf  # at the latest update of the multipliers
    joined_at: float = np.inf  # the jump when joining segments of this mesh was tried last
    linear: Linearisation | None = None  # at the point or close by, if it is known already
    status: Status | None = None

    @cached_property
    def knot_penalty(self) -> np.ndarray:
        """(linked, states): weight of a squared jump."""
        return self.penalty * self.weight / self.knot_scale**2

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


@dataclass(frozen=True)
class Trial:
    """Where a step leads."""

    point: Point | None
    old: float  # merit before it
    new: float  # and after it
    predicted: float  # decrease that the model promised
    demanded: np.ndarray  # (linked, states): multipliers that it asks for


def compared_with(state: State) -> float:
    """What changes of the merit are compared with: least squares with itself, a likelihood with its natural size.

    Jumps count, but not the multipliers: they may cost any amount where they mean nothing yet.
    """
    point = state.point
    jumps = 0.5 * float(np.vdot(point.jumps, state.knot_penalty * point.jumps))
    return state.system.objective.size(point.outputs, point.data) + jumps


def prior_slope(state: State) -> np.ndarray | None:
    priors = state.system.problem.priors
    return None if priors is None else priors.terms(state.point.unknowns)[0]


def unfrozen(state: State) -> State:
    """The state with the full likelihood in place of the one with frozen levels, its noise levels fitted."""
    if state.system.surrogate is None:
        return state
    problem, point = state.system.problem, state.point
    system = replace(state.system, surrogate=problem.objective.rounded())
    outputs = point.outputs[:, : len(problem.model.observables)]
    everywhere = np.ones(point.unknowns.shape, bool)
    unknowns = fit_levels(problem, point.unknowns, outputs, point.sampled, everywhere)
    moved = evaluate(system, unknowns, point.states, point.path, state.scale)
    if moved is None:
        return replace(state, status=Status.NOT_FINITE)
    floor, weight = problem.objective.floor(moved.outputs), continuity_unit(system, moved)
    return replace(state, system=system, point=moved, linear=None, weight=weight, floor=floor)


def sharpened(state: State) -> State:
    """The state with kinks of Laplace densities a tenth as wide, until they are as the problem has them."""
    system, point = replace(state.system, surrogate=state.system.surrogate.sharper()), state.point
    moved = replace(point, data=system.value(point.unknowns, point.outputs))
    return replace(state, system=system, point=moved, linear=None, calm=0)


def update_multipliers(state: State, settled: bool) -> State:
    """The multipliers take over the jumps; where that shrinks the jumps too slowly near the end the penalty grows."""
    multipliers = state.demanded
    if settled and state.jump > 0.2 * state.last_jump and state.penalty < LARGEST_PENALTY:
        multipliers, state = multipliers / 10, replace(state, penalty=10 * state.penalty)
    return replace(state, multipliers=multipliers, last_jump=state.jump)


def merit_of(point: Point, multipliers: np.ndarray, penalty: np.ndarray) -> float:
    """The augmented Lagrangian (up to a constant)."""
    shifted = point.jumps + multipliers
    return point.data + 0.5 * float(np.vdot(shifted, penalty * shifted))


def damp(hessian: np.ndarray, local: int, size: np.ndarray, damping: float) -> None:
    """Marquardt's damping of the unknowns, in place: the diagonal grows by a factor.

    A column that the data do not feel gets a hair of the largest curvature, each measured over the unknown's own size.
    """
    width = hessian.shape[1]
    diagonal = hessian.reshape(len(hessian), width**2)[:, :: width + 1]
    curvature = diagonal
    if len(diagonal) > 1:
        curvature = diagonal.copy()
        curvature[:, local:] = curvature[:, local:].sum(axis=0) / len(diagonal)
    area = size**2
    least = 1e-10 * float((curvature * area).max(initial=1e-300)) / area
    diagonal += damping * np.maximum(curvature, least)
