"""Many integrations at once, at a loose tolerance: candidates side by side, each with steps of its own length.

A Rosenbrock method of order 4 with an error estimate of order 3 (RODAS: Hairer and Wanner, Solving Ordinary
Differential Equations II, section IV.7), which no stiffness makes unstable. A track is one experiment of one candidate;
its lanes are slightly different unknowns that take the very same steps, so that their differences are derivatives of
the numbers computed, however loose the tolerance. Steps land on the sampling times and on breaks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.algebra import TIME
from picardfit.kernels import BatchedMap
from picardfit.problem import Problem

GAMMA = 0.25
STAGE_TIMES = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
STAGE_SLOPES = (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0)
STAGES = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0),
)
COUPLING = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
SHORTEST, LONGEST = 0.2, 6.0  # factors by which a step may change
SAFETY = 0.9
FIRST = 1e-2  # change of the states in the first step, relative to their size
FLOOR = 1e-3  # part of a state's largest value so far below which its relative error does not count
NOTHING = 1e-9  # the same, of the largest state
STEPS, STEPS_OF_STOP = 300, 8  # that a track may take, and for each of its stops, at a tolerance of 1e-3
TINY = 1e-13  # part of the whole time below which a step is given up
EXPLODED = 1e30


@dataclass(frozen=True)
class Tracks:
    """What to integrate: track i belongs to an experiment and has lanes of initial states and parameters."""

    experiment: np.ndarray  # (tracks,), in ascending order
    initial: np.ndarray  # (tracks, lanes, states)
    params: np.ndarray  # (tracks, lanes, model parameters)


def march(problem: Problem, tracks: Tracks, rtol: float) -> list[np.ndarray]:
    """States of each track at the sampling times of its experiment: (times, lanes, states), NaN where it failed.

    The error of the first lane rules the length of the steps. Tracks that need too many of them fail.
    """
    if not len(tracks.experiment):
        return []
    with np.errstate(all="ignore"):
        return _March(problem, tracks, rtol).run()


class _March:
    """Tracks on their way."""

    def __init__(self, problem: Problem, tracks: Tracks, rtol: float) -> None:
        self.slopes = _Slopes(problem, tracks)
        self.rtol, self.tracks = rtol, tracks
        stops = [_stops(problem, e) for e in range(len(problem.experiments))]
        most = max(len(s) for s in stops)
        padded = np.array([np.append(s, np.full(most - len(s), np.inf)) for s in stops])
        self.stops = padded[tracks.experiment]  # (tracks, most)
        self.last = np.array([len(s) - 1 for s in stops])[tracks.experiment]
        self.time, self.next = self.stops[:, 0].copy(), np.ones(len(self.stops), int)
        self.x = tracks.initial.copy()
        self.path = np.full((most, *self.x.shape), np.nan)
        self.path[0] = self.x
        self.largest = np.abs(self.x[:, 0])
        self.span = self.stops[np.arange(len(self.last)), self.last] - self.time
        self.wanted = [
            np.searchsorted(s, one.times) for s, one in zip(stops, problem.experiments, strict=True)
        ]

    def run(self) -> list[np.ndarray]:
        on = np.flatnonzero((self.next <= self.last) & np.isfinite(self.x).all(axis=(1, 2)))
        step = self._first_step()
        most = (STEPS + STEPS_OF_STOP * self.stops.shape[1]) * max(1.0, 1e-3 / self.rtol) ** 0.25
        for _ in range(int(most)):
            if not len(on):
                break
            gap = self.stops[on, self.next[on]] - self.time[on]
            lands = step[on] > 0.99 * gap
            length = np.where(lands, gap, np.minimum(step[on], 0.5 * gap))
            x, error = self._try(on, length)
            taken = error <= 1.0
            factor = np.clip(SAFETY * error**-0.25, SHORTEST, LONGEST)
            factor = np.where(np.isfinite(error), factor, SHORTEST)
            # a step cut short to land says nothing against the longer one that was planned
            step[on] = np.where(taken & lands, np.maximum(step[on], length * factor), length * factor)
            self._accept(on[taken], x[taken], length[taken], lands[taken])
            small = ~taken & (step[on] < TINY * self.span[on])
            lost = small | (taken & ~(np.abs(x).max(axis=(1, 2)) < EXPLODED))
            on = on[~lost & (self.next[on] <= self.last[on])]
        return [
            self.path[self.wanted[e], track].copy()
            if self.next[track] > self.last[track]
            else np.full((len(self.wanted[e]), *self.x.shape[1:]), np.nan)
            for track, e in enumerate(self.tracks.experiment)
        ]

    def _first_step(self) -> np.ndarray:
        every = np.arange(len(self.x))
        slope = np.abs(self.slopes.value(every, self.time, self.x)[:, 0])
        size = np.maximum(self.largest, FLOOR * self.largest.max(axis=1, keepdims=True))
        speed = np.nan_to_num((slope / np.where(size > 0, size, 1.0)).max(axis=1), nan=1e300)
        return np.clip(FIRST / np.maximum(speed, 1e-300), 1e-10 * self.span, 1e-2 * self.span)

    def _try(self, on: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States after one step of each track (tracks, lanes, states), and errors relative to the tolerance."""
        time, x, h = self.time[on], self.x[on], length[:, None, None]
        inside = (time + TINY * self.span[on], time + length * (1 - 1e-9))
        first = np.minimum(*inside)
        slope, jacobian, by_time = self.slopes.linearise(on, first, x, 1e-6 * length)
        matrix = -jacobian
        diagonal = np.arange(x.shape[2])
        matrix[..., diagonal, diagonal] += 1 / (GAMMA * h)
        inverse = _inverse(matrix)
        stages = []
        for k in range(len(STAGES)):
            if k:
                here = x + sum(a * s for a, s in zip(STAGES[k], stages, strict=True) if a)
                at = np.clip(time + STAGE_TIMES[k] * length, first, inside[1])
                slope = self.slopes.value(on, at, here)
                right = slope + sum(c * s for c, s in zip(COUPLING[k], stages, strict=True)) / h
            else:
                right = slope
            if by_time is not None and STAGE_SLOPES[k]:
                right = right + STAGE_SLOPES[k] * h * by_time
            stages.append((inverse @ right[..., None])[..., 0])
        after = here + stages[-1]
        top = np.maximum(np.maximum(np.abs(after[:, 0]), np.abs(x[:, 0])), FLOOR * self.largest[on])
        top = np.maximum(top, NOTHING * top.max(axis=1, keepdims=True)) + 1e-300
        error = (np.abs(stages[-1][:, 0]) / top).max(axis=1) / self.rtol
        finite = np.isfinite(after).all(axis=(1, 2))
        return after, np.where(finite, np.maximum(error, 1e-10), np.inf)

    def _accept(self, on, x, length, lands) -> None:
        self.time[on] = np.where(lands, self.stops[on, self.next[on]], self.time[on] + length)
        self.x[on] = x
        self.largest[on] = np.maximum(self.largest[on], np.abs(x[:, 0]))
        self.path[self.next[on[lands]], on[lands]] = x[lands]
        self.next[on] += lands


