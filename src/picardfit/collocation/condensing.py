"""Block-banded normal equations: assemble, eliminate the segment states, solve for the unknowns, back-substitute.

Variables of one Gauss-Newton step are the states at all inner knots and, per experiment, a row of unknowns
b = [free initial states and local parameters of this experiment | global parameters]. Inner states couple only to
their neighbours, so one banded Cholesky factorisation (cost linear in segments) leaves a small dense system per
experiment, and a second elimination of the local columns leaves one for the global parameters (an arrow).

The quadratic model is   sum_j 1/2 d_j' H_j d_j + g_j' d_j  +  sum_j 1/2 |c_j + B_j d_j - d_(j+1)|^2_W
with d_j = (state at the start of segment j, free parameters), c_j the jump at the knot after segment j, W the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from picardfit.collocation.mesh import Mesh
from picardfit.problem.unknowns import UnknownsColumns

MOST_DOWNHILL = 100  # projected Newton steps


@dataclass(frozen=True)
class Quadratic:
    """The quadratic model of the objective, segment by segment; columns are [states | free parameters]."""

    hessian: np.ndarray  # (segments, columns, columns)
    slope: np.ndarray  # (segments, columns)
    end: np.ndarray  # (linked, states, columns): derivative of the end state of segments with a successor
    jump: np.ndarray  # (linked, states): end state minus next start state
    initial: np.ndarray  # (experiments, states, unknowns): derivative of the initial state by the unknowns
    unknowns: np.ndarray | None = (
        None  # (experiments, width, width): further curvature of the unknowns themselves
    )

    def jump_change(
        self, mesh: Mesh, columns: UnknownsColumns, unknowns_step: np.ndarray, states_step: np.ndarray
    ) -> np.ndarray:
        """(linked, states): by how much a step changes the jumps, to first order."""
        moved = mesh.columns(states_step, unknowns_step[:, columns.index])[mesh.linked_rows]
        return (self.end @ moved[..., None])[..., 0] - states_step[mesh.inner_rows]


@dataclass(frozen=True)
class Factor:
    """The factorised inner block with what couples it to the unknowns; serves any number of right-hand sides."""

    mesh: Mesh
    columns: UnknownsColumns
    weighted: np.ndarray  # W B: (linked, states, columns)
    penalty: np.ndarray  # (linked, states), or (states,) for all alike
    initial: np.ndarray
    cholesky: np.ndarray  # lower band
    cross: np.ndarray  # (inner, states, width)
    solved: np.ndarray  # inner block^-1 cross
    hessian: np.ndarray  # reduced: (experiments, width, width)

    def reduce(self, slope: np.ndarray, jump: np.ndarray) -> Reduced:
        """Eliminate the inner states from the slope of data (segments, columns) and jumps (linked, states)."""
        mesh, index = self.mesh, self.columns.index
        states, first, inner = self.cross.shape[1], mesh.first, mesh.inner_rows
        slope = slope.copy()
        slope[mesh.linked_rows] += (jump[:, None, :] @ self.weighted)[:, 0]
        inner_slope = slope[inner, :states] - self.penalty * jump
        full = np.zeros((len(first), self.columns.width))
        full[:, index] = np.add.reduceat(slope[:, states:], first)
        full += (self.initial.transpose(0, 2, 1) @ slope[first, :states, None])[..., 0]
        solved = _solve_band(self.cholesky, inner_slope)
        reduced = full.copy()
        for e, (a, b) in enumerate(mesh.inner_ranges):
            if b > a:
                reduced[e] -= solved[a:b].ravel() @ self.cross[a:b].reshape(-1, self.columns.width)
        return Reduced(self, reduced, full, inner_slope, solved)


@dataclass(frozen=True)
class Reduced:
    """A slope after the inner states are eliminated."""

    factor: Factor
    slope: np.ndarray  # (experiments, width)
    full_slope: np.ndarray  # before elimination
    inner_slope: np.ndarray  # (inner, states)
    solved: np.ndarray  # inner block^-1 inner_slope

    def states(self, unknowns_step: np.ndarray) -> np.ndarray:
        """Back-substitution: the step of all segment start states (segments, states)."""
        factor, mesh = self.factor, self.factor.mesh
        step = np.empty((len(mesh), factor.initial.shape[1]))
        step[mesh.first] = (factor.initial @ unknowns_step[:, :, None])[..., 0]
        inner = mesh.inner_rows
        mine = unknowns_step if len(unknowns_step) == 1 else unknowns_step[mesh.experiment[inner]]
        step[inner] = -(self.solved + (factor.solved @ mine[:, :, None])[..., 0])
        return step

    def directional_slope(self, states_step: np.ndarray, unknowns_step: np.ndarray) -> float:
        """g' d of the whole step."""
        inner = states_step[self.factor.mesh.inner_rows]
        return float(np.vdot(self.inner_slope, inner) + np.vdot(self.full_slope, unknowns_step))


