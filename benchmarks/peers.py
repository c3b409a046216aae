"""picardfit against the strongest peers on problems of different kinds: the same data, bounds and starts.

    python benchmarks/peers.py [--starts 5] [--only NAME] [--tools default,casadi] [--keep peers.jsonl]

Needs `pip install picardfit[compare]`, of which CasADi is enough. The problems and their sources are in
peer_problems.py. A start draws every parameter between its bounds; initial states are read off the data. Every fit may
take 20 processor seconds and then answers with the best point it has. Solved: the loss at that point, by independent
integration, is within 1 % of the smallest that any tool found from any start. Times are processor seconds, median over
the starts: cold, with building the model but without imports, and no cache warm. picardfit's begin with the text of the
model; the peers get theirs translated and a path along the data for nothing.

`default` is pf.fit(problem), `one search` is pf.fit(problem, policy=pf.SearchPolicy(most=1)). With `--keep` every
attempt is written to a file as it ends, and a later call goes on after those that are there.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sympy.core.cache import clear_cache

import picardfit as pf
from compare.isolation import silence
from compare.registry import TOOLS
from compare.runner import common_start, loss_at
from compare.task import Answer, Task
from peer_problems import PROBLEMS
from seeds import Seeds

OURS = {"default": pf.SearchPolicy(), "one search": pf.SearchPolicy(most=1)}
PEERS = ("casadi", "shooting")
LIMIT = 20.0  # processor seconds of a fit
SOLVED = 1.01  # loss over the smallest loss of all
REFERENCE = "casadi"  # whose time is 1


@dataclass(frozen=True)
class Attempt:
    """One fit from one start."""

    loss: float
    cold: float
    sentence: str


def attempt(name: str, tool: str, start: int) -> dict[str, object]:
    """One fit in this process, as JSON can hold it."""
    problem = PROBLEMS[name].build()
    task = Task(problem, common_start(problem, None, None, start), start, LIMIT)
    search = _search(tool)
    _forget()
    began = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        answer = search(task)
    except KeyboardInterrupt:
        answer = Answer(task.first, False, f"no answer after {LIMIT:g} s")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    cold = time.process_time() - began
    unknowns = task.at(np.clip(answer.vector, task.lower, task.upper))
    return asdict(Attempt(loss_at(problem, unknowns), cold, answer.message))


def _search(tool: str) -> Callable[[Task], Answer]:
    if tool not in OURS:
        return TOOLS[tool].load().solve
    solve = TOOLS["picardfit"].load().solve
    return lambda task: solve(_from_text(task), OURS[tool])


def _from_text(task: Task) -> Task:
    """The task with its model read anew."""
    old = task.problem
    model = pf.Model(old.model.text, observables=old.model.observable_formulas, inputs=old.model.inputs)
    fresh = pf.Problem(model, old.experiments, parameters=old.parameters, initial=old.initial)
    return Task(fresh, task.start, task.seed, task.budget)


def _forget() -> None:
    """Empty every cache of picardfit and SymPy, but not what belongs to loading: where the libraries of BLAS are."""
    for name, module in list(sys.modules.items()):
        if name.startswith("picardfit") and not name.startswith("picardfit.parallel"):
            for member in vars(module).values():
                if callable(getattr(member, "cache_clear", None)):
                    member.cache_clear()
    clear_cache()


def _prepare() -> None:
    """In a new process: silence what solvers print; the limit interrupts as a user would."""
    silence()
    signal.signal(signal.SIGPROF, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def attempts(name: str, tool: str, starts: int, keep: Path | None) -> list[Attempt]:
    """All starts of one tool on one problem, in a process of its own, so that nothing is shared between tools."""
    with ProcessPoolExecutor(1, get_context("spawn"), _prepare) as executor:
        seeds = Seeds(0, keep, executor)
        return [
            Attempt(**one) for one in seeds.results(f"{name}, {tool}", partial(attempt, name, tool), starts)
        ]


@dataclass(frozen=True)
class Row:
    """One problem: for every tool how many starts it solved, and its median cold time."""

    name: str
    solved: dict[str, int]
    cold: dict[str, float]

    def ratio(self, tool: str, other: str) -> float:
        return self.cold[tool] / self.cold[other]


def row(name: str, found: dict[str, list[Attempt]]) -> Row:
    best = min(one.loss for every in found.values() for one in every)
    solved = {tool: sum(one.loss <= SOLVED * best for one in every) for tool, every in found.items()}
    cold = {tool: float(np.median([one.cold for one in every])) for tool, every in found.items()}
    return Row(name, solved, cold)


def table(names: list[str], tools: list[str], starts: int, keep: Path | None) -> list[Row]:
    """Print one line a problem."""
    others = [tool for tool in tools if tool != REFERENCE]
    columns = [f"{tool} solves" for tool in tools]
    columns += [f"{REFERENCE} s", *(f"{tool} / {REFERENCE}" for tool in others)]
    print(f"| problem | kind | {' | '.join(columns)} |")
    print(f"|---|---|{'---|' * len(columns)}")
    rows = []
    for name in names:
        one = row(name, {tool: attempts(name, tool, starts, keep) for tool in tools})
        cells = [f"{one.solved[tool]}" for tool in tools]
        cells += [f"{one.cold[REFERENCE]:.2f}", *(f"{one.ratio(tool, REFERENCE):.2f}" for tool in others)]
        print(f"| {name} | {PROBLEMS[name].kind} | {' | '.join(cells)} |", flush=True)
        rows.append(one)
    return rows


def summary(rows: list[Row], tools: list[str], starts: int) -> None:
    """Print how often each tool solves, and its times where CasADi solves too."""
    for tool in tools:
        line = f"{tool}: {sum(one.solved[tool] for one in rows)} of {starts * len(rows)} solved"
        both = [one for one in rows if one.solved[tool] and one.solved[REFERENCE]]
        ratios = {one.name: one.ratio(tool, REFERENCE) for one in both}
        if tool != REFERENCE and ratios:
            slow = ", ".join(name for name, ratio in ratios.items() if ratio > 1)
            fewer = ", ".join(one.name for one in rows if one.solved[tool] < one.solved[REFERENCE])
            line += (
                f"; time over {REFERENCE}'s where both solve: median {np.median(list(ratios.values())):.2f}, "
                f"largest {max(ratios.values()):.2f}, slower on {slow or 'none'}; solves fewer on {fewer or 'none'}"
            )
        print(line)
    if set(OURS) <= set(tools):
        costs = [one.ratio("default", "one search") for one in rows if all(one.solved[tool] for tool in OURS)]
        if costs:
            words = f"median {np.median(costs):.2f}, largest {max(costs):.2f}"
            print(f"time of default over one search where both solve: {words}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--tools", default=",".join((*OURS, *PEERS)))
    parser.add_argument("--keep", type=Path, help="a file for the attempts, to resume from")
    options = parser.parse_args()
    tools = options.tools.split(",")
    names = [name for name in PROBLEMS if options.only in name]
    for tool in tools:
        if tool not in OURS:
            print(f"{tool}: {TOOLS[tool].versions()}; {TOOLS[tool].what}")
    rows = table(names, tools, options.starts, options.keep)
    summary(rows, tools, options.starts)


if __name__ == "__main__":
    main()
