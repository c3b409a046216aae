"""Independent integration with SciPy: the second opinion behind certificates, `problem.loss` and `simulate`.

Nothing here knows the Picard operator. LSODA, which switches between Adams and BDF formulas by itself, integrates
many runs as one large system: the piece of every run between two of its breaks is mapped to tau in [0, 1], so that
runs with different horizons go together. If such a stack fails, each of its runs is tried alone, in its own unit of
time, with LSODA and then Radau. (LSODA through `odeint` spends little time in Python between evaluations; DOP853 step
by step takes three times as long for the same accuracy.)
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from picardfit.formulas.kernels import BatchedMap
from picardfit.model.doses import Jumps
from picardfit.model.increments import differenced
from picardfit.model.inputs import Input, Table, values_at
from picardfit.model.model import Model
from picardfit.simulation.cvode import CVODE
from picardfit.simulation.event_location import integrate
from picardfit.simulation.pieces import Piece, piece_of
from picardfit.simulation.side_by_side import SideBySide, march

_ONE_AT_A_TIME = Lock()  # older versions of LSODA share their state between threads


@dataclass(frozen=True)
class Budget:
    """Evaluations of the right-hand side after which an attempt is given up; all are choices."""

    attempt: int = 60_000
    piece: int = 500  # more for each piece between breaks, where the integrator restarts
    row: int = 100  # more for each row of a table in between: the integrator slows down at the slightest kink
    sample: int = 50  # more for each sample: long runs have many


@dataclass(frozen=True)
class Explosion:
    """A run that has grown by `growth` and still grows at `rate` counts as a blow-up in finite time."""

    growth: float = 1e6  # relative to the largest state so far, and at least 1
    rate: float = 1e11  # |slope| times the length of the piece over the state: no fast mode is as steep
    every: int = 200  # evaluations between two checks: a check costs about as much as an evaluation


@dataclass(frozen=True)
class Tolerance:
    """How the requested relative accuracy becomes the tolerances of the integrators."""

    margin: float = 20  # LSODA gets rtol / margin: errors of single steps add up, chaotic runs multiply them
    radau_margin: float = 10  # the same for Radau, whose error estimate is more cautious
    finest: float = 5e-14  # below this relative tolerance rounding errors stop the methods
    floor: float = 1e-4  # fraction of its first size down to which a component has relative accuracy
    growth: float = (
        0.01  # a component that begins at 0 has the size it reaches while the others change by this
    )
    least: float = 1e-12  # smallest size of a component, as a fraction of the largest
    coarse: float = (
        1e-6  # relative tolerance, and absolute one beside the largest state, of a run that tells sizes
    )
    search: float = 1e-8  # relative tolerance when only the time that a run reaches is wanted
    rounding: tuple[float, ...] = (
        4e-3,
        0.4,
    )  # of the noise that rounding may cause at most (`rounding`): least
    # absolute tolerances of further attempts; a step sees only the noise of its own length


@dataclass(frozen=True)
class Integration:
    """Settings of the independent integration."""

    smallest_stack: int = 20  # fewer runs are faster one by one (docs/decisions/023-likelihoods.md)
    stack_per_state: float = 1.0  # more runs that a stack needs for each state of the model
    most_states: int = 40  # of models whose runs are stacked: beyond, the band of a stack is too wide
    engine: CVODE | None = None  # in place of the methods below, which follow where it fails
    side_by_side: SideBySide | None = field(default=SideBySide())  # None: never
    fallback: bool = True  # whether Radau follows where LSODA fails, which may take a second
    largest_stack: int = 128  # the most difficult run decides the step of a stack, so larger ones waste work
    budget: Budget = Budget()
    explosion: Explosion = Explosion()
    tolerance: Tolerance = Tolerance()


SCIPY_ALONE = Integration(side_by_side=None)  # a second opinion on paths of collocation is no collocation


@dataclass(frozen=True, eq=False)
class Run:
    """One initial value problem: `initial` (states,) holds at t0; states are wanted at `times` (k,)."""

    t0: float
    initial: np.ndarray
    params: np.ndarray  # (model parameters,)
    inputs: Mapping[str, Input]
    times: np.ndarray  # ascending
    breaks: tuple[float, ...] = ()  # where the right-hand side may jump or kink
    jumps: Jumps | None = (
        None  # of the states, later than t0; a state wanted at such a time is the one after it
    )
    sizes: np.ndarray | None = (
        None  # (states,): how large each state is by what a user said of it; 0: not known
    )
    begun: bool = False  # whether the system has run before t0, so that no event fires there by itself

    @property
    def rows(self) -> int:
        """Rows of all tables among the inputs."""
        return sum(len(one.times) for one in self.inputs.values() if isinstance(one, Table))

    @property
    def span(self) -> tuple[float, float]:
        """t0 and the last time."""
        return self.t0, float(self.times[-1]) if len(self.times) else self.t0

    @property
    def edges(self) -> np.ndarray:
        """(pieces + 1,): t0, the breaks inside the run, the last time."""
        last = self.span[1]
        breaks = self.breaks if self.jumps is None else (*self.breaks, *self.jumps.times)
        inside = sorted({float(b) for b in breaks if self.t0 < b < last})
        return np.array([self.t0, *inside, last])


def trajectories(
    model: Model,
    runs: Sequence[Run],
    rtol: float = 1e-10,
    atol: np.ndarray | None = None,
    settings: Integration = Integration(),
) -> list[np.ndarray | None]:
    """The states (k, states) of each run at its times; None where every method failed.

    `rtol` is the wanted relative accuracy of the answer; single steps get a twentieth of it (a tenth with Radau).
    `atol` (states,) is absolute; by default it is 1e-4 times the relative tolerance times the first size of each
    component: its initial value, or, if that is 0, what it grows to while the others change by one percent.
    """
    runs = [_with_switches(model, run) for run in runs]
    if model.events:
        return [integrate(model, run, rtol).states for run in runs]
    answers: list[np.ndarray | None] = [None] * len(runs)
    together: dict[int, list[int]] = defaultdict(list)
    for k, run in enumerate(runs):
        if not (np.isfinite(run.initial).all() and np.isfinite(run.params).all()):
            continue
        if len(run.times) == 0 or run.times[-1] <= run.t0:
            answers[k] = np.tile(np.asarray(run.initial, float), (len(run.times), 1))
        else:
            together[len(run.edges)].append(k)
    size = settings.largest_stack
    stacks = [keys[first : first + size] for keys in together.values() for first in range(0, len(keys), size)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for stack in stacks:
            solved = _stacked(model, [runs[k] for k in stack], rtol, atol, settings)
            for k, states in zip(stack, solved, strict=True):
                answers[k] = states
    return answers


def _with_switches(model: Model, run: Run) -> Run:
    """The run with breaks where its own parameters switch the right-hand side."""
    times = model.switch_times(run.params, run.inputs, run.span)
    return replace(run, breaks=(*run.breaks, *times)) if times else run


def last_time(model: Model, run: Run, settings: Integration = Integration()) -> float:
    """The time that the integration of a run reaches: its last time, or about where it explodes."""
    if model.events:
        return integrate(model, run, settings.tolerance.search).reached
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        watchful = replace(settings, explosion=replace(settings.explosion, every=1))
        attempt = _Attempt(model, [run], settings.tolerance.search, None, watchful)
        attempt.lsoda()
    return float(np.clip(attempt.reached, run.t0, run.edges[-1]))


def observed(model: Model, run: Run, states: np.ndarray) -> np.ndarray:
    """The observables (k, observables) of a run whose states (k, states) are known.

    Increments are since the last earlier of its times, the first since t0.
    """
    inputs = values_at(run.inputs, model.inputs, run.times)
    values = model.output.value(run.times, states, run.params, inputs)
    if not model.increments:
        return values
    begin = np.array([run.t0])
    first = model.output.value(
        begin, run.initial[None], run.params, values_at(run.inputs, model.inputs, begin)
    )
    return differenced(model, run.times, values, first[0])


def _stacked(
    model: Model, runs: list[Run], rtol: float, atol: np.ndarray | None, settings: Integration
) -> list[np.ndarray | None]:
    if settings.engine is not None:
        return [_by_engine(settings.engine, model, run, rtol, atol, settings) for run in runs]
    beside = settings.side_by_side
    if beside is not None and beside.pays(model.rhs, len(runs), rtol, max(run.rows for run in runs)):
        attempt = _Attempt(model, runs, max(beside.share * rtol, beside.finest), atol, settings)
        solved = attempt.side_by_side(beside)
        return [
            _alone(model, run, rtol, atol, settings) if states is None else states
            for run, states in zip(runs, solved, strict=True)
        ]
    states = len(model.states)
    fewest = settings.smallest_stack + settings.stack_per_state * states
    if len(runs) >= fewest and states <= settings.most_states:
        attempt = _Attempt(model, runs, rtol / settings.tolerance.margin, atol, settings)
        if attempt.lsoda():
            return list(attempt.found)
    return [_alone(model, run, rtol, atol, settings) for run in runs]


def _by_engine(
    engine: CVODE, model: Model, run: Run, rtol: float, atol: np.ndarray | None, settings: Integration
) -> np.ndarray | None:
    attempt = _Attempt(model, [run], rtol / engine.margin, atol, settings)
    if attempt.cvode(engine):
        return attempt.found[0]
    return None if attempt.exploded else _alone(model, run, rtol, atol, settings)


def _alone(
    model: Model, run: Run, rtol: float, atol: np.ndarray | None, settings: Integration
) -> np.ndarray | None:
    attempt = _Attempt(model, [run], rtol / settings.tolerance.margin, atol, settings)
    if attempt.lsoda():
        return attempt.found[0]
    if attempt.exploded or not settings.fallback:
        return None
    noise, used = attempt.rounding(), attempt.used
    learned = None if atol is not None else _learned(model, run, attempt, settings)
    if learned is not None:
        attempt = _Attempt(model, [run], rtol / settings.tolerance.margin, learned, settings)
        if attempt.lsoda():
            return attempt.found[0]
    for least in settings.tolerance.rounding:
        if not (least * noise > used).any():
            continue  # the attempt would be the same
        attempt = _Attempt(model, [run], rtol / settings.tolerance.margin, atol, settings, least * noise)
        if attempt.lsoda():
            return attempt.found[0]
    attempt = _Attempt(model, [run], rtol / settings.tolerance.radau_margin, atol, settings, attempt.noise)
    return attempt.found[0] if attempt.radau() else None


def _learned(model: Model, run: Run, failed: _Attempt, settings: Integration) -> np.ndarray | None:
    """(states,): absolute tolerances by the sizes that states reach; None where they would be hardly larger.

    A state that rests at zero until another one crosses a threshold has no size to begin with, and no step is short
    enough to follow its kink with relative accuracy. A coarse run tells the sizes.
    """
    ours, top = settings.tolerance, max(float(np.abs(run.initial).max(initial=0.0)), np.finfo(float).tiny)
    coarse = _Attempt(model, [run], ours.coarse, None, settings, ours.coarse * top)
    if not coarse.lsoda():
        return None
    size = np.maximum(np.abs(coarse.found[0]).max(axis=0, initial=0.0), coarse.size[0])
    atol: np.ndarray = ours.floor * failed.rtol * np.maximum(size, ours.least * size.max())
    return atol if (atol > 10 * failed.used).any() else None


class _Failure(Exception):
    """Stops an integrator from inside the right-hand side: too many evaluations, or an explosion."""


class _Attempt:
    """Runs with equally many pieces, integrated piece by piece with one method and one budget."""

    def __init__(
        self,
        model: Model,
        runs: list[Run],
        rtol: float,
        atol: np.ndarray | None,
        settings: Integration,
        noise: float | np.ndarray = 0.0,  # (states,): what no absolute tolerance may fall below
    ) -> None:
        self.settings, self.noise = settings, noise
        self.runs, self.rtol, self.atol = runs, max(rtol, settings.tolerance.finest), atol
        self.edges = edges = np.array([run.edges for run in runs])  # (runs, pieces + 1)
        params, signals = [run.params for run in runs], [run.inputs for run in runs]
        self.pieces = [piece_of(model, params, signals, *pair) for pair in pairwise(edges.T)]
        self.x = np.array([run.initial for run in runs], float)  # (runs, states)
        self.size = np.abs(self.x)  # (runs, states): the largest so far, at the ends of pieces
        self.found = [np.tile(x, (len(run.times), 1)) for x, run in zip(self.x, runs, strict=True)]
        told = [np.zeros(len(run.initial)) if run.sizes is None else run.sizes for run in runs]
        self.told = np.where(np.array(told) > 0, told, np.inf)  # (runs, states)
        self.jumping = [(r, run.jumps) for r, run in enumerate(runs) if run.jumps is not None]
        budget, samples = settings.budget, max(len(run.times) for run in runs)
        rows = max(run.rows for run in runs)
        self.budget = budget.attempt + budget.piece * len(self.pieces) + budget.sample * samples
        self.budget += budget.row * rows
        self.calls, self.exploded, self.reached = 0, False, runs[0].t0
        self.used: float | np.ndarray = 0.0  # (runs * states,): the last absolute tolerance
        self.seen: tuple[Piece, float, np.ndarray] | None = None  # where the right-hand side was last checked

    def lsoda(self) -> bool:
        """True if all runs were integrated to their ends."""
        from scipy.integrate import odeint

        width = self.x.shape[1]
        for k, piece in enumerate(self.pieces):
            grid, positions = self._samples(k)
            self.used = self._tolerance(piece)
            options: dict[str, Any] = {"rtol": self.rtol, "atol": self.used, "tcrit": [piece.end]}
            if len(self.runs) == 1:
                options["Dfun"] = piece.jacobian
            else:
                options |= {"ml": width - 1, "mu": width - 1}
                if isinstance(piece.rhs, BatchedMap):
                    options["Dfun"] = piece.band
            options |= {"mxstep": self.settings.budget.attempt, "tfirst": True, "full_output": True}
            try:
                with _ONE_AT_A_TIME:
                    path, report = odeint(self._watched(piece), self.x.ravel(), grid, **options)
            except _Failure:
                return False
            if report["message"] != "Integration successful." or not np.isfinite(path).all():
                return False
            self._store(k, path, positions)
        return True

    def cvode(self, engine: CVODE) -> bool:
        """True if a single run was integrated to its end by CVODE."""
        for k, piece in enumerate(self.pieces):
            grid, positions = self._samples(k)
            tolerances = self.rtol, self._tolerance(piece)
            try:
                path = engine.solved(self._watched(piece), piece.jacobian, self.x.ravel(), grid, *tolerances)
            except _Failure:
                return False
            if path is None:
                return False
            self._store(k, path, positions)
        return True

    def side_by_side(self, settings: SideBySide) -> list[np.ndarray | None]:
        """The states of each run at its times, by steps of its own; None where they were given up."""
        for k, piece in enumerate(self.pieces):
            wanted = self._wanted(k)
            atol = self._tolerance(piece).reshape(self.x.shape)
            largest = self.settings.explosion.growth * np.maximum(np.nanmax(self.size), 1.0)
            marched = march(piece, self.x, [tau for _, tau in wanted], self.rtol, atol, largest, settings)
            for found, (rows, _), states in zip(self.found, wanted, marched.found, strict=True):
                found[rows] = states
            self._end(k, marched.ends)
        arrived = np.isfinite(self.x).all(axis=1)
        return [found if good else None for found, good in zip(self.found, arrived, strict=True)]

    def radau(self) -> bool:
        """True if a single very stiff run was integrated to its end, by an implicit Runge-Kutta method."""
        from scipy.integrate import Radau

        for k, piece in enumerate(self.pieces):
            grid, positions = self._samples(k)
            path, done = [self.x.ravel()], 1
            options: dict[str, Any] = {
                "rtol": self.rtol,
                "atol": self._tolerance(piece),
                "jac": piece.jacobian,
            }
            try:
                solver = Radau(self._watched(piece), 0.0, path[0], piece.end, **options)
                while solver.status == "running":
                    solver.step()
                    stop = int(np.searchsorted(grid, solver.t, side="right"))
                    if stop > done and solver.status != "failed":
                        path += list(solver.dense_output()(grid[done:stop]).T)
                        done = stop
            except (_Failure, ValueError):  # SciPy refuses Jacobians that are not finite by a ValueError
                return False
            if solver.status == "failed" or not np.isfinite(path).all():
                return False
            self._store(k, np.array(path), positions)
        return True

    def _wanted(self, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each run: which of its times are in piece k, and their tau."""
        piece, wanted = self.pieces[k], []
        for r, (run, edges) in enumerate(zip(self.runs, self.edges[:, k : k + 2], strict=True)):
            rows = np.arange(*np.searchsorted(run.times, edges, side="right"))
            wanted.append((rows, (run.times[rows] - piece.start[r]) / piece.length[r, 0]))
        return wanted

    def _samples(self, k: int) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """The tau wanted in piece k, with its ends; for each run (rows of its times, their positions in that grid)."""
        piece, wanted = self.pieces[k], self._wanted(k)
        grid = np.unique(np.concatenate([[0.0, piece.end], *(tau for _, tau in wanted)]))
        return grid, [(rows, np.searchsorted(grid, tau)) for rows, tau in wanted]

    def _store(self, k: int, path: np.ndarray, positions: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Keep the states that are wanted in piece k."""
        path = path.reshape(len(path), *self.x.shape)  # (grid, runs, states)
        for r, (rows, position) in enumerate(positions):
            self.found[r][rows] = path[position, r]
        self._end(k, path[-1])

    def _end(self, k: int, x: np.ndarray) -> None:
        """Go on from the states (runs, states) at the end of piece k, after the jumps there."""
        self.x = x
        for r, jumps in self.jumping:
            end = self.edges[r, k + 1]
            self.x[r] = jumps.at(end, self.x[r])
            self.found[r][self.runs[r].times == end] = self.x[r]
        self.size = np.maximum(self.size, np.abs(self.x))

    def _tolerance(self, piece: Piece) -> np.ndarray:
        """(runs * states,): absolute tolerance in a piece that starts at the current states."""
        if self.atol is not None:
            return np.tile(self.atol, len(self.runs))
        slope = np.abs(piece.function()(0.0, self.x.ravel())).reshape(self.x.shape) * piece.end
        speed = np.max(slope / np.where(self.size > 0, self.size, np.inf), axis=1, keepdims=True)
        ours = self.settings.tolerance
        size = np.where(self.size > 0, self.size, ours.growth * slope / np.maximum(speed, ours.growth))
        top = size.max(axis=1, keepdims=True)
        size = np.maximum(size, ours.least * np.minimum(np.where(top > 0, top, 1.0), self.told))
        return np.maximum(ours.floor * self.rtol * np.nan_to_num(size, nan=1.0), self.noise).ravel()

    def rounding(self) -> np.ndarray:
        """(states,): how accurately floats determine each state of a single run, at worst, where it was last seen.

        Rounding changes x_j by eps |x_j| and the slope of x_i by eps sum_j |f_ij x_j|, with f_ij = df_i/dx_j. Over the
        time 1/|f_ii| in which x_i forgets, or over the whole run, that adds up to the noise. It is far below the
        relative tolerance unless large flows cancel: the difference of two states of 1e9 is known to 1e-7.
        """
        if self.seen is None:
            return np.zeros(self.x.shape[1])
        piece, tau, x = self.seen
        slopes = np.abs(piece.jacobian(tau, x))
        forgetting = np.maximum(np.diagonal(slopes), 1 / (self.edges[0, -1] - self.edges[0, 0]))
        noise = np.finfo(float).eps * (slopes @ np.maximum(self.size[0], np.abs(x)))
        return np.nan_to_num(noise / forgetting, nan=0.0, posinf=0.0)

    def _watched(self, piece: Piece):
        """The right-hand side, which raises _Failure if it is called too often or if a run explodes."""
        explosion = self.settings.explosion
        limit = explosion.growth * np.maximum(self.size.max(), 1.0)
        function, span, every, rate = piece.function(), piece.end, explosion.every, explosion.rate
        left = every  # evaluations until the next check

        def slopes(tau, flat):
            nonlocal left
            left -= 1
            if left:
                return function(tau, flat)
            left = every
            self.calls += every
            slope = function(tau, flat)
            if np.isfinite(slope).all():
                self.reached = piece.start[0] + tau * piece.length[0, 0]
                self.seen = piece, tau, np.array(flat)
            fast = (np.abs(flat) > limit) & ~(np.abs(slope) * span < rate * np.abs(flat))
            self.exploded = bool(fast.any())
            if self.exploded or self.calls > self.budget:
                raise _Failure
            return slope

        return slopes
