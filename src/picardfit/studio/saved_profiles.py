"""The profiles beside a fit, as far as they belong to it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picardfit.cli.profiles_file import Earlier, earlier_profiles
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.fit import Fit

PROFILES, INTERVALS = "profiles.csv", "profile-intervals.csv"
COLUMNS = ("name", "estimate", "lower", "upper")
Rows = dict[str, tuple[float, float, float]]  # name -> estimate and both ends of its interval


def belonging(results: Path, fit: Fit) -> Earlier:
    """The profiles of a folder that belong to the fit; none of a file that cannot be read."""
    try:
        return earlier_profiles(results / PROFILES, fit)
    except InputError:
        return Earlier({}, (PROFILES,))


def outdated(results: Path, fit: Fit) -> tuple[str, ...]:
    """The files with profiles that belong to another fit, which nobody should take for those of this one."""
    return (PROFILES, INTERVALS) if belonging(results, fit).dropped else ()


def records(results: Path, fit: Fit) -> dict[str, dict[str, Any]]:
    """name -> profile of this fit, as it is drawn."""
    ends, found = intervals(results), {}
    for name, points in belonging(results, fit).kept.items():
        if name in ends:
            estimate, low, high = ends[name]
            found[name] = {
                "values": [value for value, _ in points],
                "rises": [rise for _, rise in points],
                "estimate": estimate,
                "interval": [end if abs(end) < float("inf") else None for end in (low, high)],
            }
    return found


def intervals(results: Path) -> Rows:
    """What profile-intervals.csv holds; nothing without one that can be read."""
    try:
        with (results / INTERVALS).open(encoding="utf-8", newline="") as file:
            return {name: (float(a), float(b), float(c)) for name, a, b, c in [*csv.reader(file)][1:]}
    except (OSError, ValueError):
        return {}
