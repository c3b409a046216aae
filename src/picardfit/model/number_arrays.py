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


def number_array(values: object, subject: str, missing: bool = False) -> np.ndarray:
    """`values` as a new float array (n,); `missing` lets NaN, None and blank cells through as NaN.

    Text, infinities and nested sequences are InputErrors that name the entry, counted from 1.
    """
    single = isinstance(values, np.ndarray) and values.ndim == 0
    if single or isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        raise InputError("model.not_a_sequence", subject, value=values)
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(float), nan)
    entries: Sequence[object] | np.ndarray = values if isinstance(values, np.ndarray) else list(values)
    try:
        array = np.asarray(entries)
    except ValueError:  # ragged rows
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InputError("model.not_flat", subject)
    if array.dtype.kind in "iuf":
        array = array.astype(float)
    else:
        array = np.array([_cell(value, row, subject) for row, value in enumerate(entries, 1)], dtype=float)
    wrong = np.flatnonzero(np.isinf(array) if missing else ~np.isfinite(array))
    if len(wrong):
        code = "model.entry_infinite" if missing else "model.entry_not_finite"
        raise InputError(code, subject, entry=int(wrong[0]) + 1, value=float(array[wrong[0]]))
    return array


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, made read-only."""
    array.setflags(write=False)
    return array


def _cell(value: object, row: int, subject: str) -> float:
    """One entry of a sequence that is not all numbers."""
    if value is None or str(value).strip().lower() in MISSING:
        return nan
    if isinstance(value, str) and re.fullmatch(NUMBER, value.strip()):
        return float(value)
    if isinstance(value, date | np.datetime64):
        raise InputError("model.entry_date", subject, entry=row, value=str(value))
    if not is_number(value):
        raise InputError("model.entry_not_number", subject, entry=row, value=value)
    return as_number(value, f"entry {row} of {subject}", infinite=True)
