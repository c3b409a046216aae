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


@dataclass(frozen=True)
class Following:
    """How hidden states are followed. The numbers were chosen for the least time on benchmarks/peer_problems.py."""

    passes: int = 5  # of Newton's method over a stretch at most
    settled: float = 1e-3  # largest error of a step, relative to the largest value of the state
    cut: int = (
        4  # by which a stretch is shortened where Newton's method does not settle; it doubles where it does
    )
    shortest: int = 8  # steps of a stretch that is taken as it is: f may have a pole there


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
    euler = _Euler(problem, grids, path.copy(), hidden, params, limit)
    here, steps = 0, grids.shape[1] - 1
    length = steps
    while here < steps:
        aim = min(here + length, steps)
        reached = euler.follow(here, aim, settings)
        length = 2 * length if reached == aim else max(length // settings.cut, settings.shortest)
        here = aim if aim - here <= settings.shortest else reached
    return euler.path


class _Euler:
    """The implicit Euler method for the hidden states of a path, which it changes."""

    def __init__(
        self,
        problem: Problem,
        grids: np.ndarray,
        path: np.ndarray,
        hidden: np.ndarray,
        params: np.ndarray,
        limit: np.ndarray,
    ) -> None:
        self.rhs, self.grids, self.path, self.params = problem.model.rhs, grids, path, params[:, None, :]
        self.inputs, self.steps = problem.inputs_at(np.arange(len(grids)), grids), np.diff(grids)[..., None]
        self.which = np.flatnonzero(hidden.any(axis=0))  # hidden in some experiment
        self.hidden, self.limit = hidden[:, None, self.which], limit[:, None, self.which]
        self.pairs = self.hidden[..., None] & self.hidden[..., None, :]

    def follow(self, first: int, last: int, settings: Following) -> int:
        """Follow the states from one point of the grid towards another; returns the last point that is settled."""
        stretch = self.path[:, first : last + 1]
        stretch[..., self.which] = np.where(self.hidden, stretch[:, :1, self.which], stretch[..., self.which])
        for _ in range(settings.passes):
            settled = self._newton_pass(first, last, settings.settled)
            if settled == last:
                break
        return settled

    def _newton_pass(self, first: int, last: int, tolerance: float) -> int:
        """Correct the path unless all of it is settled; returns the last point before the first larger error.

        With A = (I - h f_z)^-1 and the error e = A (z - z+ + h f+) of each step, the corrections d satisfy
        d+ = A d + e. An error that is not finite counts as none, as does one that points beyond the limit.
        """
        which, ahead = self.which, slice(first + 1, last + 1)
        z, step = self.path[:, first : last + 1, which], self.steps[:, first:last]
        given = (self.grids[:, ahead], self.path[:, ahead], self.params, self.inputs[:, ahead])
        slope, wrt_x, _ = self.rhs.linearise(*given)
        wrt_z, unit = wrt_x[..., which[:, None], which], np.eye(len(which))
        with np.errstate(all="ignore"):
            matrix = unit - step[..., None] * np.where(self.pairs & np.isfinite(wrt_z), wrt_z, 0.0)
            carry = inverted(matrix.reshape(-1, *unit.shape)).reshape(wrt_z.shape)
            error = (carry @ (step * slope[..., which] - np.diff(z, axis=1))[..., None])[..., 0]
            error = np.where(self.hidden & np.isfinite(error), error, 0.0)
            low, high = -self.limit - z[:, 1:], self.limit - z[:, 1:]
            size = np.abs(np.minimum(np.maximum(error, low), high))
            right = (size <= tolerance * np.abs(z).max(axis=1, keepdims=True)).all(axis=(0, 2))
            if right.all():
                return last
            move = np.zeros((*error[:, 0].shape, 1))
            moves = np.empty((last - first, *move.shape))  # (steps, experiments, hidden, 1)
            rows = (a.swapaxes(0, 1)[..., None] for a in (error, low, high))
            for k, (one, add, least, most) in enumerate(zip(carry.swapaxes(0, 1), *rows, strict=True)):
                move = np.fmin(np.fmax(one @ move + add, least), most, out=moves[k])
        self.path[:, ahead, which] += moves[..., 0].swapaxes(0, 1)
        return first + int(np.argmin(right))
