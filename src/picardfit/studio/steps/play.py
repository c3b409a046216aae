"""Play: sliders over the unknowns, whose curves follow over the data; below them what is known beforehand."""

from __future__ import annotations

import asyncio
from math import exp, log
from typing import Any

import numpy as np
from nicegui import background_tasks

from picardfit.display.plots.labels import with_unit
from picardfit.display.sliding import NO_SOLUTION, Handle, Sliding
from picardfit.display.text import number
from picardfit.errors import InputError
from picardfit.problem.named_values import start_values
from picardfit.problem.problem import Problem
from picardfit.search.starts import make_start
from picardfit.studio import charts, document, layers, parts
from picardfit.studio.chart import Chart
from picardfit.studio.steps import beliefs
from picardfit.studio.steps.view import Shown

LEAD = "Move the sliders until the curves come near the data. Below, say what you know: bounds, fixed values, noise."
STEPS = 1000  # of a slider


class View(Shown):
    """The step Play."""

    sliding: Sliding | None = None
    experiment = ""
    log_y = False
    moved: dict[str, float] | None = None
    rows: beliefs.Rows = {}  # noqa: RUF012 - replaced, never changed

    def build(self) -> None:
        self.fresh: dict[str, str] = {}  # a derived quantity that is half typed
        parts.head("Play", LEAD)
        self.top = parts.tag("div")
        self.table = parts.tag("div")
        self.refresh()

    def refresh(self) -> None:
        self.table.clear()
        with self.table:
            beliefs.build(self)
        self.followed()

    def followed(self) -> None:
        beliefs.mark(self)
        self._restart()

    def _restart(self) -> None:
        """Begin anew with the sliders, in a moment: where a fit would start takes some work."""
        file, self.sliding = self.reading.file, None
        self.top.clear()
        with self.top:
            self.complain(5)
            if file is None or file.problem is None:
                if not self.reading.mistakes:
                    self._missing()
                return
            if file.problem.random is not None:
                parts.say(
                    "A population has one curve for each individual. Fit it; its individuals are under Answer."
                )
                return
            parts.working("Looking for a place to begin …")
        background_tasks.create(self._begin(file.problem, self.desk.study.revision))

    def _missing(self) -> None:
        lacking = "equations" if self.reading.tables else "data"
        words = "Sliders appear when there are data and equations."
        with parts.empty("Nothing to play with yet", words):
            parts.button(f"Go to {lacking}", lambda: self.page.show(lacking), "primary")

    async def _begin(self, problem: Problem, revision: int) -> None:
        file = self.reading.file
        settings = None if file is None else file.settings
        fit = None if self.desk.is_stale else await self.desk.fitted()
        try:
            if (
                fit is not None
                and fit.solution is not None
                and fit.problem.layout.label is not None
                and _alike(fit.problem, problem)
            ):
                unknowns = fit.solution.unknowns
            else:
                given = start_values(
                    problem,
                    settings.start if settings else None,
                    settings.start_initial if settings else None,
                )
                unknowns = (await asyncio.to_thread(make_start, problem, given)).unknowns
            names = problem.names
            sliding = Sliding(problem, unknowns, self.experiment if self.experiment in names else names[0])
        except InputError as error:
            self._say(parts.told(error))
            return
        if self.page.client.is_deleted or self.desk.study.revision != revision or self.page.step is not self:
            return
        self.sliding = sliding
        with self.page.main:
            self._draw()

    def _say(self, words: str) -> None:
        self.top.clear()
        with self.top:
            parts.say(words, "bad")

    # ---- sliders ---------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        sliding = self.sliding
        assert sliding is not None
        self.top.clear()
        with self.top, parts.tag("div", "two wide-left"):
            self.panels = parts.tag("div")
            with parts.tag("div", "card stick"):
                if len(sliding.problem.names) > 1:
                    parts.choice(
                        sliding.problem.names, sliding.experiment, self._choose, "Experiment", "wide"
                    ).style("margin-bottom: 14px; max-width: 100%")
                with parts.tag("div", "sliders"):
                    self.outputs = {label: self._slider(one) for label, one in sliding.handles.items()}
                self.words = parts.text("p", "", "quiet", id="loss", aria_live="polite").style(
                    "margin-top: 14px; min-height: 22px"
                )
                with parts.tag("div", "row").style("margin-top: 8px"):
                    parts.button("Start the fit here", self._start_here, "small", id="start-here")
                    parts.button("Reset", self._reset, "small", "Back to where the sliders began")
                    parts.button(
                        "log values",
                        self._switch_log,
                        f"small {'on' if self.log_y else ''}",
                        aria_pressed=str(self.log_y).lower(),
                    )
        self._panels()
        self._tell_loss()

    def _slider(self, one: Handle) -> Any:
        """A slider and the text of its value."""
        assert self.sliding is not None
        value = self.sliding.values[one.label]
        with parts.tag("div", "slider"):
            parts.text("label", one.label, title=one.label)
            shown = parts.text("output", _value_words(value, one.unit))
            made = parts.typed(
                "input",
                str(_part(one, value)),
                type="range",
                min=0,
                max=STEPS,
                step=1,
                aria_label=one.label,
                aria_valuetext=_value_words(value, one.unit),
            )
            made.props["data-label"] = one.label
            made.on("input", lambda e, o=one: self._move(o, float(e.args)), js_handler=parts.VALUE)
            with parts.tag("div", "ends", aria_hidden="true"):
                parts.text("span", number(one.low, 3))
                parts.text("span", number(one.high, 3))
        return shown, made

    def _move(self, one: Handle, part: float) -> None:
        """Follow a slider; where it moves faster than curves come, the last place counts."""
        value = _natural(one, part)
        shown, _ = self.outputs[one.label]
        shown.text = _value_words(value, one.unit)
        if self.moved is None:
            self.moved = {}
            background_tasks.create(self._follow())
        self.moved[one.label] = value

    async def _follow(self) -> None:
        await asyncio.sleep(0)
        values, self.moved = self.moved or {}, None
        sliding = self.sliding
        if sliding is None or self.page.client.is_deleted:
            return
        sliding.move({label: value for label, value in values.items() if label in sliding.handles})
        curves = sliding.curves()
        for name, chart in self.charts.items():
            times, found = (np.zeros(0), np.zeros(0)) if curves is None else curves[name]
            chart.follow(charts.pairs(times, found))
        await asyncio.sleep(0.12)
        if self.moved is None and self.sliding is sliding and not self.page.client.is_deleted:
            self._tell_loss(curves is None)
            for shown, made in (self.outputs[label] for label in values if label in self.outputs):
                made.props["aria-valuetext"] = shown.text
                made.update()

    def _tell_loss(self, nothing: bool = False) -> None:
        assert self.sliding is not None
        loss = None if nothing else self.sliding.loss()
        if nothing or (loss is not None and not np.isfinite(loss)):
            self.words.text = NO_SOLUTION
        else:
            self.words.text = "" if loss is None else f"loss {number(loss, 5)}"

    def _choose(self, name: str) -> None:
        if self.sliding is not None:
            self.experiment = name
            self.sliding.show_experiment(name)
            self._draw()

    def _reset(self) -> None:
        if self.sliding is not None:
            self.sliding.reset()
            self._draw()

    def _switch_log(self) -> None:
        self.log_y = not self.log_y
        self._draw()

    def _start_here(self) -> None:
        """Write the values of the sliders as the start of the fit."""
        sliding = self.sliding
        if sliding is None:
            return
        layout, values = sliding.problem.layout, sliding.values
        shared = {
            label: value
            for label, value in values.items()
            if "(0)" not in label and not _is_fixed(sliding.problem, label)
        }
        states = {
            layout.states[k]: values[label]
            for label in values
            for k in range(len(layout.states))
            if label.split("[")[0] == f"{layout.states[k]}(0)"
        }

        def change(text: str) -> str:
            text = document.with_value(
                text, ("fit", "start"), {n: _digits(v) for n, v in shared.items()} or None
            )
            return document.with_value(
                text, ("fit", "start_initial"), {n: _digits(v) for n, v in states.items()} or None
            )

        if self.edit(change, "start of the fit", self.page):
            parts.notify("The fit starts here.", "good")

    # ---- curves ----------------------------------------------------------------------------------------------------

    def _panels(self) -> None:
        """A chart for each quantity: what was measured, then what is hidden."""
        sliding = self.sliding
        assert sliding is not None
        model, one = sliding.problem.model, sliding.shown
        curves = sliding.curves() or {}
        hidden = [name for name in model.states if name not in model.observables]
        names = [name for name in [*one.observables, *hidden] if name in (*model.observables, *model.states)]
        self.charts: dict[str, Chart] = {}
        self.panels.clear()
        with self.panels:
            for name in names[: self.desk.settings.panels]:
                times, values = curves.get(name, (np.zeros(0), np.zeros(0)))
                drawn: list[Any] = [charts.Curve("sliders", times.tolist(), values.tolist(), 0, "curve")]
                drawn += layers.data(sliding.problem, one, name, "data", 1)
                with parts.card():
                    parts.text("div", with_unit(name, model.unit(name)), "chart-title")
                    time = layers.time_words(sliding.problem)
                    options = charts.panel(self.palette, time, drawn, log_y=self.log_y)
                    self.charts[name] = Chart(options, f"{name}: data and curve")


def _alike(first: Problem, second: Problem) -> bool:
    """Whether the unknowns of two problems are the same ones."""
    a, b = first.layout, second.layout
    return (
        first.names == second.names
        and a.exists.shape == b.exists.shape
        and bool((a.exists == b.exists).all())
        and first.model == second.model
    )


def _is_fixed(problem: Problem, label: str) -> bool:
    one = problem.parameters.get(label)
    return one is not None and one.fixed is not None


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def _value_words(value: float, unit: str) -> str:
    return f"{number(value, 4)} {unit}".strip()


def _part(one: Handle, value: float) -> int:
    """Where a slider stands, from 0 to STEPS."""
    low, high = (log(one.low), log(one.high)) if one.log else (one.low, one.high)
    at = log(max(value, 1e-300)) if one.log else value
    return round(STEPS * min(max((at - low) / (high - low), 0.0), 1.0)) if high > low else 0


def _natural(one: Handle, part: float) -> float:
    """The value at a place of a slider."""
    share = part / STEPS
    if one.log:
        return exp(log(one.low) + share * (log(one.high) - log(one.low)))
    return one.low + share * (one.high - one.low)
