"""Equations: an editor that checks as one types, what it recognises, and the equations typeset."""

from __future__ import annotations

import asyncio
from typing import Any

from nicegui import background_tasks, ui

from picardfit.display.markup import equations
from picardfit.errors import InputError
from picardfit.studio import document, parts
from picardfit.studio.names import completed
from picardfit.studio.reading import in_editor
from picardfit.studio.steps import grammar_help, intake, measured
from picardfit.studio.steps.view import Shown

ACCEPTS = ".toml,.xml,.sbml,.yaml,.yml,.tsv,.csv"
LEAD = "One equation a line: x' = … is the rate of change of x. Names that are no states or inputs are parameters."
HINT = "prey' = birth*prey - hunt*prey*predator\npredator' = gain*prey*predator - death*predator"


class View(Shown):
    """The step Equations."""

    pending: str | None = None
    waiting = False

    def build(self) -> None:
        parts.head("Equations", LEAD)
        self.upload = intake.uploader(self.page, ACCEPTS)
        with parts.tag("div", "row").style("margin-bottom: 12px"):
            intake.starters(self.page)
            parts.button(
                "Open SBML, PEtab or problem.toml", intake.choose(self.upload), "small", id="open-model"
            )
        self.editor = ui.codemirror(
            document.equations_of(self.desk.text),
            on_change=self._typed,
            language=None,
            line_wrapping=True,
            theme=self._theme,
        )
        self.editor.props["id"] = "equations"
        self.editor.props["aria-label"] = "Equations"
        self.spoken = parts.text("div", "", "sr", aria_live="polite")
        grammar_help.build()
        self.above = parts.tag("div").style("margin-top: 12px")
        self.below = parts.tag("div").style("margin-top: 18px")
        self._show()

    @property
    def _theme(self) -> Any:
        return "vscodeDark" if self.page.dark else "basicLight"

    def refresh(self) -> None:
        text = document.equations_of(self.desk.text)
        if self.pending is None and self.editor.value != text:
            self.editor.value = text
        self._show()

    def followed(self) -> None:
        self._show()

    # ---- typing ----------------------------------------------------------------------------------------------------

    def _typed(self, event: Any) -> None:
        """Wait until typing rests for a moment, then keep and check what is there."""
        if (event.value or "") == document.equations_of(self.desk.text) and self.pending is None:
            return
        self.pending = event.value or ""
        if not self.waiting:
            self.waiting = True
            background_tasks.create(self._keep())

    async def _keep(self) -> None:
        text = None
        while text != self.pending:
            text = self.pending
            await asyncio.sleep(self.desk.settings.check_seconds)
        self.waiting, self.pending = False, None
        if text is not None and not self.page.client.is_deleted:
            with self.page.main:
                self._write(text)
        elif text is not None:
            self._write(text)

    def _write(self, equations: str) -> None:
        """Keep the equations, with bounds for parameters that are new."""
        self.edit(
            lambda text: completed(document.with_equations(text, equations)), "equations", self, merge=True
        )

    # ---- what they say ---------------------------------------------------------------------------------------------

    def _show(self) -> None:
        reading = self.reading
        about = [in_editor(one) for one in reading.about("equations", "observables", "inputs", "covariates")]
        in_lines = [one for one in about if one.place.row is not None and one.place.key[:1] == ("equations",)]
        self._mark(in_lines)
        self.above.clear()
        with self.above:
            parts.complain([one for one in about if one not in in_lines and not measured.shows(one)])
        self.below.clear()
        with self.below:
            if not self.editor.value.strip():
                with parts.empty(
                    "Write the equations", "For example two animals, one of which eats the other:"
                ):
                    parts.text("pre", HINT, "code")
                    parts.button("Use these", lambda: self._example(), "primary", id="use-example")
            else:
                if reading.model is not None:
                    self._typeset()
                measured.build(self)

    def _example(self) -> None:
        self.editor.value = HINT

    def _mark(self, faults: list[InputError]) -> None:
        """Put every message under the line that it is about."""
        lines = self.editor.value.split("\n")
        told: dict[int, list[str]] = {}
        for one in faults:
            told.setdefault(min(max(one.place.row or 1, 1), len(lines)), []).append(
                parts.told(one, places=False)
            )
        marks: list[dict[str, Any]] = []
        for row, words in told.items():
            begin = sum(len(line) + 1 for line in lines[: row - 1])
            if lines[row - 1]:
                marks.append(
                    {"kind": "mark", "from": begin, "to": begin + len(lines[row - 1]), "class": "faulty"}
                )
            shown = {"data-fault": "\n".join(words)}  # drawn by the style sheet, as text
            marks.append({"kind": "line", "line": row, "class": "line-fault", "attributes": shown})
        self.editor.decorations = marks
        self.spoken.text = " ".join(f"Line {row}: {' '.join(words)}" for row, words in told.items())

    def _typeset(self) -> None:
        model = self.reading.model
        assert model is not None
        groups = {
            "states": model.states,
            "parameters": model.parameters,
            "inputs": model.signals,
            "covariates": model.covariates,
            "observed": model.observables,
        }
        with parts.tag("div", "two"):
            with parts.card("As they are understood"):
                ui.html(str(equations(model)), sanitize=False)
                for event in model.events:
                    parts.text("code", event.text, "event")
            with parts.card("Names"), parts.tag("div", "stack"):
                for kind, names in groups.items():
                    if names:
                        with parts.tag("div", "row").style("align-items: flex-start; flex-wrap: nowrap"):
                            parts.text("span", kind, "kind")
                            with parts.tag("div", "chips"):
                                for name in names:
                                    parts.text("span", name, "chip accent" if kind == "states" else "chip")
