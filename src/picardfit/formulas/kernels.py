"""Expressions as NumPy functions of arrays, with exact Jacobians."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import final

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from picardfit.errors import InputError, listing
from picardfit.formulas.algebra import names, symbol
from picardfit.formulas.codegen import Groups, Kernel, Table, kernel, point_kernel, wide
from picardfit.formulas.derivatives import Slopes, switch_of, switching_nodes
from picardfit.formulas.wide import Wide

Array = NDArray[np.float64]
Evaluation = Callable[[Array, Array, Array, Array], None]
Entries = dict[tuple[int, int], sympy.Expr]  # (row, column) -> expression


@final
class BatchedMap:
    """Rows of expressions in (t, states, parameters, inputs) as functions of arrays.

    Shapes: t (*batch), x (*batch, states), p (*batch, parameters), u (*batch, inputs); the four batches broadcast
    against each other. Overflow and division by zero silently give inf or NaN. The code is compiled at first use,
    once for equal contents; pickles carry only the expressions.
    """

    def __init__(
        self,
        expressions: Sequence[sympy.Expr],
        states: Sequence[str] = (),
        parameters: Sequence[str] = (),
        inputs: Sequence[str] = (),
    ) -> None:
        self.expressions = tuple(sympy.S(e) if isinstance(e, int | float) else e for e in expressions)
        self.states, self.parameters, self.inputs = tuple(states), tuple(parameters), tuple(inputs)
        known = ("t", *self.states, *self.parameters, *self.inputs)
        if len(set(known)) < len(known):
            twice = sorted({n for n in known if known.count(n) > 1})
            raise InputError("formulas.declared_twice", names=twice)
        unknown = sorted(set().union(*(names(e) for e in self.expressions)) - set(known))
        if unknown:
            raise InputError("formulas.undeclared", names=unknown, known=known)

    def value(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> Array:
        """The rows, (*batch, rows)."""
        batch, arguments = _components(t, x, p, u)
        value = np.empty((*batch, len(self.expressions)))
        with np.errstate(all="ignore"):
            self._value_kernel(*arguments, value)
        return value

    def at_point(self, t: float, x: list[float], p: list[float], u: list[float]) -> list[float]:
        """The rows at one point given as plain floats, many times faster than by `value`."""
        try:
            return self._point_kernel(t, x, p, u)  # type: ignore[no-any-return]
        except (ZeroDivisionError, OverflowError, ValueError):  # where arrays give inf or NaN
            return list(map(float, self.value(t, np.array(x), np.array(p), np.array(u))))

    def slopes_at_point(self, t: float, x: list[float], p: list[float], u: list[float]) -> list[float]:
        """The derivatives by states that can be non-zero, row by row, at one point given as plain floats."""
        try:
            return self._slope_kernel(t, x, p, u)  # type: ignore[no-any-return]
        except (ZeroDivisionError, OverflowError, ValueError):
            return list(map(float, self.derivatives(t, x, p, u)[0]))

    def jacobian_at_point(self, t: float, x: list[float], p: list[float], u: list[float]) -> Array:
        """(rows, states): the derivatives by states at one point given as plain floats, faster than by `linearise`."""
        dense = np.zeros((len(self.expressions), len(self.states)))
        dense[self.state_entries] = self.slopes_at_point(t, x, p, u)
        return dense

    def linearise(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> tuple[Array, Array, Array]:
        """Value and derivatives: (*batch, rows), (*batch, rows, states), (*batch, rows, parameters)."""
        batch, arguments = _components(t, x, p, u)
        rows = (*batch, len(self.expressions))
        value, wrt_x, wrt_p = _zeros(rows, (*rows, len(self.states)), (*rows, len(self.parameters)))
        with np.errstate(all="ignore"):
            self._linear_kernel(*arguments, value, wrt_x, wrt_p)
        return value, wrt_x, wrt_p

    @cached_property
    def kinked(self) -> bool:
        """Whether a formula switches as a state changes: max, abs, a comparison."""
        every = (node for one in self.expressions for node in switching_nodes(one))
        return any(names(switch) & set(self.states) for node in every for switch in switch_of(node))

    def derivatives(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> tuple[Array, Array]:
        """The derivatives that can be non-zero: (entries, *batch) with respect to states and to parameters.

        The entries are those of `jacobian_pattern`, row by row.
        """
        batch, arguments = _components(t, x, p, u)
        wrt_x, wrt_p = (np.empty((len(entries), *batch)) for entries in self.jacobian)
        with np.errstate(all="ignore"):
            self._derivative_kernel(*arguments, np.moveaxis(wrt_x, 0, -1), np.moveaxis(wrt_p, 0, -1))
        return wrt_x, wrt_p

    def evaluation(self, slopes: bool, grouped: bool, params: Array, points: int) -> Evaluation:
        """A function (t, x, u, out) that writes the rows, or the derivatives at the `state_entries`, into out.

        All arrays have components first and points last: out (rows, points); `params` (parameters, points), or
        (parameters, 1) if all points have the same. `grouped`: equal operations go together, if there is no condition.
        """
        wide = None
        if grouped:
            wide = self._wide_slopes if slopes else self._wide_value
        if wide is not None:
            return wide.bind(params, points)
        code = self._state_slope_kernel if slopes else self._value_kernel
        params = np.broadcast_to(params, (len(params), points))
        return lambda t, x, u, out: code(t, x, params, u, out.T)

    @cached_property
    def _wide_value(self) -> Wide | None:
        """The rows as few operations on many values (wide.py); None if formulas contain conditions."""
        return wide(self.expressions, self._groups)

    @cached_property
    def _wide_slopes(self) -> Wide | None:
        """The derivatives by states at the `state_entries`, likewise."""
        return wide(tuple(self.jacobian[0].values()), self._groups)

    @cached_property
    def _state_slope_kernel(self) -> Kernel:
        return kernel((tuple(((k,), one) for k, one in enumerate(self.jacobian[0].values())),), self._groups)

    @cached_property
    def _value_kernel(self) -> Kernel:
        return kernel((self._rows(),), self._groups)

    @cached_property
    def _point_kernel(self) -> Kernel:
        return point_kernel(self.expressions, self._groups)

    @cached_property
    def _slope_kernel(self) -> Kernel:
        return point_kernel(tuple(self.jacobian[0].values()), self._groups)

    @cached_property
    def state_entries(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the derivatives by states that can be non-zero, row by row."""
        found = np.array(list(self.jacobian[0]), np.intp).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    @cached_property
    def _linear_kernel(self) -> Kernel:
        return kernel((self._rows(), *(tuple(entries.items()) for entries in self.jacobian)), self._groups)

    @cached_property
    def _derivative_kernel(self) -> Kernel:
        entries = (tuple(((k,), one) for k, one in enumerate(part.values())) for part in self.jacobian)
        return kernel(tuple(entries), self._groups)

    @cached_property
    def jacobian(self) -> tuple[Entries, Entries]:
        """The non-zero derivatives {(row, column): expression} with respect to states and to parameters, row by row."""
        slopes = Slopes()

        def wrt(group: Sequence[str]) -> Entries:
            column = {symbol(name): k for k, name in enumerate(group)}
            return {
                (i, column[one]): slope
                for i, expr in enumerate(self.expressions)
                for one in sorted(slopes.free(expr) & column.keys(), key=column.__getitem__)
                if (slope := slopes.slope(expr, one)) != 0
            }

        return wrt(self.states), wrt(self.parameters)

    @property
    def jacobian_pattern(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which derivatives can be non-zero: bool (rows, states), bool (rows, parameters)."""
        columns = (len(self.states), len(self.parameters))
        patterns = [np.zeros((len(self.expressions), count), dtype=bool) for count in columns]
        for pattern, entries in zip(patterns, self.jacobian, strict=True):
            for row, column in entries:
                pattern[row, column] = True
        return patterns[0], patterns[1]

    @property
    def _groups(self) -> Groups:
        return self.states, self.parameters, self.inputs

    def _rows(self) -> Table:
        return tuple(((i,), expr) for i, expr in enumerate(self.expressions))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchedMap):
            return False
        return self.expressions == other.expressions and self._groups == other._groups

    def __hash__(self) -> int:
        return hash((self.expressions, self._groups))

    def __reduce__(self) -> tuple[type[BatchedMap], tuple[object, ...]]:
        return BatchedMap, (self.expressions, *self._groups)

    def __repr__(self) -> str:
        everything = (*self.states, *self.parameters, *self.inputs)
        return f"BatchedMap({len(self.expressions)} rows of {listing(everything)})"


def _components(
    t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike
) -> tuple[tuple[int, ...], tuple[Array, Array, Array, Array]]:
    """The common batch shape, and the arguments with components on the first axis."""
    t, x = np.asarray(t, dtype=float), np.asarray(x, dtype=float)
    p, u = np.asarray(p, dtype=float), np.asarray(u, dtype=float)
    batch = x.shape[:-1]
    if t.shape != batch or u.shape[:-1] != batch or (p.ndim != 1 and p.shape[:-1] != batch):
        batch = np.broadcast_shapes(t.shape, batch, p.shape[:-1], u.shape[:-1])
    return batch, (t[()], np.ascontiguousarray(_first(x)), _first(p), _first(u))


def _first(array: Array) -> Array:
    """The last axis moved to the front; a transpose costs less than np.moveaxis."""
    if array.ndim < 3:
        return array.T
    return array.transpose(2, 0, 1) if array.ndim == 3 else np.moveaxis(array, -1, 0)


def _zeros(*shapes: tuple[int, ...]) -> list[Array]:
    """Arrays cut from one block: the allocator would return large ones to the system and fault them in again."""
    ends = list(accumulate(math.prod(shape) for shape in shapes))
    block = np.zeros(ends[-1])
    return [block[a:b].reshape(shape) for a, b, shape in zip([0, *ends], ends, shapes, strict=False)]
