"""Checks that turn what users pass into plain values, and the name that a value has in their source."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from math import inf, isfinite, isnan
from numbers import Integral, Real
from typing import NoReturn, TypeGuard, TypeVar

import numpy as np

from picardfit.errors import InputError

K = TypeVar("K")
V = TypeVar("V")


def is_number(value: object) -> TypeGuard[float]:
    """True for a real number of Python or NumPy; booleans do not count."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def is_whole(value: object) -> TypeGuard[int]:
    """True for an integer of Python or NumPy; booleans do not count."""
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def as_number(value: object, what: str, subject: str = "", infinite: bool = False) -> float:
    """`value` as a float; text, NaN and (unless allowed) infinities are InputErrors.

    `what` the value is, as "upper bound", and of which `subject`.
    """
    if not is_number(value):
        raise InputError("errors.not_a_number", subject, what=what, value=value)
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if isnan(number) or not (infinite or isfinite(number)):
        raise InputError("errors.not_finite", subject, what=what, value=number)
    return number


def as_whole(
    value: object, subject: str, least: int, example: int | None = None, most: int | None = None
) -> int:
    """`value` as an int from `least` to `most`; `example` is what the message proposes, by default `least`."""
    if not is_whole(value) or value < least:
        example = least if example is None else example
        raise InputError("errors.not_whole", subject, value=value, least=least, example=example)
    if most is not None and value > most:
        raise InputError("errors.too_many", subject, value=int(value), most=most)
    return int(value)


def as_mapping(given: object, argument: str, example: str = "...") -> dict[str, object]:
    """What was passed as `argument`, as a dictionary with names as keys; None is empty. `example`: a value."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError("errors.not_a_mapping", argument, key=(argument,), value=given, example=example)
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise InputError("errors.name_not_text", argument, key=(argument,), name=name)
    return dict(given)


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed; unlike a MappingProxyType it can be pickled."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("This was checked when it was made and cannot be changed: make a new one instead.")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = clear = setdefault = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict[K, V]], tuple[dict[K, V]]]:
        return FrozenDict, (dict(self),)

    def copy(self) -> dict[K, V]:
        """An ordinary dict, which may be changed."""
        return dict(self)


def check_flag(value: object, subject: str) -> None:
    """Check that a setting is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError("errors.not_a_flag", subject, value=value)


def check_positive(settings: object, whole: tuple[str, ...] = (), real: tuple[str, ...] = ()) -> None:
    """Check that fields of a settings dataclass are positive numbers, proposing their defaults."""
    for name in (*whole, *real):
        value, usual = getattr(settings, name), getattr(type(settings), name, None)
        example = usual if is_number(usual) and usual > 0 else 1
        if name in whole:
            as_whole(value, name, 1, int(example))
        elif not is_number(value) or not value > 0:
            raise InputError("errors.not_positive", name, value=value, example=example)


def name_at_call(depth: int) -> tuple[str, str]:
    """`a` of {"a": pf.Parameter(...)}, dict(a=pf.Parameter(...)) or a = pf.Parameter(...); empty if it is unknown.

    Before it, the argument that the dictionary is passed as, such as `initial`; empty if it is not passed directly.
    `depth`: how many frames above the caller the call is. Slow: it parses the source, so call it only for an error.
    """
    frame = sys._getframe(depth + 1)
    position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    except SyntaxError:  # a notebook cell with magic words, a file that changed since
        return "", ""
    for argument, name, node in _named(tree):
        if (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == position:
            return argument, name
    return "", ""


def _named(tree: ast.AST) -> Iterator[tuple[str, str, ast.expr]]:
    """(argument, name, value) wherever the source gives a value a name, arguments before the dictionaries in them."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=str(argument), value=ast.Dict() as inside):
                yield from ((argument, name, value) for name, value in _entries(inside))
            case ast.Dict():
                yield from (("", name, value) for name, value in _entries(node))
            case ast.keyword(arg=str(name), value=value):
                yield "", name, value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield "", name, value


def _entries(node: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    pairs = zip(node.keys, node.values, strict=True)
    return ((str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant))
