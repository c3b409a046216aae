"""Block-banded normal equations with a border: assemble, eliminate the segment states, solve, back-substitute.

Unknowns of one Gauss-Newton step are the states at all inner knots and, per experiment, a border
b = [free initial states and local parameters of this experiment | global parameters]. Inner states couple only to
their neighbours, so one banded Cholesky factorisation (cost linear in segments) leaves a small dense system per
experiment, and a second elimination of the local columns leaves one for the global parameters (an arrow).

The quadratic model is   sum_j 1/2 d_j' H_j d_j + g_j' d_j  +  sum_j 1/2 |c_j + B_j d_j - d_(j+1)|^2_W
with d_j = (state at the start of segment j, free parameters), c_j the jump at the knot after segment j, W the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

from picardfit.mesh import Mesh


@dataclass(frozen=True)
class Border:
    """Which border column each derivative column belongs to."""

    local: int  # the first `local` columns belong to one experiment, the others are shared
    width: int
    parameters: np.ndarray  # (free parameters,): border column of each parameter column


@dataclass(frozen=True)
class Quadratic:
    """The quadratic model of the objective, segment by segment; columns are [states | free parameters]."""

    hessian: np.ndarray  # (segments, columns, columns)
    slope: np.ndarray  # (segments, columns)
    end: np.ndarray  # (linked, states, columns): derivative of the end state of segments with a successor
    jump: np.ndarray  # (linked, states): end state minus next start state, plus the multiplier's shift
    initial: np.ndarray  # (experiments, states, border): derivative of the initial state by the border


@dataclass(frozen=True)
class Reduced:
    """What is left after the inner states are eliminated."""

    hessian: np.ndarray  # (experiments, border, border)
    slope: np.ndarray  # (experiments, border)
    full_slope: np.ndarray  # (experiments, border): before elimination
    inner_slope: np.ndarray  # (inner, states)
    solved: np.ndarray  # (inner, states, 1 + border)
    initial: np.ndarray
    mesh: Mesh

    def states(self, border_step: np.ndarray) -> np.ndarray:
        """Back-substitution: the step of all segment start states (segments, states)."""
        step = np.empty((len(self.mesh), self.initial.shape[1]))
        first = self.mesh.first
        step[first] = (self.initial @ border_step[:, :, None])[..., 0]
        inner = _inner(self.mesh)
        mine = border_step[self.mesh.experiment[inner]]
        step[inner] = -(self.solved[..., 0] + (self.solved[..., 1:] @ mine[:, :, None])[..., 0])
        return step

    def directional_slope(self, states_step: np.ndarray, border_step: np.ndarray) -> float:
        """g' d of the whole step."""
        inner = _inner(self.mesh)
        return float(np.sum(self.inner_slope * states_step[inner]) + np.sum(self.full_slope * border_step))


def eliminate(
    mesh: Mesh, border: Border, model: Quadratic, penalty: np.ndarray, damping: np.ndarray
) -> Reduced:
    """Eliminate the inner states. `penalty` and `damping` are per state: (states,).

    Raises numpy.linalg.LinAlgError when the banded matrix is not positive definite.
    """
    states = model.end.shape[1]
    linked, first, inner = mesh.linked, mesh.first, _inner(mesh)
    weighted = penalty[:, None] * model.end  # W B
    total, slope = model.hessian.copy(), model.slope.copy()
    total[linked] += model.end.transpose(0, 2, 1) @ weighted
    slope[linked] += (model.jump[:, None, :] @ weighted)[:, 0]

    columns = border.parameters
    diagonal = total[inner, :states, :states]
    diagonal[:, np.arange(states), np.arange(states)] += penalty + damping
    inner_slope = slope[inner, :states] - penalty * model.jump
    cross = np.zeros((len(inner), states, border.width))
    cross[..., columns] = total[inner, :states, states:] - weighted[..., states:]
    from_first = np.isin(linked, first)
    owner = mesh.experiment[linked[from_first]]
    cross[from_first] -= weighted[from_first, :, :states] @ model.initial[owner]

    hessian = np.zeros((len(first), border.width, border.width))
    full_slope = np.zeros((len(first), border.width))
    hessian[:, columns[:, None], columns] = np.add.reduceat(total[:, states:, states:], first)
    full_slope[:, columns] = np.add.reduceat(slope[:, states:], first)
    _add_first(hessian, full_slope, total[first], slope[first], model.initial, columns)

    below = ~np.isin(linked, first)  # links between two inner states
    band = _band(diagonal, -weighted[below, :, :states], np.flatnonzero(below) - 1)
    right = np.concatenate([inner_slope[..., None], cross], axis=2)
    solved = np.empty_like(right)
    if len(inner):
        flat = solveh_banded(band, right.reshape(len(inner) * states, -1), lower=True, check_finite=False)
        solved = flat.reshape(right.shape)
    reduced, reduced_slope = hessian.copy(), full_slope.copy()
    stops = np.cumsum(mesh.counts - 1)
    for e, (a, b) in enumerate(zip(stops - (mesh.counts - 1), stops, strict=True)):
        if b > a:
            product = cross[a:b].reshape(-1, border.width).T @ solved[a:b].reshape(-1, 1 + border.width)
            reduced[e] -= product[:, 1:]
            reduced_slope[e] -= product[:, 0]
    return Reduced(reduced, reduced_slope, full_slope, inner_slope, solved, model.initial, mesh)


