"""Sheets of Excel (.xlsx) and OpenDocument (.ods) files as rows of cells."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from picardfit.errors import InputError, closest
from picardfit.problem.columns import find_name

if TYPE_CHECKING:
    import pandas as pd
    from openpyxl import Workbook

ZIP, OLE = (
    b"PK\x03\x04",
    b"\xd0\xcf\x11\xe0",
)  # first bytes of .xlsx and .ods, and of .xls and encrypted files
_ENGINES = {"xl/workbook.xml": "openpyxl", "content.xml": "odf"}  # a file in the archive -> reader of pandas


class Sheet(NamedTuple):
    """The rows of a sheet that are not blank, their numbers in the sheet, and the names of other sheets with cells."""

    name: str
    rows: list[list[object]]
    numbering: list[int]
    others: list[str]
    hidden: Sequence[int] = ()  # numbers of rows with cells that the spreadsheet does not show


@dataclass(frozen=True)
class SheetLimits:
    """The largest spreadsheet: a small file may unpack to gigabytes."""

    megabytes: int = 64  # unpacked, about 1,500,000 cells, which take openpyxl 15 s to read


def read_sheet(content: bytes, file: str, wanted: str | None) -> Sheet:
    """The sheet of that name, by default the first; `file`: the name of the file, for messages."""
    engine = _engine(content, file)
    sheets = _cells(content, file, engine)
    names = list(sheets)
    name = names[0] if wanted is None else find_name(names, str(wanted))
    if name is None:
        close = closest(str(wanted), names)
        raise InputError("files.no_sheet", str(wanted), key=("sheet",), sheets=names, close=close)
    filled = [one for one, rows in sheets.items() if any(map(_has_cells, rows))]
    if name not in filled:
        raise InputError("files.empty_sheet", name, key=("sheet",), others=filled)
    rows = [(number, row) for number, row in enumerate(sheets[name], 1) if _has_cells(row)]
    numbering, kept = [number for number, _ in rows], [row for _, row in rows]
    others = [one for one in filled if one != name] if wanted is None else []
    hidden = [] if engine == "odf" else _hidden_rows(content, names.index(name))
    return Sheet(name, kept, numbering, others, [one for one in hidden if one in set(numbering)])


def _has_cells(row: Sequence[object]) -> bool:
    return any(cell is not None and cell != "" for cell in row)


def _engine(content: bytes, file: str, limits: SheetLimits = SheetLimits()) -> str:
    if content[:4] == OLE:
        raise InputError("files.old_excel", file)
    try:
        parts = zipfile.ZipFile(io.BytesIO(content)).infolist()
    except zipfile.BadZipFile as error:
        raise InputError("files.damaged_sheet", file, reason=error) from None
    inside = {one.filename for one in parts}
    if sum(one.file_size for one in parts if one.filename.endswith(".xml")) > limits.megabytes * 10**6:
        raise InputError("files.huge_sheet", file, megabytes=limits.megabytes)
    for part, engine in _ENGINES.items():
        if part in inside:
            return engine
    raise InputError("files.other_archive", file)


def _cells(content: bytes, file: str, engine: str) -> dict[str, list[list[object]]]:
    """The rows of every sheet by name; a blank cell is None or an empty text."""
    import pandas as pd

    try:
        with pd.ExcelFile(io.BytesIO(content), engine=engine) as book:
            if (
                engine == "openpyxl"
            ):  # pandas turns errors such as #DIV/0! into blank cells: take them from the book
                return _with_formulas(_rows(book.book), content)
            found = pd.read_excel(book, sheet_name=None, header=None, na_filter=False)
            return {str(name): _listed(frame) for name, frame in found.items()}
    except ImportError:
        raise InputError("files.needs_excel", file, package={"odf": "odfpy"}.get(engine, engine)) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError("files.damaged_sheet", file, reason=reason) from None


def _hidden_rows(content: bytes, position: int) -> list[int]:
    """The numbers of the rows of an .xlsx sheet that are hidden, as a filter leaves them."""
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(content), read_only=True)
    try:
        part = book.worksheets[
            position
        ]._worksheet_path  # openpyxl gives hidden rows only if it reads all cells anew
        text = zipfile.ZipFile(io.BytesIO(content)).read(part).decode("utf-8", "replace")
    finally:
        book.close()
    rows = re.findall(r"<row\b[^>]*>", text)
    hidden = [one for one in rows if re.search(r'\bhidden="(1|true)"', one)]
    return [int(found[1]) for one in hidden if (found := re.search(r'\br="(\d+)"', one))]


def _listed(frame: pd.DataFrame) -> list[list[object]]:
    """The rows of a sheet of an .ods file, where pandas turns #N/A into NaN, and blank cells into empty texts."""
    return [
        ["#N/A" if cell != cell else cell for cell in row] for row in frame.astype(object).values.tolist()
    ]


def _rows(book: Workbook) -> dict[str, list[list[object]]]:
    return {one.title: [list(row) for row in one.iter_rows(values_only=True)] for one in book.worksheets}


def _with_formulas(sheets: dict[str, list[list[object]]], content: bytes) -> dict[str, list[list[object]]]:
    """The cells, with the text of each formula that was never calculated: it would look like a blank cell."""
    from openpyxl import load_workbook

    if not any(cell is None for rows in sheets.values() for row in rows for cell in row):
        return sheets
    written = _rows(load_workbook(io.BytesIO(content), read_only=True))
    for name, rows in sheets.items():
        for row, texts in zip(rows, written[name], strict=True):
            for k, text in enumerate(texts):
                if row[k] is None and isinstance(text, str) and text.startswith("="):
                    row[k] = text
    return sheets
