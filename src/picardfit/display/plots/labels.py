"""Names in pictures: shortened so that they fit and still differ, with their units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from picardfit.display.plots.style import STYLE

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.problem.calendar import Calendar


def distinct(names: Iterable[str], longest: int = STYLE.name) -> dict[str, str]:
    """A label of at most `longest` letters for every name, no two alike.

    Names that would look alike when they are cut at their end are cut in the middle, or lose the beginning that they
    share; where that does not help either, they are numbered.
    """
    every = list(dict.fromkeys(names))
    first, last = min(every, default=""), max(every, default="")  # they differ where any two do
    shared = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    ways = (
        lambda name: short(name, longest),
        lambda name: _without_middle(name, longest),
        lambda name: name if len(name) <= longest else short("…" + name[shared:], longest),
    )
    for way in ways:
        labels = {name: way(name) for name in every}
        if len(set(labels.values())) == len(every):
            return labels
    return {
        name: name if len(name) <= longest else f"{short(name, longest - len(mark))}{mark}"
        for name, mark in ((name, f" {k}") for k, name in enumerate(every, 1))
    }


def short(name: str, longest: int = STYLE.name) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _without_middle(name: str, longest: int) -> str:
    """`a long nam…pond 12`."""
    half = (longest - 1) // 2
    return name if len(name) <= longest else f"{name[: longest - 1 - half]}…{name[-half:]}"


def with_unit(name: str, unit: str, longest: int = STYLE.name) -> str:
    return f"{short(name, longest)} ({short(unit, longest)})" if unit else short(name, longest)


def time_label(fit: Fit, calendar: Calendar | None) -> str:
    """`date` for a calendar, in which time zone, or else `time (h)`."""
    if calendar is not None:
        return with_unit("date", calendar.zone)
    return with_unit("time", fit.problem.model.unit("t"))


def misfit_words(size: float) -> str:
    """`misfit 1.0`: two digits, also where the last is a zero."""
    return f"misfit {size:#.2g}".rstrip(".")


def not_drawn(number: int, word: str) -> str:
    """A note for the legend: `3 more unknowns not drawn`; empty if all are drawn."""
    one = word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s")
    return f"{number} more {one if number == 1 else word} not drawn" if number else ""
