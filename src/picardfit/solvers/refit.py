"""A fit from a nearby solution: Gauss-Newton on the unknowns alone, with exact continuity.

Near a solution neither penalties nor multipliers are needed. The inner states follow the unknowns along derivatives
that are carried from segment to segment (collocation/condensing.py), and the same matrices close the jumps that a step
leaves, so that every point is feasible and the objective itself measures progress. Profiles hold one quantity at a
value; a bootstrap changes the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

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
from picardfit.problem.problem import Problem, Schedule
from picardfit.problem.quantity import Quantity
from picardfit.problem.unknowns import unknowns_index
from picardfit.solvers.levenberg_marquardt import Damping, Proposal, minimise
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class Refitting:
    """When a fit from a nearby solution has ended or failed; the values are chosen."""

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
    least_state: float = 1e-6  # scale of a state that is zero throughout, relative to the largest


USUAL = Refitting()


@dataclass(frozen=True)
class Expansion:
    """The objective to second order in the unknowns around a feasible point: 1/2 d' H d + g' d."""

    system: Discretisation
    point: Point
    scale: np.ndarray  # (states,)
    settings: Refitting
    linear: Linearisation
    columns: np.ndarray  # (segments, states + free parameters, width): start derivatives
    index: np.ndarray  # (unknowns, 2): experiment and column
    matrix: Arrow  # over the unknowns
    slope: np.ndarray  # (unknowns,)
    limits: tuple[np.ndarray, np.ndarray] | None = None  # (experiments, width) each, within the bounds

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """How far each unknown may move down and up: (unknowns,) each."""
        layout, at = self.system.problem.layout, tuple(self.index.T)
        if self.limits is None:
            return layout.lower[at] - self.point.unknowns[at], layout.upper[at] - self.point.unknowns[at]
        low, high = (limit[at] - self.point.unknowns[at] for limit in self.limits)
        return np.minimum(low, 0.0), np.maximum(high, 0.0)

    def at(self, point: Point) -> Expansion | None:
        """The expansion around another point of this mesh; None where it is not finite."""
        moved = _expanded(self.system, point, self.scale, self.settings)
        return None if moved is None else replace(moved, limits=self.limits)


@dataclass(frozen=True)
class Refit:
    """How a warm fit ended."""

    expansion: Expansion  # the last one, at most one short step before the end
    point: Point
    last: LineStep
    steps: int  # linearisations

    @property
    def value(self) -> float:
        return self.point.data


def expansion_at(problem: Problem, solution: Solution, settings: Refitting = USUAL) -> Expansion | None:
    """Expand around a solution, possibly for other data, with rounded kinks; None if it cannot be evaluated."""
    system = Discretisation(problem, solution.system.mesh, problem.objective.rounded())
    scale = state_scale(problem, [solution.path], least=settings.least_state)
    point = evaluate(system, solution.unknowns, solution.states, solution.path, scale)
    return None if point is None else _expanded(system, point, scale, settings)


def refit(
    here: Expansion,
    unit: float,
    quantity: Quantity | None = None,
    target: float = 0.0,
    tolerance: float = 1e-6,
    guess: np.ndarray | None = None,
) -> Refit | None:
    """Minimise the objective from an expansion, with `quantity` held at `target` if there is one; None after a failure.

    Ends when a step promises less than `tolerance` times `unit`, and takes that step. `guess` (unknowns,) is a first
    step towards the target.
    """
    settings, damping, first = here.settings, 0.0, 0
    if quantity is not None:
        reached = _on_target(here, quantity, target, guess)
        if reached is None:
            return None
        (here, damping), first = reached, 1

    def propose(here: Expansion, damping: float) -> Proposal[_Trial] | None:
        solved = model_step(here, quantity, target, damping)
        if solved is None:
            return None
        point, step = _moved(here, solved.step, solved.direction, quantity, target), solved.step
        promised = -float(here.slope @ step + 0.5 * step @ (here.matrix @ step))
        gain = -np.inf if point is None else here.point.data - point.data
        rounding = settings.rounding * abs(here.point.data)
        return Proposal(_Trial(here, point, solved), gain, promised, rounding, promised <= tolerance * unit)

    limits = replace(settings.damping, steps=settings.damping.steps - first)
    ended = minimise(here, propose, lambda proposal: proposal.point.expanded(), limits, damping)
    if not ended.converged or ended.proposal is None:
        return None
    trial = ended.proposal.point
    point = trial.point if ended.taken and trial.point is not None else ended.state.point
    return Refit(ended.state, point, trial.solved, ended.steps + first)


class _Trial(NamedTuple):
    """A step from an expansion; its end is None where it is not feasible."""

    here: Expansion
    point: Point | None
    solved: LineStep

    def expanded(self) -> Expansion | None:
        """The expansion around the end of the step."""
        return None if self.point is None else self.here.at(self.point)


def _on_target(
    here: Expansion, quantity: Quantity, target: float, guess: np.ndarray | None
) -> tuple[Expansion, float] | None:
    """The expansion after a first step onto quantity = target, downhill or not, and the damping it needed.

    Without damping the other unknowns may be sent too far along a direction with almost no curvature.
    """
    rules = here.settings.towards
    damping = rules.first
    while damping <= rules.strongest:
        solved = model_step(here, quantity, target, damping)
        if solved is None:
            return None
        trial = None
        if guess is not None:
            trial, guess = _moved(here, guess, solved.direction, quantity, target), None
        if trial is None:
            trial = _moved(here, solved.step, solved.direction, quantity, target)
        if trial is not None:
            moved = here.at(trial)
            return None if moved is None else (moved, damping)
        damping = rules.raised(damping)
    return None


def gradient_at(here: Expansion, step: np.ndarray) -> np.ndarray | None:
    """(unknowns,): the slope of the objective after a step of the unknowns; None if there is none."""
    point = _moved(here, step, np.zeros_like(step), None, 0.0)
    moved = None if point is None else here.at(point)
    return None if moved is None else moved.slope


def refined(here: Expansion, tolerance: float) -> Expansion:
    """The expansion on a mesh that resolves its path, with the problem's own objective."""
    system, settings = Discretisation(here.system.problem, here.system.mesh), here.settings
    wanted = Resolution(None, tolerance, settings.refinements, settings.segments, by_value=False)
    found = refinement.refined(system, here.point, here.scale, [wanted])
    if found.system is system:
        return here
    finer = _expanded(found.system, found.point, here.scale, settings)
    return here if finer is None else replace(finer, limits=here.limits)


