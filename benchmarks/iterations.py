"""What noise does to the last steps: iterations of single searches in noisy data, and the time of each step.

    python benchmarks/iterations.py [--sets 12] [--rounds 150]

First the iterations of one search on so many data sets of ten noisy problems, the last three with a likelihood, and of
the same without second derivatives. Then the steps of five fits of Lorenz (30 to 45 segments at
their ends), each repeated so many times in turn: the least time of each, which hardly depends on what else the machine
does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import picardfit as pf
from picardfit.search.starts import make_start
from picardfit.solvers.gauss_newton.stages import SecondDerivatives
from picardfit.solvers.loop import run


def levelled(problem: pf.Problem, noise: pf.Noise | None = None) -> pf.Problem:
    """The problem with a likelihood; by default the standard deviation of all observables is estimated."""
    return replace(problem, noise=noise or pf.Noise(additive=pf.Parameter(1e-3, 10.0, log=True)))


lorenz, van_der_pol, tumor = pf.examples.lorenz, pf.examples.van_der_pol, pf.examples.tumor
neuron, ponds = pf.examples.fitzhugh_nagumo, pf.examples.rosenzweig_macarthur
NOISY: dict[str, Callable[[int], pf.Problem]] = {
    "Lorenz, std 0.4": lambda seed: lorenz.generate(seed=seed, eps=0.4),
    "Lorenz, variance 0.4": lambda seed: lorenz.generate(seed=seed, eps=0.4, eps_is="variance"),
    "Van der Pol, variance 0.4": lambda seed: van_der_pol.generate(seed=seed, eps=0.4, eps_is="variance"),
    "neuron, variance 0.2": lambda seed: neuron.generate(seed=seed, eps=0.2, eps_is="variance"),
    "neuron, std 0.2": lambda seed: neuron.generate(seed=seed, eps=0.2, eps_is="std"),
    "two ponds, variance 0.05": lambda seed: ponds.generate(seed=seed, ponds=2, eps_is="variance"),
    "tumour, two dosings": lambda seed: tumor.generate(seed=seed, inputs=[1, 2]),
    "neuron, variance 0.2, its likelihood": lambda seed: levelled(
        neuron.generate(seed=seed, eps=0.2, eps_is="variance"),
        pf.Noise(additive=0.2**0.5, proportional=0.2**0.5, common=True),
    ),
    "neuron, variance 0.2, level estimated": lambda seed: levelled(
        neuron.generate(seed=seed, eps=0.2, eps_is="variance")
    ),
    "two ponds, variance 0.05, level estimated": lambda seed: levelled(
        ponds.generate(seed=seed, ponds=2, eps_is="variance")
    ),
}


class Recorded(pf.LiftedGaussNewton):
    """The default method, which keeps the states that it steps from."""

    states: list = []  # noqa: RUF012  (one list for the one search of this script)

    def step(self, state):
        self.states.append(state)
        return super().step(state)


def step_times(rounds: int, seed: int = 1) -> np.ndarray:
    """(steps,): least milliseconds of each step of one search."""
    problem, method, plain = lorenz.generate(seed=seed), Recorded(), pf.LiftedGaussNewton()
    method.states.clear()
    with np.errstate(all="ignore"):
        run(method, method.init(problem, make_start(problem)), lambda *_: None)
        best = np.full(len(method.states), np.inf)
        for _ in range(rounds):
            for k, state in enumerate(method.states):
                began = time.perf_counter()
                plain.step(state)
                best[k] = min(best[k], 1e3 * (time.perf_counter() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=150)
    options = parser.parse_args()
    print(
        "| problem | iterations, median | most | in all | without second derivatives, median | most | in all |"
    )
    print("|---|---|---|---|---|---|---|")
    total = np.zeros(2, int)
    for name, make in NOISY.items():
        cells = []
        for k, method in enumerate(
            (
                pf.LiftedGaussNewton(),
                pf.LiftedGaussNewton(second_derivatives=SecondDerivatives(missed=np.inf)),
            )
        ):
            found = [
                pf.fit(make(seed), method=method, policy=pf.SearchPolicy(most=1)).iterations
                for seed in range(options.sets)
            ]
            total[k] += sum(found)
            cells.append(f"{np.median(found):g} | {max(found)} | {sum(found)}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"| all | | | {total[0]} | | | {total[1]} |")
    for seed in range(1, 6):
        times = step_times(options.rounds, seed)
        segments = len(Recorded.states[-1].system.mesh)
        print(f"{segments} segments, ms of each step: {np.round(times, 2)}, median {np.median(times):.2f}")


if __name__ == "__main__":
    main()
