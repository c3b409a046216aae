"""Everything that is wrong with a file, at once: each fault with its line and what to do about it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from picardfit.errors import InputError, did_you_mean, did_you_mean_file, listing
from picardfit.files.toml_lines import Lines, find_lines

Place = tuple[str | int, ...]  # keys and list indices from the top of the file

_SPELLINGS = (  # how Python says it, how a problem file says it
    ("log=True", "log = true"),
    ("local=True", "local = true"),
    ("pf.Parameter(lower, upper, ...)", "a table { lower = ..., upper = ... }"),
    ("a pair (lower, upper)", "a pair [lower, upper]"),
    ("pf.Parameter(..., local=True)", "local = true"),
    ("pass noise=pf.Noise(...) to the problem", "add a section [noise] with additive = ..."),
    ("observables=[...]", "observables = [...] in [data]"),
    ("pass time='...'", "write data = { file = '...', time = '...' }"),
    ("pass experiment=", "write in [data] experiment = "),
    ("a pair (times, values), or a function of t", "or a table { times = [...], values = [...] }"),
)
_SYNTAX = (  # what tomllib says, what to do
    ("Invalid value", "text needs quotes, a list needs [ ], true and false are lower case"),
    ("Cannot overwrite a value", "this key stands twice: keep one of them"),
    ("Cannot declare", "this table stands twice: join the two"),
    ("Expected '=' after a key", "write key = value; a name with spaces or dots needs quotes"),
    ("Unclosed array", "close the list with ]"),
    ("Unterminated string", "close the text with the quotes it began with"),
    (
        "Illegal character",
        "close the quotes on the same line; a text of several lines begins and ends with three",
    ),
    ("Expected newline or end of document", "one key = value a line, text in quotes"),
    ("Invalid statement", "a line is key = value, [table] or # comment"),
    ("Unescaped '\\'", "write \\\\ for a backslash"),
)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a file."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class ProblemFileError(InputError):
    """A problem file with faults: all of them, one a line."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(
            sorted(set(faults), key=lambda fault: (fault.line is None, fault.line, fault.message))
        )
        super().__init__("\n".join(map(str, self.faults)))

    def __reduce__(self):
        return ProblemFileError, (self.faults,)


@cache
def schema() -> dict:
    """The JSON Schema of a problem file, which also names its keys."""
    return json.loads((files("picardfit") / "files" / "problem.schema.json").read_text(encoding="utf-8"))


class Source:
    """A TOML file under examination: its content, where things stand in it, and the faults found so far."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self.faults: list[Fault] = []
        self.content, self.lines = self._parsed(self._text())

    def fault(self, place: Place, message: str) -> None:
        self.faults.append(Fault(self.name, self.lines.of(place), _in_file_words(message)))

    def fault_at(self, line: int | None, message: str) -> None:
        self.faults.append(Fault(self.name, line, _in_file_words(message)))

    def attempt(self, place: Place, function: Callable, *args, **options):
        """What the function returns; None and a fault when it complains."""
        try:
            return function(*args, **options)
        except InputError as error:
            self.fault(place, str(error))
            return None

    def table(self, place: Place, value: object) -> dict[str, object]:
        """The value as a table; another kind is a fault and counts as empty."""
        if value is None or isinstance(value, dict):
            return value or {}
        name = ".".join(map(str, place))
        self.fault(
            place,
            f"`{name}` is {kind_of(value)}, but must be a table: write [{name}] and its entries below it.",
        )
        return {}

    def known(self, place: Place, table: Mapping[str, object], keys: Iterable[str]) -> dict[str, object]:
        """The entries with a known key; every other one is a fault."""
        keys = list(keys)
        for key in table:
            if key not in keys:
                where = f"[{'.'.join(map(str, place))}]" if place else "a problem file"
                hint = did_you_mean(key, keys)
                self.fault((*place, key), f"`{key}` is not a key of {where} (it has {listing(keys)}).{hint}")
        return {key: value for key, value in table.items() if key in keys}

    def text(self, place: Place, value: object) -> str | None:
        """The value as text; another kind is a fault."""
        if value is None or isinstance(value, str):
            return value
        self.fault(place, f"`{place[-1]}` is {kind_of(value)}, but must be text in quotes.")
        return None

    def texts(self, place: Place, value: object) -> list[str] | None:
        """The value as a list of texts; another kind is a fault."""
        if value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            return value
        self.fault(
            place, f'`{place[-1]}` is {kind_of(value)}, but must be a list of names such as ["x", "y"].'
        )
        return None

    def finish(self) -> None:
        """Raise when there are faults."""
        if self.faults:
            raise ProblemFileError(self.faults)

    def _text(self) -> str:
        try:
            if self.path.exists() and not self.path.is_file():
                self._stop(None, "This is not a file: give the path of a problem file or of its folder.")
            return self.path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        except FileNotFoundError:
            hint = did_you_mean_file(self.path) or " `picardfit new` writes one to begin with."
            self._stop(None, f"There is no such file.{hint}")
        except UnicodeDecodeError as error:
            self._stop(None, f"Byte {error.start + 1} is not UTF-8 text: save the file as UTF-8.")
        except (OSError, ValueError) as error:  # a ValueError is a null byte in the path
            self._stop(None, f"The file cannot be read ({getattr(error, 'strerror', None) or error}).")

    def _parsed(self, text: str) -> tuple[dict[str, object], Lines]:
        try:
            return tomllib.loads(text), find_lines(text)
        except RecursionError:
            self._stop(None, "The lists in it are nested too deeply: write plain lists.")
        except ValueError as error:
            words, line = _syntax_error(str(error), text)
            self._stop(line, words)

    def _stop(self, line: int | None, message: str) -> None:
        raise ProblemFileError([Fault(self.name, line, message)]) from None


def kind_of(value: object) -> str:
    """What a value of a TOML file is, in words."""
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or time")


def _syntax_error(words: str, text: str) -> tuple[str, int]:
    """The sentence and the line of an error of tomllib."""
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", words)
    if found is None:
        return f"{words.splitlines()[0][:200]}: correct this value.", 1
    what = words[: found.start()]
    line = int(found[1]) if found[1] else max(1, len(text.rstrip().splitlines()))
    if not found[1] and what.startswith("Invalid value"):
        return "The file ends in the middle: a list, table or text is opened and never closed.", line
    remedy = next(
        (remedy for said, remedy in _SYNTAX if what.startswith(said)), "see toml.io for how TOML is written"
    )
    column = f" in column {found[2]}" if found[2] else ""
    return f"{what}{column}: {remedy}.", line


def _in_file_words(message: str) -> str:
    for python, toml in _SPELLINGS:
        message = message.replace(python, toml)
    return message
