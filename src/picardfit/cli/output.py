"""The output files of a fit: fit.json, parameters.csv, predictions.csv, report.html."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.cli.common import make_folder
from picardfit.cli.show import estimated_values, verdicts
from picardfit.display.text import parameter_rows, units
from picardfit.files.json_files import write_text

if TYPE_CHECKING:
    from picardfit.fit import Fit

ENDINGS = ("", "_lower", "_upper")  # of the columns of a prediction


def write_fit(
    fit: Fit, folder: Path, report: bool = True, level: float = 0.95, title: str = "Report of a fit"
) -> list[Path]:
    """Write all files of a fit into a folder; returns their paths."""
    make_folder(folder)
    written = [
        fit.save(folder / "fit.json"),
        write_csv(folder / "parameters.csv", PARAMETER_COLUMNS, parameter_records(fit, level)),
    ]
    if fit.solution is not None:
        written.append(write_csv(folder / "predictions.csv", *_predictions(fit, level)))
        if report:
            written.append(fit.report(folder / "report.html", title))
    return written


PARAMETER_COLUMNS = ("name", "estimate", "standard_error", "lower", "upper", "unit", "remark")


def parameter_records(fit: Fit, level: float) -> list[tuple[object, ...]]:
    """One row per parameter and estimated initial state, with all digits."""
    if fit.solution is None:
        return []
    values, errors, intervals = estimated_values(fit), fit.standard_errors, fit.intervals(level)
    given, said = units(fit), verdicts(fit)
    if not fit.status.converged:
        said = dict.fromkeys(errors, "the fit did not converge")
    rows: list[tuple[object, ...]] = []
    for name, *_, remark in parameter_rows(fit, level):
        low, high = intervals.get(name, (np.nan, np.nan))
        error = errors.get(name, np.nan)
        rows.append((name, values[name], error, low, high, given.get(name, ""), remark or said.get(name, "")))
    return rows


def _predictions(fit: Fit, level: float, points: int = 201) -> tuple[list[str], list[list[object]]]:
    """Observables and hidden states along every experiment, each with its confidence band.

    The times are `points` evenly spaced ones, enough for a smooth curve, and the sampling times.
    """
    model = fit.problem.model
    names = [*model.observables, *(name for name in model.states if name not in model.observables)]
    rows: list[list[object]] = []
    for one in fit.problem.experiments:
        times = np.unique(np.concatenate([np.linspace(one.t0, one.times[-1], points), one.times]))
        curves = {**fit.states(one.name, times), **fit.predict(one.name, times)}
        columns = [times]
        for name, (low, high) in _bands(fit, one.name, names, times, level).items():
            columns += [curves[name], low, high]
        rows += [[one.name, *row] for row in np.stack(columns, axis=1).tolist()]
    return ["experiment", "time", *(f"{name}{end}" for name in names for end in ENDINGS)], rows


def _bands(
    fit: Fit, experiment: str, names: Sequence[str], times: np.ndarray, level: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The lower and upper ends by name, (times,) each; NaN where no optimum was reached."""
    if not fit.status.converged:
        nothing = np.full(len(times), np.nan)
        return dict.fromkeys(names, (nothing, nothing))
    found = fit.bands(experiment, times, level)
    return {name: (found[name].low, found[name].high) for name in names}


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    return write_text(path, csv_text(header, rows))


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV: numbers with all their digits, an empty cell for NaN."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([["" if one != one else one for one in row] for row in rows])
    return text.getvalue()
