"""A fit from a nearby solution: Gauss-Newton on the unknowns alone, with exact continuity.

Near a solution neither penalties nor multipliers are needed. The inner states follow the unknowns along derivatives
that are carried from segment to segment (collocation/recursion.py), and the same matrices close the jumps that a step
leaves, so that every point is feasible and the objective is its own measure of progress. Profiles hold one quantity at
a value; a bootstrap changes the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from picardfit.collocation import refinement
from picardfit.collocation.adaptation import state_scale
from picardfit.collocation.arrow import Arrow, arrow_of
from picardfit.collocation.bounded_qp import LineStep, solve_on_line
from picardfit.collocation.condensing import closing_step, reduced, start_derivatives
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, advance, linearise
from picardfit.collocation.mesh import TINY
from picardfit.collocation.point import Point, evaluate
from picardfit.collocation.refinement import Resolution
from picardfit.problem.problem import Problem
from picardfit.problem.quantity import Quantity
from picardfit.problem.unknowns import unknowns_index
from picardfit.solvers.levenberg_marquardt import Damping, Proposal, minimise
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class Refitting:
    """When a fit from a nearby solution has ended or failed; values are measured on profiles and bootstraps."""

    damping: Damping = field(
        default_factory=lambda: Damping(least_increased=1e-3, negligible=1e-4, sufficient=1e-3, steps=60)
    )  # relative to the diagonal of the Hessian
    towards: Damping = field(
        default_factory=lambda: Damping(increase=1e3, least_increased=1e-6, strongest=1e3)
    )  # of the step that reaches the target of a quantity
    rounding: float = 1e-13  # change of the objective, relative to its value, that may be rounding error
    ridge: float = 1e-11  # of the scaled matrix: directions that nothing determines stay where they are
    sweeps: int = 8  # corrections that close the jumps of one step
    continuous: float = 1e-9  # jump relative to the states' scale that counts as none
    secants: int = 20  # steps of the secant rule onto the target of a quantity
    on_target: float = 1e-11  # relative distance of a quantity from its target that counts as none
    refinements: int = 4  # halvings of a segment
    segments: int = 200_000  # of a mesh, at most


USUAL = Refitting()


@dataclass(frozen=True)
class Place:
    """A feasible point with the quadratic model of the objective in the unknowns there."""

    system: Discretisation
    point: Point
    scale: np.ndarray  # (states,)
    linear: Linearisation
    columns: np.ndarray  # (segments, states + free parameters, width): start derivatives
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
    settings: Refitting = USUAL,
) -> Refit | None:
    """Minimise the objective from a place, with `quantity` held at `target` if there is one; None after a failure.

    Ends when a step promises less than `tolerance` times `unit`, and takes that step. `guess` (unknowns,) is a first
    step towards the target.
    """
    damping, first = 0.0, 0
    if quantity is not None:
        reached = _on_target(place, quantity, target, guess, settings)
        if reached is None:
            return None
        (place, damping), first = reached, 1

    def propose(place: Place, damping: float) -> Proposal[_Trial] | None:
        solved = model_step(place, quantity, target, damping, settings)
        if solved is None:
            return None
        point, step = _moved(place, solved.step, solved.direction, quantity, target, settings), solved.step
        promised = -float(place.slope @ step + 0.5 * step @ (place.matrix @ step))
        gain = -np.inf if point is None else place.point.data - point.data
        rounding = settings.rounding * abs(place.point.data)
        return Proposal(_Trial(place, point, solved), gain, promised, rounding, promised <= tolerance * unit)

    def move(proposal: Proposal[_Trial]) -> Place | None:
        trial = proposal.point
        return None if trial.point is None else _place(trial.place.system, trial.point, trial.place.scale)

    limits = replace(settings.damping, steps=settings.damping.steps - first)
    ended = minimise(place, propose, move, limits, damping)
    if not ended.converged or ended.proposal is None:
        return None
    trial = ended.proposal.point
    point = trial.point if ended.taken and trial.point is not None else ended.state.point
    return Refit(ended.state, point, trial.solved, ended.steps + first)


@dataclass(frozen=True)
class _Trial:
    """The end of a step from a place, None where it is not feasible."""

    place: Place
    point: Point | None
    solved: LineStep


def _on_target(
    place: Place, quantity: Quantity, target: float, guess: np.ndarray | None, settings: Refitting
) -> tuple[Place, float] | None:
    """The place after a first step onto quantity = target, downhill or not, and the damping it needed.

    Without damping the other unknowns may be sent too far along a direction with almost no curvature.
    """
    damping = settings.towards.first
    while damping <= settings.towards.strongest:
        solved = model_step(place, quantity, target, damping, settings)
        if solved is None:
            return None
        trial = None
        if guess is not None:
            trial, guess = _moved(place, guess, solved.direction, quantity, target, settings), None
        if trial is None:
            trial = _moved(place, solved.step, solved.direction, quantity, target, settings)
        if trial is not None:
            moved = _place(place.system, trial, place.scale)
            return None if moved is None else (moved, damping)
        damping = settings.towards.raised(damping)
    return None


def gradient_at(place: Place, step: np.ndarray, settings: Refitting = USUAL) -> np.ndarray | None:
    """(unknowns,): the slope of the objective after a step of the unknowns; None if there is none."""
    point = _moved(place, step, np.zeros_like(step), None, 0.0, settings)
    moved = None if point is None else _place(place.system, point, place.scale)
    return None if moved is None else moved.slope


def refined(place: Place, tolerance: float, settings: Refitting = USUAL) -> Place:
    """The place on a mesh that resolves its path, with the problem's own objective."""
    system = Discretisation(place.system.problem, place.system.mesh)
    wanted = Resolution(None, tolerance, settings.refinements, settings.segments, by_value=False)
    found = refinement.refined(system, place.point, place.scale, [wanted])
    if found.system is system:
        return place
    return _place(found.system, found.point, place.scale) or place


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
    place: Place, quantity: Quantity | None, target: float, damping: float = 0.0, settings: Refitting = USUAL
) -> LineStep | None:
    """The damped, bounded step; None when the bounds do not allow the target."""
    size = place.matrix.diagonal()
    size = np.where(size > 0, size, max(size.max(initial=0.0), TINY))
    matrix = place.matrix.raised((damping + settings.ridge) * size)
    low, high = place.box()
    if quantity is None:
        return solve_on_line(matrix, place.slope, None, 0.0, low, high)
    layout, unknowns = place.system.problem.layout, place.point.unknowns
    gap = target - quantity.value(layout, unknowns)
    return solve_on_line(matrix, place.slope, quantity.slope(layout, unknowns, place.index), gap, low, high)


