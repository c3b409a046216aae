"""Which formula cannot be evaluated, where, and with which values: the words behind a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import sympy

from picardfit.formulas.algebra import Where, is_condition, names
from picardfit.formulas.grammar import BatchedMap, parse
from picardfit.formulas.printing import to_text
from picardfit.formulas.tracing import NumericMap
from picardfit.model.model import Model
from picardfit.problem.problem import Problem
from picardfit.problem.start import Start
from picardfit.simulation.trajectories import Run, trajectories

MOST_VALUES = 6  # names whose values are told
NEVER_FINITE = "The equations are not finite at the initial time"
AFTER = np.array([1e-9, 1e-6])  # times after the initial time that are looked at, in spans of the samples
POINTS = 8  # at which a formula is tried
BETWEEN = 8  # points between two times of a guessed path that are looked at
STEP = 1e-3  # of the time to a failure: how far before it a solution is looked at


@dataclass(frozen=True)
class Culprit:
    """A formula that is not finite: `formula` of the line `name`, with the values of its names."""

    name: str  # "`x'`", "the helper `q`", "the observable `y`", "the initial formula of `x`"
    formula: str  # the smallest part of it that is not finite; empty when only a function knows it
    value: float
    values: dict[str, float]

    def __str__(self) -> str:
        what = f"`{self.formula}` in {self.name}" if self.formula else self.name
        return f"{what} is {_word(self.value)} {self.where}"

    @property
    def where(self) -> str:
        shown = [f"{name} = {value:.6g}" for name, value in list(self.values.items())[:MOST_VALUES]]
        return f"at {', '.join(shown)}" if shown else "at all values"


def blame_start(problem: Problem, start: Start) -> str:
    """What is not finite at a start, with the remedy, in one sentence; empty when nothing is found."""
    found = _in_initial_formulas(problem, start) or _along_path(problem, start)
    if found is None:
        return ""
    experiment, one = found
    return (
        f"The model is not finite at the start of the search: {one} (experiment `{experiment}`); give a start or "
        f"bounds where it is finite, change the initial values, or write the formula so that it is."
    )


def blame_time(problem: Problem) -> str:
    """What has no solution from the initial time of an experiment whatever states and parameters are; else empty.

    A pole that can be integrated (1/sqrt(t) at 0) does no harm: the slope times the time since the pole goes to zero.
    """
    model, rng = problem.model, np.random.default_rng(0)
    x, p = (10 ** rng.uniform(-1, 1, (POINTS, len(group))) for group in (model.states, model.parameters))
    for one in problem.experiments:
        since = np.maximum(AFTER * (one.times[-1] - one.t0), 4 * np.spacing(abs(one.t0)))
        times = np.array([one.t0, *(one.t0 + since)])
        inputs = one.inputs_at(model.inputs, times)
        at, near, far = (
            np.abs(model.rhs.value(np.full(POINTS, t), x, p, np.tile(u, (POINTS, 1))))
            for t, u in zip(times, inputs, strict=True)
        )
        lasting = np.isfinite(far) & (far > 0) & ~(near * since[0] < 0.5 * far * since[1])
        if (~np.isfinite(at) & lasting).all(axis=0).any():
            found = equation_culprit(model, _Point(one.t0, x[0], p[0], inputs[0]))
            if found is not None:
                what = f"`{found.formula}` in {found.name}" if found.formula else found.name
                return (
                    f"{NEVER_FINITE} {one.t0:g} of `{one.name}`, whatever the parameters are: {what} is "
                    f"{_word(found.value)}; begin later (t0=...), or write the formula so that it is finite."
                )
    return ""


def blame_run(model: Model, run: Run, reached: float) -> str:
    """What is not finite at the beginning of a run, or where its solution ends; empty when nothing is found."""
    here = _Point(run.t0, np.asarray(run.initial, float), run.params, _inputs(model, run.inputs, run.t0))
    one = equation_culprit(model, here)
    if one is None and reached > run.t0:
        one = _at_the_end(model, run, reached)
    if one is None:
        return ""
    return f"{_capital(str(one))}: change the initial values or parameters, or write the formula so that it is finite."


@dataclass(frozen=True)
class _Point:
    """Where formulas are evaluated; or several such places, with times (k,), states (k, states), inputs (k, inputs)."""

    t: float | np.ndarray
    x: np.ndarray  # (states,)
    p: np.ndarray  # (parameters,)
    u: np.ndarray  # (inputs,)

    def named(self, model: Model) -> dict[str, float]:
        groups = zip((model.states, model.parameters, model.inputs), (self.x, self.p, self.u), strict=True)
        pairs = ((n, float(v)) for group, values in groups for n, v in zip(group, values, strict=True))
        return {"t": float(self.t), **dict(pairs)}


def equation_culprit(model: Model, point: _Point) -> Culprit | None:
    """The first line of the model that is not finite at a point; helpers come before the lines that use them."""
    values = point.named(model)
    if isinstance(model.rhs, NumericMap):
        return _of_function(model, model.rhs, [f"`{name}'`" for name in model.states], point)
    for name, formula, is_state in model.written:
        expression = parse(formula)
        value = _evaluate([expression], values)[0]
        if not np.isfinite(value):
            return _culprit(f"`{name}'`" if is_state else f"the helper `{name}`", expression, values)
        if not is_state:
            values[name] = float(value)
    return None


def _output_culprit(model: Model, measured: Sequence[str], point: _Point) -> Culprit | None:
    labels = [f"the observable `{name}`" for name in model.observables]
    if isinstance(model.output, NumericMap):
        found = _of_function(model, model.output, labels, point)
        return found if found and any(f"`{name}`" in found.name for name in measured) else None
    values = point.named(model)
    for name, label, expression in zip(model.observables, labels, model.output.expressions, strict=True):
        if name in measured and not np.isfinite(_evaluate([expression], values)[0]):
            return _culprit(label, expression, values)
    return None


def _slope_culprit(model: Model, point: _Point) -> Culprit | None:
    """A derivative by a state or parameter that is not finite although the equation is: sqrt(x) at 0."""
    _, *slopes = model.rhs.linearise(point.t, point.x, point.p, point.u)
    values = point.named(model)
    for columns, slope in zip((model.states, model.parameters), slopes, strict=True):
        wrong = np.argwhere(~np.isfinite(slope))
        if len(wrong):
            row, column = wrong[0]
            name = f"the derivative of `{model.states[row]}'` by `{columns[column]}`"
            shown = _used(model, row, values)
            return Culprit(name, "", float(slope[row, column]), shown)
    return None


def _used(model: Model, row: int, values: Mapping[str, float]) -> dict[str, float]:
    if isinstance(model.rhs, NumericMap):
        return dict(values)
    return _of_names(names(model.rhs.expressions[row]), values)


def _of_function(model: Model, mapping: NumericMap, labels: Sequence[str], point: _Point) -> Culprit | None:
    found = mapping.value(point.t, point.x, point.p, point.u)
    wrong = np.flatnonzero(~np.isfinite(found))
    if not len(wrong):
        return None
    return Culprit(labels[wrong[0]], "", float(found[wrong[0]]), point.named(model))


def _culprit(name: str, expression: sympy.Expr, values: Mapping[str, float]) -> Culprit:
    part, value = _smallest(expression, values)
    return Culprit(name, to_text(part), value, _of_names(names(part), values))


def _of_names(used: set[str], values: Mapping[str, float]) -> dict[str, float]:
    """The values of these names; the time comes first."""
    return {name: value for name, value in values.items() if name in used or name == "t"}


def _smallest(expression: sympy.Expr, values: Mapping[str, float]) -> tuple[sympy.Expr, float]:
    """The innermost part that is not finite, and its value."""
    value = float(_evaluate([expression], values)[0])
    while True:
        parts = [part for part in _parts(expression, values) if not part.is_number]
        found = _evaluate(parts, values) if parts else np.zeros(0)
        wrong = np.flatnonzero(~np.isfinite(found))
        if not len(wrong):
            return expression, value
        expression, value = parts[wrong[0]], float(found[wrong[0]])


def _parts(expression: sympy.Expr, values: Mapping[str, float]) -> list[sympy.Expr]:
    """The numbers that an expression is made of; of a case distinction the one that holds."""
    if isinstance(expression, Where):
        condition, yes, no = expression.args
        holds = _evaluate([Where(condition, sympy.S.One, sympy.S.Zero)], values)[0]
        return [yes if holds else no]
    return [part for part in expression.args if isinstance(part, sympy.Expr) and not is_condition(part)]


def _evaluate(expressions: Sequence[sympy.Expr], values: Mapping[str, float]) -> np.ndarray:
    """(expressions,): their values."""
    used = sorted(set().union(*map(names, expressions)) - {"t"})
    nothing = np.zeros(0)
    row = np.array([values[name] for name in used], float)
    return BatchedMap(expressions, parameters=used).value(values.get("t", 0.0), nothing, row, nothing)


def _in_initial_formulas(problem: Problem, start: Start) -> tuple[str, Culprit] | None:
    layout = problem.layout
    with np.errstate(all="ignore"):
        initial, _ = layout.initial(start.unknowns)
    params = layout.parameters(start.unknowns)
    for e, row in np.argwhere(~np.isfinite(initial)):
        state, values = layout.states[row], dict(zip(layout.names, params[e].tolist(), strict=True))
        spec = problem.initial_by_experiment[e][state]
        if isinstance(spec, sympy.Expr):
            label = f"the initial formula of `{state}`"
            return problem.names[e], _culprit(label, spec, values)
        label = f"the state `{state}` at the rest before the experiment, which was not found,"
        return problem.names[e], Culprit(label, "", float(initial[e, row]), values)
    return None


def _along_path(problem: Problem, start: Start) -> tuple[str, Culprit] | None:
    """The first thing along the guessed paths: equations, then observables, then derivatives of the equations."""
    model, params = problem.model, problem.layout.model_values(start.unknowns)
    initial, _ = problem.layout.initial(start.unknowns)
    for e, one in enumerate(problem.experiments):
        path = _points(problem, start, e, params[e], _filled(start.tables[e][0]))
        samples = _points(problem, start, e, params[e], one.times)
        measured = one.sampled.any(axis=0)
        shown = [name for name, some in zip(one.observables, measured, strict=True) if some]
        columns = [model.observables.index(name) for name in shown]
        with np.errstate(all="ignore"):
            slopes, *derivatives = model.rhs.linearise(path.t, path.x, path.p, path.u)
            outputs = model.output.value(samples.t, samples.x, samples.p, samples.u)[:, columns]
            begin = _Point(one.t0, initial[e], params[e], one.inputs_at(model.inputs, np.array([one.t0]))[0])
            found = equation_culprit(model, begin)
        found = found or _first(slopes, path, partial(equation_culprit, model))
        found = found or _first(outputs, samples, partial(_output_culprit, model, shown))
        for derivative in derivatives:
            found = found or _first(derivative, path, partial(_slope_culprit, model))
        found = found or _output_culprit(model, shown, begin)
        if found is not None:
            return one.name, found
    return None


def _points(problem: Problem, start: Start, e: int, params: np.ndarray, times: np.ndarray) -> _Point:
    """The guessed path of an experiment at these times."""
    inputs = problem.experiments[e].inputs_at(problem.model.inputs, times)
    return _Point(times, start.states(times, e), params, inputs)


def _first(values: np.ndarray, points: _Point, look: Callable[[_Point], Culprit | None]) -> Culprit | None:
    """What is found at the first point where the values (points, ...) are not finite."""
    rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if not len(rows):
        return None
    k = rows[0]
    return look(_Point(float(points.t[k]), points.x[k], points.p, points.u[k]))


def _at_the_end(model: Model, run: Run, reached: float) -> Culprit | None:
    """What is not finite one step beyond the last place that a solution reaches."""
    before = reached - STEP * (reached - run.t0)
    shorter = Run(run.t0, run.initial, run.params, run.inputs, np.array([before]), run.breaks)
    states = trajectories(model, [shorter], rtol=1e-6)[0]
    if states is None:
        return None
    u = _inputs(model, run.inputs, before)
    slope = model.rhs.value(before, states[0], run.params, u)
    later = before + 2 * (reached - before)
    x = states[0] + (later - before) * slope
    return equation_culprit(model, _Point(later, x, run.params, _inputs(model, run.inputs, later)))


def _inputs(model: Model, inputs: Mapping, time: float) -> np.ndarray:
    return np.array([float(inputs[name].at(np.array([time]))[0]) for name in model.inputs])


def _filled(times: np.ndarray) -> np.ndarray:
    """The times with points between them."""
    places = np.linspace(0, len(times) - 1, BETWEEN * (len(times) - 1) + 1)
    return np.interp(places, np.arange(len(times)), times)


def _word(value: float) -> str:
    return "not a real number" if np.isnan(value) else "infinite"


def _capital(text: str) -> str:
    return text if text.startswith("`") else text[:1].upper() + text[1:]
