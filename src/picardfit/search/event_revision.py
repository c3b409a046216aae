"""Whether the events of a solution are those of its simulation, and searches that begin on a simulated path.

A search keeps the number and the order of the events, and on which side of each every sample is. Where a simulation at
its solution finds others, a search with those follows, until both agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.evidence.certificate import path_value
from picardfit.model.clock import Timed
from picardfit.problem.problem import Problem, Schedule, Start
from picardfit.search.event_starts import schedule_of, simulated_events
from picardfit.simulation.event_location import EventRun, integrate
from picardfit.simulation.trajectories import Run
from picardfit.solvers.loop import Method, News, Outcome, ignore, run


@dataclass(frozen=True)
class Revision:
    """How often the events of a solution are revised; both are choices."""

    rounds: int = 8
    points: int = 200  # of the table of a simulated path, besides samples and events
    tolerance: float = 1e-9  # relative, of the simulation
    worse: float = 0.5  # of the objective: a search so much above an earlier one is not continued


Signature = tuple[tuple[tuple[tuple[int, ...], int], ...], ...]


def signature(schedule: Schedule) -> Signature:
    """Which events happen, in which order, and after how many samples, of each experiment."""
    return tuple(tuple((one.events, one.before) for one in own) for own in schedule)


def start_along(problem: Problem, unknowns: np.ndarray, settings: Revision = Revision()) -> Start | None:
    """A start on the simulated path of these unknowns, with its events; None where there is no solution."""
    with np.errstate(all="ignore"):
        runs = simulated_events(problem, unknowns, settings.tolerance)
    if any(one.states is None for one in runs):
        return None
    return _start(problem, unknowns, runs, settings)


def _start(problem: Problem, unknowns: np.ndarray, runs: list[EventRun], settings: Revision) -> Start:
    schedule = schedule_of(problem, runs)
    tables = tuple(_table(problem, e, unknowns, schedule, settings) for e in range(len(runs)))
    return Start(unknowns, tables, np.zeros(len(problem.solved_model.states), bool), schedule)


def _table(
    problem: Problem, e: int, unknowns: np.ndarray, schedule: Schedule, settings: Revision
) -> tuple[np.ndarray, np.ndarray]:
    """Times, and states of the fitted model at them; both sides of every event are among them."""
    timed, one, (start, stop) = _timed(problem), problem.experiments[e], problem.span(e)
    knots = np.array([entry.knot for entry in schedule[e]])
    even = np.linspace(start, stop, settings.points)
    close = settings.tolerance * (stop - start)
    times = np.unique(np.concatenate([even, one.times, knots + close, knots - close]))
    times = times[(times >= start) & (times <= stop)]
    params = problem.layout.measured_values(unknowns)
    begin = problem.with_modes(problem.layout.initial(unknowns)[0], params)[e]
    own = params[e, : len(problem.model.parameters)]
    run = Run(start, begin, own, one.signals, times, problem.input_breaks(e), problem.jumps_of_simulated(e))
    states = integrate(timed.simulated, run, settings.tolerance).states
    if states is None:
        states = np.tile(begin, (len(times), 1))
    return times, np.column_stack([states, times])


def _timed(problem: Problem) -> Timed:
    assert problem.timed is not None
    return problem.timed


def revised(
    method: Method, problem: Problem, outcome: Outcome, news: News = ignore, settings: Revision = Revision()
) -> Outcome:
    """The outcome of searches that follow until a simulation finds the events of their solution.

    Events must be the same in number and order. A sample may stay on its side of an event that is close to it, if the
    search with the other side fits the data worse (see evidence/event_sides.py).
    """
    tried: dict[Signature, tuple[bool, float, Outcome]] = {}
    while outcome.solution is not None and len(tried) < settings.rounds:
        solution = outcome.solution
        mine = signature(solution.system.mesh.schedule)
        with np.errstate(all="ignore"):
            runs = simulated_events(problem, solution.unknowns, settings.tolerance)
        if any(one.states is None for one in runs):
            break
        found = schedule_of(problem, runs)
        same = _same_events(found, mine)
        if signature(found) == mine and outcome.status.success:
            tried[mine] = False, path_value(solution), outcome
            break
        tried[mine] = not (outcome.status.success and same), path_value(solution), outcome
        if (
            signature(found) in tried
            or not (outcome.status.success or same)
            or _is_worse(tried, mine, settings)
        ):
            break
        with np.errstate(all="ignore"):
            start = _start(problem, solution.unknowns, runs, settings)
            outcome = _after(outcome, run(method, method.init(problem, start), news))
    if not tried:
        return outcome
    return min(tried.values(), key=lambda one: one[:2])[2]


def _is_worse(
    tried: dict[Signature, tuple[bool, float, Outcome]], mine: Signature, settings: Revision
) -> bool:
    """Whether the latest search is clearly worse than an earlier one with the events of its simulation."""
    before = [value for one, (open_, value, _) in tried.items() if one != mine and not open_]
    return bool(before) and tried[mine][1] > min(before) + settings.worse * abs(min(before))


def _same_events(found: Schedule, mine: Signature) -> bool:
    return [[k for k, _ in own] for own in signature(found)] == [[k for k, _ in own] for own in mine]


def _after(first: Outcome, second: Outcome) -> Outcome:
    """The second outcome with the iterations, seconds and work of both."""
    trace = np.concatenate([first.trace, second.trace])
    seconds, work = first.seconds + second.seconds, first.work + second.work
    return replace(second, trace=trace, iterations=len(trace), seconds=seconds, work=work)
