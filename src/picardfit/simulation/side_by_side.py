"""Many runs side by side, each with steps of its own: implicit Runge-Kutta steps of high order in one array.

All runs take a step at once, each of its own length. Radau IIA with many stages (radau.py) takes 20 to 60 steps where a
multistep method takes a thousand, and evaluates all stages of all runs in one call: hundreds of points share what an
operation of NumPy costs. Newton's method starts from the polynomial of the step before. The error estimate

    e = gamma N (h f(t, y) - h p(t)),    N = (I - gamma h J)^-1,

compares the slope at the start of a step with the polynomial p through the slopes at the nodes. It is of order
stages + 1, as is the error of the polynomial between the nodes, which gives the states at the sampling times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from picardfit.formulas.kernels import BatchedMap, Evaluation
from picardfit.simulation.pieces import Piece
from picardfit.simulation.radau import radau
from picardfit.simulation.step_matrices import StepMatrices, step_matrices

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class SideBySide:
    """How runs are integrated side by side, and when. Measured in docs/decisions/023-likelihoods.md."""

    stages: int = 9  # fastest of 5, 7, 9, 11 and 13 at accuracies of 1e-8 to 1e-10
    pole: float = 0.085  # gamma: where the worst convergence factor of Newton's method is least (0.56)
    share: float = 1.0  # tolerance of a step over the accuracy wanted: errors stay below it
    finest: float = 1e-13  # relative tolerance below which rounding errors decide
    rounds: int = 14  # of Newton's method in a step
    exact: float = 0.03  # error that Newton's method may leave, over the tolerance
    fewer: float = 0.7  # share of runs left in Newton's method at which the others are dropped
    worth: int = 5000  # numbers in the stages that are left, for which that costs less than it gains
    diverging: float = 2.0  # growth of a correction at which Newton's method gives up
    safety: float = 0.9  # of the next step's length
    shortest: float = 0.2  # change of the length from step to step, at least
    longest: float = 5.0  # and at most
    retried: float = 0.4  # the same after Newton's method gave up
    first: float = 0.01  # relative change of the states in the first step
    nothing: float = 1e-14  # length of a step, relative to the piece, at which a run is given up
    steps: int = 600  # in a piece; a run that needs more is left to other methods
    loosest: float = 1e-6  # relative accuracy wanted from which on low orders are cheaper
    least_states: int = 5  # with fewer, stacks of runs are as fast
    least_size: int = 100  # states times runs, of at least two runs
    alone: int = 60  # states from which on also a single run gains
    grouped: int = 8  # states from which on equal operations go together (wide.py)
    sparse: int = 200  # states from which on matrices are sparse

    def pays(self, rhs: object, runs: int, rtol: float, rows: int) -> bool:
        """Whether runs are faster side by side than one by one.

        At kinks a high order has no advantage: of the right-hand side, or at the rows of tables (how many there are).
        """
        if not isinstance(rhs, BatchedMap) or rhs.kinked or rows or rtol > self.loosest:
            return False
        states = len(rhs.states)
        together = runs > 1 and states >= self.least_states and runs * states >= self.least_size
        return states >= self.alone or together


@dataclass(frozen=True, eq=False)
class Marched:
    """Where a piece led."""

    ends: np.ndarray  # (runs, states), NaN for runs that were given up
    found: list[np.ndarray]  # of each run: the states at its times


def march(
    piece: Piece,
    x: np.ndarray,
    times: Sequence[np.ndarray],
    rtol: float,
    atol: np.ndarray,
    largest: float,
    settings: SideBySide,
) -> Marched:
    """Runs that start at x (runs, states) through a piece, with the states at ascending times tau of each run.

    `atol` (runs, states): absolute tolerances. A run that exceeds `largest`, or that needs too many steps, is given up.
    """
    return _March(piece, x, times, rtol, atol, largest, settings).run()


class _March:
    """Runs on their way through a piece. Stages are (states, runs, stages), relative to the start of the step."""

    def __init__(
        self,
        piece: Piece,
        x: np.ndarray,
        times: Sequence[np.ndarray],
        rtol: float,
        atol: np.ndarray,
        largest: float,
        settings: SideBySide,
    ) -> None:
        self.settings, self.method = settings, radau(settings.stages, settings.pole)
        self.field, self.end = _Field(piece, settings), piece.end
        self.times, self.rtol, self.atol, self.largest = times, rtol, atol, largest
        runs, states = x.shape
        self.x, self.tau = x.copy(), np.zeros(runs)
        self.found = [np.full((len(one), states), np.nan) for one in times]
        self.next = np.zeros(runs, int)  # the first of its times that is still ahead of a run
        self.awaited = np.array([one[0] if len(one) else np.inf for one in times])
        self.stages = np.zeros((states, runs, settings.stages))  # of the step before
        self.length = np.ones(runs)  # of the step before
        self.planned = np.zeros(runs)

    def run(self) -> Marched:
        everyone = np.arange(len(self.x))
        slope = self.field.value(everyone, self.tau[:, None], self.x.T[:, :, None])[:, :, 0]
        speed = (np.abs(slope.T) / (np.abs(self.x) + 100 * self.atol / self.rtol + TINY)).max(axis=1)
        self.planned = np.minimum(self.settings.first / np.maximum(speed, TINY), self.end / 10)
        self.stages[:] = (
            slope[:, :, None] * self.method.nodes
        )  # as if a step of length 1 had gone straight on
        on = everyone[np.isfinite(slope).all(axis=0)]
        for _ in range(self.settings.steps):
            if not len(on):
                break
            on = self._step(on)
        self._give_up(self.tau < self.end)
        return Marched(self.x, self.found)

    def _give_up(self, which: np.ndarray) -> None:
        self.x[which] = np.nan

    def _step(self, on: np.ndarray) -> np.ndarray:
        """One step of every run that is on its way; those that still are."""
        ours, gap = self.settings, self.end - self.tau[on]
        length = np.where(self.planned[on] > 0.99 * gap, gap, self.planned[on])
        slopes = self.field.slopes(on, self.tau[on], np.ascontiguousarray(self.x[on].T))
        matrices = step_matrices(self.field.rhs, (ours.pole * length)[:, None] * slopes, ours.sparse)
        stages, slope, converged = self._newton(on, length, matrices)
        after = self.x[on] + stages[:, :, -1].T
        error = self._error(on, length * slope, stages, matrices)
        taken = converged & (error <= 1.0) & np.isfinite(after).all(axis=1)
        factor = ours.safety * np.maximum(error, TINY) ** (-1 / (ours.stages + 1))
        factor = np.where(
            converged, np.clip(np.nan_to_num(factor), ours.shortest, ours.longest), ours.retried
        )
        # a step cut short to land says nothing against the longer one that was planned
        least = np.where(taken & (length == gap), self.planned[on], 0.0)
        self.planned[on] = np.maximum(length * factor, least)
        kept = np.flatnonzero(taken)
        self._accept(on[kept], after[kept], stages[:, kept], length[kept], length[kept] == gap[kept])
        lost = (self.planned[on] < ours.nothing * self.end) | (np.abs(self.x[on]).max(axis=1) > self.largest)
        going = ~lost & (self.tau[on] < self.end)
        return on if going.all() else on[going]  # what is known of these runs stays known

    def _accept(
        self, on: np.ndarray, after: np.ndarray, stages: np.ndarray, length: np.ndarray, lands: np.ndarray
    ) -> None:
        ends = np.where(lands, self.end, self.tau[on] + length)
        self._sample(on, stages, length, ends)
        self.tau[on], self.x[on] = ends, after
        self.stages[:, on], self.length[on] = stages, length

    def _sample(self, on: np.ndarray, stages: np.ndarray, length: np.ndarray, ends: np.ndarray) -> None:
        """Keep the states at the times of runs between the start and the end of their step."""
        passed = np.flatnonzero(self.awaited[on] <= ends)
        if not len(passed):
            return
        upto = [int(np.searchsorted(self.times[on[k]], ends[k], side="right")) for k in passed]
        counts = [stop - self.next[on[k]] for k, stop in zip(passed, upto, strict=True)]
        which = np.repeat(passed, counts)
        wanted = np.concatenate(
            [self.times[on[k]][self.next[on[k]] : s] for k, s in zip(passed, upto, strict=True)]
        )
        weights = self.method.weights((wanted - self.tau[on[which]]) / length[which])[:, 1:]
        states = self.x[on[which]] + np.einsum("nks,ks->kn", stages[:, which], weights)
        for k, stop, mine in zip(passed, upto, np.split(states, np.cumsum(counts)[:-1]), strict=True):
            run = on[k]
            self.found[run][self.next[run] : stop] = mine
            self.next[run] = stop
            self.awaited[run] = self.times[run][stop] if stop < len(self.times[run]) else np.inf

    def _scale(self, on: np.ndarray, stages: np.ndarray) -> np.ndarray:
        """(states, runs): the tolerance of each state in a step."""
        x = self.x[on].T
        scale: np.ndarray = self.rtol * np.maximum(np.abs(x), np.abs(x + stages[:, :, -1])) + self.atol[on].T
        return scale

    def _error(
        self, on: np.ndarray, start: np.ndarray, stages: np.ndarray, matrices: StepMatrices
    ) -> np.ndarray:
        """(runs,): the estimated error over the tolerance; `start` is the length times the slope at the start."""
        slopes = stages @ self.method.inverse.T  # h f at the nodes
        defect = self.settings.pole * (start - slopes @ self.method.at_start)
        error = matrices.solve(np.ascontiguousarray(defect.T)[:, :, None])[:, :, 0]
        largest: np.ndarray = np.abs(error.T / self._scale(on, stages)).max(axis=0)
        return np.where(np.isfinite(largest), largest, np.inf)

    def _predicted(self, on: np.ndarray, length: np.ndarray) -> np.ndarray:
        """The stages that the polynomial of the step before gives."""
        places = 1 + (length / self.length[on])[:, None] * self.method.nodes
        weights = self.method.weights(places)[..., 1:]  # (runs, new stages, old stages)
        before = self.stages[:, on]
        ahead = np.matmul(before.transpose(1, 0, 2), weights.transpose(0, 2, 1)).transpose(1, 0, 2)
        stages: np.ndarray = ahead - before[:, :, -1:]
        return stages

    def _newton(
        self, on: np.ndarray, length: np.ndarray, matrices: StepMatrices
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The stages of a step, the slopes (states, runs) at its start, and which runs converged."""
        ours, method = self.settings, self.method
        every = self._predicted(on, length)
        converged = np.zeros(len(on), bool)
        todo = np.arange(len(on))  # runs that have not converged
        stages, runs, start = every, on, np.ascontiguousarray(self.x[on].T)[:, :, None]
        scale, before = self._scale(on, every), np.full(len(on), np.inf)
        tau = self.tau[on][:, None] + length[:, None] * np.append(0.0, method.nodes)
        everywhere = np.concatenate([start, start + stages], axis=2)
        values = self.field.value(on, tau, everywhere)
        slope, values, tau = values[:, :, 0], values[:, :, 1:], tau[:, 1:]
        for _ in range(ours.rounds):
            residual = (values * length[todo, None]) @ method.matrix.T - stages
            change = matrices.change(residual, method.powers)
            stages = stages + change
            size = (np.abs(change).max(axis=2) / scale).max(axis=0)
            rate = np.minimum(size / before, 0.99)
            rate[np.isinf(before)] = 0.9  # before the first round it is not known
            done = size * rate / (1 - rate) < ours.exact
            failed = ~(size <= ours.diverging * before)
            before = np.maximum(size, TINY)
            every[:, todo], converged[todo] = stages, done & ~failed
            going = ~(done | failed)
            if not going.any():
                break
            left = going.sum()
            if left <= ours.fewer * len(going) and left * stages[:, 0].size >= ours.worth:
                todo, runs, before, tau = todo[going], runs[going], before[going], tau[going]
                stages, start, scale = stages[:, going], start[:, going], scale[:, going]
                matrices = matrices.of(going)
            values = self.field.value(runs, tau, start + stages)
        return every, slope, converged


