"""Observables that are changes: `increment(g)` is g at a sample minus g at the sample before (the first: at t0).

A model that is solved has a running state r for each of them, r' = dg/dt along the solution with r(t0) = 0, and the
observable is r itself. Where a path is fitted, r is set back to zero at every sample of that observable, so that a
sample depends on the segments since the last one and the coupling stays local. Where a solution is integrated, r runs
on and samples are differences.
"""

from __future__ import annotations

import numpy as np
import sympy

from picardfit.errors import InputError
from picardfit.formulas.algebra import TIME, names, symbol
from picardfit.formulas.derivatives import Slopes
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.model.model import Model


def solved_model(model: Model) -> Model:
    """The model with a running state for each increment, after its own states; the model itself if it has none."""
    if not model.increments:
        return model
    if not (isinstance(model.rhs, BatchedMap) and isinstance(model.output, BatchedMap)):
        raise InputError("model.increment_of_function", model.increments[0], key=("observables",))
    rates = dict(zip(model.states, model.rhs.expressions, strict=True))
    outputs = dict(zip(model.observables, model.output.expressions, strict=True))
    running = {}
    for name in model.increments:
        for used in sorted((names(outputs[name]) & set(model.inputs)) - set(model.covariates)):
            key = ("observables", name)
            raise InputError("model.increment_of_input", name, key=key, input=used)
        running[running_name(name)] = _along_solution(outputs[name], rates)
        outputs[name] = symbol(running_name(name))
    return Model.from_expressions(
        rates,
        outputs,
        model.parameters,
        model.inputs,
        covariates=model.covariates,
        infused=model.infused,
        hidden=running,
    )


def running_name(observable: str) -> str:
    """The name of the running state of an increment; it contains a blank, so no user can write it."""
    return f"increment of {observable}"


def _along_solution(formula: sympy.Expr, rates: dict[str, sympy.Expr]) -> sympy.Expr:
    """dg/dt = g_t + sum of g_x f."""
    slopes = Slopes()
    terms = [slopes.slope(formula, symbol(state)) * rate for state, rate in rates.items()]
    return sympy.Add(slopes.slope(formula, TIME), *terms)


def increment_columns(model: Model) -> list[int]:
    """The observables that are increments, as columns."""
    return [model.observables.index(name) for name in model.increments]


def since_last(times: Array, values: Array) -> Array:
    """Changes (times, ...) of values at ascending times, each since the last earlier time; the first since zero."""
    before = np.searchsorted(times, times, side="left") - 1
    earlier = np.where((before >= 0).reshape(-1, *(1,) * (values.ndim - 1)), values[before], 0.0)
    return np.asarray(values - earlier)


def differenced(model: Model, times: Array, values: Array, first: Array) -> Array:
    """Observables (times, observables, ...) with increments as changes between ascending times.

    `values` has their formulas g at the times, `first` (observables, ...) at t0.
    """
    columns = increment_columns(model)
    if not columns:
        return values
    result = np.array(values, float)
    result[:, columns] = since_last(times, values[:, columns] - first[columns])
    return result


def with_running(model: Model, states: Array, outputs: Array) -> Array:
    """States (times, states), then running states: the increments among the observables (times, observables)."""
    columns = increment_columns(model)
    return np.concatenate([states, outputs[:, columns]], axis=1) if columns else states
