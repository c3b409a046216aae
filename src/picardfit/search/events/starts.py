"""Starting points of problems with events: when they happen, and a guess of the path between them.

Events on measured states are read off the data, where their trigger has a peak or crosses zero; those on time follow
from the parameters; all others come from a simulation. The path then follows the data between two events, and hidden
states follow their equations and the resets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from picardfit.errors import InputError
from picardfit.formulas.algebra import names
from picardfit.problem.event_runs import event_run, timed_model
from picardfit.problem.experiment import Experiment
from picardfit.problem.problem import Problem, Schedule, Scheduled, Start
from picardfit.search.events.matching import match_events
from picardfit.simulation.event_location import ZENO, EventRun, integrate

MeasuredStates = dict[int, tuple[np.ndarray, np.ndarray]]  # state -> (times, values)


@dataclass(frozen=True)
class EventStart:
    """How events are read off the data and the path is guessed; all are choices."""

    prominence: float = 0.15  # of the range of a trigger along the data: smaller peaks are none
    noise: float = 5.0  # ... or this many standard deviations of the noise, if that is more
    depth: float = 0.65  # of the range: a peak further below the highest is none
    tolerance: float = 1e-6  # relative, of simulations
    apart: float = 1e-6  # of the experiment: happenings closer than this are one
    points: int = 200  # of the table of an experiment, besides samples and events
    shortest: float = (
        1e-3  # gap between events that accumulate at the starting values (Zeno), of the experiment
    )
    scan: int = 1000  # points at which triggers on time are evaluated
    rounds: int = 2  # of guessing a path and matching parameters to it in turn
    largest: float = 10.0  # limit of hidden states, in sizes of the largest value known of them


def schedule_of(problem: Problem, happened: Sequence[EventRun]) -> Schedule:
    """The schedule of each experiment with the events that a simulation found."""
    return tuple(
        _together(problem, e, [(one.time, one.events) for one in run.happenings], EventStart().apart)
        for e, run in enumerate(happened)
    )


def simulated_events(problem: Problem, unknowns: np.ndarray, tolerance: float = 1e-9) -> list[EventRun]:
    """The events of each experiment at these unknowns, by simulation."""
    model, count = timed_model(problem).simulated, len(problem.experiments)
    return [integrate(model, event_run(problem, e, unknowns), tolerance) for e in range(count)]


def event_start(
    problem: Problem,
    unknowns: np.ndarray,
    measured: Sequence[MeasuredStates],
    open_: np.ndarray,
    settings: EventStart = EventStart(),
) -> Start:
    """Where a search begins: what happens when, and a table of states for each experiment.

    The parameters in `open_` (experiments, width) bool are matched to the data, as far as these show them.
    """
    for _ in range(settings.rounds if open_.any() else 0):
        start = _start(problem, unknowns, measured, settings)
        known = [list(one) for one in measured]
        unknowns = match_events(problem, start, known, open_)
    return _start(problem, unknowns, measured, settings)


def _start(
    problem: Problem, unknowns: np.ndarray, measured: Sequence[MeasuredStates], settings: EventStart
) -> Start:
    """The start at these unknowns."""
    with np.errstate(all="ignore"):
        found = simulated_events(problem, unknowns, settings.tolerance)
    for run, one in zip(found, problem.experiments, strict=True):
        _check_run(problem, run, one.t0)
    params, (initial, _) = problem.layout.model_values(unknowns), problem.layout.initial(unknowns)
    schedule, tables = [], []
    for e, run in enumerate(found):
        times = _happenings(problem, e, params[e], measured[e], run, settings)
        own = _together(problem, e, times, settings.apart)
        schedule.append(own)
        tables.append(_table(problem, e, params[e], initial[e], measured[e], own, settings))
    return Start(unknowns, tuple(tables), np.zeros(len(problem.solved_model.states), bool), tuple(schedule))


def _check_run(problem: Problem, run: EventRun, t0: float) -> None:
    """InputError for events without end or at the first instant, if no free parameter could change that."""
    model, trouble = timed_model(problem).simulated, run.trouble
    free = {name for name, one in problem.parameters.items() if one.fixed is None}
    if trouble is not None and trouble.code != ZENO:
        event = model.events[trouble.event]
        if not event.names & free:
            raise InputError(trouble.code, event.condition, key=("equations",), time=trouble.time)
    for one in run.happenings[:1]:
        event = model.events[one.events[0]]
        if one.time <= t0 and not names(event.trigger) & free:
            raise InputError("search.event_at_start", event.condition, key=("equations",), time=t0)


def _apart(times: list[float], run: EventRun, shortest: float, one: Experiment) -> list[float]:
    """The times of events; those that accumulate are left out from where their gaps become short."""
    if run.trouble is None:
        return times
    span = float(one.times[-1]) - one.t0
    short = [k for k, (a, b) in enumerate(pairwise(times)) if b - a < shortest * span]
    return times[: short[0]] if short else times


Happenings = list[tuple[float, tuple[int, ...]]]


def _happenings(
    problem: Problem,
    e: int,
    params: np.ndarray,
    measured: MeasuredStates,
    run: EventRun,
    settings: EventStart,
) -> Happenings:
    """(time, events) of an experiment: on time, read off the data, or simulated."""
    model, one = timed_model(problem).simulated, problem.experiments[e]
    shown = {model.states[k] for k in measured}
    found: Happenings = []
    for k, event in enumerate(model.events):
        used = names(event.trigger) & set(model.states)
        seen: list[float] | None = None
        if not used:
            seen = _on_time(problem, e, k, params, settings)
        elif used <= shown:
            seen = _in_data(problem, e, k, params, measured, settings)
        if seen is None:
            seen = _apart([h.time for h in run.happenings if k in h.events], run, settings.shortest, one)
        found += [(t, (k,)) for t in seen if one.t0 < t < one.times[-1]]
    return sorted(found)


def _trigger(
    problem: Problem, e: int, event: int, times: np.ndarray, x: np.ndarray, params: np.ndarray
) -> np.ndarray:
    model, one = timed_model(problem).simulated, problem.experiments[e]
    inputs = one.inputs_at(model.inputs, times)
    return np.asarray(model.event_maps.triggers.value(times, x, params, inputs)[:, event])


def _on_time(problem: Problem, e: int, event: int, params: np.ndarray, settings: EventStart) -> list[float]:
    """When a trigger that depends on time alone rises through zero."""
    start, stop = problem.span(e)
    times = np.linspace(start, stop, settings.scan)
    nothing = np.zeros((len(times), len(timed_model(problem).simulated.states)))
    g = _trigger(problem, e, event, times, nothing, params)
    rises = np.flatnonzero((g[:-1] <= 0) & (g[1:] > 0))
    return [float(times[k] - g[k] * (times[k + 1] - times[k]) / (g[k + 1] - g[k])) for k in rises]


def _in_data(
    problem: Problem, e: int, event: int, params: np.ndarray, measured: MeasuredStates, settings: EventStart
) -> list[float] | None:
    """When the data show an event: at peaks of its trigger, or where that rises through zero; None if they do not.

    A fall between two samples with a dose or reset between them is taken for the work of that.
    """
    from scipy.signal import find_peaks

    model = timed_model(problem).simulated
    columns = [model.states.index(n) for n in names(model.events[event].trigger) & set(model.states)]
    times = np.unique(np.concatenate([measured[c][0] for c in columns]))
    x = np.zeros((len(times), len(model.states)))
    for c in columns:
        x[:, c] = np.interp(times, *measured[c])
    g = _trigger(problem, e, event, times, x, params)
    if len(g) < 3 or not np.ptp(g) > 0:
        return None
    bend = np.abs(g[1:-1] - 0.5 * (g[2:] + g[:-2]))
    least = max(settings.prominence * np.ptp(g), settings.noise * 1.2 * float(np.median(bend)))
    stays = model.events[event].leaves_by_itself()
    ahead = np.append(g[0] if stays else g.min(), g)  # a reset after the first sample shows as a fall from it
    peaks = find_peaks(ahead, prominence=least)[0] - 1
    peaks = peaks[g[peaks] > g.max() - settings.depth * np.ptp(g)]
    if not len(peaks):
        rises = np.flatnonzero((g[:-1] <= 0) & (g[1:] > 0))
        return [float(0.5 * (times[k] + times[k + 1])) for k in rises[:1]] or None
    if stays:
        return [float(times[k]) for k in peaks]
    falls = [k + int(np.argmin(np.diff(g[k : k + 3]))) for k in peaks]
    known = np.zeros(0) if (jumps := problem.jumps[e]) is None else jumps.times
    own = [k for k in falls if not ((times[k] < known) & (known <= times[k + 1])).any()]
    return [float(0.5 * (times[k] + times[k + 1])) for k in own]


def _together(problem: Problem, e: int, found: Happenings, apart: float) -> tuple[Scheduled, ...]:
    """Events, doses and breaks in order of time; those at one time become one."""
    start, stop = problem.span(e)
    jumps = problem.jumps[e]
    fixed = {*problem.input_breaks(e), *([] if jumps is None else jumps.times.tolist())}
    fixed = {t for t in fixed if start < t < stop}
    every: list[Scheduled] = []
    entries = [Scheduled(t, events) for t, events in found] + [Scheduled(t, (), t) for t in fixed]
    for one in sorted(entries, key=lambda entry: entry.knot):
        slack = apart * (stop - start)
        if one.knot - start <= slack or stop - one.knot <= slack:
            continue
        if every and one.knot - every[-1].knot <= slack:
            last = every.pop()
            at = last.at if one.at is None else one.at
            one = Scheduled(last.knot if at is None else at, (*last.events, *one.events), at)
        every.append(one)
    for one in every:
        _check_order(problem, one.events)
    times = problem.experiments[e].times
    return tuple(replace(one, before=int(np.searchsorted(times, one.knot))) for one in every)


def _check_order(problem: Problem, events: Sequence[int]) -> None:
    """InputError for events at one time of which one sees what another sets, but the value before it.

    Integration knows such events; the derivatives of a fit apply one after the other.
    """
    changed: set[str] = set()
    for one in (timed_model(problem).simulated.events[k] for k in events):
        if one.early and changed & set().union(*(names(e) for _, e in one.assignments)):
            raise InputError("search.events_together", one.condition, names=sorted(changed))
        changed |= {name for name, _ in one.assignments}


def _table(
    problem: Problem,
    e: int,
    params: np.ndarray,
    initial: np.ndarray,
    measured: MeasuredStates,
    schedule: Sequence[Scheduled],
    settings: EventStart,
) -> tuple[np.ndarray, np.ndarray]:
    """Times, and states of the fitted model at them: measured ones from the data between events, others followed."""
    start, stop = problem.span(e)
    knots = [start, *(one.knot for one in schedule), stop]
    times, rows, x = [], [], np.array(initial, float)
    size = np.maximum(np.abs(initial), 1.0)
    for state, (_, values) in measured.items():
        size[state] = np.abs(values).max()
    limit = settings.largest * max(float(size[:-1].max()), 1.0)
    for k, (a, b) in enumerate(pairwise(knots)):
        grid = _grid(problem, e, a, b, (stop - start) / settings.points)
        along = {s: _inside(table, grid, a, b) for s, table in measured.items()}
        for i, t in enumerate(grid):
            if i:
                x = _euler(problem, e, params, x, float(grid[i - 1]), float(t), limit)
            for s, values in along.items():
                x[s] = values[i]
            x[-1] = t
            times.append(float(t))
            rows.append(x.copy())
        if k < len(schedule):
            x = _after(problem, e, schedule[k], x, params)
    return np.array(times), np.array(rows)


def _grid(problem: Problem, e: int, a: float, b: float, step: float) -> np.ndarray:
    """Times of a piece, its ends among them; the last one just before b, where the next piece begins."""
    one = problem.experiments[e]
    even = np.linspace(a, b, max(3, int((b - a) / step) + 2))
    every = np.unique(np.concatenate([even, one.times[(one.times > a) & (one.times < b)]]))
    every[-1] = np.nextafter(b, a)
    return every


def _inside(table: tuple[np.ndarray, np.ndarray], grid: np.ndarray, a: float, b: float) -> np.ndarray:
    """A measured state along a piece, from the samples inside it, or from all where there are none."""
    times, values = table
    own = (times >= a) & (times < b)
    return np.asarray(
        np.interp(grid, times[own], values[own]) if own.any() else np.interp(grid, times, values)
    )


def _euler(
    problem: Problem, e: int, params: np.ndarray, x: np.ndarray, begin: float, end: float, limit: float
) -> np.ndarray:
    """Hidden states after a step: exponential Euler state by state, so that fast ones stay at rest."""
    model = problem.solved_model
    inputs = problem.experiments[e].inputs_at(model.inputs, np.array([begin]))[0]
    slope, by_x, _ = model.rhs.linearise(begin, x, params, inputs)
    rate = np.minimum(np.diagonal(by_x), 0.0) * (end - begin)
    with np.errstate(all="ignore"):
        factor = np.where(np.abs(rate) > 1e-8, np.expm1(rate) / rate, 1.0)
    return np.asarray(np.clip(np.nan_to_num(x + (end - begin) * factor * slope), -limit, limit))


def _after(problem: Problem, e: int, one: Scheduled, x: np.ndarray, params: np.ndarray) -> np.ndarray:
    """The states after what is scheduled."""
    model, jumps = problem.solved_model, problem.jumps[e]
    inputs = problem.experiments[e].inputs_at(model.inputs, np.array([one.knot]))[0]
    for event in one.events:
        x = model.event_maps.resets[event].value(0.0, x, params, inputs)
    if jumps is not None and one.at is not None:
        x = jumps.at(one.at, x)
    return np.asarray(np.nan_to_num(x))
