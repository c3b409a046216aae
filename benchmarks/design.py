"""Which dosing of the tumor model to add next: the design's forecast against errors realised in simulation.

    python benchmarks/design.py [--seeds 30] [--wide]

For sets of dosings: the forecast at the truth beside the errors of fits to simulated data, relative to the true values;
root mean square over the seven parameters (criterion A), geometric mean, and each parameter. Then, seed by seed, what
pf.design recommends after a fit to u1 alone, and what the recommended dosing brought. `--wide` takes the bounds that
the paper's Table 2 implies instead of +-50 % around the truth.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import picardfit as pf

TUMOR = pf.problems.tumor
NAMES = list(TUMOR.TRUTH)
TIMES = np.linspace(0, TUMOR.HORIZON, TUMOR.SAMPLES)
SETS = ((1,), (1, 2), (1, 3), (1, 4), (1, 5), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4, 5))
NEXT = (2, 3, 4, 5)


@dataclass(frozen=True)
class Realised:
    """Fits of one set of dosings to all data sets, and their relative errors (seeds, parameters)."""

    fits: list[pf.Fit]
    errors: np.ndarray

    @property
    def variance(self) -> float:
        return float(np.mean([fit.residual_variance for fit in self.fits]))

    @property
    def each(self) -> np.ndarray:
        """(parameters,): root mean square error of each."""
        return np.sqrt(np.mean(self.errors**2, axis=0))


def plan(number: int) -> pf.Experiment:
    return pf.plan(TIMES, ["N", "T", "I"], f"u{number}", inputs={"u": TUMOR.dose(number)})


def realised(inputs: tuple[int, ...], seeds: int, bounds) -> Realised:
    fits = [pf.fit(TUMOR.generate(seed=seed, inputs=inputs, bounds=bounds)) for seed in range(seeds)]
    return Realised(fits, np.array([[fit.parameters[n] / TUMOR.TRUTH[n] - 1 for n in NAMES] for fit in fits]))


def forecast(inputs: tuple[int, ...], variance: float, bounds) -> np.ndarray:
    """(parameters,): expected relative errors with all these dosings, at the truth."""
    problem = TUMOR.generate(inputs=inputs, bounds=bounds).with_experiments([plan(k) for k in inputs])
    truth = problem.truth["parameters"]
    found = pf.design(problem, None, "A", len(inputs), at=truth, interest=NAMES, sd=variance**0.5)
    return np.array([found.after[n] for n in NAMES])


def summary(errors: np.ndarray) -> list[float]:
    """Root mean square, geometric mean, and each."""
    return [float(np.sqrt(np.mean(errors**2))), float(np.exp(np.mean(np.log(errors)))), *errors]


def print_forecasts(found: dict[tuple[int, ...], Realised], bounds) -> None:
    print(f"{'dosings':<10}" + "".join(f"{n:>15}" for n in ("rms", "geometric", *NAMES)))
    for inputs, one in found.items():
        pairs = zip(summary(forecast(inputs, one.variance, bounds)), summary(one.each), strict=True)
        print(f"{'u' + ''.join(map(str, inputs)):<10}" + "".join(f"{p:>8.3f} /{r:>5.3f}" for p, r in pairs))


def print_recommendations(found: dict[tuple[int, ...], Realised], criterion: str) -> None:
    """What a fit to u1 alone recommends, and the realised error of the same seed with that dosing."""
    size = {f"u{k}": np.sqrt(np.mean(found[1, k].errors ** 2, axis=1)) for k in NEXT}
    plans = [plan(k) for k in NEXT]
    orders = [list(pf.design(fit, plans, criterion, interest=NAMES).values) for fit in found[1,].fits]
    counts = {name: sum(order[0] == name for order in orders) for name in size}
    ranked = np.array([[size[name][seed] for name in order] for seed, order in enumerate(orders)])
    print(f"criterion {criterion}: recommended next after u1: {counts}")
    print(f"  mean realised error by rank, best first: {' '.join(f'{e:.4f}' for e in ranked.mean(axis=0))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--wide", action="store_true")
    options = parser.parse_args()
    bounds = TUMOR.IMPLIED_BOUNDS if options.wide else None
    found = {inputs: realised(inputs, options.seeds, bounds) for inputs in SETS}
    print(f"{options.seeds} seeds; relative errors, forecast / realised")
    print_forecasts(found, bounds)
    for criterion in "DAE":
        print_recommendations(found, criterion)


if __name__ == "__main__":
    main()
