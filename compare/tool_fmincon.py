"""A constrained NLP over simulation: SLSQP with bounds, finite differences, in the role of nlgreyest with fmincon."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from compare.task import Answer, Task, Watch, until_over

RTOL = 1e-9


def solve(task: Task) -> Answer:
    watch, size = Watch(task.budget), task.size
    scale = 1 / max(task.loss(task.first, RTOL), 1e-300)  # SLSQP stops on absolute changes of the loss

    def loss(scaled: np.ndarray) -> float:
        vector = np.clip(scaled * size, task.lower, task.upper)
        return scale * watch.tick(vector, task.loss(vector, RTOL))

    def search() -> Answer:
        found = minimize(
            loss,
            task.first / size,
            method="SLSQP",
            bounds=np.stack([task.lower / size, task.upper / size], axis=1),
            options={"maxiter": 500, "ftol": 1e-12, "eps": 1e-7},
        )
        return Answer(found.x * size, bool(found.success), found.message)

    return until_over(watch, task, search)
