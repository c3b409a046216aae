"""Data and fitted curves of every experiment, and the residuals: data minus fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    STYLE,
    common_calendar,
    date_axis,
    figure_of,
    legend,
    not_drawn,
    on_axis,
    short,
    spans_decades,
    thin,
    time_label,
    with_unit,
    written,
)
from picardfit.errors import InputError
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.densities import COUNTS
from picardfit.problem.named_values import experiment_index

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.fit import Fit
    from picardfit.problem.calendar import Calendar
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem


def plot_fit(
    fit: Fit,
    path: str | Path | None = None,
    band: float | None = None,
    experiments: Iterable[str] | None = None,
) -> Figure:
    """Data as dots, fit as line; dashed where nothing was measured. A panel for each observable and hidden state.

    Hidden is a state that no observable shows alone. Experiments stand beside each other, at most 12 of them; choose
    others by their names in `experiments`. `band`: level of confidence bands, drawn as shades.
    """
    problem = fit.problem
    wanted = list(problem.names) if experiments is None else _known_experiments(fit, experiments)
    shown = wanted[: STYLE.experiments]
    every = _quantities(fit)
    quantities = every[: STYLE.quantities]
    columns = min(len(shown), STYLE.columns)
    blocks, height = ceil(len(shown) / columns), len(quantities)
    width = max(STYLE.width, STYLE.panel_width * columns)
    figure = figure_of(width, STYLE.header + blocks * _block_height(height))
    panels = figure.subplots(blocks * height, columns, squeeze=False)
    points = int(np.clip(STYLE.all_points // (len(shown) * height), *STYLE.points))
    for place, name in enumerate(shown):
        block, column = divmod(place, columns)
        own = panels[block * height : (block + 1) * height, column]
        _draw_experiment(fit, name, dict(zip(quantities, own, strict=True)), points, band)
        if column == 0:
            for panel, quantity in zip(own, quantities, strict=True):
                label = with_unit(quantity, problem.model.unit(quantity), STYLE.label)
                panel.set_ylabel(label, parse_math=False)
    for row in panels[(blocks - 1) * height :]:
        for panel in row[len(shown) - (blocks - 1) * columns :]:
            panel.set_axis_off()
    for row in range(height):
        _calm(panels[row::height].ravel())
    notes = [not_drawn(len(wanted) - len(shown), "experiments"), not_drawn(len(every) - height, "quantities")]
    legend(figure, panels.ravel(), "; ".join(filter(None, notes)))
    return written(figure, path)


def pages(fit: Fit) -> list[list[str]]:
    """The experiments that are drawn, in groups that fit on a sheet of paper each."""
    quantities = min(len(_quantities(fit)), STYLE.quantities)
    most = STYLE.columns * max(1, int(STYLE.sheet / _block_height(quantities)))
    names = list(fit.problem.names[: STYLE.experiments])
    return [names[k : k + most] for k in range(0, len(names), most)]


def _block_height(quantities: int) -> float:
    """Inches for the panels of experiments beside each other; many panels are made flatter."""
    each = STYLE.panel_height if quantities == 1 else float(np.clip(STYLE.sheet / quantities, *STYLE.flat))
    return STYLE.heading + each * quantities


def _known_experiments(fit: Fit, names: Iterable[str]) -> list[str]:
    """The names, in their order; InputError for one that is not there."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise InputError("display.no_experiments")
    for name in wanted:
        experiment_index(fit.problem, name)
    return wanted


def _draw_experiment(
    fit: Fit, name: str, panels: Mapping[str, Axes], points: int, level: float | None
) -> None:
    """Data, curve and, with a `level`, confidence band of one experiment, each quantity in its panel."""
    one, model = fit.problem.experiments[fit.problem.names.index(name)], fit.problem.model
    logarithmic = one.calendar is None and spans_decades(one.times)
    curves: dict[str, np.ndarray] = {}
    if fit.solution is not None:
        times = _grid(one, fit.solution.system.mesh.knots[fit.problem.names.index(name)], logarithmic, points)
        curves = {**fit.states(name, times), **fit.predict(name, times)}
        along = on_axis(one, times, one.calendar)
    shade: dict[str, Any] = {"color": BLUE, "alpha": STYLE.shade, "linewidth": 0, "zorder": 0.5}
    bands = None
    if level is not None and fit.status.converged:
        bands, shade["label"] = fit.bands(name, times, level), f"{100 * level:g} % band"
    for quantity, panel in panels.items():
        data = measured_of(fit.problem, one, quantity) if quantity in one.observables else None
        counted = quantity in model.increments
        if quantity in curves and not counted:
            style = {"color": BLUE} if data is not None else {"color": ORANGE, "linestyle": (0, (5, 2))}
            label = "fit" if data is not None else "fit of what was not measured"
            panel.plot(along, curves[quantity], linewidth=STYLE.curve, label=label, **style)
        if data is not None:
            _draw_data(fit, panel, one, quantity, data)
        if logarithmic:
            panel.set_xscale("log")
        if bands is not None and not counted:
            low, high = bands[quantity].low, bands[quantity].high
            if np.isfinite(low).all() and np.isfinite(high).all():
                panel.fill_between(along, low, high, **shade)
        date_axis(panel, one.calendar)
    top, *_ = panels.values()
    *others, bottom = panels.values()
    for panel in others:
        panel.tick_params(labelbottom=False)
        panel.xaxis.get_offset_text().set_visible(False)
    _mark_doses(bottom, on_axis(one, _dose_times(one), one.calendar))
    _align(list(panels.values()))
    top.set_title(short(name), parse_math=False, fontsize=STYLE.title)
    bottom.set_xlabel(time_label(fit, one.calendar), parse_math=False)


