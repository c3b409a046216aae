"""An input, slider, list or text area on the page that keeps what a person does in it."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from nicegui import Client, ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments


class Typed(Element, component="static/studio_input.js"):
    """An element of HTML with a `value`, which changes only when the page says so."""

    def __init__(self, tag: str, value: str) -> None:
        super().__init__()
        self.props["tag"], self.props["value"] = tag, value

    def tells(self, name: str, handler: Callable[[str], object]) -> None:
        """Tell what was typed or chosen, once, when the element is left.

        The browser keeps it under the name until it is taken, and sends it again from an element drawn anew.
        """
        taken = _TAKEN.setdefault(ui.context.client, {})
        self.props["name"], self.props["taken"] = name, taken.get(name, 0)

        def take(event: GenericEventArguments) -> object:
            number, words = event.args
            if number > taken.get(name, 0):
                self.props["taken"] = taken[name] = number
                self.update()
                return handler(words)
            return None

        self.on("take", take)


_TAKEN: WeakKeyDictionary[Client, dict[str, int]] = WeakKeyDictionary()
# of every page: name of an element -> number of what was taken from it last
