"""A first guess of the hidden states: they follow their own equations along the interpolated measured states.

The implicit Euler method, z+ = z + h f(t+, z+), is stable at any step. Newton's method solves it for a whole stretch of
steps, in all experiments at once. Mostly f is linear in the hidden states once the measured ones are known: then the
stretch is the whole grid, one pass is exact, and f is evaluated by two calls instead of one for each step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.collocation.elimination import inverted
from picardfit.problem.problem import Problem
from picardfit.search.start_grids import Arrivals, arrivals


@dataclass(frozen=True)
class Following:
    """How hidden states are followed. The numbers were chosen for the least time on benchmarks/peer_problems.py."""

    passes: int = 5  # of Newton's method over a stretch at most
    settled: float = 1e-3  # largest error of a step, relative to the largest value of the state
    cut: int = (
        4  # by which a stretch is shortened where Newton's method does not settle; it doubles where it does
    )
    shortest: int = 16  # steps of a stretch that is taken as it is: f may have a pole there


def follow_hidden(
    problem: Problem,
    grids: np.ndarray,
    path: np.ndarray,
    hidden: np.ndarray,
    params: np.ndarray,
    limit: np.ndarray,
    settings: Following = Following(),
) -> np.ndarray:
    """(experiments, points, states): the path with its `hidden` states (experiments, states) followed from their start.

    They stay within +-`limit` (experiments, states): wrong parameters would let them explode.
    """
    inputs, path = problem.inputs_at(np.arange(len(grids)), grids), path.copy()
    jumps, here, length = arrivals(problem, grids), 0, grids.shape[1] - 1
    while here < grids.shape[1] - 1:
        part = slice(here, here + length + 1)
        stretch = path[:, part]
        stretch[...] = np.where(hidden[:, None, :], stretch[:, :1], stretch)
        at, steps = (grids[:, part], stretch, params[:, None, :], inputs[:, part]), stretch.shape[1] - 1
        doses = None if jumps is None else Arrivals(*(one[:, part][:, 1:] for one in jumps))
        for _ in range(settings.passes):
            settled = _newton_pass(problem, at, hidden, limit, doses, settings.settled)
            if settled == steps:
                break
        length = 2 * length if settled == steps else max(length // settings.cut, settings.shortest)
        here += steps if steps <= settings.shortest else settled
    return path


def _newton_pass(
    problem: Problem,
    at: tuple[np.ndarray, ...],
    hidden: np.ndarray,
    limit: np.ndarray,
    doses: Arrivals | None,
    tolerance: float,
) -> int:
    """Correct a stretch of path unless all of it is settled; returns how many steps are before the first larger error.

    With A = (I - h f_z)^-1 and the error e = A (z - z+ + h f+) of each step, the corrections d satisfy d+ = A d + e. An
    error that is not finite counts as none, as does one that points beyond the limit. On arrival at a dose or reset
    z+ = keep z + add.
    """
    times, path, params, inputs = at
    which = np.flatnonzero(hidden.any(axis=0))
    free, most, unit = hidden[:, None, which], limit[:, None, which], np.eye(len(which))
    z, step = path[..., which], np.diff(times)[..., None]
    slope, wrt_x, _ = problem.solved_model.rhs.linearise(times[:, 1:], path[:, 1:], params, inputs[:, 1:])
    with np.errstate(all="ignore"):
        wrt_z = wrt_x[..., which[:, None], which]
        usable = free[..., None] & free[..., None, :] & np.isfinite(wrt_z)
        matrix = unit - step[..., None] * np.where(usable, wrt_z, 0.0)
        carry = inverted(matrix.reshape(-1, *unit.shape)).reshape(wrt_z.shape)
        error = (carry @ (step * slope[..., which] - np.diff(z, axis=1))[..., None])[..., 0]
        if doses is not None:
            there, keep, add = doses.there[..., None], doses.keep[..., which], doses.add[..., which]
            carry = np.where(there[..., None], keep[..., None] * unit, carry)
            error = np.where(there, keep * z[:, :-1] + add - z[:, 1:], error)
        error = np.where(free & np.isfinite(error), error, 0.0)
        low, high = -most - z[:, 1:], most - z[:, 1:]
        size = np.abs(np.minimum(np.maximum(error, low), high))
        right = (size <= tolerance * np.abs(z).max(axis=1, keepdims=True)).all(axis=(0, 2))
        if right.all():
            return len(right)
        moves = np.zeros((len(right) + 1, *error[:, 0].shape, 1))  # (points, experiments, hidden, 1)
        rows = (a.swapaxes(0, 1)[..., None] for a in (error, low, high))
        for k, (one, add, least, greatest) in enumerate(zip(carry.swapaxes(0, 1), *rows, strict=True)):
            np.fmin(np.fmax(one @ moves[k] + add, least), greatest, out=moves[k + 1])
    path[..., which] += moves[..., 0].swapaxes(0, 1)
    return int(np.argmin(right))
