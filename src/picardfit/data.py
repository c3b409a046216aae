"""Experiments: what was measured when, under which inputs; and how to read them from a table."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.expressions import parse
from picardfit.inputs import MISSING, Constant, Input, Table, as_input, number_array, read_only
from picardfit.parameters import Parameter, as_number, as_parameter, is_number

if TYPE_CHECKING:
    import pandas as pd

EXPERIMENT_NAMES = ("experiment", "simulationConditionId")  # ours, PEtab's
OBSERVABLE_NAMES = ("observable", "observableId", "variable")  # ours, PEtab's, pandas.melt's
VALUE_NAMES = ("value", "measurement")
TIME_UNITS = "hours?|minutes?|seconds?|days?|weeks?|months?|years?"


@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """One run of the system: n sampling rows of k observables, its inputs, its initial state.

    `times`: n numbers, or None when each observable brings its own pair (times, values).
    `observations`: observable -> n values; NaN, None or "" is "not measured".
    `inputs`: input -> number, formula text in t, (times, values) table or function.
    `initial`: state -> number (known), text (formula of parameters), Parameter or (lower, upper) (unknown).
    `t0`: when the initial state holds; None is 0, or the first sample if that is earlier.

    After construction `times` (n,) ascends, repeated measurements keep rows of their own, rows without a
    number are gone, `values` (n, k) has NaN where nothing was measured, and all arrays are read-only.
    """

    times: np.ndarray
    observations: dict[str, np.ndarray]
    name: str = ""
    inputs: dict[str, Input] | None = None
    initial: dict[str, float | str | Parameter] | None = None
    t0: float | None = None
    observables: tuple[str, ...] = field(init=False)
    values: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        name = _experiment_name(self.name)
        label = f"Experiment `{name}`" if name else "The experiment"
        try:
            times, values = _rows(self.times, _mapping(self.observations, "observations"))
            inputs = {n: as_input(n, spec) for n, spec in _mapping(self.inputs, "inputs").items()}
            initial = {n: _initial(n, spec) for n, spec in _mapping(self.initial, "initial").items()}
            t0 = _initial_time(self.t0, times[0])
        except InputError as error:
            raise InputError(f"{label}: {error}") from None
        observables = tuple(self.observations)
        columns = {observable: values[:, k] for k, observable in enumerate(observables)}
        checked = {"times": times, "observations": columns, "observables": observables, "values": values}
        checked |= {"name": name, "inputs": inputs, "initial": initial, "t0": t0}
        for attribute, value in checked.items():
            object.__setattr__(self, attribute, value)

    def __reduce__(self):
        return Experiment, (self.times, self.observations, self.name, self.inputs, self.initial, self.t0)

    def __repr__(self) -> str:
        distinct, counts = len(np.unique(self.times)), np.isfinite(self.values).sum(axis=0)
        span = f"{distinct} times from {self.times[0]:g} to {self.times[-1]:g}"
        if distinct == 1:
            span = f"1 time, {self.times[0]:g}"
        measured = [
            f"{observable} ({count})" for observable, count in zip(self.observables, counts, strict=True)
        ]
        return f"{self.name or 'experiment'}: {', '.join([span, *measured])}"


def _rows(times: object, observations: dict[str, object]) -> tuple[np.ndarray, np.ndarray]:
    """Checked and sorted times (n,) and values (n, observables), without rows where nothing was measured."""
    if not observations:
        raise InputError("There are no observations: write for example {'prey': [30, 47, 70]}.")
    if times is None:
        times, values = _merged({name: _own_samples(name, pair) for name, pair in observations.items()})
    else:
        times = number_array(times, "the times")
        columns = [number_array(column, f"`{name}`", missing=True) for name, column in observations.items()]
        for name, column in zip(observations, columns, strict=True):
            if len(column) != len(times):
                raise InputError(
                    f"There are {len(times)} times but {len(column)} values of `{name}`: "
                    f"give one value per time, NaN where it was not measured."
                )
        values = np.stack(columns, axis=-1)
    order = np.argsort(times, kind="stable")
    order = order[np.isfinite(values[order]).any(axis=1)]
    if len(order) == 0:
        raise InputError(
            "There is no number in it: give at least one measured value, or leave the experiment out."
        )
    return read_only(times[order]), read_only(values[order])


def _own_samples(name: str, pair: object) -> tuple[np.ndarray, np.ndarray]:
    """The times and values of an observable that brings its own sampling times."""
    if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
        raise InputError(
            f"Without common times `{name}` needs a pair (times, values): pass one, or pass times."
        )
    times = number_array(pair[0], f"the times of `{name}`")
    values = number_array(pair[1], f"`{name}`", missing=True)
    if len(times) != len(values):
        raise InputError(
            f"`{name}` has {len(times)} times but {len(values)} values: give one value per time."
        )
    return times, values


def _merged(samples: dict[str, tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows from samples per observable: the i-th values of all observables at one time share a row."""
    sorted_samples = []
    for times, values in samples.values():
        order = np.argsort(times, kind="stable")
        sorted_samples.append((times[order], values[order]))
    repeats = np.concatenate(
        [np.arange(len(t)) - np.searchsorted(t, t, side="left") for t, _ in sorted_samples]
    )
    times = np.concatenate([t for t, _ in sorted_samples])
    columns = np.repeat(np.arange(len(samples)), [len(t) for t, _ in sorted_samples])
    order = np.lexsort((repeats, times))
    new = np.ones(len(times), dtype=bool)
    new[1:] = (np.diff(times[order]) != 0) | (np.diff(repeats[order]) != 0)
    values = np.full((int(new.sum()), len(samples)), nan)
    values[np.cumsum(new) - 1, columns[order]] = np.concatenate([v for _, v in sorted_samples])[order]
    return times[order][new], values


