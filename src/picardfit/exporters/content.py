"""What a fit says to another program: equations, estimates, and what happened in each experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import names, symbol
from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.added_inputs import INFUSION
from picardfit.model.doses import Jumps
from picardfit.model.events import Event
from picardfit.model.inputs import Input, Signal, Table
from picardfit.model.model import Model
from picardfit.problem.named_values import experiment_index

if TYPE_CHECKING:
    from picardfit.fit import Fit


@dataclass(frozen=True)
class Pieces:
    """How many events a model of SBML or Modelica may have; simulators test all of them in every step. A choice."""

    most: int = 2000


@dataclass(frozen=True, eq=False)
class Course:
    """One experiment."""

    name: str
    t0: float
    times: np.ndarray  # of the samples, each once
    parameters: dict[str, float]  # all of the model's
    initial: dict[str, float]  # at t0, with the doses given then
    inputs: dict[str, Input]  # with covariates and the rates of infusions
    jumps: Jumps | None  # of the states, later than t0
    breaks: tuple[float, ...]  # after t0, where the right-hand side may jump or kink
    clock: str = ""  # what time 0 is, where the data have dates: `d since 1978-01-22`

    @property
    def last(self) -> float:
        return float(self.times[-1])

    @property
    def edges(self) -> list[float]:
        """Times after t0 at which an integrator must stop: breaks, jumps of states and rows of tables of lines."""
        jumps = [] if self.jumps is None else self.jumps.times.tolist()
        tables = (one for one in self.inputs.values() if isinstance(one, Table) and one.kind == "linear")
        rows = [t for one in tables for t in one.times.tolist()]
        return sorted({t for t in (*self.breaks, *jumps, *rows) if t > self.t0})


@dataclass(frozen=True, eq=False)
class Content:
    """A fitted model. Formulas hold states, parameters, inputs, helpers and the time."""

    helpers: dict[str, sympy.Expr]  # in an order in which each uses earlier ones only
    rates: dict[str, sympy.Expr]
    outputs: dict[str, sympy.Expr]
    increments: tuple[str, ...]
    parameters: dict[str, float]  # those with one value for all experiments
    inputs: tuple[str, ...]
    scale: dict[str, float]  # state -> its largest size in the fit, which sets absolute tolerances
    units: dict[str, str]
    fit: Fit
    chosen: tuple[int, ...]  # the experiments of the fit that are written
    courses: tuple[Course, ...]  # one for each of them
    others: tuple[str, ...]  # experiments of the fit that are left out
    events: tuple[Event, ...] = ()

    @property
    def warning(self) -> str:
        """What a reader of the file must know of its values first; empty where they are estimates."""
        if self.fit.status.estimated:
            return ""
        return "The fit did not converge: the values are no estimates, only where the search stopped."

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(self.rates)

    @property
    def labelled(self) -> dict[str, sympy.Expr]:
        """All outputs; one that has the name of a state and is something else is called `NAME_observed`."""
        return {self.label(name): e for name, e in self.outputs.items()}

    @property
    def observables(self) -> dict[str, sympy.Expr]:
        """The outputs that are not just the state of their name."""
        return {name: e for name, e in self.labelled.items() if name not in self.states}

    def label(self, name: str) -> str:
        itself = self.outputs[name] == symbol(name) and name not in self.increments
        return name if itself or name not in self.states else f"{name}_observed"

    def unit(self, name: str) -> str:
        return f" [{self.units[name]}]" if self.units.get(name) else ""


def content(fit: Fit, experiment: str | None = None) -> Content:
    """The content of a fit, of one experiment or of all; InputError if it holds Python functions."""
    problem, solution = fit.problem, fit._solved
    model = problem.model
    chosen = range(len(problem.names)) if experiment is None else [experiment_index(problem, experiment)]
    if not (isinstance(model.rhs, BatchedMap) and isinstance(model.output, BatchedMap)):
        raise InputError("exporters.function_model")
    helpers, rates = _equations(model)
    local = [name for name in model.parameters if problem.parameters[name].local]
    values = fit.parameters
    sizes = np.abs(solution.states[:, : len(model.states)]).max(axis=0)
    return Content(
        helpers,
        rates,
        dict(zip(model.observables, model.output.expressions, strict=True)),
        model.increments,
        {name: values[name] for name in model.parameters if name not in local},
        model.inputs,
        {s: float(size) or 1.0 for s, size in zip(model.states, sizes, strict=True)},
        dict(model.units) | {n: one.unit for n, one in problem.parameters.items() if one.unit},
        fit,
        tuple(chosen),
        tuple(_course(fit, e) for e in chosen),
        tuple(name for e, name in enumerate(problem.names) if e not in chosen),
        model.events,
    )


def _course(fit: Fit, e: int) -> Course:
    problem = fit.problem
    model, one = problem.model, problem.experiments[e]
    signals = {name: one.signals[name] for name in model.inputs}
    for name, source in signals.items():
        if isinstance(source, Signal):
            key = ("inputs", name)
            raise InputError("exporters.function_input", name, key=key, experiment=one.name)
    values = fit.parameters_of(one.name)
    begin = problem.layout.initial(fit._solved.unknowns)[0][e, : len(model.states)]
    jumps = problem.jumps[e]
    switches = model.switch_times((values[name] for name in model.parameters), signals, problem.span(e))
    return Course(
        one.name,
        one.t0,
        np.unique(one.times),
        {name: values[name] for name in model.parameters},
        dict(zip(model.states, begin.tolist(), strict=True)),
        signals,
        None if jumps is None else jumps.of_first(len(model.states)),
        tuple(t for t in sorted({*model.breaks(signals), *switches}) if t > one.t0),
        "" if one.calendar is None else f"{one.calendar.unit} since {one.time_texts(np.zeros(1))[0]}",
    )


def _equations(model: Model) -> tuple[dict[str, sympy.Expr], dict[str, sympy.Expr]]:
    """Helpers that the equations use, and right-hand sides; without the text of the model there are no helpers."""
    assert isinstance(model.rhs, BatchedMap)
    if not model.text:
        return {}, dict(zip(model.states, model.rhs.expressions, strict=True))
    helpers: dict[str, sympy.Expr] = {}
    rates: dict[str, sympy.Expr] = {}
    for name, formula, is_state in model.written:
        (rates if is_state else helpers)[name] = parse(formula)
    for name in model.infused:
        rates[name] += symbol(INFUSION + name)
    used = set().union(*map(names, rates.values()))
    for name in reversed(helpers):
        used |= names(helpers[name]) if name in used else set()
    return {n: e for n, e in helpers.items() if n in used}, rates


def table_pieces(source: Table, t0: float) -> list[tuple[float, float, float]]:
    """(begin, value there, slope) of the pieces of a table from t0 on."""
    if source.kind == "linear":
        rows = np.unique(source.times)
    elif source.kind == "marks":
        rows = (source.times[1:] + source.times[:-1]) / 2
    else:
        rows = np.array(source.breakpoints)
    begins = np.array([t0, *rows[rows > t0]])
    ends = np.append(begins[1:], begins[-1] + 1.0)
    # two points inside a piece, because a table jumps at its ends
    first, second = (source.at(begins + share * (ends - begins)) for share in (0.25, 0.75))
    slopes = 2 * (second - first) / (ends - begins)
    values = first - 0.25 * slopes * (ends - begins)
    return list(zip(begins.tolist(), values.tolist(), slopes.tolist(), strict=True))


def check_pieces(count: int, limit: Pieces = Pieces()) -> None:
    """InputError for more events than simulators can handle."""
    if count > limit.most:
        raise InputError("exporters.many_events", events=count, most=limit.most)


def refuse_events(said: Content, target: str) -> None:
    """InputError for a target in which events are not written."""
    for one in said.events:
        raise InputError("exporters.event", one.condition, target=target)


def refuse_increments(said: Content, target: str) -> None:
    """InputError for a target that has no samples, and therefore no changes between them."""
    for name in said.increments:
        raise InputError("exporters.increment", name, target=target)
