"""Equations as text: lines -> statements -> expressions by state, with helpers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy

from picardfit.errors import InputError
from picardfit.formulas.grammar import RESERVED, names_in_order, parse

NAME = r"[^\W\d]\w*"
_PRIMED = re.compile(rf"({NAME})\s*['’′]")
_QUOTIENT = re.compile(rf"\bd\(?({NAME})\)?\s*/\s*dt\b")
_QUOTED = re.compile(r"(?:^|[^\w\s'’′])\s*['\"`]")  # a quote that opens a text: no name stands before it
_EQUALS = re.compile(r"(?<![<>=!])=(?!=)")
_NO_STATEMENT = r"(?![^\n;]*(?<![<>=!])=(?!=))"  # the line that begins here has no `=` of its own
_OPEN_END = re.compile(rf"(?:[-+*/^=<>&|,]|\b(?:and|or|not|if|else))[ \t]*\n\s*(?=\S){_NO_STATEMENT}")
_OPEN_BEGIN = re.compile(rf"\n\s*(?=[-+*/^<>&|,)]|(?:and|or|if|else)\b){_NO_STATEMENT}")


@dataclass(frozen=True)
class Statement:
    """One line: the equation of a state, or the definition of a helper."""

    line: int
    name: str
    is_state: bool
    formula: str

    @property
    def where(self) -> str:
        return f"In line {self.line}"


def read_equations(text: str, inputs: tuple[str, ...]) -> tuple[dict[str, sympy.Expr], dict, list[str]]:
    """Equations by state, helpers by name as (expression, names in it), all names in order of appearance."""
    if not isinstance(text, str):
        raise InputError(
            f"The equations must be text, not {type(text).__name__}: for functions use Model.from_function."
        )
    statements = statements_of(text)
    if not statements:
        raise InputError("The model text is empty: write equations such as x' = -a*x.")
    _check_statements(statements, inputs)
    later = {s.name: s for s in statements if not s.is_state}
    states = [s.name for s in statements if s.is_state]
    equations: dict[str, sympy.Expr] = {}
    helpers: dict[str, tuple[sympy.Expr, list[str]]] = {}
    order: list[str] = []
    for statement in statements:
        _check_primes(statement, states)
        used = names_in_order(statement.formula, statement.where)
        for name in used:
            if name == statement.name and not statement.is_state:
                raise InputError(
                    f"{statement.where}: `{name}` is defined by itself: use another name on one of the sides."
                )
            if name in later and name not in helpers:
                raise InputError(
                    f"{statement.where}: `{name}` is used here but defined in line {later[name].line}: "
                    "move the definition up (definitions cannot refer to each other in a circle)."
                )
        expr = parse(statement.formula, statement.where, {n: e for n, (e, _) in helpers.items()})
        spelled = spell_out(used, helpers)
        if statement.is_state:
            equations[statement.name] = expr
            order += spelled
        else:
            helpers[statement.name] = (expr, spelled)
    return equations, helpers, order


def statements_of(text: str) -> list[Statement]:
    """The lines of a model as they stand there."""
    return [_statement(line, piece) for line, piece in _split(text)]


def equation_faults(text: str) -> list[tuple[int, str]]:
    """(line, message) of every statement that is wrong by itself; what statements do to each other is not looked at."""
    try:
        pieces = _split(text)
    except InputError as error:
        return [_placed(error)]
    states = [match[1] for _, piece in pieces if (match := _PRIMED.match(piece) or _QUOTIENT.match(piece))]
    faults = []
    for line, piece in pieces:
        try:
            statement = _statement(line, piece)
            _check_primes(statement, states)
            parse(statement.formula, statement.where)
        except InputError as error:
            faults.append(_placed(error))
    return faults


def _placed(error: InputError) -> tuple[int, str]:
    found = re.match(r"In line (\d+): ", str(error))
    return int(found[1]), str(error)[found.end() :]


def spell_out(used: Sequence[str], helpers: Mapping[str, tuple[sympy.Expr, list[str]]]) -> list[str]:
    """The names a formula uses, helpers replaced by the names they use."""
    return list(dict.fromkeys(n for name in used for n in (helpers[name][1] if name in helpers else [name])))


def _split(text: str) -> list[tuple[int, str]]:
    """Statements with the line each starts on.

    A statement goes on in the next line inside parentheses, after a backslash, after an operator, and when the next
    line begins with an operator.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"\\[ \t]*\n", "\v", re.sub(r"#[^\n]*", "", text))
    for pattern in (_OPEN_END, _OPEN_BEGIN):
        text = pattern.sub(lambda found: found[0].replace("\n", "\v"), text)
    pieces, piece = [], ""
    line = start = opened = column = 1
    depth = 0
    for character in text:
        if character == ";" or (character == "\n" and depth <= 0):
            pieces.append((start, piece))
            piece, depth = "", 0
        elif character in "\n\v":
            piece += " "
        else:
            if character == "(" and depth == 0:
                opened, column = line, len(piece.rpartition("=")[2].lstrip()) + 1
            depth += (character == "(") - (character == ")")
            if not piece.strip():
                start = line
            piece += character
        line += character in "\n\v"
    if depth > 0:
        raise InputError(
            f"In line {opened}: the parenthesis at column {column} of the formula is never closed: close it."
        )
    return [(n, p.strip()) for n, p in [*pieces, (start, piece)] if p.strip()]


