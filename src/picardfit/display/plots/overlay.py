"""All experiments on one axis for each observable: how subjects differ, and who is far from the others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.choice import chosen
from picardfit.display.plots.curves import grid
from picardfit.display.plots.labels import not_drawn, time_label, with_unit
from picardfit.display.plots.marks import draw_data, measured_of
from picardfit.display.plots.residuals import experiment_looks, series_dots
from picardfit.display.plots.style import (
    GREY,
    SCREEN,
    STYLE,
    Look,
    common_calendar,
    date_axis,
    figure_of,
    legend,
    on_axis,
    spans_decades,
    written,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.fit import Fit
    from picardfit.problem.calendar import Calendar
    from picardfit.problem.experiment import Experiment


def plot_overlay(
    fit: Fit,
    path: str | Path | None = None,
    experiments: Iterable[str] | None = None,
    look: Look = SCREEN,
) -> Figure:
    """Data and fitted curves of all experiments, a panel for each observable; colours and shapes tell them apart.

    Of more than twelve experiments, those that fit worst have a colour and a shape, and the others are grey.
    """
    problem, calendar = fit.problem, common_calendar(fit.problem.experiments)
    names = (
        list(problem.names)
        if experiments is None
        else list(chosen(fit, experiments, len(problem.names)).names)
    )
    members = [problem.experiments[problem.names.index(name)] for name in names]
    measured = [n for n in problem.model.observables if any(n in one.observables for one in members)]
    shown = measured[: STYLE.quantities]
    each = STYLE.panel_height if len(shown) == 1 else STYLE.flat[1]
    figure = figure_of(STYLE.width, STYLE.header + STYLE.heading + each * len(shown), look)
    panels = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    looks = experiment_looks(fit, names, figure)
    decades = calendar is None and all(spans_decades(one.times) for one in members)
    logarithmic = decades if look.log_x is None else look.log_x and calendar is None
    for panel, name in zip(panels, shown, strict=True):
        panel.set_xscale("log" if logarithmic else "linear")
        panel.set_yscale("log" if look.log_y else "linear")
        for one in sorted(members, key=lambda e: list(looks).index(e.name)):
            if name in one.observables:
                _draw(fit, panel, one, name, looks[one.name], calendar, len(members))
        panel.set_ylabel(with_unit(name, problem.model.unit(name), STYLE.label), parse_math=False)
        date_axis(panel, calendar)
        if panel is not panels[-1]:
            panel.tick_params(labelbottom=False)
    panels[-1].set_xlabel(time_label(fit, calendar), parse_math=False)
    censored = any(one.limits is not None for one in members)
    notes = [
        "triangles up and down: censored" if censored else "",
        not_drawn(len(measured) - len(shown), "observables"),
    ]
    legend(figure, panels, "; ".join(filter(None, notes)))
    return written(figure, path)


def _draw(
    fit: Fit,
    panel: Axes,
    one: Experiment,
    name: str,
    look: dict[str, Any],
    calendar: Calendar | None,
    count: int,
) -> None:
    """Data and curve of one observable of one experiment; censored values are triangles in its colour."""
    colour, data = look["color"], measured_of(fit.problem, one, name)
    dots = series_dots(look, (count if colour == GREY else STYLE.worst) * int(np.isfinite(data).sum()))
    draw_data(panel, fit.problem, one, name, calendar, **dots)
    if fit.solution is None:
        return
    if name in fit.problem.model.increments:
        times = one.count_times(name)
    else:
        points = int(np.clip(STYLE.all_points // count, STYLE.points[0] // 2, STYLE.points[1]))
        knots = fit.solution.system.mesh.knots[fit.problem.names.index(one.name)]
        times = grid(one, knots, panel.get_xscale() == "log", points)
    line: dict[str, Any] = {"linewidth": STYLE.line, "linestyle": look["line"], "label": "_"}
    if colour == GREY:
        line = {**line, "linewidth": STYLE.grid_line, "zorder": 1.2, "alpha": STYLE.box}
    panel.plot(on_axis(one, times, calendar), fit.predict(one.name, times)[name], color=colour, **line)
