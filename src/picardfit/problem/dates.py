"""Dates as users and tables write them -> moments: datetime objects of Python, NumPy and pandas, and texts.

Texts may be ISO 8601 (2021-03-04, 2021-03-04T10:30:00+01:00), have the day or the month first (04.03.2021, 3/4/2021
10:30 PM) or name the month (4 Mar 2021). Which of 3/4/2021 is the month is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from picardfit.errors import InputError
from picardfit.model.number_arrays import MISSING, NUMBER

Locate = Callable[[int, InputError], InputError]  # an error with the place of the k-th cell


class Order(StrEnum):
    """Which number of 3/4/2021 comes first: the day or the month."""

    DMY = "dmy"
    MDY = "mdy"


@dataclass(frozen=True)
class DateLimits:
    """Years of plausible measurements: 202 and 20211 are typing errors, and nothing was measured in 2201."""

    first: int = 1500
    last: int = 2199


class Moments(NamedTuple):
    """Moments (n,) as datetime64[us]: as they were written, or in UTC where they have a time zone."""

    at: np.ndarray
    zone: str  # "Europe/Berlin", "+01:00" or "UTC", in which they were written; "" without time zones


_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(?:\s*([AaPp])\.?[Mm]\.?)?"
_ZONE = r"(?:\s*(Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?"
_REST = rf"(?:(?:T|\s*,?\s+){_CLOCK}{_ZONE})?"  # what may follow a date
_YEAR_FIRST = re.compile(rf"(\d{{3,6}})([-/.])(\d{{1,2}})(?:\2(\d{{1,2}}))?{_REST}")
_COMPACT = re.compile(rf"(\d{{4}})()(\d{{2}})(\d{{2}}){_REST}")
_YEAR_LAST = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{2,6}}){_REST}")
_DAY_NAME = re.compile(rf"(\d{{1,2}})[-/. ]+([A-Za-z]{{3,9}})[-/., ]+(\d{{3,6}}){_REST}")
_NAME_DAY = re.compile(rf"([A-Za-z]{{3,9}})\.? (\d{{1,2}}),? (\d{{3,6}}){_REST}")
_TIME_OF_DAY = re.compile(_CLOCK)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL_YEAR = 4  # digits


def looks_like_date(cell: object) -> bool:
    """Whether a cell is a date, or a text that only a date can be; 20210304 is also a number."""
    if isinstance(cell, (date, np.datetime64)) or _is_period(cell):
        return bool(cell == cell)  # NaT is a datetime
    return isinstance(cell, str) and _split(cell.strip()) is not None


def is_time_of_day(cell: object) -> bool:
    """Whether a cell is a time of day without its date."""
    return isinstance(cell, time) or (isinstance(cell, str) and bool(_TIME_OF_DAY.fullmatch(cell.strip())))


def are_compact_dates(numbers: np.ndarray, limits: DateLimits = DateLimits()) -> bool:
    """Whether all numbers are dates such as 20210304; nothing else that is measured in time looks like that."""
    if not len(numbers) or not np.isfinite(numbers).all() or (numbers % 1).any():
        return False
    year, rest = np.divmod(numbers, 10_000)
    month, day = np.divmod(rest, 100)
    plausible = (limits.first <= year) & (year <= limits.last) & (month >= 1) & (month <= 12)
    return bool((plausible & (day >= 1) & (day <= 31)).all())


def read_moments(
    cells: Sequence[object] | np.ndarray,
    subject: str,
    locate: Locate,
    order: Order | None = None,
    limits: DateLimits = DateLimits(),
) -> Moments:
    """The dates in a column; `subject`: its name; `locate` adds the place of a cell to an error.

    Cells without a date, numbers among dates, years out of range, dates with and without time zone together, and an
    order of day and month that nothing decides are InputErrors.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        at, zone = cells.astype("datetime64[us]"), ""
        for row in np.flatnonzero(np.isnat(at))[:1]:
            raise locate(int(row), InputError("problem.date_missing", subject))
    else:
        found = _datetimes(cells, subject, locate, order)
        aware = [one.tzinfo is not None for one in found]
        if any(aware) and not all(aware):
            row = aware.index(not aware[0])
            raise locate(row, InputError("problem.date_zones", subject, value=str(cells[row])))
        zone = zone_name(found) if any(aware) else ""
        plain = [one.astimezone(UTC).replace(tzinfo=None) for one in found] if zone else found
        at = np.array(plain, dtype="datetime64[us]")
    years = at.astype("datetime64[Y]").astype(int) + 1970
    for row in np.flatnonzero((years < limits.first) | (years > limits.last))[:1]:
        raise locate(int(row), _odd_year(subject, str(cells[row]), int(years[row]), limits))
    return Moments(at, zone)


