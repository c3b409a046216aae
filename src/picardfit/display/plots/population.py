"""Pictures of a population fit: individuals, observed against predicted values, residuals, effects over covariates."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.choice import chosen
from picardfit.display.plots.curves import grid
from picardfit.display.plots.labels import distinct, not_drawn, short, time_label, with_unit
from picardfit.display.plots.marks import dots_of, draw_data
from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    SCREEN,
    STYLE,
    Look,
    arrangement,
    common_calendar,
    date_axis,
    figure_of,
    legend,
    on_axis,
    spans_decades,
    thin,
    written,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.inference.population.answer import PopulationFit
    from picardfit.problem.experiment import Experiment

NORMAL_95 = 1.96  # between -1.96 and 1.96 lie 95 % of standard normal numbers


def plot_individuals(
    fit: PopulationFit,
    path: str | Path | None = None,
    experiments: Iterable[str] | None = None,
    look: Look = SCREEN,
) -> Figure:
    """Data, the curve of each individual and that of the typical one with its doses and covariates.

    At most 12 individuals: of more the worst and typical ones; choose others by their names in `experiments`.
    """
    choice = chosen(fit.individual_fit, experiments, look.experiments)
    members = [fit.problem.experiments[fit.problem.names.index(name)] for name in choice.names]
    shown = measured_names(fit)
    (blocks, columns), height = arrangement(len(members), look.columns), len(shown)
    width = max(STYLE.width, STYLE.panel_width * columns)
    tall = STYLE.header + blocks * (STYLE.heading + STYLE.flat[1] * height)
    figure = figure_of(width, tall, look, columns)
    panels = figure.subplots(blocks * height, columns, squeeze=False, sharex=look.log_x is None)
    labels, points = distinct(choice.names, STYLE.label), STYLE.points[0]
    for place, one in enumerate(members):
        block, column = divmod(place, columns)
        own = panels[block * height : (block + 1) * height, column]
        for panel, name in zip(own, shown, strict=True):
            _draw_individual(fit, panel, one, name, points, look)
            if column == 0:
                panel.set_ylabel(with_unit(name, fit.problem.model.unit(name), STYLE.label), parse_math=False)
        own[0].set_title(labels[one.name], parse_math=False, fontsize=STYLE.title)
        own[-1].set_xlabel(time_label(fit.individual_fit, one.calendar), parse_math=False)
    for row in panels[(blocks - 1) * height :]:
        for panel in row[len(members) - (blocks - 1) * columns :]:
            panel.set_axis_off()
    for k in range(height):
        _share_values(panels[k::height].ravel()[: len(members)])
    left_out = not_drawn(len(fit.problem.model.observables) - len(shown), "observables")
    legend(figure, panels.ravel(), "; ".join(filter(None, [choice.words, left_out])))
    return written(figure, path)


def measured_names(fit: PopulationFit) -> list[str]:
    """The observables that were measured, at most as many as a figure has room for."""
    measured = {name for one in fit.problem.experiments for name in one.observables}
    return [name for name in fit.problem.model.observables if name in measured][: STYLE.quantities]


def _draw_individual(
    fit: PopulationFit, panel: Axes, one: Experiment, name: str, points: int, look: Look
) -> None:
    logarithmic = spans_decades(one.times) if look.log_x is None else look.log_x
    logarithmic = logarithmic and one.calendar is None and float(one.times[-1]) > 0
    for typical, words, line in (
        (True, "typical individual", {"color": ORANGE, "linestyle": (0, (4, 2))}),
        (False, "this individual", {"color": BLUE}),
    ):
        source = fit.typical_fit if typical else fit.individual_fit
        assert source.solution is not None
        knots = source.solution.system.mesh.knots[fit.problem.names.index(one.name)]
        counted = name in fit.problem.model.increments
        times = one.count_times(name) if counted else grid(one, knots, logarithmic, points)
        values, style = source.predict(one.name, times)[name], {"linewidth": STYLE.curve, "label": words}
        panel.plot(on_axis(one, times, one.calendar), values, **style, **line)  # type: ignore[arg-type]
    if name in one.observables:
        draw_data(panel, fit.problem, one, name, one.calendar)
    if logarithmic:
        panel.set_xscale("log")
    if look.log_y:
        panel.set_yscale("log", nonpositive="mask")
    date_axis(panel, one.calendar)


def _share_values(panels: Iterable[Axes]) -> None:
    """The same range of values for all panels of an observable, so that individuals can be compared."""
    every = list(panels)
    ends = np.array([panel.get_ylim() for panel in every])
    for panel in every:
        panel.set_ylim(ends[:, 0].min(), ends[:, 1].max())


# ---- observed and predicted ------------------------------------------------------------------------------------------


def plot_observed(fit: PopulationFit, path: str | Path | None = None, look: Look = SCREEN) -> Figure:
    """Measured values over the prediction for the typical individual and over that for the individual itself."""
    table, shown = fit.population.residuals(), measured_names(fit)
    figure, panels = _pairs(len(shown), look, square=True)
    for row, name in zip(panels, shown, strict=True):
        mine = table[(table.observable == name)]
        quantity = with_unit(name, fit.problem.model.unit(name), STYLE.label)
        for panel, column, words in zip(row, ("pred", "ipred"), ("typical", "individual"), strict=True):
            _draw_scatter(panel, mine, mine[column], mine.value)
            both = np.concatenate([mine[column], mine.value])
            both = both[both > 0] if look.log_x or look.log_y else both
            ends = [both.min(), both.max()] if len(both) else [0.0, 1.0]
            panel.plot(ends, ends, label="predicted = measured", **thin(INK, "-"))
            for wanted, scale in ((look.log_x, panel.set_xscale), (look.log_y, panel.set_yscale)):
                if wanted:
                    scale("log", nonpositive="mask")
            panel.set_xlabel(f"{words} prediction, {quantity}", parse_math=False)
            panel.set_ylabel(f"measured {quantity}", parse_math=False)
    legend(figure, panels.ravel(), "")
    return written(figure, path)


def plot_cwres(fit: PopulationFit, path: str | Path | None = None, look: Look = SCREEN) -> Figure:
    """Conditional weighted residuals over time and over the typical prediction; 95 % lie between the dashes."""
    return _plot_errors(
        fit, fit.population.residuals(), "cwres", "conditional weighted\nresidual", path, look
    )


def plot_npde(fit: PopulationFit, path: str | Path | None = None, look: Look = SCREEN) -> Figure:
    """Normalised prediction distribution errors over time and over the typical prediction, by simulation."""
    return _plot_errors(fit, fit.population.npde(), "npde", "npde", path, look)


def _plot_errors(
    fit: PopulationFit, table: pd.DataFrame, column: str, words: str, path: str | Path | None, look: Look
) -> Figure:
    shown, calendar = measured_names(fit), common_calendar(fit.problem.experiments)
    by_name = dict(zip(fit.problem.names, fit.problem.experiments, strict=True))
    figure, panels = _pairs(len(shown), look)
    for (over_time, over_value), name in zip(panels, shown, strict=True):
        mine = table[table.observable == name]
        along = np.array(
            [
                on_axis(by_name[who], np.array([time]), calendar)[0]
                for who, time in zip(mine.individual, mine.time, strict=True)
            ]
        )
        for panel, values in ((over_time, along), (over_value, mine.pred.to_numpy())):
            panel.axhline(0.0, **thin(INK, "-"))
            for end in (-NORMAL_95, NORMAL_95):
                panel.axhline(end, label="95 % of a standard normal distribution", **thin(GREY, "--"))
            _draw_scatter(panel, mine, values, mine[column])
            _draw_trend(panel, values, mine[column].to_numpy())
            panel.set_ylabel(f"{words}\n{short(name, STYLE.label)}", parse_math=False)
        decades = spans_decades(np.sort(along)) if look.log_x is None else look.log_x
        if decades and calendar is None:
            over_time.set_xscale("log", nonpositive="mask")
        date_axis(over_time, calendar)
        over_time.set_xlabel(time_label(fit.individual_fit, calendar), parse_math=False)
        quantity = with_unit(name, fit.problem.model.unit(name), STYLE.label)
        over_value.set_xlabel(f"typical prediction, {quantity}", parse_math=False)
    legend(figure, panels.ravel(), "")
    return written(figure, path)


def _pairs(rows: int, look: Look, square: bool = False) -> tuple[Any, np.ndarray]:
    """A figure with two panels for each observable: (rows, 2)."""
    tall = (2 if look.narrow else 1) * rows
    each = STYLE.panel_height if square else STYLE.flat[1]
    figure = figure_of(STYLE.wide, STYLE.header + STYLE.heading + each * tall, look)
    return figure, figure.subplots(tall, 1 if look.narrow else 2, squeeze=False).reshape(-1, 2)


def _draw_scatter(panel: Axes, table: pd.DataFrame, along: Any, values: Any) -> None:
    """Exact values as dots, censored ones as triangles at their limit."""
    censored, along, values = table.censored.to_numpy(), np.asarray(along), np.asarray(values)
    dots = dots_of(len(table))
    panel.plot(along[~censored], values[~censored], marker="o", label="data", **dots)
    if np.isfinite(values[censored]).any():
        panel.plot(along[censored], values[censored], marker="v", label="censored", **dots)


def _draw_trend(panel: Axes, along: np.ndarray, values: np.ndarray, groups: int = 8) -> None:
    """Means of about equally many neighbours, which stay near zero where the model is right."""
    there = np.isfinite(values) & np.isfinite(along)
    order = np.argsort(along[there], kind="stable")
    along, values = along[there][order], values[there][order]
    if len(values) < 3 * groups:
        return
    parts = np.array_split(np.arange(len(values)), groups)
    middle = [(np.mean(along[part]), np.mean(values[part])) for part in parts]
    panel.plot(*np.array(middle).T, color=ORANGE, linewidth=STYLE.curve, label="mean of neighbours")


# ---- random effects --------------------------------------------------------------------------------------------------


def plot_effects(fit: PopulationFit, path: str | Path | None = None, look: Look = SCREEN) -> Figure:
    """The most probable effects of the individuals over their covariates, with straight lines through them."""
    effects, every = fit.population.effects, fit.problem.experiments
    names = list(dict.fromkeys(name for one in every for name in one.covariates))[: STYLE.columns]
    shown = list(effects.columns)[: STYLE.quantities]
    height = STYLE.header + STYLE.heading + STYLE.flat[1] * len(shown)
    figure = figure_of(max(STYLE.width, STYLE.panel_width * len(names)), height, look, len(names))
    panels = figure.subplots(len(shown), len(names), squeeze=False, sharex="col", sharey="row")
    for row, effect in zip(panels, shown, strict=True):
        for panel, name in zip(row, names, strict=True):
            along = np.array([one.covariates.get(name, np.nan) for one in every])
            values = effects[effect].to_numpy()
            panel.axhline(0.0, **thin(INK, "-"))
            panel.plot(along, values, marker="o", label="individual", **dots_of(len(values)))
            _draw_line(panel, along, values)
        row[0].set_ylabel(f"effect on {short(effect, STYLE.label)}", parse_math=False)
    for panel, name in zip(panels[-1], names, strict=True):
        panel.set_xlabel(short(name, STYLE.label), parse_math=False)
    left = not_drawn(len(effects.columns) - len(shown), "effects")
    legend(figure, panels.ravel(), left)
    return written(figure, path)


def _draw_line(panel: Axes, along: np.ndarray, values: np.ndarray) -> None:
    """The least-squares line, and the correlation in words, where the covariate varies."""
    there = np.isfinite(along) & np.isfinite(values)
    x, y = along[there], values[there]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    slope, start = np.polyfit(x, y, 1)
    ends = np.array([x.min(), x.max()])
    panel.plot(ends, start + slope * ends, color=ORANGE, linewidth=STYLE.curve, label="least squares")
    said = f"correlation {np.corrcoef(x, y)[0, 1]:.2f}"
    panel.set_title(said, fontsize=STYLE.text, loc="right")
