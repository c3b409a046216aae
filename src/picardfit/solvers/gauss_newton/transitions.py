"""Changes of a state of LiftedGaussNewton between its steps: stage, multipliers, likelihood and mesh.

Jumps are measured in units of each knot's own scale. A force is a multiplier of the augmented Lagrangian times its
penalty; forces are carried from mesh to mesh and from penalty to penalty. Stationarity of the state at a knot demands
y_j = g_(j+1) + B_(j+1)' y_(j+1), with g the slope of the data on the segment after the knot and B the derivative of
that segment's end by its start (collocation/condensing.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.adaptation import segment_scales, state_scale
from picardfit.collocation.anchoring import anchored
from picardfit.collocation.condensing import Quadratic, backward
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, linearise
from picardfit.collocation.picard import Contraction
from picardfit.collocation.point import Point, evaluate
from picardfit.collocation.refinement import Joining, Resolution, coarsened, refined
from picardfit.errors import Status
from picardfit.problem.likelihood import Likelihood
from picardfit.solvers.gauss_newton.state import State
from picardfit.solvers.noise_levels import fit_noise_parameters


@dataclass(frozen=True)
class Multipliers:
    """The augmented Lagrangian of the last stage: when its penalty grows (docs/decisions/003)."""

    slow: float = 0.2  # fraction of the jumps that an update may leave near the end
    growth: float = 10.0  # factor of the penalty where it leaves more
    largest_penalty: float = 1e6  # beyond it the banded system loses too many digits
    in_series: float = 10.0  # or this many times the square of the links of a longer chain: see `largest`
    least_scale: float = 1e-6  # of a state, relative to the largest, in which final jumps are measured
    loose_clock: float = 0.01  # weight of the clock's jumps in the first stage: events find their times there
    tight_clock: float = 50.0  # and in the last one, where a path is nearly closed; 1 in between

    def clock_weight(self, stage: int, stages: int) -> float:
        """The weight of jumps of the clock, in units of a typical time between samples, beside those of states."""
        if stage == stages - 1:
            return self.tight_clock
        return self.loose_clock if stage == 0 else 1.0

    def largest(self, links: int) -> float:
        """The largest penalty where so many links are in series.

        An update of the multipliers leaves the fraction 1 / (1 + s) of the error of a force, with s the stiffness of
        the links over the curvature of the data. Towards its smoothest force a chain of n links with data at each is
        (pi / n)^2 times as stiff as one of them, so a penalty p leaves 1 / (1 + p (pi / n)^2) at best: 90 % for p = 1e6
        and n = 10,000. With p = 10 n^2 it is 1 %, or 20 % if only one state of four is measured (docs/decisions/015).
        """
        return max(self.largest_penalty, self.in_series * links**2)


def next_stage(
    state: State, penalty: float, clock: float, damping: float, last: bool, contraction: Contraction
) -> State:
    """The state at the start of the next stage; the last one has the full likelihood."""
    if last:  # continuity keeps the signs of states by itself from here on
        state = _with_full_likelihood(replace(state, positive=np.zeros_like(state.positive)), contraction)
    forces = state.knot_penalty * state.demanded
    state = replace(
        state,
        knot_scale=knot_scales(state.system, state.point, state.scale),
        stage=state.stage + 1,
        stage_steps=0,
        damping=damping,
        barrier=0.0,
        penalty=penalty,
        clock_weight=clock,
    )
    return replace(state, multipliers=forces / state.knot_penalty)


def _with_full_likelihood(state: State, contraction: Contraction) -> State:
    """The state with the full likelihood in place of the one with frozen noise levels, its noise parameters fitted."""
    if state.system.surrogate is None:
        return state
    problem, point = state.system.problem, state.point
    system = replace(state.system, surrogate=problem.objective.rounded())
    outputs = point.outputs[:, : len(problem.model.observables)]
    everywhere = np.ones(point.unknowns.shape, bool)
    unknowns = fit_noise_parameters(problem, point.unknowns, outputs, point.sampled, everywhere)
    moved = evaluate(system, unknowns, point.states, point.path, state.scale, contraction=contraction)
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
    if settled and slow and state.penalty < rules.largest(_links_in_series(state.system)):
        multipliers = multipliers / rules.growth
        state = replace(state, penalty=rules.growth * state.penalty)
    return replace(state, multipliers=multipliers, last_jump=state.jump)


def _links_in_series(system: Discretisation) -> int:
    """The most segments of an experiment, or its samples where they are fewer: `continuity_unit` counts the rest."""
    counts = system.mesh.counts
    samples = np.bincount(system.problem.samples.experiment, minlength=len(counts))
    return int(np.minimum(counts, samples).max())


def is_closed(state: State, tolerance: float, least_scale: float) -> bool:
    """Whether every jump is within a tolerance, relative to the states' scale along the path as the certificate has it.

    `least_scale`: of a state, relative to the largest.
    """
    scale = state_scale(state.system.problem, [state.point.path], least=least_scale)
    return not bool(np.abs(state.point.jumps / scale).max(initial=0.0) > tolerance)


def on_coarser_mesh(state: State, resolution: float, joining: Joining, contraction: Contraction) -> State:
    """The state on a mesh without the segments that its path no longer needs; the state itself where they are few."""
    coarse, point, origin = coarsened(
        state.system, state.point, state.scale, resolution, joining, contraction
    )
    if coarse is state.system:
        return state
    forces, demanded = (state.knot_penalty * one for one in (state.multipliers, state.demanded))
    state = _on_mesh(state, coarse, point, None)
    penalty = state.knot_penalty
    return replace(state, multipliers=forces[origin] / penalty, demanded=demanded[origin] / penalty)


def on_finer_mesh(state: State, wanted: tuple[Resolution, ...], contraction: Contraction) -> State:
    """The state on a mesh that resolves its path; the state itself where the mesh does already.

    Knots of the old mesh keep their forces, new ones get what stationarity demands.
    """
    if state.system.events is not None:
        state = _on_clock(state, contraction)
    fine, point, origin = refined(state.system, state.point, state.scale, wanted, contraction)
    if fine is state.system:
        return state
    fresh, old, linear = origin < 0, state.knot_penalty * state.multipliers, None
    forces = np.where(fresh[:, None], 0.0, old[origin])
    if fresh.any() and old.any():
        linear = linearise(fine, point)
        forces = _demanded(fine, linear.quadratic, forces, fresh)
    state = _on_mesh(state, fine, point, linear)
    multipliers = forces / state.knot_penalty
    return replace(state, multipliers=multipliers, demanded=multipliers)


def _on_clock(state: State, contraction: Contraction) -> State:
    """The state on a mesh whose knots are where the clock says; knots that were spread get the forces demanded."""
    system, point, spread = anchored(state.system, state.point, state.scale, contraction)
    if system is state.system:
        return state
    forces, linear = state.knot_penalty * state.multipliers, None
    if spread and forces.any():
        linear = linearise(system, point)
        forces = _demanded(system, linear.quadratic, forces, np.ones(len(forces), bool))
    state = _on_mesh(state, system, point, linear)
    multipliers = forces / state.knot_penalty
    return replace(state, multipliers=multipliers, demanded=multipliers)


def _on_mesh(state: State, system: Discretisation, point: Point, linear: Linearisation | None) -> State:
    """The state at its point on another mesh, still with the multipliers of the old one."""
    scales = knot_scales(system, point, state.scale)
    return replace(state, system=system, knot_scale=scales, point=point, linear=linear, joined_at=np.inf)


@dataclass(frozen=True)
class Apart:
    """When a state has a scale of its own in an experiment, beside its scale in all of them."""

    below: float = 1e-2  # all of its data there are smaller than this fraction of the scale; chosen


def knot_scales(
    system: Discretisation, point: Point, scale: np.ndarray, apart: Apart = Apart()
) -> np.ndarray:
    """(linked, states): the unit of the jumps.

    A state that changes sign has the size of its data in experiments where that is far smaller: with one unit for
    amplitudes that are a billion apart, the penalty would leave the path of the small experiment in pieces.
    """
    mesh, data = system.mesh, system.problem.measured_sizes
    scales = segment_scales(mesh, point.states, point.path, scale)
    small = (data > 0) & (data < apart.below * scale)  # (experiments, states)
    if len(data) > 1 and small.any():
        scales = np.where(small[mesh.experiment] & (scales == scale), data[mesh.experiment], scales)
    return scales[mesh.inner_rows]


def continuity_unit(system: Discretisation, point: Point) -> float:
    """The penalty that weighs as much as the data, in scaled states.

    With several samples in a segment that is their curvature per segment. With several segments between samples the
    links between them act in series, so each must be stiffer by their number.
    """
    problem, segments, samples = system.problem, len(system.mesh), len(system.problem.samples.times)
    per_sample = system.objective.curvature(problem.output_scale, point.outputs) / samples
    return per_sample * max(samples / segments, segments / samples)


def stationary_forces(system: Discretisation, point: Point) -> np.ndarray:
    """(linked, states): the forces at all knots if the point is a solution."""
    every = np.ones(len(point.jumps), bool)
    return _demanded(system, linearise(system, point).quadratic, np.zeros_like(point.jumps), every)


def _demanded(
    system: Discretisation, quadratic: Quadratic, forces: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """(linked, states): the forces with those of the chosen knots (bool) as stationarity demands."""
    states = forces.shape[1]
    return backward(system.mesh, quadratic.end[:, :, :states], quadratic.slope[:, :states], forces, chosen)
