"""Van der Pol oscillator, both states measured (section 7.1 of the paper).

The paper varies the continuity weight over 1, 2, 5, 10, 15 and eps over 0.01, 0.05, 0.1, 0.2, 0.4; its bounds
are not printed. Initial states are "inside the limit cycle": here uniform in the disc of radius 1.5.
With theta1 = (rho - 1)^2 the values rho = 0 and rho = 2 give the same data: locally identifiable only.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from picardfit.checks import as_whole
from picardfit.model.model import Model
from picardfit.problem.problem import Problem

from .common import Bounds, Settings, Spread, around, noisy_experiment, parameter_bounds, standard_deviation

MODEL = """
x1' = theta1*x2
x2' = -theta1*x1 + theta2*(1 - x1^2)*x2
"""
REPARAMETRISED = """
x1' = (rho - 1)^2*x2
x2' = -(rho - 1)^2*x1 + theta2*(1 - x1^2)*x2
"""
TRUTH = {"theta1": 1.0, "theta2": 1.0}
BOUNDS = around(TRUTH, (0.5, 1.5))
REPARAMETRISED_TRUTH = {"rho": 2.0, "theta2": 1.0}
REPARAMETRISED_BOUNDS = {"rho": (-2.0, 4.0), "theta2": BOUNDS["theta2"]}
SETTINGS = Settings(segment_length=0.25, order=1, continuity=5.0)
HORIZON = 10.0
FULL = 101  # samples; a data set of 51 is every second sample of one of 101
RADIUS = 1.5


@cache
def model(reparametrised: bool = False) -> Model:
    return Model(REPARAMETRISED if reparametrised else MODEL)


def generate(
    seed: int = 0,
    eps: float = 0.1,
    eps_is: Spread | str = Spread.STD,
    *,
    samples: int = FULL,
    reparametrised: bool = False,
    bounds: Bounds = None,
) -> Problem:
    """One run on [0, 10] from a random state; 51, 26, 21, ... samples are some of the 101 of that seed."""
    samples = as_whole(samples, "samples", 1)
    rng = np.random.default_rng(seed)
    radius, angle = RADIUS * np.sqrt(rng.uniform()), rng.uniform(0, 2 * np.pi)
    start = {"x1": float(radius * np.cos(angle)), "x2": float(radius * np.sin(angle))}
    truth = REPARAMETRISED_TRUTH if reparametrised else TRUTH
    every = (FULL - 1) // (samples - 1) if samples > 1 and (FULL - 1) % (samples - 1) == 0 else 1
    times = np.linspace(0.0, HORIZON, FULL if every > 1 else samples)
    sd = standard_deviation(eps, eps_is)
    system = model(reparametrised)
    run = noisy_experiment(system, truth, start, times, rng, sd, name="run 1")
    if every > 1:
        run = type(run)(
            run.times[::every], {n: y[::every] for n, y in run.observations.items()}, name=run.name
        )
    default = REPARAMETRISED_BOUNDS if reparametrised else BOUNDS
    return Problem(
        system,
        [run],
        parameters=parameter_bounds(default, truth, bounds),
        truth={"parameters": dict(truth), "initial": {"run 1": start}},
    )
