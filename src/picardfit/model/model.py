"""Model: states, parameters, inputs, observables, the right-hand side x' = f(t, x, p, u) and the output g."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, nan
from typing import final

import numpy as np
import sympy

from picardfit.checks import FrozenDict
from picardfit.display.hook import shown
from picardfit.errors import InputError, closest, concerning
from picardfit.formulas.algebra import names, names_outside_conditions, symbol
from picardfit.formulas.codegen import Groups
from picardfit.formulas.derivatives import (
    breakpoints,
    curved_in_time,
    switches_with,
    zeros_between,
    zeros_in_time,
)
from picardfit.formulas.equations import NAME, Helpers, check_target, read_equations, spell_out, statements_of
from picardfit.formulas.events import EventText
from picardfit.formulas.grammar import names_in_order, parse, to_text
from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap, PythonFunction, map_of_function
from picardfit.model.added_inputs import INFUSION, FewerInputs, Infused
from picardfit.model.events import Event, EventMaps, event_texts, read_event
from picardfit.model.inputs import Constant, Input
from picardfit.model.state_jumps import StateJump, smooth, state_jumps


@shown
@final
@dataclass(frozen=True, init=False, repr=False)
class Model:
    """An ODE model, from equations as text; `Model.from_function` takes Python functions.

    `name' = formula` (or `dname/dt = formula`) is the equation of a state, `name = formula` defines a helper
    for the lines below it, `#` starts a comment. A formula continues in the next line inside parentheses and after (or
    before) an operator. All other names are parameters; `t` is time.
    Observables are formulas by name, names of states, or None: then every state is observed. `increment(formula)` is
    the change of a formula since the sample before (the first: since t0), as of cases that are counted. Models are
    equal if their contents are. `units`: name -> unit as text, for tables and pictures only; `t` is the unit of time.
    `covariates`: names that are constants of an experiment (weight, sex); they count among the `inputs`.
    `when v > 30: v = -65; w = w + d` is an event: when its condition becomes true, states get new values.
    `events`: further events, as such texts, or as a mapping from conditions to assignments.
    """

    states: tuple[str, ...]
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    observables: tuple[str, ...]
    rhs: BatchedMap | NumericMap
    output: BatchedMap | NumericMap
    breakpoints: tuple[float, ...]
    text: str = field(compare=False)  # as it was given; empty for a function
    units: Mapping[str, str] = field(compare=False)  # of states, parameters, inputs, observables and time (t)
    increments: tuple[str, ...]  # observables that are changes of their formula since the last sample
    covariates: tuple[str, ...] = ()  # inputs that are constants of an experiment
    infused: tuple[str, ...] = ()  # states with an input that is the rate of infusions into them
    events: tuple[Event, ...] = ()  # in the order in which they were written
    # formula that jumps -> width of the smooth switch in its place
    smoothing: Mapping[str, float] = field(default_factory=FrozenDict, hash=False)
    written_model: Model | None = None  # the model without these switches

    def __init__(
        self,
        text: str,
        observables: Mapping[str, str] | Sequence[str] | None = None,
        inputs: Sequence[str] = (),
        units: Mapping[str, str] | None = None,
        covariates: Sequence[str] = (),
        events: object = None,
    ) -> None:
        covariates = _checked_names(covariates, "covariates")
        given = _checked_names(inputs, "inputs")
        inputs = (*given, *(name for name in covariates if name not in given))
        added = event_texts(events)
        equations = read_equations(text, inputs)
        states = tuple(equations.rates)
        found, order = _read_events(
            [*equations.events, *added], states, equations.helpers, equations.names, inputs
        )
        text = (
            "\n".join([text.rstrip(), *(one.text for one in found[len(equations.events) :])])
            if added
            else text
        )
        observables, changes = _without_increments(observables)
        outputs, new = _read_observables(observables, states, equations.helpers, (*order, *states, *inputs))
        known = {"t", *states, *inputs}
        parameters = tuple(dict.fromkeys(n for n in (*order, *new) if n not in known))
        for name in inputs:
            if name not in (*order, *new, *covariates):
                raise InputError("model.unused_input", name, key=("inputs", name))
        groups = (states, parameters, inputs)
        rhs = BatchedMap(tuple(equations.rates.values()), *groups)
        output = BatchedMap(tuple(outputs.values()), *groups)
        _fill(self, groups, tuple(outputs), rhs, output, text, units, changes, covariates, events=found)

    @classmethod
    def from_function(
        cls,
        f: PythonFunction,
        states: Sequence[str],
        parameters: Sequence[str],
        inputs: Sequence[str] = (),
        observables: PythonFunction | Mapping[str, str] | Sequence[str] | None = None,
        units: Mapping[str, str] | None = None,
        covariates: Sequence[str] = (),
        events: object = None,
    ) -> Model:
        """The model x' = f(t, x, p, u), f written in plain Python and NumPy.

        f returns the derivatives as a sequence in the order of the states or as a mapping by state; x, p, u
        can be indexed, unpacked, or read by name (p.a, p["a"]); u may be left out. A function given as
        `observables` returns a mapping by name, or a sequence that is then called y1, y2, ... Functions that
        only calculate get exact Jacobians; those that decide on values (`if x[0] > 1`) get numeric ones. Covariates
        follow the inputs in u.
        """
        covariates = _checked_names(covariates, "covariates")
        groups = _checked_groups(states, parameters, (*inputs, *(n for n in covariates if n not in inputs)))
        everything = [n for group in groups for n in group]
        for name in everything:
            if everything.count(name) > 1:
                raise InputError("model.declared_twice", name)
        if not groups[0]:
            raise InputError("model.no_states")
        rhs, _ = map_of_function(f, *groups, groups[0])
        changes: tuple[str, ...] = ()
        if callable(observables):
            output, rows = map_of_function(observables, *groups, None)
        else:
            observables, changes = _without_increments(observables)
            outputs, _ = _read_observables(observables, groups[0], {}, everything, complete=True)
            output, rows = BatchedMap(tuple(outputs.values()), *groups), tuple(outputs)
        model = object.__new__(cls)
        found, used = _read_events(event_texts(events), groups[0], {}, everything, groups[2])
        for name in used:
            if name not in (*everything, "t"):
                raise InputError("model.undeclared_name", name, close=closest(name, everything))
        _fill(model, groups, rows, rhs, output, "", units, changes, covariates, events=found)
        return model

    @classmethod
    def from_expressions(
        cls,
        rates: Mapping[str, sympy.Expr],
        observables: Mapping[str, sympy.Expr],
        parameters: Sequence[str],
        inputs: Sequence[str] = (),
        units: Mapping[str, str] | None = None,
        increments: Sequence[str] = (),
        covariates: Sequence[str] = (),
        infused: Sequence[str] = (),
        hidden: Mapping[str, sympy.Expr] | None = None,
        events: Sequence[Event] = (),
        further: Sequence[str] = (),
    ) -> Model:
        """The model with these right-hand sides by state and these outputs by name, for importers.

        The right-hand sides of `infused` states hold the rate of infusions already. `hidden`: right-hand sides of
        further states, and `further` inputs have names that no user can write.
        """
        states, parameters, inputs = _checked_groups(tuple(rates), parameters, inputs)
        groups = ((*states, *(hidden or {})), parameters, (*inputs, *further))
        rows = {**rates, **(hidden or {})}
        rhs, output = (BatchedMap(tuple(one.values()), *groups) for one in (rows, observables))
        model = object.__new__(cls)
        added = tuple(increments), tuple(covariates), tuple(infused), tuple(events)
        _fill(model, groups, tuple(observables), rhs, output, "", units, *added)
        return model

    def with_covariates(self, covariates: Sequence[str]) -> Model:
        """The model in which these names, so far parameters or not known, are covariates."""
        if self.written_model is not None:
            return self.written_model.with_covariates(covariates).smoothed(self.smoothing)
        new = tuple(name for name in covariates if name not in self.inputs)
        every = tuple(dict.fromkeys((*self.covariates, *covariates)))
        if every == self.covariates:
            return self
        groups = (self.states, tuple(p for p in self.parameters if p not in new), (*self.inputs, *new))
        return self._regrouped(groups, self.rhs, every, self.infused)

    def with_infusions(self, states: Sequence[str]) -> Model:
        """The model in which the rate of infusions is added to the right-hand side of these states."""
        if self.written_model is not None:
            return self.written_model.with_infusions(states).smoothed(self.smoothing)
        new = tuple(name for name in states if name not in self.infused)
        if not new:
            return self
        rates = tuple(INFUSION + name for name in new)
        for rate in rates:
            if rate in (*self.states, *self.parameters, *self.inputs):
                raise InputError("model.infusion_name", rate, state=rate.removeprefix(INFUSION))
        rhs, groups = self.rhs, (self.states, self.parameters, (*self.inputs, *rates))
        rows = tuple(self.states.index(name) for name in new)
        if isinstance(rhs, BatchedMap):
            added = dict(zip(rows, rates, strict=True))
            rhs = BatchedMap(
                [e + symbol(added[k]) if k in added else e for k, e in enumerate(rhs.expressions)], *groups
            )
        else:
            rhs = replace(rhs, function=Infused(rhs, rows), takes_inputs=True, inputs=groups[2])
        return self._regrouped(groups, rhs, self.covariates, (*self.infused, *new))

    def _regrouped(
        self,
        groups: Groups,
        rhs: BatchedMap | NumericMap,
        covariates: tuple[str, ...],
        infused: tuple[str, ...],
    ) -> Model:
        """The same model with other groups of names; those of a Python function are fixed, apart from its inputs."""
        model = object.__new__(Model)
        output = _regroup(self.output, groups)
        rhs = _regroup(rhs, groups)
        added = self.increments, covariates, infused, self.events
        _fill(model, groups, self.observables, rhs, output, self.text, self.units, *added)
        return model

    def smoothed(self, widths: Mapping[str, float]) -> Model:
        """The model with a smooth switch of this width in place of each of these formulas that jump."""
        if not widths:
            return self.as_written
        written, groups = self.as_written, (self.states, self.parameters, self.inputs)
        assert isinstance(written.rhs, BatchedMap)
        rhs = BatchedMap([smooth(one, widths) for one in written.rhs.expressions], *groups)
        model = written._regrouped(groups, rhs, self.covariates, self.infused)
        new = {"smoothing": FrozenDict(widths), "written_model": written, "text": ""}
        for name, value in new.items():
            object.__setattr__(model, name, value)
        return model

    @property
    def as_written(self) -> Model:
        """The model with its jumps."""
        return self if self.written_model is None else self.written_model

    @cached_property
    def event_maps(self) -> EventMaps:
        """The triggers and resets of the events as functions."""
        return EventMaps.of(self.events, (self.states, self.parameters, self.inputs))

    @property
    def signals(self) -> tuple[str, ...]:
        """The inputs that a user declared as such: without covariates and infusions."""
        other = {*self.covariates, *(INFUSION + name for name in self.infused)}
        return tuple(name for name in self.inputs if name not in other)

    def breaks(self, inputs: Mapping[str, Input]) -> tuple[float, ...]:
        """Times at which the right-hand side may jump or kink under these inputs."""
        found = {*self.breakpoints, *(b for name in self.inputs for b in inputs[name].breakpoints)}
        if self._switches:
            known = {symbol(n): sympy.Float(s.value) for n, s in inputs.items() if isinstance(s, Constant)}
            found.update(zeros_in_time(d.xreplace(known) for d in self._switches))
        return tuple(sorted(found))

    def switch_times(
        self, params: Iterable[float], inputs: Mapping[str, Input], span: tuple[float, float]
    ) -> tuple[float, ...]:
        """Times at which a condition on time, parameters and constant inputs switches the right-hand side.

        A parameter that is not known is NaN. Conditions that are not linear in time are followed over the span.
        """
        curved = self._curved_switches
        if not self._parameter_switches and curved is None:
            return ()
        values = [float(v) for v in params]
        given = dict(zip(self.parameters, values, strict=True))
        given |= {n: s.value for n, s in inputs.items() if isinstance(s, Constant)}
        known = {symbol(n): sympy.Float(v) for n, v in given.items() if isfinite(v)}
        straight = zeros_in_time(one.xreplace(known) for one in self._parameter_switches)
        if curved is None:
            return straight
        at, fixed = np.array(values), np.array([given.get(n, nan) for n in self.inputs])
        found = zeros_between(lambda t: curved.value(t, np.zeros((len(t), 0)), at, fixed), *span)
        return tuple(sorted({*straight, *found}))

    @cached_property
    def _curved_switches(self) -> BatchedMap | None:
        """Expressions that are not linear in time and whose change of sign switches the right-hand side; None: none."""
        if not isinstance(self.rhs, BatchedMap):
            return None
        every = curved_in_time(self.rhs.expressions, (*self.parameters, *self.inputs))
        return BatchedMap(every, (), self.parameters, self.inputs) if every else None

    @cached_property
    def _parameter_switches(self) -> tuple[sympy.Expr, ...]:
        """Expressions of time, parameters and perhaps inputs whose change of sign switches the right-hand side."""
        if not isinstance(self.rhs, BatchedMap):
            return ()
        every = switches_with(self.rhs.expressions, (*self.parameters, *self.inputs))
        return tuple(one for one in every if names(one) & set(self.parameters))

    @cached_property
    def _switches(self) -> tuple[sympy.Expr, ...]:
        """Expressions of time and inputs whose change of sign switches the right-hand side."""
        return switches_with(self.rhs.expressions, self.inputs) if isinstance(self.rhs, BatchedMap) else ()

    @property
    def equations(self) -> dict[str, str]:
        """The right-hand side of each state as text, helpers written out."""
        return _texts(self.states, self.rhs)

    @property
    def observable_formulas(self) -> dict[str, str]:
        """The formula of each observable as text."""
        texts = _texts(self.observables, self.output)
        return {
            name: f"increment({text})" if name in self.increments else text for name, text in texts.items()
        }

    @property
    def written(self) -> list[tuple[str, str, bool]]:
        """(name, formula, whether it is a state) of every line as it was given, helpers too; empty for a function."""
        if self.text:
            return [(one.name, one.formula, one.is_state) for one in statements_of(self.text)]
        if isinstance(self.rhs, NumericMap):
            return []
        return [(state, formula, True) for state, formula in self.equations.items()]

    def unit(self, name: str) -> str:
        """The unit of a name, or an empty text; an observable that is just a state has the state's unit."""
        if name in self.units:
            return self.units[name]
        if name in self.states or name in self.increments or name not in self.observables:
            return ""
        if not (self.units and isinstance(self.output, BatchedMap)):
            return ""
        alone = self.output.expressions[self.observables.index(name)]
        return self.units.get(alone.name, "") if alone.is_Symbol and alone.name in self.states else ""

    @property
    def switching_parameters(self) -> tuple[str, ...]:
        """Parameters that occur in conditions only (`t < ts`): every derivative by them is zero."""
        if not (isinstance(self.rhs, BatchedMap) and isinstance(self.output, BatchedMap)):
            return ()
        expressions = (*self.rhs.expressions, *self.output.expressions)
        in_conditions = set().union(*map(names, expressions)) - names_outside_conditions(expressions)
        return tuple(n for n in self.parameters if n in in_conditions)

    @cached_property
    def state_jumps(self) -> tuple[StateJump, ...]:
        """Formulas at which the right-hand side jumps as a state changes; not known for a function."""
        return state_jumps(self.rhs) if isinstance(self.rhs, BatchedMap) else ()

    @property
    def dropped(self) -> dict[str, str]:
        """Name -> helper, for names that occur only in a helper that nothing uses: they are not parameters."""
        helpers = {name: formula for name, formula, is_state in self.written if not is_state}
        known = {"t", *self.states, *self.inputs, *self.parameters, *helpers}
        return {n: h for h, text in helpers.items() for n in names_in_order(text) if n not in known}

    def __repr__(self) -> str:
        parts = [f"states={list(self.states)}", f"parameters={list(self.parameters)}"]
        parts += [f"inputs={list(self.signals)}"] if self.signals else []
        parts += [f"covariates={list(self.covariates)}"] if self.covariates else []
        parts += [f"events={[one.text for one in self.events]}"] if self.events else []
        return f"Model({', '.join(parts)}, observables={list(self.observables)})"


