"""A table of the study: its grid, what its columns mean, and its pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from nicegui import ui

from picardfit.studio import charts, document, parts
from picardfit.studio.chart import Chart
from picardfit.studio.reading import Table
from picardfit.studio.roles import is_nonmem, with_role
from picardfit.studio.sheet import Role, Series, Sheet

if TYPE_CHECKING:
    from picardfit.studio.steps.data import View

WORDS = {
    Role.TIME: "time",
    Role.EXPERIMENT: "experiment",
    Role.MEASURED: "measured",
    Role.INPUT: "input",
    Role.DOSE: "dose",
    Role.COVARIATE: "covariate",
    Role.IGNORED: "ignored",
}
LEAVE = "(p) => p.editing ? p.nextCellPosition : false"  # Tab leaves the grid, arrows walk in it
HINT = (
    "Click a point to leave it out, and again to bring it back. Double-click a cell, or press Enter, to edit it; "
    "arrow keys walk between cells."
)


class TableView:
    """A table on the page. `first`: the row at the top of the grid; `selected`: one of the rows that it shows."""

    selected: int | None = None

    def __init__(self, view: View, table: Table, first: int) -> None:
        self.view, self.number, self.first = view, table.number, first
        self.desk, self.drawn = view.desk, table.sheet
        with parts.card() as card:
            card.style("padding: 14px 16px")
            self._controls(table.sheet)
            self.roles = parts.tag("div", "scroll")
            self._roles(table)
            self.pager = parts.tag("div", "row")
            self.grid = ui.aggrid(self._grid_options(table.sheet), auto_size_columns=False)
            tall = min(330, 38 + 30 * max(len(table.sheet.rows), 3))
            self.grid.style(f"height: {tall}px").props["aria-label"] = "Table of the data"
            self.grid.on("cellValueChanged", self._typed, args=["rowId", "colId", "newValue", "data"])
            self.grid.on("cellFocused", self._focused, args=["rowIndex"])
        parts.text("p", HINT, "quiet").style("margin: -6px 0 14px; max-width: none")
        self._page_rows(table.sheet)
        self.plots = parts.tag("div")
        self._draw(table)

    @property
    def table(self) -> Table | None:
        """The table as it was read last; None once it has gone."""
        return next((one for one in self.view.reading.tables if one.number == self.number), None)

    @property
    def sheet(self) -> Sheet | None:
        table = self.table
        return None if table is None else table.sheet

    def followed(self) -> None:
        """Draw the picture again, after a change that the grid shows already."""
        table = self.table
        if table is not None:
            self.drawn = table.sheet
            self._draw(table)
            self._count(table.sheet)

    def renew(self, table: Table) -> bool:
        """Draw again what the problem file says of the same cells; somebody may be typing in them."""
        if table.number != self.number or table.sheet is not self.drawn:
            return False
        self._roles(table)
        self._draw(table)
        return True

    def _controls(self, sheet: Sheet) -> None:
        with parts.tag("div", "row spread").style("margin-bottom: 12px"):
            with parts.tag("div", "row"):
                parts.text("strong", sheet.name)
                self.count = parts.text("span", "", "quiet", id="data-count")
            with parts.tag("div", "row"):
                self.back = parts.button("Bring all back", self._restore, "small", id="bring-back")
                parts.button("Add a row", self._add_row, "small")
                parts.button(
                    "Remove a row",
                    self._remove_row,
                    "small",
                    "Remove the row that is selected",
                    id="remove-row",
                )
        self._count(sheet)

    def _count(self, sheet: Sheet) -> None:
        left = f", {len(sheet.left_out)} left out" if sheet.left_out else ""
        self.count.text = f"{len(sheet.rows):,} rows, {len(sheet.header)} columns{left}"
        self.back.set_visibility(bool(sheet.left_out))

    # ---- columns ---------------------------------------------------------------------------------------------------

    def _roles(self, table: Table) -> None:
        sheet = table.sheet
        nonmem = is_nonmem(document.data_of(self.desk.text, self.number))
        self.roles.clear()
        with (
            self.roles,
            parts.tag("div", "row").style("flex-wrap: nowrap; padding-bottom: 10px; align-items: end"),
        ):
            for column in sheet.header:
                role = table.roles.get(column, Role.IGNORED)
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
        sheet = self.sheet
        if sheet is None:
            return
        model = self.view.reading.model
        states = () if model is None else model.states
        if role is Role.DOSE and len(states) != 1:
            self._ask_into(sheet, column, states)
            return
        self._write_role(sheet, column, role, next(iter(states), ""))

    def _write_role(self, sheet: Sheet, column: str, role: Role, into: str = "") -> None:
        number, model = self.number, self.view.reading.model
        known = None if model is None else model.observables
        self.view.edit(
            lambda text: with_role(sheet, text, column, role, into, number, known),
            f"{column} is {WORDS[role]}",
        )

    def _ask_into(self, sheet: Sheet, column: str, states: tuple[str, ...]) -> None:
        """Ask which state the doses go into."""
        with parts.dialog(f"Where do the doses in {column} go?") as dialog:
            if not states:
                parts.text("p", "Write the equations first: doses go into one of their states.")

            def take(state: str) -> None:
                dialog.close()
                self._write_role(sheet, column, Role.DOSE, state)

            with parts.tag("div", "row").style("margin: 12px 0"):
                for state in states:
                    parts.button(state, lambda s=state: take(s), "primary")
                parts.button("Cancel", dialog.close)
        dialog.on("hide", self.view.refresh, args=[])  # what the column is has not changed, or has

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
            ":tabToNextCell": LEAVE,
            ":tabToNextHeader": LEAVE,
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
        sheet = self.sheet
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
        sheet, column = self.sheet, str(event.args.get("colId", ""))
        if sheet is None or not column.startswith("c"):
            return
        row, name = int(event.args["data"]["n"]) - 1, sheet.header[int(column[1:])]
        changed = sheet.with_cell(row, name, str(event.args.get("newValue") or ""))
        same = changed.file_name == changed.name  # a spreadsheet becomes another file, which all must show
        self._write(changed, f"row {row + 1} of {name}", self.view if same else None)

    def _write(self, sheet: Sheet, label: str, by: object = None) -> None:
        self.view.attempt(lambda: self.desk.edit_sheet(self.number, sheet, label, by))

    def _add_row(self) -> None:
        sheet = self.sheet
        if sheet is not None:
            self.first = len(sheet.rows)
            self._write(sheet.with_row(), "a row")

    def _focused(self, event: Any) -> None:
        row = event.args.get("rowIndex")
        self.selected = row if isinstance(row, int) else None

    def _remove_row(self) -> None:
        sheet = self.sheet
        row = None if self.selected is None else self.first + self.selected
        if sheet is None or row is None or row >= len(sheet.rows):
            parts.notify("Click a cell of the row first.")
        else:
            self._write(sheet.without_row(row), f"remove row {row + 1}")

    def _restore(self) -> None:
        sheet = self.sheet
        if sheet is not None:
            self._write(sheet.restored(), "bring all back")

    # ---- pictures --------------------------------------------------------------------------------------------------

    def _draw(self, table: Table) -> None:
        self.plots.clear()
        with self.plots:
            if table.unseen is not None:
                words = parts.told(table.unseen)
                if words not in map(parts.told, self.view.reading.mistakes):  # else it stands above
                    parts.say(words, "bad")
                return
            names = list(dict.fromkeys(one.name for one in table.series))
            time = next((c for c, role in table.roles.items() if role is Role.TIME), "time")
            with parts.tag("div", "two" if len(names) > 1 else ""):
                for name in names[: self.desk.settings.panels]:
                    self._panel(name, [one for one in table.series if one.name == name], time)

    def _panel(self, name: str, series: list[Series], time: str) -> None:
        limit = self.desk.settings
        layers = [
            _points(one, mark, k)
            for k, one in enumerate(series[: limit.experiments])
            for mark in np.unique(one.marks).tolist()
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
            Chart(charts.panel(self.view.palette, time, layers), f"{name} over {time}", clicked=self._clicked)

    def _clicked(self, event: Any) -> None:
        """Leave a point out, or bring it back."""
        sheet, place = self.sheet, str(event.name or "")
        row, bar, column = place.partition("|")
        if sheet is None or not bar or not row.isdecimal() or column not in sheet.header:
            return
        self._write(sheet.toggled(int(row), column), f"leave out row {int(row) + 1} of {column}")


def _points(one: Series, mark: str, colour: int) -> charts.Points:
    """The values of a series that are exact, or those with a mark; a click tells their place in the table."""
    own = one.marks == mark
    places = [f"{row}|{one.column}" for row in one.rows[own].tolist()]
    return charts.Points(
        one.experiment, one.times[own], one.values[own], colour, places, one.left_out[own], mark
    )
