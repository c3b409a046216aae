"""One set of parameters, experiments whose amplitudes are up to a billion apart: do single searches converge?

    python benchmarks/apart.py [--seed 3] [--only sir]

Five models (a chain, oral doses, logistic growth, saturable decay, epidemics in towns of very different size), five
kinds of noise, amplitudes 300 to 1e9 apart, one data set each, one search each. To compare with an older tree, set
PYTHONPATH to its `src`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

import picardfit as pf

TIMES = np.linspace(0, 5, 14)
RATIOS = (3e2, 1e4, 1e6, 1e9)
NOISES = {
    "none": None,
    "proportional": pf.Noise(proportional=0.03),
    "log-normal": pf.LogNormal(0.03),
    "both": pf.Noise(additive=1e-3, proportional=0.03),
    "estimated": pf.Noise(proportional=pf.Parameter(1e-3, 1.0, log=True)),
}
ORAL = pf.Model("g' = -ka*g\nc' = ka*g - ke*c", observables={"c": "c"})
SIR = pf.Model("s' = -b*s*i/n\ni' = b*s*i/n - g*i", observables={"i": "i"})
MODELS: dict[str, tuple[pf.Model, dict, Callable[[float], dict], Callable[[float], dict]]] = {
    "chain": (
        pf.Model("x' = -k*x\ny' = k*x - d*y"),
        {"k": 0.7, "d": 0.3},
        lambda a: {"x": 2 * a, "y": a},
        lambda a: {},
    ),
    "oral": (ORAL, {"ka": 1.5, "ke": 0.3}, lambda a: {"g": a, "c": 0.0}, lambda a: {}),
    "logistic": (
        pf.Model("x' = r*x*(1 - x/(K*z))"),
        {"r": 1.1, "K": 3.0},
        lambda a: {"x": 0.1 * a},
        lambda a: {"z": a},
    ),
    "saturable": (
        pf.Model("x' = -v*x/(m + x/z)"),
        {"v": 0.8, "m": 0.5},
        lambda a: {"x": 2 * a},
        lambda a: {"z": a},
    ),
    "sir": (SIR, {"b": 2.2, "g": 0.6}, lambda a: {"s": 0.99 * a, "i": 0.01 * a}, lambda a: {"n": a}),
}
KNOWN = ("oral", "sir")  # models with hidden states, whose initial states are known


def problems(seed: int) -> Iterator[tuple[str, pf.Problem]]:
    """Names and problems."""
    rng = np.random.default_rng(seed)
    for ratio in RATIOS:
        for noise_name, noise in NOISES.items():
            for name, (model, truth, start, constants) in MODELS.items():
                runs = []
                for k, size in enumerate((1.0, ratio**0.5, ratio)):
                    times = TIMES[1:] if name in KNOWN else TIMES
                    curves = pf.simulate(
                        model, truth | constants(size), start(size), times, t0=0.0
                    ).observables
                    data = {n: v * (1 + 0.03 * rng.standard_normal(len(v))) for n, v in curves.items()}
                    known = start(size) if name in KNOWN else {}
                    runs.append(
                        pf.Experiment(times, data, str(k), initial=known, covariates=constants(size), t0=0.0)
                    )
                bounds = {n: (x / 50, 20 * x) for n, x in truth.items()}
                yield f"{name} {noise_name} {ratio:g}", pf.Problem(model, runs, bounds, noise=noise)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    given = parser.parse_args()
    count, converged, steps, began = 0, 0, 0, time.process_time()
    for name, problem in problems(given.seed):
        if given.only in name:
            fit = pf.fit(problem, policy=pf.SearchPolicy(most=1))
            count, converged, steps = count + 1, converged + fit.success, steps + fit.iterations
            if not fit.success:
                print(f"{name:32s} {fit.iterations:4d} {fit.status.name}")
    print(f"{converged} of {count} converge; {steps} steps, {time.process_time() - began:.1f} s")


if __name__ == "__main__":
    main()
