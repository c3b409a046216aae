"""The state of rest that a system with events reaches, and its derivatives by the start and the parameters.

Events happen on the way; after the last one the system has none, and its rest is that of steady_states.py. With the
derivatives A of a state by the start and B by the parameters, a piece of the way between two events multiplies both by
the derivative of its flow (followed_rest.py). An event at g(x, p) = 0 moves by dt, and the state after it is r(x, p):

    dt = -(g_x dx + g_p dp) / (g_x f-),   dx+ = r_x (dx + f- dt) + r_p dp - f+ dt.

As for all states of rest, explicit dependence on time is frozen: events on time do not happen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from picardfit.formulas.algebra import TIME, number
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.model.inputs import Constant
from picardfit.model.model import Model
from picardfit.simulation.event_location import EventLocation, integrate
from picardfit.simulation.followed_rest import derivatives_along
from picardfit.simulation.steady_states import TINY, Steady, steady_state
from picardfit.simulation.trajectories import Run


@dataclass(frozen=True)
class EventfulRest:
    """How a rest behind events is approached; all are choices."""

    windows: int = 32  # of time, each `growth` times the one before: 1e19 times the fastest time scale
    growth: float = 4.0
    settled: float = 1e-9  # change in a window without events, relative to the size of the states
    near: float = 1e-5  # distance of the rest from the integrated state, relative to the size
    least: float = 1e-3  # smallest size of a state, as a fraction of the largest
    most: int = 1000  # events: a system that goes on firing has no rest
    rtol: float = 1e-10  # of the integration
    before: float = (
        1e-9  # part of the way back to the piece's start at which the slope before an event is taken
    )


@dataclass(frozen=True)
class _Leg:
    """A piece of the way: it begins at `start` and ends with events, or at rest."""

    start: Array
    length: float
    end: Array
    events: tuple[int, ...] = ()


def rest_with_events(
    model: Model,
    t: float,
    start: Array,
    params: Array,
    inputs: Array,
    begun: bool = False,
    settings: EventfulRest = EventfulRest(),
) -> Steady | None:
    """The state of rest reached from `start` (states,); None if there is none, or events go on for ever.

    `begun`: whether conditions that hold at the start have held before, so that no event fires there.
    """
    keys = (tuple(np.asarray(one, float).tolist()) for one in (start, params, inputs))
    found: Steady | None = _settled(model, float(t), *keys, begun, settings)
    return found


@lru_cache(maxsize=256)
def _settled(
    model: Model,
    t: float,
    start: tuple[float, ...],
    params: tuple[float, ...],
    inputs: tuple[float, ...],
    begun: bool,
    settings: EventfulRest,
) -> Steady | None:
    still, x, p, u = _frozen(model, t), *(np.array(one, float) for one in (start, params, inputs))
    if not (np.isfinite(x).all() and np.isfinite(p).all()):
        return None
    with np.errstate(all="ignore"):
        legs = _way(still, x, p, u, begun, settings)
        if legs is None:
            return None
        last = legs.pop()
        rest = steady_state(still.rhs, t, last.start, p, u)
        if rest is None or (np.abs(rest.states - last.end) > settings.near * _size(last.end, settings)).any():
            return None
        by_start, by_params = np.eye(len(x)), np.zeros((len(x), len(p)))
        for leg in legs:
            passed = _passed(still, leg, p, u, by_start, by_params, settings)
            if passed is None:
                return None
            by_start, by_params = passed
    return Steady(rest.states, rest.by_start @ by_params + rest.by_params, rest.by_start @ by_start)


@lru_cache(maxsize=32)
def _frozen(model: Model, t: float) -> Model:
    """The model whose equations and events have the time t for ever; its observables are its states."""
    assert isinstance(model.rhs, BatchedMap)
    now = {TIME: number(t)}
    rates = {n: e.xreplace(now) for n, e in zip(model.states, model.rhs.expressions, strict=True)}
    events = [
        replace(
            one,
            trigger=one.trigger.xreplace(now),
            assignments=tuple((n, e.xreplace(now)) for n, e in one.assignments),
        )
        for one in model.events
    ]
    return Model.from_expressions(rates, {}, model.parameters, model.inputs, events=events)


def _size(x: Array, settings: EventfulRest) -> Array:
    size: Array = np.maximum(np.abs(x), settings.least * max(float(np.abs(x).max(initial=0.0)), TINY))
    return size


def _way(
    model: Model, x: Array, p: Array, u: Array, begun: bool, settings: EventfulRest
) -> list[_Leg] | None:
    """The pieces of the way to rest, of which the last one has no event at its end; None without a rest."""
    slope, jacobian = model.rhs.value(0.0, x, p, u), model.rhs.linearise(0.0, x, p, u)[1]
    size = _size(x, settings)
    fastest = max(float(np.abs(jacobian).sum(axis=1).max(initial=0.0)), float((np.abs(slope) / size).max()))
    window = 1.0 / fastest if 0 < fastest < np.inf else 1.0
    signals = {name: Constant(float(value)) for name, value in zip(model.inputs, u, strict=True)}
    legs: list[_Leg] = []
    start, passed, fired = x, 0.0, 0
    for number_ in range(settings.windows):
        run = Run(0.0, x, p, signals, np.array([window]), begun=begun or number_ > 0)
        found = integrate(model, run, settings.rtol, EventLocation(most=settings.most))
        if found.states is None:
            return None
        last = 0.0
        for one, before in zip(found.happenings, found.before, strict=True):
            legs.append(_Leg(start, passed + one.time - last, before, one.events))
            start, passed, last = before, 0.0, one.time
            for event in one.events:
                start = model.event_maps.resets[event].value(0.0, start, p, u)
        passed += window - last
        fired += len(found.happenings)
        if fired > settings.most:
            return None
        change, x = np.abs(found.states[-1] - x), found.states[-1]
        if not found.happenings and (change <= settings.settled * _size(x, settings)).all():
            return [*legs, _Leg(start, passed, x)]
        window *= settings.growth
    return None


def _passed(
    model: Model, leg: _Leg, p: Array, u: Array, by_start: Array, by_params: Array, settings: EventfulRest
) -> tuple[Array, Array] | None:
    """The derivatives after a piece and the events at its end, from those before it."""
    if leg.length > 0:
        flow = derivatives_along(model.rhs, (0.0, leg.start, p, u), leg.length, _size(leg.end, settings))
        if flow is None:
            return None
        by_start, by_params = flow[0] @ by_start, flow[0] @ by_params + flow[1]
    # the slope just before the event: a rate may change at the same threshold
    just_before = leg.end + settings.before * (leg.start - leg.end)
    slope = np.asarray(model.rhs.value(0.0, just_before, p, u))
    maps, first = model.event_maps, leg.events[0]
    _, g_x, g_p = (one[first] for one in maps.triggers.linearise(0.0, leg.end, p, u))
    rate = float(g_x @ slope)
    at_start = leg.length == 0
    if not (rate > 0 or at_start):
        return None  # the path only touches the threshold: no derivative exists
    shift = [np.zeros(len(by.T)) if at_start else -(g_x @ by) / rate for by in (by_start, by_params)]
    if not at_start:
        shift[1] = shift[1] - g_p / rate
    moved = [by + np.outer(slope, dt) for by, dt in zip((by_start, by_params), shift, strict=True)]
    x = leg.end
    for event in leg.events:
        value, r_x, r_p = maps.resets[event].linearise(0.0, x, p, u)
        moved, x = [r_x @ moved[0], r_x @ moved[1] + r_p], value
    after = np.asarray(model.rhs.value(0.0, x, p, u))
    return moved[0] - np.outer(after, shift[0]), moved[1] - np.outer(after, shift[1])
