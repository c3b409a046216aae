"""Predictions with their bands, beyond the data where that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.choice import Choice
from picardfit.display.plots.curves import draw_band, same_time, share
from picardfit.display.plots.labels import distinct, not_drawn, time_label, with_unit
from picardfit.display.plots.marks import draw_data
from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    SCREEN,
    STYLE,
    Look,
    above_rounding,
    arrangement,
    band_above_rounding,
    date_axis,
    figure_of,
    legend,
    on_axis,
    thin,
    written,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.fit import Fit
    from picardfit.inference.bands import Bands
    from picardfit.problem.experiment import Experiment


def plot_predictions(
    fit: Fit,
    found: Mapping[str, Bands],
    quantities: Sequence[str],
    path: str | Path | None = None,
    choice: Choice | None = None,
    noise: bool = False,
    look: Look = SCREEN,
) -> Figure:
    """Predictions of these quantities by experiment: curve, band, the data, and a line where the data end.

    `choice`: which of the experiments are drawn, by default all. `noise`: the bands are those of new measurements.
    """
    choice = Choice(tuple(found), len(found)) if choice is None else choice
    shown = quantities[: STYLE.quantities]
    (blocks, columns), rows = arrangement(len(choice.names), look.columns), len(shown)
    each = STYLE.panel_height if rows == 1 else STYLE.flat[1]
    width = max(STYLE.width, STYLE.panel_width * columns)
    figure = figure_of(width, STYLE.header + blocks * (STYLE.heading + rows * each), look, columns)
    panels = figure.subplots(blocks * rows, columns, squeeze=False)
    titles = distinct(choice.names, int(figure.get_figwidth() / columns * STYLE.title_letters))
    for place, name in enumerate(choice.names):
        block, column = divmod(place, columns)
        own = panels[block * rows : (block + 1) * rows, column]
        one = fit.problem.experiments[fit.problem.names.index(name)]
        for panel, quantity in zip(own, shown, strict=True):
            _draw(fit, panel, one, quantity, found[name], noise, bool(look.log_y))
            if look.log_x and one.calendar is None:
                panel.set_xscale("log")
            if look.log_y:
                panel.set_yscale("log")
            if column == 0:
                panel.set_ylabel(
                    with_unit(quantity, fit.problem.model.unit(quantity), STYLE.label), parse_math=False
                )
        same_time(own)
        for panel in own[:-1]:
            panel.tick_params(labelbottom=False)
        own[0].set_title(titles[name], parse_math=False)
        own[-1].set_xlabel(time_label(fit, one.calendar), parse_math=False)
    for k in range(rows):
        share(panels[k::rows].ravel()[: len(choice.names)].tolist(), "y")
    for row in panels[(blocks - 1) * rows :]:
        for panel in row[len(choice.names) - (blocks - 1) * columns :]:
            panel.set_axis_off()
    notes = [choice.words, not_drawn(len(quantities) - rows, "quantities")]
    legend(figure, panels.ravel(), "; ".join(filter(None, notes)))
    return written(figure, path)


def _draw(
    fit: Fit, panel: Axes, one: Experiment, quantity: str, bands: Bands, noise: bool, log: bool
) -> None:
    """One quantity of one experiment; increments are dots, because between their times they mean something else."""
    order = np.argsort(bands.times, kind="stable")
    along, band = on_axis(one, bands.times[order], one.calendar), bands[quantity]
    value, low, high = band.value[order], band.low[order], band.high[order]
    if log:
        low, high = band_above_rounding(low, high, value)
        value = above_rounding(value)
    measured = quantity in one.observables
    style = {"color": BLUE} if measured else {"color": ORANGE, "linestyle": (0, (5, 2))}
    words = f"{100 * bands.level:g} % {'of new measurements' if noise else 'band'}"
    if quantity in fit.problem.model.increments:
        panel.errorbar(
            along,
            value,
            np.abs(np.stack([value - low, high - value])),
            fmt="o",
            color=BLUE,
            markersize=STYLE.dot,
            label=f"prediction with {words}",
        )
    else:
        panel.plot(along, value, linewidth=STYLE.curve, label="prediction", **style)
        draw_band(panel, along, low, high, bands.level, words)
        if measured:
            draw_data(panel, fit.problem, one, quantity, one.calendar, markeredgecolor=INK)
    last = float(one.times[-1])
    if bands.times.max() > last > bands.times.min():
        end = float(on_axis(one, np.array([last]), one.calendar)[0])
        panel.axvline(end, label="end of the data", **thin(GREY, "--"))
    date_axis(panel, one.calendar)
