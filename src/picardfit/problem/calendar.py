"""Calendar: what links the times of an experiment, which are numbers, to dates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from picardfit.errors import InputError, Key, closest
from picardfit.problem.dates import (
    Locate,
    Moments,
    Order,
    is_time_of_day,
    looks_like_date,
    read_moments,
    zone_info,
)

SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "week": 604800.0, "year": 31557600.0}
_SPELLINGS = {
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "week": "week weeks wk",
    "year": "year years yr yrs a",
}
_UNITS = {spelling: unit for unit, several in _SPELLINGS.items() for spelling in several.split()}
EARLIEST = np.datetime64("0001-01-02", "us")  # what Python's dates hold in every time zone
LATEST = np.datetime64("9999-12-30", "us")
_STEPS = {"D": "%Y-%m-%d", "m": "%Y-%m-%d %H:%M", "s": "%Y-%m-%d %H:%M:%S"}  # steps of clocks, coarsest first


def known_unit(text: str) -> str | None:
    """The unit of time that a text names: `h` for hours; None for anything else."""
    return _UNITS.get(text.strip().lower())


def as_unit(unit: object) -> str:
    """The unit of time that a user names; a month has no fixed length."""
    found = known_unit(unit) if isinstance(unit, str) else None
    if found is None:
        known = list(SECONDS)
        raise InputError("problem.time_unit", str(unit), known=known, close=closest(str(unit), known))
    return found


def as_order(order: object) -> Order | None:
    """What a user says about the order of day and month."""
    if order is None or order in list(Order):
        return None if order is None else Order(order)  # type: ignore[arg-type]
    raise InputError("problem.unknown_date_order", value=order)


@dataclass(frozen=True, init=False)
class Calendar:
    """Time 0 of an experiment as a date, `origin`, and the `unit` in which its times count from there.

    `origin`: a date or datetime, or its text in ISO form. `unit`: s, min, h, d, week or year (365.25 days); days of
    24 hours. `zone`: the time zone in which dates are shown, as Europe/Berlin or +01:00; by default that of the
    origin. Without a time zone, dates are what a clock showed that never was put forward or back.
    """

    origin: datetime  # in UTC where there is a zone; without tzinfo in either case
    unit: str
    zone: str

    def __init__(self, origin: object, unit: str = "d", zone: str = "") -> None:
        at, own = _one_moment(origin, "origin")
        object.__setattr__(self, "unit", as_unit(unit))
        object.__setattr__(self, "zone", zone or own)
        if zone:
            zone_info(zone)  # must be known
        moment = np.array([at], dtype="datetime64[us]")
        object.__setattr__(self, "origin", (moment if own else self._in_utc(moment))[0].item())

    def times(self, dates: object, what: str = "times", order: Order | None = None) -> np.ndarray:
        """Dates as times (n,): how many units they are after the origin."""
        return self.since(read_moments(_listed(dates), what, _in_entry(what), order))

    def since(self, moments: Moments) -> np.ndarray:
        """Moments as times (n,); those without a time zone are in that of the calendar."""
        if moments.zone and not self.zone:
            raise InputError("problem.calendar_zones", zone=moments.zone)
        at = moments.at if moments.zone else self._in_utc(moments.at)
        spans = at - np.datetime64(self.origin, "us")
        return np.asarray(spans / np.timedelta64(1, "us") / (1e6 * SECONDS[self.unit]))

    @property
    def start(self) -> datetime:
        """The origin, with its time zone if it has one."""
        return self.origin.replace(tzinfo=UTC) if self.zone else self.origin

    def moved(self, time: float) -> Calendar:
        """The calendar in which this time is time 0."""
        origin = self.moments([time])[0].item()
        return Calendar(origin.replace(tzinfo=UTC) if self.zone else origin, self.unit, self.zone)

    def _in_utc(self, local: np.ndarray) -> np.ndarray:
        """What a clock in the calendar's time zone shows, in UTC; without a time zone as it is."""
        if not self.zone:
            return local
        info = zone_info(self.zone)
        moments = [one.replace(tzinfo=info).astimezone(UTC).replace(tzinfo=None) for one in local.tolist()]
        return np.array(moments, dtype="datetime64[us]")

    def dates(self, times: Iterable[float] | np.ndarray) -> np.ndarray:
        """Times as datetime64[us] (n,): in the calendar's time zone, as a clock there shows."""
        moments = self.moments(times)
        if not self.zone:
            return moments
        info = zone_info(self.zone)
        local = [one.replace(tzinfo=UTC).astimezone(info).replace(tzinfo=None) for one in moments.tolist()]
        return np.array(local, dtype="datetime64[us]")

    def moments(self, times: Iterable[float] | np.ndarray) -> np.ndarray:
        """Times as datetime64[us] (n,): in UTC where there is a time zone."""
        seconds = np.asarray(times, float) * SECONDS[self.unit]
        since_earliest = seconds + (np.datetime64(self.origin, "us") - EARLIEST) / np.timedelta64(1, "s")
        beyond = (since_earliest < 0) | (since_earliest > (LATEST - EARLIEST) / np.timedelta64(1, "s"))
        if beyond.any():
            time = float(np.asarray(times, float)[beyond].flat[0])
            raise InputError("problem.beyond_dates", time=time, unit=self.unit)
        return np.datetime64(self.origin, "us") + np.round(1e6 * seconds).astype("timedelta64[us]")

    def texts(self, times: Iterable[float] | np.ndarray, exact: bool = False) -> list[str]:
        """Times as texts in ISO form, as short as all of them allow: days, minutes or seconds.

        `exact` keeps microseconds and the offset from UTC, so that the texts can be read again without loss.
        """
        dates, shown = self.dates(times), list[str]()
        seconds = (dates + np.timedelta64(500_000, "us")).astype("datetime64[s]")  # the nearest ones
        steps = [step for step in _STEPS if (seconds.astype(f"datetime64[{step}]") == seconds).all()]
        if exact and (seconds != dates).any():
            shown = list(map(str, dates))
        else:
            pattern = _STEPS["s" if exact and self.zone else steps[0]]
            shown = [one.strftime(pattern) for one in seconds.tolist()]
        if not exact or not self.zone:
            return shown
        return [
            f"{one}{self._offset(at)}" for one, at in zip(shown, self.moments(times).tolist(), strict=True)
        ]

    def _offset(self, moment: datetime) -> str:
        """`+01:00` at a moment in UTC."""
        return moment.replace(tzinfo=UTC).astimezone(zone_info(self.zone)).isoformat()[-6:]

    def text(self, time: float) -> str:
        return self.texts([time])[0]

    def record(self) -> dict[str, object]:
        """The calendar as texts; `Calendar.from_record` reads them."""
        return {"origin": self._written(), "unit": self.unit, "zone": self.zone}

    def _written(self) -> str:
        return self.start.isoformat()

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> Calendar:
        texts = {name: record.get(name) for name in ("origin", "unit", "zone")}
        if not all(isinstance(one, str) for one in texts.values()):
            raise InputError("problem.saved_calendar", value=dict(record))
        return cls(texts["origin"], str(texts["unit"]), str(texts["zone"]))

    def __reduce__(self) -> tuple[type[Calendar], tuple[str, str, str]]:
        return Calendar, (self._written(), self.unit, self.zone)

    def __repr__(self) -> str:
        """As Python code that makes it again."""
        zone = f", zone={self.zone!r}" if self.zone else ""
        return f"pf.Calendar({self._written()!r}, {self.unit!r}{zone})"


