"""Models whose right-hand side or states change at times that depend on unknowns, in the form in which they are fitted.

A condition on time such as `t < t_switch` becomes a hidden state, its mode, which is 1 while the condition holds and 0
otherwise; two events change it. Then time itself becomes a hidden state, the clock, with clock' = 1: segments of a path
may begin at any time, and the end of a segment is where a trigger is zero.

Inputs that vary are known at the nodes of a mesh, whose knots move: with the time t0 of a node's inputs, u(t) is
written u(t0) + u'(t0) (clock - t0). Where the search ends the clock is at t0, so value and derivative are exact.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy
from sympy.core.relational import Relational

from picardfit.errors import InputError
from picardfit.formulas.algebra import TIME, Absolute, Maximum, Minimum, Where, symbol
from picardfit.formulas.derivatives import switch_of, switching_nodes
from picardfit.formulas.events import trigger_of_expression
from picardfit.formulas.grammar import to_text
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.added_inputs import INPUT_TIME, SLOPE
from picardfit.model.events import Event
from picardfit.model.model import Model
from picardfit.model.switches import MODE, mode_events

CLOCK = "clock of the path"  # contains blanks, so no user can write it


@dataclass(frozen=True, eq=False)
class Timed:
    """A model with events: with its modes as states, and with a clock besides."""

    simulated: Model  # own states, then modes
    fitted: Model  # own states, modes, clock
    conditions: tuple[sympy.Expr, ...]  # of the modes: positive where a mode is 1

    @cached_property
    def _mode_map(self) -> BatchedMap:
        model = self.simulated
        return BatchedMap(self.conditions, model.states, model.parameters, model.inputs)

    @property
    def names(self) -> set[str]:
        """The names on which the times of events depend."""
        return set().union(*(one.names for one in self.simulated.events))

    def modes(self, t0: float, params: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """(modes,): 1 or 0 at t0."""
        nothing = np.zeros(len(self.simulated.states))
        return np.asarray(self._mode_map.value(t0, nothing, params, inputs) > 0, float)


def moves(model: Model, free: Container[str], constant: Sequence[str] = ()) -> bool:
    """Whether something happens at times that unknowns decide: events, or conditions on time and `free` parameters.

    `constant`: inputs that do not change within experiments; conditions may depend on these, too.
    """
    if model.events:
        return True
    expressions = _expressions(model)
    return any(
        _is_switch(node, model, constant) and any(name in free for name in _names(node))
        for node in _nodes(expressions)
    )


def timed(model: Model, varying: Sequence[str] = (), constant: Sequence[str] = ()) -> Timed:
    """The model with modes and a clock.

    `varying`: inputs that change between their breakpoints; `constant`: those that do not change within experiments.
    """
    if not (isinstance(model.rhs, BatchedMap) and isinstance(model.output, BatchedMap)):
        raise InputError("model.events_of_function", key=("events",))
    if model.increments:
        raise InputError("model.events_with_increments", model.increments[0], key=("observables",))
    nodes = [node for node in _nodes(_expressions(model)) if _is_switch(node, model, constant)]
    replaced: dict[sympy.Basic, sympy.Basic] = {}
    modes: dict[str, sympy.Expr] = {}
    for node in nodes:
        name = f"{MODE}{to_text(node)}"
        on = sympy.Gt(symbol(name), sympy.Rational(1, 2))
        condition, new = _as_mode(node, on)
        if condition is not None:
            modes[name], replaced[node] = condition, new
    rates = {n: e.xreplace(replaced) for n, e in zip(model.states, model.rhs.expressions, strict=True)}
    outputs = {
        n: e.xreplace(replaced) for n, e in zip(model.observables, model.output.expressions, strict=True)
    }
    events = [*model.events, *(one for name, trigger in modes.items() for one in mode_events(name, trigger))]
    hidden = dict.fromkeys(modes, sympy.S.Zero)
    simulated = _made(model, rates, outputs, hidden, events)
    clock: dict[sympy.Basic, sympy.Basic] = {TIME: symbol(CLOCK)}
    for name in varying:
        since = symbol(CLOCK) - symbol(INPUT_TIME)
        clock[symbol(name)] = symbol(name) + symbol(SLOPE + name) * since
    on_clock = [
        replace(
            one,
            trigger=one.trigger.xreplace(clock),
            assignments=tuple((n, e.xreplace(clock)) for n, e in one.assignments),
        )
        for one in events
    ]
    rates = {name: rate.xreplace(clock) for name, rate in rates.items()}
    more = (*(SLOPE + name for name in varying), INPUT_TIME) if varying else ()
    fitted = _made(model, rates, outputs, {**hidden, CLOCK: sympy.S.One}, on_clock, more)
    return Timed(simulated, fitted, tuple(modes.values()))


def _made(
    model: Model,
    rates: dict[str, sympy.Expr],
    outputs: dict[str, sympy.Expr],
    hidden: dict[str, sympy.Expr],
    events: list[Event],
    more: tuple[str, ...] = (),
) -> Model:
    return Model.from_expressions(
        rates,
        outputs,
        model.parameters,
        model.inputs,
        further=more,
        covariates=model.covariates,
        infused=model.infused,
        hidden=hidden,
        events=events,
    )


def _expressions(model: Model) -> tuple[sympy.Expr, ...]:
    if not (isinstance(model.rhs, BatchedMap) and isinstance(model.output, BatchedMap)):
        return ()
    return (*model.rhs.expressions, *model.output.expressions)


def _nodes(expressions: tuple[sympy.Expr, ...]) -> list[sympy.Basic]:
    return list(dict.fromkeys(node for one in expressions for node in switching_nodes(one)))


def _names(node: sympy.Basic) -> set[str]:
    return {one.name for one in node.free_symbols}


def _is_switch(node: sympy.Basic, model: Model, constant: Sequence[str]) -> bool:
    """Whether a comparison, an extreme or an absolute value switches at a time that only constants decide."""
    if not isinstance(node, (Relational, Maximum, Minimum, Absolute)) or len(switch_of(node)) != 1:
        return False
    (difference,) = switch_of(node)
    found = _names(difference)
    return "t" in found and found <= {"t", *model.parameters, *model.covariates, *constant}


def _as_mode(node: sympy.Basic, on: sympy.Basic) -> tuple[sympy.Expr | None, sympy.Basic]:
    """What is positive while the mode of a node is 1, and the node in terms of its mode; None if it has none."""
    if isinstance(node, Relational):
        return trigger_of_expression(node), on
    (difference,) = switch_of(node)
    if isinstance(node, Absolute):
        return difference, Where(on, node.args[0], -node.args[0])
    first, second = node.args if difference == node.args[0] - node.args[1] else node.args[::-1]
    larger, smaller = (first, second) if isinstance(node, Maximum) else (second, first)
    return difference, Where(on, larger, smaller)