def factorise(
    mesh: Mesh, columns: UnknownsColumns, model: Quadratic, penalty: np.ndarray, damping: np.ndarray
) -> Factor:
    """Factorise the inner block, with a penalty of jumps (linked, states) or (states,) and a damping (states,).

    Raises numpy.linalg.LinAlgError when the banded matrix is not positive definite.
    """
    states, first, inner = model.end.shape[1], mesh.first, mesh.inner_rows
    weighted = penalty[..., None] * model.end
    total = model.hessian.copy()
    total[mesh.linked_rows] += model.end.transpose(0, 2, 1) @ weighted

    index = columns.index
    diagonal = total[inner, :states, :states].copy()
    diagonal.reshape(len(diagonal), states * states)[:, :: states + 1] += penalty + damping
    cross = np.zeros((len(mesh.inner), states, columns.width))
    cross[..., index] = total[inner, :states, states:] - weighted[..., states:]
    begins, owner = mesh.first_links
    cross[begins] -= weighted[begins, :, :states] @ model.initial[owner]

    hessian = np.zeros((len(first), columns.width, columns.width))
    inside = index if isinstance(index, slice) else index[:, None]
    hessian[:, inside, index] = np.add.reduceat(total[:, states:, states:], first)
    _add_first(hessian, total[first], model.initial, index)
    if model.unknowns is not None:
        hessian += model.unknowns

    between, upper = mesh.between
    band = _band(diagonal, -weighted[between, :, :states], upper)
    cholesky = _cholesky_band(band) if len(mesh.inner) else band
    solved = _solve_band(cholesky, cross)
    for e, (a, b) in enumerate(mesh.inner_ranges):
        if b > a:
            flat = cross[a:b].reshape(-1, columns.width)
            hessian[e] -= flat.T @ solved[a:b].reshape(-1, columns.width)
    return Factor(mesh, columns, weighted, penalty, model.initial, cholesky, cross, solved, hessian)


def is_convex(hessian: np.ndarray, local: int, held: np.ndarray) -> bool:
    """Whether the matrix over all unknowns, without the `held` columns (experiments, width), is positive definite."""
    if not local or len(hessian) == 1:
        hessian, held, local = hessian.sum(axis=0, keepdims=True), held[:1], 0
    masked = _without(hessian, held)
    own, shared = slice(0, local), slice(local, None)
    try:
        np.linalg.cholesky(masked[:, own, own])
        schur = masked[:, shared, shared] - masked[:, shared, own] @ _spd_solve(
            masked[:, own, own], masked[:, own, shared]
        )
        np.linalg.cholesky(schur.sum(axis=0))
    except np.linalg.LinAlgError:
        return False
    return True


def _without(hessian: np.ndarray, held: np.ndarray) -> np.ndarray:
    """The matrices with rows and columns of the held unknowns replaced by those of a unit matrix."""
    free, width = ~held, hessian.shape[1]
    masked = hessian * (free[:, :, None] & free[:, None, :])
    masked.reshape(len(hessian), width * width)[:, :: width + 1] += held
    return masked


