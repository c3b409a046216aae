"""The words of a formula as SymPy expressions, and their derivatives.

Our own `where`, `min`, `max`, `abs` and `sign` are not taken apart by SymPy, and numbers are kept within
the range of floats, so that no text can make it compute for ever. Derivatives follow our own rules: those
of SymPy divide by the base of a power (x**n -> n*x**n/x, NaN at x = 0) and turn `abs`, `min` and `max` into
distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce

import numpy as np
import sympy
from sympy.logic.boolalg import Boolean

from picardfit.errors import InputError

TIME = sympy.Symbol("t", real=True)
_LARGEST_EXPONENT = 1000
_UNDEFINED = (
    "a number in it is too large or undefined (overflow, division by zero): "
    "write finite numbers smaller than 1e308, or change the unit"
)
_EXACT = 2**53  # integers beyond become floats, as they would in NumPy


class Where(sympy.Function):
    """Where(condition, a, b): a where the condition holds, b elsewhere."""

    nargs = 3

    @classmethod
    def eval(cls, condition, a, b):
        if condition in (sympy.true, sympy.false):
            return a if condition == sympy.true else b
        return a if a == b else None


class Minimum(sympy.Function):
    """The smallest of two or more numbers, without the case distinctions SymPy's Min tries to decide."""


class Maximum(sympy.Function):
    """The largest of two or more numbers."""


class Absolute(sympy.Function):
    """|x| without SymPy's attempts to decide the sign of x."""

    nargs = 1


class Sign(sympy.Function):
    """-1, 0 or 1."""

    nargs = 1


def is_condition(expr: sympy.Basic) -> bool:
    """Whether the expression is true or false rather than a number (a symbol is a number here)."""
    return isinstance(expr, Boolean) and not isinstance(expr, sympy.Symbol)


def names(expr: sympy.Basic) -> set[str]:
    """The names an expression depends on (time is `t`)."""
    return {s.name for s in expr.free_symbols}


def names_outside_conditions(expressions: Iterable[sympy.Basic]) -> set[str]:
    """The names on which the expressions depend other than through a condition or a sign."""
    found: set[str] = set()
    waiting, seen = list(expressions), set()
    while waiting:
        node = waiting.pop()
        if node in seen or is_condition(node) or node.func in (Sign, sympy.sign):
            continue
        seen.add(node)
        waiting.extend(node.args)
        if node.is_Symbol:
            found.add(node.name)
    return found


def symbol(name: str) -> sympy.Symbol:
    """The symbol of a name; every name is real."""
    return sympy.Symbol(name, real=True)


def as_number(expr: sympy.Basic) -> sympy.Expr:
    """A condition as 1 or 0; numbers pass."""
    return Where(expr, sympy.S.One, sympy.S.Zero) if is_condition(expr) else expr


def as_condition(expr: sympy.Basic) -> sympy.Basic:
    """A number as `not zero`; conditions pass."""
    return expr if is_condition(expr) else sympy.Ne(expr, 0)


def number(value: float) -> sympy.Expr:
    """An exact integer where it fits, else a float; InputError if it is not finite."""
    if not math.isfinite(value):
        raise InputError(_UNDEFINED)
    whole = isinstance(value, int) and abs(value) <= _EXACT
    return sympy.Integer(value) if whole else sympy.Float(float(value))


def _tame(expr: sympy.Expr) -> sympy.Expr:
    """Exact coefficients that outgrew a float are rounded, so that no integer grows without limit."""
    coefficient, rest = expr.as_coeff_Mul()
    if coefficient.is_Rational and max(abs(coefficient.p), coefficient.q) <= _EXACT:
        return expr
    rounded = number(float(sympy.Float(coefficient)))
    return rounded * rest if coefficient.is_Rational else expr


def add(*terms: sympy.Basic) -> sympy.Expr:
    return _tame(sympy.Add(*map(as_number, terms)))


def multiply(*factors: sympy.Basic) -> sympy.Expr:
    return _tame(sympy.Mul(*map(as_number, factors)))


def divide(above: sympy.Basic, below: sympy.Basic) -> sympy.Expr:
    below = as_number(below)
    if below.is_zero and below.is_number:
        raise InputError("it divides by zero: correct the denominator")
    return multiply(above, power(below, sympy.S.NegativeOne))


