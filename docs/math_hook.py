"""Formulas of the pages as MathML, made when the site is built: they need neither JavaScript nor a network."""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]</\1>',
    re.DOTALL,
)


def on_page_content(content: str, **_: object) -> str:
    """Called by MkDocs with the HTML of each page."""
    return FORMULA.sub(_mathml, content)


def _mathml(found: re.Match) -> str:
    display = "block" if found["open"] == "[" else "inline"
    return convert(html.unescape(found["tex"]).strip(), display=display)
