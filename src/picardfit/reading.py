"""Experiments from tables: CSV, TSV and Parquet files, open files and pandas DataFrames, wide or long."""

from __future__ import annotations

import csv
import difflib
import io
import re
import sys
from collections.abc import Iterable
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from picardfit.data import Experiment
from picardfit.errors import InputError, did_you_mean, listing
from picardfit.inputs import MISSING, Constant, Input, Table

if TYPE_CHECKING:
    import pandas as pd

EXPERIMENT_NAMES = ("experiment", "simulationConditionId")  # ours, PEtab's
OBSERVABLE_NAMES = ("observable", "observableId", "variable")  # ours, PEtab's, pandas.melt's
VALUE_NAMES = ("value", "measurement")
DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
TIME_UNITS = "hours?|minutes?|seconds?|days?|weeks?|months?|years?"


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
        names, columns = _wide(sheet, [c for c in sheet.columns if c not in taken], observables)
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
    """A table before it is understood: columns by name, one place per row for error messages.

    A column is an array (rows,) of numbers, of dates, or of objects with None where a cell is missing.
    """

    columns: dict[str, np.ndarray]
    label: str  # the file in backticks
    stem: str  # the file's name without folder and ending
    unit: str  # "line" of a file or "row" of a DataFrame
    places: np.ndarray  # (rows,)
    decimal_comma: bool = False

    def place(self, row: int) -> str:
        return f"{self.unit} {self.places[row]} of {self.label}"

    def text(self, column: str) -> np.ndarray:
        """The cells of a column as stripped text, "" where missing."""
        cells = self.columns[column]
        if cells.dtype.kind == "f" and bool((cells[np.isfinite(cells)] % 1 == 0).all()):
            cells = [int(cell) if np.isfinite(cell) else None for cell in cells]  # 1.0 is experiment "1"
        missing = [cell is None or cell != cell for cell in cells]
        return np.array(
            ["" if gone else str(cell).strip() for cell, gone in zip(cells, missing, strict=True)],
            dtype=object,
        )

    def numbers(self, column: str, missing: bool = True) -> np.ndarray:
        """The cells of a column as floats (rows,), NaN where missing."""
        cells = self.columns[column]
        if cells.dtype.kind == "m":
            raise InputError(
                f"Column `{column}` of {self.label} holds time spans: "
                f"convert them to numbers, for example by .dt.total_seconds()."
            )
        if cells.dtype.kind == "M":
            raise InputError(
                f"Column `{column}` of {self.label} holds dates: "
                f"convert dates to numbers, such as days since the first."
            )
        array, wrong = _floats(cells, self.decimal_comma)
        wrong |= np.isinf(array) if missing else ~np.isfinite(array)
        if wrong.any():
            row = int(np.argmax(wrong))
            cell = cells[row]
            if re.match(DATE, str(cell).strip()):
                raise InputError(
                    f"Column `{column}` holds dates ({str(cell)!r} in {self.place(row)}): "
                    f"convert dates to numbers, such as days since the first."
                )
            content = "nothing" if _blank(cell) else repr(str(cell))
            remedy = "blank it if not measured, or choose other columns with observables=[...]"
            if missing and np.isnan(array).all():  # no number at all: likely names
                remedy = f"choose other columns with observables=[...], or pass experiment={column!r} if it names these"
            raise InputError(
                f"Column `{column}` has {content} in {self.place(row)}, where a number is needed: "
                f"correct it, {remedy if missing else 'or remove the row'}."
            )
        return array

    def without_blank_rows(self) -> _Sheet:
        keep = np.zeros(len(self.places), dtype=bool)
        for cells in self.columns.values():
            keep |= (
                np.array([cell is not None for cell in cells], dtype=bool)
                if cells.dtype == object
                else cells == cells
            )
        if not keep.any():
            raise InputError(
                f"There are column names but no rows in {self.label}: add the measurements below them."
            )
        columns = {name: cells[keep] for name, cells in self.columns.items()}
        return self._replace(columns=columns, places=self.places[keep])


