"""What can go wrong, as records: bad input raises InputError, a warning is a Notice, the end of a fit is a Status.

A record holds a code, what it concerns (`subject`), values, and where that was written (`Place`). Its sentence comes
from the catalogue beside this file: sentences/ROOM.toml has one entry for every code `ROOM.entry`, with `what` is
wrong, the `remedy`, and an `example` of its values. An entry may word either of them differently for problem files
(`file`) and for the command line (`command`). No code reads a sentence back.
"""

from __future__ import annotations

import copyreg
import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import date, time
from enum import Enum, StrEnum
from functools import cache
from importlib.resources import files
from math import isnan
from pathlib import Path
from string import Formatter
from typing import Any

Key = tuple[str | int, ...]
LONGEST_WORDS = 300  # characters of a text inside a sentence: a few lines of a terminal
MOST_NAMES = 24  # names that a sentence lists


class Audience(StrEnum):
    """Who reads a sentence: the author of Python code or of a problem file, or a user of the command line."""

    PYTHON = "python"
    FILE = "file"
    COMMAND = "command"


@dataclass(frozen=True)
class Place:
    """Where something was written.

    `key`: the entry of a problem, ("parameters", "a"), whether it came from a file or from Python; `row`: the line
    inside a text of several lines, such as the equations; `file`, `line`: where that is in a file; `audience`: who
    wrote it, and therefore in whose words it is discussed.
    """

    key: Key = ()
    row: int | None = None
    file: str | None = None
    line: int | None = None
    audience: Audience = Audience.PYTHON

    def __str__(self) -> str:
        """`problem.toml:3`, the file alone where the line is not known, or an empty text."""
        file = self.file or ""
        shown = file if len(file) <= LONGEST_WORDS else f"…{file[1 - LONGEST_WORDS :]}"  # the end is its name
        return f"{shown}:{self.line}" if shown and self.line else shown


@dataclass(frozen=True)
class Notice:
    """Something a user should know that is not an error: a warning, or a verdict."""

    code: str
    subject: str = ""
    values: Mapping[str, object] = field(default_factory=dict)

    def sentence(self, audience: Audience = Audience.PYTHON) -> str:
        return sentence(self.code, self.subject, self.values, audience)

    def __str__(self) -> str:
        return self.sentence()


class InputError(ValueError):
    """Bad input: what is wrong (`code`, `subject`, `values`), where it was written (`place`), and the `remedy`.

    `context`: what the subject belongs to, outermost first: Notice("problem.in_experiment", "pond") puts
    "Experiment `pond`: " before the sentence.
    """

    def __init__(
        self, code: str, subject: str = "", *, key: Key = (), row: int | None = None, **values: object
    ) -> None:
        super().__init__(code, subject)
        self.code = code
        self._subject = subject
        self.values: Mapping[str, object] = values
        self.place = Place(key, row)
        self.context: tuple[Notice, ...] = ()

    @property
    def subject(self) -> str:
        """The bare name of what is wrong: its own, else that of what it belongs to, else `what` it is ("times")."""
        owners = (one.subject for one in reversed(self.context))
        return next(filter(None, (self._subject, *owners, str(self.values.get("what", "")))), "")

    @property
    def remedy(self) -> str:
        """What to do about it, in the words of where it was written; empty for an error that a user raised."""
        known = _in_catalogue(self.code)
        return _filled(self.code, "remedy", self._subject, self.values, self.place.audience) if known else ""

    def sentence(self, audience: Audience | None = None) -> str:
        """What is wrong and what to do, without its place in a file; by default in the words of that place."""
        audience = audience or self.place.audience
        if not _in_catalogue(self.code):  # raised by a user's function: the code is their own sentence
            return self.code
        words = sentence(self.code, self._subject, self.values, audience)
        for one in reversed(self.context):
            words = f"{one.sentence(audience).rstrip('.')}: {_lowered(words)}"
        if self.place.row is not None and audience is Audience.PYTHON:
            words = f"In line {self.place.row}: {_lowered(words)}"
        return words

    def within(self, code: str, subject: str = "", **values: object) -> InputError:
        """A copy that names what its subject belongs to, such as an experiment."""
        return self._with(context=(Notice(code, subject, values), *self.context))

    def at(self, **fields: Any) -> InputError:
        """A copy with the given fields of its place filled in; None leaves a field as it is."""
        known = {name: value for name, value in fields.items() if value is not None}
        return self._with(place=replace(self.place, **known))

    def with_values(self, **values: object) -> InputError:
        """A copy with other values, for example `other_row` as the line of a file."""
        return self._with(values={**self.values, **values})

    def _with(self, **changes: object) -> InputError:
        made = copy(self)
        made.__dict__.update(changes)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        # a copy, or a pickle from a worker, restores the attributes without __init__: subclasses have their own
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    def told(self, audience: Audience | None = None) -> str:
        """The sentence, after the file and line that it is about."""
        return ": ".join(filter(None, (str(self.place), self.sentence(audience))))

    def __str__(self) -> str:
        return self.told()


