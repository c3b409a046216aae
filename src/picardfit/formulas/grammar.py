"""Formula text -> expression and back, by a grammar of our own.

A small precedence parser reads the text: no Python parser, no `eval`, no `sympify`. What is not in the
grammar (attributes, subscripts, strings, unknown functions) cannot be expressed, and every other word is a
name, so `lambda`, `I`, `E`, `S`, `N` and `beta` are ordinary parameters. Precedence is that of Python;
`^` is `**`, `&` and `|` are `and` and `or`. A condition used as a number is 1 or 0; a number used as a
condition is true when it is not zero. Other formats read the same grammar with a `Dialect` of their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

import sympy
from sympy.printing.str import StrPrinter

from picardfit.errors import InputError, closest
from picardfit.formulas import algebra
from picardfit.formulas.algebra import LIMITS, RELATIONS, as_number, symbol
from picardfit.formulas.functions import FUNCTIONS, NAMES, Function

_CONSTANTS = {"pi": sympy.pi, "True": sympy.true, "False": sympy.false}
_LOGICAL_WORDS = ("and", "or", "not", "if", "else")
RESERVED = frozenset((*FUNCTIONS, *_CONSTANTS, *_LOGICAL_WORDS))


# ---- text -> tokens -> expression --------------------------------------------------------------------------

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)"
    r"|(?P<operator>\*\*|<=|>=|==|!=|&&|\|\||[-+*/^()<>,&|−×·≤≥])"
)
_SPELLINGS = {"^": "**", "&": "and", "|": "or", "&&": "and", "||": "or", "−": "-", "×": "*", "·": "*"} | {
    "≤": "<=",
    "≥": ">=",
}
STRENGTH = (
    {"if": 1, "or": 2, "and": 3} | dict.fromkeys(RELATIONS, 5) | {"+": 6, "-": 6, "*": 7, "/": 7, "**": 9}
)
_UNEXPECTED = {  # what a character that is not part of formulas was probably meant for
    ".": "formulas.attribute",
    "[": "formulas.bracket",
    "{": "formulas.brace",
    "=": "formulas.single_equals",
    "%": "formulas.modulo",
    "!": "formulas.factorial",
    **dict.fromkeys("'\"`’′", "formulas.quote"),
}
NOT_STRENGTH, SIGN_STRENGTH = 4, 8


@dataclass(frozen=True, eq=False)
class Dialect:
    """The words of a formula language and how strongly its operators bind."""

    token: re.Pattern[str] = _TOKEN
    spellings: Mapping[str, str] = field(default_factory=lambda: _SPELLINGS)  # of operators
    words: tuple[str, ...] = _LOGICAL_WORDS  # names that are operators
    strength: Mapping[str, int] = field(default_factory=lambda: STRENGTH)
    negation: int = NOT_STRENGTH  # how strongly `not` binds
    constants: Mapping[str, sympy.Basic] = field(default_factory=lambda: _CONSTANTS)
    functions: Mapping[str, Function] = field(default_factory=lambda: FUNCTIONS)
    chains: bool = True  # whether a < b < c means a < b and b < c
    infinite: bool = False  # whether a formula may be an infinite constant


OWN = Dialect()


@dataclass(frozen=True)
class Token:
    kind: str  # number, name, operator (also logical words) or end
    text: str
    start: int


def parse(
    text: str, definitions: Mapping[str, sympy.Expr] | None = None, dialect: Dialect = OWN
) -> sympy.Expr:
    """The expression written in `text`; names found in `definitions` are replaced by what they stand for."""
    if not isinstance(text, str):
        raise InputError("formulas.not_text", value=text)
    if len(text) > LIMITS.characters:
        raise InputError("formulas.too_long", length=len(text), most=LIMITS.characters)
    return _Parser(text, definitions or {}, dialect).formula()


def names_in_order(text: str, dialect: Dialect = OWN) -> tuple[str, ...]:
    """The names in a formula in order of first appearance, including those that cancel out."""
    found = tokens(text, dialect)
    known = RESERVED if dialect is OWN else {*dialect.constants, *_called(found)}
    return tuple(dict.fromkeys(t.text for t in found if t.kind == "name" and t.text not in known))


def _called(found: Sequence[Token]) -> set[str]:
    """The names that a parenthesis follows."""
    return {one.text for one, after in pairwise(found) if one.kind == "name" and after.text == "("}


def _placed(error: InputError, text: str, position: int) -> InputError:
    """The error with its column and the text around it."""
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].split("\n", 1)[0].rstrip()
    return error.within("formulas.at_column", shortened(line, position - start), column=position - start + 1)


def shortened(text: str, position: int = 0) -> str:
    """At most 80 characters of a text around a position."""
    cut = max(0, position - 40)
    return ("…" if cut else "") + text[cut : cut + 80] + ("…" if len(text) > cut + 80 else "")


def tokens(text: str, dialect: Dialect = OWN) -> list[Token]:
    """The numbers, names and operators of a formula, and a last token of kind `end`."""
    found = []
    position = 0
    while position < len(text):
        match = dialect.token.match(text, position)
        if match is None:
            code = _UNEXPECTED.get(text[position], "formulas.unexpected_character")
            raise _placed(InputError(code, text[position]), text, position)
        kind, piece = match.lastgroup or "", match.group()
        if kind == "name":
            piece = unicodedata.normalize("NFKC", piece) if piece.isidentifier() else piece
            if not piece.isidentifier():
                raise _placed(InputError("formulas.not_a_name", piece), text, position)
            if len(piece) > LIMITS.name:
                raise InputError("formulas.long_name", shortened(piece), length=len(piece), most=LIMITS.name)
            kind = "operator" if piece in dialect.words else kind
        if kind == "operator":
            piece = dialect.spellings.get(piece, piece)
        if kind != "space":
            found.append(Token(kind, piece, position))
        position = match.end()
    return [*found, Token("end", "", len(text.rstrip()))]


class _Parser:
    """Precedence climbing over the tokens of one formula."""

    def __init__(self, text: str, definitions: Mapping[str, sympy.Expr], dialect: Dialect) -> None:
        self._text, self._definitions, self._dialect = text, definitions, dialect
        self._tokens = tokens(text, dialect)
        self._next = 0
        self._depth = 0

    def formula(self) -> sympy.Expr:
        if self._peek.kind == "end":
            raise InputError("formulas.empty_formula")
        expr = as_number(self._expression(0))
        if self._peek.kind != "end":
            self._stray(self._peek)
        _check_size(expr)
        if self._dialect.infinite and expr in (sympy.oo, -sympy.oo):
            return expr
        if expr.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo, sympy.I):
            raise InputError("formulas.not_finite", shortened(self._text.strip()))
        return expr

    @property
    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _fail(self, token: Token, code: str, subject: str = "", **values: object) -> NoReturn:
        error = InputError(code, subject).with_values(**values)
        raise _placed(error, self._text, token.start)

    def _stray(self, token: Token) -> NoReturn:
        if token.kind in ("number", "name") or token.text == "(":
            self._fail(token, "formulas.no_operator", token.text, before=self._tokens[self._next - 1].text)
        self._fail(token, "formulas.unmatched" if token.text == ")" else "formulas.stray", token.text)

    def _apply(self, token: Token, builder: Callable[..., sympy.Basic], *args: object) -> sympy.Basic:
        """Build an expression; what is wrong with it is reported at the token."""
        try:
            return builder(*args)
        except InputError as error:
            raise _placed(error, self._text, token.start) from None

    def _expression(self, weakest: int) -> sympy.Basic:
        """Everything from here that binds at least as strongly as `weakest`."""
        self._depth += 1
        if self._depth > LIMITS.nesting:
            self._fail(self._peek, "formulas.too_nested", most=LIMITS.nesting)
        left = self._operand()
        strength = self._dialect.strength
        while self._peek.kind == "operator" and strength.get(self._peek.text, -1) >= weakest:
            left = self._continue(left, strength[self._peek.text])
        self._depth -= 1
        return left

    def _continue(self, left: sympy.Basic, strength: int) -> sympy.Basic:
        token = self._peek
        if token.text == "if":
            self._take()
            condition = self._expression(2)
            self._expect("else", "formulas.no_else")
            return algebra.choose(condition, left, self._expression(1))
        if token.text == "**":
            self._take()
            return self._apply(token, algebra.power, left, self._expression(SIGN_STRENGTH))
        operators, values = [], [left]
        while self._peek.kind == "operator" and self._dialect.strength.get(self._peek.text) == strength:
            operators.append(self._take().text)
            values.append(self._expression(strength + 1))
        if (operators[0] in RELATIONS and not self._dialect.chains) or len({"and", "or"} & {*operators}) == 2:
            return self._apply(token, _one_by_one, operators, values)
        return self._apply(token, _combine, operators, values)

    def _expect(self, text: str, code: str) -> None:
        if self._peek.text != text:
            if self._peek.kind in ("number", "name") or self._peek.text == "(":
                self._stray(self._peek)
            self._fail(self._peek, code)
        self._take()

    def _operand(self) -> sympy.Basic:
        token = self._take()
        if token.kind == "number":
            return self._apply(token, _read_number, token.text)
        if token.kind == "name":
            return self._call(token) if self._peek.text == "(" else self._name(token)
        if token.text == "(":
            inside = self._expression(0)
            self._expect(")", "formulas.not_closed")
            return inside
        if token.text in ("+", "-"):
            inside = as_number(self._expression(SIGN_STRENGTH))
            if token.text == "+" or inside.is_infinite:
                return inside if token.text == "+" else -inside
            return algebra.multiply(sympy.S.NegativeOne, inside)
        if token.text == "not":
            return sympy.Not(algebra.as_condition(self._expression(self._dialect.negation)))
        self._next -= 1
        if token.kind == "end":
            self._fail(token, "formulas.missing_at_end")
        self._fail(token, "formulas.operand_expected", token.text)

    def _name(self, token: Token) -> sympy.Basic:
        own = self._dialect is OWN
        if not own and token.text in self._definitions:
            return self._definitions[token.text]
        if own and token.text in FUNCTIONS:
            self._fail(token, "formulas.function_as_name", token.text)
        if token.text in self._dialect.constants:
            return self._dialect.constants[token.text]
        return self._definitions.get(token.text, symbol(token.text))

    def _call(self, token: Token) -> sympy.Basic:
        functions = self._dialect.functions
        if token.text not in functions:
            if [one.text for one in self._tokens[self._next : self._next + 3]] == ["(", "t", "-"]:
                self._fail(token, "formulas.delay", token.text)
            if close := closest(token.text, functions):
                self._fail(token, "formulas.misspelt_function", token.text, function=close)
            self._fail(token, "formulas.unknown_function", token.text, functions=", ".join(functions))
        self._take()
        args = self._pairs() if token.text == "piecewise" and self._at_pair() else self._arguments()
        function = functions[token.text]
        if not function.fewest <= len(args) <= function.most:
            exact = function.fewest == function.most
            code = "formulas.argument_count" if exact else "formulas.too_few_arguments"
            self._fail(token, code, token.text, wanted=function.fewest, given=len(args))
        return self._apply(token, function.build, *args)

    def _arguments(self) -> list[sympy.Basic]:
        """Expressions separated by commas, up to and including the closing parenthesis."""
        return self._list(lambda: [self._expression(0)])[0]

    def _list(self, item: Callable[[], list[sympy.Basic]]) -> tuple[list[sympy.Basic], Token]:
        """What `item` reads, separated by commas, and the closing parenthesis."""
        found: list[sympy.Basic] = []
        while self._peek.text != ")":
            found += item()
            if self._peek.text != ")":
                self._expect(",", "formulas.not_closed")
        return found, self._take()

    def _at_pair(self) -> bool:
        """Whether a pair (value, condition) begins here rather than a number in parentheses."""
        depth = 0
        for token in self._tokens[self._next :]:
            depth += (token.text == "(") - (token.text == ")")
            if depth <= 0 or (depth == 1 and token.text == ","):
                return depth == 1
        return False

    def _pairs(self) -> list[sympy.Basic]:
        """The arguments (a, c), (b, d), (e, True) of `piecewise`, as a, c, b, d, e."""
        args, end = self._list(self._pair)
        if args[-1] != sympy.true:
            self._fail(end, "formulas.piecewise_pairs")
        return args[:-1]

    def _pair(self) -> list[sympy.Basic]:
        begin, inside = self._peek, []
        if self._at_pair():
            self._take()
            inside = self._arguments()
        if len(inside) != 2:
            self._fail(begin, "formulas.piecewise_pairs")
        return inside


def _read_number(text: str) -> sympy.Expr:
    if float(text) < LIMITS.smallest and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise InputError("formulas.number_vanishes", smallest=LIMITS.smallest)
    if text.isascii() and text.isdigit() and float(text) <= LIMITS.whole:
        return algebra.number(int(text))
    return algebra.number(float(text))


def _one_by_one(operators: Sequence[str], values: Sequence[sympy.Basic]) -> sympy.Basic:
    """One chain of operators of equal strength, from left to right."""
    result = values[0]
    for operator, value in zip(operators, values[1:], strict=True):
        result = _combine([operator], [result, value])
    return result


def _combine(operators: Sequence[str], values: Sequence[sympy.Basic]) -> sympy.Basic:
    """One chain of operators of equal strength, such as a - b + c or 0 < x <= 1."""
    first = operators[0]
    if first in ("and", "or"):
        return (algebra.both if first == "and" else algebra.either)(*values)
    if first in RELATIONS:
        links = list(map(algebra.compare, operators, values[:-1], values[1:]))
        return algebra.both(*links) if len(links) > 1 else links[0]
    chain = [values[0]]
    for operator, value in zip(operators, values[1:], strict=True):
        if operator == "-":
            value = algebra.multiply(sympy.S.NegativeOne, value)
        elif operator == "/":
            value = algebra.divide(sympy.S.One, value)
        chain.append(value)
    return (algebra.add if first in ("+", "-") else algebra.multiply)(*chain)


def _check_size(expr: sympy.Basic) -> None:
    """Refuse a tree that is too large before anything walks it: repeated definitions grow exponentially."""
    measured: dict[sympy.Basic, tuple[int, int]] = {}

    def measure(node: sympy.Basic) -> tuple[int, int]:
        if node not in measured:
            sizes, depths = zip(*map(measure, node.args), strict=True) if node.args else ((), ())
            measured[node] = 1 + sum(sizes), 1 + max(depths, default=0)
        return measured[node]

    size, depth = measure(expr)
    if size > LIMITS.parts or depth > LIMITS.depth:
        limits = {"parts": LIMITS.parts, "levels": LIMITS.depth}
        raise InputError("formulas.too_large", size=size, depth=depth).with_values(**limits)


# ---- expression -> text -------------------------------------------------------------------------------------


class _Printer(StrPrinter):
    """Text that `parse` reads back to the same expression."""

    def _print_Function(self, expr: sympy.Basic) -> str:
        name = NAMES.get(expr.func, expr.func.__name__)
        return f"{name}({', '.join(self._print(a) for a in expr.args)})"

    _print_Abs = _print_Function

    def _print_Kept(self, expr: sympy.Basic) -> str:
        return f"({self._print(expr.args[0])})"

    def _print_Float(self, expr: sympy.Basic) -> str:
        return repr(float(expr))

    def _print_Relational(self, expr: sympy.Basic) -> str:
        return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

    def _print_And(self, expr: sympy.Basic, word: str = " and ") -> str:
        return f"({word.join(sorted(self._print(a) for a in expr.args))})"

    def _print_Or(self, expr: sympy.Basic) -> str:
        return self._print_And(expr, " or ")


def to_text(expr: sympy.Expr) -> str:
    """The formula of an expression, in the language of `parse`."""
    return str(_Printer().doprint(expr))
