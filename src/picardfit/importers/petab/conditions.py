"""What the conditions of a PEtab problem set, and when: the values of constants and states in every period.

A run is simulated in periods. What is set at the beginning of the first one enters the initial values of the model.
Later periods find the values that the period before them left: constants that are set to other constants become inputs
with steps; states, and constants that are set to formulas of states, are reset, as events of the model do it
(importers/sbml/events.py). A reset has its time as an input, which lies after the end of runs that do not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import isfinite
from typing import NamedTuple

import numpy as np
import sympy

from picardfit.errors import InputError, closest
from picardfit.formulas.algebra import TIME, add, compare, multiply, names, symbol
from picardfit.formulas.grammar import RESERVED, names_in_order, parse
from picardfit.formulas.petab_math import PETAB
from picardfit.importers.petab.files import Value
from picardfit.importers.petab.tables import Run, Tables
from picardfit.importers.sbml import of_file
from picardfit.importers.sbml.events import Reset
from picardfit.importers.sbml.mathml import exact
from picardfit.importers.sbml.reader import Reader
from picardfit.importers.sbml.system import System, substitute
from picardfit.model.inputs import Constant, Input, Table

Key = Run | str  # an experiment, or (by the name of its condition) a pre-equilibration
Constants = dict[str, sympy.Expr | None]  # values by name; None: there is none
NewInput = Callable[[str, Mapping[Key, Input]], sympy.Symbol]


def spelled(name: str) -> str:
    """The name of a parameter here: those that mean something in formulas get a `_`, as in the SBML model."""
    return name + "_" if name == "t" or name in RESERVED else name


def _is_same(formula: sympy.Expr, other: sympy.Expr) -> float:
    return float(formula == other)


class Phase(NamedTuple):
    """From a time on, constants have these values."""

    begin: float
    values: Constants


class Change(NamedTuple):
    """What a run sets when a later period begins."""

    time: float
    condition: str


@dataclass
class Slot:
    """A change of several runs that resets the same way: its time and formulas in each run that has it."""

    order: float
    times: dict[Key, float] = field(default_factory=dict)
    values: dict[Run, dict[str, sympy.Expr]] = field(default_factory=dict)


class Conditions:
    """The values in every run; `system` is the model with the resets of all runs."""

    def __init__(self, tables: Tables, runs: Iterable[Run], reader: Callable[..., Reader]) -> None:
        """`reader`: makes a reader of the model."""
        self.tables, self.runs = tables, list(runs)
        self.taken = {*map(spelled, tables.parameters), *tables.observables, *tables.aliases}
        self._reader = reader(set_later=())
        base = self._read(lambda: self._reader.system(taken=self.taken))
        self._also = self._aliases(base)
        self.system = replace(base, spelling=base.spelling | self._also)
        self._model = self.system  # without the resets of runs
        self._jumping = self._find_jumping()
        self._make = reader
        self.slots: list[Slot] = []
        self.slot_times: list[sympy.Symbol] = []

    @property
    def has_events(self) -> bool:
        """Whether the model has events of its own."""
        return bool(self._reader.events)

    def _read(self, read: Callable[[], System]) -> System:
        """A system; errors name the file of the model."""
        return of_file(self.tables.model_file, read)

    def befores(self) -> list[str]:
        """Conditions of pre-equilibrations."""
        return list(dict.fromkeys(run.before for run in self.runs if run.before is not None))

    def keys(self) -> list[Key]:
        return [*self.runs, *self.befores()]

    # -- names

    def _aliases(self, system: System) -> dict[str, str]:
        """petabEntityId -> the name here of what it stands for in the model."""
        known = {*system.constants, *system.states, *system.definitions}
        found = {}
        for alias, (source, target) in self.tables.aliases.items():
            name = system.spelling.get(target, target)
            if name not in known:
                close = closest(target, known)
                raise source.at(InputError("importers.mapping_unknown", target, close=close))
            if system.spelling.get(alias, alias) in known and alias != target:
                raise source.at(InputError("importers.mapping_taken", alias))
            found[alias] = name
        return found

    def _identifier(self, name: str) -> str:
        """What the model calls an entity of the tables."""
        return self.tables.aliases[name][1] if name in self.tables.aliases else name

    # -- what moves

    def _changes(self, run: Run) -> list[Change]:
        """The changes after the first period of a run, where those of earlier periods stay in force."""
        if not self.tables.lasting:
            return []
        first = [] if run.before is None else [Change(run.begin, run.condition)]
        return [*first, *(Change(*one) for one in run.later)]

    def _find_jumping(self) -> set[str]:
        """Identifiers that later periods set and that are states, or have to be because states determine them."""
        set_there = [
            (self._identifier(entity), value)
            for run in self.runs
            for change in self._changes(run)
            for entity, value in self.tables.conditions[change.condition].values.items()
        ]
        varying = self._reader.varying()
        found: set[str] = set()
        while True:
            more = {
                entity
                for entity, value in set_there
                if entity in varying or self._identifiers(value) & (varying | found)
            }
            if more <= found:
                return {one for one in found if one in self._reader.spelling}
            found |= more

    def _identifiers(self, value: Value) -> set[str]:
        if isinstance(value, float):
            return set()
        found = (n for n in names_in_order(value, PETAB) if n not in self.tables.parameters)
        return {self._identifier(name) for name in found}

    # -- values

    def cell(self, value: Value, current: Mapping[str, sympy.Expr | None], time: float = 0.0) -> sympy.Expr:
        """A number, the value of a parameter, or a formula of such and of what is `current`, by name in the system."""
        if isinstance(value, float):
            if not isfinite(value):
                raise InputError("importers.cell_not_finite", value=value)
            return exact(value)
        parts = {name: self._part(name, current, time) for name in names_in_order(value, PETAB)}
        found = parse(value, parts, PETAB)
        if found.is_infinite:
            raise InputError("importers.cell_not_finite", value=float(found))
        return found

    def parameter(self, name: str) -> sympy.Expr:
        """A parameter of the table: its symbol, or its value where it is fixed."""
        row = self.tables.parameters[name]
        return symbol(spelled(name)) if row.nominal is None or row.estimated else exact(row.nominal)

    def _part(self, name: str, current: Mapping[str, sympy.Expr | None], time: float) -> sympy.Expr:
        if name in self.tables.parameters:
            return self.parameter(name)
        inside = self._model.spelling.get(name, name)
        known = {*self._model.constants, *self._model.states, *self._model.definitions}
        if name == "time" and inside not in known:
            return exact(time)
        value = current.get(inside)
        if value is None and inside in self._model.definitions:
            formula = self._model.definitions[inside]
            parts = {symbol(n): current.get(n) for n in names(formula) if n != "t"}
            if None not in parts.values():
                value = substitute(formula, {**parts, TIME: exact(time)})
        if value is None:
            close = closest(name, self.tables.parameters)
            raise InputError("importers.no_parameter", name, close=close)
        return value

    @cached_property
    def defaults(self) -> Constants:
        """The values of the model with the parameter table alone."""
        return self._model.start(self._of_parameters)

    @cached_property
    def _of_parameters(self) -> dict[str, sympy.Expr]:
        inside = {n: self._model.spelling.get(n, n) for n in self.tables.parameters}
        return {one: self.parameter(n) for n, one in inside.items() if one in self._model.constants}

    def given(self, condition: str, current: Mapping[str, sympy.Expr | None], time: float) -> dict:
        """What a condition sets, by name in the system or of a new constant."""
        one, found = self.tables.conditions[condition], {}
        for entity, value in one.values.items():
            try:
                self._check_cell(value)
                found[self._model.spelling.get(entity, entity)] = self.cell(value, current, time)
            except InputError as error:
                raise one.at(error.within("importers.in_condition", condition)) from None
        return found

    def _check_cell(self, value: Value) -> None:
        """In version 1, a cell of the condition table depends on parameters and constants alone."""
        if self.tables.lasting or isinstance(value, float):
            return
        found, spelling = names_in_order(value, PETAB), self._model.spelling
        fixed = {*self.tables.parameters, *(n for n in found if spelling.get(n, n) in self._model.constants)}
        if unknown := [n for n in found if n not in fixed]:
            if unknown == [value]:
                close = closest(value, self.tables.parameters)
                raise InputError("importers.no_parameter", value, close=close)
            raise InputError("importers.formula_of_cell", value, names=unknown)

    def start(self, run: Key) -> Constants:
        """The value of every constant in the first period of a run, and of every state at its start."""
        if isinstance(run, str) or (self.tables.lasting and run.before is not None):
            name = run if isinstance(run, str) else run.before
            return self._start(name, {}, 0.0)
        before = {} if run.before is None else self.given(run.before, self.defaults, run.begin)
        kept = {n: e for n, e in before.items() if n in self.system.species}  # if the run does not set them
        return self._start(run.condition, kept, run.begin)

    def _start(self, condition: str | None, kept: Mapping[str, sympy.Expr], time: float) -> Constants:
        own = {} if condition is None else self.given(condition, self.defaults, time)
        return self.system.start({**self._of_parameters, **kept, **own})

    def phases(self, run: Key) -> list[Phase]:
        """The values of constants in all periods of an experiment, or of a pre-equilibration."""
        current = self.start(run)
        if isinstance(run, str):
            return [Phase(0.0, current)]
        found = [] if run.before is not None and self.tables.lasting else [Phase(run.begin, current)]
        for change in self._changes(run):
            current = current | self._constants(change, current)
            found.append(Phase(change.time, current))
        return found

    def _constants(self, change: Change, current: Constants) -> dict[str, sympy.Expr]:
        """The constants that a change sets to constants."""
        one, found = self.tables.conditions[change.condition], {}
        for entity, value in one.values.items():
            if self._identifier(entity) not in self._jumping:
                inside = self._model.spelling.get(entity, entity)
                try:
                    found[inside] = self.cell(value, current, change.time)
                except InputError as error:
                    raise one.at(error.within("importers.in_condition", change.condition)) from None
        return found

    def initial(self, run: Key, start: Constants) -> dict[str, sympy.Expr | None]:
        """The initial states of a run; after a pre-equilibration only those that the simulation sets again."""
        states, origins = self.system.states, self.system.origins
        if isinstance(run, str) or run.before is None:
            return {state: start[state] for state in states}
        if self.tables.lasting:
            if self._depends_on_states(Change(run.begin, run.condition)):
                return {}
            set_again = self.given(run.condition, start, run.begin)
            known = set(set_again)
        else:
            set_again = start
            known = {*self.given(run.condition, self.defaults, run.begin), *self._of_parameters}
            known |= {*self.system.constants}
        return {s: set_again[origins.get(s, s)] for s in states if origins.get(s, s) in known}

    # -- resets

    def _depends_on_states(self, change: Change) -> bool:
        """Whether a change sets something to a formula of what varies in time."""
        varying = self._reader.varying() | self._jumping
        values = self.tables.conditions[change.condition].values.values()
        return any(self._identifiers(value) & varying for value in values)

    def add_resets(self, new_input: NewInput) -> None:
        """Take the resets of all runs into the system; `new_input` makes the inputs that hold their times."""
        self.slots = self._find_slots()
        if not self.slots:
            if self._jumping - set(self._reader.states):
                self._rebuild(self._with_jumps, [])
            return
        reader = self._with_jumps
        resets = []
        for number, slot in enumerate(self.slots, 1):
            time = self._slot_time(slot, number, new_input)
            values = {}
            for identifier in dict.fromkeys(i for one in slot.values.values() for i in one):
                own = reader.meaning(identifier)
                each = {run: one.get(identifier, own) for run, one in slot.values.items()}
                values[reader.name(identifier)] = self.choice(
                    f"{identifier}_set", {run: [(0.0, e)] for run, e in each.items()}, new_input
                )
            resets.append(Reset(f"period {number}", time, values, slot.order))
        self._rebuild(reader, resets)

    @cached_property
    def _with_jumps(self) -> Reader:
        return self._make(set_later=self._jumping)

    def _rebuild(self, reader: Reader, resets: list[Reset]) -> None:
        inputs = {n for reset in resets for e in (reset.time, *reset.values.values()) for n in names(e)}
        system = self._read(lambda: reader.system(resets, self.taken | inputs))
        self.system = replace(system, spelling=system.spelling | self._also)

    def _slot_time(self, slot: Slot, number: int, new_input: NewInput) -> sympy.Expr:
        never = self._never()
        times = {key: slot.times.get(key, never) for key in self.keys()}
        if len(set(times.values())) == 1:
            return exact(next(iter(times.values())))
        made = new_input(f"period_{number}_begin", {key: Constant(t) for key, t in times.items()})
        self.slot_times.append(made)
        return made

    def _never(self) -> float:
        """A time after the end of all runs."""
        last = [row.time for row in self.tables.measurements]
        return 1.0 + max([*last, *(t for run in self.runs for t, _ in run.later)])

    def _find_slots(self) -> list[Slot]:
        """The resets of all runs: the n-th of each is one, or where the model has resets too, those at one time."""
        found: dict[float, Slot] = {}
        for run in self.runs:
            current, number = self.start(run), 0
            for change in self._changes(run):
                at_start = run.before is not None and change.time == run.begin
                if not at_start or self._depends_on_states(change):
                    values = self._resets_of(change, current)
                    if values and run.steady:
                        raise self._refusal(change, "importers.rest_after_reset")
                    if values:
                        key = change.time if self._reader.events else float(number)
                        slot = found.setdefault(key, Slot(key))
                        slot.times[run], slot.values[run] = change.time, values
                        number += 1
                current = current | self._constants(change, current)
        return [found[key] for key in sorted(found)]

    def _refusal(self, change: Change, code: str) -> InputError:
        return self.tables.conditions[change.condition].at(InputError(code, change.condition))

    def _resets_of(self, change: Change, current: Constants) -> dict[str, sympy.Expr]:
        """identifier -> formula in states, of what a change resets."""
        one, found = self.tables.conditions[change.condition], {}
        for entity, value in one.values.items():
            identifier = self._identifier(entity)
            if identifier in self._jumping:
                try:
                    found[identifier] = self._formula_of_states(value, current, change.time)
                except InputError as error:
                    raise one.at(error.within("importers.in_condition", change.condition)) from None
        return found

    def _formula_of_states(self, value: Value, current: Constants, time: float) -> sympy.Expr:
        """A formula in the names of the model; constants have the values of the period before."""
        if isinstance(value, float):
            return self.cell(value, {})
        reader = self._with_jumps
        parts = {}
        for name in names_in_order(value, PETAB):
            identifier = self._identifier(name)
            if name in self.tables.parameters or identifier not in reader.spelling:
                parts[name] = self._part(name, current, time)
            else:
                moving = {*map(reader.name, reader.states), "t"}
                meaning = reader.meaning(identifier)
                constants = {symbol(n): current.get(n) for n in names(meaning) - moving}
                lost = [s.name for s, e in constants.items() if e is None]
                if lost:
                    raise InputError("importers.no_value", lost[0])
                parts[name] = substitute(meaning, constants)
        return parse(value, parts, PETAB)

    # -- values that differ between runs

    def choice(
        self, name: str, values: Mapping[Key, list[tuple[float, sympy.Expr]]], new_input: NewInput
    ) -> sympy.Expr:
        """An expression that holds in every run: with inputs where runs or periods differ.

        `values`: (begin, expression) of the periods of each run. Runs without an entry may have any value.
        """
        distinct = list(dict.fromkeys(e for periods in values.values() for _, e in periods))
        if len(distinct) == 1:
            return distinct[0]
        terms = []
        numbers = self._signals(values, lambda e: float(e) if e.is_number else 0.0)
        if any(float(e) for e in distinct if e.is_number):
            terms.append(new_input(name, numbers))
        for formula in (e for e in distinct if not e.is_number):
            text = "_".join(sorted(names(formula)))
            chosen = self._signals(values, partial(_is_same, formula))
            terms.append(multiply(new_input(f"{name}_is_{text}", chosen), formula))
        return add(*terms)

    def _signals(
        self,
        values: Mapping[Key, list[tuple[float, sympy.Expr]]],
        number: Callable[[sympy.Expr], float],
    ) -> dict[Key, Input]:
        found: dict[Key, Input] = {key: Constant(0.0) for key in self.keys()}
        for key, periods in values.items():
            steps = [number(e) for _, e in periods]
            same = len(set(steps)) == 1
            found[key] = (
                Constant(steps[0]) if same else Table(np.array([t for t, _ in periods]), np.array(steps))
            )
        return found

    def time_free(self, rate: sympy.Expr) -> bool:
        """Whether a rate or trigger does not depend on time besides the periods of runs."""
        if rate in [TIME - one for one in self.slot_times]:
            return True
        open_ends = {compare(">=", TIME, one): sympy.false for one in self.slot_times}
        return TIME not in rate.xreplace(open_ends).free_symbols
