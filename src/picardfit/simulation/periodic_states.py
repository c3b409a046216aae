"""The periodic steady state of a system under a regimen of doses, and its derivatives by start and parameters.

With F the flow over one period, doses included, the state at the beginning of a period solves x = F(x, p). Some
periods are integrated first; Newton's method with the derivatives F_x and F_p of the flow, from the variational
equations, then solves the equation, which takes one step where the system is linear. Implicit differentiation gives
(I - F_x) dx = F_p dp. Directions that F conserves (a row L with L F_x = L) keep the value that they had at the start.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.model.added_inputs import INFUSION
from picardfit.model.doses import Doses, Jumps, infusion_rates, jumps_of
from picardfit.simulation.steady_states import Steady, end_of_integration

Floats = tuple[float, ...]
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class PeriodicSearch:
    """How a periodic state is found. All numbers are choices."""

    first: int = 3  # periods that are integrated before Newton's method begins
    more: int = 10  # ... and after each of its steps that does not come closer
    rounds: int = 60  # of Newton's method
    closer: float = 0.5  # fraction of |x - F(x)| that a good step may leave
    converged: float = 1e-10  # |x - F(x)| relative to the size of the states; what the integrator allows
    conserved: float = 1e-8  # singular value of I - F_x, relative to the largest, that counts as zero
    least: float = 1e-6  # smallest size of a state, as a fraction of the largest
    rtol: float = 1e-12  # of the integration
    atol: float = 1e-14  # of the integration, relative to the size of each variable
    integrator_steps: int = 50_000  # in one piece


@dataclass(frozen=True)
class Regimen:
    """Doses that repeat with a period; their times count from its beginning."""

    doses: tuple[Doses, ...]
    every: float

    @property
    def wrapped(self) -> tuple[Doses, ...]:
        """The doses with infusions cut at the end of the period: what is left of them runs at its beginning."""
        found = []
        for one in self.doses:
            times, amounts, duration = [], [], []
            for time, amount, lasting in zip(one.times, one.amounts, one.duration, strict=True):
                begin, left = float(time), float(lasting)
                while True:
                    own = min(left, self.every - begin)
                    times.append(begin)
                    amounts.append(float(amount) * (own / lasting if lasting else 1.0))
                    duration.append(own if lasting else 0.0)
                    begin, left = 0.0, left - own
                    if left <= 0:
                        break
            found.append(Doses(times, amounts, one.into, duration))
        return tuple(found)


def periodic_state(
    rhs: BatchedMap | NumericMap,
    t: float,
    start: np.ndarray,
    params: np.ndarray,
    inputs: np.ndarray,
    regimen: Regimen,
    settings: PeriodicSearch = PeriodicSearch(),
) -> Steady | None:
    """The state at time t, where a period begins, before its first dose; None if the system reaches none.

    `inputs` are constant; those that are rates of infusions follow the regimen.
    """
    values = (tuple(np.asarray(a, float).tolist()) for a in (start, params, inputs))
    # a Python function may depend on more than its arguments: its results are not cached
    settle = _settle if isinstance(rhs, BatchedMap) else _settle.__wrapped__
    found: Steady | None = settle(rhs, float(t), *values, regimen, settings)
    return found


@lru_cache(maxsize=256)
def _settle(
    rhs: BatchedMap | NumericMap,
    t: float,
    start: Floats,
    params: Floats,
    inputs: Floats,
    regimen: Regimen,
    settings: PeriodicSearch,
) -> Steady | None:
    x, p, u = (np.array(a, float) for a in (start, params, inputs))
    if not (np.isfinite(x).all() and np.isfinite(p).all()):
        return None
    flow = _Flow(rhs, t - regimen.every, p, u, _pieces(rhs, u, regimen), settings)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _newton(flow, x, settings)


@dataclass(frozen=True)
class _Piece:
    """A part of a period: what is given at its beginning, and its constant inputs."""

    begin: float
    end: float
    given: np.ndarray  # (states,)
    inputs: np.ndarray


def _pieces(rhs: BatchedMap | NumericMap, inputs: np.ndarray, regimen: Regimen) -> list[_Piece]:
    doses = regimen.wrapped
    jumps: Jumps | None = jumps_of(rhs.states, doses)
    rates = infusion_rates(doses)
    times = {0.0, regimen.every, *(b for one in rates.values() for b in one.breakpoints)}
    times |= set() if jumps is None else set(jumps.times.tolist())
    edges = sorted(time for time in times if 0 <= time <= regimen.every)
    found = []
    for a, b in pairwise(edges):
        own, nothing = inputs.copy(), np.zeros(len(rhs.states))
        for k, name in enumerate(rhs.inputs):
            if name.startswith(INFUSION):
                own[k] = rates[name].at(np.array(0.5 * (a + b))) if name in rates else 0.0
        found.append(_Piece(a, b, nothing if jumps is None else jumps.at(a, nothing), own))
    return found


@dataclass(frozen=True, eq=False)
class _Flow:
    """The map of a state at the beginning of a period to that at its end."""

    rhs: BatchedMap | NumericMap
    begin: float
    p: np.ndarray
    u: np.ndarray
    pieces: Sequence[_Piece]
    settings: PeriodicSearch

    def end(self, x: np.ndarray) -> np.ndarray | None:
        """F(x), or None if there is no solution."""
        for piece in self.pieces:
            moved = self._integrated(piece, x + piece.given, lambda t, x, u: self.rhs.value(t, x, self.p, u))
            if moved is None:
                return None
            x = moved
        return x

    def with_derivatives(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """F(x), F_x (states, states) and F_p (states, parameters)."""
        count, columns = len(x), len(x) + len(self.p)
        slopes = np.concatenate([np.eye(count), np.zeros((count, len(self.p)))], axis=1)

        def together(t: float, flat: np.ndarray, u: np.ndarray) -> np.ndarray:
            at = flat.reshape(count, 1 + columns)
            value, by_x, by_p = self.rhs.linearise(t, at[:, 0], self.p, u)
            moved = by_x @ at[:, 1:]
            moved[:, count:] += by_p
            return np.concatenate([value[:, None], moved], axis=1).ravel()

        for piece in self.pieces:
            flat = np.concatenate([(x + piece.given)[:, None], slopes], axis=1).ravel()
            moved = self._integrated(piece, flat, together)
            if moved is None:
                return None
            x, slopes = moved.reshape(count, 1 + columns)[:, 0], moved.reshape(count, 1 + columns)[:, 1:]
        return x, slopes[:, :count], slopes[:, count:]

    def _integrated(self, piece: _Piece, flat: np.ndarray, slope) -> np.ndarray | None:
        ours, begin, length = self.settings, self.begin + piece.begin, piece.end - piece.begin
        grown = np.maximum(
            np.abs(flat), length * np.abs(slope(begin, flat, piece.inputs))
        )  # from 0, for instance
        size = np.maximum(np.abs(flat), ours.least * (np.nanmax(grown, initial=0.0) or 1.0))
        accuracy = {"rtol": ours.rtol, "atol": ours.atol * size, "mxstep": ours.integrator_steps}
        return end_of_integration(
            lambda tau, flat: slope(begin + tau, flat, piece.inputs), flat, length, accuracy
        )


def _newton(flow: _Flow, start: np.ndarray, settings: PeriodicSearch) -> Steady | None:
    """The solution of x = F(x) that is reached from a start."""
    x: np.ndarray | None = start
    for _ in range(settings.first):
        x = None if x is None else flow.end(x)
    before = np.inf
    for _ in range(settings.rounds):
        found = None if x is None else flow.with_derivatives(x)
        if x is None or found is None:
            return None
        after, by_x, by_p = found
        size = np.maximum(np.abs(after), settings.least * np.abs(after).max(initial=TINY))
        gap = (after - x) / size
        fixed = _Fixed.of(by_x / size[:, None] * size, settings)
        if fixed.drifts(gap, settings):
            return None
        step = size * fixed.solve(gap[:, None], fixed.laws @ ((start - x) / size)[:, None])[:, 0]
        error = float(np.abs(gap).max(initial=0.0))
        if error <= settings.converged:
            by_start = fixed.solve(np.zeros((len(x), len(x))), fixed.laws / size)
            by_params = fixed.solve(by_p / size[:, None], np.zeros((len(fixed.laws), by_p.shape[1])))
            return Steady(x + step, size[:, None] * by_params, size[:, None] * by_start)
        if error > settings.closer * before or not np.isfinite(step).all():
            for _ in range(settings.more):  # far from linear: the system itself finds the way
                x = None if x is None else flow.end(x)
        else:
            x = x + step
        before = error
    return None


@dataclass(frozen=True)
class _Fixed:
    """I - F_x, in states of size 1, and the directions that F conserves."""

    matrix: np.ndarray  # (states - laws, states): rows of an orthogonal basis times I - F_x
    others: np.ndarray  # (states - laws, states): these rows
    laws: np.ndarray  # (laws, states): L, with L F_x = L

    @classmethod
    def of(cls, by_x: np.ndarray, settings: PeriodicSearch) -> _Fixed:
        matrix = np.eye(len(by_x)) - by_x
        left, singular, _ = np.linalg.svd(matrix)
        rank = int(np.sum(singular > settings.conserved * singular.max(initial=TINY)))
        others = left[:, :rank].T
        return cls(others @ matrix, others, left[:, rank:].T)

    def drifts(self, gap: np.ndarray, settings: PeriodicSearch) -> bool:
        """Whether a conserved direction changes all the same: what is given stays in the system for good."""
        return bool(np.abs(self.laws @ gap).max(initial=0.0) > settings.conserved)

    def solve(self, right: np.ndarray, of_laws: np.ndarray) -> np.ndarray:
        """x with (I - F_x) x = right and L x = of_laws: (states, columns)."""
        return np.linalg.solve(
            np.concatenate([self.matrix, self.laws]), np.concatenate([self.others @ right, of_laws])
        )
