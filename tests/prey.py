"""Prey counted beside predators that nobody counts: a small problem with a hidden state."""

import numpy as np

import picardfit as pf

MODEL = pf.Model("x' = a*x - b*x*y\ny' = c*x*y - d*y", observables=["x"])
TRUTH = {"a": 1.0, "b": 0.5, "c": 0.3, "d": 0.8}
BOUNDS = {name: pf.Parameter(value / 5, value * 5, log=True) for name, value in TRUTH.items()}
TIMES = np.linspace(0, 20, 40)


def counted_prey() -> pf.Problem:
    run = pf.simulate(MODEL, TRUTH, {"x": 2.0, "y": 1.0}, TIMES)
    noise = 0.05 * np.random.default_rng(0).standard_normal(len(TIMES))
    return pf.Problem(MODEL, [pf.Experiment(TIMES, {"x": np.asarray(run.observables["x"]) + noise})], BOUNDS)
