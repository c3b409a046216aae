"""picardfit against the strongest peers on the paper's problems: the same data, bounds and starts; prints a table.

    python benchmarks/peers.py [--starts 10] [--datasets 1] [--only NAME] [--tools picardfit,casadi] [--slow-starts 2]

Needs `pip install picardfit[compare]`. For every problem and tool: how many starts end at the smallest loss that any
tool found (within 0.1 %, by independent integration), and processor seconds, median over the starts. Cold: model
building included, imports not, no cache warm. Warm: the same search once more. picardfit's cold time begins with the
text of the model; the peers get theirs translated and a path along the data for nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sympy.core.cache import clear_cache

import picardfit as pf
from compare.isolation import silence
from compare.registry import TOOLS
from compare.runner import common_start, loss_at
from compare.task import Answer, Task

PEERS = ("picardfit", "casadi", "shooting", "diffrax")
SLOW = ("diffrax",)
BUDGET = 120.0


@dataclass(frozen=True)
class Attempt:
    """One search from one start."""

    loss: float
    cold: float
    warm: float
    sentence: str


def attempts(name: str, tool: str, data_set: int, starts: int) -> list[Attempt]:
    """All starts of one tool on one data set, in a process of its own."""
    silence()
    problem = pf.examples.ALL[name].generate(seed=data_set)
    module = TOOLS[tool].load()
    found = []
    for start in range(starts):
        task = Task(problem, common_start(problem, None, None, start), start, BUDGET)
        _forget()
        began = time.process_time()
        search = _ready(task, module, tool)
        answer = search()
        cold = time.process_time() - began
        began = time.process_time()
        search()
        warm = time.process_time() - began
        unknowns = task.at(np.clip(answer.vector, task.lower, task.upper))
        found.append(Attempt(loss_at(problem, unknowns), cold, warm, answer.message))
    return found


def _ready(task: Task, module, tool: str) -> Callable[[], Answer]:
    if tool == "picardfit":  # from the text on
        old = task.problem
        model = pf.Model(old.model.text, observables=old.model.observable_formulas, inputs=old.model.inputs)
        fresh = pf.Problem(model, old.experiments, parameters=old.parameters, initial=old.initial)
        task = Task(fresh, task.start, task.seed, task.budget)
    if tool in ("picardfit", "shooting"):  # nothing is prepared once for all
        return lambda: module.solve(task)
    return module.prepare(task)


def _forget() -> None:
    """Empty every cache of picardfit and SymPy."""
    for name, module in list(sys.modules.items()):
        if name.startswith("picardfit"):
            for member in vars(module).values():
                if callable(getattr(member, "cache_clear", None)):
                    member.cache_clear()
    clear_cache()


def in_a_process(*job) -> list[Attempt]:
    """A new interpreter, so that nothing is shared between tools."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(attempts, job)


def table(names: list[str], tools: list[str], data_sets: int, starts: int, slow_starts: int) -> None:
    """One line a problem and tool."""
    print("| problem | tool | solved | cold s | warm s | cold, times picardfit's |")
    print("|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {tool: [] for tool in tools}
    for name in names:
        found: dict[str, list[list[Attempt]]] = {}
        for tool in tools:
            count = slow_starts if tool in SLOW else starts
            found[tool] = [in_a_process(name, tool, k, count) for k in range(data_sets)]
        best = [min(a.loss for tool in tools for a in found[tool][k]) for k in range(data_sets)]
        ours = _median(found.get("picardfit", []), "cold")
        for tool, sets in found.items():
            good = sum(a.loss <= best[k] * 1.001 for k, one in enumerate(sets) for a in one)
            cold, warm = _median(sets, "cold"), _median(sets, "warm")
            ratios[tool].append(cold / ours)
            total = sum(map(len, sets))
            print(
                f"| {name} | {tool} | {good} of {total} | {cold:.3f} | {warm:.3f} | {cold / ours:.1f} |",
                flush=True,
            )
    for tool in tools:
        print(
            f"{tool}: median over the problems of cold time over picardfit's: {np.median(ratios[tool]):.2f}"
        )


def _median(sets: list[list[Attempt]], field: str) -> float:
    return float(np.median([getattr(a, field) for one in sets for a in one])) if sets else np.nan


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--slow-starts", type=int, default=2, help="of tools that compile for seconds")
    parser.add_argument("--datasets", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--tools", default=",".join(PEERS))
    options = parser.parse_args()
    tools = [t for t in options.tools.split(",") if TOOLS[t].versions() is not None]
    names = [name for name in pf.examples.ALL if options.only in name]
    for tool in tools:
        print(f"{tool}: {TOOLS[tool].versions()}; {TOOLS[tool].what}")
    table(names, tools, options.datasets, options.starts, options.slow_starts)


if __name__ == "__main__":
    main()
