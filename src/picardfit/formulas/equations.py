"""Equations as text -> statements -> expressions by state, with helpers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import LIMITS
from picardfit.formulas.events import EventText, split_events
from picardfit.formulas.grammar import RESERVED, names_in_order, parse, shortened

EQUATIONS = ("equations",)  # the key of the equations in a problem
QUOTED = 60  # characters of a line that an error repeats
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


@dataclass(frozen=True)
class Equations:
    """What a text of equations says."""

    rates: dict[str, sympy.Expr]  # right-hand side by state
    helpers: Helpers
    names: list[str]  # in the equations of states, helpers written out, in order of appearance
    events: list[EventText]


Helpers = dict[str, tuple[sympy.Expr, list[str]]]  # name -> (expression, names in it)


def read_equations(text: str, inputs: tuple[str, ...]) -> Equations:
    """The equations of a model; every InputError has the key ("equations",) and the line inside the text."""
    if not isinstance(text, str):
        raise InputError("formulas.equations_not_text", key=EQUATIONS, value=text)
    if len(text) > LIMITS.text:
        raise InputError("formulas.long_text", key=EQUATIONS, length=len(text), most=LIMITS.text)
    events = split_events(text)[1]
    statements = statements_of(text)
    if not statements:
        raise InputError("formulas.no_equations", key=EQUATIONS)
    _check_statements(statements, inputs)
    lines = {s.name: s.line for s in statements if not s.is_state}
    states = [s.name for s in statements if s.is_state]
    _check_size("states", len(states), LIMITS.states)
    rates: dict[str, sympy.Expr] = {}
    helpers: Helpers = {}
    names: list[str] = []
    for statement in statements:
        with _in_line(statement.line):
            _check_primes(statement, states)
            used = names_in_order(statement.formula)
            _check_order(statement, used, lines, helpers)
            expr = parse(statement.formula, {n: e for n, (e, _) in helpers.items()})
        if statement.is_state:
            rates[statement.name] = expr
            names += spell_out(used, helpers)
        else:
            helpers[statement.name] = (expr, spell_out(used, helpers))
    _check_size("parameters", len({*names} - {*states, *inputs}), LIMITS.parameters)
    return Equations(rates, helpers, names, events)


def _check_size(kind: str, count: int, most: int) -> None:
    if count > most:
        raise InputError("formulas.large_model", kind, key=EQUATIONS, count=count, most=most)


def _check_order(
    statement: Statement, used: Sequence[str], lines: Mapping[str, int], helpers: Helpers
) -> None:
    """Check that helpers are defined before they are used; `lines`: where each of them is defined."""
    for name in used:
        if name == statement.name and not statement.is_state:
            raise InputError("formulas.defined_by_itself", name)
        if name in lines and name not in helpers:
            raise InputError("formulas.used_before", name, other_row=lines[name])


@contextmanager
def _in_line(line: int) -> Iterator[None]:
    """Tell errors raised inside that they are about this line of the equations."""
    try:
        yield
    except InputError as error:
        raise error.at(key=EQUATIONS, row=line) from None


def statements_of(text: str) -> list[Statement]:
    """The statements of a model as they were written, without its events."""
    found = []
    for line, piece in _split(split_events(text)[0]):
        with _in_line(line):
            found.append(_statement(line, piece))
    return found


def equation_faults(text: str) -> list[InputError]:
    """One error for every statement that is wrong by itself; conflicts between statements are not checked."""
    try:
        pieces = _split(split_events(text)[0])
        states = [
            match[1] for _, piece in pieces if (match := _PRIMED.match(piece) or _QUOTIENT.match(piece))
        ]
        _check_size("states", len(states), LIMITS.states)
    except InputError as error:
        return [error]
    faults = []
    for line, piece in pieces:
        try:
            with _in_line(line):
                statement = _statement(line, piece)
                _check_primes(statement, states)
                parse(statement.formula)
        except InputError as error:
            faults.append(error)
    return faults


def spell_out(used: Sequence[str], helpers: Helpers) -> list[str]:
    """The names that a formula uses, each helper replaced by the names that it uses."""
    return list(dict.fromkeys(n for name in used for n in (helpers[name][1] if name in helpers else [name])))


def _split(text: str) -> list[tuple[int, str]]:
    """Statements, each with the line it starts on.

    A statement continues in the next line inside parentheses, after a backslash, after an operator, and if the next
    line begins with an operator.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"\\[ \t]*\n", "\v", re.sub(r"#[^\n]*", "", text))
    for pattern in (_OPEN_END, _OPEN_BEGIN):
        text = pattern.sub(lambda found: found[0].replace("\n", "\v"), text)
    pieces, piece, quoted = [], "", ""
    line = start = opened = column = 1
    depth = begin = 0
    for character in text:
        if character == ";" or (character == "\n" and depth <= 0):
            pieces.append((start, piece))
            piece, depth = "", 0
        elif character in "\n\v":
            piece += " "
        else:
            if character == "(" and depth == 0:
                opened, column = line, len(piece.rpartition("=")[2].lstrip()) + 1
                begin = len(piece) + 1 - column
            depth += (character == "(") - (character == ")")
            if not piece.strip():
                start = line
            piece += character
            if depth > 0 and line == opened:
                quoted = piece[begin : begin + QUOTED]
        line += character in "\n\v"
    if depth > 0:
        raise InputError("formulas.never_closed", quoted.strip(), key=EQUATIONS, row=opened, column=column)
    return [(n, p.strip()) for n, p in [*pieces, (start, piece)] if p.strip()]


