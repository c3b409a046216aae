"""The mathematics of an SBML file -> expressions of the formula language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import (
    FUNCTIONS,
    TIME,
    as_condition,
    as_number,
    both,
    choose,
    compare,
    divide,
    either,
    multiply,
    number,
    power,
)
from picardfit.formulas.algebra import add as plus

if TYPE_CHECKING:
    import libsbml

AVOGADRO = 6.02214179e23  # the value of SBML Level 3
_DEEPEST = 150


def expression(
    node: libsbml.ASTNode | None,
    where: str,
    names: Callable[[str], sympy.Basic],
    functions: Mapping[str, libsbml.ASTNode],
    depth: int = 0,
) -> sympy.Expr:
    """The expression of a formula tree.

    `where` opens the message of an error; `names` gives what an identifier stands for; `functions` are the
    lambda trees of the file's own functions.
    """
    if node is None:
        raise InputError(f"{where} has no formula: add its `math`.")
    if depth > _DEEPEST:
        raise InputError(
            f"{where}: the formula is nested too deeply or a function calls itself: simplify it."
        )

    def inner(child: libsbml.ASTNode) -> sympy.Basic:
        return expression(child, where, names, functions, depth + 1)

    kind = _kinds().get(node.getType())
    if kind is None:
        raise InputError(
            f"{where} uses `{node.getName() or node.getOperatorName() or 'an unknown element'}`, "
            f"which is not supported: write it with algebra, elementary functions and piecewise."
        )
    children = [node.getChild(i) for i in range(node.getNumChildren())]
    if kind == "number":
        return _guarded(where, exact, node.getValue())
    if kind == "name":
        return names(node.getName())
    if kind == "call":
        return _call(node.getName(), [inner(c) for c in children], where, names, functions, depth)
    if isinstance(kind, sympy.Basic):
        return kind
    return _guarded(where, kind, *(inner(c) for c in children))


def exact(value: float) -> sympy.Expr:
    """A number, as an integer where it is whole: 1.0*x is then x."""
    return number(int(value) if float(value).is_integer() else float(value))


def _call(
    name: str,
    arguments: list[sympy.Basic],
    where: str,
    names: Callable[[str], sympy.Basic],
    functions: Mapping[str, libsbml.ASTNode],
    depth: int,
) -> sympy.Expr:
    """A function of the file, its arguments put in."""
    if name not in functions:
        raise InputError(f"{where} calls `{name}`, which the file does not define: add its definition.")
    definition = functions[name]
    count = definition.getNumChildren() - 1
    if count != len(arguments):
        raise InputError(
            f"{where} calls `{name}` with {len(arguments)} arguments instead of {count}: correct the call."
        )
    bound = {definition.getChild(i).getName(): value for i, value in enumerate(arguments)}
    body = definition.getChild(count)
    return expression(body, where, lambda n: bound[n] if n in bound else names(n), functions, depth + 1)


def _guarded(where: str, builder: Callable, *args: object) -> sympy.Expr:
    try:
        return builder(*args)
    except InputError as error:
        raise InputError(f"{where}: {error}.") from None


def _minus(first: sympy.Basic, second: sympy.Basic | None = None) -> sympy.Expr:
    if second is None:
        return multiply(sympy.S.NegativeOne, first)
    return plus(first, multiply(sympy.S.NegativeOne, second))


def _piecewise(*args: sympy.Basic) -> sympy.Expr:
    """value, condition, value, condition, ..., otherwise; without the last, the last value holds elsewhere."""
    if len(args) % 2 == 0:
        args = args[:-1]
    pairs = list(zip(args[:-1:2], args[1::2], strict=True))
    return reduce(lambda rest, pair: choose(pair[1], pair[0], rest), reversed(pairs), as_number(args[-1]))


def _chain(operator: str) -> Callable:
    """a < b < c as (a < b) and (b < c)."""

    def build(*args: sympy.Basic) -> sympy.Basic:
        links = [compare(operator, a, b) for a, b in pairwise(args)]
        return links[0] if len(links) == 1 else both(*links)

    return build


def _log(*args: sympy.Basic) -> sympy.Expr:
    """log(base, x), or log10(x)."""
    base, value = args if len(args) == 2 else (sympy.Integer(10), args[0])
    ln = FUNCTIONS["log"][2]
    return divide(ln(value), ln(base))


def _root(*args: sympy.Basic) -> sympy.Expr:
    degree, value = args if len(args) == 2 else (sympy.Integer(2), args[0])
    return power(value, divide(sympy.S.One, degree))


def _exclusive(*args: sympy.Basic) -> sympy.Basic:
    return reduce(sympy.Xor, map(as_condition, args)).to_nnf()


def _inverse(name: str) -> Callable:
    """1/f(x) of an elementary function."""
    return lambda a: divide(sympy.S.One, FUNCTIONS[name][2](a))


def _of_inverse(name: str) -> Callable:
    """f(1/x) of an elementary function."""
    return lambda a: FUNCTIONS[name][2](divide(sympy.S.One, a))


@lru_cache(maxsize=1)
def _kinds() -> dict[int, object]:
    """What to build for each type of node of libSBML."""
    import libsbml as sb

    plain = {
        sb.AST_FUNCTION_ABS: "abs",
        sb.AST_FUNCTION_EXP: "exp",
        sb.AST_FUNCTION_LN: "log",
        sb.AST_FUNCTION_SIN: "sin",
        sb.AST_FUNCTION_COS: "cos",
        sb.AST_FUNCTION_TAN: "tan",
        sb.AST_FUNCTION_ARCSIN: "asin",
        sb.AST_FUNCTION_ARCCOS: "acos",
        sb.AST_FUNCTION_ARCTAN: "atan",
        sb.AST_FUNCTION_SINH: "sinh",
        sb.AST_FUNCTION_COSH: "cosh",
        sb.AST_FUNCTION_TANH: "tanh",
        sb.AST_FUNCTION_ARCSINH: "asinh",
        sb.AST_FUNCTION_ARCCOSH: "acosh",
        sb.AST_FUNCTION_ARCTANH: "atanh",
        sb.AST_FUNCTION_MIN: "min",
        sb.AST_FUNCTION_MAX: "max",
    }
    return {
        **{node: FUNCTIONS[name][2] for node, name in plain.items()},
        sb.AST_FUNCTION_SEC: _inverse("cos"),
        sb.AST_FUNCTION_CSC: _inverse("sin"),
        sb.AST_FUNCTION_COT: _inverse("tan"),
        sb.AST_FUNCTION_SECH: _inverse("cosh"),
        sb.AST_FUNCTION_CSCH: _inverse("sinh"),
        sb.AST_FUNCTION_COTH: _inverse("tanh"),
        sb.AST_FUNCTION_ARCSEC: _of_inverse("acos"),
        sb.AST_FUNCTION_ARCCSC: _of_inverse("asin"),
        sb.AST_FUNCTION_ARCCOT: _of_inverse("atan"),
        sb.AST_FUNCTION_ARCSECH: _of_inverse("acosh"),
        sb.AST_FUNCTION_ARCCSCH: _of_inverse("asinh"),
        sb.AST_FUNCTION_ARCCOTH: _of_inverse("atanh"),
        sb.AST_INTEGER: "number",
        sb.AST_REAL: "number",
        sb.AST_REAL_E: "number",
        sb.AST_RATIONAL: "number",
        sb.AST_NAME: "name",
        sb.AST_FUNCTION: "call",
        sb.AST_NAME_TIME: TIME,
        sb.AST_NAME_AVOGADRO: sympy.Float(AVOGADRO),
        sb.AST_CONSTANT_E: sympy.Float(float(sympy.E)),
        sb.AST_CONSTANT_PI: sympy.pi,
        sb.AST_CONSTANT_TRUE: sympy.true,
        sb.AST_CONSTANT_FALSE: sympy.false,
        sb.AST_PLUS: plus,
        sb.AST_MINUS: _minus,
        sb.AST_TIMES: multiply,
        sb.AST_DIVIDE: divide,
        sb.AST_POWER: power,
        sb.AST_FUNCTION_POWER: power,
        sb.AST_FUNCTION_LOG: _log,
        sb.AST_FUNCTION_ROOT: _root,
        sb.AST_FUNCTION_PIECEWISE: _piecewise,
        sb.AST_RELATIONAL_EQ: _chain("=="),
        sb.AST_RELATIONAL_NEQ: _chain("!="),
        sb.AST_RELATIONAL_LT: _chain("<"),
        sb.AST_RELATIONAL_LEQ: _chain("<="),
        sb.AST_RELATIONAL_GT: _chain(">"),
        sb.AST_RELATIONAL_GEQ: _chain(">="),
        sb.AST_LOGICAL_AND: both,
        sb.AST_LOGICAL_OR: either,
        sb.AST_LOGICAL_XOR: _exclusive,
        sb.AST_LOGICAL_NOT: lambda a: sympy.Not(as_condition(a)),
        sb.AST_LOGICAL_IMPLIES: lambda a, b: either(sympy.Not(as_condition(a)), b),
    }
