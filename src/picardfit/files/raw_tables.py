"""The cells of a table before they are understood: text, Parquet and spreadsheet files, and pandas DataFrames.

Texts are split in delimited.py, without pandas: importing it would take longer than reading a usual table.
"""

from __future__ import annotations

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

from picardfit.errors import InputError, Notice, closest_file
from picardfit.files.bad_cells import bad_cell, error_of_formula
from picardfit.files.delimited import LongLine, decoded, split
from picardfit.files.spreadsheets import OLE, ZIP, Sheet, read_sheet
from picardfit.model.number_arrays import CENSORED, MISSING, measurements, plain_cell
from picardfit.problem.dates import looks_like_date, zone_name
from picardfit.whole_files import readable_path

if TYPE_CHECKING:
    import pandas as pd


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
    remarks: tuple[Notice, ...] = ()  # on what of the file was not read

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
        codes = [index.setdefault(" ".join(text.split()), len(index)) for text in texts]
        return np.array(codes, dtype=np.intp), list(index)

    def numbers(self, column: str, missing: bool = True, observed: bool = False) -> np.ndarray:
        """The cells of a column as floats (rows,), NaN where missing; without `missing` every cell needs a number.

        `observed`: nobody but the name says that the column holds measurements.
        """
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
            blank, names = _is_blank(cells[row]), bool(np.isnan(array).all())
            raise self.at(row, bad_cell(column, cells[row], blank, missing, observed, names))
        return array

    def measured(self, column: str) -> np.ndarray:
        """The cells of a column as measurements (rows,): numbers, NaN where missing, and texts where censored.

        With a decimal comma `<0,25` is `<0.25`.
        """
        cells = self.columns[column]
        if cells.dtype != object:
            return self.numbers(column, observed=True)
        if (plain := _plain_numbers(cells)) is not None:
            return plain
        texts = [cell if cell is None else plain_cell(cell) for cell in cells]
        if self.decimal_comma:
            texts = [text and text.replace(",", ".") for text in texts]
        held = np.array(
            [text is not None and re.fullmatch(CENSORED, text) is not None for text in texts], bool
        )
        if not held.any():
            return self.numbers(column, observed=True)
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

    def _refuse_errors(self, column: str) -> None:
        """InputError for the result of a formula that failed: also #N/A, which in a text file means not measured."""
        for row, cell in enumerate(self.columns[column]):
            if error_of_formula(cell):
                raise self.at(row, InputError("files.error_cell", column, value=cell.strip()))

    def holds_names(self, column: str) -> bool:
        """Whether a column holds texts, none of which begins like a number, is a date or a lost count (`?`)."""
        cells = self.columns[column]
        if cells.dtype != object:
            return False
        some = False
        for cell in cells:
            if _is_blank(cell):
                continue
            one, some = cell.strip(), True
            if (
                one == "?"
                or re.match(r"[-+<>≤≥~]?\s*[.,]?\d", one)
                or looks_like_date(one)
                or error_of_formula(one)
            ):
                return False
        return some

    def without_blank_rows(self) -> RawTable:
        keep = np.zeros(len(self.numbering), dtype=bool)
        for cells in self.columns.values():
            rows = np.flatnonzero(~keep)
            own = cells[rows]
            keep[rows] = _filled(own)
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


def _filled(cells: np.ndarray) -> np.ndarray:
    """(rows,) bool: where a cell is not blank."""
    if cells.dtype != object:
        return np.asarray(cells == cells)
    if (plain := _plain_numbers(cells)) is not None:
        return np.isfinite(plain)
    return np.array([not _is_blank(cell) for cell in cells], bool)


def _plain_numbers(cells: np.ndarray) -> np.ndarray | None:
    """Texts that are all plain numbers or missing as floats (rows,), else None: most columns are read in one call."""
    with suppress(ValueError, TypeError):
        array = cells.astype(float)
        if not np.isinf(array).any() and not any(
            "_" in cell for cell in cells if cell
        ):  # tables have no 1_000
            return array
    return None


