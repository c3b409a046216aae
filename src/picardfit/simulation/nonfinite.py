"""Which formula of a model is not finite, where, and at which values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy

from picardfit.formulas.algebra import Where, is_condition, names
from picardfit.formulas.grammar import parse, to_text
from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.model.inputs import values_at
from picardfit.model.model import Model
from picardfit.simulation.trajectories import Run, trajectories


@dataclass(frozen=True)
class NonFinite:
    """A formula that is not finite at some values."""

    line: str  # where it was written: "`x'`", "the helper `q`", "the observable `y`", "the initial formula of `x`"
    formula: str  # its smallest part that is not finite; empty for a Python function
    value: float  # NaN or an infinity
    values: Mapping[str, float]  # of the names in it, the time first

    @property
    def subject(self) -> str:
        return f"`{self.formula}` in {self.line}" if self.formula else self.line

    def record(self) -> dict[str, object]:
        """The values for its sentence, in types that JSON has."""
        return {"value": str(self.value), "at": dict(self.values)}


@dataclass(frozen=True)
class Point:
    """Where formulas are evaluated."""

    t: float
    x: np.ndarray  # (states,)
    p: np.ndarray  # (parameters,)
    u: np.ndarray  # (inputs,)

    def named(self, model: Model) -> dict[str, float]:
        groups = zip((model.states, model.parameters, model.inputs), (self.x, self.p, self.u), strict=True)
        pairs = ((n, float(v)) for group, values in groups for n, v in zip(group, values, strict=True))
        return {"t": self.t, **dict(pairs)}


@dataclass(frozen=True)
class EndOfRun:
    """How the end of a solution is examined that does not reach its last time."""

    before: float = 1e-3  # how long before it the solution is computed, as a fraction of the time it lasts
    rtol: float = 1e-6  # of that solution: messages show states with six digits


def nonfinite_in_run(
    model: Model, run: Run, reached: float, settings: EndOfRun = EndOfRun()
) -> NonFinite | None:
    """What is not finite where a run begins, or else one Euler step beyond the last time that its solution reaches."""

    def inputs(time: float) -> np.ndarray:
        return values_at(run.inputs, model.inputs, np.array([time]))[0]

    begin = Point(run.t0, np.asarray(run.initial, float), run.params, inputs(run.t0))
    found = nonfinite_equation(model, begin)
    if found is not None or reached <= run.t0:
        return found
    before = reached - settings.before * (reached - run.t0)
    states = trajectories(model, [replace(run, times=np.array([before]))], rtol=settings.rtol)[0]
    if states is None:
        return None
    slope = model.rhs.value(before, states[0], run.params, inputs(before))
    later = before + 2 * (reached - before)
    x = states[0] + (later - before) * slope
    return nonfinite_equation(model, Point(later, x, run.params, inputs(later)))


def nonfinite_equation(model: Model, point: Point) -> NonFinite | None:
    """The first line of the model that is not finite at a point; helpers come before the lines that use them."""
    if isinstance(model.rhs, NumericMap):
        return _first_row(model, model.rhs, [f"`{name}'`" for name in model.states], point)
    values = point.named(model)
    for name, formula, is_state in model.written:
        expression = parse(formula)
        value = _evaluate([expression], values)[0]
        if not np.isfinite(value):
            return nonfinite_formula(f"`{name}'`" if is_state else f"the helper `{name}`", expression, values)
        if not is_state:
            values[name] = float(value)
    return None


def nonfinite_observable(model: Model, measured: Sequence[str], point: Point) -> NonFinite | None:
    """The first of the measured observables that is not finite at a point."""
    labels = [f"the observable `{name}`" if name in measured else "" for name in model.observables]
    return _first_row(model, model.output, labels, point)


def _first_row(
    model: Model, mapping: BatchedMap | NumericMap, labels: Sequence[str], point: Point
) -> NonFinite | None:
    """The first row of a map that is not finite; rows with an empty label do not count."""
    rows, values = mapping.value(point.t, point.x, point.p, point.u), point.named(model)
    for k, label in enumerate(labels):
        if label and not np.isfinite(rows[k]):
            if isinstance(mapping, NumericMap):
                return NonFinite(label, "", float(rows[k]), values)
            return nonfinite_formula(label, mapping.expressions[k], values)
    return None


def nonfinite_derivative(model: Model, point: Point) -> NonFinite | None:
    """A derivative by a state or parameter that is not finite although the equation is: sqrt(x) at 0."""
    _, *slopes = model.rhs.linearise(point.t, point.x, point.p, point.u)
    values = point.named(model)
    for columns, slope in zip((model.states, model.parameters), slopes, strict=True):
        wrong = np.argwhere(~np.isfinite(slope))
        if len(wrong):
            row, column = wrong[0]
            line = f"the derivative of `{model.states[row]}'` by `{columns[column]}`"
            if isinstance(model.rhs, BatchedMap):
                values = _values_in(model.rhs.expressions[row], values)
            return NonFinite(line, "", float(slope[row, column]), values)
    return None


def nonfinite_formula(line: str, expression: sympy.Expr, values: Mapping[str, float]) -> NonFinite:
    """The innermost part of an expression that is not finite at these values; `line` says where it was written."""
    value = float(_evaluate([expression], values)[0])
    while True:
        parts = [part for part in _parts(expression, values) if not part.is_number]
        found = _evaluate(parts, values)
        wrong = np.flatnonzero(~np.isfinite(found))
        if not len(wrong):
            return NonFinite(line, to_text(expression), value, _values_in(expression, values))
        expression, value = parts[wrong[0]], float(found[wrong[0]])


def _values_in(expression: sympy.Expr, values: Mapping[str, float]) -> dict[str, float]:
    """The time, and the values of the names in an expression."""
    used = names(expression) | {"t"}
    return {name: value for name, value in values.items() if name in used}


def _parts(expression: sympy.Expr, values: Mapping[str, float]) -> list[sympy.Expr]:
    """The arguments of an expression that are numbers; of a case distinction only the case that applies."""
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
