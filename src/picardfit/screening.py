"""Starts by simulation: many candidates integrated side by side, going downhill by single shooting in relays.

For problems whose guessed paths lead nowhere: stiff oscillators, whose jumps lie between the samples, and bounds of
many decades. Candidates spread evenly over the bounds are ranked by what their predictions cost at their best noise
levels. A fixed number of them goes downhill side by side (shooting.py); the place of one that has come to an end is
taken by the next candidate or by a variation of the best found so far. Optima of such problems lie in funnels: from the
neighbourhood of a good one the way to a better one is far more likely than from anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.condense import unknowns_index
from picardfit.levels import fit_levels, smoothed
from picardfit.problem import Problem
from picardfit.shooting import (
    Runners,
    Simulated,
    advance,
    after,
    begin,
    inputs_of,
    measured,
    measured_only,
    setting_out,
    stepped,
    terms_at,
    value_of,
)
from picardfit.solvers.iterate import Solution
from picardfit.starts import candidates, search_box
from picardfit.uncertainty.sensitivities import on_mesh, simulated

TOLERANCE = 1e-3  # of the integrations, relative; what they cost is then known to about as much
CLOSER = 1e-5  # the same for the last steps
COUNT = 256  # candidates that are looked at
LANES = 64  # that go downhill at the same time
MANY = 10  # experiments from which on there are fewer
ROUGH = 3.0  # residuals over roughness of the data, from which on an optimum is doubted
FINE = 1.2  # the same, at which a candidate is good enough to go on from
STEPS = 240  # of all side by side
PATIENCE, PATIENCE_IF_FINE = 40, 12  # steps without a better leader after which no more are taken
LITTLE = 1e-3  # a gain that hardly counts: of the loss, or per measurement of a likelihood
LAST = 1e-5  # the same for the last steps
QUEUED = 1 / 8  # part of the free places that goes to the queue at least
PARENTS = 8  # best optima of which variations are tried
LENDERS = 24  # candidates whose scales and offsets are tried on each other
MEASURED_STEPS = 10  # in parameters that only the measurements have
TRIES = 3  # variations for each free place, of which the best goes downhill
FINALISTS, POLISHES = 3, 25  # candidates that go on at a closer tolerance, and their steps


@dataclass(frozen=True)
class Candidates:
    """Unknowns with what they cost (inf where the integration fails), best first after `screen`."""

    borders: np.ndarray  # (candidates, experiments, width)
    values: np.ndarray  # (candidates,)

    def best(self, count: int) -> Candidates:
        order = np.argsort(self.values, kind="stable")[:count]
        order = order[np.isfinite(self.values[order])]
        return Candidates(self.borders[order], self.values[order])


def screen(problem: Problem, given: np.ndarray, seed: int, further: np.ndarray) -> Candidates:
    """The best of many candidates after single shooting, best first, one of each optimum.

    `given` (experiments, width; internal, NaN where open) stands in for missing bounds; `further` (k, experiments,
    width) are candidates besides those spread over the bounds with this seed.
    """
    fewer = max(1, len(problem.experiments) // MANY)
    with np.errstate(all="ignore"):
        spread = candidates(problem, given, max(LANES, COUNT // fewer), seed)
        ranked = rank(problem, np.concatenate([spread, further])).best(len(spread))
        if not len(ranked.values):  # the equations have no solution anywhere
            return ranked
        found = relay(problem, ranked, max(LANES // fewer, 8), np.random.default_rng([seed, len(spread)]))
        found = _distinct(problem, polish(problem, found.borders[:FINALISTS]))
    return Candidates(found.borders, found.values)


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
        return _cost(problem, np.nan_to_num(data - np.clip(noise, -limit, limit)))


def _cost(problem: Problem, outputs: np.ndarray) -> float:
    """The objective of given outputs (samples, observables), at their best noise levels."""
    samples, unknowns, inputs = problem.samples, problem.unknowns, inputs_of(problem)
    border = np.where(np.isfinite(unknowns.start), unknowns.start, 0.0)
    border = np.clip(border, unknowns.lower, unknowns.upper)
    states = np.zeros((len(outputs), len(problem.model.states)))
    border = fit_levels(problem, border, outputs, states, np.ones(border.shape, bool))
    params = unknowns.measured_values(border)[samples.experiment]
    rows = problem.measurement.value(samples.times, states, params, inputs)
    rows[:, : outputs.shape[1]] = outputs
    if problem.scatter is not None:
        levels, _ = problem.measurement.levels_at(samples.times, outputs, states, params, inputs)
        rows[:, outputs.shape[1] :] = levels
    return problem.objective.value(rows)


def implausible(problem: Problem, value: float) -> bool:
    """Whether an optimum of this value leaves residuals far larger than the data are rough."""
    rough = roughness(problem)
    if problem.scatter is None:
        return bool(value > ROUGH**2 * rough)
    return bool(value - rough > np.log(ROUGH) * problem.measurements) if _levels_free(problem) else False


def _distinct(problem: Problem, found: Runners) -> Runners:
    """The best of each group with nearly the same value, best first, without those that failed."""
    found = found[np.argsort(found.values, kind="stable")]
    found = found[np.isfinite(found.values)]
    size = found.values if problem.scatter is None else np.full(len(found), float(problem.measurements))
    new = np.ones(len(found), bool)
    new[1:] = np.diff(found.values) > 3 * LITTLE * size[1:]
    return found[new]


def rank(problem: Problem, borders: np.ndarray) -> Candidates:
    """Candidates (candidates, experiments, width) and what they cost at the best values of all that needs no
    integration: noise levels, scales, offsets."""
    states = Simulated(problem, borders, TOLERANCE, differentiable=False).states
    values, borders = np.full(len(borders), np.inf), borders.copy()
    outputs = measured(problem, borders, states)[..., : len(problem.model.observables)]
    sound = np.flatnonzero(np.isfinite(outputs).all(axis=(1, 2)))
    borders[sound] = _measured_at_best(problem, borders[sound], states[sound])
    for k, rows in zip(sound, measured(problem, borders[sound], states[sound]), strict=True):
        values[k] = value_of(problem, borders[k], rows)
    return Candidates(borders, values)


def _measured_at_best(problem: Problem, borders: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Candidates with the parameters that only their measurements have at their best for given states.

    Those are first borrowed from other candidates, whichever serve best, because far away they have no slope.
    """
    noise, only = problem.unknowns.noise_columns, measured_only(problem)
    borders, lent = borders.copy(), borders
    if (only & ~noise).any():
        values = [
            value_of(problem, *one) for one in zip(borders, measured(problem, borders, states), strict=True)
        ]
        values = np.array(values)
        for shift in range(1, min(LENDERS, len(borders))):
            trial = borders.copy()
            trial[..., only & ~noise] = np.roll(lent, shift, axis=0)[..., only & ~noise]
            rows = measured(problem, trial, states)
            now = np.array([value_of(problem, *one) for one in zip(trial, rows, strict=True)])
            borders, values = np.where((now < values)[:, None, None], trial, borders), np.minimum(now, values)
    if noise.any():
        _fit_noise(problem, borders, states)
    if (only & ~noise).any():
        runners = setting_out(borders, terms_at(problem, borders, np.full(len(borders), np.inf), states))
        for _ in range(MEASURED_STEPS):
            trial = stepped(problem, runners)
            runners = after(problem, runners, trial, terms_at(problem, trial, runners.values, states), LITTLE)
        borders = runners.borders
    return borders


