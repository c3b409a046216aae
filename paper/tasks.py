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
from paper.side_by_side import descend
from picardfit.examples.common import around, standard_deviation
from picardfit.problem.named_values import unknowns_from
from picardfit.search.starts import make_start
from picardfit.solvers.loop import Method

ALGORITHM_4, DEFAULT, BOUND = "algorithm 4", "default", "bound"
LIKELIHOOD, TOOL = "likelihood", "tool"  # the default method with the paper's noise; another tool
MARKS = (300, 1000, 3000, 10_000, 20_000)  # steps at which Algorithm 4 is looked at
SLOPES = (1e-2, 1e-3, 1e-4)  # norms of its gradient by the parameters at which it is looked at
SEGMENTS, LARGEST_HERD = 4000, 60  # of data sets that go side by side
NEAR = (0.5, 1.5)  # factors of the truth between which a start called "near" is drawn
FINE = 0.5  # segments of the mesh of the Cramér–Rao values, as a part of the paper's T


@dataclass(frozen=True)
class Task:
    """What to simulate and how to fit it.

    `data`: arguments of the problem's `generate`; `bounds` may be "implied" (the module's IMPLIED_BOUNDS).
    `fixed`: parameters held at a value. `settings`: `continuity`, `order`, `steps` of Algorithm 4; `start`:
    parameter values, "near" for values drawn within 50 % of the truth, "truth", or "optimum" for the least-squares
    optimum with its initial states; `tool` and `budget` of another tool.
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
        module, arguments = getattr(pf.examples, self.problem), dict(self.data)
        if arguments.get("bounds") == "implied":
            arguments["bounds"] = dict(module.IMPLIED_BOUNDS)
        if self.fixed:
            arguments["bounds"] = {**(arguments.get("bounds") or module.BOUNDS), **self.fixed}
        return module.generate(**arguments)


def solve(tasks: Sequence[Task]) -> list[dict]:
    """The records of tasks that `together` put into one piece of work."""
    if tasks[0].method == ALGORITHM_4:
        return _descend(tasks)
    return [solve_one(task) for task in tasks]


def solve_one(task: Task) -> dict:
    """The record of a task: what was estimated, its loss by independent integration, and what it cost."""
    if task.method == ALGORITHM_4:
        return _descend([task])[0]
    problem = task.generate()
    if task.method == BOUND:
        module = getattr(pf.examples, task.problem)
        return relative_errors(problem, _sd(task), FINE * module.SETTINGS.segment_length)
    if task.method == TOOL:
        return _of_tool(task, problem)
    began = time.process_time()
    found = _fit(task, problem)
    return found | {"seconds": time.process_time() - began} | _at_truth(task, problem)


def together(tasks: Sequence[Task]) -> list[list[Task]]:
    """The pieces of work: data sets of one shape go through Algorithm 4 side by side, all else is done singly."""
    herds: dict[str, list[Task]] = {}
    for task in tasks:
        if task.method == ALGORITHM_4:
            herds.setdefault(_shape(task), []).append(task)
    pieces = []
    for herd in herds.values():
        size = _herd_size(herd[0])
        pieces += [herd[k : k + size] for k in range(0, len(herd), size)]
    return pieces + [[task] for task in tasks if task.method != ALGORITHM_4]


def _shape(task: Task) -> str:
    """What data sets must have in common to go side by side."""
    data = {n: v for n, v in task.data.items() if n not in ("seed", "eps", "eps_is", "bounds", "initial")}
    settings = {n: v for n, v in task.settings.items() if n not in ("continuity", "start")}
    return json.dumps([task.problem, data, settings, dict(task.fixed)], sort_keys=True)


def _herd_size(task: Task) -> int:
    """How many data sets side by side: enough to hide the cost of a call, few enough for the cache and the ledger."""
    problem = task.generate()
    length = getattr(pf.examples, task.problem).SETTINGS.segment_length
    segments = sum(np.ptp(problem.span(e)) / length for e in range(len(problem.experiments)))
    return int(np.clip(SEGMENTS / segments, 1, LARGEST_HERD))


def _sd(task: Task) -> float:
    return standard_deviation(task.data["eps"], task.data["eps_is"])


def _at_truth(task: Task, problem: pf.Problem) -> dict:
    """What the data cost at the truth; NaN where a fixed parameter forbids it."""
    truth = problem.truth
    if task.fixed:
        return {"loss_at_truth": math.nan}
    found = {"loss_at_truth": problem.loss(truth["parameters"], truth["initial"])}
    if task.method == LIKELIHOOD:
        found["nllh_at_truth"] = _with_noise(task, problem).nllh(truth["parameters"], truth["initial"])
    return found


def _with_noise(task: Task, problem: pf.Problem) -> pf.Problem:
    """The problem with the noise that made its data: one n for all outputs of an instant."""
    return replace(problem, noise=pf.Noise(additive=_sd(task), proportional=_sd(task), common=True))


def _fit(task: Task, problem: pf.Problem) -> dict:
    """The default method as a user calls it, by least squares or with the paper's noise model."""
    if task.method == LIKELIHOOD:
        problem = _with_noise(task, problem)
    fit = pf.fit(problem, start=start_of(task, problem)[0])
    found = {
        "parameters": fit.parameters,
        "initial": fit.initial_states,
        "loss": fit.loss,
        "status": fit.status.name,
        "iterations": fit.iterations,
        "at_bound": list(fit.certificate.at_bound) if fit.certificate else [],
    }
    return found | ({"nllh": fit.nllh} if task.method == LIKELIHOOD else {})


