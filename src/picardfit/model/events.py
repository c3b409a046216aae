"""Events of a model: when a trigger rises through zero, states take new values at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy

from picardfit.errors import InputError, closest, concerning
from picardfit.formulas.algebra import names, symbol
from picardfit.formulas.codegen import Groups
from picardfit.formulas.equations import Helpers, spell_out
from picardfit.formulas.events import EventText, event_text, trigger_of
from picardfit.formulas.grammar import names_in_order, parse, to_text
from picardfit.formulas.kernels import BatchedMap


@dataclass(frozen=True)
class Event:
    """`when trigger > 0: name = formula; ...`: it fires when the trigger rises through zero.

    All formulas of an event see the states before it.
    """

    condition: str  # as it was written
    trigger: sympy.Expr
    assignments: tuple[tuple[str, sympy.Expr], ...]  # state, its value after the event
    begins_false: bool = False  # whether it fires at the beginning if its condition holds there
    may_stay: bool = False  # whether its condition may hold after it, as in SBML: it does not fire again then
    fleeting: bool = False  # whether it is dropped if another event at the same time ends its condition
    at_zero: bool = (
        False  # whether its condition holds at the beginning where its trigger is zero, as `x >= 3` does
    )
    early: bool = False  # whether its formulas see the states before other events at the same time

    @property
    def text(self) -> str:
        """`when v > 30: v = -65; w = d + w`."""
        return f"when {self.condition}: {'; '.join(f'{n} = {to_text(e)}' for n, e in self.assignments)}"

    @property
    def names(self) -> set[str]:
        """The names in its formulas."""
        return set().union(names(self.trigger), *(names(one) for _, one in self.assignments))

    def leaves_by_itself(self) -> bool:
        """Whether the event assigns none of the states in its own condition, so that it need not end that."""
        return not names(self.trigger) & {name for name, _ in self.assignments}


@dataclass(frozen=True)
class EventMaps:
    """The triggers of all events, and for each what the states are after it."""

    triggers: BatchedMap  # (events,)
    resets: tuple[BatchedMap, ...]  # each (states,)

    @classmethod
    def of(cls, events: Sequence[Event], groups: Groups) -> EventMaps:
        resets = []
        for one in events:
            given = dict(one.assignments)
            resets.append(BatchedMap([given.get(name, symbol(name)) for name in groups[0]], *groups))
        return cls(BatchedMap([one.trigger for one in events], *groups), tuple(resets))


def event_texts(events: object) -> list[EventText]:
    """What `events=` of a model says: texts, or a mapping from conditions to assignments (a mapping, or a text)."""
    if events is None:
        return []
    if isinstance(events, str):
        events = [events]
    if isinstance(events, Mapping):
        events = [f"{condition}: {_body(body)}" for condition, body in events.items()]
    if not isinstance(events, Sequence):
        raise InputError("model.not_events", key=("events",), value=events)
    for one in events:
        if not isinstance(one, str):
            raise InputError("model.not_events", key=("events",), value=one)
    return [event_text(one) for one in events]


def _body(body: object) -> object:
    if isinstance(body, Mapping):
        return "; ".join(f"{name} = {formula}" for name, formula in body.items())
    return body


def read_event(one: EventText, states: Sequence[str], helpers: Helpers) -> tuple[Event, list[str]]:
    """The event that a text describes, and the names in it in order."""
    definitions = {name: expression for name, (expression, _) in helpers.items()}
    with concerning("model.in_event", one.condition, key=("equations",)):
        trigger = trigger_of(one.condition, definitions)
        used = list(names_in_order(one.condition))
        if not names(trigger) & {"t", *states}:
            close = closest(used[0] if used else one.condition, ["t", *states])
            raise InputError("model.event_constant", used[0] if used else one.condition, close=close)
        assignments: dict[str, sympy.Expr] = {}
        for name, formula in one.assignments:
            if name not in states:
                raise InputError("model.event_target", name, states=list(states), close=closest(name, states))
            if name in assignments:
                raise InputError("model.event_twice", name)
            assignments[name] = parse(formula, definitions)
            used += names_in_order(formula)
    return Event(one.condition, trigger, tuple(assignments.items())), spell_out(used, helpers)
