"""Pictures of a fit: data and curves, residuals, convergence.

Only Matplotlib's objects are used, never pyplot, so that no figure stays in a global list and no window opens.
Dots, lines and dashes differ in shape as well as in colour: everything can be read in grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator, NullLocator

from picardfit.errors import InputError
from picardfit.expressions import BatchedMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from picardfit.identifiability import Identifiability
    from picardfit.result import Fit
    from picardfit.uncertainty.profile import Profile

INK, BLUE, ORANGE, GREY = "#222222", "#0072B2", "#D55E00", "#999999"  # of Okabe and Ito's palette
MARKERS = "osD^vP*X<>hp"
MOST_EXPERIMENTS, MOST_QUANTITIES = 12, 12  # drawn in one figure
WIDEST = 4  # experiments beside each other
LONGEST_NAME = 40
GRID = 401
NEGLIGIBLE = 1e-6  # variation that is not worth an axis of its own, relative to the same quantity elsewhere
MANY_DECADES = 1e3  # range of a logarithmic axis that needs no ticks between the decades
CROWDED = 2000  # dots from which on a panel is drawn as pixels, to keep files small


def plot_fit(fit: Fit, path: str | Path | None = None, band: float | None = None) -> Figure:
    """Data as dots, fit as line; dashed where nothing was measured. A panel for each observable and hidden state.

    Hidden is a state that no observable shows alone. Experiments stand beside each other, at most 12 of them.
    `band`: level of confidence bands, drawn as shades.
    """
    problem = fit.problem
    shown = problem.names[:MOST_EXPERIMENTS]
    every = [*problem.model.observables, *_hidden(fit)]
    quantities = every[:MOST_QUANTITIES]
    columns = min(len(shown), WIDEST)
    blocks, height = ceil(len(shown) / columns), len(quantities)
    figure = _figure(max(6.5, 2.8 * columns), 0.7 + blocks * (0.4 + (1.9 if height > 1 else 2.8) * height))
    panels = figure.subplots(blocks * height, columns, squeeze=False)
    for k, name in enumerate(shown):
        block, column = divmod(k, columns)
        own = panels[block * height : (block + 1) * height, column]
        _draw_experiment(fit, k, name, quantities, own, first=column == 0)
        if band is not None and fit.solution is not None:
            _draw_bands(fit, k, quantities, own, band)
    for row in panels[(blocks - 1) * height :]:
        for panel in row[len(shown) - (blocks - 1) * columns :]:
            panel.set_axis_off()
    for row in range(height):
        _calm(panels[row::height].ravel())
    left_out = [
        f"{len(total) - len(part)} more {word} not drawn"
        for total, part, word in ((problem.names, shown, "experiments"), (every, quantities, "quantities"))
        if len(total) > len(part)
    ]
    _legend(figure, panels.ravel(), "; ".join(left_out))
    return _written(figure, path)


def plot_identifiability(found: Identifiability, path: str | Path | None = None) -> Figure:
    """Relative standard errors as bars on a log axis, lines at the thresholds; what is left free reaches the edge."""
    from picardfit.identifiability import SURE, WEAK

    names = list(found.verdicts)[::-1]
    errors = np.array([found.verdicts[name].error for name in names])
    finite = errors[np.isfinite(errors) & (errors > 0)]
    low = 0.5 * min(finite.min(initial=SURE), SURE)
    high = 3 * max(finite.max(initial=WEAK), WEAK)
    figure = _figure(6.5, 1.0 + 0.28 * len(names))
    panel = figure.subplots()
    styles = {"determined": (BLUE, ""), "weakly": (ORANGE, "//"), "not determined": (GREY, "xx")}
    for kind, (colour, hatch) in styles.items():
        rows = [k for k, name in enumerate(names) if found.verdicts[name].kind == kind]
        width = [float(np.clip(np.nan_to_num(errors[k], nan=high), low, high)) for k in rows]
        panel.barh(rows, width, color=colour, hatch=hatch, edgecolor="white", label=kind)
    for level in (SURE, WEAK):
        panel.axvline(level, color=INK, linewidth=0.8, linestyle="--")
    panel.set_xscale("log")
    panel.set_xlim(low, high)
    panel.set_yticks(range(len(names)), names)
    panel.set_xlabel("relative standard error")
    panel.legend(loc="lower right", fontsize="small")
    return _written(figure, path)


def plot_residuals(fit: Fit, path: str | Path | None = None) -> Figure:
    """Data minus fit of every observable, over time and over the fitted value; dashes at two standard deviations."""
    problem = fit.problem
    measured = [n for n in problem.model.observables if any(n in e.observables for e in problem.experiments)]
    shown = measured[:MOST_QUANTITIES]
    figure = _figure(8.5, 0.6 + 2.1 * len(shown))
    panels = figure.subplots(len(shown), 2, squeeze=False, sharey="row")
    for (over_time, over_value), name in zip(panels, shown, strict=True):
        times, fitted, residuals = zip(*_residuals(fit, name), strict=True)
        spread = float(np.sqrt(np.nanmean(np.concatenate(residuals) ** 2)))
        for panel in (over_time, over_value):
            panel.axhline(0.0, color=INK, linewidth=0.8)
            if np.isfinite(spread):
                for level in (-2 * spread, 2 * spread):
                    panel.axhline(level, color=GREY, linewidth=0.8, linestyle="--")
        for k in range(len(times)):
            style = {
                "marker": MARKERS[k % len(MARKERS)],
                "color": BLUE,
                "linestyle": "none",
                "markersize": 3.5,
            }
            crowded = sum(map(len, times)) > CROWDED
            over_time.plot(times[k], residuals[k], markerfacecolor="none", rasterized=crowded, **style)
            over_value.plot(fitted[k], residuals[k], markerfacecolor="none", rasterized=crowded, **style)
        over_time.set_ylabel(f"data - fit\n{_short(name)}", parse_math=False)
        over_value.set_xlabel(f"fitted {_short(name)}", parse_math=False)
    panels[-1, 0].set_xlabel("time")
    if len(measured) > len(shown):
        figure.text(0.01, 0.002, f"{len(measured) - len(shown)} more observables not drawn", fontsize=7)
    return _written(figure, path)


def plot_convergence(fit: Fit, path: str | Path | None = None) -> Figure:
    """Loss and largest jump at a knot, iteration by iteration, on logarithmic axes unless there are negative values."""
    figure = _figure(8.5, 2.7)
    panels = figure.subplots(1, 2)
    iterations = np.arange(1, len(fit.trace) + 1)
    for panel, values, label in zip(panels, fit.trace.T, ("loss", "largest jump (relative)"), strict=True):
        shown = np.where(np.isfinite(values) & (values != 0), values, np.nan)
        if (shown > 0).any() and not (shown < 0).any():
            panel.set_yscale("log")
            _plain_ticks(panel, shown)
        panel.plot(iterations, shown, color=BLUE, marker="o" if len(iterations) < 80 else "", markersize=3)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xlabel("iteration")
        panel.set_ylabel(label)
    return _written(figure, path)


def _plain_ticks(panel: Axes, values: np.ndarray) -> None:
    """Ticks of a logarithmic axis as plain text and no more than needed: setting formulas and many ticks is slow."""
    panel.yaxis.set_major_formatter(LogFormatter())
    if np.nanmax(values) > MANY_DECADES * np.nanmin(values):
        panel.yaxis.set_minor_locator(NullLocator())
    else:
        panel.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))


def plot_profiles(profiles: Sequence[Profile], path: str | Path | None = None) -> Figure:
    """The rise of the objective over each profiled quantity; dots were computed, dashes are the threshold.

    The thin dotted line is the parabola behind Fisher's interval.
    """
    columns = min(len(profiles), 3)
    rows = ceil(len(profiles) / columns)
    figure = _figure(max(4.5, 3.2 * columns), 0.4 + 2.7 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, one in zip(panels, profiles, strict=False):
        low, high = (x if np.isfinite(x) else None for x in one.interval())
        line, parabola = one.curve(), one.parabola()
        panel.plot(*line, color=BLUE, linewidth=1.5)
        panel.plot(one.values, one.rises, "o", color=BLUE, markersize=3.5)
        if parabola is not None:
            panel.plot(*parabola, color=GREY, linewidth=1.0, linestyle=":")
        panel.axhline(one.threshold(), color=INK, linewidth=0.8, linestyle="--")
        for end in (low, high):
            if end is not None:
                panel.axvline(end, color=ORANGE, linewidth=0.9, linestyle=(0, (5, 2)))
        panel.set_ylim(-0.03 * one.threshold(), 1.25 * one.threshold())
        panel.set_xlabel(_short(one.name), parse_math=False)
        if one.log:
            panel.set_xscale("log")
    for panel in panels[::columns]:
        panel.set_ylabel("rise of the objective")
    for panel in panels[len(profiles) :]:
        panel.set_axis_off()
    return _written(figure, path)


def _draw_bands(fit: Fit, index: int, quantities: list[str], panels, level: float) -> None:
    one = fit.problem.experiments[index]
    times = _grid(fit, index, _spans_decades(one.times))
    found = fit.bands(one.name, times, level)
    for panel, quantity in zip(panels, quantities, strict=True):
        band = found[quantity]
        if np.isfinite(band.low).all() and np.isfinite(band.high).all():
            style = {"color": BLUE, "alpha": 0.2, "linewidth": 0}
            panel.fill_between(
                times, band.low, band.high, label=f"{100 * level:g} % band", zorder=0.5, **style
            )


def _draw_experiment(fit: Fit, index: int, name: str, quantities: list[str], panels, first: bool) -> None:
    one, model = fit.problem.experiments[index], fit.problem.model
    logarithmic = _spans_decades(one.times)
    curves: dict[str, np.ndarray] = {}
    if fit.solution is not None:
        times = _grid(fit, index, logarithmic)
        curves = {**fit.states(name, times), **fit.predict(name, times)}
    for panel, quantity in zip(panels, quantities, strict=True):
        data = one.observations.get(quantity) if quantity in model.observables else None
        if quantity in curves:
            style = {"color": BLUE} if data is not None else {"color": ORANGE, "linestyle": (0, (5, 2))}
            label = "fit" if data is not None else "fit of what was not measured"
            panel.plot(times, curves[quantity], linewidth=1.5, label=label, **style)
        if data is not None:
            dots = {
                "markersize": 4,
                "markerfacecolor": "none",
                "markeredgecolor": INK,
                "markeredgewidth": 0.9,
            }
            panel.plot(one.times, data, "o", label="data", rasterized=len(data) > CROWDED, **dots)
        if logarithmic:
            panel.set_xscale("log")
        if first:
            panel.set_ylabel(_short(quantity), parse_math=False)
        if panel is not panels[-1]:
            panel.tick_params(labelbottom=False)
    panels[0].set_title(_short(name), parse_math=False, fontsize=10)
    panels[-1].set_xlabel("time")


def _calm(panels) -> None:
    """Panels of one quantity: a curve that is flat up to rounding errors is drawn flat."""
    with_lines = [panel for panel in panels if panel.lines]
    size = max((np.abs(panel.dataLim.intervaly).max() for panel in with_lines), default=0.0)
    for panel in with_lines:
        low, high = panel.dataLim.intervaly
        if high - low < NEGLIGIBLE * size:
            panel.set_ylim((low + high) / 2 - size / 20, (low + high) / 2 + size / 20)


def _hidden(fit: Fit) -> list[str]:
    """States that no observable shows alone."""
    model = fit.problem.model
    if isinstance(model.output, BatchedMap):
        alone = {str(expression) for expression in model.output.expressions}
    else:
        alone = set(model.observables)
    return [state for state in model.states if state not in alone and state not in model.observables]


def _residuals(fit: Fit, observable: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Times, fitted values and residuals of each experiment that measured the observable."""
    found = []
    for one in fit.problem.experiments:
        if observable in one.observables:
            data = one.observations[observable]
            measured = np.isfinite(data)
            times = one.times[measured]
            missing = np.full(len(times), np.nan)
            fitted = missing if fit.solution is None else fit.predict(one.name, times)[observable]
            found.append((times, fitted, data[measured] - fitted))
    return found


