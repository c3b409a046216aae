"""Which states cannot be negative, so that a dose that takes something from them is likely a wrong sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
import sympy

from picardfit.formulas.kernels import BatchedMap
from picardfit.model.inputs import Constant, Table
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter
from picardfit.problem.experiment import Experiment


@dataclass(frozen=True)
class SignTest:
    """How to find the states that cannot be negative: by the sign of their slope where they are 0."""

    points: int = 64  # random states, parameters and inputs
    least: float = 0.2  # the sizes of all of them lie between these two numbers, which are choices
    largest: float = 2.0
    tries: int = 8  # of initial formulas


def not_negative(
    model: Model,
    experiments: Sequence[Experiment],
    parameters: Mapping[str, Parameter],
    initial: Mapping[str, Mapping[str, object]],
    test: SignTest = SignTest(),
) -> set[str]:
    """States of which nothing says that they may be negative.

    They are not negative in the data, their initial values may not be, and the equations keep them at or above 0:
    f_a >= 0 wherever x_a = 0, with parameters and inputs of the signs that they may have. The largest such set: a
    state that may become negative is then given both signs, which may free others.
    """
    rng, count = np.random.default_rng(0), len(model.states)
    x, p, u = (
        rng.uniform(test.least, test.largest, (test.points, len(group)))
        for group in (model.states, model.parameters, model.inputs)
    )
    times = rng.uniform(test.least, test.largest, test.points)
    p *= _signs(rng, test.points, [parameters[name].range for name in model.parameters])
    u *= _signs(rng, test.points, [_range(experiments, name) for name in model.inputs])
    said = _said_negative(initial, parameters, rng.uniform(size=test.tries))
    said |= _measured_negative(model, experiments)
    staying = np.array([name not in said for name in model.states], bool)
    while True:
        points = np.repeat(np.where(staying, x, x - (test.least + test.largest) / 2)[None], count, axis=0)
        points[np.arange(count), :, np.arange(count)] = 0.0
        slopes = model.rhs.value(times, points, p, u)  # (states, points, states)
        own = slopes[np.arange(count), :, np.arange(count)]
        still = staying & ~(own < 0).any(axis=1)
        if (still == staying).all():
            return {name for name, stays in zip(model.states, staying, strict=True) if stays}
        staying = still


def _signs(rng: np.random.Generator, points: int, ranges: Sequence[tuple[float, float]]) -> np.ndarray:
    """(points, len(ranges)): 1, -1 where a range is negative, and both by chance where it has both signs.

    A range without a lower bound says nothing of its sign; it is taken as positive.
    """
    drawn = rng.choice([-1.0, 1.0], (points, len(ranges)))
    for k, (lower, upper) in enumerate(ranges):
        if lower >= 0 or lower == -inf < 0 < upper:
            drawn[:, k] = 1.0
        elif upper <= 0:
            drawn[:, k] = -1.0
    return drawn


def _range(experiments: Sequence[Experiment], name: str) -> tuple[float, float]:
    """The least and largest number given for an input or covariate; (0, inf) where none is given."""
    values = [np.array([one.covariates[name]]) for one in experiments if name in one.covariates]
    for one in experiments:
        match one.inputs.get(name):
            case Constant(value):
                values.append(np.array([value]))
            case Table(values=held):
                values.append(held)
    every = np.concatenate(values) if values else np.array([0.0, inf])
    return float(every.min()), float(every.max())


def _said_negative(
    initial: Mapping[str, Mapping[str, object]], parameters: Mapping[str, Parameter], draws: np.ndarray
) -> set[str]:
    """States whose initial value may be negative: by its number, its lower bound, or its formula.

    `draws`: (points,) numbers between 0 and 1, where formulas are tried between the bounds of their parameters.
    """
    values = {name: _between(one.range, draws) for name, one in parameters.items()}
    said = set()
    for specs in initial.values():
        for state, spec in specs.items():
            match spec:
                case float():
                    negative = spec < 0
                case Parameter():
                    negative = -inf < spec.bounds[0] < 0
                case sympy.Expr():
                    negative = any(
                        spec.subs({n: x[k] for n, x in values.items()}).is_negative for k in range(len(draws))
                    )
                case _:
                    negative = False
            if negative:
                said.add(state)
    return said


def _between(bounds: tuple[float, float], draws: np.ndarray) -> np.ndarray:
    """Numbers between two bounds; the positive draws themselves where one of the bounds is infinite."""
    lower, upper = bounds
    return lower + (upper - lower) * draws if isfinite(lower) and isfinite(upper) else draws


def _measured_negative(model: Model, experiments: Sequence[Experiment]) -> set[str]:
    """States of which a measurement is negative."""
    rows = model.output.expressions if isinstance(model.output, BatchedMap) else ()
    shown = {name: str(row) for name, row in zip(model.observables, rows, strict=False)}
    return {
        shown[name]
        for one in experiments
        for name, values in zip(one.observables, one.values.T, strict=True)
        if shown.get(name) in model.states and name not in model.increments and (values < 0).any()
    }
