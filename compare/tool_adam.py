"""Adam and then BFGS with gradients through diffrax: what the paper runs with SciMLSensitivity.

Forward derivatives, which SciMLSensitivity itself takes for fewer than a hundred unknowns.
"""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import minimize

from compare.ode_jax import free_start, inside, residual_function
from compare.task import Answer, Task, Watch, until_over

RATE, STEPS = 0.02, 300  # of Adam, in units of the size of an unknown


def solve(task: Task) -> Answer:
    watch = Watch(task.budget)
    residuals = residual_function(task, diffrax.ForwardMode())
    scale = 1 / task.problem.measurements

    @jax.jit
    def linearised(free):
        def twice(z):
            gap = residuals(z)
            return gap, gap

        jacobian, gap = jax.jacfwd(twice, has_aux=True)(free)
        return 0.5 * scale * gap @ gap, scale * gap @ jacobian

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = linearised(jnp.asarray(free))
        watch.tick(np.asarray(inside(task, free)), float(value))
        return float(value), np.nan_to_num(np.asarray(gradient))

    def search() -> Answer:
        free = free_start(task)
        method = optax.adam(RATE)
        state = method.init(free)
        for _ in range(STEPS):
            _, gradient = loss(free)
            move, state = method.update(gradient, state)
            free = np.asarray(optax.apply_updates(free, move))
        found = minimize(loss, free, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 500})
        return Answer(
            watch.best, bool(found.success), f"{STEPS} steps of Adam, {found.nit} of BFGS: {found.message}"
        )

    return until_over(watch, task, search)
