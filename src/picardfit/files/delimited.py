"""Delimited text as rows of cells: its encoding, its separator, its lines without comments."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from picardfit.errors import InputError

MOST_COLUMNS = 10_000  # of a table: each is an observable, and more are rows written sideways
UTF_32, UTF_16 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff"), (b"\xff\xfe", b"\xfe\xff")  # byte order marks
GZIP = b"\x1f\x8b"
SEPARATORS = "\t;,|"


class Delimited(NamedTuple):
    """The names of columns, the texts (rows,) in each, the line of each row, and whether 1,5 is a number."""

    names: list[str]
    columns: list[np.ndarray]
    lines: np.ndarray
    decimal_comma: bool


class LongLine(Exception):
    """A line with more cells than there are names; it carries the error and the line."""

    def __init__(self, error: InputError, line: int) -> None:
        super().__init__(error)
        self.error, self.line = error, line


def decoded(content: bytes, name: str) -> str:
    """The text of a file: UTF-8, UTF-16 or UTF-32 with or without a byte order mark, else the Windows code page."""
    if content[:2] == GZIP:
        raise InputError("files.compressed", name)
    wide = "utf-32" if content[:4] in UTF_32 else "utf-16" if content[:2] in UTF_16 else None
    if wide is not None:
        try:
            return content.decode(wide)
        except UnicodeDecodeError:
            raise InputError("files.truncated_text", name, encoding=wide.upper()) from None
    if b"\0" in content[:4096]:
        raise InputError("files.not_text", name)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def split(text: str, name: str) -> Delimited:
    """The cells of a text; blank lines and those that start with # are skipped. `name`: of its file, for messages."""
    said, lines = _lines(text)
    if not lines:
        raise InputError("files.empty_table", name)
    lines = _one_header(lines)
    header, *body = (line for _, line in lines)
    separator = said or _separator(header)
    if (count := header.count(separator) + 1) > MOST_COLUMNS:
        raise InputError("files.many_columns", name, columns=count, most=MOST_COLUMNS)
    if separator == " ":
        body = [re.sub(r"\s+", " ", line.strip()) for line in body]
    try:
        names = next(csv.reader([header.strip(" ")], delimiter=separator, skipinitialspace=True))
        columns, numbering = _columns(body, separator, len(names), [number for number, _ in lines[1:]], name)
    except csv.Error as error:
        code = "files.huge_cell" if "field limit" in str(error) else "files.quotes"
        raise InputError(code, name, reason=error, most=csv.field_size_limit()) from None
    whole = "\n".join(body)
    points = re.search(r"(?<![\d.])\d+\.\d+(?![\d.])", whole)  # of numbers: 02.09.2024 is a date
    comma = separator != "," and bool(re.search(r"\d,\d", whole)) and points is None
    cells = [np.array(column, dtype=object) for column in columns]
    return Delimited([one.strip() for one in names], cells, np.array(numbering, int), comma)


def _lines(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The separator that a first line `sep=;` for Excel names, or "", and the lines of the table with their numbers.

    The names of columns may stand in the last comment before the numbers, as NumPy writes them; a first line
    `TABLE NO.` of NONMEM is no part of the table.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    filled = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if filled and re.match(r"\s*TABLE NO\b", filled[0][1]):
        filled = filled[1:]
    lines = [(number, line) for number, line in filled if not line.lstrip().startswith("#")]
    said = re.fullmatch(r'\s*"?sep=(.)"?[,;\s]*', lines[0][1]) if lines else None
    if said is not None:
        return said[1], lines[1:]
    comments = [(number, line) for number, line in filled if lines and number < lines[0][0]]
    if comments and re.fullmatch(r"[-+.,;|\s\deE]*", lines[0][1]):
        number, line = comments[-1]
        names, separator = line.lstrip().lstrip("#").strip(), _separator(lines[0][1])
        if _width(names, separator) == _width(lines[0][1], separator) > 1:
            lines.insert(0, (number, names))
    return "", lines


def _one_header(lines: list[tuple[int, str]], most: int = 100) -> list[tuple[int, str]]:
    """The lines, with the names of columns in one: a quoted name may span several, but at most so many."""
    header = ""
    for k, (_, line) in enumerate(lines[:most]):
        header += f" {line}" if k else line
        if header.count('"') % 2 == 0:
            return [(lines[0][0], header), *lines[k + 1 :]]
    return lines


def _width(line: str, separator: str) -> int:
    """The number of cells of a line without quotes."""
    return len(line.split()) if separator == " " else line.count(separator) + 1


def _columns(
    body: list[str], separator: str, width: int, lines: list[int], name: str, together: int = 256
) -> tuple[list[list[str]], list[int]]:
    """The cells of each column, and the line of each row.

    So many rows are turned into columns `together`: all at once would take more memory than the text, and more than
    700 would outlive Python's youngest generation of objects, which costs 1.6 s for a million rows.
    """
    columns: list[list[str]] = [[] for _ in range(width)]
    numbering: list[int] = []
    rows = _rows(body, separator, width, lines, numbering, name)
    while part := list(islice(rows, together)):
        for column, cells in zip(columns, zip(*part, strict=True), strict=True):
            column.extend(cells)
    return columns, numbering


def _rows(
    body: list[str], separator: str, width: int, lines: list[int], numbering: list[int], name: str
) -> Iterator[list[str]]:
    """The cells of each row, as many as there are names; its line is appended to `numbering`."""
    texts = (line + "\n" for line in body)
    reader = csv.reader(texts, delimiter=separator, skipinitialspace=True, strict=True)
    first = 0  # of the lines of a row: a quoted cell may span several
    for row in reader:
        if len(row) > width:
            raise LongLine(InputError("files.long_row", name, cells=len(row), columns=width), lines[first])
        numbering.append(lines[first])
        first = reader.line_num
        yield row if len(row) == width else row + [""] * (width - len(row))


def _separator(header: str) -> str:
    """The separator of the columns, judged by the line of their names."""
    bare = re.sub(r'"[^"]*"', "", header.strip(" "))
    best = max(SEPARATORS, key=bare.count)
    return best if bare.count(best) else " "
