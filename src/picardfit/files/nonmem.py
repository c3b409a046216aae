"""Experiments from tables with the columns of NONMEM: samples, doses and resets, one row each.

This module reads the rows; nonmem_events.py turns the rows of an individual into experiments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Any

import numpy as np

from picardfit.errors import InputError, Notice
from picardfit.files.measured_columns import censored_cell, coded_missing, required_column
from picardfit.files.nonmem_events import Event, History, experiments_of
from picardfit.files.raw_tables import RawTable, read_raw_table
from picardfit.files.tables import covariate_of, held_input, left_out
from picardfit.model.number_arrays import MISSING, NUMBER
from picardfit.problem.calendar import as_order
from picardfit.problem.columns import columns_ignored, find_name
from picardfit.problem.dates import Order, looks_like_date, read_moments
from picardfit.problem.experiment import Experiment

MOST_DOSES = 100_000  # that one row may stand for, a dose every hour for eleven years; more is a mistake
COLUMNS = ("AMT", "EVID", "RATE", "II", "ADDL", "SS", "MDV", "CENS", "LIMIT")
NAMING = ("CMT", "DVID")  # they hold numbers, or names of compartments and of what was measured
LASTING = ("TINF", "DUR", "DURATION")  # of infusions, as other programs write it
DATES = {"DATE": None, "DAT1": "dmy", "DAT2": "ymd", "DAT3": "ydm"}  # the order of day, month and year
LAST_OF_2000S = 50  # NONMEM's LAST20: years with two digits up to this one are after 2000
COMMENT = r"[A-Za-z@#].*"  # a row that begins like this, where others begin with numbers (NONMEM's IGNORE=@)
CLOCK = r"(\d{1,3}):(\d{2})(?::(\d{2}))?"
MISSING_NAME = "DV"  # the observable of a table that gives it no name


def read_nonmem(
    source: object,
    *,
    doses: Mapping[Any, str] | str | None = None,
    observables: Mapping[Any, str] | str | None = None,
    covariates: Iterable[str] = (),
    inputs: Iterable[str] = (),
    date_order: str | None = None,
) -> list[Experiment]:
    """The experiments, one for each ID, in a table with the columns of NONMEM: a file, an open file or a DataFrame.

    ID, TIME, DV and, where needed, AMT EVID CMT RATE II ADDL SS MDV DVID CENS LIMIT; upper or lower case, `.` is
    missing; rows with a `C` in the column C are comments, and so are those that begin with a letter where most begin
    with a number. `doses`: compartment (CMT) -> state; one state if all doses go there. `observables`: DVID, or CMT in
    a table without DVID, -> observable; one name if all samples show the same (DV if None). The keys of both are
    numbers, or names as in the table. `covariates`: columns that are constant for each ID. `inputs`: columns held from
    row to row.
    Doses that the rows after them in the file see at the same time are given; a sample in a row before its dose shows
    the state just before. Clock times and dates become hours since the first row of each ID; `date_order` says whether
    the day ("dmy") or the month ("mdy") comes first in DATE, where no date decides it (DAT1: day first, DAT2: year
    first, DAT3: year and day first). SS = 1 begins the experiment in the periodic steady state, EVID 3 and 4 reset the
    states.
    """
    table = read_raw_table(source)
    try:
        return _Reader(table, doses, observables, covariates, inputs, date_order).experiments()
    except InputError as error:
        raise table.origin.at(error) from None


def _key(text: object) -> str:
    """A number or name of a compartment for comparisons: 1, 1.0 and "1" are one, names have no case."""
    plain = str(text).strip().casefold()
    with suppress(ValueError):
        return str(int(number)) if (number := float(plain)) % 1 == 0 else plain
    return plain


@dataclass(frozen=True)
class _Names:
    """Numbers or names in a column -> names of the model; `only`: the name of all where there is no choice."""

    by_key: dict[str, str]
    only: str | None

    @classmethod
    def of(cls, given: object, argument: str, default: str | None) -> _Names:
        if given is None:
            return cls({}, default)
        if isinstance(given, str):
            return cls({}, given)
        if not isinstance(given, Mapping) or not given or not all(isinstance(n, str) for n in given.values()):
            raise InputError("files.nonmem_names", argument, key=(argument,), value=given)
        found = {_key(number): name for number, name in given.items()}
        return cls(found, next(iter(found.values())) if len(found) == 1 else None)

    def find(self, cell: str, fault: str, unsaid: str, key: tuple[str, ...], column: str) -> str:
        """The name that a cell means, "" for all; `fault`, `unsaid`: errors for an unknown and for a missing one."""
        if self.by_key and cell:
            if cell in self.by_key:
                return self.by_key[cell]
            raise InputError(fault, column, value=cell, known=sorted(self.by_key))
        if self.only is None:
            raise InputError(unsaid, key=key)
        return self.only


class _Reader:
    """The columns of a table, and what they mean."""

    def __init__(self, table: RawTable, doses, observables, covariates, inputs, date_order) -> None:
        table = table.without_blank_rows()
        self.identity = required_column(table, "ID", "individual", ("data",))
        table = _without_comments(table)
        self.table = table
        self.compartments = _Names.of(doses, "doses", None)
        self.observables = _Names.of(observables, "observables", MISSING_NAME)
        given = {name: find_name(table.columns, name) for name in COLUMNS}
        self.numbers = {
            name: np.full(len(table.numbering), nan) if column is None else table.numbers(column)
            for name, column in given.items()
        }
        lasting = next(filter(None, (find_name(table.columns, name) for name in LASTING)), None)
        self.lasting = np.full(len(table.numbering), nan) if lasting is None else table.numbers(lasting)
        self.keys = {name: _keys(table, name) for name in NAMING}
        self.values = table.measured(required_column(table, "DV", "measured values", ("data",)))
        self.times = _times(table, self.identity, as_order(date_order))
        self.covariates, self.inputs = (
            {
                name: table.numbers(required_column(table, name, role, (f"{role}s", name)))
                for name in _list(names)
            }
            for role, names in (("covariate", covariates), ("input", inputs))
        )

    def experiments(self) -> list[Experiment]:
        codes, names = self.table.labels(self.identity)
        names = ["" if name == "." else _individual(name) for name in names]
        found: list[Experiment] = []
        blank: list[str] = []
        for k, name in enumerate(names):
            rows = np.flatnonzero(codes == k)
            if not name:
                raise self.table.at(rows[0], InputError("files.unnamed_experiment", self.identity))
            history = History(
                name=name,
                events=[self._event(int(row)) for row in rows],
                covariates={
                    one: covariate_of(self.table, one, name, rows, series)
                    for one, series in self.covariates.items()
                },
                inputs={
                    one: held_input(one, name, self.times[rows], series[rows])
                    for one, series in self.inputs.items()
                },
                at=self.table.at,
                numbering=self.table.numbering,
                place=self.table.line_place,
            )
            parts = experiments_of(history)
            found += parts
            blank += [] if parts else [name]
        if not found:
            raise InputError("files.no_measurement", self.table.origin.name, columns=["DV"])
        found[0] = replace(found[0], remarks=(*found[0].remarks, *self._remarks(blank)))
        return found

    def _remarks(self, blank: list[str]) -> list[Notice]:
        """What of the table was not read: columns, individuals without a measurement, comments, sheets."""
        name, unused = self.table.origin.name, self._unused()
        columns = [required_column(self.table, one, "covariate", ()) for one in self.covariates]
        return [
            *([columns_ignored(unused, name)] if unused else []),
            *([left_out(blank, name)] if blank else []),
            *coded_missing({column: self.table.measured(column) for column in columns}, name),
            *self.table.remarks,
        ]

    def _unused(self) -> list[str]:
        """The columns that nothing reads."""
        fixed = (self.identity, "DV", "TIME", "C", *COLUMNS, *NAMING, *LASTING, *DATES)
        read = (*fixed, *self.covariates, *self.inputs)
        used = {find_name(self.table.columns, name) for name in read}
        return [column for column in self.table.columns if column not in used]

    def _event(self, row: int) -> Event:
        """What happens in a row."""
        number = {name: float(values[row]) for name, values in self.numbers.items()}
        kind = self._kind(row, number)
        event = Event(row, float(self.times[row]), kind)
        if kind in (1, 4):
            return self._dose(event, number)
        if kind == 0 and _or(number["AMT"], 0.0) != 0:
            raise self.table.at(row, InputError("files.nonmem_amount_of_sample", amount=number["AMT"]))
        value = self.values[row]
        if kind != 0 or _or(number["MDV"], 0.0) != 0 or not (isinstance(value, str) or isfinite(value)):
            return event
        return replace(event, observable=self._observable(row), value=self._value(row, number))

    def _kind(self, row: int, number: Mapping[str, float]) -> int:
        """EVID; without it, a row with an amount or a rate is a dose."""
        if not isfinite(number["EVID"]):
            return int(_or(number["AMT"], 0.0) != 0 or _or(number["RATE"], 0.0) != 0)
        if number["EVID"] not in (0, 1, 2, 3, 4):
            raise self.table.at(row, InputError("files.nonmem_evid", value=number["EVID"]))
        return int(number["EVID"])

    def _dose(self, event: Event, number: Mapping[str, float]) -> Event:
        amount, rate, every = (_or(number[name], 0.0) for name in ("AMT", "RATE", "II"))
        steady, more = _or(number["SS"], 0.0), _or(number["ADDL"], 0.0)
        endless = amount == 0 and rate > 0 and steady == 1
        faults: list[tuple[bool, str, dict[str, object]]] = [
            (amount == 0 and rate == 0, "files.nonmem_dose_without_amount", {"evid": event.kind}),
            (amount == 0 and not endless, "files.nonmem_rate_without_amount", {"rate": rate}),
            (rate < 0, "files.nonmem_modelled_rate", {"rate": rate}),
            (steady not in (0, 1), "files.nonmem_steady_kind", {"value": steady}),
            (bool(steady) and not endless and not every > 0, "files.nonmem_steady_without_interval", {}),
            (more < 0 or more % 1 != 0, "files.nonmem_additional_doses", {"value": more}),
            (more > MOST_DOSES, "files.nonmem_many_doses", {"count": more, "most": MOST_DOSES}),
            (more > 0 and not every > 0, "files.nonmem_additional_without_interval", {"count": int(more)}),
            (every != 0 and not (more or steady), "files.nonmem_interval_alone", {"value": every}),
        ]
        for wrong, code, values in faults:
            if wrong:
                raise self.table.at(event.row, InputError(code).with_values(**values))
        lasting = amount / rate if rate and not endless else _or(self.lasting[event.row], 0.0)
        state = self._state(event.row)
        return replace(
            event,
            state=state,
            amount=rate if endless else amount,
            duration=lasting,
            every=every,
            more=int(more),
            steady=bool(steady),
            endless=endless,
        )

    def _state(self, row: int) -> str:
        unsaid = "files.nonmem_which_state" if self.compartments.by_key else "files.nonmem_no_states"
        cell = self.keys["CMT"][row]
        return self._name(row, self.compartments, cell, "files.nonmem_compartment", unsaid, "doses")

    def _observable(self, row: int) -> str:
        column = "DVID" if self.keys["DVID"][row] else "CMT"
        cell, unsaid = self.keys[column][row], "files.nonmem_which_observable"
        return self._name(
            row, self.observables, cell, "files.nonmem_observable", unsaid, "observables", column
        )

    def _name(
        self, row: int, names: _Names, cell: str, fault: str, unsaid: str, argument: str, column: str = ""
    ) -> str:
        try:
            return names.find(cell, fault, unsaid, (argument,), column)
        except InputError as error:
            raise self.table.at(row, error) from None

    def _value(self, row: int, number: Mapping[str, float]) -> float | str:
        """The measured value; a censored one as the text of its limits: `<0.25`, `>1000`, `0.1..0.25`."""
        value, censored = self.values[row], _or(number["CENS"], 0.0)
        value = value if isinstance(value, str) else float(value)
        if not censored:
            return value
        try:
            return censored_cell(value, censored, number["LIMIT"], ("CENS", "LIMIT"))
        except InputError as error:
            raise self.table.at(row, error) from None


def _or(value: float, default: float) -> float:
    return value if isfinite(value) else default


def _list(names: Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _keys(table: RawTable, name: str) -> list[str]:
    """(rows,): the numbers or names in a column for comparisons, "" where missing or where there is no such column."""
    column = find_name(table.columns, name)
    if column is None:
        return [""] * len(table.numbering)
    codes, texts = table.labels(column)
    keys = ["" if text.lower() in MISSING else _key(text) for text in texts]
    return [keys[code] for code in codes]


def _individual(text: str) -> str:
    """The name of an individual: 1 of 1.0 and of 1.0000E+00, as NONMEM writes numbers."""
    return _key(text) if re.fullmatch(NUMBER, text) else text


@dataclass(frozen=True)
class Commented:
    """When a first cell that begins with a letter makes its row a comment (IGNORE=@ of NONMEM)."""

    numbers: float = 0.5  # of all first cells, more must be numbers: else they are names; chosen


def _without_comments(table: RawTable, commented: Commented = Commented()) -> RawTable:
    """The table without rows that are comments.

    A `C` in a column C, or as the first cell, marks them; and so does a first cell that begins with a letter where most
    are numbers, of which a remark tells.
    """
    first = next(iter(table.columns))
    column = find_name(table.columns, "C") or first
    marked = np.array([str(cell).strip().upper() in ("C", "@", "I") for cell in table.columns[column]], bool)
    texts = ["" if cell is None else str(cell).strip() for cell in table.columns[first]]
    numbers = sum(re.fullmatch(NUMBER, text) is not None for text in texts)
    spoken = np.array([re.fullmatch(COMMENT, text) is not None for text in texts], bool)
    spoken &= (
        ~marked & (numbers > commented.numbers * (~marked).sum()) & (find_name(table.columns, "C") is None)
    )
    keep = ~(marked | spoken)
    if keep.all() or not keep.any():
        return table
    remarks = list(table.remarks)
    if spoken.any():
        row = int(np.argmax(spoken))
        values = {"first": texts[row], "line": int(table.numbering[row])}
        remarks.append(Notice("files.comment_rows", table.origin.name, values))
    columns = {name: values[keep] for name, values in table.columns.items()}
    return table._replace(columns=columns, numbering=table.numbering[keep], remarks=tuple(remarks))


# ---- times ---------------------------------------------------------------------------------------------------------


def _times(table: RawTable, identity: str, order: Order | None) -> np.ndarray:
    """(rows,): times as numbers; clock times and dates become hours since the first row of each individual.

    `order`: whether the day or the month comes first in a column DATE. NONMEM reads the month first, but users of other
    programs write the day: it is asked for where no date decides it.
    """
    column = required_column(table, "TIME", "time", ("time",))
    dated = next((n for n in DATES if find_name(table.columns, n) is not None), None)
    cells = table.columns[column]
    whole = dated is None and (
        cells.dtype.kind == "M" or any(map(looks_like_date, cells))
    )  # date and clock in one
    clock = cells.dtype == object and any(":" in str(cell) for cell in cells)
    if not clock and not whole and dated is None:
        return table.numbers(column, missing=False)
    if whole:
        hours = 24 * _days(table, column, None, order)
    elif clock:
        hours = np.array([_clock(table, column, row) for row in range(len(cells))])
    else:
        hours = table.numbers(column, missing=False)
    if dated is not None:
        days = find_name(table.columns, dated)
        assert days is not None
        hours = hours + 24 * _days(table, days, DATES[dated], order)
    codes, _ = table.labels(identity)
    _, first = np.unique(codes, return_index=True)
    return hours - hours[first][codes]


def _clock(table: RawTable, column: str, row: int) -> float:
    """`13:30` as 13.5."""
    text = str(table.columns[column][row]).strip()
    found = re.fullmatch(CLOCK, text)
    if found is None:
        try:
            return float(text)
        except ValueError:
            raise table.at(row, InputError("files.nonmem_clock", column, value=text)) from None
    return int(found[1]) + int(found[2]) / 60 + int(found[3] or 0) / 3600


def _days(table: RawTable, column: str, order: str | None, date_order: Order | None) -> np.ndarray:
    """(rows,): dates as days; plain numbers are days already. `order`: that of the parts, None where nobody knows."""
    cells = table.columns[column]
    if cells.dtype.kind != "M":
        texts = ["" if cell is None else str(cell).strip() for cell in cells]
        if all(re.fullmatch(r"-?\d+(\.\d*)?", text) for text in texts):
            return np.array(texts, float)
        cells = np.array([_spelled(text, order) for text in texts], object)
    known = Order.DMY if order == "dmy" else date_order
    moments = read_moments(cells, column, table.at, known)
    return np.asarray((moments.at - np.datetime64(0, "us")) / np.timedelta64(1, "D"))


def _spelled(text: str, order: str | None) -> str:
    """A date with a year of four digits, in ISO form where the year comes first; NONMEM's years may have two digits."""
    found = re.fullmatch(r"(\d+)([-/.])(\d+)\2(\d+)", text)
    if found is None or len(found[1]) == 4:  # 2024-01-31 is understood in any column
        return text
    parts, separator = [found[1], found[3], found[4]], found[2]
    year = 0 if order in ("ymd", "ydm") else 2
    if len(parts[year]) == 2:
        parts[year] = f"{'19' if int(parts[year]) > LAST_OF_2000S else '20'}{parts[year]}"
    if order == "ydm":
        parts = [parts[0], parts[2], parts[1]]
    return ("-" if year == 0 else separator).join(parts)
