"""The steady state of a system under constant inputs, and its derivatives by the start and the parameters.

The system is integrated until it hardly moves; Newton's method then solves f(x, p) = 0 together with the conservation
laws L (x - x0) = 0, where the rows of L span all vectors with L f = 0 at every x. Implicit differentiation of these
equations gives the derivatives. Explicit time dependence is frozen at t. Where these equations do not determine the
rest, because it depends on the way to it, it is the integrated state when that no longer moves (followed_rest.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.simulation.followed_rest import derivatives_along
from picardfit.simulation.pieces import Piece
from picardfit.simulation.side_by_side import SideBySide, march

Floats = tuple[float, ...]
Key = tuple[float, Floats, Floats, Floats]  # time, start, parameters, inputs
Point = tuple[float, np.ndarray, np.ndarray, np.ndarray]

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class SteadySearch:
    """How a steady state is approached by integration and then solved by Newton's method. All are choices."""

    windows: int = 32  # of time: in total 1e19 times the fastest time scale
    growth: float = 4.0  # length of a window over that of the window before
    still: float = 1e-3  # change of the states in a window, relative to their size, below which Newton starts
    near: float = 0.05  # how far from the integrated solution, relative to its size, the steady state may lie
    settled: float = (
        1e-11  # change in a window, relative to the size, of a state that rests without Newton's help
    )
    converged: float = 1e-13  # Newton step relative to the size of the states, close to rounding
    steps: int = 30  # of Newton's method
    unstable: float = 1e-6  # growth rate of a perturbation relative to the fastest rate; rounding gives less
    conserved: float = 1e-11  # size of L f relative to f at random points
    lowest: float = 0.1  # the random points lie between these multiples of the size of the states
    highest: float = 2.0
    least: float = 1e-3  # smallest size of a state, as a fraction of the largest
    rtol: float = 1e-9  # of the integration
    atol: float = 1e-12  # of the integration, relative to the size of each state
    integrator_steps: int = 20_000  # in one window
    # several in one array; LSODA is slower on the way to rest than on a trajectory, so that fewer states suffice
    side_by_side: SideBySide = field(default=SideBySide(least_size=50))


@dataclass(frozen=True, eq=False)
class Steady:
    """A steady state with its derivatives."""

    states: np.ndarray  # (states,)
    by_params: np.ndarray  # (states, parameters)
    by_start: np.ndarray  # (states, states)


def steady_state(
    rhs: BatchedMap | NumericMap,
    t: float,
    start: np.ndarray,
    params: np.ndarray,
    inputs: np.ndarray,
    settings: SteadySearch = SteadySearch(),
) -> Steady | None:
    """The steady state reached from `start` (states,); None if the solution reaches none."""
    return steady_states(rhs, [(t, start, params, inputs)], settings)[0]


def steady_states(
    rhs: BatchedMap | NumericMap, points: Sequence[Point], settings: SteadySearch = SteadySearch()
) -> list[Steady | None]:
    """The steady states reached from several points, each computed once; large models approach theirs side by side.

    A Python function may depend on more than its arguments: its results are not cached.
    """
    keys = [(float(t), *(tuple(np.asarray(a, float).tolist()) for a in arrays)) for t, *arrays in points]
    distinct = tuple(dict.fromkeys(keys))
    settle = _settled if isinstance(rhs, BatchedMap) else _settled.__wrapped__
    found = dict(zip(distinct, settle(rhs, distinct, settings), strict=True))
    return [found[key] for key in keys]


def end_of_integration(
    slope: Callable[[float, np.ndarray], np.ndarray | list[float]],
    x: np.ndarray,
    length: float,
    accuracy: Mapping[str, object],
    jacobian: Callable[[float, np.ndarray], np.ndarray] | None = None,
) -> np.ndarray | None:
    """The solution of x' = slope(t, x) from time 0 to `length`, or None if there is none.

    `accuracy`: the options rtol, atol and mxstep of SciPy's odeint.
    """
    from scipy.integrate import odeint

    path, report = odeint(slope, x, [0.0, length], Dfun=jacobian, tfirst=True, full_output=True, **accuracy)
    successful = report["message"] == "Integration successful." and np.isfinite(path[-1]).all()
    return path[-1] if successful else None


