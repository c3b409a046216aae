"""The files of a PEtab problem: the YAML file and the tables it names, as text with the line each row stands in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.errors import InputError, did_you_mean, listing

if TYPE_CHECKING:
    import pandas as pd

Value = float | str  # a number, or the name of a parameter (in version 2: a formula)


@dataclass(frozen=True)
class Row:
    """A row of a table; `where` names its file and line."""

    where: str
    cells: dict[str, str]

    def text(self, column: str, default: str = "") -> str:
        """The text of a cell, the default where it is empty."""
        cell = self.cells.get(column, "").strip()
        return default if cell.lower() in ("", "nan") else cell

    def number(self, column: str) -> float | None:
        """The number in a cell, None where it is empty."""
        text = self.text(column)
        if not text:
            return None
        value = as_value(text)
        if not isinstance(value, float):
            raise InputError(f"{self.where}: `{text}` in {column} is not a number: correct it.")
        return value

    def values(self, column: str) -> tuple[Value, ...]:
        """Numbers and names that stand in one cell, separated by semicolons."""
        text = self.text(column)
        return tuple(as_value(piece) for piece in text.split(";")) if text else ()

    def choice(self, column: str, known: Sequence[str], default: str) -> str:
        """One of the known words."""
        word = self.text(column, default)
        if word not in known:
            raise InputError(
                f"{self.where}: the {column} `{word}` is not known: use {listing(known)}."
                + did_you_mean(word, known)
            )
        return word


@dataclass(frozen=True, eq=False)
class Sheet:
    """All tables of one kind, one below the other."""

    kind: str
    files: str  # their names, for messages
    rows: tuple[Row, ...]
    frame: pd.DataFrame  # the same cells as text, with the columns as they are

    def by(self, column: str) -> dict[str, Row]:
        """The rows by their identifier."""
        found: dict[str, Row] = {}
        for row in self.rows:
            name = row.text(column)
            if not name:
                raise InputError(f"{row.where}: {column} is empty: fill it in.")
            if re.fullmatch(r"[^\W\d]\w*", name) is None:
                raise InputError(f"{row.where}: `{name}` is not a name: use letters, digits and underscores.")
            if name in found:
                raise InputError(
                    f"{row.where}: `{name}` stands in the {self.kind} table twice: remove one of them."
                )
            found[name] = row
        return found


@dataclass(frozen=True)
class Listing:
    """The YAML file: its entries and the folder of the files they name."""

    path: Path
    content: dict

    @property
    def version(self) -> str:
        return str(self.content.get("format_version", ""))

    def files(self, entry: str, content: dict | None = None) -> list[Path]:
        """The files of an entry that holds a name or a list of names."""
        given = (self.content if content is None else content).get(entry)
        given = [] if given is None else given if isinstance(given, list) else [given]
        for name in given:
            if not isinstance(name, str):
                raise InputError(f"`{name}` in {entry} is not the name of a file: write one.")
        return [self.path.parent / name for name in given]

    def sheet(self, kind: str, paths: Sequence[Path], columns: Sequence[str]) -> Sheet:
        """The tables of a kind, which must have these columns."""
        import pandas as pd

        if not paths:
            raise InputError(f"no {kind} table is named: add its file.")
        frames = [_frame(path, kind, columns) for path in paths]
        rows = [
            Row(f"`{path.name}`, line {line}", dict(zip(frame.columns, cells, strict=True)))
            for path, frame in zip(paths, frames, strict=True)
            for line, cells in zip(frame.index, frame.itertuples(index=False), strict=True)
        ]
        together = pd.concat(frames, ignore_index=True).fillna("")
        return Sheet(kind, listing([path.name for path in paths]), tuple(rows), together)


def read_listing(path: str | Path) -> Listing:
    """The YAML file of a problem."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file `{path}`: give the path of a PEtab YAML file.")
    try:
        import pandas  # noqa: F401
        import yaml
    except ImportError:
        raise InputError(
            "PEtab problems need the packages petab and python-libsbml: install them with "
            "pip install 'picardfit[petab]'."
        ) from None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" (line {mark.line + 1}: {error.problem})"
        raise InputError(f"`{path}` is not a YAML file{line}: give a PEtab YAML file.") from None
    if not isinstance(content, dict):
        raise InputError(f"`{path}` holds no entries: give a PEtab YAML file.")
    found = Listing(path, content)
    if content.get("extensions"):
        named = listing([str(name) for name in content["extensions"]])
        raise InputError(f"`{path}` uses the extension {named}, which is not supported: remove it.")
    return found


def as_value(text: str) -> Value:
    """A number where the text is one, else the text itself."""
    try:
        value = float(text)
    except ValueError:
        return text.strip()
    return text.strip() if isnan(value) else value


def _frame(path: Path, kind: str, columns: Sequence[str]) -> pd.DataFrame:
    """A table as text, its index the line in the file."""
    import pandas as pd

    if not path.is_file():
        raise InputError(f"there is no {kind} table `{path}`: correct its name, or add it.")
    try:
        frame = pd.read_csv(
            path, sep="\t", dtype=str, keep_default_na=False, skip_blank_lines=False, encoding="utf-8-sig"
        )
    except (ValueError, UnicodeError) as error:  # pandas has errors of its own kind, all of them ValueErrors
        reason = "it is not text" if isinstance(error, UnicodeError) else " ".join(str(error).split())
        raise InputError(
            f"the {kind} table `{path.name}` is not a table ({reason}): separate its columns by tabs."
        ) from None
    frame.columns = [str(name).strip() for name in frame.columns]
    frame = frame.loc[:, [not name.startswith("Unnamed:") for name in frame.columns]].fillna("")
    for name in columns:
        if name not in frame.columns:
            raise InputError(
                f"the {kind} table `{path.name}` has no column {name}: add it, with tabs between columns."
                + did_you_mean(name, [other for other in frame.columns if other not in columns])
            )
    frame.index = range(2, len(frame) + 2)
    return frame[(frame != "").any(axis=1)]
