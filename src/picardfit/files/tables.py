"""Experiments from tables, wide or long: text, Parquet and spreadsheet files, open files and pandas DataFrames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from picardfit.errors import InputError, Notice
from picardfit.files.measured_columns import Reading, first_found, measured_columns, required_column
from picardfit.files.raw_tables import RawTable, read_raw_table
from picardfit.files.time_column import ALL, FarDates, Times, TimeSettings, read_times, time_column
from picardfit.model.doses import Doses
from picardfit.model.inputs import Constant, Input, Table
from picardfit.problem.experiment import Experiment

EXPERIMENT_NAMES = ("experiment", "simulationConditionId")  # ours, PEtab's


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
    t0: object = None,
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
    not have. A column with a cell that is no number is left out with a remark; a problem that needs it names the cell.
    Names are found without regard to case and to a unit such as [rad], and kept as you write them.
    `covariates`: columns with one number for each experiment, which formulas may use.
    `sheet`: which sheet of a spreadsheet, by default the first.

    Dates become numbers: of days or of another `time_unit` (s, min, h, d, week, year) since `origin`, the first row
    of all experiments ("all"), of each ("each"), or a date; experiments remember both in `calendar`. `date_order`
    says whether the day ("dmy") or the month ("mdy") comes first in dates such as 3/4/2021.
    `t0`: when the initial state holds, a number or a date; None is 0, or the first sample if that is earlier or a date.
    Experiments without a single number are left out; `remarks` of the first one says so, and every fit repeats it.
    """
    wanted = None if observables is None else tuple(_name_list(observables))
    times, signals = TimeSettings.of(time_unit, origin, date_order), tuple(_name_list(inputs))
    constants = tuple(_name_list(covariates))
    reading = Reading(time, experiment, signals, wanted, name, sheet, times, covariates=constants, t0=t0)
    return read_experiments_in(source, reading)


def read_experiments_in(source: object, reading: Reading) -> list[Experiment]:
    """The experiments in a table: a path, an open file, a DataFrame, or cells that were read before."""
    table = read_raw_table(source, reading.sheet)
    try:
        return _experiments(table, reading)
    except InputError as error:
        raise table.origin.at(error) from None


def _experiments(table: RawTable, reading: Reading) -> list[Experiment]:
    columns = _Columns.of(table, reading)
    table = table.without_blank_rows()
    times, time_columns = read_times(table, columns.time, reading.times)
    inputs, covariates = columns.numbers(table)
    named = *columns.inputs.values(), *columns.covariates.values()
    taken = {*time_columns, columns.group, columns.dose, *named}
    amounts = None if columns.dose is None else table.numbers(columns.dose)
    unsorted = columns.group is None and reading.experiment is not None
    samples, remarks = measured_columns(table, taken, reading, times.values if unsorted else None)
    open_table = table.origin.name if reading.observables is None else None
    experiments, blank = [], []
    for group, rows in _groups(table, columns.group, reading.name):
        own = times.of(rows, reading.times)
        remarks += _far_dates(table, own, rows)
        found = samples.of(own.values, rows)
        if not found.any:
            blank.append(group)
            continue
        made = Experiment(
            found.times,
            found.values,
            group,
            {one: held_input(one, group, own.values, series[rows]) for one, series in inputs.items()},
            calendar=own.calendar,
            table=open_table,
            covariates={one: covariate_of(table, one, group, rows, x) for one, x in covariates.items()},
            doses=_doses(own.values, amounts, rows, reading),
            lines=found.lines,
            t0=reading.t0,
        )
        first = times.dates and reading.t0 is None
        begin = min([float(made.times[0]), *(float(one.times[0]) for one in made.doses)])
        experiments.append(replace(made, t0=begin) if first else made)
    if not experiments:
        raise InputError("files.no_measurement", table.origin.name, columns=samples.names)
    remarks += [*([left_out(blank, table.origin.name)] if blank else []), *table.remarks]
    if remarks:
        experiments[0] = replace(experiments[0], remarks=tuple(remarks))
    return experiments


