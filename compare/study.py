"""The comparison of the paper's Fig. 3: Lorenz data at several noise levels, every tool on every data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from compare.registry import TOOLS
from compare.runner import run
from compare.table import Row
from compare.usage import UsageError
from picardfit.examples import lorenz
from picardfit.examples.common import Spread
from picardfit.problem.problem import Problem

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class Cell:
    """Absolute relative error of one parameter by one tool at one noise level, over the data sets it answered."""

    mean: float
    std: float
    standard_error: float
    answers: int
    data_sets: int


@dataclass(frozen=True)
class Trial:
    """One tool on one data set; `errors`: parameter -> |estimate - truth| / |truth|, empty without an answer."""

    eps: float
    data_set: int
    row: Row
    errors: dict[str, float]


@dataclass(frozen=True)
class Study:
    """All trials, by noise level, data set and tool."""

    trials: tuple[Trial, ...]
    budget: float

    @property
    def levels(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(t.eps for t in self.trials))

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.row.tool for t in self.trials))

    def of(self, tool: str, eps: float) -> tuple[Trial, ...]:
        return tuple(t for t in self.trials if t.row.tool == tool and t.eps == eps)

    def cell(self, tool: str, eps: float, parameter: str) -> Cell:
        """One point of Fig. 3."""
        trials = self.of(tool, eps)
        errors = np.array([t.errors[parameter] for t in trials if t.errors])
        count = len(errors)
        mean = float(errors.mean()) if count else np.nan
        std = float(errors.std(ddof=1)) if count > 1 else np.nan
        return Cell(mean, std, std / np.sqrt(count) if count else np.nan, count, len(trials))

    def behind(self, tool: str = "picardfit", paired: bool = False) -> list[str]:
        """Cells of Fig. 3 in which another tool's mean error is smaller by more than one standard error.

        The standard error is that of this tool's cell, over the data sets that both answered. `paired`: that of the
        difference data set by data set, which is sharper, and finds even the last digits of two searches that end at
        the same optimum.
        """
        found = []
        for eps, other, parameter in product(self.levels, self.tools, lorenz.TRUTH):
            pairs = [
                (mine.errors[parameter], theirs.errors[parameter])
                for mine, theirs in zip(self.of(tool, eps), self.of(other, eps), strict=True)
                if mine.errors and theirs.errors
            ]
            if other == tool or len(pairs) < 2:
                continue
            mine, theirs = np.array(pairs).T
            gap = mine - theirs
            spread = (gap if paired else mine).std(ddof=1) / np.sqrt(len(gap))
            if gap.mean() > spread:
                found.append(f"eps {eps:g}, {parameter}: behind {other} by {gap.mean():.2g} (± {spread:.2g})")
        return found

    def __str__(self) -> str:
        titles = [f"{name} {eps:g}" for name in lorenz.TRUTH for eps in self.levels]
        lines = [
            "| tool | " + " | ".join(titles) + " | seconds | success |",
            "|---" * (len(titles) + 3) + "|",
        ]
        for tool in self.tools:
            cells = [self.cell(tool, eps, name) for name in lorenz.TRUTH for eps in self.levels]
            texts = [f"{c.mean:.3f} ± {c.std:.3f}" if c.answers else "" for c in cells]
            mine = [t.row for t in self.trials if t.row.tool == tool]
            times = [r.seconds for r in mine if np.isfinite(r.seconds)]
            seconds = f"{np.median(times):.2f}" if times else ""
            hits = f"{sum(r.success for r in mine)} of {len(mine)}"
            lines.append(f"| {tool} | " + " | ".join([*texts, seconds, hits]) + " |")
        return "\n".join(
            [*lines, f"Mean absolute relative error ± standard deviation; {self.budget:g} s a tool."]
        )


def study(
    eps_levels: Iterable[float] = LEVELS,
    initial_states: int | Sequence[Sequence[float]] = 10,
    tools: Iterable[str] | None = None,
    seed: int = 0,
    budget: float = 30.0,
    *,
    eps_is: Spread | str = Spread.STD,
    executor: Executor | None = None,
) -> Study:
    """Every tool on Lorenz data of every noise level and initial state, each data set from its own random start.

    `initial_states`: how many to draw (standard normal, the same for all levels), or the states themselves.
    `budget`: seconds for each tool and data set; the paper gave its genetic algorithm 300.
    """
    states = _states(initial_states)
    names = tuple(TOOLS if tools is None else tools)
    jobs = list(product(tuple(eps_levels), range(len(states))))
    work = partial(_one_data_set, states=states, tools=names, seed=seed, budget=budget, eps_is=eps_is)
    parts = map(work, jobs) if executor is None else executor.map(work, jobs)
    return Study(tuple(trial for part in parts for trial in part), float(budget))


def data_set(
    seed: int, number: int, eps: float, initial: Sequence[float] | None, eps_is: Spread | str
) -> Problem:
    """Data set `number` of the study: noise and initial state depend on seed and number only."""
    return lorenz.generate(seed=1000 * seed + number, eps=eps, eps_is=eps_is, initial=initial)


def _one_data_set(job: tuple[float, int], states, tools, seed: int, budget: float, eps_is) -> list[Trial]:
    eps, number = job
    problem = data_set(seed, number, eps, states[number], eps_is)
    truth = problem.truth["parameters"]
    found = run(problem, tools, seed=1000 * seed + number, budget=budget)
    return [
        Trial(eps, number, row, {n: abs(v - truth[n]) / abs(truth[n]) for n, v in row.parameters.items()})
        for row in found.rows
    ]


def _states(given: int | Sequence[Sequence[float]]) -> list:
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 1:
            raise UsageError(f"initial_states={given} leaves nothing to compare: give at least 1.")
        return [None] * given
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or len(given) == 0:
        raise UsageError(
            f"initial_states={given!r} is not understood: give a number, or a list of states (x1, x2, x3)."
        )
    return list(given)
