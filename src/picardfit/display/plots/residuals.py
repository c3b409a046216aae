"""Residuals over time and over the fitted value, standardised by the noise model where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.choice import chosen, misfits
from picardfit.display.plots.labels import distinct, misfit_words, not_drawn, time_label, with_unit
from picardfit.display.plots.marks import dots_of, measured_of
from picardfit.display.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    LINES,
    MARKERS,
    SCREEN,
    STYLE,
    Look,
    Picture,
    common_calendar,
    date_axis,
    figure_of,
    legend,
    legend_letters,
    letters,
    log_ticks,
    on_axis,
    spans_decades,
    thin,
    written,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.fit import Fit
    from picardfit.problem.calendar import Calendar
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

Series = Mapping[str, np.ndarray]  # experiment -> (3, samples): time on the axis, fitted value, residual


def plot_residuals(
    fit: Fit,
    path: str | Path | None = None,
    experiments: Iterable[str] | None = None,
    look: Look = SCREEN,
) -> Figure:
    """Residuals of every observable, over time and over the fitted value; dashes at two standard deviations.

    With a noise model they are standardised: standard normal if the noise is as assumed, whatever its kind; counts and
    censored values by randomised quantiles. Without one they are data minus fit. Each experiment has its own colour
    and shape; of more than twelve, those that fit worst have, and the others are grey.
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
    tall = (2 if look.narrow else 1) * len(shown)
    figure = figure_of(STYLE.wide, STYLE.header + STYLE.heading + STYLE.flat[1] * tall, look)
    panels = figure.subplots(tall, 1 if look.narrow else 2, squeeze=False).reshape(-1, 2)
    looks = experiment_looks(fit, names, figure)
    labels = distinct(shown, letters(STYLE.flat[1] * look.lower, look.text + 1))
    for (over_time, over_value), name in zip(panels, shown, strict=True):
        found = {one.name: residuals(fit, one, name, calendar) for one in members if name in one.observables}
        _draw_lines((over_time, over_value), found, standardised=problem.noise is not None)
        _draw_series((over_time, over_value), found, looks)
        over_time.sharey(over_value)
        _scale_time(over_time, found, calendar, look)
        if _grows_with_the_value(problem, name):
            _scale_values(over_value, found)
        quantity, unit = with_unit(name, problem.model.unit(name)), problem.model.unit(name)
        beside = with_unit(labels[name], unit if problem.noise is None else "")
        said = "standardised residual\n" if problem.noise is not None else "data − fit\n"
        for panel in (over_time, over_value) if look.narrow else (over_time,):
            panel.set_ylabel(f"{said}{beside}", parse_math=False)
        over_value.set_xlabel(f"fitted {quantity}", parse_math=False)
        date_axis(over_time, calendar)
    for panel in panels[:, 0] if look.narrow else panels[-1:, 0]:
        panel.set_xlabel(time_label(fit, calendar), parse_math=False)
    legend(figure, panels.ravel(), not_drawn(len(measured) - len(shown), "observables"))
    return written(figure, path)


def _fitted(fit: Fit, one: Experiment, observable: str, times: np.ndarray) -> np.ndarray:
    """(times,): what the model says of an observable at times of its measurements."""
    if observable not in fit.problem.model.increments:
        return fit.predict(one.name, times)[observable]
    every = one.count_times(observable)  # an increment is since the count before
    return np.asarray(fit.predict(one.name, every)[observable][np.searchsorted(every, times)])


def residuals(fit: Fit, one: Experiment, observable: str, calendar: Calendar | None) -> np.ndarray:
    """(3, samples): times on the axis, fitted values and residuals, where the observable was measured."""
    data = measured_of(fit.problem, one, observable)
    there = np.isfinite(data)
    times, data = one.times[there], data[there]
    along = on_axis(one, times, calendar)
    if fit.solution is None:
        nothing = np.full(len(times), np.nan)
        return np.stack([along, nothing, nothing])
    fitted = _fitted(fit, one, observable, times)
    standard = fit.residuals[one.name][observable][there]
    return np.stack([along, fitted, data - fitted if fit.problem.noise is None else standard])


