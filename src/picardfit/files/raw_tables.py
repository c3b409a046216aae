"""Tables before they are understood: CSV, TSV and Parquet files, open files and pandas DataFrames -> columns."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import defaultdict
from itertools import count
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from picardfit.errors import InputError, did_you_mean_file
from picardfit.model.number_arrays import MISSING

if TYPE_CHECKING:
    import pandas as pd

DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
LARGE = 2_000_000  # characters from which on loading pandas pays
SPELLINGS = sorted({spelling for word in MISSING for spelling in (word, word.upper(), word.title(), "NaN")})


class Sheet(NamedTuple):
    """A table before it is understood: columns by name, one place per row for error messages.

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
            numbers = defaultdict(count().__next__)
            codes = np.fromiter(map(numbers.__getitem__, cells), int, len(cells))
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

    def without_blank_rows(self) -> Sheet:
        keep = np.zeros(len(self.places), dtype=bool)
        for cells in self.columns.values():
            keep |= np.not_equal(cells, None) if cells.dtype == object else cells == cells
        if not keep.any():
            raise InputError(
                f"There are column names but no rows in {self.label}: add the measurements below them."
            )
        if keep.all():
            return self
        columns = {name: cells[keep] for name, cells in self.columns.items()}
        return self._replace(columns=columns, places=self.places[keep])


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


def read_sheet(source: object, text_columns: set[str]) -> Sheet:
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
        raise InputError(
            f"There is no file `{path.name}` in `{folder.resolve()}`: check the name.{did_you_mean_file(path)}"
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


def _parsed(text: str, label: str, stem: str, text_columns: set[str]) -> Sheet:
    """The cells of a delimited text and the line of each row; `text_columns` are not read as numbers."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > LARGE and (sheet := _plain(text, label, stem, text_columns)) is not None:
        return sheet
    lines = text.split("\n")
    places = [n for n, line in enumerate(lines, 1) if _is_row(line)]
    if not places:
        raise InputError(
            f"There is nothing in {label}: its first line must name the columns, for example time,prey,pred."
        )
    separator, names = _header(lines[places[0] - 1])
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


def _plain(text: str, label: str, stem: str, text_columns: set[str]) -> Sheet | None:
    """The same for a large text, thirty times faster; None when rows differ in length, or have quotes or remarks."""
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
    texts = cells.to_numpy(dtype=object)
    return np.where(texts == "", None, texts)


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
        raise InputError(
            f"The lines of {label} cannot be split into columns ({error}): check its quotes."
        ) from None


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
        raise InputError(f"There are no column names in {label}: add a first line such as time,prey,pred.")
    named = [(name, cells) for name, cells in zip(names, columns, strict=True) if name]
    seen: set[str] = set()
    for name, _ in named:
        if name in seen:
            raise InputError(f"There are two columns called `{name}` in {label}: rename or remove one.")
        seen.add(name)
    places = np.arange(1, len(columns[0]) + 1) if lines is None else lines
    return Sheet(dict(named), label, stem, "row" if lines is None else "line", places, decimal_comma)
