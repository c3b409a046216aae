"""What simulated candidates earn and cost where searches converge but disagree, and alone.

    python benchmarks/rescue.py [--first 420000] [--count 300] [--out FILE]
    python benchmarks/rescue.py --alone ../shared/petab/NAME/NAME.yaml [--first 100] [--count 4]

Random problems of soak.py are fitted by the default policy. Those whose searches disagree until candidates are
simulated are fitted again with other settings of the rescue, and without it. Printed are, for every setting, how many
of these problems end in a local optimum (a loss more than 0.1 % above the best of all settings and of a fit from the
truth), the processor time of the fit over that of one search, and the seconds of all of them. With `--out` each problem
is a line of that file, and those in it are not fitted again.

With `--alone` no fit is made: candidates of a PEtab problem are simulated as where no search has converged, once fitted
to all samples at once, and once to the first samples before (`Rescue.lead`); nothing else is known to them.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

import numpy as np

import picardfit as pf
from picardfit.search.policy import Next
from picardfit.search.rescue.relay import find_candidates
from picardfit.search.told import Decision
from seeds import Seeds
from soak import WORSE, random_sample

SETTINGS = {
    "default": pf.SearchPolicy(),
    "a quarter of the crowd": pf.SearchPolicy(rescue=pf.Rescue(candidates=64, lanes=16)),
    "an eighth": pf.SearchPolicy(rescue=pf.Rescue(candidates=32, lanes=8)),
    "none": pf.SearchPolicy(rescue=None),
    "none, 24 searches": pf.SearchPolicy(most=24, searching=16, rescue=None),
}


class Rescued(logging.Handler):
    """Notes whether candidates were simulated although searches had converged."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def emit(self, record: logging.LogRecord) -> None:
        said = record.msg
        self.seen |= isinstance(said, Decision) and said.what is Next.RESCUE and said.agreeing > 0


def fitted(problem: pf.Problem, policy: pf.SearchPolicy) -> tuple[float, float]:
    """Loss of a fit and its processor seconds."""
    began = time.process_time()
    fit = pf.fit(problem, policy=policy, progress=False)
    return fit.loss, time.process_time() - began


def measured(seed: int) -> dict | None:
    """Losses and seconds of every setting; of the default alone where no candidates were simulated."""
    sample = random_sample(seed)
    if sample is None:
        return None
    log, rescued = logging.getLogger("picardfit.search"), Rescued()
    log.addHandler(rescued)
    log.setLevel("INFO")
    found = {"default": fitted(sample.problem, SETTINGS["default"])}
    log.removeHandler(rescued)
    log.setLevel("WARNING")
    if rescued.seen:
        found["one search"] = fitted(sample.problem, pf.SearchPolicy(most=1))
        others = SETTINGS.keys() - found.keys()
        found |= {name: fitted(sample.problem, SETTINGS[name]) for name in sorted(others)}
        start = sample.truth | {
            f"{k}[{e}]": v for e, one in enumerate(sample.initial) for k, v in one.items()
        }
        known = {name: value for name, value in start.items() if name in sample.problem.parameters}
        found["truth"] = (pf.fit(sample.problem, start=known, policy=pf.SearchPolicy(most=1)).loss, 0.0)
    return found


def alone(path: Path, seeds: range) -> None:
    """Prints how low the candidates of a PEtab problem come, in how many steps and processor seconds."""
    here = Path(__file__).resolve().parent  # holds a file with the name of the package that reads PEtab
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    from picardfit.importers import petab

    problem = petab.read(path)
    nothing = np.full(problem.layout.lower.shape, np.nan)
    print("| seed | first samples first | steps | best | s |\n|---|---|---|---|---|")
    for seed in seeds:
        for led in (False, True):
            steps, began = [], time.process_time()
            settings, further = pf.Rescue() if led else pf.Rescue(lead=None), np.zeros((0, *nothing.shape))
            found = find_candidates(
                problem, nothing, seed, further, settings, lambda *one, steps=steps: steps.append(one)
            )
            spent, said = time.process_time() - began, "yes" if led else "no"
            print(f"| {seed} | {said} | {len(steps)} | {found.values[0]:.3f} | {spent:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=420_000)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--alone", type=Path, help="a PEtab problem: simulate its candidates only")
    options = parser.parse_args()
    if options.alone is not None:
        return alone(options.alone, range(options.first, options.first + options.count))
    ran = [r for r in Seeds(options.first, options.out).results("rescue", measured, options.count) if r]
    rescued = [r for r in ran if len(r) > 1]
    seconds = sum(r["default"][1] for r in ran)
    print(f"{len(ran)} problems, {seconds:.1f} s in all; candidates were simulated in {len(rescued)}\n")
    print(
        "| rescue | local optima | fit over one search, median (most) | seconds of these |\n|---|---|---|---|"
    )
    for name in SETTINGS:
        missed = sum(r[name][0] > (1 + WORSE) * min(loss for loss, _ in r.values()) for r in rescued)
        ratios = [r[name][1] / r["one search"][1] for r in rescued] or [np.nan]
        spent = sum(r[name][1] for r in rescued)
        print(f"| {name} | {missed} | {np.median(ratios):.1f} ({max(ratios):.1f}) | {spent:.1f} |")


if __name__ == "__main__":
    main()
