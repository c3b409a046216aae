"""Experiments from tables, wide or long: text, Parquet and spreadsheet files, open files and pandas DataFrames."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from picardfit.errors import InputError, Key, Notice, closest
from picardfit.files.raw_tables import RawTable, read_raw_table
from picardfit.files.time_column import ALL, TimeSettings, read_times, time_column
from picardfit.model.inputs import Constant, Input, Table
from picardfit.model.number_arrays import censored_text, measurements
from picardfit.problem.columns import columns_ignored, find_name, observed, without_unit
from picardfit.problem.experiment import Experiment

EXPERIMENT_NAMES = ("experiment", "simulationConditionId")  # ours, PEtab's
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


def read_table(
    source: object,
    *,
    time: str | None = None,
    experiment: str | None = "experiment",
    inputs: Iterable[str] = (),
    observables: Iterable[str] | None = None,
    name: str | None = None,
    sheet: str | None = None,
    time_unit: str | None = None,
    origin: object = ALL,
    date_order: str | None = None,
    covariates: Iterable[str] = (),
) -> list[Experiment]:
    """The experiments in a table: a CSV, TSV, Parquet, .xlsx or .ods file, an open file or a pandas DataFrame.

    Wide tables have one column per observable; long ones the columns time, observable, value (or PEtab's
    observableId, measurement, simulationConditionId). Blank, NA and nan cells were not measured; lines that
    start with # and columns without a name are skipped. `<0.25`, `>1000` and `0.1..0.25` are censored values; a long
    table may say so in a column `cens` instead (1: below the value, -1: above it), with the other end of an interval
    in `limit`.
    `time`: the time column; None finds time, t, hours, days, date ... with or without a unit ("time (h)").
    `experiment`: the column that names the experiments; a table without it is one experiment called `name`
    (the file's name if None).  `inputs`: columns of known inputs, held from row to row.
    `observables`: the ones to read; None reads all columns of numbers, and a problem ignores those that its model does
    not have. Names are found without regard to case and to a unit such as [rad], and kept as you write them.
    `covariates`: columns with one number for each experiment, which formulas may use.
    `sheet`: which sheet of a spreadsheet, by default the first.

    Dates become numbers: of days or of another `time_unit` (s, min, h, d, week, year) since `origin`, the first row
    of all experiments ("all"), of each ("each"), or a date; experiments remember both in `calendar`. `date_order`
    says whether the day ("dmy") or the month ("mdy") comes first in dates such as 3/4/2021.
    Experiments without a single number are left out; `remarks` of the first one says so, and every fit repeats it.
    """
    wanted = None if observables is None else tuple(_name_list(observables))
    times, signals = TimeSettings.of(time_unit, origin, date_order), tuple(_name_list(inputs))
    constants = tuple(_name_list(covariates))
    reading = Reading(time, experiment, signals, wanted, name, sheet, times, covariates=constants)
    return read_experiments_in(source, reading)


def read_experiments_in(source: object, reading: Reading) -> list[Experiment]:
    """The experiments in a table."""
    table = read_raw_table(source, reading.sheet)
    try:
        return _experiments(table, reading)
    except InputError as error:
        raise table.origin.at(error) from None


def _experiments(table: RawTable, reading: Reading) -> list[Experiment]:
    column = (
        time_column(table)
        if reading.time is None
        else required_column(table, reading.time, "time", ("time",))
    )
    group_column = _group_column(table, reading.experiment)
    inputs = {one: required_column(table, one, "input", ("inputs", one)) for one in reading.inputs}
    constants = {
        one: required_column(table, one, "covariate", ("covariates", one)) for one in reading.covariates
    }
    if group_column is not None and reading.name is not None:
        raise InputError("files.name_and_column", group_column, key=("name",), name=reading.name)
    table = table.without_blank_rows()
    times, time_columns = read_times(table, column, reading.times)
    known = {name: table.numbers(one) for name, one in inputs.items()}
    fixed = {name: table.numbers(one) for name, one in constants.items()}
    measure = _long_columns(table)
    taken = {*time_columns, group_column, *inputs.values(), *constants.values()}
    unsorted = group_column is None and reading.experiment is not None
    samples, remarks = (
        _wide(table, taken, reading, times.values if unsorted else None)
        if measure is None
        else _long(table, *measure, taken, reading)
    )
    open_table = table.origin.name if reading.observables is None else None
    experiments, blank = [], []
    for group, rows in _groups(
        table, group_column, table.origin.stem if reading.name is None else reading.name
    ):
        own = times.of(rows, reading.times)
        own_times, values, measured = samples.of(own.values, rows)
        if not measured:
            blank.append(group)
            continue
        held = {one: held_input(one, group, own.values, series[rows]) for one, series in known.items()}
        given = {one: covariate_of(table, one, group, rows, series) for one, series in fixed.items()}
        made = Experiment(
            own_times, values, group, held, calendar=own.calendar, table=open_table, covariates=given
        )
        experiments.append(replace(made, t0=made.times[0]) if times.dates else made)
    if not experiments:
        raise InputError("files.no_measurement", table.origin.name, columns=samples.names)
    if blank:
        remarks.append(left_out(blank, table.origin.name))
    if table.sheet is not None and table.sheet.others:
        values = {"sheet": table.sheet.name, "others": table.sheet.others}
        remarks.append(Notice("files.sheets_not_read", table.origin.name, values))
    if remarks:
        experiments[0] = replace(experiments[0], remarks=tuple(remarks))
    return experiments


def left_out(experiments: list[str], table: str) -> Notice:
    """The remark that experiments without a measurement were left out; `table`: the name of its file, or empty."""
    code = "files.experiment_left_out" if len(experiments) == 1 else "files.experiments_left_out"
    return Notice(code, table, {"experiments": experiments})


def required_column(table: RawTable, column: str, role: str, key: Key) -> str:
    """The column of that name; `role`: what it is needed for; `key`: the argument that names it."""
    if (found := find_name(table.columns, column)) is not None:
        return found
    name, columns = str(column), list(table.columns)
    close = closest(name, columns)
    raise InputError("files.no_column", name, key=key, role=role, columns=columns, close=close)


def _first_found(table: RawTable, names: Iterable[str]) -> str | None:
    """The column with the first of these names that the table has."""
    return next(filter(None, (find_name(table.columns, name) for name in names)), None)


def _group_column(table: RawTable, experiment: str | None) -> str | None:
    """The column that names the experiments; only a name other than the default must exist."""
    if experiment is None:
        return None
    if experiment == "experiment":
        return _first_found(table, EXPERIMENT_NAMES)
    return required_column(table, experiment, "experiment", ("experiment",))


def _name_list(names: Iterable[str]) -> list[str]:
    """The names as a list; one text is one name."""
    return [names] if isinstance(names, str) else list(names)


def _long_columns(table: RawTable) -> tuple[str, str] | None:
    """The columns (observable, value) of a long table; None for a wide one."""
    which, value = _first_found(table, OBSERVABLE_NAMES), _first_found(table, VALUE_NAMES)
    return (which, value) if which and value else None


@dataclass(frozen=True)
class _Wide:
    """The measured columns of a wide table, (rows,) each."""

    names: list[str]
    columns: list[np.ndarray]

    def of(self, times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, dict[str, object], bool]:
        """Times and values of the rows of an experiment as Experiment takes them, and whether any is a number."""
        values: dict[str, object] = {n: c[rows] for n, c in zip(self.names, self.columns, strict=True)}
        return times, values, any(_some(column[rows]) for column in self.columns)


@dataclass(frozen=True)
class _Long:
    """The measurements of a long table: the index of each row's name (-1: unwanted) and its value, (rows,)."""

    names: list[str]
    which: np.ndarray
    values: np.ndarray

    def of(self, times: np.ndarray, rows: np.ndarray) -> tuple[None, dict[str, object], bool]:
        """Values by name with times of their own, as Experiment takes them, and whether any is a number."""
        which, values = self.which[rows], self.values[rows]
        present = np.unique(which[which >= 0])
        pairs: dict[str, object] = {self.names[k]: (times[which == k], values[which == k]) for k in present}
        return None, pairs, _some(values[which >= 0])


def _some(values: np.ndarray) -> bool:
    """Whether any of these values was measured."""
    return bool(np.isfinite(measurements(values, "").values).any())


def _wide(
    table: RawTable, taken: Collection[str | None], reading: Reading, times: np.ndarray | None
) -> tuple[_Wide, list[Notice]]:
    """The observables of a wide table: those wanted, or all columns that are not taken; and what is ignored.

    `times`: of all rows, where nothing says which experiment they belong to.
    """
    wanted = {*(reading.observables or ()), *(reading.known or ())}
    censoring = {one for one in _censoring_columns(table) if one is not None and one not in {*taken, *wanted}}
    free = [column for column in table.columns if column not in {*taken, *censoring}]
    ignored = list[str]()
    if reading.observables is not None:
        chosen = {
            n: required_column(table, n, "observable", ("observables",))
            for n in dict.fromkeys(reading.observables)
        }
    elif reading.known is not None:
        chosen, ignored = _known(free, reading.known)
    else:
        ignored = [column for column in free if table.holds_names(column)]
        chosen = _named_without_units([column for column in free if column not in ignored])
    for column in ignored:
        if times is not None and table.holds_names(column) and _separates(table, column, times):
            cell = str(table.columns[column][0])
            raise table.at(0, InputError("files.cell_of_names", column, value=cell))
    if not chosen:
        raise InputError("files.no_measured_column", table.origin.name, columns=list(table.columns))
    missing = [name for name in reading.known or () if name not in chosen]
    remarks = [columns_ignored(ignored, table.origin.name, missing)] if ignored else []
    values = [table.measured(column) for column in chosen.values()]
    if censoring and len(chosen) > 1:
        raise InputError("files.censoring_of_which", sorted(censoring)[0], columns=list(chosen))
    if censoring:
        values = [_censored(table, values[0])]
    return _Wide(list(chosen), values), remarks


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
) -> tuple[_Long, list[Notice]]:
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
    elif reading.known is not None:
        chosen, ignored = _known(list(chosen), reading.known)
    if reading.observables is None:
        used = {which, value, *_censoring_columns(table), *taken}
        ignored += [column for column in table.columns if column not in used]
    missing = [name for name in reading.known or () if name not in chosen]
    remarks = [columns_ignored(ignored, table.origin.name, missing)] if ignored else []
    number = {spelled: k for k, spelled in enumerate(chosen.values())}
    position = np.array([number.get(n, -1) for n in found], dtype=int)
    return _Long(list(chosen), position[codes], values), remarks


