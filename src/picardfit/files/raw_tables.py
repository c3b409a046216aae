"""The cells of a table before they are understood: text, Parquet and spreadsheet files, and pandas DataFrames.

Texts are split by Python's csv module: it refuses broken quotes, and importing pandas would take longer than reading
a usual table.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from picardfit.errors import InputError, closest_file
from picardfit.files.spreadsheets import OLE, ZIP, Sheet, read_sheet
from picardfit.model.number_arrays import CENSORED, MISSING, measurements
from picardfit.problem.dates import looks_like_date, zone_name
from picardfit.whole_files import sound_path

if TYPE_CHECKING:
    import pandas as pd

ERROR = r"#(N/A|DIV/0!|NAME\?|NULL!|NUM!|REF!|VALUE!|SPILL!|CALC!|GETTING_DATA)|Err:\d+"  # of a spreadsheet's formula
MOST_COLUMNS = 10_000  # of a table: each is an observable, and more are rows written sideways


class Origin(NamedTuple):
    """Where a table came from: a file, as the user wrote its path, or None for an open file and a DataFrame."""

    file: str | None = None

    @property
    def name(self) -> str:
        """The file's name without folder, or an empty text."""
        return "" if self.file is None else Path(self.file).name

    @property
    def stem(self) -> str:
        """The file's name without folder and ending, or an empty text."""
        return Path(self.name).stem

    def at(self, error: InputError, line: int | None = None) -> InputError:
        """The error with its file and line; in a text without a file, the line is a row of the text."""
        return error.at(row=line) if self.file is None else error.at(file=self.file, line=line)


@dataclass(frozen=True)
class LinePlace:
    """How errors name a line of a table, or a row of one that is no text."""

    origin: Origin
    has_lines: bool

    def __call__(self, number: int, error: InputError) -> InputError:
        """The error with the place of the line, or row, of this number."""
        if self.has_lines:
            return self.origin.at(error, number)
        return self.origin.at(error.within("files.in_row", row=number))


