"""How long the commands of `picardfit` take, each in a process of its own.

    python benchmarks/commands.py [--repeats 7]

Bytecode is compiled first and every command runs once before it is timed, so that files are in the cache of the system:
what is measured is Python, imports and work. Beside the commands stand a bare Python and the imports that no fit can do
without. Times are medians with the least in brackets; the last columns are ratios of the least processor times.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import picardfit

BARE = {
    "python": "pass",
    "import numpy": "import numpy",
    "import numpy, scipy.linalg, sympy": "import numpy, scipy.linalg, sympy",
    "... scipy.integrate, matplotlib.figure": (
        "import numpy, scipy.linalg, sympy, scipy.integrate, matplotlib.figure, matplotlib.backends.backend_svg"
    ),
}
COMMANDS = ("--help", "check study", "fit study --no-report", "fit study")
NUMPY, CORE = list(BARE)[1:3]  # what the ratios are taken to


@dataclass(frozen=True)
class Timing:
    """Seconds on the clock and of the processor, of each run."""

    wall: list[float]
    processor: list[float]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    given.add_argument("--repeats", type=int, default=7)
    repeats = given.parse_args().repeats
    compileall.compile_dir(Path(picardfit.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        run([*cli(), "new", "study"], folder)
        lines = {name: [sys.executable, "-c", code] for name, code in BARE.items()}
        lines |= {f"picardfit {one}": [*cli(), *one.split()] for one in COMMANDS}
        found = timed(lines, folder, repeats)
    print("| command | wall, s | processor, s | / numpy | / numpy, scipy.linalg, sympy |")
    print("|---|---|---|---|---|")
    for name, one in found.items():
        ratios = (min(one.processor) / min(found[base].processor) for base in (NUMPY, CORE))
        print(
            f"| `{name}` | {shown(one.wall)} | {shown(one.processor)} | "
            + " | ".join(f"{r:.1f}" for r in ratios)
            + " |"
        )


def cli() -> list[str]:
    return [sys.executable, "-m", "picardfit"]


def timed(lines: dict[str, list[str]], folder: str, repeats: int) -> dict[str, Timing]:
    """Every line in turn, and again, so that other work on the machine troubles all alike."""
    found = {name: Timing([], []) for name in lines}
    for k in range(repeats + 1):
        for name, line in lines.items():
            wall, processor = run(line, folder)
            if k:  # the first round only warms up
                found[name].wall.append(wall)
                found[name].processor.append(processor)
    return found


def run(line: list[str], folder: str) -> tuple[float, float]:
    """Seconds on the clock and of the processor."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(line, cwd=folder, env=environment, check=True, capture_output=True)
    end, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    return end - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shown(seconds: list[float]) -> str:
    return f"{median(seconds):.2f} ({min(seconds):.2f})"


if __name__ == "__main__":
    main()