class _Field:
    """The right-hand side of a piece at several points of several runs."""

    def __init__(self, piece: Piece, settings: SideBySide) -> None:
        assert isinstance(piece.rhs, BatchedMap)
        self.piece, self.rhs = piece, piece.rhs
        self.grouped = len(self.rhs.states) >= settings.grouped
        self.unit = bool((piece.length == 1.0).all())
        self.common = bool((piece.params == piece.params[0]).all())
        self.runs = np.zeros(0)  # whose functions are known
        self.known: dict[
            tuple[bool, int], Evaluation
        ] = {}  # by whether they are slopes, and points of each run

    def value(self, on: np.ndarray, tau: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(states, runs, points): derivatives by tau at tau (runs, points) and x (states, runs, points)."""
        out = np.empty((len(x), tau.size))
        self._evaluate(False, on, tau, x.reshape(len(x), -1), out)
        values = out.reshape(x.shape)
        return values if self.unit else values * self.piece.length[on]

    def slopes(self, on: np.ndarray, tau: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(runs, entries): derivatives by states, entries as `state_entries` has them, at tau (runs,)."""
        out = np.empty((len(self.rhs.state_entries[0]), len(tau)))
        self._evaluate(True, on, tau[:, None], x, out)
        return out.T * self.piece.length[on]

    def _evaluate(
        self, slopes: bool, on: np.ndarray, tau: np.ndarray, x: np.ndarray, out: np.ndarray
    ) -> None:
        piece, points = self.piece, tau.shape[1]
        time = piece.start[on, None] + tau * piece.length[on]
        time = np.minimum(np.maximum(time, piece.first[on, None]), piece.last[on, None]).ravel()
        if self.runs is not on:
            self.runs, self.known = on, {}
        if (slopes, points) not in self.known:
            self.known[slopes, points] = self._function(slopes, on, points)
        self.known[slopes, points](time, x, self._inputs(on, time, points), out)

    def _function(self, slopes: bool, on: np.ndarray, points: int) -> Evaluation:
        params = self.piece.params[on].T
        params = params[:, :1] if self.common else np.repeat(params, points, axis=1)
        return self.rhs.evaluation(slopes, self.grouped, params, len(on) * points)

    def _inputs(self, on: np.ndarray, time: np.ndarray, points: int) -> np.ndarray:
        """(inputs, runs * points)."""
        inputs = np.repeat(self.piece.inputs[on].T, points, axis=1)
        if self.piece.varying:
            owner = np.repeat(on, points)
            for source, column, rows in self.piece.varying:
                mine = np.isin(owner, rows)
                inputs[column, mine] = source.at(time[mine])
        return inputs