class RawTable(NamedTuple):
    """Columns by name, and the line or row number of each row for error messages.

    A column is an array (rows,) of texts, numbers or dates; a missing cell is NaN, NaT, None or a blank text.
    """

    columns: dict[str, np.ndarray]
    origin: Origin
    has_lines: bool  # of text; DataFrames and Parquet files have rows
    numbering: np.ndarray  # (rows,): line or row number
    decimal_comma: bool = False
    zones: Mapping[str, str] = {}  # column of dates in UTC -> the time zone in which they were given
    sheet: Sheet | None = None

    def at(self, row: int, error: InputError) -> InputError:
        """The error with the place of a row."""
        return self.line_place(int(self.numbering[row]), error)

    @property
    def line_place(self) -> LinePlace:
        return LinePlace(self.origin, self.has_lines)

    def labels(self, column: str) -> tuple[np.ndarray, list[str]]:
        """The names in a column in order of appearance, "" if missing, and the index (rows,) of each cell's name."""
        cells = self.columns[column]
        texts = [cell or "" for cell in cells] if cells.dtype == object else _texts(cells)
        index: dict[str, int] = {}
        codes = [index.setdefault(text.strip(), len(index)) for text in texts]
        return np.array(codes, dtype=np.intp), list(index)

    def numbers(self, column: str, missing: bool = True) -> np.ndarray:
        """The cells of a column as floats (rows,), NaN where missing; without `missing` every cell needs a number."""
        cells = self.columns[column]
        if self.sheet is not None and cells.dtype == object:
            self._refuse_errors(column)
        if cells.dtype.kind == "m":
            raise InputError("files.column_of_time_spans", column)
        if cells.dtype.kind == "M":
            raise InputError("files.column_of_dates", column)
        array, wrong = _floats(cells, self.decimal_comma)
        wrong |= np.isinf(array) if missing else ~np.isfinite(array)
        if wrong.any():
            row = int(np.argmax(wrong))
            no_number = missing and bool(np.isnan(array).all())
            raise self.at(row, self._bad_cell(column, row, missing, no_number))
        return array

    def measured(self, column: str) -> np.ndarray:
        """The cells of a column as measurements (rows,): numbers, NaN where missing, and texts where censored.

        With a decimal comma `<0,25` is `<0.25`.
        """
        cells = self.columns[column]
        if cells.dtype != object:
            return self.numbers(column)
        texts = [cell if cell is None else cell.strip() for cell in cells]
        if self.decimal_comma:
            texts = [text and text.replace(",", ".") for text in texts]
        held = np.array(
            [text is not None and re.fullmatch(CENSORED, text) is not None for text in texts], bool
        )
        if not held.any():
            return self.numbers(column)
        exact = np.array([None if one else cell for cell, one in zip(cells, held, strict=True)], object)
        others = self._replace(columns={column: exact})
        found = others.numbers(column).astype(object)
        found[held] = np.array(texts, object)[held]
        for row in np.flatnonzero(held):
            try:
                measurements([found[row]], column)
            except InputError as error:
                raise self.at(int(row), error) from None
        return found

    def _bad_cell(self, column: str, row: int, missing: bool, no_number: bool) -> InputError:
        """What is wrong with a cell; a column without a single number likely holds names."""
        cell = self.columns[column][row]
        if re.fullmatch(ERROR, str(cell).strip()):
            return InputError("files.error_cell", column, value=str(cell).strip())
        if looks_like_date(cell):
            return InputError("files.dates", column, value=str(cell))
        if not missing:
            content = "nothing" if _is_blank(cell) else repr(str(cell))
            return InputError("files.time_cell", column, content=content)
        code = "files.cell_of_names" if no_number else "files.cell"
        return InputError(code, column, value=str(cell))

    def _refuse_errors(self, column: str) -> None:
        """InputError for the result of a formula that failed: also #N/A, which in a text file means not measured."""
        for row, cell in enumerate(self.columns[column]):
            if cell is not None and re.fullmatch(ERROR, cell.strip()):
                raise self.at(row, InputError("files.error_cell", column, value=cell.strip()))

    def holds_names(self, column: str) -> bool:
        """Whether a column holds texts, none of which begins like a number or is a date."""
        cells = self.columns[column]
        if cells.dtype != object:
            return False
        texts = [cell.strip() for cell in cells if not _is_blank(cell)]
        return bool(texts) and not any(
            re.match(r"[-+<>≤≥~]?\s*[.,]?\d", one) or looks_like_date(one) or re.fullmatch(ERROR, one)
            for one in texts
        )

    def without_blank_rows(self) -> RawTable:
        keep = np.zeros(len(self.numbering), dtype=bool)
        for cells in self.columns.values():
            rows = np.flatnonzero(~keep)
            own = cells[rows]
            keep[rows] = [not _is_blank(cell) for cell in own] if cells.dtype == object else own == own
        if not keep.any():
            raise InputError("files.no_rows", self.origin.name)
        if keep.all():
            return self
        columns = {name: cells[keep] for name, cells in self.columns.items()}
        return self._replace(columns=columns, numbering=self.numbering[keep])


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
    array, wrong = np.full(len(cells), nan), np.zeros(len(cells), dtype=bool)
    if cells.dtype != object:
        return cells.astype(float), wrong
    if decimal_comma:
        cells = np.array([cell and cell.replace(",", ".") for cell in cells], dtype=object)
    if not any("_" in cell for cell in cells if cell):  # Python reads 1_000, tables do not
        with suppress(ValueError, TypeError):
            return cells.astype(float), wrong
    for row, cell in enumerate(cells):
        if not _is_blank(cell):
            try:
                array[row] = float(cell)
                wrong[row] = "_" in cell
            except ValueError:
                wrong[row] = True
    return array, wrong


def _is_blank(cell: str | None) -> bool:
    return cell is None or cell.strip().lower() in MISSING


