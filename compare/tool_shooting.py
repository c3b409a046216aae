"""Single shooting with SciPy: least_squares (trust region reflective) over LSODA, Jacobians from sensitivities."""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from compare.sensitivities import RTOL, residual_jacobian
from compare.task import Answer, Task, Watch, until_over


def solve(task: Task) -> Answer:
    watch = Watch(task.budget)

    def residuals(vector: np.ndarray) -> np.ndarray:
        gap = task.residuals(vector, RTOL)
        watch.tick(vector, float(gap @ gap))
        return gap

    def search() -> Answer:
        margin = 1e-6 * np.where(np.isfinite(task.upper - task.lower), task.upper - task.lower, 0.0)
        first = np.clip(task.first, task.lower + margin, task.upper - margin)
        found = least_squares(
            residuals,
            first,
            lambda vector: residual_jacobian(task, vector, watch),
            bounds=(task.lower, task.upper),
            x_scale=task.size,
        )
        return Answer(found.x, bool(found.success), found.message)

    return until_over(watch, task, search)