def _moved(
    place: Place,
    step: np.ndarray,
    direction: np.ndarray,
    quantity: Quantity | None,
    target: float,
    settings: Refitting,
) -> Point | None:
    """The feasible point after a step of the unknowns, on the target of the quantity."""
    layout, point = place.system.problem.layout, place.point
    unknowns_step = _spread(place, step)
    if quantity is not None and quantity.formula is not None:
        along = _spread(place, direction)
        ended = _onto(place, unknowns_step, along, quantity, target, settings)
        if ended is None:
            return None
        unknowns_step = ended
    unknowns = np.clip(point.unknowns + unknowns_step, layout.lower, layout.upper)
    unknowns_step = unknowns - point.unknowns
    mesh, quiet = place.system.mesh, np.zeros(len(place.scale), bool)
    starts = place.columns[:, : len(place.scale)]
    states_step = (starts @ unknowns_step[mesh.experiment][..., None])[..., 0]
    trial = advance(place.system, point, place.linear, unknowns_step, states_step, place.scale, quiet)
    still = np.zeros_like(unknowns_step)
    last = np.inf
    for _ in range(settings.sweeps):
        if trial is None:
            return None
        jump = float(np.abs(trial.jumps / place.scale).max(initial=0.0))
        if jump <= settings.continuous:
            return trial
        if not jump < last:
            return None
        last = jump
        swept = closing_step(mesh, place.linear.quadratic, trial.jumps)
        trial = advance(place.system, trial, place.linear, still, swept, place.scale, quiet)
    return None


def _onto(
    place: Place,
    step: np.ndarray,
    along: np.ndarray,
    quantity: Quantity,
    target: float,
    settings: Refitting,
) -> np.ndarray | None:
    """The step with its end moved along a direction onto quantity = target, by the secant rule."""
    layout, unknowns = place.system.problem.layout, place.point.unknowns
    size = max(abs(target), TINY)
    for _ in range(settings.secants):
        end = np.clip(unknowns + step, layout.lower, layout.upper)
        gap = target - quantity.value(layout, end)
        if abs(gap) <= settings.on_target * size:
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
