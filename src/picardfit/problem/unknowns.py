"""The unknowns of a problem as one array, and the parameters and initial states that they stand for.

Each experiment has a row [free initial states | local parameters | global parameters]; global columns are equal in all
rows. The solvers search in these internal coordinates, logarithms and logits among them (model/scales.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy

from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.model.doses import jumps_of
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter
from picardfit.model.prior_terms import Priors
from picardfit.model.scales import LOGIT, Scales
from picardfit.problem.dose_checks import covariates_of
from picardfit.problem.experiment import Experiment
from picardfit.problem.initial_formulas import states_in
from picardfit.problem.rest import Rest
from picardfit.simulation.periodic_states import Regimen, periodic_state
from picardfit.simulation.rest_with_events import rest_with_events
from picardfit.simulation.steady_states import Steady, steady_states

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class UnknownsColumns:
    """Which columns of the unknowns are parameters that the model or the noise depends on."""

    local: int  # the first `local` columns belong to one experiment, the others are shared
    width: int
    parameters: np.ndarray  # (free parameters,): column of each parameter column

    @cached_property
    def index(self) -> slice | np.ndarray:
        """`parameters` as an index, a slice where possible."""
        return compact(self.parameters)


@dataclass(frozen=True, eq=False)
class SteadyStarts:
    """Steady states before the experiments; rows of experiments without one are not used."""

    rhs: BatchedMap | NumericMap
    times: np.ndarray  # (experiments,)
    inputs: np.ndarray  # (experiments, inputs)
    known: np.ndarray  # (experiments, states): state from which the steady state is reached, 0 for a formula
    formula_of: np.ndarray  # (experiments, states): row of the formulas, or -1
    kept: np.ndarray  # (experiments, states) bool: states that begin the experiment at their steady values
    regimens: tuple[Regimen | None, ...]  # of each experiment: doses that repeat until it begins
    eventful: Model | None = None  # the model, if it has events
    earlier: SteadyStarts | None = None  # steady states from which these are reached

    def reached(self, starts: np.ndarray, params: np.ndarray) -> dict[int, Steady | None]:
        """The steady states, constant or periodic, that experiments begin with, from starts (experiments, states)."""
        chosen = np.flatnonzero(self.kept.any(axis=1)).tolist()
        points = {e: (self.times[e], starts[e], params[e], self.inputs[e]) for e in chosen}
        if self.eventful is not None:
            begun = {e: self.earlier is not None and bool(self.earlier.kept[e].any()) for e in chosen}
            return {e: rest_with_events(self.eventful, *points[e], begun[e]) for e in chosen}
        constant = [e for e in chosen if self.regimens[e] is None]
        found = dict(zip(constant, steady_states(self.rhs, [points[e] for e in constant]), strict=True))
        for e, regimen in enumerate(self.regimens):
            if regimen is not None and e in points:
                found[e] = periodic_state(self.rhs, *points[e], regimen)
        return found


@dataclass(frozen=True)
class UnknownsLayout:
    """Which unknown is in which column, with bounds, start and scale of each."""

    experiments: tuple[str, ...]
    states: tuple[str, ...]
    names: tuple[str, ...]  # all parameters: the model's, the noise's, then those only in initial formulas
    model_parameters: int  # how many of them are the model's
    measured_parameters: int  # how many are the model's or the noise's
    base: np.ndarray  # (experiments, parameters): fixed values, 0 elsewhere
    known: np.ndarray  # (experiments, states): known initial values, 0 elsewhere
    initial_states: np.ndarray  # (free initial columns,): state of each
    local_parameters: np.ndarray  # (local parameter columns,): parameter of each
    global_parameters: np.ndarray  # (global columns,): parameter of each
    lower: (
        np.ndarray
    )  # (experiments, width), internal; equal to upper where an experiment has no such unknown
    upper: np.ndarray
    scales: Scales  # (experiments, width)
    start: np.ndarray  # (experiments, width) internal, NaN where the user gave none
    formulas: BatchedMap | None  # distinct initial formulas of parameters and of states that no formula gives
    formula_of: np.ndarray  # (experiments, states): row of `formulas`, or -1
    steady_starts: SteadyStarts | None = None  # initial states from a steady state before the experiment
    covariates: np.ndarray | None = None  # (experiments, covariates): of the initial formulas
    dosed: np.ndarray | None = None  # (experiments, states): doses at t0; None without any

    @property
    def width(self) -> int:
        return int(self.lower.shape[1])

    @property
    def local(self) -> int:
        return len(self.initial_states) + len(self.local_parameters)

    @cached_property
    def exists(self) -> np.ndarray:
        """(experiments, width): columns that are unknowns of that experiment."""
        return self.lower < self.upper

    @cached_property
    def column_parameters(self) -> np.ndarray:
        """(local and global columns,): the parameter of each column that is no initial state."""
        return np.concatenate([self.local_parameters, self.global_parameters])

    @cached_property
    def free_parameters(self) -> np.ndarray:
        """Parameters of model and noise that are not fixed, in column order of the derivatives."""
        return self.column_parameters[self.column_parameters < self.measured_parameters]

    @cached_property
    def free_columns(self) -> slice | np.ndarray:
        """`free_parameters` as an index, a slice where possible."""
        return compact(self.free_parameters)

    @cached_property
    def columns(self) -> UnknownsColumns:
        """Column of every free parameter of model and noise."""
        every = self.column_parameters
        columns = len(self.initial_states) + np.flatnonzero(every < self.measured_parameters)
        return UnknownsColumns(self.local, self.width, columns)

    def at_bounds(self, unknowns: np.ndarray, within: float = 0.0) -> np.ndarray:
        """(experiments, width) bool: unknowns that are at a bound, or have equal bounds.

        `within`: distance from the bound that still counts, relative to the unknown or to the width of its bounds,
        whichever is smaller.
        """
        if within == 0:
            return np.asarray((unknowns <= self.lower) | (unknowns >= self.upper))
        with np.errstate(invalid="ignore"):
            width = self.upper - self.lower
            near = within * np.minimum(
                np.where(np.isfinite(width), width, np.inf),
                np.maximum(np.abs(unknowns), np.finfo(float).tiny),
            )
            return np.asarray((unknowns <= self.lower + near) | (unknowns >= self.upper - near))

    def count(self, columns: np.ndarray | bool = True) -> int:
        """How many numbers are estimated, in all columns or in the given ones, (width,) bool."""
        chosen = self.exists & columns
        return int(chosen[:, : self.local].sum() + chosen[:1, self.local :].sum())

    @cached_property
    def linear(self) -> bool:
        """Whether no unknown is a logarithm or a logit."""
        return self.scales.linear

    @property
    def log(self) -> np.ndarray:
        """(experiments, width) bool: unknowns that are logarithms."""
        return self.scales.log

    def natural(self, unknowns: np.ndarray) -> np.ndarray:
        return unknowns if self.linear else self.scales.natural(unknowns)

    def slopes(self, unknowns: np.ndarray) -> np.ndarray:
        """d natural / d internal."""
        return self.scales.slopes(self.natural(unknowns))

    def internal(self, natural: np.ndarray) -> np.ndarray:
        return self.scales.internal(natural)

    def size(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, width): how far an unknown may reasonably move from a start, in internal coordinates."""
        with np.errstate(invalid="ignore"):
            width = self.upper - self.lower
        size = np.where(np.isfinite(width) & (width > 0), width, self.unit(unknowns))
        return np.where(self.scales.logit, LOGIT.size, size)

    def unit(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, width): the unit for small steps of an unknown: its size; 1 for a log, logit or zero."""
        return np.where(self.scales.curved | (unknowns == 0), 1.0, np.abs(unknowns))

    def parameters(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, parameters): all parameters in natural units."""
        natural, values = self.natural(unknowns), self.base.copy()
        skip = len(self.initial_states)
        own, shared = self._parameter_columns
        values[:, own] = natural[:, skip : self.local]
        values[:, shared] = natural[:, self.local :]
        return values

    @cached_property
    def _parameter_columns(self) -> tuple[slice | np.ndarray, slice | np.ndarray]:
        """Local and global parameters as indices, slices where possible."""
        return compact(self.local_parameters), compact(self.global_parameters)

    def model_values(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, model parameters): the model's parameters in natural units."""
        return self.parameters(unknowns)[:, : self.model_parameters]

    def measured_values(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, measured parameters): parameters of the model, then of the noise, in natural units."""
        return self.parameters(unknowns)[:, : self.measured_parameters]

    @cached_property
    def noise_columns(self) -> np.ndarray:
        """(width,) bool: columns of parameters that only the noise has."""
        every = self.column_parameters
        own = (every >= self.model_parameters) & (every < self.measured_parameters)
        return np.concatenate([np.zeros(len(self.initial_states), bool), own])

    def parameter_slopes(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, free parameters): d natural / d internal of the free parameters of model and noise."""
        return self.slopes(unknowns)[:, self.columns.parameters]

    def initial_derivative(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, states, width): derivative of the initial states by the unknowns."""
        return self._unit_derivative if self.plain_initial else self.initial(unknowns)[1]

    @cached_property
    def plain_initial(self) -> bool:
        """Whether no initial state is a log, a logit, a formula or a steady state."""
        free, column, _ = self._free_initial
        return (
            self.formulas is None
            and self.steady_starts is None
            and not self.scales.curved[free, column].any()
        )

    def initial(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States at t0 (experiments, states), after any doses, and their derivative (experiments, states, width)."""
        values, derivative = self.before_doses(unknowns)
        return values if self.dosed is None else values + self.dosed, derivative

    def before_doses(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Initial states (experiments, states) before doses at t0, and their derivative by the unknowns."""
        free, column, state = self._free_initial
        natural = self.natural(unknowns)
        values = self.known.copy()
        values[free, state] = natural[free, column]
        if self.plain_initial:
            return values, self._unit_derivative
        derivative = np.zeros((*values.shape, self.width))
        derivative[free, state, column] = self.slopes(unknowns)[free, column]
        if self.steady_starts is not None:
            self._fill_steady_states(unknowns, self.steady_starts, values, derivative)
        self._fill_formulas(unknowns, self.formula_of, values, derivative)
        return values, derivative

    @cached_property
    def _free_initial(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Experiment, column and state of every free initial state."""
        experiment, column = np.nonzero(self.exists[:, : len(self.initial_states)])
        return experiment, column, self.initial_states[column]

    @cached_property
    def _unit_derivative(self) -> np.ndarray:
        """The derivative of `initial` when no initial state is a log or a formula."""
        free, column, state = self._free_initial
        derivative = np.zeros((*self.known.shape, self.width))
        derivative[free, state, column] = 1.0
        derivative.setflags(write=False)
        return derivative

    def _fill_formulas(
        self, unknowns: np.ndarray, formula_of: np.ndarray, values: np.ndarray, derivative: np.ndarray
    ) -> None:
        """Fill in the states that formulas give, with their derivatives by the unknowns, in place.

        The states that formulas use are there already: dx = f_x dx_used + f_p dp.
        """
        if self.formulas is None:
            return
        count, used = len(unknowns), [self.states.index(name) for name in self.formulas.states]
        known = np.zeros((count, 0)) if self.covariates is None else self.covariates
        arguments = np.zeros(count), values[:, used], self.parameters(unknowns), known
        value, wrt_x, wrt_p = self.formulas.linearise(*arguments)
        slopes = self.slopes(unknowns)
        every = self.column_parameters
        columns = np.arange(len(self.initial_states), self.width)
        for e, state in zip(*np.nonzero(formula_of >= 0), strict=True):
            row = formula_of[e, state]
            values[e, state] = value[e, row]
            derivative[e, state] = wrt_x[e, row] @ derivative[e, used]
            derivative[e, state, columns] += wrt_p[e, row, every] * slopes[e, columns]

    def _fill_steady_states(
        self, unknowns: np.ndarray, before: SteadyStarts, values: np.ndarray, derivative: np.ndarray
    ) -> None:
        """Fill in states that begin at their steady values, in place; NaN if the system reaches no steady state."""
        start, by_unknowns = before.known.copy(), np.zeros_like(derivative)
        self._fill_formulas(unknowns, before.formula_of, start, by_unknowns)
        if before.earlier is not None:
            self._fill_steady_states(unknowns, before.earlier, start, by_unknowns)
        params, slopes = self.model_values(unknowns), self.slopes(unknowns)
        every = self.column_parameters
        own = every < self.model_parameters
        columns = len(self.initial_states) + np.flatnonzero(own)
        states = before.kept.shape[1]  # those of the model; hidden ones come after them
        for e, steady in before.reached(start[:, :states], params).items():
            kept = before.kept[e]
            chosen = np.flatnonzero(kept)
            if steady is None:
                values[e, chosen], derivative[e, chosen] = np.nan, np.nan
                continue
            slope = steady.by_start @ by_unknowns[e, :states]
            slope[:, columns] += steady.by_params[:, every[own]] * slopes[e, columns]
            values[e, chosen], derivative[e, chosen] = steady.states[kept], slope[kept]

    def label(self, experiment: int, column: int) -> str:
        """Name of one unknown: `a`, `a[pond 1]` for a local parameter, `prey(0)[pond 1]` for an initial state."""
        where = f"[{self.experiments[experiment]}]" if len(self.experiments) > 1 else ""
        if column < len(self.initial_states):
            return f"{self.states[self.initial_states[column]]}(0){where}"
        if column < self.local:
            index = self.local_parameters[column - len(self.initial_states)]
            return f"{self.names[index]}[{self.experiments[experiment]}]"
        return self.names[int(self.global_parameters[column - self.local])]


def unknowns_index(chosen: np.ndarray, local: int) -> np.ndarray:
    """(unknowns, 2): experiment and column of chosen unknowns; global columns stand once, with experiment 0."""
    own = np.argwhere(chosen[:, :local])
    shared = local + np.flatnonzero(chosen[0, local:])
    return np.concatenate([own, np.stack([np.zeros_like(shared), shared], axis=1)]).astype(int)


def compact(index: np.ndarray) -> slice | np.ndarray:
    """An index as a slice where it counts up without gaps: views instead of copies."""
    if len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


# ---- the layout of a problem ---------------------------------------------------------------------------------------


def layout_of(problem: Problem) -> UnknownsLayout:
    """The layout of the unknowns of a problem: [free initial states | local parameters | global parameters]."""
    model, parameters = problem.solved_model, problem.parameters
    initial = [{**one, **problem.hidden_initial(e)} for e, one in enumerate(problem.initial_by_experiment)]
    order, rows = list(parameters), len(initial)
    states = [s for s in model.states if any(isinstance(one[s], Parameter) for one in initial)]
    free = [name for name, one in parameters.items() if one.fixed is None]
    local = [name for name in free if parameters[name].local]
    shared = [name for name in free if not parameters[name].local]
    estimated = [parameters[name] for name in (*local, *shared)]
    table = [[_numbers_of(spec) for spec in (*(one[s] for s in states), *estimated)] for one in initial]
    lower, upper, start, log, logit = np.moveaxis(np.array(table, float).reshape(rows, -1, 5), 2, 0)
    scales = Scales.of(log > 0, logit > 0, lower, upper)
    rests = _chains([one.rest for one in problem.experiments])
    before = [[_before(rest) for rest in level] for level in rests]
    formulas, (formula_of, *steady_formulas) = _formulas(
        model.states, order, model.covariates, initial, *before
    )
    earlier = None
    for rest, one, steady_formula in reversed(list(zip(rests, before, steady_formulas, strict=True))):
        earlier = _steady_starts(problem, rest, _known(model.states, one), steady_formula, earlier)
    known = [list(covariates_of(model, one).values()) for one in problem.experiments]
    dosed = _dosed_at_start(model.states, problem.experiments)
    return UnknownsLayout(
        experiments=problem.names,
        states=model.states,
        names=tuple(order),
        model_parameters=len(model.parameters),
        measured_parameters=len({*model.parameters, *problem.noise_names}),
        base=np.tile([0.0 if p.fixed is None else p.fixed for p in parameters.values()], (rows, 1)),
        known=_known(model.states, initial),
        initial_states=np.array([model.states.index(s) for s in states], int),
        local_parameters=np.array([order.index(n) for n in local], int),
        global_parameters=np.array([order.index(n) for n in shared], int),
        lower=scales.internal(lower),
        upper=scales.internal(upper),
        scales=scales,
        start=scales.internal(start),
        formulas=formulas,
        formula_of=formula_of,
        steady_starts=earlier,
        covariates=np.array(known, float).reshape(rows, -1),
        dosed=dosed if dosed.any() else None,
    )


def _dosed_at_start(states: Sequence[str], experiments: Sequence[Experiment]) -> np.ndarray:
    """(experiments, states): the amounts that are given at once at t0."""
    amounts = np.zeros((len(experiments), len(states)))
    for e, one in enumerate(experiments):
        jumps = jumps_of(states, one.doses)
        if jumps is not None:
            amounts[e] = jumps.at(one.t0, amounts[e])
    return amounts


def _numbers_of(spec: object) -> tuple[float, float, float, bool, bool]:
    """Lower bound, upper bound, start (NaN without one), log and logit of an unknown; equal bounds: it is known."""
    if not isinstance(spec, Parameter):
        return 0.0, 0.0, np.nan, False, False
    return *spec.bounds, np.nan if spec.start is None else spec.start, spec.log, spec.logit


def _known(states: Sequence[str], initial: Sequence[Mapping[str, object]]) -> np.ndarray:
    """(experiments, states): the known initial values, 0 elsewhere."""
    return np.array(
        [[v if isinstance(v := one.get(s), float) else 0.0 for s in states] for one in initial], float
    )


def _before(rest: Rest | None) -> dict[str, float | sympy.Expr]:
    """state -> number or expression from which the steady state before an experiment is reached."""
    specs = {} if rest is None else rest.initial
    return {name: parse(spec) if isinstance(spec, str) else spec for name, spec in specs.items()}


def _chains(rests: list[Rest | None]) -> list[list[Rest | None]]:
    """The steady states just before the experiments, those before these, and so on; none where there are none."""
    found = []
    while any(one is not None for one in rests):
        found.append(rests)
        rests = [None if one is None else one.after for one in rests]
    return found


def _steady_starts(
    problem: Problem,
    rests: list[Rest | None],
    known: np.ndarray,
    formula_of: np.ndarray,
    earlier: SteadyStarts | None,
) -> SteadyStarts:
    """The steady states of one level of the chains; `earlier`: those before them."""
    model, experiments = problem.model, problem.experiments
    inputs = [
        [0.0 if rest is None else rest.value_of(n, covariates_of(model, one)) for n in model.inputs]
        for rest, one in zip(rests, experiments, strict=True)
    ]
    # a steady state is asked for by the experiment, or by the steady state after it
    later = [
        None if one.rest is rest else next(r for r in _after(one.rest) if r.after is rest)
        for rest, one in zip(rests, experiments, strict=True)
    ]
    kept = [
        [
            rest is not None and (isinstance(first[n], Rest) if after is None else n not in after.initial)
            for n in model.states
        ]
        for rest, after, first in zip(rests, later, problem.initial_by_experiment, strict=True)
    ]
    return SteadyStarts(
        rhs=model.rhs,
        times=np.array([one.t0 for one in experiments]),
        inputs=np.array(inputs, float).reshape(len(experiments), -1),
        known=known,
        formula_of=formula_of,
        kept=np.array(kept),
        regimens=tuple(map(_regimen, rests)),
        earlier=earlier,
        eventful=model if model.events else None,
    )


def _after(rest: Rest | None) -> Iterator[Rest]:
    """A steady state and those before it."""
    while rest is not None:
        yield rest
        rest = rest.after


def _regimen(rest: Rest | None) -> Regimen | None:
    return None if rest is None or rest.every is None else Regimen(rest.doses, rest.every)


def _formulas(
    states: Sequence[str],
    order: Sequence[str],
    covariates: Sequence[str],
    *tables: Sequence[Mapping[str, object]],
) -> tuple[BatchedMap | None, list[np.ndarray]]:
    """The distinct initial formulas as one batched map, and the row in it of each (experiment, state), or -1."""
    distinct: dict[sympy.Expr, int] = {}
    used = [np.full((len(table), len(states)), -1) for table in tables]
    for table, formula_of in zip(tables, used, strict=True):
        for e, one in enumerate(table):
            for s, state in enumerate(states):
                if isinstance(spec := one.get(state), sympy.Expr):
                    formula_of[e, s] = distinct.setdefault(spec, len(distinct))
    if not distinct:
        return None, used
    begun = [states[k] for k in states_in(states, distinct)]
    return BatchedMap(list(distinct), begun, tuple(order), tuple(covariates)), used


def priors_of(problem: Problem) -> Priors | None:
    """The priors of the unknowns; None if there are none."""
    layout, entries = problem.layout, []
    for e, c in np.argwhere(layout.exists):
        if c >= layout.local and e > 0:
            continue  # the same unknown as in the first experiment
        k = c - len(layout.initial_states)
        spec = (
            problem.initial_by_experiment[e][layout.states[layout.initial_states[c]]]
            if k < 0
            else problem.parameters[layout.names[layout.column_parameters[k]]]
        )
        if isinstance(spec, Parameter) and spec.prior is not None:
            entries.append((int(e), int(c), layout.scales[e, c], spec.prior))
    return Priors(layout.lower.shape, tuple(entries)) if entries else None
