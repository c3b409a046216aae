"""Single shooting through diffrax (Tsit5, adaptive) with optimistix' Levenberg-Marquardt, forward derivatives."""

from __future__ import annotations

from collections.abc import Callable

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix

from compare.ode_jax import free_start, inside, residual_function
from compare.task import Answer, Task


def solve(task: Task) -> Answer:
    return prepare(task)()


def prepare(task: Task) -> Callable[[], Answer]:
    """The search; it is compiled when it is first run."""
    residuals = residual_function(task, diffrax.ForwardMode())

    @jax.jit
    def search(first):
        found = optimistix.least_squares(
            lambda free, _: residuals(free),
            optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8),
            first,
            max_steps=500,
            throw=False,
        )
        return found.value, found.result == optimistix.RESULTS.successful, found.stats["num_steps"]

    def found() -> Answer:
        value, done, steps = search(jnp.asarray(free_start(task)))
        words = "converged" if done else "not converged"
        return Answer(np.asarray(inside(task, value)), bool(done), f"{words} after {int(steps)} steps")

    return found
