"""Profiles beside events: an unknown that decides when an event happens stays between the samples around that.

A refit keeps samples on their sides of events. Along a profile the time of an event, such as a lag, would pass a sample
that still counts on the old side. So it stops at the sample, and the other side is tried from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from picardfit.evidence.event_kinks import kink_of, samples_around, with_side
from picardfit.problem.problem import Problem, Schedule
from picardfit.problem.quantity import Quantity
from picardfit.solvers.refit import Expansion, Refit


@dataclass(frozen=True)
class Stopped:
    """An unknown on which alone the time of an event depends, where the event is at a sample."""

    place: tuple[int, int]  # experiment and column
    value: float  # internal
    later: bool  # whether the event happens later with larger values


@dataclass(frozen=True)
class SideSettings:
    close: float = 1e-9  # relative distance of an unknown from the value at which its event is at a sample
    steps: int = 20  # of Newton's method onto that value
    lower: float = 1e-9  # relative decrease of the objective on the other side that counts


class SideLimits:
    """The limits that samples set to unknowns along the profile of a quantity, on which these do not depend."""

    def __init__(self, problem: Problem, quantity: Quantity, settings: SideSettings = SideSettings()) -> None:
        self.problem, self.quantity, self.settings = problem, quantity, settings
        self.known: dict[tuple[int, int, int], Stopped | None] = {}

    def limited(self, here: Expansion, kept: Collection[tuple[int, int]]) -> Expansion:
        """The expansion whose steps leave every sample on its side; `kept`: events that are beyond a sample."""
        if self.problem.timed is None:
            return here
        layout, found = self.problem.layout, False
        lower, upper = layout.lower.copy(), layout.upper.copy()
        for e, k, sample, shown_before in samples_around(self.problem, here.system.mesh.schedule):
            stop = None if (e, k) in kept else self._stopped(here, e, k, sample)
            if stop is None:
                continue
            rows = slice(None) if stop.place[1] >= layout.local else stop.place[0]
            at, found = (rows, stop.place[1]), True
            if shown_before == stop.later:  # the event is later than a sample that shows the states before it
                lower[at] = np.maximum(lower[at], stop.value)
            else:
                upper[at] = np.minimum(upper[at], stop.value)
        return replace(here, limits=(lower, upper)) if found else here

    def others(self, found: Refit, kept: Collection[tuple[int, int]]) -> Iterator[Schedule]:
        """Schedules with the samples at which events have stopped on their other sides."""
        if self.problem.timed is None:
            return
        schedule, close = found.expansion.system.mesh.schedule, self.settings.close
        meeting: dict[tuple[int, int], list[tuple[int, int, int, bool]]] = {}
        for e, k, sample, _ in samples_around(self.problem, schedule):
            stop = None if (e, k) in kept else self._stopped(found.expansion, e, k, sample)
            if stop is None:
                continue
            distance = abs(found.point.unknowns[stop.place] - stop.value)
            if distance <= close * (1 + abs(stop.value)):
                meeting.setdefault(stop.place, []).append((e, k, sample, stop.later))
        for together in meeting.values():
            for larger in (True, False):
                other = schedule
                for e, k, sample, later in together:
                    other = with_side(other, e, k, sample, after=later != larger)
                if other != schedule:
                    yield other

    def is_limited(self, here: Expansion, e: int, k: int) -> bool:
        """Whether limits keep the samples around an event on their sides."""
        mine = [one for one in samples_around(self.problem, here.system.mesh.schedule) if one[:2] == (e, k)]
        return any(self._stopped(here, e, k, sample) is not None for *_, sample, _ in mine)

    def _stopped(self, here: Expansion, e: int, k: int, sample: int) -> Stopped | None:
        own = here.system.mesh.schedule[e][k]
        key = (e, own.events[0], sample)
        if key not in self.known:
            self.known[key] = self._find(here, e, k, sample)
        return self.known[key]

    def _find(self, here: Expansion, e: int, k: int, sample: int) -> Stopped | None:
        """None for times that depend on the quantity of the profile, or on more than one unknown."""
        problem, unknowns = self.problem, here.point.unknowns
        kink, layout = kink_of(problem, here.system.mesh.schedule, e, k, sample), problem.layout
        if kink is None:
            return None
        slope = kink.time.slope(layout, unknowns, here.index)
        own = np.flatnonzero(slope)
        if len(own) != 1 or self.quantity.slope(layout, unknowns, here.index)[own[0]] != 0:
            return None
        place = (int(here.index[own[0], 0]), int(here.index[own[0], 1]))
        rows = slice(None) if place[1] >= layout.local else place[0]
        moved, (start, stop) = unknowns.copy(), problem.span(e)
        for _ in range(self.settings.steps):
            gap = kink.at - kink.time.value(layout, moved)
            if abs(gap) <= self.settings.close * 1e-3 * (stop - start):
                return Stopped(place, float(moved[place]), bool(slope[own[0]] > 0))
            rate = kink.time.slope(layout, moved, here.index)[own[0]]
            moved[rows, place[1]] += gap / rate if rate else np.nan
        return None
