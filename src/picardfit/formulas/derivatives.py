"""Derivatives of expressions, and the times at which expressions jump or bend.

The rules are our own: those of SymPy divide by the base of a power (x**n -> n*x**n/x, NaN at x = 0) and turn `abs`,
`min` and `max` into distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy.core.relational import Relational

from picardfit.errors import InputError
from picardfit.formulas.algebra import (
    TIME,
    Absolute,
    Kept,
    Maximum,
    Minimum,
    Sign,
    Where,
    nested_where,
    symbol,
)
from picardfit.formulas.enclosure import Interval, enclosure
from picardfit.formulas.functions import BY_KIND

_CLIPPING = (Minimum, Maximum, Absolute, Where, sympy.Min, sympy.Max, sympy.Abs)  # may be 0 for a while
_EXTREMES = (Minimum, Maximum, sympy.Min, sympy.Max)


class Slopes:
    """Derivatives of expressions; those of shared sub-expressions are computed once."""

    def __init__(self) -> None:
        self._free: dict[sympy.Basic, frozenset[sympy.Symbol]] = {}
        self._slopes: dict[tuple[sympy.Expr, sympy.Symbol], sympy.Expr] = {}

    def free(self, expr: sympy.Basic) -> frozenset[sympy.Symbol]:
        """The symbols in an expression."""
        if expr.is_Symbol:
            return frozenset((expr,))
        if expr not in self._free:
            self._free[expr] = frozenset().union(*(self.free(a) for a in expr.args))
        return self._free[expr]

    def slope(self, expr: sympy.Expr, symbol: sympy.Symbol) -> sympy.Expr:
        """d expr / d symbol; conditions count as constant, and a kink has one of its one-sided slopes."""
        if expr == symbol:
            return sympy.S.One
        if symbol not in self.free(expr):
            return sympy.S.Zero
        key = (expr, symbol)
        if key not in self._slopes:
            self._slopes[key] = self._rule(expr, symbol)
        return self._slopes[key]

    def _rule(self, expr: sympy.Expr, symbol: sympy.Symbol) -> sympy.Expr:
        kind, args = expr.func, expr.args
        if expr.is_Add:
            return sympy.Add(*(self.slope(a, symbol) for a in args))
        if expr.is_Mul:
            inner = [self.slope(a, symbol) for a in args]
            terms = [sympy.Mul(d, *args[:i], *args[i + 1 :]) for i, d in enumerate(inner) if d != 0]
            return sympy.Add(*terms)
        if expr.is_Pow:
            return self._power_rule(args[0], args[1], symbol)
        if kind is Kept:
            return self.slope(args[0], symbol)
        if kind is Where:
            return Where(args[0], self.slope(args[1], symbol), self.slope(args[2], symbol))
        if kind is sympy.Piecewise:
            return self.slope(nested_where(expr), symbol)
        if kind in _EXTREMES:
            first, *rest = args
            slope = self.slope(first, symbol)
            relation = sympy.Le if kind in (Minimum, sympy.Min) else sympy.Ge
            for other in rest:
                slope = Where(relation(first, other), slope, self.slope(other, symbol))
                first = kind(first, other)
            return slope
        function = BY_KIND.get(kind)
        if function is None or function.slope is None:
            raise InputError("formulas.not_differentiable", str(expr))
        return function.slope(args[0]) * self.slope(args[0], symbol)

    def _power_rule(self, base: sympy.Expr, exponent: sympy.Expr, symbol: sympy.Symbol) -> sympy.Expr:
        terms = []
        inner = self.slope(base, symbol)
        if inner != 0:
            steep = base ** (exponent - 1)
            if base.has(*_CLIPPING) and not (exponent.is_Number and (exponent <= 0 or exponent >= 1)):
                # sqrt(max(x, 0)) stays 0 once a tank is empty: its slope there is 0, not the infinite one of the root
                flat = sympy.S.Zero if exponent.is_Number else Where(exponent >= 1, steep, sympy.S.Zero)
                steep = Where(sympy.Ne(base, 0), steep, flat)
            terms.append(exponent * steep * inner)
        outer = self.slope(exponent, symbol)
        if outer != 0:
            # base**exponent * log(base) tends to 0 with the base: Hill functions start there.
            grows = sympy.log(base) * base**exponent
            terms.append(outer * (grows if base.is_positive else Where(base > 0, grows, sympy.S.Zero)))
        return sympy.Add(*terms)


# ---- jumps and kinks ----------------------------------------------------------------------------------------


def breakpoints(expressions: Iterable[sympy.Expr]) -> tuple[float, ...]:
    """Times at which a condition in t alone switches or a kink lies: t < 3, abs(2*t - 5), max(t, 1).

    Only switches linear in t are found; when a condition on a state switches is not known beforehand.
    """
    return zeros_in_time(_switches(expressions))


def zeros_in_time(differences: Iterable[sympy.Expr]) -> tuple[float, ...]:
    """Where expressions linear in t alone are zero; others are ignored."""
    slopes = Slopes()
    found = set()
    for difference in set(differences):
        if slopes.free(difference) == {TIME}:
            slope = slopes.slope(difference, TIME)
            if slope.is_number and slope != 0:
                found.add(float(-difference.xreplace({TIME: sympy.S.Zero}) / slope))
    return tuple(sorted(found))


def frequencies(
    expressions: Iterable[sympy.Expr], bounds: Mapping[str, Interval] = MappingProxyType({})
) -> dict[sympy.Expr, float]:
    """sin, cos and tan of expressions linear in t -> their least frequency within `bounds`, in periods per time.

    `bounds`: of the parameters; those of a fixed one are equal.
    """
    slopes, found = Slopes(), {}
    known = {TIME, *map(symbol, bounds)}
    for node in set().union(*(expr.atoms(sympy.sin, sympy.cos, sympy.tan) for expr in expressions)):
        if TIME in (free := slopes.free(node.args[0])) and free <= known:
            low, high = enclosure(slopes.slope(node.args[0], TIME), bounds)
            found[node] = max(low, -high, 0.0) / (2 * math.pi)
    return found


def is_step_function(expression: sympy.Expr) -> bool:
    """Whether a formula of time alone is constant between its `breakpoints`."""
    slopes = Slopes()
    if slopes.slope(expression, TIME) != 0:
        return False
    return all(slopes.slope(one, TIME).is_number for one in _switches([expression]))


@dataclass(frozen=True)
class ZeroSearch:
    """How zeros in time are found; all are choices."""

    points: int = 5000  # even cells: conditions that hold for less than one may be missed
    most: int = 1000  # zeros: equations that switch more often are left to the integrator
    halvings: int = 50  # of a cell, to rounding


def switches_with(expressions: Iterable[sympy.Expr], others: Iterable[str]) -> tuple[sympy.Expr, ...]:
    """Expressions in t and at least one of the names `others` (inputs) whose change of sign switches a formula."""
    others = {symbol(name) for name in others}
    found = _switches(expressions) if others else set()
    slopes = Slopes()
    return tuple(d for d in found if TIME in (free := slopes.free(d)) and {TIME} < free <= {TIME, *others})


def curved_in_time(expressions: Iterable[sympy.Expr], others: Iterable[str]) -> tuple[sympy.Expr, ...]:
    """Expressions in t and perhaps `others`, not linear in t, whose change of sign switches a formula."""
    known, slopes = {TIME, *map(symbol, others)}, Slopes()
    found = (one for one in _switches(expressions) if TIME in slopes.free(one) and slopes.free(one) <= known)
    return tuple(sorted((one for one in found if TIME in slopes.free(slopes.slope(one, TIME))), key=str))


def zeros_between(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    start: float,
    stop: float,
    search: ZeroSearch = ZeroSearch(),
) -> tuple[float, ...]:
    """Where functions of time (times,) -> (times, functions) change their sign between two times; () if very often."""
    grid = np.linspace(start, stop, search.points + 1)
    signs = np.sign(function(grid))
    cell, which = np.nonzero(signs[:-1] * signs[1:] < 0)
    if not 0 < len(cell) <= search.most:
        return ()
    low, high, below = grid[cell], grid[cell + 1], signs[cell, which]
    for _ in range(search.halvings):
        middle = 0.5 * (low + high)
        same = np.sign(function(middle)[np.arange(len(cell)), which]) == below
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return tuple(sorted(set(high.tolist())))


def _switches(expressions: Iterable[sympy.Basic]) -> set[sympy.Expr]:
    """Expressions whose change of sign switches one of the formulas."""
    return {one for expr in expressions for node in switching_nodes(expr) for one in switch_of(node)}


def switching_nodes(expression: sympy.Basic) -> list[sympy.Basic]:
    """The comparisons, signs, absolute values and extremes in an expression, in a fixed order."""
    kinds = (Relational, Absolute, Sign, sympy.Abs, sympy.sign, *_EXTREMES)
    return sorted(expression.atoms(*kinds), key=str)


def switch_of(node: sympy.Basic) -> set[sympy.Expr]:
    """The expressions whose change of sign switches such a node."""
    if isinstance(node, Relational):
        return {node.lhs - node.rhs}
    if isinstance(node, _EXTREMES):
        return {a - b for i, a in enumerate(node.args) for b in node.args[:i]}
    return {node.args[0]}
