"""Bounded quadratic programs over the unknowns: the minimum of 1/2 d'Hd + g'd in a box.

Two active-set methods solve two problems:

- `solve_box` has no other constraint and runs at every step of a search. Its primal-dual active set changes all wrong
  bounds at once and mostly needs one or two solves, however many unknowns there are. It may cycle on nearly singular
  matrices; then projected Newton steps take over.
- `solve_on_line` adds one equation, a'd = gap, for profiles, and reports how the minimum moves with the gap. Active
  bounds and the line together may leave nothing free, so a primal-dual guess can be infeasible; a primal active set
  stays in the box and on the line and changes one bound at a time. Without a line it gives the steps of `solve_box`,
  only more slowly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.collocation.arrow import Arrow
from picardfit.collocation.mesh import Flags
from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class ActiveSet:
    """Limits of the active-set methods; they end long before, unless matrices are nearly singular."""

    changes: int = 50  # active sets of the primal-dual method, before projected Newton steps take over
    projections: int = 100  # projected Newton steps
    shortest: float = (
        1e-20  # fraction of such a step that is still tried: directions without curvature are long
    )
    rounds: int = 20  # active sets of the primal method, for each unknown
    rounding: float = 1e-10  # multiplier, relative to the sum of its terms' sizes, that may be rounding error


@dataclass(frozen=True)
class LineStep:
    """The minimum of the quadratic model in the box, on the line a'd = gap if there is one."""

    step: Array  # (unknowns,)
    slope: float  # derivative of the minimum by the value of the quantity
    variance: float  # a'H^-1 a over the unknowns that are not at a bound: 1/variance is its curvature
    direction: Array  # (unknowns,): how the minimum moves with the value of the quantity


def is_convex(hessian: Array, local: int, active: Flags) -> bool:
    """Whether the matrix over all unknowns, without the `active` columns (experiments, width), is positive definite."""
    if not local or len(hessian) == 1:
        hessian, active, local = hessian.sum(axis=0, keepdims=True), active[:1], 0
    masked = _without(hessian, active)
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


def _without(hessian: Array, active: Flags) -> Array:
    """The matrices with rows and columns of the active unknowns replaced by those of a unit matrix."""
    free, width = ~active, hessian.shape[1]
    masked = hessian * (free[:, :, None] & free[:, None, :])
    masked.reshape(len(hessian), width * width)[:, :: width + 1] += active
    return masked


def solve_box(
    hessian: Array,
    slope: Array,
    local: int,
    lower: Array,
    upper: Array,
    settings: ActiveSet = ActiveSet(),
) -> Array:
    """argmin of sum_e 1/2 b_e' R_e b_e + s_e' b_e over lower <= b <= upper, global columns equal in all experiments.

    Shapes (experiments, width); returns the step in that shape. A primal-dual active set: columns that leave the box
    are fixed at the bound, and active columns whose multiplier has the wrong sign are released. Variables with
    lower == upper stay fixed.
    """
    if local and len(hessian) > 1:
        return _solve_box(hessian, slope, local, lower, upper, settings)
    if len(hessian) == 1:  # nothing to gain from eliminating the columns of a single experiment first
        return _solve_box(hessian, slope, 0, lower, upper, settings)
    hessian, shared = hessian.sum(axis=0, keepdims=True), slope.sum(axis=0, keepdims=True)
    return np.repeat(_solve_box(hessian, shared, 0, lower[:1], upper[:1], settings), len(slope), axis=0)


def _solve_box(
    hessian: Array, slope: Array, local: int, lower: Array, upper: Array, settings: ActiveSet
) -> Array:
    fixed = lower >= upper
    at_low, at_high = ~fixed & (lower >= 0), ~fixed & (upper <= 0)
    if at_low.any() or at_high.any():  # what is at a bound and pushed against it most likely stays there
        downhill = _summed(slope, local) < 0
        at_low, at_high = at_low & ~downhill, at_high & downhill
    seen: set[bytes] = set()
    while True:
        active = at_low | at_high | fixed
        some = bool(active.any())
        value = np.where(active, np.where(at_high, upper, lower), 0.0) if some else np.zeros_like(slope)
        step = _solve_active(hessian, slope, local, active, value)
        if not some and ((step >= lower) & (step <= upper)).all():
            return step
        gradient = _gradient(hessian, slope, local, step)
        low = (~active & (step < lower)) | (at_low & (gradient >= 0))
        high = (~active & (step > upper)) | (at_high & (gradient <= 0))
        if np.array_equal(low, at_low) and np.array_equal(high, at_high):
            return np.clip(step, lower, upper)
        key = low.tobytes() + high.tobytes()
        if key in seen or len(seen) > settings.changes:  # nearly singular matrices make it cycle
            begin = np.clip(step, lower, upper)
            return _projected_newton(hessian, slope, local, lower, upper, begin, settings)
        seen.add(key)
        at_low, at_high = low, high


