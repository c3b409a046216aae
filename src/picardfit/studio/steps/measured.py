"""What was measured: every column of the data as a formula of states and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from picardfit.errors import InputError
from picardfit.problem.columns import plain_name
from picardfit.studio import document, parts
from picardfit.studio.names import completed, states_of
from picardfit.studio.reading import Table
from picardfit.studio.roles import measurable

if TYPE_CHECKING:
    from picardfit.studio.steps.equations import View

WORDS = "Each measured column is a state, or a formula of states and parameters."


def build(view: View) -> None:
    """Draw the card, also where a formula is wrong: it is mended here."""
    text, tables = view.desk.text, view.reading.tables
    states = states_of(text)
    given = document.value_at(text, "observables")
    formulas = formulas_of(text, states, tables)
    columns = _columns(text, tables)
    names = [*formulas, *columns, *([] if given or columns else states)]
    if not names:
        return
    faults = {one.place.key[1]: one for one in view.reading.about("observables") if shows(one)}
    known = {plain_name(one) for one in formulas}
    with parts.card("What was measured", WORDS), parts.tag("div", "scroll"), parts.tag("table", "t"):
        with parts.tag("thead"), parts.tag("tr"):
            parts.text("th", "column", scope="col")
            parts.text("th", "formula", scope="col")
        with parts.tag("tbody"):
            for name in dict.fromkeys(
                one for one in names if one in formulas or plain_name(one) not in known
            ):
                with parts.tag("tr"):
                    parts.text("td", name, "name").style("width: 30%")
                    with parts.tag("td"):
                        made = parts.field(
                            formulas.get(name, ""),
                            lambda v, n=name: _observe(view, n, v),
                            f"Formula of {name}",
                            "wide mono",
                            placeholder="not measured",
                        )
                        if name in faults:
                            parts.mark_wrong(made, faults[name])


def shows(error: InputError) -> bool:
    """Whether a mistake is that of one formula, below which it stands."""
    return error.place.key[:1] == ("observables",) and len(error.place.key) > 1


def _observe(view: View, name: str, formula: str) -> None:
    states, tables = states_of(view.desk.text), view.reading.tables

    def change(text: str) -> str:
        if not isinstance(document.value_at(text, "observables"), dict):  # a list of names, or nothing yet
            now = formulas_of(text, states, tables)
            text = document.with_value(text, ("observables",), None)
            for one, right in now.items():
                text = document.with_value(text, ("observables", one), right)
        return completed(document.with_value(text, ("observables", name), formula.strip() or None))

    view.edit(change, f"formula of {name}")


def formulas_of(text: str, states: Sequence[str], tables: Sequence[Table]) -> dict[str, str]:
    """name -> formula of what is observed; where nothing says so, of the states that are columns, or of all."""
    given = document.value_at(text, "observables")
    if isinstance(given, dict):
        return {name: str(formula) for name, formula in given.items()}
    if isinstance(given, list):
        return {str(name): str(name) for name in given}
    columns = {plain_name(one) for one in _columns(text, tables)}
    return {name: name for name in states if not columns or plain_name(name) in columns}


def _columns(text: str, tables: Sequence[Table]) -> list[str]:
    """The columns that may be measured, as names of observables; long tables name them in their cells."""
    wide = [one for one in tables if not one.sheet.is_long]
    return [document.identifier(column) for one in wide for column in measurable(one.sheet, text, one.number)]
