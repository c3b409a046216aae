"""Plain numbers from what users give."""

from __future__ import annotations

from math import inf, isfinite, isnan
from numbers import Real

import numpy as np

from picardfit.errors import InputError


def is_number(value: object) -> bool:
    """True for a real number of Python or NumPy; a truth value is none."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def as_number(value: object, words: str, infinite: bool = False) -> float:
    """`value` as a float; text, NaN and (unless allowed) infinities are InputErrors."""
    if not is_number(value):
        raise InputError(f"The {words} is {value!r}, which is not a number: write a plain number.")
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if isnan(number) or not (infinite or isfinite(number)):
        raise InputError(f"The {words} is {number:g}: give a finite number.")
    return number
