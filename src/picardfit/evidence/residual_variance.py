"""What one unit of variance costs in the objective."""

from __future__ import annotations

from picardfit.problem.problem import Problem
from picardfit.solvers.loop import Solution


def spare_measurements(problem: Problem) -> int:
    """Measurements minus unknowns."""
    return problem.measurements - problem.layout.count()


def residual_variance(solution: Solution) -> float:
    """Variance of one measurement in units of the assumed one: 1 with a noise model.

    Else the sum of squares over measurements minus unknowns, NaN when none are left.
    """
    problem = solution.system.problem
    if problem.noise is not None:
        return 1.0
    spare = spare_measurements(problem)
    return 2 * solution.point.data / spare if spare > 0 else float("nan")
