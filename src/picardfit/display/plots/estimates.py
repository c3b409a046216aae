"""How well the unknowns are determined (errors, correlations, profiles) and how the search went."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from picardfit.display.plots.labels import distinct, not_drawn, with_unit
from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    SCREEN,
    STYLE,
    Look,
    figure_of,
    legend,
    letters,
    log_ticks,
    square_figure,
    thin,
    written,
)
from picardfit.display.text import number
from picardfit.inference.identifiability import Determination, Identifiability, Verdict

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.evidence.optima import SearchSummary
    from picardfit.fit import Fit
    from picardfit.inference.profile import Profile


BARS = {  # kind of bar -> colour and hatch
    str(Determination.DETERMINED): (BLUE, ""),
    "other values fit as well": (BLUE, "\\\\"),
    str(Determination.WEAK): (ORANGE, "//"),
    str(Determination.NONE): (GREY, "xx"),
    "no standard error: too few data": (GREY, ".."),
}


def plot_identifiability(
    found: Identifiability, path: str | Path | None = None, look: Look = SCREEN
) -> Figure:
    """Relative standard errors as bars on a log axis, with the thresholds; what is undetermined reaches the edge."""
    sure, weak = found.settings.sure, found.settings.weak
    names = list(found.verdicts)[: STYLE.bars][::-1]
    errors = np.array([found.verdicts[name].error for name in names])
    finite = errors[np.isfinite(errors) & (errors > 0)]
    low = 0.5 * min(finite.min(initial=sure), sure)
    high = 3 * max(finite.max(initial=weak), weak)
    figure = figure_of(STYLE.width, STYLE.header + STYLE.heading + STYLE.bar * len(names), look)
    panel = figure.subplots()
    kinds = [_kind(found.verdicts[name]) for name in names]
    for kind, (colour, hatch) in BARS.items():
        rows = [k for k, own in enumerate(kinds) if own == kind]
        width = [float(np.clip(np.nan_to_num(errors[k], nan=high), low, high)) for k in rows]
        if rows:
            panel.barh(rows, width, color=colour, hatch=hatch, edgecolor="white", label=kind)
    for level in (sure, weak):
        panel.axvline(level, label="thresholds", **thin(INK, "--"))
    panel.set_xscale("log")
    panel.set_xlim(low, high)
    half = letters(figure.get_figwidth() / 2, look.text)  # the bars keep the other half
    labels = distinct(names[::-1], STYLE.label if look.narrow else min(half, STYLE.name))
    panel.set_yticks(range(len(names)), [labels[name] for name in names], parse_math=False)
    beside = max(map(len, labels.values())) / letters(1.0, look.text)
    log_ticks(panel.xaxis, low, high, figure.get_figwidth() - beside)
    panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    panel.set_xlabel("relative standard error")
    legend(figure, [panel], not_drawn(len(found.verdicts) - len(names), "unknowns"))
    return written(figure, path)


def _kind(one: Verdict) -> str:
    """Which kind of bar shows a verdict."""
    if np.isnan(one.error):
        return "no standard error: too few data"
    near = one.alternatives and one.kind is not Determination.NONE
    return "other values fit as well" if near else str(one.kind)


def plot_errors(fit: Fit, path: str | Path | None = None, look: Look = SCREEN) -> Figure:
    """The picture of `fit.identifiability()`."""
    return plot_identifiability(fit.identifiability(), path, look)


def plot_correlation(fit: Fit, path: str | Path | None = None, look: Look = SCREEN) -> Figure:
    """Correlations of the estimates as squares: full for positive ones, empty for negative ones, large for strong ones.

    At most 24 unknowns, parameters first; a cross stands where one of them is not determined.
    """
    labels = fit.covariance_labels
    order = sorted(range(len(labels)), key=lambda k: (labels[k] not in fit.parameters, k))
    chosen = order[: STYLE.unknowns]
    matrix, n = fit.correlation_of(labels[k] for k in chosen), len(chosen)
    side = STYLE.panel_width + STYLE.square * max(n - 2, 0)
    figure = square_figure(side, look)
    panel = figure.subplots()
    names = list(distinct((labels[k] for k in chosen), _beside(figure, look)).values())
    inside = figure.get_figwidth() - max(map(len, names)) / letters(1.0, look.text)
    numbers = n <= STYLE.numbers and inside >= STYLE.number * n * look.text / STYLE.text
    for row in range(n):
        for column in range(row + 1):
            _draw_correlation(panel, row, column, float(matrix[row, column]), numbers, look)
    panel.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    upright = max(map(len, names)) <= STYLE.beside
    panel.set_xticks(range(n), names, rotation=0 if upright else 90, parse_math=False)
    panel.set_yticks(range(n), names, parse_math=False)
    full = Rectangle((0, 0), 1, 1, facecolor=BLUE, edgecolor=BLUE, label="positive")
    empty = Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=ORANGE, label="negative")
    empty.set_linewidth(STYLE.outline)
    handles: list[Artist] = [full, empty]
    if not np.isfinite(matrix).all():
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="none", label="not determined"))
    legend(figure, [panel], not_drawn(len(order) - n, "unknowns"), handles)
    return written(figure, path, grid=False)


def _beside(figure: Figure, look: Look) -> int:
    """Letters of the names beside squares, which get two thirds of the width."""
    return min(STYLE.label, letters(figure.get_figwidth() / 3, look.text))


def _draw_correlation(panel: Axes, row: int, column: int, value: float, written: bool, look: Look) -> None:
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
        panel.text(row, column, text, ha="center", va="center", fontsize=look.text, color=INK)


def plot_profiles(
    profiles: Profile | Sequence[Profile], path: str | Path | None = None, look: Look = SCREEN
) -> Figure:
    """The rise of the objective over each profiled quantity, with the threshold and the ends of the interval.

    Dots were computed; the thin dotted line is the parabola behind Fisher's interval.
    """
    profiles = profiles if isinstance(profiles, Sequence) else [profiles]
    columns = min(len(profiles), STYLE.profiles, look.columns)
    rows = ceil(len(profiles) / columns)
    width = max(STYLE.width, STYLE.panel_width * columns)
    figure = figure_of(width, STYLE.header + STYLE.panel_height * rows, look, columns)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    labels = _under(profiles, letters(figure.get_figwidth() / columns, look.text + 1))
    for panel, one in zip(panels, profiles, strict=False):
        _draw_profile(panel, one)
        panel.set_xlabel(labels[one.name], parse_math=False)
    for panel in panels[::columns]:
        panel.set_ylabel("rise of the objective")
    for panel in panels[len(profiles) :]:
        panel.set_axis_off()
    legend(figure, panels[: len(profiles)], "")
    return written(figure, path)


def plot_fit_profiles(
    fit: Fit,
    path: str | Path | None = None,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    look: Look = SCREEN,
) -> Figure:
    """Profiles of these unknowns or formulas of a fit, all parameters by default; they are computed first."""
    return plot_profiles(list(fit.profiles(names, level).values()), path, look)


def _under(profiles: Sequence[Profile], room: int) -> dict[str, str]:
    """The labels under the panels, names with units, in so many letters."""
    units = max((len(one.unit) + 3 for one in profiles if one.unit), default=0)
    names = distinct((one.name for one in profiles), min(max(room - units, STYLE.label // 2), STYLE.name))
    return {one.name: with_unit(names[one.name], one.unit) for one in profiles}


def _draw_profile(panel: Axes, one: Profile) -> None:
    parabola, percent = one.parabola(), f"{100 * one.level:g} %"
    panel.plot(*one.curve(), color=BLUE, linewidth=STYLE.curve, label="profile")
    panel.plot(one.values, one.rises, "o", color=BLUE, markersize=STYLE.dot, label="computed")
    if parabola is not None:
        panel.plot(*parabola, label="parabola (Fisher)", **thin(GREY, ":"))
    panel.axhline(one.threshold(), label=f"threshold of {percent}", **thin(INK, "--"))
    if one.elsewhere:
        others = ", ".join(number(value) for value in one.elsewhere[:2])
        said = f"also fits: {others} (another optimum)"
        panel.set_title(said, fontsize=STYLE.legend_text, parse_math=False)
    for end in filter(np.isfinite, one.interval()):
        panel.axvline(end, label=f"{percent} interval", **thin(ORANGE, "-."))
    panel.set_ylim(-STYLE.room / 3 * one.threshold(), (1 + 2 * STYLE.room) * one.threshold())
    if one.scale.log:
        panel.set_xscale("log")
        log_ticks(panel.xaxis, *panel.get_xlim())


def plot_convergence(fit: Fit, path: str | Path | None = None, look: Look = SCREEN) -> Figure:
    """Loss, largest jump at a knot and Picard residual by iteration; logarithmic unless there are negative values.

    Jumps and residuals are relative to the size of the states.
    """
    loss = "loss" if fit.problem.noise is None else "objective"
    labels = (loss, "largest jump (relative)", "Picard residual (relative)")
    used = [k for k in range(fit.trace.shape[1]) if k == 0 or np.isfinite(fit.trace[:, k]).any()]
    tall = len(used) if look.narrow else 1
    figure = figure_of(STYLE.wide, STYLE.panel_height if tall == 1 else STYLE.flat[1] * tall, look)
    panels = figure.subplots(tall, len(used) // tall, squeeze=False).ravel()
    iterations = np.arange(1, len(fit.trace) + 1)
    for panel, k in zip(panels, used, strict=True):
        values = fit.trace[:, k]
        shown = np.where(np.isfinite(values) & (values != 0), values, np.nan)
        if (shown > 0).any() and not (shown < 0).any():
            panel.set_yscale("log")
            log_ticks(panel.yaxis, np.nanmin(shown), np.nanmax(shown))
        marker = "o" if len(iterations) < STYLE.marked_iterations else ""
        panel.plot(iterations, shown, color=BLUE, marker=marker, markersize=STYLE.dot)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xlabel("iteration")
        panel.set_ylabel(labels[k])
    return written(figure, path)


def plot_waterfall(fit: Fit, path: str | Path | None = None, look: Look = SCREEN) -> Figure:
    """The starts from the smallest loss on, with a shape for each optimum; crosses reached none.

    Negative log-likelihoods are drawn as differences from the best one. Starts that found nothing are at the top.
    """
    ranked = sorted(fit.searches, key=lambda one: (not np.isfinite(one.loss), one.loss, one.start))
    losses = np.array([one.loss for one in ranked])
    finite = losses[np.isfinite(losses)]
    figure = figure_of(STYLE.width, STYLE.header + STYLE.panel_height, look)
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
    panel.set_xlabel("searches, the best first")
    panel.set_ylabel(label)
    legend(figure, [panel], "")
    return written(figure, path)


def _start_groups(fit: Fit, ranked: Sequence[SearchSummary]) -> list[tuple[str, dict[str, Any], np.ndarray]]:
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
        words = f"{'best' if k == 0 else f'{k + 1}.'} optimum ({int(chosen.sum())} of {len(ranked)} searches)"
        groups.append((words, style, chosen))
    more = number >= optima
    none = (number < 0) & ~lost
    groups += [
        (f"other optima ({more.sum()})", {"color": GREY, "marker": ".", "markersize": 6}, more),
        (f"no optimum reached ({none.sum()})", {"color": ORANGE, "marker": "x"}, none),
        (f"nothing found ({lost.sum()})", {"color": ORANGE, "marker": "+", "markersize": 9}, lost),
    ]
    return [group for group in groups if group[2].any()]
