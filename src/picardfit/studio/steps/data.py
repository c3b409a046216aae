"""Data: the tables, what their columns mean, and what they look like."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from picardfit.studio import document, parts
from picardfit.studio.reading import FORMULA_MISSING
from picardfit.studio.steps import intake
from picardfit.studio.steps.view import Shown

if TYPE_CHECKING:
    from picardfit.studio.steps.table import TableView

ACCEPTS = ".csv,.tsv,.txt,.dat,.xlsx,.xls,.ods,.parquet,.toml,.xml,.sbml,.yaml,.yml"
LEAD = (
    "What was measured: one row for each time, one column for each quantity. Blank cells were not measured."
)


def _table() -> ModuleType:
    """How a table is drawn, which loads much: the first page, which has none, need not wait for it."""
    return importlib.import_module("picardfit.studio.steps.table")


class View(Shown):
    """The step Data."""

    number = 0  # of the table that is shown
    table: TableView | None = None

    def build(self) -> None:
        parts.head("Data", LEAD)
        self.upload = intake.uploader(self.page, ACCEPTS)
        self.adding = intake.uploader(self.page, ACCEPTS, adds=True)
        self.body = parts.tag("div")
        with self.body:
            self.above, self.middle, self.below = (parts.tag("div") for _ in range(3))
        intake.dropping(self.body, self.upload)
        self.refresh()

    def refresh(self) -> None:
        tables = self.reading.tables
        shown = next((one for one in tables if one.number == self.number), tables[0] if tables else None)
        self.above.clear()
        with self.above:
            parts.complain(self.reading.about("data", "time", "covariates", ""))
            if astray := [one for one in self.reading.about("observables") if one.code in FORMULA_MISSING]:
                parts.complain(astray)
                parts.button("Go to equations", lambda: self.page.show("equations"), "primary")
            if shown is None:
                self._begin()
            else:
                self.number = shown.number
                self._files()
        if shown is None or self.table is None or not self.table.renew(shown):
            first = self.table.first if self.table is not None else 0
            self.middle.clear()
            with self.middle:
                self.table = None if shown is None else _table().TableView(self, shown, first)
        self.below.clear()
        with self.below:
            parts.remark(self.reading.remarks)

    def followed(self) -> None:
        """After an own change only the picture is drawn again."""
        if self.table is not None:
            self.table.followed()

    def _begin(self) -> None:
        with parts.empty(
            "Bring your table",
            "Drop a CSV or Excel file here, or choose one. It stays on this machine, in the folder of the study.",
        ) as area:
            area.classes("drop")
            with parts.tag("div", "row").style("justify-content: center"):
                parts.button("Choose a file", intake.choose(self.upload), "primary", id="choose-file")
                parts.button("Paste cells", lambda: intake.paste(self.page), id="paste")
            intake.starters(self.page)

    def _files(self) -> None:
        """The tables of the study, and how others come in."""
        tables = self.reading.tables
        with parts.tag("div", "row spread").style("margin-bottom: 12px"):
            with parts.tag("div", "row"):
                for one in tables if len(tables) > 1 else ():
                    now = one.number == self.number
                    made = parts.button(
                        one.sheet.name, lambda k=one.number: self._choose(k), f"small {'on' if now else ''}"
                    )
                    made.props["aria-pressed"] = str(now).lower()
                if len(tables) > 1:
                    parts.button("Take out", self._take_out, "small", "Take this table out of the study")
            with parts.tag("div", "row"):
                parts.button("Paste cells", lambda: intake.paste(self.page), "small", id="paste")
                parts.button("Another file", intake.choose(self.upload), "small", id="choose-file")
                parts.button("Add a file", intake.choose(self.adding), "small", id="add-file")

    def _choose(self, number: int) -> None:
        self.number, self.table = number, None
        self.refresh()

    def _take_out(self) -> None:
        number = self.number
        self.edit(lambda text: document.without_file(text, number), "take a table out")
