"""Knots that move: a segment before an event ends where its trigger is zero.

With the states X (the clock among them), the length h of such a segment is a function of its start and the parameters:
g(X(h)) = 0. It is solved for together with the path, so that neither is an unknown of the search. Hence

    dh = -(g_X S + g_p) / (g_X F),    d X_end = S + F dh,

with S the derivative of the path's end for a fixed length and F = dX/dt there; the states after the event are r(X_end),
with derivative r_X dX_end + r_p. No formula for jumps of sensitivities is needed. Samples are at fixed times: a later
start of a segment moves them by -dX/dt.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from picardfit.collocation.mesh import Flags, Indices, Mesh
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.model.events import EventMaps
from picardfit.problem.problem import Schedule, Scheduled


@dataclass(frozen=True)
class EventLength:
    """How lengths of segments before events are solved for; all are choices."""

    shortest: float = 0.1  # of the length between the knots: beyond these the knot is held where it is
    longest: float = 6.0
    backward: float = 0.5  # of the length: largest step of Newton's method
    forward: float = 1.0
    steps: int = 12
    tolerance: float = 1e-13  # of the clock's size, at which Newton's method ends
    satisfied: float = (
        1e-6  # distance from the trigger, in lengths of the segment, beyond which a knot is held
    )


@dataclass(frozen=True)
class EventLinks:
    """The knots at which something is scheduled."""

    links: Indices  # (happenings,): among the linked segments
    segments: Indices  # (happenings,): that end there
    owner: Indices  # (happenings,): experiments
    scheduled: tuple[Scheduled, ...]
    maps: EventMaps  # of states and parameters as the unknowns have them
    inputs: Array  # (happenings, inputs) there
    keep: Array  # (happenings, states): of doses
    add: Array
    ends: Array  # (experiments,): when they end
    settings: EventLength = EventLength()

    @cached_property
    def _groups(self) -> list[tuple[tuple[int, ...], Indices]]:
        """Rows by the events that fire there."""
        found: dict[tuple[int, ...], list[int]] = {}
        for row, one in enumerate(self.scheduled):
            found.setdefault(one.events, []).append(row)
        return [(events, np.array(rows)) for events, rows in found.items()]

    @cached_property
    def _triggers(self) -> dict[int, BatchedMap]:
        every = self.maps.triggers
        used = {events[0] for events, _ in self._groups if events}
        groups = every.states, every.parameters, every.inputs
        return {k: BatchedMap([every.expressions[k]], *groups) for k in used}

    @cached_property
    def fixed(self) -> Flags:
        """(happenings,) bool: doses and breaks, which have a time of their own."""
        return np.array([one.at is not None for one in self.scheduled], bool)

    @cached_property
    def _times(self) -> Array:
        return np.array([0.0 if one.at is None else one.at for one in self.scheduled])

    def trigger(self, ends: Array, params: Array) -> tuple[Array, Array, Array]:
        """g (happenings,) with its derivatives by states (happenings, states) and by parameters."""
        value = ends[:, -1] - self._times
        wrt_x, wrt_p = np.zeros_like(ends), np.zeros((len(ends), params.shape[1]))
        wrt_x[:, -1] = 1.0
        for events, rows in self._groups:
            if events:
                where = ends[rows], params[rows], self.inputs[rows]
                g, by_x, by_p = self._triggers[events[0]].linearise(np.zeros(len(rows)), *where)
                value[rows], wrt_x[rows], wrt_p[rows] = g[:, 0], by_x[:, 0], by_p[:, 0]
        return value, wrt_x, wrt_p

    def after(self, ends: Array, params: Array) -> Array:
        """(happenings, states): the states after the events and doses."""
        result: Array = ends.copy()
        for events, rows in self._groups:
            for event in events:
                reset = self.maps.resets[event]
                result[rows] = reset.value(np.zeros(len(rows)), result[rows], params[rows], self.inputs[rows])
        return self.keep * result + self.add

    def after_derivative(self, ends: Array, params: Array, moved: Array, by_params: Array) -> Array:
        """(happenings, states, columns): derivative of `after`, from that of the ends `moved`.

        `by_params` (happenings, parameters, columns): derivative of the parameters by the columns.
        """
        result, states = moved.copy(), ends.copy()
        for events, rows in self._groups:
            for event in events:
                where = states[rows], params[rows], self.inputs[rows]
                value, by_x, by_p = self.maps.resets[event].linearise(np.zeros(len(rows)), *where)
                result[rows] = by_x @ result[rows] + by_p @ by_params[rows]
                states[rows] = value
        return self.keep[:, :, None] * result

    def end_derivative(
        self, ends: Array, slopes: Array, lengths: Array, params: Array, fixed_length: Array, by_params: Array
    ) -> Array:
        """(happenings, states, columns): derivative of the states after the events by the columns of a segment.

        `fixed_length` is that of the ends for fixed lengths; knots whose trigger is not zero are held where they are.
        """
        value, by_x, by_p = self.trigger(ends, params)
        rate = (by_x * slopes).sum(axis=1)
        free = ~self.held(value, rate, lengths)
        change = np.einsum("is,isc->ic", by_x, fixed_length) + np.einsum("ip,ipc->ic", by_p, by_params)
        length = np.where(free, -1.0 / np.where(free, rate, 1.0), 0.0)[:, None] * change
        return self.after_derivative(
            ends, params, fixed_length + slopes[:, :, None] * length[:, None, :], by_params
        )

    def held(self, value: Array, rate: Array, lengths: Array) -> Flags:
        """(happenings,) bool: knots that stay where they are because their trigger is not zero there."""
        with np.errstate(all="ignore"):
            near = np.abs(value) <= self.settings.satisfied * rate * lengths
        return ~((rate > 0) & near)

    def step(self, value: Array, rate: Array, lengths: Array) -> Array:
        """(happenings,): Newton's step of the lengths towards the zeros of the triggers, shortened where too long."""
        with np.errstate(all="ignore"):
            wanted = np.where(rate > 0, -value / rate, np.where(value > 0, -np.inf, 0.0))
        return np.clip(wanted, -self.settings.backward * lengths, self.settings.forward * lengths)


