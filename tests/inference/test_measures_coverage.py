"""How often 95 % intervals hold the truth, with censored values, counts and increments."""

from collections.abc import Callable

import numpy as np
import pytest

import picardfit as pf

DECAY = pf.Model("x' = -k*x")
GROWTH = pf.Model("c' = a*exp(-k*t)", observables={"cases": "increment(c)"})
T = np.linspace(0, 3, 31)
DATA_SETS = 600


def _decay(values, noise, scale):
    run = pf.Experiment(T, {"x": values}, "run", t0=0.0)
    return pf.Problem(DECAY, run, {"k": (0.05, 4)}, {"x": (0.05 * scale, 5 * scale)}, noise=noise)


def _censored(rng):
    """Three tenths of the data lie below the limit."""
    y = 2 * np.exp(-0.7 * T) + 0.15 * rng.standard_normal(len(T))
    return _decay([f"<{0.45}" if one < 0.45 else one for one in y], pf.Noise(additive=(0.01, 2)), 2)


def _poisson(rng):
    return _decay(rng.poisson(20 * np.exp(-0.7 * T)), pf.Poisson(), 20)


def _negative_binomial(rng):
    mean = 40 * np.exp(-0.7 * T)
    noise = pf.NegativeBinomial(dispersion=(0.3, 300))
    return _decay(rng.poisson(rng.gamma(6, mean / 6)), noise, 40)


def _binomial(rng):
    run = _decay(rng.binomial(30, 0.8 * np.exp(-0.7 * T)), pf.Binomial(trials=30), 0.8)
    return pf.Problem(DECAY, run.experiments, {"k": (0.05, 4)}, {"x": (0.05, 1)}, noise=run.noise)


def _increments(rng):
    times = np.arange(1, 16.0) / 5
    grown = 60 / 0.7 * (1 - np.exp(-0.7 * times))
    run = pf.Experiment(times, {"cases": rng.poisson(np.diff(grown, prepend=0.0))}, "run", initial={"c": 0.0})
    return pf.Problem(GROWTH, run, {"a": (5, 500), "k": (0.05, 4)}, noise=pf.Poisson())


CASES: dict[str, tuple[Callable[[np.random.Generator], pf.Problem], dict[str, float]]] = {
    "censored": (_censored, {"k": 0.7, "x(0)": 2.0}),
    "poisson": (_poisson, {"k": 0.7, "x(0)": 20.0}),
    "negative binomial": (_negative_binomial, {"k": 0.7, "x(0)": 40.0}),
    "binomial": (_binomial, {"k": 0.7, "x(0)": 0.8}),
    "increments": (_increments, {"a": 60.0, "k": 0.7}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_truth(case):
    make, truth = CASES[case]
    held = {name: [] for name in truth}
    for seed in range(DATA_SETS):
        fit = pf.fit(make(np.random.default_rng([seed, 11])))
        assert fit.success
        for name, (low, high) in fit.intervals(0.95).items():
            if name in truth:
                held[name].append(low <= truth[name] <= high)
    coverage = {name: float(np.mean(found)) for name, found in held.items()}
    assert all(0.93 <= one <= 0.97 for one in coverage.values()), coverage
