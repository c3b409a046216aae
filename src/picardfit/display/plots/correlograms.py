"""Pictures of the correlations of residuals among themselves and with the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from picardfit.display.plots.labels import not_drawn, short
from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    SCREEN,
    STYLE,
    Look,
    figure_of,
    legend,
    letters,
    thin,
    written,
)
from picardfit.display.text import probability
from picardfit.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.evidence.correlations import Correlogram
    from picardfit.evidence.residual_tests import Diagnostics
    from picardfit.fit import Fit


def plot_autocorrelation(
    found: Diagnostics, path: str | Path | None = None, level: float = 0.95, look: Look = SCREEN
) -> Figure:
    """Every correlation of residuals by lag, with bands: with later residuals, and with each input before."""
    every = [(name, "", one) for name, one in found.autocorrelation.items()]
    every += [(name, by, one) for name, own in found.cross_correlation.items() for by, one in own.items()]
    if not every:
        raise InputError("display.nothing_to_correlate")
    shown = every[: STYLE.quantities]
    columns = min(2, len(shown), look.columns)
    rows = ceil(len(shown) / columns)
    height = STYLE.header + (STYLE.flat[1] + STYLE.heading) * rows
    figure = figure_of(STYLE.wide if columns > 1 else STYLE.width, height, look)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    titles = _titles(shown, letters(figure.get_figwidth() / columns, figure.look.text + 1.5))
    for panel, title, (_, _, one) in zip(panels, titles, shown, strict=False):
        _draw(panel, one, level)
        panel.set_title(title, fontsize=STYLE.legend_text, parse_math=False)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel in panels[::columns]:
        panel.set_ylabel("correlation")
    for panel in panels[max(len(shown) - columns, 0) : len(shown)]:
        panel.set_xlabel("lag in samples" + (", of irregular times" if found.irregular else ""))
    legend(figure, panels[: len(shown)], not_drawn(len(every) - len(shown), "pictures"))
    return written(figure, path)


def _titles(shown: Sequence[tuple[str, str, Correlogram]], room: int) -> list[str]:
    """What each panel shows, in so many letters: names give way to the words and the probability."""
    titles = []
    for name, by, one in shown:
        words, end = ("{} with input {}", "") if by else ("residuals of {}", "")
        end = f" (probability {probability(one.probability)})"
        left = (room - len(words.replace("{}", "") + end)) // (2 if by else 1)
        longest = min(max(left, STYLE.label // 2), STYLE.name)
        titles.append(words.format(short(name, longest), short(by, longest)) + end)
    return titles


def plot_fit_autocorrelation(
    fit: Fit, path: str | Path | None = None, level: float = 0.95, look: Look = SCREEN
) -> Figure:
    """The correlations of the residuals of a fit."""
    return plot_autocorrelation(fit.diagnostics, path, level, look)


def plot_correlogram(one: Correlogram, path: str | Path | None = None, level: float = 0.95) -> Figure:
    """One correlation by lag."""
    figure = figure_of(STYLE.width, STYLE.panel_height)
    panel = figure.subplots()
    _draw(panel, one, level)
    panel.set_xlabel("lag in samples")
    panel.set_ylabel("correlation")
    legend(figure, [panel], "")
    return written(figure, path)


def _draw(panel: Axes, one: Correlogram, level: float) -> None:
    low, high = one.band(level)
    outside = (one.values < low) | (one.values > high)
    panel.axhline(0.0, **thin(INK, "-"))
    label = f"{100 * level:g} % if the model is right"
    panel.fill_between(
        one.lags, low, high, step="mid", color=GREY, alpha=STYLE.shade, linewidth=0, label=label
    )
    for there, color, marker, words in (
        (~outside, BLUE, "o", "inside"),
        (outside, ORANGE, "D", "outside"),
    ):
        if there.any():
            panel.vlines(one.lags[there], 0.0, one.values[there], color=color, linewidth=STYLE.curve)
            dots: dict[str, Any] = {
                "color": color,
                "marker": marker,
                "markersize": STYLE.dot,
                "linestyle": "none",
            }
            panel.plot(one.lags[there], one.values[there], label=words, **dots)
    edge = 1.15 * float(np.max(np.abs(np.concatenate([low, high, one.values]))))
    panel.set_ylim(-edge, edge)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
