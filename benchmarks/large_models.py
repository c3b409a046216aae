"""How much faster are models with many states than with an older version? Ratios within one run.

    python benchmarks/large_models.py a9d14c5

checks the old commit out into a temporary git worktree and fits each problem with both versions, one process each, turn
by turn, one search a fit, on one core, in processor time (the least of `--repeat` runs). It prints states, parameters,
segments, iterations, the largest relative difference of an estimate and old time over new time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from versions import Version, answer, both_versions


def cascade(states: int, groups: int, measured: int) -> object:
    """Activation passed on from state to state, each with a gain, groups with a decay; one in `measured` is seen."""
    import picardfit as pf

    names = [f"x{i}" for i in range(states)]
    before = ["exp(-t/4)", *names]
    model = pf.Model(
        "; ".join(
            f"{x}' = k{i}*{before[i]}*(1 - {x}) - d{i * groups // states}*{x}" for i, x in enumerate(names)
        )
    )
    times, rng, runs = np.linspace(0, 20, 41), np.random.default_rng(1), []
    truth = {name: float(rng.uniform(0.5, 2)) for name in model.parameters}
    for e in range(2):
        run = pf.simulate(model, truth, {x: e * float(rng.uniform(0, 0.6)) for x in names}, times)
        seen = names[measured - 1 :: measured]
        noisy = {n: run.observables[n] + 0.01 * rng.standard_normal(len(times)) for n in seen}
        runs.append(pf.Experiment(times, noisy, f"run {e}"))
    return pf.Problem(model, runs, dict.fromkeys(model.parameters, (0.05, 20.0)))


def network(states: int, density: float) -> object:
    """Each state is activated by the one before and repressed by others drawn at random; all are observed."""
    import picardfit as pf

    rng, lines = np.random.default_rng(7), []
    for i in range(states):
        others = [f"x{j}" for j in range(states) if j != i and rng.random() < density / states]
        repressed = " + ".join(["1", *(f"{x}^2" for x in others)])
        lines.append(f"x{i}' = a{i}*x{i - 1 if i else states - 1}/({repressed}) + 0.5 - b{i}*x{i}")
    model = pf.Model("; ".join(lines))
    truth = {name: float(rng.uniform(0.5, 2)) for name in model.parameters}
    times = np.linspace(0, 6, 25)
    run = pf.simulate(model, truth, {x: float(rng.uniform(0.2, 2)) for x in model.states}, times)
    noisy = {n: v + 0.02 * rng.standard_normal(len(times)) for n, v in run.observables.items()}
    return pf.Problem(model, pf.Experiment(times, noisy), dict.fromkeys(model.parameters, (0.1, 10.0)))


def problems() -> dict[str, Callable[[], object]]:
    """The problems by name; small ones show what large ones cost them."""
    import scaling

    return {
        "cascade, 20 states": lambda: cascade(20, 5, 1),
        "cascade, 20 states, half of them hidden": lambda: cascade(20, 5, 2),
        "ring, 60 states": lambda: scaling.states(60),
        "ring, 30 states": lambda: scaling.states(30),
        "network, 25 states": lambda: network(25, 2.0),
        "network, 12 states": lambda: network(12, 2.0),
        "cascade, 9 states": lambda: cascade(9, 3, 1),
        "cascade, 4 states": lambda: cascade(4, 2, 1),
        "cascade, 2 states": lambda: cascade(2, 1, 1),
    }


def worker() -> None:
    """Answer names of problems with records of their fits."""
    import picardfit as pf

    once = {"policy": pf.SearchPolicy(most=1)} if hasattr(pf, "SearchPolicy") else {"second_look": False}
    known = problems()
    pf.fit(cascade(3, 1, 1), **once)  # imported and warm

    def record(name: str) -> dict:
        problem = known[name]()
        began = time.process_time()
        fit = pf.fit(problem, **once)
        return {
            "seconds": time.process_time() - began,
            "status": fit.status.name,
            "iterations": fit.iterations,
            "segments": fit.certificate.segments,
            "states": len(problem.model.states),
            "parameters": len(problem.parameters),
            "values": list(fit.parameters.values()),
        }

    answer(list(known), record)


def compare(old: Version, new: Version, repeat: int, only: str) -> None:
    """Print a row for every problem."""
    print(
        "| problem | parameters | segments | iterations, old and new | difference | old s | new s | ratio |"
    )
    print("|" + "---|" * 8)
    for name in (name for name in new.names if only in name):
        runs = [(old.run(name), new.run(name)) for _ in range(repeat)]
        (before, after), seconds = runs[0], [min(run[k]["seconds"] for run in runs) for k in (0, 1)]
        a, b = np.array(before["values"]), np.array(after["values"])
        gap = float((np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))).max())
        status = "" if before["status"] == after["status"] else f" {before['status']} -> {after['status']}"
        print(
            f"| {name} | {after['parameters']} | {after['segments']} "
            f"| {before['iterations']} {after['iterations']}{status} | {gap:.1e} "
            f"| {seconds[0]:.3f} | {seconds[1]:.3f} | {seconds[0] / seconds[1]:.2f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", help="the old version")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each fit; the least time counts")
    parser.add_argument("--only", default="", help="run the problems whose name contains this")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    if options.commit is None:
        parser.error("name the old commit")
    with both_versions(options.commit, __file__) as (old, new):
        compare(old, new, options.repeat, options.only)


if __name__ == "__main__":
    main()
