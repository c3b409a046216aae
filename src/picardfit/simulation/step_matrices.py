"""The matrices I - g J of implicit steps of several runs, factorised: dense ones inverted, sparse ones by SuperLU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from picardfit.formulas.kernels import BatchedMap


class StepMatrices(Protocol):
    """Factorised matrices of several runs."""

    def solve(self, right: np.ndarray) -> np.ndarray:
        """(runs, states, columns), NaN where a matrix is singular or not finite."""

    def of(self, which: np.ndarray) -> StepMatrices:
        """The matrices of some of the runs, (runs,) bool."""

    def change(self, residual: np.ndarray, powers: np.ndarray) -> np.ndarray:
        """sum_k N^k r C_k^T for residuals r (states, runs, stages) and powers C (3, stages, stages) (radau.py)."""


def step_matrices(rhs: BatchedMap, slopes: np.ndarray, sparse: int) -> StepMatrices:
    """The matrices I - slopes of runs, sparse from so many states on; slopes (runs, entries) like `state_entries`."""
    states = len(rhs.states)
    return (_sparse if states >= sparse else _dense)(rhs, slopes)


def _summed(
    solve: Callable[[np.ndarray], np.ndarray], residual: np.ndarray, powers: np.ndarray
) -> np.ndarray:
    turned = np.ascontiguousarray(residual.transpose(1, 0, 2))  # (runs, states, stages)
    runs, states, stages = turned.shape
    total = np.zeros((runs * states, stages))
    for power in powers:
        turned = solve(turned)
        total += turned.reshape(-1, stages) @ power.T
    return total.reshape(runs, states, stages).transpose(1, 0, 2)


@dataclass(frozen=True, eq=False)
class _Dense:
    inverse: np.ndarray  # (runs, states, states)

    def solve(self, right: np.ndarray) -> np.ndarray:
        return np.matmul(self.inverse, right)

    def of(self, which: np.ndarray) -> _Dense:
        return _Dense(self.inverse[which])

    def change(self, residual: np.ndarray, powers: np.ndarray) -> np.ndarray:
        return _summed(self.solve, residual, powers)


def _dense(rhs: BatchedMap, slopes: np.ndarray) -> _Dense:
    states = len(rhs.states)
    rows, columns = rhs.state_entries
    matrices = np.zeros((len(slopes), states, states))
    matrices[:, rows, columns] = -slopes
    matrices.reshape(len(slopes), -1)[:, :: states + 1] += 1.0
    finite = np.isfinite(slopes).all(axis=1)
    matrices[~finite] = np.nan
    try:
        matrices[finite] = np.linalg.inv(matrices[finite]) if not finite.all() else np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        for k in np.flatnonzero(finite):
            matrices[k] = _inverse(matrices[k])
    return _Dense(matrices)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


@dataclass(frozen=True, eq=False)
class _Sparse:
    solvers: Sequence[Callable[[np.ndarray], np.ndarray] | None]  # of each run

    def solve(self, right: np.ndarray) -> np.ndarray:
        solved = np.full_like(right, np.nan)
        for k, solver in enumerate(self.solvers):
            if solver is not None:
                solved[k] = solver(right[k])
        return solved

    def of(self, which: np.ndarray) -> _Sparse:
        return _Sparse([self.solvers[k] for k in np.flatnonzero(which).tolist()])

    def change(self, residual: np.ndarray, powers: np.ndarray) -> np.ndarray:
        return _summed(self.solve, residual, powers)


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Where entries and diagonal are among the numbers of a matrix that is stored by columns."""

    entries: np.ndarray
    diagonal: np.ndarray
    indices: np.ndarray
    starts: np.ndarray


@lru_cache(maxsize=16)
def _pattern(rhs: BatchedMap) -> _Pattern:
    rows, columns = rhs.state_entries
    states, each = len(rhs.states), np.arange(len(rhs.states))
    keys = np.unique(np.concatenate([columns * states + rows, each * states + each]))
    return _Pattern(
        entries=np.searchsorted(keys, columns * states + rows),
        diagonal=np.searchsorted(keys, each * states + each),
        indices=(keys % states).astype(np.int32),
        starts=np.searchsorted(keys, np.arange(states + 1) * states).astype(np.int32),
    )


def _sparse(rhs: BatchedMap, slopes: np.ndarray) -> _Sparse:
    pattern, states = _pattern(rhs), len(rhs.states)
    solvers: list[Callable[[np.ndarray], np.ndarray] | None] = []
    for row in slopes:
        numbers = np.zeros(len(pattern.indices))
        numbers[pattern.entries] = -row
        numbers[pattern.diagonal] += 1.0
        solvers.append(_factorised(numbers, pattern, states))
    return _Sparse(solvers)


def _factorised(
    numbers: np.ndarray, pattern: _Pattern, states: int
) -> Callable[[np.ndarray], np.ndarray] | None:
    from scipy.sparse import csc_matrix
    from scipy.sparse.linalg import splu

    if not np.isfinite(numbers).all():
        return None
    matrix = csc_matrix((numbers, pattern.indices, pattern.starts), shape=(states, states))
    try:
        # reaction networks are nearly symmetric in pattern: this order fills half as much as SciPy's default
        return splu(matrix, permc_spec="MMD_AT_PLUS_A").solve
    except RuntimeError:  # exactly singular
        return None
