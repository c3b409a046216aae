"""Single shooting with SciPy: least_squares (trust region reflective) over LSODA, finite differences."""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from compare.task import Answer, Task, Watch, until_over

RTOL = 1e-9  # of the simulation, tight enough for finite differences
STEP = 1e-6


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
            residuals, first, bounds=(task.lower, task.upper), x_scale=task.size, diff_step=STEP
        )
        return Answer(found.x, bool(found.success), found.message)

    return until_over(watch, task, search)