def power(base: sympy.Basic, exponent: sympy.Basic) -> sympy.Expr:
    """base**exponent; 9**9**9 is refused, not computed."""
    base, exponent = as_number(base), as_number(exponent)
    if exponent.is_Float and (2 * float(exponent)).is_integer():
        exponent = sympy.Rational(round(2 * float(exponent)), 2)
    if exponent.is_Number and abs(float(exponent)) > _LARGEST_EXPONENT:
        raise InputError(f"an exponent is larger than {_LARGEST_EXPONENT}: write a smaller one")
    if base.is_number and exponent.is_number and not (base.is_Rational and exponent == -1):
        try:
            value = float(base) ** float(exponent)
        except (OverflowError, ZeroDivisionError):
            raise InputError(_UNDEFINED) from None
        if isinstance(value, complex):
            raise InputError("it takes a root of a negative number: correct the base or the exponent")
        exact = base.is_Integer and value.is_integer() and abs(value) <= _EXACT
        return sympy.Integer(int(value)) if exact else number(value)
    return _tame(sympy.Pow(base, exponent))


def compare(operator: str, left: sympy.Basic, right: sympy.Basic) -> sympy.Basic:
    return RELATIONS[operator](as_number(left), as_number(right))


def choose(condition: sympy.Basic, a: sympy.Basic, b: sympy.Basic) -> sympy.Expr:
    return Where(as_condition(condition), as_number(a), as_number(b))


def both(*conditions: sympy.Basic) -> sympy.Basic:
    return sympy.And(*map(as_condition, conditions))


def either(*conditions: sympy.Basic) -> sympy.Basic:
    return sympy.Or(*map(as_condition, conditions))


def _piecewise(*args: sympy.Basic) -> sympy.Expr:
    if len(args) % 2 == 0:
        raise InputError(
            "`piecewise` needs value, condition, value, condition, ..., otherwise (an odd number of them)"
        )
    pairs = list(zip(args[:-1:2], args[1::2], strict=True))
    return reduce(lambda rest, pair: choose(pair[1], pair[0], rest), reversed(pairs), as_number(args[-1]))


def _elementary(kind: Callable, numeric: Callable) -> Callable:
    """A function of one argument; numbers are computed at once, so that exp(exp(exp(9))) is refused."""

    def build(argument: sympy.Basic) -> sympy.Expr:
        argument = as_number(argument)
        if not argument.is_number:
            return kind(argument)
        with np.errstate(all="ignore"):
            value = float(numeric(float(argument)))
        if math.isnan(value):
            name = kind.__name__.lower()
            raise InputError(f"`{name}({float(argument):g})` is not a real number: correct its argument")
        return number(value)

    return build


def _extreme(kind: Callable, numeric: Callable) -> Callable:
    def build(*args: sympy.Basic) -> sympy.Expr:
        args = [as_number(a) for a in args]
        return numeric(args, key=float) if all(a.is_number for a in args) else kind(*args)

    return build


RELATIONS = {
    "<": sympy.Lt,
    "<=": sympy.Le,
    ">": sympy.Gt,
    ">=": sympy.Ge,
    "==": sympy.Eq,
    "!=": sympy.Ne,
}
_sine, _cosine, _tangent = (_elementary(getattr(sympy, n), getattr(np, n)) for n in ("sin", "cos", "tan"))
_arcs = {n: _elementary(getattr(sympy, n), getattr(np, "arc" + n[1:])) for n in ("asin", "acos", "atan")}
_log = _elementary(sympy.log, np.log)

# name -> (fewest arguments, most arguments, builder)
FUNCTIONS: dict[str, tuple[int, float, Callable]] = {
    "exp": (1, 1, _elementary(sympy.exp, np.exp)),
    "log": (1, 1, _log),
    "ln": (1, 1, _log),
    "log10": (1, 1, lambda a: divide(_log(a), number(math.log(10)))),
    "log2": (1, 1, lambda a: divide(_log(a), number(math.log(2)))),
    "sqrt": (1, 1, lambda a: power(a, sympy.S.Half)),
    "sin": (1, 1, _sine),
    "cos": (1, 1, _cosine),
    "tan": (1, 1, _tangent),
    "asin": (1, 1, _arcs["asin"]),
    "acos": (1, 1, _arcs["acos"]),
    "atan": (1, 1, _arcs["atan"]),
    "arcsin": (1, 1, _arcs["asin"]),
    "arccos": (1, 1, _arcs["acos"]),
    "arctan": (1, 1, _arcs["atan"]),
    "sinh": (1, 1, _elementary(sympy.sinh, np.sinh)),
    "cosh": (1, 1, _elementary(sympy.cosh, np.cosh)),
    "tanh": (1, 1, _elementary(sympy.tanh, np.tanh)),
    "asinh": (1, 1, _elementary(sympy.asinh, np.arcsinh)),
    "acosh": (1, 1, _elementary(sympy.acosh, np.arccosh)),
    "atanh": (1, 1, _elementary(sympy.atanh, np.arctanh)),
    "abs": (1, 1, _elementary(Absolute, abs)),
    "sign": (1, 1, _elementary(Sign, np.sign)),
    "heaviside": (1, 1, lambda a: as_number(compare(">=", a, sympy.S.Zero))),
    "min": (2, math.inf, _extreme(Minimum, min)),
    "max": (2, math.inf, _extreme(Maximum, max)),
    "pow": (2, 2, power),
    "where": (3, 3, choose),
    "piecewise": (3, math.inf, _piecewise),
}


