"""Lorenz system, all states measured (section 7.5 of the paper).

Odd in the paper: x2' is printed as 10*x2*(rho - x3) - x2; the scaled Lorenz system has 10*x1*(rho - x3) - x2,
which is what we use. "50 data sets" are said to cover six noise levels with ten initial states each.
Initial states are standard normal; the paper restricts x_i(0) to [0.5 x_i, 1.5 x_i] around the true one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from picardfit.checks import as_number, as_whole
from picardfit.errors import InputError
from picardfit.model.model import Model
from picardfit.problem.problem import Problem

from .common import Bounds, Settings, Spread, around, noisy_experiment, parameter_bounds, standard_deviation

MODEL = """
x1' = 10*sigma*(x2 - x1)
x2' = 10*x1*(rho - x3) - x2
x3' = 10*x1*x2 - beta*x3
"""
TRUTH = {"sigma": 1.0, "rho": 2.8, "beta": 8 / 3}
BOUNDS = around(TRUTH, (0.5, 1.5))
SETTINGS = Settings(segment_length=0.05, order=2, continuity=5.0)
HORIZON = 2.0
SAMPLES = 101
STATES = ("x1", "x2", "x3")
EXAMPLE_INITIAL = (1.46, 0.90, -1.57)  # of the paper's last figure


@cache
def model() -> Model:
    return Model(MODEL)


def generate(
    seed: int = 0,
    eps: float = 0.1,
    eps_is: Spread | str = Spread.STD,
    *,
    initial: Sequence[float] | None = None,
    experiments: int = 1,
    horizon: float = HORIZON,
    samples: int = SAMPLES,
    bounded_initial: bool = True,
    bounds: Bounds = None,
) -> Problem:
    """Runs from random initial states, or all from `initial`; run k does not depend on how many there are."""
    sd = standard_deviation(eps, eps_is)
    horizon = as_number(horizon, "horizon")
    if horizon <= 0:
        raise InputError("errors.not_positive", "horizon", value=horizon, example=HORIZON)
    if initial is not None and np.shape(initial) != (3,):
        raise InputError("examples.not_a_state", value=initial)
    times = np.linspace(0.0, horizon, as_whole(samples, "samples", 1))
    runs, starts = [], {}
    for k in range(1, as_whole(experiments, "experiments", 1) + 1):
        rng, name = np.random.default_rng([seed, k]), f"run {k}"
        drawn = rng.standard_normal(3)
        starts[name] = dict(zip(STATES, map(float, drawn if initial is None else initial), strict=True))
        box = (
            around({s: x for s, x in starts[name].items() if x != 0}, (0.5, 1.5)) if bounded_initial else None
        )
        runs.append(
            noisy_experiment(model(), TRUTH, starts[name], times, rng, sd, name=name, initial_bounds=box)
        )
    return Problem(
        model(),
        runs,
        parameters=parameter_bounds(BOUNDS, TRUTH, bounds),
        truth={"parameters": dict(TRUTH), "initial": starts},
    )
