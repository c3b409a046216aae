"""How long fit.explore() takes to follow a slider: curve, loss and picture, for every starter.

    python benchmarks/explore.py [--moves 60]

A slider moves by small steps over its whole length, one slider after the other, as a hand moves it. Times are
milliseconds of the processor; the worst are those where a panel grows, which draws its background again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import picardfit as pf
from picardfit.cli.new import Starter, write_starter
from picardfit.display.explore import Explorer


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    given.add_argument("--moves", type=int, default=60, help="of each slider")
    moves = given.parse_args().moves
    print("| starter | first picture, ms | median of a move | 95 % of moves | worst |")
    print("|---|---|---|---|---|")
    for starter in Starter:
        with tempfile.TemporaryDirectory() as folder:
            write_starter(starter, Path(folder))
            explorer = Explorer(pf.fit(pf.read_problem(folder), progress=False))
        began = time.process_time()
        explorer.png()
        first = 1e3 * (time.process_time() - began)
        took = 1e3 * np.array([moved(explorer, label, part) for label, part in path(explorer, moves)])
        least, most, worst = np.median(took), np.quantile(took, 0.95), took.max()
        print(f"| {starter.value} | {first:.0f} | {least:.0f} | {most:.0f} | {worst:.0f} |", flush=True)


def path(explorer: Explorer, moves: int) -> list[tuple[str, float]]:
    """Every slider, at evenly spaced parts of its length."""
    return [(label, part) for label in explorer.handles for part in np.linspace(0.02, 0.98, moves)]


def moved(explorer: Explorer, label: str, part: float) -> float:
    """Seconds of the processor from a move of one slider to its picture."""
    one = explorer.handles[label]
    value = one.low * (one.high / one.low) ** part if one.log else one.low + part * (one.high - one.low)
    explorer.reset()
    began = time.process_time()
    explorer.move({label: value})
    explorer.png()
    explorer.words()
    return time.process_time() - began


if __name__ == "__main__":
    main()
