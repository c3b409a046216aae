"""Which dosing of the tumor model to add next: the design's forecast against errors realised in simulation.

    python benchmarks/design.py [--seeds 30] [--wide]

For sets of dosings: the forecast from the truth (root mean square of the relative errors of the seven parameters,
criterion A, and their geometric mean, D) beside the errors of fits to simulated data. Then, seed by seed, what
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
    """Estimates of one set of dosings: relative errors (seeds, parameters) and residual variances (seeds,)."""

    errors: np.ndarray
    variances: np.ndarray

    @property
    def root_mean_square(self) -> float:
        return float(np.sqrt(np.mean(self.errors**2)))

    @property
    def geometric(self) -> float:
        """Geometric mean over the parameters of their root mean square errors."""
        return float(np.exp(np.mean(np.log(np.sqrt(np.mean(self.errors**2, axis=0))))))


def plan(number: int) -> pf.Experiment:
    return pf.plan(TIMES, ["N", "T", "I"], f"u{number}", inputs={"u": TUMOR.dose(number)})


def realised(inputs: tuple[int, ...], seeds: int, bounds) -> Realised:
    errors, variances = [], []
    for seed in range(seeds):
        fit = pf.fit(TUMOR.generate(seed=seed, inputs=inputs, bounds=bounds))
        errors.append([fit.parameters[n] / TUMOR.TRUTH[n] - 1 for n in NAMES])
        variances.append(fit.residual_variance)
    return Realised(np.array(errors), np.array(variances))


def forecast(
    inputs: tuple[int, ...], variance: float, bounds, criterion: str
) -> tuple[float, dict[str, float]]:
    """Criterion and errors by name with all these dosings, at the truth."""
    problem = TUMOR.generate(inputs=inputs, bounds=bounds).with_experiments([plan(k) for k in inputs])
    truth = problem.truth["parameters"]
    found = pf.design(problem, None, criterion, len(inputs), at=truth, interest=NAMES, sd=variance**0.5)
    return found.value_after, found.after


def recommended(seed: int, bounds, criterion: str) -> list[str]:
    """The dosings in the order in which a fit to u1 alone would add them."""
    fit = pf.fit(TUMOR.generate(seed=seed, inputs=(1,), bounds=bounds))
    return list(pf.design(fit, [plan(k) for k in NEXT], criterion).values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--wide", action="store_true")
    options = parser.parse_args()
    bounds = TUMOR.IMPLIED_BOUNDS if options.wide else None
    found = {inputs: realised(inputs, options.seeds, bounds) for inputs in SETS}

    print(f"{options.seeds} seeds; relative errors, forecast at the truth / realised")
    print(f"{'dosings':<12}{'A':>15}{'D':>15}" + "".join(f"{n:>15}" for n in NAMES))
    for inputs, one in found.items():
        variance = float(one.variances.mean())
        (a, errors), (d, _) = (forecast(inputs, variance, bounds, c) for c in "AD")
        each = np.sqrt(np.mean(one.errors**2, axis=0))
        pairs = [(a, one.root_mean_square), (d, one.geometric)]
        pairs += [(errors[n], e) for n, e in zip(NAMES, each, strict=True)]
        label = "".join(map(str, inputs))
        print(f"{'u' + label:<12}" + "".join(f"{p:>8.3f} /{r:>5.3f}" for p, r in pairs))

    for criterion in "AD":
        orders = [recommended(seed, bounds, criterion) for seed in range(options.seeds)]
        first = [order[0] for order in orders]
        counts = {f"u{k}": first.count(f"u{k}") for k in NEXT}
        size = {k: np.sqrt(np.mean(found[1, k].errors ** 2, axis=1)) for k in NEXT}
        rows = range(options.seeds)
        picked = np.mean([size[int(first[s][1:])][s] for s in rows])
        last = np.mean([size[int(orders[s][-1][1:])][s] for s in rows])
        anyone = np.mean([size[k] for k in NEXT])
        print(f"criterion {criterion}: recommended next after u1: {counts}")
        print(f"  mean realised error: recommended {picked:.4f}, any {anyone:.4f}, ranked last {last:.4f}")


if __name__ == "__main__":
    main()
