"""The table of a study as it is shown and edited: cells as text, what each column means, cells that were left out.

A cell that is left out is blank in the file, which means "not measured" to everybody who reads it. Its content stays in
a comment line of the file, `# left out,12,lynx,59.4`, from where it can come back.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import numpy as np

from picardfit.files.measured_columns import OBSERVABLE_NAMES, VALUE_NAMES
from picardfit.files.raw_tables import Origin, RawTable
from picardfit.files.time_column import TimeSettings, read_times
from picardfit.problem.columns import find_name

MARK = "# left out,"
TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".dat")


class Role(StrEnum):
    """What a column means."""

    TIME = "time"
    EXPERIMENT = "experiment"
    MEASURED = "measured"
    INPUT = "input"
    DOSE = "dose"
    COVARIATE = "covariate"
    IGNORED = "ignored"


@dataclass(frozen=True)
class Series:
    """Measured values of one quantity in one experiment; `rows` and `column` say where they stand in the table."""

    experiment: str
    name: str
    column: str
    times: np.ndarray
    values: np.ndarray
    rows: np.ndarray
    left_out: np.ndarray  # whether a value is left out, (points,)
    marks: np.ndarray  # "below" or "above" a limit, "between" two; "" where it is exact, (points,)


@dataclass(frozen=True)
class Sheet:
    """A table: `header` and `rows` of texts; `left_out`: (row, column) -> the text that was there."""

    name: str  # of its file, in the folder
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: Mapping[tuple[int, str], str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    separator: str = ","
    decimal_comma: bool = False

    @cached_property
    def raw(self) -> RawTable:
        """The table as its readers take it."""
        columns = [np.array(cells, object) for cells in zip(*self.rows, strict=True)]
        columns = columns or [np.zeros(0, object)] * len(self.header)
        numbering = np.arange(1, len(self.rows) + 1)
        named = dict(zip(self.header, columns, strict=True))
        return RawTable(named, Origin(self.name), True, numbering, self.decimal_comma)

    @property
    def is_long(self) -> bool:
        """Whether each row holds one measurement, named in a column."""
        return self._named(OBSERVABLE_NAMES) is not None and self._named(VALUE_NAMES) is not None

    def _named(self, names: Sequence[str]) -> str | None:
        return next(filter(None, (find_name(self.header, name) for name in names)), None)

    # ---- changes ---------------------------------------------------------------------------------------------------

    def with_cell(self, row: int, column: str, text: str) -> Sheet:
        """Another content of a cell, which is no longer left out."""
        rows = list(self.rows)
        cells = list(rows[row])
        cells[self.header.index(column)] = re.sub(r"[\r\n]+", " ", text).strip()
        rows[row] = tuple(cells)
        left = {place: one for place, one in self.left_out.items() if place != (row, column)}
        return replace(self, rows=tuple(rows), left_out=left)

    def toggled(self, row: int, column: str) -> Sheet:
        """Leave a cell out, or bring it back."""
        if (row, column) in self.left_out:
            return self.with_cell(row, column, self.left_out[row, column])
        content = self.rows[row][self.header.index(column)]
        if not content:
            return self
        blank = self.with_cell(row, column, "")
        return replace(blank, left_out={**blank.left_out, (row, column): content})

    def restored(self) -> Sheet:
        """All cells that were left out are back."""
        sheet = self
        for (row, column), text in self.left_out.items():
            sheet = sheet.with_cell(row, column, text)
        return sheet

    def with_row(self) -> Sheet:
        """A blank row at the end."""
        return replace(self, rows=(*self.rows, ("",) * len(self.header)))

    def without_row(self, row: int) -> Sheet:
        """Remove a row; later ones move up."""
        left = {(r - (r > row), c): one for (r, c), one in self.left_out.items() if r != row}
        return replace(self, rows=(*self.rows[:row], *self.rows[row + 1 :]), left_out=left)

    # ---- as a file -------------------------------------------------------------------------------------------------

    @property
    def file_name(self) -> str:
        """The file that keeps the sheet: its own if that is text, else a CSV file beside it."""
        path = Path(self.name)
        return self.name if path.suffix.lower() in TEXT_ENDINGS else str(path.with_suffix(".csv"))

    def content(self) -> bytes:
        """The sheet as a text table."""
        out = io.StringIO()
        out.writelines(f"{note}\n" for note in self.comments)
        writer = csv.writer(out, lineterminator="\n", delimiter=self.separator)
        for (row, column), text in sorted(self.left_out.items()):
            line = io.StringIO()
            csv.writer(line, lineterminator="").writerow([row + 1, column, text])
            out.write(f"{MARK}{line.getvalue()}\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return out.getvalue().encode()

    # ---- what it shows ---------------------------------------------------------------------------------------------

    def series(
        self, roles: Mapping[str, Role], times: TimeSettings, experiment: str | None = None
    ) -> list[Series]:
        """What was measured, by experiment and quantity; values that are left out are among them.

        `experiment`: the name of the only one where no column names them.
        """
        table = self.restored().raw
        found = {role: [c for c in self.header if roles.get(c) is role] for role in Role}
        if not found[Role.TIME] or not found[Role.MEASURED]:
            return []
        kept = table.without_blank_rows()
        rows = kept.numbering - 1
        at = read_times(kept, found[Role.TIME][0], times)[0].values
        groups, names = np.zeros(len(rows), int), [experiment or Path(self.name).stem]
        if found[Role.EXPERIMENT]:
            groups, names = kept.labels(found[Role.EXPERIMENT][0])
        series = []
        for quantity, column, own in self._quantities(kept, found[Role.MEASURED]):
            values, marks = _numbers(kept, column)
            out = np.array([(int(row), column) in self.left_out for row in rows])
            for g, name in enumerate(names):
                mine = own & (groups == g) & np.isfinite(values)
                if mine.any():
                    part = at[mine], values[mine], rows[mine], out[mine], marks[mine]
                    series.append(Series(name, quantity, column, *part))
        return series

    def _quantities(self, table: RawTable, measured: Sequence[str]) -> list[tuple[str, str, np.ndarray]]:
        """(quantity, its column, in which rows): the measured columns, or the names in those of a long table."""
        everywhere = np.ones(len(table.numbering), bool)
        which, value = self._named(OBSERVABLE_NAMES), self._named(VALUE_NAMES)
        if which is None or value is None:
            return [(name, name, everywhere) for name in measured]
        codes, names = table.labels(which)
        return [(name, value, codes == k) for k, name in enumerate(names) if name]


def _numbers(table: RawTable, column: str) -> tuple[np.ndarray, np.ndarray]:
    """The cells of a column as floats, and marks of those that are censored: they stand at their limit, or between two.

    NaN where a cell is blank or wrong.
    """
    cells = table.columns[column]
    exact = np.zeros(len(cells), "U7")
    if cells.dtype != object:
        return (cells.astype(float) if cells.dtype.kind in "if" else np.full(len(cells), np.nan)), exact
    try:
        found = cells.astype(float)
    except (TypeError, ValueError):
        pairs = [_value(str(cell), table.decimal_comma) for cell in cells]
        found, exact = np.array([one for one, _ in pairs]), np.array([mark for _, mark in pairs], "U7")
    return np.where(np.isfinite(found), found, np.nan), exact


def _value(words: str, decimal_comma: bool) -> tuple[float, str]:
    """A cell as a number and a mark: `<0.25` is below its limit, `>1000` above, `0.1..0.25` between."""
    text = words.replace(",", ".") if decimal_comma else words
    mark = {"<": "below", ">": "above"}.get(text[:1], "between" if ".." in text else "")
    ends = text.split("..") if mark == "between" else [text.removeprefix(text[0]) if mark else text]
    try:
        return sum(map(float, ends)) / len(ends), mark
    except ValueError:
        return np.nan, ""


def sheet_of(table: RawTable, name: str, content: bytes) -> Sheet:
    """The table in a file, by its cells and its content, where its comments stand."""
    header = tuple(table.columns)
    columns = [_texts(cells) for cells in table.columns.values()]
    rows = tuple(zip(*columns, strict=True))
    if Path(name).suffix.lower() not in TEXT_ENDINGS:
        return Sheet(name, header, rows)
    text = content.decode("utf-8-sig", errors="replace")
    notes = [line.rstrip("\r") for line in re.findall(r"^[^\S\n]*#.*$", text, re.MULTILINE)]
    first = next(
        (line for line in io.StringIO(text) if line.strip() and not line.lstrip().startswith("#")), ""
    )
    marks = [line for line in notes if line.startswith(MARK)]
    separator = max("\t;,", key=re.sub(r'"[^"]*"', "", first).count)
    others = tuple(line for line in notes if line not in marks)
    left = _left_out(marks, header, rows)
    return Sheet(name, header, rows, left, others, separator, table.decimal_comma)


def _left_out(
    marks: Sequence[str], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> dict[tuple[int, str], str]:
    """The cells that comment lines say were left out; lines that do not fit the table are passed over."""
    found = {}
    for fields in csv.reader(line.removeprefix(MARK) for line in marks):
        if len(fields) == 3 and fields[0].isdecimal() and fields[1] in header:
            row = int(fields[0]) - 1
            if row < len(rows) and not rows[row][header.index(fields[1])]:
                found[row, fields[1]] = fields[2]
    return found


def _texts(cells: np.ndarray) -> list[str]:
    if cells.dtype == object:
        return ["" if cell is None else str(cell).strip() for cell in cells]
    if cells.dtype.kind == "f":
        return ["" if cell != cell else repr(float(cell)).removesuffix(".0") for cell in cells.tolist()]
    return ["" if text == "NaT" else text for text in map(str, cells)]
