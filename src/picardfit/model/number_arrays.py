"""Sequences of numbers as arrays: measured values, censored ones among them, times, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date
from decimal import Decimal
from math import inf, nan
from typing import NamedTuple

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError

NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"  # a number written as text
# <0.25, >1000, 0.1..0.25; and ? for a value that was lost, of which only the time is known
CENSORED = (
    rf"(?P<side>[<>])=?\s*(?P<limit>{NUMBER})|(?P<low>{NUMBER})\s*\.\.\s*(?P<high>{NUMBER})|(?P<lost>\?)"
)
_SIGNS = str.maketrans({"≤": "<", "≥": ">", "\u2212": "-"})  # as word processors write them
MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "."}  # "not measured", in lower case


def plain_cell(text: str) -> str:
    """The text of a cell without blanks around it, with signs as Python reads them."""
    return text.strip().translate(_SIGNS)


def number_array(values: object, what: str, subject: str = "", missing: bool = False) -> np.ndarray:
    """`values` as a new float array (n,); `missing` lets NaN, None and blank cells through as NaN.

    `what` they are, as "times", and of which `subject`. Text, infinities and nested sequences are InputErrors that
    name the entry, counted from 1.
    """
    single = isinstance(values, np.ndarray) and values.ndim == 0
    if single or isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        raise InputError("model.not_a_sequence", subject, what=what, value=values)
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(float), nan)
    entries: Sequence[object] | np.ndarray = values if isinstance(values, np.ndarray) else list(values)
    try:
        array = np.asarray(entries)
    except ValueError:  # ragged rows
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InputError("model.not_flat", subject, what=what)
    if array.dtype.kind in "iuf":
        array = array.astype(float)
    else:
        cells = [_cell(value, row, what, subject) for row, value in enumerate(entries, 1)]
        array = np.array(cells, dtype=float)
    wrong = np.flatnonzero(np.isinf(array) if missing else ~np.isfinite(array))
    if len(wrong):
        code = "model.entry_infinite" if missing else "model.entry_not_finite"
        entry, value = int(wrong[0]) + 1, float(array[wrong[0]])
        raise InputError(code, subject, what=what, entry=entry, value=value)
    return array


class Measured(NamedTuple):
    """Measurements (n,) with a number for each, and the limits (n, 2) of censored ones, NaN where exact; or no limits.

    The number of a censored value is where a search may begin: half an upper limit (the limit itself unless it is
    positive), a lower limit, the middle of an interval. A lost value is NaN, between -inf and inf.
    """

    values: np.ndarray
    limits: np.ndarray | None


def measurements(values: object, subject: str) -> Measured:
    """Measured values of `subject`; texts such as `<0.25`, `>1000` and `0.1..0.25` are censored ones."""
    if not _has_text(values):
        return Measured(number_array(values, "values", subject, missing=True), None)
    cells = list(values)  # type: ignore[call-overload]  # a sequence with texts
    found = [re.fullmatch(CENSORED, plain_cell(one)) if isinstance(one, str) else None for one in cells]
    numbers = number_array(
        [None if match else one for one, match in zip(cells, found, strict=True)], "values", subject, True
    )
    if not any(found):
        return Measured(numbers, None)
    limits = np.full((len(cells), 2), nan)
    for row, match in enumerate(found):
        if match:
            limits[row] = _limits(match, row + 1, subject)
            numbers[row] = _stand_in(*limits[row])
    return Measured(numbers, limits)


def censored_text(low: float, high: float) -> str:
    """The text of a censored value with these limits, which `measurements` reads."""
    if np.isinf(low):
        return "?" if np.isinf(high) else f"<{float(high)!r}"
    return f">{float(low)!r}" if np.isinf(high) else f"{float(low)!r}..{float(high)!r}"


def as_given(values: np.ndarray, limits: np.ndarray | None) -> np.ndarray:
    """Measurements as a user would give them: numbers, and texts where they are censored."""
    if limits is None or np.isnan(limits).all():
        return values
    texts = values.astype(object)
    for row in np.flatnonzero(~np.isnan(limits[:, 0])):
        texts[row] = censored_text(*limits[row])
    return texts


def lost_values(given: np.ndarray) -> np.ndarray:
    """(n,) bool: which measurements, as a user would give them, were lost."""
    return given == "?" if given.dtype == object else np.zeros(len(given), bool)


def _has_text(values: object) -> bool:
    if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        return False
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind in "OUT"
    return hasattr(values, "__len__") and any(isinstance(one, str) for one in values)


def _limits(match: re.Match[str], entry: int, subject: str) -> tuple[float, float]:
    side = match["side"]
    if match["lost"]:
        return -inf, inf
    if side:
        limit = float(match["limit"])
        return (-inf, limit) if side == "<" else (limit, inf)
    low, high = float(match["low"]), float(match["high"])
    if not low < high:
        raise InputError("model.interval_reversed", subject, entry=entry, low=low, high=high)
    return low, high


def _stand_in(low: float, high: float) -> float:
    if np.isinf(low):
        return nan if np.isinf(high) else high / 2 if high > 0 else high
    return low if np.isinf(high) else 0.5 * (low + high)


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, made read-only."""
    array.setflags(write=False)
    return array


def _cell(value: object, row: int, what: str, subject: str) -> float:
    """One entry of a sequence that is not all numbers."""
    if value is None or str(value).strip().lower() in MISSING:
        return nan
    if isinstance(value, str) and re.fullmatch(NUMBER, plain_cell(value)):
        return float(plain_cell(value))
    if isinstance(value, date | np.datetime64):
        raise InputError("model.entry_date", subject, what=what, entry=row, value=str(value))
    if isinstance(value, Decimal):  # of databases
        value = float(value)
    if not is_number(value):
        raise InputError("model.entry_not_number", subject, what=what, entry=row, value=value)
    return as_number(value, f"entry {row} of the {what}", subject, infinite=True)