@contextmanager
def concerning(code: str, subject: str = "", *, key: Key = (), **values: object) -> Iterator[None]:
    """Tell every InputError raised inside what it is about, and under which key that was declared.

    `code` names an entry such as "Observable `{subject}`", which opens the sentence.
    """
    try:
        yield
    except InputError as error:
        told = error.within(code, subject, **values)
        raise told.at(key=told.place.key or key) from error.__cause__


class Status(Enum):
    """How a fit ended; the value is the code of its sentence in sentences/status.toml."""

    CONVERGED = "status.converged"
    CONVERGED_AT_BOUND = "status.converged_at_bound"
    APPROXIMATE = "status.approximate"
    INACCURATE = "status.inaccurate"
    UNDECIDED = "status.undecided"
    STALLED = "status.stalled"
    ITERATION_LIMIT = "status.iteration_limit"
    NOT_FINITE = "status.not_finite"
    DIVERGED = "status.diverged"
    FAILED = "status.failed"
    INTERRUPTED = "status.interrupted"
    SET_ASIDE = "status.set_aside"
    ARRIVED = "status.arrived"

    @property
    def success(self) -> bool:
        return self in (Status.CONVERGED, Status.CONVERGED_AT_BOUND)

    @property
    def converged(self) -> bool:
        """Whether the search ended at an optimum whose curvature gives standard errors."""
        return self.success or self is Status.UNDECIDED

    @property
    def estimated(self) -> bool:
        """Whether the values are estimates: those of an optimum, or those at which the method means to stop."""
        return self.converged or self is Status.APPROXIMATE

    def sentence(self, audience: Audience = Audience.PYTHON) -> str:
        return sentence(self.value, "", {}, audience)


@dataclass(frozen=True)
class Conclusion:
    """How a fit ended: its status with the warnings that belong to it."""

    status: Status
    warnings: tuple[Notice, ...] = ()

    def sentence(self, audience: Audience = Audience.PYTHON) -> str:
        """Status and warnings. After a failure the warnings, its likely causes, come first.

        A warning that explains the failure replaces the sentence of the status.
        """
        warnings, ended = [one.sentence(audience) for one in self.warnings], self.status.sentence(audience)
        if self.status.success:
            return " ".join([ended, *warnings])
        explanations = ("simulation.never_finite", *_EXPLANATIONS.get(self.status, ()))
        explained = any(one.code in explanations for one in self.warnings)
        return " ".join(warnings if explained else [*warnings, ended])


_EXPLANATIONS = {  # status -> codes of the warnings that say the same and why
    Status.NOT_FINITE: ("simulation.nonfinite_start",),
    Status.INACCURATE: (
        "simulation.no_solution_at_estimates",
        "search.input_unresolved",
        "search.formula_error",
    ),
}


# ---- sentences from the catalogue ----------------------------------------------------------------------------------


def sentence(code: str, subject: str, values: Mapping[str, object], audience: Audience) -> str:
    """`What: remedy.`, and `Did you mean `x`?` where the values hold a name that is `close`."""
    what, remedy = (_filled(code, field, subject, values, audience) for field in ("what", "remedy"))
    whole = f"{what}: {remedy}." if remedy else f"{what}."
    return f"{whole} Did you mean `{values['close']}`?" if values.get("close") else whole


def _filled(code: str, field: str, subject: str, values: Mapping[str, object], audience: Audience) -> str:
    """One field of an entry, with its values; empty where the entry does not have it."""
    entry = catalogue_entry(code)
    # A user of the command line writes a problem file: its words come next where an entry has none for commands.
    wordings = ("command", "file") if audience is Audience.COMMAND else (audience.value,)
    found = (entry[one][field] for one in wordings if field in entry.get(one, {}))
    words = {
        name: value.sentence(audience).rstrip(".")
        if isinstance(value, Conclusion | Status | Notice)
        else _cut(value)
        for name, value in values.items()
    }
    formatter = _PYTHON if audience is Audience.PYTHON else _TOML
    return formatter.vformat(next(found, entry.get(field, "")), (), {"subject": _cut(subject), **words})


def _cut(value: object) -> object:
    """A text that fits into a sentence; other values as they are."""
    return (
        f"{value[: LONGEST_WORDS - 1]}…" if isinstance(value, str) and len(value) > LONGEST_WORDS else value
    )


def catalogue_entry(code: str) -> dict[str, Any]:
    """The entry of a code: `what`, `remedy`, `file`, `command`, `example`."""
    room, _, name = code.partition(".")
    if not room.isidentifier():  # a code from a file may be anything
        raise KeyError(code)
    return catalogue(room)[name]


