"""Sheets of Excel (.xlsx) and OpenDocument (.ods) files as rows of cells."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
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
    return Sheet(name, kept, numbering, others)


def _has_cells(row: Sequence[object]) -> bool:
    return any(cell is not None and cell != "" for cell in row)


def _engine(content: bytes, file: str) -> str:
    if content[:4] == OLE:
        raise InputError("files.old_excel", file)
    try:
        inside = zipfile.ZipFile(io.BytesIO(content)).namelist()
    except zipfile.BadZipFile as error:
        raise InputError("files.damaged_sheet", file, reason=error) from None
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
        raise InputError("files.damaged_sheet", file, reason=error) from None


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
