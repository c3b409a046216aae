"""Times at which starting points are tabulated, and what doses do to the states between them.

A dose has two points of the grid, just before it and at it, so that interpolation along the grid keeps the jump.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from picardfit.model.added_inputs import INFUSION
from picardfit.model.doses import Jumps
from picardfit.problem.problem import Problem


class Arrivals(NamedTuple):
    """Jumps of the states on arrival at points of the grids: x+ = keep x- + add."""

    there: np.ndarray  # (experiments, points) bool
    keep: np.ndarray  # (experiments, points, states)
    add: np.ndarray  # (experiments, points, states)


def start_grids(problem: Problem, steps: int) -> np.ndarray:
    """(experiments, points) times: half of them even, half following the samples, and those of doses."""
    marks = [_marks(problem, e) for e in range(len(problem.experiments))]
    most = max(map(len, marks))
    return np.stack([_grid(problem, e, steps, own, most) for e, own in enumerate(marks)])


def _marks(problem: Problem, experiment: int) -> np.ndarray:
    """Times inside an experiment where a dose is given, just before these, and where infusions begin and end."""
    start, stop = problem.span(experiment)
    signals, jumps = problem.experiments[experiment].signals, problem.jumps[experiment]
    found = [t for name, one in signals.items() if name.startswith(INFUSION) for t in one.breakpoints]
    if jumps is not None:
        found += [*jumps.times, *np.nextafter(jumps.times, start)]
    times = np.unique(np.array(found, float))
    return times[(times > start) & (times < stop)]


def _grid(problem: Problem, experiment: int, steps: int, marks: np.ndarray, most: int) -> np.ndarray:
    """(steps + 1 + most,): the marks, even times, and times that follow the samples, as for logarithmic ones."""
    start, stop = problem.span(experiment)
    if stop <= start:
        return np.full(steps + 1 + most, start)
    times = np.unique(np.concatenate([[start], problem.experiments[experiment].times, [stop]]))
    even = np.linspace(start, stop, steps // 2 + 1 + most - len(marks))
    sampled = np.interp(np.linspace(0, len(times) - 1, steps // 2 + 2)[1:-1], np.arange(len(times)), times)
    return np.sort(np.concatenate([even, sampled, marks]))


def arrivals(problem: Problem, grids: np.ndarray) -> Arrivals | None:
    """The jumps at points of the grids; None if no experiment has any."""
    shape = (*grids.shape, len(problem.solved_model.states))
    found = Arrivals(np.zeros(grids.shape, bool), np.ones(shape), np.zeros(shape))
    for e, jumps in enumerate(problem.jumps):
        inside = None if jumps is None else jumps.part(jumps.times <= grids[e, -1])
        if inside is None:
            continue
        points = np.searchsorted(grids[e], inside.times)
        found.there[e, points], found.keep[e, points], found.add[e, points] = True, inside.keep, inside.add
    return found if found.there.any() else None


def largest_given(problem: Problem) -> np.ndarray:
    """(experiments, 1): the largest total amount that is given to a state of each experiment."""
    totals = np.zeros((len(problem.experiments), 1))
    for e, one in enumerate(problem.experiments):
        sums: dict[str, float] = {}
        for dose in one.doses:
            sums[dose.into] = sums.get(dose.into, 0.0) + float(np.abs(dose.amounts).sum())
        totals[e] = max(sums.values(), default=0.0)
    return totals


def interpolated(
    jumps: Jumps | None,
    state: int,
    begin: tuple[float, float],
    table: tuple[np.ndarray, np.ndarray],
    grid: np.ndarray,
) -> np.ndarray:
    """(points,): a measured state along a grid, linear between its samples but for the doses into it.

    What the doses have given so far is subtracted before interpolation and added again. `begin`: t0, and the state
    then, which counts as a sample of a state with doses.
    """
    times, values = table
    steps = None if jumps is None else jumps.part((jumps.add[:, state] != 0) | (jumps.keep[:, state] == 0))
    if steps is None:
        return np.asarray(np.interp(grid, times, values))
    if times[0] > begin[0]:
        times, values = np.append(begin[0], times), np.append(begin[1], values)
    last = values[np.maximum(np.searchsorted(times, steps.times) - 1, 0)]  # measured before each jump
    change = steps.add[:, state] - np.where(steps.keep[:, state] == 0, last, 0.0)
    given = np.concatenate([[0.0], np.cumsum(change)])
    sofar, there = (given[np.searchsorted(steps.times, t, side="right")] for t in (times, grid))
    return np.asarray(np.interp(grid, times, values - sofar) + there)
