"""The tables of what is known beforehand: parameters, initial states and their time, noise, units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from picardfit.files.sections.beliefs import PRIORS
from picardfit.studio import document, parts
from picardfit.studio.fields import number_of, words_of
from picardfit.studio.names import completed, needed_parameters
from picardfit.studio.steps import derived, noise
from picardfit.studio.typed import Typed

if TYPE_CHECKING:
    from picardfit.studio.steps.play import View

SCALES = {"linear": "linear", "log": "log", "logit": "logit"}
SHARING = {"": "same in all", "local": "own in each", "random": "random"}
COLUMNS = ("name", "from", "to", "scale", "fixed at", "experiments", "unit", "prior")


Rows = dict[tuple[str, ...], tuple[list[Typed], Element, TextElement]]
# ("parameters", "k") -> the fields of its row, and the row of the message below it with its words


def mark(view: View) -> None:
    """Say below every row what is wrong with it, also where it is not drawn anew."""
    faults = {one.place.key[:2]: one for one in view.reading.about("parameters", "initial")}
    for path, (fields_of_row, row, words) in view.rows.items():
        error = faults.get(path)
        for made in fields_of_row:
            made.props["aria-invalid"] = "false" if error is None else "true"
            made.update()
        words.text = "" if error is None else parts.told(error)
        row.set_visibility(error is not None)


def build(view: View) -> None:
    """Draw the tables."""
    text, model = view.desk.text, view.reading.model
    view.rows = {}
    if model is None:
        return
    given = document.value_at(text, "parameters")
    own = given if isinstance(given, dict) else {}
    with parts.card(
        "Parameters",
        "Unknown between two bounds, or fixed. Experiments share it, or each has its own, at random in a population.",
    ):
        _table(view, "parameters", list(own), text, (*model.parameters,))
    with parts.card(
        "Initial states", "Unknown between bounds, or known. Leave all fields blank where nothing is known."
    ):
        begun = document.value_at(text, "initial")
        gone = [name for name in begun if name not in model.states] if isinstance(begun, dict) else []
        _table(view, "initial", [*model.states, *gone], text, model.states)
        _begin(view, text)
    with parts.tag("div", "two"):
        noise.build(view, tuple(model.observables))
        with parts.tag("div"):
            _units(view, text, [*model.states, *(n for n in model.observables if n not in model.states)])
            derived.build(view, text)


def _table(view: View, section: str, names: list[str], text: str, known: tuple[str, ...]) -> None:
    header = COLUMNS if section == "parameters" else COLUMNS[:5]
    with parts.tag("div", "scroll"), parts.tag("table", "t"):
        with parts.tag("thead"), parts.tag("tr"):
            for words in header:
                parts.text("th", words, scope="col")
        with parts.tag("tbody"):
            for name in names:
                with parts.tag("tr"):
                    belief = document.belief_of(document.value_at(text, section, name))
                    made = _row(view, section, name, belief, known)
                with parts.tag("tr") as below, parts.tag("td", colspan=len(header)):
                    said = parts.text("div", "", "wrong-words", role="alert")
                view.rows[section, name] = made, below, said


def _row(view: View, section: str, name: str, belief: dict[str, Any], known: tuple[str, ...]) -> list[Typed]:
    """Draw the cells; the fields among them that hold numbers."""
    path = (section, name)

    def put(label: str, **changes: object) -> None:
        view.edit(
            lambda text: completed(document.with_belief(text, path, **changes)), f"{label} of {name}", view
        )

    def put_number(key: str, words: str) -> None:
        put(key, **{key: number_of(words)})

    found: list[Typed] = []
    parts.text("td", name, "name")
    for key, label in (("lower", "Lower bound"), ("upper", "Upper bound")):
        with parts.tag("td"):
            made = parts.field(
                words_of(belief.get(key)),
                lambda v, k=key: put_number(k, v),
                f"{label} of {name}",
                "num",
                inputmode="decimal",
            )
            found.append(made)
    with parts.tag("td"):
        scale = "log" if belief.get("log") else "logit" if belief.get("logit") else "linear"
        parts.choice(
            SCALES,
            scale,
            lambda v: put("scale", log=v == "log" or None, logit=v == "logit" or None),
            f"Scale of {name}",
        )
    with parts.tag("td"):
        fixed = belief.get("formula", words_of(belief.get("fixed")))
        made = parts.field(
            fixed, lambda v: _fix(view, path, name, v), f"Fixed value of {name}", "num", inputmode="text"
        )
        found.append(made)
    if section == "parameters":
        _of_parameter(view, path, name, belief, put)
    if name not in known and (section == "initial" or name not in _in_initial(view)):
        with parts.tag("td"):
            parts.button(
                "Remove",
                lambda: view.edit(lambda t: document.with_value(t, path, None), f"remove {name}"),
                "small danger",
            )
    return found


def _of_parameter(
    view: View, path: tuple[str, ...], name: str, belief: dict[str, Any], put: Callable[..., None]
) -> None:
    """The cells that initial states do not have."""
    with parts.tag("td"):
        how = next((one for one in ("local", "random") if belief.get(one)), "")
        parts.choice(
            SHARING,
            how,
            lambda v: put("experiments", local=v == "local" or None, random=v == "random" or None),
            f"{name} in different experiments",
        )
    with parts.tag("td"):
        parts.field(
            belief.get("unit", ""), lambda v: put("unit", unit=v.strip() or None), f"Unit of {name}", "num"
        ).style("text-align: left")
    with parts.tag("td"):
        _prior(view, path, name, belief.get("prior"))


def _in_initial(view: View) -> set[str]:
    return set(needed_parameters(view.desk.text) or ())


def _fix(view: View, path: tuple[str, ...], name: str, words: str) -> None:
    """Fix a value: a number, or for an initial state a formula; blank sets it free."""
    value = number_of(words)

    def change(text: str) -> str:
        now = document.belief_of(document.value_at(text, *path))
        if isinstance(value, str):
            return completed(document.with_value(text, path, value))
        if "formula" in now:
            return completed(document.with_value(text, path, value))
        return completed(document.with_belief(text, path, fixed=value))

    view.edit(change, f"value of {name}", view)


def _prior(view: View, path: tuple[str, ...], name: str, prior: Any) -> None:
    now = dict(prior) if isinstance(prior, dict) else {}
    kind = str(now.get("type", ""))

    def choose(new: str) -> None:
        settings = {"type": new, **dict.fromkeys(_needed(new), 1.0)} if new else None
        view.edit(lambda t: document.with_belief(t, path, prior=settings), f"prior of {name}")

    def put(key: str, words: str) -> None:
        typed = document.belief_of(document.value_at(view.desk.text, *path)).get("prior")
        changed = {**(typed if isinstance(typed, dict) else now), key: number_of(words)}
        view.edit(lambda t: document.with_belief(t, path, prior=changed), f"prior of {name}", view)

    with parts.tag("div", "row").style("flex-wrap: nowrap; gap: 6px"):
        parts.choice({"": "none", **dict(zip(PRIORS, PRIORS, strict=True))}, kind, choose, f"Prior of {name}")
        for key in _needed(kind):
            label = f"{key} of the prior of {name}"
            shown = parts.field(words_of(now.get(key)), lambda v, k=key: put(k, v), label, "num", title=key)
            shown.style("width: 64px")


def _needed(kind: str) -> list[str]:
    if kind not in PRIORS:
        return []
    return [one.name for one in fields(PRIORS[kind]) if one.init and one.default is MISSING]


def _begin(view: View, text: str) -> None:
    now = document.value_at(text, "t0")
    with parts.tag("div", "row").style("margin-top: 12px"):
        parts.text("span", "They hold at time", "quiet")

        def put(words: str) -> None:
            value: object = "first" if words.strip() == "first" else number_of(words)
            view.edit(lambda t: document.with_value(t, ("t0",), value), "initial time", view)

        usual = _usual_begin(view)
        parts.field("" if now is None else now, put, "Initial time", "num", placeholder=usual)
        parts.text("span", "a number, or “first” for the first sample of each experiment", "quiet")


def _usual_begin(view: View) -> str:
    """When the initial states hold if nobody says so."""
    problem = None if view.reading.file is None else view.reading.file.problem
    begins = {0.0} if problem is None else {one.t0 for one in problem.experiments}
    return f"{begins.pop():g}" if len(begins) == 1 else "first"


def _units(view: View, text: str, names: list[str]) -> None:
    with parts.card("Units", "For axes and tables."), parts.tag("div", "stack"):
        for name in ["t", *names]:
            with parts.tag("label", "row"):
                parts.text("span", "time" if name == "t" else name, "kind")
                now = document.value_at(text, "units", name)
                parts.field(
                    now or "",
                    lambda v, n=name: view.edit(
                        lambda t: document.with_value(t, ("units", n), v.strip() or None),
                        f"unit of {n}",
                        view,
                    ),
                    f"Unit of {name}",
                )
