"""Pictures of draws: traces, ranks, pairs, intervals, prior beside posterior, and data beside predictions."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.labels import not_drawn, short, time_label, with_unit
from picardfit.display.plots.marks import draw_data
from picardfit.display.plots.style import (
    BLUE,
    GREY,
    INK,
    NARROW,
    ORANGE,
    STYLE,
    Picture,
    date_axis,
    figure_of,
    legend,
    on_axis,
    thin,
    written,
)
from picardfit.errors import InputError, closest
from picardfit.inference.posterior.predictive import priors_by_label
from picardfit.model.prior_terms import density_of_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.inference.posterior.posterior import DrawsPicture, Posterior

CHAINS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, GREY)  # of Okabe and Ito's palette
MOST = {
    "trace": 8,
    "rank": 8,
    "pairs": 6,
    "forest": 40,
    "marginals": 12,
    "predictive": 12,
}  # unknowns or experiments
BINS = 20  # of ranks and histograms
POINTS = 200  # of a curve


def plot_draws(wanted: DrawsPicture, path: str | Path | None = None) -> Figure:
    """One of the pictures of draws, written to `path` if given."""
    kinds = {
        "trace": _traces,
        "rank": _ranks,
        "pairs": _pairs,
        "forest": _forest,
        "marginals": _marginals,
        "predictive": _predictive,
    }
    if wanted.kind not in kinds:
        close = closest(str(wanted.kind), kinds)
        raise InputError("inference.picture_of_draws", value=wanted.kind, known=list(kinds), close=close)
    one, every = wanted.posterior, list(wanted.posterior.draws if wanted.names is None else wanted.names)
    for name in every:
        _ = one[name]  # refuses an unknown that was not drawn
    return written(kinds[wanted.kind](one, every[: MOST[wanted.kind]], len(every)), path)


def _grid(count: int, columns: int, height: float = STYLE.panel_height) -> tuple[Picture, list[Axes]]:
    """A figure with panels beside and below each other."""
    columns = max(min(count, columns), 1)
    rows = max(ceil(count / columns), 1)
    figure = figure_of(max(STYLE.width, STYLE.panel_width * columns), STYLE.header + height * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for panel in panels[count:]:
        panel.set_axis_off()
    return figure, panels[:count]


def _bins(values: np.ndarray) -> int:
    """How many bins a histogram has: few draws fill few of them."""
    return min(2 * BINS, max(BINS // 2, int(np.sqrt(values.size))))


def _name(one: Posterior, name: str) -> str:
    """The name of an unknown or derived quantity with its unit."""
    known = one.problem.parameters.get(name) or one.fit.derived.get(name)
    return with_unit(name, known.unit if known is not None else "", STYLE.label)


def _finite(values: np.ndarray) -> np.ndarray:
    """Draws without those at which a derived quantity has no value."""
    return values[np.isfinite(values)]


def _traces(one: Posterior, names: Sequence[str], all_of_them: int) -> Picture:
    """The draws of each chain in the order in which they were made; divergent ones are marked below."""
    figure, panels = _grid(len(names), 1, STYLE.flat[0] + STYLE.heading)
    divergent = one.drawn.divergent
    for panel, name in zip(panels, names, strict=True):
        for k, values in enumerate(one[name]):
            panel.plot(values, color=CHAINS[k % len(CHAINS)], linewidth=0.5, label=f"chain {k + 1}")
        if divergent is not None and divergent.any():
            at = np.flatnonzero(divergent.any(axis=0))
            panel.plot(at, np.full(len(at), np.nanmin(one[name])), "|", color=INK, label="divergent")
        panel.set_ylabel(_name(one, name).replace(" (", "\n("), parse_math=False)
    panels[-1].set_xlabel("draw")
    legend(figure, panels, not_drawn(all_of_them - len(names), "unknowns"))
    return figure


def _ranks(one: Posterior, names: Sequence[str], all_of_them: int) -> Picture:
    """How often the draws of each chain have which rank among all: equally often if the chains have mixed."""
    from scipy.stats import rankdata

    figure, panels = _grid(len(names), 4)
    for panel, name in zip(panels, names, strict=True):
        values = one[name]
        ranks = rankdata(values).reshape(values.shape)
        for k, own in enumerate(ranks):
            counts, edges = np.histogram(own, BINS, (0, values.size + 1))
            panel.stairs(counts, edges, color=CHAINS[k % len(CHAINS)], label=f"chain {k + 1}")
        panel.axhline(values.shape[1] / BINS, label="expected", **thin(INK, "--"))
        panel.set_ylim(0)
        panel.set_xlabel(f"rank of {_name(one, name)}", parse_math=False)
    legend(figure, panels, not_drawn(all_of_them - len(names), "unknowns"))
    return figure


def _pairs(one: Posterior, names: Sequence[str], all_of_them: int) -> Picture:
    """Draws of two unknowns against each other; histograms on the diagonal; divergent draws are marked."""
    n, side = len(names), 1.5
    figure = figure_of(max(STYLE.width, side * n), STYLE.header + max(side * n, STYLE.panel_height))
    panels = figure.subplots(n, n, squeeze=False)
    divergent = np.zeros(one.shape, bool) if one.drawn.divergent is None else one.drawn.divergent
    chosen = np.linspace(0, divergent.size - 1, min(divergent.size, 1500)).astype(int)
    for i, below in enumerate(names):
        for j, beside in enumerate(names):
            panel = panels[i, j]
            if j > i:
                panel.set_axis_off()
                continue
            if i == j:
                panel.hist(_finite(one[below]), _bins(one[below]), color=BLUE, alpha=0.6)
                panel.set_yticks([])
            else:
                x, y = one[beside].ravel(), one[below].ravel()
                panel.plot(x[chosen], y[chosen], ".", color=BLUE, markersize=1.5, alpha=0.4, label="draws")
                if divergent.any():
                    bad = divergent.ravel()
                    panel.plot(x[bad], y[bad], "x", color=ORANGE, markersize=STYLE.dot, label="divergent")
            panel.set_label(NARROW)
            if i == n - 1:
                panel.set_xlabel(_name(one, beside), parse_math=False, fontsize=STYLE.text)
            else:
                panel.set_xticklabels([])
            if j == 0 and i:
                panel.set_ylabel(_name(one, below), parse_math=False, fontsize=STYLE.text)
            elif j:
                panel.set_yticklabels([])
    legend(figure, panels.ravel(), not_drawn(all_of_them - n, "unknowns"))
    return figure


def _forest(one: Posterior, names: Sequence[str], all_of_them: int) -> Picture:
    """Means with 50 % and 95 % intervals in units of the estimate, beside Fisher's 95 % interval."""
    figure = figure_of(STYLE.width, STYLE.header + STYLE.heading + 1.3 * STYLE.bar * len(names))
    panel, fisher = figure.subplots(), one.fit.intervals()
    fisher = {**fisher, **{name: derived.interval() for name, derived in one.fit.derived.items()}}
    estimates = _estimates(one)
    for row, name in enumerate(reversed(names)):
        values = _finite(one[name])
        unit = abs(estimates.get(name, 0.0)) or float(np.std(values)) or 1.0
        ends = np.quantile(values, [0.025, 0.25, 0.75, 0.975]) / unit
        panel.plot(ends[[0, 3]], [row, row], color=BLUE, linewidth=STYLE.line, label="95 % of the draws")
        panel.plot(ends[1:3], [row, row], color=BLUE, linewidth=3 * STYLE.curve, label="50 % of the draws")
        panel.plot(
            values.mean() / unit,
            row,
            "o",
            color="white",
            markeredgecolor=BLUE,
            markersize=STYLE.dot,
            label="mean",
        )
        low, high = fisher.get(name, (np.nan, np.nan))
        if np.isfinite([low, high]).all():
            panel.plot(
                [low / unit, high / unit],
                [row - 0.3] * 2,
                label="95 % by Fisher information",
                **thin(ORANGE, "-."),
            )
    panel.set_yticks(range(len(names)), [short(name) for name in reversed(names)], parse_math=False)
    panel.set_ylim(-0.7, len(names) - 0.3)
    panel.set_xlabel("value over estimate")
    legend(figure, [panel], not_drawn(all_of_them - len(names), "unknowns"))
    return figure


