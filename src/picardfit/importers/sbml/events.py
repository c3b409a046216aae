"""Resets of states at known times, written as a system whose states are continuous.

An event sets x := r(x, p) at the time s. The solvers know continuous states only, so x becomes a formula of pieces
that are continuous, and the reset stands in that formula:

- r = a x + b with a number a and without other states: x = z before s and a z + b after it, with z' = x'/a after s.
- any other r: z1 follows x until s and then stands still, z2 = 0 until s and then z2' = x';
  x = z1 before s and r(z1, p) + z2 after it. What r depends on is cut in the same way.

Both are exact, and derivatives by parameters follow as for any formula. At s itself the value after the reset holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import TIME, add, choose, compare, divide, multiply, names, symbol
from picardfit.formulas.derivatives import Slopes


@dataclass(frozen=True)
class Reset:
    """At a time, states get new values; the formulas see the values before it."""

    event: str
    time: sympy.Expr
    values: dict[str, sympy.Expr]


@dataclass(frozen=True, eq=False)
class Pieces:
    """A system with resets in continuous pieces."""

    rates: dict[str, sympy.Expr]  # of the pieces
    meaning: dict[str, sympy.Expr]  # state that was reset -> its formula in pieces
    origins: dict[str, str]  # first piece -> the state whose initial value it has; other pieces begin at 0


def continuous(rates: Mapping[str, sympy.Expr], resets: Sequence[Reset], taken: Iterable[str]) -> Pieces:
    """The system with these rates and resets; `taken` are names that no piece may have."""
    states = {name: _State(name) for name in rates}
    for reset in _in_order(resets):
        _apply(reset, states)
    used = set(taken)
    touched = {name: one for name, one in states.items() if one.value != symbol(name)}
    labels: dict[sympy.Symbol, sympy.Symbol] = {}
    for name, one in touched.items():
        labels |= {piece.mark: symbol(_unused(name, used)) for piece in one.pieces}
    meaning = {name: one.value.xreplace(labels) for name, one in touched.items()}
    inside = {symbol(name): value for name, value in meaning.items()}
    found = {}
    for name, rate in rates.items():
        full = rate.xreplace(inside)
        if name not in touched:
            found[name] = full
        else:
            pieces = touched[name].pieces
            found |= {labels[p.mark].name: p.window(divide(full, p.gain.xreplace(labels))) for p in pieces}
    origins = {labels[one.pieces[0].mark].name: name for name, one in touched.items()}
    return Pieces(found, meaning, origins)


@dataclass
class _Piece:
    """A continuous state that stands for a reset one between two of its cuts."""

    mark: sympy.Symbol
    begin: sympy.Expr | None = None
    end: sympy.Expr | None = None
    gain: sympy.Expr = sympy.S.One  # d state / d piece
    last_gain: sympy.Expr = sympy.S.One  # the same after the last reset

    def window(self, rate: sympy.Expr) -> sympy.Expr:
        """The rate between the cuts, 0 elsewhere."""
        if self.end is not None:
            rate = choose(_from(self.end), sympy.S.Zero, rate)
        return rate if self.begin is None else choose(_from(self.begin), rate, sympy.S.Zero)


@dataclass
class _State:
    """A state while resets are worked in, in order of time.

    `value` is its formula in pieces, of which the last moves; `last` is what holds after the last reset, so that
    formulas grow in proportion to the number of resets.
    """

    name: str
    value: sympy.Expr = field(init=False)
    last: sympy.Expr = field(init=False)
    pieces: list[_Piece] = field(init=False)

    def __post_init__(self) -> None:
        self.value = self.last = symbol(self.name)
        self.pieces = [_Piece(symbol(self.name))]

    def stretch(self, time: sympy.Expr, factor: sympy.Expr, shift: sympy.Expr) -> None:
        piece = self.pieces[-1]
        piece.last_gain = multiply(factor, piece.last_gain)
        piece.gain = choose(_from(time), piece.last_gain, piece.gain)
        self._continue(time, add(multiply(factor, self.last), shift))

    def cut(self, time: sympy.Expr, start: sympy.Expr) -> None:
        self.pieces[-1].end = time
        self.pieces.append(_Piece(sympy.Dummy(self.name, real=True), begin=time))
        self._continue(time, add(start, self.pieces[-1].mark))

    def _continue(self, time: sympy.Expr, last: sympy.Expr) -> None:
        self.last = last
        self.value = choose(_from(time), last, self.value)


def _from(time: sympy.Expr) -> sympy.Basic:
    return compare(">=", TIME, time)


def _in_order(resets: Sequence[Reset]) -> list[Reset]:
    """By time; one time that is no number may stand alone."""
    if len(resets) > 1:
        for reset in resets:
            if not reset.time.is_number:
                raise InputError("importers.reset_order", reset.event)
        return sorted(resets, key=lambda reset: float(reset.time))
    return list(resets)


def _apply(reset: Reset, states: Mapping[str, _State]) -> None:
    time = reset.time
    values = {name: value.xreplace({TIME: time}) for name, value in reset.values.items()}
    lines = {name: line for name, value in values.items() if (line := _line(name, value, states))}
    bent = [name for name in values if name not in lines]
    cut = {*bent, *(n for name in bent for n in names(values[name]) if n in states)}
    before = {symbol(name): one.last for name, one in states.items()}
    for name in states:
        if name in cut:
            states[name].cut(time, values.get(name, symbol(name)).xreplace(before))
        elif name in lines:
            states[name].stretch(time, *lines[name])


def _line(name: str, value: sympy.Expr, states: Mapping) -> tuple[sympy.Expr, sympy.Expr] | None:
    """(a, b) where the value is a x + b with a number a, not 0, and b without states; None elsewhere."""
    slope = Slopes().slope(value, symbol(name))
    shift = value.xreplace({symbol(name): sympy.S.Zero})
    if not slope.is_number or slope == 0 or names(shift) & set(states):
        return None
    rest = sympy.expand(value - slope * symbol(name) - shift)  # not 0 where a condition looks at x
    return (slope, shift) if rest == 0 else None


def _unused(name: str, used: set[str]) -> str:
    """name_1, name_2, ...: the first that is free; it is then taken."""
    count = 1
    while f"{name}_{count}" in used:
        count += 1
    used.add(f"{name}_{count}")
    return f"{name}_{count}"
