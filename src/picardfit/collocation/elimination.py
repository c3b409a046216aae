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


@dataclass(frozen=True, eq=False)
class Plan:
    """In which order the states of a model are eliminated, and which blocks that needs.

    Eliminated matrices are an array (segments, numbers): the blocks, then the inverse of the core.
    """

    states: int
    entries: Indices  # (entries, 2): pairs of states whose blocks come first, those with a derivative and the diagonal
    blocks: int  # with those that fill in
    pivots: tuple[Pivot, ...]
    core: Indices  # states
    core_blocks: Indices  # (core, core)

    @cached_property
    def _diagonal(self) -> Indices:
        return np.flatnonzero(self.entries[:, 0] == self.entries[:, 1])

    @cached_property
    def _is_early(self) -> list[bool]:
        """Of each pivot, whether its own block is inverted with others in one go, because no elimination changes it."""
        changed = {target for pivot in self.pivots for target, _, _ in pivot.updates}
        return [pivot.own not in changed for pivot in self.pivots]

    @cached_property
    def _early(self) -> list[int]:
        return [pivot.own for pivot, early in zip(self.pivots, self._is_early, strict=True) if early]

    def eliminate(self, integral: Array, wrt_x: Array) -> Array:
        """Eliminated matrices (segments, numbers), from h A (segments, nodes, nodes) and f_x at the nodes.

        NaN where a matrix is not finite.
        """
        segments, nodes = wrt_x.shape[:2]
        inside = self.blocks * nodes**2
        result = np.zeros((segments, inside + (len(self.core) * nodes) ** 2))
        blocks, core = self._views(result, nodes)
        derivatives = wrt_x[:, :, self.entries[:, 0], self.entries[:, 1]].transpose(0, 2, 1)
        np.multiply(-integral[:, None], derivatives[:, :, None, :], out=blocks[:, : len(self.entries)])
        blocks[:, self._diagonal] += np.eye(nodes)
        early = blocks[:, self._early]
        blocks[:, self._early] = inverted(early.reshape(-1, nodes, nodes)).reshape(early.shape)
        for pivot, is_early in zip(self.pivots, self._is_early, strict=True):
            own = blocks[:, pivot.own]
            if not is_early:
                own[...] = inverted(own)
            for block, _ in pivot.right:
                blocks[:, block] = own @ blocks[:, block]
            for target, below, right in pivot.updates:
                blocks[:, target] -= blocks[:, below] @ blocks[:, right]
        if len(self.core):
            together = blocks[:, self.core_blocks].transpose(0, 1, 3, 2, 4).reshape(core.shape)
            core[...] = inverted(together)
        return result

    def solve(self, eliminated: Array, right: Array) -> Array:
        """M^-1 right in place, for contiguous right-hand sides (segments, nodes * states, columns)."""
        blocks, core, solved = self._prepared(eliminated, right)
        for pivot in self.pivots:
            solved[:, :, pivot.state] = own = blocks[:, pivot.own] @ solved[:, :, pivot.state]
            for block, state in pivot.below:
                solved[:, :, state] -= blocks[:, block] @ own
        self._solve_core(core, solved)
        for pivot in reversed(self.pivots):
            for block, state in pivot.right:
                solved[:, :, pivot.state] -= blocks[:, block] @ solved[:, :, state]
        return right

    def solve_transposed(self, eliminated: Array, right: Array) -> Array:
        """M^-T right in place, for contiguous right-hand sides (segments, nodes * states, columns)."""
        blocks, core, solved = self._prepared(eliminated, right)
        blocks, core = blocks.transpose(0, 1, 3, 2), core.transpose(0, 2, 1)
        for pivot in self.pivots:
            for block, state in pivot.right:
                solved[:, :, state] -= blocks[:, block] @ solved[:, :, pivot.state]
        self._solve_core(core, solved)
        for pivot in reversed(self.pivots):
            for block, state in pivot.below:
                solved[:, :, pivot.state] -= blocks[:, block] @ solved[:, :, state]
            solved[:, :, pivot.state] = blocks[:, pivot.own] @ solved[:, :, pivot.state]
        return right

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

    def _solve_core(self, inverse: Array, solved: Array) -> None:
        """Multiply the states of the core by the inverse of its matrix, in place."""
        if not len(self.core):
            return
        together = solved[:, :, self.core].transpose(0, 2, 1, 3)
        flat = inverse @ together.reshape(len(solved), -1, solved.shape[3])
        solved[:, :, self.core] = flat.reshape(together.shape).transpose(0, 2, 1, 3)


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
    entries = np.argwhere(nonzero)
    number = {(i, j): k for k, (i, j) in enumerate(entries.tolist())}
    left, pivots = np.ones(states, bool), []
    for state in _order(nonzero, left, dense):
        later = left & (np.arange(states) != state)
        below, right = (np.flatnonzero(one & later).tolist() for one in (nonzero[:, state], nonzero[state]))
        for pair in ((i, j) for i in below for j in right):
            number.setdefault(pair, len(number))
            nonzero[pair] = True
        pivots.append(_pivot(state, below, right, number))
        left[state] = False
    core = np.flatnonzero(left)
    for pair in ((i, j) for i in core.tolist() for j in core.tolist()):
        number.setdefault(pair, len(number))
    core_blocks = np.array([[number[i, j] for j in core.tolist()] for i in core.tolist()], int)
    return Plan(states, entries, len(number), tuple(pivots), core, core_blocks)


def _order(nonzero: Flags, left: Flags, dense: float) -> Iterator[int]:
    """The states in order, until those left are coupled densely; the caller updates `nonzero` and `left`."""
    while left.any():
        states = np.flatnonzero(left)
        among = nonzero[np.ix_(states, states)]
        rows, columns = among.sum(axis=1) - 1, among.sum(axis=0) - 1
        if rows.sum() >= dense * len(states) * (len(states) - 1):
            return
        yield int(states[np.lexsort((rows + columns, rows * columns))[0]])


def _pivot(state: int, below: list[int], right: list[int], number: dict[tuple[int, int], int]) -> Pivot:
    updates = tuple((number[i, j], number[i, state], number[state, j]) for i in below for j in right)
    return Pivot(
        state,
        number[state, state],
        tuple((number[i, state], i) for i in below),
        tuple((number[state, j], j) for j in right),
        updates,
    )


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
