"""Python functions as model equations: traced to expressions where possible, else evaluated numerically.

A function f(t, x, p, u) is called once with symbols in place of numbers. If it only calculates, the result
is an ordinary BatchedMap with exact Jacobians. If it decides (`if x[0] > 1`) or calls what knows no symbols
(an interpolator), the function itself is evaluated, and its Jacobians come from central differences.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
import sympy
from numpy.lib.mixins import NDArrayOperatorsMixin

import picardfit.formulas.algebra as algebra
from picardfit.errors import InputError, counted, did_you_mean, listing
from picardfit.formulas.algebra import FUNCTIONS, TIME
from picardfit.formulas.kernels import BatchedMap

_STEP = np.finfo(float).eps ** (
    1 / 3
)  # relative step that balances truncation and rounding of a central difference
_SMALLEST_SCALE = 1e-3  # values below this are stepped as if they had this size
_FAILURES = (ArithmeticError, ValueError)  # of a function at a point where it has no value


class Untraceable(Exception):
    """The function needs a number where tracing has a symbol."""


class NoSuchName(AttributeError, KeyError):
    """A function asks for a state, parameter or input that was not declared."""


class _Handled(NDArrayOperatorsMixin):
    """Operators and NumPy functions for what stands in place of numbers and vectors."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if (
            len(kwargs.get("out", ())) == 1 and kwargs["out"][0] is self
        ):  # x += y: the name is bound to the new value
            del kwargs["out"]
        arrays = [_plain(i) for i in inputs]
        if all(a.dtype != object for a in arrays) or ufunc is np.matmul or method != "__call__":
            return getattr(ufunc, method)(*arrays, **kwargs)
        if ufunc not in _UFUNCS or kwargs:
            raise Untraceable(ufunc.__name__)
        return _elementwise(_UFUNCS[ufunc], *arrays)

    def __array_function__(self, function, types, args, kwargs):
        args = [_unwrap(a) for a in args]
        if function is np.where and len(args) == 3:
            return _elementwise(algebra.choose, *map(_plain, args)) if _symbolic(args) else np.where(*args)
        if function is np.clip and len(args) == 3 and not kwargs and _symbolic(args):
            lowest, highest = (FUNCTIONS[name][2] for name in ("max", "min"))
            value, lower, upper = args
            value = value if lower is None else _elementwise(lowest, *map(_plain, (value, lower)))
            return value if upper is None else _elementwise(highest, *map(_plain, (value, upper)))
        return function(*args, **{k: _unwrap(v) for k, v in kwargs.items()})


@final
class Traced(_Handled):
    """An expression that behaves like a number in calculations, and refuses to be one in decisions."""

    __slots__ = ("expr",)

    def __init__(self, expr: sympy.Basic) -> None:
        self.expr = expr

    def _refuse(self, *_: object):
        raise Untraceable("a decision needs a number")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __round__ = _refuse

    def __getattr__(self, name: str):
        # NumPy applies `exp` to an array of objects by calling their method `exp`.
        if name in _METHODS:
            return lambda: Traced(FUNCTIONS[name][2](self.expr))
        raise AttributeError(name)


