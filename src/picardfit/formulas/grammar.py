"""Formula text -> expression, by a grammar of our own.

The text is read by a small precedence parser: no Python parser, no `eval`, no `sympify`. What is not in the
grammar (attributes, subscripts, strings, unknown functions) cannot be expressed, and every other word is a
name, so that `lambda`, `I`, `E`, `S`, `N` or `beta` are ordinary parameters. Precedence is that of Python;
`^` is `**`, `&` and `|` are `and` and `or`. A condition used as a number is 1 or 0; a number used as a
condition is true when it is not zero.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import sympy
from sympy.core.relational import Relational

from picardfit.errors import InputError
from picardfit.formulas.algebra import (
    FUNCTIONS,
    RELATIONS,
    TIME,
    Absolute,
    Maximum,
    Minimum,
    Sign,
    Slopes,
    add,
    as_condition,
    as_number,
    both,
    choose,
    compare,
    divide,
    either,
    multiply,
    names,
    number,
    power,
    symbol,
)
from picardfit.formulas.kernels import BatchedMap

__all__ = ["RESERVED", "BatchedMap", "breakpoints", "names", "names_in_order", "parse"]

_LONGEST_TEXT = 20_000
_DEEPEST_NESTING = 150
_DEEPEST_TREE = 150
_LARGEST_TREE = 50_000
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
_PAIRS = (
    "`piecewise` in pairs is written `piecewise((1, t < 3), (2, t < 5), (0, True))`, "
    "without pairs `piecewise(1, t < 3, 2, t < 5, 0)`"
)
NOT_STRENGTH, SIGN_STRENGTH = 4, 8


@dataclass(frozen=True)
class Token:
    kind: str  # number, name, operator (also logical words) or end
    text: str
    start: int


def parse(
    text: str, where: str = "Formula", definitions: Mapping[str, sympy.Expr] | None = None
) -> sympy.Expr:
    """The expression written in `text`; names found in `definitions` are replaced by what they stand for.

    `where` opens the message of an error, e.g. "In line 3" or "Observable `y`".
    """
    if not isinstance(text, str):
        raise InputError(f"{where}: a formula is text such as 'a*x', not {type(text).__name__}.")
    if len(text) > _LONGEST_TEXT:
        raise InputError(
            f"{where}: the formula has {len(text):,} characters, more than {_LONGEST_TEXT:,}: "
            "define parts of it on lines of their own."
        )
    return _Parser(text, where, definitions or {}).formula()


def names_in_order(text: str, where: str = "Formula") -> tuple[str, ...]:
    """The names in a formula in order of first appearance, also those that cancel out."""
    found = tokens(text, where)
    return tuple(dict.fromkeys(t.text for t in found if t.kind == "name" and t.text not in RESERVED))


def _complain(text: str, where: str, position: int, problem: str) -> NoReturn:
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].split("\n", 1)[0].rstrip()
    cut = max(0, position - start - 40)
    shown = ("…" if cut else "") + line[cut : cut + 80] + ("…" if len(line) > cut + 80 else "")
    end = "" if problem.endswith("?") else "."
    raise InputError(f"{where}: column {position - start + 1} of `{shown}`: {problem}{end}")


def tokens(text: str, where: str = "Formula") -> list[Token]:
    """The numbers, names and operators of a formula, ending in one of kind `end`."""
    found = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            _complain(text, where, position, _unexpected(text[position]))
        kind, piece = match.lastgroup, match.group()
        if kind == "name":
            piece = unicodedata.normalize("NFKC", piece) if piece.isidentifier() else piece
            if not piece.isidentifier():
                _complain(
                    text, where, position, f"`{piece}` is not a name: use letters, digits and underscores"
                )
            kind = "operator" if piece in _LOGICAL_WORDS else kind
        if kind == "operator":
            piece = _SPELLINGS.get(piece, piece)
        if kind != "space":
            found.append(Token(kind, piece, position))
        position = match.end()
    return [*found, Token("end", "", len(text.rstrip()))]


def _unexpected(character: str) -> str:
    reasons = {
        ".": "attribute access with `.` is not part of a formula: use plain names",
        "[": "brackets `[` are not part of a formula: use plain names and parentheses",
        "{": "braces `{` are not part of a formula: use parentheses",
        "=": "a single `=` is not part of a formula: write `==` to compare",
        "%": "modulo `%` is not available: write percent as /100, a periodic signal with sin or as an input",
        "!": "the factorial `!` is not available: write its value as a number",
    }
    quotes = dict.fromkeys("'\"`’′", "quotes and primes are not part of a formula: use plain names")
    return (reasons | quotes).get(
        character,
        f"unexpected character `{character}`: write numbers, names, + - * / ^, parentheses and functions only",
    )


class _Parser:
    """Precedence climbing over the tokens of one formula."""

    def __init__(self, text: str, where: str, definitions: Mapping[str, sympy.Expr]) -> None:
        self._text, self._where, self._definitions = text, where, definitions
        self._tokens = tokens(text, where)
        self._next = 0
        self._depth = 0

    def formula(self) -> sympy.Expr:
        if self._peek.kind == "end":
            raise InputError(f"{self._where}: the formula is empty: write an expression.")
        expr = as_number(self._expression(0))
        if self._peek.kind != "end":
            self._stray(self._peek)
        _check_size(expr, self._where)
        if expr.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo, sympy.I):
            raise InputError(
                f"{self._where}: `{self._text.strip()[:80]}` is not a finite real number: "
                "look for a division by zero, log(0) or a root of a negative number."
            )
        return expr

    @property
    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _fail(self, token: Token, problem: str) -> NoReturn:
        _complain(self._text, self._where, token.start, problem)

    def _stray(self, token: Token) -> NoReturn:
        if token.kind in ("number", "name") or token.text == "(":
            before = self._tokens[self._next - 1].text
            self._fail(
                token, f"an operator is missing between `{before}` and `{token.text}` (a product needs `*`)"
            )
        self._fail(
            token,
            f"unexpected `{token.text}`: remove it" if token.text != ")" else "unmatched `)`: remove it",
        )

    def _apply(self, token: Token, builder: Callable, *args: sympy.Basic) -> sympy.Basic:
        """Build an expression; what is wrong with it is reported at the token."""
        try:
            return builder(*args)
        except InputError as error:
            problem = str(error)
        self._fail(token, problem)

    def _expression(self, weakest: int) -> sympy.Basic:
        """Everything from here that binds at least as strongly as `weakest`."""
        self._depth += 1
        if self._depth > _DEEPEST_NESTING:
            self._fail(
                self._peek,
                f"the formula is nested more than {_DEEPEST_NESTING} levels deep: "
                f"define inner parts as helpers, on lines of their own",
            )
        left = self._operand()
        while self._peek.kind == "operator" and STRENGTH.get(self._peek.text, -1) >= weakest:
            left = self._continue(left, STRENGTH[self._peek.text])
        self._depth -= 1
        return left

    def _continue(self, left: sympy.Basic, strength: int) -> sympy.Basic:
        token = self._peek
        if token.text == "if":
            self._take()
            condition = self._expression(2)
            self._expect("else", "`if` needs `else`, as in `a if t < 3 else b`")
            return choose(condition, left, self._expression(1))
        if token.text == "**":
            self._take()
            return self._apply(token, power, left, self._expression(SIGN_STRENGTH))
        parts = [(None, left)]
        while self._peek.kind == "operator" and STRENGTH.get(self._peek.text) == strength:
            operator = self._take()
            parts.append((operator, self._expression(strength + 1)))
        return self._apply(token, _combine, parts)

    def _expect(self, text: str, problem: str) -> None:
        if self._peek.text != text:
            if self._peek.kind in ("number", "name") or self._peek.text == "(":
                self._stray(self._peek)
            self._fail(self._peek, problem)
        self._take()

    def _operand(self) -> sympy.Basic:
        token = self._take()
        if token.kind == "number":
            return self._apply(token, _read_number, token.text)
        if token.kind == "name":
            return self._call(token) if self._peek.text == "(" else self._name(token)
        if token.text == "(":
            inside = self._expression(0)
            self._expect(")", "a parenthesis is not closed")
            return inside
        if token.text in ("+", "-"):
            inside = as_number(self._expression(SIGN_STRENGTH))
            return inside if token.text == "+" else multiply(sympy.S.NegativeOne, inside)
        if token.text == "not":
            return sympy.Not(as_condition(self._expression(NOT_STRENGTH)))
        self._next -= 1
        if token.kind == "end":
            self._fail(token, "a number or name is missing at the end")
        self._fail(token, f"a number or name is expected, not `{token.text}`")

    def _name(self, token: Token) -> sympy.Basic:
        if token.text in FUNCTIONS:
            self._fail(
                token, f"`{token.text}` is a function: write `{token.text}(...)`, or choose another name"
            )
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        return self._definitions.get(token.text, symbol(token.text))

    def _call(self, token: Token) -> sympy.Basic:
        if token.text not in FUNCTIONS:
            close = difflib.get_close_matches(token.text.lower(), FUNCTIONS, n=1)
            product = f"write `{token.text}*(...)` for a product"
            if close:
                remedy = f". Did you mean `{close[0]}`? If not, {product}"
            else:
                remedy = f": {product}, or use one of the functions {', '.join(FUNCTIONS)}"
            self._fail(token, f"`{token.text}` is called like a function{remedy}")
        self._take()
        if token.text == "piecewise" and self._at_pair():
            args = self._pairs()
        else:
            args = self._arguments()
        fewest, most, builder = FUNCTIONS[token.text]
        if not fewest <= len(args) <= most:
            wanted = (
                f"{fewest} argument{'s' if fewest > 1 else ''}"
                if fewest == most
                else f"at least {fewest} arguments"
            )
            self._fail(token, f"`{token.text}` takes {wanted}, not {len(args)}")
        return self._apply(token, builder, *args)

    def _arguments(self) -> list[sympy.Basic]:
        """Expressions separated by commas, up to and with the closing parenthesis."""
        args = []
        while self._peek.text != ")":
            args.append(self._expression(0))
            if self._peek.text != ")":
                self._expect(",", "a parenthesis is not closed")
        self._take()
        return args

    def _at_pair(self) -> bool:
        """Whether a pair (value, condition) opens here rather than a number in parentheses."""
        depth = 0
        for token in self._tokens[self._next :]:
            depth += (token.text == "(") - (token.text == ")")
            if depth <= 0 or (depth == 1 and token.text == ","):
                return depth == 1
        return False

    def _pairs(self) -> list[sympy.Basic]:
        """The arguments (a, c), (b, d), (e, True) of `piecewise`, as a, c, b, d, e."""
        args = []
        while self._peek.text != ")":
            pair = self._peek
            if not self._at_pair():
                self._fail(pair, _PAIRS)
            self._take()
            inside = self._arguments()
            if len(inside) != 2:
                self._fail(pair, _PAIRS)
            args += inside
            if self._peek.text != ")":
                self._expect(",", "a parenthesis is not closed")
        end = self._take()
        if args[-1] != sympy.true:
            self._fail(end, _PAIRS)
        return args[:-1]


def _read_number(text: str) -> sympy.Expr:
    if text.isascii() and text.isdigit() and len(text) < 16:
        return number(int(text))
    return number(float(text))


def _combine(parts: Sequence[tuple[Token | None, sympy.Basic]]) -> sympy.Basic:
    """One chain of operators of equal strength, such as a - b + c or 0 < x <= 1."""
    operators = [token.text for token, _ in parts[1:]]
    values = [value for _, value in parts]
    first = operators[0]
    if first in ("and", "or"):
        return (both if first == "and" else either)(*values)
    if first in RELATIONS:
        pairs = zip(operators, values[:-1], values[1:], strict=True)
        links = [compare(operator, a, b) for operator, a, b in pairs]
        return both(*links) if len(links) > 1 else links[0]
    if first in ("+", "-"):
        signed = (
            multiply(sympy.S.NegativeOne, v) if o == "-" else v
            for o, v in zip(operators, values[1:], strict=True)
        )
        return add(values[0], *signed)
    factors = (divide(sympy.S.One, v) if o == "/" else v for o, v in zip(operators, values[1:], strict=True))
    return multiply(values[0], *factors)


def _check_size(expr: sympy.Basic, where: str) -> None:
    """Definitions that repeat each other grow exponentially: refuse before anything walks the whole tree."""
    measured: dict[sympy.Basic, tuple[int, int]] = {}

    def measure(node: sympy.Basic) -> tuple[int, int]:
        if node not in measured:
            below = [measure(a) for a in node.args]
            measured[node] = (
                1 + sum(size for size, _ in below),
                1 + max((depth for _, depth in below), default=0),
            )
        return measured[node]

    size, depth = measure(expr)
    if size > _LARGEST_TREE or depth > _DEEPEST_TREE:
        raise InputError(
            f"{where}: with its definitions written out the formula has {size:,} parts in {depth} levels, "
            f"more than {_LARGEST_TREE:,} or {_DEEPEST_TREE}: simplify it."
        )


# ---- times at which a formula switches ---------------------------------------------------------------------


def breakpoints(expressions: Iterable[sympy.Expr]) -> tuple[float, ...]:
    """Times at which a condition in t alone switches or a kink lies: t < 3, abs(2*t - 5), max(t, 1).

    Only switches linear in t are found; conditions on states switch at times nobody knows beforehand.
    """
    return zeros_in_time(d for expr in expressions for d in _switches(expr))


def zeros_in_time(differences: Iterable[sympy.Expr]) -> tuple[float, ...]:
    """Where expressions linear in t alone are zero; others are passed over."""
    slopes = Slopes()
    found = set()
    for difference in set(differences):
        if slopes.free(difference) == {TIME}:
            slope = slopes.slope(difference, TIME)
            if slope.is_number and slope != 0:
                found.add(float(-difference.xreplace({TIME: sympy.S.Zero}) / slope))
    return tuple(sorted(found))


def switches_with(expressions: Iterable[sympy.Expr], others: Iterable[str]) -> tuple[sympy.Expr, ...]:
    """Expressions in t and at least one of the names `others` (inputs) whose change of sign switches a formula."""
    others = {symbol(name) for name in others}
    found = {d for expr in expressions for d in _switches(expr)} if others else set()
    slopes = Slopes()
    return tuple(d for d in found if TIME in (free := slopes.free(d)) and {TIME} < free <= {TIME, *others})


def _switches(expr: sympy.Basic) -> set[sympy.Expr]:
    """Expressions whose change of sign switches the formula."""
    found = set()
    waiting, seen = [expr], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting.extend(node.args)
        if isinstance(node, Relational):
            found.add(node.lhs - node.rhs)
        elif node.func in (Absolute, Sign, sympy.Abs, sympy.sign):
            found.add(node.args[0])
        elif node.func in (Minimum, Maximum, sympy.Min, sympy.Max):
            found |= {a - b for i, a in enumerate(node.args) for b in node.args[:i]}
    return found