def _statement(line: int, piece: str) -> Statement:
    where = f"In line {line}"
    sides = _EQUALS.split(piece)
    if len(sides) != 2:
        count = "no `=`" if len(sides) == 1 else "more than one `=`"
        goes_on = "; a formula goes on in the next line after an operator or inside parentheses"
        raise InputError(
            f"{where}: `{piece[:80]}` has {count}: "
            f"write x' = formula for a state, name = formula for a helper{goes_on if len(sides) == 1 else ''}."
        )
    left, formula = (side.strip() for side in sides)
    if re.fullmatch(rf"{NAME}\s*(['’′]\s*['’′]+|[″\"])", left):
        raise InputError(f"{where}: `{left}` is a second derivative: write x' = v and v' = ... instead.")
    for form in (_PRIMED, _QUOTIENT):
        if match := form.fullmatch(left):
            check_target(match[1], where)
            return Statement(line, match[1], True, formula)
    if re.fullmatch(NAME, left) is None:
        raise InputError(
            f"{where}: the left side `{left[:80]}` is not a name: write x' = formula or name = formula."
        )
    check_target(left, where)
    return Statement(line, left, False, formula)


def _check_statements(statements: Sequence[Statement], inputs: tuple[str, ...]) -> None:
    if not any(s.is_state for s in statements):
        raise InputError(
            "The model has no state equation: write at least one with a prime, such as x' = -a*x."
        )
    seen: dict[str, Statement] = {}
    for statement in statements:
        first = seen.setdefault(statement.name, statement)
        if first is statement:
            continue
        if first.is_state != statement.is_state:
            raise InputError(
                f"{statement.where}: `{statement.name}` is both a state and a helper (see line {first.line}): "
                "rename one."
            )
        kind = "equation" if first.is_state else "definition"
        raise InputError(
            f"{statement.where}: a second {kind} of `{statement.name}` (see line {first.line}): remove one."
        )
    for name in inputs:
        if name in seen:
            kind = "a state" if seen[name].is_state else "defined"
            raise InputError(f"Input `{name}` is also {kind} in line {seen[name].line}: rename one of them.")


def _check_primes(statement: Statement, states: Sequence[str]) -> None:
    if _QUOTED.search(statement.formula):
        raise InputError(
            f"{statement.where}: `{statement.formula[:80]}` holds a text in quotes: "
            "quotes, attributes and calls of Python functions are not allowed in a formula; use plain names."
        )
    primed, quotient = (form.search(statement.formula) for form in (_PRIMED, _QUOTIENT))
    match = primed or (quotient if quotient and quotient[1] in states else None)
    if match:
        if match[1] in states:
            remedy = "repeat its formula, or define the formula as a helper and use that in both places"
        else:
            remedy = f"state `{match[1]}` has no equation: write one on a line of its own"
        raise InputError(f"{statement.where}: `{match[0]}` cannot be used on the right side: {remedy}.")


def check_target(name: str, where: str) -> None:
    if name == "t":
        raise InputError(f"{where}: `t` is time and cannot be redefined: choose another name.")
    if name in RESERVED:
        raise InputError(f"{where}: `{name}` has a meaning in formulas: choose another name.")