@final
class Components(_Handled):
    """The states, parameters or inputs a function receives: x[0], x["prey"], x.prey, a, b = x, A @ x."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: Sequence[str], values: np.ndarray) -> None:
        self._names, self._values = tuple(names), values

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self):
        return iter(self._values)

    def __getitem__(self, key):
        if not isinstance(key, str):
            return self._values[key]
        if key not in self._names:
            raise NoSuchName(self._absent(key))
        return self._values[self._names.index(key)]

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._names:
            return self[name]
        if not hasattr(np.ndarray, name):
            raise NoSuchName(self._absent(name))
        return getattr(self._values, name)

    def _absent(self, name: str) -> str:
        return (
            f"`{name}`, which is not among {listing(self._names)}: declare it or correct it."
            + did_you_mean(name, self._names)
        )

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, dtype=dtype) if copy else np.asarray(self._values, dtype=dtype)


def _unwrap(value: Any) -> Any:
    """Containers and symbols as plain arrays, also inside lists."""
    if isinstance(value, list | tuple):
        return type(value)(_unwrap(v) for v in value)
    return _plain(value) if isinstance(value, _Handled) else value


def _plain(value: Any) -> np.ndarray:
    if isinstance(value, Components):
        return value._values
    if isinstance(value, Traced):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    return np.asarray(value)


def _symbolic(args: Sequence[Any]) -> bool:
    return any(isinstance(a, np.ndarray) and a.dtype == object for a in args)


def _elementwise(build: Callable, *arrays: np.ndarray) -> Any:
    function = np.frompyfunc(lambda *values: Traced(build(*map(_expression, values))), len(arrays), 1)
    return function(*arrays)


def _expression(value: Any) -> sympy.Basic:
    if isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0:
        value = value.item()
    if isinstance(value, Traced):
        return value.expr
    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, int | float):
        return algebra.number(value)
    raise Untraceable(f"a value of type {type(value).__name__}")


def _negative(a: sympy.Basic) -> sympy.Expr:
    return algebra.multiply(sympy.S.NegativeOne, a)


def _heaviside(a: sympy.Basic, at_zero: sympy.Basic) -> sympy.Expr:
    return algebra.choose(
        algebra.compare("==", a, sympy.S.Zero), at_zero, algebra.compare(">", a, sympy.S.Zero)
    )


_METHODS = ("exp", "log", "log10", "log2", "sqrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan")
_METHODS += ("sinh", "cosh", "tanh")
_UFUNCS: dict[np.ufunc, Callable] = {getattr(np, name): FUNCTIONS[name][2] for name in _METHODS} | {
    np.add: algebra.add,
    np.subtract: lambda a, b: algebra.add(a, _negative(b)),
    np.multiply: algebra.multiply,
    np.divide: algebra.divide,
    np.power: algebra.power,
    np.float_power: algebra.power,
    np.negative: _negative,
    np.positive: algebra.as_number,
    np.square: lambda a: algebra.power(a, sympy.Integer(2)),
    np.reciprocal: lambda a: algebra.divide(sympy.S.One, a),
    np.expm1: lambda a: algebra.add(FUNCTIONS["exp"][2](a), sympy.S.NegativeOne),
    np.log1p: lambda a: FUNCTIONS["log"][2](algebra.add(a, sympy.S.One)),
    np.absolute: FUNCTIONS["abs"][2],
    np.fabs: FUNCTIONS["abs"][2],
    np.sign: FUNCTIONS["sign"][2],
    np.maximum: FUNCTIONS["max"][2],
    np.minimum: FUNCTIONS["min"][2],
    np.fmax: FUNCTIONS["max"][2],
    np.fmin: FUNCTIONS["min"][2],
    np.heaviside: _heaviside,
    np.less: partial(algebra.compare, "<"),
    np.less_equal: partial(algebra.compare, "<="),
    np.greater: partial(algebra.compare, ">"),
    np.greater_equal: partial(algebra.compare, ">="),
    np.equal: partial(algebra.compare, "=="),
    np.not_equal: partial(algebra.compare, "!="),
    np.logical_and: algebra.both,
    np.logical_or: algebra.either,
    np.bitwise_and: algebra.both,
    np.bitwise_or: algebra.either,
    np.logical_not: lambda a: sympy.Not(algebra.as_condition(a)),
    np.invert: lambda a: sympy.Not(algebra.as_condition(a)),
}


@final
@dataclass(frozen=True)
class NumericMap:
    """A function f(t, x, p, u) with the interface of BatchedMap; Jacobians by central differences.

    Where the function fails (overflow, root of a negative number) its value is NaN. Pickles if f does.
    """

    function: Callable
    takes_inputs: bool
    rows: tuple[str, ...]
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    vectorised: bool = False

    @property
    def jacobian_pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """Which derivatives can be non-zero: nothing is known, so all of them."""
        return tuple(
            np.ones((len(self.rows), len(group)), dtype=bool) for group in (self.states, self.parameters)
        )

    def value(self, t, x, p, u) -> np.ndarray:
        """The rows, (*batch, rows)."""
        batch, points = _flatten(t, x, p, u)
        return self._evaluate(*points).reshape(*batch, len(self.rows))

    def at_point(self, t: float, x: list[float], p: list[float], u: list[float]) -> list[float]:
        """The rows at one point given as plain floats."""
        return self.value(np.asarray(t), np.asarray(x), np.asarray(p), np.asarray(u)).tolist()

    def linearise(self, t, x, p, u) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Value and derivatives: (*batch, rows), (*batch, rows, states), (*batch, rows, parameters)."""
        batch, (t, x, p, u) = _flatten(t, x, p, u)
        columns, count = len(x) + len(p), t.size
        layout = np.concatenate([x, p])  # (columns, points)
        steps = _STEP * np.maximum(np.abs(layout), _SMALLEST_SCALE)
        moves = np.eye(columns)[:, :, None] * steps  # (column moved, columns, points)
        moved = np.concatenate([layout[None], layout + moves, layout - moves])
        copies = len(moved)
        moved = np.moveaxis(moved, 0, 1).reshape(columns, copies * count)
        values = self._evaluate(np.tile(t, copies), moved[: len(x)], moved[len(x) :], np.tile(u, copies))
        values = values.reshape(copies, count, len(self.rows))
        here, above, below = values[0], values[1 : columns + 1], values[columns + 1 :]
        width = steps[..., None]  # (columns, points, 1)
        with np.errstate(all="ignore"):
            slopes = (above - below) / (2 * width)
            for one_sided in ((above - here) / width, (here - below) / width):
                slopes = np.where(np.isfinite(slopes), slopes, one_sided)
        slopes = np.moveaxis(slopes, 0, -1).reshape(*batch, len(self.rows), columns)
        wrt_x, wrt_p = slopes[..., : len(x)], slopes[..., len(x) :]
        return here.reshape(*batch, len(self.rows)), np.ascontiguousarray(wrt_x), np.ascontiguousarray(wrt_p)

    def _evaluate(self, t, x, p, u) -> np.ndarray:
        """t (points), x (states, points), ... -> (points, rows)."""
        with np.errstate(all="ignore"):
            if self.vectorised:
                try:
                    return np.ascontiguousarray(self._at(t, x, p, u).T)
                except _FAILURES:
                    pass  # some point has no value: find out which
            result = np.full((t.size, len(self.rows)), np.nan)
            for k in range(t.size):
                try:
                    result[k] = self._at(t[k], x[:, k], p[:, k], u[:, k])
                except _FAILURES:
                    continue
        return result

    def _at(self, t, x, p, u) -> np.ndarray:
        """One call of the function, (rows, *shape of t)."""
        result = self.call(t, x, p, u)
        if isinstance(result, Mapping):
            values = [result[name] for name in self.rows]
        else:
            single = len(self.rows) == 1 and np.ndim(result) == np.ndim(t)
            values = [result] if single else _sequence(result)
        return np.stack([np.broadcast_to(np.asarray(v, dtype=float), np.shape(t)) for v in values])

    def call(self, t, x, p, u) -> Any:
        """What the function returns for components x, p and u."""
        arguments = [t, Components(self.states, x), Components(self.parameters, p)]
        return (
            self.function(*arguments, Components(self.inputs, u))
            if self.takes_inputs
            else self.function(*arguments)
        )