def _experiment_name(name: object) -> str:
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        raise InputError(f"The experiment name {name!r} is not text: write for example name='pond 1'.")
    return str(name)


def _mapping(given: object, what: str) -> dict[str, object]:
    """`given` as a dictionary with names as keys; None is empty."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(
            f"`{what}` must map names to values, not be a {type(given).__name__}: write {{'name': ...}}"
            f"{', or use pf.read_table for a table' if what == 'observations' else ''}."
        )
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"The name {name!r} in `{what}` is not text: use the name from the model.")
    return dict(given)


def _initial(name: str, spec: object) -> float | str | Parameter:
    """A known initial value, the text of a formula, or the Parameter of an unknown one."""
    if is_number(spec):
        return as_number(spec, f"initial value of `{name}`")
    if isinstance(spec, str):
        parse(spec, f"the initial value of `{name}`")
        return spec
    parameter = as_parameter(name, spec)
    return parameter if parameter.fixed is None else parameter.fixed


def _initial_time(t0: object, first: float) -> float:
    if t0 is None:
        return min(0.0, float(first))
    t0 = as_number(t0, "initial time t0")
    if t0 > first:
        raise InputError(
            f"t0 = {t0:g} is later than the sample at time {first:g}: lower t0 or remove that sample."
        )
    return t0


def read_table(
    source: object,
    *,
    time: str | None = None,
    experiment: str | None = "experiment",
    inputs: Iterable[str] = (),
    observables: Iterable[str] | None = None,
    name: str | None = None,
) -> list[Experiment]:
    """The experiments in a table: a CSV, TSV or Parquet file, an open file or a pandas DataFrame.

    Wide tables have one column per observable; long ones the columns time, observable, value (or PEtab's
    observableId, measurement, simulationConditionId). Blank, NA and nan cells were not measured; lines that
    start with # and columns without a name are skipped.
    `time`: the time column; None finds time, t, hours, days ... with or without a unit ("time (h)").
    `experiment`: the column that names the experiments; a table without it is one experiment called `name`
    (the file's name if None).  `inputs`: columns of known inputs, held from row to row.
    `observables`: the ones to read; None reads all.
    """
    sheet = _sheet(source, {str(c).lower() for c in (experiment, *EXPERIMENT_NAMES, *OBSERVABLE_NAMES)})
    time_column = _time_column(sheet, time)
    group_column = _group_column(sheet, experiment)
    inputs = [_required(sheet, column, "input") for column in _name_list(inputs)]
    observables = None if observables is None else _name_list(observables)
    if group_column is not None and name is not None:
        raise InputError(
            f"Column `{group_column}` names the experiments of {sheet.label}: leave name='{name}' out."
        )
    sheet = sheet.without_blank_rows()
    times = sheet.numbers(time_column, missing=False)
    known = {column: sheet.numbers(column) for column in inputs}
    measure = _long_columns(sheet)
    if measure is None:
        taken = {time_column, group_column, *inputs}
        names, columns = _wide(sheet, [c for c in sheet.frame.columns if c not in taken], observables)
    else:
        names, columns = _long(sheet, *measure, observables)
    experiments = []
    for group, rows in _groups(sheet, group_column, sheet.stem if name is None else name):
        if measure is None:
            samples = (times[rows], {n: column[rows] for n, column in zip(names, columns, strict=True)})
        else:
            which, values = columns[0][rows], columns[1][rows]
            present = np.unique(which[which >= 0]) if (which >= 0).any() else range(len(names))
            samples = (None, {names[k]: (times[rows][which == k], values[which == k]) for k in present})
        held = {column: _held(column, group, times[rows], series[rows]) for column, series in known.items()}
        experiments.append(Experiment(*samples, name=group, inputs=held))
    return experiments


class _Sheet(NamedTuple):
    """A table before it is understood: unique column names, one place per row for error messages."""

    frame: pd.DataFrame
    label: str  # the file in backticks
    stem: str  # the file's name without folder and ending
    unit: str  # "line" of a file or "row" of a DataFrame
    places: np.ndarray  # (rows,)
    decimal_comma: bool = False

    def place(self, row: int) -> str:
        return f"{self.unit} {self.places[row]} of {self.label}"

    def text(self, column: str) -> np.ndarray:
        """The cells of a column as stripped text, "" where missing."""
        cells = self.frame[column]
        if cells.dtype.kind == "f" and bool((cells.dropna() % 1 == 0).all()):
            cells = cells.astype("Int64")  # 1.0 is experiment "1"
        return cells.astype("string").str.strip().fillna("").to_numpy(dtype=object)

    def numbers(self, column: str, missing: bool = True) -> np.ndarray:
        """The cells of a column as floats (rows,), NaN where missing."""
        import pandas as pd

        cells = self.frame[column]
        if pd.api.types.is_datetime64_any_dtype(cells) or pd.api.types.is_timedelta64_dtype(cells):
            raise InputError(
                f"Column `{column}` of {self.label} holds dates: convert them to numbers such as hours."
            )
        if pd.api.types.is_numeric_dtype(cells):
            array, wrong = cells.to_numpy(dtype=float, na_value=nan), np.zeros(len(cells), dtype=bool)
        else:
            blank = cells.isna().to_numpy()
            if self.decimal_comma:
                cells = cells.str.replace(",", ".", regex=False)
            array = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=float, na_value=nan)
            wrong = np.isnan(array) & ~blank
        if wrong.any():
            wrong[wrong] = [str(cell).strip().lower() not in MISSING for cell in self.frame[column][wrong]]
        wrong |= np.isinf(array) if missing else ~np.isfinite(array)
        if wrong.any():
            row = int(np.argmax(wrong))
            cell = self.frame[column].iloc[row]
            content = "nothing" if _blank(cell) else repr(str(cell))
            remedy = "blank it if not measured, or choose other columns with observables=[...]"
            raise InputError(
                f"Column `{column}` has {content} in {self.place(row)}, where a number is needed: "
                f"correct it, {remedy if missing else 'or remove the row'}."
            )
        return array

    def without_blank_rows(self) -> _Sheet:
        keep = ~self.frame.isna().all(axis=1).to_numpy()
        if not keep.any():
            raise InputError(
                f"There are column names but no rows in {self.label}: add the measurements below them."
            )
        return self._replace(frame=self.frame[keep], places=self.places[keep])


def _blank(cell: object) -> bool:
    return cell is None or str(cell).strip().lower() in MISSING


def _sheet(source: object, text_columns: set[str]) -> _Sheet:
    """The table in a path, an open file or a DataFrame; `text_columns` in lower case."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return _checked_columns(source, "the table", "")
    if isinstance(source, (str, Path)):
        if "\n" in str(source):
            raise InputError("This text is a table, not a path: wrap it as io.StringIO(text).")
        path = Path(source)
        content, label, stem = _bytes(path), f"`{path.name}`", path.stem
    elif callable(getattr(source, "read", None)):
        content, label, stem = source.read(), "the table", ""
    else:
        raise InputError(
            f"A table cannot be read from {source!r}: pass a path, an open file or a pandas DataFrame."
        )
    if isinstance(content, bytes):
        if content[:4] == b"PAR1":
            return _checked_columns(_parquet(content, label), label, stem)
        content = _decoded(content, label)
    return _parsed(content, label, stem, text_columns)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        folder = path.parent
        if not folder.is_dir():
            raise InputError(f"There is no folder `{folder}`: check the path of `{path.name}`.") from None
        files = [p.name for p in folder.iterdir() if p.is_file()]
        hint = did_you_mean(path.name, files)
        raise InputError(
            f"There is no file `{path.name}` in `{folder.resolve()}`: check the name.{hint}"
        ) from None
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be read ({error.strerror}): pass the path of a table file."
        ) from None


