"""How the search went: its iterations, and where the starts ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    STYLE,
    figure_of,
    legend,
    log_ticks,
    written,
)
from picardfit.display.text import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.fit import Fit, StartResult


def plot_convergence(fit: Fit, path: str | Path | None = None) -> Figure:
    """Loss, largest jump at a knot and Picard residual by iteration; logarithmic unless there are negative values.

    Jumps and residuals are relative to the size of the states.
    """
    labels = (
        "loss" if fit.problem.noise is None else "objective",
        "largest jump (relative)",
        "Picard residual (relative)",
    )
    used = [k for k in range(fit.trace.shape[1]) if k == 0 or np.isfinite(fit.trace[:, k]).any()]
    figure = figure_of(STYLE.wide, STYLE.panel_height)
    panels = figure.subplots(1, len(used), squeeze=False)[0]
    iterations = np.arange(1, len(fit.trace) + 1)
    for panel, k in zip(panels, used, strict=True):
        values = fit.trace[:, k]
        shown = np.where(np.isfinite(values) & (values != 0), values, np.nan)
        if (shown > 0).any() and not (shown < 0).any():
            panel.set_yscale("log")
            log_ticks(panel.yaxis, np.nanmin(shown), np.nanmax(shown))
        panel.plot(
            iterations,
            shown,
            color=BLUE,
            marker="o" if len(iterations) < STYLE.marked_iterations else "",
            markersize=STYLE.dot,
        )
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xlabel("iteration")
        panel.set_ylabel(labels[k])
    return written(figure, path)


def plot_waterfall(fit: Fit, path: str | Path | None = None) -> Figure:
    """The starts from the smallest loss on, with a shape for each optimum; crosses reached none.

    Negative log-likelihoods are drawn as differences from the best one. Starts that found nothing stand at the top.
    """
    ranked = sorted(fit.starts, key=lambda one: (not np.isfinite(one.loss), one.loss, one.start))
    losses = np.array([one.loss for one in ranked])
    finite = losses[np.isfinite(losses)]
    figure = figure_of(STYLE.width, STYLE.header + STYLE.panel_height)
    panel = figure.subplots()
    least, most = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    label = "loss"
    if fit.problem.noise is not None and len(finite):
        losses, most, label = losses - least, most - least, "objective above the best"
        if most > fit.loss_tolerance:
            panel.set_yscale("symlog", linthresh=max(fit.loss_tolerance, np.finfo(float).eps))
    elif least > 0 and most > 10 * least:
        panel.set_yscale("log")
        log_ticks(panel.yaxis, least, most)
    heights = np.where(np.isfinite(losses), losses, 2 * most if most > 0 else 1.0)
    places = np.arange(1, len(ranked) + 1)
    panel.plot(places, heights, color="#cccccc", linewidth=STYLE.line, zorder=1)
    for words, style, chosen in _start_groups(fit, ranked):
        panel.plot(places[chosen], heights[chosen], linestyle="none", label=words, zorder=2, **style)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.get_yscale() == "linear" and len(finite):  # differences within rounding errors are drawn flat
        room = STYLE.room * max(abs(least), np.ptp(heights))
        panel.set_ylim(heights.min() - room, heights.max() + room)
    panel.set_xlabel("starts, the best first")
    panel.set_ylabel(label)
    legend(figure, [panel], "")
    return written(figure, path)


def _start_groups(fit: Fit, ranked: Sequence[StartResult]) -> list[tuple[str, dict[str, Any], np.ndarray]]:
    """(words, style, which of the ranked starts): one for each of the first optima, then the rest."""
    number = np.array([-1 if one.cluster is None else one.cluster for one in ranked])
    lost = ~np.isfinite([one.loss for one in ranked])
    filled = {"color": BLUE, "markersize": 6}
    hollow = {"color": INK, "markersize": 6, "markerfacecolor": "none"}
    optima = min(STYLE.optima, number.max(initial=-1) + 1)
    groups = []
    for k in range(optima):
        style = (filled if k == 0 else hollow) | {"marker": MARKERS[k]}
        chosen = number == k
        words = f"{'best' if k == 0 else f'{k + 1}.'} optimum ({count(int(chosen.sum()), 'start')})"
        groups.append((words, style, chosen))
    more = number >= optima
    groups += [
        (f"other optima ({more.sum()})", {"color": GREY, "marker": ".", "markersize": 6}, more),
        (
            f"no optimum reached ({((number < 0) & ~lost).sum()})",
            {"color": ORANGE, "marker": "x"},
            (number < 0) & ~lost,
        ),
        (f"nothing found ({lost.sum()})", {"color": ORANGE, "marker": "+", "markersize": 9}, lost),
    ]
    return [group for group in groups if group[2].any()]