def _flatten(t, x, p, u) -> tuple[tuple[int, ...], tuple[np.ndarray, ...]]:
    """The batch shape, and the arguments as (points) and (components, points)."""
    t, x, p, u = (np.asarray(a, dtype=float) for a in (t, x, p, u))
    batch = np.broadcast_shapes(t.shape, x.shape[:-1], p.shape[:-1], u.shape[:-1])
    count = math.prod(batch)
    vectors = (np.broadcast_to(a, (*batch, a.shape[-1])).reshape(count, a.shape[-1]).T for a in (x, p, u))
    return batch, (np.broadcast_to(t, batch).reshape(count), *vectors)


def _sequence(result: Any) -> list:
    if isinstance(result, Traced) or np.ndim(result) == 0:
        return [result]
    return list(result)


def map_of_function(
    function: Callable,
    states: tuple[str, ...],
    parameters: tuple[str, ...],
    inputs: tuple[str, ...],
    rows: tuple[str, ...] | None,
) -> tuple[BatchedMap | NumericMap, tuple[str, ...]]:
    """The map computed by a function, and the names of its rows (its own names if `rows` is None)."""
    label = f"`{getattr(function, '__name__', 'the function')}`"
    numeric = NumericMap(
        function, _takes_inputs(function, inputs, label), rows or (), states, parameters, inputs
    )
    trials = _trial_points(len(states), len(parameters), len(inputs))
    result = _trial(numeric, label, *(a[..., 0] for a in trials))
    numeric = replace(numeric, rows=_row_names(result, rows, label))
    values = numeric._evaluate(*trials)
    traced = _trace(numeric)
    if traced is not None:
        t, *vectors = trials
        if np.allclose(
            traced.value(t, *(v.T for v in vectors)), values, rtol=1e-9, atol=1e-12, equal_nan=True
        ):
            return traced, numeric.rows
    return _vectorise(numeric, trials, values), numeric.rows