def _expanded(
    system: Discretisation, point: Point, scale: np.ndarray, settings: Refitting
) -> Expansion | None:
    """The expansion around a feasible point; None where it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        linear = linearise(system, point)
        columns = start_derivatives(system, linear.quadratic)
        hessian, slope = with_priors(system, point.unknowns, *reduced(system, linear.quadratic, columns))
    index, matrix, vector = over_unknowns(system.problem.layout.exists, system, hessian, slope)
    if not (matrix.finite and np.isfinite(vector).all()):
        return None
    return Expansion(system, point, scale, settings, linear, columns, index, matrix, vector)


def on_sides(here: Expansion, schedule: Schedule) -> Expansion | None:
    """The expansion with samples on the sides of events that a schedule gives them; None if it is not finite."""
    system, point = here.system, here.point
    system = replace(system, mesh=replace(system.mesh, schedule=schedule))
    moved = evaluate(system, point.unknowns, point.states, point.path, here.scale)
    return None if moved is None else _expanded(system, moved, here.scale, here.settings)


def with_priors(
    system: Discretisation, unknowns: np.ndarray, hessian: np.ndarray, slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hessian (experiments, width, width) and slope (experiments, width) with those of the priors added."""
    priors = system.problem.priors
    if priors is None:
        return hessian, slope
    prior_slope, curvature = priors.terms(unknowns)
    return hessian + curvature[:, :, None] * np.eye(slope.shape[1]), slope + prior_slope


