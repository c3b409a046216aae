"""Starts by simulation: many candidates integrated side by side, the best improved by single shooting.

For problems whose guessed paths lead nowhere: stiff oscillators, whose jumps lie between the samples, and bounds of
many decades. Candidates spread evenly over the bounds are integrated at a loose tolerance (marching.py); what their
predictions cost, at their best noise levels, ranks them. The best go downhill together by Levenberg-Marquardt steps
whose derivatives are differences between lanes that take the same steps in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from picardfit.condense import solve_box
from picardfit.levels import fit_levels, smoothed
from picardfit.marching import Tracks, march
from picardfit.problem import Problem
from picardfit.solvers.iterate import Solution
from picardfit.starts import candidates
from picardfit.terms import whitened
from picardfit.uncertainty.sensitivities import on_mesh, simulated

DIFFERENCE = 1e-6  # of an internal unknown, for derivatives
TOLERANCE = 1e-3  # of the integrations, relative; what they cost is then known to about as much
CLOSER = 1e-4  # the same for the last steps
COUNT, CHOSEN = 256, 48  # candidates that are looked at, and those of them that go downhill
ROUGH = 3.0  # residuals over roughness of the data, from which on an optimum is doubted
FINE = 1.2  # the same, at which a candidate is good enough to go on from
MANY = 10  # experiments from which on there are fewer candidates
ROUNDS = (20, 20, 20, 30, 30)  # steps downhill; after each round the worse half is left behind
IDLE = 4  # steps in a row that gain next to nothing, without those that failed
STUCK = 1e6  # damping at which a candidate is given up
LITTLE = 1e-4  # such a gain: of the loss, or per measurement of a likelihood
FIRST_DAMPING = 1e-2
FINALISTS, POLISHES = 3, 15  # candidates that go on at a closer tolerance, and their steps
REACH = 2.3  # longest step in the logarithm of an unknown: longer ones end on plateaus
LARGEST = 4_000_000  # numbers in the Jacobians of one march


@dataclass(frozen=True)
class Candidates:
    """Unknowns with what they cost (inf where the integration fails), best first after `screen`."""

    borders: np.ndarray  # (candidates, experiments, width)
    values: np.ndarray  # (candidates,)

    def best(self, count: int) -> Candidates:
        order = np.argsort(self.values, kind="stable")[:count]
        order = order[np.isfinite(self.values[order])]
        return Candidates(self.borders[order], self.values[order])


@dataclass(frozen=True)
class _Terms:
    """The quadratic models of candidates that were integrated with derivatives."""

    values: np.ndarray  # (candidates,)
    slopes: np.ndarray  # (candidates, experiments, width)
    hessians: np.ndarray  # (candidates, experiments, width, width)

    def __getitem__(self, chosen: np.ndarray) -> _Terms:
        return _Terms(self.values[chosen], self.slopes[chosen], self.hessians[chosen])

    def taking(self, better: np.ndarray, trial: _Terms) -> _Terms:
        """This with the trial's terms where that is better (candidates,)."""
        return _Terms(
            np.where(better, trial.values, self.values),
            np.where(better[:, None, None], trial.slopes, self.slopes),
            np.where(better[:, None, None, None], trial.hessians, self.hessians),
        )