def _read_events(
    texts: Sequence[EventText],
    states: tuple[str, ...],
    helpers: Helpers,
    order: Sequence[str],
    inputs: Sequence[str],
) -> tuple[tuple[Event, ...], list[str]]:
    """The events, and all names of equations and events in order; InputError for a misspelt name in a condition."""
    found, every = [], list(order)
    for one in texts:
        try:
            event, used = read_event(one, states, helpers)
            condition = names_in_order(one.condition)
            with concerning("model.in_event", one.condition, key=("equations",)):
                variables = (*states, *helpers, "t")
                _check_observable(condition, variables, {*order, *inputs, *helpers, *states, "t"}, False)
        except InputError as error:
            raise (error.at(key=("equations",), row=one.line) if one.line else error) from None
        found.append(event)
        every += used
    return tuple(found), every


def _checked_groups(states: Sequence[str], parameters: Sequence[str], inputs: Sequence[str]) -> Groups:
    return (
        _checked_names(states, "states"),
        _checked_names(parameters, "parameters"),
        _checked_names(inputs, "inputs"),
    )


def _fill(
    model: Model,
    groups: Groups,
    observables: tuple[str, ...],
    rhs: BatchedMap | NumericMap,
    output: BatchedMap | NumericMap,
    text: str,
    units: Mapping[str, str] | None,
    increments: tuple[str, ...] = (),
    covariates: tuple[str, ...] = (),
    infused: tuple[str, ...] = (),
    events: tuple[Event, ...] = (),
) -> None:
    """Set the fields of a frozen model."""
    times = breakpoints(rhs.expressions) if isinstance(rhs, BatchedMap) else ()
    known = ("t", *(name for group in (*groups, observables) for name in group))
    checked = _checked_units(units, known)
    values = (
        *groups,
        observables,
        rhs,
        output,
        times,
        text,
        checked,
        increments,
        covariates,
        infused,
        events,
    )
    for name, value in zip(Model.__dataclass_fields__, (*values, FrozenDict(), None), strict=True):
        object.__setattr__(model, name, value)


