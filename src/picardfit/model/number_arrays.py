"""Sequences of numbers as arrays: measured values, times, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date
from math import nan

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError

NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"  # a number written as text
MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "."}  # "not measured", in lower case


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


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, made read-only."""
    array.setflags(write=False)
    return array


def _cell(value: object, row: int, what: str, subject: str) -> float:
    """One entry of a sequence that is not all numbers."""
    if value is None or str(value).strip().lower() in MISSING:
        return nan
    if isinstance(value, str) and re.fullmatch(NUMBER, value.strip()):
        return float(value)
    if isinstance(value, date | np.datetime64):
        raise InputError("model.entry_date", subject, what=what, entry=row, value=str(value))
    if not is_number(value):
        raise InputError("model.entry_not_number", subject, what=what, entry=row, value=value)
    return as_number(value, f"entry {row} of the {what}", subject, infinite=True)
