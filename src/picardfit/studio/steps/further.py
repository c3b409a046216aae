"""What can be asked of a fit: profiles, predictions, comparison with earlier fits, the next experiment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from nicegui import background_tasks

from picardfit.display.comparison import HEADER, NUMERIC, comparison_lines, comparison_rows
from picardfit.errors import InputError
from picardfit.files.fit_file import load
from picardfit.inference.model_comparison import compare_models
from picardfit.studio import charts, document, parts
from picardfit.studio.candidates import candidate_times
from picardfit.studio.chart import Chart
from picardfit.studio.job import Phase
from picardfit.studio.worker import EARLIER

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.problem.experiment import Experiment
    from picardfit.studio.steps.answer import View


def ahead(fit: Fit, one: Experiment, until: float, points: int) -> dict[str, list[float]]:
    """The columns of predictions.csv, up to another time."""
    last = float(one.times[-1])
    ends = [one.t0, *([last] if one.t0 < last < until else []), max(until, one.t0 + 1e-9)]
    pieces = [np.linspace(a, b, points) for a, b in pairwise(ends)]  # the data keep their part of the points
    times = np.unique(np.concatenate(pieces))
    found: dict[str, list[float]] = {"time": times.tolist()}
    banded = fit.bands(one.name, times) if fit.status.converged else None
    curves = {**fit.states(one.name, times), **fit.predict(one.name, times)}
    for name, values in curves.items():
        if name in fit.problem.model.increments:
            continue
        found[name] = values.tolist()
        if banded is not None:
            found[f"{name}_lower"], found[f"{name}_upper"] = (
                banded[name].low.tolist(),
                banded[name].high.tolist(),
            )
    return found


def overlays(view: View, name: str, experiments: Sequence[Experiment]) -> list[charts.Curve]:
    """Curves of earlier fits that were chosen for comparison."""
    found = []
    for k, chosen in enumerate(view.overlay):
        fit = _LOADED.get(chosen)
        for one in experiments:
            if fit is not None and fit.solution is not None and one.name in fit.problem.names:
                times = np.linspace(one.t0, float(one.times[-1]), view.desk.settings.curve_points)
                curves: Mapping[str, np.ndarray] = {
                    **fit.states(one.name, times),
                    **fit.predict(one.name, times),
                }
                if name in curves:
                    found.append(
                        charts.Curve(
                            Path(chosen).stem, times.tolist(), curves[name].tolist(), 2 + k, dashed=True
                        )
                    )
    return found


_LOADED: dict[str, Fit] = {}  # earlier fits by their path


class Further:
    """The cards below the curves."""

    def __init__(self, view: View, fit: Fit) -> None:
        self.view, self.fit, self.desk = view, fit, view.desk

    def build(self) -> None:
        if self.fit.status.converged:
            self.profiling = parts.card(
                "Profiles",
                "How much worse the fit becomes away from an estimate: intervals that need not be symmetric.",
            )
            self.planning = parts.card(
                "The next experiment", "Which experiment would add most to what is known."
            )
            self.news()
        self.comparing = parts.card("Earlier fits of this study")
        self._compare()

    def news(self) -> None:
        """Draw profiles and designs as they come."""
        if not self.fit.status.converged or self.view.page.client.is_deleted:
            return
        job = self.desk.helping
        state = (job.phase, job.done, len(self.desk.profiles), self.desk.design)
        if state == getattr(self, "_told", None):
            return
        self._told = state
        _keep_head(self.profiling)
        with self.profiling:
            self._profiles()
        _keep_head(self.planning)
        with self.planning:
            self._design()

    # ---- profiles --------------------------------------------------------------------------------------------------

    def _profiles(self) -> None:
        job = self.desk.helping
        names = [name for name in self.fit.parameters if name in self.fit.standard_errors]
        with parts.tag("div", "row").style("margin: 8px 0"):
            for name in names[:24]:
                drawn = name in self.desk.profiles
                parts.button(
                    name,
                    lambda n=name: self._profile([n]),
                    f"small {'on' if drawn else ''}",
                    disabled=job.busy,
                )
            parts.button(
                "All",
                lambda: self._profile(names),
                "small",
                "Profiles of all parameters",
                disabled=job.busy,
                id="profile-all",
            )
        if job.busy and job.kind == "profile":
            done, total = job.done
            with parts.tag("div", "row"):
                parts.working(f"{done} of {total} branches of {', '.join(job.names[:6])}")
                parts.button("Stop", lambda: job.stop(), "small danger")
        if job.kind == "profile" and job.phase is Phase.FAILED:
            parts.records(job.errors)
        with parts.tag("div", "two"):
            for name, record in self.desk.profiles.items():
                with parts.tag("div"):
                    low, high = ("…" if end is None else f"{end:.4g}" for end in record["interval"])
                    parts.text("div", f"{name}: {low} to {high}", "chart-title")
                    Chart(charts.profile(self.view.palette, name, record), f"Profile of {name}", 170)

    def _profile(self, names: list[str]) -> None:
        background_tasks.create(self.desk.profile(names))

    # ---- comparison ------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        folder = self.desk.results / EARLIER
        paths = sorted(folder.glob("[0-9]*.json"))[::-1] if folder.is_dir() else []
        if len(paths) < 2:
            with self.comparing:
                parts.text(
                    "p",
                    "When there is more than one fit, they are compared here: change the equations and fit again.",
                    "quiet",
                )
            return
        with self.comparing:
            self.found = parts.tag("div")
            with self.found:
                parts.working("Reading earlier fits …")
        background_tasks.create(self._read_earlier(paths))

    async def _read_earlier(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if str(path) not in _LOADED:
                try:
                    _LOADED[str(path)] = await asyncio.to_thread(load, path)
                except InputError:
                    continue
        if self.view.page.client.is_deleted or self.view.page.step is not self.view:
            return
        with self.view.page.main:
            self.found.clear()
            with self.found:
                self._earlier([str(path) for path in paths if str(path) in _LOADED])

    def _earlier(self, paths: list[str]) -> None:
        fits = {Path(path).stem: _LOADED[path] for path in paths}
        comparable = {name: one for name, one in fits.items() if one.success and one.problem.random is None}
        try:
            found = compare_models(comparable) if len(comparable) > 1 else None
            if len(comparable) < len(fits):
                parts.text("p", "Fits that did not succeed are not compared.", "quiet")
        except InputError as error:
            found = None
            parts.say(parts.told(error))
        if found is not None:
            parts.table(HEADER, comparison_rows(found), NUMERIC, "Fits compared")
            for line in comparison_lines(found):
                parts.text("p", line, "quiet")
        with parts.tag("div", "row").style("margin-top: 10px"):
            parts.text("span", "Draw over the curves:", "quiet")
            for path in paths:
                on = path in self.view.overlay
                when = datetime.fromtimestamp(Path(path).stat().st_mtime)
                parts.button(
                    Path(path).stem,
                    lambda p=path: self._overlay(p),
                    f"small {'on' if on else ''}",
                    f"Fit of {when:%d %b, %H:%M}",
                )

    def _overlay(self, path: str) -> None:
        chosen = self.view.overlay
        self.view.overlay = tuple(one for one in chosen if one != path) if path in chosen else (*chosen, path)
        self.view.again()
        self.comparing.clear()
        with self.comparing:
            parts.text("h2", "Earlier fits of this study")
        self._compare()

    # ---- the next experiment ---------------------------------------------------------------------------------------

    def _design(self) -> None:
        job = self.desk.helping
        given = document.value_at(self.desk.text, "candidates")
        candidates = given if isinstance(given, dict) else {}
        if candidates:
            self._candidates({n: _times_words(one) for n, one in candidates.items() if isinstance(one, dict)})
        with parts.tag("div", "row").style("margin: 10px 0; align-items: end"):
            self.planned: dict[str, Any] = {"name": f"plan {len(candidates) + 1}", "times": ""}
            with parts.tag("label", "field"):
                parts.text("span", "name")
                parts.field(
                    self.planned["name"], lambda v: self.planned.update(name=v), "Name of the candidate"
                )
            last = max(float(one.times[-1]) for one in self.fit.problem.experiments)
            begin = min(one.t0 for one in self.fit.problem.experiments)
            with parts.tag("label", "field"):
                parts.text("span", "times: a list, or from:to:how many")
                parts.field(
                    "",
                    lambda v: self.planned.update(times=v),
                    "Times of the candidate",
                    placeholder=f"{begin:g}:{last:g}:10",
                )
            parts.button("Add a candidate", self._add, "small")
            parts.button(
                "Rank them", self._rank, "small primary", disabled=not candidates or job.busy, id="rank"
            )
        if job.busy and job.kind == "design":
            parts.working("Ranking …")
        if job.kind == "design" and job.phase is Phase.FAILED:
            parts.records(job.errors)
        if self.desk.design:
            parts.text("pre", self.desk.design, "words")

    def _candidates(self, rows: Mapping[str, str]) -> None:
        with parts.tag("div", "scroll"), parts.tag("table", "t"):
            with parts.tag("thead"), parts.tag("tr"):
                for words in ("candidate", "times"):
                    parts.text("th", words, scope="col")
            with parts.tag("tbody"):
                for name, words in rows.items():
                    with parts.tag("tr"):
                        parts.text("td", name, "name")
                        parts.text("td", words)
                        with parts.tag("td", "r"):
                            parts.button(
                                "Remove", lambda n=name: self._drop(n), "small danger", f"Remove {name}"
                            )

    def _add(self) -> None:
        one = self.fit.problem.experiments[0]
        words = self.planned["times"] or f"{one.t0:g}:{float(one.times[-1]):g}:10"
        name = self.planned["name"].strip() or "plan"
        try:
            times = candidate_times(words, one, self.desk.settings)
        except InputError as error:
            parts.notify(parts.told(error), "bad")
            return
        self.view.edit(
            lambda text: document.with_value(text, ("candidates", name), {"times": times}),
            f"candidate {name}",
            self.view.page,
        )
        self._again()

    def _drop(self, name: str) -> None:
        self.view.edit(
            lambda text: document.with_value(text, ("candidates", name), None),
            f"remove {name}",
            self.view.page,
        )
        self._again()

    def _again(self) -> None:
        self._told = None  # type: ignore[assignment]
        self.news()

    def _rank(self) -> None:
        background_tasks.create(self.desk.rank())


def _keep_head(card: Any) -> None:
    """Empty a card but for its title and the words below it."""
    for child in list(card.default_slot.children)[2:]:
        card.remove(child)


def _times_words(one: Mapping[str, Any]) -> str:
    times = one.get("times", [])
    return (
        ", ".join(f"{t:g}" for t in times[:12]) + (" …" if len(times) > 12 else "")
        if isinstance(times, list)
        else ""
    )
