"""Problems whose equations jump as a state changes, with smooth switches in place of the jumps.

A search needs slopes, and a path that crosses a jump has a kink at a time that depends on the unknowns. So every search
begins on a problem with wide switches (`model/state_jumps.py`), which guide it over the jumps, and goes on to narrow
ones (docs/decisions/027). The answer is that of the narrowest; a notice says how far its objective is from that of the
equations as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import sympy

from picardfit.errors import Status
from picardfit.evidence.certificate import path_value
from picardfit.evidence.optima import Vicinity
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.state_jumps import smoothable
from picardfit.problem.problem import Problem, Start
from picardfit.search.searches import (
    Request,
    Searches,
    begin,
    ending_of,
    narrowed,
    on_problem,
    parts_of,
    reporter,
    start_at,
)
from picardfit.solvers.loop import Outcome, Progress, iterate


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


def smoothed(request: Request, news: Callable[[Progress], None] | None) -> tuple[Request, Searches | None]:
    """The request with smooth switches in place of jumps of the equations, and the searches that decided how narrow.

    That is the first search that converges; all later ones must reach the same width.
    """
    if not request.method.exact or not request.problem.model.state_jumps:
        return request, None
    stages = with_smooth_switches(request.problem, start_at(request, (0, None)))
    if not stages:
        return request, None
    request, endings = replace(request, problem=stages[-1], stages=stages), {}
    for index, part in enumerate(parts_of(request, min(request.policy.failures, request.policy.most))):
        with np.errstate(all="ignore"):
            begun = begin(request, start_at(request, (index, part)))
            ran = iterate(request.method, begun, reporter(request, index, news))
        outcome, reached = settled(request, ran.outcome(request.method))
        if reached:
            request = replace(request, problem=stages[reached - 1], stages=stages[:reached])
        elif outcome.solution is not None:
            outcome = replace(outcome, solution=on_problem(outcome.solution, request.problem))
        endings[index] = ending_of(outcome)
        if reached or outcome.status is Status.INTERRUPTED:
            break
    return request, Searches(endings, {}, outcome.status is Status.INTERRUPTED)


def settled(request: Request, outcome: Outcome, narrowing: Narrowing = NARROWING) -> tuple[Outcome, int]:
    """The outcome with so narrow switches that its optimum hardly moves any more, or the narrowest that it can reach.

    And how many stages that takes, none where the search failed.
    """
    stages, reached = request.stages, int(outcome.status.success)
    while 0 < reached < len(stages):
        pair = replace(request, stages=stages[reached - 1 : reached + 1])
        narrower = narrowed(pair, outcome)
        if narrower.solution is None or outcome.solution is None or not narrower.status.success:
            break
        before, outcome, reached = outcome.solution, narrower, reached + 1
        there = Vicinity(narrower.solution, path_value(narrower.solution))
        if reached >= narrowing.enough and there.is_near(before.unknowns):
            break
    return outcome, reached
