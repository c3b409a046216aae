"""Events of an SBML file that wait for a state: they become events of the model.

Triggers are comparisons, joined by `and` and `or`; delays are refused by name. Simultaneous events happen in order of
priority, then of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import TIME
from picardfit.formulas.events import holds_at_zero, trigger_of_expression
from picardfit.formulas.grammar import to_text
from picardfit.importers.sbml.mathml import Owner, identifiers
from picardfit.model.events import Event as ModelEvent

if TYPE_CHECKING:
    from picardfit.importers.sbml.events import Event, Reset


def are_located(events: Sequence[Event], moving: Collection[str]) -> bool:
    """Whether the events have to be found along the solution, because their times are not known beforehand.

    One depends on something that moves, or on several comparisons; or events at one time see the values before it.
    """
    given = [(one, one.trigger) for one in events if one.trigger is not None]
    return any(
        identifiers(trigger) & set(moving) or trigger.isLogical() or _sees_others(one, events)
        for one, trigger in given
    )


def _sees_others(event: Event, events: Sequence[Event]) -> bool:
    """Whether an event uses what another one sets at the same time, but the value before that."""
    used = set().union(*map(identifiers, event.values.values()))
    same = (one for one in events if one is not event and one.when == event.when)
    return event.early and any(used & set(one.values) for one in same)


def of_reset(reset: Reset) -> ModelEvent:
    """A reset at a known time as an event, for systems that have events which wait for states."""
    trigger = TIME - reset.time
    return ModelEvent(f"{to_text(trigger)} > 0", trigger, tuple(reset.values.items()))


def model_events(
    events: Sequence[Event],
    formula: Callable[[object, Owner], sympy.Basic],
    values_after: Callable[[Event], dict[str, sympy.Expr]],
) -> tuple[ModelEvent, ...]:
    """The events as a model has them; `formula` reads libSBML's trees, `values_after` says what an event changes."""
    found = []
    for one in sorted(events, key=lambda event: -event.priority):
        if one.delay is not None:
            raise one.owner.at(InputError("importers.event_delay"))
        condition = None if one.trigger is None else formula(one.trigger, one.owner)
        trigger = None if condition is None else trigger_of_expression(condition)
        if condition is None or trigger is None:
            raise one.owner.at(InputError("importers.event_trigger"))
        values = tuple(values_after(one).items())
        found.append(
            ModelEvent(
                f"{to_text(trigger)} > 0",
                trigger,
                values,
                begins_false=not one.begins_true,
                may_stay=True,
                fleeting=one.fleeting,
                at_zero=holds_at_zero(condition),
                early=one.early,
            )
        )
    return tuple(found)
