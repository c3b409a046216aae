"""How well the unknowns are determined: their errors, correlations and profiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    STYLE,
    figure_of,
    legend,
    log_ticks,
    save_figure,
    short,
    with_unit,
    written,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.fit import Fit
    from picardfit.inference.identifiability import Identifiability
    from picardfit.inference.profile import Profile


def plot_identifiability(found: Identifiability, path: str | Path | None = None) -> Figure:
    """Relative standard errors as bars on a log axis, lines at the thresholds; what is left free reaches the edge."""
    sure, weak = found.settings.sure, found.settings.weak
    names = list(found.verdicts)[: STYLE.bars][::-1]
    errors = np.array([found.verdicts[name].error for name in names])
    finite = errors[np.isfinite(errors) & (errors > 0)]
    low = 0.5 * min(finite.min(initial=sure), sure)
    high = 3 * max(finite.max(initial=weak), weak)
    figure = figure_of(STYLE.width, STYLE.header + STYLE.heading + STYLE.bar * len(names))
    panel = figure.subplots()
    styles = {"determined": (BLUE, ""), "weakly": (ORANGE, "//"), "not determined": (GREY, "xx")}
    for kind, (colour, hatch) in styles.items():
        rows = [k for k, name in enumerate(names) if found.verdicts[name].kind == kind]
        width = [float(np.clip(np.nan_to_num(errors[k], nan=high), low, high)) for k in rows]
        if rows:
            panel.barh(rows, width, color=colour, hatch=hatch, edgecolor="white", label=kind)
    for level in (sure, weak):
        panel.axvline(level, color=INK, linewidth=STYLE.line, linestyle="--", label="thresholds")
    panel.set_xscale("log")
    panel.set_xlim(low, high)
    panel.set_yticks(range(len(names)), [short(name) for name in names], parse_math=False)
    log_ticks(panel.xaxis, low, high)
    panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    panel.set_xlabel("relative standard error")
    left_out = len(found.verdicts) - len(names)
    legend(figure, [panel], f"{left_out} more unknowns not drawn" if left_out else "")
    return written(figure, path)


def plot_correlation(fit: Fit, path: str | Path | None = None) -> Figure:
    """Correlations of the estimates as squares: full for positive ones, empty for negative ones, large for strong ones.

    At most 24 unknowns, parameters first; a cross stands where one of them is not determined.
    """
    labels = fit.covariance_labels
    order = sorted(range(len(labels)), key=lambda k: (labels[k] not in fit.parameters, k))
    chosen = order[: STYLE.unknowns]
    matrix, n = fit.correlation_of(labels[k] for k in chosen), len(chosen)
    side = STYLE.panel_width + STYLE.square * max(n - 2, 0)
    figure = figure_of(STYLE.header + side, STYLE.heading + side)
    panel = figure.subplots()
    for row in range(n):
        for column in range(row + 1):
            _draw_correlation(panel, row, column, float(matrix[row, column]), written=n <= STYLE.numbers)
    panel.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    names = [short(labels[k], STYLE.label) for k in chosen]
    panel.set_xticks(range(n), names, rotation=90, parse_math=False)
    panel.set_yticks(range(n), names, parse_math=False)
    squares = [
        Rectangle((0, 0), 1, 1, facecolor=BLUE, edgecolor=BLUE, label="positive"),
        Rectangle(
            (0, 0), 1, 1, facecolor="none", edgecolor=ORANGE, linewidth=STYLE.outline, label="negative"
        ),
    ]
    cross = Line2D([], [], color=GREY, marker="x", linestyle="none", label="not determined")
    lost = [] if np.isfinite(matrix).all() else [cross]
    note = f"{len(order) - n} more unknowns not drawn" if len(order) > n else ""
    legend(figure, [panel], note, handles=[*squares, *lost])
    written(figure, path=None)
    panel.grid(visible=False)
    if path is not None:
        save_figure(figure, path)
    return figure


def _draw_correlation(panel: Axes, row: int, column: int, value: float, written: bool) -> None:
    """One square at (column, row), its area the size of the correlation; its number in the other half."""
    if not np.isfinite(value):
        panel.plot(column, row, "x", color=GREY, markersize=STYLE.dot)
        return
    size = (1 - STYLE.room) * float(np.sqrt(min(abs(value), 1.0)))
    colour = BLUE if value > 0 else ORANGE
    face = colour if value > 0 else "none"
    corner = (column - size / 2, row - size / 2)
    panel.add_patch(Rectangle(corner, size, size, facecolor=face, edgecolor=colour, linewidth=STYLE.outline))
    if written and row != column:
        text = f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
        panel.text(row, column, text, ha="center", va="center", fontsize=STYLE.text, color=INK)


def plot_profile(found: Profile, path: str | Path | None = None) -> Figure:
    """The profile of one quantity as a picture; see `plot_profiles`."""
    return plot_profiles([found], path)


def plot_profiles(profiles: Sequence[Profile], path: str | Path | None = None) -> Figure:
    """The rise of the objective over each profiled quantity, with the threshold and the ends of the interval.

    Dots were computed; the thin dotted line is the parabola behind Fisher's interval.
    """
    columns = min(len(profiles), STYLE.profiles)
    rows = ceil(len(profiles) / columns)
    figure = figure_of(
        max(STYLE.width, STYLE.panel_width * columns), STYLE.header + STYLE.panel_height * rows
    )
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, one in zip(panels, profiles, strict=False):
        _draw_profile(panel, one)
    for panel in panels[::columns]:
        panel.set_ylabel("rise of the objective")
    for panel in panels[len(profiles) :]:
        panel.set_axis_off()
    legend(figure, panels[: len(profiles)], "")
    return written(figure, path)


def _draw_profile(panel: Axes, one: Profile) -> None:
    parabola, percent = one.parabola(), f"{100 * one.level:g} %"
    panel.plot(*one.curve(), color=BLUE, linewidth=STYLE.curve, label="profile")
    panel.plot(one.values, one.rises, "o", color=BLUE, markersize=STYLE.dot, label="computed")
    if parabola is not None:
        panel.plot(*parabola, color=GREY, linewidth=STYLE.line, linestyle=":", label="parabola (Fisher)")
    panel.axhline(
        one.threshold(), color=INK, linewidth=STYLE.line, linestyle="--", label=f"threshold of {percent}"
    )
    for end in one.interval():
        if np.isfinite(end):
            panel.axvline(
                end, label=f"{percent} interval", color=ORANGE, linewidth=STYLE.line, linestyle="-."
            )
    panel.set_ylim(-STYLE.room / 3 * one.threshold(), (1 + 2 * STYLE.room) * one.threshold())
    panel.set_xlabel(with_unit(one.name, one.unit), parse_math=False)
    if one.log:
        panel.set_xscale("log")
        log_ticks(panel.xaxis, *panel.get_xlim())
