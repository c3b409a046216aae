"""Bias and coverage of population fits on simulated data sets, one after the other, with a file to resume from.

    python benchmarks/population_studies.py run RESULTS [N]   # N data sets of each study (200); appends to RESULTS
    python benchmarks/population_studies.py show RESULTS      # bias and coverage of what RESULTS holds

RESULTS has one JSON record a line. Studies with 50 individuals: `oral` (two states, additive noise, three effects),
`saturable` (an infusion, Michaelis-Menten elimination, proportional noise, two correlated effects), and `sparse` (two
samples each with much noise, where FOCEI is known to be biased) by FOCEI and by quadrature.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import picardfit as pf

INDIVIDUALS, SEED = 50, 1000


def effect(lower: float, upper: float) -> pf.Parameter:
    return pf.Parameter(lower, upper, log=True, random=True)


ORAL = pf.Model(
    "gut' = -ka*gut\ncentral' = ka*gut - cl/v*central",
    observables={"conc": "central/v"},
)
SATURABLE = pf.Model(
    "central' = -vmax*(central/v)/(km + central/v)",
    observables={"conc": "central/v"},
)
DECAY = pf.Model("x' = -ke*x")


def oral(rng: np.random.Generator) -> pf.Problem:
    times, people = np.array([0.25, 0.5, 1, 2, 4, 8, 12, 24.0]), []
    for k in range(INDIVIDUALS):
        ka, cl, v = np.array([1.5, 2.7, 31.0]) * np.exp([0.5, 0.25, 0.15] * rng.standard_normal(3))
        rate = cl / v
        curve = 300 * ka / v / (ka - rate) * (np.exp(-rate * times) - np.exp(-ka * times))
        data = {"conc": curve + 0.3 * rng.standard_normal(len(times))}
        people.append(pf.Experiment(times, data, name=f"{k}", doses=pf.Doses([0], [300.0], into="gut")))
    parameters = {"ka": effect(0.05, 20), "cl": effect(0.1, 50), "v": effect(1, 500)}
    noise = pf.Noise(additive=(0.01, 10))
    return pf.Problem(ORAL, people, parameters, initial={"gut": 0.0, "central": 0.0}, noise=noise)


def saturable(rng: np.random.Generator) -> pf.Problem:
    times, people = np.array([0.5, 1, 2, 4, 8, 12, 18, 24.0]), []
    root = np.linalg.cholesky([[0.3**2, 0.03], [0.03, 0.2**2]])
    for k in range(INDIVIDUALS):
        vmax, v = np.array([15.0, 20.0]) * np.exp(root @ rng.standard_normal(2))
        doses = pf.Doses([0], [(100.0, 200.0, 400.0)[k % 3]], into="central", duration=1.0)
        values = {"vmax": vmax, "v": v, "km": 5.0}
        exact = pf.simulate(SATURABLE, values, {"central": 0.0}, times, doses=doses).observables["conc"]
        data = {"conc": exact * (1 + 0.15 * rng.standard_normal(len(times)))}
        people.append(pf.Experiment(times, data, name=f"{k}", doses=doses))
    parameters = {"vmax": effect(0.1, 1000), "v": effect(1, 500), "km": pf.Parameter(0.05, 500, log=True)}
    noise, random = pf.Noise(proportional=(0.01, 1)), pf.RandomEffects(correlated=[("vmax", "v")])
    return pf.Problem(SATURABLE, people, parameters, initial={"central": 0.0}, noise=noise, random=random)


def sparse(rng: np.random.Generator) -> pf.Problem:
    times, people = np.array([0.5, 2.0]), []
    for k in range(INDIVIDUALS):
        exact = 10 * np.exp(-0.5 * np.exp(0.7 * rng.standard_normal()) * times)
        data = {"x": exact * (1 + 0.3 * rng.standard_normal(2))}
        people.append(pf.Experiment(times, data, name=f"{k}", t0=0))
    noise = pf.Noise(proportional=(0.01, 2))
    return pf.Problem(DECAY, people, {"ke": effect(0.01, 20)}, initial={"x": 10.0}, noise=noise)


@dataclass(frozen=True)
class Case:
    """How data sets are made and fitted, and the truth about them."""

    make: Callable[[np.random.Generator], pf.Problem]
    truth: dict[str, float]
    marginal: object = field(default=pf.FOCEI())


CASES = {
    "oral": Case(oral, {"ka": 1.5, "cl": 2.7, "v": 31.0, "sd(ka)": 0.5, "sd(cl)": 0.25, "sd(v)": 0.15}),
    "saturable": Case(saturable, {"vmax": 15, "v": 20, "km": 5, "sd(vmax)": 0.3, "sd(v)": 0.2}),
    "sparse": Case(sparse, {"ke": 0.5, "sd(ke)": 0.7}),
    "sparse, quadrature": Case(sparse, {"ke": 0.5, "sd(ke)": 0.7}, pf.Quadrature(9)),
}


def studied(case: Case, seed: int) -> dict[str, object]:
    """One data set: estimates and 95 % intervals by both kinds of errors."""
    began = time.process_time()
    fit = pf.fit(case.make(np.random.default_rng(seed)), marginal=case.marginal, progress=False)
    seconds = time.process_time() - began
    if not fit.success:
        return {"status": fit.status.name, "seconds": seconds}
    found = {name: fit.parameters.get(name) for name in case.truth if not name.startswith("sd(")}
    found |= {f"sd({name})": one.sd for name, one in fit.population.spreads.items()}
    intervals = {name: list(pair) for name, pair in fit.intervals().items()}
    errors = {kind: fit.errors(kind) for kind in ("sandwich", "fisher")}
    return {
        "status": fit.status.name,
        "seconds": seconds,
        "estimates": found,
        "intervals": intervals,
        **errors,
    }


def records(path: Path) -> Iterator[dict]:
    """What a file of results holds; a line that an interruption cut off is left out."""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue


def run(path: Path, count: int) -> None:
    """Fit what is missing; all studies advance together, so that each of them can be judged early."""
    done = {(one["case"], one["seed"]) for one in records(path)}
    for seed in range(SEED, SEED + count):
        for name, case in CASES.items():
            if (name, seed) not in done:
                record = {"case": name, "seed": seed, **studied(case, seed)}
                with path.open("a") as file:
                    file.write(json.dumps(record) + "\n")


def show(path: Path) -> None:
    """Bias of typical values and variances, and coverage."""
    every = list(records(path))
    for name, case in CASES.items():
        mine = [one for one in every if one["case"] == name]
        fits = [one for one in mine if "estimates" in one]
        seconds = np.median([one["seconds"] for one in mine]) if mine else np.nan
        print(f"{name}: {len(fits)} of {len(mine)} fits converged, {seconds:.1f} s in the median")
        for one, truth in case.truth.items():
            values = np.array([fit["estimates"][one] for fit in fits])
            ratio = (values / truth) ** (2 if one.startswith("sd(") else 1)
            ends = np.array([fit["intervals"][one] for fit in fits])
            cover = 100 * np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
            print(
                f"  {one:<9} bias {100 * (ratio.mean() - 1):6.2f} ± {100 * ratio.std() / len(fits) ** 0.5:.2f} %"
                f"{' (variance)' if one.startswith('sd(') else '':<11}  coverage {cover:5.1f} %"
            )


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("run", "show"):
        sys.exit(__doc__)
    file = Path(sys.argv[2])
    if sys.argv[1] == "run":
        run(file, int(sys.argv[3]) if len(sys.argv) > 3 else 200)
    show(file)
