"""The measured columns of a table, wide or long: which of them are observables, and what of them is ignored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from picardfit.errors import InputError, Key, Notice, closest
from picardfit.files.raw_tables import RawTable
from picardfit.files.time_column import TimeSettings
from picardfit.model.number_arrays import censored_text, measurements
from picardfit.problem.columns import columns_ignored, columns_unread, find_name, observed, without_unit
from picardfit.problem.sample_rows import SampleLines

OBSERVABLE_NAMES = ("observable", "observableId", "variable")  # ours, PEtab's, pandas.melt's
VALUE_NAMES = ("value", "measurement")
CENSORING_NAMES, LIMIT_NAMES = ("cens", "censored"), ("limit",)  # NONMEM's and Monolix's


@dataclass(frozen=True)
class Reading:
    """What to read from a table: the arguments of `read_table`, and the columns that a problem uses where known."""

    time: str | None = None
    experiment: str | None = "experiment"
    inputs: tuple[str, ...] = ()
    observables: tuple[str, ...] | None = None
    name: str | None = None
    sheet: str | None = None
    times: TimeSettings = field(default=TimeSettings())
    known: tuple[str, ...] | None = None
    covariates: tuple[str, ...] = ()
    t0: object = None
    dose: tuple[str, str] | None = None  # a column of amounts, and the state that they are added to


@dataclass(frozen=True)
class MissingCodes:
    """Numbers that tables of instruments and statistics programs write where nothing was measured; a choice."""

    numbers: tuple[float, ...] = (-9.0, -99.0, -999.0, -9999.0)

    def found(self, values: np.ndarray) -> float | None:
        """The only negative number of a column if it is one of them, else None."""
        negative = np.unique(values[values < 0])
        return float(negative[0]) if len(negative) == 1 and negative[0] in self.numbers else None


class Measured(NamedTuple):
    """The measurements of one experiment, as Experiment takes them."""

    times: np.ndarray | None  # None where each observable has its own
    values: dict[str, object]
    any: bool  # whether any of them is a number
    lines: SampleLines


@dataclass(frozen=True)
class Wide:
    """The measured columns of a wide table, (rows,) each."""

    table: RawTable
    names: list[str]
    columns: list[np.ndarray]
    unread: dict[str, InputError]  # columns whose cells are not all numbers, and why

    def of(self, times: np.ndarray, rows: np.ndarray) -> Measured:
        """The measurements in the rows of an experiment, which are those of `times`."""
        values: dict[str, object] = {n: c[rows] for n, c in zip(self.names, self.columns, strict=True)}
        lines = dict.fromkeys(self.names, (times, self.table.numbering[rows]))
        some = any(_some(column[rows]) for column in self.columns)
        return Measured(times, values, some, SampleLines(lines, self.table.line_place, self.unread))


@dataclass(frozen=True)
class Long:
    """The measurements of a long table: the index of each row's name (-1: unwanted) and its value, (rows,)."""

    table: RawTable
    names: list[str]
    which: np.ndarray
    values: np.ndarray

    def of(self, times: np.ndarray, rows: np.ndarray) -> Measured:
        """The measurements in the rows of an experiment, which are those of `times`; each observable has its own."""
        which, values, numbering = self.which[rows], self.values[rows], self.table.numbering[rows]
        mine = {self.names[k]: which == k for k in np.unique(which[which >= 0])}
        pairs: dict[str, object] = {name: (times[own], values[own]) for name, own in mine.items()}
        lines = {name: (times[own], numbering[own]) for name, own in mine.items()}
        return Measured(None, pairs, _some(values[which >= 0]), SampleLines(lines, self.table.line_place))


def _some(values: np.ndarray) -> bool:
    """Whether any of these values was measured."""
    return bool(np.isfinite(measurements(values, "").values).any())


def measured_columns(
    table: RawTable, taken: Collection[str | None], reading: Reading, times: np.ndarray | None
) -> tuple[Wide | Long, list[Notice]]:
    """The observables of a table, and what of it is ignored; `taken`: columns that mean something else.

    `times`: of all rows, where nothing says which experiment they belong to.
    """
    which, value = first_found(table, OBSERVABLE_NAMES), first_found(table, VALUE_NAMES)
    if which and value:
        return _long(table, which, value, taken, reading)
    return _wide(table, taken, reading, times)