def _parquet(content: bytes, label: str) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise InputError(f"Reading {label} needs pyarrow: run pip install 'picardfit[parquet]'.") from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"The Parquet data of {label} are damaged ({error}): write the file again."
        ) from None


def _decoded(content: bytes, label: str) -> str:
    """The text of a file: UTF-8 or UTF-16 with or without a byte order mark, else the Windows code page."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16")
    if b"\0" in content[:4096]:
        raise InputError(f"The bytes of {label} are not text: save it as CSV (or Parquet) and read that.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def _parsed(text: str, label: str, stem: str, text_columns: set[str]) -> _Sheet:
    """The cells of a delimited text and the line of each row; `text_columns` are not read as numbers."""
    import pandas as pd

    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    places = [n for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    if not places:
        raise InputError(
            f"There is nothing in {label}: its first line must name the columns, for example time,prey,pred."
        )
    header = lines[places[0] - 1].strip(" ")
    separator = _separator(header)
    names = [n.strip() for n in next(csv.reader([header], delimiter=separator, skipinitialspace=True))]
    # A first row of blanks in place of the names fixes the number of columns: longer lines are errors.
    table = "\n".join([separator.join(["NA"] * len(names)), *(lines[n - 1] for n in places[1:])])
    comma = separator != "," and bool(re.search(r"\d,\d", table)) and not re.search(r"\d\.\d", table)
    texts = [n.lower() in text_columns for n in names]
    blanks = ["NaN", *MISSING, *(word.upper() for word in MISSING), *(word.title() for word in MISSING)]
    try:
        frame = pd.read_csv(
            io.StringIO(table),
            sep=r"\s+" if separator == " " else separator,
            decimal="," if comma else ".",
            header=None,
            dtype={k: str for k, is_text in enumerate(texts) if is_text},
            keep_default_na=False,
            na_values={k: [""] if is_text else blanks for k, is_text in enumerate(texts)},
            skipinitialspace=True,
            low_memory=False,
        )
    except pd.errors.ParserError as error:
        found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if found is None:
            raise InputError(
                f"The lines of {label} cannot be split into columns ({error}): check its quotes."
            ) from None
        expected, row, saw = (int(n) for n in found.groups())
        raise InputError(
            f"Line {places[row - 1]} of {label} has {saw} cells, but there are {expected} column names: "
            f"correct it."
        ) from None
    frame.columns = names
    if len(frame) != len(places):  # a quoted cell spans lines
        places = list(range(1, len(frame) + 1))
    return _checked_columns(frame.iloc[1:], label, stem, np.array(places[1:], dtype=int), comma)


def _separator(header: str) -> str:
    """The separator of the columns, judged by the line of their names."""
    bare = re.sub(r'"[^"]*"', "", header)
    best = max("\t;,", key=bare.count)
    return best if bare.count(best) else " "


def _checked_columns(
    frame: pd.DataFrame, label: str, stem: str, lines: np.ndarray | None = None, decimal_comma: bool = False
) -> _Sheet:
    """The sheet with stripped, unique names; named index levels become columns, unnamed columns go."""
    fresh = [level for level in frame.index.names if level is not None and level not in frame.columns]
    frame = frame.reset_index(level=fresh) if fresh else frame
    names = [str(column).strip() for column in frame.columns]
    if all(re.fullmatch(r"[-+.,\deE]*", column) for column in names):
        raise InputError(f"There are no column names in {label}: add a first line such as time,prey,pred.")
    named = [bool(column) for column in names]
    frame = frame.loc[:, named].set_axis([column for column in names if column], axis=1)
    frame = frame.reset_index(drop=True)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"There are two columns called `{twice[0]}` in {label}: rename or remove one.")
    places = np.arange(1, len(frame) + 1) if lines is None else lines
    return _Sheet(frame, label, stem, "row" if lines is None else "line", places, decimal_comma)


def _find(sheet: _Sheet, column: str) -> str | None:
    """The column of that name, exactly or else without regard to case."""
    if column in sheet.frame.columns:
        return column
    same = [c for c in sheet.frame.columns if c.lower() == str(column).strip().lower()]
    return same[0] if len(same) == 1 else None


def _required(sheet: _Sheet, column: str, what: str) -> str:
    found = _find(sheet, column)
    if found is None:
        columns = list(sheet.frame.columns)
        raise InputError(
            f"There is no {what} column `{column}` in {sheet.label}: its columns are {listing(columns)}."
            f"{did_you_mean(str(column), columns)}"
        )
    return found


def _time_column(sheet: _Sheet, time: str | None) -> str:
    if time is not None:
        return _required(sheet, time, "time")
    columns = list(sheet.frame.columns)
    unit = r"\s*([(\[].*[)\]])?"
    for pattern in ("(?i:time)" + unit, "t" + unit, f"(?i:t|{TIME_UNITS})" + unit):
        # T is also a usual name of a state (tumour, temperature): the time only as the first column.
        found = [c for c in columns if re.fullmatch(pattern, c) and (c != "T" or c == columns[0])]
        if len(found) == 1:
            return found[0]
        if found:
            break
    complaint = f"{listing(found)} could each be the time" if found else "none is called time"
    raise InputError(f"Of the columns {listing(columns)} in {sheet.label} {complaint}: pass time='...'.")


def _group_column(sheet: _Sheet, experiment: str | None) -> str | None:
    """The column that names the experiments; only a name other than the default must exist."""
    if experiment is None:
        return None
    if experiment == "experiment":
        return next(filter(None, (_find(sheet, c) for c in EXPERIMENT_NAMES)), None)
    return _required(sheet, experiment, "experiment")


def _name_list(names: Iterable[str]) -> list[str]:
    """The names as a list; one text is one name."""
    return [names] if isinstance(names, str) else list(names)


def _long_columns(sheet: _Sheet) -> tuple[str, str] | None:
    """The columns (observable, value) of a long table; None for a wide one."""
    which = next(filter(None, (_find(sheet, c) for c in OBSERVABLE_NAMES)), None)
    value = next(filter(None, (_find(sheet, c) for c in VALUE_NAMES)), None)
    return (which, value) if which and value else None


def _wide(sheet: _Sheet, free: list[str], wanted: list[str] | None) -> tuple[list[str], list[np.ndarray]]:
    """Names and columns of the observables of a wide table."""
    names = free if wanted is None else [_required(sheet, n, "observable") for n in wanted]
    if not names:
        raise InputError(
            f"There is no column of measurements in {sheet.label}: "
            f"add one to {listing(sheet.frame.columns)}, or name it in observables=[...]."
        )
    return names, [sheet.numbers(n) for n in names]


def _long(
    sheet: _Sheet, which: str, value: str, wanted: list[str] | None
) -> tuple[list[str], tuple[np.ndarray, np.ndarray]]:
    """Names of the observables of a long table; each row's index of a name (-1: unwanted) and value."""
    import pandas as pd

    codes, found = pd.factorize(sheet.text(which))
    values = sheet.numbers(value)
    unnamed = np.flatnonzero((codes == list(found).index("")) & np.isfinite(values)) if "" in found else []
    if len(unnamed):
        raise InputError(f"Column `{which}` is blank in {sheet.place(unnamed[0])}: name the observable.")
    names = [n for n in found if n] if wanted is None else wanted
    for n in names:
        if n not in found:
            raise InputError(
                f"There is no observable `{n}` in {sheet.label}: it has {listing(found)}."
                f"{did_you_mean(n, found)}"
            )
    position = np.array([names.index(n) if n in names else -1 for n in found], dtype=int)
    return names, (position[codes], values)


