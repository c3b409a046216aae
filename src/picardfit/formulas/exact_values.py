"""Values of formulas with many digits, straight from their text.

A second reader of the formula language, kept apart on purpose: it shares only the tokens with `grammar`, builds no
expressions, simplifies nothing and generates no code. What it computes is what the user wrote, so that it can judge
the compiled kernels. It expects text that `grammar.parse` has accepted. Where a formula has no real value it gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mpmath

from picardfit.formulas.grammar import NOT_STRENGTH, SIGN_STRENGTH, STRENGTH, Token, tokens

Value = Any  # a number of mpmath, or a truth value
CHAINED = frozenset(("<", "<=", ">", ">=", "==", "!="))


@dataclass(frozen=True)
class Precision:
    """How values are computed. Both are choices."""

    digits: int = 30  # twice those of a float: what floats lose is seen in full
    largest_exponent: float = (
        1e5  # of e, beyond which a value counts as infinite or zero: far outside of floats
    )


def exact_value(text: str, values: Mapping[str, Value], precision: Precision = Precision()) -> Value:
    """The value of a formula at these values of its names."""
    with mpmath.workdps(precision.digits):
        return _number(_Reader(_tokens(text), values, precision).expression(0))


@lru_cache(maxsize=1024)
def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(tokens(text))


def token_count(text: str) -> int:
    """What one evaluation costs, in tokens."""
    return len(_tokens(text))


class _Reader:
    """Computes while it reads, by precedence climbing."""

    def __init__(self, found: Sequence[Token], values: Mapping[str, Value], precision: Precision) -> None:
        self.tokens, self.values, self.at = found, values, 0
        self.limit = precision.largest_exponent

    def peek(self) -> str:
        token = self.tokens[self.at]
        return token.text if token.kind in ("operator", "end") else ""

    def take(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def expression(self, weakest: int) -> Value:
        left = self.operand()
        while (strength := STRENGTH.get(self.peek(), -1)) >= weakest:
            word = self.take().text
            if word == "if":
                condition = self.expression(2)
                self.take()  # else
                otherwise = self.expression(1)
                left = _number(left) if _truth(condition) else _number(otherwise)
            elif word in CHAINED:
                left = self.comparisons(left, word, strength)
            elif word == "**":  # binds to the right, and weaker than the sign of its exponent
                left = self.power(_number(left), _number(self.expression(SIGN_STRENGTH)))
            else:
                left = _OPERATORS[word](left, self.expression(strength + 1))
        return left

    def comparisons(self, left: Value, word: str, strength: int) -> bool:
        """A chain such as 0 < x <= 1."""
        holds = True
        while True:
            right = self.expression(strength + 1)
            holds = holds and _COMPARISONS[word](_number(left), _number(right))
            if self.peek() not in CHAINED:
                return holds
            left, word = right, self.take().text

    def operand(self) -> Value:
        token = self.take()
        if token.kind == "number":
            return mpmath.mpf(token.text)
        if token.kind == "name":
            return self.call(token.text) if self.peek() == "(" else self.name(token.text)
        if token.text == "(":
            inside = self.expression(0)
            self.take()
            return inside
        if token.text == "not":
            return not _truth(self.expression(NOT_STRENGTH))
        value = _number(self.expression(SIGN_STRENGTH))
        return -value if token.text == "-" else value

    def name(self, name: str) -> Value:
        if name == "pi":
            return +mpmath.pi
        return name == "True" if name in ("True", "False") else self.values[name]

    def call(self, name: str) -> Value:
        args = self.arguments()
        if name in ("piecewise", "where"):
            return _piecewise(args if name == "piecewise" else [args[1], args[0], args[2]])
        if name in ("pow", "sqrt"):
            return self.power(_number(args[0]), _number(args[1]) if name == "pow" else mpmath.mpf("0.5"))
        numbers = [_number(one) for one in args]
        if any(mpmath.isnan(one) for one in numbers):
            return mpmath.nan
        if name in ("exp", "sinh", "cosh") and abs(numbers[0]) > self.limit:
            return _beyond(name, numbers[0])
        try:
            return _real(_FUNCTIONS[name](*numbers))
        except (ValueError, ZeroDivisionError, OverflowError):
            return mpmath.nan

    def arguments(self) -> list[Value]:
        """What stands in the parentheses of a call; the pairs (value, condition) of `piecewise` are tuples."""
        self.take()  # (
        found: list[Value] = []
        while self.peek() != ")":
            found.append(self.pair() if self.peek() == "(" and self.is_pair() else self.expression(0))
            if self.peek() == ",":
                self.take()
        self.take()
        return found

    def is_pair(self) -> bool:
        depth = 0
        for token in self.tokens[self.at :]:
            depth += (token.text == "(") - (token.text == ")")
            if depth <= 0 or (depth == 1 and token.text == ","):
                return depth == 1
        return False

    def pair(self) -> tuple[Value, Value]:
        value, condition = self.arguments()
        return value, condition

    def power(self, base: Value, exponent: Value) -> Value:
        if exponent == 0:
            return mpmath.mpf(1)
        if mpmath.isnan(base) or mpmath.isnan(exponent):
            return mpmath.nan
        if base == 0:
            return mpmath.mpf(0) if exponent > 0 else mpmath.nan
        size = exponent * mpmath.log(abs(base)) if mpmath.isfinite(base) else mpmath.inf
        if not abs(size) < self.limit:
            return mpmath.mpf(0) if size < 0 else mpmath.inf
        return _real(base**exponent)


def _number(value: Value) -> Value:
    return mpmath.mpf(value) if isinstance(value, bool) else value


def _truth(value: Value) -> bool:
    return value if isinstance(value, bool) else bool(value != 0)


def _real(value: Value) -> Value:
    return mpmath.nan if isinstance(value, mpmath.mpc) and value.imag != 0 else mpmath.re(value)


def _beyond(name: str, argument: Value) -> Value:
    if argument > 0 or name == "cosh":
        return mpmath.inf
    return mpmath.mpf(0) if name == "exp" else -mpmath.inf


def _quotient(above: Value, below: Value) -> Value:
    return mpmath.nan if below == 0 else _number(above) / below


def _piecewise(args: Sequence[Value]) -> Value:
    """The first value whose condition holds: pairs, or values and conditions in turn with a last value."""
    pairs = [one for one in args if isinstance(one, tuple)]
    if not pairs:
        pairs = [*zip(args[:-1:2], args[1::2], strict=True), (args[-1], True)]
    return next(_number(value) for value, condition in pairs if _truth(condition))


_OPERATORS: dict[str, Callable[[Value, Value], Value]] = {
    "+": lambda a, b: _number(a) + _number(b),
    "-": lambda a, b: _number(a) - _number(b),
    "*": lambda a, b: _number(a) * _number(b),
    "/": lambda a, b: _quotient(a, _number(b)),
    "and": lambda a, b: _truth(a) and _truth(b),
    "or": lambda a, b: _truth(a) or _truth(b),
}
_COMPARISONS: dict[str, Callable[[Value, Value], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
}
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: getattr(mpmath, name) for name in ("exp", "log", "ln", "log10", "sin", "cos", "tan", "sign")},
    **{name: getattr(mpmath, name) for name in ("asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{name: getattr(mpmath, name) for name in ("asinh", "acosh", "atanh")},
    **{f"arc{name}": getattr(mpmath, f"a{name}") for name in ("sin", "cos", "tan")},
    "log2": lambda a: mpmath.log(a, 2),
    "abs": abs,
    "heaviside": lambda a: mpmath.mpf(bool(a >= 0)),
    "min": min,
    "max": max,
}
