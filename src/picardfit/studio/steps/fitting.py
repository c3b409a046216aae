"""Fit: start, watch, stop, go on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nicegui import background_tasks, ui

from picardfit.display.plots.labels import with_unit
from picardfit.parallel.progress import duration
from picardfit.studio import charts, document, layers, parts
from picardfit.studio.chart import Chart
from picardfit.studio.job import Phase
from picardfit.studio.steps.view import Shown

if TYPE_CHECKING:
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

LEAD = "The fit searches until two searches that began elsewhere agree. Stop it at any time and keep the best so far."


class View(Shown):
    """The step Fit."""

    drawn = 0.0
    revision = -1  # of the study that the charts show
    controls: tuple[object, ...] = ()  # what the controls that are shown depend on

    def build(self) -> None:
        parts.head("Fit", LEAD)
        self.top = parts.tag("div")
        self.state = parts.tag("div")
        self.charts = parts.tag("div", "two")
        self.refresh()
        self.timer = ui.timer(0.5, self._tick)

    def refresh(self) -> None:
        if self.reading.revision != self.revision:
            self.revision, self._phase = self.reading.revision, None
            self._prepare()
        elif self._now != self.controls:
            self._begin()
        self.news()

    @property
    def _now(self) -> tuple[object, ...]:
        return self.desk.fitting.phase, self.desk.resumable, self.desk.is_fitted

    def _begin(self) -> None:
        """The controls, or what is missing before there can be a fit."""
        self.controls = self._now
        self.top.clear()
        with self.top:
            if self.reading.file is not None:
                self._controls()
                return
            self.complain()
            if not self.reading.mistakes:
                with parts.empty("Nothing to fit yet", "There must be data and equations first."):
                    parts.button("Go to data", lambda: self.page.show("data"), "primary")

    def followed(self) -> None:
        self.refresh()

    # ---- controls --------------------------------------------------------------------------------------------------

    def _controls(self) -> None:
        job, text = self.desk.fitting, self.desk.text
        with parts.tag("div", "card row"):
            if job.busy:
                words = "Stop at once" if job.phase is Phase.STOPPING else "Stop and keep the best so far"
                parts.button(words, lambda: job.stop(), "danger big", id="stop-fit")
                self.clock = parts.text("span", "", "quiet")
                return
            if self.desk.resumable:
                parts.button("Go on", lambda: self._start(resume=True), "primary big", id="resume-fit")
            parts.button(
                "Fit" if not self.desk.is_fitted else "Fit again",
                self._start,
                "big" if self.desk.resumable else "primary big",
                id="start-fit",
            )
            self._setting("starts", "Searches", document.value_at(text, "fit", "starts"), "as needed")
            self._setting("seed", "Seed", document.value_at(text, "fit", "seed"), "0")
            if document.value_at(text, "fit", "start"):
                parts.text("span", "starts where the sliders were", "chip")
                parts.button("Forget", self._forget, "small", "Forget the start that was set by sliders")

    def _setting(self, key: str, label: str, now: object, blank: str) -> None:
        def put(words: str) -> None:
            value = int(words) if words.strip().isdecimal() else words.strip() or None
            self.edit(lambda t: document.with_value(t, ("fit", key), value), label.lower())

        with parts.tag("label", "field"):
            parts.text("span", label)
            parts.field("" if now is None else now, put, label, "num", placeholder=blank, inputmode="numeric")

    def _forget(self) -> None:
        def change(text: str) -> str:
            return document.with_value(
                document.with_value(text, ("fit", "start"), None), ("fit", "start_initial"), None
            )

        self.edit(change, "forget the start")

    def _start(self, resume: bool = False) -> None:
        background_tasks.create(self.desk.fit(resume))

    # ---- news ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.desk.fitting.busy and hasattr(self, "clock"):
            self.clock.text = duration(self.desk.fitting.elapsed)

    _phase: Phase | None = None

    def news(self) -> None:
        """Follow the fit: words at once, pictures a few times a second."""
        job = self.desk.fitting
        if job.phase is not self._phase:
            self._phase = job.phase
            self._begin()
            self._tell()
        if job.busy and hasattr(self, "line"):
            self.line.text = job.words or "Starting …"
        now = time.monotonic()
        if now - self.drawn > self.desk.settings.news_seconds or not job.busy:
            self.drawn = now
            self._draw()

    def _tell(self) -> None:
        job = self.desk.fitting
        self.state.clear()
        with self.state:
            if job.kind == "fit" and job.busy:
                with parts.tag("div", "working", role="status").style("margin-bottom: 14px"):
                    self.line = parts.text("span", job.words or "Starting …", id="fit-words")
                return
            parts.records(job.errors)
            if job.phase is Phase.STOPPED:
                parts.say("Stopped before there was a result.", "mind")
            if job.phase is Phase.ENDED:
                good, took = (
                    bool(job.result.get("success")),
                    f"{duration(job.seconds)}, {len({one[0] for one in job.losses})} searches",
                )
                with parts.tag("div", "card row spread"):
                    words = (
                        "Stopped; the best so far is kept."
                        if job.result.get("stopped")
                        else "The fit has ended."
                    )
                    with parts.tag("div"):
                        parts.text("h2", words)
                        parts.text("p", took, "quiet")
                    parts.button(
                        "See the answer",
                        lambda: self.page.show("answer"),
                        "primary" if good else "",
                        id="to-answer",
                    )

    def _prepare(self) -> None:
        """Charts of the loss and of the data, filled by the news."""
        self.charts.clear()
        self.moving: dict[tuple[str, str], Chart] = {}
        file = self.reading.file
        with self.charts:
            self.box = parts.card("Loss over the iterations")
            with self.box:
                words = "Loss over the iterations of every search"
                self.loss = Chart(charts.losses(self.palette, []), words, 200)
            if file is None or file.problem is None:
                self.box.set_visibility(False)
                return
            problem = file.problem
            pairs = [(one, name) for one in problem.experiments for name in one.observables]
            for one, name in pairs[: self.desk.settings.panels]:
                self._panel(problem, one, name)

    def _panel(self, problem: Problem, one: Experiment, name: str) -> None:
        """Data with the curve that will move towards them."""
        shown: list[Any] = [
            charts.Curve("fit", [], [], 0, "curve"),
            *layers.data(problem, one, name, "data", 1),
        ]
        with parts.card():
            title = with_unit(name, problem.model.unit(name))
            several = len(problem.names) > 1
            parts.text("div", f"{one.name}: {title}" if several else title, "chart-title")
            options = charts.panel(self.palette, layers.time_words(problem), shown)
            words = f"{name} in {one.name}: data and the curve so far"
            self.moving[one.name, name] = Chart(options, words, 210)

    def _draw(self) -> None:
        job = self.desk.fitting
        self.box.set_visibility(bool(job.losses))
        if job.losses:
            self.loss.show(charts.losses(self.palette, job.losses))
        self._follow(job.curves)
        if not job.busy and not self.desk.is_stale:
            background_tasks.create(self._draw_last())

    async def _draw_last(self) -> None:
        """Draw the curves of the fit that was saved last."""
        ended = await self.desk.predictions()
        if not self.page.client.is_deleted and self.page.step is self:
            self._follow(
                {
                    experiment: {name: _without_gaps(one["time"], values) for name, values in one.items()}
                    for experiment, one in ended.items()
                }
            )

    def _follow(self, curves: Mapping[str, Mapping[str, Any]]) -> None:
        """Move the curves that are shown: experiment -> quantity -> times and values."""
        for (experiment, name), chart in self.moving.items():
            if found := curves.get(experiment, {}).get(name):
                chart.follow(charts.pairs(*found))


def _without_gaps(times: list[float], values: list[float]) -> tuple[list[float], list[float]]:
    """The times at which a quantity has a value: an increment has one at its own samples only."""
    kept = [(time, value) for time, value in zip(times, values, strict=True) if value == value]
    return [time for time, _ in kept], [value for _, value in kept]
