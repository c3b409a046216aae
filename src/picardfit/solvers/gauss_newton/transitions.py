"""Changes of a state of LiftedGaussNewton between its steps: stage, multipliers, likelihood and mesh."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from picardfit.collocation.adaptation import state_scale
from picardfit.collocation.point import evaluate
from picardfit.collocation.refinement import Joining, Resolution, coarsened, refined
from picardfit.errors import Status
from picardfit.problem.likelihood import Likelihood
from picardfit.solvers.gauss_newton.continuity import carried_forces, continuity_unit, knot_scales
from picardfit.solvers.gauss_newton.settings import Multipliers
from picardfit.solvers.gauss_newton.state import State
from picardfit.solvers.noise_levels import fit_noise_parameters


def next_stage(state: State, penalty: float, damping: float, last: bool) -> State:
    """The state at the start of the next stage; the last one has the full likelihood."""
    if last:  # continuity keeps the signs of states by itself from here on
        state = with_full_likelihood(replace(state, positive=np.zeros_like(state.positive)))
    forces = state.knot_penalty * state.demanded
    state = replace(
        state,
        knot_scale=knot_scales(state.system, state.point, state.scale),
        stage=state.stage + 1,
        stage_steps=0,
        damping=damping,
        barrier=0.0,
        penalty=penalty,
    )
    return replace(state, multipliers=forces / state.knot_penalty)


def with_full_likelihood(state: State) -> State:
    """The state with the full likelihood in place of the one with frozen noise levels, its noise parameters fitted."""
    if state.system.surrogate is None:
        return state
    problem, point = state.system.problem, state.point
    system = replace(state.system, surrogate=problem.objective.rounded())
    outputs = point.outputs[:, : len(problem.model.observables)]
    everywhere = np.ones(point.unknowns.shape, bool)
    unknowns = fit_noise_parameters(problem, point.unknowns, outputs, point.sampled, everywhere)
    moved = evaluate(system, unknowns, point.states, point.path, state.scale)
    if moved is None:
        return replace(state, status=Status.NOT_FINITE)
    floor, weight = problem.objective.floor(moved.outputs), continuity_unit(system, moved)
    return replace(state, system=system, point=moved, linear=None, weight=weight, floor=floor)


def with_sharper_kinks(state: State) -> State:
    """The state with rounded kinks of Laplace densities a tenth as wide, until they are as the problem has them."""
    rounded, point = state.system.surrogate, state.point
    sharper = rounded.sharper() if isinstance(rounded, Likelihood) else None
    system = replace(state.system, surrogate=sharper)
    moved = replace(point, data=system.value(point.unknowns, point.outputs))
    return replace(state, system=system, point=moved, linear=None, calm=0)


def with_new_multipliers(state: State, settled: bool, rules: Multipliers) -> State:
    """The state with the multipliers that the last model demands.

    Where the point is `settled` at the minimum and the update before shrank the jumps too slowly, the penalty grows.
    """
    multipliers, slow = state.demanded, state.jump > rules.slow * state.last_jump
    if settled and slow and state.penalty < rules.largest_penalty:
        multipliers = multipliers / rules.growth
        state = replace(state, penalty=rules.growth * state.penalty)
    return replace(state, multipliers=multipliers, last_jump=state.jump)


def is_closed(state: State, tolerance: float, least_scale: float) -> bool:
    """Whether every jump is within a tolerance, relative to the states' scale along the path as the certificate has it.

    `least_scale`: of a state, relative to the largest.
    """
    scale = state_scale(state.system.problem, [state.point.path], least=least_scale)
    return not bool(np.abs(state.point.jumps / scale).max(initial=0.0) > tolerance)


def on_coarser_mesh(state: State, resolution: float, enough: float, joining: Joining) -> State:
    """The state on a mesh without the segments that its path no longer needs; the state itself where they are few."""
    coarse, point, origin = coarsened(state.system, state.point, state.scale, resolution, enough, joining)
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


def on_finer_mesh(state: State, wanted: tuple[Resolution, ...], enough: float) -> State:
    """The state on a mesh that resolves its path; the state itself where the mesh does already."""
    fine, point, origin = refined(state.system, state.point, state.scale, wanted, enough)
    if fine is state.system:
        return state
    forces, linear = carried_forces(fine, point, origin, state.knot_penalty * state.multipliers)
    scales = knot_scales(fine, point, state.scale)
    state = replace(state, system=fine, knot_scale=scales, point=point, linear=linear, joined_at=np.inf)
    multipliers = forces / state.knot_penalty
    return replace(state, multipliers=multipliers, demanded=multipliers)
