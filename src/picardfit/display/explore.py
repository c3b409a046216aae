"""fit.explore(): sliders over parameters and initial states, and the curve that they give over the data.

`Explorer` draws what `Sliding` computes; `panel` puts its sliders into widgets. Only the curve is drawn again when a
slider moves, over a background of data and fit that is drawn once.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.curves import quantities_of
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
from picardfit.display.sliding import DEFAULT, NO_SOLUTION, ExploreSettings, Handle, Sliding
from picardfit.display.text import number
from picardfit.errors import InputError
from picardfit.parallel.progress import notebook_display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from picardfit.fit import Fit
    from picardfit.problem.experiment import Experiment


class Explorer:
    """The curves of a fit at other values of its unknowns. In a notebook it shows itself, with sliders.

    `parameters` are the values that the sliders have: a fit may start there, `pf.fit(problem, start=e.parameters)`.
    """

    def __init__(self, fit: Fit, experiment: str | None = None, settings: ExploreSettings = DEFAULT) -> None:
        if fit.solution is None:
            raise InputError("fit.no_solution", ended=fit.conclusion)
        self.fit, self.settings = fit, settings
        mesh = fit.solution.system.mesh
        self._sliding = Sliding(fit.problem, fit.solution.unknowns, experiment, settings, mesh)
        self._picture: _Picture | None = None

    def show_experiment(self, name: str) -> None:
        """Draw another experiment from now on, with the sliders of its own unknowns."""
        self._sliding.show_experiment(name)
        self._picture = None

    @property
    def experiment(self) -> str:
        return self._sliding.experiment

    @property
    def handles(self) -> dict[str, Handle]:
        """The sliders of this experiment by label."""
        return self._sliding.handles

    @property
    def values(self) -> dict[str, float]:
        """What the sliders of this experiment say."""
        return self._sliding.values

    @property
    def parameters(self) -> dict[str, float]:
        """All parameters at the values of the sliders, as `fit.parameters` has them."""
        return self._sliding.parameters

    def move(self, values: Mapping[str, float]) -> None:
        """Move sliders, by the labels of their unknowns."""
        self._sliding.move(values)

    def reset(self) -> None:
        """Move all sliders back to the fit."""
        self._sliding.reset()

    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]] | None:
        """Times and values of each quantity at the values of the sliders; None where there is no solution."""
        return self._sliding.curves()

    def loss(self) -> float | None:
        """The objective at the values of the sliders, as `fit.objective`; None where that would take too long."""
        return self._sliding.loss()

    def words(self) -> str:
        """The loss in words."""
        if (loss := self.loss()) is None:
            return ""
        if not np.isfinite(loss):
            return NO_SOLUTION
        return f"loss {number(loss, 5)} (fit: {number(self.fit.objective, 5)})"

    @property
    def width(self) -> int:
        """Pixels of the picture."""
        return int(STYLE.width * self.settings.dots)

    def png(self) -> bytes:
        """The picture: data, the fit, and the curves at the values of the sliders."""
        if self._picture is None:
            assert self.fit.solution is not None  # checked before
            begin, mesh = self.fit.solution.unknowns, self.fit.solution.system.mesh
            fitted = Sliding(self.fit.problem, begin, self.experiment, self.settings, mesh)
            self._picture = _Picture(self.fit, fitted.shown, fitted.curves() or {}, self.settings)
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
        hidden = [name for name in quantities_of(fit) if name not in model.observables]
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