# ---- derivatives -------------------------------------------------------------------------------------------

_SLOPES: dict[type, Callable] = {
    sympy.exp: sympy.exp,
    sympy.log: lambda a: 1 / a,
    sympy.sin: sympy.cos,
    sympy.cos: lambda a: -sympy.sin(a),
    sympy.tan: lambda a: 1 + sympy.tan(a) ** 2,
    sympy.asin: lambda a: 1 / sympy.sqrt(1 - a**2),
    sympy.acos: lambda a: -1 / sympy.sqrt(1 - a**2),
    sympy.atan: lambda a: 1 / (1 + a**2),
    sympy.sinh: sympy.cosh,
    sympy.cosh: sympy.sinh,
    sympy.tanh: lambda a: 1 - sympy.tanh(a) ** 2,
    sympy.asinh: lambda a: 1 / sympy.sqrt(1 + a**2),
    sympy.acosh: lambda a: 1 / sympy.sqrt(a**2 - 1),
    sympy.atanh: lambda a: 1 / (1 - a**2),
    Absolute: Sign,
    sympy.Abs: Sign,
    Sign: lambda a: sympy.S.Zero,
    sympy.sign: lambda a: sympy.S.Zero,
}


class Slopes:
    """Derivatives of expressions, sharing what they have in common."""

    def __init__(self) -> None:
        self._free: dict[sympy.Basic, frozenset] = {}
        self._slopes: dict[tuple, sympy.Expr] = {}

    def free(self, expr: sympy.Basic) -> frozenset:
        """The symbols in an expression."""
        if expr.is_Symbol:
            return frozenset((expr,))
        if expr not in self._free:
            self._free[expr] = frozenset().union(*(self.free(a) for a in expr.args))
        return self._free[expr]

    def slope(self, expr: sympy.Expr, symbol: sympy.Symbol) -> sympy.Expr:
        """d expr / d symbol; conditions are taken as constant, kinks get one of their one-sided slopes."""
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
            return self._power_rule(*args, symbol)
        if kind is Where:
            return Where(args[0], self.slope(args[1], symbol), self.slope(args[2], symbol))
        if kind is sympy.Piecewise:
            return self.slope(nested_where(expr), symbol)
        if kind in (Minimum, Maximum, sympy.Min, sympy.Max):
            first, *rest = args
            slope = self.slope(first, symbol)
            relation = sympy.Le if kind in (Minimum, sympy.Min) else sympy.Ge
            for other in rest:
                slope = Where(relation(first, other), slope, self.slope(other, symbol))
                first = kind(first, other)
            return slope
        if kind in _SLOPES:
            return _SLOPES[kind](args[0]) * self.slope(args[0], symbol)
        raise InputError(
            f"`{expr}` cannot be differentiated: write it with the functions of the formula language."
        )

    def _power_rule(self, base: sympy.Expr, exponent: sympy.Expr, symbol: sympy.Symbol) -> sympy.Expr:
        terms = []
        inner = self.slope(base, symbol)
        if inner != 0:
            terms.append(exponent * base ** (exponent - 1) * inner)
        outer = self.slope(exponent, symbol)
        if outer != 0:
            # base**exponent * log(base) tends to 0 with the base: Hill functions start there.
            grows = sympy.log(base) * base**exponent
            terms.append(outer * (grows if base.is_positive else Where(base > 0, grows, sympy.S.Zero)))
        return sympy.Add(*terms)


def nested_where(pieces: sympy.Piecewise) -> sympy.Expr:
    result = sympy.nan
    for value, condition in reversed(pieces.args):
        result = value if condition == sympy.true else Where(condition, value, result)
    return result
