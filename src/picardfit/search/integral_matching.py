"""Integral matching: starting parameters from the Picard operator applied once to the guessed path.

No ODE is solved and nothing can explode. With x the guessed states and windows [a, b] of time, the parameters minimise

    sum over windows | x(b) - x(a) - doses - integral_a^b f(s, x(s), p) ds |^2,   each state in units of its size,

over the measured states, by Levenberg-Marquardt steps inside the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from picardfit.collocation.bounded_qp import solve_box
from picardfit.problem.problem import Problem
from picardfit.search.start_grids import arrivals
from picardfit.solvers.levenberg_marquardt import Damping, Proposal, minimise


@dataclass(frozen=True)
class MatchingSettings:
    """How far and how carefully parameters are matched. A start needs two digits of them, not an optimum."""

    windows: int = 20  # of an experiment; a period of a typical oscillation covers several
    steps: int = 15  # of Levenberg-Marquardt at most
    gain: float = 1e-3  # relative decrease of the sum of squares below which it ends
    damping: float = 1e-3  # the first one, relative to the diagonal of the Hessian
    decrease: float = 0.2  # of the damping after a step downhill
    increase: float = 10.0  # of the damping after any other
    least_damping: float = 1e-10
    most_damping: float = 1e6  # at which it gives up
    ridge: float = 1e-12  # added to the Hessian, relative to its largest diagonal element: some do nothing
    least_size: float = 1e-2  # of a state, relative to its largest value: one that is constant has no spread


def match_parameters(
    problem: Problem,
    unknowns: np.ndarray,
    grids: np.ndarray,
    path: np.ndarray,
    measured: np.ndarray,
    open_: np.ndarray,
    settings: MatchingSettings = MatchingSettings(),
) -> np.ndarray:
    """The unknowns with their open parameters moved to where the integrals of f match the guessed path.

    `grids` (experiments, points), `path` (experiments, points, states), `measured` (experiments, states) bool,
    `open_` (experiments, width) bool: what may move.
    """
    columns = problem.layout.columns.parameters
    movable = open_.copy()
    movable[:, np.setdiff1d(np.arange(problem.layout.width), columns)] = False
    if not movable.any() or not measured.any():
        return unknowns
    residuals = _Residuals(problem, grids, path, measured, settings)
    lower = np.where(movable, problem.layout.lower - unknowns, 0.0)
    upper = np.where(movable, problem.layout.upper - unknowns, 0.0)
    local, tiny, index = problem.layout.local, np.finfo(float).tiny, np.arange(unknowns.shape[1])

    def propose(at: _Model, damping: float) -> Proposal[_Model] | None:
        if not np.isfinite(at.value):
            return None
        damped, diagonal = at.hessian.copy(), at.hessian[:, index, index]
        damped[:, index, index] += damping * diagonal + settings.ridge * max(float(diagonal.max()), tiny)
        try:
            step = solve_box(damped, at.slope, local, lower - at.move, upper - at.move)
        except np.linalg.LinAlgError:
            return None
        trial = _Model(at.move + step, *residuals.terms(unknowns + at.move + step))
        gain = at.value - trial.value
        return Proposal(
            trial, gain if gain > 0 else -np.inf, last=0 < gain < settings.gain * max(at.value, tiny)
        )

    damping = Damping(
        settings.damping,
        settings.increase,
        decrease=settings.decrease,
        least=settings.least_damping,
        strongest=settings.most_damping,
        steps=settings.steps,
        trials=settings.steps,
    )
    first = _Model(np.zeros_like(unknowns), *residuals.terms(unknowns))
    ended = minimise(first, propose, lambda proposal: proposal.point, damping)
    last = ended.proposal.point if ended.converged and ended.proposal else ended.state
    return np.asarray(unknowns + last.move)


class _Model(NamedTuple):
    """The sum of squares after a move, with its Gauss-Newton model."""

    move: np.ndarray  # (experiments, width)
    value: float
    slope: np.ndarray  # (experiments, width)
    hessian: np.ndarray  # (experiments, width, width)


class _Residuals:
    """The matching residuals and their Gauss-Newton terms in the unknowns."""

    def __init__(
        self,
        problem: Problem,
        grids: np.ndarray,
        path: np.ndarray,
        measured: np.ndarray,
        settings: MatchingSettings,
    ) -> None:
        self.problem, self.grids, self.path = problem, grids, path
        points = grids.shape[1]
        edges = np.unique(np.linspace(0, points - 1, settings.windows + 1).round().astype(int))
        steps = np.diff(grids, axis=1)  # trapezoid weights of every window: (experiments, windows, points)
        weights = np.zeros((len(grids), len(edges) - 1, points))
        for w, (a, b) in enumerate(pairwise(edges)):
            weights[:, w, a:b] += 0.5 * steps[:, a:b]
            weights[:, w, a + 1 : b + 1] += 0.5 * steps[:, a:b]
        size = np.maximum(path.std(axis=(0, 1)), settings.least_size * np.abs(path).max(axis=(0, 1)))
        self.weights, self.change = (
            weights,
            np.diff(path[:, edges], axis=1) - _dosed(problem, grids, path, edges),
        )
        self.trust = measured[:, None, :] / np.where(size > 0, size, 1.0)  # (experiments, 1, states)
        self.inputs = problem.inputs_at(np.arange(len(grids)), grids)

    def terms(self, unknowns: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, slope (experiments, width) and Gauss-Newton Hessian (experiments, width, width)."""
        layout = self.problem.layout
        params = layout.measured_values(unknowns)[:, None, :]
        slopes, _, wrt_p = self.problem.rhs.linearise(self.grids, self.path, params, self.inputs)
        with np.errstate(all="ignore"):
            gap = (self.weights @ slopes - self.change) * self.trust
            value = 0.5 * float(np.sum(gap * gap))
        width, columns = layout.width, layout.columns.parameters
        slope, hessian = np.zeros((len(unknowns), width)), np.zeros((len(unknowns), width, width))
        if not np.isfinite(value) or not np.all(np.isfinite(wrt_p)):
            return np.inf, slope, hessian
        chain = layout.parameter_slopes(unknowns)[:, None, None, :]
        moved = (wrt_p[..., layout.free_parameters] * chain).reshape(*wrt_p.shape[:2], -1)
        jacobian = (self.weights @ moved).reshape(*gap.shape, -1) * self.trust[..., None]
        flat = jacobian.reshape(len(unknowns), -1, len(columns))
        slope[:, columns] = (gap.reshape(len(unknowns), 1, -1) @ flat)[:, 0]
        hessian[:, columns[:, None], columns] = flat.transpose(0, 2, 1) @ flat
        return value, slope, hessian


def _dosed(problem: Problem, grids: np.ndarray, path: np.ndarray, edges: np.ndarray) -> np.ndarray | float:
    """(experiments, windows, states): by how much the path jumps inside each window of points."""
    jumps = arrivals(problem, grids)
    if jumps is None:
        return 0.0
    change = np.where(jumps.there[:, 1:, None], np.diff(path, axis=1), 0.0)
    total = np.concatenate([np.zeros_like(path[:, :1]), np.cumsum(change, axis=1)], axis=1)
    return np.diff(total[:, edges], axis=1)
