"""Doses: amounts that are added to a state at given times, at once or over a while.

An amount that is given at once is a jump of the path, x+ = x- + amount; the mesh and the integrators get a knot there.
An infusion is an input: a rate, amount / duration, that is added to the right-hand side of its state while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np

from picardfit.checks import as_mapping, is_number
from picardfit.errors import InputError
from picardfit.model.added_inputs import INFUSION, INPUT_TIME, SLOPE
from picardfit.model.inputs import Clock, Constant, Input, Slope, Table
from picardfit.model.number_arrays import number_array, read_only


@dataclass(frozen=True, eq=False, init=False)
class Doses:
    """Amounts that are added to one state.

    `times`: n numbers, or dates for an experiment with dates; `amounts`: n numbers, or one for all; `into`: the state;
    `duration`: how long each dose takes, n numbers or one for all, where 0 adds the amount at once and exactly. Doses
    are sorted by time; several doses at one time add up.
    Dates stay in `dates`, in their order, with NaN in `times`, until an experiment gives them numbers (`at_times`).
    """

    times: np.ndarray  # (n,)
    amounts: np.ndarray  # (n,)
    into: str
    duration: np.ndarray  # (n,)
    dates: tuple[object, ...] | None

    def __init__(self, times: object, amounts: object, into: str, duration: object = 0.0) -> None:
        if not isinstance(into, str) or not into:
            raise InputError("model.dose_without_state", key=("doses",), value=into)
        listed = [times] if is_number(times) or _may_be_date(times) else times
        dates = _dates(listed)
        own = number_array(listed, "times", into) if dates is None else np.full(len(dates), np.nan)
        if len(own) == 0:
            raise InputError("model.no_doses", into, key=("doses", into))
        amount, lasting = (
            _for_each(given, what, into, len(own))
            for given, what in ((amounts, "amounts"), (duration, "duration"))
        )
        if (lasting < 0).any():
            value = float(lasting[lasting < 0][0])
            raise InputError("model.dose_duration", into, key=("doses", into), value=value)
        order = np.argsort(own, kind="stable")
        for name, values in (("times", own), ("amounts", amount), ("duration", lasting)):
            object.__setattr__(self, name, read_only(values[order]))
        object.__setattr__(self, "into", into)
        object.__setattr__(self, "dates", dates)

    def at_times(self, times: object) -> Doses:
        """The doses with these numbers (n,) as times, in place of their dates."""
        return Doses(times, self.amounts, self.into, self.duration)

    def at_once_if_below(self, duration: float) -> Doses:
        """The doses, with infusions that are shorter than this given at once."""
        brief = self.infused & (self.duration < duration)
        if not brief.any():
            return self
        return Doses(self.times, self.amounts, self.into, np.where(brief, 0.0, self.duration))

    def __reduce__(self) -> tuple[type[Doses], tuple[object, ...]]:
        times = self.times if self.dates is None else self.dates
        return Doses, (times, self.amounts, self.into, self.duration)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Doses) and self.spec() == other.spec()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.into, *(a.tobytes() for a in (self.times, self.amounts, self.duration))))

    def __repr__(self) -> str:
        return f"Doses({self.describe()})"

    @property
    def infused(self) -> np.ndarray:
        """(n,) bool: doses that take time."""
        return self.duration > 0

    def describe(self, ends: Sequence[str] = ()) -> str:
        """`3 doses into gut from 0 to 24`; `ends`: the first and last time in words, such as dates."""
        amounts = "" if np.ptp(self.amounts) else f" of {self.amounts[0]:g}"
        kind = "infusion" if self.infused.all() else "dose"
        count = len(self.times)
        first, last = ends or [f"{time:g}" for time in self.times[[0, -1]]]
        when = f"at {first}" if count == 1 else f"from {first} to {last}"
        if self.dates is not None:
            when = f"at {self.dates[0]}" + (" ..." if count > 1 else "")
        return f"{count} {kind}{'s' if count > 1 else ''}{amounts} into {self.into} {when}"

    def spec(self) -> dict[str, object]:
        """A description for JSON, which `doses_from_spec` reads back."""
        numbers = {n: getattr(self, n).tolist() for n in ("times", "amounts", "duration")}
        return {"into": self.into, **numbers}


def _for_each(given: object, what: str, into: str, count: int) -> np.ndarray:
    """(count,) from one number for all doses or one for each."""
    if is_number(given):
        return np.full(count, number_array([given], what, into)[0])
    if isinstance(given, str):
        raise InputError("model.dose_formula", into, key=("doses", into), what=what, value=given)
    values = number_array(given, what, into)
    if len(values) != count:
        raise InputError(
            "model.dose_lengths", into, key=("doses", into), times=count, what=what, values=len(values)
        )
    return values


def _dates(times: object) -> tuple[object, ...] | None:
    """The dates in a sequence of times; None where it holds numbers, or nothing that could be a date."""
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        return tuple(times)
    listed = tuple(times) if isinstance(times, Iterable) and not isinstance(times, Mapping) else ()
    return listed if any(map(_may_be_date, listed)) else None


def _may_be_date(value: object) -> bool:
    """Whether a value is a date, or a text that is no number but has digits; a calendar reads it."""
    if not isinstance(value, str):
        return isinstance(value, date | np.datetime64)
    try:
        float(value)
    except ValueError:
        return any(one.isdigit() for one in value)
    return False


def as_doses(given: object, dates: bool = False) -> tuple[Doses, ...]:
    """The doses meant by None, one pf.Doses or several; their times are numbers unless `dates` are known."""
    if given is None:
        return ()
    several = [given] if isinstance(given, Doses) else given
    if not isinstance(several, Iterable) or isinstance(several, str):
        raise InputError("model.not_doses", key=("doses",), value=given)
    members = tuple(several)
    for one in members:
        if not isinstance(one, Doses):
            raise InputError("model.not_doses", key=("doses",), value=one)
        if one.dates is not None and not dates:
            raise InputError("model.dose_dates", one.into, key=("doses",), value=str(one.dates[0]))
    return members


def doses_from_spec(spec: Any) -> Doses:
    """The doses that `spec()` described."""
    record = as_mapping(spec, "doses")
    if record.keys() != {"into", "times", "amounts", "duration"}:
        raise InputError("model.saved_doses", value=spec)
    return Doses(record["times"], record["amounts"], str(record["into"]), record["duration"])


# ---- infusions -----------------------------------------------------------------------------------------------------


class Signals(dict[str, Input]):
    """Inputs by name; the infusion into a state that an experiment does not infuse is zero.

    Models with a clock also ask for slopes of inputs and for the time of their values (model/clock.py).
    """

    def __missing__(self, name: str) -> Input | Slope | Clock:
        if name == INPUT_TIME:
            return Clock()
        if name.startswith(SLOPE):
            return Slope(self[name.removeprefix(SLOPE)])
        if not name.startswith(INFUSION):
            raise KeyError(name)
        return Constant(0.0)


def infused_states(doses: Iterable[Doses]) -> tuple[str, ...]:
    """The states with a dose that takes time, in order of appearance."""
    return tuple(dict.fromkeys(one.into for one in doses if one.infused.any()))


def infusion_rates(doses: Sequence[Doses]) -> dict[str, Table]:
    """The input of every infused state: the sum of the rates amount / duration of the infusions that run."""
    found = {}
    for state in infused_states(doses):
        mine = [one for one in doses if one.into == state]
        start, amount, lasting = (
            np.concatenate([getattr(one, name)[one.infused] for one in mine])
            for name in ("times", "amounts", "duration")
        )
        stop, rate = start + lasting, amount / lasting
        times = np.unique(np.concatenate([start, stop]))
        running = (start <= times[:, None]) & (times[:, None] < stop)
        values = np.where(running, rate, 0.0).sum(axis=1)  # exactly zero where none runs
        before = times[0] - max(
            1.0, abs(float(times[0]))
        )  # a table holds its first value before its first time
        found[INFUSION + state] = Table(np.append(before, times), np.append(0.0, values))
    return found


# ---- jumps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Jumps:
    """Jumps of the states at given times, x+ = keep x- + add: doses, and resets where `keep` is 0."""

    times: np.ndarray  # (jumps,), ascending
    keep: np.ndarray  # (jumps, states): 1 or 0
    add: np.ndarray  # (jumps, states)

    def __len__(self) -> int:
        return len(self.times)

    def part(self, chosen: np.ndarray) -> Jumps | None:
        """The jumps chosen by a mask (jumps,); None if there are none."""
        if not chosen.any():
            return None
        return Jumps(self.times[chosen], self.keep[chosen], self.add[chosen])

    def after(self, time: float) -> Jumps | None:
        """The jumps later than a time."""
        return self.part(self.times > time)

    def of_first(self, states: int) -> Jumps:
        """The jumps of the first states alone."""
        return Jumps(self.times, self.keep[:, :states], self.add[:, :states])

    def with_more(self, states: int) -> Jumps:
        """The jumps beside further states, which they leave as they are."""
        rows = len(self.times)
        keep, add = np.ones((rows, states)), np.zeros((rows, states))
        return Jumps(self.times, np.hstack([self.keep, keep]), np.hstack([self.add, add]))

    def at(self, time: float, x: np.ndarray) -> np.ndarray:
        """The states (..., states) after the jump at exactly this time, if there is one."""
        for k in np.flatnonzero(self.times == time):
            x = self.keep[k] * x + self.add[k]
        return x


def jumps_of(
    states: Sequence[str],
    doses: Iterable[Doses],
    resets: Sequence[float] | np.ndarray = (),
    reset_to: np.ndarray | None = None,
) -> Jumps | None:
    """The jumps that doses and resets cause; a reset comes before the doses at its time. None without any."""
    at_once = [(one, ~one.infused) for one in doses]
    given = [one.times[mask] for one, mask in at_once]
    times = np.unique(np.concatenate([*given, np.asarray(resets, float)]))
    if not len(times):
        return None
    keep, add = np.ones((len(times), len(states))), np.zeros((len(times), len(states)))
    if len(resets):
        rows = np.searchsorted(times, resets)
        keep[rows], add[rows] = 0.0, 0.0 if reset_to is None else reset_to
    for one, mask in at_once:
        np.add.at(add[:, states.index(one.into)], np.searchsorted(times, one.times[mask]), one.amounts[mask])
    return Jumps(times, keep, add)
