"""Which unknowns a problem has, in which column each stands, and its bounds, start and prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import sympy

from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter, to_internal
from picardfit.model.priors import Priors
from picardfit.problem.experiment import Experiment, Rest
from picardfit.problem.unknowns import SteadyStarts, UnknownsLayout

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem


def priors_of(problem: Problem) -> Priors | None:
    """The priors of the unknowns; None if there are none."""
    table, layout = _columns(problem, *_columns_of(problem)), problem.layout
    entries = []
    for e, c in np.argwhere(layout.exists):
        spec = table[e][c]
        if spec is None or spec.prior is None or (c >= layout.local and e > 0):
            continue
        entries.append((int(e), int(c), bool(layout.log[e, c]), spec.prior))
    return Priors(layout.lower.shape, tuple(entries)) if entries else None


def layout_of(problem: Problem) -> UnknownsLayout:
    """The layout of the unknowns of a problem: [free initial states | local parameters | global parameters]."""
    model, parameters, initial = problem.model, problem.parameters, problem.initial_by_experiment
    order, rows = list(parameters), len(initial)
    free, local, shared = _columns_of(problem)
    table = _columns(problem, free, local, shared)
    log = np.array([[c is not None and c.log for c in row] for row in table], bool).reshape(rows, -1)
    bounds = np.array([[(0.0, 0.0) if c is None else c.bounds for c in row] for row in table], float)
    bounds = bounds.reshape(rows, -1, 2)
    start = np.array([[_start(c) for c in row] for row in table], float).reshape(rows, -1)
    before = [_before(one) for one in problem.experiments]
    formulas, (formula_of, steady_formula_of) = _formulas(model, order, initial, before)
    return UnknownsLayout(
        experiments=problem.names,
        states=model.states,
        names=tuple(order),
        model_parameters=len(model.parameters),
        measured_parameters=len({*model.parameters, *problem.noise_names}),
        base=np.tile([0.0 if p.fixed is None else p.fixed for p in parameters.values()], (rows, 1)),
        known=_numbers(model, initial),
        initial_states=np.array([model.states.index(s) for s in free], int),
        local_parameters=np.array([order.index(n) for n in local], int),
        global_parameters=np.array([order.index(n) for n in shared], int),
        lower=to_internal(bounds[..., 0], log),
        upper=to_internal(bounds[..., 1], log),
        log=log,
        start=to_internal(start, log),
        formulas=formulas,
        formula_of=formula_of,
        steady_starts=_steady_starts(problem, before, steady_formula_of),
    )


def _columns_of(problem: Problem) -> tuple[list[str], list[str], list[str]]:
    """States with an unknown initial value in some experiment, free local parameters, free global parameters."""
    initial, parameters = problem.initial_by_experiment, problem.parameters
    states = [s for s in problem.model.states if any(isinstance(one[s], Parameter) for one in initial)]
    free = [name for name, one in parameters.items() if one.fixed is None]
    local = [name for name in free if parameters[name].local]
    return states, local, [name for name in free if not parameters[name].local]


def _columns(
    problem: Problem, states: Sequence[str], local: Sequence[str], shared: Sequence[str]
) -> list[list[Parameter | None]]:
    """What is known of the unknown in each column, for each experiment; None where it has no such unknown."""
    parameters = [problem.parameters[name] for name in (*local, *shared)]
    return [
        [*(spec if isinstance(spec := one[s], Parameter) else None for s in states), *parameters]
        for one in problem.initial_by_experiment
    ]


def _start(one: Parameter | None) -> float:
    return np.nan if one is None or one.start is None else one.start


def _numbers(model: Model, initial: Sequence[Mapping[str, object]]) -> np.ndarray:
    """(experiments, states): the known initial values, 0 elsewhere."""
    return np.array(
        [[v if isinstance(v := one.get(s), float) else 0.0 for s in model.states] for one in initial], float
    )


def _before(one: Experiment) -> dict[str, float | sympy.Expr]:
    """state -> number or expression from which the steady state before an experiment is reached; empty without one."""
    specs = {} if one.rest is None else one.rest.initial
    return {n: parse(s) if isinstance(s, str) else s for n, s in specs.items()}


def _steady_starts(
    problem: Problem, before: Sequence[Mapping[str, float | sympy.Expr]], formula_of: np.ndarray
) -> SteadyStarts | None:
    model, experiments = problem.model, problem.experiments
    if all(one.rest is None for one in experiments):
        return None
    inputs = [
        [0.0 if one.rest is None else one.rest.inputs[n].value for n in model.inputs] for one in experiments
    ]
    return SteadyStarts(
        rhs=model.rhs,
        times=np.array([one.t0 for one in experiments]),
        inputs=np.array(inputs, float).reshape(len(experiments), -1),
        known=_numbers(model, before),
        formula_of=formula_of,
        kept=np.array(
            [[isinstance(one[n], Rest) for n in model.states] for one in problem.initial_by_experiment]
        ),
    )


def _formulas(
    model: Model, order: Sequence[str], *tables: Sequence[Mapping[str, object]]
) -> tuple[BatchedMap | None, list[np.ndarray]]:
    """Distinct initial formulas as one batched map, and which one each (experiment, state) of each table uses."""
    distinct: dict[sympy.Expr, int] = {}
    used = [np.full((len(table), len(model.states)), -1) for table in tables]
    for table, formula_of in zip(tables, used, strict=True):
        for e, one in enumerate(table):
            for s, state in enumerate(model.states):
                if isinstance(spec := one.get(state), sympy.Expr):
                    formula_of[e, s] = distinct.setdefault(spec, len(distinct))
    if not distinct:
        return None, used
    return BatchedMap(list(distinct), states=(), parameters=tuple(order), inputs=()), used
