"""Experiments from tables: CSV, TSV and Parquet files, open files and pandas DataFrames, wide or long."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from picardfit.errors import InputError, Key, Notice, closest
from picardfit.files.raw_tables import RawTable, read_raw_table
from picardfit.model.inputs import Constant, Input, Table
from picardfit.problem.experiment import Experiment

EXPERIMENT_NAMES = ("experiment", "simulationConditionId")  # ours, PEtab's
OBSERVABLE_NAMES = ("observable", "observableId", "variable")  # ours, PEtab's, pandas.melt's
VALUE_NAMES = ("value", "measurement")
TIME_UNITS = "hours?|minutes?|seconds?|days?|weeks?|months?|years?"


def read_table(
    source: object,
    *,
    time: str | None = None,
    experiment: str | None = "experiment",
    inputs: Iterable[str] = (),
    observables: Iterable[str] | None = None,
    name: str | None = None,
    covariates: Iterable[str] = (),
) -> list[Experiment]:
    """The experiments in a table: a CSV, TSV or Parquet file, an open file or a pandas DataFrame.

    Wide tables have one column per observable; long ones the columns time, observable, value (or PEtab's
    observableId, measurement, simulationConditionId). Blank, NA and nan cells were not measured; lines that
    start with # and columns without a name are skipped.
    `time`: the time column; None finds time, t, hours, days ... with or without a unit ("time (h)").
    `experiment`: the column that names the experiments; a table without it is one experiment called `name`
    (the file's name if None).  `inputs`: columns of known inputs, held from row to row.
    `observables`: the ones to read; None reads all. Names are found without regard to case, and kept as you write them.
    `covariates`: columns with one number for each experiment, which formulas may use.
    Experiments without a single number are left out; `remarks` of the first one says so, and every fit repeats it.
    """
    table = read_raw_table(source)
    try:
        constants = _name_list(covariates)
        return _experiments(table, time, experiment, _name_list(inputs), observables, name, constants)
    except InputError as error:
        raise table.origin.at(error) from None


def _experiments(
    table: RawTable,
    time: str | None,
    experiment: str | None,
    input_names: list[str],
    observables: Iterable[str] | None,
    name: str | None,
    covariates: list[str],
) -> list[Experiment]:
    time_column = _time_column(table, time)
    group_column = _group_column(table, experiment)
    inputs = {column: required_column(table, column, "input", ("inputs", column)) for column in input_names}
    constants = {
        column: required_column(table, column, "covariate", ("covariates", column)) for column in covariates
    }
    wanted = None if observables is None else _name_list(observables)
    if group_column is not None and name is not None:
        raise InputError("files.name_and_column", group_column, key=("name",), name=name)
    table = table.without_blank_rows()
    times = table.numbers(time_column, missing=False)
    known = {name: table.numbers(column) for name, column in inputs.items()}
    fixed = {name: table.numbers(column) for name, column in constants.items()}
    measure = _long_columns(table)
    taken = {time_column, group_column, *inputs.values(), *constants.values()}
    samples = _wide(table, taken, wanted) if measure is None else _long(table, *measure, wanted)
    experiments, blank = [], []
    for group, rows in _groups(table, group_column, table.origin.stem if name is None else name):
        own_times, values, measured = samples.of(times, rows)
        if not measured:
            blank.append(group)
            continue
        held = {
            column: held_input(column, group, times[rows], series[rows]) for column, series in known.items()
        }
        own = {column: covariate_of(table, column, group, rows, series) for column, series in fixed.items()}
        experiments.append(Experiment(own_times, values, name=group, inputs=held, covariates=own))
    if not experiments:
        raise InputError("files.no_measurement", table.origin.name, columns=samples.names)
    if blank:
        experiments[0] = replace(experiments[0], remarks=(left_out(blank, table.origin.name),))
    return experiments


def left_out(experiments: list[str], table: str) -> Notice:
    """The remark that experiments without a measurement were left out; `table`: the name of its file, or empty."""
    code = "files.experiment_left_out" if len(experiments) == 1 else "files.experiments_left_out"
    return Notice(code, table, {"experiments": experiments})


def plain_name(name: str) -> str:
    """A name for comparisons: without regard to case, blanks, underscores and a unit in brackets at its end."""
    return re.sub(r"[\s_-]", "", re.sub(r"(?<=.)[(\[][^(\[]*[)\]]$", "", name.strip())).lower()


def find_column(names: Iterable[str], name: str) -> str | None:
    """The exact name, or else the only one that differs from it in case, blanks or a unit alone."""
    if name in (names := list(names)):
        return name
    for spelled in (str.casefold, plain_name):
        same = [one for one in names if spelled(one) == spelled(str(name).strip())]
        if same:
            return same[0] if len(same) == 1 else None
    return None


def required_column(table: RawTable, column: str, role: str, key: Key) -> str:
    """The column of that name; `role`: what it is needed for; `key`: the argument that names it."""
    if (found := find_column(table.columns, column)) is not None:
        return found
    name, columns = str(column), list(table.columns)
    close = closest(name, columns)
    raise InputError("files.no_column", name, key=key, role=role, columns=columns, close=close)


def _first_found(table: RawTable, names: Iterable[str]) -> str | None:
    """The column with the first of these names that the table has."""
    return next(filter(None, (find_column(table.columns, name) for name in names)), None)


def _time_column(table: RawTable, time: str | None) -> str:
    if time is not None:
        return required_column(table, time, "time", ("time",))
    columns = list(table.columns)
    unit = r"\s*([(\[].*[)\]])?"
    for pattern in ("(?i:time)" + unit, "t" + unit, f"(?i:t|{TIME_UNITS})" + unit):
        # T is also a common name of a state (tumour, temperature): it is the time only in the first column.
        found = [c for c in columns if re.fullmatch(pattern, c) and (c != "T" or c == columns[0])]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError("files.times_could_be", table.origin.name, columns=columns, found=found)
    close = closest("time", columns)
    raise InputError("files.no_time_column", table.origin.name, columns=columns, close=close)


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
        return times[rows], values, any(np.isfinite(column[rows]).any() for column in self.columns)


@dataclass(frozen=True)
class _Long:
    """The measurements of a long table: the index of each row's name (-1: unwanted) and its value, (rows,)."""

    names: list[str]
    which: np.ndarray
    values: np.ndarray

    def of(self, times: np.ndarray, rows: np.ndarray) -> tuple[None, dict[str, object], bool]:
        """Values by name with times of their own, as Experiment takes them, and whether any is a number."""
        which, values, own = self.which[rows], self.values[rows], times[rows]
        present = np.unique(which[which >= 0])
        pairs: dict[str, object] = {self.names[k]: (own[which == k], values[which == k]) for k in present}
        return None, pairs, bool(np.isfinite(values[which >= 0]).any())


def _wide(table: RawTable, taken: Collection[str | None], wanted: list[str] | None) -> _Wide:
    """The observables of a wide table: those wanted, or all columns that are not taken."""
    free = [column for column in table.columns if column not in taken]
    chosen = (
        free
        if wanted is None
        else [required_column(table, n, "observable", ("observables",)) for n in wanted]
    )
    if not chosen:
        raise InputError("files.no_measured_column", table.origin.name, columns=list(table.columns))
    return _Wide(chosen if wanted is None else wanted, [table.numbers(n) for n in chosen])


def _long(table: RawTable, which: str, value: str, wanted: list[str] | None) -> _Long:
    """The observables of a long table: those wanted, or all."""
    codes, found = table.labels(which)
    values = table.numbers(value)
    if "" in found:
        unnamed = np.flatnonzero((codes == found.index("")) & np.isfinite(values))
        if len(unnamed):
            raise table.at(unnamed[0], InputError("files.unnamed_observable", which))
    names = [n for n in found if n] if wanted is None else wanted
    number: dict[str | None, int] = {}
    for k, n in enumerate(names):
        if (spelled := find_column(found, n)) is None:
            close = closest(str(n), found)
            raise InputError("files.no_observable", str(n), key=("observables",), found=found, close=close)
        number[spelled] = k
    position = np.array([number.get(n, -1) for n in found], dtype=int)
    return _Long(names, position[codes], values)


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