def _fit_noise(problem: Problem, borders: np.ndarray, states: np.ndarray) -> None:
    """Noise levels at their best, in place."""
    noise, everything = problem.unknowns.noise_columns, np.ones(borders.shape[1:], bool)
    levels = None  # those of the last one are not far away
    outputs = measured(problem, borders, states)[..., : len(problem.model.observables)]
    for k in range(len(borders)):
        if levels is not None:
            borders[k][:, noise] = levels
        borders[k] = fit_levels(problem, borders[k], outputs[k], states[k], everything)
        levels = borders[k][:, noise]


def relay(problem: Problem, queue: Candidates, lanes: int, rng: np.random.Generator) -> Runners:
    """The optima found, best first: `lanes` candidates at a time, from the queue and from variations of the best.

    Free places are filled when they are a quarter. Half of them go to the queue as long as the best came from there,
    fewer when they began as variations. It ends when there has been no better one for a while.
    """
    fine = _fine(problem)
    runners, waiting = begin(problem, queue.borders[:lanes], TOLERANCE), queue.borders[lanes:]
    ended, leader, since = runners[:0], np.inf, 0
    for _ in range(STEPS):
        runners = advance(problem, runners, TOLERANCE, LITTLE)
        ended = _distinct(problem, ended + runners[runners.ended])[: 2 * PARENTS]
        runners = runners[~runners.ended]
        found = _distinct(problem, ended + runners)
        best = found.values[0]
        since = 0 if _gains(problem, leader, best) else since + 1
        leader = min(best, leader)
        if since >= (PATIENCE_IF_FINE if best < fine else PATIENCE):
            break
        free = lanes - len(runners)
        if 4 * free < lanes:
            continue
        parents = found[:PARENTS]
        share = max(QUEUED, 0.5 * float(np.mean(~parents.varied)))
        fresh = waiting[: int(np.ceil(share * free))]
        waiting = waiting[len(fresh) :]
        varied = variations(problem, parents, TRIES * (free - len(fresh)), rng)
        chosen = _best_of_each(rank(problem, varied))
        runners += begin(problem, np.concatenate([fresh, chosen]), TOLERANCE, len(chosen))
    return found


