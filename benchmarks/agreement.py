"""What a default fit finds that a single search does not, and what it costs.

    python benchmarks/agreement.py [--only fitzhugh] [--keep agreement.jsonl]

Each data set is fitted twice: by exactly one search, and by default. Counted are the fits that end above the loss (or
negative log-likelihood) at the true values, the searches of a default fit, the fits that end with the searches in
disagreement, and the ratio of processor seconds. For the random problems of soak.py the truth is replaced by what
SciPy's optimiser finds from there. A file given by --keep holds finished data sets, so that an interrupted run can be
resumed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import picardfit as pf
from picardfit.examples.common import standard_deviation
from seeds import Seeds
from soak import WORSE, Reference, random_sample

ROUNDING = 1e-9


@dataclass(frozen=True)
class Kind:
    """A row of the table: how the data sets are made, and how many."""

    name: str
    make: Callable[[int], pf.Problem]
    count: int


def kinds() -> list[Kind]:
    made, problems = [], pf.examples
    for likelihood in (False, True):
        for reading in ("std", "variance"):
            for eps in (0.05, 0.2):
                words = f"fitzhugh_nagumo{', likelihood' if likelihood else ''}, {reading} {eps:g}"
                made.append(Kind(words, partial(_neuron, likelihood, reading, eps), 100))
    for ponds, count in ((1, 200), (2, 34), (3, 33), (4, 33)):
        made.append(Kind(f"ponds, {ponds}, std 0.05", partial(_ponds, ponds), count))
    for reading in ("std", "variance"):
        generate = partial(problems.lorenz.generate, eps=0.4, eps_is=reading)
        made.append(Kind(f"lorenz, {reading} 0.4", generate, 10))
    made.append(Kind("van_der_pol, std 0.1", partial(problems.van_der_pol.generate, eps=0.1), 20))
    return made


def _neuron(likelihood: bool, reading: str, eps: float, seed: int) -> pf.Problem:
    problem = pf.examples.fitzhugh_nagumo.generate(seed, eps, reading)
    sd = standard_deviation(eps, reading)
    return (
        replace(problem, noise=pf.Noise(additive=sd, proportional=sd, common=True)) if likelihood else problem
    )


def _ponds(count: int, seed: int) -> pf.Problem:
    module = pf.examples.rosenzweig_macarthur
    return module.generate(seed, 0.05, ponds=count, bounds=dict(module.IMPLIED_BOUNDS))


def simulated(make: Callable[[int], pf.Problem], seed: int) -> dict:
    """The record of one data set of the paper's problems."""
    problem = make(seed)
    truth = problem.truth
    value = problem.loss if problem.noise is None else problem.nllh
    limit = value(truth["parameters"], truth["initial"])
    return _record(problem, limit + ROUNDING * abs(limit))


def random(seed: int) -> dict | None:
    """The record of a problem of soak.py; None where there is none."""
    sample = random_sample(seed)
    if sample is None:
        return None
    reference = Reference(sample)
    best = reference.improve(reference.point(sample.truth, sample.initial))
    return _record(sample.problem, (1 + WORSE) * best)


def _record(problem: pf.Problem, limit: float) -> dict:
    found = {"limit": limit}
    for name, options in (("one", {"policy": pf.SearchPolicy(most=1)}), ("default", {})):
        began = time.process_time()
        fit = pf.fit(problem, **options)
        seconds = time.process_time() - began
        value = fit.loss if problem.noise is None else fit.nllh
        found[name] = {"value": value, "seconds": seconds, "status": fit.status.name}
        found["searches"], found["hits"] = len(fit.searches), fit.hits
        found["told"] = any(one.code == "search.disagree" for one in fit.warnings)
    return found


def show(name: str, records: list[dict], first: int) -> None:
    above = {
        way: [first + k for k, one in enumerate(records) if one and not one[way]["value"] <= one["limit"]]
        for way in ("one", "default")
    }
    real = [one for one in records if one]
    seconds = [np.mean([one[way]["seconds"] for one in real]) for way in ("one", "default")]
    ratio = np.median([one["default"]["seconds"] / one["one"]["seconds"] for one in real])
    searches = np.array([one["searches"] for one in real])
    cells = [name, len(real), _seeds(above["one"]), _seeds(above["default"]), f"{np.mean(searches == 2):.0%}"]
    cells += [searches.max(), sum(one["told"] for one in real), *(f"{s:.2f}" for s in (*seconds, ratio))]
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def _seeds(seeds: list[int]) -> str:
    names = ", ".join(map(str, seeds))
    return f"{len(seeds)} ({names})" if seeds else "0"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--most", type=int, default=10**6, help="data sets of a row at most")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    seeds = Seeds(options.first, options.keep)
    rows = [(one.name, partial(simulated, one.make), one.count) for one in kinds()] + [("soak", random, 92)]
    header = ("problem", "fits", "above, one search", "above, default", "two searches", "most", "disagree")
    header = (*header, "s, one", "s, default", "ratio")
    print("|", " | ".join(header), "|")
    print("|---" * len(header) + "|")
    for name, task, count in rows:
        if options.only in name:
            show(name, seeds.results(name, task, min(count, options.most)), options.first)


if __name__ == "__main__":
    main()
