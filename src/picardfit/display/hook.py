"""How records of every room render in a terminal and in a notebook, without importing the rest of `display`.

Rooms below `display` decorate a class with `@shown`; `painters` lists the functions that draw it. This module imports
nothing of picardfit before an object is shown, so that every room may import it: the one exception to the order of the
layers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, TypeVar

    from matplotlib.figure import Figure

    _Class = TypeVar("_Class", bound=type)


def shown(kind: _Class) -> _Class:
    """Give a class the `__str__` and `_repr_html_` listed under its name; a `__str__` of its own stays."""

    def text(self: object) -> str:
        painters = _painters(kind)
        return _function(painters[0])(self) if painters[0] else repr(self)

    def html(self: object) -> str:
        return _function(_painters(kind)[1])(self)

    for name, method in {"__str__": vars(kind).get("__str__", text), "_repr_html_": html}.items():
        setattr(kind, name, method)
    return kind


def picture(one: object, path: str | Path | None) -> Figure:
    """The picture of an object whose class has one; written to `path` if given."""
    return _function(_painters(type(one))[2])(one, path)


def _painters(kind: type) -> tuple[str, ...]:
    """The painters of a class: of its text, its HTML and, if any, its picture."""
    return import_module("picardfit.display.painters").PAINTERS[kind.__name__]


def _function(painter: str) -> Callable[..., Any]:
    module, _, name = painter.partition(":")
    return getattr(import_module(f"picardfit.display.{module}"), name)
