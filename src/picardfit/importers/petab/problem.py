"""The tables of a PEtab problem -> Problem.

Every pair of conditions (pre-equilibration, simulation) is an experiment. What the condition table sets to numbers
that differ between experiments becomes an input of the model, constant in each; what it sets to parameters is chosen
by inputs that are 0 or 1. Placeholders (observableParameter1_..., noiseParameter1_...) that name parameters give one
observable for each combination; those that are numbers become inputs defined at the sampling times. Measurements at
time inf belong to an experiment that begins at its steady state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from math import e as EULER
from math import isfinite

import numpy as np
import sympy

from picardfit.errors import InputError, closest
from picardfit.formulas.algebra import TIME, add, multiply, names, symbol
from picardfit.formulas.grammar import RESERVED, names_in_order, parse, to_text
from picardfit.importers.petab.files import Value
from picardfit.importers.petab.tables import ObservableRow, ParameterRow, Run, Tables
from picardfit.importers.sbml import from_document
from picardfit.importers.sbml.mathml import exact
from picardfit.importers.sbml.system import System, substitute
from picardfit.model import priors
from picardfit.model.inputs import Constant, Input, Table
from picardfit.model.model import Model
from picardfit.model.noise_models import Laplace, LogNormal, Noise
from picardfit.model.parameters import Parameter
from picardfit.model.priors import Prior
from picardfit.problem.experiment import Experiment
from picardfit.problem.problem import Problem
from picardfit.problem.rest import Rest

BASES = {"lin": None, "log": EULER, "log10": 10.0}


def spelled(name: str) -> str:
    """The name of a parameter here: those that mean something in formulas get a `_`, as in the SBML model."""
    return name + "_" if name == "t" or name in RESERVED else name


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


class Import:
    """The steps from tables to problem; intermediate results are expressions in states, parameters and inputs."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.system: System = from_document(tables.document, tables.model_file)
        self.estimated = {spelled(n) for n, row in tables.parameters.items() if row.estimated}
        self.runs = list(dict.fromkeys(row.run for row in tables.measurements))
        self.columns = sorted({entity for one in tables.conditions.values() for entity in one.values})
        self.taken = {*self.system.states, *self.system.constants, *self.system.definitions, *self.estimated}
        self.taken |= {"t", "time", *tables.observables, *map(spelled, tables.parameters)}
        self.inputs: dict[str, Mapping[Run | str, Input]] = {}  # input -> runs -> what it is there
        self.members = observable_members(tables, self.taken)
        self._check_columns()
        self._check_steady()

    def result(self) -> tuple[Problem, tuple[tuple[str, str], ...], tuple[str, ...]]:
        """The problem, experiment and observable of every measurement, and parameters that nothing uses."""
        # a run is an experiment, or (by the name of its condition) a pre-equilibration
        runs: list[Run | str] = [*self.runs, *self._befores()]
        for event in self.system.events:
            raise InputError("importers.petab_events", event.condition)
        starts = {run: self._start(run) for run in runs}
        constants = {symbol(n): self._constant(n, starts) for n in self._used_constants()}
        outputs, noise = self._observables(constants)
        rates = {state: substitute(rate, constants) for state, rate in self.system.rates.items()}
        used = set().union(*map(names, (*rates.values(), *outputs.values(), *noise.values())))
        inputs = [name for name in self.inputs if name in used]
        in_model = set().union(*map(names, (*rates.values(), *outputs.values())))
        everything = [spelled(n) for n in self.tables.parameters]
        in_start = set().union(
            *(names(e) for run in runs for e in self._initial_states(run, starts).values() if e is not None)
        )
        idle = {n for n in everything if n not in used | in_start}
        own = [n for n in everything if n in in_model or n in idle]
        model = Model.from_expressions(rates, outputs, own, inputs)
        parameters = {
            spelled(n): _parameter(row, spelled(n) in idle) for n, row in self.tables.parameters.items()
        }
        problem = Problem(
            model,
            [self._experiment(run, starts, inputs) for run in self.runs],
            parameters=parameters,
            noise={name: self._noise(name, level) for name, level in noise.items()},
            nominal={
                spelled(n): row.nominal
                for n, row in self.tables.parameters.items()
                if row.nominal is not None
            },
        )
        name_of = {k: name for name, members in self.members.items() for k in members}
        places = tuple((row.run.name, name_of[k]) for k, row in enumerate(self.tables.measurements))
        return problem, places, tuple(n for n in everything if n in idle & self.estimated)

    def _befores(self) -> list[str]:
        """Conditions of pre-equilibrations."""
        return list(dict.fromkeys(run.before for run in self.runs if run.before is not None))

    # -- conditions

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

    def _check_steady(self) -> None:
        """A system has a steady state only if its equations do not change with time."""
        moving = [state for state, rate in self.system.rates.items() if TIME in rate.free_symbols]
        for row in self.tables.measurements:
            if row.run.steady and moving:
                raise row.source.at(InputError("importers.never_at_rest", row.observable, state=moving[0]))

    def _cell(self, value: Value) -> sympy.Expr:
        """A number, the value of a parameter, or a formula of such."""
        if isinstance(value, float):
            if not isfinite(value):
                raise InputError("importers.cell_not_finite", value=value)
            return exact(value)
        if value in self.tables.parameters:
            row = self.tables.parameters[value]
            return symbol(spelled(value)) if row.nominal is None or row.estimated else exact(row.nominal)
        constant = self.system.constants.get(self.system.spelling.get(value, value))
        if constant is not None:
            return exact(constant)
        if re.fullmatch(r"[^\W\d]\w*", value) is not None:
            close = closest(value, self.tables.parameters)
            raise InputError("importers.no_parameter", value, close=close)
        found = names_in_order(value)
        unknown = [n for n in found if n not in self.tables.parameters and n not in self.system.constants]
        if unknown:
            raise InputError("importers.formula_of_cell", value, names=unknown)
        return parse(value, definitions={name: self._cell(name) for name in found})

    def _given(self, condition: str) -> dict[str, sympy.Expr]:
        """The values that the parameter table and a condition give, by name in the system or of a new constant."""
        spelling = self.system.spelling
        given = {}
        for name in self.tables.parameters:
            if spelling.get(name, name) in self.system.constants:
                given[spelling.get(name, name)] = self._cell(name)
        one = self.tables.conditions[condition]
        for entity, value in one.values.items():
            try:
                given[spelling.get(entity, entity)] = self._cell(value)
            except InputError as error:
                raise one.at(error.within("importers.in_condition", condition)) from None
        return given

    def _start(self, run: Run | str) -> dict[str, sympy.Expr | None]:
        """The value of every constant in a run, and of every state at its start."""
        if isinstance(run, str):
            return self.system.start(self._given(run))
        given = self._given(run.condition)
        if run.before is not None:  # species that the simulation does not set stay as they were
            kept = {n: e for n, e in self._given(run.before).items() if n in self.system.species}
            given = kept | given
        return self.system.start(given)

    def _used_constants(self) -> list[str]:
        """Constants of the model, and columns of the condition table that only formulas of observables use."""
        known = {*self.system.constants, *self.system.states, *self.system.spelling}
        known |= set(self.system.origins.values())
        return [
            *self.system.constants,
            *(c for c in self.columns if c not in known and c not in self.estimated),
        ]

    def _constant(self, name: str, starts: Mapping[Run | str, Mapping]) -> sympy.Expr:
        """A constant as an expression that holds in every run: with inputs where the runs differ."""
        values = {run: e for run, start in starts.items() if (e := start.get(name)) is not None}
        if len(values) < len(starts):
            return symbol(name)  # without a value; an error only if something uses it
        distinct = list(dict.fromkeys(values.values()))
        if len(distinct) == 1:
            return distinct[0]
        numbers = {run: float(v) if v.is_number else 0.0 for run, v in values.items()}
        terms = []
        if any(numbers.values()):
            terms.append(self._new_input(name, {run: Constant(v) for run, v in numbers.items()}))
        for formula in (v for v in distinct if not v.is_number):
            text = "_".join(sorted(names(formula)))
            chosen = {run: Constant(float(v == formula)) for run, v in values.items()}
            terms.append(multiply(self._new_input(f"{name}_is_{text}", chosen), formula))
        return add(*terms)

    def _new_input(self, name: str, signals: Mapping[Run | str, Input]) -> sympy.Symbol:
        """The symbol of an input; the name of a constant is free for it unless it is estimated as well."""
        free = name in self.system.constants and name not in map(spelled, self.tables.parameters)
        while name in self.inputs or (name in self.taken and not free):
            name, free = name + "_", False
        self.inputs[name] = signals
        return symbol(name)

    def _initial_states(self, run: Run | str, starts: Mapping) -> dict[str, sympy.Expr | None]:
        """The initial states of a run; after a pre-equilibration only those that the simulation sets again."""
        states = self.system.states
        if isinstance(run, str) or run.before is None:
            return {state: starts[run][state] for state in states}
        given, origins = self._given(run.condition), self.system.origins
        known = {*given, *self.system.constants}
        return {s: starts[run][origins.get(s, s)] for s in states if origins.get(s, s) in known}

    # -- observables

    def _observables(self, constants: Mapping) -> tuple[dict[str, sympy.Expr], dict[str, sympy.Expr]]:
        """The formulas of all observables, and those of their noise."""
        outputs, noise = {}, {}
        inside = {*self.system.constants, *self.system.spelling}
        also = {n: self._cell(n) for n in self.tables.parameters if n not in inside}
        also |= {c: symbol(c) for c in self._used_constants() if c not in self.system.constants}
        for name, members in self.members.items():
            row = self._row_of(name)
            holders = {**also, **self._placeholders(name, row, members)}
            formula = self._formula(row, "importers.in_observable", row.formula, holders)
            own = {**also, **self._own_formulas(row.noise, also), row.name: formula, **holders}
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
            return self.system.formula(text, also)
        except InputError as error:
            raise row.source.at(error.within(context, row.name)) from None

    def _own_formulas(self, text: str, also: Mapping[str, sympy.Expr]) -> dict[str, sympy.Expr]:
        """Formulas of the observables that a noise formula names."""
        return {
            name: self._formula(row, "importers.in_observable", row.formula, also)
            for name, row in self.tables.observables.items()
            if name in text and not row.observable_holders
        }

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
            return self._cell(value)
        except InputError as error:
            raise self.tables.measurements[member].source.at(error) from None

    def _marks(self, members: list[int], values: list[float]) -> dict[Run | str, Input]:
        """Numbers that belong to measurements, as an input of each experiment."""
        signals: dict[Run | str, Input] = dict.fromkeys((*self.runs, *self._befores()), Constant(values[0]))
        for run in self.runs:
            mine = {
                self.tables.measurements[k].time: value
                for k, value in zip(members, values, strict=True)
                if self.tables.measurements[k].run == run
            }
            if len(set(mine.values())) == 1:
                signals[run] = Constant(next(iter(mine.values())))
            elif mine:
                signals[run] = Table(np.array(list(mine)), np.array(list(mine.values())), kind="marks")
        return signals

    def _noise(self, name: str, level: sympy.Expr) -> Noise | LogNormal | Laplace:
        row = self._row_of(name)
        spec = float(level) if level.is_number else to_text(level)
        base = BASES[row.transformation]
        if row.distribution == "laplace":
            return Laplace(scale=spec, base=base)
        return Noise(additive=spec) if base is None else LogNormal(sigma=spec, base=base)

    # -- experiments

    def _experiment(self, run: Run, starts: Mapping, inputs: list[str]) -> Experiment:
        observations = {}
        for name, members in self.members.items():
            mine = [row for k in members if (row := self.tables.measurements[k]).run == run]
            if mine:
                observations[name] = [row.time for row in mine], [row.value for row in mine]
        signals = {name: self.inputs[name][run] for name in inputs}
        initial = self._specs(self._initial_states(run, starts), run.condition)
        rest = None
        if run.steady:  # the experiment begins at its steady state, and everything is measured there
            rest, initial = Rest(signals, initial), {}
        elif run.before is not None:
            before = {name: self.inputs[name][run.before] for name in inputs}
            rest = Rest(before, self._specs(self._initial_states(run.before, starts), run.before))
        return Experiment(None, observations, run.name, signals, initial, t0=0.0, rest=rest)

    def _specs(self, values: Mapping[str, sympy.Expr | None], condition: str) -> dict[str, float | str]:
        """Initial values in a condition, as Experiment takes them."""
        found: dict[str, float | str] = {}
        for name, value in values.items():
            if value is None:
                error = InputError("importers.no_initial_value", name, condition=condition)
                raise self.tables.conditions[condition].at(error)
            found[name] = float(value) if value.is_number else to_text(value)
        return found