def _wide(
    table: RawTable, taken: Collection[str | None], reading: Reading, times: np.ndarray | None
) -> tuple[Wide, list[Notice]]:
    """The observables of a wide table: those wanted, or all columns that are not taken; and what is ignored."""
    wanted = {*(reading.observables or ()), *(reading.known or ())}
    censoring = {one for one in _censoring_columns(table) if one is not None and one not in {*taken, *wanted}}
    free = [column for column in table.columns if column not in {*taken, *censoring}]
    if reading.observables is None:
        _refuse_events(table, [column for column in free if not observed([column], [*wanted])])
    chosen, ignored = _chosen(table, free, reading)
    names = {column: _names_error(table, column) for column in ignored if table.holds_names(column)}
    if times is not None:
        _refuse_names(table, names, times)
    if not chosen:
        raise InputError("files.no_measured_column", table.origin.name, columns=list(table.columns))
    open_table = reading.observables is None and reading.known is None
    cells, unread = _cells(table, chosen.values(), open_table)
    if times is not None:
        _refuse_names(table, unread, times)
    chosen = {name: column for name, column in chosen.items() if column in cells}
    values = [cells[column] for column in chosen.values()]
    if censoring and len(chosen) > 1:
        raise InputError("files.censoring_of_which", sorted(censoring)[0], columns=list(chosen))
    if censoring:
        values = [_censored(table, values[0])]
    cells = dict(zip(chosen.values(), values, strict=True))
    remarks = [*_remarks(table, ignored, chosen, reading), *coded_missing(cells, table.origin.name)]
    if unread:
        remarks.append(columns_unread(list(unread), table.origin.name))
    return Wide(table, list(chosen), values, {**names, **unread}), remarks


def _cells(
    table: RawTable, columns: Collection[str], may_leave_out: bool
) -> tuple[dict[str, np.ndarray], dict[str, InputError]]:
    """The cells of columns, and why others of them cannot be read: nobody may need these.

    InputError for the first of them unless they may be left out, and where no column can be read.
    """
    read, unread = dict[str, np.ndarray](), dict[str, InputError]()
    for column in columns:
        try:
            read[column] = table.measured(column)
        except InputError as error:
            unread[column] = table.origin.at(error)
    if unread and not (may_leave_out and read):
        raise next(iter(unread.values()))
    return read, unread


def _chosen(table: RawTable, free: list[str], reading: Reading) -> tuple[dict[str, str], list[str]]:
    """Observable -> its column in a wide table, and the free columns that are ignored."""
    if reading.observables is not None:
        names = dict.fromkeys(reading.observables)
        return {n: required_column(table, n, "observable", ("observables",)) for n in names}, []
    if reading.known is not None:
        return _known(free, reading.known)
    ignored = [column for column in free if table.holds_names(column)]
    return _named_without_units([column for column in free if column not in ignored]), ignored


def _refuse_events(table: RawTable, unused: Sequence[str]) -> None:
    """InputError for a table of NONMEM read as a plain one: its doses would be lost, its individuals become one."""
    telling = ("EVID", "AMT") if find_name(table.columns, "DV") is not None else ("EVID",)
    for column in telling:
        if (found := find_name(unused, column)) is not None:
            raise InputError("files.events_of_nonmem", found, key=("data",))


def _names_error(table: RawTable, column: str) -> InputError:
    """Why a column of names cannot be measurements."""
    row = int(np.argmax([bool(str(cell or "").strip()) for cell in table.columns[column]]))
    value = str(table.columns[column][row]).strip()
    return table.at(row, InputError("files.cell_of_names", column, value=value))


def _refuse_names(table: RawTable, columns: Mapping[str, InputError], times: np.ndarray) -> None:
    """The error of a column that is not measured and likely holds the names of experiments, such as `1a`."""
    for column, error in columns.items():
        if _separates(table, column, times):
            raise error


def _remarks(
    table: RawTable, ignored: list[str], chosen: Mapping[str, str], reading: Reading
) -> list[Notice]:
    """The remark that columns are ignored, and which observables have none."""
    missing = [name for name in reading.known or () if name not in chosen]
    return [columns_ignored(ignored, table.origin.name, missing)] if ignored else []


def coded_missing(
    cells: Mapping[str, np.ndarray], file: str, codes: MissingCodes = MissingCodes()
) -> list[Notice]:
    """Remarks on columns whose only negative number is one that often stands for a missing value."""
    found = []
    for column, measured in cells.items():
        values, _ = measurements(measured, column)
        if (code := codes.found(values)) is not None:
            found.append(Notice("files.coded_missing", file, {"column": column, "value": code}))
    return found


