"""Between which two numbers an expression lies, by interval arithmetic: an enclosure, not always the narrowest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import inf

import sympy

from picardfit.formulas.algebra import Kept

Interval = tuple[float, float]

EVERYTHING: Interval = (-inf, inf)


def enclosure(expression: sympy.Expr, bounds: Mapping[str, Interval]) -> Interval:
    """Two numbers between which the values of sums, products and powers lie; everything for other functions."""
    if expression.is_number:
        value = complex(expression)
        return EVERYTHING if value.imag else (value.real, value.real)
    if expression.is_Symbol:
        return bounds.get(expression.name, EVERYTHING)
    if expression.is_Pow and expression.exp.is_number:
        return _power(enclosure(expression.base, bounds), float(expression.exp))
    if isinstance(expression, Kept):
        return enclosure(expression.args[0], bounds)
    parts = [enclosure(one, bounds) for one in expression.args]
    if expression.is_Add:
        return sum(low for low, _ in parts), sum(high for _, high in parts)
    return reduce(_product, parts) if expression.is_Mul else EVERYTHING


def _product(one: Interval, other: Interval) -> Interval:
    ends = [0.0 if 0 in (a, b) else a * b for a in one for b in other]
    return min(ends), max(ends)


def _power(base: Interval, exponent: float) -> Interval:
    """Of a base that is nowhere negative, and not 0 where the exponent is negative."""
    if base[0] < 0 or (base[0] == 0 and exponent < 0):
        return EVERYTHING
    try:
        ends = sorted(end**exponent for end in base)
    except OverflowError:
        return EVERYTHING
    return ends[0], ends[1]
