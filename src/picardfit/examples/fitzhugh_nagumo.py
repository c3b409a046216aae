"""FitzHugh-Nagumo neuron, only x1 measured, at irregular times (section 7.2 of the paper).

The samples are dense where the neuron spikes (T2, T4) and sparse in between (T1, T3, T5); the stimulus
I(t) is 1 throughout. The print gives theta >= 0 as the only bounds.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from picardfit.model.model import Model
from picardfit.problem.problem import Problem

from .common import Bounds, Settings, Spread, noisy_experiment, parameter_bounds, standard_deviation

MODEL = """
stimulus = 1
x1' = 10*(x1 - x1^3/3 - x2 + stimulus)
x2' = 10*(theta1*x1 - theta2*x2 + 0.056)
"""
TRUTH = {"theta1": 0.08, "theta2": 0.064}
BOUNDS = {"theta1": (0.0, None), "theta2": (0.0, None)}
INITIAL = {"x1": 0.0, "x2": 2.0}
SETTINGS = Settings(segment_length=0.1, order=2, continuity=5.0)


@cache
def model() -> Model:
    return Model(MODEL, observables={"y": "x1"})


def sampling_times() -> np.ndarray:
    """The union of T1, ..., T5 as printed, each time once."""
    parts = [
        0.25 * np.arange(7),
        1.55 + 0.0125 * np.arange(57),
        2.3 + 0.25 * np.arange(5),
        3.5 + 0.0125 * np.arange(41),
        4.05 + 0.25 * np.arange(4),
    ]
    return np.unique(np.round(np.concatenate(parts), 9))


def generate(
    seed: int = 0, eps: float = 0.05, eps_is: Spread | str = Spread.STD, *, bounds: Bounds = None
) -> Problem:
    """One run from x = (0, 2); the paper shows eps = 0.05 and 0.2."""
    rng = np.random.default_rng(seed)
    run = noisy_experiment(
        model(), TRUTH, INITIAL, sampling_times(), rng, standard_deviation(eps, eps_is), name="neuron"
    )
    return Problem(
        model(),
        [run],
        parameters=parameter_bounds(BOUNDS, TRUTH, bounds),
        truth={"parameters": dict(TRUTH), "initial": {"neuron": dict(INITIAL)}},
    )
