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
    with np.errstate(all="ignore"):
        borders = np.concatenate([candidates(problem, given, count, seed), further])
        chosen = rank(problem, borders).best(CHOSEN)
        if not len(chosen.values):  # the equations have no solution anywhere
            return chosen
        found = race(problem, chosen)
        found = polish(problem, _distinct(problem, found).best(FINALISTS))
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


def rank(problem: Problem, borders: np.ndarray) -> Candidates:
    """Candidates (candidates, experiments, width) with their noise levels fitted and what they cost then."""
    states = _Simulated(problem, borders, TOLERANCE).states
    rows, values, borders = _measure(problem, borders, states), np.full(len(borders), np.inf), borders.copy()
    observables, everything = len(problem.model.observables), np.ones(borders.shape[1:], bool)
    for k in np.flatnonzero(np.isfinite(rows[..., :observables]).all(axis=(1, 2))):
        outputs = rows[k]
        if problem.unknowns.noise_columns.any():
            borders[k] = fit_levels(problem, borders[k], outputs[:, :observables], states[k], everything)
            outputs = _measure(problem, borders[k : k + 1], states[k : k + 1])[0]
        values[k] = _value(problem, borders[k], outputs)
    return Candidates(borders, values)


def race(problem: Problem, found: Candidates) -> Candidates:
    """Candidates after steps of single shooting, best first: all side by side, the worse half left behind each round.

    Those that come to an end on the way wait for the comparison.
    """
    runners = _runners(problem, found.borders)
    ended = []
    fine = _fine(problem)
    for steps in ROUNDS:
        for _ in range(steps):
            runners = _stepped(problem, runners)
            on = runners.idle < IDLE
            ended.append(runners[~on])
            runners = runners[on]
            if runners.terms.values.min(initial=np.inf) < fine:
                return _ranked([*ended, runners])
        runners = runners[np.argsort(runners.terms.values, kind="stable")[: (len(runners) + 1) // 2]]
    return _ranked([*ended, runners])


def polish(problem: Problem, found: Candidates) -> Candidates:
    """Candidates after more steps at a closer tolerance, until they gain next to nothing."""
    runners, ended = _runners(problem, found.borders, CLOSER), []
    for _ in range(POLISHES):
        runners = _stepped(problem, runners, CLOSER)
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


def _runners(problem: Problem, borders: np.ndarray, rtol: float = TOLERANCE) -> _Runners:
    count = len(borders)
    terms = _terms(problem, borders, np.full(count, np.inf), rtol)
    return _Runners(borders, terms, np.full(count, FIRST_DAMPING), np.zeros(count, int))


def _stepped(problem: Problem, runners: _Runners, rtol: float = TOLERANCE) -> _Runners:
    if not len(runners):
        return runners
    unknowns, terms = problem.unknowns, runners.terms
    trial = runners.borders.copy()
    for k in np.flatnonzero(np.isfinite(terms.values)):
        step = _step(problem, trial[k], terms.slopes[k], terms.hessians[k], runners.damping[k])
        trial[k] = np.clip(trial[k] + step, unknowns.lower, unknowns.upper)
    ahead = _terms(problem, trial, terms.values, rtol)
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


def _step(problem: Problem, border, slope, hessian, damping: float) -> np.ndarray:
    """A bounded Levenberg-Marquardt step (experiments, width)."""
    unknowns = problem.unknowns
    size = unknowns.size(border)
    damped, index = hessian.copy(), np.arange(unknowns.width)
    diagonal = hessian[:, index, index].copy()
    diagonal[:, unknowns.local :] = diagonal[:, unknowns.local :].sum(axis=0) / len(diagonal)
    least = 1e-6 * float((diagonal * size**2).max(initial=1e-300)) / size**2
    damped[:, index, index] += damping * np.maximum(diagonal, least)
    reach = np.where(unknowns.log, REACH, np.inf)
    lower = np.maximum(unknowns.lower - border, -reach)
    upper = np.minimum(unknowns.upper - border, reach)
    try:
        step = solve_box(damped, slope, unknowns.local, lower, upper)
    except np.linalg.LinAlgError:
        return np.zeros_like(border)
    return np.where(np.isfinite(step), step, 0.0)


def _terms(problem: Problem, borders: np.ndarray, least: np.ndarray, rtol: float) -> _Terms:
    """Values, slopes and Gauss-Newton curvatures of candidates (candidates, experiments, width).

    Those that do not fall below `least` (candidates,) get no slopes.
    """
    unknowns, samples = problem.unknowns, problem.samples
    count, (experiments, width) = len(borders), unknowns.lower.shape
    found = _Simulated(problem, borders, rtol)
    params = np.array([unknowns.measured_values(b) for b in borders])[:, samples.experiment]
    rows = problem.measurement.value(samples.times, found.states, params, _inputs(problem))
    values = np.array([_value(problem, b, r) for b, r in zip(borders, rows, strict=True)])
    slopes, hessians = np.zeros((count, experiments, width)), np.zeros((count, experiments, width, width))
    better = np.flatnonzero(values < least)
    rows, wrt_x, wrt_p = problem.measurement.linearise(
        samples.times, found.states[better], params[better], _inputs(problem)
    )
    jacobian = wrt_x @ found.slopes(better)  # (better, samples, rows, width)
    chain = np.array([unknowns.parameter_slopes(b) for b in borders[better]])
    if len(better):
        chain = chain[:, samples.experiment, None]
        jacobian[..., unknowns.border.parameters] += wrt_p[..., unknowns.free_parameters] * chain
    edges = np.searchsorted(samples.experiment, np.arange(experiments))
    for i, k in enumerate(better):
        if not np.isfinite(jacobian[i]).all():
            values[k] = np.inf
            continue
        terms = problem.objective.terms(rows[i])
        white = whitened(terms.factor, jacobian[i])
        slopes[k] = np.add.reduceat((terms.slope[:, None, :] @ jacobian[i])[:, 0], edges)
        hessians[k] = np.add.reduceat(white.transpose(0, 2, 1) @ white, edges)
        if problem.priors is not None:
            slope, curvature = problem.priors.terms(borders[k])
            slopes[k] += slope
            hessians[k] += curvature[:, :, None] * np.eye(width)
    return _Terms(values, slopes, hessians)


def _value(problem: Problem, border: np.ndarray, rows: np.ndarray) -> float:
    value = problem.objective.value(rows) + (0.0 if problem.priors is None else problem.priors.value(border))
    return value if np.isfinite(value) else np.inf


class _Simulated:
    """Candidates (candidates, experiments, width) integrated to their samples."""

    def __init__(self, problem: Problem, borders: np.ndarray, rtol: float) -> None:
        unknowns = problem.unknowns
        self.problem, self.borders = problem, borders
        self.count, self.experiments = len(borders), len(problem.experiments)
        initial = np.array([unknowns.initial(b)[0] for b in borders])
        params = np.array([unknowns.model_values(b) for b in borders])
        owner = np.repeat(np.arange(self.experiments), self.count)
        self.march = march(problem, Tracks(owner, *(_by_experiment(a) for a in (initial, params))), rtol)
        mine = [self.march.states(track) for track in range(len(owner))]
        self.states = self._by_sample(mine, self.count)  # (candidates, samples, states), NaN where one failed

    def slopes(self, chosen: np.ndarray) -> np.ndarray:
        """(chosen, samples, states, width): derivatives by the border of chosen candidates, which did not fail."""
        unknowns, width = self.problem.unknowns, self.problem.unknowns.width
        if not len(chosen):
            return np.zeros((0, *self.states.shape[1:], width))
        by_border = np.array([unknowns.initial_derivative(b) for b in self.borders[chosen]])
        acting = np.flatnonzero(_felt(self.problem) | (by_border != 0).any(axis=(0, 1, 2)))
        ways = np.array([_by_border(self.problem, b) for b in self.borders[chosen]])
        tracks = (np.arange(self.experiments)[:, None] * self.count + chosen).ravel()
        found = self.march.slopes(tracks, *(_by_experiment(a[..., acting]) for a in (by_border, ways)))
        wide = np.zeros((len(chosen), *self.states.shape[1:], width))
        wide[..., acting] = self._by_sample(found, len(chosen))
        return wide

    def _by_sample(self, tracks: list[np.ndarray], count: int) -> np.ndarray:
        """(count, samples, ...) from tracks (times, ...), ordered by experiment."""
        parts = [np.stack(tracks[e * count : (e + 1) * count]) for e in range(self.experiments)]
        return np.concatenate(parts, axis=1)


def _by_experiment(values: np.ndarray) -> np.ndarray:
    """(experiments * candidates, ...) from (candidates, experiments, ...)."""
    return (
        values.swapaxes(0, 1).reshape(-1, *values.shape[2:])
        if values.size
        else np.zeros((values.shape[0] * values.shape[1], *values.shape[2:]))
    )


def _felt(problem: Problem) -> np.ndarray:
    """(width,) bool: parameters that appear in the right-hand side."""
    unknowns = problem.unknowns
    _, pattern = problem.model.rhs.jacobian_pattern
    every = np.concatenate([unknowns.local_parameters, unknowns.global_parameters])
    own = every < unknowns.model_parameters
    felt = np.zeros(unknowns.width, bool)
    felt[len(unknowns.initial_states) + np.flatnonzero(own)] = pattern.any(axis=0)[every[own]]
    return felt & unknowns.exists.any(axis=0)


def _by_border(problem: Problem, border: np.ndarray) -> np.ndarray:
    """(experiments, model parameters, width): derivative of the model's parameters by the border."""
    unknowns = problem.unknowns
    every = np.concatenate([unknowns.local_parameters, unknowns.global_parameters])
    own = np.flatnonzero(every < unknowns.model_parameters)
    columns = len(unknowns.initial_states) + own
    derivative = np.zeros((len(border), unknowns.model_parameters, unknowns.width))
    derivative[:, every[own], columns] = unknowns.slopes(border)[:, columns]
    return derivative


def _measure(problem: Problem, borders: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(candidates, samples, rows) from states at the samples."""
    samples = problem.samples
    params = np.array([problem.unknowns.measured_values(b) for b in borders])[:, samples.experiment]
    return problem.measurement.value(samples.times, states, params, _inputs(problem))


def _inputs(problem: Problem) -> np.ndarray:
    return problem.inputs_at(problem.samples.experiment, problem.samples.times)
