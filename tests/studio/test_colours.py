"""Every text of the page can be read: contrast of WCAG 2 (AA), light and dark, computed from the style sheet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import picardfit.studio
from picardfit.studio.palette import DARK, LIGHT, NOTES

SHEET = (Path(picardfit.studio.__file__).parent / "static" / "studio.css").read_text(encoding="utf-8")
GROUNDS = ("paper", "surface", "raised", "sunken")
TEXT, GRAPHIC = 4.5, 3.0  # WCAG 1.4.3 and 1.4.11
PAIRS = (  # text on a ground of its own, and what stands on it
    *((ink, ground) for ink in ("ink", "soft", "faint", "accent", "bad") for ground in GROUNDS),
    *((ink, "accent-soft") for ink in ("ink", "soft", "faint", "accent", "bad")),
    *((kind, f"{kind}-soft") for kind in ("bad", "mind", "good")),
    ("accent-ink", "accent"),
    ("paper", "ink"),
)
EDGES = tuple((edge, ground) for edge in ("line-strong", "accent", "bad") for ground in GROUNDS)


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


def colours(selector: str) -> dict[str, str]:
    block = re.search(rf"{re.escape(selector)} \{{(.*?)\}}", SHEET, re.DOTALL).group(1)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


LOOKS = {"light": (colours(":root"), LIGHT), "dark": (colours("body.body--dark"), DARK)}


def rules() -> list[tuple[str, str]]:
    """Every rule of the style sheet that names a colour for a text, with the ground that it names itself."""
    found = []
    for body in re.findall(r"\{([^{}]*)\}", SHEET):
        ink = re.search(r"(?:^|[\s;])color: var\(--([\w-]+)\)", body)
        ground = re.search(r"background(?:-color)?: var\(--([\w-]+)\)", body)
        if ink:
            found.append((ink.group(1), ground.group(1) if ground else ""))
    return found


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(("ink", "ground"), PAIRS)
def test_texts_can_be_read(look, ink, ground):
    found, _ = LOOKS[look]
    assert contrast(found[ink], found[ground]) >= TEXT, (ink, ground)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(("edge", "ground"), EDGES)
def test_edges_of_controls_can_be_seen(look, edge, ground):
    found, _ = LOOKS[look]
    assert contrast(found[edge], found[ground]) >= GRAPHIC, (edge, ground)


def test_no_rule_names_a_pair_of_colours_that_is_not_checked():
    grounds = dict.fromkeys(ink for ink, _ in PAIRS)
    for ink, ground in rules():
        assert ink in grounds, ink
        assert not ground or (ink, ground) in PAIRS, (ink, ground)
    assert not re.search(r"opacity: 0?\.[0-3]", SHEET)  # which would make a text fainter than its colour


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("ground", ["surface", "raised"])
def test_colours_of_charts_have_contrast(look, ground):
    found, palette = LOOKS[look]
    assert contrast(palette.ink, found[ground]) >= 7
    assert contrast(palette.faint, found[ground]) >= TEXT
    assert contrast(palette.ink, palette.tip) >= 7
    assert min(contrast(one, found[ground]) for one in palette.series) >= GRAPHIC


@pytest.mark.parametrize("colour", NOTES.values())
def test_notes_can_be_read(colour):
    assert contrast("#ffffff", colour) >= TEXT
