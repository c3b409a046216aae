"""Data and fitted curves of the experiments, with what drove them below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from picardfit.display.plots.choice import Choice, chosen, misfits
from picardfit.display.plots.labels import distinct, misfit_words, not_drawn, time_label, with_unit
from picardfit.display.plots.marks import (
    draw_data,
    draw_driving,
    driving_rows,
    event_times,
)
from picardfit.display.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    REPORT,
    SCREEN,
    SLIM,
    STYLE,
    Look,
    above_rounding,
    arrangement,
    band_above_rounding,
    date_axis,
    figure_of,
    legend,
    on_axis,
    spans_decades,
    thin,
    written,
)
from picardfit.formulas.kernels import BatchedMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from picardfit.fit import Fit
    from picardfit.problem.experiment import Experiment


@dataclass(frozen=True)
class Rows:
    """The panels of an experiment, from top to bottom."""

    quantities: tuple[str, ...]  # observables and hidden states
    hidden: frozenset[str]  # those of them that were measured nowhere
    driving: tuple[str, ...]  # inputs and doses
    dosed: tuple[str, ...] = ()  # states that get doses
    left_out: str = ""  # what is not drawn, in words

    @classmethod
    def of(cls, fit: Fit, experiments: Sequence[Experiment]) -> Rows:
        every, driving = quantities_of(fit), driving_rows(fit.problem, experiments)
        measured = {name for one in fit.problem.experiments for name in one.observables}
        shown, below = every[: STYLE.quantities], driving[: STYLE.inputs]
        notes = (
            not_drawn(len(every) - len(shown), "quantities"),
            not_drawn(len(driving) - len(below), "inputs"),
        )
        hidden = frozenset(name for name in shown if name not in measured)
        dosed = tuple(dict.fromkeys(dose.into for one in experiments for dose in one.doses))
        return cls(tuple(shown), hidden, tuple(below), dosed, "; ".join(filter(None, notes)))

    @property
    def labels(self) -> dict[str, str]:
        """What stands beside the panels; low panels have room for a few letters only."""
        return distinct(self.quantities, STYLE.label) | distinct(self.driving, STYLE.label // 2)

    @property
    def heights(self) -> list[float]:
        """Of all panels, in units of a measured quantity's."""
        own = [STYLE.hidden if name in self.hidden else 1.0 for name in self.quantities]
        return own + [STYLE.driving] * len(self.driving)

    @property
    def inches(self) -> float:
        """Height of all panels with the name above; many panels are made flatter."""
        units = sum(self.heights)
        alone = len(self.quantities) == 1
        each = STYLE.panel_height if alone else float(np.clip(STYLE.sheet / units, *STYLE.flat))
        return STYLE.heading + each * units


