"""The tables of a PEtab problem -> Problem.

Every pair of conditions (pre-equilibration, simulation) is an experiment. What the condition table sets to numbers
that differ between experiments becomes an input of the model, constant in each; what it sets to parameters is chosen
by inputs that are 0 or 1. Placeholders (observableParameter1_..., noiseParameter1_...) that name parameters give one
observable for each combination; those that are numbers become inputs defined at the sampling times. Measurements at
time inf belong to an experiment that begins at its steady state.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from math import e as EULER

import numpy as np
import sympy

from picardfit.errors import InputError, closest
from picardfit.formulas.algebra import names, symbol
from picardfit.formulas.grammar import names_in_order, to_text
from picardfit.formulas.petab_math import PETAB
from picardfit.importers.petab.conditions import Conditions, Key, Phase, spelled
from picardfit.importers.petab.files import Value
from picardfit.importers.petab.parameters import as_parameter
from picardfit.importers.petab.tables import ObservableRow, Run, Tables
from picardfit.importers.sbml import reader_of
from picardfit.importers.sbml.reader import Reader
from picardfit.importers.sbml.system import System, substitute, with_values
from picardfit.model.events import Event
from picardfit.model.inputs import Constant, Input, Table
from picardfit.model.model import Model
from picardfit.model.noise_models import Laplace, LogNormal, Noise
from picardfit.problem.experiment import Experiment
from picardfit.problem.problem import Problem
from picardfit.problem.rest import Rest

BASES = {"lin": None, "log": EULER, "log10": 10.0}


def observable_members(tables: Tables, taken: set[str]) -> dict[str, list[int]]:
    """Observable of the problem -> its rows of the measurement table.

    Measurements of one observable share it when their placeholders name the same parameters and no two at one time
    have different numbers. Where that takes several, they are called observable_1, observable_2, ...
    """
    groups: dict[tuple[str, tuple[str | None, ...], int], list[int]] = {}
    numbers_at: dict[tuple, tuple[float, ...]] = {}
    for k, row in enumerate(tables.measurements):
        values = (*row.observable_parameters, None, *row.noise_parameters)
        words = tuple(None if isinstance(v, float) else v or "" for v in values)
        numbers = tuple(v for v in values if isinstance(v, float))
        layer = 0  # separates different numbers at one time
        while numbers_at.setdefault((row.observable, words, layer, row.run, row.time), numbers) != numbers:
            layer += 1
        groups.setdefault((row.observable, words, layer), []).append(k)
    sizes = Counter(observable for observable, _, _ in groups)
    found: dict[str, list[int]] = {}
    for (observable, _, _), members in groups.items():
        name = observable
        if sizes[name] > 1 or name in taken - tables.observables.keys():
            numbered = (f"{observable}_{n}" for n in count(1))
            name = next(one for one in numbered if one not in found and one not in taken)
        found[name] = members
    return found


@dataclass(frozen=True, eq=False)
class Content:
    """The formulas of a problem in states, parameters and inputs."""

    rates: dict[str, sympy.Expr]
    events: tuple[Event, ...]
    outputs: dict[str, sympy.Expr]
    noise: dict[str, sympy.Expr]
    initial: Mapping[Key, Mapping[str, sympy.Expr | None]]

    @property
    def names(self) -> set[str]:
        """The names in the model."""
        formulas = map(names, (*self.rates.values(), *self.outputs.values()))
        return set().union(*formulas, *(one.names for one in self.events))

    @property
    def of_noise(self) -> set[str]:
        return set().union(*map(names, self.noise.values()))

    @property
    def of_start(self) -> set[str]:
        """The names in formulas of initial states."""
        formulas = (e for one in self.initial.values() for e in one.values() if e is not None)
        return set().union(*map(names, formulas))


class Import:
    """The steps from tables to problem; intermediate results are expressions in states, parameters and inputs."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.runs = list(dict.fromkeys(row.run for row in tables.measurements))
        self.conditions = Conditions(tables, self.runs, self._reader)
        self.estimated = {spelled(n) for n, row in tables.parameters.items() if row.estimated}
        self.columns = sorted({entity for one in tables.conditions.values() for entity in one.values})
        system = self.system
        self.taken = {*system.states, *system.constants, *system.definitions, *self.estimated}
        self.taken |= {"t", "time", *tables.observables, *map(spelled, tables.parameters)}
        self.inputs: dict[str, Mapping[Key, Input]] = {}  # input -> runs -> what it is there
        self.members = observable_members(tables, self.taken)
        self._rows_of_run: dict[tuple[Run, str], list[int]] = defaultdict(list)  # of a run and an observable
        for name, members in self.members.items():
            for k in members:
                self._rows_of_run[tables.measurements[k].run, name].append(k)
        self._check_parameters()
        self._check_columns()
        self.conditions.add_resets(self._new_input)
        self._check_steady()
        self._check_begins()

    @property
    def system(self) -> System:
        return self.conditions.system

    def _reader(self, set_later: Iterable[str]) -> Reader:
        return reader_of(self.tables.document, self.tables.model_file, set_later, at_rest=True)

    def result(self) -> tuple[Problem, tuple[tuple[str, str], ...], tuple[str, ...]]:
        """The problem, experiment and observable of every measurement, and parameters that nothing uses."""
        content = self._content()
        used = content.names | content.of_noise
        inputs = [name for name in self.inputs if name in used]
        everything = [spelled(name) for name in self.tables.parameters]
        idle = {name for name in everything if name not in used | content.of_start}
        own = [name for name in everything if name in content.names | idle]
        rows = {spelled(name): row for name, row in self.tables.parameters.items()}
        model = Model.from_expressions(content.rates, content.outputs, own, inputs, events=content.events)
        problem = Problem(
            model,
            [self._experiment(run, content.initial, inputs) for run in self.runs],
            parameters={name: as_parameter(row, name in idle) for name, row in rows.items()},
            noise={name: self._noise(name, level) for name, level in content.noise.items()},
            nominal={name: row.nominal for name, row in rows.items() if row.nominal is not None},
        )
        return problem, self._places(), tuple(n for n in everything if n in idle & self.estimated)

    def _content(self) -> Content:
        """The formulas of the problem, in which what differs between runs is an input."""
        keys = self.conditions.keys()
        phases = {key: self.conditions.phases(key) for key in keys}
        constants = {symbol(n): self._constant(n, phases) for n in self._used_constants()}
        outputs, noise = self._observables(constants)
        rates = {state: substitute(rate, constants) for state, rate in self.system.rates.items()}
        initial = {key: self.conditions.initial(key, self.conditions.start(key)) for key in keys}
        if not rates:  # a model without dynamics: something that stays as it is
            still = next(one for k in count() if (one := "still" + "_" * k) not in self.taken)
            rates, initial = {still: sympy.S.Zero}, {key: {still: sympy.S.Zero} for key in keys}
        events = tuple(with_values(one, constants) for one in self.system.events)
        return Content(rates, events, outputs, noise, initial)

    def _places(self) -> tuple[tuple[str, str], ...]:
        """The experiment and observable of every measurement."""
        name_of = {k: name for name, members in self.members.items() for k in members}
        return tuple((row.run.name, name_of[k]) for k, row in enumerate(self.tables.measurements))

    # -- conditions

    def _check_parameters(self) -> None:
        """The parameter table gives values of constants; what moves or follows a rule would ignore them."""
        varying = {*self.system.states, *self.system.definitions, *self.system.origins.values()}
        for name, row in self.tables.parameters.items():
            if self.system.spelling.get(name, name) in varying - self.system.constants.keys():
                raise row.source.at(InputError("importers.parameter_varies", name))

    def _check_columns(self) -> None:
        known = {*self.system.definitions, *self.system.constants, *self.system.states}
        begins = {*self.system.constants, *self.system.origins.values()}
        formulas = " ".join(f"{row.formula} {row.noise}" for row in self.tables.observables.values())
        for entity in self.columns:
            name = self.system.spelling.get(entity, entity)
            source = next(one for one in self.tables.conditions.values() if entity in one.values)
            if name in self.system.definitions and name not in begins:
                raise source.at(InputError("importers.condition_sets_rule", entity))
            used = re.search(rf"\b{re.escape(entity)}\b", formulas)
            if name not in known and entity not in self.tables.parameters and not used:
                close = closest(entity, known)
                raise source.at(InputError("importers.condition_sets_unknown", entity, close=close))
            if self.tables.lasting and entity in self.tables.parameters:
                raise source.at(InputError("importers.condition_sets_parameter", entity))

    def _check_steady(self) -> None:
        """A system has a steady state only if its equations and events do not change with time."""
        formulas = [*self.system.rates.items()]
        formulas += [(one.assignments[0][0], one.trigger) for one in self.system.events]
        moving = [state for state, formula in formulas if not self.conditions.time_free(formula)]
        for row in self.tables.measurements:
            if row.run.steady and moving:
                raise row.source.at(InputError("importers.never_at_rest", row.observable, state=moving[0]))

    def _check_begins(self) -> None:
        """An event at a time before the beginning of a run would happen, or not, as the trigger begins.

        Where events wait for states, all of them see whether their condition held before.
        """
        events = self.conditions.has_events and not self.system.events
        for row in self.tables.measurements:
            if events and row.run.begin != 0:
                raise row.source.at(InputError("importers.events_before_begin", row.run.name))

    def _used_constants(self) -> list[str]:
        """Constants of the model, and columns of the condition table that only formulas of observables use."""
        known = {*self.system.constants, *self.system.states, *self.system.spelling}
        known |= set(self.system.origins.values())
        return [
            *self.system.constants,
            *(c for c in self.columns if c not in known and c not in self.estimated),
        ]

    def _constant(self, name: str, phases: Mapping[Key, list[Phase]]) -> sympy.Expr:
        """A constant as an expression that holds in every run: with inputs where the runs differ."""
        every = {key: [(one.begin, one.values.get(name)) for one in found] for key, found in phases.items()}
        values = {key: [(t, e) for t, e in found if e is not None] for key, found in every.items()}
        if values != every:
            return symbol(name)  # without a value; an error only if something uses it
        return self.conditions.choice(name, values, self._new_input)

    def _new_input(self, name: str, signals: Mapping[Key, Input]) -> sympy.Symbol:
        """The symbol of an input; the name of a constant is free for it unless it is estimated as well."""
        free = name in self.system.constants and name not in map(spelled, self.tables.parameters)
        while name in self.inputs or (name in self.taken and not free):
            name, free = name + "_", False
        self.inputs[name] = signals
        return symbol(name)

    # -- observables

    def _observables(self, constants: Mapping) -> tuple[dict[str, sympy.Expr], dict[str, sympy.Expr]]:
        """The formulas of all observables, and those of their noise."""
        outputs, noise = {}, {}
        inside = {*self.system.constants, *self.system.spelling}
        also = {n: self.conditions.parameter(n) for n in self.tables.parameters if n not in inside}
        also |= {c: symbol(c) for c in self._used_constants() if c not in self.system.constants}
        for name, members in self.members.items():
            row = self._row_of(name)
            others = self._own_formulas(row, row.formula, also)
            holders = {**also, **self._placeholders(name, row, members)}
            formula = self._formula(row, "importers.in_observable", row.formula, {**others, **holders})
            own = {**also, **self._own_formulas(row, row.noise, also), row.name: formula, **holders}
            level = self._formula(row, "importers.in_noise", row.noise, own)
            outputs[name] = substitute(formula, constants)
            noise[name] = substitute(level, constants)
            self._check_complete(outputs[name], row, "importers.in_observable")
            self._check_complete(noise[name], row, "importers.in_noise")
        return outputs, noise

    def _row_of(self, name: str) -> ObservableRow:
        """The row of the observable table that an observable of the problem comes from."""
        return self.tables.observables[self.tables.measurements[self.members[name][0]].observable]

    def _formula(
        self, row: ObservableRow, context: str, text: str, also: Mapping[str, sympy.Expr]
    ) -> sympy.Expr:
        """A formula of the observable table; `context`: the code of what it belongs to."""
        try:
            return self.system.formula(text, also, PETAB)
        except InputError as error:
            raise row.source.at(error.within(context, row.name)) from None

    def _own_formulas(
        self,
        owner: ObservableRow,
        text: str,
        also: Mapping[str, sympy.Expr],
        waiting: tuple[str, ...] = (),
    ) -> dict[str, sympy.Expr]:
        """Formulas of the observables that a formula names, besides the one that it belongs to."""
        found = {}
        model = {*self.system.constants, *self.system.states, *self.system.definitions, *also}
        for name in names_in_order(text, PETAB):
            row = self.tables.observables.get(name)
            if row is None or name in model or (name == owner.name and not waiting and text == owner.noise):
                continue
            if row is owner or name in waiting:
                raise owner.source.at(InputError("importers.circular_observables", owner.name))
            inner = self._own_formulas(row, row.formula, also, (*waiting, owner.name, name))
            if not row.observable_holders:
                found[name] = self._formula(row, "importers.in_observable", row.formula, {**also, **inner})
        return found

    def _check_complete(self, expr: sympy.Expr, row: ObservableRow, context: str) -> None:
        known = {"t", *self.system.states, *self.inputs, *self.estimated}
        for name in sorted(names(expr) - known):
            raise row.source.at(InputError("importers.no_value_anywhere", name).within(context, row.name))

    def _placeholders(self, name: str, row: ObservableRow, members: list[int]) -> dict[str, sympy.Expr]:
        """What observableParameterN_<id> and noiseParameterN_<id> stand for in one observable."""
        found = {}
        for kind in ("observable", "noise"):
            every = [getattr(self.tables.measurements[k], f"{kind}_parameters") for k in members]
            for n, holder in enumerate(getattr(row, f"{kind}_holders")):
                values = [one[n] for one in every]
                if isinstance(values[0], str) or len(set(values)) == 1:
                    found[holder] = self._placeholder(values[0], members[0])
                else:
                    signals = self._marks(members, values)
                    found[holder] = self._new_input(f"{kind}Parameter{n + 1}_{name}", signals)
        return found

    def _placeholder(self, value: Value, member: int) -> sympy.Expr:
        try:
            return self.conditions.cell(value, {})
        except InputError as error:
            raise self.tables.measurements[member].source.at(error) from None

    def _marks(self, members: list[int], values: list[float]) -> dict[Key, Input]:
        """Numbers that belong to measurements, as an input of each experiment."""
        signals: dict[Key, Input] = dict.fromkeys(self.conditions.keys(), Constant(values[0]))
        marks: dict[Run, dict[float, float]] = defaultdict(dict)
        for k, value in zip(members, values, strict=True):
            marks[self.tables.measurements[k].run][self.tables.measurements[k].time] = value
        for run, mine in marks.items():
            if len(set(mine.values())) == 1:
                signals[run] = Constant(next(iter(mine.values())))
            elif mine:
                signals[run] = Table(np.array(list(mine)), np.array(list(mine.values())), kind="marks")
        return signals

    def _noise(self, name: str, level: sympy.Expr) -> Noise | LogNormal | Laplace:
        row = self._row_of(name)
        if level.is_number and not level > 0:
            raise row.source.at(InputError("importers.noise_not_positive", row.name, value=float(level)))
        spec = float(level) if level.is_number else to_text(level)
        base = BASES[row.transformation]
        if row.distribution == "laplace":
            return Laplace(scale=spec, base=base)
        return Noise(additive=spec) if base is None else LogNormal(sigma=spec, base=base)

    # -- experiments

    def _experiment(self, run: Run, initial: Mapping[Key, Mapping], inputs: list[str]) -> Experiment:
        observations = {}
        for name in self.members:
            if mine := [self.tables.measurements[k] for k in self._rows_of_run.get((run, name), ())]:
                observations[name] = [row.time for row in mine], [row.value for row in mine]
        signals = {name: self.inputs[name][run] for name in inputs}
        own = self._specs(initial[run], run.condition)
        rest = None
        if run.before is not None:
            before = {name: self.inputs[name][run.before] for name in inputs}
            rest = Rest(before, self._specs(initial[run.before], run.before))
        if run.steady:  # the experiment begins at its steady state, and everything is measured there
            rest, own = Rest(signals, own, after=rest), {}
        return Experiment(None, observations, run.name, signals, own, t0=run.begin, rest=rest)

    def _specs(self, values: Mapping[str, sympy.Expr | None], condition: str) -> dict[str, float | str]:
        """Initial values in a condition, as Experiment takes them."""
        found: dict[str, float | str] = {}
        for name, value in values.items():
            if value is None:
                error = InputError("importers.no_initial_value", name, condition=condition)
                raise self.tables.conditions[condition].at(error)
            found[name] = float(value) if value.is_number else to_text(value)
        return found
