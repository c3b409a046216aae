"""Events as text: `when voltage > 30: voltage = -65; w = w + d`.

An event fires when its condition becomes true. A comparison `a > b` or `a < b` is read as the trigger g = a - b (or
b - a), which rises through zero when the event fires; `&&` and `||` take the smallest and the largest of triggers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import Maximum, Minimum, Where
from picardfit.formulas.grammar import parse, shortened

_WHEN = re.compile(r"[ \t]*when\b[ \t]*(.*)", re.DOTALL)
_COMMENT = re.compile(r"#[^\n]*")
_OPEN = re.compile(r"[-+*/^=<>&|,:;(\\]$")
_ASSIGNMENT = re.compile(r"(?<![<>=!])=(?!=)")
_RISING, _FALLING = (sympy.Gt, sympy.Ge), (sympy.Lt, sympy.Le)


@dataclass(frozen=True)
class EventText:
    """An event as it was written: its condition, and the assignments (name, formula)."""

    line: int
    condition: str
    assignments: tuple[tuple[str, str], ...]


def split_events(text: str) -> tuple[str, list[EventText]]:
    """The text with blank lines in place of its events, and these; an event may continue after `:`, `;`, `(`, `=`, ...

    Errors have the line at which the event begins.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found, k = [], 0
    while k < len(lines):
        match = _WHEN.fullmatch(_COMMENT.sub("", lines[k]))
        if match is None:
            k += 1
            continue
        begin, whole = k, match[1].strip()
        lines[k] = ""
        while k + 1 < len(lines) and _is_open(whole):
            k += 1
            whole = f"{whole.removesuffix(chr(92))} {_COMMENT.sub('', lines[k]).strip()}".strip()
            lines[k] = ""
        found.append(event_text(whole, begin + 1))
        k += 1
    return "\n".join(lines), found


def _is_open(text: str) -> bool:
    return bool(_OPEN.search(text)) or text.count("(") > text.count(")")


def event_text(text: str, line: int = 0) -> EventText:
    """`voltage > 30: voltage = -65; w = w + d`, with or without the word `when`, in its parts."""
    text = re.sub(r"^\s*when\b", "", text)
    condition, colon, body = text.partition(":")
    pieces = [piece.strip() for piece in re.split(r"[;\n]", body) if piece.strip()]
    if not colon or not condition.strip() or not pieces:
        raise _at(InputError("formulas.event_form", shortened(text.strip())), line)
    assignments = []
    for piece in pieces:
        sides = [side.strip() for side in _ASSIGNMENT.split(piece)]
        if len(sides) != 2 or not all(sides):
            raise _at(InputError("formulas.event_form", shortened(piece)), line)
        assignments.append((sides[0], sides[1]))
    return EventText(line, condition.strip(), tuple(assignments))


def _at(error: InputError, line: int) -> InputError:
    return error.at(key=("equations",), row=line) if line else error


def trigger_of(condition: str, definitions: Mapping[str, sympy.Expr]) -> sympy.Expr:
    """The expression that rises through zero when a condition such as `x > 3` becomes true."""
    found = trigger_of_expression(parse(condition, definitions))
    if found is None:
        raise InputError("formulas.event_condition", shortened(condition))
    return found


def trigger_of_expression(expression: sympy.Basic) -> sympy.Expr | None:
    """The trigger of comparisons, given as such or as the number 1 or 0; None if there is none, as for `==`.

    Several that have to hold at once have the smallest of their triggers, of several alternatives the largest counts.
    """
    if expression.func is Where and expression.args[1:] == (sympy.S.One, sympy.S.Zero):
        expression = expression.args[0]
    if isinstance(expression, _RISING):
        return expression.lhs - expression.rhs
    if isinstance(expression, _FALLING):
        return expression.rhs - expression.lhs
    if isinstance(expression, sympy.And | sympy.Or):
        parts = [trigger_of_expression(one) for one in expression.args]
        if None not in parts:
            return reduce(Minimum if isinstance(expression, sympy.And) else Maximum, parts)
    return None


def holds_at_zero(expression: sympy.Basic) -> bool:
    """Whether a condition holds where its trigger is exactly zero: `x >= 3` does, `x > 3` does not."""
    if expression.func is Where:
        expression = expression.args[0]
    if isinstance(expression, sympy.And | sympy.Or):
        each = [holds_at_zero(one) for one in expression.args]
        return all(each) if isinstance(expression, sympy.And) else any(each)
    return isinstance(expression, sympy.GreaterThan | sympy.LessThan)
