"""Enhanced scatter search of pyPESTO with a local solver (L-BFGS-B), in the role of AMIGO2's eSS."""

from __future__ import annotations

import numpy as np
from pypesto import Objective, Problem
from pypesto.optimize import ScipyOptimizer
from pypesto.optimize.ess import ESSOptimizer, FunctionEvaluator, RefSet

from compare.task import Answer, Task, Watch, until_over

RTOL = 1e-8
REFERENCES = 10  # points of the reference set, as in the authors' settings for a few unknowns
DIVERSE = 10  # random points per unknown from which that set is chosen


def solve(task: Task) -> Answer:
    watch = Watch(task.budget)
    low, high = task.box

    def loss(vector: np.ndarray) -> float:
        return watch.tick(vector, task.loss(vector, RTOL))

    def search() -> Answer:
        np.random.seed(task.seed)  # noqa: NPY002  (pyPESTO draws from the global generator)
        problem = Problem(Objective(fun=loss), lb=low, ub=high)
        first = low + (high - low) * np.random.default_rng(task.seed).uniform(
            size=(DIVERSE * len(low), len(low))
        )
        first[0] = np.clip(task.first, low, high)
        references = RefSet(REFERENCES, FunctionEvaluator(problem))
        references.initialize_from_array(first, np.array([loss(one) for one in first]))
        method = ESSOptimizer(
            max_eval=10**9,  # the watch ends it: pyPESTO would count time on the clock
            local_optimizer=ScipyOptimizer(method="L-BFGS-B", options={"maxfun": 2000}),
        )
        method.minimize(refset=references)
        return Answer(watch.best, True, f"{watch.calls} simulations")

    return until_over(watch, task, search)
