"""Evidence with every answer: residuals, jumps, an independent integration, optimality and active bounds."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from picardfit.collocation.adaptation import state_scale
from picardfit.collocation.bounded_qp import solve_box
from picardfit.collocation.picard import apply
from picardfit.display.hook import shown
from picardfit.evidence.event_kinks import held_at, kink_at, solution_of
from picardfit.evidence.event_sides import rows_on_sides
from picardfit.evidence.fisher import Information, information
from picardfit.evidence.formula_check import formula_error
from picardfit.evidence.input_check import input_errors
from picardfit.simulation.trajectories import SCIPY_ALONE
from picardfit.solvers.loop import Solution

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class CertificateSettings:
    """Thresholds of the checks of a solution; all are relative, and chosen."""

    tolerances: tuple[float, ...] = (1e-8, 1e-10)  # of the integration; the second where the first differs
    close: float = 1e-6  # difference of the losses that calls for no tighter integration
    agreement: float = 1e-5  # difference up to which path and integration agree: ten times `close`
    formulas: float = (
        1e-6  # difference of right-hand sides, as written and as compiled, that rounding may leave
    )
    inputs: float = 1e-3  # mean error of an input that is a function, over its mean: far below noise of doses
    promising: float = 1e-4  # promised decrease of the loss above which the bounds may limit it
    most_unknowns: int = 500  # for which a bounded quadratic programme is solved to find that limit
    unpushed: float = 1e-9  # fall of the loss across the bounds below which no bound holds an unknown
    least_state: float = 1e-6  # scale of a state that is zero throughout, relative to the largest


DEFAULT = CertificateSettings()


@shown
@dataclass(frozen=True)
class Certificate:
    """What proves the answer: residual, jump, mismatch and gradient are relative and should be small.

    `picard_residual`: largest |u - P u|; `largest_jump`: at the knots; both relative to the states' scale.
    `loss`: what was minimised, along the path: L_ls, or with a noise model the negative log-likelihood with the priors;
    `reintegrated_loss`: from SciPy's integrators, which know nothing of the path; `mismatch`: their relative
    difference. `gradient`: decrease of the loss that the gradient and the curvature still promise, relative to the loss
    (0 at an optimum). A log-likelihood is compared with one half per measurement, or with what its residuals cost.
    `formula_error`: largest relative difference, beyond rounding, between the equations as written, evaluated with 30
    digits at a few points of the path, and as compiled; None for functions and very large models.
    `input_error`: mean difference between an input that is a Python function, finely sampled, and what the mesh has
    seen of it, over its mean size; 0 without such inputs.
    `at_bound`: unknowns that sit on a bound; `undetermined`: unknowns whose variance is infinite, because the data
    do not depend on them, or only on a combination; None when the search did not converge.
    """

    picard_residual: float
    largest_jump: float
    loss: float
    reintegrated_loss: float
    mismatch: float
    gradient: float
    at_bound: tuple[str, ...]
    undetermined: tuple[str, ...] | None
    segments: int
    nodes: int
    formula_error: float | None = None
    input_error: float = 0.0

    @property
    def agrees(self) -> bool:
        return self.mismatch <= DEFAULT.agreement and not (
            (self.formula_error or 0.0) > DEFAULT.formulas or self.input_error > DEFAULT.inputs
        )


NOTHING_CERTIFIED = Certificate(inf, inf, inf, inf, inf, inf, (), None, 0, 0)  # without a finite solution


def certify(solution: Solution, settings: CertificateSettings = DEFAULT) -> Certificate:
    """Check a solution from scratch."""
    system = solution.system
    problem, mesh = system.problem, system.mesh
    scale = state_scale(problem, [solution.path], least=settings.least_state)
    point = solution.point
    gap, value = solution.path - apply(mesh, solution.states, point.slopes), point.data
    initial, _ = problem.layout.initial(solution.unknowns)
    size = max(problem.objective.size(point.outputs, value), problem.objective.least, TINY)
    for rtol in settings.tolerances:
        if problem.timed is None:
            outputs = problem.predicted_rows(point.params, initial, rtol, SCIPY_ALONE)
        else:
            outputs = rows_on_sides(solution, rtol)
        again = np.inf if outputs is None else system.value(solution.unknowns, outputs)
        if abs(again - value) <= settings.close * size:
            break
    found = information(solution)
    return Certificate(
        picard_residual=float(np.abs(gap / scale).max()),
        largest_jump=float(np.abs(solution.jumps / scale).max(initial=0.0)),
        loss=problem.mean_loss(value),
        reintegrated_loss=problem.mean_loss(again),
        mismatch=float(abs(again - value) / size),
        gradient=_promised(solution, found, size, settings) / size,
        at_bound=found.at_bound,
        undetermined=_undetermined(solution, found, settings.unpushed * size),
        segments=len(mesh),
        nodes=len(mesh.rule.nodes),
        formula_error=formula_error(solution),
        input_error=max(input_errors(solution).values(), default=0.0),
    )


def _promised(solution: Solution, found: Information, size: float, settings: CertificateSettings) -> float:
    """The decrease of one more Gauss-Newton step within the bounds.

    Along a direction with hardly any curvature the model promises much, but far away: the bounds limit the promise.
    Where an event is held at a sample, the others are fitted once more.
    """
    kink = None if solution.system.problem.timed is None else kink_at(solution)
    held = None if kink is None else held_at(solution, kink)
    if held is not None and held.is_minimum:
        return max(0.0, path_value(solution) - path_value(solution_of(held.lower)))
    free = found.promised_decrease()
    if not free > settings.promising * size or len(found.index) > settings.most_unknowns:
        return free
    layout, at = solution.system.problem.layout, tuple(found.index.T)
    lower, upper = (bound[at] - solution.unknowns[at] for bound in (layout.lower, layout.upper))
    step = solve_box(found.matrix[None], found.slope[None], 0, lower[None], upper[None])[0]
    return min(free, max(0.0, -float(step @ (found.slope + 0.5 * found.matrix @ step))))


def _undetermined(solution: Solution, found: Information, fall: float) -> tuple[str, ...]:
    """Unknowns with an infinite variance.

    One at a bound counts as free unless the loss would fall by more than `fall` over the width of its bounds.
    """
    layout, unknowns = solution.system.problem.layout, solution.unknowns
    reach = layout.size(unknowns)
    pushed = {one.label for one in found.bounded if one.slope * reach[one.index] > fall}
    if len(pushed) == len(found.bounded):
        return found.undetermined
    free = information(solution, everything=True)
    return tuple(name for name in free.undetermined if name not in pushed)


def path_value(solution: Solution) -> float:
    """The objective along the path of a solution, with priors."""
    return solution.point.data


class Misfit(NamedTuple):
    """How far the curves are from the data."""

    excess: float  # r.m.s. residual over that of the noise model, or of the scatter of neighbouring samples
    unexplained: float  # fraction of the variation of the data that is left: 1 for curves that follow nothing
    probability: float = 1.0  # of residuals as large as these or larger, under the noise model (chi-square)


def misfit(solution: Solution) -> Misfit:
    """How far the path of a solution is from the data.

    Without a noise model a sample is compared with the straight line between its neighbours. Where the curve bends
    between samples their scatter comes out too large, never too small. Variation is counted around the mean of each
    series of samples. Series with few samples do not count. The probability counts no unknown as fitted: it is too
    large rather than too small, the more so the fewer the samples.
    """
    from scipy.special import chdtrc

    problem, rows = solution.system.problem, path_rows(solution)
    data, (counted, weight, noise) = problem.samples.data, problem.samples.roughness
    squares = np.where(counted, data - rows[:, : data.shape[1]], 0.0) ** 2
    unexplained = float(np.sum(weight * squares)) / max(int(np.count_nonzero(weight)), 1)
    residual = float(np.sum(squares))
    if problem.noise is None:
        return Misfit(float(np.sqrt(residual / noise)) if noise > 0 else 1.0, unexplained)
    with np.errstate(all="ignore"):
        total = float(np.nansum(problem.objective.residuals(rows) ** 2))
    count = max(problem.measurements, 1)
    return Misfit(float(np.sqrt(total / count)), unexplained, float(chdtrc(count, total)))


def path_rows(solution: Solution) -> np.ndarray:
    """(samples, rows): observables and noise levels along the path of a solution."""
    return solution.point.outputs