class _Columns(NamedTuple):
    """The columns of a table that are no measurements."""

    time: str
    group: str | None  # names the experiments
    inputs: dict[str, str]  # input -> column
    covariates: dict[str, str]
    dose: str | None  # holds amounts

    @classmethod
    def of(cls, table: RawTable, reading: Reading) -> _Columns:
        given = reading.time
        time = time_column(table) if given is None else required_column(table, given, "time", ("time",))
        group = _group_column(table, reading.experiment)
        inputs, covariates = (
            {one: required_column(table, one, role, (f"{role}s", one)) for one in names}
            for role, names in (("input", reading.inputs), ("covariate", reading.covariates))
        )
        if group is not None and reading.name is not None:
            raise InputError("files.name_and_column", group, key=("name",), name=reading.name)
        dose = None if reading.dose is None else required_column(table, reading.dose[0], "dose", ("dose",))
        return cls(time, group, inputs, covariates, dose)

    def numbers(self, table: RawTable) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Inputs and covariates (rows,) by name."""
        inputs, covariates = (
            {name: table.numbers(column) for name, column in names.items()}
            for names in (self.inputs, self.covariates)
        )
        return inputs, covariates


def _far_dates(table: RawTable, times: Times, rows: np.ndarray) -> list[Notice]:
    """The remark that a date of an experiment, in these rows of a table, lies far from the others."""
    far = FarDates().row(times)
    if far is None or times.calendar is None:
        return []
    (date,) = times.calendar.texts(times.values[[far]])
    line = int(table.numbering[rows[far]])
    return [Notice("files.far_date", date, {"line": line, "table": table.origin.name})]


def left_out(experiments: list[str], table: str) -> Notice:
    """The remark that experiments without a measurement were left out; `table`: the name of its file, or empty."""
    code = "files.experiment_left_out" if len(experiments) == 1 else "files.experiments_left_out"
    return Notice(code, table, {"experiments": experiments})


def _group_column(table: RawTable, experiment: str | None) -> str | None:
    """The column that names the experiments; only a name other than the default must exist."""
    if experiment is None:
        return None
    if experiment == "experiment":
        return first_found(table, EXPERIMENT_NAMES)
    return required_column(table, experiment, "experiment", ("experiment",))


def _name_list(names: Iterable[str]) -> list[str]:
    """The names as a list; one text is one name."""
    return [names] if isinstance(names, str) else list(names)


@dataclass(frozen=True)
class TableLimits:
    """How much a table may hold."""

    experiments: int = 20_000  # read and checked in some 10 s; a column of numbers taken for names has more


def _groups(
    table: RawTable, column: str | None, name: str | None, limits: TableLimits = TableLimits()
) -> list[tuple[str, np.ndarray]]:
    """Name and row numbers of each experiment, in the order of first appearance; by default that of the file."""
    if column is None:
        return [(table.origin.stem if name is None else name, np.arange(len(table.numbering)))]
    codes, names = table.labels(column)
    if len(names) > limits.experiments:
        counts = {"count": len(names), "most": limits.experiments}
        raise InputError("files.many_experiments", column, key=("experiment",), **counts)
    if "" in names:
        row = int(np.argmax(codes == names.index("")))
        raise table.at(row, InputError("files.unnamed_experiment", column))
    order = np.argsort(codes, kind="stable")
    return list(zip(names, np.split(order, np.cumsum(np.bincount(codes))[:-1]), strict=True))


def _doses(
    times: np.ndarray, amounts: np.ndarray | None, rows: np.ndarray, reading: Reading
) -> tuple[Doses, ...]:
    """The doses in the rows of an experiment, of which `times` are; blank cells and zeros are none."""
    if amounts is None or reading.dose is None:
        return ()
    own = np.nan_to_num(amounts[rows])
    given = own != 0
    return (Doses(times[given], own[given], reading.dose[1]),) if given.any() else ()


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
