"""Rosenzweig-MacArthur predator and prey, counted five times in one to four ponds (section 7.3 of the paper).

Odd in the paper: Table 1 with eps = 0.05 is only possible with eps as the standard deviation (the
Cramer-Rao bound for a variance of 0.05 is three to five times the printed errors), so this is the
default. Neither bounds nor initial states are printed: initial states are uniform in (0.2, 1.2)^2, and
the default bounds, BOUNDS, are +-50 % around the truth. The paper's must be wider: the printed errors of r
in a single pond, 0.35 +- 0.36, cannot come from a box of +-50 %, as errors of at most 0.5 with that mean
spread by less than 0.25. IMPLIED_BOUNDS (a tenth to five times the truth) allow for them.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from picardfit.checks import as_whole
from picardfit.model.model import Model
from picardfit.problem.problem import Problem

from .common import Bounds, Settings, Spread, around, noisy_experiment, parameter_bounds, standard_deviation

MODEL = """
eaten = a*prey*pred/(b + prey)
prey' = r*prey*(1 - prey/K) - eaten
pred' = k*eaten - c*pred
"""
TRUTH = {"a": 2.8, "b": 0.7, "c": 1.35, "r": 3.5, "k": 1.5, "K": 1.4}
BOUNDS = around(TRUTH, (0.5, 1.5))
IMPLIED_BOUNDS = around(TRUTH, (0.1, 5.0))  # at least as wide as the errors in the paper's table
SETTINGS = Settings(segment_length=0.2, order=2, continuity=5.0)
TIMES = (0.0, 1.25, 2.5, 3.75, 5.0)
INITIAL_RANGE = (0.2, 1.2)


@cache
def model() -> Model:
    return Model(MODEL)


def generate(
    seed: int = 0,
    eps: float = 0.05,
    eps_is: Spread | str = Spread.STD,
    *,
    ponds: int = 4,
    bounds: Bounds = None,
) -> Problem:
    """Ponds from random initial states; pond k of a seed does not depend on how many there are."""
    sd = standard_deviation(eps, eps_is)
    experiments, initial = [], {}
    for pond in range(1, as_whole(ponds, "ponds", 1) + 1):
        rng, name = np.random.default_rng([seed, pond]), f"pond {pond}"
        prey, pred = rng.uniform(*INITIAL_RANGE, 2)
        initial[name] = {"prey": float(prey), "pred": float(pred)}
        experiments.append(
            noisy_experiment(model(), TRUTH, initial[name], np.array(TIMES), rng, sd, name=name)
        )
    return Problem(
        model(),
        experiments,
        parameters=parameter_bounds(BOUNDS, TRUTH, bounds),
        initial={"prey": (0.0, None), "pred": (0.0, None)},
        truth={"parameters": dict(TRUTH), "initial": initial},
    )
