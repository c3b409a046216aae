"""Problems whose equations jump as a state changes, with smooth switches in place of the jumps.

A search needs slopes, and a path that crosses a jump has a kink at a time that depends on the unknowns. So every search
begins on a problem with wide switches (`model/state_jumps.py`), which guide it over the jumps, and goes on to narrow
ones (docs/decisions/027). The answer is that of the narrowest; a notice says how far its objective is from that of the
equations as written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import sympy

from picardfit.collocation.discretisation import Discretisation
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.state_jumps import smoothable
from picardfit.problem.problem import Problem, Start
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class Narrowing:
    """The widths of smooth switches, in parts of the range of what changes its sign there along the first path."""

    widths: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4)  # chosen: half a decade at a time
    enough: int = (
        5  # of them, after which a search ends where its optimum moves by less than `SameOptimum.vicinity`
    )


NARROWING = Narrowing()


def with_smooth_switches(
    problem: Problem, start: Start, settings: Narrowing = NARROWING
) -> tuple[Problem, ...]:
    """The problem with wider and then narrower switches; nothing where no formula jumps, or one has no smooth form.

    Problems with events keep their jumps.
    """
    model = problem.model
    if problem.timed is not None or not model.state_jumps or not isinstance(model.rhs, BatchedMap):
        return ()
    ranges = {
        formula: _range(problem, difference, start)
        for formula, difference in smoothable(model.rhs, model.state_jumps).items()
    }
    if not ranges:
        return ()
    every = [{formula: part * size for formula, size in ranges.items()} for part in settings.widths]
    return tuple(replace(problem, model=model.smoothed(widths)) for widths in every)


def _range(problem: Problem, difference: sympy.Expr, start: Start) -> float:
    """How far an expression of states ranges along the first path; its size where it is constant, or 1."""
    model = problem.model
    expression = BatchedMap((difference,), model.states, model.parameters, model.inputs)
    params = problem.layout.model_values(start.unknowns)
    found = []
    with np.errstate(all="ignore"):
        for e, (times, states) in enumerate(start.tables):
            inputs = problem.experiments[e].inputs_at(model.inputs, times)
            own = states[:, : len(model.states)]
            found.append(expression.value(times, own, np.tile(params[e], (len(times), 1)), inputs)[:, 0])
    values = np.concatenate(found)
    values = values[np.isfinite(values)]
    sizes = (float(np.ptp(values)), float(np.abs(values).max())) if len(values) else ()
    return next((one for one in sizes if one > 0), 1.0)


def on_problem(solution: Solution, problem: Problem) -> Solution:
    """The same path as one of another problem with the same unknowns and states."""
    return replace(solution, system=Discretisation(problem, solution.system.mesh))
