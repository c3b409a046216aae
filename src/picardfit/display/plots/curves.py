"""Data and curves of every experiment."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.style import (
    BLUE,
    INK,
    ORANGE,
    STYLE,
    figure_of,
    legend,
    short,
    spans_decades,
    time_label,
    with_unit,
    written,
)
from picardfit.errors import InputError
from picardfit.formulas.kernels import BatchedMap
from picardfit.problem.named_values import experiment_index

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.fit import Fit
    from picardfit.solvers.loop import Solution


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
    every = [*problem.model.observables, *_hidden(fit)]
    quantities = every[: STYLE.quantities]
    columns = min(len(shown), STYLE.columns)
    blocks, height = ceil(len(shown) / columns), len(quantities)
    figure = figure_of(
        max(STYLE.width, STYLE.panel_width * columns), STYLE.header + blocks * _block_height(height)
    )
    panels = figure.subplots(blocks * height, columns, squeeze=False)
    points = int(np.clip(STYLE.all_points // (len(shown) * height), *STYLE.points))
    for place, name in enumerate(shown):
        k = problem.names.index(name)
        block, column = divmod(place, columns)
        own = panels[block * height : (block + 1) * height, column]
        _draw_experiment(fit, k, name, quantities, own, points, first=column == 0)
        if band is not None and fit.solution is not None and fit.status.converged:
            _draw_bands(fit, fit.solution, k, quantities, own, points, band)
    for row in panels[(blocks - 1) * height :]:
        for panel in row[len(shown) - (blocks - 1) * columns :]:
            panel.set_axis_off()
    for row in range(height):
        _calm(panels[row::height].ravel())
    left_out = [
        f"{len(total) - len(part)} more {word} not drawn"
        for total, part, word in ((wanted, shown, "experiments"), (every, quantities, "quantities"))
        if len(total) > len(part)
    ]
    legend(figure, panels.ravel(), "; ".join(left_out))
    return written(figure, path)


def pages(fit: Fit) -> list[list[str]]:
    """The experiments that are drawn, in groups that fit on a sheet of paper each."""
    quantities = min(len(fit.problem.model.observables) + len(_hidden(fit)), STYLE.quantities)
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
    fit: Fit, index: int, name: str, quantities: list[str], panels, points: int, first: bool
) -> None:
    one, model = fit.problem.experiments[index], fit.problem.model
    logarithmic = spans_decades(one.times)
    curves: dict[str, np.ndarray] = {}
    if fit.solution is not None:
        times = _grid(fit, fit.solution, index, logarithmic, points)
        curves = {**fit.states(name, times), **fit.predict(name, times)}
    for panel, quantity in zip(panels, quantities, strict=True):
        data = one.observations.get(quantity) if quantity in model.observables else None
        if quantity in curves:
            style = {"color": BLUE} if data is not None else {"color": ORANGE, "linestyle": (0, (5, 2))}
            label = "fit" if data is not None else "fit of what was not measured"
            panel.plot(times, curves[quantity], linewidth=STYLE.curve, label=label, **style)
        if data is not None:
            dots = {
                "markersize": STYLE.dot,
                "markerfacecolor": "none",
                "markeredgecolor": INK,
                "markeredgewidth": STYLE.edge,
            }
            panel.plot(one.times, data, "o", label="data", rasterized=len(data) > STYLE.crowded, **dots)
        if logarithmic:
            panel.set_xscale("log")
        if first:
            panel.set_ylabel(with_unit(quantity, model.unit(quantity), STYLE.label), parse_math=False)
        if panel is not panels[-1]:
            panel.tick_params(labelbottom=False)
    panels[0].set_title(short(name), parse_math=False, fontsize=STYLE.title)
    panels[-1].set_xlabel(time_label(fit), parse_math=False)


def _draw_bands(
    fit: Fit, solution: Solution, index: int, quantities: list[str], panels, points: int, level: float
) -> None:
    one = fit.problem.experiments[index]
    times = _grid(fit, solution, index, spans_decades(one.times), points)
    found = fit.bands(one.name, times, level)
    for panel, quantity in zip(panels, quantities, strict=True):
        band = found[quantity]
        if np.isfinite(band.low).all() and np.isfinite(band.high).all():
            style = {"color": BLUE, "alpha": STYLE.shade, "linewidth": 0}
            panel.fill_between(
                times, band.low, band.high, label=f"{100 * level:g} % band", zorder=0.5, **style
            )


def _calm(panels) -> None:
    """Panels of one quantity: a curve that is flat up to rounding errors is drawn flat."""
    with_lines = [panel for panel in panels if panel.lines]
    size = max((np.abs(panel.dataLim.intervaly).max() for panel in with_lines), default=0.0)
    for panel in with_lines:
        low, high = panel.dataLim.intervaly
        if high - low < STYLE.flat_curve * size:
            panel.set_ylim((low + high - STYLE.room * size) / 2, (low + high + STYLE.room * size) / 2)


def _hidden(fit: Fit) -> list[str]:
    """States that no observable shows alone."""
    model = fit.problem.model
    if isinstance(model.output, BatchedMap):
        alone = {str(expression) for expression in model.output.expressions}
    else:
        alone = set(model.observables)
    return [state for state in model.states if state not in alone and state not in model.observables]


def _grid(fit: Fit, solution: Solution, index: int, logarithmic: bool, points: int) -> np.ndarray:
    """Times dense enough for a smooth curve: an even grid, the samples, and points in every segment of the mesh.

    A fine mesh gives only as many of its points as the grid has.
    """
    one, knots = fit.problem.experiments[index], solution.system.mesh.knots[index]
    begin, end = one.t0, float(one.times[-1])
    if end <= begin:
        return np.array([begin])
    inside = (knots[:-1, None] + np.diff(knots)[:, None] * np.array([0.0, 0.25, 0.5, 0.75])).ravel()
    inside = inside[:: max(1, len(inside) // points)]
    even = np.linspace(begin, end, points)
    if logarithmic:
        even = np.geomspace(one.times[one.times > 0][0], end, points)
        inside = inside[inside >= even[0]]
    return np.unique(np.clip(np.concatenate([even, inside, one.times[one.times >= even[0]]]), begin, end))