def _gradient(hessian: Array, slope: Array, local: int, step: Array) -> Array:
    """(experiments, width): derivative by each unknown after a step."""
    return _summed(slope + (hessian @ step[:, :, None])[..., 0], local)


def _summed(slope: Array, local: int) -> Array:
    """(experiments, width): derivative by each unknown; global columns hold the sum over experiments."""
    if len(slope) == 1:
        return slope
    summed = slope.copy()
    summed[:, local:] = slope[:, local:].sum(axis=0)
    return summed


def _projected_newton(
    hessian: Array,
    slope: Array,
    local: int,
    lower: Array,
    upper: Array,
    step: Array,
    settings: ActiveSet,
) -> Array:
    """The bounded minimum by projected Newton steps (Bertsekas 1982) from a point in the box.

    Each step lowers the value, so that no active set returns.
    """

    def value(b: Array) -> float:
        return float(np.sum(b * (slope + 0.5 * (hessian @ b[:, :, None])[..., 0])))

    least, last = value(step), None
    for _ in range(settings.projections):
        gradient = _gradient(hessian, slope, local, step)
        active = (lower >= upper) | ((step <= lower) & (gradient > 0)) | ((step >= upper) & (gradient < 0))
        if last is not None and np.array_equal(active, last):
            break
        target = _solve_active(hessian, slope, local, active, np.where(active, step, 0.0))
        inside, fraction = bool(np.all((target >= lower) & (target <= upper))), 1.0
        trial = np.clip(target, lower, upper)
        while not (found := value(trial)) < least and fraction > settings.shortest:
            fraction *= 0.25
            trial = np.clip(step + fraction * (target - step), lower, upper)
        if not found < least:
            break
        step, least, last = trial, found, active if inside and fraction == 1.0 else None
    return step


def _solve_active(hessian: Array, slope: Array, local: int, active: Flags, value: Array) -> Array:
    """Minimise over the free columns with the active ones at `value`, by eliminating local columns first."""
    if not local:
        return _solve_active_shared(hessian[0], slope[0], ~active[0], value[0])[None]
    gradient = slope + (hessian @ value[:, :, None])[..., 0]
    masked = _without(hessian, active)
    gradient = np.where(active, 0.0, gradient)
    own, shared = slice(0, local), slice(local, None)
    right = np.concatenate([gradient[:, own, None], masked[:, own, shared]], axis=2)
    solved = _spd_solve(masked[:, own, own], right)
    schur = (masked[:, shared, shared] - masked[:, shared, own] @ solved[..., 1:]).sum(axis=0)
    active_shared = active[0, shared]
    schur[active_shared, active_shared] = 1.0
    right = (gradient[:, shared] - (masked[:, shared, own] @ solved[..., :1])[..., 0]).sum(axis=0)
    step = value.copy()
    if schur.size:
        step[:, shared] -= _spd_solve(schur, right[:, None])[:, 0]
    moved = step[:, shared] - value[:, shared]
    step[:, own] -= solved[..., 0] + (solved[..., 1:] @ moved[:, :, None])[..., 0]
    return step


def _solve_active_shared(hessian: Array, slope: Array, free: Flags, value: Array) -> Array:
    """Minimise over the free columns of one matrix (width, width)."""
    if free.all():
        return -_spd_solve(hessian, slope[:, None])[:, 0]
    step, index = value.copy(), np.flatnonzero(free)
    if len(index):
        right = (slope + hessian @ value)[index, None]
        step[index] -= _spd_solve(hessian[index[:, None], index], right)[:, 0]
    return step


def _spd_solve(matrix: Array, right: Array, ridge: float = 1e-14) -> Array:
    """Solve symmetric positive semi-definite systems, each diagonal entry raised by a fraction `ridge` of itself.

    (Some 50 units in the last place: singular matrices become regular, others hardly change.)
    """
    from scipy.linalg.lapack import dposv

    size, diagonal = matrix.shape[-1], matrix.diagonal(axis1=-2, axis2=-1)
    size_of = np.where(diagonal > 0, diagonal, 1.0)
    raised = matrix.copy()
    raised.reshape(*matrix.shape[:-2], size * size)[..., :: size + 1] += ridge * size_of
    if matrix.ndim == 2:  # Cholesky's method does not care for the units of unknowns
        _, solved, failed = dposv(raised, right)
        if not failed:
            return np.asarray(solved)
    scale = 1 / np.sqrt(size_of)[..., None]
    return np.asarray(
        scale * np.linalg.solve(raised * scale * np.swapaxes(scale, -1, -2), scale * right), float
    )


