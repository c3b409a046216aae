"""Pictures of a validation: data of other experiments and the curves that were predicted for them."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.labels import not_drawn, short, with_unit
from picardfit.display.plots.marks import draw_data, measured_of
from picardfit.display.plots.style import (
    BLUE,
    STYLE,
    date_axis,
    figure_of,
    legend,
    on_axis,
    written,
)
from picardfit.display.text import time_words
from picardfit.inference.validation import curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.inference.validation import Prediction, Validation


def plot_validation(found: Validation, path: str | Path | None = None) -> Figure:
    """A panel for each observable of each experiment: data, prediction, and the fit in per cent."""
    every = [(name, observable) for name, several in found.scores.items() for observable in several]
    shown = every[: STYLE.experiments]
    across = min(len(shown), 3)
    down = ceil(len(shown) / across)
    figure = figure_of(
        max(STYLE.width, STYLE.panel_width * across),
        STYLE.header + (STYLE.panel_height - STYLE.heading) * down,
    )
    panels = figure.subplots(down, across, squeeze=False).ravel()
    curves = {name: curve(found.predictions[name]) for name in dict.fromkeys(name for name, _ in shown)}
    for panel, (name, observable) in zip(panels, shown, strict=False):
        _draw(panel, found.predictions[name], curves[name], observable)
        percent = found.scores[name][observable].fit_percent
        fits = "" if np.isnan(percent) else f": fit {percent:.0f} %"
        panel.set_title(f"{short(name, STYLE.label)}{fits}", fontsize=STYLE.legend_text, parse_math=False)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    legend(figure, panels[: len(shown)], not_drawn(len(every) - len(shown), "panels"))
    return written(figure, path)


def _draw(
    panel: Axes, one: Prediction, drawn: tuple[np.ndarray, dict[str, np.ndarray]], observable: str
) -> None:
    problem, experiment = one.problem, one.problem.experiments[0]
    times, values = drawn
    draw_data(panel, problem, experiment, observable, experiment.calendar)
    if observable in values:
        along = on_axis(experiment, times, experiment.calendar)
        panel.plot(along, values[observable], color=BLUE, linewidth=STYLE.curve, label="prediction")
    else:
        column = problem.model.observables.index(observable)
        there = np.isfinite(measured_of(problem, experiment, observable))
        along = on_axis(experiment, experiment.times[there], experiment.calendar)
        panel.plot(along, one.rows[there, column], "_", color=BLUE, label="prediction")
    panel.set_ylabel(with_unit(observable, problem.model.unit(observable), STYLE.label), parse_math=False)
    if experiment.calendar is None:
        panel.set_xlabel(with_unit("time", time_words(problem)), parse_math=False)
    date_axis(panel, experiment.calendar)