def event_clocks(mesh: Mesh, schedule: Schedule, states: Array) -> list[list[float]]:
    """When what is scheduled happens in each experiment, by the clock; `states`: those at the starts of segments."""
    links, owner, _ = of_knots(schedule, mesh.inner_ranges, mesh.knots)
    found: list[list[float]] = [[] for _ in mesh.knots]
    for e, link in zip(owner, links, strict=True):
        found[e].append(float(states[mesh.linked[link] + 1, -1]))
    return found


def as_clocked(
    mesh: Mesh, states: Array, times: Sequence[Array], kept: Collection[tuple[int, int]]
) -> Schedule:
    """The schedule with every sample on the side of each event on which the clock has it, but those of `kept`.

    `times`: of the samples of each experiment; `kept`: experiment and number of what is scheduled.
    """
    clocks = event_clocks(mesh, mesh.schedule, states)
    return tuple(
        tuple(
            one
            if (e, k) in kept or not one.events
            else replace(one, before=int(np.searchsorted(times[e], now)))
            for k, (one, now) in enumerate(zip(own, clocks[e], strict=True))
        )
        for e, own in enumerate(mesh.schedule)
    )


def of_knots(
    schedule: Sequence[Sequence[Scheduled]], ranges: Sequence[tuple[int, int]], knots: Sequence[Array]
) -> tuple[list[int], list[int], list[Scheduled]]:
    """The links, experiments and entries of a schedule inside a mesh; knots of one time are the nearest ones."""
    links, owner, entries = [], [], []
    for e, own in enumerate(schedule):
        for one in own:
            inner = knots[e][1:-1]
            if len(inner):
                links.append(ranges[e][0] + int(np.abs(inner - one.knot).argmin()))
                owner.append(e)
                entries.append(one)
    return links, owner, entries
