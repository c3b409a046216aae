"""Our expressions in the words of another package: sums, products and powers are its operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from compare.task import Unable
from picardfit.formulas.algebra import TIME, symbol
from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.formulas.translation import translate

Words = Mapping[str, Callable]  # by name in formulas; "min", "max", "and" and "or" take two arguments


def _power(base, exponent: int):
    """Whole powers as products: foreign packages differentiate x**3 by logarithms otherwise."""
    return reduce(operator.mul, [base] * exponent) if exponent <= 16 else base**exponent


OPERATORS: Words = {
    "number": float,
    "true": lambda: True,
    "false": lambda: False,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "power": _power,
    "negative": operator.neg,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


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
        return [translate(e, values, {**OPERATORS, **words}) for e in mapping.expressions]

    return rows
