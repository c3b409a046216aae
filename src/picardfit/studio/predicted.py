"""The curves that a fit has written, as many points of them as a chart can show."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from picardfit.studio.charts import thinned

Predictions = dict[str, dict[str, list[float]]]  # experiment -> column -> numbers
WHOSE = ("experiment", "individual")


def read_predictions(path: Path, points: int) -> Predictions:
    """The columns of predictions.csv by experiment; empty without the file. `points`: about the most of each."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
    except (OSError, ValueError):
        return {}
    whose = next((k for k, name in enumerate(header) if name in WHOSE), None)
    if whose is None:
        return {}
    by_experiment: dict[str, list[Sequence[str]]] = {}
    for row in rows:
        by_experiment.setdefault(row[whose], []).append(row)
    return {name: _columns(header, whose, own, points) for name, own in by_experiment.items()}


def _columns(
    header: Sequence[str], whose: int, rows: Sequence[Sequence[str]], points: int
) -> dict[str, list[float]]:
    found = {
        # of a population: beside the typical curve
        name.removesuffix("_individual"): np.array([float(row[k]) if row[k] else np.nan for row in rows])
        for k, name in enumerate(header)
        if k != whose and name != "date"
    }
    kept = _kept(found, points)
    return {name: values[kept].tolist() for name, values in found.items()}


def _kept(columns: dict[str, np.ndarray], points: int) -> np.ndarray:
    """Rows that look like all of them: the extremes of every column in every stretch of time."""
    times = columns["time"]
    if len(times) <= points:
        return np.arange(len(times))
    chosen = []
    for values in columns.values():
        own = np.flatnonzero(np.isfinite(values))
        if len(own):
            chosen.append(own[thinned(times[own], values[own], points // len(columns))])
    return np.unique(np.concatenate(chosen))
