"""Tables before they are understood: CSV, TSV and Parquet files, open files and pandas DataFrames -> columns."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from picardfit.errors import InputError, closest_file
from picardfit.model.number_arrays import MISSING

if TYPE_CHECKING:
    import pandas as pd

DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
SPELLINGS = sorted({spelling for word in MISSING for spelling in (word, word.upper(), word.title(), "NaN")})


@dataclass(frozen=True)
class ParserChoice:
    """Which parser reads a text: both give the same columns, but importing pandas takes 0.4 s.

    `pandas_from`: the length in characters from which that import pays: 2 million are read by the csv module in
    about as long (measured on tables of numbers).
    """

    pandas_from: int = 2_000_000


class Sheet(NamedTuple):
    """Columns by name, and the line or row number of each row for error messages.

    A column is an array (rows,) of numbers, of dates, or of texts with None where a cell is missing.
    """

    columns: dict[str, np.ndarray]
    label: str  # the file in backticks
    stem: str  # the file's name without folder and ending
    unit: str  # "line" of a file or "row" of a DataFrame
    places: np.ndarray  # (rows,)
    decimal_comma: bool = False

    def place(self, row: int) -> str:
        return f"{self.unit} {self.places[row]} of {self.label}"

    def labels(self, column: str) -> tuple[np.ndarray, list[str]]:
        """The number (rows,) of each cell's text, and the stripped texts in order of appearance; missing is ""."""
        cells = self.columns[column]
        if cells.dtype == object:
            numbers: defaultdict[str | None, int] = defaultdict(count().__next__)
            codes = np.array([numbers[cell] for cell in cells], dtype=np.intp)
            found = [cell or "" for cell in numbers]
        else:
            values, first, back = np.unique(cells, return_index=True, return_inverse=True)
            order = np.argsort(first)
            codes, found = np.argsort(order)[back], _texts(values[order])
        merged: dict[str, int] = {}
        again = np.array([merged.setdefault(text.strip(), len(merged)) for text in found], int)
        return again[codes], list(merged)

    def numbers(self, column: str, missing: bool = True) -> np.ndarray:
        """The cells of a column as floats (rows,), NaN where missing."""
        cells = self.columns[column]
        if cells.dtype.kind == "m":
            raise InputError("files.column_of_time_spans", column, table=self.label)
        if cells.dtype.kind == "M":
            raise InputError("files.column_of_dates", column, table=self.label)
        array, wrong = _floats(cells, self.decimal_comma)
        wrong |= np.isinf(array) if missing else ~np.isfinite(array)
        if wrong.any():
            row = int(np.argmax(wrong))
            no_number = missing and bool(np.isnan(array).all())
            raise self._bad_cell(column, row, missing, no_number)
        return array

    def _bad_cell(self, column: str, row: int, missing: bool, no_number: bool) -> InputError:
        """What is wrong with a cell; a column without a single number likely holds names."""
        cell, where = self.columns[column][row], self.place(row)
        if re.match(DATE, str(cell).strip()):
            return InputError("files.dates", column, value=str(cell), where=where)
        if not missing:
            content = "nothing" if _blank(cell) else repr(str(cell))
            return InputError("files.time_cell", column, content=content, where=where)
        code = "files.cell_of_names" if no_number else "files.cell"
        return InputError(code, column, value=str(cell), where=where)

    def without_blank_rows(self) -> Sheet:
        keep = np.zeros(len(self.places), dtype=bool)
        for cells in self.columns.values():
            keep |= ~_missing(cells)
        if not keep.any():
            raise InputError("files.no_rows", self.label)
        if keep.all():
            return self
        columns = {name: cells[keep] for name, cells in self.columns.items()}
        return self._replace(columns=columns, places=self.places[keep])


def _missing(cells: np.ndarray) -> np.ndarray:
    """Where the cells of a column are missing: None among texts, NaN or NaT elsewhere, (rows,)."""
    if cells.dtype == object:
        return np.array([cell is None for cell in cells], dtype=bool)
    return np.isnan(cells) if cells.dtype.kind in "fmM" else np.zeros(len(cells), dtype=bool)


