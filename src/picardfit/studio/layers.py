"""What the pictures of a problem and of its fit are made of: data, curves with bands, residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.marks import limits_of, measured_of
from picardfit.studio.charts import Curve, Points, Shade

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

DATA = "data"  # label of the data where there is only one experiment
Columns = Mapping[str, Sequence[float]]  # of predictions.csv, of one experiment


def data(problem: Problem, one: Experiment, name: str, label: str, colour: int) -> list[Points]:
    """Measured values as rings; censored ones as triangles that point to where the value is."""
    if name not in one.observables:
        return []
    values, limits = measured_of(problem, one, name), limits_of(one, name)
    exact, censored = np.isnan(limits[:, 0]) & np.isfinite(values), ~np.isnan(limits[:, 0])
    found = [Points(label, one.times[exact], values[exact], colour)]
    below, above = censored & np.isinf(limits[:, 0]), censored & np.isinf(limits[:, 1])
    between = censored & ~below & ~above
    for chosen, at, mark in (
        (below, limits[:, 1], "below"),
        (above, limits[:, 0], "above"),
        (between, limits.mean(axis=1), "between"),
    ):
        if chosen.any():
            words = "censored" if label == DATA else label
            found.append(Points(words, one.times[chosen], at[chosen], colour, mark=mark))
    return found


def curve(
    columns: Columns, name: str, label: str, colour: int, bands: bool, joined: bool = True
) -> list[Curve | Shade]:
    """The curve of a quantity, with its band; a quantity that has none is left out."""
    values = np.asarray(columns.get(name, ()), float)
    good = np.isfinite(values)
    if not good.any():
        return []
    times = np.asarray(columns["time"], float)[good].tolist()
    drawn: list[Curve | Shade] = [Curve(label, times, values[good].tolist(), colour, dashed=not joined)]
    if bands and f"{name}_lower" in columns:
        low, high = (np.asarray(columns[f"{name}_{end}"], float)[good] for end in ("lower", "upper"))
        if np.isfinite(low).all() and np.isfinite(high).all():
            drawn.insert(0, Shade(f"{label} band", times, low.tolist(), high.tolist(), colour))
    return drawn


def residuals(fit: Fit, one: Experiment, name: str, label: str, colour: int) -> list[Points]:
    """The standardised residuals of an observable in an experiment."""
    found = fit.residuals.get(one.name, {}).get(name)
    if found is None:
        return []
    kept = np.isfinite(found)
    return [Points(label, one.times[kept], found[kept], colour)]


def time_words(problem: Problem) -> str:
    """The name of the axis of time."""
    unit = problem.model.unit("t")
    return f"time ({unit})" if unit else "time"
