"""The tables of a PEtab problem -> Problem.

Every pair of conditions (pre-equilibration, simulation) is an experiment. What the condition table sets to numbers
that differ between experiments becomes an input of the model, constant in each; what it sets to parameters is chosen
by inputs that are 0 or 1. Placeholders (observableParameter1_..., noiseParameter1_...) that name parameters give one
observable for each combination; those that are numbers are inputs that belong to the sampling times. Measurements at
time inf are those of an experiment that begins at rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import e as EULER
from math import isfinite, isinf
from typing import NamedTuple

import sympy

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.formulas.algebra import TIME, add, multiply, names, symbol
from picardfit.formulas.grammar import RESERVED, names_in_order, parse
from picardfit.formulas.printing import to_text
from picardfit.importers.petab.files import Value
from picardfit.importers.petab.tables import MeasurementRow, ObservableRow, ParameterRow, Tables
from picardfit.importers.sbml import from_document
from picardfit.importers.sbml.mathml import exact
from picardfit.importers.sbml.system import System, substitute
from picardfit.model.inputs import Constant, Input, Table
from picardfit.model.model import Model
from picardfit.model.noise_models import Laplace, LogNormal, Noise
from picardfit.model.parameters import Parameter
from picardfit.model.priors import LaplacePrior, LogLaplacePrior, LogNormalPrior, Normal, Prior, Uniform
from picardfit.problem.experiment import Experiment, Rest
from picardfit.problem.problem import Problem

BASES = {"lin": None, "log": EULER, "log10": 10.0}


class Run(NamedTuple):
    """An experiment by its conditions of pre-equilibration and simulation."""

    before: str | None
    condition: str
    settled: bool  # whether it is measured when it has come to rest

    @property
    def name(self) -> str:
        if self.settled:
            return f"{self.condition} at rest"
        return self.condition if self.before is None else f"{self.condition} after {self.before}"


def run_of(row: MeasurementRow) -> Run:
    return Run(row.before, row.condition, isinf(row.time))


def when(row: MeasurementRow) -> float:
    """The time of a measurement in its experiment."""
    return 0.0 if isinf(row.time) else row.time


def spelled(name: str) -> str:
    """The name of a parameter here: those that mean something in formulas get a `_`, as in sbml.py."""
    return name + "_" if name == "t" or name in RESERVED else name


class Import:
    """The steps from tables to problem; each result is a table of expressions in states, parameters and inputs."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.system: System = from_document(tables.document, f"`{tables.model_file}`")
        self.estimated = {spelled(n) for n, row in tables.parameters.items() if row.estimated}
        self.runs: list[Run] = list(dict.fromkeys(map(run_of, tables.measurements)))
        self.columns = sorted({entity for one in tables.conditions.values() for entity in one})
        self.taken = {*self.system.states, *self.system.constants, *self.system.definitions, *self.estimated}
        self.taken |= {"t", "time", *tables.observables, *map(spelled, tables.parameters)}
        self.inputs: dict[str, dict[Run | str, Input]] = {}  # input -> runs -> what it is there
        self._check_columns()
        self._check_settled()

    def result(self) -> tuple[Problem, tuple[tuple[str, str], ...], tuple[str, ...]]:
        """The problem, experiment and observable of every measurement, and parameters that nothing uses."""
        # a run is an experiment, or (by the name of its condition) a pre-equilibration
        runs: list[Run | str] = [*self.runs, *self._befores()]
        starts = {run: self._start(run) for run in runs}
        constants = {symbol(n): self._constant(n, starts) for n in self._used_constants()}
        placed, outputs, noise = self._observables(constants)
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
            [self._experiment(run, starts, inputs, placed) for run in self.runs],
            parameters=parameters,
            noise={name: self._noise(name, level, placed) for name, level in noise.items()},
            nominal={
                spelled(n): row.nominal
                for n, row in self.tables.parameters.items()
                if row.nominal is not None
            },
        )
        places = tuple(
            (run_of(row).name, placed.name_of[k]) for k, row in enumerate(self.tables.measurements)
        )
        return problem, places, tuple(n for n in everything if n in idle & self.estimated)

    def _befores(self) -> list[str]:
        """Conditions of pre-equilibrations."""
        return list(dict.fromkeys(run.before for run in self.runs if run.before is not None))

    # -- conditions

    def _check_columns(self) -> None:
        for entity in self.columns:
            name = self.system.spelling.get(entity, entity)
            begins = {*self.system.constants, *self.system.origins.values()}
            if name in self.system.definitions and name not in begins:
                raise InputError(
                    f"the condition table sets `{entity}`, which an assignment rule of the model sets: remove one."
                )
            known = {*self.system.definitions, *self.system.constants, *self.system.states}
            rows = self.tables.observables.values()
            used = any(re.search(rf"\b{re.escape(entity)}\b", f"{row.formula} {row.noise}") for row in rows)
            if name not in known and entity not in self.tables.parameters and not used:
                raise InputError(
                    f"the condition table sets `{entity}`, which is neither in the model nor in a formula: correct it."
                    + did_you_mean(entity, known)
                )

    def _check_settled(self) -> None:
        """A system can come to rest only if its equations do not change with time."""
        moving = [state for state, rate in self.system.rates.items() if TIME in rate.free_symbols]
        for row in self.tables.measurements:
            if isinf(row.time) and moving:
                raise InputError(
                    f"{row.where} is measured at rest (time inf), but the equation of `{moving[0]}` changes with "
                    f"time: remove the row."
                )

    def _cell(self, value: Value, where: str) -> sympy.Expr:
        """A number, the value of a parameter, or a formula of such."""
        if isinstance(value, float):
            if not isfinite(value):
                raise InputError(f"{where} has the number {value}: write a finite one.")
            return exact(value)
        if value in self.tables.parameters:
            row = self.tables.parameters[value]
            return symbol(spelled(value)) if row.estimated else exact(row.nominal)
        constant = self.system.constants.get(self.system.spelling.get(value, value))
        if constant is not None:
            return exact(constant)
        if re.fullmatch(r"[^\W\d]\w*", value) is None:
            found = names_in_order(value, where)
            unknown = [n for n in found if n not in self.tables.parameters and n not in self.system.constants]
            if unknown:
                raise InputError(
                    f"{where} has the formula `{value}` with {listing(unknown)}, which is neither a parameter nor a "
                    f"constant of the model: use only such in it."
                )
            return parse(value, where, {name: self._cell(name, where) for name in found})
        raise InputError(
            f"{where} names `{value}`, which is no parameter: add it to the parameter table."
            + did_you_mean(value, self.tables.parameters)
        )

    def _given(self, condition: str) -> dict[str, sympy.Expr]:
        """What parameter table and condition say, by name in the system or of a new constant."""
        spelling = self.system.spelling
        given = {}
        for name in self.tables.parameters:
            if spelling.get(name, name) in self.system.constants:
                given[spelling.get(name, name)] = self._cell(name, "the parameter table")
        for entity, value in self.tables.conditions[condition].items():
            where = f"the condition `{condition}` of the condition table"
            given[spelling.get(entity, entity)] = self._cell(value, where)
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
        values = {run: start.get(name) for run, start in starts.items()}
        if any(value is None for value in values.values()):
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

    def _new_input(self, name: str, signals: dict[Run | str, Input]) -> sympy.Symbol:
        """The symbol of an input; the name of a constant is free for it unless it is estimated as well."""
        free = name in self.system.constants and name not in map(spelled, self.tables.parameters)
        while name in self.inputs or (name in self.taken and not free):
            name, free = name + "_", False
        self.inputs[name] = signals
        return symbol(name)

    def _initial_states(self, run: Run | str, starts: Mapping) -> dict[str, sympy.Expr | None]:
        """The initial states of a run; after a pre-equilibration only those that the simulation sets anew."""
        states = self.system.states
        if isinstance(run, str) or run.before is None:
            return {state: starts[run][state] for state in states}
        given, origins = self._given(run.condition), self.system.origins
        known = {*given, *self.system.constants}
        return {s: starts[run][origins.get(s, s)] for s in states if origins.get(s, s) in known}

    # -- observables

    def _observables(
        self, constants: Mapping
    ) -> tuple[_Placed, dict[str, sympy.Expr], dict[str, sympy.Expr]]:
        """Where each measurement goes, the formulas of all observables, and those of their noise."""
        placed = _Placed(self.tables, self.taken)
        outputs, noise = {}, {}
        inside = {*self.system.constants, *self.system.spelling}
        also = {n: self._cell(n, "a formula") for n in self.tables.parameters if n not in inside}
        also |= {c: symbol(c) for c in self._used_constants() if c not in self.system.constants}
        for name, members in placed.members.items():
            row = self.tables.observables[self.tables.measurements[members[0]].observable]
            holders = self._placeholders(name, row, members)
            where = f"{row.where}: the observable `{row.name}`"
            formula = self.system.formula(row.formula, where, {**also, **holders})
            own = {**self._own_formulas(row.noise, also), row.name: formula}
            of_noise = f"{row.where}: the noise of `{row.name}`"
            level = self.system.formula(row.noise, of_noise, {**also, **own, **holders})
            outputs[name] = substitute(formula, constants)
            noise[name] = substitute(level, constants)
            self._check_complete(outputs[name], where)
            self._check_complete(noise[name], of_noise)
        return placed, outputs, noise

    def _own_formulas(self, text: str, also: Mapping) -> dict[str, sympy.Expr]:
        """Formulas of the observables that a noise formula names."""
        found = {}
        for name, row in self.tables.observables.items():
            if name in text and not row.observable_holders:
                found[name] = self.system.formula(row.formula, f"{row.where}: the observable `{name}`", also)
        return found

    def _check_complete(self, expr: sympy.Expr, where: str) -> None:
        known = {"t", *self.system.states, *self.inputs, *self.estimated}
        for name in sorted(names(expr) - known):
            raise InputError(
                f"{where} uses `{name}`, which has no value in some condition: add it to the parameter table."
            )

    def _placeholders(self, name: str, row: ObservableRow, members: list[int]) -> dict[str, sympy.Expr]:
        """What observableParameterN_<id> and noiseParameterN_<id> stand for in one observable."""
        found = {}
        for kind in ("observable", "noise"):
            every = [getattr(self.tables.measurements[k], f"{kind}_parameters") for k in members]
            for n, holder in enumerate(getattr(row, f"{kind}_holders")):
                values = [one[n] for one in every]
                if isinstance(values[0], str) or len(set(values)) == 1:
                    found[holder] = self._cell(values[0], self.tables.measurements[members[0]].where)
                else:
                    signals = self._marks(members, values)
                    found[holder] = self._new_input(f"{kind}Parameter{n + 1}_{name}", signals)
        return found

    def _marks(self, members: list[int], values: list[float]) -> dict[Run | str, Input]:
        """Numbers that belong to measurements, as an input of each experiment."""
        signals: dict[Run | str, Input] = dict.fromkeys((*self.runs, *self._befores()), Constant(values[0]))
        for run in self.runs:
            mine = {
                when(self.tables.measurements[k]): value
                for k, value in zip(members, values, strict=True)
                if run_of(self.tables.measurements[k]) == run
            }
            if len(set(mine.values())) == 1:
                signals[run] = Constant(next(iter(mine.values())))
            elif mine:
                signals[run] = Table(list(mine), list(mine.values()), kind="marks")
        return signals

    def _noise(self, name: str, level: sympy.Expr, placed: _Placed) -> Noise | LogNormal | Laplace:
        row = self.tables.observables[self.tables.measurements[placed.members[name][0]].observable]
        spec = float(level) if level.is_number else to_text(level)
        base = BASES[row.transformation]
        if row.distribution == "laplace":
            return Laplace(scale=spec, base=base)
        return Noise(additive=spec) if base is None else LogNormal(sigma=spec, base=base)

    # -- experiments

    def _experiment(self, run: Run, starts: Mapping, inputs: list[str], placed: _Placed) -> Experiment:
        observations: dict[str, tuple[list[float], list[float]]] = {}
        for k, row in enumerate(self.tables.measurements):
            if run_of(row) == run:
                times, values = observations.setdefault(placed.name_of[k], ([], []))
                times.append(when(row))
                values.append(row.value)
        initial = _specs(self._initial_states(run, starts), f"the condition `{run.condition}`")
        rest = None
        if run.settled:  # the experiment begins where it has come to rest, and all is measured there
            rest = Rest(inputs={name: self.inputs[name][run] for name in inputs}, initial=initial)
            initial = {}
        elif run.before is not None:
            rest = Rest(
                inputs={name: self.inputs[name][run.before] for name in inputs},
                initial=_specs(self._initial_states(run.before, starts), f"the condition `{run.before}`"),
            )
        return Experiment(
            None,
            observations,
            name=run.name,
            inputs={name: self.inputs[name][run] for name in inputs},
            initial=initial,
            t0=0.0,
            rest=rest,
        )


