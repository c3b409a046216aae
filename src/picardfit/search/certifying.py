"""The certificate of the best search, on a finer mesh where an independent integration disagrees with its loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.errors import Status
from picardfit.evidence.certificate import NOTHING_CERTIFIED, Certificate, certify
from picardfit.evidence.event_kinks import kink_at
from picardfit.problem.problem import Problem
from picardfit.search.final_status import is_settled
from picardfit.search.searches import continue_from
from picardfit.solvers.loop import Method, Outcome, Solution, is_exact


@dataclass(frozen=True)
class Refinement:
    """When the mesh of a solution is refined, because an independent integration disagrees with its loss."""

    mismatch: float = 1e-6  # relative difference of the losses; a tenth of what `Certificate.agrees` allows
    factor: float = (
        1e-2  # of the mesh's resolution from one round to the next; its square in the second, and so on
    )
    rounds: int = 3


def certify_outcome(
    method: Method, problem: Problem, outcome: Outcome, settings: Refinement = Refinement()
) -> tuple[Outcome, Certificate]:
    """The outcome with its certificate; where an independent integration disagrees, on a finer mesh if possible."""
    if outcome.solution is None or not _is_finite(outcome.solution):
        return replace(outcome, solution=None), NOTHING_CERTIFIED
    certificate = certify(outcome.solution)
    if not outcome.status.success or certificate.mismatch <= settings.mismatch:
        return outcome, certificate
    if problem.timed is not None and kink_at(outcome.solution) is not None:  # a search would leave it
        return outcome, certificate
    return _refined(method, problem, outcome, certificate, settings)


def _refined(
    method: Method, problem: Problem, outcome: Outcome, certificate: Certificate, settings: Refinement
) -> tuple[Outcome, Certificate]:
    """Continue an exact search on finer and finer meshes, as long as that reduces the mismatch and it is too large.

    Where a path has a kink, the loss on a mesh has many small ones, as the kink passes from node to node, and a search
    may stall between them. It may still go on from there on a finer mesh; what counts is the last outcome at an
    optimum, if an independent integration agrees with any.
    """
    latest, best = (outcome, certificate), (outcome, certificate)
    for round_ in range(1, settings.rounds + 1):
        solution, mismatch = latest[0].solution, latest[1].mismatch
        if not is_exact(method) or solution is None or mismatch <= settings.mismatch:
            break
        finer = method.with_resolution(method.resolution * settings.factor**round_)
        again = continue_from(finer, problem, solution)
        if again.solution is None or not (again.status.success or again.status is Status.STALLED):
            break
        renewed = certify(again.solution)
        if not renewed.mismatch < mismatch:
            break
        latest = latest[0].then(again), renewed
        if again.status.success or is_settled(renewed):
            best = latest
    return best if best[1].agrees else latest


def _is_finite(solution: Solution) -> bool:
    """Whether the equations can be evaluated along the path."""
    return bool(np.isfinite(solution.point.slopes).all() and np.isfinite(solution.point.data))