@lru_cache(maxsize=64)
def _settled(
    rhs: BatchedMap | NumericMap, keys: Sequence[Key], settings: SteadySearch
) -> tuple[Steady | None, ...]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        ways = [_Way(rhs, key, settings) for key in keys]
        if isinstance(rhs, BatchedMap):
            _go_together(rhs, ways, settings)
        for way in ways:
            while not way.ended:
                way.arrive(way.system.integrated(way.x, way.window, way.size))
    return tuple(way.rest for way in ways)


def _go_together(rhs: BatchedMap, ways: Sequence[_Way], settings: SteadySearch) -> None:
    """Take windows of time of all ways at once, as long as that is faster; what is left over goes on alone."""
    beside, on = settings.side_by_side, [way for way in ways if not way.ended]
    while on and beside.pays(rhs, len(on), settings.rtol, 0):
        now = np.array([way.system.t for way in on])
        piece = Piece(
            rhs=rhs,
            end=1.0,
            start=now,
            length=np.array([[way.window] for way in on]),
            first=now,
            last=now,
            params=np.array([way.system.p for way in on]),
            inputs=np.array([way.system.u for way in on]),
            varying=(),
        )
        starts, sizes = (np.array([getattr(way, name) for way in on]) for name in ("x", "size"))
        marched = march(
            piece, starts, [np.zeros(0)] * len(on), settings.rtol, settings.atol * sizes, np.inf, beside
        )
        arrived = [(way, x) for way, x in zip(on, marched.ends, strict=True) if np.isfinite(x).all()]
        for way, x in arrived:
            way.arrive(x)
        on = [way for way, _ in arrived if not way.ended]


class _Way:
    """A solution on its way to rest, window by window of time."""

    def __init__(self, rhs: BatchedMap | NumericMap, key: Key, settings: SteadySearch) -> None:
        t, *arrays = key
        x, p, u = (np.array(a, float) for a in arrays)
        self.system, self.x = _Frozen(rhs, t, p, u, x, settings), x
        self.rest: Steady | None = None
        self.ended, self.elapsed, self.passed = True, 0.0, 0
        if not (np.isfinite(x).all() and np.isfinite(p).all()):
            return
        slope, jacobian = self.system.slope(x), self.system.jacobian(x)
        if not (np.isfinite(slope).all() and np.isfinite(jacobian).all()):
            return
        largest, fastest = np.abs(x).max(initial=0.0), np.abs(slope).max(initial=0.0)
        rate = max(np.abs(jacobian).sum(axis=1).max(initial=0.0), fastest / largest if largest > 0 else 0.0)
        self.window = 1.0 / rate if rate > 0 else 1.0
        self.size = np.maximum(np.abs(x), settings.least * max(largest, fastest * self.window, TINY))
        if slope.any():
            self.ended = False
        else:
            at_once, long = (
                self.system.steady(x, self.size),
                self.window * settings.growth**settings.windows,
            )
            self.rest = at_once or self.system.followed(x, self.size, long)

    def arrive(self, moved: np.ndarray | None) -> None:
        """Take the states at the end of the window; None if the solution does not reach it."""
        system, settings = self.system, self.system.settings
        if moved is None:
            self.ended = True
            return
        self.size = np.maximum(self.size, np.abs(moved))
        change = np.abs(moved - self.x)
        self.x, self.elapsed, self.passed = moved, self.elapsed + self.window, self.passed + 1
        self.window *= settings.growth
        self.ended = True
        if (change <= settings.still * self.size).all():
            found = system.newton(moved, self.size)
            if found is not None:
                self.rest = system.steady(found, self.size)
                return
        if (change <= settings.settled * self.size).all():
            self.rest = system.followed(moved, self.size, self.elapsed)
            return
        self.ended = self.passed >= settings.windows


