"""The functions of the formula language: one table for SymPy, NumPy, plain floats, derivatives and MathML."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import (
    LIMITS,
    Absolute,
    Maximum,
    Minimum,
    Sign,
    Where,
    as_number,
    choose,
    compare,
    divide,
    first_of,
    number,
    power,
)

Builder = Callable[..., sympy.Expr]


class Function(NamedTuple):
    """A function of the formula language.

    A function without `kinds` is built from others: log10(x) is log(x)/log(10).
    """

    fewest: int  # arguments
    most: float
    build: Builder  # expression of the arguments
    kinds: tuple[type[sympy.Basic], ...] = ()  # the SymPy classes that stand for it in expressions
    array: np.ufunc | None = None  # what NumPy calls it
    plain: Callable[..., float] | None = None  # for floats
    slope: Builder | None = None  # derivative of a function of one argument
    mathml: str = ""  # its element in MathML, and of its node in libSBML


def _elementary(
    kind: type[sympy.Function],
    array: np.ufunc,
    plain: Callable[[float], float],
    slope: Builder,
    mathml: str = "",
    also: tuple[type[sympy.Function], ...] = (),
) -> Function:
    """A function of one argument; numbers are computed at once, so that exp(exp(exp(9))) is refused."""

    def build(argument: sympy.Basic) -> sympy.Expr:
        argument = as_number(argument)
        if not argument.is_number:
            return kind(argument)
        with np.errstate(all="ignore"):
            value = float(array(float(argument)))
        if math.isnan(value):
            raise InputError("formulas.not_real", NAMES[kind], argument=float(argument))
        return number(value)

    return Function(1, 1, build, (kind, *also), array, plain, slope, mathml)


def _extreme(
    kinds: tuple[type[sympy.Basic], ...],
    array: np.ufunc,
    choice: Builder,
    plain: Callable[[float, float], float],
    mathml: str,
) -> Function:
    def build(*args: sympy.Basic) -> sympy.Expr:
        values = [as_number(a) for a in args]
        if len(values) > LIMITS.choices:
            raise InputError("formulas.many_choices", NAMES[kinds[0]], given=len(values), most=LIMITS.choices)
        return choice(values, key=float) if all(a.is_number for a in values) else kinds[0](*values)

    return Function(2, math.inf, build, kinds, array, plain, None, mathml)


def _piecewise(*args: sympy.Basic) -> sympy.Expr:
    if len(args) % 2 == 0:
        raise InputError("formulas.piecewise_even")
    if len(args) > 2 * LIMITS.choices:
        raise InputError("formulas.many_choices", "piecewise", given=len(args) // 2, most=LIMITS.choices)
    pairs = list(zip(args[:-1:2], args[1::2], strict=True))
    return first_of(pairs, args[-1])


def _sign(a: float) -> float:
    return math.nan if a != a else float((a > 0) - (a < 0))


_ASIN = _elementary(sympy.asin, np.arcsin, math.asin, lambda a: 1 / sympy.sqrt(1 - a**2), "arcsin")
_ACOS = _elementary(sympy.acos, np.arccos, math.acos, lambda a: -1 / sympy.sqrt(1 - a**2), "arccos")
_ATAN = _elementary(sympy.atan, np.arctan, math.atan, lambda a: 1 / (1 + a**2), "arctan")
_LOG = _elementary(sympy.log, np.log, math.log, lambda a: 1 / a, "ln")

FUNCTIONS: dict[str, Function] = {
    "exp": _elementary(sympy.exp, np.exp, math.exp, sympy.exp, "exp"),
    "log": _LOG,
    "ln": _LOG,
    "log10": Function(1, 1, lambda a: divide(_LOG.build(a), number(math.log(10))), array=np.log10),
    "log2": Function(1, 1, lambda a: divide(_LOG.build(a), number(math.log(2))), array=np.log2),
    "sqrt": Function(1, 1, lambda a: power(a, sympy.S.Half), array=np.sqrt, plain=math.sqrt),
    "sin": _elementary(sympy.sin, np.sin, math.sin, sympy.cos, "sin"),
    "cos": _elementary(sympy.cos, np.cos, math.cos, lambda a: -sympy.sin(a), "cos"),
    "tan": _elementary(sympy.tan, np.tan, math.tan, lambda a: 1 + sympy.tan(a) ** 2, "tan"),
    "asin": _ASIN,
    "acos": _ACOS,
    "atan": _ATAN,
    "arcsin": _ASIN,
    "arccos": _ACOS,
    "arctan": _ATAN,
    "sinh": _elementary(sympy.sinh, np.sinh, math.sinh, sympy.cosh, "sinh"),
    "cosh": _elementary(sympy.cosh, np.cosh, math.cosh, sympy.sinh, "cosh"),
    "tanh": _elementary(sympy.tanh, np.tanh, math.tanh, lambda a: 1 - sympy.tanh(a) ** 2, "tanh"),
    "asinh": _elementary(sympy.asinh, np.arcsinh, math.asinh, lambda a: 1 / sympy.sqrt(1 + a**2), "arcsinh"),
    "acosh": _elementary(sympy.acosh, np.arccosh, math.acosh, lambda a: 1 / sympy.sqrt(a**2 - 1), "arccosh"),
    "atanh": _elementary(sympy.atanh, np.arctanh, math.atanh, lambda a: 1 / (1 - a**2), "arctanh"),
    "abs": _elementary(Absolute, np.absolute, abs, Sign, "abs", (sympy.Abs,)),
    "sign": _elementary(Sign, np.sign, _sign, lambda a: sympy.S.Zero, also=(sympy.sign,)),
    "heaviside": Function(1, 1, lambda a: as_number(compare(">=", a, sympy.S.Zero))),
    "min": _extreme((Minimum, sympy.Min), np.minimum, min, lambda a, b: a if a <= b or a != a else b, "min"),
    "max": _extreme((Maximum, sympy.Max), np.maximum, max, lambda a, b: a if a >= b or a != a else b, "max"),
    "pow": Function(2, 2, power, array=np.power, plain=math.pow),
    "where": Function(3, 3, choose, (Where,)),
    "piecewise": Function(3, math.inf, _piecewise),
}
NAMES = {kind: name for name, one in reversed(FUNCTIONS.items()) for kind in one.kinds}  # aliases come later
BY_KIND = {kind: FUNCTIONS[name] for kind, name in NAMES.items()}


def reciprocal_functions(elementary: Callable[[str], Builder]) -> dict[str, Builder]:
    """cot, sec, csc, their hyperbolic forms and the inverses of both, made of elementary functions by their names."""
    found: dict[str, Builder] = {}
    for name, reciprocal in (("sin", "csc"), ("cos", "sec"), ("tan", "cot")):
        for end in ("", "h"):
            found[f"{reciprocal}{end}"] = _one_over(elementary(f"{name}{end}"))
            found[f"arc{reciprocal}{end}"] = _of_one_over(elementary(f"a{name}{end}"))
    return found


def _one_over(function: Builder) -> Builder:
    return lambda a: divide(sympy.S.One, function(a))


def _of_one_over(function: Builder) -> Builder:
    return lambda a: function(divide(sympy.S.One, a))
