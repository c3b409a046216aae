"""PEtab's language of formulas, as a dialect of our grammar.

It differs in what would be silently wrong if it were read as ours: `&&` and `||` bind equally strongly, from left to
right, `!` binds as strongly as a sign, and a < b < c compares the truth of a < b, 1 or 0, with c.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import sympy

from picardfit.formulas.algebra import RELATIONS, as_number, divide
from picardfit.formulas.functions import FUNCTIONS, Builder, Function, reciprocal_functions
from picardfit.formulas.grammar import SIGN_STRENGTH, Dialect


def _unbounded(name: str) -> Builder:
    """An elementary function that may be infinite at a number: log(0)."""
    function = FUNCTIONS[name]

    def build(argument: sympy.Basic) -> sympy.Expr:
        value = as_number(argument)
        limits = _POLES.get(name, {})
        return limits[float(value)] if value.is_number and float(value) in limits else function.build(value)

    return build


_POLES: dict[str, dict[float, sympy.Expr]] = {
    **{key: {0.0: -sympy.oo} for key in ("log", "log10", "log2")},
    "atanh": {1.0: sympy.oo, -1.0: -sympy.oo},
}


def _logarithm(value: sympy.Basic, base: sympy.Basic | None = None) -> sympy.Expr:
    """log(x), or log(x, base)."""
    log = _unbounded("log")
    return log(value) if base is None else divide(log(value), log(base))


def _of_one(build: Callable[..., sympy.Expr]) -> Function:
    return Function(1, 1, build)


_FUNCTIONS: dict[str, Function] = {
    **FUNCTIONS,
    **{f"arc{name}": _of_one(_unbounded(f"a{name}")) for name in ("sinh", "cosh", "tanh")},
    **{name: _of_one(build) for name, build in reciprocal_functions(_unbounded).items()},
    **{name: _of_one(_unbounded(name)) for name in ("log10", "log2")},
    "ln": _of_one(_unbounded("log")),
    "log": Function(1, 2, _logarithm),
}

PETAB = Dialect(
    token=re.compile(
        r"(?P<space>\s+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)"
        r"|(?P<operator>\*\*|<=|>=|==|!=|&&|\|\||[-+*/^()<>,!])"
    ),
    spellings={"^": "**", "&&": "and", "||": "or", "!": "not"},
    words=(),
    strength={"and": 2, "or": 2, **dict.fromkeys(RELATIONS, 5), "+": 6, "-": 6, "*": 7, "/": 7, "**": 9},
    negation=SIGN_STRENGTH,
    constants={
        **{"true": sympy.true, "false": sympy.false, "True": sympy.true, "False": sympy.false},
        "inf": sympy.oo,
        "pi": sympy.Float(math.pi),  # not a word of PEtab, but of the formulas of version 1
    },
    functions=_FUNCTIONS,
    chains=False,
    infinite=True,
)
