"""The unknowns of a problem: which there are, where each stands, and what is believed of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import sympy

from picardfit.formulas.grammar import BatchedMap, parse
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter, to_internal
from picardfit.model.priors import Priors
from picardfit.problem.experiment import Experiment, Rest
from picardfit.problem.unknowns import Rests, UnknownsLayout

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem


def priors_of(problem: Problem) -> Priors | None:
    layout, initial = problem.layout, problem.initial_by_experiment
    states = len(layout.initial_states)
    entries = []
    for e, c in np.argwhere(layout.exists):
        if c >= layout.local and e > 0:
            continue
        if c < states:
            spec = initial[e][layout.states[layout.initial_states[c]]]
        else:
            which = np.concatenate([layout.local_parameters, layout.global_parameters])[c - states]
            spec = problem.parameters[layout.names[which]]
        if spec.prior is not None:
            entries.append((int(e), int(c), bool(layout.log[e, c]), spec.prior))
    return Priors(layout.lower.shape, tuple(entries)) if entries else None


def layout_of(problem: Problem) -> UnknownsLayout:
    model, parameters, initial = problem.model, problem.parameters, problem.initial_by_experiment
    order = list(parameters)
    rows = len(initial)
    free = [s for s in model.states if any(isinstance(one[s], Parameter) for one in initial)]
    local = [n for n in order if parameters[n].fixed is None and parameters[n].local]
    shared = [n for n in order if parameters[n].fixed is None and not parameters[n].local]
    columns: list[list[Parameter | None]] = [
        [*(one[s] if isinstance(one[s], Parameter) else None for s in free)]
        + [parameters[n] for n in (*local, *shared)]
        for one in initial
    ]
    log = np.array([[bool(c and c.log) for c in row] for row in columns], bool).reshape(rows, -1)
    bounds = np.array([[c.bounds if c else (0.0, 0.0) for c in row] for row in columns], float).reshape(
        rows, -1, 2
    )
    start = [[np.nan if c is None or c.start is None else c.start for c in row] for row in columns]
    before = [_before(one) for one in problem.experiments]
    formulas, (formula_of, rest_formula_of) = _formulas(model, order, initial, before)
    known = [[one[s] if isinstance(one[s], float) else 0.0 for s in model.states] for one in initial]
    index = {name: k for k, name in enumerate(order)}
    return UnknownsLayout(
        experiments=problem.names,
        states=model.states,
        names=tuple(order),
        model_parameters=len(model.parameters),
        measured_parameters=len({*model.parameters, *problem.noise_names}),
        base=np.tile([0.0 if p.fixed is None else p.fixed for p in parameters.values()], (rows, 1)),
        known=np.array(known, float),
        initial_states=np.array([model.states.index(s) for s in free], int),
        local_parameters=np.array([index[n] for n in local], int),
        global_parameters=np.array([index[n] for n in shared], int),
        lower=to_internal(bounds[..., 0], log),
        upper=to_internal(bounds[..., 1], log),
        log=log,
        start=to_internal(np.array(start, float).reshape(rows, -1), log),
        formulas=formulas,
        formula_of=formula_of,
        rests=_rests(problem, before, rest_formula_of),
    )


def _before(one: Experiment) -> dict[str, object]:
    """state -> number or expression at the start of the rest before an experiment; empty without one."""
    specs = {} if one.rest is None else one.rest.initial
    return {n: parse(s, f"Initial state of `{n}`") if isinstance(s, str) else s for n, s in specs.items()}


def _rests(problem: Problem, before: Sequence[dict], formula_of: np.ndarray) -> Rests | None:
    model, experiments = problem.model, problem.experiments
    if all(one.rest is None for one in experiments):
        return None
    known = [
        [float(s) if isinstance(s := one.get(n), float) else 0.0 for n in model.states] for one in before
    ]
    inputs = [
        [0.0 if one.rest is None else one.rest.inputs[n].value for n in model.inputs] for one in experiments
    ]
    return Rests(
        rhs=model.rhs,
        times=np.array([one.t0 for one in experiments]),
        inputs=np.array(inputs, float).reshape(len(experiments), -1),
        known=np.array(known, float),
        formula_of=formula_of,
        kept=np.array(
            [[isinstance(one[n], Rest) for n in model.states] for one in problem.initial_by_experiment]
        ),
    )


def _formulas(
    model: Model, order: list[str], *starts: Sequence[dict]
) -> tuple[BatchedMap | None, list[np.ndarray]]:
    """Distinct initial formulas as one batched map, and which one each (experiment, state) of each table uses."""
    distinct: dict[object, int] = {}
    tables = [np.full((len(initial), len(model.states)), -1) for initial in starts]
    for initial, formula_of in zip(starts, tables, strict=True):
        for e, one in enumerate(initial):
            for s, state in enumerate(model.states):
                if isinstance(spec := one.get(state), sympy.Expr):
                    formula_of[e, s] = distinct.setdefault(spec, len(distinct))
    if not distinct:
        return None, tables
    return BatchedMap(list(distinct), states=(), parameters=tuple(order), inputs=()), tables
