"""The mathematics of an SBML file -> expressions of the formula language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import (
    TIME,
    as_condition,
    both,
    compare,
    divide,
    either,
    first_of,
    multiply,
    number,
    power,
)
from picardfit.formulas.algebra import add as plus
from picardfit.formulas.functions import FUNCTIONS, reciprocal_functions

if TYPE_CHECKING:
    import libsbml


class Owner(NamedTuple):
    """The element of a file that a formula belongs to: `context`, the code of its kind, its name and its line."""

    context: str
    subject: str
    line: int

    def at(self, error: InputError) -> InputError:
        """The error, said of this element unless it names one already (that of a formula used here)."""
        return error if error.context else error.within(self.context, self.subject).at(line=self.line or None)


def expression(
    node: libsbml.ASTNode | None,
    names: Callable[[str], sympy.Basic],
    functions: Mapping[str, libsbml.ASTNode],
    depth: int = 150,
) -> sympy.Expr:
    """The expression of a formula tree.

    `names` gives what an identifier stands for; `functions` are the lambda trees of the file's own functions;
    `depth`: how deeply formulas and calls may be nested, well below Python's own limit of recursion.
    """
    if node is None:
        raise InputError("importers.no_math")
    if depth == 0:
        raise InputError("importers.nested_too_deeply")

    def inner(child: libsbml.ASTNode) -> sympy.Basic:
        return expression(child, names, functions, depth - 1)

    kind = _kinds().get(node.getType())
    children = [node.getChild(i) for i in range(node.getNumChildren())]
    if kind is None:
        name = node.getName() or node.getOperatorName() or "an unknown element"
        raise InputError("importers.unsupported_math", name)
    if kind == "number":
        return exact(node.getValue())
    if kind == "name":
        return names(node.getName())
    if kind == "call":
        return _call(node.getName(), [inner(c) for c in children], names, functions, depth)
    return kind(*(inner(c) for c in children)) if callable(kind) else kind


def identifiers(node: libsbml.ASTNode | None) -> set[str]:
    """All names in a formula, the empty one for the time."""
    import libsbml

    if node is None:
        return set()
    found = set().union(*(identifiers(node.getChild(i)) for i in range(node.getNumChildren())))
    if node.isName():
        found.add("" if node.getType() == libsbml.AST_NAME_TIME else node.getName())
    return found


def exact(value: float) -> sympy.Expr:
    """A number, as an integer where it is whole: 1.0*x is then x."""
    return number(int(value) if float(value).is_integer() else float(value))


def _call(
    name: str,
    arguments: list[sympy.Basic],
    names: Callable[[str], sympy.Basic],
    functions: Mapping[str, libsbml.ASTNode],
    depth: int,
) -> sympy.Expr:
    """The body of a function of the file with its arguments substituted."""
    if name not in functions:
        raise InputError("importers.unknown_function", name)
    definition = functions[name]
    count = definition.getNumChildren() - 1
    if count != len(arguments):
        raise InputError("importers.argument_count", name, given=len(arguments), needed=count)
    bound = {definition.getChild(i).getName(): value for i, value in enumerate(arguments)}
    body = definition.getChild(count)
    return expression(body, lambda n: bound[n] if n in bound else names(n), functions, depth - 1)


def _minus(first: sympy.Basic, second: sympy.Basic | None = None) -> sympy.Expr:
    if second is None:
        return multiply(sympy.S.NegativeOne, first)
    return plus(first, multiply(sympy.S.NegativeOne, second))


def _piecewise(*args: sympy.Basic) -> sympy.Expr:
    """value, condition, value, condition, ..., otherwise; without an otherwise, the last value holds elsewhere."""
    if len(args) % 2 == 0:
        args = args[:-1]
    pairs = list(zip(args[:-1:2], args[1::2], strict=True))
    return first_of(pairs, args[-1])


def _chain(operator: str) -> Callable:
    """a < b < c as (a < b) and (b < c)."""

    def build(*args: sympy.Basic) -> sympy.Basic:
        links = [compare(operator, a, b) for a, b in pairwise(args)]
        return links[0] if len(links) == 1 else both(*links)

    return build


def _log(*args: sympy.Basic) -> sympy.Expr:
    """log(base, x), or log10(x)."""
    base, value = args if len(args) == 2 else (sympy.Integer(10), args[0])
    ln = FUNCTIONS["log"].build
    return divide(ln(value), ln(base))


def _root(*args: sympy.Basic) -> sympy.Expr:
    degree, value = args if len(args) == 2 else (sympy.Integer(2), args[0])
    return power(value, divide(sympy.S.One, degree))


def _exclusive(*args: sympy.Basic) -> sympy.Basic:
    return reduce(sympy.Xor, map(as_condition, args)).to_nnf()


@lru_cache(maxsize=1)
def _kinds() -> dict[int, object]:
    """What to build for each type of node of libSBML."""
    import libsbml as sb

    return {
        **_elementary(sb),
        sb.AST_INTEGER: "number",
        sb.AST_REAL: "number",
        sb.AST_REAL_E: "number",
        sb.AST_RATIONAL: "number",
        sb.AST_NAME: "name",
        sb.AST_FUNCTION: "call",
        sb.AST_NAME_TIME: TIME,
        sb.AST_NAME_AVOGADRO: sympy.Float(6.02214179e23),  # the value that SBML Level 3 prescribes
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


def _elementary(sb: ModuleType) -> dict[int, object]:
    """The functions that formulas have too, and the reciprocals of circular and hyperbolic ones."""
    found = {one.mathml: one.build for one in FUNCTIONS.values() if one.mathml}
    found |= reciprocal_functions(lambda name: FUNCTIONS[name].build)
    return {getattr(sb, f"AST_FUNCTION_{name.upper()}"): function for name, function in found.items()}
