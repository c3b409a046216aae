"""The certificate of the best search, on a finer mesh where an independent integration disagrees with its loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.evidence.certificate import NOTHING_CERTIFIED, Certificate, certify
from picardfit.problem.problem import Problem
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
    return _refined(method, problem, outcome, certificate, settings)


def _refined(
    method: Method, problem: Problem, outcome: Outcome, certificate: Certificate, settings: Refinement
) -> tuple[Outcome, Certificate]:
    """Continue an exact search on finer and finer meshes, as long as that reduces the mismatch and it is too large."""
    for round_ in range(1, settings.rounds + 1):
        if not is_exact(method) or outcome.solution is None or certificate.mismatch <= settings.mismatch:
            break
        finer = method.with_resolution(method.resolution * settings.factor**round_)
        again = continue_from(finer, problem, outcome.solution)
        if not again.status.success or again.solution is None:
            break
        renewed = certify(again.solution)
        if not renewed.mismatch < certificate.mismatch:
            break
        outcome, certificate = _after(outcome, again), renewed
    return outcome, certificate


def _after(first: Outcome, second: Outcome) -> Outcome:
    """The second outcome with the iterations and seconds of both."""
    trace = np.concatenate([first.trace, second.trace])
    return replace(second, trace=trace, iterations=len(trace), seconds=first.seconds + second.seconds)


def _is_finite(solution: Solution) -> bool:
    """Whether the equations can be evaluated along the path."""
    return bool(np.isfinite(solution.point.slopes).all() and np.isfinite(solution.point.data))
