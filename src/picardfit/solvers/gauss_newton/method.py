"""LiftedGaussNewton: Gauss-Newton on the Picard operator with exact multipliers (the default method).

The paper's Remark 1 taken seriously: its gradient map is replaced by a Gauss-Newton step. One step linearises f at all
nodes, solves for the exact multipliers S (n = infinity), eliminates the segment states (condense.py), moves the path
along S and contracts it. Continuity at the knots is an augmented Lagrangian: the penalty grows stage by stage, then
multipliers make the jumps vanish, so the answer is the optimum of the original problem and not of a penalty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from picardfit.checks import check_positive
from picardfit.collocation.adaptation import first_mesh, split, state_scale
from picardfit.collocation.condensing import Factor, Quadratic, factorise, is_convex, solve_box
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, advance, curvature_of_step, linearise
from picardfit.collocation.mesh import Nodes, rule
from picardfit.collocation.point import Point, contract_from, evaluate
from picardfit.collocation.refinement import Resolution, coarsened, refined
from picardfit.collocation.second_derivatives import has_second_order, newton_model
from picardfit.errors import InputError, Status
from picardfit.problem.objective import CONTRACTED
from picardfit.problem.problem import Problem
from picardfit.problem.start import Start
from picardfit.solvers.gauss_newton.continuity import (
    adjoint_multipliers,
    continuity_unit,
    knot_scales,
    new_forces,
)
from picardfit.solvers.gauss_newton.state import (
    State,
    Trial,
    compared_with,
    damp,
    merit_of,
    prior_slope,
    sharpened,
    unfrozen,
    update_multipliers,
)
from picardfit.solvers.loop import Solution
from picardfit.solvers.noise_levels import frozen_objective, smoothed

STAGE_DONE = 5e-2  # predicted relative decrease at which a stage has served its purpose
ROUGHLY_CONTRACTED = 1e-4  # |u - P u| that will do while continuity is loose
CALM = 1e-6  # predicted relative decrease of a step that can gain next to nothing
CRAWL, CRAWLING = 3e-4, 40  # relative decrease of the loss that so many steps must bring in the last stage
FORGET = 0.3  # of the damping that was too small, after an accepted step
UNDAMPED = 1e-2  # damping up to which a step goes nearly all the way to the minimum of the model
HEAVY = 0.1  # damping from which on a step says nothing of the minimum
BENT = 0.1  # part of a predicted decrease by which it may be missed until second derivatives are tried
CLOSING = 1e-2  # jumps up to which second derivatives are tried, in units of the states' scale
NEWTON_DAMPING = 1e-6  # of steps with second derivatives
LONGEST_PAUSE = 8  # steps after which second derivatives are tried again where they failed
FAITH = 0.01  # part of a step's decrease that may be left although the model predicted the decrease exactly
SUFFICIENT = 1e-3  # part of the predicted decrease that a step must bring
PROMISED = 5e-4  # relative decrease that a step without damping promises of one that crawls, at least
REFINEMENTS = 8  # halvings of a segment in one go
COARSE_REFINEMENTS = 2  # the same where jumps still make layers that will vanish
NARROW = 1e-3  # jumps that make none
FEW = 64  # segments that are not worth joining
AGAIN = 0.01  # part of the jumps of a mesh that may be left until joining its segments is tried again
CORRECTIONS = 6  # of second order, of one step
HELPFUL = 0.5  # part of the excess that a correction may leave if another one is to follow


@dataclass(frozen=True)
class LiftedGaussNewton:
    """Settings of the default method; the defaults suit nearly every problem.

    `nodes`, `family`: the path on a segment. `penalties`: weights of continuity, stage by stage, in units of the data
    term's curvature. `tolerance`: predicted relative decrease of the loss at which to stop; `jump_tolerance`: largest
    jump relative to the state's scale; `resolution`: largest unresolved part of the path relative to the scale;
    `patience`: accepted steps in a stage before the next one begins anyway; `coarse_resolution`: the resolution asked
    for between stages; `polish_nodes`: nodes of the final mesh; `max_segments`, `max_iterations`: limits.
    """

    nodes: int = 5
    family: Nodes = Nodes.RADAU
    penalties: tuple[float, ...] = (0.3, 30.0, 1e4)
    tolerance: float = 1e-10
    jump_tolerance: float = 1e-9
    resolution: float = 1e-4
    coarse_resolution: float = 1e-2
    polish_nodes: int = 8
    patience: int = 12
    max_segments: int = 200_000
    max_iterations: int = 400
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(
            self,
            whole=("nodes", "polish_nodes", "patience", "max_segments", "max_iterations"),
            real=("tolerance", "jump_tolerance", "resolution", "coarse_resolution"),
        )
        if not isinstance(self.family, Nodes):
            raise InputError(
                f"family = {self.family!r} is not a family of nodes: write for example pf.Nodes.RADAU."
            )
        numbers = isinstance(self.penalties, tuple | list) and all(
            isinstance(p, float | int) for p in self.penalties
        )
        if not numbers or not self.penalties or min(self.penalties) <= 0:
            raise InputError(
                f"penalties = {self.penalties!r} are not positive numbers: write for example (3.0, 30.0, 300.0)."
            )

    def init(self, problem: Problem, start: Start) -> State:
        scale = state_scale(problem, [states for _, states in start.tables])
        mesh = first_mesh(problem, start, rule(self.nodes, self.family), scale)
        unknowns = np.clip(start.unknowns, problem.layout.lower, problem.layout.upper)
        surrogate = None
        if len(self.penalties) > 1 and problem.scatter is not None:
            surrogate = frozen_objective(problem, unknowns, smoothed(problem), start.at_samples(problem))
        for _ in range(8):
            system = Discretisation(problem, mesh, surrogate)
            states = np.concatenate([start.states(k[:-1], e) for e, k in enumerate(mesh.knots)])
            point, failed = contract_from(system, unknowns, states, scale, ROUGHLY_CONTRACTED)
            if point is not None or len(mesh) > self.max_segments:
                break
            mesh, _, _ = split(mesh, failed)
        status = Status.NOT_FINITE if point is None else None
        return State(
            system,
            scale,
            knot_scales(system, point, scale),
            point,
            multipliers=(none := np.zeros((len(system.mesh.linked), len(scale)))),
            demanded=none,
            weight=continuity_unit(system, point),
            floor=0.0 if point is None else system.objective.floor(point.outputs),
            size=problem.layout.size(unknowns),
            positive=start.positive,
            penalty=self.penalties[0],
            status=status,
        )

    def resume(self, problem: Problem, solution: Solution, penalty: float | None = None) -> State:
        """A state at an earlier solution, to go on with other settings or slightly other data (a warm start).

        `penalty` is the weight of continuity, by default that of the last stage.
        """
        system = Discretisation(problem, solution.system.mesh)
        scale = state_scale(problem, [solution.path])
        point = evaluate(system, solution.unknowns, solution.states, solution.path, scale)
        state = State(
            system,
            scale,
            knot_scales(system, point, scale),
            point,
            multipliers=(none := np.zeros_like(solution.jumps)),
            demanded=none,
            weight=continuity_unit(system, point),
            floor=0.0 if point is None else system.objective.floor(point.outputs),
            size=problem.layout.size(solution.unknowns),
            positive=np.zeros(len(scale), bool),
            penalty=self.penalties[-1] if penalty is None else penalty,
            stage=len(self.penalties) - 1,
            damping=1e-4,
            status=Status.NOT_FINITE if point is None else None,
        )
        if point is None:
            return state
        return replace(state, multipliers=adjoint_multipliers(system, point, state.knot_penalty))

    def with_resolution(self, resolution: float) -> Self:
        """The method with another resolution of the final mesh."""
        return replace(self, resolution=resolution)

    def step(self, state: State) -> State:
        linear = state.linear or linearise(state.system, state.point)
        if state.bent and state.jump < CLOSING and has_second_order(state.system):
            if not state.pause:
                found = self._newton(state, linear)
                if found is not None:
                    return self._watched(replace(found, failures=0))
                longer = min(2**state.failures, LONGEST_PAUSE)
                state = replace(state, failures=state.failures + 1, pause=longer)
            else:
                state = replace(state, pause=state.pause - 1)
        found = self._moved(state, linear, linear.quadratic, state.damping)
        return self._watched(self._reject(state, linear) if found is None else found)

    def _watched(self, state: State) -> State:
        """The state of a long last stage, which ends where many steps hardly lower the loss although much is left."""
        if state.status is not None or not self._last(state) or state.stage_steps <= self.patience:
            return state
        value = state.point.data
        if value < state.lowest - CRAWL * state.system.objective.size(state.point.outputs, value):
            return replace(state, lowest=value, idle=0)
        if state.idle < CRAWLING:
            return replace(state, idle=state.idle + 1)
        if self._promised(state) < PROMISED * compared_with(state):
            return replace(state, idle=0)  # it converges slowly
        return replace(state, status=Status.STALLED)

    def _promised(self, state: State) -> float:
        """The decrease that the model promises of a step without damping."""
        model = (state.linear or linearise(state.system, state.point)).quadratic
        factor = self._factor(state, model, state.knot_penalty, 0.0)
        shifted = state.point.jumps + state.multipliers
        move = factor and self._move(
            state, factor, model.slope, shifted, state.point.unknowns, prior_slope(state)
        )
        return move[2] if move else np.inf

    def _newton(self, state: State, linear: Linearisation) -> State | None:
        """The state after a step with second derivatives, or None where that does not do."""
        forces = state.knot_penalty * (state.point.jumps + state.multipliers)
        model = newton_model(state.system, state.point, linear, forces, state.scale)
        return self._moved(state, linear, model, min(state.damping, NEWTON_DAMPING))

    def _moved(self, state: State, linear: Linearisation, model: Quadratic, damping: float) -> State | None:
        """The state after a step to the minimum of a damped model, or None where that does not do."""
        trial = self._trial(state, linear, model, damping)
        if trial is None:
            return None
        predicted, gained = trial.predicted, trial.old - trial.new
        if not gained >= SUFFICIENT * predicted - 1e-13 * abs(trial.old):
            if trial.point is None or abs(predicted) > 1e-12 * compared_with(state) + state.floor:
                return None
            return self._finish_stage(state, 0.0, compared_with(state))  # only rounding errors are left
        ratio = gained / max(predicted, 1e-300)
        left = predicted  # estimate of what further steps can gain
        if damping <= UNDAMPED:
            left = max(abs(predicted - gained), FAITH * predicted)
        elif self._last(state):
            left = (1 + damping) * predicted  # a short step gains little wherever it starts from
        elif damping > HEAVY:
            left = np.inf
        change = 0.1 if ratio > 0.75 else 0.3 if ratio > 0.25 else 2.0
        missed, newton = abs(ratio - 1), model is not linear.quadratic
        slow = missed > BENT and missed**4 * predicted > self.tolerance * compared_with(state)
        state = replace(
            state,
            point=trial.point,
            demanded=trial.demanded,
            damping=max(state.damping * change, 2 * state.barrier, 1e-14),
            barrier=FORGET * state.barrier,
            bent=self._last(state) and (newton or slow),
            stage_steps=state.stage_steps + 1,
            rejections=0,
            linear=linear.moved(state.system, trial.point, state.scale),
        )
        return self._finish_stage(state, left, compared_with(state))

    def _trial(self, state: State, linear: Linearisation, model: Quadratic, damping: float) -> Trial | None:
        """Where the minimum of a damped model leads, with second-order corrections; None where it has none."""
        penalty, layout, point = state.knot_penalty, state.system.problem.layout, state.point
        shifted = point.jumps + state.multipliers
        factor = self._factor(state, model, penalty, damping)
        if factor is None:
            return None
        newton = model is not linear.quadratic
        if newton and not is_convex(factor.hessian, layout.local, layout.at_bounds(point.unknowns)):
            return None
        move = self._move(state, factor, model.slope, shifted, point.unknowns, prior_slope(state))
        if not move:
            return None
        *steps, predicted = move
        if newton and not predicted > 0:  # unknowns that leave their bounds may find no minimum
            return None
        old = merit_of(point, state.multipliers, penalty)
        ahead = advance(state.system, point, linear, *steps, state.scale, state.positive, self._enough(state))
        new = np.inf if ahead is None else merit_of(ahead, state.multipliers, penalty)
        if ahead is not None and old - new < 0.5 * predicted:
            ahead, new = self._corrected(state, factor, linear, ahead, old, predicted)
        demanded = shifted + model.jump_change(state.system.mesh, layout.columns, *steps)
        return Trial(ahead, old, new, predicted, demanded)

    def _corrected(
        self, state: State, factor: Factor, linear: Linearisation, trial: Point, old: float, predicted: float
    ) -> tuple[Point, float]:
        """The trial and its merit after second-order corrections, as long as they help.

        Each takes back what the linear model missed in the move before, with the same factors; what reached a bound
        stays there. Along curved valleys one correction does not suffice.
        """
        layout, penalty, before = state.system.problem.layout, state.knot_penalty, state.point
        best, value = trial, merit_of(trial, state.multipliers, penalty)
        for _ in range(CORRECTIONS):
            slope, jumps = curvature_of_step(state.system, before, linear, trial)
            held = layout.at_bounds(trial.unknowns)
            move = self._move(state, factor, slope, jumps, trial.unknowns, held=held)
            before, trial = (
                trial,
                move
                and advance(
                    state.system, trial, linear, *move[:2], state.scale, state.positive, self._enough(state)
                ),
            )
            new = np.inf if not trial else merit_of(trial, state.multipliers, penalty)
            if not new < value:
                break
            helped = new - old < HELPFUL * (value - old)
            best, value = trial, new
            if not helped or old - new >= 0.5 * predicted:
                break
        return best, value

    def solution(self, state: State) -> Solution | None:
        point = state.point
        if point is None:
            return None
        system = replace(state.system, surrogate=None) if state.system.surrogate else state.system
        return Solution(system, point.unknowns, point.states, point.path, point.jumps)

    def _last(self, state: State) -> bool:
        """Whether the state is in the last stage."""
        return state.stage == len(self.penalties) - 1

    def _enough(self, state: State) -> float:
        """|u - P u| that will do at this stage."""
        return CONTRACTED if self._last(state) else ROUGHLY_CONTRACTED

    def _wanted(self, state: State, rounds: int = REFINEMENTS) -> Resolution:
        """What is asked of the final mesh: more nodes for small models, where they are cheap."""
        nodes = max(self.nodes, min(self.polish_nodes, 120 // len(state.scale)))
        return Resolution(rule(nodes, self.family), self.resolution, rounds, self.max_segments)

    def _factor(self, state: State, model: Quadratic, penalty: np.ndarray, damping: float) -> Factor | None:
        layout = state.system.problem.layout
        of_states = damping * state.weight / state.scale**2
        try:
            factor = factorise(state.system.mesh, layout.columns, model, penalty, of_states)
        except np.linalg.LinAlgError:
            return None
        if (priors := state.system.problem.priors) is not None:
            factor.hessian[...] += priors.terms(state.point.unknowns)[1][:, :, None] * np.eye(layout.width)
        damp(factor.hessian, layout.local, state.size, damping)
        return factor

    def _move(self, state: State, factor: Factor, slope, jumps, unknowns: np.ndarray, prior=None, held=None):
        """The damped, bounded Gauss-Newton step: (unknowns step, states step, predicted decrease), or None.

        `prior` is the slope of the priors (experiments, width), if there are any; `held` columns (bool) do not move.
        """
        layout = state.system.problem.layout
        reduced = factor.reduce(slope, jumps)
        if prior is not None:
            reduced = replace(reduced, slope=reduced.slope + prior, full_slope=reduced.full_slope + prior)
        lower, upper = layout.lower - unknowns, layout.upper - unknowns
        if held is not None:
            lower, upper = np.where(held, 0.0, lower), np.where(held, 0.0, upper)
        try:
            unknowns_step = solve_box(factor.hessian, reduced.slope, layout.local, lower, upper)
        except np.linalg.LinAlgError:
            return None
        states_step = reduced.states(unknowns_step)
        predicted = -0.5 * reduced.directional_slope(states_step, unknowns_step)
        return (unknowns_step, states_step, predicted) if np.isfinite(predicted) else None

    def _reject(self, state: State, linear: Linearisation) -> State:
        """The state with more damping; derivatives and a path that were only nearly exact are made exact."""
        if state.point.residual > CONTRACTED:
            point = state.point
            exact = evaluate(
                state.system, point.unknowns, point.states, point.path, state.scale, linear.nearby
            )
            if exact is not None and exact.residual < 0.1 * point.residual:
                state = replace(state, point=exact)
        if linear.path is not state.point.path:
            linear = None
        damping = state.damping * 8.0 ** (state.rejections + 1)
        if damping < 1e8:
            return replace(
                state, damping=damping, barrier=state.damping, rejections=state.rejections + 1, linear=linear
            )
        if state.stage < len(self.penalties) - 1:
            return self._next_stage(replace(state, linear=linear), 1e-2)
        return replace(state, status=Status.STALLED)

    def _finish_stage(self, state: State, left: float, merit: float) -> State:
        """Go to the next stage, update multipliers, refine the mesh or end, as the point allows.

        `left` is what further steps may gain, `merit` what that is compared with.
        """
        if state.stage < len(self.penalties) - 1:
            if left > STAGE_DONE * merit + state.floor and state.stage_steps < self.patience:
                return state
            state = self._next_stage(state, min(state.damping, 1e-4))
            coarse = Resolution(None, self.coarse_resolution, COARSE_REFINEMENTS, self.max_segments)
            if not self._last(state):
                return self._refine(state, coarse)
            return self._refine(state, coarse, self._wanted(state, rounds=1))  # of the latter only the nodes
        if state.jump < min(self.resolution, AGAIN * state.joined_at) and len(state.system.mesh) > FEW:
            coarse = self._coarsen(state)
            if coarse.system is not state.system:
                return coarse
            state = replace(state, joined_at=state.jump)
        calm = left <= CALM * merit + state.floor
        if calm or state.calm:
            state = replace(state, calm=state.calm + 1 if calm else 0)
        slow = state.jump > 0.5 * state.last_jump  # then multipliers need a point that is nearly the minimum
        if left > (1e-5 if slow else 1e-2) * merit + state.floor:
            return state
        if not np.isfinite(state.last_jump):
            rounds = REFINEMENTS if state.jump < NARROW else COARSE_REFINEMENTS
            state = update_multipliers(state, settled=False)
            return self._refine(state, self._wanted(state, rounds))
        if calm and state.system.surrogate is not None:
            return sharpened(state)
        crawling = state.calm > self.patience  # along a direction that the data hardly determine
        if (left > self.tolerance * merit + state.floor and not crawling) or self._open(state):
            return update_multipliers(state, settled=calm and state.jump > self.jump_tolerance)
        refined = self._refine(state, self._wanted(state))
        return replace(refined, status=Status.CONVERGED) if refined.system is state.system else refined

    def _next_stage(self, state: State, damping: float) -> State:
        stage = state.stage + 1
        if stage == len(self.penalties) - 1:  # continuity keeps signs by itself now
            state = unfrozen(replace(state, positive=np.zeros_like(state.positive)))
        forces = state.knot_penalty * state.demanded
        state = replace(
            state,
            knot_scale=knot_scales(state.system, state.point, state.scale),
            stage=stage,
            stage_steps=0,
            damping=damping,
            barrier=0.0,
            penalty=self.penalties[stage],
        )
        return replace(state, multipliers=forces / state.knot_penalty)

    def _open(self, state: State) -> bool:
        """Whether a jump is too large, relative to the states' scale along the path as the certificate has it."""
        scale = state_scale(state.system.problem, [state.point.path], least=1e-6)
        return bool(np.abs(state.point.jumps / scale).max(initial=0.0) > self.jump_tolerance)

    def _coarsen(self, state: State) -> State:
        """The state on a mesh without segments that its path no longer needs; the same state when they are few."""
        coarse, point, origin = coarsened(
            state.system, state.point, state.scale, self.resolution, self._enough(state)
        )
        if coarse is state.system:
            return state
        forces, demanded = (state.knot_penalty * one for one in (state.multipliers, state.demanded))
        scales = knot_scales(coarse, point, state.scale)
        state = replace(state, system=coarse, knot_scale=scales, point=point, linear=None, joined_at=np.inf)
        return replace(
            state,
            multipliers=forces[origin] / state.knot_penalty,
            demanded=demanded[origin] / state.knot_penalty,
        )

    def _refine(self, state: State, *wanted: Resolution) -> State:
        """The state on a mesh that resolves the path; the same state when there is no need."""
        fine, point, origin = refined(state.system, state.point, state.scale, wanted, self._enough(state))
        if fine is state.system:
            return state
        forces, linear = new_forces(fine, point, origin, state.knot_penalty * state.multipliers)
        scales = knot_scales(fine, point, state.scale)
        state = replace(state, system=fine, knot_scale=scales, point=point, linear=linear, joined_at=np.inf)
        multipliers = forces / state.knot_penalty
        return replace(state, multipliers=multipliers, demanded=multipliers)