def _odd_year(subject: str, value: str, year: int, limits: DateLimits) -> InputError:
    code = "problem.date_year"
    return InputError(code, subject, value=value, year=year, first=limits.first, last=limits.last)


# ---- cells -> datetimes --------------------------------------------------------------------------------------------


class _Parts(NamedTuple):
    """A date as it is split: texts of its parts."""

    year: str
    month: str
    day: str
    clock: tuple[str | None, ...]  # hour, minute, second, fraction, a or p, zone
    open: bool = False  # which of month and day is which is not known
    separator: str = ""


def _split(text: str) -> _Parts | None:
    """The parts of a text that has the form of a date."""
    if found := _YEAR_FIRST.fullmatch(text):
        year, separator, month, day, *clock = found.groups()
        if day is None and (separator != "-" or len(year) != _FULL_YEAR):  # 2021.03 is a number
            return None
        return _Parts(year, month, day or "1", tuple(clock))
    if found := _YEAR_LAST.fullmatch(text):
        first, separator, second, year, *clock = found.groups()
        return _Parts(year, second, first, tuple(clock), True, separator)
    if found := _DAY_NAME.fullmatch(text):
        day, name, year, *clock = found.groups()
    elif found := _NAME_DAY.fullmatch(text):
        name, day, year, *clock = found.groups()
    else:
        return None
    if name[:3].lower() not in _MONTHS:
        return None
    return _Parts(year, str(_MONTHS.index(name[:3].lower()) + 1), day, tuple(clock))


def _datetimes(
    cells: Sequence[object] | np.ndarray, subject: str, locate: Locate, order: Order | None
) -> list[datetime]:
    found: list[datetime | _Parts] = []
    for row, cell in enumerate(cells):
        try:
            found.append(_moment(cell, subject))
        except InputError as error:
            raise locate(row, error) from None
    order = _decided(found, subject, locate, order)
    made = []
    for row, one in enumerate(found):
        try:
            made.append(one if isinstance(one, datetime) else _made(one, order))
        except (ValueError, OverflowError):
            doubtful = isinstance(one, _Parts) and one.open
            code = "problem.date_impossible_in_order" if doubtful else "problem.date_impossible"
            raise locate(row, InputError(code, subject, value=str(cells[row]))) from None
    return made


def _moment(cell: object, subject: str) -> datetime | _Parts:
    """A cell as a datetime, or as the parts of one."""
    if _is_missing(cell):
        raise InputError("problem.date_missing", subject)
    if _is_period(cell):
        cell = cell.start_time  # type: ignore[attr-defined]
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, datetime):
        return _plain(cell)
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)
    text = str(cell).strip()
    parts = _split(text)
    if parts is None and (found := _COMPACT.fullmatch(text)):
        year, _, month, day, *clock = found.groups()
        parts = _Parts(year, month, day, tuple(clock))
    if parts is None:
        code = "problem.date_among_numbers" if re.fullmatch(NUMBER, text) else "problem.date_unknown"
        raise InputError(code, subject, value=text)
    if len(parts.year) < _FULL_YEAR - 1:
        raise InputError("problem.date_short_year", subject, value=text)
    if len(parts.year) != _FULL_YEAR or not int(parts.year):
        raise _odd_year(subject, text, int(parts.year), DateLimits())
    return parts