def _estimates(one: Posterior) -> dict[str, float]:
    """The estimates of the fit by the names of unknowns and derived quantities."""
    layout, solution = one.problem.layout, one.fit.solution
    found = {**one.fit.parameters, **{name: float(derived) for name, derived in one.fit.derived.items()}}
    if solution is None:
        return found
    natural = layout.natural(solution.unknowns)
    return found | {layout.label(e, c): float(natural[e, c]) for e, c in one.coordinates.index}


def _marginals(one: Posterior, names: Sequence[str], all_of_them: int) -> Picture:
    """Histograms of the draws with the density of the prior, the estimate, and the 95 % interval."""
    figure, panels = _grid(len(names), 3)
    believed, estimates = priors_by_label(one.problem), _estimates(one)
    for panel, name in zip(panels, names, strict=True):
        values = _finite(one[name])
        panel.hist(values, _bins(values), density=True, color=BLUE, alpha=0.5, label="draws")
        low, high = panel.get_xlim()
        if (prior := believed.get(name)) is not None:
            x = np.linspace(low, high, POINTS)
            panel.plot(x, density_of_value(*prior, x), color=INK, linewidth=STYLE.line, label="prior")
        panel.axvline(estimates[name], label="estimate", **thin(ORANGE, "-"))
        for end in np.quantile(values, [0.025, 0.975]):
            panel.axvline(end, label="95 % of the draws", **thin(BLUE, "--"))
        panel.set_xlim(low, high)
        panel.set_yticks([])
        panel.set_xlabel(_name(one, name), parse_math=False)
    legend(figure, panels, not_drawn(all_of_them - len(names), "unknowns"))
    return figure


