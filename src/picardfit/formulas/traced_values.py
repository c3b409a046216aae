"""What a Python function receives while its equations are traced.

`Traced` is an expression that calculates like a number; `Components` is a vector of states, parameters or inputs,
which holds numbers or expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn, final

import numpy as np
import sympy
from numpy.lib.mixins import NDArrayOperatorsMixin

import picardfit.formulas.algebra as algebra
from picardfit.formulas.functions import FUNCTIONS


class Untraceable(Exception):
    """The function needs a number where tracing has only a symbol."""


class NoSuchName(AttributeError, KeyError):
    """A function reads a state, parameter or input that was not declared: (its name, the declared names)."""


class _Handled(NDArrayOperatorsMixin):
    """Operators and NumPy functions of Traced and Components."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # x += y: the name is bound to the new value
        if len(kwargs.get("out", ())) == 1 and kwargs["out"][0] is self:
            del kwargs["out"]
        arrays = [as_array(i) for i in inputs]
        if all(a.dtype != object for a in arrays) or ufunc is np.matmul or method != "__call__":
            return getattr(ufunc, method)(*arrays, **kwargs)
        if ufunc not in _UFUNCS or kwargs:
            raise Untraceable(ufunc.__name__)
        return _elementwise(_UFUNCS[ufunc], *arrays)

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        args = [_unwrap(a) for a in args]
        if function is np.where and len(args) == 3:
            return _elementwise(algebra.choose, *map(as_array, args)) if _symbolic(args) else np.where(*args)
        if function is np.clip and len(args) == 3 and not kwargs and _symbolic(args):
            lowest, highest = (FUNCTIONS[name].build for name in ("max", "min"))
            value, lower, upper = args
            value = value if lower is None else _elementwise(lowest, *map(as_array, (value, lower)))
            return value if upper is None else _elementwise(highest, *map(as_array, (value, upper)))
        return function(*args, **{k: _unwrap(v) for k, v in kwargs.items()})


@final
class Traced(_Handled):
    """An expression that behaves like a number in calculations, and refuses to be one in decisions."""

    __slots__ = ("expr",)

    def __init__(self, expr: sympy.Basic) -> None:
        self.expr = expr

    def _refuse(self, *_: object) -> NoReturn:
        raise Untraceable("a decision needs a number")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __round__ = _refuse

    def __getattr__(self, name: str) -> Any:
        # NumPy applies `exp` to an array of objects by calling their method `exp`.
        if name in _METHODS:
            return lambda: Traced(_METHODS[name](self.expr))
        raise AttributeError(name)


@final
class Components(_Handled):
    """The states, parameters or inputs a function receives: x[0], x["prey"], x.prey, a, b = x, A @ x."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: Sequence[str], values: np.ndarray) -> None:
        self._names, self._values = tuple(names), values

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._values[key]
        if key not in self._names:
            raise NoSuchName(key, self._names)
        return self._values[self._names.index(key)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._names:
            return self[name]
        if not hasattr(np.ndarray, name):
            raise NoSuchName(name, self._names)
        return getattr(self._values, name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._values, dtype=dtype) if copy else np.asarray(self._values, dtype=dtype)


def _unwrap(value: Any) -> Any:
    """Traced and Components as plain arrays, also inside lists."""
    if isinstance(value, list | tuple):
        return type(value)(_unwrap(v) for v in value)
    return as_array(value) if isinstance(value, _Handled) else value


def as_array(value: Any) -> np.ndarray:
    if isinstance(value, Components):
        return value._values
    if isinstance(value, Traced):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    return np.asarray(value)


def _symbolic(args: Sequence[Any]) -> bool:
    return any(isinstance(a, np.ndarray) and a.dtype == object for a in args)


def _elementwise(build: Callable[..., sympy.Basic], *arrays: np.ndarray) -> Any:
    function = np.frompyfunc(lambda *values: Traced(build(*map(expression_of, values))), len(arrays), 1)
    return function(*arrays)


def expression_of(value: Any) -> sympy.Basic:
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


_METHODS = {one.array.__name__: one.build for one in FUNCTIONS.values() if one.array and one.most == 1}
_UFUNCS: dict[np.ufunc, Callable[..., sympy.Basic]] = {
    **{one.array: one.build for one in FUNCTIONS.values() if one.array is not None},
    np.add: algebra.add,
    np.subtract: lambda a, b: algebra.add(a, _negative(b)),
    np.multiply: algebra.multiply,
    np.divide: algebra.divide,
    np.float_power: algebra.power,
    np.negative: _negative,
    np.positive: algebra.as_number,
    np.square: lambda a: algebra.power(a, sympy.Integer(2)),
    np.reciprocal: lambda a: algebra.divide(sympy.S.One, a),
    np.expm1: lambda a: algebra.add(FUNCTIONS["exp"].build(a), sympy.S.NegativeOne),
    np.log1p: lambda a: FUNCTIONS["log"].build(algebra.add(a, sympy.S.One)),
    np.fabs: FUNCTIONS["abs"].build,
    np.fmax: FUNCTIONS["max"].build,
    np.fmin: FUNCTIONS["min"].build,
    np.heaviside: _heaviside,
    np.less: partial(algebra.compare, "<"),
    np.less_equal: partial(algebra.compare, "<="),
    np.greater: partial(algebra.compare, ">"),
    np.greater_equal: partial(algebra.compare, ">="),
    np.equal: partial(algebra.compare, "=="),
    np.not_equal: partial(algebra.compare, "!="),
    **dict.fromkeys((np.logical_and, np.bitwise_and), algebra.both),
    **dict.fromkeys((np.logical_or, np.bitwise_or), algebra.either),
    **dict.fromkeys((np.logical_not, np.invert), lambda a: sympy.Not(algebra.as_condition(a))),
}