def read_raw_table(source: object, sheet: str | None = None) -> RawTable:
    """The table in a path, an open file or a DataFrame; `sheet`: which one of a spreadsheet."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)  # another thread may be importing pandas
    if frame is not None and isinstance(source, frame):
        _refuse_sheet(sheet)
        return _from_frame(source, Origin())
    if callable(read := getattr(source, "read", None)):
        return _from_content(read(), Origin(), sheet)
    if not isinstance(source, (str, Path)):
        raise InputError("files.not_a_table_source", value=source)
    if "\n" in str(source):
        raise InputError("files.text_not_a_path")
    origin = Origin(str(source))
    try:
        return _from_content(_bytes(sound_path(source)), origin, sheet)
    except InputError as error:
        raise origin.at(error) from None


def _from_content(content: bytes | str, origin: Origin, sheet: str | None) -> RawTable:
    """The table in the content of a file."""
    if isinstance(content, bytes) and content[:4] in (ZIP, OLE):
        return _from_sheet(read_sheet(content, origin.name, sheet), origin)
    _refuse_sheet(sheet)
    if isinstance(content, bytes):
        if content[:4] == b"PAR1":
            return _from_frame(_parquet(content, origin.name), origin)
        content = _decoded(content, origin.name)
    return _from_text(content, origin)


def _refuse_sheet(sheet: str | None) -> None:
    if sheet is not None:
        raise InputError("files.no_sheets", str(sheet), key=("sheet",))


def _bytes(path: Path) -> bytes:
    try:
        if path.is_char_device():  # it may have no end
            raise InputError("files.data_not_a_file", str(path))
        return path.read_bytes()
    except FileNotFoundError:
        folder = path.parent
        if not folder.is_dir():
            raise InputError("files.no_folder_of_table", str(folder)) from None
        close = closest_file(path)
        raise InputError("files.no_table", path.name, folder=folder.resolve(), close=close) from None
    except OSError as error:
        raise InputError("files.unreadable_table", str(path), reason=error.strerror) from None


def _parquet(content: bytes, name: str) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise InputError("files.needs_pyarrow", name) from None
    except (OSError, ValueError) as error:
        raise InputError("files.damaged_parquet", name, reason=error) from None


def _decoded(content: bytes, name: str) -> str:
    """The text of a file: UTF-8 or UTF-16 with or without a byte order mark, else the Windows code page."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError:
            raise InputError("files.truncated_text", name) from None
    if b"\0" in content[:4096]:
        raise InputError("files.not_text", name)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def _from_text(text: str, origin: Origin) -> RawTable:
    """The table of a delimited text; blank lines and those that start with # are skipped."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = list(enumerate(text.split("\n"), 1))
    lines = [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError("files.empty_table", origin.name)
    header, *body = (line for _, line in lines)
    separator = _separator(header)
    if (count := header.count(separator) + 1) > MOST_COLUMNS:
        raise InputError("files.many_columns", origin.name, columns=count, most=MOST_COLUMNS)
    names = next(csv.reader([header.strip(" ")], delimiter=separator, skipinitialspace=True))
    if separator == " ":
        body = [re.sub(r"\s+", " ", line.strip()) for line in body]
    rows, numbering = [], []
    reader = csv.reader(
        (line + "\n" for line in body), delimiter=separator, skipinitialspace=True, strict=True
    )
    first = 1  # of the lines of a row: a quoted cell may span several
    try:
        for row in reader:
            number = lines[first][0]
            if len(row) > len(names):
                long = InputError("files.long_row", origin.name, cells=len(row), columns=len(names))
                raise origin.at(long, number)
            rows.append(row + [""] * (len(names) - len(row)))
            numbering.append(number)
            first = reader.line_num + 1
    except csv.Error as error:
        raise InputError("files.quotes", origin.name, reason=error) from None
    columns = [np.array([row[k] for row in rows], dtype=object) for k in range(len(names))]
    whole = "\n".join(body)
    points = re.search(r"(?<![\d.])\d+\.\d+(?![\d.])", whole)  # of numbers: 02.09.2024 is a date
    comma = separator != "," and bool(re.search(r"\d,\d", whole)) and points is None
    return _checked_columns([n.strip() for n in names], columns, origin, np.array(numbering, int), comma)


def _separator(header: str) -> str:
    """The separator of the columns, judged by the line of their names."""
    bare = re.sub(r'"[^"]*"', "", header.strip(" "))
    best = max("\t;,", key=bare.count)
    return best if bare.count(best) else " "


def _from_frame(frame: pd.DataFrame, origin: Origin) -> RawTable:
    """The table of a DataFrame; named index levels become columns."""
    fresh = [level for level in frame.index.names if level is not None and level not in frame.columns]
    frame = frame.reset_index(level=fresh) if fresh else frame
    names = [str(column).strip() for column in frame.columns]
    columns = [_array(frame.iloc[:, k]) for k in range(frame.shape[1])]
    zones = {name: zone for k, name in enumerate(names) if (zone := _zone(frame.iloc[:, k]))}
    return _checked_columns(names, columns, origin)._replace(zones=zones)


def _zone(cells: pd.Series) -> str:
    """The time zone of a column of dates; an empty text without one."""
    aware = getattr(cells.dtype, "tz", None) is not None
    return zone_name(cells.dropna().dt.to_pydatetime().tolist()) if aware and cells.notna().any() else ""


def _from_sheet(sheet: Sheet, origin: Origin) -> RawTable:
    """The table of a sheet, whose first row that is not blank names the columns."""
    import pandas as pd

    header, *body = sheet.rows
    if body:
        _check_header(header, body[0], origin.name)
    names = ["" if cell is None else str(cell).strip() for cell in header]
    columns = [
        _array(pd.Series([row[k] for row in body], dtype=object).infer_objects()) for k in range(len(names))
    ]
    places = np.array(sheet.numbering[1:], dtype=int)
    return _checked_columns(names, columns, origin, places)._replace(sheet=sheet)


def _check_header(header: Sequence[object], below: Sequence[object], file: str) -> None:
    """InputError where the names of columns stand in two rows, as below merged cells or a title."""
    gaps = [k for k, cell in enumerate(header) if not str(cell or "").strip() and below[k] not in (None, "")]
    words = [cell for cell in below if cell not in (None, "")]
    if gaps and all(isinstance(one, str) and re.match(r"[^\W\d]", one.strip()) for one in words):
        named = sum(bool(str(cell or "").strip()) for cell in header)
        raise InputError("files.two_headers", file, named=named, columns=named + len(gaps))


def _array(cells: pd.Series) -> np.ndarray:
    """A column of a DataFrame: numbers, dates, or texts with None where missing."""
    import pandas as pd

    if isinstance(cells.dtype, pd.PeriodDtype):
        cells = cells.dt.start_time
    if pd.api.types.is_datetime64_any_dtype(cells) or pd.api.types.is_timedelta64_dtype(cells):
        return cells.to_numpy(dtype="datetime64[us]" if cells.dtype.kind == "M" else "timedelta64[ns]")
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
    origin: Origin,
    lines: np.ndarray | None = None,
    decimal_comma: bool = False,
) -> RawTable:
    """The table with unique names; unnamed columns go."""
    if all(re.fullmatch(r"[-+.,\deE]*", column) for column in names):
        raise InputError("files.no_column_names", origin.name)
    named = [(name, cells) for name, cells in zip(names, columns, strict=True) if name]
    seen: set[str] = set()
    for name, _ in named:
        if name in seen:
            raise InputError("files.two_columns", name)
        seen.add(name)
    places = np.arange(1, len(columns[0]) + 1) if lines is None else lines
    return RawTable(dict(named), origin, lines is not None, places, decimal_comma)
