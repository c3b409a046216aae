"""Data: the table, what its columns mean, and what it looks like."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from picardfit.studio import charts, document, parts
from picardfit.studio.sheet import Role, Series, Sheet, is_nonmem, with_role
from picardfit.studio.steps import intake
from picardfit.studio.steps.view import Shown

ACCEPTS = ".csv,.tsv,.txt,.dat,.xlsx,.xls,.ods,.parquet,.toml,.xml,.sbml,.yaml,.yml"
LEAD = (
    "What was measured: one row for each time, one column for each quantity. Blank cells were not measured."
)
WORDS = {
    Role.TIME: "time",
    Role.EXPERIMENT: "experiment",
    Role.MEASURED: "measured",
    Role.INPUT: "input",
    Role.DOSE: "dose",
    Role.COVARIATE: "covariate",
    Role.IGNORED: "ignored",
}


class View(Shown):
    """The step Data."""

    first = 0  # row at the top of the grid

    def build(self) -> None:
        parts.head("Data", LEAD)
        self.upload = intake.uploader(self.page, ACCEPTS)
        self.body = parts.tag("div")
        self.refresh()

    def refresh(self) -> None:
        self.body.clear()
        with self.body:
            parts.complain(self.reading.about("data", "time", "covariates", ""))
            sheet = self.reading.sheet
            if sheet is None:
                self._begin()
            else:
                self._controls(sheet)
                self._sheet(sheet)
                self.plots = parts.tag("div")
                self._draw()
            parts.remark(self.reading.remarks)

    def followed(self) -> None:
        """After an own change only the picture is drawn again."""
        sheet = self.reading.sheet
        if sheet is not None:
            self._draw()
            self._count(sheet)

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
        intake.dropping(area, self.upload)

    # ---- the table -------------------------------------------------------------------------------------------------

    def _controls(self, sheet: Sheet) -> None:
        with parts.tag("div", "row spread").style("margin-bottom: 12px"):
            with parts.tag("div", "row"):
                parts.text("strong", sheet.name)
                self.count = parts.text("span", "", "quiet", id="data-count")
            with parts.tag("div", "row"):
                self.back = parts.button("Bring all back", self._restore, "small", id="bring-back")
                parts.button("Add a row", self._add_row, "small")
                parts.button("Paste cells", lambda: intake.paste(self.page), "small", id="paste")
                parts.button("Another file", intake.choose(self.upload), "small", id="choose-file")
        self._count(sheet)

    def _count(self, sheet: Sheet) -> None:
        left = f", {len(sheet.left_out)} left out" if sheet.left_out else ""
        self.count.text = f"{len(sheet.rows):,} rows, {len(sheet.header)} columns{left}"
        self.back.set_visibility(bool(sheet.left_out))

    def _sheet(self, sheet: Sheet) -> None:
        with parts.card() as card:
            card.style("padding: 14px 16px")
            self._roles(sheet)
            self.pager = parts.tag("div", "row")
            self.grid = ui.aggrid(self._grid_options(sheet), auto_size_columns=False).style("height: 330px")
            self.grid.props["aria-label"] = "Table of the data"
            self.grid.on("cellValueChanged", self._typed, args=["rowId", "colId", "newValue", "data"])
        dropped = "Click a point to leave it out, and again to bring it back. Double-click a cell to edit it."
        parts.text("p", dropped, "quiet").style("margin: -6px 0 14px")
        self._page_rows(sheet)

    def _roles(self, sheet: Sheet) -> None:
        nonmem = is_nonmem(document.data_of(self.desk.text))
        with (
            parts.tag("div", "scroll"),
            parts.tag("div", "row").style("flex-wrap: nowrap; padding-bottom: 10px; align-items: end"),
        ):
            for column in sheet.header:
                role = self.reading.roles.get(column, Role.IGNORED)
                with parts.tag("label", "field"):
                    parts.text("span", column, "column-name")
                    made = parts.choice(
                        {one.value: WORDS[one] for one in Role},
                        role.value,
                        lambda v, c=column: self._set_role(c, Role(v)),
                        f"What {column} is",
                        f"role role-{role.value}",
                    )
                    made.props["data-column"] = column
                    if nonmem:
                        made.props["disabled"] = True

    def _set_role(self, column: str, role: Role) -> None:
        sheet = self.reading.sheet
        if sheet is None:
            return
        model = self.reading.model
        states = () if model is None else model.states
        if role is Role.DOSE and len(states) != 1:
            self._ask_into(sheet, column, states)
            return
        self._write_role(sheet, column, role, next(iter(states), ""))

    def _write_role(self, sheet: Sheet, column: str, role: Role, into: str = "") -> None:
        self.edit(lambda text: with_role(sheet, text, column, role, into), f"{column} is {WORDS[role]}")

    def _ask_into(self, sheet: Sheet, column: str, states: tuple[str, ...]) -> None:
        """Ask which state the doses go into."""
        with ui.dialog() as dialog, parts.card(f"Where do the doses in {column} go?"):
            if not states:
                parts.text("p", "Write the equations first: doses go into one of their states.")

            def take(state: str) -> None:
                dialog.close()
                self._write_role(sheet, column, Role.DOSE, state)

            with parts.tag("div", "row").style("margin: 12px 0"):
                for state in states:
                    parts.button(state, lambda s=state: take(s), "primary")
                parts.button("Cancel", lambda: self._cancel(dialog))
        dialog.open()

    def _cancel(self, dialog: ui.dialog) -> None:
        dialog.close()
        self.refresh()

    # ---- rows ------------------------------------------------------------------------------------------------------

    def _grid_options(self, sheet: Sheet) -> dict[str, Any]:
        columns: list[dict[str, Any]] = [
            {
                "headerName": "",
                "field": "n",
                "width": 70,
                "pinned": "left",
                "cellStyle": {"color": "var(--faint)"},
                "sortable": False,
            }
        ]
        for k, name in enumerate(sheet.header):
            out = f"data.out && data.out.includes({k})"
            columns.append(
                {
                    "headerName": name,
                    "field": f"c{k}",
                    "editable": True,
                    "sortable": False,
                    "flex": 1,
                    "minWidth": 90,
                    "cellClassRules": {"left-out": out},
                }
            )
        return {
            "columnDefs": columns,
            "rowData": self._rows(sheet),
            ":getRowId": "(p) => String(p.data.n)",
            "stopEditingWhenCellsLoseFocus": True,
            "suppressMovableColumns": True,
            "rowHeight": 30,
            "headerHeight": 34,
        }

    def _rows(self, sheet: Sheet) -> list[dict[str, Any]]:
        size, found = self.desk.settings.grid_rows, []
        self.first = min(self.first, max(len(sheet.rows) - 1, 0) // size * size)
        for r, cells in enumerate(sheet.rows[self.first : self.first + size], self.first):
            out = [k for k, name in enumerate(sheet.header) if (r, name) in sheet.left_out]
            texts = {
                f"c{k}": sheet.left_out.get((r, name), cell)
                for k, (name, cell) in enumerate(zip(sheet.header, cells, strict=True))
            }
            found.append({"n": r + 1, **texts, "out": out})
        return found

    def _page_rows(self, sheet: Sheet) -> None:
        """The rows that the grid shows, of a long table."""
        size, total = self.desk.settings.grid_rows, len(sheet.rows)
        self.pager.clear()
        if total <= size:
            return
        with self.pager:
            parts.button("‹", lambda: self._turn(-size), "small", "Earlier rows", disabled=self.first == 0)
            parts.text(
                "span", f"rows {self.first + 1:,} to {min(self.first + size, total):,} of {total:,}", "quiet"
            )
            parts.button(
                "›", lambda: self._turn(size), "small", "Later rows", disabled=self.first + size >= total
            )
            parts.field("", self._jump, "Go to row", "num", placeholder="row")

    def _turn(self, by: int) -> None:
        sheet = self.reading.sheet
        if sheet is not None:
            self.first = max(self.first + by, 0)
            self.grid.options["rowData"] = self._rows(sheet)
            self.grid.update()
            self._page_rows(sheet)

    def _jump(self, text: str) -> None:
        if text.strip().isdecimal():
            size = self.desk.settings.grid_rows
            self._turn((int(text) - 1) // size * size - self.first)

    def _typed(self, event: Any) -> None:
        sheet, column = self.reading.sheet, str(event.args.get("colId", ""))
        if sheet is None or not column.startswith("c"):
            return
        row, name = int(event.args["data"]["n"]) - 1, sheet.header[int(column[1:])]
        changed = sheet.with_cell(row, name, str(event.args.get("newValue") or ""))
        self._write(changed, f"row {row + 1} of {name}", self)

    def _write(self, sheet: Sheet, label: str, by: object = None) -> None:
        self.attempt(lambda: self.desk.edit_sheet(sheet, label, by))

    def _add_row(self) -> None:
        if self.reading.sheet is not None:
            self.first = len(self.reading.sheet.rows)
            self._write(self.reading.sheet.with_row(), "a row")

    def _restore(self) -> None:
        if self.reading.sheet is not None:
            self._write(self.reading.sheet.restored(), "bring all back")

    # ---- pictures --------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        self.plots.clear()
        series = self.reading.series
        if self.reading.unseen is not None:
            with self.plots:
                parts.say(parts.told(self.reading.unseen), "bad")
            return
        names = list(dict.fromkeys(one.name for one in series))
        time = next((c for c, role in self.reading.roles.items() if role is Role.TIME), "time")
        with self.plots, parts.tag("div", "two" if len(names) > 1 else ""):
            for name in names[: self.desk.settings.panels]:
                self._panel(name, [one for one in series if one.name == name], time, len(names) > 1)

    def _panel(self, name: str, series: list[Series], time: str, several: bool) -> None:
        limit = self.desk.settings
        layers = [
            charts.Points(
                one.experiment,
                one.times,
                one.values,
                k,
                [f"{row}|{one.column}" for row in one.rows.tolist()],
                one.left_out,
            )
            for k, one in enumerate(series[: limit.experiments])
        ]
        total = sum(len(one.times) for one in series)
        with parts.card():
            with parts.tag("div", "row spread"):
                parts.text("div", name, "chart-title")
                if any(len(one.times) > limit.points for one in series):
                    parts.text(
                        "span",
                        f"{total:,} points; where they are dense, the highest and lowest of each stretch are drawn",
                        "quiet",
                    )
                elif len(series) > limit.experiments:
                    parts.text("span", f"{limit.experiments} of {len(series)} experiments", "quiet")
            chart = ui.echart(charts.panel(self.palette, time, layers), on_point_click=self._clicked)
            chart.props["role"] = "img"
            chart.props["aria-label"] = f"{name} over {time}"

    def _clicked(self, event: Any) -> None:
        """Leave a point out, or bring it back."""
        sheet, place = self.reading.sheet, str(event.name or "")
        row, bar, column = place.partition("|")
        if sheet is None or not bar or not row.isdecimal() or column not in sheet.header:
            return
        self._write(sheet.toggled(int(row), column), f"leave out row {int(row) + 1} of {column}")
