"""Where things stand in a TOML text: the line of every key, for errors that tomllib knows nothing about.

The text must be valid TOML (tomllib has read it): the scanner only finds its way, it checks nothing.
A place is a path of keys and list indices, ("parameters", "a", 0) is the lower bound in `a = [0.1, 10]`.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]\}\r\n#]*")
_STRINGS = (
    re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})', re.DOTALL),
    re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)


@dataclass(frozen=True)
class Lines:
    """Lines of keys, and for texts the line on which their content begins and ends."""

    keys: dict[Path, int]
    texts: dict[Path, tuple[int, int]]

    def of(self, path: Path) -> int | None:
        """The line of the path, or of the longest part of it that stands in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.keys:
                return self.keys[path[:length]]
        return None

    def inside(self, path: Path, line: int) -> int | None:
        """The line of the file of a line (from 1) inside a text of several lines."""
        if path not in self.texts:
            return self.of(path)
        first, last = self.texts[path]
        return min(first + line - 1, last)


def find_lines(text: str) -> Lines:
    """The lines of all keys of a valid TOML text."""
    scanner = _Scanner(text)
    with suppress(RecursionError, _LostError):  # what was found so far will do
        scanner.document()
    return Lines(scanner.keys, scanner.texts)


class _LostError(Exception):
    """The text is not what the scanner expects."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.keys: dict[Path, int] = {}
        self.texts: dict[Path, tuple[int, int]] = {}
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._lists: dict[Path, int] = {}  # index of the latest table of each [[list]]

    def document(self) -> None:
        table: Path = ()
        self._skip(_BLANK)
        while self.position < len(self.text):
            if self._at("["):
                table = self._header()
            else:
                self._entry(table)
            self._skip(_BLANK)

    def _header(self) -> Path:
        many = self._at("[[")
        line = self._line(self.position)
        self.position += 2 if many else 1
        path: Path = ()
        keys = self._dotted_key()
        for key in keys[:-1]:
            path = self._latest((*path, key))
            self.keys.setdefault(path, line)
        path = (*path, keys[-1])
        if many:
            self._lists[path] = self._lists.get(path, -1) + 1
            self.keys.setdefault(path, line)
        path = self._latest(path)
        self.keys.setdefault(path, line)
        self.position += 2 if many else 1
        return path

    def _latest(self, path: Path) -> Path:
        return (*path, self._lists[path]) if path in self._lists else path

    def _entry(self, table: Path) -> None:
        line = self._line(self.position)
        path = table
        for key in self._dotted_key():
            path = (*path, key)
            self.keys.setdefault(path, line)
        self.position += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _dotted_key(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            if self._at('"') or self._at("'"):
                keys.append(_content(self._string()))
            else:
                keys.append(self._take(_BARE_KEY))
            self._skip(_SPACE)
            if not self._at("."):
                return keys
            self.position += 1

    def _value(self, path: Path) -> None:
        if self._at('"') or self._at("'"):
            begin = self.position
            source = self._string()
            skipped = re.match(r"(\"\"\"|''')\r?\n", source)
            first = self._line(begin + (skipped.end() if skipped else 0))
            self.texts[path] = (first, max(first, self._line(self.position - 1)))
        elif self._at("["):
            self._list(path)
        elif self._at("{"):
            self._inline_table(path)
        else:
            self._take(_BARE_VALUE)

    def _list(self, path: Path) -> None:
        self.position += 1
        index = 0
        self._skip(_BLANK)
        while not self._at("]"):
            self.keys[(*path, index)] = self._line(self.position)
            self._value((*path, index))
            index += 1
            self._separator()
        self.position += 1

    def _inline_table(self, path: Path) -> None:
        self.position += 1
        self._skip(_BLANK)
        while not self._at("}"):
            self._entry(path)
            self._separator()
        self.position += 1

    def _separator(self) -> None:
        self._skip(_BLANK)
        if self._at(","):
            self.position += 1
            self._skip(_BLANK)

    def _string(self) -> str:
        for pattern in _STRINGS:
            if match := pattern.match(self.text, self.position):
                self.position = match.end()
                return match.group()
        raise _LostError

    def _line(self, position: int) -> int:
        return bisect_right(self._starts, position)

    def _at(self, text: str) -> bool:
        return self.text.startswith(text, self.position)

    def _take(self, pattern: re.Pattern) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise _LostError
        self.position = match.end()
        return match.group()

    def _skip(self, pattern: re.Pattern) -> None:
        self.position = pattern.match(self.text, self.position).end()


def _content(source: str) -> str:
    """The text that a quoted key stands for."""
    return source[1:-1] if source.startswith("'") else tomllib.loads(f"key = {source}")["key"]