class _Placed:
    """Which observable of the problem each measurement belongs to.

    Measurements of one observable share it when their placeholders name the same parameters and no two at
    one time have different numbers.
    """

    def __init__(self, tables: Tables, taken: set[str]) -> None:
        groups: dict[tuple, list[int]] = {}
        self._numbers: dict[tuple, tuple] = {}
        for k, row in enumerate(tables.measurements):
            groups.setdefault(self._key(row), []).append(k)
        count: dict[str, int] = {}
        for key in groups:
            count[key[0]] = count.get(key[0], 0) + 1
        self.members: dict[str, list[int]] = {}
        for key, members in groups.items():
            self.members[self._name(key[0], count[key[0]], taken, tables)] = members
        self.name_of = {k: name for name, members in self.members.items() for k in members}

    def _key(self, row: MeasurementRow) -> tuple:
        """Observable, parameters in placeholders, and a count that separates different numbers at one time."""
        both = (*row.observable_parameters, None, *row.noise_parameters)
        words = tuple(None if isinstance(v, float) else v or "" for v in both)
        numbers = tuple(v for v in both if isinstance(v, float))
        layer = 0
        while True:
            spot = (row.observable, words, layer, row.before, row.condition, row.time)
            if self._numbers.setdefault(spot, numbers) == numbers:
                return row.observable, words, layer
            layer += 1

    def _name(self, observable: str, count: int, taken: set[str], tables: Tables) -> str:
        """The observable's own name, numbered if there are several; never that of something else."""
        inside = {*tables.observables}
        if count == 1 and (observable not in taken - inside):
            return observable
        k = 1
        while f"{observable}_{k}" in (*self.members, *taken):
            k += 1
        return f"{observable}_{k}"


