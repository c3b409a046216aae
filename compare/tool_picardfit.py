"""picardfit itself, from the common start."""

from __future__ import annotations

from importlib import import_module

from compare.task import Answer, Task
from picardfit.fit import fit
from picardfit.search.policy import SearchPolicy

for _name in ("integrate", "linalg.lapack", "optimize", "special"):  # a fit imports them when it needs them,
    import_module(f"scipy.{_name}")  # and imports are not counted for any tool


def solve(task: Task, policy: SearchPolicy | None = None) -> Answer:
    layout = task.problem.layout
    unknowns = task.at(task.first)
    parameters = layout.parameters(unknowns)
    initial = layout.initial(unknowns)[0]
    start = {
        name: dict(zip(task.problem.names, parameters[:, k].tolist(), strict=True))
        if k in layout.local_parameters
        else float(parameters[0, k])
        for k, name in enumerate(layout.names)
    }
    first = {
        name: dict(zip(task.problem.model.states, row.tolist(), strict=True))
        for name, row in zip(task.problem.names, initial, strict=True)
    }
    found = fit(task.problem, start=start, start_initial=first, seed=task.seed, policy=policy)
    vector = task.first if found.solution is None else task.pack(found.solution.unknowns)
    return Answer(vector, found.success, found.message)
