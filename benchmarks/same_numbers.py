"""Do two versions of picardfit give the same numbers, and is the new one as fast?

    python benchmarks/same_numbers.py a36ec51

checks the old commit out into a temporary git worktree, then fits 55 problems with both versions, one process each,
turn by turn: the paper's problems, the starters, stiff models and models with hidden states, likelihoods, several
starts, and Algorithms 1-4; then the paper's problems by one search each (`--only "one search"`). It prints status,
iterations, the largest relative difference of an estimate and the ratios of times of a fit and of a step (processor
time, the least of `--repeat` runs each), and ends with code 1 if a status differs, an estimate differs by more than
1e-8, or the median ratio of times exceeds 1.05.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from versions import ROOT, Version, answer, both_versions

STARTERS = ROOT / "src" / "picardfit" / "examples" / "starters"
SAME = 1e-8  # relative difference of estimates that counts as none
SLOWER = 1.05  # median ratio of times that counts as slower
TOO_LONG = ("mu=200",)  # cases of hard.py that take most of a minute


def fits() -> dict[str, Callable[[], object]]:
    """The fits by name, with whatever version of picardfit is imported."""
    import hard
    import picardfit as pf

    paper = pf.examples if "examples" in pf.__all__ else pf.problems
    found: dict[str, Callable[[], object]] = {}
    for name, module in paper.ALL.items():
        for seed in range(3):
            found[f"{name} {seed}"] = lambda module=module, seed=seed: pf.fit(module.generate(seed=seed))
            found[f"one search {name} {seed}"] = lambda module=module, seed=seed: pf.fit(
                module.generate(seed=seed), policy=pf.SearchPolicy(most=1)
            )
    for folder in sorted(STARTERS.iterdir()):
        if (folder / "problem.toml").is_file() and is_read(folder):
            found[f"starter {folder.name}"] = lambda folder=folder: pf.fit(pf.read_problem(folder))
    for case in hard.cases():
        if not any(words in case.name for words in TOO_LONG):
            found[case.name] = lambda case=case: pf.fit(case.problem(1)[0], seed=1)
    ponds = paper.rosenzweig_macarthur.generate(seed=5)
    pond = {"model": ponds.model, "experiments": ponds.experiments, "parameters": dict(ponds.parameters)}
    for name, noise in (
        ("proportional", pf.Noise(additive=0.02, proportional=0.05)),
        ("estimated", pf.Noise(additive=(0.001, 1.0))),
        ("log-normal", pf.LogNormal(0.1)),
        ("student", pf.StudentT(additive=0.05, degrees=4.0)),
    ):
        found[f"noise {name}"] = lambda noise=noise: pf.fit(pf.Problem(**pond, noise=noise))
    found["four starts"] = lambda: pf.fit(paper.fitzhugh_nagumo.generate(seed=7), starts=4)
    corner = {name: 1.01 * one.bounds[0] for name, one in ponds.parameters.items()}
    found["poor start"] = lambda: pf.fit(ponds, start=corner)
    decay = pf.Model("x' = -k*x + u0\ny' = k*x - y")
    run = pf.simulate(decay, {"k": 0.7, "u0": 0.2}, {"x": 1.0, "y": 0.2}, np.linspace(0, 2, 15))
    small = pf.Problem(decay, pf.Experiment(run.times, run.observables), {"k": (0.1, 3), "u0": (0, 1)})
    for method in (
        pf.GradientDescent(max_iterations=300),
        pf.GradientContractive(max_iterations=300),
        pf.GradientContractMultiplier(max_iterations=300),
        pf.ExtendedGradientContractMultiplier(max_iterations=300),
    ):
        found[type(method).__name__] = lambda method=method: pf.fit(small, method)
    return found


def is_read(folder: Path) -> bool:
    """Whether this version reads a starter of the newer one: populations, for example, were not always there."""
    import picardfit as pf

    try:
        pf.read_problem(folder)
    except pf.InputError:
        return False
    return True


def worker() -> None:
    """Answer names of fits with records."""
    known = fits()

    def record(name: str) -> dict:
        began = time.process_time()
        fit = known[name]()
        seconds = time.process_time() - began
        initial = {f"{e}.{s}": v for e, states in fit.initial_states.items() for s, v in states.items()}
        return {
            "status": fit.status.name,
            "iterations": fit.iterations,
            "values": {**fit.parameters, **initial, **spreads(fit)},
            "errors": list(fit.standard_errors.values()),
            "seconds": seconds,
        }

    answer(list(known), record)


def spreads(fit) -> dict[str, float]:
    """The variances of random effects, where a fit has any."""
    population = getattr(fit, "population", None)
    if population is None:
        return {}
    table = population.covariance
    return {f"variance of {name}": float(table.loc[name, name]) for name in table.index}


def difference(old: dict, new: dict) -> float:
    """The largest relative difference of an estimate."""
    if old["values"].keys() != new["values"].keys():
        return float("inf")
    pairs = np.array([(old["values"][n], new["values"][n]) for n in old["values"]], float).reshape(-1, 2)
    size = np.abs(pairs).max(axis=1)
    gap = np.abs(pairs[:, 0] - pairs[:, 1]) / np.where(size > 0, size, 1.0)
    return float(np.nan_to_num(gap, nan=0.0).max(initial=0.0))


def compare(old: Version, new: Version, repeat: int, only: str) -> bool:
    """Print a row for every fit; whether the two versions agree."""
    names = [name for name in old.names if only in name and name in new.names]
    print(
        f"{'fit':34s} {'status':20s} {'iterations':>11s} {'difference':>10s} {'old s':>7s} {'ratio':>6s} {'step':>6s}"
    )
    agree, ratios, steps = True, [], []
    for name in names:
        runs = [(old.run(name), new.run(name)) for _ in range(repeat)]
        (before, after), (old_s, new_s) = runs[0], (min(r[k]["seconds"] for r in runs) for k in (0, 1))
        gap = difference(before, after)
        same = before["status"] == after["status"] and gap <= SAME
        agree &= same
        ratios.append(new_s / old_s)
        steps.append(ratios[-1] * before["iterations"] / after["iterations"])
        status = before["status"] if before["status"] == after["status"] else f"-> {after['status']}"
        counts = f"{before['iterations']} {after['iterations']}"
        flag = "" if same else "  DIFFERS"
        print(
            f"{name:34s} {status:20s} {counts:>11s} {gap:10.1e} {old_s:7.2f} {ratios[-1]:6.2f} "
            f"{steps[-1]:6.2f}{flag}",
            flush=True,
        )
    middle = float(np.median(ratios))
    print(
        f"{len(names)} fits; median ratio of times {middle:.3f}, largest {max(ratios):.2f}; "
        f"of a step {np.median(steps):.3f}, largest {max(steps):.2f}"
    )
    return agree and middle <= SLOWER


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", help="the old version")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each fit; the least time counts")
    parser.add_argument("--only", default="", help="run the fits whose name contains this")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker()
        return 0
    if given.commit is None:
        parser.error("name the commit to compare with")
    with both_versions(given.commit, __file__) as (old, new):
        return 0 if compare(old, new, given.repeat, given.only) else 1


if __name__ == "__main__":
    sys.exit(main())