def _statement(line: int, piece: str) -> Statement:
    sides = _EQUALS.split(piece)
    if len(sides) != 2:
        code = "formulas.no_equals" if len(sides) == 1 else "formulas.several_equals"
        raise InputError(code, shortened(piece))
    left, formula = (side.strip() for side in sides)
    if len(formula) > LIMITS.characters:
        raise InputError("formulas.too_long", length=len(formula), most=LIMITS.characters)
    if re.fullmatch(rf"{NAME}\s*(['’′]\s*['’′]+|[″\"])", left):
        raise InputError("formulas.second_derivative", left)
    for form in (_PRIMED, _QUOTIENT):
        if match := form.fullmatch(left):
            check_target(match[1])
            return Statement(line, match[1], True, formula)
    if re.fullmatch(NAME, left) is None:
        raise InputError("formulas.left_side", shortened(left))
    check_target(left)
    return Statement(line, left, False, formula)


def _check_statements(statements: Sequence[Statement], inputs: tuple[str, ...]) -> None:
    if not any(s.is_state for s in statements):
        raise InputError("formulas.no_state", key=EQUATIONS)
    seen: dict[str, Statement] = {}
    for statement in statements:
        first = seen.setdefault(statement.name, statement)
        if first is statement:
            continue
        code = "formulas.second_equation" if first.is_state else "formulas.second_definition"
        if first.is_state != statement.is_state:
            code = "formulas.state_and_helper"
        raise InputError(code, statement.name, key=EQUATIONS, row=statement.line, other_row=first.line)
    for name in inputs:
        if name in seen:
            code = "formulas.input_is_state" if seen[name].is_state else "formulas.input_is_helper"
            raise InputError(code, name, key=("inputs", name), other_row=seen[name].line)


def _check_primes(statement: Statement, states: Sequence[str]) -> None:
    if _QUOTED.search(statement.formula):
        raise InputError("formulas.text_in_quotes", shortened(statement.formula))
    primed, quotient = (form.search(statement.formula) for form in (_PRIMED, _QUOTIENT))
    match = primed or (quotient if quotient and quotient[1] in states else None)
    if match:
        code = "formulas.derivative_on_right" if match[1] in states else "formulas.no_such_derivative"
        raise InputError(code, match[0], state=match[1])


def check_target(name: str) -> None:
    """Check that equations, or a list of names, may declare this name."""
    if name == "t":
        raise InputError("formulas.time_redefined")
    if len(name) > LIMITS.name:
        raise InputError("formulas.long_name", shortened(name), length=len(name), most=LIMITS.name)
    if name in RESERVED:
        raise InputError("formulas.reserved", name)
