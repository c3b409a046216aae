"""Kernels: straight-line Python code generated from expressions, each shared sub-expression computed once.

The code holds only register names and numbers, never a user's text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, BooleanAtom, Not, Or

from picardfit.errors import InputError
from picardfit.formulas.algebra import TIME, Kept, Where, nested_where, symbol
from picardfit.formulas.functions import BY_KIND, FUNCTIONS
from picardfit.formulas.wide import Unsuited, Wide

_CHAINS: dict[type, str] = {And: "logical_and({}, {})", Or: "logical_or({}, {})"}
_NAMED = {one.array.__name__: one for one in FUNCTIONS.values() if one.array is not None}
_ARRAYS: dict[str, object] = {name: one.array for name, one in _NAMED.items()} | {
    name: getattr(np, name) for name in ("where", "inf", "nan", "logical_and", "logical_or", "logical_not")
}
_FLOATS: dict[str, object] = {  # the same names for plain floats
    **{name: one.plain for name, one in _NAMED.items() if one.plain is not None},
    "inf": math.inf,
    "nan": math.nan,
    "where": lambda condition, a, b: a if condition else b,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_not": lambda a: not a,
}

Table = tuple[tuple[tuple[int, ...], sympy.Expr], ...]  # (position on the last axes of an array, expression)
Kernel = Callable[..., Any]  # compiled code
Groups = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]  # names of states, parameters, inputs


@lru_cache(maxsize=256)
def kernel(tables: tuple[Table, ...], groups: Groups) -> Kernel:
    """A function kernel(t, x, p, u, *arrays) that writes one table of expressions into each array.

    x, p and u are sequences of components, which broadcast against each other and against t.
    """
    writer = _Writer(groups)
    arrays = [f"array{k}" for k in range(len(tables))]
    for array, table in zip(arrays, tables, strict=True):
        for position, expr in table:
            writer.store(array, position, expr)
    return _compiled(arrays, groups, [*writer.lines_with_reuse(), " return"], _ARRAYS)


@lru_cache(maxsize=256)
def point_kernel(expressions: tuple[sympy.Expr, ...], groups: Groups) -> Kernel:
    """A function kernel(t, x, p, u) of plain floats that returns the expressions as a list of floats.

    Where an expression has no finite value it may raise ZeroDivisionError, OverflowError or ValueError.
    """
    writer = _Writer(groups)
    rows = [writer.operand(expr) for expr in expressions]
    lines, texts = writer.nested_lines(rows)
    return _compiled([], groups, [*lines, f" return [{', '.join(texts)}]"], _FLOATS)


def wide(expressions: Sequence[sympy.Expr], groups: Groups) -> Wide | None:
    """The expressions as few operations on many values, or None if they contain conditions."""
    writer = _Writer(groups)
    rows = [writer.operand(expr) for expr in expressions]
    states, parameters, inputs = map(len, groups)
    try:
        return Wide(writer.code, rows, (states, parameters, inputs), _ARRAYS)
    except Unsuited:
        return None


def _compiled(arrays: list[str], groups: Groups, body: list[str], namespace: dict[str, object]) -> Kernel:
    lines = [f"def kernel({', '.join(['t', 'x', 'p', 'u', *arrays])}):"]
    for letter, group in zip("xpu", groups, strict=True):
        if group:
            lines.append(f" {', '.join(f'{letter}{i}' for i in range(len(group)))}, = {letter}")
    scope = dict(namespace)
    exec(compile("\n".join([*lines, *body]), "<picardfit kernel>", "exec"), scope)
    return scope["kernel"]  # type: ignore[return-value]


class _Writer:
    """Straight-line code that computes equal sub-expressions once.

    Powers up to `largest_unrolled` become products: x**16 is four of them, about as fast as np.power ever is.
    """

    def __init__(self, groups: Groups, largest_unrolled: int = 16) -> None:
        self._largest_unrolled = largest_unrolled
        self._known: dict[sympy.Basic, str] = {TIME: "t"}  # expression -> operand
        for letter, group in zip("xpu", groups, strict=True):
            self._known |= {symbol(name): f"{letter}{i}" for i, name in enumerate(group)}
        self._computed: dict[tuple[str, tuple[str, ...]], str] = {}  # (template, operands) -> operand
        self._rank = {name: 1 if name[0] == "p" else 2 for name in self._known.values()}
        self._code: list[tuple[str, str, tuple[str, ...]]] = []  # (target or "", template, operands)

    @property
    def code(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """The operations in order: (target, template, operands)."""
        return self._code

    def store(self, array: str, position: tuple[int, ...], expr: sympy.Expr) -> None:
        index = ", ".join(map(str, position))
        self._code.append(("", f"{array}[..., {index}] = {{}}", (self.operand(expr),)))

    def nested_lines(self, rows: Sequence[str], deepest: int = 40) -> tuple[list[str], list[str]]:
        """The code with a register for each value that is used more than once, and the texts of the rows.

        Other values are written where they are used: plain floats are then faster by a third, with the same operations
        in the same order. Python's parser limits how deep parentheses may be nested.
        """
        uses = Counter(name for _, _, operands in self._code for name in operands) + Counter(rows)
        inside: dict[str, tuple[str, int]] = {}  # value -> its text, depth of its parentheses
        lines = []
        for target, template, operands in self._code:
            texts, depths = zip(*(inside.pop(name, (name, 0)) for name in operands), strict=True)
            text, depth = template.format(*texts), 1 + max(depths)
            if uses[target] > 1 or depth >= deepest:
                lines.append(f" {target} = {text}")
            else:
                inside[target] = f"({text})", depth
        return lines, [inside.pop(name, (name, 0))[0] for name in rows]

    def lines_with_reuse(self) -> list[str]:
        """The code that reuses a register after the last use of its value, which frees arrays early."""
        last_use = {name: i for i, (_, _, operands) in enumerate(self._code) for name in operands}
        registers: dict[str, str] = {}
        free: list[str] = []
        lines = []
        for i, (target, template, operands) in enumerate(self._code):
            text = template.format(*(registers.get(name, name) for name in operands))
            dead = [name for name in dict.fromkeys(operands) if name in registers and last_use[name] == i]
            free.extend(registers[name] for name in dead)
            if target:
                registers[target] = free.pop() if free else f"r{len(registers)}"
                text = f"{registers[target]} = {text}"
            lines.append(" " + text)
        return lines

    def operand(self, expr: sympy.Basic) -> str:
        """The register or the literal that holds an expression."""
        if expr not in self._known:
            self._known[expr] = self._write(expr)
        return self._known[expr]

    def _emit(self, template: str, *operands: str) -> str:
        key = (template, operands)
        if key not in self._computed:
            name = f"v{len(self._computed)}"
            self._computed[key] = name
            self._rank[name] = max(self._rank.get(o, 0) for o in operands)
            self._code.append((name, template, operands))
        return self._computed[key]

    def _chain(self, template: str, operands: Iterable[str]) -> str:
        """A left fold, numbers and parameters first: they are scalars where states are arrays."""
        first, *rest = sorted(operands, key=lambda o: self._rank.get(o, 0))
        for other in rest:
            first = self._emit(template, first, other)
        return first

    def _write(self, expr: sympy.Basic) -> str:
        kind, args = expr.func, expr.args
        if isinstance(expr, BooleanAtom):
            return str(bool(expr))
        if isinstance(expr, sympy.Expr) and expr.is_number:
            return _literal(expr)
        if expr.is_Add:
            return self._sum(args)
        if expr.is_Mul:
            return self._product(args)
        if expr.is_Pow:
            return self._power(*args)
        if kind is Kept:
            return self.operand(args[0])
        if kind is Where:
            return self._emit("where({}, {}, {})", *(self.operand(a) for a in args))
        if kind is sympy.Piecewise:
            return self.operand(nested_where(expr))
        function = BY_KIND.get(kind)
        if function is not None and function.array is not None:
            name, operands = function.array.__name__, [self.operand(a) for a in args]
            if function.most == 1:
                return self._emit(name + "({})", *operands)
            return self._chain(name + "({}, {})", operands)
        if isinstance(expr, Relational):
            return self._emit(f"{{}} {expr.rel_op} {{}}", *(self.operand(a) for a in args))
        if kind is Not:
            return self._emit("logical_not({})", self.operand(args[0]))
        if kind in _CHAINS:
            return self._chain(_CHAINS[kind], [self.operand(a) for a in args])
        raise InputError("formulas.not_evaluable", str(expr))

    def _sum(self, args: Sequence[sympy.Expr]) -> str:
        plus: list[str] = []
        minus: list[str] = []
        for term in args:
            negative = term.as_coeff_Mul()[0].is_negative
            (minus if negative else plus).append(self.operand(-term if negative else term))
        if not minus:
            return self._chain("{} + {}", plus)
        if not plus:
            return self._emit("-{}", self._chain("{} + {}", minus))
        return self._emit("{} - {}", self._chain("{} + {}", plus), self._chain("{} + {}", minus))

    def _product(self, args: Sequence[sympy.Expr]) -> str:
        above, below = [], []
        negative = False
        for factor in args:
            if factor.is_Number and factor.is_negative:
                negative, factor = True, -factor
            if factor.is_Rational:
                above += [_literal(sympy.Integer(factor.p))] if factor.p != 1 else []
                below += [_literal(sympy.Integer(factor.q))] if factor.q != 1 else []
            elif factor.is_Pow and factor.exp.is_Number and factor.exp.is_negative:
                below.append(self.operand(factor.base**-factor.exp))
            else:
                above.append(self.operand(factor))
        result = self._chain("{} * {}", above) if above else "1.0"
        if below:
            result = self._emit("{} / {}", result, self._chain("{} * {}", below))
        return self._emit("-{}", result) if negative else result

    def _power(self, base: sympy.Expr, exponent: sympy.Expr) -> str:
        if exponent.is_Number and exponent.is_negative:
            return self._emit("{} / {}", "1.0", self.operand(base**-exponent))
        doubled = 2 * float(exponent) if exponent.is_Number else np.nan
        if not (doubled.is_integer() and doubled <= 2 * self._largest_unrolled):
            return self._emit("power({}, {})", self.operand(base), self.operand(exponent))
        whole, half = divmod(int(doubled), 2)
        factors = [self._whole_power(self.operand(base), whole)] if whole else []
        factors += [self._emit("sqrt({})", self.operand(base))] if half else []
        return self._chain("{} * {}", factors)

    def _whole_power(self, base: str, exponent: int) -> str:
        if exponent == 1:
            return base
        half = self._whole_power(base, exponent // 2)
        square = self._emit("{} * {}", half, half)
        return self._emit("{} * {}", base, square) if exponent % 2 else square


def _literal(expr: sympy.Expr) -> str:
    """A number as a Python float literal; values that are not real become nan."""
    value = complex(expr)
    text = repr(value.real if value.imag == 0 else float("nan"))
    return f"({text})" if text.startswith("-") else text
