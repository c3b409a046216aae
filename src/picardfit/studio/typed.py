"""An input, slider or text area on the page that keeps what a person does in it."""

from __future__ import annotations

from nicegui.element import Element


class Typed(Element, component="static/studio_input.js"):
    """An element of HTML with a `value`, which changes only when the page says so."""

    def __init__(self, tag: str, value: str) -> None:
        super().__init__()
        self.props["tag"], self.props["value"] = tag, value
