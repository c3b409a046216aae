"""Data minus fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    MARKERS,
    STYLE,
    figure_of,
    legend,
    short,
    spans_decades,
    time_label,
    with_unit,
    written,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.fit import Fit

Series = tuple[np.ndarray, np.ndarray, np.ndarray]  # times, fitted values, residuals


def plot_residuals(fit: Fit, path: str | Path | None = None) -> Figure:
    """Data minus fit of every observable, over time and over the fitted value; dashes at two standard deviations."""
    problem = fit.problem
    measured = [n for n in problem.model.observables if any(n in e.observables for e in problem.experiments)]
    shown = measured[: STYLE.quantities]
    figure = figure_of(STYLE.wide, STYLE.header + STYLE.heading + STYLE.flat[1] * len(shown))
    panels = figure.subplots(len(shown), 2, squeeze=False, sharey="row")
    for (over_time, over_value), name in zip(panels, shown, strict=True):
        found = _residuals(fit, name)
        spread = float(np.sqrt(np.nanmean(np.concatenate([one[-1] for one in found.values()]) ** 2)))
        for panel in (over_time, over_value):
            panel.axhline(0.0, color=INK, linewidth=STYLE.line)
            for level in (-2 * spread, 2 * spread) if np.isfinite(spread) else ():
                panel.axhline(
                    level, color=GREY, linewidth=STYLE.line, linestyle="--", label="two standard deviations"
                )
        crowded = sum(len(times) for times, _, _ in found.values()) > STYLE.crowded
        for one, (times, fitted, residuals) in _by_shape(fit, found).items():
            style = _residual_style(fit, one) | {"rasterized": crowded}
            over_time.plot(times, residuals, **style)
            over_value.plot(fitted, residuals, **style)
        if all(spans_decades(times) for times, _, _ in found.values()):
            over_time.set_xscale("log")
        unit = problem.model.unit(name)
        over_time.set_ylabel(f"data − fit\n{with_unit(name, unit)}", parse_math=False)
        over_value.set_xlabel(f"fitted {with_unit(name, unit)}", parse_math=False)
    panels[-1, 0].set_xlabel(time_label(fit), parse_math=False)
    left_out = len(measured) - len(shown)
    legend(figure, panels.ravel(), f"{left_out} more observables not drawn" if left_out else "")
    return written(figure, path)


def _by_shape(fit: Fit, found: Mapping[str, Series]) -> dict[str, tuple[np.ndarray, ...]]:
    """The same with experiments that share a shape in one series, under the name of the first of them."""
    first: dict[str, list] = {}
    number = {name: k for k, name in enumerate(fit.problem.names)}
    shapes: dict[int, str] = {}
    for name, series in found.items():
        first.setdefault(shapes.setdefault(number[name] % len(MARKERS), name), []).append(series)
    return {name: tuple(map(np.concatenate, zip(*parts, strict=True))) for name, parts in first.items()}


def _residual_style(fit: Fit, experiment: str) -> dict[str, object]:
    """A shape for each experiment; it is named in the legend while shapes last."""
    names = fit.problem.names
    k = names.index(experiment)
    named = short(experiment) if 1 < len(names) <= len(MARKERS) else "_"
    return {
        "marker": MARKERS[k % len(MARKERS)],
        "color": BLUE,
        "linestyle": "none",
        "markersize": STYLE.dot,
        "markerfacecolor": "none",
        "label": named,
    }


def _residuals(fit: Fit, observable: str) -> dict[str, Series]:
    """experiment -> times, fitted values and residuals, where the observable was measured."""
    found = {}
    for one in fit.problem.experiments:
        if observable in one.observables:
            data = one.observations[observable]
            measured = np.isfinite(data)
            times = one.times[measured]
            missing = np.full(len(times), np.nan)
            fitted = missing if fit.solution is None else fit.predict(one.name, times)[observable]
            found[one.name] = (times, fitted, data[measured] - fitted)
    return found