def _texts(values: np.ndarray) -> list[str]:
    """Numbers or dates as text, "" where missing; 1.0 is "1" when all are whole."""
    missing = values != values
    whole = values.dtype.kind == "f" and bool((values[np.isfinite(values)] % 1 == 0).all())
    return [
        "" if gone else str(int(one) if whole and np.isfinite(one) else one)
        for one, gone in zip(values, missing, strict=True)
    ]


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


def read_sheet(source: object, text_columns: set[str], choice: ParserChoice = ParserChoice()) -> Sheet:
    """The table in a path, an open file or a DataFrame; `text_columns` in lower case are not read as numbers."""
    if "pandas" in sys.modules and isinstance(source, sys.modules["pandas"].DataFrame):
        return _from_frame(source, "the table", "")
    if isinstance(source, (str, Path)):
        if "\n" in str(source):
            raise InputError("files.text_not_a_path")
        path = Path(source)
        content: bytes | str = _bytes(path)
        label, stem = f"`{path.name}`", path.stem
    elif callable(read := getattr(source, "read", None)):
        content, label, stem = read(), "the table", ""
    else:
        raise InputError("files.not_a_table_source", value=source)
    if isinstance(content, bytes):
        if content[:4] == b"PAR1":
            return _from_frame(_parquet(content, label), label, stem)
        if content[:4] in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
            raise InputError("files.excel", label)
        content = _decoded(content, label)
    return parse_table(content, label, stem, text_columns, choice)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        folder = path.parent
        if not folder.is_dir():
            raise InputError("files.no_folder_of_table", str(folder), name=path.name) from None
        close = closest_file(path)
        raise InputError("files.no_table", path.name, folder=folder.resolve(), close=close) from None
    except OSError as error:
        raise InputError("files.unreadable_table", str(path), reason=error.strerror) from None


def _parquet(content: bytes, label: str) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise InputError("files.needs_pyarrow", label) from None
    except (OSError, ValueError) as error:
        raise InputError("files.damaged_parquet", label, reason=error) from None


def _decoded(content: bytes, label: str) -> str:
    """The text of a file: UTF-8 or UTF-16 with or without a byte order mark, else the Windows code page."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16")
    if b"\0" in content[:4096]:
        raise InputError("files.not_text", label)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def parse_table(
    text: str, label: str, stem: str, text_columns: set[str], choice: ParserChoice = ParserChoice()
) -> Sheet:
    """The cells of a delimited text and the line of each row."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) >= choice.pandas_from:
        sheet = parse_by_pandas(text, label, stem, text_columns)
        if sheet is not None:
            return sheet
    lines = text.split("\n")
    places = [n for n, line in enumerate(lines, 1) if _is_row(line)]
    if not places:
        raise InputError("files.empty_table", label)
    separator, names = _header(lines[places[0] - 1])
    body = [lines[n - 1] for n in places[1:]]
    rows = _rows(body, separator, label)
    if len(rows) != len(body):  # a quoted cell spans lines
        places = list(range(1, len(rows) + 2))
    for row, place in zip(rows, places[1:], strict=True):
        if len(row) > len(names):
            raise InputError("files.long_row", label, line=place, cells=len(row), columns=len(names))
    joined = "\n".join(body)
    comma = _has_decimal_comma(joined, separator)
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


def parse_by_pandas(text: str, label: str, stem: str, text_columns: set[str]) -> Sheet | None:
    """A large text, thirty times faster; None when rows differ in length or hold quotes or comments."""
    start, place = 0, 1
    while not _is_row(line := text[start : text.find("\n", start)]):
        start, place = start + len(line) + 1, place + 1
        if start >= len(text):
            return None
    separator, names = _header(line)
    body = text[start + len(line) + 1 :].rstrip("\n")
    rows, marks = body.count("\n") + 1, len(names) - 1
    even = body.count(separator) == rows * marks == rows * body.partition("\n")[0].count(separator)
    if separator == " " or marks == 0 or not even or '"' in body or "#" in body:
        return None
    comma = _has_decimal_comma(body, separator)
    words = {k for k, name in enumerate(names) if name.lower() in text_columns}
    columns = _columns(body, separator, len(names), words, comma)
    if columns is None or len(columns[0]) != rows:  # a line is blank
        return None
    places = np.arange(place + 1, place + 1 + rows)
    return _checked_columns(names, columns, label, stem, places, comma)


