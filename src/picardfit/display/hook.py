"""How records show themselves in a terminal and in a notebook, without knowing of `display`.

Rooms below `display` decorate a class with `@shown`; picardfit/__init__.py says which functions draw it. This module
imports nothing of picardfit, so that every room may import it: the one exception to the order of the layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

_PAINTERS: dict[str, tuple[str, str]] = {}  # class -> "module:function" of its text and of its HTML, or ""


def register(painters: Mapping[str, tuple[str, str]]) -> None:
    """Say which functions turn an object of a class, by its name, into text and into HTML."""
    _PAINTERS.update(painters)


def shown(kind: type) -> type:
    """Give a class the `__str__` and `_repr_html_` that are registered under its name."""

    def text(self: object) -> str:
        return _painted(self, kind.__name__, 0)

    def html(self: object) -> str:
        return _painted(self, kind.__name__, 1)

    kind.__str__ = text
    kind._repr_html_ = html
    return kind


def _painted(one: object, name: str, which: int) -> str:
    module, _, function = _PAINTERS[name][which].partition(":")
    return getattr(import_module(module), function)(one)