def plot_fit(
    fit: Fit,
    path: str | Path | None = None,
    band: float | None = None,
    experiments: Iterable[str] | None = None,
    look: Look = SCREEN,
) -> Figure:
    """Data as dots, fit as line; dashed where nothing was measured. A panel for each observable and hidden state.

    Hidden is a state that no observable shows alone. Inputs and doses are drawn below. Experiments stand beside each
    other, at most 12 of them: of more the worst and typical ones; choose others by their names in `experiments`.
    `band`: level of confidence bands, drawn as shades.
    """
    choice = chosen(fit, experiments, look.experiments)
    members = [fit.problem.experiments[fit.problem.names.index(name)] for name in choice.names]
    rows = Rows.of(fit, members)
    (blocks, columns), height = arrangement(len(members), look.columns), len(rows.heights)
    width = max(STYLE.width, STYLE.panel_width * columns)
    figure = figure_of(width, STYLE.header + blocks * rows.inches, look, columns)
    panels = figure.subplots(
        blocks * height, columns, squeeze=False, gridspec_kw={"height_ratios": rows.heights * blocks}
    )
    points = int(np.clip(STYLE.all_points // (len(members) * height), *STYLE.points))
    titles = _titles(fit, choice, int(figure.get_figwidth() / columns * STYLE.title_letters))
    stacks = []
    for place, one in enumerate(members):
        block, column = divmod(place, columns)
        own = list(panels[block * height : (block + 1) * height, column])
        stacks.append(Stack(fit, one, rows, own, look))
        stacks[-1].draw(points, band, titles[one.name], labelled=column == 0)
    for row in panels[(blocks - 1) * height :]:
        for panel in row[len(members) - (blocks - 1) * columns :]:
            panel.set_axis_off()
    shared = align(stacks)
    for place, stack in enumerate(stacks):
        for panel, same in zip(stack.panels, shared, strict=True):
            panel.tick_params(labelleft=not same or place % columns == 0)
    notes = [choice.words, rows.left_out]
    legend(figure, panels.ravel(), "; ".join(filter(None, notes)))
    return written(figure, path)


def experiment_figures(fit: Fit, choice: Choice, band: float | None, look: Look = REPORT) -> list[Figure]:
    """A narrow figure without legend for every experiment of the choice; panels of a quantity share an axis."""
    members = [fit.problem.experiments[fit.problem.names.index(name)] for name in choice.names]
    rows = Rows.of(fit, members)
    points = int(np.clip(STYLE.all_points // (len(members) * len(rows.heights)), *STYLE.points))
    titles, stacks, figures = _titles(fit, choice, int(look.column * STYLE.title_letters)), [], []
    for one in members:
        figure = figure_of(look.column, rows.inches, look)
        own = figure.subplots(
            len(rows.heights), 1, squeeze=False, gridspec_kw={"height_ratios": rows.heights}
        )
        stacks.append(Stack(fit, one, rows, list(own[:, 0]), look))
        stacks[-1].draw(points, band, titles[one.name], labelled=True)
        figures.append(figure)
    align(stacks)
    return [written(figure, None) for figure in figures]


def _titles(fit: Fit, choice: Choice, longest: int) -> dict[str, str]:
    """The name of each experiment, and where some were chosen by it their misfit."""
    labels = distinct(choice.names, min(max(longest, STYLE.label // 2), STYLE.name))
    if not choice.worst:
        return labels
    sizes = misfits(fit)
    return {name: f"{label}\n{misfit_words(sizes[name])}" for name, label in labels.items()}


@dataclass(frozen=True)
class Stack:
    """The panels of one experiment, below each other."""

    fit: Fit
    one: Experiment
    rows: Rows
    panels: list[Axes]
    look: Look

    @property
    def logarithmic(self) -> bool:
        """Whether time has a logarithmic axis."""
        if self.one.calendar is not None or float(self.one.times[-1]) <= 0:
            return False
        return spans_decades(self.one.times) if self.look.log_x is None else self.look.log_x

    def draw(self, points: int, level: float | None, title: str, labelled: bool) -> None:
        """Data, curves of about so many points and, with a `level`, confidence bands; inputs and doses below."""
        one, fit, model = self.one, self.fit, self.fit.problem.model
        times = self._grid(points)
        curves: dict[str, np.ndarray] = {}
        if fit.solution is not None:
            curves = {**fit.states(one.name, times), **fit.predict(one.name, times)}
        bands = fit.bands(one.name, times, level) if level is not None and fit.status.converged else None
        along = on_axis(one, times, one.calendar)
        for panel, quantity in zip(self.panels, self.rows.quantities, strict=False):
            counted = quantity in model.increments
            values = None if counted else curves.get(quantity)
            log = self.look.log_y and (quantity in one.observables or _positive(values))
            if values is not None:
                self._draw_curve(panel, quantity, along, above_rounding(values) if log else values)
            if quantity in one.observables:
                draw_data(panel, fit.problem, one, quantity, one.calendar)
                if counted and fit.solution is not None:
                    self._draw_increments(panel, quantity)
            if bands is not None and values is not None:
                low, high = bands[quantity].low, bands[quantity].high
                low, high = band_above_rounding(low, high, values) if log else (low, high)
                draw_band(panel, along, low, high, bands.level)
            if log:
                panel.set_yscale("log")
        for panel, row in zip(self.panels[len(self.rows.quantities) :], self.rows.driving, strict=True):
            panel.set_label(SLIM)
            draw_driving(panel, one, row, times, self.rows.dosed)
        self._dress(title, labelled)

    def _draw_curve(self, panel: Axes, quantity: str, along: np.ndarray, values: np.ndarray) -> None:
        measured = quantity in self.one.observables
        style: dict[str, Any] = {"color": BLUE} if measured else {"color": ORANGE, "linestyle": (0, (5, 2))}
        label = "fit" if measured else "fit of what was not measured"
        panel.plot(along, values, linewidth=STYLE.curve, label=label, **style)

    def _draw_increments(self, panel: Axes, quantity: str) -> None:
        """The fitted increments at the times of their samples: between these they mean something else."""
        one, fit = self.one, self.fit
        times, column = one.count_times(quantity), one.observables.index(quantity)
        along = on_axis(one, times, one.calendar)
        values = fit.predict(one.name, times)[quantity]
        lost = ~np.isin(times, one.times[one.sampled[:, column]])
        values = np.where(lost, np.nan, values)  # a lost count may stand for many samples
        panel.plot(along, values, linewidth=STYLE.curve, label="fit", color=BLUE)

    def _dress(self, title: str, labelled: bool) -> None:
        """Name, labels and axes; time is labelled at the bottom only."""
        one, model = self.one, self.fit.problem.model
        for panel, name in zip(self.panels, (*self.rows.quantities, *self.rows.driving), strict=True):
            if self.logarithmic:
                panel.set_xscale("log")
            date_axis(panel, one.calendar)
            for time in one.resets:
                panel.axvline(float(on_axis(one, np.array([time]), one.calendar)[0]), **thin(GREY, ":"))
            if labelled:
                panel.set_ylabel(
                    with_unit(self.rows.labels[name], model.unit(name), STYLE.label), parse_math=False
                )
            if panel is not self.panels[-1]:
                panel.tick_params(labelbottom=False)
                panel.xaxis.get_offset_text().set_visible(False)
        self.panels[0].set_title(title, parse_math=False, fontsize=STYLE.title)
        self.panels[-1].set_xlabel(time_label(self.fit, one.calendar), parse_math=False)

    def _grid(self, points: int) -> np.ndarray:
        """Times for a smooth curve up to the last sample."""
        problem, solution = self.fit.problem, self.fit.solution
        if solution is None:
            return np.linspace(self.one.t0, float(self.one.times[-1]), points)
        knots = solution.system.mesh.knots[problem.names.index(self.one.name)]
        return grid(self.one, knots, self.logarithmic, points)


def draw_band(
    panel: Axes, along: np.ndarray, low: np.ndarray, high: np.ndarray, level: float, words: str | None = None
) -> None:
    """A band as a shade, called a confidence band unless other `words` are given; gaps where it is not finite."""
    there = np.isfinite(low) & np.isfinite(high)
    if there.any():
        shade: dict[str, Any] = {"color": BLUE, "alpha": STYLE.shade, "linewidth": 0, "zorder": 0.5}
        label = words or f"{100 * level:g} % band"
        panel.fill_between(along, low, high, where=there.tolist(), label=label, **shade)


def _positive(values: np.ndarray | None) -> bool:
    """Whether a curve may stand on a logarithmic axis, zeros and rounding errors around them apart."""
    found = np.zeros(0) if values is None else values[np.isfinite(values)]
    return bool(len(found) and found.max() > 0 and found.min() >= -STYLE.flat_curve * found.max())


# ---- axes that panels share ------------------------------------------------------------------------------------------


def align(stacks: Sequence[Stack]) -> list[bool]:
    """Give the panels of a quantity the same axis where that helps to compare; flat curves are drawn flat.

    Returns for each row of panels whether they share the axis of their values.
    """
    shared = []
    for several in zip(*(stack.panels for stack in stacks), strict=True):
        _calm(several)
        shared.append(share(several, "y"))
    for stack in stacks:
        same_time(stack.panels)
    if len({stack.one.calendar for stack in stacks}) == 1 and len({s.logarithmic for s in stacks}) == 1:
        share([panel for stack in stacks for panel in stack.panels], "x")
    return shared


def same_time(panels: Iterable[Axes]) -> None:
    """One range of time for panels below each other, of which the last alone has labels."""
    panels = list(panels)
    ends = _times_shown([panel for panel in panels if panel.has_data()])
    for panel in panels if len(ends) else ():
        panel.set_xlim(ends.min(), ends.max())


def _times_shown(panels: Sequence[Axes]) -> np.ndarray:
    """(panels, 2): the ends of their time axes.

    What stands at one time, such as a dose, takes no room of its own beside longer axes: a margin of theirs at most.
    """
    ends, widths = np.array([panel.get_xlim() for panel in panels]), [panel.dataLim.width for panel in panels]
    points = np.array([_is_point(panel) for panel in panels], bool)
    if points.any() and not points.all() and panels[0].get_xscale() == "linear":
        margin = (np.ptp(ends, axis=1) - widths)[~points].max() / 2
        for k, panel in enumerate(panels):
            if points[k]:
                ends[k] = panel.dataLim.intervalx + np.array([-margin, margin])
    return ends


def _is_point(panel: Axes) -> bool:
    """Whether everything in a panel stands at one time."""
    low, high = panel.dataLim.intervalx
    return bool(low == high)


def share(panels: Sequence[Axes], axis: Literal["x", "y"]) -> bool:
    """One range for all panels, unless that of one of them is so short that nothing would be seen in it.

    Flat curves and panels without data take the range of the others. Returns whether there is one range.
    """
    used = [panel for panel in panels if panel.has_data()]
    scales = {panel.get_xscale() if axis == "x" else panel.get_yscale() for panel in used}
    if len(panels) < 2 or len(scales) != 1:
        return False
    ends = _times_shown(used) if axis == "x" else np.array([panel.get_ylim() for panel in used])
    spans = np.log(ends) if scales == {"log"} else ends
    low, high = spans[:, 0].min(), spans[:, 1].max()
    size = float(np.ptp(ends))
    flat = np.array([_is_point(panel) if axis == "x" else _is_flat(panel, size) for panel in used])
    lengths = np.diff(spans, axis=1)[~flat]
    if lengths.min(initial=np.inf) < STYLE.alike * (high - low):
        return False
    for panel in panels:
        (panel.set_xlim if axis == "x" else panel.set_ylim)(ends[:, 0].min(), ends[:, 1].max())
    return True


def _is_flat(panel: Axes, size: float) -> bool:
    """Whether the curve of a panel varies by rounding errors only, relative to this size."""
    low, high = panel.dataLim.intervaly
    return bool(high - low < STYLE.flat_curve * size)


def _calm(panels: Sequence[Axes]) -> None:
    """Panels of one quantity: a curve that is flat up to rounding errors is drawn flat."""
    with_lines = [panel for panel in panels if panel.lines and panel.get_yscale() == "linear"]
    size = max((np.abs(panel.dataLim.intervaly).max() for panel in with_lines), default=0.0)
    for panel in with_lines:
        low, high = panel.dataLim.intervaly
        if _is_flat(panel, size):
            panel.set_ylim((low + high - STYLE.room * size) / 2, (low + high + STYLE.room * size) / 2)


def quantities_of(fit: Fit) -> list[str]:
    """The observables, and the hidden states: those that no observable shows alone."""
    model, shown = fit.problem.model, set(fit.problem.model.observables)
    if isinstance(model.output, BatchedMap):
        rows = zip(model.observables, model.output.expressions, strict=True)
        shown |= {str(expression) for name, expression in rows if name not in model.increments}
    return [*model.observables, *(state for state in model.states if state not in shown)]


def grid(one: Experiment, knots: np.ndarray, logarithmic: bool, points: int) -> np.ndarray:
    """Times dense enough for a smooth curve: an even grid, the samples, and points in every segment of the mesh.

    A fine mesh and many samples give only as many of their points as the grid has.
    """
    begin, end = one.t0, float(one.times[-1])
    if end <= begin:
        return np.array([begin])
    inside = (knots[:-1, None] + np.diff(knots)[:, None] * np.array([0.0, 0.25, 0.5, 0.75])).ravel()
    inside = inside[:: max(1, len(inside) // points)]
    given = event_times(one, end)
    inside = np.concatenate([inside, given, np.nextafter(given, begin)])  # both sides of a jump
    even = np.linspace(begin, end, points)
    if logarithmic:
        even = np.geomspace(one.times[one.times > 0][0], end, points)
        inside = inside[inside >= even[0]]
    samples = one.times[one.times >= even[0]] if len(one.times) <= points else np.zeros(0)
    return np.unique(np.clip(np.concatenate([even, inside, samples]), begin, end))
