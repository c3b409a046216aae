"""Whether the events of a solution are those of its simulation, and searches that begin on a simulated path.

A search keeps the number and the order of the events, and on which side of each every sample is. Where a simulation at
its solution finds others, a search with those follows, until both agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.errors import Status
from picardfit.evidence.certificate import path_value
from picardfit.evidence.event_kinks import Kink, held_at, kink_at, kink_beside, solution_of
from picardfit.evidence.event_sides import samples_beside_events
from picardfit.problem.event_runs import event_run, timed_model
from picardfit.problem.problem import Problem, Schedule, Start
from picardfit.search.events.starts import schedule_of, simulated_events
from picardfit.simulation.event_location import EventRun, integrate
from picardfit.solvers.loop import ExactMethod, Method, News, Outcome, Solution, ignore, is_exact, run


@dataclass(frozen=True)
class Revision:
    """How often the events of a solution are revised; all are choices."""

    rounds: int = 8
    flips: int = 8  # searches with a sample on the other side of an event
    kinks: int = 8  # samples at which an event is held in turn
    rounding: float = 1e-9  # relative decrease of the objective that counts as none
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
    one, (start, stop) = problem.experiments[e], problem.span(e)
    knots = np.array([entry.knot for entry in schedule[e]])
    even = np.linspace(start, stop, settings.points)
    close = settings.tolerance * (stop - start)
    times = np.unique(np.concatenate([even, one.times, knots + close, knots - close]))
    times = times[(times >= start) & (times <= stop)]
    run = event_run(problem, e, unknowns, times)
    states = integrate(timed_model(problem).simulated, run, settings.tolerance).states
    if states is None:
        states = np.tile(run.initial, (len(times), 1))
    return times, np.column_stack([states, times])


def revised(
    method: Method, problem: Problem, outcome: Outcome, news: News = ignore, settings: Revision = Revision()
) -> Outcome:
    """The outcome of searches that follow until a simulation finds the events of their solution.

    Events must be the same in number and order. A sample may stay on its side of an event that is close to it, if the
    search with the other side fits the data worse (see evidence/event_sides.py).
    """
    tried: dict[Signature, tuple[bool, float, Outcome]] = {}
    closed: Outcome | None = None  # whose samples a simulation has on the same sides
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
            closed = outcome
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
            outcome = outcome.then(run(method, method.init(problem, start), news))
    if tried:
        outcome = _preferred(list(tried.values()), closed, settings)
    if not is_exact(method):
        return outcome
    outcome = _at_kink(method, problem, outcome, news, settings)
    return _on_better_sides(method, problem, outcome, news, settings)


def _at_kink(
    method: ExactMethod, problem: Problem, outcome: Outcome, news: News, settings: Revision
) -> Outcome:
    """The outcome with an event at a sample that it has passed, where the objective has its minimum there.

    Where the objective falls on the other side of the sample, a search follows with the sample on that side. If none
    settles, the outcome is inaccurate: its samples are not on the sides on which a simulation has them.
    """
    latest, ended = outcome, outcome
    for _ in range(settings.kinks):
        solution = latest.solution
        if solution is None or not latest.status.success:
            break
        with np.errstate(all="ignore"):
            sides = samples_beside_events(solution)
            kink = None if sides is None else kink_beside(solution, sides)
            if not sides:
                return ended if sides is None else latest
            held = None if kink is None else held_at(solution, kink)
            if kink is None or held is None:
                break
            ended = replace(outcome, status=Status.INACCURATE)
            if held.is_minimum:
                there = solution_of(held.lower)
                return ended if _passes_another(there, held.kink) else replace(latest, solution=there)
            latest = latest.then(run(method, method.resume(problem, solution_of(held.lower)), news))
    return ended


def _passes_another(held: Solution, kink: Kink) -> bool:
    """Whether another event is beyond a sample at which the likelihood has a kink."""
    sides = samples_beside_events(held) or []
    others = [one for one in sides if (one[0], one[2]) not in kink.happenings]
    other = kink_beside(held, others)
    return other is not None and held_at(held, other) is not None


def _preferred(
    tried: list[tuple[bool, float, Outcome]], closed: Outcome | None, settings: Revision
) -> Outcome:
    """The lowest outcome; but the one whose sides are simulated, unless the likelihood jumps between it and that."""
    _, lowest, best = min(tried, key=lambda one: one[:2])
    if closed is None or closed.solution is None or best.solution is None:
        return best
    size = best.solution.system.objective.size(best.solution.point.outputs, lowest)
    return closed if path_value(closed.solution) < lowest + settings.worse * size else best


def _on_better_sides(
    method: ExactMethod, problem: Problem, outcome: Outcome, news: News, settings: Revision
) -> Outcome:
    """The outcome with samples next to events on the other side of these, where that fits better and is simulated so.

    Where an event passes a sample the likelihood has a kink, and an optimum on either side of it.
    """
    left = settings.flips
    while left and outcome.solution is not None and outcome.status.success:
        better = None
        for other in _other_sides(outcome.solution, settings)[:left]:
            left -= 1
            with np.errstate(all="ignore"):
                found = run(method, method.resume(problem, other), news)
            found = _at_kink(method, problem, found, news, settings)
            if _is_better(problem, found, outcome, settings):
                better = outcome.then(found)
                break
        if better is None:
            break
        outcome = better
    return outcome


def _other_sides(solution: Solution, settings: Revision) -> list[Solution]:
    """The solution with one sample on the other side of an event, where that costs little; the cheapest first."""
    system = solution.system
    found: list[tuple[float, int, Solution]] = []
    value, size = path_value(solution), system.objective.size(solution.point.outputs, path_value(solution))
    for e, own in enumerate(system.mesh.schedule):
        limits = [0, *(one.before for one in own), len(system.problem.experiments[e].times)]
        for k, one in enumerate(own):
            for before in (one.before - 1, one.before + 1):
                if one.events and limits[k] <= before <= limits[k + 2]:
                    changed = (*own[:k], replace(one, before=before), *own[k + 1 :])
                    every = (*system.mesh.schedule[:e], changed, *system.mesh.schedule[e + 1 :])
                    other = replace(
                        solution, system=replace(system, mesh=replace(system.mesh, schedule=every))
                    )
                    found.append((path_value(other), len(found), other))
    near = [one for one in found if one[0] < value + settings.worse * size]
    return [other for _, _, other in sorted(near, key=lambda one: one[:2])]


def _is_better(problem: Problem, found: Outcome, outcome: Outcome, settings: Revision) -> bool:
    """Whether a search converged to a lower value and a simulation has its samples on the sides that it has."""
    if found.solution is None or outcome.solution is None or not found.status.success:
        return False
    old, new = path_value(outcome.solution), path_value(found.solution)
    if not new < old - settings.rounding * abs(old):
        return False
    if kink_at(found.solution) is not None:
        return True
    with np.errstate(all="ignore"):
        runs = simulated_events(problem, found.solution.unknowns, settings.tolerance)
    same = signature(schedule_of(problem, runs)) == signature(found.solution.system.mesh.schedule)
    return same and all(one.states is not None for one in runs)


def _is_worse(
    tried: dict[Signature, tuple[bool, float, Outcome]], mine: Signature, settings: Revision
) -> bool:
    """Whether the latest search is clearly worse than an earlier one with the events of its simulation."""
    before = [value for one, (open_, value, _) in tried.items() if one != mine and not open_]
    return bool(before) and tried[mine][1] > min(before) + settings.worse * abs(min(before))


def _same_events(found: Schedule, mine: Signature) -> bool:
    return [[k for k, _ in own] for own in signature(found)] == [[k for k, _ in own] for own in mine]
