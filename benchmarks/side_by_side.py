"""What searches side by side cost: one step of shooting for 1, 8 and 64 candidates in one batch.

    python benchmarks/side_by_side.py [--rounds 5] [--only NAME]

A step integrates every candidate with derivatives by all unknowns, as in `picardfit.search.rescue`. Candidates are
spread over the bounds, the same for all sizes: the first 1 and 8 of the 64. Times are processor seconds, the least of
several rounds in turn. The goal: eight searches in one batch cost at most 3.5 times one.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from peer_problems import PROBLEMS
from picardfit.search.rescue.relay import rank
from picardfit.search.rescue.settings import Rescue
from picardfit.search.rescue.shooting import terms_of
from picardfit.search.starts import candidates

SIZES = (1, 8, 64)


def seconds(problem, many: np.ndarray, settings: Rescue) -> float:
    began = time.process_time()
    with np.errstate(all="ignore"):
        terms_of(problem, many, np.full(len(many), np.inf), settings.tolerance, settings)
    return time.process_time() - began


def row(name: str, rounds: int) -> str | None:
    """One row of the table; None where no candidate can be integrated."""
    problem, settings = PROBLEMS[name].build(), Rescue()
    nothing = np.full(problem.layout.lower.shape, np.nan)
    with np.errstate(all="ignore"):
        spread = rank(problem, candidates(problem, nothing, max(SIZES), seed=0), settings)
    sound = spread.many_unknowns[np.isfinite(spread.values)]
    if len(sound) < SIZES[1]:
        return None
    least = dict.fromkeys(SIZES, np.inf)
    for _ in range(rounds):
        for size in SIZES:
            least[size] = min(least[size], seconds(problem, sound[:size], settings))
    one, eight, many = (least[size] for size in SIZES)
    return f"| {name} | {1e3 * one:.1f} | {eight / one:.2f} | {many / one:.2f} | {len(sound[: SIZES[2]])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    options = parser.parse_args()
    print("| problem | one, ms | eight / one | all / one | all |\n|---|---|---|---|---|")
    for name in (n for n in PROBLEMS if options.only in n):
        line = row(name, options.rounds)
        if line:
            print(line, flush=True)


if __name__ == "__main__":
    main()