def solve_box(
    hessian: np.ndarray, slope: np.ndarray, local: int, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """argmin of sum_e 1/2 b_e' R_e b_e + s_e' b_e over lower <= b <= upper, global columns equal in all experiments.

    Shapes (experiments, width); returns the step in that shape. A primal-dual active set: columns that leave the box
    are held at the bound, held columns whose multiplier has the wrong sign are released. Variables with
    lower == upper stay fixed.
    """
    if local and len(hessian) > 1:
        return _solve_box(hessian, slope, local, lower, upper)
    if len(hessian) == 1:  # nothing to gain from eliminating the columns of a single experiment first
        return _solve_box(hessian, slope, 0, lower, upper)
    hessian, shared = hessian.sum(axis=0, keepdims=True), slope.sum(axis=0, keepdims=True)
    return np.repeat(_solve_box(hessian, shared, 0, lower[:1], upper[:1]), len(slope), axis=0)


def _solve_box(hessian, slope, local, lower, upper) -> np.ndarray:
    fixed = lower >= upper
    at_low, at_high = ~fixed & (lower >= 0), ~fixed & (upper <= 0)
    if at_low.any() or at_high.any():  # what is at a bound and pushed against it most likely stays there
        downhill = _summed(slope, local) < 0
        at_low, at_high = at_low & ~downhill, at_high & downhill
    seen: set[bytes] = set()
    while True:
        held = at_low | at_high | fixed
        some = bool(held.any())
        value = np.where(held, np.where(at_high, upper, lower), 0.0) if some else np.zeros_like(slope)
        step = _solve_held(hessian, slope, local, held, value)
        if not some and ((step >= lower) & (step <= upper)).all():
            return step
        gradient = _gradient(hessian, slope, local, step)
        low = (~held & (step < lower)) | (at_low & (gradient >= 0))
        high = (~held & (step > upper)) | (at_high & (gradient <= 0))
        if np.array_equal(low, at_low) and np.array_equal(high, at_high):
            return np.clip(step, lower, upper)
        key = low.tobytes() + high.tobytes()
        if key in seen or len(seen) > 50:  # nearly singular matrices make it cycle
            return _solve_box_downhill(hessian, slope, local, lower, upper, np.clip(step, lower, upper))
        seen.add(key)
        at_low, at_high = low, high


def _gradient(hessian, slope, local, step) -> np.ndarray:
    """(experiments, width): derivative by each unknown after a step."""
    return _summed(slope + (hessian @ step[:, :, None])[..., 0], local)


def _summed(slope: np.ndarray, local: int) -> np.ndarray:
    """(experiments, width): derivative by each unknown; global columns hold the sum over experiments."""
    if len(slope) == 1:
        return slope
    summed = slope.copy()
    summed[:, local:] = slope[:, local:].sum(axis=0)
    return summed


def _solve_box_downhill(hessian, slope, local, lower, upper, step) -> np.ndarray:
    """The same by projected Newton steps (Bertsekas 1982) from a point in the box; each lowers the value: no cycles."""

    def value(b: np.ndarray) -> float:
        return float(np.sum(b * (slope + 0.5 * (hessian @ b[:, :, None])[..., 0])))

    least, last = value(step), None
    for _ in range(MOST_DOWNHILL):
        gradient = _gradient(hessian, slope, local, step)
        held = (lower >= upper) | ((step <= lower) & (gradient > 0)) | ((step >= upper) & (gradient < 0))
        if last is not None and np.array_equal(held, last):
            break
        target = _solve_held(hessian, slope, local, held, np.where(held, step, 0.0))
        inside, part = bool(np.all((target >= lower) & (target <= upper))), 1.0
        trial = np.clip(target, lower, upper)
        while not (found := value(trial)) < least and part > 1e-20:  # directions without curvature are long
            part *= 0.25
            trial = np.clip(step + part * (target - step), lower, upper)
        if not found < least:
            break
        step, least, last = trial, found, held if inside and part == 1.0 else None
    return step


def _solve_held(hessian, slope, local, held, value) -> np.ndarray:
    """Minimise over the free columns with the held ones at `value`, by eliminating local columns first."""
    if not local:
        return _solve_held_shared(hessian[0], slope[0], ~held[0], value[0])[None]
    gradient = slope + (hessian @ value[:, :, None])[..., 0]
    masked = _without(hessian, held)
    gradient = np.where(held, 0.0, gradient)
    own, shared = slice(0, local), slice(local, None)
    right = np.concatenate([gradient[:, own, None], masked[:, own, shared]], axis=2)
    solved = _spd_solve(masked[:, own, own], right)
    schur = (masked[:, shared, shared] - masked[:, shared, own] @ solved[..., 1:]).sum(axis=0)
    held_shared = held[0, shared]
    schur[held_shared, held_shared] = 1.0
    right = (gradient[:, shared] - (masked[:, shared, own] @ solved[..., :1])[..., 0]).sum(axis=0)
    step = value.copy()
    if schur.size:
        step[:, shared] -= _spd_solve(schur, right[:, None])[:, 0]
    moved = step[:, shared] - value[:, shared]
    step[:, own] -= solved[..., 0] + (solved[..., 1:] @ moved[:, :, None])[..., 0]
    return step


def _solve_held_shared(hessian, slope, free, value) -> np.ndarray:
    """The same for one matrix (width, width)."""
    if free.all():
        return -_spd_solve(hessian, slope[:, None])[:, 0]
    step, index = value.copy(), np.flatnonzero(free)
    if len(index):
        right = (slope + hessian @ value)[index, None]
        step[index] -= _spd_solve(hessian[index[:, None], index], right)[:, 0]
    return step


def _spd_solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve symmetric positive semi-definite systems, each diagonal entry raised by a whiff of itself."""
    from scipy.linalg.lapack import dposv

    size, diagonal = matrix.shape[-1], matrix.diagonal(axis1=-2, axis2=-1)
    size_of = np.where(diagonal > 0, diagonal, 1.0)
    raised = matrix.copy()
    raised.reshape(*matrix.shape[:-2], size * size)[..., :: size + 1] += 1e-14 * size_of
    if matrix.ndim == 2:  # Cholesky's method does not care for the units of unknowns
        _, solved, failed = dposv(raised, right)
        if not failed:
            return solved
    scale = 1 / np.sqrt(size_of)[..., None]
    return scale * np.linalg.solve(raised * scale * np.swapaxes(scale, -1, -2), scale * right)


def _add_first(hessian, total, initial, columns) -> None:
    """Terms of the first segments, whose start state is a function of the unknowns: in place."""
    states = initial.shape[1]
    back = initial.transpose(0, 2, 1)
    hessian += back @ total[:, :states, :states] @ initial
    cross = back @ total[:, :states, states:]
    hessian[:, :, columns] += cross
    hessian[:, columns, :] += cross.transpose(0, 2, 1)


def _cholesky_band(band: np.ndarray) -> np.ndarray:
    """Cholesky factor of a lower band (LAPACK itself: SciPy's wrappers cost more than small systems do)."""
    from scipy.linalg.lapack import dpbtrf

    factor, failed = dpbtrf(band, lower=1, overwrite_ab=1)
    if failed:
        raise np.linalg.LinAlgError("the banded matrix is not positive definite")
    return factor


def _solve_band(cholesky: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with the factorised inner block for an array (inner, states, ...)."""
    from scipy.linalg.lapack import dpbtrs

    if not right.size:
        return np.zeros_like(right)
    count = right.shape[0] * right.shape[1]
    return dpbtrs(cholesky, right.reshape(count, -1), lower=1)[0].reshape(right.shape)


@lru_cache
def _upper(states: int) -> np.ndarray:
    """Ones on the diagonal and above it."""
    return np.tri(states).T


def _band(diagonal: np.ndarray, lower: np.ndarray, upper_index: slice | np.ndarray) -> np.ndarray:
    """Lower band storage of a block-tridiagonal matrix; lower[i] stands below the diagonal block upper_index[i].

    Entry (row, column) of the matrix is entry (column, row - column) of an array whose rows are twice as long as a
    block: going one column on and staying in the row is a constant stride, so that blocks are views.
    """
    count, states = diagonal.shape[:2]
    band = np.zeros((count * states, 2 * states))
    if count:
        unit = band.itemsize
        strides = 2 * states**2 * unit, (2 * states - 1) * unit, unit
        columns = np.ndarray((count, states, 2 * states), buffer=band, strides=strides)
        columns[..., :states] = diagonal.transpose(0, 2, 1) * _upper(states)
        columns[upper_index, :, states:] = lower.transpose(0, 2, 1)
    return band.T
