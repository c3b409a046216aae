"""fit.explore(): sliders over parameters and initial states, and the curve that they give over the data.

`Explorer` computes and draws; `panel` puts its sliders into widgets. A slider is followed while it moves, so that every
move must be answered in less than a tenth of a second: the curve comes from a quick integration, and only it is drawn
again, over a background of data and fit that is drawn once.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.curves import grid
from picardfit.display.plots.labels import short, time_label, with_unit
from picardfit.display.plots.marks import draw_data
from picardfit.display.plots.style import (
    BLUE,
    ORANGE,
    STYLE,
    date_axis,
    figure_of,
    on_axis,
    written,
)
from picardfit.display.text import number
from picardfit.errors import InputError
from picardfit.parallel.progress import notebook_display
from picardfit.problem.named_values import experiment_index, parameters_of, units_of
from picardfit.search.searches import QuickIntegration, value_at
from picardfit.simulation.trajectories import Run, observed, trajectories

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from picardfit.fit import Fit
    from picardfit.problem.experiment import Experiment


@dataclass(frozen=True)
class ExploreSettings:
    """Sizes and limits of the explorer. All are choices."""

    points: int = 201  # times of a curve
    quantities: int = 4  # panels below each other, so that sliders and curves fit on one screen
    panel: float = 1.6  # height of one, in inches
    dots: int = 100  # per inch
    decades: float = 2.0  # how far a logarithmic slider without bounds reaches, to each side
    widths: float = 3.0  # and a linear one, in sizes of its value
    room: float = 0.15  # of the height of a panel that is free above and below data and fit
    reach: tuple[float, ...] = (
        0.0,
        1.0,
        3.0,
    )  # heights by which a panel grows to show a curve that leaves it
    kept: int = 24  # backgrounds, with other limits of the panels each: 1 MB
    experiments: int = 12  # up to which the loss is shown: that of more takes too long
    samples: int = 5000  # and of all of them
    steps: int = 100_000  # of a slider: browsers round its value to them, and the fit is its first value


@dataclass(frozen=True)
class Handle:
    """One slider: an unknown with its ends, in natural units."""

    label: str
    place: tuple[int, int]  # experiment and column of the unknown
    low: float
    high: float
    log: bool
    value: float  # in the fit
    unit: str = ""


class Explorer:
    """The curves of a fit at other values of its unknowns. In a notebook it shows itself, with sliders.

    `parameters` are the values that the sliders have: a fit may start there, `pf.fit(problem, start=e.parameters)`.
    """

    def __init__(
        self, fit: Fit, experiment: str | None = None, settings: ExploreSettings = ExploreSettings()
    ) -> None:
        if fit.solution is None:
            raise InputError("fit.no_solution", ended=fit.conclusion)
        self.fit, self.settings = fit, settings
        self._layout = fit.problem.layout
        self._natural = self._layout.natural(fit.solution.unknowns).copy()
        self.show_experiment(fit.problem.names[0] if experiment is None else experiment)

    # ---- values ----------------------------------------------------------------------------------------------------

    def show_experiment(self, name: str) -> None:
        """Draw another experiment from now on, with the sliders of its own unknowns."""
        self._e = experiment_index(self.fit.problem, name)
        self.handles = {one.label: one for one in self._handles()}
        self._picture: _Picture | None = None

    @property
    def experiment(self) -> str:
        return self.fit.problem.names[self._e]

    @property
    def values(self) -> dict[str, float]:
        """What the sliders of this experiment say."""
        return {label: float(self._natural[one.place]) for label, one in self.handles.items()}

    @property
    def parameters(self) -> dict[str, float]:
        """All parameters at the values of the sliders, as `fit.parameters` has them."""
        return parameters_of(self.fit.problem, self._unknowns)

    def move(self, values: Mapping[str, float]) -> None:
        """Move sliders, by the labels of their unknowns."""
        for label, value in values.items():
            if label not in self.handles:
                known = list(self.handles)
                raise InputError("display.no_slider", label, experiment=self.experiment, known=known)
            e, column = self.handles[label].place
            rows = slice(None) if column >= self._layout.local else e
            self._natural[rows, column] = value

    def reset(self) -> None:
        """Move all sliders back to the fit."""
        self._natural = self._layout.natural(self._solved).copy()

    @property
    def _solved(self) -> np.ndarray:
        assert self.fit.solution is not None
        return self.fit.solution.unknowns

    @property
    def _unknowns(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return self._layout.internal(self._natural)

    def _handles(self) -> list[Handle]:
        """The unknowns on which the curves of this experiment depend: its initial states last."""
        layout, units = self._layout, units_of(self.fit.problem)
        with np.errstate(over="ignore"):
            low, high = layout.natural(layout.lower), layout.natural(layout.upper)
        fitted = layout.natural(self._solved)
        initial = len(layout.initial_states)
        columns = [
            c for c in range(layout.width) if layout.exists[self._e, c] and not layout.noise_columns[c]
        ]
        found = []
        for c in sorted(columns, key=lambda c: (c < initial, c)):
            place = (self._e, c)
            label, log, value = layout.label(*place), bool(layout.log[place]), float(fitted[place])
            ends = self._ends(float(low[place]), float(high[place]), value, log)
            found.append(Handle(label, place, *ends, log, value, units.get(label, "")))
        return found

    def _ends(self, low: float, high: float, value: float, log: bool) -> tuple[float, float]:
        """Where a slider begins and ends: at the bounds, or around the estimate where there are none."""
        size = self.settings.widths * (abs(value) or 1.0)
        far = 10**self.settings.decades
        if not np.isfinite(low) or (log and low <= 0):
            low = value / far if log else value - size
        if not np.isfinite(high):
            high = value * far if log else value + size
        return low, high

    # ---- curves ----------------------------------------------------------------------------------------------------

    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]] | None:
        """Times and values of each quantity at the values of the sliders; None where there is no solution."""
        model, one = self.fit.problem.model, self._one
        states = self._states(self._grid)
        if states is None:
            return None
        run = self._run(self._grid)
        outputs = observed(model, run, states)
        found = {name: (self._grid, states[:, k]) for k, name in enumerate(model.states)}
        found |= {name: (self._grid, outputs[:, k]) for k, name in enumerate(model.observables)}
        for name in set(model.increments) & set(
            one.observables
        ):  # between other times they are other numbers
            times = one.count_times(name)
            states = self._states(times)
            if states is None:
                return None
            k = model.observables.index(name)
            found[name] = (times, observed(model, self._run(times), states)[:, k])
        return found

    def _states(self, times: np.ndarray) -> np.ndarray | None:
        quick = QuickIntegration()
        model = self.fit.problem.model
        with np.errstate(all="ignore"):
            found = trajectories(model, [self._run(times)], quick.tolerance, None, quick.integration)[0]
        return None if found is None or not np.isfinite(found).all() else found

    def _run(self, times: np.ndarray) -> Run:
        problem, layout, own = self.fit.problem, self._layout, len(self.fit.problem.model.states)
        unknowns, one = self._unknowns, self._one
        breaks, jumps = problem.events(self._e)
        return Run(
            one.t0,
            layout.initial(unknowns)[0][self._e, :own],
            layout.model_values(unknowns)[self._e],
            one.signals,
            times,
            breaks,
            None if jumps is None else jumps.of_first(own),
        )

    @property
    def _one(self) -> Experiment:
        return self.fit.problem.experiments[self._e]

    @property
    def _grid(self) -> np.ndarray:
        """Times of the curves: those of the pictures of the fit, with both sides of every dose."""
        one, solution = self._one, self.fit.solution
        knots = np.array([one.t0, one.times[-1]]) if solution is None else solution.system.mesh.knots[self._e]
        return grid(one, knots, logarithmic=False, points=self.settings.points)

    def loss(self) -> float | None:
        """The objective at the values of the sliders, as `fit.objective`; None where that would take too long."""
        problem, limits = self.fit.problem, self.settings
        if len(problem.experiments) > limits.experiments or len(problem.samples.experiment) > limits.samples:
            return None
        return problem.mean_loss(value_at(problem, self._unknowns, QuickIntegration()))

    def words(self) -> str:
        """The loss in words."""
        if (loss := self.loss()) is None:
            return ""
        if not np.isfinite(loss):
            return "The equations have no solution at these values."
        return f"loss {number(loss, 5)} (fit: {number(self.fit.objective, 5)})"

    @property
    def width(self) -> int:
        """Pixels of the picture."""
        return int(STYLE.width * self.settings.dots)

    def png(self) -> bytes:
        """The picture: data, the fit, and the curves at the values of the sliders."""
        if self._picture is None:
            moved = self._natural
            self.reset()
            fitted = self.curves() or {}
            self._natural = moved
            self._picture = _Picture(self.fit, self._one, fitted, self.settings)
        return self._picture.png(self.curves() or {})

    def _repr_mimebundle_(self, **options: Any) -> Any:
        from picardfit.display.sliders import panel

        return panel(self)._repr_mimebundle_(**options)

    def __repr__(self) -> str:
        moved = ", ".join(f"{label} {number(value, 4)}" for label, value in self.values.items())
        return f"Explorer of {self.experiment}: {moved}"


class _Picture:
    """Data and fit, drawn once, and lines that are drawn over them as they change."""

    def __init__(
        self,
        fit: Fit,
        one: Experiment,
        fitted: Mapping[str, tuple[np.ndarray, np.ndarray]],
        settings: ExploreSettings,
    ) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        self._one, self._settings, model = one, settings, fit.problem.model
        hidden = [name for name in model.states if name not in model.observables]
        names = [*one.observables, *hidden][: settings.quantities]
        self._figure = figure_of(STYLE.width, STYLE.header + settings.panel * len(names))
        self._figure.set_dpi(settings.dots)
        panels = self._figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        self._lines: dict[str, tuple[Axes, Line2D]] = {}
        for name, axes in zip(names, panels, strict=True):
            times, values = fitted.get(name, (np.zeros(0), np.zeros(0)))
            axes.plot(self._at(times), values, color=BLUE, linewidth=STYLE.line, label="fit")
            if name in one.observables:
                draw_data(axes, fit.problem, one, name, one.calendar)
            (line,) = axes.plot([], [], color=ORANGE, linewidth=STYLE.curve, label="sliders", animated=True)
            self._lines[name] = (axes, line)
            axes.set_ylabel(with_unit(name, model.unit(name), STYLE.label), parse_math=False)
            date_axis(axes, one.calendar)
        panels[-1].set_xlabel(time_label(fit, one.calendar), parse_math=False)
        panels[0].set_title(short(one.name), parse_math=False, fontsize=STYLE.title)
        panels[0].legend(loc="best", frameon=False, fontsize=STYLE.text)
        written(self._figure, None)
        self._limits = {name: self._padded(axes.get_ylim()) for name, (axes, _) in self._lines.items()}
        self._canvas = FigureCanvasAgg(self._figure)
        self._place()
        self._backgrounds: dict[tuple[tuple[float, float], ...], Any] = {}

    def _place(self) -> None:
        """Place the panels once, with room for the labels of their widest limits."""
        for name, (axes, _) in self._lines.items():
            low, high = self._limits[name]
            far = self._settings.reach[-1] * (high - low)
            axes.set_ylim(low - far, high + far)
        if (engine := self._figure.get_layout_engine()) is not None:
            engine.execute(self._figure)
        self._figure.set_layout_engine(None)

    def _at(self, times: np.ndarray) -> np.ndarray:
        return on_axis(self._one, times, self._one.calendar)

    def _padded(self, ends: tuple[float, float]) -> tuple[float, float]:
        room = self._settings.room * (ends[1] - ends[0])
        return ends[0] - room, ends[1] + room

    def png(self, curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> bytes:
        """The picture with these curves; a background is drawn when a panel has new limits, and kept for later."""
        from PIL import Image

        for name, (axes, line) in self._lines.items():
            times, values = curves.get(name, (np.zeros(0), np.zeros(0)))
            line.set_data(self._at(times), values)
            axes.set_ylim(self._following(name, values))
        self._canvas.restore_region(self._background())
        for axes, line in self._lines.values():
            axes.draw_artist(line)
        content = io.BytesIO()
        Image.fromarray(np.asarray(self._canvas.buffer_rgba())).save(content, "png", compress_level=1)
        return content.getvalue()

    def _background(self) -> Any:
        """Data and fit within the limits that the panels have now."""
        limits = tuple(axes.get_ylim() for axes, _ in self._lines.values())
        if limits not in self._backgrounds:
            if len(self._backgrounds) == self._settings.kept:
                self._backgrounds.clear()
            self._canvas.draw()
            self._backgrounds[limits] = self._canvas.copy_from_bbox(self._figure.bbox)
        return self._backgrounds[limits]

    def _following(self, name: str, values: np.ndarray) -> tuple[float, float]:
        """The limits of a panel: those of data and fit, wider by steps where the curve leaves them."""
        low, high = self._limits[name]
        height, reach = high - low, self._settings.reach
        if not len(values):
            return low, high
        below, above = (low - values.min()) / height, (values.max() - high) / height
        down, up = (next((r for r in reach if beyond <= r), reach[-1]) for beyond in (below, above))
        return low - down * height, high + up * height


def explore(fit: Fit, experiment: str | None = None) -> Explorer:
    """The explorer of a fit, in a notebook with ipywidgets; InputError elsewhere."""
    from picardfit.display.sliders import check_widgets

    if notebook_display() is None:
        raise InputError("display.not_a_notebook")
    check_widgets()
    return Explorer(fit, experiment)