def _floats(cells: np.ndarray, decimal_comma: bool) -> tuple[np.ndarray, np.ndarray]:
    """Cells as floats, NaN where missing or wrong; and where they are wrong."""
    if cells.dtype != object:
        return cells.astype(float), np.zeros(len(cells), dtype=bool)
    array, wrong = np.full(len(cells), nan), np.zeros(len(cells), dtype=bool)
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        text = str(cell).replace(",", ".") if decimal_comma else str(cell)
        try:
            array[row] = float(text)
            wrong[row] = "_" in text  # Python reads 1_000, tables do not
        except ValueError:
            wrong[row] = not _blank(cell)
    return array, wrong


def _all_numbers(cells: list[str]) -> np.ndarray | None:
    """The cells of a column without blanks or text as floats, at once; None where there are others."""
    try:
        return np.array(cells, dtype=float)
    except ValueError:
        return None


def _blank(cell: object) -> bool:
    return cell is None or str(cell).strip().lower() in MISSING


def _sheet(source: object, text_columns: set[str]) -> _Sheet:
    """The table in a path, an open file or a DataFrame; `text_columns` in lower case."""
    if "pandas" in sys.modules and isinstance(source, sys.modules["pandas"].DataFrame):
        return _from_frame(source, "the table", "")
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
            return _from_frame(_parquet(content, label), label, stem)
        if content[:4] in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
            raise InputError(
                f"The bytes of {label} are those of an Excel file: save it as CSV and read that."
            )
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
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    places = [n for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    if not places:
        raise InputError(
            f"There is nothing in {label}: its first line must name the columns, for example time,prey,pred."
        )
    header = lines[places[0] - 1].strip(" ")
    separator = _separator(header)
    names = [n.strip() for n in next(csv.reader([header], delimiter=separator, skipinitialspace=True))]
    body = [lines[n - 1] for n in places[1:]]
    rows = _rows(body, separator, label)
    if len(rows) != len(body):  # a quoted cell spans lines
        places = list(range(1, len(rows) + 2))
    for row, place in zip(rows, places[1:], strict=True):
        if len(row) > len(names):
            raise InputError(
                f"Line {place} of {label} has {len(row)} cells, but there are {len(names)} column names: "
                f"remove what is too much, or name its column."
            )
    joined = "\n".join(body)
    comma = separator != "," and bool(re.search(r"\d,\d", joined)) and not re.search(r"\d\.\d", joined)
    columns = []
    for k, name in enumerate(names):
        cells = [row[k] if k < len(row) else "" for row in rows]
        words = name.lower() in text_columns
        numbers = None if words or comma or "_" in joined else _all_numbers(cells)
        if numbers is None:
            gone = (lambda cell: not cell) if words else _blank
            numbers = np.array([None if gone(cell) else cell for cell in cells], dtype=object)
        columns.append(numbers)
    return _checked_columns(names, columns, label, stem, np.array(places[1:], dtype=int), comma)


def _rows(lines: list[str], separator: str, label: str) -> list[list[str]]:
    """The cells of every row."""
    if separator == " ":
        lines = [re.sub(r"\s+", " ", line.strip()) for line in lines]
    try:
        return list(
            csv.reader(
                (line + "\n" for line in lines), delimiter=separator, skipinitialspace=True, strict=True
            )
        )
    except csv.Error as error:
        raise InputError(
            f"The lines of {label} cannot be split into columns ({error}): check its quotes."
        ) from None


def _separator(header: str) -> str:
    """The separator of the columns, judged by the line of their names."""
    bare = re.sub(r'"[^"]*"', "", header)
    best = max("\t;,", key=bare.count)
    return best if bare.count(best) else " "


def _from_frame(frame: pd.DataFrame, label: str, stem: str) -> _Sheet:
    """The sheet of a DataFrame; named index levels become columns."""
    fresh = [level for level in frame.index.names if level is not None and level not in frame.columns]
    frame = frame.reset_index(level=fresh) if fresh else frame
    columns = [_array(frame.iloc[:, k]) for k in range(frame.shape[1])]
    return _checked_columns([str(column).strip() for column in frame.columns], columns, label, stem)


def _array(cells: pd.Series) -> np.ndarray:
    """A column of a DataFrame: numbers, dates, or objects with None where missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(cells) or pd.api.types.is_timedelta64_dtype(cells):
        return cells.to_numpy(dtype="datetime64[ns]" if cells.dtype.kind == "M" else "timedelta64[ns]")
    if pd.api.types.is_integer_dtype(cells) and not cells.hasnans:
        return cells.to_numpy(dtype=np.int64 if cells.dtype.kind == "i" else float)
    if pd.api.types.is_numeric_dtype(cells):
        return cells.to_numpy(dtype=float, na_value=nan)
    return np.array(
        [None if gone else cell for cell, gone in zip(cells, cells.isna(), strict=True)], dtype=object
    )


def _checked_columns(
    names: list[str],
    columns: list[np.ndarray],
    label: str,
    stem: str,
    lines: np.ndarray | None = None,
    decimal_comma: bool = False,
) -> _Sheet:
    """The sheet with unique names; unnamed columns go."""
    if all(re.fullmatch(r"[-+.,\deE]*", column) for column in names):
        raise InputError(f"There are no column names in {label}: add a first line such as time,prey,pred.")
    named = [(name, cells) for name, cells in zip(names, columns, strict=True) if name]
    seen: set[str] = set()
    for name, _ in named:
        if name in seen:
            raise InputError(f"There are two columns called `{name}` in {label}: rename or remove one.")
        seen.add(name)
    places = np.arange(1, len(columns[0]) + 1) if lines is None else lines
    return _Sheet(dict(named), label, stem, "row" if lines is None else "line", places, decimal_comma)


def plain_name(name: str) -> str:
    """A name for comparisons: without regard to case, blanks, underscores and a unit in brackets at its end."""
    return re.sub(r"[\s_-]", "", re.sub(r"(?<=.)[(\[][^(\[]*[)\]]$", "", name.strip())).lower()


def _find(sheet: _Sheet, column: str) -> str | None:
    """The column of that name, exactly or else the only one that differs in case, blanks or a unit."""
    if column in sheet.columns:
        return column
    for spelled in (str.lower, plain_name):
        same = [c for c in sheet.columns if spelled(c) == spelled(str(column).strip())]
        if same:
            return same[0] if len(same) == 1 else None
    return None


def _required(sheet: _Sheet, column: str, what: str) -> str:
    found = _find(sheet, column)
    if found is None:
        columns = list(sheet.columns)
        raise InputError(
            f"There is no {what} column `{column}` in {sheet.label}: its columns are {listing(columns)}."
            f"{_like(str(column), columns)}"
        )
    return found


def _like(name: str, columns: list[str]) -> str:
    """' Did you mean `Time`?' for the column closest to the name, upper and lower case being the same."""
    close = difflib.get_close_matches(name.lower(), [c.lower() for c in columns], n=1)
    return f" Did you mean `{next(c for c in columns if c.lower() == close[0])}`?" if close else ""


def _time_column(sheet: _Sheet, time: str | None) -> str:
    if time is not None:
        return _required(sheet, time, "time")
    columns = list(sheet.columns)
    unit = r"\s*([(\[].*[)\]])?"
    for pattern in ("(?i:time)" + unit, "t" + unit, f"(?i:t|{TIME_UNITS})" + unit):
        # T is also a usual name of a state (tumour, temperature): the time only as the first column.
        found = [c for c in columns if re.fullmatch(pattern, c) and (c != "T" or c == columns[0])]
        if len(found) == 1:
            return found[0]
        if found:
            break
    complaint = f"{listing(found)} could each be the time" if found else "none is called time"
    hint = "" if found else _like("time", columns)
    raise InputError(
        f"Of the columns {listing(columns)} in {sheet.label} {complaint}: pass time='...'.{hint}"
    )


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
            f"add one to {listing(sheet.columns)}, or name it in observables=[...]."
        )
    return names, [sheet.numbers(n) for n in names]


def _long(
    sheet: _Sheet, which: str, value: str, wanted: list[str] | None
) -> tuple[list[str], tuple[np.ndarray, np.ndarray]]:
    """Names of the observables of a long table; each row's index of a name (-1: unwanted) and value."""
    codes, found = _numbered(sheet.text(which))
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
    if column is None:
        return [(name, np.arange(len(sheet.places)))]
    codes, names = _numbered(sheet.text(column))
    if "" in names:
        row = int(np.argmax(codes == list(names).index("")))
        raise InputError(f"Column `{column}` is blank in {sheet.place(row)}: name the experiment.")
    order = np.argsort(codes, kind="stable")
    return list(zip(names, np.split(order, np.cumsum(np.bincount(codes))[:-1]), strict=True))


def _numbered(texts: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Every text as a number, and the texts in the order of first appearance."""
    order = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    return np.array([order[text] for text in texts], dtype=int), list(order)


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
