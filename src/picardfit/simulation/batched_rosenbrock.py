"""Many integrations at once, at a loose tolerance: candidates side by side, each with steps of its own length.

A Rosenbrock method of order 4 with an error estimate of order 3 (RODAS: Hairer and Wanner, Solving Ordinary
Differential Equations II, section IV.7), which no stiffness makes unstable. A track is one experiment of one candidate.
Steps land on the sampling times and on breaks. With W = 1/(gamma h) - J a step is

    X_k = x + sum_j a_kj K_j,   W K_k = r_k = f(t_k, X_k) + sum_j c_kj K_j / h + g_k h f_t,   x <- X_6 + K_6.

Derivatives come afterwards and only where they are asked for: all steps of all tracks are differentiated at once,
dK_k = W^-1 (dr_k + dJ K_k), which gives the derivative of the numbers computed, however loose the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from picardfit.formulas.algebra import TIME
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.doses import Jumps
from picardfit.model.model import Model

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
WHEN = np.array(STAGE_TIMES)[:, None]
TINY = np.finfo(float).tiny
SUMS = [np.array(pair).reshape(2, -1) for pair in zip(STAGES, COUPLING, strict=True)]  # of the stages so far


@dataclass(frozen=True)
class RosenbrockSteps:
    """The lengths of the steps, when a track is given up, and what the work is called.

    Where no origin is given, a value was chosen on stiff and published problems: docs/decisions/008.
    """

    shortest: float = 0.2  # factors by which a step may change at a time (textbook values)
    longest: float = 6.0
    safety: float = 0.9  # of the step that the error estimate allows (textbook value)
    first: float = 1e-2  # change of the states in the first step, relative to their size
    first_least: float = 1e-10  # first step, in lengths of the experiment
    first_most: float = 1e-2
    floor: float = (
        1e-3  # part of a state's largest value so far below which its relative error does not count
    )
    nothing: float = 1e-9  # the same, of the largest state
    steps: int = 300  # that a track may take at a tolerance of 1e-3
    steps_of_stop: int = 8  # and for each sampling time or break
    crowd: int = 16  # finished tracks of one experiment from which on the last ones may not take much longer
    last: float = 0.125  # part of the tracks that are the last
    lag: float = 2.0  # how many times the steps of the others they may take
    tiny: float = 1e-13  # part of the whole time below which a step is given up
    exploded: float = 1e30  # states beyond which a track is given up
    ahead: float = 1e-6  # part of a step over which f is differenced by time
    beside: float = 1e-6  # change of the states, relative to their size, over which Jacobians are differenced
    memory: int = 400_000  # numbers in the Jacobians of the steps that are differentiated at once
    together: int = 20_000  # states of all tracks integrated at once: their steps take about 10 kB each
    round: float = 25.0  # work of one step of all tracks, in units of about 7 microseconds, measured
    track: float = 0.05  # and of each track in it, measured with 16 and 64 tracks of 2 to 20 states
    square: float = 0.002  # and for the square of its states
    ways: float = 8.0  # derivatives by so many unknowns cost as much as the step itself


@dataclass(frozen=True)
class Course:
    """What happens in an experiment, whatever the parameters are."""

    span: tuple[float, float]  # its first and last time
    times: np.ndarray  # at which states are wanted, ascending
    breaks: tuple[float, ...]  # inside, where the right-hand side may jump or kink, or the states jump
    jumps: Jumps | None
    varies: bool  # whether inputs jump or kink

    @cached_property
    def stops(self) -> np.ndarray:
        """Times on which a step ends."""
        return np.unique(np.concatenate([self.span[:1], self.breaks, self.times, self.span[1:]]))


@dataclass(frozen=True)
class Courses:
    """The equations, and the experiments in which they are solved."""

    model: Model
    experiments: Sequence[Course]
    inputs_at: Callable[[np.ndarray, np.ndarray], np.ndarray]  # as `Problem.inputs_at`


@dataclass(frozen=True)
class Tracks:
    """What to integrate: track i belongs to an experiment and has initial states and parameters of its own."""

    experiment: np.ndarray  # (tracks,), in ascending order
    initial: np.ndarray  # (tracks, states)
    params: np.ndarray  # (tracks, model parameters)


@dataclass(frozen=True)
class _Steps:
    """Accepted steps of one round, at most one of each track."""

    track: np.ndarray  # (steps,)
    time: np.ndarray  # (steps,)
    length: np.ndarray  # (steps,)
    x: np.ndarray  # (steps, states)
    stages: np.ndarray  # (stages, steps, states)
    landing: np.ndarray  # (steps,): index of the stop on which a step ends, or -1


class Integrated:
    """Tracks at the sampling times of their experiments, and the steps that led there."""

    def __init__(self, runner: _Runner, path: np.ndarray, steps: list[_Steps]) -> None:
        self._runner, self._steps, self._path = runner, steps, path
        self.work = runner.work  # of the integration, without derivatives

    def states(self, track: int) -> np.ndarray:
        """(times, states), NaN where the track failed."""
        states: np.ndarray = self._path[self._runner.wanted[self._runner.tracks.experiment[track]], track]
        return states

    def slopes(
        self, chosen: np.ndarray, initial_ways: np.ndarray, params_ways: np.ndarray
    ) -> list[np.ndarray]:
        """Derivatives (times, states, ways) of the chosen tracks (indices), which must not have failed.

        `initial_ways` (chosen, states, ways) and `params_ways` (chosen, model parameters, ways): the changes of
        initial states and parameters along each way.
        """
        with np.errstate(all="ignore"):
            return self._slopes(chosen, initial_ways, params_ways)

    def _slopes(
        self, chosen: np.ndarray, initial_ways: np.ndarray, params_ways: np.ndarray
    ) -> list[np.ndarray]:
        runner = self._runner
        moved = np.flatnonzero((params_ways != 0).any(axis=(0, 2)))
        place = np.full(len(runner.tracks.experiment), -1)
        place[chosen] = np.arange(len(chosen))
        steps = [_chosen(one, place[one.track] >= 0) for one in self._steps]
        maps = _step_maps(runner.slopes, steps, moved, runner.settings)
        slopes = np.zeros((runner.stops.shape[1], *initial_ways.shape))
        now = slopes[0] = initial_ways.copy()
        pushes, states = params_ways[:, moved], now.shape[1]
        done = 0
        for one in steps:
            mine, few = place[one.track], maps[done : done + len(one.track)]
            done += len(one.track)
            now[mine] = few[..., :states] @ now[mine] + few[..., states:] @ pushes[mine]
            lands = one.landing >= 0
            if runner.jumps is not None:
                keep = runner.jumps[0][runner.tracks.experiment[one.track], one.landing]
                now[mine] *= np.where(lands[:, None], keep, 1.0)[..., None]
            slopes[one.landing[lands], mine[lands]] = now[mine[lands]]
        return [slopes[runner.wanted[runner.tracks.experiment[t]], k] for k, t in enumerate(chosen)]


def integrate(
    courses: Courses,
    tracks: Tracks,
    rtol: float,
    settings: RosenbrockSteps,
    differentiable: bool = True,
) -> Integrated:
    """Every track, with steps that keep its local error below a relative tolerance.

    Tracks that need too many steps fail, also when they need far more than most of many others do. Derivatives need the
    memory of all steps.
    """
    with np.errstate(all="ignore"):
        return _Runner(courses, tracks, rtol, settings).run(differentiable)


class _Runner:
    """Tracks on their way."""

    def __init__(self, courses: Courses, tracks: Tracks, rtol: float, settings: RosenbrockSteps) -> None:
        self.slopes, self.settings = _Slopes(courses, tracks), settings
        self.rtol, self.tracks, self.x = rtol, tracks, tracks.initial.copy()
        stops = [course.stops for course in courses.experiments]
        most = max(len(s) for s in stops)
        padded = np.array([np.append(s, np.full(most - len(s), np.inf)) for s in stops])
        self.stops = padded[tracks.experiment]  # (tracks, most)
        self.last = np.array([len(s) - 1 for s in stops])[tracks.experiment]
        self.time, self.next = self.stops[:, 0].copy(), np.ones(len(self.stops), int)
        self.largest = np.abs(self.x)
        self.work = 0.0
        self._latest: _Field | None = None
        self.span = self.stops[np.arange(len(self.last)), self.last] - self.time
        self.jumps = _jumps(courses, padded)
        self.wanted = [np.searchsorted(one.stops, one.times) for one in courses.experiments]

    def run(self, differentiable: bool) -> Integrated:
        path = np.full((self.stops.shape[1], *self.x.shape), np.nan)
        path[0] = self.x
        on = np.flatnonzero((self.next <= self.last) & np.isfinite(self.x).all(axis=1))
        step, steps = self._first_step(), []
        set_ = self.settings
        most = (set_.steps + set_.steps_of_stop * self.stops.shape[1]) * max(1.0, 1e-3 / self.rtol) ** 0.25
        limit = np.full(len(self.x), most)
        each = set_.track + set_.square * self.x.shape[1] ** 2
        for round_ in range(int(most)):
            if (late := limit[on] <= round_).any():
                on = on[~late]
            if not len(on):
                break
            self.work += set_.round + each * len(on)
            planned, at, x = step[on], self.time[on], self.x[on]
            gap = self.stops[on, self.next[on]] - at
            lands = planned > 0.99 * gap
            length = np.where(lands, gap, np.minimum(planned, 0.5 * gap))
            ahead, stages, error = self._try(on, at, x, length)
            taken = error <= 1.0
            further = length * np.clip(set_.safety * error**-0.25, set_.shortest, set_.longest)
            # a step cut short to land says nothing against the longer one that was planned
            step[on] = further = np.where(taken & lands, np.maximum(planned, further), further)
            tried = _Steps(on, at, length, x, stages, np.where(lands, self.next[on], -1))
            accepted = tried if taken.all() else _chosen(tried, taken)
            steps += [accepted] if differentiable else []
            self._accept(accepted, ahead if accepted is tried else ahead[taken], path)
            small = ~taken & (further < set_.tiny * self.span[on])
            lost = small | (taken & ~(np.abs(ahead).max(axis=1) < set_.exploded))
            staying = ~lost & (self.next[on] <= self.last[on])
            if not staying.all():
                on = on[staying]
                limit = np.minimum(limit, self._limit(on, round_ + 1))
        path[:, self.next <= self.last] = np.nan
        return Integrated(self, path, steps)

    def _limit(self, on: np.ndarray, rounds: int) -> np.ndarray:
        """(tracks,): how many rounds they may take, where only the last of an experiment's are still on their way."""
        owner, count = self.tracks.experiment, int(self.tracks.experiment.max(initial=-1)) + 1
        arrived = np.bincount(owner[self.next > self.last], minlength=count)
        left = np.bincount(owner[on], minlength=count)
        set_ = self.settings
        few = (arrived >= set_.crowd) & (left <= set_.last * (arrived + left))
        limit: np.ndarray = np.where(few, set_.lag * rounds, np.inf)[owner]
        return limit

    def _first_step(self) -> np.ndarray:
        slope = np.abs(self.slopes.on(np.arange(len(self.x))).value(self.time, self.x))
        set_ = self.settings
        size = np.maximum(self.largest, set_.floor * self.largest.max(axis=1, keepdims=True))
        speed = np.nan_to_num((slope / np.where(size > 0, size, 1.0)).max(axis=1), nan=1e300)
        least, most = set_.first_least * self.span, set_.first_most * self.span
        step: np.ndarray = np.clip(set_.first / np.maximum(speed, TINY), least, most)
        return step

    def _field(self, on: np.ndarray) -> _Field:
        """The right-hand side on these tracks; those of the round before are mostly the same array."""
        if self._latest is None or self._latest.tracks is not on:
            self._latest = self.slopes.on(on)
        return self._latest

    def _try(
        self, on: np.ndarray, time: np.ndarray, x: np.ndarray, length: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States after one step of each track (tracks, states), the stages, and errors relative to the tolerance."""
        h, field, set_ = length[:, None], self._field(on), self.settings
        times: Sequence[np.ndarray] | np.ndarray = [time] * len(STAGES)
        if not self.slopes.autonomous:
            times = _stage_times(time, length, set_.tiny * self.span[on])
        slope, jacobian, by_time = field.linearise(times[0], x, set_.ahead * length)
        inverse = _inverse(_matrix(jacobian, length))
        stages = np.empty((len(STAGES), *x.shape))
        flat = stages.reshape(len(STAGES), -1)
        for k in range(len(STAGES)):
            right = slope
            if k:
                moved, coupled = (SUMS[k] @ flat[:k]).reshape(2, *x.shape)
                here = x + moved
                right = field.value(times[k], here) + coupled / h
            if by_time is not None and STAGE_SLOPES[k]:
                right = right + STAGE_SLOPES[k] * h * by_time
            np.matmul(inverse, right[..., None], out=stages[k][..., None])
        after = here + stages[-1]
        top = np.maximum(np.maximum(np.abs(after), np.abs(x)), set_.floor * self.largest[on])
        top = np.maximum(top, set_.nothing * top.max(axis=1, keepdims=True)) + TINY
        error = (np.abs(stages[-1]) / top).max(axis=1) / self.rtol
        finite = np.isfinite(after).all(axis=1)
        return after, stages, np.where(finite, np.maximum(error, 1e-10), np.inf)

    def _accept(self, taken: _Steps, x: np.ndarray, path: np.ndarray) -> None:
        on, lands = taken.track, taken.landing >= 0
        self.time[on] = np.where(lands, self.stops[on, self.next[on]], self.time[on] + taken.length)
        if self.jumps is not None:
            keep, add = (one[self.tracks.experiment[on], taken.landing] for one in self.jumps)
            x = np.where(lands[:, None], keep * x + add, x)
        self.x[on] = x
        self.largest[on] = np.maximum(self.largest[on], np.abs(x))
        path[taken.landing[lands], on[lands]] = x[lands]
        self.next[on] += lands


def _chosen(steps: _Steps, mask: np.ndarray) -> _Steps:
    return _Steps(
        steps.track[mask],
        steps.time[mask],
        steps.length[mask],
        steps.x[mask],
        steps.stages[:, mask],
        steps.landing[mask],
    )


def _stage_times(time: np.ndarray, length: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """(stages, steps): times of the stages, strictly inside the step: inputs may jump at its ends."""
    last = time + length * (1 - 1e-9)
    first = np.minimum(time + inside, last)
    times: np.ndarray = np.minimum(np.maximum(time + WHEN * length, first), last)
    return times


def _matrix(jacobian: np.ndarray, length: np.ndarray) -> np.ndarray:
    count, states, _ = jacobian.shape
    matrix = -jacobian
    matrix.reshape(count, states * states)[:, :: states + 1] += 1 / (GAMMA * length[:, None])
    return matrix


# ---- derivatives -------------------------------------------------------------------------------------------


def _step_maps(
    slopes: _Slopes, steps: list[_Steps], moved: np.ndarray, settings: RosenbrockSteps
) -> np.ndarray:
    """(steps, states, states + moved): derivative of the states after each step by those before and by parameters."""
    states = steps[0].x.shape[1] if steps else 0
    if not steps:
        return np.zeros((0, states, states + len(moved)))
    every = _Steps(
        np.concatenate([s.track for s in steps]),
        np.concatenate([s.time for s in steps]),
        np.concatenate([s.length for s in steps]),
        np.concatenate([s.x for s in steps]),
        np.concatenate([s.stages for s in steps], axis=1),
        np.concatenate([s.landing for s in steps]),
    )
    count = -(-len(every.track) * states * (states + len(moved)) * 2 * len(STAGES) // settings.memory)
    parts = np.array_split(np.arange(len(every.track)), max(1, count))
    return np.concatenate([_some_maps(slopes, _chosen(every, part), moved, settings) for part in parts])


def _some_maps(slopes: _Slopes, steps: _Steps, moved: np.ndarray, settings: RosenbrockSteps) -> np.ndarray:
    count, states = steps.x.shape
    field, h = slopes.on(steps.track, moved), steps.length[:, None, None]
    times = _stage_times(steps.time, steps.length, settings.tiny * slopes.span[steps.track])
    flat = steps.stages.reshape(len(STAGES), -1)
    here = np.stack(
        [steps.x, *(steps.x + (SUMS[k][0] @ flat[:k]).reshape(steps.x.shape) for k in range(1, 6))]
    )
    size = np.maximum(np.abs(steps.x), settings.floor * np.abs(steps.x).max(axis=1, keepdims=True)) + TINY
    small = settings.beside / np.maximum((np.abs(steps.stages) / size).max(axis=2), TINY)  # (stages, steps)
    beside = steps.x + small[..., None] * steps.stages
    at = field.jacobians(times, here)  # (stages, steps, states, states + moved)
    bend = (field.jacobians(np.broadcast_to(times[0], small.shape), beside) - at[0]) / small[..., None, None]
    by_time = None
    if not slopes.autonomous:
        later = field.jacobians((times[0] + settings.ahead * steps.length)[None], steps.x[None])[0]
        by_time = (later - at[0]) / (settings.ahead * h)
    inverse = _inverse(_matrix(at[0][..., :states], steps.length))
    begin = np.zeros((count, states, states + len(moved)))
    begin[:, np.arange(states), np.arange(states)] = 1.0
    stages = np.empty((len(STAGES), *begin.shape))
    wide = stages.reshape(len(STAGES), -1)
    for k in range(len(STAGES)):
        moved, coupled = (SUMS[k] @ wide[:k]).reshape(2, *begin.shape)
        change = begin + moved
        right = at[k][..., :states] @ change + bend[k] + coupled / h
        right[..., states:] += at[k][..., states:]
        if by_time is not None and STAGE_SLOPES[k]:
            right += STAGE_SLOPES[k] * h * by_time
        np.matmul(inverse, right, out=stages[k])
    return np.asarray(change + stages[-1])


class _Slopes:
    """The right-hand side on tracks."""

    def __init__(self, courses: Courses, tracks: Tracks) -> None:
        self.courses, self.experiment, self.params = courses, tracks.experiment, tracks.params
        self.model = model = courses.model
        rhs = model.rhs
        self.symbolic = isinstance(rhs, BatchedMap)
        self.used = np.arange(len(model.inputs))
        if isinstance(rhs, BatchedMap):
            appearing = {str(s) for e in rhs.expressions for s in e.free_symbols}
            self.used = np.array([k for k, name in enumerate(model.inputs) if name in appearing], int)
        ends = np.array([courses.experiments[e].span for e in tracks.experiment]).reshape(-1, 2)
        self.span = ends[:, 1] - ends[:, 0]
        every = np.arange(len(ends))
        inputs = self.inputs_at(every, ends[:, :1] + np.linspace(0, 1, 5) * self.span[:, None])
        breaks = any(course.varies for course in courses.experiments)
        self.steady = bool((inputs == inputs[:, :1]).all()) and not (breaks and len(self.used))
        self.inputs = inputs[:, 0]  # (tracks, inputs)
        self.autonomous = self.steady and self.symbolic
        if isinstance(rhs, BatchedMap):
            self.autonomous &= not any(TIME in e.free_symbols for e in rhs.expressions)

    def inputs_at(self, on: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(*times, inputs that appear); the i-th times belong to track on[i]."""
        if not len(self.used):
            return np.zeros((*times.shape, 0))
        order = np.argsort(self.experiment[on], kind="stable")
        values = np.empty((*times.shape, len(self.used)))
        values[order] = self.courses.inputs_at(self.experiment[on[order]], times[order])[..., self.used]
        return values

    def on(self, tracks: np.ndarray, moved: np.ndarray | None = None) -> _Field:
        return _Field(self, tracks, np.zeros(0, int) if moved is None else moved)


class _Field:
    """The right-hand side on some tracks, with derivatives by the states, by time and by the moved parameters."""

    def __init__(self, slopes: _Slopes, tracks: np.ndarray, moved: np.ndarray) -> None:
        self.slopes, self.tracks, self.moved = slopes, tracks, moved
        self.params, rhs = slopes.params[tracks], slopes.model.rhs
        self.inputs = slopes.inputs[tracks]
        self.rhs = rhs
        if slopes.symbolic:
            names = tuple(slopes.model.inputs[k] for k in slopes.used)
            self.rhs = _map(rhs, names, tuple(moved.tolist()))
            held = np.setdiff1d(np.arange(self.params.shape[1]), moved)
            self.params, self.held = self.params[:, moved], self.params[:, held]
            if slopes.steady:
                self.inputs = np.concatenate([self.inputs, self.held], axis=1)

    def _arguments(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and inputs at times (tracks,) or (k, tracks)."""
        if self.slopes.steady:
            return self.params, self.inputs
        inputs = np.moveaxis(self.slopes.inputs_at(self.tracks, time.T), 0, -2)
        if not self.slopes.symbolic:
            return self.params, inputs
        held = np.broadcast_to(self.held, (*inputs.shape[:-1], self.held.shape[1]))
        return self.params, np.concatenate([inputs, held], axis=-1)

    def value(self, time: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self.rhs.value(time, x, *self._arguments(time))

    def linearise(
        self, time: np.ndarray, x: np.ndarray, ahead: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """f, its derivative by the states, and by time over a short way ahead (None if time does not appear)."""
        slope, by_state, _ = self.rhs.linearise(time, x, *self._arguments(time))
        if self.slopes.autonomous:
            return slope, by_state, None
        later = self.value(time + ahead, x)
        return slope, by_state, (later - slope) / ahead[:, None]

    def jacobians(self, time: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(k, tracks, states, states + moved) at times (k, tracks) and states (k, tracks, states)."""
        _, by_state, by_params = self.rhs.linearise(time, x, *self._arguments(time))
        if not self.slopes.symbolic:
            by_params = by_params[..., self.moved]
        return np.concatenate([by_state, by_params], axis=-1)


@lru_cache(maxsize=16)
def _map(rhs: BatchedMap, inputs: tuple[str, ...], moved: tuple[int, ...]) -> BatchedMap:
    """The right-hand side with derivatives by the moved parameters only: the others take the place of inputs."""
    held = [name for k, name in enumerate(rhs.parameters) if k not in moved]
    return BatchedMap(rhs.expressions, rhs.states, [rhs.parameters[k] for k in moved], (*inputs, *held))


def _jumps(courses: Courses, stops: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """keep and add (experiments, stops, states) of the jumps x+ = keep x + add at stops; None without doses."""
    if all(course.jumps is None for course in courses.experiments):
        return None
    shape = (*stops.shape, len(courses.model.states))
    keep, add = np.ones(shape), np.zeros(shape)
    for e, course in enumerate(courses.experiments):
        inside = None if course.jumps is None else course.jumps.part(np.isin(course.jumps.times, stops[e]))
        if inside is not None:
            rows = np.searchsorted(stops[e], inside.times)
            keep[e, rows], add[e, rows] = inside.keep, inside.add
    return keep, add


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Batched inverse; NaN where a matrix is not finite or singular."""
    try:
        if np.isfinite(matrix.sum()):
            return np.linalg.inv(matrix)
        finite = np.isfinite(matrix).all(axis=(-1, -2), keepdims=True)
        return np.where(finite, np.linalg.inv(np.where(finite, matrix, np.eye(matrix.shape[-1]))), np.nan)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)  # shorter steps make it regular
