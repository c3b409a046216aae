"""Cells that are no numbers: what is probably meant, and the error that says how to write it."""

from __future__ import annotations

import re

from picardfit.errors import InputError
from picardfit.model.number_arrays import NUMBER
from picardfit.problem.dates import looks_like_date

ERROR = r"#(N/A|DIV/0!|NAME\?|NULL!|NUM!|REF!|VALUE!|SPILL!|CALC!|GETTING_DATA)|Err:\d+"  # of a spreadsheet's formula
_BELOW = r"[<>≤≥]?\s*(l?lo[dq]|bl?q|blo[dq]|bql|b\.?d\.?l\.?|n\.?[dq]\.?|n\.n\.|below .*|not detect(ed|able))"
_GROUPS = r"[-+]?\d{1,3}(?:([ ,.'’_\u00a0\u202f])\d{3})+(?:[.,]\d+)?"
_ANYWHERE = {  # the form of a cell -> code of the error; the first that fits
    "files.formula_cell": r"=.*",
    "files.comma_cell": r"[<>]?=?\s*[-+]?\d+,(\d{1,2}|\d{4,})",
    "files.grouped_cell": _GROUPS,
}
_MEASURED = {  # of cells that are no times
    "files.percent_cell": rf"[<>]?\s*{NUMBER}\s*%",
    "files.interval_cell": rf"{NUMBER}\s*[-–—]\s*{NUMBER}",
    "files.limit_cell": _BELOW,
    "files.unit_cell": rf"[<>]?=?\s*{NUMBER}\s*(?![xed][-+\d])[A-Za-zµμ°Ω].*",
}


def error_of_formula(cell: object) -> bool:
    """Whether a cell is the error of a spreadsheet's formula."""
    return isinstance(cell, str) and re.fullmatch(ERROR, cell.strip()) is not None


def bad_cell(
    column: str, cell: object, blank: bool, optional: bool, measured: bool, names: bool
) -> InputError:
    """What is wrong with a cell of a column.

    `optional`: the column may have blank cells, as all but the time may; `measured`: it may hold measurements; `names`:
    no cell of it is a number, so that it likely holds names.
    """
    text = "" if blank else str(cell).strip()
    if error_of_formula(text):
        return InputError("files.error_cell", column, value=text)
    if looks_like_date(cell):
        return InputError("files.dates", column, value=str(cell))
    for code, form in {**_ANYWHERE, **(_MEASURED if optional else {})}.items():
        if re.fullmatch(form, text, re.IGNORECASE | re.DOTALL):
            return InputError(code, column, value=text)
    if not optional:
        return InputError("files.time_cell", column, content=repr(text) if text else "nothing")
    if not measured:
        return InputError("files.number_cell", column, value=text)
    return InputError("files.cell_of_names" if names else "files.cell", column, value=text)
