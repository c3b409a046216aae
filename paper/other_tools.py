"""The tools that Figure 3 compares with, and their peers, on the same Lorenz data (compare).

All of them minimise the least-squares loss from the same start, which is drawn in the bounds; each runs in a process
of its own. The paper gave its genetic algorithm five minutes; the budget here is `Plan.budget`.
"""

from __future__ import annotations

import numpy as np

from compare.registry import TOOLS
from compare.table import reaches
from paper.output import Spread, Table, short, spread
from paper.plan import READ, READINGS, Plan
from paper.printed import FIGURE_3_EPS, FIGURE_3_REPETITIONS
from paper.tasks import TOOL, Results, Task
from paper.verdicts import Row, row
from picardfit.examples.lorenz import TRUTH

NAMES = ("rho", "sigma", "beta")
SLOW = ("diffrax", "adam-bfgs", "scatter", "genetic", "evolution")  # seconds each, the others less than one
FEW = 3  # data sets of a level for a slow tool, and in a quick run
MOST = max(
    FIGURE_3_EPS
)  # where tools differ; as a variance it is a noise that the other reading does not have
QUICK_EPS = (0.05, 0.4)  # levels of a quick run


def installed() -> list[str]:
    """The tools that are there: `pip install 'picardfit[compare]'` brings all."""
    return [name for name, tool in TOOLS.items() if tool.versions()]


def all_tasks(plan: Plan) -> list[Task]:
    """The quick tools first, then data set by data set, so that a run which is stopped has whole data sets."""
    found = [t for r in READINGS for e in FIGURE_3_EPS for n in installed() for t in tasks_of(plan, n, r, e)]
    return sorted(found, key=lambda t: (t.settings["tool"] in SLOW, t.data["seed"]))


def tasks_of(plan: Plan, tool: str, reading: str, eps: float) -> list[Task]:
    """One tool on the data sets of a noise level."""
    full = FEW if tool in SLOW else FIGURE_3_REPETITIONS
    if reading == "variance" and (tool in SLOW or eps != MOST):
        full = 0
    some = FEW if reading == "std" and eps in QUICK_EPS else 0
    data, settings = {"eps": eps, "eps_is": reading}, {"tool": tool, "budget": plan.budget}
    return [Task("lorenz", TOOL, {"seed": s, **data}, settings) for s in plan.seeds(full, some)]


def known(results: Results, plan: Plan, reading: str, eps: float) -> dict[str, list[Task]]:
    """Per tool: its tasks that have a record."""
    every = {n: [t for t in tasks_of(plan, n, reading, eps) if results.has(t)] for n in TOOLS}
    return {name: own for name, own in every.items() if own}


def cells(results: Results, plan: Plan, reading: str, eps: float) -> list[tuple[str, list[Spread]]]:
    """Label and a cell for each parameter, for every tool."""
    return [
        (f"{name} ({len(own)})", [spread(column) for column in results.errors(own, NAMES, TRUTH).T])
        for name, own in known(results, plan, reading, eps).items()
    ]


def table(results: Results, plan: Plan, reading: str, ours: dict[str, dict[float, list[Task]]]) -> Table:
    """Every tool in one line. `ours`: label -> noise level -> tasks of the default method."""
    levels = [e for e in FIGURE_3_EPS if known(results, plan, reading, e)]
    by_tool: dict[str, dict[float, list[Task]]] = {name: {} for name in TOOLS}
    for eps in levels:
        for name, own in known(results, plan, reading, eps).items():
            by_tool[name][eps] = own
    best = _best(results, [*ours.values(), *by_tool.values()])
    rows = []
    for label, by_level in [*ours.items(), *by_tool.items()]:
        every = [t for own in by_level.values() for t in own if t.data["eps"] in levels]
        if not every:
            continue
        errors = [_mean_error(results, by_level.get(eps, [])) for eps in levels]
        hits = sum(reaches(results[t]["loss"], best[_data_set(t)], 0.0) for t in every)
        seconds = [results[t]["seconds"] for t in every if np.isfinite(results[t]["seconds"])]
        median = float(np.median(seconds)) if seconds else float("nan")
        what = TOOLS[label].what if label in TOOLS else "no start is given"
        rows.append((label, what, *errors, f"{hits} of {len(every)}", median))
    return Table(
        f"lorenz_tools_{reading}",
        f"Lorenz, {READ[reading]}: mean ARE of the three parameters ± its standard error (data sets); how often the "
        f"smallest loss of all was reached within 0.1 %; median seconds a fit (budget {plan.budget:g} s)",
        ("tool", "what it is", *(f"eps {eps:g}" for eps in levels), "best loss", "s"),
        tuple(rows),
    )


def _mean_error(results: Results, own: list[Task]) -> str:
    if not own:
        return "–"
    found = spread(results.errors(own, NAMES, TRUTH).mean(axis=1))
    return f"{short(found.mean)} ± {short(found.error)} ({found.count})"


def _data_set(task: Task) -> tuple:
    return task.data["eps_is"], task.data["eps"], task.data["seed"]


def _best(results: Results, groups: list[dict[float, list[Task]]]) -> dict[tuple, float]:
    """The smallest loss that anything reached on a data set."""
    best: dict[tuple, float] = {}
    for task in (t for group in groups for own in group.values() for t in own):
        loss = results[task]["loss"]
        if loss is not None and np.isfinite(loss):
            best[_data_set(task)] = min(loss, best.get(_data_set(task), np.inf))
    return best


def verdict(results: Results, plan: Plan, label: str, ours: dict[float, list[Task]], reading: str) -> Row:
    """Whether our mean error is at or below that of every tool in every cell, one standard error granted."""
    found = []
    for eps, own in ours.items():
        mine = dict(zip((t.data["seed"] for t in own), results.errors(own, NAMES, TRUTH), strict=True))
        for tool, theirs in known(results, plan, reading, eps).items():
            if tool == "picardfit":
                continue
            pairs = [
                (mine[t.data["seed"]], e)
                for t, e in zip(theirs, results.errors(theirs, NAMES, TRUTH), strict=True)
                if np.isfinite(e).all()
            ]
            for k, name in enumerate(NAMES):
                if len(pairs) < 2:
                    continue
                a, b = np.array([[m[k], e[k]] for m, e in pairs]).T
                error = a.std(ddof=1) / np.sqrt(len(a))
                words = f"eps {eps:g}, {name}, {tool}: {short(a.mean())} ± {short(error)} against {short(b.mean())}"
                found.append((words, bool(a.mean() - b.mean() <= error)))
    return row(
        f"{label}, {READ[reading]}: at or below every other tool within one standard error (cells)", found
    )