def _align(panels: list[Axes]) -> None:
    """Give panels above each other one time axis: increments begin later than curves, with their first sample."""
    drawn = [panel.get_xlim() for panel in panels if panel.lines]
    for panel in panels if drawn else []:
        panel.set_xlim(min(low for low, _ in drawn), max(high for _, high in drawn))


def _draw_increments(fit: Fit, one: Experiment, quantity: str, panel: Axes) -> None:
    """The fitted increments at the times of their samples: between these they mean something else."""
    times = np.unique(one.times[np.isfinite(measured_of(fit.problem, one, quantity))])
    along = on_axis(one, times, one.calendar)
    panel.plot(along, fit.predict(one.name, times)[quantity], linewidth=STYLE.curve, label="fit", color=BLUE)


def _draw_data(fit: Fit, panel: Axes, one: Experiment, quantity: str, data: np.ndarray) -> None:
    """Measured values as dots; censored ones as arrows from their limit to the value, intervals as lines."""
    if quantity in fit.problem.model.increments and fit.solution is not None:
        _draw_increments(fit, one, quantity, panel)
    dots: dict[str, Any] = {"markersize": STYLE.dot, "markerfacecolor": "none", "markeredgecolor": INK}
    dots["markeredgewidth"] = STYLE.edge
    limits, crowded = limits_of(one, quantity), len(data) > STYLE.crowded
    exact, along = np.isnan(limits[:, 0]), on_axis(one, one.times, one.calendar)
    panel.plot(along[exact], data[exact], "o", label="data", rasterized=crowded, **dots)
    times, limits = along[~exact], limits[~exact]
    for k, marker, other in ((1, "v", 0), (0, "^", 1)):
        chosen = np.isinf(limits[:, other])
        if chosen.any():
            panel.plot(
                times[chosen], limits[chosen, k], marker, label="censored", **{**dots, "linestyle": "none"}
            )
    inside = np.isfinite(limits).all(axis=1)
    if inside.any():
        panel.vlines(times[inside], *limits[inside].T, color=INK, linewidth=STYLE.edge, label="censored")


def measured_of(problem: Problem, one: Experiment, observable: str) -> np.ndarray:
    """(n,): what was measured of an observable in an experiment, in the unit of its curve; NaN elsewhere."""
    mine = problem.samples.experiment == problem.names.index(one.name)
    return np.asarray(problem.samples.data[mine, problem.model.observables.index(observable)])


def limits_of(one: Experiment, observable: str) -> np.ndarray:
    """(n, 2): limits of censored values of an observable, NaN where exact."""
    if one.limits is None:
        return np.full((len(one.times), 2), np.nan)
    return np.asarray(one.limits[:, one.observables.index(observable)])


def _mark_doses(panel: Axes, times: np.ndarray) -> None:
    """Marks along the time axis where doses are given."""
    if len(times):
        marks: dict[str, Any] = {"color": GREY, "markersize": STYLE.dot, "label": "dose", "clip_on": False}
        across = panel.get_xaxis_transform()
        panel.plot(times, np.zeros(len(times)), "^", transform=across, scaley=False, **marks)


def _calm(panels) -> None:
    """Panels of one quantity: a curve that is flat up to rounding errors is drawn flat."""
    with_lines = [panel for panel in panels if panel.lines]
    size = max((np.abs(panel.dataLim.intervaly).max() for panel in with_lines), default=0.0)
    for panel in with_lines:
        low, high = panel.dataLim.intervaly
        if high - low < STYLE.flat_curve * size:
            panel.set_ylim((low + high - STYLE.room * size) / 2, (low + high + STYLE.room * size) / 2)


def _quantities(fit: Fit) -> list[str]:
    """The observables, and the hidden states: those that no observable shows alone."""
    model, shown = fit.problem.model, set(fit.problem.model.observables)
    if isinstance(model.output, BatchedMap):
        rows = zip(model.observables, model.output.expressions, strict=True)
        shown |= {str(expression) for name, expression in rows if name not in model.increments}
    return [*model.observables, *(state for state in model.states if state not in shown)]