def _in_catalogue(code: str) -> bool:
    try:
        catalogue_entry(code)
    except (KeyError, OSError):
        return False
    return True


@cache
def catalogue(room: str) -> dict[str, dict[str, Any]]:
    """The entries of one room, by name."""
    path = files("picardfit") / "sentences" / f"{room}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


class _Words(Formatter):
    """Format specs for words: {names:list}, {names:list:8}, {names:those} (" (`a`, `b`)", or nothing where there are
    none), {n:count:value}, {thing:kind}, {values:values:none} ("a = 1.2, b = 3"), {values:at:6} ("at x = 0, y = 2"),
    {x:nonfinite}, {subject:capital}, {subject:of} (" of `a`", or nothing), {subject:or:the table} ("`a`", or these
    words).

    `literal`: how a value is written by those who read the sentence, for {value!r}.
    """

    def __init__(self, literal: Callable[[object], str]) -> None:
        self.literal = literal

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return self.literal(value) if conversion == "r" else super().convert_field(value, conversion)

    def format_field(self, value: Any, spec: str) -> str:
        kind, _, rest = spec.partition(":")
        match kind:
            case "list":
                return listing(value, int(rest) if rest else MOST_NAMES)
            case "those":
                return f" ({listing(value, int(rest) if rest else None)})" if value else ""
            case "count":
                return counted(value, rest)
            case "kind":
                return type_words(value)
            case "values":
                return ", ".join(f"{name} = {number:.4g}" for name, number in value.items()) or rest
            case "nonfinite":
                return "not a real number" if isnan(float(value)) else "infinite"
            case "at":
                first = [f"{name} = {number:.6g}" for name, number in list(value.items())[: int(rest)]]
                return f"at {', '.join(first) or 'all values'}"
            case "capital" | "of" | "or":
                return _named(str(value), kind, rest)
        return format(value, spec)


def _named(name: str, kind: str, otherwise: str) -> str:
    """A subject in a sentence, which may be empty."""
    match kind:
        case "capital":
            return name[:1].upper() + name[1:]
        case "of":
            return f" of `{name}`" if name else ""
    return f"`{name}`" if name else otherwise


def toml_literal(value: object) -> str:
    """A value as a problem file has it: true, [1, 2], { a = 1 }."""
    match value:
        case bool():
            return str(value).lower()
        case list() | tuple():
            return f"[{', '.join(map(toml_literal, value))}]"
        case Mapping():
            inside = ", ".join(f"{name} = {toml_literal(one)}" for name, one in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case date() | time():
            return value.isoformat()
    return repr(value)


_PYTHON, _TOML = _Words(repr), _Words(toml_literal)


def _lowered(words: str) -> str:
    """A sentence after a colon: an ordinary first word loses its capital."""
    first, _, rest = words.partition(" ")
    return f"{first.lower() if first.isalpha() and first == first.capitalize() else first} {rest}"


def listing(names: Iterable[str], most: int | None = None) -> str:
    """The names in backticks, separated by commas; beyond `most` of them, how many more there are."""
    names = list(names)
    shown = ", ".join(f"`{n}`" for n in names[:most]) or "none"
    return shown if most is None or len(names) <= most else f"{shown} and {len(names) - most} more"


def counted(number: int, word: str) -> str:
    """`1 value`, `2 values`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def type_words(value: object) -> str:
    """`an Experiment`, `a list`: the type of a value with its article."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' or name == 'ndarray' else 'a'} {name}"


# ---- names that a user may have meant ------------------------------------------------------------------------------

SIMILAR = 0.6  # difflib's own cutoff for names that are close
SIMILAR_STEMS = 0.65  # file names are longer, so that unrelated ones share more letters


def closest(name: str, known: Iterable[str], cutoff: float = SIMILAR) -> str:
    """The known name that a user most likely meant, or an empty string.

    Upper and lower case, blanks, underscores and hyphens make no difference.
    """
    name = name[:LONGEST_WORDS]
    by_letters: dict[str, list[str]] = {}
    for one in known:
        by_letters.setdefault(_letters(one[:LONGEST_WORDS]), []).append(one)
    close = difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=cutoff)
    if not close:
        return ""
    return difflib.get_close_matches(name.strip(), by_letters[close[0]], n=1, cutoff=0.0)[0]


def closest_file(path: Path) -> str:
    """The file in the folder of a missing one that has nearly its name, whatever its ending."""
    siblings = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    by_stem: dict[str, list[str]] = {}
    for one in siblings:
        if one.is_file():
            by_stem.setdefault(_letters(one.stem), []).append(one.name)
    close = difflib.get_close_matches(_letters(path.stem), by_stem, n=1, cutoff=SIMILAR_STEMS)
    return closest(path.name, by_stem[close[0]], cutoff=0.0) if close else ""


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()
