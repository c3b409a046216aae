"""How time and memory of a fit grow with experiments, segments, samples and states, as exponents within one run.

    python benchmarks/scaling.py [--quick] [--only NAME]

Every fit runs in a process of its own, on one core, in processor time. For each size: the numbers measured, segments
and iterations; the time of one iteration (median, and per segment in microseconds), of the whole fit, and of what comes
after it (standard errors, intervals, verdicts, the printed table, saving and loading); the peak of memory above that of
a small fit. The exponent p of a column says that it grew like size^p from the smallest to the largest size.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import picardfit as pf

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def ponds(size: int) -> pf.Problem:
    """Predator and prey, 10 numbers in each pond, 2 unknowns of each pond and 6 shared."""
    return pf.examples.rosenzweig_macarthur.generate(seed=1, ponds=size)


def lorenz(size: int) -> pf.Problem:
    """303 numbers in each run, 3 bounded unknowns of each run and 3 shared."""
    return pf.examples.lorenz.generate(seed=1, experiments=size)


def mixed(size: int) -> pf.Problem:
    """A rate and an initial state of each experiment, one shared rate."""
    model = pf.Model("x' = -k*x; z' = k*x - q*z")
    times, rng, runs = np.linspace(0, 6, 13), np.random.default_rng(1), []
    for e in range(size):
        truth = {"k": float(rng.uniform(0.5, 1.5)), "q": 0.7}
        run = pf.simulate(model, truth, {"x": 2.0, "z": 0.0}, times)
        noisy = {n: v + 0.02 * rng.standard_normal(len(times)) for n, v in run.observables.items()}
        runs.append(pf.Experiment(times, noisy, f"run {e}"))
    return pf.Problem(model, runs, {"k": pf.Parameter(0.1, 5, local=True), "q": (0.1, 5)}, {"z": 0.0})


def _oscillator(periods: int, samples: int) -> pf.Problem:
    model = pf.Model("x' = y; y' = m*(1 - x^2)*y - w*x")
    times, rng = np.linspace(0, 6.7 * periods, samples), np.random.default_rng(1)
    run = pf.simulate(model, {"m": 1.0, "w": 1.0}, {"x": 1.0, "y": 1.0}, times)
    noisy = {n: v + 0.1 * rng.standard_normal(samples) for n, v in run.observables.items()}
    return pf.Problem(model, pf.Experiment(times, noisy), {"m": (0.5, 1.5), "w": (0.5, 1.5)})


def segments(size: int) -> pf.Problem:
    """Van der Pol over as many periods, 20 samples in each: one long experiment."""
    return _oscillator(size, 20 * size)


def samples(size: int) -> pf.Problem:
    """Van der Pol over three periods with as many samples: one dense experiment."""
    return _oscillator(3, size)


MEMBRANE = pf.Model(
    """
    am = 0.1*(v + 40)/(1 - exp(-(v + 40)/10)); bm = 4*exp(-(v + 65)/18)
    ah = 0.07*exp(-(v + 65)/20); bh = 1/(1 + exp(-(v + 35)/10))
    an = 0.01*(v + 55)/(1 - exp(-(v + 55)/10)); bn = 0.125*exp(-(v + 65)/80)
    v' = current - gna*m^3*h*(v - 50) - gk*n^4*(v + 77) - gl*(v + 54.4)
    m' = am*(1 - m) - bm*m
    h' = ah*(1 - h) - bh*h
    n' = an*(1 - n) - bn*n
    """,
    observables=["v"],
    inputs=["current"],
)


def _membrane(times: np.ndarray, current: pf.Table) -> pf.Problem:
    rest, rng = {"v": -65.0, "m": 0.053, "h": 0.596, "n": 0.318}, np.random.default_rng(1)
    inputs, truth = {"current": current}, {"gna": 120.0, "gk": 36.0, "gl": 0.3}
    run = pf.simulate(MEMBRANE, truth, rest, times, inputs=inputs)
    noisy = {"v": run.observables["v"] + rng.standard_normal(len(times))}
    bounds = {"gna": (10, 500), "gk": (5, 200), "gl": (0.01, 3)}
    return pf.Problem(MEMBRANE, pf.Experiment(times, noisy, inputs=inputs), bounds, rest)


def rows(size: int) -> pf.Problem:
    """Hodgkin-Huxley voltage every 0.01 ms, as many samples as rows in a table of a smooth current."""
    times = 0.01 * np.arange(size)
    current = 10 + 5 * np.sin(2 * np.pi * times / 17) + 3 * np.sin(2 * np.pi * times / 5.3)
    return _membrane(times, pf.Table(times, current, "linear"))


def rough_rows(size: int) -> pf.Problem:
    """The same voltage with a current that is noise from row to row, so that every row is a knot."""
    times = 0.01 * np.arange(size)
    return _membrane(times, pf.Table(times, 10 + np.random.default_rng(2).standard_normal(size), "linear"))


def states(size: int) -> pf.Problem:
    """A ring of as many states, five parameters for three of them, all states measured in two experiments."""
    names = [f"x{i}" for i in range(size)]
    gains = [f"b{i}*{names[i - 1]}" if i % 3 else names[i - 1] for i in range(size)]
    model = pf.Model(
        "; ".join(f"{x}' = {gains[i]}/(1 + {names[i - 1]}^2) - a{i}*{x}" for i, x in enumerate(names))
    )
    times, rng, runs = np.linspace(0, 8, 33), np.random.default_rng(1), []
    truth = {name: float(rng.uniform(0.5, 2)) for name in model.parameters}
    for e in range(2):
        run = pf.simulate(model, truth, {x: float(rng.uniform(0.2, 2)) for x in names}, times)
        noisy = {n: v + 0.02 * rng.standard_normal(len(times)) for n, v in run.observables.items()}
        runs.append(pf.Experiment(times, noisy, f"run {e}"))
    return pf.Problem(model, runs, dict.fromkeys(model.parameters, (0.1, 10.0)))


CASES: dict[str, tuple[Callable[[int], pf.Problem], tuple[int, ...], tuple[int, ...]]] = {
    "ponds": (ponds, (10, 100, 1000), (5, 50)),
    "lorenz": (lorenz, (10, 100, 1000), (3, 30)),
    "speed": (lorenz, (1, 105), (1,)),  # about 40 and 4,000 segments
    "mixed": (mixed, (10, 100, 1000), (5, 50)),
    "segments": (segments, (10, 100, 1000), (5, 50)),
    "samples": (samples, (100, 1000, 10_000, 100_000), (100, 1000)),
    "rows": (rows, (1000, 10_000), (1000, 3000)),
    "rough": (rough_rows, (1000, 10_000), (1000, 3000)),
    "states": (states, (6, 15, 30, 60), (6, 15)),
}


@dataclass(frozen=True)
class Row:
    """What one fit cost."""

    size: int
    numbers: int
    layout: int
    segments: int
    iterations: int
    iteration: float  # seconds
    fit: float
    after: float
    memory: float  # MB above a small fit
    success: bool


def measured(name: str, size: int) -> Row:
    """One fit in this process."""
    used(pf.fit(ponds(2)))  # imported and warm
    base = peak()
    problem = CASES[name][0](size)
    ticks: list[float] = []
    began = time.process_time()
    fit = pf.fit(problem, progress=lambda _: ticks.append(time.process_time()))
    whole = time.process_time() - began
    began = time.process_time()
    used(fit)
    after = time.process_time() - began
    return Row(
        size=size,
        numbers=problem.measurements,
        layout=problem.layout.count(),
        segments=fit.certificate.segments,
        iterations=fit.iterations,
        iteration=float(np.median(np.diff(ticks))) if len(ticks) > 1 else whole,
        fit=whole,
        after=after,
        memory=peak() - base,
        success=fit.success,
    )


def used(fit: pf.Fit) -> None:
    """Everything that is asked of a fit."""
    str(fit), str(fit.identifiability()), fit.intervals(), fit.diagnostics
    with tempfile.TemporaryDirectory() as folder:
        pf.load(fit.save(Path(folder) / "fit.json"))


def peak() -> float:
    """MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(name: str, size: int) -> Row:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", name, str(size)]
    done = subprocess.run(command, env=os.environ | THREADS, check=True, capture_output=True, text=True)
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def exponent(rows: list[Row], column: str) -> str:
    first, last = (getattr(rows[k], column) for k in (0, -1))
    if not (first > 0 and last > 0):
        return ""
    return f"{np.log(last / first) / np.log(rows[-1].size / rows[0].size):.2f}"


