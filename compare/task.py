"""What every tool is given, and the answer it gives back.

All tools search the same vector z of unknowns: initial states and local parameters experiment by experiment, then
the parameters shared by all; internal coordinates (the logarithm of a log parameter).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.problem.problem import Problem, Start
from picardfit.search.starts import search_box
from picardfit.simulation.trajectories import Run, observed, trajectories

BAD = 1e3  # residual of a simulation that fails, in units of the spread of the data


class Unable(Exception):
    """The tool cannot treat this problem; the text is the sentence of its row."""


class OutOfTime(Exception):
    """The budget is used up."""


@dataclass(frozen=True)
class Answer:
    """Where a tool ended; `converged` is its own opinion."""

    vector: np.ndarray  # (unknowns,)
    converged: bool
    message: str


@dataclass(frozen=True, eq=False)
class Task:
    """A problem with a start, a seed and a budget in processor seconds.

    `at` and `pack` go between z and the unknowns.
    """

    problem: Problem
    start: Start
    seed: int
    budget: float

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Experiment and column of every unknown."""
        layout = self.problem.layout
        own = np.argwhere(layout.exists[:, : layout.local])
        shared = np.flatnonzero(layout.exists[0, layout.local :]) + layout.local
        rows = np.concatenate([own[:, 0], np.zeros(len(shared), int)])
        return rows, np.concatenate([own[:, 1], shared])

    @property
    def log(self) -> np.ndarray:
        """(experiments, width) bool: unknowns that are logarithms."""
        if self.problem.layout.scales.logit.any():
            raise Unable(
                "it is given values and logarithms, and this problem has parameters on the logit scale"
            )
        return self.problem.layout.log

    def pack(self, unknowns: np.ndarray) -> np.ndarray:
        return unknowns[self.places]

    def at(self, vector: np.ndarray) -> np.ndarray:
        """The unknowns (experiments, width) of a vector."""
        unknowns = self.start.unknowns.copy()
        unknowns[self.places] = vector
        local = self.problem.layout.local
        unknowns[:, local:] = unknowns[:1, local:]
        return unknowns

    @cached_property
    def first(self) -> np.ndarray:
        return np.clip(self.pack(self.start.unknowns), self.lower, self.upper)

    @property
    def lower(self) -> np.ndarray:
        return self.pack(self.problem.layout.lower)

    @property
    def upper(self) -> np.ndarray:
        return self.pack(self.problem.layout.upper)

    @cached_property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Finite bounds for tools that need them."""
        low, high = search_box(self.problem.layout, self.start.unknowns)
        return self.pack(low), self.pack(high)

    @cached_property
    def size(self) -> np.ndarray:
        """By how much each unknown may reasonably move."""
        return self.pack(self.problem.layout.size(self.start.unknowns))

    @cached_property
    def wall(self) -> np.ndarray:
        """(observables,): the largest residual."""
        scale = self.problem.output_scale
        return BAD * np.where(scale > 0, scale, 1.0)

    def residuals(self, vector: np.ndarray, rtol: float) -> np.ndarray:
        """Model minus data, (measurements,), by simulation with LSODA."""
        problem = self.problem
        objective, layout = problem.samples.data, problem.layout
        measured = np.isfinite(objective)
        unknowns = self.at(vector)
        parameters, initial = layout.model_values(unknowns), layout.initial(unknowns)[0]
        runs = [
            Run(one.t0, initial[e], parameters[e], one.inputs, one.times, problem.breaks(e))
            for e, one in enumerate(problem.experiments)
        ]
        solved = trajectories(problem.model, runs, rtol)
        blocks = [
            np.full((len(run.times), len(problem.model.observables)), np.nan)
            if states is None
            else observed(problem.model, run, states)
            for run, states in zip(runs, solved, strict=True)
        ]
        gap = np.concatenate(blocks) - np.where(measured, objective, 0.0)
        wall = self.wall
        gap = np.where(np.isfinite(gap), np.clip(gap, -wall, wall), wall)
        return gap[measured]

    def loss(self, vector: np.ndarray, rtol: float) -> float:
        """The paper's L_ls by simulation."""
        residuals = self.residuals(vector, rtol)
        return 0.5 * float(residuals @ residuals) / len(self.problem.samples.times)


class Watch:
    """Counts processor time, which does not depend on who else uses the machine, and remembers the best point."""

    def __init__(self, budget: float) -> None:
        self.end = time.process_time() + budget
        self.best: np.ndarray | None = None
        self.value = np.inf
        self.calls = 0

    @property
    def over(self) -> bool:
        return time.process_time() > self.end

    def tick(self, vector: np.ndarray, value: float) -> float:
        """Note a value; OutOfTime when the budget is used up."""
        self.calls += 1
        if value < self.value:
            self.best, self.value = np.array(vector, float), value
        if self.over:
            raise OutOfTime
        return value


def until_over(watch: Watch, task: Task, search: Callable[[], Answer]) -> Answer:
    """The answer of a search, or the best point it had asked for when its time was up."""
    try:
        return search()
    except OutOfTime:
        best = task.first if watch.best is None else watch.best
        return Answer(best, False, f"stopped when the budget of {task.budget:g} s was used up")