def _columns(body: str, separator: str, width: int, words: set[int], comma: bool) -> list[np.ndarray] | None:
    """The columns by the parser of pandas; None when it does not understand them as numbers and texts."""
    import pandas as pd

    try:
        frame = pd.read_csv(
            io.BytesIO(body.encode()),
            sep=separator,
            header=None,
            names=list(range(width)),
            index_col=False,
            dtype=dict.fromkeys(words, object),
            na_values={k: SPELLINGS for k in range(width) if k not in words},
            keep_default_na=False,
            skipinitialspace=True,
            quoting=csv.QUOTE_NONE,
            low_memory=False,
            decimal="," if comma else ".",
        )
    except ValueError:
        return None
    if any(pd.api.types.is_bool_dtype(frame[k]) for k in range(width) if k not in words):
        return None
    return [_words(frame[k]) if k in words else _array(frame[k]) for k in range(width)]


def _words(cells: pd.Series) -> np.ndarray:
    """A column of texts, None where one is empty."""
    texts = cells.to_numpy(dtype=object, copy=True)
    texts[texts == ""] = None
    return texts


def _is_row(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _header(line: str) -> tuple[str, list[str]]:
    """The separator of the columns, and their names."""
    line = line.strip(" ")
    separator = _separator(line)
    names = next(csv.reader([line], delimiter=separator, skipinitialspace=True))
    return separator, [name.strip() for name in names]


def _has_decimal_comma(body: str, separator: str) -> bool:
    return separator != "," and bool(re.search(r"\d,\d", body)) and not re.search(r"\d\.\d", body)


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
        raise InputError("files.quotes", label, reason=error) from None


def _separator(header: str) -> str:
    """The separator of the columns, judged by the line of their names."""
    bare = re.sub(r'"[^"]*"', "", header)
    best = max("\t;,", key=bare.count)
    return best if bare.count(best) else " "


def _from_frame(frame: pd.DataFrame, label: str, stem: str) -> Sheet:
    """The sheet of a DataFrame; named index levels become columns."""
    fresh = [level for level in frame.index.names if level is not None and level not in frame.columns]
    frame = frame.reset_index(level=fresh) if fresh else frame
    columns = [_array(frame.iloc[:, k]) for k in range(frame.shape[1])]
    return _checked_columns([str(column).strip() for column in frame.columns], columns, label, stem)


def _array(cells: pd.Series) -> np.ndarray:
    """A column of a DataFrame: numbers, dates, or texts with None where missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(cells) or pd.api.types.is_timedelta64_dtype(cells):
        return cells.to_numpy(dtype="datetime64[ns]" if cells.dtype.kind == "M" else "timedelta64[ns]")
    if pd.api.types.is_integer_dtype(cells) and not cells.hasnans:
        return cells.to_numpy(dtype=np.int64 if cells.dtype.kind == "i" else float)
    if pd.api.types.is_numeric_dtype(cells):
        return cells.to_numpy(dtype=float, na_value=nan)
    return np.array(
        [None if gone else str(cell) for cell, gone in zip(cells, cells.isna(), strict=True)], dtype=object
    )


def _checked_columns(
    names: list[str],
    columns: list[np.ndarray],
    label: str,
    stem: str,
    lines: np.ndarray | None = None,
    decimal_comma: bool = False,
) -> Sheet:
    """The sheet with unique names; unnamed columns go."""
    if all(re.fullmatch(r"[-+.,\deE]*", column) for column in names):
        raise InputError("files.no_column_names", label)
    named = [(name, cells) for name, cells in zip(names, columns, strict=True) if name]
    seen: set[str] = set()
    for name, _ in named:
        if name in seen:
            raise InputError("files.two_columns", name, table=label)
        seen.add(name)
    places = np.arange(1, len(columns[0]) + 1) if lines is None else lines
    return Sheet(dict(named), label, stem, "row" if lines is None else "line", places, decimal_comma)
