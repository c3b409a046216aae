"""What cannot be evaluated where a search begins, or at the initial time whatever the unknowns are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import sympy

from picardfit.errors import Notice
from picardfit.problem.problem import Problem, Start
from picardfit.problem.sampled_rows import sampled_rows
from picardfit.simulation.nonfinite import (
    NonFinite,
    Point,
    nonfinite_derivative,
    nonfinite_equation,
    nonfinite_formula,
    nonfinite_observable,
)


@dataclass(frozen=True)
class PoleTest:
    """When a right-hand side counts as infinite at the initial time.

    A pole that can be integrated, such as 1/sqrt(t) at 0, does no harm: slope times time since the pole goes to zero.
    """

    near: float = (
        1e-9  # the two times after the initial time at which slopes are compared, in spans of the samples
    )
    far: float = 1e-6
    shrinking: float = 0.5  # slope times time must fall below this fraction from far to near to be integrable
    points: int = 8  # random states and parameters, between a tenth and ten


@dataclass(frozen=True)
class PathTest:
    """Where the guessed path of a start is examined."""

    between: int = 8  # points between two times of the guess


def nonfinite_at_start(problem: Problem, start: Start, settings: PathTest = PathTest()) -> Notice | None:
    """What is not finite at the start of a search, or None."""
    found = _in_initial_formulas(problem, start) or _along_path(problem, start, settings)
    if found is None:
        return None
    experiment, one = found
    return Notice("simulation.nonfinite_start", one.subject, {**one.record(), "experiment": experiment})


def never_finite(problem: Problem, settings: PoleTest = PoleTest()) -> Notice | None:
    """What is infinite at the initial time of an experiment whatever states and parameters are, or None."""
    model, rng = problem.solved_model, np.random.default_rng(0)
    shape = settings.points
    x, p = (10 ** rng.uniform(-1, 1, (shape, len(group))) for group in (model.states, model.parameters))
    for one in problem.experiments:
        span = np.array([settings.near, settings.far]) * (one.times[-1] - one.t0)
        since = np.maximum(span, 4 * np.spacing(abs(one.t0)))
        times = np.array([one.t0, *(one.t0 + since)])
        inputs = one.inputs_at(model.inputs, times)
        at, near, far = (
            np.abs(model.rhs.value(np.full(shape, t), x, p, np.tile(u, (shape, 1))))
            for t, u in zip(times, inputs, strict=True)
        )
        integrable = near * since[0] < settings.shrinking * far * since[1]
        pole = ~np.isfinite(at) & np.isfinite(far) & (far > 0) & ~integrable
        if not pole.all(axis=0).any():
            continue
        found = nonfinite_equation(model, Point(one.t0, x[0], p[0], inputs[0]))
        if found is not None:
            values = {"value": str(found.value), "t0": one.t0, "experiment": one.name}
            return Notice("simulation.never_finite", found.subject, values)
    return None


def _in_initial_formulas(problem: Problem, start: Start) -> tuple[str, NonFinite] | None:
    """Experiment and formula of the first initial state that is not finite."""
    layout = problem.layout
    with np.errstate(all="ignore"):
        initial, _ = layout.before_doses(start.unknowns)
    params = layout.parameters(start.unknowns)
    for e, row in np.argwhere(~np.isfinite(initial)):
        state, values = layout.states[row], dict(zip(layout.states, initial[e].tolist(), strict=True))
        values |= dict(zip(layout.names, params[e].tolist(), strict=True))
        spec = problem.initial_by_experiment[e][state]
        if isinstance(spec, sympy.Expr):
            return problem.names[e], nonfinite_formula(f"the initial formula of `{state}`", spec, values)
        line = f"the steady state of `{state}` before the experiment, which was not found,"
        return problem.names[e], NonFinite(line, "", float(initial[e, row]), values)
    return None


@dataclass(frozen=True)
class _Guess:
    """The guessed path of one experiment at k times, where formulas are evaluated."""

    t: np.ndarray  # (k,)
    x: np.ndarray  # (k, states)
    p: np.ndarray  # (parameters,)
    u: np.ndarray  # (k, inputs)

    def first(self, values: np.ndarray, cause: Callable[[Point], NonFinite | None]) -> NonFinite | None:
        """The cause at the first point where the values (k, ...) are not finite."""
        rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        if not len(rows):
            return None
        k = rows[0]
        return cause(Point(float(self.t[k]), self.x[k], self.p, self.u[k]))


def _along_path(problem: Problem, start: Start, settings: PathTest) -> tuple[str, NonFinite] | None:
    """Experiment and formula of what is first found along the guessed paths."""
    initial, _ = problem.layout.initial(start.unknowns)
    for e, one in enumerate(problem.experiments):
        found = _in_experiment(problem, start, e, initial[e], settings)
        if found is not None:
            return one.name, found
    return None


def _in_experiment(
    problem: Problem, start: Start, e: int, initial: np.ndarray, settings: PathTest
) -> NonFinite | None:
    """The equations come first, then the observables that were measured, then derivatives of the equations."""
    model, one = problem.solved_model, problem.experiments[e]
    params = problem.layout.model_values(start.unknowns)[e]

    def guess(times: np.ndarray) -> _Guess:
        return _Guess(times, start.states(times, e), params, one.inputs_at(model.inputs, times))

    path, samples = guess(_refined(start.tables[e][0], settings.between)), guess(one.times)

    def observable(point: Point) -> NonFinite | None:
        """The first observable that is not finite among those that are measured at the time of the point."""
        some = one.sampled[one.times == point.t].any(axis=0)
        measured = [name for name, there in zip(one.observables, some, strict=True) if there]
        return nonfinite_observable(model, measured, point)

    begin = Point(one.t0, initial, params, one.inputs_at(model.inputs, np.array([one.t0]))[0])
    equation = partial(nonfinite_equation, model)
    derivative = partial(nonfinite_derivative, model)
    with np.errstate(all="ignore"):
        slopes, by_states, by_params = model.rhs.linearise(path.t, path.x, path.p, path.u)
        sampled = problem.sampled[problem.samples.experiment == e]
        outputs = sampled_rows(model.output, sampled).value(samples.t, samples.x, samples.p, samples.u)
        return (
            equation(begin)
            or path.first(slopes, equation)
            or samples.first(outputs, observable)
            or path.first(by_states, derivative)
            or path.first(by_params, derivative)
            or observable(begin)
        )


def _refined(times: np.ndarray, between: int) -> np.ndarray:
    """The times (k,), with `between` steps from each to the next."""
    steps = np.linspace(0, len(times) - 1, between * (len(times) - 1) + 1)
    return np.asarray(np.interp(steps, np.arange(len(times)), times))
