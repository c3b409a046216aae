"""One trial step of LiftedGaussNewton: to the minimum of a damped quadratic model within the bounds.

The model's segment states are eliminated (collocation/condensing.py), the small system of the unknowns is solved within
their bounds, the path moves along the multipliers S and is contracted (collocation/linearisation.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from picardfit.collocation.bounded_qp import is_convex, solve_box
from picardfit.collocation.condensing import Factor, Quadratic, factorise
from picardfit.collocation.linearisation import Linearisation, advance, curvature_of_step, linearise
from picardfit.collocation.picard import Contraction
from picardfit.collocation.point import Point
from picardfit.solvers.gauss_newton.state import State, merit


@dataclass(frozen=True)
class Correction:
    """Second-order corrections: a second solve with the same factors takes back what the linear model missed.

    Each leaves about the same fraction of it: next to nothing after a short step, half after a long one along a curved
    valley. Corrections with derivatives made at the trial leave the square of that; each costs about as much as two.
    """

    most: int = 6  # of one step; along curved valleys one does not suffice
    satisfied: float = 0.5  # fraction of the predicted decrease at which no (further) correction is tried
    helpful: float = 0.5  # fraction of the excess over the old merit that may remain for another to follow
    further: float = (
        2.0  # corrections that may still be needed at the pace of one; beyond them, new derivatives
    )

    def renews(self, predicted: float, before: float, after: float) -> bool:
        """Whether the next correction makes new derivatives.

        `before` and `after`: how much of the `predicted` decrease is missing before and after a correction.
        """
        pace = after / before if before > 0 else 0.0
        return after * pace**self.further > (1 - self.satisfied) * predicted


@dataclass(frozen=True)
class Trial:
    """The end of a step."""

    point: Point
    old: float  # merit before the step
    new: float  # and after it
    predicted: float  # decrease of the merit by the model
    demanded: np.ndarray  # (linked, states): multipliers by the model

    @property
    def gained(self) -> float:
        return self.old - self.new

    @property
    def missed(self) -> float:
        return self.predicted - self.gained


class Move(NamedTuple):
    """A bounded step of the unknowns (experiments, width) and segment states (segments, states)."""

    unknowns: np.ndarray
    states: np.ndarray
    predicted: float  # decrease by the model


def trial_step(
    state: State,
    linear: Linearisation,
    model: Quadratic,
    damping: float,
    weakest: float,
    correction: Correction,
    contraction: Contraction,
    hidden: float = 0.0,
) -> Trial | None:
    """The step to the minimum of a damped model, with second-order corrections.

    None if the model has no minimum or the path there does not contract. `weakest`: see `damp`; `hidden`: the decrease
    that rounding errors may hide, which is not worth a correction.
    """
    newton = model is not linear.quadratic  # second derivatives may make it indefinite
    found = _minimum(state, model, damping, weakest, newton)
    if found is None:
        return None
    factor, move = found
    point, layout = state.point, state.system.problem.layout
    ahead = _end(state, point, linear, move, contraction)
    if ahead is None:
        return None
    change = model.jump_change(state.system.mesh, layout.columns, move.unknowns, move.states)
    demanded = point.jumps + state.multipliers + change
    trial = Trial(ahead, merit(state, point), merit(state, ahead), move.predicted, demanded)
    if abs(trial.predicted) <= hidden:
        return trial
    damped = partial(_factorised, state, damping=damping, weakest=weakest)
    return _corrected(state, factor, linear, trial, damped, correction, contraction)


def promised_decrease(state: State, weakest: float) -> float:
    """The decrease of the merit that the model promises of a step without damping; infinite if it has no minimum."""
    model = (state.linear or linearise(state.system, state.point)).quadratic
    found = _minimum(state, model, 0.0, weakest)
    return np.inf if found is None else found[1].predicted


def _minimum(
    state: State, model: Quadratic, damping: float, weakest: float, newton: bool = False
) -> tuple[Factor, Move] | None:
    """The factorised model and the step to its minimum; None if it has none.

    A model with second derivatives (`newton`) must be convex once the bounds are held. Unknowns that leave their
    bounds may still find no minimum; then it predicts no decrease.
    """
    point, problem = state.point, state.system.problem
    layout, factor = problem.layout, _factorised(state, model, damping, weakest)
    if factor is None:
        return None
    if newton and not is_convex(factor.hessian, layout.local, layout.at_bounds(point.unknowns)):
        return None
    prior = None if problem.priors is None else problem.priors.terms(point.unknowns)[0]
    shifted = point.jumps + state.multipliers
    move = _bounded_move(state, factor, model.slope, shifted, point.unknowns, prior=prior)
    if move is None or (newton and not move.predicted > 0):
        return None
    return factor, move


def _corrected(
    state: State,
    factor: Factor,
    linear: Linearisation,
    trial: Trial,
    factorised: Callable[[Quadratic], Factor | None],
    rules: Correction,
    contraction: Contraction,
) -> Trial:
    """The trial after second-order corrections, as long as it gains too little and they help.

    Each takes back what the linear model missed in the move before; unknowns that reached a bound stay there.
    `factorised` gives the factors of another model with the same damping, for new derivatives.
    """
    before, renewed = state.point, False
    for _ in range(rules.most):
        if trial.gained >= rules.satisfied * trial.predicted:
            break
        ahead = linearise(state.system, trial.point) if renewed else linear
        if renewed:
            again = factorised(ahead.quadratic)
            if again is None:
                break
            factor = again
        slope, jumps = curvature_of_step(state.system, before, linear, trial.point, ahead)
        linear, held = ahead, state.system.problem.layout.at_bounds(trial.point.unknowns)
        move = _bounded_move(state, factor, slope, jumps, trial.point.unknowns, held=held)
        found = None if move is None else _end(state, trial.point, linear, move, contraction)
        new = merit(state, found)
        if found is None or not new < trial.new:
            break
        last, before = trial, trial.point
        trial = replace(trial, point=found, new=new)
        if not renewed and rules.renews(trial.predicted, last.missed, trial.missed):
            renewed = True
        elif not new - trial.old < rules.helpful * (last.new - trial.old):
            break
    return trial


def _end(
    state: State, point: Point, linear: Linearisation, move: Move, contraction: Contraction
) -> Point | None:
    """The contracted point at the end of a move; None if its path does not contract."""
    step, scale, positive = (move.unknowns, move.states), state.scale, state.positive
    return advance(state.system, point, linear, *step, scale, positive, contraction)


def _factorised(state: State, model: Quadratic, damping: float, weakest: float) -> Factor | None:
    """The damped model with its segment states eliminated; None where it is not positive definite."""
    layout, priors = state.system.problem.layout, state.system.problem.priors
    of_states = damping * state.weight / state.scale**2
    try:
        factor = factorise(state.system.mesh, layout.columns, model, state.knot_penalty, of_states)
    except np.linalg.LinAlgError:
        return None
    if priors is not None:
        factor.hessian[...] += priors.terms(state.point.unknowns)[1][:, :, None] * np.eye(layout.width)
    damp(factor.hessian, layout.local, state.size, damping, weakest)
    return factor


def _bounded_move(
    state: State,
    factor: Factor,
    slope: np.ndarray,
    jumps: np.ndarray,
    unknowns: np.ndarray,
    *,
    prior: np.ndarray | None = None,
    held: np.ndarray | None = None,
) -> Move | None:
    """The step to the minimum of a factorised model within the bounds; None where that is not finite.

    `slope` (segments, columns) is that of the data, `prior` that of the priors (experiments, width); `held` columns
    (experiments, width) bool do not move.
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
    return Move(unknowns_step, states_step, predicted) if np.isfinite(predicted) else None


def damp(hessian: np.ndarray, local: int, size: np.ndarray, damping: float, weakest: float) -> None:
    """Marquardt's damping of the unknowns, in place: the diagonal of (experiments, width, width) grows by a factor.

    A column with less than `weakest` of the largest curvature, both in units of the unknowns' own sizes, is damped as
    if it had that much: the data are not sensitive to it.
    """
    width = hessian.shape[1]
    diagonal = hessian.reshape(len(hessian), width**2)[:, :: width + 1]
    curvature = diagonal
    if len(diagonal) > 1:
        curvature = diagonal.copy()
        curvature[:, local:] = curvature[:, local:].sum(axis=0) / len(diagonal)
    area = size**2
    largest = float((curvature * area).max(initial=np.finfo(float).tiny))
    diagonal += damping * np.maximum(curvature, weakest * largest / area)
