"""A fit from a nearby solution: Gauss-Newton on the unknowns alone, with exact continuity.

Near a solution neither penalties nor multipliers are needed. The inner states follow the unknowns along the derivatives
that are carried from segment to segment (fisher.py), and jumps left by a step are swept away with the same matrices,
so that every point is feasible and the objective is its own measure of progress. Profiles hold one quantity at a value;
a bootstrap changes the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.collocation.adaptation import carry, split, state_scale, unresolved
from picardfit.collocation.arrow import Arrow, arrow_of
from picardfit.collocation.bounded_qp import LineStep, solve_on_line
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, advance, linearise
from picardfit.collocation.point import Point, evaluate
from picardfit.collocation.recursion import closing_step, reduced, start_derivatives
from picardfit.problem.problem import Problem
from picardfit.problem.quantity import Quantity
from picardfit.problem.unknowns import unknowns_index
from picardfit.solvers.loop import Solution

MOST_STEPS = 60
SWEEPS = 8  # to remove the jumps of one step
CONTINUOUS = 1e-9  # jump relative to the states' scale that counts as none
RIDGE = 1e-11  # of the scaled matrix: directions that nothing determines stay where they are
STRONGEST_DAMPING = 1e8
SUFFICIENT = 1e-3  # part of the predicted decrease that a step must bring
REFINEMENTS = 4


@dataclass(frozen=True)
class Place:
    """A feasible point with the quadratic model of the objective in the unknowns there."""

    system: Discretisation
    point: Point
    scale: np.ndarray  # (states,)
    linear: Linearisation
    columns: (
        np.ndarray
    )  # (segments, states + free parameters, width): derivative of the segments' own unknowns
    index: np.ndarray  # (unknowns, 2): experiment and column
    matrix: Arrow  # over the unknowns
    slope: np.ndarray  # (unknowns,)

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """How far each unknown may move down and up: (unknowns,) each."""
        layout, at = self.system.problem.layout, tuple(self.index.T)
        return layout.lower[at] - self.point.unknowns[at], layout.upper[at] - self.point.unknowns[at]


@dataclass(frozen=True)
class Refit:
    """How a warm fit ended."""

    place: Place  # where the model was made last, at most one short step before the end
    point: Point
    last: LineStep
    steps: int  # linearisations

    @property
    def value(self) -> float:
        return self.point.data

    def solution(self) -> Solution:
        point = self.point
        return Solution(self.place.system, point.unknowns, point.states, point.path, point.jumps)


def place_at(problem: Problem, solution: Solution) -> Place | None:
    """The place of a solution, possibly for other data, with rounded kinks; None if it cannot be evaluated."""
    system = Discretisation(problem, solution.system.mesh, problem.objective.rounded())
    scale = state_scale(problem, [solution.path], least=1e-6)
    point = evaluate(system, solution.unknowns, solution.states, solution.path, scale)
    return None if point is None else _place(system, point, scale)


def refit(
    place: Place,
    unit: float,
    quantity: Quantity | None = None,
    target: float = 0.0,
    tolerance: float = 1e-6,
    guess: np.ndarray | None = None,
) -> Refit | None:
    """Minimise the objective from a place, with `quantity` held at `target` if there is one; None after a failure.

    Ends when a step promises less than `tolerance` times `unit`, and takes that step. `guess` (unknowns,) is a first
    step towards the target.
    """
    damping, steps, free = 0.0, 0, quantity is None
    while steps < MOST_STEPS:
        solved = model_step(place, quantity, target, damping)
        if solved is None:
            return None
        step = solved.step if guess is None else guess
        trial = _moved(place, step, solved.direction, quantity, target)
        if guess is not None and trial is None:
            guess = None
            continue
        if free:
            promised = -float(place.slope @ step + 0.5 * step @ (place.matrix @ step))
            enough = promised <= tolerance * unit
            gain = -np.inf if trial is None else place.point.data - trial.data
            if not gain >= SUFFICIENT * promised - 1e-13 * abs(place.point.data):
                if enough:
                    return Refit(place, place.point, solved, steps)
                damping = max(10 * damping, 1e-3)
                if damping > STRONGEST_DAMPING:
                    return None
                continue
            if enough:
                return Refit(place, trial, solved, steps)
            damping = 0.0 if damping < 1e-4 else 0.1 * damping
        elif (
            trial is None
        ):  # the others may have been sent too far along a direction with next to no curvature
            damping = max(1e3 * damping, 1e-6)
            if damping > 1e3:
                return None
            continue
        free, guess = True, None
        place = _place(place.system, trial, place.scale)
        steps += 1
        if place is None:
            return None
    return None


def gradient_at(place: Place, step: np.ndarray) -> np.ndarray | None:
    """(unknowns,): the slope of the objective after a step of the unknowns; None if there is none."""
    point = _moved(place, step, np.zeros_like(step), None, 0.0)
    moved = None if point is None else _place(place.system, point, place.scale)
    return None if moved is None else moved.slope


def refined(place: Place, tolerance: float) -> Place:
    """The same place on a mesh that resolves its path."""
    for _ in range(REFINEMENTS):
        system, point = place.system, place.point
        chosen = unresolved(system.mesh, point.states, point.path, place.scale, tolerance)
        if not chosen.any():
            break
        mesh, parent, half = split(system.mesh, chosen)
        states, path = carry(system.mesh, mesh, point.states, point.path, parent, half)
        finer = Discretisation(system.problem, mesh)
        moved = evaluate(finer, point.unknowns, states, path, place.scale)
        renewed = None if moved is None else _place(finer, moved, place.scale)
        if renewed is None:
            break
        place = renewed
    return place


def _place(system: Discretisation, point: Point, scale: np.ndarray) -> Place | None:
    layout = system.problem.layout
    with np.errstate(over="ignore", invalid="ignore"):
        linear = linearise(system, point)
        columns = start_derivatives(system, linear.quadratic)
        hessian, slope = reduced(system, linear.quadratic, columns)
    if (priors := system.problem.priors) is not None:
        prior_slope, prior_curvature = priors.terms(point.unknowns)
        slope, hessian = slope + prior_slope, hessian + prior_curvature[:, :, None] * np.eye(layout.width)
    index = unknowns_index(layout.exists, layout.local)
    matrix = arrow_of(hessian, layout.local, layout.exists)
    own = index[:, 1] < layout.local
    vector = np.where(own, slope[tuple(index.T)], slope.sum(axis=0)[index[:, 1]])
    if not (matrix.finite and np.isfinite(vector).all()):
        return None
    return Place(system, point, scale, linear, columns, index, matrix, vector)


def model_step(
    place: Place, quantity: Quantity | None, target: float, damping: float = 0.0
) -> LineStep | None:
    """The damped, bounded step; None when the bounds do not allow the target."""
    size = place.matrix.diagonal()
    size = np.where(size > 0, size, max(size.max(initial=0.0), 1e-300))
    matrix = place.matrix.raised((damping + RIDGE) * size)
    low, high = place.box()
    if quantity is None:
        return solve_on_line(matrix, place.slope, None, 0.0, low, high)
    layout, unknowns = place.system.problem.layout, place.point.unknowns
    gap = target - quantity.value(layout, unknowns)
    return solve_on_line(matrix, place.slope, quantity.slope(layout, unknowns, place.index), gap, low, high)


def _moved(
    place: Place, step: np.ndarray, direction: np.ndarray, quantity: Quantity | None, target: float
) -> Point | None:
    """The feasible point after a step of the unknowns, on the target of the quantity."""
    layout, point = place.system.problem.layout, place.point
    unknowns_step = _spread(place, step)
    if quantity is not None and quantity.formula is not None:
        along = _spread(place, direction)
        unknowns_step = _onto(place, unknowns_step, along, quantity, target)
        if unknowns_step is None:
            return None
    unknowns = np.clip(point.unknowns + unknowns_step, layout.lower, layout.upper)
    unknowns_step = unknowns - point.unknowns
    mesh, quiet = place.system.mesh, np.zeros(len(place.scale), bool)
    starts = place.columns[:, : len(place.scale)]
    states_step = (starts @ unknowns_step[mesh.experiment][..., None])[..., 0]
    trial = advance(place.system, point, place.linear, unknowns_step, states_step, place.scale, quiet)
    still = np.zeros_like(unknowns_step)
    last = np.inf
    for _ in range(SWEEPS):
        if trial is None:
            return None
        jump = float(np.abs(trial.jumps / place.scale).max(initial=0.0))
        if jump <= CONTINUOUS:
            return trial
        if not jump < last:
            return None
        last = jump
        swept = closing_step(mesh, place.linear.quadratic, trial.jumps)
        trial = advance(place.system, trial, place.linear, still, swept, place.scale, quiet)
    return None


def _onto(place: Place, step, along, quantity: Quantity, target: float) -> np.ndarray | None:
    """The step with its end moved along a direction onto quantity = target, by the secant rule."""
    layout, unknowns = place.system.problem.layout, place.point.unknowns
    size = max(abs(target), 1e-300)
    for _ in range(20):
        end = np.clip(unknowns + step, layout.lower, layout.upper)
        gap = target - quantity.value(layout, end)
        if abs(gap) <= 1e-11 * size:
            return end - unknowns
        rate = float(quantity.slope(layout, end, place.index) @ _gather(place, along))
        if not (np.isfinite(gap) and rate != 0):
            return None
        step = end - unknowns + gap / rate * along
    return None


def _spread(place: Place, vector: np.ndarray) -> np.ndarray:
    """A vector over the unknowns as (experiments, width)."""
    local = place.system.problem.layout.local
    found = np.zeros_like(place.point.unknowns)
    own = place.index[:, 1] < local
    found[tuple(place.index[own].T)] = vector[own]
    found[:, place.index[~own, 1]] = vector[~own]
    return found


def _gather(place: Place, unknowns: np.ndarray) -> np.ndarray:
    return unknowns[tuple(place.index.T)]