def _parameter(row: ParameterRow, idle: bool) -> Parameter:
    """A parameter of the table; one that acts on nothing is kept at its nominal value."""
    try:
        if not row.estimated or idle:
            return Parameter(fixed=row.lower if row.nominal is None else row.nominal)
        return Parameter(row.lower, row.upper, log=row.log, prior=_prior(row))
    except InputError as error:
        raise row.source.at(error.within("importers.in_parameter", row.name)) from None


PRIORS: Mapping[str, tuple[int, Callable[..., Prior]]] = {  # how many numbers, and what they make
    "uniform": (2, priors.Uniform),
    "normal": (2, priors.Normal),
    "laplace": (2, priors.Laplace),
    "logNormal": (2, priors.LogNormal),
    "logLaplace": (2, priors.LogLaplace),
    "parameterScaleUniform": (2, priors.Uniform),
    "parameterScaleNormal": (2, priors.Normal),
    "parameterScaleLaplace": (2, priors.Laplace),
    # those below are of version 2, which gives scales and not rates
    "logUniform": (2, priors.LogUniform),
    "cauchy": (2, priors.Cauchy),
    "gamma": (2, lambda shape, scale: priors.Gamma(shape, _rate(scale))),
    "exponential": (1, lambda scale: priors.Exponential(_rate(scale))),
    "chiSquared": (1, lambda degrees: priors.Gamma(degrees / 2, 0.5)),
}


def _rate(scale: float) -> float:
    if not scale > 0:
        raise InputError("model.prior_not_positive", field="scale", value=scale)
    return 1 / scale


def _prior(row: ParameterRow) -> Prior | None:
    """The objective prior; `parameterScaleUniform` over the bounds is none."""
    if not row.prior:
        return None
    if row.prior not in PRIORS:
        word, close = row.prior, closest(row.prior, PRIORS)
        raise InputError("importers.unknown_word", "objectivePriorType", word=word, known=PRIORS, close=close)
    if row.prior == "parameterScaleUniform" and not row.prior_parameters:
        return None
    count, make = PRIORS[row.prior]
    if len(row.prior_parameters) != count:
        raise InputError("importers.prior_numbers_missing", "objectivePriorParameters", count=count)
    based = {"base": BASES[row.scale]} if row.prior.startswith("parameterScale") else {}
    return make(*row.prior_parameters, **based)
