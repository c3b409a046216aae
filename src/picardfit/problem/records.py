"""JSON on disk: whole files or nothing, numbers without loss, and checked access to what was read.

JSON has no word for them, therefore NaN is null and an infinity is the text "inf" or "-inf".
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import inf, isinf, isnan, nan
from numbers import Integral, Real
from pathlib import Path

import numpy as np

from picardfit.errors import InputError, did_you_mean_file


def write_text(path: str | Path, text: str) -> Path:
    """Write a whole file or nothing: into a temporary file beside it, which then takes its place."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"`{path}` is a folder: give the name of a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"The folder `{path.parent}` does not exist: create it first.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"`{path}` cannot be written ({error.strerror}): choose another place.") from None
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_json(path: Path) -> object:
    """What stands in the file; bare NaN and Infinity are not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise InputError(
            f"There is no file `{path}`: check the name and the folder.{did_you_mean_file(path)}"
        ) from None
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be read ({error.strerror}): check the name and its rights."
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"`{path}` is not valid JSON: give a file that fit.save wrote.") from None


def _refuse(word: str) -> None:
    raise ValueError(word)


def plain(value: object, where: str) -> object:
    """The same value in the words of JSON."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "f" and np.isfinite(value).all():
            return value.tolist()
        value = value.tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v, f"{where}, {k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, where) for one in value]
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _real(float(value))
    raise InputError(
        f"{value!r} ({where}) cannot be written to a file: use numbers, texts, lists and mappings."
    )


def _real(value: float) -> float | str | None:
    if isnan(value):
        return None
    return str(value) if isinf(value) else value


def layout(value: object, indent: str = "") -> str:
    """JSON with one line for each entry of a dictionary and lists of numbers on one line."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{deeper}{json.dumps(k)}: {layout(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return "[\n" + ",\n".join(deeper + layout(one, deeper) for one in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def get(record: dict, key: str, kind=object) -> object:
    if key not in record:
        raise InputError(f"the entry `{key}` is missing.")
    value = record[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"the entry `{key}` is a {type(value).__name__}, which does not belong there.")
    return value


def entries(record: dict, key: str, kind: type) -> list:
    """A list whose entries are all of one kind."""
    return [get({key: one}, key, kind) for one in get(record, key, list)]


def number(value: object, where: str) -> float:
    if value is None or value in ("inf", "-inf"):
        return nan if value is None else inf if value == "inf" else -inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"`{where}` holds {value!r}, which is not a number.")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"`{where}` holds a whole number that is too large.") from None


def array(value: object, shape: tuple[int | None, ...], where: str) -> np.ndarray:
    """A float array of this shape; None in the shape is any length."""
    flat, sizes = _flatten(value, len(shape), where)
    found = tuple(have if want is None else want for want, have in zip(shape, sizes, strict=True))
    if found != sizes and not (len(flat) == 0 and 0 in found):
        wanted = " x ".join("any" if n is None else str(n) for n in shape)
        raise InputError(f"`{where}` has the shape {' x '.join(map(str, sizes))} instead of {wanted}.")
    return np.array(flat, float).reshape(found)


def _flatten(value: object, depth: int, where: str) -> tuple[list[float], tuple[int, ...]]:
    """The numbers of nested lists in order, and the lengths of the lists level by level."""
    if not isinstance(value, list):
        raise InputError(f"`{where}` must be a list of numbers.")
    if depth == 1:
        return [number(one, where) for one in value], (len(value),)
    rows = [_flatten(one, depth - 1, where) for one in value]
    inner = {sizes for _, sizes in rows}
    if len(inner) > 1:
        raise InputError(f"`{where}` has rows of different lengths.")
    return [x for row, _ in rows for x in row], (len(rows), *(inner.pop() if inner else (0,) * (depth - 1)))
