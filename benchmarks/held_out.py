"""Default fits of problems that were never looked at while picardfit was written.

    python benchmarks/held_out.py [--second] [--only NAME] [--keep held_out.jsonl]

The 20 problems and their sources are in held_out_problems.py, 20 others (`--second`) in held_out_second.py. They are
there to be run once, at the end: whoever tunes anything on them needs others. Each is fitted from five random starts,
drawn between the bounds of its parameters, by `pf.fit(problem, start=start)`. Solved: the fit says that it converged,
and its loss by independent integration is within 1 % of the smallest known: that of the five fits, of one search from
the truth, and of the truth itself. "Others" has the status of every other fit, with its loss over the smallest known.
Times are processor seconds of `pf.fit` alone. With `--keep` every fit is written to a file as it ends, and a later call
goes on after those that are there.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

import picardfit as pf
from held_out_problems import PROBLEMS, HeldOut
from held_out_second import SECOND
from seeds import Seeds

STARTS = 5
SOLVED = 1.01  # loss over the smallest known


@dataclass(frozen=True)
class Attempt:
    """How one fit ended."""

    status: str  # of the fit, or the exception that it raised
    success: bool
    loss: float  # by independent integration
    searches: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """One problem and its fits."""

    case: HeldOut
    reference: float
    attempts: tuple[Attempt, ...]

    @property
    def solved(self) -> int:
        return sum(map(self.solves, self.attempts))

    def solves(self, one: Attempt) -> bool:
        return one.success and one.loss <= SOLVED * self.reference

    def endings(self) -> str:
        """What became of the fits that did not solve the problem: status and loss over the reference."""
        lost = [one for one in self.attempts if not self.solves(one)]
        return ", ".join(f"{one.status} {one.loss / self.reference:.3g}" for one in lost) or "-"


def attempt(case: HeldOut, k: int) -> dict[str, object]:
    """The default fit from start k, as JSON can hold it."""
    return asdict(_fitted(case.build(), start=case.start(k)))


def reference(case: HeldOut, _: int = 0) -> float:
    """The smaller of two losses: at the truth, and where one search from there ends."""
    problem, initial = case.build(), case.true_initial()
    policy = pf.SearchPolicy(most=1)
    found = _fitted(problem, start=dict(case.truth), start_initial=initial, policy=policy)
    return min(found.loss, problem.loss(case.truth, initial))


def _fitted(problem: pf.Problem, **given: object) -> Attempt:
    began = time.process_time()
    try:
        fit = pf.fit(problem, progress=False, **given)
    except Exception as error:  # whatever it is, the problem counts as not solved and the others go on
        return Attempt(type(error).__name__, False, np.inf, 0, time.process_time() - began)
    seconds = time.process_time() - began
    loss = np.inf if fit.solution is None else problem.loss(fit.parameters, fit.initial_states)
    return Attempt(fit.status.name, fit.success, float(loss), len(fit.searches), seconds)


def row(case: HeldOut, keep: Path | None) -> Row:
    seeds = Seeds(0, keep)
    [at_truth] = seeds.results(f"{case.name}, reference", partial(reference, case), 1)
    attempts = tuple(Attempt(**one) for one in seeds.results(case.name, partial(attempt, case), STARTS))
    return Row(case, min(at_truth, *(one.loss for one in attempts)), attempts)


def table(cases: Iterable[HeldOut], keep: Path | None) -> list[Row]:
    """Print one line a problem."""
    sizes = "states / parameters / experiments"
    print(f"| problem | kind | {sizes} | solved of {STARTS} | searches | s, median | s, largest | others |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for case in cases:
        one = row(case, keep)
        states = len(case.runs[0].initial)
        seconds = [fit.seconds for fit in one.attempts]
        print(
            f"| {case.name} | {case.kind} | {states} / {len(case.truth)} / {len(case.runs)} | {one.solved} "
            f"| {np.median([fit.searches for fit in one.attempts]):.0f} | {np.median(seconds):.2f} "
            f"| {max(seconds):.2f} | {one.endings()} |",
            flush=True,
        )
        rows.append(one)
    return rows


def summary(rows: list[Row]) -> None:
    """Print the total, and how the fits ended."""
    attempts = [fit for one in rows for fit in one.attempts]
    seconds = [fit.seconds for fit in attempts]
    wrong = sum(fit.success and not one.solves(fit) for one in rows for fit in one.attempts)
    print(
        f"{sum(one.solved for one in rows)} of {len(attempts)} solved, "
        f"{sum(one.solved == STARTS for one in rows)} of {len(rows)} problems from every start; "
        f"{wrong} converged elsewhere; searches: median {np.median([fit.searches for fit in attempts]):.0f}; "
        f"seconds: median {np.median(seconds):.2f}, largest {max(seconds):.1f}, in all {sum(seconds):.0f}"
    )
    print(", ".join(f"{status} {n}" for status, n in Counter(fit.status for fit in attempts).most_common()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--second", action="store_true", help="the second list of problems")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--keep", type=Path, help="a file for the fits, to resume from")
    options = parser.parse_args()
    problems = SECOND if options.second else PROBLEMS
    cases = [one for one in problems.values() if options.only in one.name]
    if not cases:
        parser.error(f"no problem is called {options.only}: choose among {', '.join(problems)}")
    summary(table(cases, options.keep))


if __name__ == "__main__":
    main()