def _predictive(one: Posterior, _names: Sequence[str], _all_of_them: int) -> Picture:
    """Data in the bands in which curves and new measurements lie by the posterior."""
    problem = one.problem
    every = [(e, k) for e in problem.experiments for k in e.observables if k in problem.model.observables]
    drawn = every[: MOST["predictive"]]
    figure, panels = _grid(len(drawn), 3)
    for panel, (experiment, observable) in zip(panels, drawn, strict=True):
        times = np.unique(
            np.concatenate([experiment.times, np.linspace(experiment.t0, experiment.times[-1], 60)])
        )
        if observable in problem.model.increments:
            times = experiment.count_times(observable)
        curve = one.predict(experiment.name, times, most=200)[observable]
        wide = one.predict(experiment.name, times, most=200, noise=True)[observable]
        along = on_axis(experiment, times, experiment.calendar)
        panel.fill_between(
            along, wide.low, wide.high, color=GREY, alpha=STYLE.shade, label="95 % of new measurements"
        )
        panel.fill_between(
            along, curve.low, curve.high, color=BLUE, alpha=2 * STYLE.shade, label="95 % of curves"
        )
        panel.plot(along, curve.value, color=BLUE, linewidth=STYLE.curve, label="median")
        draw_data(panel, problem, experiment, observable, experiment.calendar)
        date_axis(panel, experiment.calendar)
        panel.set_ylabel(with_unit(observable, problem.model.unit(observable), STYLE.label), parse_math=False)
        panel.set_xlabel(time_label(one.fit, experiment.calendar), parse_math=False)
        if len(problem.experiments) > 1:
            panel.set_title(short(experiment.name), fontsize=STYLE.title, parse_math=False)
    legend(figure, panels, not_drawn(len(every) - len(drawn), "panels"))
    return figure