def _grid(one: Experiment, knots: np.ndarray, logarithmic: bool, points: int) -> np.ndarray:
    """Times dense enough for a smooth curve: an even grid, the samples, and points in every segment of the mesh.

    A fine mesh gives only as many of its points as the grid has.
    """
    begin, end = one.t0, float(one.times[-1])
    if end <= begin:
        return np.array([begin])
    inside = (knots[:-1, None] + np.diff(knots)[:, None] * np.array([0.0, 0.25, 0.5, 0.75])).ravel()
    inside = inside[:: max(1, len(inside) // points)]
    given = _dose_times(one)
    inside = np.concatenate([inside, given, np.nextafter(given, begin)])  # both sides of a jump
    even = np.linspace(begin, end, points)
    if logarithmic:
        even = np.geomspace(one.times[one.times > 0][0], end, points)
        inside = inside[inside >= even[0]]
    return np.unique(np.clip(np.concatenate([even, inside, one.times[one.times >= even[0]]]), begin, end))


def _dose_times(one: Experiment) -> np.ndarray:
    """Times of doses and resets up to the last sample, where curves jump or kink."""
    every = np.unique(np.concatenate([*(dose.times for dose in one.doses), np.array(one.resets, float)]))
    return every[every <= one.times[-1]]


def plot_residuals(fit: Fit, path: str | Path | None = None) -> Figure:
    """Data minus fit of every observable, over time and over the fitted value; dashes at two standard deviations.

    Counts and series with censored values show their standardised residuals instead: randomised quantiles, which are
    standard normal if the noise is as assumed, so that the dashes are at 2 and -2.

    Each experiment has its own marker, named in the legend; from the 13th on markers repeat, and the legend names none.
    """
    problem, names = fit.problem, fit.problem.names
    measured = [n for n in problem.model.observables if any(n in e.observables for e in problem.experiments)]
    shown, calendar = measured[: STYLE.quantities], common_calendar(problem.experiments)
    figure = figure_of(STYLE.wide, STYLE.header + STYLE.heading + STYLE.flat[1] * len(shown))
    panels = figure.subplots(len(shown), 2, squeeze=False, sharey="row")
    dots = {"color": BLUE, "linestyle": "none", "markersize": STYLE.dot, "markerfacecolor": "none"}
    for (over_time, over_value), name in zip(panels, shown, strict=True):
        found = {
            k: _residuals(fit, one, name, calendar)
            for k, one in enumerate(problem.experiments)
            if name in one.observables
        }
        every = np.concatenate(list(found.values()), axis=1)
        standard = _has_quantiles(fit, name)
        spread = 1.0 if standard else float(np.sqrt(np.nanmean(every[2] ** 2)))
        for panel in (over_time, over_value):
            panel.axhline(0.0, **thin(INK, "-"))
            for level in (-2 * spread, 2 * spread) if np.isfinite(spread) else ():
                panel.axhline(level, label="two standard deviations", **thin(GREY, "--"))
        for k, marker in enumerate(MARKERS):
            alike = [series for e, series in found.items() if e % len(MARKERS) == k]
            if alike:
                times, fitted, residuals = np.concatenate(alike, axis=1)
                label = short(names[k]) if 1 < len(names) <= len(MARKERS) else "_"
                style = {"marker": marker, "label": label, "rasterized": every.shape[1] > STYLE.crowded}
                over_time.plot(times, residuals, **dots, **style)
                over_value.plot(fitted, residuals, **dots, **style)
        if calendar is None and all(spans_decades(times) for times, _, _ in found.values()):
            over_time.set_xscale("log")
        quantity = with_unit(name, problem.model.unit(name))
        said = "standardised" if standard else "data − fit"
        over_time.set_ylabel(f"{said}\n{quantity}", parse_math=False)
        over_value.set_xlabel(f"fitted {quantity}", parse_math=False)
        date_axis(over_time, calendar)
    panels[-1, 0].set_xlabel(time_label(fit, calendar), parse_math=False)
    legend(figure, panels.ravel(), not_drawn(len(measured) - len(shown), "observables"))
    return written(figure, path)


def _residuals(fit: Fit, one: Experiment, observable: str, calendar: Calendar | None) -> np.ndarray:
    """(3, samples): times on the axis, fitted values and residuals, where the observable was measured."""
    data = measured_of(fit.problem, one, observable)
    there = np.isfinite(data)
    times, data = one.times[there], data[there]
    along = on_axis(one, times, calendar)
    if fit.solution is None:
        nothing = np.full(len(times), np.nan)
        return np.stack([along, nothing, nothing])
    fitted = fit.predict(one.name, times)[observable]
    standard = _has_quantiles(fit, observable)
    return np.stack(
        [along, fitted, fit.residuals[one.name][observable][there] if standard else data - fitted]
    )


def _has_quantiles(fit: Fit, observable: str) -> bool:
    """Whether an observable is a count or censored somewhere."""
    problem = fit.problem
    if problem.scatter is None:
        return False
    k, limits = problem.model.observables.index(observable), problem.samples.limits
    censored = limits is not None and not np.isnan(limits[:, k]).all()
    return censored or problem.scatter.columns[k].shape in COUNTS
