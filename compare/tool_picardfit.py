"""picardfit itself, from the common start."""

from __future__ import annotations

from importlib import import_module

from compare.task import Answer, Task
from picardfit.search.estimate import fit

for _name in ("integrate", "linalg.lapack", "optimize", "special"):  # a fit imports them when it needs them,
    import_module(f"scipy.{_name}")  # and imports are not counted for any tool


def solve(task: Task) -> Answer:
    unknowns = task.problem.unknowns
    border = task.at(task.first)
    parameters = unknowns.parameters(border)
    initial = unknowns.initial(border)[0]
    start = {
        name: dict(zip(task.problem.names, parameters[:, k].tolist(), strict=True))
        if k in unknowns.local_parameters
        else float(parameters[0, k])
        for k, name in enumerate(unknowns.names)
    }
    first = {
        name: dict(zip(task.problem.model.states, row.tolist(), strict=True))
        for name, row in zip(task.problem.names, initial, strict=True)
    }
    found = fit(task.problem, start=start, start_initial=first, seed=task.seed)
    vector = task.first if found.solution is None else task.pack(found.solution.border)
    return Answer(vector, found.success, found.message)