def _specs(values: Mapping[str, sympy.Expr | None], where: str) -> dict[str, float | str]:
    """Initial values as Experiment takes them."""
    for name, value in values.items():
        if value is None:
            raise InputError(f"`{name}` has no initial value in {where}: add one to the model or the table.")
    return {name: float(e) if e.is_number else to_text(e) for name, e in values.items()}


def _parameter(row: ParameterRow, idle: bool) -> Parameter:
    """A parameter of the table; one that acts on nothing is kept at its nominal value."""
    try:
        if not row.estimated or idle:
            return Parameter(fixed=row.lower if row.nominal is None else row.nominal)
        return Parameter(row.lower, row.upper, log=row.log, prior=_prior(row))
    except InputError as error:
        raise InputError(f"{row.where}: the parameter `{row.name}`: {error}") from None


def _prior(row: ParameterRow) -> Prior | None:
    """The objective prior; `parameterScaleUniform` over the bounds is none."""
    if not row.prior:
        return None
    kinds = {
        "uniform": Uniform,
        "normal": Normal,
        "laplace": LaplacePrior,
        "logNormal": LogNormalPrior,
        "logLaplace": LogLaplacePrior,
        "parameterScaleUniform": Uniform,
        "parameterScaleNormal": Normal,
        "parameterScaleLaplace": LaplacePrior,
    }
    if row.prior not in kinds:
        raise InputError(f"the objectivePriorType `{row.prior}` is not known: use one of {', '.join(kinds)}.")
    if row.prior == "parameterScaleUniform" and not row.prior_parameters:
        return None
    if len(row.prior_parameters) != 2:
        raise InputError("objectivePriorParameters needs two numbers, as in 0;1.")
    prior = kinds[row.prior](*row.prior_parameters)
    return replace(prior, base=BASES[row.scale]) if row.prior.startswith("parameterScale") else prior
