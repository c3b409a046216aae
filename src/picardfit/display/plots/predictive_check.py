"""The visual predictive check: quantiles of the data over the bands in which simulated studies have theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.labels import time_label, with_unit
from picardfit.display.plots.marks import dots_of
from picardfit.display.plots.population import measured_names
from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    SCREEN,
    SLIM,
    STYLE,
    Look,
    figure_of,
    legend,
    thin,
    written,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.inference.population.answer import PopulationFit
    from picardfit.inference.population.predictive_checks import PredictiveCheck


def plot_vpc(
    fit: PopulationFit, path: str | Path | None = None, level: float = 0.95, look: Look = SCREEN
) -> Figure:
    """Quantiles of the data, and bands in which those of simulated studies lie, a panel for each observable.

    Where values lie below a limit of quantification, a panel below compares their part.
    """
    return draw_checks(fit, _checks(fit, level, False), path, look)


def plot_pcvpc(
    fit: PopulationFit, path: str | Path | None = None, level: float = 0.95, look: Look = SCREEN
) -> Figure:
    """The same with data and simulations corrected for the typical prediction in their bin."""
    return draw_checks(fit, _checks(fit, level, True), path, look)


def _checks(fit: PopulationFit, level: float, corrected: bool) -> list[PredictiveCheck]:
    return [
        fit.population.vpc(name, corrected=corrected, level=level or 0.95) for name in measured_names(fit)
    ]


def draw_checks(
    fit: PopulationFit, checks: list[PredictiveCheck], path: str | Path | None = None, look: Look = SCREEN
) -> Figure:
    """Checks of several observables below each other."""
    heights = [h for one in checks for h in ((1.0,) if one.limit is None else (1.0, STYLE.driving))]
    inches = STYLE.panel_height if len(checks) == 1 else STYLE.flat[1]
    figure = figure_of(STYLE.width, STYLE.header + STYLE.heading + inches * sum(heights), look)
    panels = list(
        figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    )
    rest = iter(panels)
    for one in checks:
        panel = next(rest)
        _draw_check(panel, one)
        if look.log_y:
            panel.set_yscale("log", nonpositive="mask")
        unit = fit.problem.model.unit(one.observable)
        said = with_unit(one.observable, unit, STYLE.label)
        panel.set_ylabel(f"{said}\nprediction-corrected" if one.corrected else said, parse_math=False)
        if one.limit is not None:
            _draw_below(next(rest), one)
    for panel in panels:
        panel.set_xlim(panels[0].get_xlim())
        if look.log_x:
            panel.set_xscale("log", nonpositive="mask")
        panel.tick_params(labelbottom=panel is panels[-1])
    panels[-1].set_xlabel(time_label(fit.individual_fit, None), parse_math=False)
    shares = " %, ".join(f"{100 * q:g}" for q in checks[0].quantiles)
    level, count = f"{100 * checks[0].level:g} %", checks[0].simulations
    note = f"quantiles {shares} %; bands hold those of {level} of {count} simulated studies"
    legend(figure, panels, note)
    return written(figure, path)


def _draw_check(panel: Axes, one: PredictiveCheck) -> None:
    """Bands as steps over their bins, quantiles of the data as lines through the medians of the times."""
    panel.plot(*one.data, marker="o", label="data", **{**dots_of(one.data.shape[1], GREY)})
    middle = len(one.quantiles) // 2
    for k in range(len(one.quantiles)):
        colour = ORANGE if k == middle else BLUE
        words = "simulated median" if k == middle else "simulated outer quantiles"
        _draw_band(panel, one, one.low[k], one.high[k], colour, words)
        style: dict[str, Any] = {"color": INK, "linewidth": STYLE.curve, "marker": "s", "markersize": 3.0}
        style["linestyle"] = "-" if k == middle else (0, (4, 2))
        label = "median of the data" if k == middle else "outer quantiles of the data"
        panel.plot(one.times, one.observed[k], label=label, **style)
    if one.limit is not None and not one.corrected:
        panel.axhline(one.limit, label="limit of quantification", **thin(INK, ":"))


def _draw_band(
    panel: Axes, one: PredictiveCheck, low: np.ndarray, high: np.ndarray, colour: str, words: str
) -> None:
    """A band through the medians of the times of the bins."""
    shade: dict[str, Any] = {"color": colour, "alpha": 1.5 * STYLE.shade, "linewidth": 0, "zorder": 0.5}
    if len(one.times) > 1:
        panel.fill_between(one.times, low, high, label=words, **shade)
    else:
        panel.bar(one.times, high - low, bottom=low, width=1.0, label=words, **shade)


def _draw_below(panel: Axes, one: PredictiveCheck) -> None:
    """The part of values below the limit of quantification."""
    panel.set_label(SLIM)
    data, low, _, high = one.below
    _draw_band(panel, one, low, high, BLUE, "simulated outer quantiles")
    panel.plot(one.times, data, color=INK, linewidth=STYLE.curve, marker="s", markersize=3.0, label="_")
    panel.set_ylabel("part\nbelow limit")
    panel.set_ylim(bottom=0.0)