def _regroup(mapping: BatchedMap | NumericMap, groups: Groups) -> BatchedMap | NumericMap:
    if isinstance(mapping, BatchedMap):
        return BatchedMap(mapping.expressions, *groups)
    if mapping.inputs == groups[2]:
        return mapping
    if mapping.parameters != groups[1]:
        name = next(n for n in mapping.parameters if n not in groups[1])
        raise InputError("model.covariate_of_function", name)
    return replace(mapping, function=FewerInputs(mapping), takes_inputs=True, inputs=groups[2])


def _texts(rows: Sequence[str], mapping: BatchedMap | NumericMap) -> dict[str, str]:
    if isinstance(mapping, NumericMap):
        name = getattr(mapping.function, "__name__", "a function")
        return dict.fromkeys(rows, f"computed by the function {name}")
    return {row: to_text(e) for row, e in zip(rows, mapping.expressions, strict=True)}


def _checked_units(units: Mapping[str, str] | None, known: Sequence[str]) -> dict[str, str]:
    if units is None:
        return {}
    if not isinstance(units, Mapping):
        raise InputError("model.units_not_mapping", key=("units",), value=units)
    for name, unit in units.items():
        if name not in known:
            names, close = list(dict.fromkeys(known)), closest(str(name), known)
            raise InputError("model.unit_of_unknown", name, key=("units", name), known=names, close=close)
        if not isinstance(unit, str):
            raise InputError("model.unit_not_text", name, key=("units", name), value=unit)
    return dict(units)