def _groups(sheet: _Sheet, column: str | None, name: str) -> list[tuple[str, np.ndarray]]:
    """Name and row numbers of each experiment, in the order of first appearance."""
    import pandas as pd

    if column is None:
        return [(name, np.arange(len(sheet.frame)))]
    codes, names = pd.factorize(sheet.text(column))
    if "" in names:
        row = int(np.argmax(codes == list(names).index("")))
        raise InputError(f"Column `{column}` is blank in {sheet.place(row)}: name the experiment.")
    order = np.argsort(codes, kind="stable")
    return list(zip(names, np.split(order, np.cumsum(np.bincount(codes))[:-1]), strict=True))


def _held(column: str, group: str, times: np.ndarray, values: np.ndarray) -> Input:
    """An input column of one experiment: a number if constant, else a table held from row to row."""
    given = np.isfinite(values)
    where = f"input `{column}` of experiment `{group}`" if group else f"input `{column}`"
    if not given.any():
        raise InputError(f"There is no number for {where}: fill its column.")
    if np.ptp(values[given]) == 0:
        return Constant(values[given][0])
    pairs = np.unique(np.stack([times[given], values[given]], axis=-1), axis=0)
    twice = np.flatnonzero(np.diff(pairs[:, 0]) == 0)
    if len(twice):
        raise InputError(
            f"There are two values for {where} at time {pairs[twice[0], 0]:g}: keep one of them."
        )
    return Table(pairs[:, 0], pairs[:, 1])