def _known(columns: list[str], observables: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Observable -> its column, and the other columns; an InputError where there are only others."""
    found = observed(columns, observables)
    others = [column for column in columns if column not in found]
    if others and not found:
        known, close = list(observables), closest(others[0], observables)
        raise InputError("files.column_not_observed", others[0], key=("data",), known=known, close=close)
    return {name: column for column, name in found.items()}, others


def _named_without_units(columns: list[str]) -> dict[str, str]:
    """Name -> column: `theta` of `theta [rad]`, unless another column is called like that."""
    bare = [without_unit(column) for column in columns]
    return {
        name if bare.count(name) == 1 else column: column for name, column in zip(bare, columns, strict=True)
    }


def _separates(table: RawTable, column: str, times: np.ndarray) -> bool:
    """Whether a column tells samples at the same times apart, as the names of experiments do.

    Then it cannot be ignored: several experiments would become one. Notes that differ from row to row are no names.
    """
    codes, names = table.labels(column)
    pairs = np.unique(np.stack([codes, times]), axis=1).shape[1]
    several = len(np.unique(times)) < len(times)
    return several and "" not in names and len(names) < len(times) and pairs == len(times)


def _long(
    table: RawTable, which: str, value: str, taken: Collection[str | None], reading: Reading
) -> tuple[Long, list[Notice]]:
    """The observables of a long table: those wanted, or all; and what is ignored."""
    codes, found = table.labels(which)
    values = _censored(table, table.measured(value))
    if "" in found:
        unnamed = np.flatnonzero((codes == found.index("")) & np.isfinite(measurements(values, value).values))
        if len(unnamed):
            raise table.at(unnamed[0], InputError("files.unnamed_observable", which))
    chosen, ignored = {n: n for n in found if n}, list[str]()
    if reading.observables is not None:
        chosen = {n: _spelled(found, n) for n in reading.observables}
    else:
        if reading.known is not None:
            chosen, ignored = _known(list(chosen), reading.known)
        used = {which, value, *_censoring_columns(table), *taken}
        ignored += [column for column in table.columns if column not in used]
    number = {spelled: k for k, spelled in enumerate(chosen.values())}
    position = np.array([number.get(n, -1) for n in found], dtype=int)
    return Long(table, list(chosen), position[codes], values), _remarks(table, ignored, chosen, reading)


def _spelled(found: Sequence[str], name: str) -> str:
    """The name of an observable as a long table spells it."""
    spelled = find_name(found, name)
    if spelled is None:
        close = closest(str(name), found)
        raise InputError("files.no_observable", str(name), key=("observables",), found=found, close=close)
    return spelled


def _censoring_columns(table: RawTable) -> tuple[str | None, str | None]:
    """The columns of a table that say which values are censored, and the other ends of their intervals."""
    column = first_found(table, CENSORING_NAMES)
    return column, None if column is None else first_found(table, LIMIT_NAMES)


def _censored(table: RawTable, values: np.ndarray) -> np.ndarray:
    """Values (rows,) with texts where the columns `cens` and `limit` of the table say that they are censored."""
    column, other = _censoring_columns(table)
    if column is None:
        return values
    side, found = np.nan_to_num(table.numbers(column)), values.astype(object)
    ends = np.full(len(values), np.nan) if other is None else table.numbers(other)
    for row in np.flatnonzero(side):
        try:
            found[row] = censored_cell(values[row], float(side[row]), float(ends[row]), (column, str(other)))
        except InputError as error:
            raise table.at(int(row), error) from None
    return found if (side != 0).any() else values


def censored_cell(value: object, side: float, end: float, columns: tuple[str, str]) -> str:
    """The text of a censored value: below it where `side` is 1, above it where -1, up to the `end` unless that is NaN.

    `columns`: those of side and end.
    """
    if side not in (-1, 1):
        raise InputError("files.censoring_code", columns[0], value=side)
    if not isinstance(value, float) or not np.isfinite(value):
        raise InputError("files.censored_without_value", columns[0])
    inner = -np.inf if side > 0 else np.inf
    low, high = sorted((float(value), inner if np.isnan(end) else end))
    if not low < high or (np.isfinite(end) and (end > value) == (side > 0)):
        raise InputError("files.limit_on_wrong_side", columns[1], value=float(value), limit=end)
    return censored_text(low, high)


def required_column(table: RawTable, column: str, role: str, key: Key) -> str:
    """The column of that name; `role`: what it is needed for; `key`: the argument that names it."""
    if (found := find_name(table.columns, column)) is not None:
        return found
    name, columns = str(column), list(table.columns)
    close = closest(name, columns)
    raise InputError("files.no_column", name, key=key, role=role, columns=columns, close=close)


def first_found(table: RawTable, names: Iterable[str]) -> str | None:
    """The column with the first of these names that the table has."""
    return next(filter(None, (find_name(table.columns, name) for name in names)), None)