class _Slopes:
    """The right-hand side on tracks, and its derivatives by the states and by time."""

    def __init__(self, problem: Problem, tracks: Tracks) -> None:
        self.problem, self.experiment = problem, tracks.experiment
        rhs, model = problem.model.rhs, problem.model
        self.steady = not any(problem.breaks(e) for e in range(len(problem.experiments)))
        ends = np.array([problem.span(e) for e in tracks.experiment]).reshape(-1, 2)
        times = ends[:, :1] + np.linspace(0, 1, 5) * np.diff(ends)
        inputs = problem.inputs_at(tracks.experiment, times)
        self.steady &= bool((inputs == inputs[:, :1]).all())
        self.inputs = inputs[:, :1]  # (tracks, 1, inputs)
        self.autonomous = self.steady and isinstance(rhs, BatchedMap)
        self.symbolic = isinstance(rhs, BatchedMap)
        if self.symbolic:
            self.autonomous &= not any(TIME in e.free_symbols for e in rhs.expressions)
            # parameters in the place of inputs: then no derivatives by them are computed
            self.rhs = BatchedMap(rhs.expressions, rhs.states, (), (*model.inputs, *model.parameters))
        else:
            self.rhs = rhs
        self.params = tracks.params

    def _arguments(self, on: np.ndarray, time: np.ndarray):
        params = self.params[on]
        inputs = self.inputs[on]
        if not self.steady:
            inputs = self.problem.inputs_at(self.experiment[on], time[:, None])
        if not self.symbolic:
            return params, inputs
        wide = np.broadcast_to(inputs, (*params.shape[:2], inputs.shape[2]))
        return np.zeros(0), np.concatenate([wide, params], axis=2)

    def value(self, on: np.ndarray, time: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self.rhs.value(time[:, None], x, *self._arguments(on, time))

    def linearise(self, on: np.ndarray, time: np.ndarray, x: np.ndarray, ahead: np.ndarray):
        """f, its derivative by the states, and by time over a short way ahead (None if time does not appear)."""
        slope, by_state, _ = self.rhs.linearise(time[:, None], x, *self._arguments(on, time))
        if self.autonomous:
            return slope, by_state, None
        later = self.value(on, time + ahead, x)
        return slope, by_state, (later - slope) / ahead[:, None, None]


def _stops(problem: Problem, experiment: int) -> np.ndarray:
    start, stop = problem.span(experiment)
    times = problem.experiments[experiment].times
    return np.unique(np.concatenate([[start], problem.breaks(experiment), times, [stop]]))


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Batched inverse; NaN where a matrix is not finite or singular."""
    finite = np.isfinite(matrix).all(axis=(-1, -2), keepdims=True)
    try:
        return np.where(finite, np.linalg.inv(np.where(finite, matrix, np.eye(matrix.shape[-1]))), np.nan)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)  # shorter steps make it regular
