"""Tanks that run empty: x' = -a sqrt(max(x, 0)) and its relatives, measured past the time at which nothing is left.

    python benchmarks/empty_tank.py

The slope of the right-hand side is infinite where the tank becomes empty, and zero from then on. 48 fits of one tank
(3 sizes of the hole, 2 levels, 2 durations, with and without noise and a sample at 0), then relatives with three data
sets each. Says how many fits are a success and how far their estimates are from the truth at most; `a` of the single
tank is compared with the exact solution.
"""

from __future__ import annotations

from itertools import product

import numpy as np

import picardfit as pf

BOUNDS = (0.01, 10.0)
RELATIVES: dict[str, tuple[str, dict[str, float], dict[str, float], float]] = {
    "two tanks": (
        "x' = -a*sqrt(max(x, 0))\ny' = a*sqrt(max(x, 0)) - b*sqrt(max(y, 0))",
        {"a": 1.0, "b": 0.7},
        {"x": 4.0, "y": 0.5},
        9.0,
    ),
    "power 0.3": ("x' = -a*max(x, 0)^0.3", {"a": 1.0}, {"x": 3.0}, 5.0),
    "unknown power": ("x' = -a*max(x, 0)^n", {"a": 1.0, "n": 0.4}, {"x": 3.0}, 6.0),
    "filled for a while": ("x' = q*(t < 3) - a*sqrt(max(x, 0))", {"a": 1.0, "q": 0.5}, {"x": 3.0}, 8.0),
}


def single_tanks() -> None:
    """48 fits of one tank."""
    model, won, worst = pf.Model("x' = -a*sqrt(max(x, 0))"), 0, {0.0: 0.0, 0.02: 0.0}
    for a, level, over, seed, noise in product((0.5, 1.0, 2.0), (1.0, 4.0), (1.3, 2.0), (0, 1), worst):
        times = np.linspace(0, 2 * np.sqrt(level) / a * over, 13)[seed:]
        exact = np.maximum(np.sqrt(level) - a * times / 2, 0) ** 2
        data = exact + noise * np.random.default_rng(seed).normal(size=len(times))
        run = pf.Experiment(times, {"x": data}, t0=0.0)
        fit = pf.fit(pf.Problem(model, run, {"a": BOUNDS}, {"x": (0, 20)}))
        won += fit.success
        worst[noise] = max(worst[noise], abs(fit.parameters["a"] / a - 1))
    print(
        f"one tank: {won} of 48 succeed; largest error of a {worst[0.0]:.0e} without noise, {worst[0.02]:.3f} with"
    )


def relatives() -> None:
    """Three fits of each relative, with noise of 2 % of the largest value."""
    for name, (equations, values, levels, end) in RELATIVES.items():
        model, times = pf.Model(equations), np.linspace(0, end, 20)
        exact, won, worst = pf.simulate(model, values, levels, times).observables, 0, 0.0
        for seed in range(3):
            rng = np.random.default_rng(seed)
            data = {k: x + 0.02 * np.abs(x).max() * rng.normal(size=20) for k, x in exact.items()}
            bounds = {k: (0.1, 0.9) if k == "n" else BOUNDS for k in values}
            initial = {k: (0, 3 * x + 1) for k, x in levels.items()}
            fit = pf.fit(pf.Problem(model, pf.Experiment(times, data), bounds, initial))
            won += fit.success
            errors = fit.standard_errors if fit.success else {}
            worst = max(
                [worst, *(abs(fit.parameters[k] - values[k]) / errors[k] for k in errors if k in values)]
            )
        print(f"{name}: {won} of 3 succeed; largest error {worst:.1f} standard errors")


if __name__ == "__main__":
    single_tanks()
    relatives()
