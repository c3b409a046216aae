"""profiles.csv: a table of profiles to which every call of `picardfit profile` adds."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.cli.common import csv_text
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.inference.profile import Profile

COLUMNS = ("name", "value", "rise")
Points = list[tuple[float, float]]  # value and rise


@dataclass(frozen=True)
class SameEstimate:
    """When profiles belong to a fit."""

    part: float = 1e-3  # of the width of a profile that may lie between its lowest point and the estimate


@dataclass(frozen=True)
class Earlier:
    """The profiles of an earlier call, and those that are not kept as they belong to other estimates."""

    kept: dict[str, Points]
    dropped: tuple[str, ...] = ()


def earlier_profiles(path: Path, fit: Fit, same: SameEstimate = SameEstimate()) -> Earlier:
    """What a profiles.csv holds, if there is one; of other estimates than those of the fit only the names."""
    kept = _read(path) if path.is_file() else {}
    dropped = tuple(name for name, points in kept.items() if not _belongs(name, points, fit, same))
    return Earlier({name: points for name, points in kept.items() if name not in dropped}, dropped)


def with_profiles(earlier: Earlier, profiles: Mapping[str, Profile]) -> str:
    """The content of profiles.csv: earlier profiles, in whose places new ones of the same name stand, then others."""
    new = {name: list(zip(one.values, one.rises, strict=True)) for name, one in profiles.items()}
    together = {**earlier.kept, **new}
    return csv_text(COLUMNS, [(name, *point) for name, points in together.items() for point in points])


def _read(path: Path) -> dict[str, Points]:
    found: dict[str, Points] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        if tuple(header) != COLUMNS:
            raise ValueError
        for name, value, rise in rows:
            found.setdefault(name, []).append((float(value), float(rise)))
    except (OSError, ValueError):  # also a file that is no text
        raise InputError("cli.not_profiles", str(path)) from None
    return found


def _belongs(name: str, points: Points, fit: Fit, same: SameEstimate) -> bool:
    """Whether a profile is one of this fit: its lowest point is at the estimate."""
    import numpy as np

    from picardfit.inference.population.answer import PopulationFit
    from picardfit.problem.quantity import quantity

    if isinstance(fit, PopulationFit):
        spreads = {f"sd({name})": one.sd for name, one in fit.population.spreads.items()}
        return _at_lowest(points, {**fit.parameters, **spreads}.get(name), same)
    layout = fit.problem.layout
    try:
        one = quantity(fit.problem, name)
    except InputError:  # the model has no such unknown any more
        return False
    solution = fit.solution
    if solution is None:
        return False
    estimate = float(one.natural(layout, np.array(one.value(layout, solution.unknowns))))
    return _at_lowest(points, estimate, same)


def _at_lowest(points: Points, estimate: float | None, same: SameEstimate) -> bool:
    """Whether the lowest point is at this estimate."""
    values, lowest = [value for value, _ in points], min(points, key=lambda point: abs(point[1]))[0]
    return estimate is not None and abs(estimate - lowest) <= same.part * (max(values) - min(values))
