"""Which dosing of the tumor model to add next: the design's forecast against errors realised in simulation.

    python benchmarks/design.py [--seeds 30] [--first 0] [--wide] [--next] [--criteria DAE] [--keep FILE]

For sets of dosings: the forecast at the truth beside the errors of fits to simulated data, relative to the true values;
root mean square over the seven parameters (criterion A), geometric mean, and each parameter. Then, seed by seed, what
pf.design recommends after a fit to u1 alone, and what the recommended dosing brought. `--wide` takes the bounds that
the paper's Table 2 implies instead of +-50 % around the truth; `--next` leaves out sets of three dosings and more.
Seeds count from `--first`; `--keep FILE` keeps finished seeds, and the same command continues from there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import picardfit as pf
from seeds import Seeds

TUMOR = pf.examples.tumor
NAMES = list(TUMOR.TRUTH)
TIMES = np.linspace(0, TUMOR.HORIZON, TUMOR.SAMPLES)
SETS = ((1,), (1, 2), (1, 3), (1, 4), (1, 5), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4, 5))
NEXT = (2, 3, 4, 5)


@dataclass(frozen=True)
class Realised:
    """Fits of one set of dosings to all data sets: relative errors (seeds, parameters), residual variances (seeds,)."""

    errors: np.ndarray
    variances: np.ndarray

    @property
    def each(self) -> np.ndarray:
        """(parameters,): root mean square error of each."""
        return np.sqrt(np.mean(self.errors**2, axis=0))


def plan(number: int) -> pf.Experiment:
    return pf.plan(TIMES, ["N", "T", "I"], f"u{number}", inputs={"u": TUMOR.dose(number)})


def one_seed(bounds, sets: Sequence[tuple[int, ...]], criteria: str, seed: int) -> dict[str, dict]:
    """By set of dosings the errors and the residual variance; by criterion the order recommended after u1."""
    fits = {inputs: pf.fit(TUMOR.generate(seed=seed, inputs=inputs, bounds=bounds)) for inputs in sets}
    plans = [plan(k) for k in NEXT]
    return {
        "errors": {_name(s): [f.parameters[n] / TUMOR.TRUTH[n] - 1 for n in NAMES] for s, f in fits.items()},
        "variances": {_name(s): f.residual_variance for s, f in fits.items()},
        "orders": {c: list(pf.design(fits[1,], plans, c, interest=NAMES).values) for c in criteria},
    }


def _name(inputs: tuple[int, ...]) -> str:
    return "u" + "".join(map(str, inputs))


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
        expected = forecast(inputs, float(one.variances.mean()), bounds)
        pairs = zip(summary(expected), summary(one.each), strict=True)
        print(f"{_name(inputs):<10}" + "".join(f"{p:>8.3f} /{r:>5.3f}" for p, r in pairs))


def print_recommendations(
    found: dict[tuple[int, ...], Realised], criterion: str, orders: list[list[str]]
) -> None:
    """What a fit to u1 alone recommends, and the realised error of the same seed with that dosing."""
    size = {f"u{k}": np.sqrt(np.mean(found[1, k].errors ** 2, axis=1)) for k in NEXT}
    counts = {name: sum(order[0] == name for order in orders) for name in size}
    ranked = np.array([[size[name][seed] for name in order] for seed, order in enumerate(orders)])
    print(f"criterion {criterion}: recommended next after u1: {counts}")
    print(f"  mean realised error by rank, best first: {' '.join(f'{e:.4f}' for e in ranked.mean(axis=0))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--next", action="store_true", help="only u1 and u1 with one more")
    parser.add_argument("--criteria", default="DAE")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="JSON lines of finished seeds")
    options = parser.parse_args()
    bounds = TUMOR.IMPLIED_BOUNDS if options.wide else None
    sets = [s for s in SETS if len(s) <= 2 or not options.next]
    name = f"design {' '.join(map(_name, sets))} {options.criteria}{' wide' if options.wide else ''}"
    task = partial(one_seed, bounds, sets, options.criteria)
    every = Seeds(options.first, options.keep).results(name, task, options.seeds)
    found = {
        s: Realised(*(np.array([one[key][_name(s)] for one in every]) for key in ("errors", "variances")))
        for s in sets
    }
    print(f"{options.seeds} seeds from {options.first}; relative errors, forecast / realised")
    print_forecasts(found, bounds)
    for criterion in options.criteria:
        print_recommendations(found, criterion, [one["orders"][criterion] for one in every])


if __name__ == "__main__":
    main()