def over_unknowns(
    chosen: np.ndarray, system: Discretisation, hessian: np.ndarray, slope: np.ndarray
) -> tuple[np.ndarray, Arrow, np.ndarray]:
    """Index (unknowns, 2), matrix and slope (unknowns,) of the chosen columns (experiments, width) bool.

    Global columns, which are equal in all experiments, become one unknown: their slopes are summed.
    """
    local = system.problem.layout.local
    index = unknowns_index(chosen, local)
    own = index[:, 1] < local
    vector = np.where(own, slope[tuple(index.T)], slope.sum(axis=0)[index[:, 1]])
    return index, arrow_of(hessian, local, chosen), vector


def model_step(
    here: Expansion, quantity: Quantity | None, target: float, damping: float = 0.0
) -> LineStep | None:
    """The damped, bounded step; None when the bounds do not allow the target."""
    layout, unknowns, (low, high) = here.system.problem.layout, here.point.unknowns, here.box()
    size = here.matrix.diagonal()
    size = np.where(size > 0, size, max(size.max(initial=0.0), TINY))
    matrix = here.matrix.raised((damping + here.settings.ridge) * size)
    if quantity is None:
        return solve_on_line(matrix, here.slope, None, 0.0, low, high)
    gap = target - quantity.value(layout, unknowns)
    return solve_on_line(matrix, here.slope, quantity.slope(layout, unknowns, here.index), gap, low, high)


def _moved(
    here: Expansion, step: np.ndarray, direction: np.ndarray, quantity: Quantity | None, target: float
) -> Point | None:
    """The feasible point after a step of the unknowns, on the target of the quantity."""
    layout, point, settings = here.system.problem.layout, here.point, here.settings
    moved: np.ndarray | None = _spread(here, step)
    if quantity is not None and quantity.formula is not None:
        moved = _onto(here, _spread(here, step), _spread(here, direction), quantity, target)
    if moved is None:
        return None
    unknowns_step = np.clip(point.unknowns + moved, layout.lower, layout.upper) - point.unknowns
    mesh, quiet = here.system.mesh, np.zeros(len(here.scale), bool)
    starts = here.columns[:, : len(here.scale)]
    states_step = (starts @ unknowns_step[mesh.experiment][..., None])[..., 0]
    last = np.inf
    for _ in range(settings.sweeps):
        trial = advance(here.system, point, here.linear, unknowns_step, states_step, here.scale, quiet)
        if trial is None:
            return None
        jump = float(np.abs(trial.jumps / here.scale).max(initial=0.0))
        if jump <= settings.continuous:
            return trial
        if not jump < last:
            return None
        point, last, unknowns_step = trial, jump, np.zeros_like(unknowns_step)
        states_step = closing_step(mesh, here.linear.quadratic, trial.jumps)
    return None


def _onto(
    here: Expansion, step: np.ndarray, along: np.ndarray, quantity: Quantity, target: float
) -> np.ndarray | None:
    """The step with its end moved along a direction onto quantity = target, by the secant rule."""
    layout, unknowns, settings = here.system.problem.layout, here.point.unknowns, here.settings
    for _ in range(settings.secants):
        end = np.clip(unknowns + step, layout.lower, layout.upper)
        gap = target - quantity.value(layout, end)
        if abs(gap) <= settings.on_target * max(abs(target), TINY):
            return end - unknowns
        rate = float(quantity.slope(layout, end, here.index) @ along[tuple(here.index.T)])
        if not (np.isfinite(gap) and rate != 0):
            return None
        step = end - unknowns + gap / rate * along
    return None


def _spread(here: Expansion, vector: np.ndarray) -> np.ndarray:
    """A vector over the unknowns as (experiments, width)."""
    found = np.zeros_like(here.point.unknowns)
    own = here.index[:, 1] < here.system.problem.layout.local
    found[tuple(here.index[own].T)] = vector[own]
    found[:, here.index[~own, 1]] = vector[~own]
    return found
