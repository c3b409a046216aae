"""The colours of charts, light and dark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """Colours of a chart. People with every kind of sight can distinguish `series` (after Okabe and Ito)."""

    ink: str
    faint: str
    line: str
    accent: str
    warm: str
    tip: str
    series: tuple[str, ...]


NOTES = {"positive": "#0b6b67", "negative": "#a3271f", "info": "#3f4b53"}  # under white words, light and dark

LIGHT = Palette(
    "#1d2429",
    "#626c74",
    "#e6e3da",
    "#0b6b67",
    "#b5501b",
    "#ffffff",
    ("#0b6b67", "#b5501b", "#3f5fa8", "#8a6d00", "#8b3a7e", "#4c7a2c", "#5a636a", "#a3271f"),
)
DARK = Palette(
    "#e7eae8",
    "#98a3a8",
    "#2c353a",
    "#63c7bf",
    "#f0a36b",
    "#1f262b",
    ("#63c7bf", "#f0a36b", "#94b2f2", "#e0c35c", "#dd9ad0", "#a6cf86", "#b6bfc3", "#ff9b8f"),
)