def _trial_points(*counts: int) -> tuple[np.ndarray, ...]:
    """Three ordinary points with distinct values: t (3), x (states, 3), p (parameters, 3), u (inputs, 3)."""
    shift = np.array([0.0, 0.31, 0.77])
    return 0.7 + shift, *(1 + 0.05 * k + 0.13 * np.arange(n)[:, None] + shift for k, n in enumerate(counts))


def _takes_inputs(function: Callable, inputs: Sequence[str], label: str) -> bool:
    if not callable(function):
        raise InputError(
            f"{function!r} is not a function: pass f(t, x, p, u), or the equations as text to Model(...)."
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some compiled functions have no signature
        return True
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    if required > 4 or len(positional) < 3:
        raise InputError(
            f"{label} takes {len(positional)} arguments: write it as f(t, x, p) or f(t, x, p, u)."
        )
    if inputs and len(positional) < 4:
        raise InputError(
            f"{label} has no argument for the inputs {listing(inputs)}: write it as f(t, x, p, u)."
        )
    return required == 4 or bool(inputs)


def _trial(numeric: NumericMap, label: str, *point: np.ndarray) -> Any:
    try:
        with np.errstate(all="ignore"):
            return numeric.call(*point)
    except NoSuchName as error:
        raise InputError(f"{label} asks for {error.args[0]}") from error
    except Exception as error:  # the function is the user's: whatever it raises is told
        raise InputError(
            f"{label} failed at the trial values t = {point[0]:g}, x = {point[1]}, p = {point[2]} "
            f"with {type(error).__name__}: {error}; it must accept ordinary numbers."
        ) from error


def _row_names(result: Any, rows: tuple[str, ...] | None, label: str) -> tuple[str, ...]:
    if result is None:
        raise InputError(f"{label} returned nothing: end it with `return [...]`.")
    if isinstance(result, Mapping):
        if rows is not None and set(result) != set(rows):
            raise InputError(f"{label} returned {listing(map(str, result))}: return {listing(rows)}.")
        return rows or tuple(map(str, result))
    values = _sequence(result)
    count = len(values)
    wrong = [
        v
        for v in values
        if np.ndim(v) > 0 or not isinstance(v, int | float | np.number | np.bool_ | np.ndarray)
    ]
    if wrong:
        raise InputError(
            f"{label} returned {wrong[0]!r} among its values: return a flat sequence of numbers."
        )
    if rows is not None and count != len(rows):
        raise InputError(
            f"{label} returned {counted(count, 'value')} for {counted(len(rows), 'state')} ({listing(rows)}): "
            f"return one for each."
        )
    return rows or tuple(f"y{k + 1}" for k in range(count))


def _trace(numeric: NumericMap) -> BatchedMap | None:
    """The function as expressions, or None if it cannot be traced."""
    groups = (numeric.states, numeric.parameters, numeric.inputs)
    vectors = []
    for names in groups:
        vector = np.empty(len(names), dtype=object)
        vector[:] = [Traced(algebra.symbol(n)) for n in names]
        vectors.append(vector)
    try:
        result = numeric.call(Traced(TIME), *vectors)
        values = [result[name] for name in numeric.rows] if isinstance(result, Mapping) else _sequence(result)
        return BatchedMap([algebra.as_number(_expression(v)) for v in values], *groups)
    except (
        Exception
    ):  # symbols can make any function of the user fail in any way: it is then evaluated numerically
        return None


def _vectorise(numeric: NumericMap, trials: Sequence[np.ndarray], values: np.ndarray) -> NumericMap:
    """The map that calls its function with arrays if that gives the same values as point by point."""
    arrays = replace(numeric, vectorised=True)
    try:
        with np.errstate(all="ignore"):
            same = np.allclose(arrays._at(*trials).T, values, rtol=1e-12, atol=0, equal_nan=True)
    except Exception:  # an `if` on an array raises ValueError, an interpolator whatever it likes
        return numeric
    return arrays if same else numeric
