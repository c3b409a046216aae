"""Events as they stand in an SBML file: when they happen and what they set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import TIME, divide, multiply
from picardfit.formulas.derivatives import Slopes
from picardfit.importers.sbml.mathml import Owner

if TYPE_CHECKING:
    import libsbml


class Event:
    """An event as it stands in the file."""

    def __init__(self, event: libsbml.Event, count: int) -> None:
        self.name = event.getId() or f"number {count}"
        self.owner = Owner("importers.in_event", self.name, event.getLine())
        trigger = event.getTrigger()
        self.trigger = None if trigger is None else trigger.getMath()
        self.begins_true = trigger is None or not trigger.isSetInitialValue() or trigger.getInitialValue()
        self.delay = event.getDelay().getMath() if event.isSetDelay() else None
        self.early = event.getUseValuesFromTriggerTime()
        self.priority = self._priority(event)
        self.values = {a.getVariable(): a.getMath() for a in event.getListOfEventAssignments()}

    def _priority(self, event: libsbml.Event) -> float:
        """The priority, 0 where there is none."""
        if not event.isSetPriority():
            return 0.0
        math = event.getPriority().getMath()
        if math is None or math.getNumChildren() or not math.isNumber():
            raise self.owner.at(InputError("importers.priority"))
        return float(math.getValue())


def identifiers(node: libsbml.ASTNode | None) -> set[str]:
    """All names in a formula, the empty one for the time."""
    import libsbml

    if node is None:
        return set()
    found = set().union(*(identifiers(node.getChild(i)) for i in range(node.getNumChildren())))
    if node.isName():
        found.add("" if node.getType() == libsbml.AST_NAME_TIME else node.getName())
    return found


def trigger_time(condition: sympy.Basic, owner: Owner) -> sympy.Expr:
    """When `time >= ...` becomes true."""
    if isinstance(condition, sympy.core.relational.Relational):
        gap = (
            condition.lhs - condition.rhs
            if condition.rel_op in (">", ">=")
            else condition.rhs - condition.lhs
        )
        slope = Slopes().slope(gap, TIME)
        if condition.rel_op in (">", ">=", "<", "<=") and slope.is_number and slope > 0:
            return divide(multiply(sympy.S.NegativeOne, gap.xreplace({TIME: sympy.S.Zero})), slope)
    raise owner.at(InputError("importers.event_without_time"))
