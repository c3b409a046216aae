"""Options that figures share: size, resolution, axes, style."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.errors import InputError, closest

if TYPE_CHECKING:
    from picardfit.display.plots.style import Look

Size = Annotated[
    str | None,
    typer.Option(help="Width, or width x height: 8.5cm, 17x10cm, 6.7x4in. By default as the content needs."),
]
Dpi = Annotated[
    int | None, typer.Option(min=30, max=2400, help="Dots per inch: 150, or 300 in the style for print.")
]
LogX = Annotated[bool | None, typer.Option("--log-x/--linear-x", help="Scale of the time axis.")]
LogY = Annotated[bool | None, typer.Option("--log-y/--linear-y", help="Scale of the values.")]
Style = Annotated[str, typer.Option(help="screen, or print: sizes of a journal, no grid, 300 dots per inch.")]
Experiments = Annotated[
    list[str] | None,
    typer.Option("--experiments", "--experiment", "-e", help="An experiment to show; may be repeated."),
]
INCHES = {"cm": 1 / 2.54, "mm": 1 / 25.4, "in": 1.0, "": 1 / 2.54}  # in a unit of --size
SIZES = (0.5, 80.0)  # inches: the smallest and largest side of a figure


def look_of(
    style: str,
    size: str | None = None,
    dpi: int | None = None,
    log_x: bool | None = None,
    log_y: bool | None = None,
) -> Look:
    """What the options say about the looks of a figure."""
    from picardfit.display.plots.style import LOOKS

    if style not in LOOKS:
        known = list(LOOKS)
        raise InputError("cli.no_such_style", style, known=known, close=closest(style, known))
    look = replace(LOOKS[style], log_x=log_x, log_y=log_y)
    if size is not None:
        look = replace(look, size=inches(size))
    return look if dpi is None else replace(look, dots_per_inch=dpi)


def inches(text: str) -> tuple[float, float | None]:
    """`17x10cm` as width and height in inches; `8.5cm` is a width."""
    number = r"(\d+(?:[.,]\d+)?)\s*(?:cm|mm|in)?"
    found = re.fullmatch(rf"\s*{number}(?:\s*[x×*]\s*{number})?\s*", text.lower())
    units = set(re.findall(r"cm|mm|in", text.lower()))
    if found is None or len(units) > 1:
        raise InputError("cli.size", text)
    factor = INCHES[next(iter(units), "")]
    sides = [factor * float(one.replace(",", ".")) for one in found.groups() if one is not None]
    if not all(SIZES[0] <= side <= SIZES[1] for side in sides):
        raise InputError(
            "cli.size_range", text, smallest=SIZES[0] / INCHES["cm"], largest=SIZES[1] / INCHES["cm"]
        )
    return sides[0], sides[1] if len(sides) > 1 else None
