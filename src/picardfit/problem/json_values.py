"""Values as JSON can hold them, without loss, and checked access to what was read.

JSON cannot express them, so NaN becomes null and infinities the texts "inf" and "-inf".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isinf, isnan, nan
from numbers import Integral, Real
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from picardfit.errors import InputError

Record = dict[str, object]
T = TypeVar("T")


def plain(value: object, subject: str) -> object:
    """`value` as JSON can hold it: arrays and tuples as lists, NaN as null; `subject`: its name, as fit.truth."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "f" and np.isfinite(value).all():
            return value.tolist()
        value = value.tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v, f"{subject}.{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, subject) for one in value]
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        real = float(value)
        return None if isnan(real) else str(real) if isinf(real) else real
    raise InputError("problem.not_plain", subject, value=value)


@overload
def get(record: Mapping[str, object], key: str) -> object: ...


@overload
def get(record: Mapping[str, object], key: str, kind: type[T]) -> T: ...


def get(record: Mapping[str, object], key: str, kind: type = object) -> object:
    """The entry under this key, which must exist and be of this kind; a truth value is not an int."""
    if key not in record:
        raise InputError("problem.entry_missing", key)
    value = record[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError("problem.entry_kind", key, value=value)
    return value


def get_optional(record: Mapping[str, object], key: str, kind: type[T]) -> T | None:
    """The entry under this key, which must exist and be of this kind or null."""
    return None if get(record, key) is None else get(record, key, kind)


def entries(record: Mapping[str, object], key: str, kind: type[T]) -> list[T]:
    """The entry under this key: a list whose elements are all of one kind."""
    return [get({key: one}, key, kind) for one in get(record, key, list)]


def number(value: object, subject: str) -> float:
    """A number that `plain` wrote; `subject` names it in errors."""
    if value is None or value in ("inf", "-inf"):
        return nan if value is None else inf if value == "inf" else -inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError("problem.entry_not_number", subject, value=value)
    try:
        return float(value)
    except OverflowError:
        raise InputError("problem.entry_too_large", subject) from None


def array(value: object, shape: tuple[int | None, ...], subject: str) -> NDArray[np.float64]:
    """A float array of this shape; None in the shape allows any length."""
    flat, sizes = _flatten(value, len(shape), subject)
    found = tuple(have if want is None else want for want, have in zip(shape, sizes, strict=True))
    if found != sizes and not (len(flat) == 0 and 0 in found):
        wanted = " x ".join("any" if n is None else str(n) for n in shape)
        raise InputError("problem.entry_shape", subject, shape=" x ".join(map(str, sizes)), wanted=wanted)
    return np.array(flat, float).reshape(found)


def _flatten(value: object, depth: int, subject: str) -> tuple[list[float], tuple[int, ...]]:
    """The numbers of nested lists in order, and the length of the lists at each depth."""
    if not isinstance(value, list):
        raise InputError("problem.entry_not_list", subject)
    if depth == 1:
        return [number(one, subject) for one in value], (len(value),)
    rows = [_flatten(one, depth - 1, subject) for one in value]
    inner = {sizes for _, sizes in rows}
    if len(inner) > 1:
        raise InputError("problem.entry_ragged", subject)
    return [x for row, _ in rows for x in row], (len(rows), *(inner.pop() if inner else (0,) * (depth - 1)))
