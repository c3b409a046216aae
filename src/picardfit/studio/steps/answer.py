"""Answer: the headline, the estimates, curves and residuals; more, on demand, is in further.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import background_tasks

from picardfit.cli.show import estimate_cells
from picardfit.display.plots.labels import with_unit
from picardfit.display.text import (
    ESTIMATES_NUMERIC,
    agreement,
    effort,
    error_lines,
    optima_text,
    statistics_lines,
)
from picardfit.display.verdicts import summary
from picardfit.errors import InputError
from picardfit.studio import charts, layers, parts
from picardfit.studio.candidates import horizon
from picardfit.studio.chart import Chart
from picardfit.studio.steps import further
from picardfit.studio.steps.population import KINDS, Population
from picardfit.studio.steps.view import Shown

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.problem.experiment import Experiment
    from picardfit.studio.predicted import Predictions

LEAD = "What the data say, how sure that is, and what they do not say."
STALE = "The problem was changed after this fit: fit again to see what that does."
LEVEL = 0.95  # of the intervals
HEADER = ("", "estimate", "std. error", "95 % from", "to", "also fits", "unit", "verdict", "true value")


class View(Shown):
    """The step Answer."""

    fit: Fit | None = None
    predicted: Predictions = {}  # noqa: RUF012 - replaced, never changed
    experiment = ""  # "": all on one axis
    log_x = log_y = False
    bands = True
    until: float | None = None
    until_words = ""  # as typed
    overlay: tuple[str, ...] = ()

    def build(self) -> None:
        parts.head("Answer", LEAD)
        self.body = parts.tag("div")
        self.refresh()

    def refresh(self) -> None:
        self.body.clear()
        with self.body:
            if not self.desk.is_fitted:
                with parts.empty("No fit yet", "The answer appears here when a fit has ended."):
                    parts.button("Go to the fit", lambda: self.page.show("fit"), "primary")
                return
            parts.working("Opening the fit …")
        background_tasks.create(self._open())

    def followed(self) -> None:
        self.refresh()

    def news(self) -> None:
        """Follow profiles and designs."""
        if self.fit is not None and hasattr(self, "more"):
            self.more.news()

    async def _open(self) -> None:
        self.fit, self.predicted = await self.desk.fitted(), await self.desk.predictions()
        if self.fit is not None:
            await self.desk.open_profiles(self.fit)
        if self.page.client.is_deleted or self.page.step is not self:
            return
        with self.page.main:
            self.body.clear()
            with self.body:
                if self.fit is None:
                    parts.say("The saved fit cannot be read. Fit again.", "bad")
                elif self.fit.problem.random is not None:
                    self._population(self.fit)
                else:
                    self._show(self.fit)

    def _population(self, fit: Fit) -> None:
        if self.desk.is_stale:
            parts.say(STALE, "mind")
        Population(self, fit)
        parts.button("Report and downloads", lambda: self.page.show("keep"), "primary")

    def _show(self, fit: Fit) -> None:
        if self.desk.is_stale:
            parts.say(STALE, "mind")
        self._headline(fit)
        if fit.solution is None:
            return
        self._estimates(fit)
        if len(fit.optima) > 1:
            self._optima(fit)
        self.pictures = parts.tag("div")
        self._draw(fit)
        self.more = further.Further(self, fit)
        self.more.build()

    def _headline(self, fit: Fit) -> None:
        told = summary(fit)
        with parts.card():
            parts.text("p", told.headline, "headline", id="headline")
            with parts.tag("div").style("margin-top: 14px"):
                for k, words in enumerate(told.sentences):
                    parts.say(words, KINDS[told.kind] if k == 0 else "")

    def _estimates(self, fit: Fit) -> None:
        with parts.card("Estimates"):
            parts.table(HEADER, estimate_cells(fit, LEVEL), ESTIMATES_NUMERIC, "Estimates with intervals")
            for line in error_lines(fit):
                parts.text("p", line, "quiet")
            searches = f"; {agreement(fit)}" if len(fit.searches) > 1 and fit.success else ""
            parts.text("p", f"{effort(fit)}{searches}", "quiet").style("margin-top: 10px")
            with parts.tag("details"):
                parts.text("summary", "Likelihood, criteria, residuals")
                parts.text("pre", "\n".join(statistics_lines(fit)), "words")

    def _optima(self, fit: Fit) -> None:
        words = "The different optima that the searches reached, the best first."
        with parts.card("Other optima", words), parts.tag("div", "scroll"):
            parts.text("pre", optima_text(fit), "words").style("white-space: pre")

    # ---- curves ----------------------------------------------------------------------------------------------------

    def again(self) -> None:
        if self.fit is not None:
            self._draw(self.fit)

    def _draw(self, fit: Fit) -> None:
        problem = fit.problem
        self.pictures.clear()
        with self.pictures:
            with parts.tag("div", "row").style("margin: 4px 0 12px"):
                if len(problem.names) > 1:
                    options = {"": "all experiments", **dict(zip(problem.names, problem.names, strict=True))}
                    parts.choice(options, self.experiment, self._choose, "Experiment")
                for key, words in (("log_x", "log time"), ("log_y", "log values"), ("bands", "95 % bands")):
                    on = getattr(self, key)
                    parts.button(
                        words,
                        lambda k=key: self._toggle(k),
                        f"small {'on' if on else ''}",
                        aria_pressed=str(bool(on)).lower(),
                    )
                parts.text("span", "Hold Ctrl and turn the wheel to zoom; drag to move.", "quiet")
                self._horizon(fit)
            predictions = self.predicted if self.until is None else {}
            model = problem.model
            names = [*model.observables, *(name for name in model.states if name not in model.observables)]
            for name in names[: 2 * self.desk.settings.panels]:
                self._panel(fit, name, predictions)

    def _horizon(self, fit: Fit) -> None:
        """Until when the curves are drawn."""
        last = max(float(one.times[-1]) for one in fit.problem.experiments)
        begin = min(one.t0 for one in fit.problem.experiments)
        with parts.tag("div"):
            with parts.tag("label", "row quiet"):
                parts.text("span", "predict until")
                field = parts.field(
                    self.until_words, self._predict, "Predict until", "num", placeholder=f"{last:g}"
                )
            try:
                self.until = horizon(self.until_words, begin, last)
            except InputError as error:
                self.until = None
                parts.mark_wrong(field, error)
        if self.until_words:
            parts.button("Only the data", lambda: self._predict(""), "small")

    def _predict(self, words: str) -> None:
        self.until_words = words.strip()
        try:
            self.again()
        except InputError as error:  # the model cannot be followed so far
            parts.notify(parts.told(error), "bad")
            self.until_words = ""
            self.again()

    def _panel(self, fit: Fit, name: str, predictions: dict[str, dict[str, list[float]]]) -> None:
        """The curves of a quantity over its data, and below them its residuals."""
        problem, shown, standardised = fit.problem, list[Any](), list[Any]()
        chosen = [one for one in problem.experiments if self.experiment in ("", one.name)]
        chosen = chosen[: self.desk.settings.experiments]
        several, counted = len(chosen) > 1, name in problem.model.increments
        for k, one in enumerate(chosen):
            columns = self._columns(fit, one, predictions)
            label = one.name if several else "fit"
            shown += layers.curve(columns, name, label, k, self.bands and not self.log_y, joined=not counted)
            shown += layers.data(problem, one, name, one.name if several else "data", k if several else 1)
            standardised += layers.residuals(fit, one, name, one.name if several else "residuals", k)
        shown += further.overlays(self, name, chosen)
        if shown:
            self._charts(fit, name, shown, standardised)

    def _columns(
        self, fit: Fit, one: Experiment, predictions: dict[str, dict[str, list[float]]]
    ) -> dict[str, list[float]]:
        """The curves of an experiment: those that were written with the fit, or further ones."""
        if self.until is None:
            return predictions.get(one.name, {})
        return further.ahead(fit, one, self.until, self.desk.settings.curve_points)

    def _charts(self, fit: Fit, name: str, shown: list[Any], standardised: list[Any]) -> None:
        model, time = fit.problem.model, layers.time_words(fit.problem)
        hidden = "" if name in model.observables else ", not measured"
        with parts.card():
            parts.text("div", with_unit(name, model.unit(name)) + hidden, "chart-title")
            options = charts.panel(self.palette, time, shown, log_x=self.log_x, log_y=self.log_y)
            Chart(options, f"{name}: data, fit and band", 290)
            if standardised:
                parts.text("div", "standardised residuals", "quiet")
                above = charts.span(shown, self.log_x)
                options = charts.panel(self.palette, time, standardised, log_x=self.log_x, below=above)
                Chart(options, f"Residuals of {name}", 130)

    def _choose(self, name: str) -> None:
        self.experiment = name
        self.again()

    def _toggle(self, key: str) -> None:
        setattr(self, key, not getattr(self, key))
        self.again()
