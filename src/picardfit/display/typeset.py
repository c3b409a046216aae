"""Formulas as MathML, in the order in which they were written; browsers draw it without scripts.

The text is read with the tokens and the precedence of formulas/grammar.py. Parentheses are set where they are needed,
quotients become fractions, `theta1` and `k_on` get Greek letters and subscripts. What is too wide for a page is broken
into lines at the terms of its outermost sum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from picardfit.formulas.algebra import RELATIONS
from picardfit.formulas.grammar import NOT_STRENGTH, SIGN_STRENGTH, STRENGTH, tokens

ATOM = 10  # strength of what never needs parentheses
WIDEST = 64.0  # letters in a line of an equation
SHORT_EXPONENT = 12.0
SPACE = '<mspace width="0.17em"/>'
_LETTERS = (
    "αalpha βbeta γgamma δdelta εepsilon ζzeta ηeta θtheta ιiota κkappa λlambda μmu "
    "νnu ξxi πpi ρrho σsigma τtau υupsilon φphi χchi ψpsi ωomega "
    "ΓGamma ΔDelta ΘTheta ΛLambda ΞXi ΠPi ΣSigma ΦPhi ΨPsi ΩOmega"
)
GREEK = {word[1:]: word[0] for word in re.findall(r"\w+", _LETTERS)}  # name -> letter
SIGNS = {"-": "−", "<=": "≤", ">=": "≥", "==": "=", "!=": "≠", "<": "&lt;", ">": "&gt;"}


@dataclass(frozen=True)
class Piece:
    """A part of a formula: its MathML, about how many letters wide, and how strongly it binds."""

    markup: str
    width: float
    strength: int
    terms: tuple[tuple[str, Piece], ...] = ()  # (sign, term) of a sum


Equation = tuple[str, str, bool]  # name, formula, and whether the name has a prime


def equations_html(equations: Sequence[Equation]) -> str | None:
    """The equations below each other, aligned at their equals signs; long ones on several lines.

    None when one cannot be broken into lines that fit on a page.
    """
    pieces = [Reader(formula).expression(0) for _, formula, _ in equations]
    if max(max((term.width for _, term in piece.terms), default=piece.width) for piece in pieces) > WIDEST:
        return None
    rows = []
    for (name, _, prime), piece in zip(equations, pieces, strict=True):
        first, *others = map(_math, _lines(piece))
        rows.append(
            f"<tr><td>{name_mathml(name, prime)}</td><td>{_math('<mo>=</mo>')}</td><td>{first}</td></tr>"
        )
        rows += [f"<tr><td></td><td></td><td>{line}</td></tr>" for line in others]
    return '<table class="equations">\n' + "\n".join(rows) + "\n</table>"


def name_mathml(name: str, prime: bool = False) -> str:
    """A name as an inline MathML element."""
    return _math(_name(name, prime).markup)


def _lines(piece: Piece) -> list[str]:
    """The formula in as many lines as its width requires."""
    if piece.width <= WIDEST or not piece.terms:
        return [piece.markup]
    lines, width = [""], 0.0
    for k, (sign, term) in enumerate(piece.terms):
        if lines[-1] and width + term.width > WIDEST:
            lines.append("")
            width = 0.0
        shown = sign if k or sign == "-" else ""
        fix = "infix" if lines[-1] else "prefix"
        operator = f'<mo form="{fix}">{SIGNS.get(shown, shown)}</mo>' if shown else ""
        lines[-1] += operator + term.markup
        width += term.width + 2
    return lines


def _math(markup: str) -> str:
    return f'<math display="inline"><mstyle displaystyle="true">{markup}</mstyle></math>'


class Reader:
    """Precedence climbing over the tokens of a formula that is known to be valid."""

    def __init__(self, formula: str) -> None:
        self._tokens, self._next = tokens(formula), 0

    @property
    def _peek(self) -> str:
        token = self._tokens[self._next]
        return token.text if token.kind != "end" else ""

    def _take(self):
        self._next += 1
        return self._tokens[self._next - 1]

    def expression(self, weakest: int) -> Piece:
        left = self._operand()
        while STRENGTH.get(self._peek, -1) >= weakest and self._tokens[self._next].kind == "operator":
            left = self._continue(left, self._take().text)
        return left

    def _continue(self, left: Piece, operator: str) -> Piece:
        if operator == "if":
            condition = self.expression(2)
            self._take()  # else
            return _cases([(left, condition)], self.expression(1))
        if operator == "**":
            return _power(left, self.expression(SIGN_STRENGTH))
        right = self.expression(STRENGTH[operator] + 1)
        if operator in ("+", "-"):
            return _sum(left, operator, right)
        if operator == "*":
            return _product(left, right)
        return _fraction(left, right) if operator == "/" else _infix(left, operator, right)

    def _operand(self) -> Piece:
        token = self._take()
        if token.kind == "number":
            return _number(token.text)
        if token.kind == "name":
            return self._call(token.text) if self._peek == "(" else _name(token.text)
        if token.text == "(":
            inside = self.expression(0)
            self._take()
            return inside
        inside = self.expression(NOT_STRENGTH if token.text == "not" else SIGN_STRENGTH)
        if token.text == "not":
            inner = _enclosed(inside, STRENGTH["+"])
            return Piece(f"<mo>¬</mo>{inner.markup}", inner.width + 1, NOT_STRENGTH)
        if token.text == "+":
            return inside
        return _negative(_enclosed(inside, STRENGTH["*"]))

    def _call(self, function: str) -> Piece:
        self._take()
        arguments: list[Piece] = []
        while self._peek != ")":
            arguments += self._pair() if function == "piecewise" and self._at_pair() else [self.expression(0)]
            if self._peek == ",":
                self._take()
        self._take()
        return _function(function, arguments)

    def _at_pair(self) -> bool:
        """Whether (value, condition) opens here: a comma before its parenthesis is closed."""
        depth = 0
        for token in self._tokens[self._next :]:
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0 or (depth == 1 and token.text == ","):
                break
        return depth == 1

    def _pair(self) -> list[Piece]:
        """Value and condition of (value, condition); of (value, True) the value alone."""
        self._take()
        value = self.expression(0)
        self._take()
        last = self._peek == "True"
        condition = self.expression(0)
        self._take()
        return [value] if last else [value, condition]


def _enclosed(piece: Piece, strength: int) -> Piece:
    """The piece, in parentheses if it binds more weakly than `strength`."""
    if piece.strength >= strength:
        return piece
    return Piece(f"<mrow><mo>(</mo>{piece.markup}<mo>)</mo></mrow>", piece.width + 2, ATOM)


def _negative(piece: Piece) -> Piece:
    return Piece(f'<mo form="prefix">−</mo>{piece.markup}', piece.width + 1, STRENGTH["+"], (("-", piece),))


def _sum(left: Piece, operator: str, right: Piece) -> Piece:
    left, right = _enclosed(left, STRENGTH["+"]), _enclosed(right, STRENGTH["*"])
    terms = (*(left.terms or (("+", left),)), (operator, right))
    markup = f"{left.markup}<mo>{SIGNS.get(operator, operator)}</mo>{right.markup}"
    return Piece(markup, left.width + right.width + 2, STRENGTH["+"], terms)


def _product(left: Piece, right: Piece) -> Piece:
    if len(left.terms) == 1:  # -a * b is -(a * b), which needs no parentheses
        return _negative(_product(left.terms[0][1], right))
    left, right = _enclosed(left, STRENGTH["*"]), _enclosed(right, STRENGTH["*"])
    between = "<mo>⋅</mo>" if re.match(r"(<mrow>)?<m(n|sup><mn)>", right.markup) else SPACE
    return Piece(f"{left.markup}{between}{right.markup}", left.width + right.width + 0.5, STRENGTH["*"])


def _fraction(above: Piece, below: Piece) -> Piece:
    if len(above.terms) == 1:  # -a/b is -(a/b)
        return _negative(_fraction(above.terms[0][1], below))
    markup = f"<mfrac><mrow>{above.markup}</mrow><mrow>{below.markup}</mrow></mfrac>"
    return Piece(markup, max(above.width, below.width) + 0.5, STRENGTH["*"])


def _power(base: Piece, exponent: Piece) -> Piece:
    base = _enclosed(base, ATOM)
    markup = f"<msup><mrow>{base.markup}</mrow><mrow>{exponent.markup}</mrow></msup>"
    return Piece(markup, base.width + 0.7 * exponent.width, STRENGTH["**"])


def _infix(left: Piece, operator: str, right: Piece) -> Piece:
    strength = STRENGTH[operator]
    left, right = _enclosed(left, strength), _enclosed(right, strength + (operator in RELATIONS))
    shown = (
        f"<mo>{SIGNS[operator]}</mo>" if operator in RELATIONS else f"<mtext>&#160;{operator}&#160;</mtext>"
    )
    return Piece(f"{left.markup}{shown}{right.markup}", left.width + right.width + 3, strength)


def _number(text: str) -> Piece:
    mantissa, _, exponent = text.lower().partition("e")
    if not exponent:
        return Piece(f"<mn>{text}</mn>", len(text), ATOM)
    digits = f"{int(exponent)}".replace("-", "−")
    ten = f"<msup><mn>10</mn><mn>{digits}</mn></msup>"
    if float(mantissa) == 1:
        return Piece(ten, 3 + len(digits) / 2, STRENGTH["**"])
    return Piece(f"<mn>{mantissa}</mn><mo>⋅</mo>{ten}", len(mantissa) + 4, STRENGTH["*"])


def _name(name: str, prime: bool = False) -> Piece:
    """`k_on` and `x1` get subscripts, names of Greek letters become letters."""
    match = re.fullmatch(r"([^\W\d_]+?)_?(\d+)|([^\W\d_]+)_(\w+)", name)
    first: str = (match[1] or match[3]) if match else name
    below: str = (match[2] or match[4]) if match else ""
    stem = GREEK.get(first, first)
    shown = f"<mi>{escape(stem)}</mi>"
    inside = escape(GREEK.get(below, below).replace("_", ","))
    small = f"<mn>{inside}</mn>" if below.isdigit() else f'<mi mathvariant="normal">{inside}</mi>'
    width = len(stem) + 0.7 * len(below) + 0.5 * prime
    stroke = '<mo lspace="0" rspace="0">′</mo>' if prime else ""
    return Piece((f"<msub>{shown}{small}</msub>" if below else shown) + stroke, width, ATOM)


def _function(name: str, arguments: list[Piece]) -> Piece:
    first, *_ = arguments
    if name == "sqrt":
        return Piece(f"<msqrt>{first.markup}</msqrt>", first.width + 1.5, ATOM)
    if name == "abs":
        return Piece(f"<mrow><mo>|</mo>{first.markup}<mo>|</mo></mrow>", first.width + 2, ATOM)
    if name == "exp" and first.width <= SHORT_EXPONENT:
        return _power(Piece("<mi>e</mi>", 1, ATOM), first)
    if name == "pow":
        return _power(*arguments)
    if name == "where":
        return _cases([(arguments[1], first)], arguments[2])
    if name == "piecewise":
        return _cases(list(zip(arguments[:-1:2], arguments[1::2], strict=True)), arguments[-1])
    head = _name(name) if name in ("log10", "log2") else Piece(f"<mi>{name}</mi>", len(name), ATOM)
    inside = '<mo separator="true">,</mo>'.join(one.markup for one in arguments)
    markup = f"{head.markup}<mo>&#8289;</mo><mrow><mo>(</mo>{inside}<mo>)</mo></mrow>"
    return Piece(markup, head.width + sum(one.width + 1 for one in arguments) + 1, ATOM)


def _cases(pairs: list[tuple[Piece, Piece]], otherwise: Piece) -> Piece:
    """Values with their conditions behind a brace."""
    rows = [(value.markup, f"<mtext>if&#160;</mtext>{condition.markup}") for value, condition in pairs]
    rows.append((otherwise.markup, "<mtext>otherwise</mtext>"))
    cells = "".join(
        f'<mtr><mtd style="text-align:left">{a}</mtd><mtd style="text-align:left">{b}</mtd></mtr>'
        for a, b in rows
    )
    width = max(value.width + condition.width + 6 for value, condition in pairs)
    return Piece(
        f"<mrow><mo>{{</mo><mtable>{cells}</mtable></mrow>", max(width, otherwise.width + 10), STRENGTH["*"]
    )
