"""The table of derived quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from picardfit.studio import document, parts

if TYPE_CHECKING:
    from picardfit.studio.steps.play import View


def build(view: View, text: str) -> None:
    """Draw the card."""
    given = document.value_at(text, "derived")
    now = given if isinstance(given, dict) else {}
    title = parts.card("Derived quantities", "What follows from the parameters, with an interval of its own.")
    with title, parts.tag("div", "scroll"), parts.tag("table", "t"):
        with parts.tag("thead"), parts.tag("tr"):
            for words in ("name", "formula", "unit"):
                parts.text("th", words, scope="col")
        with parts.tag("tbody"):
            for name, one in now.items():
                with parts.tag("tr"):
                    _row(view, name, one if isinstance(one, dict) else {"formula": one})
            with parts.tag("tr"):
                _new(view)


def _put(view: View, name: str, formula: str, unit: str = "") -> None:
    value = {"formula": formula, "unit": unit} if unit else formula
    view.edit(
        lambda text: document.with_value(text, ("derived", name), value if formula else None),
        f"derived {name}",
    )


def _row(view: View, name: str, one: dict[str, Any]) -> None:
    formula, unit = str(one.get("formula", "")), str(one.get("unit", ""))
    parts.text("td", name, "name")
    with parts.tag("td"):
        parts.field(
            formula,
            lambda v: _put(view, name, v.strip(), unit),
            f"Formula of {name}",
            "wide mono",
            placeholder="blank takes it out",
        )
    with parts.tag("td"):
        made = parts.field(unit, lambda v: _put(view, name, formula, v.strip()), f"Unit of {name}", "num")
        made.style("text-align: left")


def _new(view: View) -> None:
    """A blank row, which becomes a quantity as soon as it has a name and a formula; half of them is kept."""
    typed = view.fresh

    def take(key: str, words: str) -> None:
        typed[key] = words.strip()
        if typed.get("name") and typed.get("formula"):
            name, formula = typed.pop("name"), typed.pop("formula")
            _put(view, name, formula)

    for key, example, look in (("name", "half_life", "mono"), ("formula", "log(2)/k", "wide mono")):
        with parts.tag("td"):
            label = f"{key.capitalize()} of a new derived quantity"
            made = parts.field(typed.get(key), lambda v, k=key: take(k, v), label, look, placeholder=example)
            if key == "name":
                made.style("width: 130px")
