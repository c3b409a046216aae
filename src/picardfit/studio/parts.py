"""Pieces of the page: texts, buttons, fields, messages, tables. Texts are text everywhere, never markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from picardfit.errors import Audience, InputError, Notice
from picardfit.studio.typed import Typed

Handler = Callable[..., Any]
VALUE = "(e) => emit(e.target.value)"
CHECKED = "(e) => emit(e.target.checked)"


def tag(name: str, classes: str = "", **props: object) -> Element:
    """An element of HTML; `_` in the name of a prop is a `-`."""
    return _dressed(ui.element(name), classes, props)


def typed(name: str, value: str, classes: str = "", **props: object) -> Typed:
    """An input or text area, which keeps what is typed into it."""
    made = Typed(name, value)
    _dressed(made, classes, props)
    return made


def text(name: str, words: str, classes: str = "", **props: object) -> TextElement:
    """An element of HTML with a text."""
    made = TextElement(tag=name, text=words)
    _dressed(made, classes, props)
    return made


def _dressed(made: Element, classes: str, props: Mapping[str, object]) -> Element:
    if classes:
        made.classes(classes)
    for key, value in props.items():
        if value is not None and value is not False:
            made.props[key.rstrip("_").replace("_", "-")] = value
    return made


def button(
    words: str, handler: Handler, classes: str = "", label: str = "", disabled: bool = False, **props: object
) -> TextElement:
    """A button; `label`: what a screen reader says where the words are a sign."""
    made = text(
        "button", words, f"b {classes}", type="button", aria_label=label or None, title=label or None, **props
    )
    if disabled:
        made.props["disabled"] = True
    made.on("click", handler, args=[])
    return made


def field(
    value: object, handler: Handler, label: str, classes: str = "", kind: str = "text", **props: object
) -> Typed:
    """A field that tells its text when it is left or Enter is pressed, also if it was drawn again meanwhile."""
    shown = "" if value is None else str(value)
    made = typed("input", shown, f"in {classes}", type=kind, aria_label=label, autocomplete="off", **props)
    made.tells(label, handler)
    return made


def mark_wrong(made: Element, error: InputError) -> None:
    """Say below a field what is wrong with it."""
    made.props["aria-invalid"] = "true"
    made.props["aria-description"] = told(error)
    text("div", told(error), "wrong-words", role="alert")


def tick(value: bool, handler: Handler, label: str, words: str = "") -> Element:
    """A box to tick."""
    with tag("label", "tick") as made:
        box = tag("input", type="checkbox", aria_label=label)
        box.props["checked"] = value
        box.on("change", lambda e: handler(bool(e.args)), js_handler=CHECKED)
        if words:
            text("span", words)
    return made


def choice(
    options: Mapping[str, str] | Sequence[str], value: str, handler: Handler, label: str, classes: str = ""
) -> Element:
    """A list to choose from: value -> words."""
    named = dict(options) if isinstance(options, Mapping) else {one: one for one in options}
    with typed("select", value, f"in {classes}", aria_label=label) as made:
        for key, words in named.items():
            text("option", words, value=key)
    made.tells(label, handler)
    return made


def say(words: str, kind: str = "") -> Element:
    """A message: plain, `bad`, `mind` or `good`."""
    with tag("div", f"say {kind}", role="alert" if kind == "bad" else "status") as made:
        text("span", words)
    return made


def told(error: InputError, places: bool = True) -> str:
    """The sentence of an error in the words of the problem file, with the line of a table."""
    words = error.sentence(Audience.FILE)
    file, line = error.place.file, error.place.line
    if places and file is not None and line is not None and not file.endswith("problem.toml"):
        return f"Line {line} of {file.rsplit('/', 1)[-1]}: {words}"
    return words


def complain(errors: Iterable[InputError], most: int = 5) -> None:
    """Messages of errors."""
    several = list(dict.fromkeys(told(one) for one in errors))
    for words in several[:most]:
        say(words, "bad")
    if len(several) > most:
        text("p", f"… and {len(several) - most} more", "quiet")


def remark(notices: Iterable[Notice]) -> None:
    """Messages of warnings."""
    for one in notices:
        say(one.sentence(Audience.COMMAND), "mind")


def records(errors: Iterable[Mapping[str, Any]]) -> None:
    """Messages of errors that a process told."""
    for one in errors:
        say(str(one.get("message", "")), "bad")


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Iterable[int] = (), caption: str = ""
) -> None:
    """A table of texts; columns that are empty throughout are left out."""
    used = [k for k in range(len(header)) if any(row[k] for row in rows)]
    right = set(numeric)
    with tag("div", "scroll"), tag("table", "t"):
        if caption:
            text("caption", caption, "sr")
        with tag("thead"), tag("tr"):
            for k in used:
                text("th", header[k], "r" if k in right else "", scope="col")
        with tag("tbody"):
            for row in rows:
                with tag("tr"):
                    for k in used:
                        text("td", row[k], "r" if k in right else "name" if k == 0 else "")


def head(title: str, lead: str) -> None:
    """The head of a step."""
    with tag("div", "step-head"):
        text("h1", title, id="step-title", tabindex="-1")
        text("p", lead, "lead")


def card(title: str = "", quiet: str = "") -> Element:
    """A card, to be used with `with`."""
    with tag("section", "card", aria_label=title or None) as made:
        if title:
            text("h2", title)
        if quiet:
            text("p", quiet, "quiet")
    return made


@contextmanager
def dialog(title: str) -> Iterator[ui.dialog]:
    """A question over the page, to be used with `with`; Quasar lets only a `div` in it be clicked."""
    with ui.dialog() as made, tag("div", "dialog"), card(title):
        yield made
    made.open()


def empty(title: str, words: str) -> Element:
    """What to do where there is nothing yet, to be used with `with`."""
    with tag("div", "empty") as made:
        text("h2", title)
        text("p", words)
    return made


def working(words: str) -> Element:
    """Says that something works."""
    with tag("div", "working", role="status") as made:
        text("span", words)
    return made


def notify(words: str, kind: str = "") -> None:
    """A note that goes by itself."""
    colours = {"bad": "negative", "good": "positive"}
    timeout = 2500 if kind == "good" else 6000  # ms: a remedy takes longer to read
    ui.notify(words, type=colours.get(kind, "info"), position="bottom", timeout=timeout)  # type: ignore[arg-type]


class Waiting:
    """What stands on the page until the folder has been read."""

    def __init__(self, title: str) -> None:
        head(title, "")
        working("Opening the study …")
