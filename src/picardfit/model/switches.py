"""Models with events whose equations jump as states pass a threshold, in the form in which they are integrated.

`where(p <= 500, a, b)` in a rate would stop an integrator at the threshold, most of all where an event waits at the
same one. Each comparison of states becomes a mode, a hidden state that two events set to 1 and 0: so every step sees
one side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy
from sympy.core.relational import Relational

from picardfit.formulas.algebra import Where, names, symbol
from picardfit.formulas.derivatives import switching_nodes
from picardfit.formulas.events import trigger_of_expression
from picardfit.formulas.grammar import to_text
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.model.events import Event
from picardfit.model.model import Model

MODE = "mode of "  # contains a blank, so no user can write it


@dataclass(frozen=True, eq=False)
class Switched:
    """A model with its comparisons of states as hidden states after its own."""

    model: Model
    truth: BatchedMap  # of states, parameters and inputs: 1 where a comparison holds

    def begin(self, t: float, x: Array, params: Array, inputs: Array) -> Array:
        """The modes at a state."""
        found: Array = self.truth.value(t, x, params, inputs)
        return found


def mode_events(name: str, trigger: sympy.Expr) -> tuple[Event, Event]:
    """The events that set a mode where its condition begins and where it ends."""
    return (
        Event(f"{to_text(trigger)} > 0", trigger, ((name, sympy.S.One),), fleeting=True),
        Event(f"{to_text(trigger)} < 0", -trigger, ((name, sympy.S.Zero),), fleeting=True),
    )


@lru_cache(maxsize=32)
def switched(model: Model) -> Switched | None:
    """The model with modes for the comparisons of states in its right-hand side; None without any."""
    if not isinstance(model.rhs, BatchedMap):
        return None
    own = {name for name in model.states if not name.startswith(MODE)}
    nodes = dict.fromkeys(node for one in model.rhs.expressions for node in switching_nodes(one))
    triggers = {
        node: trigger
        for node in nodes
        if isinstance(node, Relational) and names(node) & own
        if (trigger := trigger_of_expression(node)) is not None
    }
    if not triggers:
        return None
    modes = {node: f"{MODE}{to_text(node)}" for node in triggers}
    replaced = {node: sympy.Gt(symbol(name), sympy.Rational(1, 2)) for node, name in modes.items()}
    rates = {n: e.xreplace(replaced) for n, e in zip(model.states, model.rhs.expressions, strict=True)}
    events = [event for node, name in modes.items() for event in mode_events(name, triggers[node])]
    hidden = {n: rates.pop(n) for n in model.states if n not in own} | dict.fromkeys(
        modes.values(), sympy.S.Zero
    )
    made = Model.from_expressions(
        rates, {}, model.parameters, model.inputs, hidden=hidden, events=(*model.events, *events)
    )
    truth = [Where(node, sympy.S.One, sympy.S.Zero) for node in triggers]
    return Switched(made, BatchedMap(truth, model.states, model.parameters, model.inputs))