def _of_tool(task: Task, problem: pf.Problem) -> dict:
    """Another tool on the data, from a start drawn in the bounds (compare)."""
    from compare import run

    tool, budget = task.settings["tool"], float(task.settings["budget"])
    row = run(problem, [tool], seed=int(task.data["seed"]), budget=budget).rows[0]
    return {
        "parameters": row.parameters,
        "initial": row.initial_states,
        "loss": row.loss,
        "seconds": row.seconds,
        "message": row.sentence,
        "version": row.version,
        **_at_truth(task, problem),
    }


def _descend(tasks: Sequence[Task]) -> list[dict]:
    """Algorithm 4 on data sets side by side, with a look at each on the way: parameters, loss, steps.

    `marks`: after so many steps, or when the gradient by the parameters is first that small ("slope 0.01").
    `seconds` is each data set's share.
    """
    steps = int(tasks[0].settings["steps"])
    problems, states = [task.generate() for task in tasks], []
    began = time.process_time()
    for task, problem in zip(tasks, problems, strict=True):
        given = unknowns_from(problem, *start_of(task, problem), missing="nan")
        states.append(algorithm_4(task, steps).init(problem, make_start(problem, given, None)))
    marks: list[dict] = [{} for _ in tasks]

    def look(number: int, name: str, done: int, unknowns: np.ndarray) -> None:
        marks[number][name] = {**_look(problems[number], unknowns), "iterations": done}

    ends = descend(states, steps, look, MARKS, SLOPES)
    seconds = (time.process_time() - began) / len(tasks)
    return [
        {
            **_look(problem, end.unknowns),
            "marks": seen,
            "slope": end.slope,
            "jump": end.jump,
            "status": "ITERATION_LIMIT" if end.status is None else end.status.name,
            "iterations": end.iterations,
            "seconds": seconds,
            **_at_truth(task, problem),
        }
        for task, problem, end, seen in zip(tasks, problems, ends, marks, strict=True)
    ]


def algorithm_4(task: Task, steps: int) -> Method:
    """Algorithm 4 at the paper's settings for the problem, or those of the task."""
    printed = getattr(pf.examples, task.problem).SETTINGS
    return pf.ExtendedGradientContractMultiplier(
        order=int(task.settings.get("order", printed.order)),
        continuity=float(task.settings.get("continuity", printed.continuity)),
        segment_length=printed.segment_length,
        max_iterations=steps,
    )


def _look(problem: pf.Problem, unknowns: np.ndarray) -> dict:
    """Parameters, initial states, and the loss that a simulation from them has."""
    layout = problem.layout
    parameters = dict(zip(problem.parameters, layout.parameters(unknowns)[0].tolist(), strict=True))
    rows = layout.initial(unknowns)[0].tolist()
    initial = {
        name: dict(zip(problem.model.states, row, strict=True))
        for name, row in zip(problem.names, rows, strict=True)
    }
    free = {n: v for n, v in parameters.items() if problem.parameters[n].fixed is None}
    return {"parameters": parameters, "initial": initial, "loss": problem.loss(free, initial)}


def start_of(task: Task, problem: pf.Problem) -> tuple[dict[str, float] | None, dict | None]:
    """Parameters and initial states to begin with; None leaves them to picardfit (a regression on the data)."""
    wanted = task.settings.get("start")
    truth = {n: problem.truth["parameters"][n] for n in problem.model.parameters if n not in task.fixed}
    if wanted == "truth":
        return truth, None
    if wanted == "optimum":
        best = pf.fit(problem)
        return best.parameters, best.initial_states
    if wanted != "near":
        return (dict(wanted) if wanted else None), None
    rng = np.random.default_rng([int(task.data["seed"]), 7])
    return {name: float(rng.uniform(low, high)) for name, (low, high) in around(truth, NEAR).items()}, None


@dataclass(frozen=True)
class Results:
    """Records by task."""

    records: Mapping[str, dict]

    def __getitem__(self, task: Task) -> dict:
        return self.records[task.key]

    def has(self, task: Task) -> bool:
        return task.key in self.records

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