@dataclass(frozen=True)
class _OnLine:
    """argmin 1/2 d'Hd + g'd over low <= d <= high and, if `normal` is given, normal'd = gap."""

    matrix: Arrow
    slope: Array  # (unknowns,)
    normal: Array | None  # (unknowns,)
    gap: float
    low: Array  # (unknowns,)
    high: Array

    def room(self, current: Array, move: Array, active: Flags) -> Array:
        """(unknowns,): what fraction of a move each bound allows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            up, down = (self.high - current) / move, (self.low - current) / move
        fraction = np.where(move > 0, up, np.where(move < 0, down, np.inf))
        return np.where(active, np.inf, fraction)

    def wrong(self, found: LineStep, active: Flags, rounding: float) -> Array:
        """(unknowns,): how strongly each active unknown pushes off its bound, in units of its curvature's root."""
        current = found.step
        gradient = self.slope + self.matrix @ current
        if self.normal is not None:
            gradient = gradient - found.slope * self.normal
        push = np.where(current >= self.high, gradient, -gradient) * (active & (self.low < self.high))
        if self.normal is not None and found.variance == 0:  # at a corner the multiplier of the line is open
            push = push * (self.normal == 0)
        size = np.abs(self.slope) + self.matrix.absolute() @ np.abs(current)
        return np.where(push > rounding * size, push / np.sqrt(self.matrix.diagonal()), 0.0)


def solve_on_line(
    matrix: Arrow,
    slope: Array,
    normal: Array | None,
    gap: float,
    low: Array,
    high: Array,
    settings: ActiveSet = ActiveSet(),
) -> LineStep | None:
    """argmin 1/2 d'Hd + g'd over low <= d <= high and, if `normal` is given, normal'd = gap; None if there is none.

    A primal active set moves from a point in the box towards the minimum over the free unknowns; the bound that blocks
    the move becomes active, and bounds whose multiplier has the wrong sign are released, one at a time.
    """
    if normal is not None and np.count_nonzero(normal) == 1:  # an unknown that the line fixes needs no bounds
        own = normal != 0
        nearest, farthest = np.sort([low[own] * normal[own], high[own] * normal[own]], axis=0)
        if not np.all((nearest <= gap) & (gap <= farthest)):
            return None
        low, high = np.where(own, -np.inf, low), np.where(own, np.inf, high)
    task, active = _OnLine(matrix, slope, normal, gap, low, high), np.zeros(len(slope), bool)
    found = _active_step(task, active, np.zeros(len(slope)))
    if found is None or np.all((found.step >= low) & (found.step <= high)):
        return found
    current = _inside(task)
    if current is None:
        return None
    for _ in range(settings.rounds * (len(slope) + 1)):
        found = _active_step(task, active, current)
        if found is None:
            return None
        move = found.step - current
        room = task.room(current, move, active)
        blocking = int(np.argmin(room))
        if room[blocking] < 1:
            current = np.clip(current + max(room[blocking], 0.0) * move, low, high)
            current[blocking] = high[blocking] if move[blocking] > 0 else low[blocking]
            active[blocking] = True
            continue
        wrong = task.wrong(found, active, settings.rounding)
        if not wrong.any():
            return found
        current = found.step
        active[int(np.argmax(wrong))] = False
    return found


def _inside(task: _OnLine) -> Array | None:
    """A point of the box with normal'd = gap, from the origin along the normal as far as each bound allows."""
    normal, gap, low, high = task.normal, task.gap, task.low, task.high
    start = np.clip(np.zeros(len(low)), low, high)
    if normal is None:
        return start
    sign = np.sign(gap - normal @ start) or 1.0
    reach = np.where(sign * normal > 0, high - start, np.where(normal != 0, start - low, 0.0))
    reach *= np.abs(normal)
    missing = abs(gap - normal @ start)
    if missing > reach.sum() * (1 + 1e-12):
        return None
    taken, left = np.zeros(len(low)), missing
    for done, k in enumerate(np.argsort(reach)):  # equal shares, the narrowest first
        taken[k] = min(reach[k], left / (len(low) - done))
        left -= taken[k]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(start + np.where(normal != 0, sign * taken / normal, 0.0), low, high)


def _active_step(task: _OnLine, active: Flags, value: Array) -> LineStep | None:
    """The minimum with the active unknowns at `value` and no bounds for the others; None if the matrix is singular."""
    matrix, slope, normal = task.matrix, task.slope, task.normal
    free, step = ~active, np.where(active, value, 0.0)
    direction = np.zeros(len(slope))
    right = (slope + matrix @ step)[free]
    if free.any():
        size = 1 / np.sqrt(matrix.diagonal()[free])
        wanted = [right] if normal is None else [right, normal[free]]
        try:
            solved = matrix.restricted(free).scaled(size).solve(size[:, None] * np.stack(wanted, axis=1))
        except np.linalg.LinAlgError:
            return None
        step[free] = -size * solved[:, 0]
        if normal is not None:
            direction[free] = size * solved[:, 1]
    if normal is None:
        return LineStep(step, 0.0, 0.0, direction)
    variance = float(normal @ direction)
    if not variance > 0:
        return LineStep(step, 0.0, 0.0, np.zeros(len(slope)))
    rate = (task.gap - float(normal @ step)) / variance
    return LineStep(step + rate * direction, rate, variance, direction / variance)
