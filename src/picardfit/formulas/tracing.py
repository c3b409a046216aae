"""Python functions as model equations: traced to expressions where possible, else evaluated numerically.

A function f(t, x, p, u) is called once with symbols in place of numbers. If it only calculates, the result
is an ordinary BatchedMap with exact Jacobians. If it decides (`if x[0] > 1`) or calls a function that does not
accept symbols (an interpolator), it is evaluated as it is, and its Jacobians come from central differences.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from picardfit.errors import InputError, closest
from picardfit.formulas.algebra import TIME, as_number, symbol
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.formulas.traced_values import Components, NoSuchName, Traced, expression_of

_FAILURES = (ArithmeticError, ValueError)  # what a function raises at a point where it has no value
PythonFunction = Callable[..., Any]


@dataclass(frozen=True)
class Differences:
    """Steps of central differences."""

    step: float = float(np.cbrt(np.finfo(float).eps))  # relative; balances truncation and rounding
    smallest: float = 1e-3  # values below this are stepped as if they had this size


@dataclass(frozen=True)
class Trials:
    """Points at which a function is tried, and how well two ways to compute it must agree there.

    The points are arbitrary: values near 1, no two of them equal.
    """

    shift: tuple[float, ...] = (0.0, 0.31, 0.77)  # added to all values, one for each point
    time: float = 0.7
    between_groups: float = 0.05  # between states, parameters and inputs
    between_members: float = 0.13  # between two states, two parameters or two inputs
    traced: float = 1e-9  # relative difference of a traced function, which rounds in another order
    traced_zero: float = 1e-12  # absolute difference
    vectorised: float = 1e-12  # relative difference of a function called with arrays: the same operations

    def points(self, *counts: int) -> tuple[Array, ...]:
        """t (points), x (states, points), p (parameters, points), u (inputs, points)."""
        shift = np.array(self.shift)
        members = (np.arange(count)[:, None] for count in counts)
        return self.time + shift, *(
            1 + self.between_groups * k + self.between_members * one + shift for k, one in enumerate(members)
        )


@final
@dataclass(frozen=True)
class NumericMap:
    """A function f(t, x, p, u) with the interface of BatchedMap; Jacobians by central differences.

    Where the function fails (overflow, root of a negative number) its value is NaN. Pickles if f does.
    """

    function: PythonFunction
    takes_inputs: bool
    rows: tuple[str, ...]
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    vectorised: bool = False
    differences: Differences = field(default_factory=Differences)

    @property
    def jacobian_pattern(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which derivatives can be non-zero: all of them, because nothing is known about the function."""
        wrt_x, wrt_p = (np.ones((len(self.rows), len(g)), dtype=bool) for g in (self.states, self.parameters))
        return wrt_x, wrt_p

    def value(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> Array:
        """The rows, (*batch, rows)."""
        batch, points = _flatten(t, x, p, u)
        return self.evaluate(*points).reshape(*batch, len(self.rows))

    def at_point(self, t: float, x: list[float], p: list[float], u: list[float]) -> list[float]:
        """The rows at one point given as plain floats."""
        return list(map(float, self.value(t, x, p, u)))

    def jacobian_at_point(self, t: float, x: list[float], p: list[float], u: list[float]) -> Array:
        """(rows, states): the derivatives by states at one point."""
        return self.linearise(t, x, p, u)[1]

    def linearise(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> tuple[Array, Array, Array]:
        """Value and derivatives: (*batch, rows), (*batch, rows, states), (*batch, rows, parameters)."""
        batch, (times, states, params, inputs) = _flatten(t, x, p, u)
        split, here = len(states), np.concatenate([states, params])  # (columns, points)
        columns, count = here.shape
        steps = self.differences.step * np.maximum(np.abs(here), self.differences.smallest)
        moves = np.eye(columns)[:, :, None] * steps  # (column moved, columns, points)
        moved = np.concatenate([here[None], here + moves, here - moves])
        copies = len(moved)
        moved = np.moveaxis(moved, 0, 1).reshape(columns, copies * count)
        values = self.evaluate(np.tile(times, copies), moved[:split], moved[split:], np.tile(inputs, copies))
        values = values.reshape(copies, count, len(self.rows))
        value, above, below = values[0], values[1 : columns + 1], values[columns + 1 :]
        width = steps[..., None]  # (columns, points, 1)
        with np.errstate(all="ignore"):
            slopes = (above - below) / (2 * width)
            for one_sided in ((above - value) / width, (value - below) / width):
                slopes = np.where(np.isfinite(slopes), slopes, one_sided)
        slopes = np.moveaxis(slopes, 0, -1).reshape(*batch, len(self.rows), columns)
        wrt_x, wrt_p = slopes[..., :split], slopes[..., split:]
        return value.reshape(*batch, len(self.rows)), np.ascontiguousarray(wrt_x), np.ascontiguousarray(wrt_p)

    def evaluate(self, t: Array, x: Array, p: Array, u: Array) -> Array:
        """t (points), x (states, points), ... -> (points, rows)."""
        with np.errstate(all="ignore"):
            if self.vectorised:
                try:
                    return np.ascontiguousarray(self.at_once(t, x, p, u).T)
                except Exception:
                    pass  # some point has no value, or is an error that names it: go point by point
            result = np.full((t.size, len(self.rows)), np.nan)
            for k in range(t.size):
                try:
                    result[k] = self.at_once(t[k], x[:, k], p[:, k], u[:, k])
                except _FAILURES:
                    continue
                except Exception as error:  # the function is the user's: it may raise anything
                    name = getattr(self.function, "__name__", "the function")
                    raise _failure(name, error, t[k], x[:, k], p[:, k]) from error
        return result

    def at_once(self, t: Array, x: Array, p: Array, u: Array) -> Array:
        """One call of the function, (rows, *shape of t)."""
        result = self.call(t, x, p, u)
        single = len(self.rows) == 1 and not isinstance(result, Mapping) and np.ndim(result) == np.ndim(t)
        values = [result] if single else self.in_order(result)
        return np.stack([np.broadcast_to(np.asarray(v, dtype=float), np.shape(t)) for v in values])

    def call(self, t: object, x: np.ndarray, p: np.ndarray, u: np.ndarray) -> Any:
        """What the function returns for components x, p and u."""
        t, x, p, u = map(_read_only, (t, x, p, u))
        arguments = [t, Components(self.states, x), Components(self.parameters, p)]
        if self.takes_inputs:
            arguments.append(Components(self.inputs, u))
        return self.function(*arguments)

    def in_order(self, result: Any) -> list[Any]:
        """What the function returned, a mapping or a sequence, in the order of the rows."""
        if isinstance(result, Mapping):
            return [result[name] for name in self.rows]
        return _sequence(result)


def _read_only(values: Any) -> Any:
    """A view that the user's function cannot change: the arrays are needed afterwards."""
    if not isinstance(values, np.ndarray):
        return values
    view = values.view()
    view.setflags(write=False)
    return view


def _flatten(
    t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike
) -> tuple[tuple[int, ...], tuple[Array, Array, Array, Array]]:
    """The batch shape, and the arguments as (points) and (components, points)."""
    times, vectors = np.asarray(t, dtype=float), [np.asarray(a, dtype=float) for a in (x, p, u)]
    batch = np.broadcast_shapes(times.shape, *(a.shape[:-1] for a in vectors))
    count = math.prod(batch)
    states, params, inputs = (
        np.broadcast_to(a, (*batch, a.shape[-1])).reshape(count, a.shape[-1]).T for a in vectors
    )
    return batch, (np.broadcast_to(times, batch).reshape(count), states, params, inputs)


def _sequence(result: Any) -> list[Any]:
    return [result] if isinstance(result, Traced) or np.ndim(result) == 0 else list(result)


def map_of_function(
    function: PythonFunction,
    states: tuple[str, ...],
    parameters: tuple[str, ...],
    inputs: tuple[str, ...],
    rows: tuple[str, ...] | None,
    settings: Trials = Trials(),
) -> tuple[BatchedMap | NumericMap, tuple[str, ...]]:
    """The map that a function computes, and the names of its rows (chosen by the function if `rows` is None)."""
    label = getattr(function, "__name__", "the function")
    takes_inputs = _takes_inputs(function, inputs, label)
    numeric = NumericMap(function, takes_inputs, rows or (), states, parameters, inputs)
    trials = settings.points(len(states), len(parameters), len(inputs))
    result = _trial(numeric, label, *(a[..., 0] for a in trials))
    numeric = replace(numeric, rows=_row_names(result, rows, label))
    values = numeric.evaluate(*trials)
    traced = _trace(numeric)
    if traced is not None:
        t, *vectors = trials
        found = traced.value(t, *(v.T for v in vectors))
        if np.allclose(found, values, settings.traced, settings.traced_zero, equal_nan=True):
            return traced, numeric.rows
    return _vectorise(numeric, trials, values, settings.vectorised), numeric.rows


def _takes_inputs(function: PythonFunction, inputs: Sequence[str], label: str) -> bool:
    if not callable(function):
        raise InputError("formulas.not_a_function", value=function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some compiled functions have no signature
        return True
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    if required > 4 or len(positional) < 3:
        raise InputError("formulas.function_arguments", label, count=len(positional))
    if inputs and len(positional) < 4:
        raise InputError("formulas.function_without_inputs", label, inputs=inputs)
    return required == 4 or bool(inputs)


def _trial(numeric: NumericMap, label: str, *point: np.ndarray) -> Any:
    try:
        with np.errstate(all="ignore"):
            return numeric.call(*point)
    except NoSuchName as error:
        name, known = error.args
        close = closest(name, known)
        raise InputError("formulas.function_asks", label, name=name, known=known, close=close) from error
    except Exception as error:  # the function is the user's: it may raise anything
        raise _failure(label, error, *point[:3]) from error


def _failure(label: str, error: Exception, t: Any, x: np.ndarray, p: np.ndarray) -> InputError:
    """What a function of the user raised, and where."""
    kind = type(error).__name__
    return InputError("formulas.function_failed", label, t=float(t), x=x, p=p, kind=kind, error=str(error))


def _row_names(result: Any, rows: tuple[str, ...] | None, label: str) -> tuple[str, ...]:
    if result is None:
        raise InputError("formulas.function_returns_nothing", label)
    if isinstance(result, Mapping):
        names = tuple(map(str, result))
        if rows is not None and set(result) != set(rows):
            raise InputError("formulas.function_returns_names", label, names=list(names), rows=rows)
        return rows or names
    values = _sequence(result)
    count = len(values)
    for value in values:
        if np.ndim(value) > 0 or not isinstance(value, int | float | np.number | np.bool_ | np.ndarray):
            raise InputError("formulas.function_returns_value", label, value=value)
    if rows is not None and count != len(rows):
        raise InputError("formulas.function_returns_count", label, count=count, states=len(rows), rows=rows)
    return rows or tuple(f"y{k + 1}" for k in range(count))


def _trace(numeric: NumericMap) -> BatchedMap | None:
    """The function as expressions, or None if it cannot be traced."""
    groups = (numeric.states, numeric.parameters, numeric.inputs)
    vectors = [np.array([Traced(symbol(name)) for name in names], dtype=object) for names in groups]
    try:
        values = numeric.in_order(numeric.call(Traced(TIME), *vectors))
        return BatchedMap([as_number(expression_of(v)) for v in values], *groups)
    except Exception:  # symbols can make a user's function fail in any way: it is then evaluated numerically
        return None


def _vectorise(numeric: NumericMap, trials: Sequence[Array], values: Array, tolerance: float) -> NumericMap:
    """The map that calls its function with arrays, if that gives the same values as calls point by point."""
    arrays = replace(numeric, vectorised=True)
    try:
        with np.errstate(all="ignore"):
            same = np.allclose(arrays.at_once(*trials).T, values, rtol=tolerance, atol=0, equal_nan=True)
    except Exception:  # an `if` on an array raises ValueError, an interpolator whatever it likes
        return numeric
    return arrays if same else numeric
