"""Formulas as text in Python with NumPy, Python with CasADi, Modelica and Stan: each language is a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import RELATIONS, TIME, symbol
from picardfit.formulas.grammar import NOT_STRENGTH, STRENGTH
from picardfit.formulas.translation import Words, translate


class Code(NamedTuple):
    """A piece of text and how strongly its outermost operator binds, as in formulas."""

    text: str
    strength: int

    def within(self, strength: int) -> str:
        """The text, in parentheses unless it binds at least as strongly."""
        return self.text if self.strength >= strength else f"({self.text})"


ATOM = 1 + max(STRENGTH.values())  # names, numbers and calls
SUM, PRODUCT, POWER = (STRENGTH[operator] for operator in ("+", "*", "**"))


@dataclass(frozen=True)
class Language:
    """How formulas are written."""

    name: str  # of the format
    functions: Mapping[str, str]  # by name in formulas: a template of the arguments
    connectives: Mapping[str, str]  # and, or, not: templates, whose arguments are in parentheses
    choice: str  # a template of condition, value and other value
    time: str  # what the time is called
    power: str = "**"
    whole: bool = True  # whether 2 may stand for 2.0; where it may not, 1/2 is 0
    equality: tuple[str, str] = ("{} == {}", "{} != {}")

    def write(self, expr: sympy.Basic, names: Mapping[str, str]) -> str:
        """The text of an expression, whose names become `names`."""
        known: dict[sympy.Basic, Code] = {symbol(here): Code(there, ATOM) for here, there in names.items()}
        known[TIME] = Code(self.time, ATOM)
        return str(translate(expr, known, self._words).text)

    def number(self, value: float) -> str:
        """A number, with all its digits."""
        if not math.isfinite(value):
            raise InputError("exporters.not_finite", self.name)
        whole = self.whole and value.is_integer() and abs(value) < 1e15
        return repr(int(value)) if whole else repr(float(value))

    @property
    def _words(self) -> Words:
        words: dict[str, Callable[..., Code]] = {
            "number": self._literal,
            "true": lambda: self._relation("<=", self._literal(0.0), self._literal(1.0)),
            "false": lambda: self._relation("<=", self._literal(1.0), self._literal(0.0)),
            "+": lambda a, b: Code(f"{a.within(SUM)} + {b.within(SUM)}", SUM),
            "-": lambda a, b: Code(f"{a.within(SUM)} - {b.within(PRODUCT)}", SUM),
            "*": lambda a, b: Code(f"{a.within(PRODUCT)}*{b.within(PRODUCT)}", PRODUCT),
            "/": lambda a, b: Code(f"{a.within(PRODUCT)}/{b.within(POWER)}", PRODUCT),
            "negative": lambda a: Code(f"-{a.within(PRODUCT)}", SUM),
            "**": self._power,
            "power": lambda base, exponent: self._power(base, self._literal(float(exponent))),
            "where": lambda *parts: Code(self.choice.format(*(one.within(SUM) for one in parts)), ATOM),
        }
        words |= {name: self._call(template) for name, template in self.functions.items()}
        words |= {name: self._connective(template) for name, template in self.connectives.items()}
        return words | {
            operator: lambda a, b, operator=operator: self._relation(operator, a, b) for operator in RELATIONS
        }

    def _literal(self, value: float) -> Code:
        return Code(self.number(value), ATOM if value >= 0 else SUM)

    def _power(self, base: Code, exponent: Code) -> Code:
        return Code(f"{base.within(ATOM)}{self.power}{exponent.within(ATOM)}", POWER)

    def _relation(self, operator: str, a: Code, b: Code) -> Code:
        template = {"==": self.equality[0], "!=": self.equality[1]}.get(operator, f"{{}} {operator} {{}}")
        return Code(template.format(a.within(SUM), b.within(SUM)), 0)

    def _connective(self, template: str) -> Callable[..., Code]:
        return lambda *parts: Code(template.format(*(one.within(ATOM) for one in parts)), NOT_STRENGTH - 1)

    @staticmethod
    def _call(template: str) -> Callable[..., Code]:
        return lambda *parts: Code(template.format(*(one.text for one in parts)), ATOM)


_PLAIN = "exp log sqrt sin cos tan asin acos atan sinh cosh tanh"
_HYPERBOLIC = "asinh acosh atanh"


def _calls(names: str, prefix: str = "") -> dict[str, str]:
    return {name: f"{prefix}{name}({{}})" for name in names.split()}


NUMPY = Language(
    "python",
    _calls(_PLAIN, "np.")
    | {name: f"np.arc{name[1:]}({{}})" for name in f"asin acos atan {_HYPERBOLIC}".split()}
    | {"abs": "abs({})", "sign": "np.sign({})", "min": "min({}, {})", "max": "max({}, {})"},
    {"and": "{} and {}", "or": "{} or {}", "not": "not {}"},
    "({1} if {0} else {2})",
    "t",
)
CASADI = Language(
    "casadi",
    _calls(f"{_PLAIN} {_HYPERBOLIC} sign", "ca.")
    | {"abs": "ca.fabs({})", "min": "ca.fmin({}, {})", "max": "ca.fmax({}, {})"},
    {"and": "ca.logic_and({}, {})", "or": "ca.logic_or({}, {})", "not": "ca.logic_not({})"},
    "ca.if_else({}, {}, {})",
    "t",
)
MODELICA = Language(
    "modelica",
    _calls(f"{_PLAIN} abs sign")
    | {
        "asinh": "log({0} + sqrt(({0})^2 + 1))",
        "acosh": "log({0} + sqrt(({0})^2 - 1))",
        "atanh": "(0.5*log((1 + {0})/(1 - ({0}))))",
        "min": "min({}, {})",
        "max": "max({}, {})",
    },
    {"and": "{} and {}", "or": "{} or {}", "not": "not {}"},
    "(if {} then {} else {})",
    "time",
    power="^",
    equality=("not ({0} < {1} or {0} > {1})", "({0} < {1} or {0} > {1})"),  # Reals are not compared by ==
)
STAN = Language(
    "stan",
    _calls(f"{_PLAIN} {_HYPERBOLIC} abs")
    | {"sign": "(1.0*(({0} > 0) - ({0} < 0)))", "min": "fmin({}, {})", "max": "fmax({}, {})"},
    {"and": "{} && {}", "or": "{} || {}", "not": "!{}"},
    "({} ? {} : {})",
    "t",
    power="^",
    whole=False,
)
PETAB = Language(
    "petab",
    _calls(_PLAIN + " abs sign")
    | {name: f"arc{name[1:]}({{}})" for name in f"asin acos atan {_HYPERBOLIC}".split()}
    | {"min": "min({}, {})", "max": "max({}, {})"},
    {"and": "{} && {}", "or": "{} || {}", "not": "!{}"},
    "piecewise({1}, {0}, {2})",
    "time",
    power="^",
)
