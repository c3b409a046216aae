"""The rows of one individual, in order, as experiments: samples, doses that repeat, steady states and resets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from picardfit.errors import InputError, Notice
from picardfit.model.doses import Doses
from picardfit.model.inputs import Input
from picardfit.problem.experiment import Experiment
from picardfit.problem.rest import Rest
from picardfit.problem.sample_rows import SampleLines, dose_name

BEFORE_FIRST = (
    1e-9  # of the time of an individual: how long before a dose at its first time a sample was taken
)


@dataclass(frozen=True)
class Event:
    """A row: a sample if it has an observable, a dose if it has a state."""

    row: int
    time: float
    kind: int  # EVID
    observable: str = ""
    value: float | str = 0.0
    state: str = ""
    amount: float = 0.0  # the rate of an endless infusion
    duration: float = 0.0
    every: float = 0.0  # time between additional doses, or of the regimen
    more: int = 0  # additional doses
    steady: bool = False
    endless: bool = False  # an infusion that has run forever and ends now

    @property
    def resets(self) -> bool:
        return self.kind in (3, 4)


@dataclass(frozen=True)
class History:
    """All rows of an individual, and what is constant for it."""

    name: str
    events: Sequence[Event]
    covariates: Mapping[str, float]
    inputs: Mapping[str, Input]
    at: Callable[[int, InputError], InputError]  # adds the place of a row to an error
    numbering: np.ndarray  # (rows of the table,): their lines
    place: Callable[[int, InputError], InputError]  # adds the place of a line to an error


@dataclass
class _Given:
    """One dose."""

    time: float
    amount: float
    state: str
    duration: float


@dataclass
class _Part:
    """A stretch of time that is one experiment."""

    begin: float
    samples: list[tuple[Event, float]] = field(default_factory=list)  # with the time at which it counts
    doses: list[_Given] = field(default_factory=list)
    resets: list[float] = field(default_factory=list)
    regimen: tuple[Doses, float] | None = None  # and its period


def experiments_of(history: History) -> list[Experiment]:
    """The experiments of an individual: usually one; a steady state or an earlier time begins another one."""
    parts: list[_Part] = []
    before = -inf
    for event in history.events:
        restarts = event.time < before and event.resets
        if event.time < before and not restarts:
            error = InputError("files.nonmem_order", history.name, time=event.time, before=before)
            raise history.at(event.row, error)
        if not parts or restarts or event.steady:
            _begin(parts, event)
        elif event.resets:
            _reset(parts[-1], event.time)
        if event.state:
            _give(parts[-1], event)
        elif event.observable:
            parts[-1].samples.append((event, event.time))
        before = event.time
    _count_before_doses(history, parts)
    measured = [part for part in parts if part.samples]
    found = [_experiment(history, part, k) for k, part in enumerate(measured, 1)]
    if len(found) > 1:
        note = Notice("files.nonmem_divided", history.name, {"count": len(found)})
        found[0] = replace(found[0], remarks=(*found[0].remarks, note))
    return found


def _begin(parts: list[_Part], event: Event) -> None:
    """Begin a part, in the periodic steady state of a regimen if the event is a dose with SS."""
    if not (parts and not parts[-1].samples and parts[-1].begin == event.time and not parts[-1].doses):
        parts.append(_Part(event.time))
    if event.steady:
        lasting, every = (1.0, 1.0) if event.endless else (event.duration, event.every)
        parts[-1].regimen = Doses([0.0], [event.amount], event.state, lasting), every


def _reset(part: _Part, time: float) -> None:
    """A reset also ends infusions that run and forgets doses still to come."""
    kept = []
    for one in part.doses:
        if one.time >= time:
            continue
        left = time - one.time
        if one.duration > left:
            one = _Given(one.time, one.amount * left / one.duration, one.state, left)
        kept.append(one)
    part.doses = kept
    if time > part.begin:
        part.resets.append(time)


def _give(part: _Part, event: Event) -> None:
    """The dose with those that follow it, and what still runs of earlier ones at a steady state."""
    if event.endless:
        return
    rate = event.amount / event.duration if event.duration else 0.0
    left = event.duration - event.every
    while event.steady and left > 0:
        part.doses.append(_Given(event.time, rate * left, event.state, left))
        left -= event.every
    for k in range(event.more + 1):
        part.doses.append(_Given(event.time + k * event.every, event.amount, event.state, event.duration))


def _count_before_doses(history: History, parts: Sequence[_Part]) -> None:
    """Samples in rows before a dose (or reset) at the same time show the state before it: their times move."""
    times = [event.time for event in history.events]
    span = max(times) - min(times) or 1.0
    changing = {event.row: event.time for event in history.events if event.state or event.resets}
    for part in parts:
        for k, (event, _) in enumerate(part.samples):
            if any(row > event.row and time == event.time for row, time in changing.items()):
                first = event.time <= part.begin
                moved = event.time - BEFORE_FIRST * span if first else np.nextafter(event.time, -np.inf)
                part.samples[k] = (event, float(moved))
                part.begin = min(part.begin, float(moved))


def _experiment(history: History, part: _Part, number: int) -> Experiment:
    samples: dict[str, tuple[list[float], list[float | str]]] = {}
    for event, time in part.samples:
        times, values = samples.setdefault(event.observable, ([], []))
        times.append(time)
        values.append(event.value)
    states = dict.fromkeys(one.state for one in part.doses)
    doses = []
    for state in states:
        mine = [one for one in part.doses if one.state == state]
        numbers = zip(*((one.time, one.amount, one.duration) for one in mine), strict=True)
        times, amounts, duration = map(list, numbers)
        doses.append(Doses(times, amounts, state, duration))
    rest = None
    if part.regimen is not None:
        begin = np.array(part.begin)
        held = {name: float(one.at(begin)) for name, one in history.inputs.items()}
        rest = Rest(held, doses=part.regimen[0], every=part.regimen[1])
    return Experiment(
        None,
        samples,
        name=history.name if number == 1 else f"{history.name} ({number})",
        inputs=history.inputs,
        t0=part.begin,
        rest=rest,
        doses=doses,
        covariates=history.covariates,
        resets=part.resets,
        lines=_lines(history, part),
    )


def _lines(history: History, part: _Part) -> SampleLines:
    """Where the samples of a part stand in the table, and the doses of the individual."""
    found = {}
    for observable in dict.fromkeys(event.observable for event, _ in part.samples):
        mine = [(time, event.row) for event, time in part.samples if event.observable == observable]
        times, rows = zip(*mine, strict=True)
        found[observable] = np.array(times), history.numbering[list(rows)]
    for state in dict.fromkeys(event.state for event in history.events if event.state):
        given = [event for event in history.events if event.state == state]
        lines = history.numbering[[event.row for event in given]]
        found[dose_name(state)] = np.array([event.time for event in given]), lines
    return SampleLines(found, history.place)