def shown(name: str, rows: list[Row]) -> None:
    """A table in the words of Markdown."""
    print(f"\n{name}: {CASES[name][0].__doc__}\n")
    print(
        "| size | numbers | unknowns | segments | iterations | ms/iteration | µs/segment | fit s | after s | MB | |"
    )
    print("|" + "---|" * 11)
    for row in rows:
        each = 1e6 * row.iteration / row.segments
        print(
            f"| {row.size} | {row.numbers} | {row.layout} | {row.segments} | {row.iterations} "
            f"| {1e3 * row.iteration:.2f} | {each:.1f} | {row.fit:.2f} | {row.after:.2f} | {row.memory:.0f} "
            f"| {'' if row.success else 'no success'} |"
        )
    found = {c: exponent(rows, c) for c in ("segments", "iteration", "fit", "after", "memory")}
    print(
        f"| exponent | | | {found['segments']} | | {found['iteration']} | | {found['fit']} | {found['after']} "
        f"| {found['memory']} | |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two small sizes of each")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--one", nargs=2, metavar=("NAME", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(measured(options.one[0], int(options.one[1])))))
        return
    for name, (_, sizes, quick) in CASES.items():
        if options.only in (None, name):
            shown(name, [apart(name, size) for size in (quick if options.quick else sizes)])


if __name__ == "__main__":
    main()