def _floats(cells: np.ndarray, decimal_comma: bool) -> tuple[np.ndarray, np.ndarray]:
    """Cells as floats, NaN where missing or wrong; and where they are wrong."""
    array, wrong = np.full(len(cells), nan), np.zeros(len(cells), dtype=bool)
    if cells.dtype != object:
        return cells.astype(float), wrong
    if decimal_comma:
        cells = np.array([cell and cell.replace(",", ".") for cell in cells], dtype=object)
    if (plain := _plain_numbers(cells)) is not None:
        return plain, wrong
    for row, cell in enumerate(cells):
        if not _is_blank(cell):
            try:
                array[row] = float(plain_cell(cell))
                wrong[row] = "_" in cell
            except ValueError:
                wrong[row] = True
    return array, wrong


def _is_blank(cell: object) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def read_raw_table(source: object, sheet: str | None = None) -> RawTable:
    """The table in a path, an open file or a DataFrame; `sheet`: which one of a spreadsheet.

    A table that was read before is handed back.
    """
    if isinstance(source, RawTable):
        return source
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
        return _from_content(_bytes(readable_path(source)), origin, sheet)
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
        content = decoded(content, origin.name)
    return _from_text(content, origin)


def _refuse_sheet(sheet: str | None) -> None:
    if sheet is not None:
        raise InputError("files.no_sheets", str(sheet), key=("sheet",))


def _bytes(path: Path) -> bytes:
    try:
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


def _from_text(text: str, origin: Origin) -> RawTable:
    """The table of a delimited text."""
    try:
        found = split(text, origin.name)
    except LongLine as long:
        raise origin.at(long.error, long.line) from None
    return _checked_columns(found.names, found.columns, origin, found.lines, found.decimal_comma)


def _from_frame(frame: pd.DataFrame, origin: Origin) -> RawTable:
    """The table of a DataFrame; named index levels become columns, and so do dates in an index without a name."""
    if frame.index.name is None and frame.index.dtype.kind == "M" and "time" not in frame.columns:
        frame = frame.rename_axis("time")
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
    table = _checked_columns(names, columns, origin, places)
    return table._replace(sheet=sheet, remarks=(*table.remarks, *_remarks_on(sheet, origin.name)))


def _remarks_on(sheet: Sheet, file: str) -> list[Notice]:
    """The remarks that other sheets were not read, and that hidden rows were."""
    found = []
    if sheet.others:
        found.append(Notice("files.sheets_not_read", file, {"sheet": sheet.name, "others": sheet.others}))
    if sheet.hidden:
        code = "files.hidden_row" if len(sheet.hidden) == 1 else "files.hidden_rows"
        found.append(Notice(code, file, {"rows": _few(sheet.hidden)}))
    return found


def _few(numbers: Sequence[int], most: int = 8) -> str:
    """Numbers for a sentence, the first of them where there are many."""
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")


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
    """The table with unique names; columns without a name go, with a remark unless they number the rows."""
    names = [" ".join(name.split()) for name in names]
    if all(re.fullmatch(r"[-+.,\deE]*", column) for column in names):
        raise InputError("files.no_column_names", origin.name)
    named = [(name, cells) for name, cells in zip(names, columns, strict=True) if name]
    seen: set[str] = set()
    for name, _ in named:
        if name in seen:
            raise InputError("files.two_columns", name)
        seen.add(name)
    places = np.arange(1, len(columns[0]) + 1) if lines is None else lines
    lost = [k + 1 for k, name in enumerate(names) if not name and not _unimportant(columns[k])]
    code = "files.unnamed_column" if len(lost) == 1 else "files.unnamed_columns"
    remarks = (Notice(code, origin.name, {"columns": _few(lost)}),) if lost else ()
    return RawTable(dict(named), origin, lines is not None, places, decimal_comma, remarks=remarks)


def _unimportant(cells: np.ndarray) -> bool:
    """Whether the cells of a column without a name are blank or number the rows from 0 or 1, as pandas writes them."""
    if all(map(_is_blank, cells)):
        return True
    try:
        numbers = cells.astype(float)
    except (ValueError, TypeError):
        return False
    return bool(numbers[0] in (0, 1) and (np.diff(numbers) == 1).all())
