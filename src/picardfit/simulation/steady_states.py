"""Where a system comes to rest under constant inputs, and how that depends on its start and its parameters.

The solution is followed until it hardly moves; Newton's method then solves f(x, p) = 0 together with what is conserved,
L (x - x0) = 0, where the rows of L are all vectors with L f = 0 at every x. The derivatives follow by implicit
differentiation of these equations; time stands still at t meanwhile.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap

_WINDOWS, _GROWTH = 32, 4.0  # of time, each so many times longer than the one before
_STILL = (
    1e-3  # change of the states in one window, relative to their size, after which Newton's method may start
)
_NEAR = 0.05  # how far from the followed solution, relative to its size, the point of rest may be
_CONSERVED = 1e-11  # size of L f relative to f at random points
_CONVERGED, _NEWTON_STEPS = 1e-13, 30
_UNSTABLE = 1e-6  # growth rate relative to the fastest rate


@dataclass(frozen=True, eq=False)
class Steady:
    """A point of rest with its derivatives."""

    states: np.ndarray  # (states,)
    by_params: np.ndarray  # (states, parameters)
    by_start: np.ndarray  # (states, states)


def steady_state(
    rhs: BatchedMap | NumericMap, t: float, start: np.ndarray, params: np.ndarray, inputs: np.ndarray
) -> Steady | None:
    """The point of rest reached from `start` (states,); None if the solution does not come to rest."""
    values = (float(t), *(tuple(np.asarray(a, float).tolist()) for a in (start, params, inputs)))
    if isinstance(rhs, BatchedMap):
        return _remembered(rhs, *values)
    return _settle(rhs, *values)


@lru_cache(maxsize=256)
def _remembered(rhs: BatchedMap, t: float, start: tuple, params: tuple, inputs: tuple) -> Steady | None:
    return _settle(rhs, t, start, params, inputs)


def _settle(rhs, t: float, start: tuple, params: tuple, inputs: tuple) -> Steady | None:
    from scipy.integrate import odeint

    x, p, u = (np.array(a, float) for a in (start, params, inputs))
    if not (np.isfinite(x).all() and np.isfinite(p).all()):
        return None
    system = _Frozen(rhs, t, p, u, x)
    slope, jacobian = system.slope(x), system.jacobian(x)
    if not (np.isfinite(slope).all() and np.isfinite(jacobian).all()):
        return None
    largest, fastest = np.abs(x).max(initial=0.0), np.abs(slope).max(initial=0.0)
    rate = max(np.abs(jacobian).sum(axis=1).max(initial=0.0), fastest / largest if largest > 0 else 0.0)
    window = 1.0 / rate if rate > 0 else 1.0
    size = np.maximum(np.abs(x), 1e-3 * max(largest, fastest * window, 1e-300))
    if not slope.any():
        return system.steady(x, size)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(_WINDOWS):
            path, report = odeint(
                lambda _, x: system.slope(x),
                x,
                [0.0, window],
                Dfun=lambda _, x: system.jacobian(x),
                tfirst=True,
                rtol=1e-9,
                atol=1e-12 * size,
                mxstep=20_000,
                full_output=True,
            )
            moved = path[-1]
            if report["message"] != "Integration successful." or not np.isfinite(moved).all():
                return None
            size = np.maximum(size, np.abs(moved))
            still = (
                np.abs(moved - x).max() <= _STILL * size.max() and (np.abs(moved - x) <= _STILL * size).all()
            )
            x, window = moved, window * _GROWTH
            if still and (found := system.newton(x, size)) is not None:
                return system.steady(found, size)
    return None


class _Frozen:
    """The autonomous system x' = f(x) at fixed time, parameters and inputs, and what it conserves."""

    def __init__(self, rhs, t: float, p: np.ndarray, u: np.ndarray, start: np.ndarray) -> None:
        self.rhs, self.t, self.p, self.u, self.start = rhs, t, p, u, start

    def slope(self, x: np.ndarray) -> np.ndarray:
        return self.rhs.value(self.t, x, self.p, self.u)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        return self.rhs.linearise(self.t, x, self.p, self.u)[1]

    def laws(self, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """L (laws, states), the rest of an orthogonal basis Q (states - laws, states), and the random points.

        All in states divided by `size`.
        """
        count = len(size)
        points = size * np.random.default_rng(0).uniform(0.1, 2.0, (3 * count + 5, count))
        field = self.slope(points) / size  # (points, states)
        finite = np.isfinite(field).all(axis=1)
        points, field = points[finite], field[finite]
        field = field / np.maximum(np.linalg.norm(field, axis=1, keepdims=True), 1e-300)
        _, singular, basis = np.linalg.svd(field, full_matrices=True)
        rank = int(np.sum(singular > _CONSERVED * singular.max(initial=1e-300)))
        return basis[rank:], basis[:rank], points

    def newton(self, x: np.ndarray, size: np.ndarray) -> np.ndarray | None:
        """The stable point of rest next to x, or None."""
        laws, others, _ = self.laws(size)
        first = x
        for _ in range(_NEWTON_STEPS):
            slope, jacobian = self.slope(x) / size, self.jacobian(x) / size[:, None] * size
            matrix = np.concatenate([others @ jacobian, laws])
            gap = np.concatenate([others @ slope, laws @ ((x - self.start) / size)])
            step = _solve(matrix, -gap[:, None])
            if step is None:
                return None
            x = x + size * step[:, 0]
            if not (np.abs(x - first) <= _NEAR * size.max()).all():
                return None
            if np.abs(step).max() < _CONVERGED:
                break
        else:
            return None
        rates = np.linalg.eigvals(others @ (self.jacobian(x) / size[:, None] * size) @ others.T)
        stable = len(rates) == 0 or rates.real.max() <= _UNSTABLE * np.abs(rates).max()
        return x if stable else None

    def steady(self, x: np.ndarray, size: np.ndarray) -> Steady | None:
        """The point with its derivatives, from others f = 0 and L (x - x0) = 0 (L may depend on the parameters)."""
        laws, others, points = self.laws(size)
        _, jacobian, by_params = self.rhs.linearise(self.t, x, self.p, self.u)
        matrix = np.concatenate([others @ (jacobian / size[:, None] * size), laws])
        # L f = 0 at all points: dL f = -L df, so that dL (x - x0) = -L df y with f y = x - x0
        field, _, field_params = self.rhs.linearise(self.t, points, self.p, self.u)
        y = np.linalg.lstsq((field / size).T, (x - self.start) / size, rcond=None)[0]
        turned = laws @ np.einsum("k,ksp->sp", y, field_params / size[:, None])
        right = np.concatenate([-others @ (by_params / size[:, None]), turned])
        start = np.concatenate([np.zeros_like(others), laws]) / size
        solved = _solve(matrix, np.concatenate([right, start], axis=1))
        if solved is None:
            return None
        solved = size[:, None] * solved
        return Steady(x, solved[:, : len(self.p)], solved[:, len(self.p) :])


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """The solution with rows brought to equal size; None where there is none."""
    norm = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(matrix).all() and np.isfinite(right).all() and (norm > 0).all()):
        return None
    try:
        return np.linalg.solve(matrix / norm, right / norm)
    except np.linalg.LinAlgError:
        return None
