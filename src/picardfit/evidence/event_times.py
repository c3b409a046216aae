"""When the events of a solution happen, and how well the data determine that."""

from __future__ import annotations

from typing import NamedTuple

from picardfit.collocation.condensing import start_derivatives
from picardfit.collocation.event_links import of_knots
from picardfit.collocation.linearisation import linearise
from picardfit.evidence.fisher import information
from picardfit.solvers.loop import Solution


class EventTime(NamedTuple):
    """An event of an experiment, by the clock of its path."""

    experiment: int
    event: int  # the first one that fires there
    time: float
    error: float  # its standard error


def event_times(solution: Solution, variance: float) -> list[EventTime]:
    """The events of a solution with their standard errors; `variance`: what one unit of the information is worth.

    The time is a state of the path, the clock, whose derivative d by the unknowns gives the variance d C d', with their
    covariance C.
    """
    system, found = solution.system, information(solution)
    links, owner, entries = of_knots(system.mesh.schedule, system.mesh.inner_ranges, system.mesh.knots)
    slopes = start_derivatives(system, linearise(system, solution.point).quadratic)
    clock, times = len(system.problem.solved_model.states) - 1, []
    for e, link, one in zip(owner, links, entries, strict=True):
        if one.events:
            segment = int(system.mesh.linked[link]) + 1
            error = float(found.spread(e, slopes[segment, clock], variance))
            times.append(EventTime(e, one.events[0], float(solution.states[segment, clock]), error))
    return times
