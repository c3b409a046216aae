"""Times at which formulas jump or bend."""

from __future__ import annotations

from collections.abc import Iterable

import sympy
from sympy.core.relational import Relational

from picardfit.formulas.algebra import TIME, Absolute, Maximum, Minimum, Sign, symbol
from picardfit.formulas.derivatives import Slopes


def breakpoints(expressions: Iterable[sympy.Expr]) -> tuple[float, ...]:
    """Times at which a condition in t alone switches or a kink lies: t < 3, abs(2*t - 5), max(t, 1).

    Only switches linear in t are found; conditions on states switch at times nobody knows beforehand.
    """
    return zeros_in_time(d for expr in expressions for d in _switches(expr))


def zeros_in_time(differences: Iterable[sympy.Expr]) -> tuple[float, ...]:
    """Where expressions linear in t alone are zero; others are passed over."""
    slopes = Slopes()
    found = set()
    for difference in set(differences):
        if slopes.free(difference) == {TIME}:
            slope = slopes.slope(difference, TIME)
            if slope.is_number and slope != 0:
                found.add(float(-difference.xreplace({TIME: sympy.S.Zero}) / slope))
    return tuple(sorted(found))


def switches_with(expressions: Iterable[sympy.Expr], others: Iterable[str]) -> tuple[sympy.Expr, ...]:
    """Expressions in t and at least one of the names `others` (inputs) whose change of sign switches a formula."""
    others = {symbol(name) for name in others}
    found = {d for expr in expressions for d in _switches(expr)} if others else set()
    slopes = Slopes()
    return tuple(d for d in found if TIME in (free := slopes.free(d)) and {TIME} < free <= {TIME, *others})


def _switches(expr: sympy.Basic) -> set[sympy.Expr]:
    """Expressions whose change of sign switches the formula."""
    found = set()
    waiting, seen = [expr], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting.extend(node.args)
        if isinstance(node, Relational):
            found.add(node.lhs - node.rhs)
        elif node.func in (Absolute, Sign, sympy.Abs, sympy.sign):
            found.add(node.args[0])
        elif node.func in (Minimum, Maximum, sympy.Min, sympy.Max):
            found |= {a - b for i, a in enumerate(node.args) for b in node.args[:i]}
    return found
