"""The files of a PEtab problem: the YAML file and the tables it names, as text with the line of each row."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.errors import InputError, Key, closest
from picardfit.importers.petab.columns import KNOWN, refuse_columns, unread_columns
from picardfit.whole_files import sound_path

if TYPE_CHECKING:
    import pandas as pd
    import yaml

Value = float | str  # a number, or the name of a parameter (in version 2: a formula)


@dataclass(frozen=True)
class Row:
    """A row of a table, with its file and line."""

    file: str
    line: int
    cells: dict[str, str]

    def at(self, error: InputError) -> InputError:
        """The error with the file and line of this row."""
        return error.at(file=self.file, line=self.line)

    def text(self, column: str, default: str = "") -> str:
        """The text of a cell, the default where it is empty."""
        cell = self.cells.get(column, "").strip()
        return default if cell.lower() in ("", "nan") else cell

    def required(self, column: str) -> str:
        """The text of a cell that must not be empty."""
        if not (text := self.text(column)):
            raise self.at(InputError("importers.empty_cell", column))
        return text

    def number(self, column: str) -> float | None:
        """The number in a cell, None where it is empty."""
        text = self.text(column)
        if not text:
            return None
        value = as_value(text)
        if not isinstance(value, float):
            raise self.at(InputError("importers.cell_is_no_number", column, text=text))
        return value

    def values(self, column: str) -> tuple[Value, ...]:
        """Numbers and names in one cell, separated by semicolons."""
        text = self.text(column)
        return tuple(as_value(piece) for piece in text.split(";")) if text else ()

    def choice(self, column: str, known: Iterable[str], default: str) -> str:
        """One of the known words."""
        word, known = self.text(column, default), tuple(known)
        if word not in known:
            known = tuple(filter(None, known))  # an empty cell is not a word
            close = closest(word, known)
            raise self.at(InputError("importers.unknown_word", column, word=word, known=known, close=close))
        return word


@dataclass(frozen=True, eq=False)
class PetabTable:
    """All tables of one kind, one below the other."""

    kind: str
    rows: tuple[Row, ...]
    frame: pd.DataFrame  # the cells as text, with the columns as they are

    def by(self, column: str) -> dict[str, Row]:
        """The rows by their identifier."""
        found: dict[str, Row] = {}
        for row in self.rows:
            name = row.required(column)
            if re.fullmatch(r"[^\W\d]\w*", name) is None:
                raise row.at(InputError("importers.not_a_name", name))
            if name in found:
                raise row.at(InputError("importers.row_twice", name, kind=self.kind))
            found[name] = row
        return found


@dataclass(frozen=True)
class Listing:
    """The entries of a YAML file, or of one mapping in it (`key`); the files they name are in its folder."""

    path: Path
    content: dict
    lines: Mapping[Key, int]  # of every entry of the file
    version: str  # the major one of PEtab
    key: Key = ()

    def inside(self, key: Key, content: dict) -> Listing:
        """The mapping `content` under this key."""
        return replace(self, content=content, key=(*self.key, *key))

    def at(self, error: InputError, *key: str | int) -> InputError:
        """The error with the line of this entry, or of the innermost mapping around it that the file has."""
        whole = (*self.key, *key)
        around = (whole[:length] for length in range(len(whole), -1, -1))
        line = next((self.lines[one] for one in around if one in self.lines), None)
        return error.at(key=whole, file=str(self.path), line=line)

    def files(self, entry: str) -> list[Path]:
        """The files of an entry that holds a name or a list of names."""
        given = self.content.get(entry)
        given = [] if given is None else given if isinstance(given, list) else [given]
        for name in given:
            if not isinstance(name, str):
                raise self.at(InputError("importers.not_a_file_name", str(name), entry=entry), entry)
        for name in given:
            if Path(name).is_absolute() or ".." in Path(name).parts or "://" in name:
                raise self.at(InputError("importers.outside_folder", name, entry=entry), entry)
        return [self.path.parent / name for name in given]

    def table(self, kind: str, entry: str, columns: Sequence[str]) -> PetabTable:
        """The tables of a kind that an entry names, which must have these columns."""
        import pandas as pd

        if not (paths := self.files(entry)):
            raise self.at(InputError("importers.no_table", kind, entry=entry), entry)
        for path in paths:
            self.check_file(path, f"{kind} table", entry)
        frames = [_frame(path, kind, columns) for path in paths]
        for path, frame in zip(paths, frames, strict=True):
            refuse_columns(path, kind, frame, self.version)
        rows = [
            Row(str(path), line, dict(zip(frame.columns, cells, strict=True)))
            for path, frame in zip(paths, frames, strict=True)
            for line, cells in zip(frame.index, frame.itertuples(index=False), strict=True)
        ]
        return PetabTable(kind, tuple(rows), pd.concat(frames, ignore_index=True).fillna(""))

    def ignored(self) -> tuple[str, ...]:
        """What the file names and nothing here reads, in words: it does not change the meaning of the problem."""
        found = [
            f"the extension {name}" for name, required in extensions(self.content).items() if not required
        ]
        found += [f"{kind} tables" for kind in ("visualization",) if self.files(f"{kind}_files")]
        for kind in KNOWN.get(self.version, {}):
            for path in (*self.files(f"{kind}_file"), *self.files(f"{kind}_files")):
                unread = unread_columns(kind, _header(path), self.version)
                found += [f"the column {name} of {path.name}" for name in unread]
        return tuple(found)

    def check_file(self, path: Path, kind: str, *entry: str) -> None:
        """InputError unless there is such a file, which an entry names."""
        if not sound_path(path).is_file():
            raise self.at(InputError("importers.no_table_file", str(path), kind=kind), *entry)

    def optional_rows(self, kind: str, entry: str, columns: Sequence[str]) -> tuple[Row, ...]:
        """The rows of the tables of a kind; none where there are no tables."""
        return self.table(kind, entry, columns).rows if self.files(entry) else ()


def read_listing(path: Path) -> Listing:
    """The YAML file of a problem."""
    if not sound_path(path).is_file():
        raise InputError("importers.no_file", str(path), format="a PEtab YAML file")
    try:
        import yaml
    except ImportError:
        raise InputError("importers.needs_petab") from None
    try:
        text = path.read_text(encoding="utf-8-sig")
        content, lines = yaml.safe_load(text), _lines(yaml.compose(text, yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise InputError("importers.not_yaml", reason=error.problem).at(file=str(path), line=line) from None
    except RecursionError:
        raise InputError("importers.not_yaml", reason="it is nested too deeply").at(file=str(path)) from None
    except (yaml.YAMLError, ValueError):  # a ValueError: text that is not UTF-8, or a number without end
        raise InputError("importers.not_yaml", reason="it is not text").at(file=str(path)) from None
    if not isinstance(content, dict):
        raise InputError("importers.empty_yaml").at(file=str(path))
    if not isinstance(content.get("format_version"), str | int | float | None):
        raise InputError("importers.not_yaml", reason="format_version is not a number").at(file=str(path))
    listing = Listing(path, content, lines, str(content.get("format_version", "none")).split(".")[0])
    if needed := [name for name, required in extensions(content).items() if required]:
        raise listing.at(InputError("importers.extensions", extensions=needed), "extensions", needed[0])
    return listing


def extensions(content: Mapping) -> dict[str, bool]:
    """The extensions that a problem names -> whether they change its meaning, as they do unless it says otherwise."""
    given = content.get("extensions") or {}
    if not isinstance(given, dict):
        return {str(name): True for name in (given if isinstance(given, list) else [given])}
    return {
        str(name): not (isinstance(one, dict) and one.get("required") is False) for name, one in given.items()
    }


def _lines(root: yaml.Node | None) -> dict[Key, int]:
    """The line of every entry of a YAML file, by its path of names and indices.

    Every node is visited once: aliases may refer to each other, or multiply what they stand for.
    """
    found: dict[Key, int] = {}
    waiting: list[tuple[Key, yaml.Node | None, yaml.Node | None]] = [((), root, root)]
    seen: set[int] = set()
    while waiting:
        key, name, node = waiting.pop()
        if name is not None:
            found[key] = name.start_mark.line + 1
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "mapping":
            waiting += [((*key, str(one.value)), one, value) for one, value in node.value]
        elif node.id == "sequence":
            waiting += [((*key, k), value, value) for k, value in enumerate(node.value)]
    return found


def as_value(text: str) -> Value:
    """A number where the text is one, else the text itself."""
    try:
        value = float(text)
    except ValueError:
        return text.strip()
    return text.strip() if isnan(value) else value


def _header(path: Path) -> list[str]:
    """The names of the columns of a table that can be read."""
    with path.open(encoding="utf-8-sig") as lines:
        return [name.strip().strip('"') for name in next(csv.reader(lines, delimiter="\t"), [])]


def _frame(path: Path, kind: str, columns: Sequence[str]) -> pd.DataFrame:
    """A table as text, its index the line in the file."""
    import pandas as pd

    try:
        frame = pd.read_csv(
            path, sep="\t", dtype=str, keep_default_na=False, skip_blank_lines=False, encoding="utf-8-sig"
        )
    except (ValueError, UnicodeError) as error:  # pandas has errors of its own kind, all of them ValueErrors
        raise _unreadable(path, kind, error).at(file=str(path)) from None
    frame.columns = [str(name).strip() for name in frame.columns]
    frame = frame.loc[:, [not name.startswith("Unnamed:") for name in frame.columns]].fillna("")
    for name in columns:
        if name not in frame.columns:
            close = closest(name, [other for other in frame.columns if other not in columns])
            missing = InputError("importers.no_column", name, kind=kind, close=close)
            raise missing.at(file=str(path), line=1)
    frame.index = pd.RangeIndex(2, len(frame) + 2)
    return frame[(frame != "").any(axis=1)]


def _unreadable(path: Path, kind: str, error: ValueError) -> InputError:
    """Why a table cannot be read: it is not text, empty, or has a row with more cells than columns."""
    if isinstance(error, UnicodeError):
        return InputError("importers.not_a_table", kind, reason="it is not text")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter="\t")
        columns = len(next(reader, []))
        if not columns:
            return InputError("importers.table_without_content", kind)
        long = next(((reader.line_num, len(row)) for row in reader if len(row) > columns), None)
    if long is None:
        return InputError("importers.not_a_table", kind, reason=" ".join(str(error).split()))
    line, cells = long
    return InputError("importers.row_too_long", kind, cells=cells, columns=columns).at(line=line)
