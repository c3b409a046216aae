"""Expressions as NumPy functions of arrays, with exact Jacobians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import final

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from picardfit.errors import InputError, listing
from picardfit.formulas.algebra import names, symbol
from picardfit.formulas.codegen import Kernel, Table, kernel, point_kernel
from picardfit.formulas.derivatives import Slopes

Array = NDArray[np.float64]
Entries = dict[tuple[int, int], sympy.Expr]  # (row, column) -> expression


@final
class BatchedMap:
    """Rows of expressions in (t, states, parameters, inputs) as functions of arrays.

    Shapes: t (*batch), x (*batch, states), p (*batch, parameters), u (*batch, inputs), where the four batches
    broadcast against each other; overflow and division by zero give inf or NaN, silently. Compiled at first
    use, once for equal contents; pickles carry the expressions only.
    """

    __slots__ = (
        "_jacobian",
        "_linearise",
        "_point",
        "_value",
        "expressions",
        "inputs",
        "parameters",
        "states",
    )

    def __init__(
        self,
        expressions: Sequence[sympy.Expr],
        states: Sequence[str] = (),
        parameters: Sequence[str] = (),
        inputs: Sequence[str] = (),
    ) -> None:
        self.expressions = tuple(sympy.S(e) if isinstance(e, int | float) else e for e in expressions)
        self.states, self.parameters, self.inputs = tuple(states), tuple(parameters), tuple(inputs)
        self._jacobian: tuple[Entries, Entries] | None = None
        self._value: Kernel | None = None
        self._linearise: Kernel | None = None
        self._point: Kernel | None = None
        known = ("t", *self.states, *self.parameters, *self.inputs)
        if len(set(known)) < len(known):
            twice = sorted({n for n in known if known.count(n) > 1})
            raise InputError("formulas.declared_twice", names=twice)
        unknown = sorted(set().union(*(names(e) for e in self.expressions)) - set(known))
        if unknown:
            raise InputError("formulas.undeclared", names=unknown, known=known)

    def value(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> Array:
        """The rows, (*batch, rows)."""
        if self._value is None:
            self._value = kernel((self._rows(),), self.states, self.parameters, self.inputs)
        batch, arguments = _components(t, x, p, u)
        value = np.empty((*batch, len(self.expressions)))
        with np.errstate(all="ignore"):
            self._value(*arguments, value)
        return value

    def at_point(self, t: float, x: list[float], p: list[float], u: list[float]) -> list[float]:
        """The rows at one point given as plain floats. Many times faster than `value` there."""
        if self._point is None:
            self._point = point_kernel(self.expressions, self.states, self.parameters, self.inputs)
        try:
            rows: list[float] = self._point(t, x, p, u)
        except (ZeroDivisionError, OverflowError, ValueError):  # where arrays give inf or NaN
            return list(map(float, self.value(t, np.array(x), np.array(p), np.array(u))))
        return rows

    def linearise(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> tuple[Array, Array, Array]:
        """Value and derivatives: (*batch, rows), (*batch, rows, states), (*batch, rows, parameters)."""
        if self._linearise is None:
            tables = (self._rows(), *(tuple(entries.items()) for entries in self.jacobian))
            self._linearise = kernel(tables, self.states, self.parameters, self.inputs)
        rows = len(self.expressions)
        batch, arguments = _components(t, x, p, u)
        value, wrt_x, wrt_p = _zeros(
            (*batch, rows), (*batch, rows, len(self.states)), (*batch, rows, len(self.parameters))
        )
        with np.errstate(all="ignore"):
            self._linearise(*arguments, value, wrt_x, wrt_p)
        return value, wrt_x, wrt_p

    @property
    def jacobian(self) -> tuple[Entries, Entries]:
        """The non-zero derivatives {(row, column): expression} with respect to states and to parameters."""
        if self._jacobian is None:
            slopes = Slopes()
            self._jacobian = self._slopes(slopes, self.states), self._slopes(slopes, self.parameters)
        return self._jacobian

    def _slopes(self, slopes: Slopes, group: Sequence[str]) -> Entries:
        return {
            (i, k): slope
            for i, expr in enumerate(self.expressions)
            for k, name in enumerate(group)
            if (slope := slopes.slope(expr, symbol(name))) != 0
        }

    @property
    def jacobian_pattern(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which derivatives can be non-zero: bool (rows, states), bool (rows, parameters)."""
        wrt_states, wrt_parameters = self.jacobian
        return self._pattern(wrt_states, self.states), self._pattern(wrt_parameters, self.parameters)

    def _pattern(self, entries: Entries, group: Sequence[str]) -> NDArray[np.bool_]:
        pattern = np.zeros((len(self.expressions), len(group)), dtype=bool)
        for place in entries:
            pattern[place] = True
        return pattern

    def _rows(self) -> Table:
        return tuple(((i,), expr) for i, expr in enumerate(self.expressions))

    def _content(
        self,
    ) -> tuple[tuple[sympy.Expr, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        return self.expressions, self.states, self.parameters, self.inputs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchedMap) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __reduce__(self) -> tuple[type[BatchedMap], tuple[object, ...]]:
        return BatchedMap, self._content()

    def __repr__(self) -> str:
        everything = (*self.states, *self.parameters, *self.inputs)
        return f"BatchedMap({len(self.expressions)} rows of {listing(everything)})"


def _components(
    t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike
) -> tuple[tuple[int, ...], tuple[Array, Array, Array, Array]]:
    """The common batch shape, and the arguments with components first: those of the states are used most."""
    t, x = np.asarray(t, dtype=float), np.asarray(x, dtype=float)
    p, u = np.asarray(p, dtype=float), np.asarray(u, dtype=float)
    batch = x.shape[:-1]
    if t.shape != batch or u.shape[:-1] != batch or (p.ndim != 1 and p.shape[:-1] != batch):
        batch = np.broadcast_shapes(t.shape, batch, p.shape[:-1], u.shape[:-1])
    return batch, (t[()], np.ascontiguousarray(_first(x)), _first(p), _first(u))


def _first(array: Array) -> Array:
    """The last axis moved to the front."""
    if array.ndim < 3:
        return array.T
    return array.transpose(2, 0, 1) if array.ndim == 3 else np.moveaxis(array, -1, 0)


def _zeros(*shapes: tuple[int, ...]) -> list[Array]:
    """Arrays cut from one block: several large ones would go back to the system and be faulted in anew."""
    ends = list(accumulate(math.prod(shape) for shape in shapes))
    block = np.zeros(ends[-1])
    return [block[a:b].reshape(shape) for a, b, shape in zip([0, *ends], ends, shapes, strict=False)]
