"""Events of an SBML file: when they happen, and resets of states written as a system whose states are continuous.

An event sets x := r(x, p) at the time s. The solvers know continuous states only, so x becomes a formula of pieces
that are continuous, and the reset is part of that formula:

- r = a x + b with a number a and without other states: x = z before s and a z + b after it, with z' = x'/a after s.
- any other r: z1 follows x until s and then stands still, z2 = 0 until s and then z2' = x';
  x = z1 before s and r(z1, p) + z2 after it. What r depends on is cut in the same way.

Both are exact, and derivatives by parameters follow as for any formula. At s itself the value after the reset holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import TIME, add, choose, compare, divide, first_of, multiply, names, symbol
from picardfit.formulas.derivatives import Slopes
from picardfit.importers.sbml.mathml import Owner

if TYPE_CHECKING:
    import libsbml


class Event:
    """An event of the file; formulas are still libSBML's trees."""

    def __init__(self, event: libsbml.Event, number: int) -> None:
        self.name = event.getId() or f"number {number}"
        self.owner = Owner("importers.in_event", self.name, event.getLine())
        trigger = event.getTrigger()
        self.trigger = None if trigger is None else trigger.getMath()
        self.begins_true = trigger is None or not trigger.isSetInitialValue() or trigger.getInitialValue()
        self.fleeting = trigger is not None and trigger.isSetPersistent() and not trigger.getPersistent()
        self.delay = event.getDelay().getMath() if event.isSetDelay() else None
        self.early = event.getUseValuesFromTriggerTime()
        self.priority = self._priority(event)
        self.values = {a.getVariable(): a.getMath() for a in event.getListOfEventAssignments()}
        self.diluted: dict[
            str, str
        ] = {}  # species whose concentration a new volume changes -> that compartment

    @property
    def when(self) -> str:
        """The trigger and delay as text, in which `>` and `>=` are the same."""
        import libsbml

        found = [libsbml.formulaToL3String(one) for one in (self.trigger, self.delay) if one is not None]
        return " after ".join(found).replace(">=", ">")

    def _priority(self, event: libsbml.Event) -> float:
        """The priority, 0 where there is none."""
        if not event.isSetPriority():
            return 0.0
        math = event.getPriority().getMath()
        if math is None or math.getNumChildren() or not math.isNumber():
            raise self.owner.at(InputError("importers.priority"))
        return float(math.getValue())


def trigger_time(condition: sympy.Basic, owner: Owner) -> sympy.Expr:
    """When a condition such as `time >= ...` becomes true: the root of an increasing linear function of time."""
    if isinstance(condition, sympy.Gt | sympy.Ge | sympy.Lt | sympy.Le):
        gap = condition.gts - condition.lts
        slope = Slopes().slope(gap, TIME)
        if slope.is_number and slope > 0:
            return divide(multiply(sympy.S.NegativeOne, gap.xreplace({TIME: sympy.S.Zero})), slope)
    raise owner.at(InputError("importers.event_without_time"))


# ---- resets -> continuous pieces -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reset:
    """At a time, states get new values; the formulas see the values before it.

    `order`: where it comes among resets whose times are not numbers; it counts as such resets' time otherwise.
    """

    event: str
    time: sympy.Expr
    values: dict[str, sympy.Expr]
    order: float | None = None


@dataclass(frozen=True, eq=False)
class Pieces:
    """A system with resets, written in continuous states (the pieces)."""

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
    """A continuous state that represents a state with resets between two cuts (times, or None for no limit)."""

    mark: sympy.Symbol
    begin: sympy.Expr | None = None
    end: sympy.Expr | None = None
    last_gain: sympy.Expr = sympy.S.One  # d state / d piece after the last reset
    gains: list[tuple[sympy.Expr, sympy.Basic]] = field(default_factory=list)  # from when on, latest first

    @property
    def gain(self) -> sympy.Expr:
        """d state / d piece, a formula of time."""
        return first_of(self.gains, sympy.S.One)

    def window(self, rate: sympy.Expr) -> sympy.Expr:
        """The rate between the cuts, 0 elsewhere."""
        if self.end is not None:
            rate = choose(_from(self.end), sympy.S.Zero, rate)
        return rate if self.begin is None else choose(_from(self.begin), rate, sympy.S.Zero)


