"""How records of every room render in a terminal and in a notebook, without importing the rest of `display`.

Rooms below `display` decorate a class with `@shown`; picardfit/__init__.py registers the functions that draw it. This
module imports nothing of picardfit, so that every room may import it: the one exception to the order of the layers.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers read True; importing `typing` would make `import picardfit` slower
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any, TypeVar

    from matplotlib.figure import Figure

    _Class = TypeVar("_Class", bound=type)

_PAINTERS: dict[str, tuple[str, ...]] = {}  # class -> painters of its text, its HTML and, if any, its picture


def register(painters: Mapping[str, tuple[str, ...]]) -> None:
    """Register the functions that turn an object of a class, by its name, into text, into HTML and into a picture.

    A painter is a function of `display`, as "module:function". An empty text painter stands for the `repr` of the
    object, or for the `__str__` that its class defines itself.
    """
    _PAINTERS.update(painters)


def shown(kind: _Class) -> _Class:
    """Give a class the `__str__` and `_repr_html_` registered under its name; a `__str__` of its own stays."""

    def text(self: object) -> str:
        painter = _PAINTERS[kind.__name__][0]
        return _painter(painter)(self) if painter else repr(self)

    def html(self: object) -> str:
        return _painter(_PAINTERS[kind.__name__][1])(self)

    for name, method in {"__str__": vars(kind).get("__str__", text), "_repr_html_": html}.items():
        setattr(kind, name, method)
    return kind


def picture(one: object, path: str | Path | None) -> Figure:
    """The picture of an object whose class has one; written to `path` if given."""
    return _painter(_PAINTERS[type(one).__name__][2])(one, path)


def _painter(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    return getattr(import_module(f"picardfit.display.{module}"), function)
