"""The arithmetic of formulas as SymPy expressions.

`where`, `min`, `max`, `abs` and `sign` are functions of our own, which SymPy does not try to simplify, and numbers
stay within the range of floats: no text can keep SymPy busy for ever.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sympy
from sympy.logic.boolalg import Boolean

from picardfit.errors import InputError

TIME = sympy.Symbol("t", real=True)
RELATIONS = {kind.rel_op: kind for kind in (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge, sympy.Eq, sympy.Ne)}


@dataclass(frozen=True)
class Limits:
    """How large numbers and formulas may be, so that reading a text ends soon. All are choices."""

    whole: int = 2**53  # larger integers become floats, which hold all integers up to here exactly
    smallest: float = sys.float_info.min  # of the numbers other than 0; smaller ones lose digits
    unrolled: int = 16  # the largest power of a product that SymPy may split into powers of its factors
    exponent: int = 1000  # float**1000 overflows for every base above 2, so a larger exponent is a mistake
    name: int = 200  # characters of one name, which stands in messages, tables and pictures
    characters: int = 20_000  # of one formula: several pages
    text: int = 500_000  # characters of all equations: a hundred times the largest model written by hand
    states: int = 1000  # of a text: its Jacobians are dense, 8 MB for each of hundreds of nodes
    parameters: int = 1500  # names in a text besides states and inputs, for the same reason
    choices: int = 100  # arguments of min, max and piecewise, which are nested in code and in derivatives
    chain: int = 16  # cases of a distinction that are nested in each other; more are halved again and again
    nesting: int = 150  # of parentheses and calls: well below Python's own recursion limit
    depth: int = 150  # of the expression tree after definitions are written out, for the same reason
    parts: int = 50_000  # nodes of that tree: its Jacobian still takes only seconds


LIMITS = Limits()


class Where(sympy.Function):
    """Where(condition, a, b): a where the condition holds, b elsewhere."""

    nargs = 3
    is_commutative = (
        True  # SymPy asks its arguments, and takes a condition for something that does not commute
    )

    @classmethod
    def eval(cls, condition: sympy.Basic, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
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


class Kept(sympy.Function):
    """Kept(a) is a. SymPy cannot look inside, so that a power of it stays a power as written.

    SymPy writes (x/1000)**120 as x**120/1000**120, whose coefficient no float can hold, and (x*y)**50 as
    x**50*y**50, which may overflow although x*y is 1.
    """

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
    """The names on which the expressions depend otherwise than through a condition or a sign."""
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
    """A condition as 1 or 0; a number as it is."""
    return Where(expr, sympy.S.One, sympy.S.Zero) if is_condition(expr) else expr


def as_condition(expr: sympy.Basic) -> sympy.Basic:
    """A number as the condition that it is not zero; a condition as it is."""
    return expr if is_condition(expr) else sympy.Ne(expr, 0)


def number(value: float) -> sympy.Expr:
    """An exact integer where it fits, else a float; InputError if it is not finite."""
    if not math.isfinite(value):
        raise InputError("formulas.number_undefined")
    whole = isinstance(value, int) and abs(value) <= LIMITS.whole
    return sympy.Integer(value) if whole else sympy.Float(float(value))


def is_vanishing(exact: sympy.Expr) -> bool:
    """Whether a number that is not zero is too small for a float with all its digits."""
    return bool(exact != 0 and abs(float(exact)) < LIMITS.smallest)


def _tame(expr: sympy.Expr) -> sympy.Expr:
    """Round an exact coefficient that a float cannot hold; InputError if the coefficient is not finite."""
    coefficient, factors = expr.as_coeff_Mul()
    if coefficient.is_Rational and max(abs(coefficient.p), coefficient.q) <= LIMITS.whole:
        return expr
    if coefficient.is_finite and is_vanishing(coefficient):
        raise InputError("formulas.number_vanishes", smallest=LIMITS.smallest)
    rounded = number(float(sympy.Float(coefficient)))
    return rounded * factors if coefficient.is_Rational else expr


def add(*terms: sympy.Basic) -> sympy.Expr:
    return _tame(sympy.Add(*map(as_number, terms)))


def multiply(*factors: sympy.Basic) -> sympy.Expr:
    return _tame(sympy.Mul(*map(as_number, factors)))


def divide(above: sympy.Basic, below: sympy.Basic) -> sympy.Expr:
    below = as_number(below)
    if below.is_zero and below.is_number:
        raise InputError("formulas.division_by_zero")
    return multiply(above, power(below, sympy.S.NegativeOne))


def power(base: sympy.Basic, exponent: sympy.Basic) -> sympy.Expr:
    """base**exponent; 9**9**9 is refused, not computed."""
    base, exponent = as_number(base), as_number(exponent)
    if exponent.is_Float and (2 * float(exponent)).is_integer():
        exponent = sympy.Rational(round(2 * float(exponent)), 2)
    if exponent.is_Number and abs(float(exponent)) > LIMITS.exponent:
        raise InputError("formulas.exponent_too_large", most=LIMITS.exponent)
    if base.is_number and exponent.is_number and not (base.is_Rational and exponent == -1):
        try:
            value = float(base) ** float(exponent)
        except (OverflowError, ZeroDivisionError):
            raise InputError("formulas.number_undefined") from None
        if isinstance(value, complex):
            raise InputError("formulas.root_of_negative")
        if value != value or (base != 0 and abs(value) < LIMITS.smallest):
            raise InputError("formulas.number_vanishes", smallest=LIMITS.smallest)
        exact = base.is_Integer and value.is_integer() and abs(value) <= LIMITS.whole
        return sympy.Integer(int(value)) if exact else number(value)
    whole = exponent * base.exp if base.is_Pow else exponent  # SymPy writes (x**a)**b as x**(a*b)
    if whole.is_Number and abs(float(whole)) > LIMITS.exponent:
        raise InputError("formulas.exponent_too_large", most=LIMITS.exponent)
    return _tame(sympy.Pow(Kept(base) if _must_keep(base, exponent) else base, exponent))


def _must_keep(base: sympy.Expr, exponent: sympy.Expr) -> bool:
    """Whether SymPy would split a power of a product into factors that floats cannot hold."""
    if not (base.is_Mul and exponent.is_Number):
        return False
    if abs(float(exponent)) > LIMITS.unrolled:
        return True
    coefficient = abs(float(base.as_coeff_Mul()[0]))
    return coefficient != 1 and abs(float(exponent) * math.log(coefficient)) > math.log(LIMITS.whole)


def compare(operator: str, left: sympy.Basic, right: sympy.Basic) -> sympy.Basic:
    return RELATIONS[operator](as_number(left), as_number(right))


def choose(condition: sympy.Basic, a: sympy.Basic, b: sympy.Basic) -> sympy.Expr:
    return Where(as_condition(condition), as_number(a), as_number(b))


def both(*conditions: sympy.Basic) -> sympy.Basic:
    return sympy.And(*map(as_condition, conditions))


def either(*conditions: sympy.Basic) -> sympy.Basic:
    return sympy.Or(*map(as_condition, conditions))


def first_of(pairs: Sequence[tuple[sympy.Basic, sympy.Basic]], otherwise: sympy.Basic) -> sympy.Expr:
    """The value of the first pair (value, condition) whose condition holds, or else `otherwise`.

    Many pairs are divided into halves, so that the depth of the expression grows with their logarithm only: each case
    inside the one before it would exceed Python's limit of recursion, and take as long as all of them to evaluate.
    """
    if len(pairs) <= LIMITS.chain:
        result = as_number(otherwise)
        for value, condition in reversed(pairs):
            result = choose(condition, value, result)
        return result
    half = len(pairs) // 2
    *others, (last, _) = first = pairs[:half]
    condition = _any([as_condition(one) for _, one in first])
    return choose(condition, first_of(others, last), first_of(pairs[half:], otherwise))


def _any(conditions: Sequence[sympy.Basic]) -> sympy.Basic:
    """Whether one of the conditions holds: the last of them alone where it follows from all others (t < 1, t < 2)."""
    last = conditions[-1]
    ordered = isinstance(last, sympy.Lt | sympy.Le | sympy.Gt | sympy.Ge) and all(
        one.func is last.func and one.args[0] == last.args[0] and one.args[1].is_number for one in conditions
    )
    if ordered:
        bounds = [float(one.args[1]) for one in conditions]
        widest = max(bounds) if isinstance(last, sympy.Lt | sympy.Le) else min(bounds)
        if bounds[-1] == widest:
            return last
    return sympy.Or(*conditions)


def nested_where(pieces: sympy.Piecewise) -> sympy.Expr:
    """A Piecewise of SymPy as nested `Where`; NaN where no condition holds."""
    pairs = [(value, condition) for value, condition in pieces.args]
    always = next((k for k, (_, condition) in enumerate(pairs) if condition == sympy.true), len(pairs))
    return first_of(pairs[:always], pairs[always][0] if always < len(pairs) else sympy.nan)