@dataclass
class _State:
    """A state to which resets are applied in order of time.

    `value` is its formula in pieces, of which only the last one changes; `last` is the branch of that formula that
    holds after the last reset. Building on `last` lets formulas grow in proportion to the number of resets.
    """

    name: str
    branches: list[tuple[sympy.Expr, sympy.Basic]] = field(default_factory=list)  # from when on, latest first
    last: sympy.Expr = field(init=False)
    pieces: list[_Piece] = field(init=False)

    def __post_init__(self) -> None:
        self.last = symbol(self.name)
        self.pieces = [_Piece(symbol(self.name))]

    @property
    def value(self) -> sympy.Expr:
        return first_of(self.branches, symbol(self.name))

    def stretch(self, time: sympy.Expr, factor: sympy.Expr, shift: sympy.Expr) -> None:
        """Reset the state x to factor*x + shift within its last piece."""
        piece = self.pieces[-1]
        piece.last_gain = multiply(factor, piece.last_gain)
        piece.gains.insert(0, (piece.last_gain, _from(time)))
        self._continue(time, add(multiply(factor, self.last), shift))

    def cut(self, time: sympy.Expr, start: sympy.Expr) -> None:
        """Reset the state to `start` and continue it with a new piece."""
        self.pieces[-1].end = time
        self.pieces.append(_Piece(sympy.Dummy(self.name, real=True), begin=time))
        self._continue(time, add(start, self.pieces[-1].mark))

    def _continue(self, time: sympy.Expr, last: sympy.Expr) -> None:
        self.last = last
        self.branches.insert(0, (last, _from(time)))


def _from(time: sympy.Expr) -> sympy.Basic:
    return compare(">=", TIME, time)


def _in_order(resets: Sequence[Reset]) -> Sequence[Reset]:
    """The resets in order of time; a time that is a formula of parameters is allowed for a single reset only."""
    if len(resets) <= 1:
        return resets
    for reset in resets:
        if reset.order is None and not reset.time.is_number:
            raise InputError("importers.reset_order", reset.event)
    return sorted(resets, key=lambda reset: float(reset.time) if reset.order is None else reset.order)


def _apply(reset: Reset, states: Mapping[str, _State]) -> None:
    time = reset.time
    values = {name: value.xreplace({TIME: time}) for name, value in reset.values.items()}
    linear = {name: pair for name, value in values.items() if (pair := _linear(name, value, states))}
    others = [name for name in values if name not in linear]
    cut = {*others, *(n for name in others for n in names(values[name]) if n in states)}
    before = {symbol(name): one.last for name, one in states.items()}
    for name in states:
        if name in cut:
            states[name].cut(time, values.get(name, symbol(name)).xreplace(before))
        elif name in linear:
            states[name].stretch(time, *linear[name])


def _linear(name: str, value: sympy.Expr, states: Mapping) -> tuple[sympy.Expr, sympy.Expr] | None:
    """(a, b) if the value is a x + b with a number a, not 0, and b without states; else None."""
    slope = Slopes().slope(value, symbol(name))
    shift = value.xreplace({symbol(name): sympy.S.Zero})
    if not slope.is_number or slope == 0 or names(shift) & set(states):
        return None
    remainder = sympy.expand(value - slope * symbol(name) - shift)  # not 0 where a condition depends on x
    return (slope, shift) if remainder == 0 else None


def _unused(name: str, used: set[str]) -> str:
    """The first of name_1, name_2, ... that is not used yet; it is added to `used`."""
    found = next(one for k in count(1) if (one := f"{name}_{k}") not in used)
    used.add(found)
    return found
