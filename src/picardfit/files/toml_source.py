"""A TOML file while it is read: its content, the lines of its keys, and all faults found so far."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NoReturn, TypeVar

from picardfit.errors import Audience, InputError, Key, Place, closest, closest_file, counted
from picardfit.files.toml_lines import Lines, find_lines, syntax_error

T = TypeVar("T")
MOST_BYTES = 2_000_000  # of a problem file: tables are files of their own
MOST_DOTS = 64  # in a key: no key of a problem file has more than three
SHOWN_FAULTS = 12  # of them in a message
MOST_FAULTS = 50  # that are reported together: a file with more is no problem file


class ProblemFileError(InputError):
    """A problem file with faults: `faults` holds all of them as InputErrors, sorted by line.

    With one fault it has the code, subject, place and remedy of that; with several, those of the file.
    """

    def __init__(self, file: str, faults: Iterable[InputError]) -> None:
        told = {str(one): one for one in faults}
        super().__init__("files.faults", file, faults=len(told))
        self.place = Place(file=file, audience=Audience.FILE)
        if len(told) == 1:  # then this error is that fault: code, subject, values, place and context
            self.__dict__.update(vars(*told.values()))
        self.faults = tuple(sorted(told.values(), key=lambda fault: _order(fault, file)))

    def __str__(self) -> str:
        more = len(self.faults) - SHOWN_FAULTS
        lines = [
            *map(str, self.faults[:SHOWN_FAULTS]),
            *([f"and {counted(more, 'error')} more"] if more > 0 else []),
        ]
        return "\n".join(lines)


def _order(fault: InputError, file: str) -> tuple[bool, bool, int, str]:
    """Faults of the file itself come before those of the tables that it names."""
    line = fault.place.line
    return fault.place.file != file, line is None, line or 0, fault.sentence()


@cache
def schema() -> dict:
    """The JSON Schema of a problem file, which also names its keys."""
    return json.loads((files("picardfit") / "files" / "problem.schema.json").read_text(encoding="utf-8"))


class Source:
    """The content of a TOML file, the line of every key, and the faults found so far."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self.faults: list[InputError] = []
        self.content, self.lines = self._parsed(self._text())

    def fault(
        self, key: Key, code: str, subject: str = "", *, row: int | None = None, **values: object
    ) -> None:
        """Note a fault of the entry `key`; `row` counts lines inside its text."""
        self.complain(InputError(code, subject, key=key, row=row, **values))

    def complain(self, error: InputError, key: Key = ()) -> None:
        """Note an error that reading the entry `key` raised."""
        self.faults.append(self.located(error, key))
        if len(self.faults) >= MOST_FAULTS:
            self.finish()

    def located(self, error: InputError, key: Key = ()) -> InputError:
        """The error that reading the entry `key` raised, with the file and line of what it complains about.

        What is wrong in a line of a table stays there. What is wrong with a table as a whole, such as its name, is
        mended in this file.
        """
        key, row, table = self._key_of(error, key), error.place.row, error.place.file
        if table is not None and error.place.line is not None:
            return error.at(key=key, audience=Audience.FILE)
        if table is not None:
            error = error.within("files.in_table", Path(table).name)
        line = self.lines.of(key) if row is None else self.lines.inside(key, row)
        other = error.values.get("other_row")  # a second row that the sentence mentions
        if isinstance(other, int):
            error = error.with_values(other_row=self.lines.inside(key, other))
        return error.at(key=key, file=self.name, line=line, audience=Audience.FILE)

    def faulty(self, key: Key) -> bool:
        """Whether the entry `key`, or something in it, has a fault."""
        return any(one.place.key[: len(key)] == key for one in self.faults)

    def faulty_itself(self, key: Key) -> bool:
        """Whether the entry `key` as a whole has a fault."""
        return any(one.place.key == key for one in self.faults)

    def _key_of(self, error: InputError, reading: Key) -> Key:
        """The key of the file that an error is about: its own, alone or below the entry being read.

        An experiment says ("initial", "x"), which stands below ("experiments", "pond") in a file, or at the top
        for all experiments; a noise model says ("noise", "additive"), which may stand in ("noise", "prey"). An error
        without a key is about the entry being read, or about the one in it that is called like the error's subject.
        """
        own = error.place.key
        named = [one.subject for one in error.context if one.code == "problem.in_experiment"]
        experiment = str(error.values.get("experiment") or "".join(named[:1]))
        candidates = [(*reading, error.subject), reading]
        if own:
            inside = own[1:] if own[:1] == reading[:1] else own
            here = [reading] if reading[-len(own) :] == own else []
            candidates = [*here, ("experiments", experiment, *own), (*reading, *inside), own, reading]
        return next((one for one in candidates if one in self.lines.keys), own or reading)

    def attempt(self, key: Key, function: Callable[..., T], *args: object, **options: object) -> T | None:
        """What the function returns; None and a fault when it raises an InputError."""
        try:
            return function(*args, **options)
        except InputError as error:
            self.complain(error, key)
            return None

    def table(self, key: Key, value: object) -> dict[str, object]:
        """The value as a table; another kind is a fault and counts as empty."""
        if value is None or isinstance(value, dict):
            return value or {}
        self.fault(key, "files.not_a_table", ".".join(map(str, key)), kind=kind_of(value))
        return {}

    def unknown(self, key: Key, code: str, name: str, known: Iterable[str], **values: object) -> None:
        """Note that a name is none of the known ones, of which the error proposes the closest."""
        known = list(known)
        self.complain(
            InputError(code, name, key=key).with_values(known=known, close=closest(name, known), **values)
        )

    def known(self, key: Key, value: object, names: Iterable[str]) -> dict[str, object]:
        """The entries of a table that have a known name; every other one is a fault."""
        table, names = self.table(key, value), list(names)
        where = f"[{'.'.join(map(str, key))}]" if key else "a problem file"
        for name in table:
            if name not in names:
                self.unknown((*key, name), "files.unknown_key", name, names, where=where)
        return {name: value for name, value in table.items() if name in names}

    def text(self, key: Key, value: object) -> str | None:
        """The value as text; another kind is a fault."""
        if value is None or isinstance(value, str):
            return value
        self.fault(key, "files.not_a_text", str(key[-1]), kind=kind_of(value))
        return None

    def texts(self, key: Key, value: object) -> list[str] | None:
        """The value as a list of texts; another kind is a fault."""
        if value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            return value
        self.fault(key, "files.not_a_list_of_names", str(key[-1]), kind=kind_of(value))
        return None

    def finish(self) -> None:
        """Raise when there are faults."""
        if self.faults:
            raise ProblemFileError(self.name, self.faults)

    def _text(self) -> str:
        try:
            if self.path.exists() and not self.path.is_file():
                self._stop("files.not_a_file")
            if self.path.exists() and self.path.stat().st_size > MOST_BYTES:
                self._stop("files.too_large", megabytes=MOST_BYTES // 10**6)
            return self.path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        except FileNotFoundError:
            close = closest_file(self.path)
            self._stop("files.missing_like" if close else "files.missing", close=close)
        except UnicodeDecodeError as error:
            self._stop("files.not_utf8", position=error.start + 1)
        except InputError:
            raise
        except (OSError, ValueError) as error:  # a ValueError is a null byte in the path
            self._stop("files.unreadable_problem", reason=getattr(error, "strerror", None) or error)

    def _parsed(self, text: str) -> tuple[dict[str, object], Lines]:
        if any(line.partition("=")[0].count(".") > MOST_DOTS for line in text.split("\n")):
            self._stop("files.nested_too_deeply")
        try:
            return tomllib.loads(text), find_lines(text)
        except RecursionError:
            self._stop("files.nested_too_deeply")
        except ValueError as error:
            self._raise(syntax_error(self.name, text, error))

    def _stop(self, code: str, **values: object) -> NoReturn:
        self._raise(InputError(code, self.name).with_values(**values))

    def _raise(self, fault: InputError) -> NoReturn:
        raise ProblemFileError(self.name, [fault.at(file=self.name, audience=Audience.FILE)]) from None


def kind_of(value: object) -> str:
    """What a value of a TOML file is, in words."""
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or time")