def _grid(fit: Fit, index: int, logarithmic: bool) -> np.ndarray:
    """Times dense enough for a smooth curve: an even grid, the samples, and points in every segment of the mesh."""
    one, knots = fit.problem.experiments[index], fit.solution.system.mesh.knots[index]
    begin, end = one.t0, float(one.times[-1])
    if end <= begin:
        return np.array([begin])
    inside = (knots[:-1, None] + np.diff(knots)[:, None] * np.array([0.0, 0.25, 0.5, 0.75])).ravel()
    even = np.linspace(begin, end, GRID)
    if logarithmic:
        even = np.geomspace(one.times[one.times > 0][0], end, GRID)
        inside = inside[inside >= even[0]]
    return np.unique(np.clip(np.concatenate([even, inside, one.times[one.times >= even[0]]]), begin, end))


def _spans_decades(times: np.ndarray) -> bool:
    """Whether most samples crowd at the start of a span of three decades or more: then time is drawn in logs."""
    positive = times[times > 0]
    return (
        len(positive) > 4 and positive[-1] > 1e3 * positive[0] and np.median(positive) < 0.05 * positive[-1]
    )


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _legend(figure: Figure, panels, note: str) -> None:
    """One legend for all panels, with what was left out as its title."""
    entries: dict[str, object] = {}
    for panel in panels:
        _tidy(panel)
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        known = ["data", "fit", "fit of what was not measured"]
        order = [*(k for k in known if k in entries), *(k for k in entries if k not in known)]
        figure.legend(
            [entries[k] for k in order],
            order,
            loc="outside upper left",
            ncols=4,
            frameon=False,
            fontsize=9,
            title=note or None,
            title_fontsize=8,
            alignment="left",
        )


def _tidy(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(which="both", labelsize=8)
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _written(figure: Figure, path: str | Path | None) -> Figure:
    for panel in figure.axes:
        _tidy(panel)
    if path is not None:
        save_figure(figure, path)
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the ending of the file names."""
    path = Path(path)
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise InputError(f"`{path}` does not end in a picture format: use .png, .svg or .pdf.")
    if not path.parent.is_dir():
        raise InputError(f"The folder `{path.parent}` does not exist: create it first.")
    figure.savefig(path, dpi=150)