def solve_box(
    hessian: np.ndarray, slope: np.ndarray, local: int, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """argmin of sum_e 1/2 b_e' R_e b_e + s_e' b_e over lower <= b <= upper, global columns equal in all experiments.

    Shapes (experiments, border); returns the step in that shape. A primal-dual active set: columns that leave the box
    are held at the bound, held columns whose multiplier has the wrong sign are released. Variables with
    lower == upper stay fixed.
    """
    fixed = lower >= upper
    at_low, at_high = np.zeros_like(fixed), np.zeros_like(fixed)
    seen: set[bytes] = set()
    release = True
    for _ in range(60):
        held = at_low | at_high | fixed
        value = np.where(at_low | fixed, lower, np.where(at_high, upper, 0.0))
        step = _solve_held(hessian, slope, local, held, np.where(held, value, 0.0))
        gradient = slope + (hessian @ step[:, :, None])[..., 0]
        gradient[:, local:] = gradient[:, local:].sum(axis=0)
        low = (~held & (step < lower)) | (at_low & ((gradient >= 0) | (not release)))
        high = (~held & (step > upper)) | (at_high & ((gradient <= 0) | (not release)))
        if np.array_equal(low, at_low) and np.array_equal(high, at_high):
            break
        key = low.tobytes() + high.tobytes()
        if key in seen:  # cycling: from now on only add, which ends after at most as many rounds as columns
            release = False
        seen.add(key)
        at_low, at_high = low, high
    return np.clip(step, lower, upper)


def _solve_held(hessian, slope, local, held, value) -> np.ndarray:
    """Minimise over the free columns with the held ones at `value`, by eliminating local columns first."""
    gradient = slope + (hessian @ value[:, :, None])[..., 0]
    free = ~held
    masked = hessian * (free[:, :, None] & free[:, None, :])
    diagonal = np.arange(hessian.shape[1])
    masked[:, diagonal, diagonal] += held
    gradient = np.where(free, gradient, 0.0)
    own, shared = slice(0, local), slice(local, None)
    solved = np.zeros((len(hessian), local, 1 + hessian.shape[1] - local))
    if local:
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


def _spd_solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve symmetric positive semi-definite systems after scaling to unit diagonal, with a whiff of regularisation."""
    diagonal = np.einsum("...ii->...i", matrix)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = matrix * scale[..., :, None] * scale[..., None, :]
    scaled = scaled + 1e-14 * np.eye(matrix.shape[-1])
    return scale[..., None] * np.linalg.solve(scaled, scale[..., None] * right)


def global_information(hessian: np.ndarray, local: int, active: np.ndarray) -> np.ndarray:
    """Schur complement of the global columns: the Fisher information with the local unknowns eliminated.

    `active` (experiments, border) marks unknowns that exist and are not at a bound.
    """
    own, shared = slice(0, local), slice(local, None)
    masked = hessian * (active[:, :, None] & active[:, None, :])
    diagonal = np.arange(hessian.shape[1])
    masked[:, diagonal, diagonal] += ~active
    information = masked[:, shared, shared].sum(axis=0)
    if local:
        solved = _spd_solve(masked[:, own, own], masked[:, own, shared])
        information = information - (masked[:, shared, own] @ solved).sum(axis=0)
    return information


def _add_first(hessian, slope, total, gradient, initial, columns) -> None:
    """Terms of the first segments, whose start state is a function of the border: in place."""
    states = initial.shape[1]
    back = initial.transpose(0, 2, 1)
    hessian += back @ total[:, :states, :states] @ initial
    cross = back @ total[:, :states, states:]
    hessian[:, :, columns] += cross
    hessian[:, columns, :] += cross.transpose(0, 2, 1)
    slope += (back @ gradient[:, :states, None])[..., 0]


def _band(diagonal: np.ndarray, lower: np.ndarray, upper_index: np.ndarray) -> np.ndarray:
    """Lower band storage of a block-tridiagonal matrix; lower[i] stands below the diagonal block upper_index[i]."""
    count, states = diagonal.shape[:2]
    band = np.zeros((2 * states, count * states))
    if not count:
        return band
    for a in range(states):
        for b in range(a + 1):
            band[a - b, b::states] = diagonal[:, a, b]
        for b in range(states):
            band[states + a - b, upper_index * states + b] = lower[:, a, b]
    return band


def _inner(mesh: Mesh) -> np.ndarray:
    """Indices of segments that are not the first of their experiment; linked[i] precedes inner[i]."""
    return mesh.linked + 1
