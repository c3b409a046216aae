"""Four published PEtab problems from random starts over their full bounds: prints hits and times.

    python benchmarks/petab.py [--data ../shared/petab] [--starts 30] [--only NAME] [--seed 0] [--keep FILE] [--each]

A start draws every parameter uniformly on its parameterScale between its bounds; the nominal values of the files are
the published optima and are never used. A hit is a fit whose negative log-likelihood, by independent integration, is
within 0.1 of the best known. A start is one call of pf.fit, with all it does on its own when a search fails. Times are
processor seconds of one core; `--limit` ends a start at its next iteration (also of a rescue). With
`--keep` every start is written to a file as it ends, and a later call continues after them. The files are
not part of this repository: `--data` names the folder that holds them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import picardfit as pf
from picardfit.importers import petab

BEST = {
    "Boehm_JProteomeRes2014": 138.2220,
    "Crauste_CellSystems2017": 190.9640,
    "Bruno_JExpBot2016": -46.6882,
    "Elowitz_Nature2000": -63.2042,
}
HIT = 0.1


@dataclass(frozen=True)
class Result:
    """How one start ended."""

    nllh: float
    status: str
    iterations: int
    seconds: float


def one_start(problem: pf.Problem, seed: int, index: int, limit: float, iterations: int) -> Result:
    began = time.process_time()

    def watch(*_: object) -> None:
        if time.process_time() - began > limit:
            raise KeyboardInterrupt

    method = pf.LiftedGaussNewton(max_iterations=iterations)
    fit = pf.fit(problem, method, start=random_point(problem, seed, index), seed=index, progress=watch)
    seconds = time.process_time() - began
    value = np.inf if fit.solution is None else problem.nllh(fit.parameters)
    return Result(value, fit.status.name, fit.iterations, seconds)


def random_point(problem: pf.Problem, seed: int, index: int) -> dict[str, float]:
    """Every parameter that is estimated, uniformly between its bounds on its scale."""
    rng, point = np.random.default_rng([seed, index]), {}
    for name, one in problem.parameters.items():
        if one.fixed is not None:
            continue
        part = rng.uniform()
        if one.log:
            point[name] = one.lower ** (1 - part) * one.upper**part
        else:
            point[name] = (1 - part) * one.lower + part * one.upper
    return point


def kept(path: Path | None) -> dict[tuple[str, int, int], Result]:
    """The starts that a file holds, by problem, seed and index."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(one["problem"], one["seed"], one["start"]): Result(**one["result"]) for one in lines}


def keep(path: Path | None, name: str, seed: int, index: int, result: Result) -> None:
    if path is not None:
        with path.open("a") as file:
            line = {"problem": name, "seed": seed, "start": index, "result": asdict(result)}
            print(json.dumps(line), file=file)


def summary(name: str, results: list[Result]) -> str:
    """One row of the table."""
    hits = sum(r.nllh <= BEST[name] + HIT for r in results)
    seconds = [r.seconds for r in results]
    per_hit = f"{sum(seconds) / hits:.2f}" if hits else "-"
    values = sorted(r.nllh for r in results)
    ends = ", ".join(
        f"{n} {status.lower()}" for status, n in Counter(r.status for r in results).most_common()
    )
    return (
        f"| {name} | {hits} of {len(results)} | {np.median(seconds):.2f} | {per_hit} | {values[0]:.3f} | "
        f"{np.median(values):.3f} | {ends} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[2] / "shared" / "petab"
    parser.add_argument("--data", type=Path, default=beside, help="folder with the problems")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--limit", type=float, default=np.inf, help="processor seconds for one start")
    parser.add_argument("--iterations", type=int, default=60, help="of one search of a start")
    parser.add_argument("--only", default="", help="problems whose name begins so")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="file with a line for every start")
    parser.add_argument("--each", action="store_true", help="print every start as well")
    options = parser.parse_args()
    # this file has the name of the package that reads PEtab: its folder must not be searched for that
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    lines = [
        "| problem | hits | median s | s per hit | best nllh | median nllh | ended |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in (n for n in BEST if n.startswith(options.only)):
        problem = petab.read(options.data / name / f"{name}.yaml")
        done, results = kept(options.keep), []
        for k in range(options.starts):
            result = done.get((name, options.seed, k))
            if result is None:
                result = one_start(problem, options.seed, k, options.limit, options.iterations)
                keep(options.keep, name, options.seed, k, result)
            results.append(result)
            if options.each:
                print(name, k, results[-1], flush=True)
        lines.append(summary(name, results))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
