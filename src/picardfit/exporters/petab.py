"""A whole problem as PEtab version 2: an SBML model, tables and estimates.

The model has the states as parameters with rate rules. An input is a constant that conditions set; tables change it
when a period begins, tables of lines also have a slope, and formulas in t are assignment rules. Each experiment has a
period for everything that happens at one time: steps of inputs, doses, resets. Unknown initial states and parameters
that differ between experiments get a row of their own in the parameter table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite, log, pi, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import sympy

from picardfit.errors import InputError
from picardfit.exporters.content import table_pieces
from picardfit.exporters.languages import PETAB
from picardfit.exporters.names import Names
from picardfit.exporters.petab_model import SPELLING, InputPlan, model_text, plan_of
from picardfit.exporters.petab_priors import prior_cells
from picardfit.formulas.algebra import multiply, names, symbol
from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.densities import Shape
from picardfit.model.inputs import Constant, Formula, Input, Table
from picardfit.model.measurement import Measurement
from picardfit.model.parameters import Parameter
from picardfit.problem.dose_checks import covariates_of
from picardfit.problem.experiment import Experiment
from picardfit.problem.rest import Rest
from picardfit.whole_files import make_folder, write_text

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem

FILES = ("parameter", "observable", "measurement", "condition", "experiment")
DISTRIBUTIONS = {(Shape.NORMAL, False): "normal", (Shape.NORMAL, True): "log-normal"} | {
    (Shape.LAPLACE, False): "laplace",
    (Shape.LAPLACE, True): "log-laplace",
}
HEADERS = {
    "parameter": "parameterId lowerBound upperBound nominalValue estimate priorDistribution priorParameters",
    "observable": "observableId observableFormula noiseFormula noiseDistribution",
    "measurement": "observableId experimentId time measurement",
    "condition": "conditionId targetId targetValue",
    "experiment": "experimentId time conditionId",
}
Rows = list[tuple[str, ...]]


def write_petab(problem: Problem, folder: str | Path, unknowns: np.ndarray) -> Path:
    """Write a problem with these unknowns (experiments, width; NaN: open) as nominal values; the YAML file."""
    writer = _Writer(problem, unknowns)
    tables, model = writer.tables(), writer.model()
    target = make_folder(folder)
    write_text((target / "model").with_suffix(".xml"), model)
    for kind, rows in tables.items():
        lines = [HEADERS[kind].split(), *rows]
        write_text(target / f"{kind}s.tsv", "".join("\t".join(row) + "\n" for row in lines))
    listed = "".join(f"{kind}_files: [{kind}s.tsv]\n" for kind in FILES)
    yaml = f"format_version: 2.0.0\nmodel_files:\n  model:\n    language: sbml\n    location: model.xml\n{listed}"
    return write_text((target / "problem").with_suffix(".yaml"), yaml)


def number_text(value: float) -> str:
    return repr(float(value))


@dataclass
class _Changes:
    """What an experiment sets, by time: target -> value as text."""

    at: dict[float, dict[str, str]] = field(default_factory=dict)

    def set(self, time: float, target: str, value: str) -> None:
        self.at.setdefault(time, {})[target] = value


class _Writer:
    """The tables of a problem; all names are those of the files."""

    def __init__(self, problem: Problem, unknowns: np.ndarray) -> None:
        self.problem, self.model_ = problem, problem.model
        self._refuse()
        self.layout = problem.layout
        self.natural = self.layout.natural(unknowns)
        self.names = Names(SPELLING)
        model = self.model_
        self.there = self.names.add_all((*model.states, *self.layout.names, *model.inputs))
        self.plans = {name: plan_of(name, self._signals(name), self.names) for name in model.inputs}
        self.observables = {name: self.names.add(name, also="observed") for name in model.observables}
        labels = Names(SPELLING)
        self.experiments = [labels.add(name or "experiment") for name in problem.names]
        self.own: dict[tuple[int, int], str] = {}  # (experiment, column) of local unknowns -> their parameter
        for e, c in np.argwhere(self.layout.exists[:, : self.layout.local]):
            what = self._column_name(int(c))
            self.own[int(e), int(c)] = self.names.add(f"{what}_{self.experiments[e]}")
        self.spread = self.names.add("noise_sd") if problem.scatter is None else ""

    def _refuse(self) -> None:
        """InputError for what PEtab cannot say."""
        problem, model = self.problem, self.problem.model
        if not (isinstance(model.rhs, BatchedMap) and isinstance(model.output, BatchedMap)):
            raise InputError("exporters.function_model")
        for name in model.increments:
            raise InputError("exporters.increment", name, target="PEtab")
        for name, one in problem.parameters.items():
            if one.random:
                raise InputError("exporters.petab_random", name)
        if any(one.limits is not None for one in problem.experiments):
            raise InputError("exporters.petab_censored")
        if problem.scatter is not None:
            columns = zip(model.observables, problem.scatter.columns, strict=True)
            for name, column in columns:
                if problem.scatter.common or (column.shape, column.base is not None) not in DISTRIBUTIONS:
                    raise InputError("exporters.petab_noise", name)

    def _signals(self, name: str) -> list[Input]:
        found: list[Input] = []
        for one in self.problem.experiments:
            found.append(one.signals[name])
            rest = one.rest
            while rest is not None:
                found.append(Constant(rest.value_of(name, covariates_of(self.model_, one))))
                rest = rest.after
        return found

    def _column_name(self, c: int) -> str:
        initial = len(self.layout.initial_states)
        if c < initial:
            return f"{self.layout.states[self.layout.initial_states[c]]}_0"
        return self.layout.names[self.layout.local_parameters[c - initial]]

    def text(self, expr: sympy.Expr) -> str:
        return PETAB.write(expr, self.there)

    def tables(self) -> dict[str, Rows]:
        conditions, experiments = self._conditions()
        return {
            "parameter": self._parameters(),
            "observable": self._observables(),
            "measurement": self._measurements(),
            "condition": conditions,
            "experiment": experiments,
        }

    # -- parameters

    def _parameters(self) -> Rows:
        rows: Rows = []
        local = {self.layout.names[k] for k in self.layout.local_parameters}
        shared = {
            self.layout.names[k]: self.layout.local + i for i, k in enumerate(self.layout.global_parameters)
        }
        for name, one in self.problem.parameters.items():
            if name in local:
                continue
            value = one.fixed if one.fixed is not None else self._value(one, 0, shared[name])
            rows.append(self._row(self.there[name], one, value))
        for (e, c), there in self.own.items():
            one = self._local(e, c)
            rows.append(self._row(there, one, self._value(one, e, c)))
        if self.spread:
            value = self._common_sd()
            rows.append((self.spread, "0.0", "inf", number_text(value), "true", "", ""))
        return rows

    def _local(self, e: int, c: int) -> Parameter:
        """What is known of a local unknown."""
        initial = len(self.layout.initial_states)
        if c >= initial:
            return self.problem.parameters[self._column_name(c)]
        state = self.layout.states[self.layout.initial_states[c]]
        spec = self.problem.initial_by_experiment[e][state]
        assert isinstance(spec, Parameter)
        return spec

    def _value(self, one: Parameter, e: int, c: int) -> float:
        """The nominal value of an unknown: what was given, its start, or what lies in the middle."""
        given = float(self.natural[e, c])
        if isfinite(given):
            return given
        if one.start is not None:
            return one.start
        low, high = one.bounds
        if one.log and low > 0 and high < inf:
            return sqrt(low * high)
        return (low + high) / 2 if isfinite(low + high) else max(low, min(high, 1.0))

    def _row(self, there: str, one: Parameter, value: float) -> tuple[str, ...]:
        low, high = (value, value) if one.fixed is not None else (one.lower, one.upper)
        low = 0.0 if one.log and low == -inf else low
        prior = ("", "") if one.prior is None or one.fixed is not None else prior_cells(there, one.prior)
        estimated = "false" if one.fixed is not None else "true"
        numbers = ("", "") if one.fixed is not None else (number_text(low), number_text(high))
        return there, *numbers, number_text(value), estimated, *prior

    def _common_sd(self) -> float:
        """The standard deviation that makes the likelihood largest, where none was declared."""
        filled = np.where(np.isfinite(self.natural), self.natural, np.nan)
        unknowns = self.layout.internal(filled)
        if not np.isfinite(np.where(self.layout.exists, unknowns, 0.0)).all():
            return 1.0
        rows = self.problem.predicted_rows(
            self.layout.measured_values(unknowns), self.layout.initial(unknowns)[0]
        )
        if rows is None:
            return 1.0
        count = self.problem.measurements
        nllh = self.problem.objective.nllh(rows)
        return float(np.exp((2 * nllh / count - 1 - log(2 * pi)) / 2)) or 1.0

    # -- observables and measurements

    def _observables(self) -> Rows:
        model = self.model_
        rows: Rows = []
        assert isinstance(model.output, BatchedMap)
        outputs = dict(zip(model.observables, model.output.expressions, strict=True))
        levels, columns = self._levels(outputs)
        for (name, formula), level, column in zip(outputs.items(), levels, columns, strict=True):
            rows.append((self.observables[name], self.text(formula), level, column))
        return rows

    def _levels(self, outputs: Mapping[str, sympy.Expr]) -> tuple[list[str], list[str]]:
        """Formulas of the noise, and its distributions."""
        scatter = self.problem.scatter
        if scatter is None:
            return [self.spread] * len(outputs), ["normal"] * len(outputs)
        measurement = self.problem.measurement
        assert isinstance(measurement, Measurement)
        inside = {symbol(n): e for n, e in zip(measurement.levels.states, outputs.values(), strict=False)}
        texts, kinds = [], []
        for level, column in zip(scatter.levels, scatter.columns, strict=False):
            full = level.xreplace(inside)
            if column.base is not None:
                full = multiply(sympy.Float(log(column.base)), full)  # of the natural logarithm
            texts.append(self.text(full))
            kinds.append(DISTRIBUTIONS[column.shape, column.base is not None])
        return texts, kinds

    def _measurements(self) -> Rows:
        rows: Rows = []
        for one, there in zip(self.problem.experiments, self.experiments, strict=True):
            end = self._at_rest(one)
            for name, column in zip(one.observables, one.values.T, strict=True):
                if name not in self.observables:
                    continue
                for time, value in zip(one.times.tolist(), column.tolist(), strict=True):
                    if isfinite(value):
                        when = "inf" if end else number_text(time)
                        rows.append((self.observables[name], there, when, number_text(value)))
        return rows

    def _at_rest(self, one: Experiment) -> bool:
        """Whether an experiment is measured in a steady state after another one; InputError if it goes on then."""
        if one.rest is None or one.rest.after is None:
            return False
        if one.rest.after.after is not None or one.initial or (one.times != one.t0).any():
            raise InputError("exporters.petab_rests", one.name)
        return True

    # -- conditions and experiments

    def _conditions(self) -> tuple[Rows, Rows]:
        conditions: Rows = []
        experiments: Rows = []
        known: dict[tuple[tuple[str, str], ...], str] = {}
        labels = Names(SPELLING)
        for e, there in enumerate(self.experiments):
            for time, changes in sorted(self._changes(e).at.items()):
                key = tuple(sorted(changes.items()))
                if key and key not in known:
                    known[key] = labels.add(
                        there if time == -inf or len(known) == 0 else f"{there}_condition"
                    )
                    conditions += [(known[key], target, value) for target, value in key]
                experiments.append((there, number_text(time), known.get(key, "")))
        return conditions, experiments

    def _changes(self, e: int) -> _Changes:
        one, found = self.problem.experiments[e], _Changes()
        begin = one.t0
        found.at[begin] = {}
        measured_at_rest = self._at_rest(one)
        before = one.rest.after if measured_at_rest and one.rest is not None else one.rest
        if before is not None:
            self._set_rest(found, one, before)
        self._set_inputs(found, one)
        initial = self._initial(e) if not measured_at_rest else self._rest_initial(one.rest)
        for state, value in initial.items():
            found.set(begin, self.there[state], self.text(value))
        self._set_jumps(found, one, e)
        for c in range(len(self.layout.initial_states), self.layout.local):
            if (e, c) in self.own:
                first = -inf if -inf in found.at else begin
                found.set(first, self.there[self._column_name(c)], self.own[e, c])
        return found

    def _set_rest(self, found: _Changes, one: Experiment, rest: Rest) -> None:
        if rest.every is not None:
            raise InputError("exporters.petab_regimen", one.name)
        for name in self.model_.inputs:
            value = rest.value_of(name, covariates_of(self.model_, one))
            self._set_input(found, -inf, self.plans[name], Constant(value), one.t0)
        for state, value in self._rest_initial(rest).items():
            found.set(-inf, self.there[state], self.text(value))

    @staticmethod
    def _rest_initial(rest: Rest | None) -> dict[str, sympy.Expr]:
        specs = {} if rest is None else rest.initial
        return {n: parse(v) if isinstance(v, str) else sympy.Float(v) for n, v in specs.items()}

    def _set_inputs(self, found: _Changes, one: Experiment) -> None:
        for name in self.model_.inputs:
            self._set_input(found, one.t0, self.plans[name], one.signals[name], one.t0)

    def _set_input(self, found: _Changes, time: float, plan: InputPlan, source: Input, t0: float) -> None:
        """Set an input from a time on, as its plan says."""
        for formula, chooser in plan.choosers.items():
            chosen = isinstance(source, Formula) and source.text == formula
            found.set(time, chooser, number_text(float(chosen)))
        if isinstance(source, Formula):
            if plan.value and plan.choosers:
                found.set(time, plan.value, "0.0")
            return
        pieces = [(time, source.value, 0.0)] if isinstance(source, Constant) else []
        if isinstance(source, Table):
            pieces = table_pieces(source, t0)
        reached = None
        for k, (begin, value, slope) in enumerate(pieces):
            when = time if k == 0 else begin
            if reached is None or abs(value - reached) > 1e-12 * max(abs(value), abs(reached), 1e-300):
                found.set(when, plan.value, number_text(value))
            if plan.slope:
                found.set(when, plan.slope, number_text(slope))
            following = pieces[k + 1][0] if k + 1 < len(pieces) else begin
            reached = value + slope * (following - begin)

    def _initial(self, e: int) -> dict[str, sympy.Expr]:
        """The initial states that an experiment sets, without doses."""
        one, found = self.problem.experiments[e], {}
        covariates = {symbol(n): sympy.Float(v) for n, v in covariates_of(self.model_, one).items()}
        specs = self.problem.initial_by_experiment[e]
        for state, spec in specs.items():
            if isinstance(spec, Parameter):
                column = list(self.layout.initial_states).index(self.layout.states.index(state))
                name = self.own[e, column]
                self.there[name] = name
                found[state] = symbol(name)
            elif not isinstance(spec, sympy.Expr | Rest):
                found[state] = sympy.Float(float(spec))
        given = covariates | {symbol(state): value for state, value in found.items()}
        formulas = ((state, spec) for state, spec in specs.items() if isinstance(spec, sympy.Expr))
        found |= {state: self._with_local(e, spec.xreplace(given)) for state, spec in formulas}
        return {state: found[state] for state in specs if state in found}

    def _with_local(self, e: int, formula: sympy.Expr) -> sympy.Expr:
        """A formula with the parameters of this experiment in place of local ones."""
        swaps = {}
        for c in range(len(self.layout.initial_states), self.layout.local):
            here = self._column_name(c)
            if here in names(formula) and (e, c) in self.own:
                self.there[self.own[e, c]] = self.own[e, c]
                swaps[symbol(here)] = symbol(self.own[e, c])
        return formula.xreplace(swaps)

    def _set_jumps(self, found: _Changes, one: Experiment, e: int) -> None:
        """Doses and resets."""
        amounts: dict[float, dict[str, float]] = {}
        for dose in one.doses:
            for time, amount in zip(dose.times[~dose.infused], dose.amounts[~dose.infused], strict=True):
                mine = amounts.setdefault(float(time), {})
                mine[dose.into] = mine.get(dose.into, 0.0) + float(amount)
        for time in sorted({*amounts, *one.resets}):
            first = self._initial(e) if time == one.t0 or time in one.resets else {}
            given = amounts.get(time, {})
            for state in dict.fromkeys((*first, *given)):
                value = first.get(state, symbol(state)) + sympy.Float(given.get(state, 0.0))
                found.set(time, self.there[state], self.text(value))

    # -- the model

    def model(self) -> str:
        """The SBML text; constants have the values of the first experiment."""
        rhs = self.model_.rhs
        assert isinstance(rhs, BatchedMap)
        rates = {self.there[n]: e for n, e in zip(self.model_.states, rhs.expressions, strict=True)}
        parameters = [self.there[name] for name in self.layout.names if name in self.model_.parameters]
        return model_text(rates, parameters, list(self.plans.values()), self.there, self.model_.events)
