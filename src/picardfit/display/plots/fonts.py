"""Fonts for letters that the usual font does not have: names in Chinese, Arabic and the like.

Matplotlib draws a letter with the first family of a text that has it; a letter that none has becomes a box.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

from picardfit.errors import Notice

NOT_A_FONT = "Last Resort"  # draws a box for every letter there is


@contextmanager
def lettered(figure: Figure) -> Iterator[str]:
    """Give the texts of a figure fonts for all of their letters; the value is those without one, which stay boxes.

    Matplotlib's warnings of each of them are silent in this context.
    """
    texts = [one for one in figure.findobj(Text) if not one.get_text().isascii()]
    used = frozenset("".join(one.get_text() for one in texts)) - {"\n"}
    families, lost = fallbacks(used)
    for one in texts if families else ():
        one.set_fontfamily([FontProperties().get_name(), *families])
    with warnings.catch_warnings():
        if lost:
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield "".join(sorted(lost))


def tell_lost(letters: str) -> None:
    """Say once which letters of a picture are boxes."""
    if letters:
        logging.getLogger("picardfit").warning(str(Notice("display.letters_lost", letters)))


@cache
def fallbacks(used: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Families for those of these letters that the usual font lacks, and the letters that no installed font has.

    Of the installed fonts the one with most of the letters comes first; among equals, one without serifs.
    """
    missing = used - {chr(code) for code in get_font(findfont(FontProperties())).get_charmap()}
    if not missing:
        return (), missing
    able: dict[str, frozenset[str]] = {}
    for font in fontManager.ttflist:
        if font.style == "normal" and not font.name.startswith(NOT_A_FONT):
            has = frozenset(map(chr, get_font(font.fname).get_charmap())) & missing
            able[font.name] = able.get(font.name, frozenset()) | has
    families = []
    while missing and able:
        best = min(able, key=lambda name: (-len(able[name] & missing), "Sans" not in name, name))
        if not able[best] & missing:
            break
        families.append(best)
        missing -= able.pop(best)
    return tuple(families), missing
