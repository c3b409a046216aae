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

from picardfit.evidence.expected_information import on_mesh, simulated
from picardfit.model.measurement import Measurement
from picardfit.problem.problem import Problem
from picardfit.search.calibration import costs, fit_measured
from picardfit.search.shooting import Runners, Simulated, advance, begin, inputs_of, measured
from picardfit.search.starts import candidates
from picardfit.search.variations import TRIES, variations
from picardfit.solvers.loop import Solution
from picardfit.solvers.noise_levels import fit_noise_parameters, smoothed

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
MUCH = 3e-3  # a gain for which shooting is worth its time
QUEUED = 1 / 8  # part of the free places that goes to the queue at least
PARENTS = 8  # best optima of which variations are tried
FINALISTS, POLISHES = 3, 25  # candidates that go on at a closer tolerance, and their steps


@dataclass(frozen=True)
class Candidates:
    """Unknowns with what they cost (inf where the integration fails), best first after `screen`."""

    many_unknowns: np.ndarray  # (candidates, experiments, width)
    values: np.ndarray  # (candidates,)

    def best(self, count: int) -> Candidates:
        order = np.argsort(self.values, kind="stable")[:count]
        order = order[np.isfinite(self.values[order])]
        return Candidates(self.many_unknowns[order], self.values[order])


def screen(problem: Problem, given: np.ndarray, seed: int, further: np.ndarray) -> Candidates:
    """The best of many candidates after single shooting at a loose tolerance, best first, one of each optimum.

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
    return Candidates(found.many_unknowns, found.values).best(FINALISTS)


def polished(problem: Problem, many_unknowns: np.ndarray, well: bool = True) -> Candidates:
    """Candidates after more steps at a closer tolerance, or only a few, best first, one of each optimum."""
    if not len(many_unknowns):
        return Candidates(many_unknowns, np.zeros(0))
    with np.errstate(all="ignore"):
        ends = _distinct(problem, polish(problem, many_unknowns, LAST if well else LITTLE))
    return Candidates(ends.many_unknowns, ends.values)


def along(problem: Problem, unknowns: np.ndarray, nodes: int, tolerance: float) -> Solution | None:
    """The simulated path of these unknowns on a mesh that resolves it to a tolerance; None where there is none."""
    start = simulated(problem, unknowns)
    with np.errstate(all="ignore"):
        found = start and on_mesh(problem, start, nodes, tolerance)
    if not found:
        return None
    system, point = found
    return Solution(system, point.unknowns, point.states, point.path, point.jumps)


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
    samples, layout, inputs = problem.samples, problem.layout, inputs_of(problem)
    unknowns = np.where(np.isfinite(layout.start), layout.start, 0.0)
    unknowns = np.clip(unknowns, layout.lower, layout.upper)
    states = np.zeros((len(outputs), len(problem.model.states)))
    unknowns = fit_noise_parameters(problem, unknowns, outputs, states, np.ones(unknowns.shape, bool))
    params = layout.measured_values(unknowns)[samples.experiment]
    rows = problem.measurement.value(samples.times, states, params, inputs)
    rows[:, : outputs.shape[1]] = outputs
    if isinstance(problem.measurement, Measurement):
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


def rank(problem: Problem, many_unknowns: np.ndarray) -> Candidates:
    """Candidates (candidates, experiments, width) and what they cost, after fitting all that needs no integration."""
    states = Simulated(problem, many_unknowns, TOLERANCE, differentiable=False).states
    values, many_unknowns = np.full(len(many_unknowns), np.inf), many_unknowns.copy()
    outputs = measured(problem, many_unknowns, states)[..., : len(problem.model.observables)]
    sound = np.isfinite(outputs).all(axis=(1, 2))
    if sound.any():
        many_unknowns[sound] = fit_measured(problem, many_unknowns[sound], states[sound])
        values[sound] = costs(problem, many_unknowns[sound], states[sound])
    return Candidates(many_unknowns, values)


def relay(problem: Problem, queue: Candidates, lanes: int, rng: np.random.Generator) -> Runners:
    """The optima found, best first: `lanes` candidates at a time, from the queue and from variations of the best.

    Free places are filled when they are a quarter. Half of them go to the queue as long as the best came from there,
    fewer when they began as variations. It ends when there has been no better one for a while.
    """
    enough = fine(problem)
    runners, waiting = begin(problem, queue.many_unknowns[:lanes], TOLERANCE), queue.many_unknowns[lanes:]
    ended, leader, since = runners[:0], np.inf, 0
    for _ in range(STEPS):
        runners = advance(problem, runners, TOLERANCE, LITTLE)
        ended = _distinct(problem, ended + runners[runners.ended])[: 2 * PARENTS]
        runners = runners[~runners.ended]
        found = _distinct(problem, ended + runners)
        if not len(found):
            break
        best = found.values[0]
        since = 0 if _gains(problem, leader, best) else since + 1
        leader = min(best, leader)
        if since >= (PATIENCE_IF_FINE if best < enough else PATIENCE):
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


def _best_of_each(found: Candidates) -> np.ndarray:
    """(k, experiments, width): the best of every TRIES in a row."""
    groups = found.values.reshape(-1, TRIES)
    best = np.arange(len(groups)) * TRIES + groups.argmin(axis=1)
    chosen: np.ndarray = found.many_unknowns[best[np.isfinite(found.values[best])]]
    return chosen


def downhill(problem: Problem, unknowns: np.ndarray) -> np.ndarray:
    """Unknowns (experiments, width) after steps at the loose tolerance, as long as they gain much."""
    with np.errstate(all="ignore"):
        ended: np.ndarray = polish(problem, unknowns[None], MUCH, TOLERANCE).many_unknowns[0]
    return ended


def polish(
    problem: Problem, many_unknowns: np.ndarray, little: float = LAST, tolerance: float = CLOSER
) -> Runners:
    """Candidates (candidates, experiments, width) after more steps at a tolerance, until they gain little."""
    runners = begin(problem, many_unknowns, tolerance)
    ended = runners[runners.ended]
    for _ in range(POLISHES):
        runners = advance(problem, runners[~runners.ended], tolerance, little)
        ended += runners[runners.ended]
    return ended + runners[~runners.ended]


def _gains(problem: Problem, before: float, after: float) -> bool:
    size = before if problem.scatter is None else problem.measurements
    return not np.isfinite(before) or bool(before - after > LITTLE * size)


def fine(problem: Problem) -> float:
    """A value at which residuals are hardly larger than the data are rough, or than known noise levels say."""
    if problem.scatter is None:
        return FINE**2 * roughness(problem)
    if _levels_free(problem):
        return roughness(problem) + float(np.log(FINE)) * problem.measurements
    with np.errstate(all="ignore"):
        return _cost(problem, np.nan_to_num(problem.samples.data)) + FINE**2 * problem.measurements / 2


def _levels_free(problem: Problem) -> bool:
    return bool(problem.layout.noise_columns.any())
