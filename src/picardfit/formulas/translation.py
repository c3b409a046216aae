"""Expressions in the words of another language or package, by one walk over the tree.

A language is a table `Words`. What its functions return is its own affair: values of another package, nodes of a tree,
or text with a strength of binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import reduce
from typing import Any

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, BooleanAtom, Not, Or

from picardfit.errors import InputError
from picardfit.formulas.algebra import Kept, Where, nested_where
from picardfit.formulas.functions import NAMES

# By the names of formulas. "number" takes a float; "true" and "false" take nothing; "+", "-", "*", "/", "**",
# "and", "or", "min", "max" and the relations take two arguments; "negative" and "not" take one, "where" three; "power"
# takes a value and a whole number from 2 on.
Words = Mapping[str, Callable[..., Any]]


def translate(expr: sympy.Basic, known: MutableMapping[sympy.Basic, Any], words: Words) -> Any:
    """What an expression is in other words; `known` has that of its symbols, and grows by what has been met."""
    if expr not in known:
        known[expr] = _Walk(known, words).value(expr)
    return known[expr]


class _Walk:
    """One way to look up words and what is known."""

    def __init__(self, known: MutableMapping[sympy.Basic, Any], words: Words) -> None:
        self.known, self.words = known, words

    def inner(self, expr: sympy.Basic) -> Any:
        return translate(expr, self.known, self.words)

    def value(self, expr: sympy.Basic) -> Any:
        kind, args = expr.func, expr.args
        if isinstance(expr, BooleanAtom):
            return self._word("true" if expr else "false", expr)()
        if isinstance(expr, sympy.Expr) and expr.is_number:
            return self._word("number", expr)(float(expr))
        if expr.is_Add:
            return self._sum(args)
        if expr.is_Mul:
            return self._product(args)
        if expr.is_Pow:
            return self._power(*args)
        if kind is Kept:
            return self.inner(args[0])
        if kind is sympy.Piecewise:
            return self.inner(nested_where(expr))
        name = _name(expr)
        word = self._word(name, expr)
        if name in ("where", "not") or len(args) == 1:
            return word(*map(self.inner, args))
        return reduce(word, map(self.inner, args))

    def _sum(self, terms: Sequence[sympy.Expr]) -> Any:
        """a + b - c: a term that is not negative comes first, if there is one."""
        signs = [term.as_coeff_Mul()[0].is_negative for term in terms]
        order = sorted(range(len(terms)), key=lambda k: k != (signs.index(False) if False in signs else 0))
        first, *rest = order
        total = self.inner(terms[first])
        for k in rest:
            operator, term = ("-", -terms[k]) if signs[k] else ("+", terms[k])
            total = self.words[operator](total, self.inner(term))
        return total

    def _product(self, factors: Sequence[sympy.Expr]) -> Any:
        """a b / (c d), with the sign outside."""
        above, below, negative = [], [], False
        for factor in factors:
            if factor.is_Number and factor.is_negative:
                negative, factor = not negative, -factor
            if factor.is_Rational:
                above += [sympy.Integer(factor.p)] if factor.p != 1 else []
                below += [sympy.Integer(factor.q)] if factor.q != 1 else []
            elif factor.is_Pow and factor.exp.is_Number and factor.exp.is_negative:
                below.append(factor.base**-factor.exp)
            else:
                above.append(factor)
        result = reduce(self.words["*"], map(self.inner, above or [sympy.S.One]))
        if below:
            result = self.words["/"](result, reduce(self.words["*"], map(self.inner, below)))
        return self.words["negative"](result) if negative else result

    def _power(self, base: sympy.Expr, exponent: sympy.Expr) -> Any:
        if exponent.is_Number and exponent.is_negative:
            return self.words["/"](self.inner(sympy.S.One), self.inner(base**-exponent))
        if exponent.is_Integer:
            return self.words["power"](self.inner(base), int(exponent))
        if exponent == sympy.S.Half:
            return self.words["sqrt"](self.inner(base))
        return self.words["**"](self.inner(base), self.inner(exponent))

    def _word(self, name: str, expr: sympy.Basic) -> Callable[..., Any]:
        if name not in self.words:
            raise InputError("formulas.no_translation", str(expr))
        return self.words[name]


def _name(expr: sympy.Basic) -> str:
    """The name of a function, relation or connective in formulas; empty if it has none."""
    if isinstance(expr, Relational):
        return str(expr.rel_op)
    if expr.func is Where:
        return "where"
    return {Not: "not", And: "and", Or: "or"}.get(expr.func) or NAMES.get(expr.func, "")
