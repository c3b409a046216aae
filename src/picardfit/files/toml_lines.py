"""The line of every key in a TOML text, which tomllib does not report; and what is wrong where tomllib stops.

The scanner follows the structure of valid TOML and checks nothing. On invalid text it stops at the error.
A key is a path of names and list indices: ("parameters", "a", 0) is the lower bound in `a = [0.1, 10]`.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass

from picardfit.errors import InputError, Key

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]\}\r\n#]+")
_STRINGS = (
    re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})', re.DOTALL),
    re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)


@dataclass(frozen=True)
class Lines:
    """The line of each key, and the lines on which the content of each text begins and ends."""

    keys: dict[Key, int]
    texts: dict[Key, tuple[int, int]]

    def of(self, key: Key) -> int | None:
        """The line of the key, or of the innermost table around it that the file has."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.keys:
                return self.keys[key[:length]]
        return None

    def inside(self, key: Key, row: int) -> int | None:
        """The line in the file of row `row` (from 1) of a text of several lines."""
        if key not in self.texts:
            return self.of(key)
        first, last = self.texts[key]
        return min(first + row - 1, last)


def find_lines(text: str) -> Lines:
    """The lines of all keys of a valid TOML text."""
    scanner = _scanned(text)
    return Lines(scanner.keys, scanner.texts)


def syntax_error(file: str, text: str, error: ValueError) -> InputError:
    """What is wrong in the text of a file that tomllib refused, with its line.

    Python 3.11 to 3.13 give the position of a TOMLDecodeError only at the end of its sentence. This is the one foreign
    sentence that is taken apart; its `words` are quoted, but what is wrong is found in the text of the file.
    """
    words = str(error)
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", words)
    if found is None:  # for example a number that Python cannot represent
        return InputError("files.toml_number", file, words=words.splitlines()[0][:200]).at(line=1)
    words = words[: found.start()]
    if found[1] is None:
        last = max(1, len(text.rstrip().splitlines()))
        return InputError("files.toml_end", file, column=None, words=words).at(line=last)
    line, column = int(found[1]), int(found[2])
    rows = text.split("\n")
    if (key := _scanned("\n".join(rows[:line])).repeated.get(line)) is not None:
        name = ".".join(map(str, key))
        return InputError("files.toml_repeated", name, key=key, words=words).at(line=line)
    return InputError(_syntax_code(rows, line, column), file, column=column, words=words).at(line=line)


def _syntax_code(rows: list[str], line: int, column: int) -> str:
    scanner = _scanned("\n".join(rows[: line - 1]) + "\n")
    if scanner.unclosed_lists:
        return "files.toml_list"
    row = rows[line - 1] if line <= len(rows) else ""
    if _unclosed_quote(row[: column - 1]):
        return "files.toml_quotes"
    return "files.toml_value" if "=" in row[: column - 1] else "files.toml_statement"


def _unclosed_quote(row: str) -> bool:
    """Whether a text begins in this row and does not end there."""
    return re.search("[\"']", re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", "", row)) is not None


def _scanned(text: str) -> _Scanner:
    scanner = _Scanner(text)
    with suppress(RecursionError, _LostError):  # what was found so far is enough
        scanner.document()
    return scanner


class _LostError(Exception):
    """The scanner met something that valid TOML does not have there."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.unclosed_lists = 0  # how many lists are open at the position
        self.repeated: dict[int, Key] = {}  # lines that define a key or table again
        self.keys: dict[Key, int] = {}
        self.texts: dict[Key, tuple[int, int]] = {}
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._lists: dict[Key, int] = {}  # index of the latest table of each [[list]]

    def document(self) -> None:
        table: Key = ()
        self._skip(_BLANK)
        while self.position < len(self.text):
            if self._at("["):
                table = self._header()
            else:
                self._entry(table)
            self._skip(_BLANK)

    def _header(self) -> Key:
        many = self._at("[[")
        line = self._line(self.position)
        self.position += 2 if many else 1
        path: Key = ()
        keys = self._dotted_key()
        for key in keys[:-1]:
            path = self._latest((*path, key))
            self.keys.setdefault(path, line)
        path = (*path, keys[-1])
        if many:
            self._lists[path] = self._lists.get(path, -1) + 1
            self.keys.setdefault(path, line)
        path = self._latest(path)
        self._note(path, line)
        self.position += 2 if many else 1
        return path

    def _note(self, path: Key, line: int) -> None:
        if self.keys.setdefault(path, line) != line:
            self.repeated[line] = path

    def _latest(self, path: Key) -> Key:
        return (*path, self._lists[path]) if path in self._lists else path

    def _entry(self, table: Key) -> None:
        line = self._line(self.position)
        path = table
        *outer, last = self._dotted_key()
        for key in outer:
            path = (*path, key)
            self.keys.setdefault(path, line)
        path = (*path, last)
        self._note(path, line)
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

    def _value(self, path: Key) -> None:
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

    def _list(self, path: Key) -> None:
        self.position += 1
        self.unclosed_lists += 1
        index = 0
        self._skip(_BLANK)
        while not self._at("]"):
            self.keys[(*path, index)] = self._line(self.position)
            self._value((*path, index))
            index += 1
            self._separator()
        self.unclosed_lists -= 1
        self.position += 1

    def _inline_table(self, path: Key) -> None:
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

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise _LostError
        self.position = match.end()
        return match.group()

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.position)
        self.position = match.end() if match else self.position


def _content(source: str) -> str:
    """The text that a quoted key stands for."""
    return source[1:-1] if source.startswith("'") else tomllib.loads(f"key = {source}")["key"]
