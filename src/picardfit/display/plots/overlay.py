"""All experiments on one axis for each observable: how subjects differ, and who is far from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.choice import chosen
from picardfit.display.plots.curves import grid, same_time
from picardfit.display.plots.labels import not_drawn, time_label, with_unit
from picardfit.display.plots.marks import draw_data, measured_of
from picardfit.display.plots.residuals import experiment_looks, series_dots
from picardfit.display.plots.style import (
    GREY,
    SCREEN,
    STYLE,
    Look,
    above_rounding,
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
    crowds = _crowds(fit, members, shown, looks)
    for panel, name in zip(panels, shown, strict=True):
        panel.set_xscale("log" if logarithmic else "linear")
        panel.set_yscale("log" if look.log_y else "linear")
        for one in sorted(members, key=lambda e: list(looks).index(e.name)):
            if name in one.observables:
                own = looks[one.name]
                draw_data(
                    panel, problem, one, name, calendar, **series_dots(own, crowds[own["color"] == GREY])
                )
                _draw_curve(fit, panel, one, name, own, calendar, len(members))
        panel.set_ylabel(with_unit(name, problem.model.unit(name), STYLE.label), parse_math=False)
        date_axis(panel, calendar)
        if panel is not panels[-1]:
            panel.tick_params(labelbottom=False)
    same_time(panels)
    panels[-1].set_xlabel(time_label(fit, calendar), parse_math=False)
    censored = any(one.limits is not None for one in members)
    notes = [
        "triangles up and down: censored" if censored else "",
        not_drawn(len(measured) - len(shown), "observables"),
    ]
    legend(figure, panels, "; ".join(filter(None, notes)))
    return written(figure, path)


def _crowds(
    fit: Fit, members: Sequence[Experiment], shown: Sequence[str], looks: Mapping[str, dict[str, Any]]
) -> dict[bool, int]:
    """How many dots share the fullest panel: grey ones (True), and those of experiments with a colour (False).

    All experiments of a kind look alike in all panels, and as in the legend.
    """
    counts = {True: [0], False: [0]}
    for name in shown:
        for grey, found in counts.items():
            alike = [
                one
                for one in members
                if name in one.observables and (looks[one.name]["color"] == GREY) == grey
            ]
            found.append(sum(int(np.isfinite(measured_of(fit.problem, one, name)).sum()) for one in alike))
    return {grey: max(found) for grey, found in counts.items()}


def _draw_curve(
    fit: Fit,
    panel: Axes,
    one: Experiment,
    name: str,
    look: dict[str, Any],
    calendar: Calendar | None,
    count: int,
) -> None:
    """The curve of one observable of one experiment, of `count` ones."""
    if fit.solution is None:
        return
    if name in fit.problem.model.increments:
        times = one.count_times(name)
    else:
        points = int(np.clip(STYLE.all_points // count, STYLE.points[0] // 2, STYLE.points[1]))
        knots = fit.solution.system.mesh.knots[fit.problem.names.index(one.name)]
        times = grid(one, knots, panel.get_xscale() == "log", points)
    line: dict[str, Any] = {"linewidth": STYLE.line, "linestyle": look["line"], "label": "_"}
    if look["color"] == GREY:
        line = {**line, "linewidth": STYLE.grid_line, "zorder": 1.2, "alpha": STYLE.box}
    values = fit.predict(one.name, times)[name]
    if panel.get_yscale() == "log":
        values = above_rounding(values)
    panel.plot(on_axis(one, times, calendar), values, color=look["color"], **line)
