"""Pictures of a fit: data and curves, residuals, starts, correlations, profiles, convergence.

Only Matplotlib's objects are used, never pyplot, so that no figure stays in a global list and no window opens.
Dots, lines and dashes differ in shape as well as in colour: everything can be read in grey.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogFormatter, MaxNLocator, NullFormatter, NullLocator

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.expressions import BatchedMap
from picardfit.tables import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from picardfit.identifiability import Identifiability
    from picardfit.result import Fit, StartResult
    from picardfit.uncertainty.profile import Profile

INK, BLUE, ORANGE, GREY = "#222222", "#0072B2", "#D55E00", "#999999"  # of Okabe and Ito's palette
MARKERS = "osD^vP*X<>hp"
MOST_EXPERIMENTS, MOST_QUANTITIES = 12, 12  # drawn in one figure
MOST_UNKNOWNS = 24  # in the picture of correlations
MOST_BARS = 40  # unknowns in the picture of their errors
MOST_OPTIMA = 4  # that get a shape of their own in the waterfall
NUMBERS = 12  # unknowns up to which correlations are also written as numbers
WIDEST = 4  # experiments beside each other
LONGEST_NAME, SHORTER_NAME = 40, 22
GRID = 401  # times of a curve
SHEET = 12.0  # inches of height that fill a sheet of paper when its width is filled
POINTS = 12_000  # of all curves in a picture, about
NEGLIGIBLE = 1e-6  # variation that is not worth an axis of its own, relative to the same quantity elsewhere
MANY_DECADES = 1e3  # range of a logarithmic axis that needs no ticks between the decades
CROWDED = 500  # dots from which on a panel is drawn as pixels, to keep files small


class Picture(Figure):
    """A figure that notebooks show also where pyplot was never imported."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


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
    shown = wanted[:MOST_EXPERIMENTS]
    every = [*problem.model.observables, *_hidden(fit)]
    quantities = every[:MOST_QUANTITIES]
    columns = min(len(shown), WIDEST)
    blocks, height = ceil(len(shown) / columns), len(quantities)
    figure = _figure(max(6.5, 2.8 * columns), 0.7 + blocks * _block_height(height))
    panels = figure.subplots(blocks * height, columns, squeeze=False)
    points = int(np.clip(POINTS // (len(shown) * height), 101, GRID))
    for place, name in enumerate(shown):
        k = problem.names.index(name)
        block, column = divmod(place, columns)
        own = panels[block * height : (block + 1) * height, column]
        _draw_experiment(fit, k, name, quantities, own, points, first=column == 0)
        if band is not None and fit.solution is not None and fit.status.converged:
            _draw_bands(fit, k, quantities, own, points, band)
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
    _legend(figure, panels.ravel(), "; ".join(left_out))
    return _written(figure, path)


def pages(fit: Fit) -> list[list[str]]:
    """The experiments that are drawn, in groups that fit on a sheet of paper each."""
    quantities = min(len(fit.problem.model.observables) + len(_hidden(fit)), MOST_QUANTITIES)
    most = WIDEST * max(1, int(SHEET / _block_height(quantities)))
    names = list(fit.problem.names[:MOST_EXPERIMENTS])
    return [names[k : k + most] for k in range(0, len(names), most)]


def _block_height(quantities: int) -> float:
    """Inches for the panels of experiments beside each other; many panels are made flatter."""
    each = 2.8 if quantities == 1 else float(np.clip(SHEET / quantities, 1.1, 1.9))
    return 0.4 + each * quantities


def _known_experiments(fit: Fit, names: Iterable[str]) -> list[str]:
    """The names, in their order; InputError for one that is not there."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise InputError("`experiments` is empty: name at least one, or leave it out to draw the first ones.")
    known = fit.problem.names
    for name in wanted:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise InputError(f"There is no experiment `{name}`: name one of {listing(known)}.{hint}")
    return wanted


def plot_identifiability(found: Identifiability, path: str | Path | None = None) -> Figure:
    """Relative standard errors as bars on a log axis, lines at the thresholds; what is left free reaches the edge."""
    from picardfit.identifiability import SURE, WEAK

    names = list(found.verdicts)[:MOST_BARS][::-1]
    errors = np.array([found.verdicts[name].error for name in names])
    finite = errors[np.isfinite(errors) & (errors > 0)]
    low = 0.5 * min(finite.min(initial=SURE), SURE)
    high = 3 * max(finite.max(initial=WEAK), WEAK)
    figure = _figure(6.5, 1.1 + 0.28 * len(names))
    panel = figure.subplots()
    styles = {"determined": (BLUE, ""), "weakly": (ORANGE, "//"), "not determined": (GREY, "xx")}
    for kind, (colour, hatch) in styles.items():
        rows = [k for k, name in enumerate(names) if found.verdicts[name].kind == kind]
        width = [float(np.clip(np.nan_to_num(errors[k], nan=high), low, high)) for k in rows]
        if rows:
            panel.barh(rows, width, color=colour, hatch=hatch, edgecolor="white", label=kind)
    for level in (SURE, WEAK):
        panel.axvline(level, color=INK, linewidth=0.9, linestyle="--", label="thresholds")
    panel.set_xscale("log")
    panel.set_xlim(low, high)
    panel.set_yticks(range(len(names)), [_short(name) for name in names], parse_math=False)
    panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("relative standard error")
    left_out = len(found.verdicts) - len(names)
    _legend(figure, [panel], f"{left_out} more unknowns not drawn" if left_out else "")
    return _written(figure, path)


def plot_residuals(fit: Fit, path: str | Path | None = None) -> Figure:
    """Data minus fit of every observable, over time and over the fitted value; dashes at two standard deviations."""
    problem = fit.problem
    measured = [n for n in problem.model.observables if any(n in e.observables for e in problem.experiments)]
    shown = measured[:MOST_QUANTITIES]
    figure = _figure(8.5, 1.0 + 2.1 * len(shown))
    panels = figure.subplots(len(shown), 2, squeeze=False, sharey="row")
    for (over_time, over_value), name in zip(panels, shown, strict=True):
        found = _residuals(fit, name)
        spread = float(np.sqrt(np.nanmean(np.concatenate([one[-1] for one in found.values()]) ** 2)))
        for panel in (over_time, over_value):
            panel.axhline(0.0, color=INK, linewidth=0.8)
            for level in (-2 * spread, 2 * spread) if np.isfinite(spread) else ():
                panel.axhline(
                    level, color=GREY, linewidth=1.0, linestyle="--", label="two standard deviations"
                )
        crowded = sum(len(times) for times, _, _ in found.values()) > CROWDED
        for one, (times, fitted, residuals) in _by_shape(fit, found).items():
            style = _residual_style(fit, one) | {"rasterized": crowded}
            over_time.plot(times, residuals, **style)
            over_value.plot(fitted, residuals, **style)
        unit = problem.model.unit(name)
        over_time.set_ylabel(f"data − fit\n{_with_unit(name, unit)}", parse_math=False)
        over_value.set_xlabel(f"fitted {_with_unit(name, unit)}", parse_math=False)
    panels[-1, 0].set_xlabel(_time_label(fit), parse_math=False)
    left_out = len(measured) - len(shown)
    _legend(figure, panels.ravel(), f"{left_out} more observables not drawn" if left_out else "")
    return _written(figure, path)


def _by_shape(fit: Fit, found: dict[str, tuple[np.ndarray, ...]]) -> dict[str, tuple[np.ndarray, ...]]:
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
    named = _short(experiment) if 1 < len(names) <= len(MARKERS) else "_"
    return {
        "marker": MARKERS[k % len(MARKERS)],
        "color": BLUE,
        "linestyle": "none",
        "markersize": 4.0,
        "markerfacecolor": "none",
        "label": named,
    }


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
    figure = _figure(8.5, 2.7)
    panels = figure.subplots(1, len(used), squeeze=False)[0]
    iterations = np.arange(1, len(fit.trace) + 1)
    for panel, k in zip(panels, used, strict=True):
        values = fit.trace[:, k]
        shown = np.where(np.isfinite(values) & (values != 0), values, np.nan)
        if (shown > 0).any() and not (shown < 0).any():
            panel.set_yscale("log")
            _plain_ticks(panel, shown)
        panel.plot(iterations, shown, color=BLUE, marker="o" if len(iterations) < 80 else "", markersize=3)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xlabel("iteration")
        panel.set_ylabel(labels[k])
    return _written(figure, path)


def _plain_ticks(panel: Axes, values: np.ndarray) -> None:
    """Ticks of a logarithmic axis as plain text and no more than needed: setting formulas and many ticks is slow."""
    panel.yaxis.set_major_formatter(LogFormatter())
    if np.nanmax(values) > MANY_DECADES * np.nanmin(values):
        panel.yaxis.set_minor_locator(NullLocator())
    else:
        panel.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))


def plot_waterfall(fit: Fit, path: str | Path | None = None) -> Figure:
    """The starts from the smallest loss on, with a shape for each optimum; crosses reached none.

    Negative log-likelihoods are drawn as differences from the best one. Starts that found nothing stand at the top.
    """
    ranked = sorted(fit.starts, key=lambda one: (not np.isfinite(one.loss), one.loss, one.start))
    losses = np.array([one.loss for one in ranked])
    finite = losses[np.isfinite(losses)]
    figure = _figure(6.5, 3.4)
    panel = figure.subplots()
    least, most = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    label = "loss"
    if fit.problem.noise is not None and len(finite):
        losses, most, label = losses - least, most - least, "objective above the best"
        panel.set_yscale("symlog", linthresh=max(fit.loss_tolerance, 1e-12))
    elif least > 0 and most > 10 * least:
        panel.set_yscale("log")
        _plain_ticks(panel, finite)
    heights = np.where(np.isfinite(losses), losses, 2 * most if most > 0 else 1.0)
    places = np.arange(1, len(ranked) + 1)
    panel.plot(places, heights, color="#cccccc", linewidth=0.8, zorder=1)
    for words, style, chosen in _start_groups(fit, ranked):
        panel.plot(places[chosen], heights[chosen], linestyle="none", label=words, zorder=2, **style)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.get_yscale() == "linear" and len(finite):  # differences within rounding errors are drawn flat
        room = 0.1 * max(abs(least), np.ptp(heights))
        panel.set_ylim(heights.min() - room, heights.max() + room)
    panel.set_xlabel("starts, the best first")
    panel.set_ylabel(label)
    _legend(figure, [panel], "")
    return _written(figure, path)


def _start_groups(fit: Fit, ranked: Sequence[StartResult]) -> list[tuple[str, dict[str, object], np.ndarray]]:
    """(words, style, which of the ranked starts): one for each of the first optima, then the rest."""
    number = np.array([-1 if one.cluster is None else one.cluster for one in ranked])
    lost = ~np.isfinite([one.loss for one in ranked])
    filled = {"color": BLUE, "markersize": 6}
    hollow = {"color": INK, "markersize": 6, "markerfacecolor": "none"}
    optima = min(MOST_OPTIMA, number.max(initial=-1) + 1)
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


def plot_correlation(fit: Fit, path: str | Path | None = None) -> Figure:
    """Correlations of the estimates as squares: full for positive ones, empty for negative ones, large for strong ones.

    At most 24 unknowns, parameters first; a cross stands where one of them is not determined.
    """
    labels = fit.covariance_labels
    order = sorted(range(len(labels)), key=lambda k: (labels[k] not in fit.parameters, k))
    chosen = order[:MOST_UNKNOWNS]
    matrix, n = fit.correlation_of(labels[k] for k in chosen), len(chosen)
    side = 2.0 + 0.42 * n
    figure = _figure(max(4.2, side), max(3.2, side - 0.4))
    panel = figure.subplots()
    for row in range(n):
        for column in range(row + 1):
            _draw_correlation(panel, row, column, float(matrix[row, column]), written=n <= NUMBERS)
    panel.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    names = [_short(labels[k], SHORTER_NAME) for k in chosen]
    panel.set_xticks(range(n), names, rotation=90, parse_math=False)
    panel.set_yticks(range(n), names, parse_math=False)
    squares = [
        Rectangle((0, 0), 1, 1, facecolor=BLUE, edgecolor=BLUE, label="positive"),
        Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=ORANGE, linewidth=1.6, label="negative"),
    ]
    cross = Line2D([], [], color=GREY, marker="x", linestyle="none", label="not determined")
    lost = [] if np.isfinite(matrix).all() else [cross]
    note = f"{len(order) - n} more unknowns not drawn" if len(order) > n else ""
    _legend(figure, [panel], note, handles=[*squares, *lost])
    _written(figure, path=None)
    panel.grid(visible=False)
    if path is not None:
        save_figure(figure, path)
    return figure


def _draw_correlation(panel: Axes, row: int, column: int, value: float, written: bool) -> None:
    """One square at (column, row), its area the size of the correlation; its number in the other half."""
    if not np.isfinite(value):
        panel.plot(column, row, "x", color=GREY, markersize=5)
        return
    size = 0.9 * float(np.sqrt(min(abs(value), 1.0)))
    colour = BLUE if value > 0 else ORANGE
    face = colour if value > 0 else "none"
    corner = (column - size / 2, row - size / 2)
    panel.add_patch(Rectangle(corner, size, size, facecolor=face, edgecolor=colour, linewidth=1.6))
    if written and row != column:
        text = f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
        panel.text(row, column, text, ha="center", va="center", fontsize=7.5, color=INK)


def plot_profiles(profiles: Sequence[Profile], path: str | Path | None = None) -> Figure:
    """The rise of the objective over each profiled quantity, with the threshold and the ends of the interval.

    Dots were computed; the thin dotted line is the parabola behind Fisher's interval.
    """
    columns = min(len(profiles), 3)
    rows = ceil(len(profiles) / columns)
    figure = _figure(max(5.5, 3.2 * columns), 0.8 + 2.7 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, one in zip(panels, profiles, strict=False):
        _draw_profile(panel, one)
    for panel in panels[::columns]:
        panel.set_ylabel("rise of the objective")
    for panel in panels[len(profiles) :]:
        panel.set_axis_off()
    _legend(figure, panels[: len(profiles)], "")
    return _written(figure, path)


def _draw_profile(panel: Axes, one: Profile) -> None:
    parabola, percent = one.parabola(), f"{100 * one.level:g} %"
    panel.plot(*one.curve(), color=BLUE, linewidth=1.5, label="profile")
    panel.plot(one.values, one.rises, "o", color=BLUE, markersize=3.5, label="computed")
    if parabola is not None:
        panel.plot(*parabola, color=GREY, linewidth=1.2, linestyle=":", label="parabola (Fisher)")
    panel.axhline(one.threshold(), color=INK, linewidth=0.8, linestyle="--", label=f"threshold of {percent}")
    for end in one.interval():
        if np.isfinite(end):
            style = {"color": ORANGE, "linewidth": 1.1, "linestyle": "-."}
            panel.axvline(end, label=f"{percent} interval", **style)
    panel.set_ylim(-0.03 * one.threshold(), 1.25 * one.threshold())
    panel.set_xlabel(_with_unit(one.name, one.unit), parse_math=False)
    if one.log:
        panel.set_xscale("log")


def write_plots(fit: Fit, folder: str | Path, ending: str = "png", band: float | None = 0.95) -> list[Path]:
    """Every picture that a fit has, as files in a folder that is made if need be."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {"fit": lambda path: plot_fit(fit, path, band)}
    if fit.solution is not None:
        pictures["residuals"] = lambda path: plot_residuals(fit, path)
    if fit.solution is not None and fit.status.converged:
        pictures["identifiability"] = lambda path: plot_identifiability(fit.identifiability(), path)
    if len(fit.covariance_labels) > 1 and fit.status.converged:
        pictures["correlation"] = lambda path: plot_correlation(fit, path)
    if len(fit.starts) > 1:
        pictures["waterfall"] = lambda path: plot_waterfall(fit, path)
    if len(fit.trace):
        pictures["convergence"] = lambda path: plot_convergence(fit, path)
    written = []
    for name, draw in pictures.items():
        written.append(folder / f"{name}.{ending.removeprefix('.')}")
        draw(written[-1])
    return written


def _draw_bands(fit: Fit, index: int, quantities: list[str], panels, points: int, level: float) -> None:
    one = fit.problem.experiments[index]
    times = _grid(fit, index, _spans_decades(one.times), points)
    found = fit.bands(one.name, times, level)
    for panel, quantity in zip(panels, quantities, strict=True):
        band = found[quantity]
        if np.isfinite(band.low).all() and np.isfinite(band.high).all():
            style = {"color": BLUE, "alpha": 0.2, "linewidth": 0}
            panel.fill_between(
                times, band.low, band.high, label=f"{100 * level:g} % band", zorder=0.5, **style
            )


def _draw_experiment(
    fit: Fit, index: int, name: str, quantities: list[str], panels, points: int, first: bool
) -> None:
    one, model = fit.problem.experiments[index], fit.problem.model
    logarithmic = _spans_decades(one.times)
    curves: dict[str, np.ndarray] = {}
    if fit.solution is not None:
        times = _grid(fit, index, logarithmic, points)
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
            panel.set_ylabel(_with_unit(quantity, model.unit(quantity), SHORTER_NAME), parse_math=False)
        if panel is not panels[-1]:
            panel.tick_params(labelbottom=False)
    panels[0].set_title(_short(name), parse_math=False, fontsize=10)
    panels[-1].set_xlabel(_time_label(fit), parse_math=False)


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


def _residuals(fit: Fit, observable: str) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
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


def _grid(fit: Fit, index: int, logarithmic: bool, points: int) -> np.ndarray:
    """Times dense enough for a smooth curve: an even grid, the samples, and points in every segment of the mesh.

    A fine mesh gives only as many of its points as the grid has.
    """
    one, knots = fit.problem.experiments[index], fit.solution.system.mesh.knots[index]
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


def _spans_decades(times: np.ndarray) -> bool:
    """Whether most samples crowd at the start of a span of three decades or more: then time is drawn in logs."""
    positive = times[times > 0]
    return (
        len(positive) > 4 and positive[-1] > 1e3 * positive[0] and np.median(positive) < 0.05 * positive[-1]
    )


def _figure(width: float, height: float) -> Figure:
    return Picture(figsize=(width, height), layout="constrained")


def _legend(figure: Figure, panels, note: str, handles: Sequence = ()) -> None:
    """One legend for all panels above them, with what was left out as its title."""
    entries = {one.get_label(): one for one in handles}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    known = ["data", "fit", "fit of what was not measured"]
    order = [*(k for k in known if k in entries), *(k for k in entries if k not in known)]
    legend = figure.legend(
        [entries[k] for k in order],
        order,
        loc="outside upper left",
        ncols=_columns(order, figure.get_figwidth()),
        frameon=False,
        fontsize=8.5,
        title=note or None,
        title_fontsize=8,
        alignment="left",
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _columns(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend fit beside each other, filled column by column."""
    sizes = [0.6 + 0.075 * len(label) for label in labels]  # inches, about
    for columns in range(len(sizes), 1, -1):
        rows = ceil(len(sizes) / columns)
        if (
            columns == ceil(len(sizes) / rows)
            and sum(max(sizes[k : k + rows]) for k in range(0, len(sizes), rows)) <= width
        ):
            return columns
    return 1


def _tidy(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(which="both", labelsize=8)
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)


def _short(name: str, longest: int = LONGEST_NAME) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _with_unit(name: str, unit: str, longest: int = LONGEST_NAME) -> str:
    return f"{_short(name, longest)} ({_short(unit, longest)})" if unit else _short(name, longest)


def _time_label(fit: Fit) -> str:
    return _with_unit("time", fit.problem.model.unit("t"))


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
