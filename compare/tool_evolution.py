"""Differential evolution over simulation (SciPy's defaults, polished by L-BFGS-B at the end)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import differential_evolution

from compare.task import Answer, Task, Watch, until_over

RTOL = 1e-7


def solve(task: Task) -> Answer:
    watch = Watch(task.budget)

    def search() -> Answer:
        found = differential_evolution(
            lambda vector: watch.tick(vector, task.loss(vector, RTOL)),
            np.stack(task.box, axis=1),
            x0=task.first,
            seed=task.seed,
            maxiter=100_000,
            tol=1e-6,
        )
        return Answer(found.x, bool(found.success), f"{found.message} ({found.nfev} simulations)")

    return until_over(watch, task, search)
