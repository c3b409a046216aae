"""A dictionary that cannot be changed, for what was checked once."""

from __future__ import annotations

from typing import NoReturn


class ReadOnly(dict):
    """A dict without its setters; it pickles and compares as a dict does."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("This was checked when it was made and cannot be changed: make a new one instead.")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = clear = setdefault = _refuse

    def __reduce__(self) -> tuple:
        return ReadOnly, (dict(self),)

    def copy(self) -> dict:
        """A dict of its own, which may be changed."""
        return dict(self)