def holds_dates(values: object) -> bool:
    """Whether a sequence holds dates, or texts that only dates can be."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufbmM":
        return bool(values.dtype.kind == "M")
    return any(looks_like_date(one) for one in _listed(values))


def dated(
    values: object,
    calendar: Calendar | None,
    what: str = "times",
    unit: str = "d",
    order: Order | None = None,
) -> tuple[object, Calendar | None]:
    """Dates as times of a calendar, which begins with the first of them if there is none yet.

    Anything else is returned as it is: the same object.
    """
    plain = isinstance(values, np.ndarray) and values.dtype.kind in "iuf"
    if plain or not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping | Set):
        return values, calendar
    listed = _listed(values)
    if not holds_dates(listed):
        if any(map(is_time_of_day, listed)):
            raise InputError("problem.time_of_day", what)
        return values, calendar
    if calendar is None:
        found, zone = read_moments(listed, what, _in_entry(what), order)
        first = found.min().item()
        calendar = Calendar(first.replace(tzinfo=UTC) if zone else first, unit, zone)
    return calendar.times(listed, what, order), calendar


def time_texts(times: np.ndarray, calendar: Calendar | None, digits: int = 6) -> list[str]:
    """Times for people: as dates of a calendar, else with this number of digits."""
    return [f"{time:.{digits}g}" for time in times] if calendar is None else calendar.texts(times)


class GivenSamples(NamedTuple):
    """Times and observations as the user gave them, with numbers in place of dates."""

    times: object
    observations: object
    calendar: Calendar | None
    had_dates: bool


def without_dates(times: object, observations: object, calendar: Calendar | None) -> GivenSamples:
    """What a user gives an experiment; its dates become numbers, also where each observable has its own."""
    times = list(times) if isinstance(times, Iterator) else times
    if times is not None:
        numbers, own = dated(times, calendar)
        return GivenSamples(numbers, observations, own, numbers is not times)
    pairs = observations if isinstance(observations, Mapping) else {}
    moments = [pair[0] for pair in pairs.values() if _is_pair(pair) and holds_dates(pair[0])]
    if not moments:
        return GivenSamples(times, observations, calendar, False)
    if calendar is None:  # one for all: it begins with the first date of any observable
        _, calendar = dated([one for column in moments for one in column], None)
    own_times = {
        name: (dated(pair[0], calendar)[0], pair[1]) if _is_pair(pair) else pair
        for name, pair in pairs.items()
    }
    return GivenSamples(None, own_times, calendar, True)


def table_of_dates(spec: object, calendar: Calendar | None) -> object:
    """A table (dates, values) of an input with numbers in place of dates; anything else as it is."""
    return (times_of(spec[0], calendar), spec[1]) if _is_pair(spec) and holds_dates(spec[0]) else spec


def times_of(times: object, calendar: Calendar | None) -> object:
    """A sequence of dates as times; anything else as it is."""
    return _known(calendar).times(times) if holds_dates(times) else times


def dates_as_times(dates: object, calendar: Calendar | None, what: str, key: Key) -> np.ndarray:
    """Dates as times (n,); an InputError for anything else. `what` they are, in words; `key`: who wrote them."""
    try:
        return _known(calendar).times(dates, what)
    except InputError as error:
        raise error.at(key=key) from None


def number_of(moment: object, calendar: Calendar | None, key: Key = ()) -> object:
    """A date as a time; anything else as it is. `key`: where the user wrote it."""
    return float(_known(calendar, key).times([moment])[0]) if looks_like_date(moment) else moment


def _known(calendar: Calendar | None, key: Key = ()) -> Calendar:
    if calendar is None:
        raise InputError("problem.no_calendar", key=key)
    return calendar


def _is_pair(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a pair such as (times, values), where times are no iterator, which could be read only once."""
    first = value[0] if isinstance(value, tuple | list) and len(value) == 2 else None
    return isinstance(first, Iterable) and not isinstance(first, str | Iterator)


def _listed(values: object) -> list[object] | np.ndarray:
    if isinstance(values, np.ndarray) or getattr(values, "dtype", None) is not None:
        array = np.asarray(values)
        return array if array.dtype.kind == "M" else list(array.ravel()) if array.ndim else [array.item()]
    return list(values) if isinstance(values, Iterable) else [values]


def _one_moment(value: object, what: str) -> tuple[datetime, str]:
    """A date and its time zone; without a time zone an empty text."""
    if not isinstance(value, str | date | np.datetime64) and not looks_like_date(value):
        raise InputError("problem.not_a_date", what, value=value)
    found, zone = read_moments([value], what, lambda _, error: error)
    return found[0].item(), zone


def _in_entry(what: str) -> Locate:
    return lambda row, error: error.within("problem.in_entry", what=what, entry=row + 1)