def _is_missing(cell: object) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def _is_period(cell: object) -> bool:
    """Whether a cell is a Period of pandas, such as a month; pandas itself is not imported for this."""
    return type(cell).__name__ == "Period" and hasattr(cell, "start_time")


def _plain(cell: datetime) -> datetime:
    """A datetime of the standard library, for pandas' own has nanoseconds."""
    return datetime(*cell.timetuple()[:6], cell.microsecond, tzinfo=cell.tzinfo, fold=cell.fold)


def _decided(
    found: Sequence[datetime | _Parts], subject: str, locate: Locate, order: Order | None
) -> Order | None:
    """Which number is the month: as the user says, or as a number above 12 shows; dots stand after days."""
    doubtful = {row: one for row, one in enumerate(found) if isinstance(one, _Parts) and one.open}
    if order is not None or not doubtful:
        return order
    month_first = [row for row, one in doubtful.items() if int(one.month) > 12]
    day_first = [row for row, one in doubtful.items() if int(one.day) > 12]
    if month_first and day_first:
        one, other = (_written(doubtful[rows[0]]) for rows in (day_first, month_first))
        raise locate(
            max(day_first[0], month_first[0]),
            InputError("problem.date_orders", subject, one=one, other=other),
        )
    if month_first or day_first:
        return Order.DMY if day_first else Order.MDY
    if all(one.separator == "." or one.day == one.month for one in doubtful.values()):
        return Order.DMY
    row = next(row for row, one in doubtful.items() if one.day != one.month)
    raise locate(row, InputError("problem.date_order", subject, value=_written(doubtful[row])))


def _written(one: _Parts) -> str:
    return one.separator.join((one.day, one.month, one.year))


def _made(parts: _Parts, order: Order | None) -> datetime:
    month, day = parts.month, parts.day
    if parts.open and order is Order.MDY:
        month, day = day, month
    hour, minute, second, fraction, half, zone = parts.clock
    hours = int(hour or 0)
    if half is not None:
        if not 1 <= hours <= 12:
            raise ValueError(hours)
        hours = hours % 12 + (12 if half.lower() == "p" else 0)
    midnight = (
        hours == 24 and half is None and not (int(minute or 0) or int(second or 0))
    )  # the end of the day
    micro = int((fraction or "0")[:6].ljust(6, "0"))
    clock = (0 if midnight else hours, int(minute or 0), int(second or 0), micro)
    made = datetime(int(parts.year), int(month), int(day), *clock, tzinfo=_offset(zone))
    return made + timedelta(days=1) if midnight else made


# ---- time zones ----------------------------------------------------------------------------------------------------


def _offset(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    if text in ("Z", "UTC", "GMT"):
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-size if text[0] == "-" else size)


def zone_info(zone: str) -> tzinfo:
    """The time zone of a name such as Europe/Berlin, or of an offset such as +01:00."""
    if re.fullmatch(r"[+-]\d{2}:\d{2}", zone):
        offset = _offset(zone)
        assert offset is not None
        return offset
    try:
        return UTC if zone == "UTC" else ZoneInfo(zone)
    except (LookupError, ValueError, OSError):
        raise InputError("problem.unknown_zone", zone) from None


def zone_name(found: Sequence[datetime]) -> str:
    """The name of the time zone that all share, or their offset; UTC where they differ."""
    names = {str(one.tzinfo) for one in found}
    if len(names) == 1 and not re.search(r"\d", name := names.pop()):
        try:
            zone_info(name)
            return name
        except InputError:
            pass
    offsets = {one.utcoffset() or timedelta(0) for one in found}
    if len(offsets) > 1 or offsets == {timedelta(0)}:
        return "UTC"
    minutes = round(offsets.pop() / timedelta(minutes=1))
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