def variations(problem: Problem, parents: Runners, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, experiments, width): parents (best first) with their unknowns moved, in turn TRIES of each kind.

    Some are moved far; all are moved as far as the data allow; the same, less far, with those at a bound drawn anew;
    or mixed with others. Moves are in logarithms, or in units of the unknown's own size. The better a parent the more
    often it is taken.
    """
    unknowns, made = problem.unknowns, []
    low, high = search_box(unknowns, parents.borders[0])
    # what a parameter at one standard deviation from its best value costs, about
    cost = 1.0 if problem.scatter is not None else 2 * parents.values[0] / problem.measurements
    loose = [Loose(problem, *one) for one in zip(parents.borders, parents.terms.hessians, strict=True)]
    for k in range(count):
        other, third = parents.borders[rng.integers(len(parents), size=2)]
        index = rng.integers(1 + rng.integers(len(parents)))
        one, unit = parents.borders[index], loose[index].unit
        chance, normal = rng.uniform(size=one.shape), rng.standard_normal(one.shape)
        kind = k // TRIES % 4
        if kind == 0:
            move = np.where(chance < 0.3, 3.0 * unit * normal, 0.0)
        elif kind == 1:
            move = loose[index].move(normal, 3.0 * cost, 4.0)
        elif kind == 2:
            pinned = (one <= unknowns.lower) | (one >= unknowns.upper)
            move = np.where(pinned, low + chance * (high - low) - one, loose[index].move(normal, cost, 1.0))
        else:
            move = np.where(chance < 0.7, other - third, 0.0) + 0.1 * unit * normal
        move[:, unknowns.local :] = move[:1, unknowns.local :]
        made.append(np.clip(one + move, unknowns.lower, unknowns.upper))
    return np.array(made).reshape(-1, *unknowns.lower.shape)


class Loose:
    """How the unknowns of an optimum can move together: far where the data say little, hardly where they say much.

    `border` (experiments, width) and the curvature there, `hessian` (experiments, width, width).
    """

    def __init__(self, problem: Problem, border: np.ndarray, hessian: np.ndarray) -> None:
        unknowns = problem.unknowns
        experiment, column = unknowns_index(unknowns.exists, unknowns.local).T
        self.number = np.full(border.shape, -1)  # of the unknown, -1 where there is none
        self.number[experiment, column] = np.arange(len(column))
        self.number[:, unknowns.local :] = self.number[0, unknowns.local :]
        self.unit = np.where(unknowns.log, 1.0, np.maximum(np.abs(border), 0.02 * unknowns.size(border)))
        whole = np.zeros((len(column), len(column)))
        for one, numbers, unit in zip(hessian, self.number, self.unit, strict=True):
            there = np.flatnonzero(numbers >= 0)
            part = unit[there, None] * one[there[:, None], there] * unit[there]
            whole[numbers[there, None], numbers[there]] += part
        self.curvatures, self.ways = np.linalg.eigh(np.nan_to_num(whole))

    def move(self, normal: np.ndarray, cost: float, longest: float) -> np.ndarray:
        """(experiments, width) from that many random numbers: every direction at this cost, or of `longest` units."""
        with np.errstate(divide="ignore"):
            lengths = np.minimum(np.sqrt(2 * cost / np.maximum(self.curvatures, 0.0)), longest)
        way = self.ways @ (lengths * normal.ravel()[: len(lengths)])
        return np.where(self.number >= 0, way[self.number], 0.0) * self.unit


def _best_of_each(found: Candidates) -> np.ndarray:
    """(k, experiments, width): the best of every TRIES in a row."""
    groups = found.values.reshape(-1, TRIES)
    best = np.arange(len(groups)) * TRIES + groups.argmin(axis=1)
    return found.borders[best[np.isfinite(found.values[best])]]


def polish(problem: Problem, borders: np.ndarray) -> Runners:
    """Candidates (candidates, experiments, width) after more steps at a closer tolerance, until they gain nothing."""
    runners = begin(problem, borders, CLOSER)
    ended = runners[runners.ended]
    for _ in range(POLISHES):
        runners = advance(problem, runners[~runners.ended], CLOSER, LAST)
        ended += runners[runners.ended]
    return ended + runners[~runners.ended]


def _gains(problem: Problem, before: float, after: float) -> bool:
    size = before if problem.scatter is None else problem.measurements
    return not np.isfinite(before) or bool(before - after > LITTLE * size)


def _fine(problem: Problem) -> float:
    """A value at which residuals are hardly larger than the data are rough, or than known noise levels say."""
    if problem.scatter is None:
        return FINE**2 * roughness(problem)
    if _levels_free(problem):
        return roughness(problem) + np.log(FINE) * problem.measurements
    with np.errstate(all="ignore"):
        return _cost(problem, np.nan_to_num(problem.samples.data)) + FINE**2 * problem.measurements / 2


def _levels_free(problem: Problem) -> bool:
    return bool(problem.unknowns.noise_columns.any())
