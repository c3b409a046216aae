"""Functions of higher rooms that methods of lower ones hand on to, by name.

A user finds everything on the problem and on the fit; the rooms stay in order. The package fills the table
(picardfit/__init__.py), and nothing is imported before it is called.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, which `import picardfit` would have to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_PLACES: dict[str, str] = {}  # name -> module:function


def register(places: Mapping[str, str]) -> None:
    """Say where functions live, as `module:function`."""
    _PLACES.update(places)


def handed_on(name: str) -> Callable[..., Any]:
    """The function registered under a name."""
    module, _, function = _PLACES[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