def _checked_names(names: Sequence[str], kind: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InputError("model.one_text", kind, key=(kind,), value=names)
    names = tuple(names)
    for name in names:
        if not isinstance(name, str) or re.fullmatch(NAME, name) is None:
            raise InputError("model.not_a_name", kind, key=(kind,), value=name)
        with concerning("model.in_names", kind, key=(kind, name)):
            check_target(name)
    for name in names:
        if names.count(name) > 1:
            raise InputError("model.listed_twice", name, key=(kind, name), kind=kind)
    return names


def inside_increment(formula: object) -> str | None:
    """The formula inside `increment(...)`, if a text is that as a whole; else None."""
    found = (
        re.fullmatch(r"\s*increment\s*\((.*)\)\s*", formula, re.DOTALL) if isinstance(formula, str) else None
    )
    if found is None:
        return None
    depth = 0
    for one in found[1]:
        depth += (one == "(") - (one == ")")
        if depth < 0:  # as in increment(a) + f(b)
            return None
    return found[1]


def _without_increments(
    observables: Mapping[str, str] | Sequence[str] | None,
) -> tuple[Mapping[str, str] | Sequence[str] | None, tuple[str, ...]]:
    """Observables with the formulas inside `increment(...)`, and the names of those."""
    if not isinstance(observables, Mapping):
        return observables, ()
    inner = {name: inside_increment(formula) for name, formula in observables.items()}
    for name, formula in observables.items():
        text = formula if inner[name] is None else inner[name]
        if isinstance(text, str) and re.search(r"\bincrement\s*\(", text):
            raise InputError("model.increment_inside", name, key=("observables", name), text=formula)
    changes = tuple(name for name, text in inner.items() if text is not None)
    return {name: observables[name] if text is None else text for name, text in inner.items()}, changes


def _read_observables(
    observables: Mapping[str, str] | Sequence[str] | None,
    states: tuple[str, ...],
    helpers: Helpers,
    known: Sequence[str],
    complete: bool = False,
) -> tuple[dict[str, sympy.Expr], list[str]]:
    """Formulas by name, and the names that they use in order; `complete` forbids new parameters."""
    if observables is None:
        return {name: symbol(name) for name in states}, []
    if isinstance(observables, str):
        raise InputError("model.one_text", "observables", key=("observables",), value=observables)
    if not isinstance(observables, Mapping):
        for name in observables:
            if name not in (*states, *helpers):
                close = closest(str(name), [*states, *helpers])
                key = ("observables", name)
                raise InputError("model.observable_not_state", name, key=key, states=states, close=close)
        observables = {name: name for name in observables}
    if not observables:
        raise InputError("model.no_observables", key=("observables",))
    definitions = {name: expr for name, (expr, _) in helpers.items()}
    outputs, order = {}, []
    for name, formula in observables.items():
        if not isinstance(name, str) or not name.strip():
            raise InputError("model.observable_not_named", key=("observables",), value=name)
        with concerning("model.in_observable", name, key=("observables", name)):
            outputs[name] = parse(formula, definitions)
            used = names_in_order(formula)
            _check_observable(used, (*states, *helpers), {*known, *helpers, "t"}, complete)
        order += spell_out(used, helpers)
    return outputs, order


def _check_observable(used: Sequence[str], variables: Sequence[str], known: set[str], complete: bool) -> None:
    """Raise an InputError for a misspelt name; a name not in the equations may also be a new parameter.

    A name counts as misspelt if the formula has no state or helper at all, or if it is close to the name of one that
    the formula does not use.
    """
    absent = [v for v in variables if v not in used and len(v) >= 3]
    anchored = any(v in used for v in variables)
    unknowns = [n for n in used if n not in known]
    for unknown in unknowns:
        near = [v for v in absent if abs(len(v) - len(unknown)) <= 1]
        close = difflib.get_close_matches(unknown, near, n=1, cutoff=0.8)
        if (
            not (close or complete or anchored) and len(unknowns) > 1
        ):  # one is a state, misspelt; nobody knows which
            raise InputError("model.no_state_in_formula", names=unknowns, states=list(variables))
        if close or complete or not anchored:
            code = "model.undeclared_name" if complete else "model.unknown_name"
            raise InputError(code, unknown, close=closest(unknown, close or [*variables, *sorted(known)]))
