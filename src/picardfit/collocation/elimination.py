"""Solve with the Newton matrices I - h A (x) f_x state by state, where f_x is sparse.

Ordered by states, the matrix of a segment consists of one block (nodes, nodes) for each pair of states,

    M_ij = delta_ij I - h A diag(f_x[i, j] at the nodes),

and M_ij is zero wherever the equation of state i does not contain state j. Block elimination in an order that keeps
most blocks zero costs far less than the inverse of the whole matrix: in a cascade, every state needs one block for
itself and one for its predecessor. The states that are left when hardly a block among them is zero form the core,
which is inverted as one matrix. The order is that of the model, so each operation is carried out for all segments at
once.

The pivots are the blocks of the states themselves, whatever their size. On short segments, where M is close to the
identity, this loses no digits. On others it may, so a caller who needs exact solutions checks them (`defect`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from picardfit.collocation.mesh import Flags, Indices
from picardfit.formulas.kernels import Array, BatchedMap

Coupling = tuple[int, int]  # a block, and the state that it couples to


@dataclass(frozen=True)
class Sparsity:
    """Which models are eliminated state by state (docs/decisions/016)."""

    fewest: int = 10  # states; the inverses of smaller models are as fast, measured
    dense: float = (
        0.5  # fraction of non-zero blocks off the diagonal at which the states left form the core; chosen
    )
    largest_core: float = 0.6  # of the states; the inverse of a larger core saves too little, measured


@dataclass(frozen=True)
class Pivot:
    """The elimination of one state k; `later` states are those eliminated after it."""

    state: int
    own: int  # block of M_kk, then of its inverse
    below: tuple[Coupling, ...]  # M_ik of later states i
    right: tuple[Coupling, ...]  # M_kj of later states j, then M_kk^-1 M_kj
    updates: tuple[tuple[int, int, int], ...]  # blocks (M_ij, M_ik, M_kj) of M_ij -= M_ik M_kk^-1 M_kj
    before: tuple[Coupling, ...]  # M_ki of states i eliminated earlier


@dataclass(frozen=True, eq=False)
class Sources:
    """The right-hand sides [I, h A f_p], of which a state has few that are not zero: its own and its parameters.

    The columns of state k are those from `begin[k]` to `begin[k + 1]`, its own first.
    """

    values: Array  # (segments, nodes, sources)
    column: Indices  # (sources,): of [states | parameters]
    begin: Indices  # (states + 1,)

    def add(self, state: int, values: Array, to: Array) -> None:
        """Add values (segments, nodes, own sources) to the columns of a state in `to` (segments, nodes, columns)."""
        for k, column in enumerate(self.column[self.begin[state] : self.begin[state + 1]].tolist()):
            to[..., column] += values[..., k]

    def of(self, state: int) -> Array:
        """(segments, nodes, own sources)."""
        return self.values[..., self.begin[state] : self.begin[state + 1]]

    def total(self, weights: Array) -> Array:
        """(segments, nodes, states): the sum of all columns with weights (segments, columns)."""
        weighted = self.values * weights[:, None, self.column]
        together: Array = np.add.reduceat(weighted, self.begin[:-1], axis=2)
        return together

    def dense(self, segments: Indices, columns: int) -> Array:
        """(chosen, nodes * states, columns): the right-hand sides of some segments with their zeros."""
        values, states = self.values[segments], len(self.begin) - 1
        everything = np.zeros((*values.shape[:2], states, columns))
        everything[:, :, np.repeat(np.arange(states), np.diff(self.begin)), self.column] = values
        return everything.reshape(len(values), -1, columns)


def sources(entries: Indices, states: int, values: Array) -> Sources:
    """The right-hand sides from h A f_p (segments, nodes, entries) of entries (entries, 2), a state and a parameter.

    The entries are in the order of the states.
    """
    state = np.concatenate([np.arange(states), entries[:, 0]])
    order = np.argsort(state, kind="stable")
    column = np.concatenate([np.arange(states), states + entries[:, 1]])
    both = np.concatenate([np.ones((*values.shape[:2], states)), values], axis=2)
    begin = np.searchsorted(state[order], np.arange(states + 1))
    return Sources(both[..., order], column[order], begin)


@dataclass(frozen=True, eq=False)
class Plan:
    """In which order the states of a model are eliminated, and which blocks that needs.

    Eliminated matrices are an array (segments, numbers): the blocks, then the inverse of the core.
    """

    states: int
    entries: Indices  # (entries, 2): pairs of states whose blocks come first, those with a derivative
    blocks: int  # with those of the diagonal and those that fill in
    diagonal: Indices  # (states,): blocks
    pivots: tuple[Pivot, ...]
    core: Indices  # states
    core_blocks: Indices  # (core, core)
    core_before: tuple[tuple[Coupling, ...], ...]  # of each state of the core, M_ki of pivots i

    @cached_property
    def _early(self) -> Flags:
        """(pivots,) bool: pivots whose own block no elimination changes, so that they are inverted in one go."""
        changed = {target for pivot in self.pivots for target, _, _ in pivot.updates}
        return np.array([pivot.own not in changed for pivot in self.pivots], bool)

    @cached_property
    def _kinds(self) -> tuple[Indices, Indices, Indices]:
        """Blocks of entries that are inverted in one go, other blocks of entries, other blocks of the diagonal."""
        own = np.array([pivot.own for pivot in self.pivots], int)[self._early]
        early = own[own < len(self.entries)]
        return early, np.setdiff1d(np.arange(len(self.entries)), early), np.setdiff1d(self.diagonal, early)

    def eliminate(self, integral: Array, slopes: Array) -> Array:
        """Eliminated matrices (segments, numbers), from h A (segments, nodes, nodes) and the entries of f_x.

        The entries are an array (entries, segments, nodes). NaN where a matrix is not finite.
        """
        segments, nodes = slopes.shape[1:]
        result = np.zeros((segments, self.blocks * nodes**2 + (len(self.core) * nodes) ** 2))
        blocks, core = self._views(result, nodes)
        self._fill(blocks, -integral, slopes)
        for pivot, is_early in zip(self.pivots, self._early.tolist(), strict=True):
            own = blocks[:, pivot.own]
            if not is_early:
                own[...] = inverted_in_order(own.transpose(1, 2, 0)).transpose(2, 0, 1)
            for block, _ in pivot.right:
                blocks[:, block] = own @ blocks[:, block]
            for target, below, right in pivot.updates:
                blocks[:, target] -= blocks[:, below] @ blocks[:, right]
        if len(self.core):
            together = blocks[:, self.core_blocks].transpose(0, 1, 3, 2, 4).reshape(core.shape)
            core[...] = inverted(together)
        return result

    def _fill(self, blocks: Array, negative: Array, slopes: Array) -> None:
        """Write the blocks of M, or their inverses where no elimination changes them; `negative`: -h A."""
        (early, others, diagonal), nodes = self._kinds, blocks.shape[2]
        unit = np.eye(nodes)
        blocks[:, others] = negative[:, None] * slopes[others].transpose(1, 0, 2)[:, :, None, :]
        blocks[:, diagonal] += unit
        by_node = slopes[early].transpose(2, 0, 1)  # (nodes, blocks, segments)
        # all matrices along the last axes, where inverting them is fast
        own = np.multiply(negative.transpose(1, 2, 0)[:, :, None, :], by_node, order="C")
        own += unit[:, :, None, None]
        found = inverted_in_order(own.reshape(nodes, nodes, -1)).reshape(own.shape)
        blocks[:, early] = found.transpose(3, 2, 0, 1)

    def solve(self, eliminated: Array, right: Array) -> Array:
        """M^-1 right in place, for contiguous right-hand sides (segments, nodes * states, columns)."""
        blocks, core, solved = self._prepared(eliminated, right)
        for pivot in self.pivots:
            solved[:, :, pivot.state] = own = blocks[:, pivot.own] @ solved[:, :, pivot.state]
            for block, state in pivot.below:
                solved[:, :, state] -= blocks[:, block] @ own
        if len(self.core):
            self._solve_core(core, solved, solved[:, :, self.core].transpose(0, 2, 1, 3))
        self._substitute_back(blocks, solved)
        return right

    def multipliers(self, eliminated: Array, given: Sources, out: Array) -> Array:
        """M^-1 of right-hand sides that are mostly zero, written to `out` (segments, nodes, states, columns).

        A state's solution is that of the states before it, carried over by one product, and of its own sources.
        """
        blocks, core = self._views(eliminated, out.shape[1])
        for pivot in self.pivots:
            own, solved = blocks[:, pivot.own], out[:, :, pivot.state]
            for k, (block, state) in enumerate(pivot.before):
                carried = np.negative(own @ blocks[:, block])
                if k:
                    solved += carried @ out[:, :, state]
                else:
                    np.matmul(carried, out[:, :, state], out=solved)
            if not pivot.before:
                solved[...] = 0.0
            given.add(pivot.state, own @ given.of(pivot.state), solved)
        if len(self.core):
            together = np.zeros((len(out), len(self.core), out.shape[1], out.shape[3]))
            for k, (state, before) in enumerate(zip(self.core.tolist(), self.core_before, strict=True)):
                given.add(state, given.of(state), together[:, k])
                for block, earlier in before:
                    together[:, k] -= blocks[:, block] @ out[:, :, earlier]
            self._solve_core(core, out, together)
        self._substitute_back(blocks, out)
        return out

    def solve_transposed(self, eliminated: Array, right: Array) -> Array:
        """M^-T right in place, for contiguous right-hand sides (segments, nodes * states, columns)."""
        blocks, core, solved = self._prepared(eliminated, right)
        blocks, core = blocks.transpose(0, 1, 3, 2), core.transpose(0, 2, 1)
        for pivot in self.pivots:
            for block, state in pivot.right:
                solved[:, :, state] -= blocks[:, block] @ solved[:, :, pivot.state]
        if len(self.core):
            self._solve_core(core, solved, solved[:, :, self.core].transpose(0, 2, 1, 3))
        for pivot in reversed(self.pivots):
            for block, state in pivot.below:
                solved[:, :, pivot.state] -= blocks[:, block] @ solved[:, :, state]
            solved[:, :, pivot.state] = blocks[:, pivot.own] @ solved[:, :, pivot.state]
        return right

    def dense(self, slopes: Array) -> Array:
        """f_x (segments, nodes, states, states) of its entries (entries, segments, nodes)."""
        everything = np.zeros((*slopes.shape[1:], self.states, self.states))
        everything[:, :, self.entries[:, 0], self.entries[:, 1]] = slopes.transpose(1, 2, 0)
        return everything

    def times(self, slopes: Array, vector: Array) -> Array:
        """f_x v at the nodes (segments, nodes, states), from the entries of f_x (entries, segments, nodes)."""
        result = np.zeros((self.states, *slopes.shape[1:]))
        rows, begin = self._rows
        if len(rows):
            products = slopes * np.ascontiguousarray(vector.transpose(2, 0, 1))[self.entries[:, 1]]
            result[rows] = np.add.reduceat(products, begin)
        return result.transpose(1, 2, 0)

    @cached_property
    def _rows(self) -> tuple[Indices, Indices]:
        """States with entries, and the first entry of each."""
        rows, begin = np.unique(self.entries[:, 0], return_index=True)
        return rows, begin

    def _views(self, eliminated: Array, nodes: int) -> tuple[Array, Array]:
        """The blocks (segments, blocks, nodes, nodes) and the inverse of the core."""
        inside, size = self.blocks * nodes**2, len(self.core) * nodes
        count = len(eliminated)
        blocks = eliminated[:, :inside].reshape(count, self.blocks, nodes, nodes)
        return blocks, eliminated[:, inside:].reshape(count, size, size)

    def _prepared(self, eliminated: Array, right: Array) -> tuple[Array, Array, Array]:
        """Blocks, inverse of the core, and the right-hand sides as (segments, nodes, states, columns)."""
        nodes = right.shape[1] // self.states
        return *self._views(eliminated, nodes), right.reshape(len(right), nodes, self.states, right.shape[2])

    def _solve_core(self, inverse: Array, solved: Array, together: Array) -> None:
        """Solve for the states of the core, whose right-hand sides are (segments, core, nodes, columns)."""
        flat = inverse @ together.reshape(len(solved), -1, solved.shape[3])
        solved[:, :, self.core] = flat.reshape(together.shape).transpose(0, 2, 1, 3)

    def _substitute_back(self, blocks: Array, solved: Array) -> None:
        """Subtract from each state, the last pivot first, what its row holds of later states: in place."""
        for pivot in reversed(self.pivots):
            for block, state in pivot.right:
                solved[:, :, pivot.state] -= blocks[:, block] @ solved[:, :, state]


@lru_cache(maxsize=32)
def plan_of(rhs: BatchedMap, sparsity: Sparsity = Sparsity()) -> Plan | None:
    """The plan for a right-hand side, or None where the inverse of the whole matrix is at least as fast."""
    if len(rhs.states) < sparsity.fewest:
        return None
    plan = planned(rhs.jacobian_pattern[0], sparsity.dense)
    return plan if len(plan.core) <= sparsity.largest_core * plan.states else None


def planned(pattern: Flags, dense: float = Sparsity().dense) -> Plan:
    """The plan for a Jacobian with non-zeros at `pattern` (states, states), in the order of Markowitz.

    The next state is the one whose elimination fills in the fewest blocks: the product of its couplings in row and
    column is least.
    """
    states = len(pattern)
    nonzero: Flags = pattern | np.eye(states, dtype=bool)
    entries = np.argwhere(pattern)
    number = {(i, j): k for k, (i, j) in enumerate(entries.tolist())}
    for i in range(states):
        number.setdefault((i, i), len(number))
    left, pivots, earlier = np.ones(states, bool), [], np.zeros(states, bool)
    for state in _order(nonzero, left, dense):
        left[state] = False
        below, right = (np.flatnonzero(one & left).tolist() for one in (nonzero[:, state], nonzero[state]))
        for pair in ((i, j) for i in below for j in right):
            number.setdefault(pair, len(number))
            nonzero[pair] = True
        before = np.flatnonzero(nonzero[state] & earlier).tolist()
        earlier[state] = True
        pivots.append(_pivot(state, before, below, right, number))
    core = np.flatnonzero(left).tolist()
    for pair in ((i, j) for i in core for j in core):
        number.setdefault(pair, len(number))
    return Plan(
        states,
        entries,
        len(number),
        np.array([number[i, i] for i in range(states)]),
        tuple(pivots),
        np.array(core, int),
        np.array([[number[i, j] for j in core] for i in core], int),
        tuple(
            _couplings([(i, j) for j in np.flatnonzero(nonzero[i] & earlier).tolist()], number) for i in core
        ),
    )


def _order(nonzero: Flags, left: Flags, dense: float) -> Iterator[int]:
    """The states in order, until those left are coupled densely; the caller updates `nonzero` and `left`."""
    while left.any():
        states = np.flatnonzero(left)
        among = nonzero[np.ix_(states, states)]
        rows, columns = among.sum(axis=1) - 1, among.sum(axis=0) - 1
        crowded = rows.sum() >= dense * len(states) * (len(states) - 1)
        if (
            crowded and (rows * columns).all()
        ):  # a state without a coupling in row or column costs nothing more
            return
        yield int(states[np.lexsort((rows + columns, rows * columns))[0]])


def _pivot(
    state: int, before: list[int], below: list[int], right: list[int], number: dict[tuple[int, int], int]
) -> Pivot:
    return Pivot(
        state,
        number[state, state],
        tuple((number[i, state], i) for i in below),
        _couplings([(state, j) for j in right], number),
        tuple((number[i, j], number[i, state], number[state, j]) for i in below for j in right),
        _couplings([(state, j) for j in before], number),
    )


def _couplings(pairs: list[tuple[int, int]], number: dict[tuple[int, int], int]) -> tuple[Coupling, ...]:
    """The blocks of pairs of states, with the second of each."""
    return tuple((number[pair], pair[1]) for pair in pairs)


def inverted_in_order(matrices: Array, each: int = 2048) -> Array:
    """Inverses of small matrices (n, n, k) by Gauss-Jordan elimination in the order of the rows, `each` at a time.

    All matrices share an operation, which is faster than one call of LAPACK for each. Pivots are not chosen by size:
    see the top of this file. NaN for matrices that are not finite; not finite where a pivot is zero.
    """
    result, size = np.empty(matrices.shape), len(matrices)
    with np.errstate(all="ignore"):
        for begin in range(0, matrices.shape[2], each):
            some = slice(begin, begin + each)
            left = np.array(matrices[..., some], order="C")
            change = np.empty_like(left)
            for k in range(size):
                column = left[:, k].copy()
                inverse = 1 / column[k]
                column[k] = left[:, k] = 0.0
                left[k] *= inverse
                left[k, k] = inverse
                np.multiply(column[:, None], left[k], out=change)
                left -= change
            result[..., some] = left
    if not np.isfinite(matrices.sum()):
        result[..., ~np.isfinite(matrices).all(axis=(0, 1))] = np.nan
    return result


def inverted(matrix: NDArray[np.float64], worst: float = 1e15) -> Array:
    """Inverses of matrices (k, n, n); NaN for matrices that are not finite.

    If any matrix is exactly singular, NaN for all whose condition number exceeds `worst`: no digit of such an inverse
    is right.
    """
    if np.isfinite(matrix.sum()):
        with suppress(np.linalg.LinAlgError):
            return np.asarray(np.linalg.inv(matrix), float)
    result, usable = np.full_like(matrix, np.nan), np.asarray(np.isfinite(matrix).all(axis=(1, 2)))
    try:
        result[usable] = np.linalg.inv(matrix[usable])
    except np.linalg.LinAlgError:
        usable &= np.linalg.cond(np.where(usable[:, None, None], matrix, 0.0)) < worst
        result[usable] = np.linalg.inv(matrix[usable])
    return result