def experiment_looks(fit: Fit, names: Iterable[str], figure: Picture) -> dict[str, dict[str, Any]]:
    """Colour, shape and label of every experiment where several share a panel of a figure.

    Up to twelve have their own; of more only those that fit worst, and the others are small and grey.
    """
    names = list(names)
    if len(names) == 1:
        return {names[0]: {"color": BLUE, "marker": "o", "line": "-", "label": "_"}}
    shapes = [
        {"color": COLOURS[k % len(COLOURS)], "marker": marker, "line": LINES[k // len(COLOURS) % len(LINES)]}
        for k, marker in enumerate(MARKERS)
    ]
    if len(names) <= len(shapes):
        labels = distinct(names, legend_letters(names, figure))
        return {n: {**shape, "label": labels[n]} for n, shape in zip(names, shapes, strict=False)}
    sizes = misfits(fit)
    worst = sorted(names, key=lambda n: -np.nan_to_num(sizes[n], nan=-1.0))[: STYLE.worst]
    words = {n: f" ({misfit_words(sizes[n])})" for n in worst}
    labels = distinct(worst, legend_letters(worst, figure, max(map(len, words.values()))))
    looks = {n: {**s, "label": labels[n] + words[n]} for n, s in zip(worst, shapes, strict=False)}
    others = {"color": GREY, "marker": "o", "line": "-", "label": f"the {len(names) - len(worst)} others"}
    return looks | {name: others for name in names if name not in worst}


def _draw_lines(panels: Iterable[Axes], found: Series, standardised: bool) -> None:
    """Zero, and the lines between which 95 % of the residuals lie if the noise is as assumed."""
    every = np.concatenate([np.zeros((3, 0)), *found.values()], axis=1)[2]
    spread = 1.0 if standardised else float(np.sqrt(np.mean(every**2))) if len(every) else np.nan
    for panel in panels:
        panel.axhline(0.0, **thin(INK, "-"))
        for level in (-2 * spread, 2 * spread) if np.isfinite(spread) else ():
            panel.axhline(level, label="two standard deviations", **thin(GREY, "--"))


def _draw_series(panels: tuple[Axes, Axes], found: Series, looks: Mapping[str, dict[str, Any]]) -> None:
    """The residuals of the experiments, in the order of the looks; those with a colour lie over grey ones."""
    for name in (name for name in looks if name in found):
        grey = looks[name]["color"] == GREY
        alike = [one.shape[1] for other, one in found.items() if (looks[other]["color"] == GREY) == grey]
        dots = series_dots(looks[name], sum(alike))
        for panel, along in zip(panels, found[name][:2], strict=True):
            panel.plot(along, found[name][2], **dots)


def series_dots(look: Mapping[str, Any], count: int) -> dict[str, Any]:
    """The dots of one of several experiments, where `count` dots of this kind share a panel."""
    style = {**dots_of(count, look["color"]), "marker": look["marker"], "label": look["label"]}
    if look["color"] == GREY:
        return {**style, "markersize": STYLE.small_dot, "zorder": 1.2}
    if count > STYLE.many and look["marker"] != "o":  # other shapes are hard to tell apart when small
        style["markersize"] = 1.5 * style["markersize"]
    return style


def _scale_time(panel: Axes, found: Series, calendar: Calendar | None, look: Look) -> None:
    """A logarithmic axis where the data's picture has one."""
    decades = all(spans_decades(one[0]) for one in found.values())
    if calendar is None and (decades if look.log_x is None else look.log_x):
        panel.set_xscale("log")


def _scale_values(panel: Axes, found: Series) -> None:
    """A logarithmic axis of fitted values that span decades."""
    fitted = np.concatenate([np.zeros(0), *(one[1] for one in found.values())])
    fitted = fitted[np.isfinite(fitted)]
    if len(fitted) and fitted.min() > 0 and fitted.max() > STYLE.log_values * fitted.min():
        panel.set_xscale("log")
        log_ticks(panel.xaxis, fitted.min(), fitted.max())


def _grows_with_the_value(problem: Problem, observable: str) -> bool:
    """Whether the noise of an observable is proportional to its value, at least in part."""
    noise = problem.noise.get(observable) if isinstance(problem.noise, Mapping) else problem.noise
    if noise is None or problem.scatter is None:
        return False
    column = problem.scatter.columns[problem.model.observables.index(observable)]
    return column.base is not None or vars(noise).get("proportional", 0.0) != 0.0
