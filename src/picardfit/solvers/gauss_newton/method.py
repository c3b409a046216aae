"""LiftedGaussNewton: Gauss-Newton on the Picard operator with exact multipliers (the default method).

It takes Remark 1 of the paper at its word and replaces the gradient map by a Gauss-Newton step. One step linearises f
at all nodes, solves for the exact multipliers S (n = infinity), eliminates the segment states
(collocation/condensing.py), moves the path along S and contracts it. Continuity at the knots is an augmented
Lagrangian: the penalty grows stage by stage, then multipliers make the jumps vanish, so the answer is the optimum of
the original problem and not of a penalty. step.py makes a trial step, stages.py decides what follows it,
transitions.py changes stage, multipliers and mesh.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from picardfit.checks import as_whole, check_positive, is_number, is_whole
from picardfit.collocation.adaptation import first_mesh, resolve, state_scale
from picardfit.collocation.condensing import Quadratic
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, linearise
from picardfit.collocation.mesh import Flags, Mesh, Nodes, rule
from picardfit.collocation.picard import Contraction
from picardfit.collocation.point import Point, contract_from, evaluate, followed
from picardfit.collocation.refinement import Joining, Resolution
from picardfit.collocation.second_derivatives import has_second_order, newton_model
from picardfit.errors import InputError, Status
from picardfit.problem.problem import Problem, Start
from picardfit.solvers.gauss_newton import transitions
from picardfit.solvers.gauss_newton.stages import (
    Acceptance,
    Crawling,
    Damping,
    Limits,
    MeshRefinement,
    Next,
    SecondDerivatives,
    StageEvidence,
    Stages,
    Verdict,
    after_rejection,
    decide,
    is_calm,
    judge,
    nothing_left,
    still_to_gain,
)
from picardfit.solvers.gauss_newton.state import NoPath, State, merit_size
from picardfit.solvers.gauss_newton.step import Correction, Trial, promised_decrease, trial_step
from picardfit.solvers.gauss_newton.transitions import (
    Multipliers,
    continuity_unit,
    knot_scales,
    stationary_forces,
)
from picardfit.solvers.loop import Solution
from picardfit.solvers.noise_levels import frozen_objective, smoothed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class LiftedGaussNewton:
    """Settings of the default method; the defaults suit nearly every problem.

    `nodes`, `family`: the path on a segment. `penalties`: weights of continuity, stage by stage, in units of the data
    term's curvature. `tolerance`: predicted relative decrease of the loss at which to stop; `jump_tolerance`: largest
    jump relative to the state's scale; `resolution`: largest unresolved part of the path relative to the scale;
    `coarse_resolution`: the same between stages; `polish_nodes`: nodes of the final mesh; `patience`: accepted steps in
    a stage before the next one begins anyway; `max_segments`, `max_iterations`: limits. The records after them hold the
    thresholds of damping, contraction, stages and mesh; each field says what it decides.
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
    damping: Damping = field(default=Damping())
    acceptance: Acceptance = field(default=Acceptance())
    correction: Correction = field(default=Correction())
    second_derivatives: SecondDerivatives = field(default=SecondDerivatives())
    stages: Stages = field(default=Stages())
    crawling: Crawling = field(default=Crawling())
    multipliers: Multipliers = field(default=Multipliers())
    refinement: MeshRefinement = field(default=MeshRefinement())
    joining: Joining = field(default=Joining())
    contraction: Contraction = field(default=Contraction())
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(
            self,
            whole=("nodes", "polish_nodes", "patience", "max_segments", "max_iterations"),
            real=("tolerance", "jump_tolerance", "resolution", "coarse_resolution"),
        )
        if not isinstance(self.family, Nodes):
            raise InputError("solvers.not_a_family", value=self.family)
        if not _are_positive(self.penalties):
            raise InputError("solvers.not_penalties", value=self.penalties)
        for one in fields(self):
            record, usual = getattr(self, one.name), one.default
            if record is not usual and is_dataclass(usual) and not isinstance(usual, type):
                _check_record(one.name, record, usual)

    # ---- beginning and end -----------------------------------------------------------------------------------------

    def init(self, problem: Problem, start: Start) -> State | NoPath:
        scale = state_scale(problem, [states for _, states in start.tables])
        mesh = first_mesh(problem, start, rule(self.nodes, self.family), scale)
        unknowns = np.clip(start.unknowns, problem.layout.lower, problem.layout.upper)
        surrogate, loose = None, self._loose_contraction
        if len(self.penalties) > 1 and problem.scatter is not None:
            surrogate = frozen_objective(problem, unknowns, smoothed(problem), start.at_samples(problem))

        def attempt(mesh: Mesh, borrow: bool) -> tuple[tuple[Discretisation, Point | None], Flags]:
            system = Discretisation(problem, mesh, surrogate)
            states = start.at_knots(problem, mesh.knots)
            point, failed = contract_from(system, unknowns, states, scale, loose, borrow)
            return (system, point), failed

        finer = self.refinement
        segments = min(self._most_segments(problem, self.nodes), finer.first_growth * len(mesh))
        system, point = resolve(mesh, partial(attempt, borrow=False), finer.first_rounds, segments)
        if point is None:
            system, point = resolve(mesh, partial(attempt, borrow=True), finer.borrowing_rounds, segments)
        if point is None:
            return NoPath()
        state = self._at(system, point, scale, stage=0, damping=self.damping.start)
        return replace(state, positive=start.positive)

    def resume(self, problem: Problem, solution: Solution, stiff: bool = False) -> State | NoPath:
        """A state at an earlier solution, to continue with other settings or slightly different data (a warm start).

        `stiff`: with the largest penalty of jumps in place of that of the last stage.
        """
        system = Discretisation(problem, solution.system.mesh)
        scale = state_scale(problem, [solution.path])
        start = (solution.unknowns, solution.states, solution.path)
        point = evaluate(system, *start, scale, contraction=self.contraction)
        if point is None:
            return NoPath()
        last = len(self.penalties) - 1
        state = self._at(system, point, scale, stage=last, damping=self.damping.resumed)
        if stiff:
            state = replace(state, penalty=self.multipliers.largest_penalty)
        return replace(state, multipliers=stationary_forces(system, point) / state.knot_penalty)

    def _at(
        self, system: Discretisation, point: Point, scale: np.ndarray, stage: int, damping: float
    ) -> State:
        """The state at a point, at the start of a stage and without multipliers."""
        none = np.zeros_like(point.jumps)
        system, point = followed(system, point)
        return State(
            system,
            scale,
            knot_scales(system, point, scale),
            point,
            multipliers=none,
            demanded=none,
            weight=continuity_unit(system, point),
            floor=system.objective.floor(point.outputs),
            size=system.problem.layout.size(point.unknowns),
            positive=np.zeros(len(scale), bool),
            penalty=self.penalties[stage],
            damping=damping,
            clock_weight=self.multipliers.clock_weight(stage, len(self.penalties)),
            stage=stage,
        )

    def with_resolution(self, resolution: float) -> Self:
        """The method with another resolution of the final mesh."""
        return replace(self, resolution=resolution)

    def with_limit(self, max_iterations: int) -> Self:
        """The method with another limit of iterations."""
        return replace(self, max_iterations=max_iterations)

    def stage(self, state: State) -> tuple[int, int]:
        """Which stage of continuity the state is in, from 1, and how many there are."""
        return state.stage + 1, len(self.penalties)

    def solution(self, state: State | NoPath) -> Solution | None:
        if isinstance(state, NoPath):
            return None
        point, system = state.point, state.system
        if system.surrogate is not None:
            system = replace(system, surrogate=None)
        return Solution(system, point.unknowns, point.states, point.path, point.jumps)

    # ---- one step --------------------------------------------------------------------------------------------------

    def step(self, state: State) -> State:
        """One step: Newton's where second derivatives may help, otherwise Gauss-Newton; a rejected one adds damping."""
        linear, rules = state.linear or linearise(state.system, state.point), self.second_derivatives
        found = None
        if state.second_order and state.jump < rules.jump and has_second_order(state.system):
            if state.pause:
                state = replace(state, pause=state.pause - 1)
            elif (found := self._newton_step(state, linear)) is None:
                pause = min(2**state.failures, rules.longest_pause)
                state = replace(state, failures=state.failures + 1, pause=pause)
        if found is None:
            found = self._attempt(state, linear, linear.quadratic, state.damping)
        return self._stalled_if_crawling(self._after_rejection(state, linear) if found is None else found)

    def _newton_step(self, state: State, linear: Linearisation) -> State | None:
        """The state after a step with second derivatives, or None if it is rejected."""
        forces = state.knot_penalty * (state.point.jumps + state.multipliers)
        model = newton_model(state.system, state.point, linear, forces, state.scale)
        found = self._attempt(state, linear, model, min(state.damping, self.second_derivatives.damping))
        return None if found is None else replace(found, failures=0)

    def _attempt(self, state: State, linear: Linearisation, model: Quadratic, damping: float) -> State | None:
        """The state after a step to the minimum of a damped model, or None if it is rejected."""
        weakest, contraction = self.damping.weakest, self._contraction(state)
        kinked = state.system.field.kinked
        correction = self.correction if self._is_last(state) and not kinked else self._early_correction
        size = merit_size(state)
        hidden = self.acceptance.negligible * size + state.floor
        trial = trial_step(state, linear, model, damping, weakest, correction, contraction, hidden)
        if trial is None:
            return None
        match judge(trial.gained, trial.predicted, trial.old, hidden, self.acceptance):
            case Verdict.REJECT:
                return None
            case Verdict.ROUNDING:  # nothing but rounding errors is left
                return self._after_acceptance(state, 0.0)
        last, trust, newton = self._is_last(state), self.acceptance.trust, model is not linear.quadratic
        left = still_to_gain(trial.gained, trial.predicted, damping, last, self.damping, trust)
        return self._after_acceptance(self._moved(state, trial, linear, newton, size), left)

    def _moved(self, state: State, trial: Trial, linear: Linearisation, newton: bool, size: float) -> State:
        """The state at the point of an accepted trial."""
        ratio = trial.gained / max(trial.predicted, np.finfo(float).tiny)
        slow = self.second_derivatives.may_help(ratio, trial.predicted, self.tolerance * size)
        least = max(self.damping.barrier * state.barrier, self.damping.least)
        system, point = followed(state.system, trial.point)
        return replace(
            state,
            system=system,
            point=point,
            demanded=trial.demanded,
            damping=max(state.damping * self.damping.factor(ratio), least),
            barrier=self.damping.forget * state.barrier,
            second_order=self._is_last(state) and (newton or slow),
            stage_steps=state.stage_steps + 1,
            rejections=0,
            linear=linear.moved(state.system, trial.point, state.scale) if system is state.system else None,
        )

    def _after_rejection(self, state: State, linear: Linearisation) -> State:
        """The state with more damping, or in the next stage, after its path was contracted as exactly as possible."""
        state = self._with_exact_path(state, linear)
        current = linear if linear.path is state.point.path else None
        damping = state.damping * self.damping.grow ** (state.rejections + 1)
        match after_rejection(damping, self._is_last(state), self.damping):
            case Next.DAMP:
                rejections, barrier = state.rejections + 1, state.damping
                return replace(state, damping=damping, barrier=barrier, rejections=rejections, linear=current)
            case Next.NEXT_STAGE:
                return self._next_stage(replace(state, linear=current), self.damping.after_failure)
        return replace(state, status=Status.STALLED)

    def _with_exact_path(self, state: State, linear: Linearisation) -> State:
        """The state with its path contracted to the full tolerance, if it was not and that lowers |u - P u| enough."""
        point, contraction = state.point, self.contraction
        if point.residual <= contraction.tolerance:
            return state
        start = (point.unknowns, point.states, point.path)
        exact = evaluate(state.system, *start, state.scale, linear.nearby, contraction)
        if exact is None or not exact.residual < self.acceptance.closer * point.residual:
            return state
        system, exact = followed(state.system, exact)
        return replace(state, system=system, point=exact)

    # ---- what follows a step ---------------------------------------------------------------------------------------

    def _after_acceptance(self, state: State, left: float) -> State:
        """Decide what follows an accepted step, and do it; `left` is the decrease that further steps may bring."""
        limits = Limits(self.tolerance, self.resolution, self.patience)
        evidence = self._evidence(state, left)
        if nothing_left(evidence, self.stages, limits):
            closed = transitions.is_closed(state, self.jump_tolerance, self.multipliers.least_scale)
            evidence = replace(evidence, closed=closed)
        following = decide(evidence, self.stages, limits, self.refinement)
        if following is Next.COARSEN:
            contraction = self._contraction(state)
            coarse = transitions.on_coarser_mesh(state, self.resolution, self.joining, contraction)
            if coarse.system is not state.system:
                return coarse
            return self._after_acceptance(replace(state, joined_at=state.jump), left)
        calm = evidence.last and is_calm(evidence, self.stages)
        if calm or state.calm:
            state = replace(state, calm=state.calm + 1 if calm else 0)
        return self._carry_out(state, following, calm)

    def _carry_out(self, state: State, following: Next, calm: bool) -> State:
        """The state after the change of stage, multipliers, objective or mesh that was decided upon."""
        match following:
            case Next.NEXT_STAGE:
                state = self._next_stage(state, min(state.damping, self.damping.resumed))
                return transitions.on_finer_mesh(state, self._between_stages(state), self._contraction(state))
            case Next.BEGIN_MULTIPLIERS:
                narrow = state.jump < self.refinement.narrow
                wanted = self._final(state, self.refinement.rounds if narrow else self.refinement.open_rounds)
                state = transitions.with_new_multipliers(state, False, self.multipliers)
                return transitions.on_finer_mesh(state, (wanted,), self._contraction(state))
            case Next.SHARPEN:
                return transitions.with_sharper_kinks(state)
            case Next.UPDATE_MULTIPLIERS:
                settled = calm and state.jump > self.jump_tolerance
                return transitions.with_new_multipliers(state, settled, self.multipliers)
            case Next.FINISH:
                wanted = self._final(state, self.refinement.rounds)
                fine = transitions.on_finer_mesh(state, (wanted,), self._contraction(state))
                return replace(fine, status=Status.CONVERGED) if fine.system is state.system else fine
        return state

    def _evidence(self, state: State, left: float) -> StageEvidence:
        return StageEvidence(
            self._is_last(state),
            left,
            merit_size(state),
            state.floor,
            state.stage_steps,
            state.calm,
            state.jump,
            state.last_jump,
            state.joined_at,
            len(state.system.mesh),
            state.system.surrogate is not None,
        )

    def _stalled_if_crawling(self, state: State) -> State:
        """The state, STALLED if many steps of a long last stage hardly lowered the loss although much is left."""
        if state.status is not None or not self._is_last(state) or state.stage_steps <= self.patience:
            return state
        loss, rules = state.point.data, self.crawling
        size = state.system.objective.size(state.point.outputs, loss)
        if rules.is_falling(loss, state.lowest, size):
            return replace(state, lowest=loss, idle=0)
        if state.idle < rules.steps:
            return replace(state, idle=state.idle + 1)
        if rules.gives_up(promised_decrease(state, self.damping.weakest), merit_size(state)):
            return replace(state, status=Status.STALLED)
        return replace(state, idle=0)  # it converges slowly

    def _next_stage(self, state: State, damping: float) -> State:
        stage = state.stage + 1
        last = stage == len(self.penalties) - 1
        clock = self.multipliers.clock_weight(stage, len(self.penalties))
        return transitions.next_stage(state, self.penalties[stage], clock, damping, last, self.contraction)

    def _is_last(self, state: State) -> bool:
        return state.stage == len(self.penalties) - 1

    def _contraction(self, state: State) -> Contraction:
        """How paths are contracted in this stage: less exactly while continuity is loose."""
        return self.contraction if self._is_last(state) else self._loose_contraction

    @cached_property
    def _loose_contraction(self) -> Contraction:
        return replace(self.contraction, tolerance=self.stages.contracted)

    @cached_property
    def _early_correction(self) -> Correction:
        """While jumps are cheap they may stay: steps that follow a curved valley exactly end in more local optima.

        Across a kink derivatives made at the trial are no better than those at hand.
        """
        return replace(self.correction, further=np.inf)

    def _between_stages(self, state: State) -> tuple[Resolution, ...]:
        """What a mesh must resolve at the start of a stage; the last one begins with the nodes of the final mesh."""
        most = self._most_segments(state.system.problem, len(state.system.mesh.rule.nodes))
        coarse = Resolution(None, self.coarse_resolution, self.refinement.open_rounds, most)
        return (coarse, self._final(state, rounds=1)) if self._is_last(state) else (coarse,)

    def _final(self, state: State, rounds: int) -> Resolution:
        """What the final mesh must resolve: with more nodes for small models, where they are cheap."""
        nodes = max(self.nodes, min(self.polish_nodes, self.refinement.block // len(state.scale)))
        most = self._most_segments(state.system.problem, nodes)
        return Resolution(rule(nodes, self.family), self.resolution, rounds, most)

    def _most_segments(self, problem: Problem, nodes: int) -> int:
        """How many segments a mesh may have in all."""
        block = nodes * len(problem.solved_model.states)
        return min(self.max_segments, self.refinement.most_segments(len(problem.experiments), block))


def _are_positive(values: object) -> bool:
    """Whether this is a sequence of positive numbers, at least one."""
    return isinstance(values, tuple | list) and bool(values) and all(is_number(v) and v > 0 for v in values)


def _check_record(name: str, record: object, usual: DataclassInstance) -> None:
    """InputError unless a record of thresholds is of the usual kind, with no negative number in it."""
    if not isinstance(record, type(usual)):
        raise InputError("solvers.not_a_record", name, value=record, expected=type(usual).__name__)
    for one in fields(usual):
        value, example = getattr(record, one.name), getattr(usual, one.name)
        if is_whole(example):
            as_whole(value, f"{name}.{one.name}", 0, example)
        elif not is_number(value) or not value >= 0:
            raise InputError("solvers.negative", f"{name}.{one.name}", value=value, example=example)
