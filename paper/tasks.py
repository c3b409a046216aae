"""One fit of one simulated data set as a task: small, JSON-able, and the same wherever and whenever it runs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

import picardfit as pf
from paper.bounds import relative_errors
from picardfit.problems.common import around, standard_deviation
from picardfit.solvers.iterate import Method
from picardfit.starts import make_start
from picardfit.values import border_from

ALGORITHM_4, DEFAULT, BOUND = "algorithm 4", "default", "bound"
MARKS = (300, 1000, 3000, 10_000, 20_000)  # steps at which Algorithm 4 is looked at
NEAR = (0.5, 1.5)  # factors of the truth between which a start called "near" is drawn
FINE = 0.5  # segments of the mesh of the Cramér–Rao values, as a part of the paper's T


@dataclass(frozen=True)
class Task:
    """What to simulate and how to fit it.

    `data`: arguments of the problem's `generate`; `bounds` may be "implied" (the module's IMPLIED_BOUNDS).
    `fixed`: parameters held at a value. `settings`: `continuity`, `order`, `steps` of Algorithm 4; `start`:
    parameter values, or "near" for values drawn within 50 % of the truth.
    """

    problem: str
    method: str
    data: Mapping[str, object]
    settings: Mapping[str, object] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The task as text, which names it in a ledger."""
        parts = [self.problem, self.method, dict(self.data), dict(self.settings), dict(self.fixed)]
        return json.dumps(parts, sort_keys=True)

    def generate(self) -> pf.Problem:
        """The problem with its simulated data."""
        module, arguments = getattr(pf.problems, self.problem), dict(self.data)
        if arguments.get("bounds") == "implied":
            arguments["bounds"] = dict(module.IMPLIED_BOUNDS)
        if self.fixed:
            arguments["bounds"] = {**(arguments.get("bounds") or module.BOUNDS), **self.fixed}
        return module.generate(**arguments)


def solve(task: Task) -> dict:
    """The record of a task: what was estimated, its loss by independent integration, and what it cost."""
    problem = task.generate()
    if task.method == BOUND:
        module = getattr(pf.problems, task.problem)
        sd = standard_deviation(task.data["eps"], task.data["eps_is"])
        return relative_errors(problem, sd, FINE * module.SETTINGS.segment_length)
    began = time.process_time()
    found = _descend(task, problem) if task.method == ALGORITHM_4 else _fit(task, problem)
    found["seconds"] = time.process_time() - began
    truth = problem.truth
    settled = not task.fixed
    found["loss_at_truth"] = problem.loss(truth["parameters"], truth["initial"]) if settled else math.nan
    return found


def _fit(task: Task, problem: pf.Problem) -> dict:
    """The default method as a user calls it."""
    fit = pf.fit(problem, start=_start(task, problem))
    return {
        "parameters": fit.parameters,
        "initial": fit.initial_states,
        "loss": fit.loss,
        "status": fit.status.name,
        "iterations": fit.iterations,
        "at_bound": list(fit.certificate.at_bound) if fit.certificate else [],
    }


def _descend(task: Task, problem: pf.Problem) -> dict:
    """Algorithm 4 step by step, with a look at it on the way (`marks`: steps -> parameters and loss)."""
    steps = int(task.settings["steps"])
    method = algorithm_4(task, steps)
    given = border_from(problem, _start(task, problem), None, missing="nan")
    state = method.init(problem, make_start(problem, given, None))
    marks, done = {}, 0
    while state.status is None and done < steps:
        state, done = method.step(state), done + 1
        if done in MARKS and done < steps:
            marks[str(done)] = _look(problem, state.place.border)
    return {
        **_look(problem, state.place.border),
        "marks": marks,
        "slope": state.slope,
        "jump": state.jump,
        "status": "ITERATION_LIMIT" if state.status is None else state.status.name,
        "iterations": done,
    }


def algorithm_4(task: Task, steps: int) -> Method:
    """Algorithm 4 at the paper's settings for the problem, or those of the task."""
    printed = getattr(pf.problems, task.problem).SETTINGS
    return pf.ExtendedGradientContractMultiplier(
        order=int(task.settings.get("order", printed.order)),
        continuity=float(task.settings.get("continuity", printed.continuity)),
        segment_length=printed.segment_length,
        max_iterations=steps,
    )


def _look(problem: pf.Problem, border: np.ndarray) -> dict:
    """Parameters, initial states, and the loss that a simulation from them has."""
    unknowns = problem.unknowns
    parameters = dict(zip(problem.parameters, unknowns.parameters(border)[0].tolist(), strict=True))
    rows = unknowns.initial(border)[0].tolist()
    initial = {
        name: dict(zip(problem.model.states, row, strict=True))
        for name, row in zip(problem.names, rows, strict=True)
    }
    free = {n: v for n, v in parameters.items() if problem.parameters[n].fixed is None}
    return {"parameters": parameters, "initial": initial, "loss": problem.loss(free, initial)}


def _start(task: Task, problem: pf.Problem) -> dict[str, float] | None:
    """Parameter values to begin with; None leaves them to picardfit (a regression on the smoothed data)."""
    wanted = task.settings.get("start")
    if wanted != "near":
        return dict(wanted) if wanted else None
    truth = {n: problem.truth["parameters"][n] for n in problem.model.parameters if n not in task.fixed}
    rng = np.random.default_rng([int(task.data["seed"]), 7])
    return {name: float(rng.uniform(low, high)) for name, (low, high) in around(truth, NEAR).items()}


@dataclass(frozen=True)
class Results:
    """Records by task."""

    records: Mapping[str, dict]

    def __getitem__(self, task: Task) -> dict:
        return self.records[task.key]

    def errors(self, tasks: Sequence[Task], names: Sequence[str], truth: Mapping[str, float]) -> np.ndarray:
        """(tasks, names): relative errors of the estimates."""
        true = np.array([truth[n] for n in names])
        found = np.array([[self[t]["parameters"].get(n, math.nan) for n in names] for t in tasks])
        return np.abs(found - true) / np.abs(true)

    def bounds(self, tasks: Sequence[Task], names: Sequence[str], kind: str = "likelihood") -> np.ndarray:
        """(tasks, names): Cramér–Rao values of the relative errors."""
        return np.array(
            [[self[replace(t, method=BOUND, settings={})][kind][n] for n in names] for t in tasks]
        )

    def losses(self, tasks: Sequence[Task]) -> tuple[np.ndarray, np.ndarray]:
        """(tasks,): the loss of the estimates and the loss at the truth."""
        return (
            np.array([self[t]["loss"] for t in tasks], float),
            np.array([self[t]["loss_at_truth"] for t in tasks], float),
        )

    def unconverged(self, tasks: Sequence[Task]) -> int:
        """How many fits do not call themselves a success."""
        return sum(not pf.Status[self[t]["status"]].success for t in tasks)


def bound_of(task: Task) -> Task:
    """The task that computes the Cramér–Rao value of the same data."""
    return replace(task, method=BOUND, settings={})