def screen(problem: Problem, given: np.ndarray, seed: int, further: np.ndarray) -> Candidates:
    """The best of many candidates after single shooting, best first, one of each optimum.

    `given` (experiments, width; internal, NaN where open) stands in for missing bounds; `further` (k, experiments,
    width) are candidates besides those spread over the bounds with this seed.
    """
    count = max(CHOSEN, COUNT // max(1, len(problem.experiments) // MANY))
    everything = np.ones(problem.unknowns.lower.shape, bool)
    with np.errstate(all="ignore"):
        borders = np.concatenate([candidates(problem, given, count, seed), further])
        chosen = rank(problem, borders, everything).best(CHOSEN)
        if not len(chosen.values):  # the equations have no solution anywhere
            return chosen
        found = race(problem, chosen, everything)
        found = polish(problem, _distinct(problem, found).best(FINALISTS), everything)
    return _distinct(problem, found)


def along(problem: Problem, border: np.ndarray, nodes: int, tolerance: float) -> Solution | None:
    """The simulated path of these unknowns on a mesh that resolves it to a tolerance; None where there is none."""
    start = simulated(problem, border)
    with np.errstate(all="ignore"):
        found = start and on_mesh(problem, start, nodes, tolerance)
    if not found:
        return None
    system, point = found
    return Solution(system, point.border, point.states, point.path, point.jumps)


def roughness(problem: Problem) -> float:
    """What the data would cost if only their roughness were left: how each differs from its neighbours in time.

    Large differences, as at a jump, count as three times the median one. Noise levels are fitted to them.
    """
    data = problem.samples.data
    noise = data - np.where(np.isfinite(data), smoothed(problem), np.nan)
    with np.errstate(all="ignore"):
        sizes = [np.abs(c[np.isfinite(c)]) for c in noise.T]
        limit = np.array([3 * np.median(size) if len(size) else 0.0 for size in sizes])
        outputs = np.nan_to_num(data - np.clip(noise, -limit, limit))
        border = np.where(np.isfinite(problem.unknowns.start), problem.unknowns.start, 0.0)
        border = np.clip(border, problem.unknowns.lower, problem.unknowns.upper)
        states = np.zeros((len(data), len(problem.model.states)))
        border = fit_levels(problem, border, outputs, states, np.ones(border.shape, bool))
        params = problem.unknowns.measured_values(border)[problem.samples.experiment]
        rows = problem.measurement.value(problem.samples.times, states, params, _inputs(problem))
        rows[:, : outputs.shape[1]] = outputs
        if problem.scatter is not None:
            levels, _ = problem.measurement.levels_at(
                problem.samples.times, outputs, states, params, _inputs(problem)
            )
            rows[:, outputs.shape[1] :] = levels
        return problem.objective.value(rows)


def implausible(problem: Problem, value: float) -> bool:
    """Whether an optimum of this value leaves residuals far larger than the data are rough."""
    rough = roughness(problem)
    if problem.scatter is None:
        return bool(value > ROUGH**2 * rough)
    return bool(value - rough > np.log(ROUGH) * problem.measurements) if _levels_free(problem) else False


def _distinct(problem: Problem, found: Candidates) -> Candidates:
    """One of each group with nearly the same value."""
    size = (
        found.values if problem.scatter is None else np.full(len(found.values), float(problem.measurements))
    )
    new = np.ones(len(found.values), bool)
    new[1:] = np.diff(found.values) > 10 * LITTLE * size[1:]
    return Candidates(found.borders[new], found.values[new])


def rank(problem: Problem, borders: np.ndarray, movable: np.ndarray) -> Candidates:
    """Candidates (candidates, experiments, width) with their movable noise levels fitted and what they cost then."""
    rows, states = _rows(problem, borders[:, None], TOLERANCE)
    values, borders = np.full(len(borders), np.inf), borders.copy()
    observables = len(problem.model.observables)
    for k in np.flatnonzero(np.isfinite(rows[..., :observables]).all(axis=(1, 2, 3))):
        outputs = rows[k, 0]
        if problem.unknowns.noise_columns.any():
            borders[k] = fit_levels(problem, borders[k], outputs[:, :observables], states[k, 0], movable)
            outputs = _measure(problem, borders[k][None, None], states[k][None])[0, 0]
        values[k] = _value(problem, borders[k], outputs)
    return Candidates(borders, values)


def race(problem: Problem, found: Candidates, movable: np.ndarray) -> Candidates:
    """Candidates after steps of single shooting, best first: all side by side, the worse half left behind each round.

    Those that come to an end on the way wait for the comparison.
    """
    runners = _runners(problem, found.borders, movable)
    ended = []
    fine = _fine(problem)
    for steps in ROUNDS:
        for _ in range(steps):
            runners = _stepped(problem, runners, movable)
            on = runners.idle < IDLE
            ended.append(runners[~on])
            runners = runners[on]
            if runners.terms.values.min(initial=np.inf) < fine:
                return _ranked([*ended, runners])
        runners = runners[np.argsort(runners.terms.values, kind="stable")[: (len(runners) + 1) // 2]]
    return _ranked([*ended, runners])


def polish(problem: Problem, found: Candidates, movable: np.ndarray) -> Candidates:
    """Candidates after more steps at a closer tolerance, until they gain next to nothing."""
    runners, ended = _runners(problem, found.borders, movable, CLOSER), []
    for _ in range(POLISHES):
        runners = _stepped(problem, runners, movable, CLOSER)
        on = runners.idle < IDLE
        ended.append(runners[~on])
        runners = runners[on]
        if not len(runners):
            break
    return _ranked([*ended, runners])


def _ranked(every: Sequence[_Runners]) -> Candidates:
    borders = np.concatenate([one.borders for one in every])
    values = np.concatenate([one.terms.values for one in every])
    return Candidates(borders, values).best(len(values))


def _fine(problem: Problem) -> float:
    """A value at which the residuals are hardly larger than the data are rough."""
    rough = roughness(problem)
    if problem.scatter is None:
        return FINE**2 * rough
    return rough + np.log(FINE) * problem.measurements if _levels_free(problem) else -np.inf


def _levels_free(problem: Problem) -> bool:
    return bool(problem.unknowns.noise_columns.any())


@dataclass(frozen=True)
class _Runners:
    """Candidates on their way downhill."""

    borders: np.ndarray  # (runners, experiments, width)
    terms: _Terms
    damping: np.ndarray  # (runners,)
    idle: np.ndarray  # (runners,): steps in a row that gained next to nothing

    def __len__(self) -> int:
        return len(self.borders)

    def __getitem__(self, chosen: np.ndarray) -> _Runners:
        return _Runners(self.borders[chosen], self.terms[chosen], self.damping[chosen], self.idle[chosen])


def _runners(problem: Problem, borders: np.ndarray, movable: np.ndarray, rtol: float = TOLERANCE) -> _Runners:
    terms, count = _terms(problem, borders, movable, rtol), len(borders)
    return _Runners(borders, terms, np.full(count, FIRST_DAMPING), np.zeros(count, int))


def _stepped(problem: Problem, runners: _Runners, movable: np.ndarray, rtol: float = TOLERANCE) -> _Runners:
    if not len(runners):
        return runners
    unknowns, terms = problem.unknowns, runners.terms
    trial = runners.borders.copy()
    for k in np.flatnonzero(np.isfinite(terms.values)):
        step = _step(problem, trial[k], terms.slopes[k], terms.hessians[k], runners.damping[k], movable)
        trial[k] = np.clip(trial[k] + step, unknowns.lower, unknowns.upper)
    ahead = _terms(problem, trial, movable, rtol)
    better = ahead.values < terms.values
    gain = np.where(better, terms.values - ahead.values, 0.0)
    little = gain <= LITTLE * (terms.values if problem.scatter is None else problem.measurements)
    damping = np.where(better, np.maximum(0.2 * runners.damping, 1e-5), 10 * runners.damping)
    idle = np.where(better, np.where(little, runners.idle + 1, 0), runners.idle)
    return _Runners(
        np.where(better[:, None, None], trial, runners.borders),
        terms.taking(better, ahead),
        damping,
        np.where(damping > STUCK, IDLE, idle),
    )


def _step(problem: Problem, border, slope, hessian, damping: float, movable: np.ndarray) -> np.ndarray:
    """A bounded Levenberg-Marquardt step (experiments, width)."""
    unknowns = problem.unknowns
    size = unknowns.size(border)
    damped, index = hessian.copy(), np.arange(unknowns.width)
    diagonal = hessian[:, index, index].copy()
    diagonal[:, unknowns.local :] = diagonal[:, unknowns.local :].sum(axis=0) / len(diagonal)
    least = 1e-6 * float((diagonal * size**2).max(initial=1e-300)) / size**2
    damped[:, index, index] += damping * np.maximum(diagonal, least)
    reach = np.where(unknowns.log, REACH, np.inf)
    lower = np.where(movable, np.maximum(unknowns.lower - border, -reach), 0.0)
    upper = np.where(movable, np.minimum(unknowns.upper - border, reach), 0.0)
    try:
        step = solve_box(damped, slope, unknowns.local, lower, upper)
    except np.linalg.LinAlgError:
        return np.zeros_like(border)
    return np.where(np.isfinite(step), step, 0.0)


def _terms(problem: Problem, borders: np.ndarray, movable: np.ndarray, rtol: float = TOLERANCE) -> _Terms:
    """Values, slopes and Gauss-Newton curvatures of candidates (candidates, experiments, width)."""
    unknowns, owner = problem.unknowns, problem.samples.experiment
    count, (experiments, width) = len(borders), unknowns.lower.shape
    columns = np.flatnonzero((movable & unknowns.exists).any(axis=0))
    step = np.where(unknowns.log, 1.0, np.maximum(np.abs(borders), 1e-3 * unknowns.size(borders)))
    step = DIFFERENCE * step * np.where(borders + DIFFERENCE * step > unknowns.upper, -1.0, 1.0)
    lanes = np.repeat(borders[:, None], 1 + len(columns), axis=1)
    for lane, column in enumerate(columns, 1):
        lanes[:, lane, :, column] += step[..., column]
    rows, _ = _rows(problem, lanes, rtol)
    values = np.full(count, np.inf)
    slopes, hessians = np.zeros((count, experiments, width)), np.zeros((count, experiments, width, width))
    edges = np.searchsorted(owner, np.arange(experiments))
    for k in np.flatnonzero(np.isfinite(rows).all(axis=(1, 2, 3))):
        terms = problem.objective.terms(rows[k, 0])
        jacobian = np.zeros((*rows.shape[2:], width))  # (samples, rows, width)
        change = (rows[k, 1:] - rows[k, 0]) / step[k][owner][:, columns].T[:, :, None]
        jacobian[..., columns] = np.moveaxis(change, 0, -1)
        white = whitened(terms.factor, jacobian)
        values[k] = _value(problem, borders[k], rows[k, 0])
        slopes[k] = np.add.reduceat((terms.slope[:, None, :] @ jacobian)[:, 0], edges)
        hessians[k] = np.add.reduceat(white.transpose(0, 2, 1) @ white, edges)
        if problem.priors is not None:
            slope, curvature = problem.priors.terms(borders[k])
            slopes[k] += slope
            hessians[k] += curvature[:, :, None] * np.eye(width)
    return _Terms(np.where(np.isfinite(values), values, np.inf), slopes, hessians)


def _value(problem: Problem, border: np.ndarray, rows: np.ndarray) -> float:
    value = problem.objective.value(rows) + (0.0 if problem.priors is None else problem.priors.value(border))
    return value if np.isfinite(value) else np.inf


def _rows(problem: Problem, lanes: np.ndarray, rtol: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the objective (candidates, lanes, samples, rows) and states there, NaN where a track failed.

    `lanes` (candidates, lanes, experiments, width).
    """
    count, several, experiments, _ = lanes.shape
    size = several * experiments * len(problem.model.states) ** 2
    parts = []
    for few in np.array_split(lanes, max(1, -(-count * size // LARGEST))):
        parts.append(_states(problem, few, rtol))
    states = np.concatenate(parts)
    return _measure(problem, lanes, states), states


def _states(problem: Problem, lanes: np.ndarray, rtol: float) -> np.ndarray:
    """(candidates, lanes, samples, states)."""
    unknowns = problem.unknowns
    count, several, experiments, _ = lanes.shape
    params = np.empty((experiments, count, several, unknowns.model_parameters))
    initial = np.empty((experiments, count, several, len(problem.model.states)))
    for k in range(count):
        for lane in range(several):
            params[:, k, lane] = unknowns.model_values(lanes[k, lane])
            initial[:, k, lane] = unknowns.initial(lanes[k, lane])[0]
    tracks = Tracks(
        np.repeat(np.arange(experiments), count),
        initial.reshape(-1, *initial.shape[2:]),
        params.reshape(-1, *params.shape[2:]),
    )
    found = march(problem, tracks, rtol)
    by_experiment = [np.stack(found[e * count : (e + 1) * count]) for e in range(experiments)]
    return np.concatenate(by_experiment, axis=1).swapaxes(1, 2)


def _measure(problem: Problem, lanes: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(candidates, lanes, samples, rows) from states at the samples."""
    samples, unknowns = problem.samples, problem.unknowns
    params = np.array([[unknowns.measured_values(lane) for lane in lanes_of_one] for lanes_of_one in lanes])
    return problem.measurement.value(
        samples.times, states, params[:, :, samples.experiment], _inputs(problem)
    )


def _inputs(problem: Problem) -> np.ndarray:
    return problem.inputs_at(problem.samples.experiment, problem.samples.times)
