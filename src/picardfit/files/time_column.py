"""The time column of a table: numbers, dates, or dates and times of day in two columns."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from picardfit.errors import InputError, closest
from picardfit.files.raw_tables import RawTable
from picardfit.problem.calendar import SECONDS, Calendar, as_order, as_unit, known_unit
from picardfit.problem.columns import unit_in, without_unit
from picardfit.problem.dates import (
    Moments,
    Order,
    are_compact_dates,
    is_time_of_day,
    looks_like_date,
    read_moments,
)

TIME_UNITS = "hours?|minutes?|seconds?|days?|weeks?|months?|years?"
DATES = r"date|date[ _-]?time|timestamp"
ALL, EACH = "all", "each"  # origins: the first row of all experiments, or of each


@dataclass(frozen=True)
class TimeSettings:
    """How the time column of a table becomes numbers.

    `unit`: of times that were dates, None for days; `origin`: the date of time 0, or the first of all experiments
    ("all") or of each ("each"); `order`: which of 3/4/2021 comes first, the day or the month.
    """

    unit: str | None = None
    origin: object = ALL
    order: Order | None = None

    @classmethod
    def of(cls, unit: object, origin: object, order: object) -> TimeSettings:
        """The settings, checked."""
        if isinstance(origin, str) and origin not in (ALL, EACH) and not looks_like_date(origin):
            raise InputError("files.origin", key=("origin",), value=origin)
        if origin not in (ALL, EACH):
            Calendar(origin)
        return cls(None if unit is None else as_unit(unit), origin, as_order(order))

    @property
    def date(self) -> object:
        """The date that the user gave as the origin, or None."""
        return None if self.origin in (ALL, EACH) else self.origin

    @property
    def calendar(self) -> Calendar | None:
        """The calendar that is known before any data are read: that of a date as the origin."""
        return None if self.date is None else Calendar(self.date, self.unit or "d")


class Times(NamedTuple):
    """Times (rows,) of a calendar; without one they are plain numbers."""

    values: np.ndarray
    calendar: Calendar | None = None
    dates: bool = False  # whether the table has dates

    def of(self, rows: np.ndarray, settings: TimeSettings) -> Times:
        """The times of the rows of one experiment, whose calendar begins with the first of them if so asked."""
        own = self.values[rows]
        if self.calendar is None or not self.dates or settings.origin != EACH:
            return self._replace(values=own)
        first = float(own.min())
        return self._replace(values=own - first, calendar=self.calendar.moved(first))


@dataclass(frozen=True)
class FarDates:
    """When some dates of an experiment lie so far from the others that a wrong year is likely; both are chosen."""

    years: float = 10.0  # the least gap
    spans: float = 20.0  # the least gap, in spans of all dates without it

    def row(self, times: Times) -> int | None:
        """The first row beyond such a gap, on the side with fewer rows; None without a gap."""
        if times.calendar is None or not times.dates:
            return None
        distinct = np.unique(times.values)
        if len(distinct) < 3:
            return None
        steps = np.diff(distinct)
        k = int(np.argmax(steps))
        rest = float(distinct[-1] - distinct[0] - steps[k])
        if (
            steps[k] * SECONDS[times.calendar.unit] < self.years * SECONDS["year"]
            or steps[k] < self.spans * rest
        ):
            return None
        late = times.values > distinct[k]
        return int(np.argmax(late if late.sum() <= len(late) / 2 else ~late))


def time_column(table: RawTable) -> str:
    """The column that is called time, or like a unit of time or a date."""
    columns = list(table.columns)
    unit = r"\s*([(\[].*[)\]])?"
    for pattern in ("(?i:time)" + unit, "t" + unit, f"(?i:t|{TIME_UNITS})" + unit, f"(?i:{DATES})" + unit):
        # T is also a common name of a state (tumour, temperature): it is the time only in the first column.
        found = [c for c in columns if re.fullmatch(pattern, c) and (c != "T" or c == columns[0])]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError("files.times_could_be", table.origin.name, columns=columns, found=found)
    close = closest("time", columns)
    error = InputError("files.no_time_column", table.origin.name, columns=columns, close=close)
    if table.sheet is not None and (others := table.sheet.others):
        code, sheet = "files.no_time_in_sheet", table.sheet.name
        error = InputError(code, table.origin.name, columns=columns, sheet=sheet, others=others)
    raise error


def read_times(table: RawTable, column: str, settings: TimeSettings) -> tuple[Times, set[str]]:
    """The times of all rows, and the columns that hold them: two where a date and a time of day stand apart."""
    cells, used = table.columns[column], {column}
    if _are_times_of_day(cells):
        dates = next(
            (one for one in table.columns if one != column and re.fullmatch(f"(?i:{DATES})", one)), None
        )
        if dates is None:
            row = next(k for k, cell in enumerate(cells) if cell)
            raise table.at(row, InputError("files.times_of_day", column, value=cells[row]))
        gap = next((k for k, clock in enumerate(cells) if not str(clock or "").strip()), None)
        if gap is not None:
            raise table.at(gap, InputError("files.no_time_of_day", column, dates=dates))
        cells, used = _joined(table.columns[dates], cells), {column, dates}
    if not _are_dates(cells):
        return _numbers(table, column, settings), used
    moments = read_moments(_as_cells(cells), column, table.at, settings.order)
    moments = moments._replace(zone=table.zones.get(column, moments.zone))
    calendar = _calendar(moments, settings)
    return Times(calendar.since(moments), calendar, True), used


def _are_dates(cells: np.ndarray) -> bool:
    if cells.dtype != object:
        return cells.dtype.kind == "M" or (cells.dtype.kind in "if" and are_compact_dates(cells))
    with suppress(ValueError, TypeError):
        return are_compact_dates(cells.astype(float))
    return any(map(looks_like_date, cells))


def _as_cells(cells: np.ndarray) -> list[object] | np.ndarray:
    """Compact dates that are numbers as texts; other cells as they are."""
    return [str(int(cell)) for cell in cells] if cells.dtype.kind in "if" else cells


def _are_times_of_day(cells: np.ndarray) -> bool:
    """Judged by the first cell that is not blank."""
    return cells.dtype == object and is_time_of_day(next(filter(None, cells), None))


def _joined(dates: np.ndarray, clocks: np.ndarray) -> np.ndarray:
    """(rows,) texts of dates and times of day; a missing part leaves the other alone, which is then refused."""
    days = dates.astype("datetime64[D]").astype(str) if dates.dtype.kind == "M" else dates
    return np.array(
        [f"{day or ''} {clock or ''}".strip() for day, clock in zip(days, clocks, strict=True)], object
    )


def _numbers(table: RawTable, column: str, settings: TimeSettings) -> Times:
    """Plain numbers; with a date as the origin they count from there."""
    values = table.numbers(column, missing=False)
    header, calendar = known_unit(unit_in(column) or without_unit(column)), settings.calendar
    if header and calendar and header != calendar.unit:
        raise InputError("files.two_time_units", column, unit=calendar.unit, header=header)
    return Times(values, calendar)


def _calendar(moments: Moments, settings: TimeSettings) -> Calendar:
    unit = settings.unit or "d"
    if settings.date is not None:
        return Calendar(settings.date, unit, moments.zone)
    first: datetime = moments.at.min().item()
    return Calendar(first.replace(tzinfo=UTC) if moments.zone else first, unit, moments.zone)
