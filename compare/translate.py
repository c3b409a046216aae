"""Our expressions in the words of another package, by one walk over the tree.

A package is a table of functions by name; sums, products and powers are its operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, BooleanAtom, Not, Or

from compare.task import Unable
from picardfit.formulas.algebra import TIME, Kept, Where, nested_where, symbol
from picardfit.formulas.functions import NAMES
from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap

RELATIONS: dict[str, Callable] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
Words = Mapping[str, Callable]  # by name in formulas; "min", "max", "and" and "or" take two arguments


def formulas(mapping: BatchedMap | NumericMap) -> BatchedMap:
    """The map, if it is made of formulas."""
    if not isinstance(mapping, BatchedMap):
        raise Unable(
            "it needs equations as formulas, and this model is a Python function that decides on values"
        )
    return mapping


def translated(mapping: BatchedMap | NumericMap, words: Words) -> Callable[..., list]:
    """rows(t, x, p, u) in another package; x, p, u are sequences of its scalars or arrays."""
    mapping = formulas(mapping)

    def rows(t, x: Sequence, p: Sequence, u: Sequence) -> list:
        values = {TIME: t}
        for group, given in ((mapping.states, x), (mapping.parameters, p), (mapping.inputs, u)):
            values |= {symbol(name): given[k] for k, name in enumerate(group)}
        return [_walk(e, values, words) for e in mapping.expressions]

    return rows


def _walk(expr: sympy.Basic, values: dict, words: Words):
    """The value of an expression; `values` grows by what has been met."""
    if expr not in values:
        values[expr] = _value(expr, values, words)
    return values[expr]


def _value(expr: sympy.Basic, values: dict, words: Words):
    kind, args = expr.func, expr.args
    if isinstance(expr, BooleanAtom):
        return bool(expr)
    if isinstance(expr, sympy.Expr) and expr.is_number:
        return float(expr)
    if kind is sympy.Piecewise:
        return _walk(nested_where(expr), values, words)
    if expr.is_Pow:
        return _power(*args, values, words)
    inner = [_walk(a, values, words) for a in args]
    if expr.is_Add:
        return reduce(lambda a, b: a + b, inner)
    if expr.is_Mul:
        return reduce(lambda a, b: a * b, inner)
    if kind is Kept:
        return inner[0]
    if kind is Where:
        return words["where"](*inner)
    if kind in NAMES:
        word = words[NAMES[kind]]
        return word(inner[0]) if len(inner) == 1 else reduce(word, inner)
    if isinstance(expr, Relational):
        return RELATIONS[expr.rel_op](*inner)
    if kind is Not:
        return words["not"](inner[0])
    if kind in (And, Or):
        return reduce(words["and" if kind is And else "or"], inner)
    raise Unable(f"the formula `{expr}` has no translation")


def _power(base: sympy.Expr, exponent: sympy.Expr, values: dict, words: Words):
    """Whole powers as products: foreign packages differentiate x**3 by logarithms otherwise."""
    number = _walk(base, values, words)
    if exponent.is_Number and exponent.is_negative:
        return 1.0 / _walk(base**-exponent, values, words)
    if exponent.is_Integer and int(exponent) <= 16:
        return reduce(lambda a, b: a * b, [number] * int(exponent))
    if exponent == sympy.S.Half:
        return words["sqrt"](number)
    return number ** _walk(exponent, values, words)