def _spelled(found: Sequence[str], name: str) -> str:
    """The name of an observable as a long table spells it."""
    spelled = find_name(found, name)
    if spelled is None:
        close = closest(str(name), found)
        raise InputError("files.no_observable", str(name), key=("observables",), found=found, close=close)
    return spelled


def _censoring_columns(table: RawTable) -> tuple[str | None, str | None]:
    """The columns of a table that say which values are censored, and the other ends of their intervals."""
    column = _first_found(table, CENSORING_NAMES)
    return column, None if column is None else _first_found(table, LIMIT_NAMES)


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


def _groups(table: RawTable, column: str | None, name: str) -> list[tuple[str, np.ndarray]]:
    """Name and row numbers of each experiment, in the order of first appearance."""
    if column is None:
        return [(name, np.arange(len(table.numbering)))]
    codes, names = table.labels(column)
    if "" in names:
        row = int(np.argmax(codes == names.index("")))
        raise table.at(row, InputError("files.unnamed_experiment", column))
    order = np.argsort(codes, kind="stable")
    return list(zip(names, np.split(order, np.cumsum(np.bincount(codes))[:-1]), strict=True))


def covariate_of(table: RawTable, column: str, group: str, rows: np.ndarray, series: np.ndarray) -> float:
    """The one number in the rows of an experiment of a column."""
    values = series[rows]
    given = np.flatnonzero(np.isfinite(values))
    if not len(given):
        raise table.at(rows[0], InputError("files.no_covariate", column, experiment=group))
    first = float(values[given[0]])
    other = given[values[given] != first]
    if len(other):
        value = float(values[other[0]])
        error = InputError("files.covariate_varies", column, experiment=group, first=first, value=value)
        raise table.at(rows[other[0]], error)
    return first


def held_input(column: str, group: str, times: np.ndarray, values: np.ndarray) -> Input:
    """An input column of one experiment: a number if constant, else a table held from row to row."""
    given, key = np.isfinite(values), ("inputs", column)
    if not given.any():
        raise _in_group(group, InputError("files.input_without_number", column, key=key))
    if np.ptp(values[given]) == 0:
        return Constant(values[given][0])
    pairs = np.unique(np.stack([times[given], values[given]], axis=-1), axis=0)
    twice = np.flatnonzero(np.diff(pairs[:, 0]) == 0)
    if len(twice):
        repeated = InputError("files.two_input_values", column, key=key, time=pairs[twice[0], 0])
        raise _in_group(group, repeated)
    return Table(pairs[:, 0], pairs[:, 1])


def _in_group(group: str, error: InputError) -> InputError:
    return error.within("problem.in_experiment", group) if group else error
