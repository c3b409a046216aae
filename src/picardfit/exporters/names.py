"""Names that another language accepts: its keywords, its alphabet and what the file itself uses are avoided."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Spelling:
    """Which names a language accepts."""

    reserved: frozenset[str]  # keywords, functions, and the names that the exported file uses for itself
    ascii: bool = True  # whether names are made of ASCII letters, digits and underscores only
    ignores_case: bool = False  # whether `Time` is the keyword `time`

    def accepts(self, name: str) -> bool:
        """Whether a name may stand as it is. No language here accepts a name that begins with an underscore."""
        plain = re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) if self.ascii else name.isidentifier()
        reserved = self._cased(name) in {self._cased(one) for one in self.reserved}
        return bool(plain) and not reserved and not name.startswith("_") and not name.endswith("__")

    def _cased(self, name: str) -> str:
        return name.lower() if self.ignores_case else name


@dataclass
class Names:
    """Names in another language, given one by one; no two are equal."""

    spelling: Spelling
    given: dict[str, str] = field(default_factory=dict)  # name here -> name there
    taken: set[str] = field(default_factory=set)

    def add(self, name: str, also: str = "") -> str:
        """The name there of a name here; `also` is what to call it where another thing has its name already."""
        plain = _plain(name, self.spelling.ascii)
        candidates = [plain, *([f"{plain}_{also}"] if also else [])]
        number = 1
        while not (self.spelling.accepts(candidates[0]) and candidates[0] not in self.taken):
            candidates = candidates[1:] or [f"{plain.rstrip('_')}_{number}"]
            number += len(candidates) == 1 and candidates[0].endswith(f"_{number}")
        self.taken.add(candidates[0])
        self.given.setdefault(name, candidates[0])
        return candidates[0]

    def add_all(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.add(name) for name in names}


def renamed(given: Mapping[str, str]) -> dict[str, str]:
    """The names that changed."""
    return {here: there for here, there in given.items() if here != there}


def _plain(name: str, ascii_only: bool) -> str:
    """A name made of letters, digits and underscores: `β` is spelled `beta`, a blank is an underscore."""
    letters = (one if one.isascii() or not ascii_only else _spelled(one) for one in name)
    plain = re.sub(r"\W+", "_", "".join(letters)).strip("_") or "name"
    return plain if plain[0].isalpha() else f"n{plain}"


def _spelled(letter: str) -> str:
    """A letter in ASCII: without its accent, or the last word of its name in Unicode."""
    base = unicodedata.normalize("NFKD", letter)[0]
    if base.isascii():
        return base
    found = re.search(r"LETTER (?:\w+ )*?(\w+)(?: WITH .*)?$", unicodedata.name(letter, ""))
    word = found[1] if found else f"u{ord(letter):x}"
    return word.capitalize() if letter.isupper() else word.lower()


def plain_text(text: str, longest: int = 200) -> str:
    """A text for a comment or a note: on one line, without control characters, and not too long."""
    line = "".join(one if one.isprintable() else " " for one in str(text))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