@dataclass(frozen=True, eq=False)
class _Frozen:
    """The autonomous system x' = f(x) at fixed time, parameters and inputs, and what it conserves."""

    rhs: BatchedMap | NumericMap
    t: float
    p: np.ndarray
    u: np.ndarray
    start: np.ndarray
    settings: SteadySearch

    def slope(self, x: np.ndarray) -> np.ndarray:
        return self.rhs.value(self.t, x, self.p, self.u)

    @cached_property
    def _fixed(self) -> tuple[list[float], list[float]]:
        return self.p.tolist(), self.u.tolist()

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        return self.rhs.jacobian_at_point(self.t, x.tolist(), *self._fixed)

    def integrated(self, x: np.ndarray, window: float, size: np.ndarray) -> np.ndarray | None:
        """The states after a window of time, or None if there is no solution."""
        ours, at_point, t, (p, u) = self.settings, self.rhs.at_point, self.t, self._fixed
        accuracy = {"rtol": ours.rtol, "atol": ours.atol * size, "mxstep": ours.integrator_steps}
        return end_of_integration(
            lambda _, x: at_point(t, x.tolist(), p, u), x, window, accuracy, lambda _, x: self.jacobian(x)
        )

    def laws(self, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """L (laws, states), the other rows Q (states - laws, states) of an orthogonal basis, and the random points.

        All in states divided by `size`.
        """
        ours, count = self.settings, len(size)
        points = size * np.random.default_rng(0).uniform(ours.lowest, ours.highest, (3 * count + 5, count))
        field = self.slope(points) / size  # (points, states)
        finite = np.isfinite(field).all(axis=1)
        points, field = points[finite], field[finite]
        field = field / np.maximum(np.linalg.norm(field, axis=1, keepdims=True), TINY)
        _, singular, basis = np.linalg.svd(field, full_matrices=True)
        rank = int(np.sum(singular > ours.conserved * singular.max(initial=TINY)))
        return basis[rank:], basis[:rank], points

    def _mixed_slopes(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(states, parameters): the weighted sum of the derivatives by parameters at points (k, states)."""
        if not isinstance(self.rhs, BatchedMap):
            by_params = self.rhs.linearise(self.t, points, self.p, self.u)[2]
            return np.einsum("k,ksp->sp", weights, by_params)
        mixed = np.zeros((len(self.start), len(self.p)))
        entries = np.array(list(self.rhs.jacobian[1]), int).reshape(-1, 2)
        mixed[entries[:, 0], entries[:, 1]] = (
            self.rhs.derivatives(self.t, points, self.p, self.u)[1] @ weights
        )
        return mixed

    def newton(self, x: np.ndarray, size: np.ndarray) -> np.ndarray | None:
        """The stable steady state next to x, or None."""
        laws, others, _ = self.laws(size)
        first = x
        for _ in range(self.settings.steps):
            slope, jacobian = self.slope(x) / size, self.jacobian(x) / size[:, None] * size
            matrix = np.concatenate([others @ jacobian, laws])
            gap = np.concatenate([others @ slope, laws @ ((x - self.start) / size)])
            step = _solve(matrix, -gap[:, None])
            if step is None:
                return None
            x = x + size * step[:, 0]
            if not (np.abs(x - first) <= self.settings.near * size.max()).all():
                return None
            if np.abs(step).max() < self.settings.converged:
                break
        else:
            return None
        rates = np.linalg.eigvals(others @ (self.jacobian(x) / size[:, None] * size) @ others.T)
        stable = len(rates) == 0 or rates.real.max() <= self.settings.unstable * np.abs(rates).max()
        return x if stable else None

    def followed(self, x: np.ndarray, size: np.ndarray, length: float) -> Steady | None:
        """The point, with its derivatives along the way to it, which takes this long."""
        found = derivatives_along(self.rhs, (self.t, self.start, self.p, self.u), length, size)
        return None if found is None else Steady(x, found[1], found[0])

    def steady(self, x: np.ndarray, size: np.ndarray) -> Steady | None:
        """The point with its derivatives, from others f = 0 and L (x - x0) = 0 (L may depend on the parameters)."""
        laws, others, points = self.laws(size)
        _, jacobian, by_params = self.rhs.linearise(self.t, x, self.p, self.u)
        matrix = np.concatenate([others @ (jacobian / size[:, None] * size), laws])
        turned = np.zeros((0, len(self.p)))
        if len(laws):  # L f = 0 at all points: dL f = -L df, so that dL (x - x0) = -L df y with f y = x - x0
            y = np.linalg.lstsq((self.slope(points) / size).T, (x - self.start) / size, rcond=None)[0]
            turned = laws @ (self._mixed_slopes(points, y) / size[:, None])
        right = np.concatenate([-others @ (by_params / size[:, None]), turned])
        start = np.concatenate([np.zeros_like(others), laws]) / size
        solved = _solve(matrix, np.concatenate([right, start], axis=1))
        if solved is None:
            return None
        solved = size[:, None] * solved
        return Steady(x, solved[:, : len(self.p)], solved[:, len(self.p) :])


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """The solution of matrix x = right, with rows scaled to equal size; None where there is none."""
    norm = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(matrix).all() and np.isfinite(right).all() and (norm > 0).all()):
        return None
    try:
        return np.linalg.solve(matrix / norm, right / norm)
    except np.linalg.LinAlgError:
        return None
