"""Straight-line code as few operations on many values: equal operations of a level go into one call of NumPy.

An operation of NumPy costs 250 ns however few numbers it handles. A right-hand side of 75 states has 900 operations,
but on a few levels only: products of states and parameters, then sums, quotients, sums. Values are the rows of one
array (values, points); each group of equal operations gathers its operands and writes its results to consecutive rows,
and all sums of a level, of any length, are one product with a sparse matrix. What depends on parameters alone is
computed once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Code = Sequence[tuple[str, str, tuple[str, ...]]]  # (target, template, operands)

_BINARY: dict[str, Any] = {"{} * {}": np.multiply, "{} / {}": np.divide}
_SIGNS = {"{} + {}": (1.0, 1.0), "{} - {}": (1.0, -1.0), "-{}": (-1.0,)}
_FUNCTION = re.compile(r"(\w+)\(\{\}(, \{\})?\)")


@dataclass(frozen=True)
class _Node:
    """A value: a sum of signed operands if `call` is None."""

    call: Any
    operands: tuple[str, ...]
    signs: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class _Group:
    """Equal operations: their results are rows first to last, of the static values or the others."""

    call: Any  # None: sums
    static: bool
    first: int
    last: int
    operands: tuple[tuple[bool, NDArray[np.intp]], ...]  # of each place: whether they are static, their rows
    sums: tuple[Any, Any] | None = (
        None  # sparse matrices over static values and over the others; None: no entries
    )


class Wide:
    """A list of expressions, compiled; `bind` prepares it for some parameters and a number of points."""

    def __init__(
        self, code: Code, rows: Sequence[str], counts: tuple[int, int, int], calls: dict[str, object]
    ) -> None:
        self.counts = counts  # states, parameters, inputs
        nodes = _nodes(code, rows, calls)
        static, moving = _levels(nodes)
        self.literals = sorted(_literals(nodes, rows))
        places = {f"p{i}": (True, i) for i in range(counts[1])}
        places |= {name: (True, counts[1] + k) for k, name in enumerate(self.literals)}
        fixed = len(places)
        places |= {f"x{i}": (False, i) for i in range(counts[0])}
        places |= {f"u{i}": (False, counts[0] + i) for i in range(counts[2])} | {
            "t": (False, counts[0] + counts[2])
        }
        loose = counts[0] + counts[2] + 1
        self.groups: list[_Group] = []
        for levels, still in ((static, True), (moving, False)):
            for names in levels:
                begin = fixed if still else loose
                kinds = _kinds(names, nodes, places)
                for k, name in enumerate(name for _, group in kinds for name in group):
                    places[name] = (still, begin + k)
                for call, group in kinds:
                    self.groups.append(_group(call, group, nodes, places, still, begin))
                    begin += len(group)
                fixed, loose = (begin, loose) if still else (fixed, begin)
        self.sizes = fixed, loose
        self.rows = [places[name] for name in rows]

    def bind(self, params: Array, points: int) -> Bound:
        """The function for parameters (parameters, points), or (parameters, 1) if all points have the same."""
        return Bound(self, params, points)


class Bound:
    """The expressions as a function of times, states and inputs at a fixed number of points."""

    def __init__(self, wide: Wide, params: Array, points: int) -> None:
        self._states, count, _ = wide.counts
        static = np.empty((wide.sizes[0], params.shape[1]))
        static[:count] = params
        static[count : count + len(wide.literals)] = np.array([float(n.strip("()")) for n in wide.literals])[
            :, None
        ]
        self._values = np.empty((wide.sizes[1], points))
        self._steps: list[Callable[[], None]] = []
        largest = max((g.last - g.first for g in wide.groups), default=0)
        self._scratch = np.empty((2, largest, points))
        for group in wide.groups:
            step = self._step(group, static)
            if group.static:
                step()
            else:
                self._steps.append(step)
        moving = [(k, row) for k, (still, row) in enumerate(wide.rows) if not still]
        self._to, self._from = (np.array([pair[i] for pair in moving], np.intp) for i in (0, 1))
        self._all = len(moving) == len(wide.rows)
        still = [(k, row) for k, (one, row) in enumerate(wide.rows) if one]
        self._fixed = np.array([k for k, _ in still], np.intp), static[[row for _, row in still]]

    def __call__(self, t: Array, x: Array, u: Array, out: Array) -> None:
        """The rows into out (rows, points), for t (points,), x (states, points), u (inputs, points)."""
        values = self._values
        values[: self._states] = x
        values[self._states : self._states + len(u)] = u
        values[self._states + len(u)] = t
        for step in self._steps:
            step()
        if self._all:
            np.take(values, self._from, axis=0, out=out, mode="clip")
        else:
            out[self._to] = values[self._from]
            out[self._fixed[0]] = self._fixed[1]

    def _step(self, group: _Group, static: Array) -> Callable[[], None]:
        values = static if group.static else self._values
        target = values[group.first : group.last]
        if group.sums is not None:
            return _summing(target, group.sums, static, self._values)
        gets = [self._operand(*one, static, k) for k, one in enumerate(group.operands)]
        call = group.call
        if len(gets) == 1:
            (only,) = gets
            return lambda: call(only(), out=target)
        left, right = gets
        return lambda: call(left(), right(), out=target)

    def _operand(self, still: bool, rows: NDArray[np.intp], static: Array, place: int) -> Callable[[], Array]:
        """What gathers an operand: a part of the values where rows follow each other, fixed numbers, or a copy."""
        if still:
            known: list[Array] = []  # static values are complete when the first call comes

            def fixed() -> Array:
                if not known:
                    known.append(static[rows])
                return known[0]

            return fixed
        values, first = self._values, int(rows[0])
        if (rows == np.arange(first, first + len(rows))).all():
            part = values[first : first + len(rows)]
            return lambda: part
        scratch = self._scratch[place, : len(rows)]
        return lambda: values.take(rows, 0, scratch, "clip")


def _summing(target: Array, sums: tuple[Any, Any], static: Array, values: Array) -> Callable[[], None]:
    of_static, of_values = sums
    static, values = (
        array if one is None else array[: one.shape[1]]
        for one, array in zip(sums, (static, values), strict=True)
    )
    if of_values is None:
        return lambda: np.copyto(target, of_static @ static)
    if of_static is None:
        return lambda: np.copyto(target, of_values @ values)
    known: list[Array] = []

    def both() -> None:
        if not known:
            known.append(of_static @ static)
        np.add(of_values @ values, known[0], out=target)

    return both


def _nodes(code: Code, rows: Sequence[str], calls: dict[str, object]) -> dict[str, _Node]:
    """The values by name; sums that are used once, by another sum, are part of it."""
    users: dict[str, list[bool]] = defaultdict(list)  # of a value: whether each user is a sum
    for _, template, operands in code:
        for name in operands:
            users[name].append(template in _SIGNS)
    for name in rows:
        users[name].append(False)
    parts: dict[str, tuple[tuple[str, float], ...]] = {}  # of sums inside other sums
    nodes: dict[str, _Node] = {}
    for target, template, operands in code:
        if template in _SIGNS:
            terms = tuple(
                (inner, sign * own)
                for name, own in zip(operands, _SIGNS[template], strict=True)
                for inner, sign in parts.pop(name, ((name, 1.0),))
            )
            if users[target] == [True]:
                parts[target] = terms
            else:
                nodes[target] = _Node(None, *(tuple(one) for one in zip(*terms, strict=True)))
        else:
            nodes[target] = _Node(_call(template, calls), operands)
    return nodes


def _call(template: str, calls: dict[str, object]) -> Any:
    if template in _BINARY:
        return _BINARY[template]
    found = _FUNCTION.fullmatch(template)
    call = calls.get(found[1]) if found else None
    if not isinstance(call, np.ufunc):
        raise Unsuited(template)
    return call


class Unsuited(Exception):
    """Code with operations that have no place here: conditions, and functions that are no ufuncs."""


def _levels(nodes: dict[str, _Node]) -> tuple[list[list[str]], list[list[str]]]:
    """Names by level, of values that depend on parameters alone and of the others."""
    level: dict[str, int] = {}
    still: dict[str, bool] = {}
    levels: tuple[dict[int, list[str]], dict[int, list[str]]] = (defaultdict(list), defaultdict(list))
    for name, node in nodes.items():
        still[name] = all(still.get(one, one[0] not in "xut") for one in node.operands)
        mine = [level.get(one, 0) for one in node.operands if still[name] or not still.get(one, False)]
        level[name] = 1 + max(mine, default=0)
        levels[0 if still[name] else 1][level[name]].append(name)
    first, second = ([one[k] for k in sorted(one)] for one in levels)
    return first, second


def _literals(nodes: dict[str, _Node], rows: Sequence[str]) -> set[str]:
    every = {one for node in nodes.values() for one in node.operands} | set(rows)
    return {one for one in every if one[0] not in "xputv"}


def _kinds(
    names: list[str], nodes: dict[str, _Node], places: dict[str, tuple[bool, int]]
) -> list[tuple[Any, list[str]]]:
    """The values of a level by operation, and by which of their operands are static."""
    kinds: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for name in names:
        node = nodes[name]
        if node.call is None:
            kinds[None,].append(name)
            continue
        if node.call is np.multiply and places[node.operands[1]][0] and not places[node.operands[0]][0]:
            node = nodes[name] = _Node(node.call, node.operands[::-1])
        kinds[node.call, *(places[one][0] for one in node.operands)].append(name)
    return [(key[0], group) for key, group in kinds.items()]


def _group(
    call: Any,
    names: list[str],
    nodes: dict[str, _Node],
    places: dict[str, tuple[bool, int]],
    still: bool,
    first: int,
) -> _Group:
    if call is None:
        sums = _matrix(names, nodes, places, True), _matrix(names, nodes, places, False)
        return _Group(None, still, first, first + len(names), (), sums)
    columns = zip(*(nodes[name].operands for name in names), strict=True)
    operands = tuple(
        (places[column[0]][0], np.array([places[one][1] for one in column], np.intp)) for column in columns
    )
    return _Group(call, still, first, first + len(names), operands)


def _matrix(
    names: list[str], nodes: dict[str, _Node], places: dict[str, tuple[bool, int]], still: bool
) -> Any:
    """The signs of the operands that are static, or of the others, by rows of their array; None without any."""
    from scipy.sparse import csr_matrix

    entries = [
        (row, places[one][1], sign)
        for row, name in enumerate(names)
        for one, sign in zip(nodes[name].operands, nodes[name].signs, strict=True)
        if places[one][0] is still
    ]
    if not entries:
        return None
    rows, columns, signs = zip(*entries, strict=True)
    width = 1 + max(place for kind, place in places.values() if kind is still)
    return csr_matrix((signs, (rows, columns)), shape=(len(names), width))
