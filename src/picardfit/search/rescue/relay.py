"""Searches side by side: many candidates are simulated in one batch, and the best go downhill by single shooting.

The other kind of search, for problems whose guessed paths lead nowhere or to several optima: stiff oscillators, whose
jumps lie between the samples, bounds of many decades, states that no sample shows. Candidates spread evenly over the
bounds are ranked by what their predictions cost at their best scales and noise levels. A fixed number of them goes
downhill at the same time (shooting.py), in the same arrays, so that 64 cost little more than one. When a candidate has
come to an end, its lane goes to the next one in the queue or to a variation of the best found so far: optima of such
problems lie in funnels, and a better one is far more likely near a good one than anywhere. Searches on the Picard
operator then begin at the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from picardfit.problem.problem import Problem
from picardfit.problem.side_by_side import Simulated, measured
from picardfit.search.rescue.calibration import costs, fit_measured
from picardfit.search.rescue.leading import led
from picardfit.search.rescue.settings import Lead, Rescue
from picardfit.search.rescue.shooting import Runners, advance, begin
from picardfit.search.rescue.variations import variations
from picardfit.search.starts import candidates
from picardfit.solvers.loop import News, ignore


@dataclass(frozen=True)
class Candidates:
    """Unknowns with what they cost: infinite where the integration fails."""

    many_unknowns: np.ndarray  # (candidates, experiments, width)
    values: np.ndarray  # (candidates,)
    interrupted: bool = False  # whether Ctrl-C ended the work early
    work: float = 0.0  # of all simulations

    def best(self, count: int) -> Candidates:
        """The best of those that can be integrated, best first."""
        order = np.argsort(self.values, kind="stable")[:count]
        order = order[np.isfinite(self.values[order])]
        return Candidates(self.many_unknowns[order], self.values[order], work=self.work)


def find_candidates(
    problem: Problem,
    given: np.ndarray,
    seed: int,
    further: np.ndarray,
    settings: Rescue,
    news: News = ignore,
) -> Candidates:
    """The best of many candidates after single shooting, and the best of those that are no variations of others.

    `given` (experiments, width; internal, NaN where open) stands in for missing bounds; `further` (k, experiments,
    width) are candidates besides those spread over the bounds by this seed. `news` gets the loss of the leader
    after every step. Ctrl-C leaves the best so far.
    """
    fewer = max(1, len(problem.experiments) // settings.experiments)
    count, lanes = settings.candidates // fewer, max(settings.lanes // fewer, settings.parents)
    with np.errstate(all="ignore"):
        spread = candidates(problem, given, max(settings.lanes, count), seed)
        ranked = rank(problem, np.concatenate([spread, further]), settings).best(len(spread))
        if not len(ranked.values):  # the equations have no solution anywhere
            return ranked
        with_slopes = 1 + problem.layout.width / settings.integration.ways
        price = ranked.work * with_slopes * lanes / (len(spread) + len(further))  # of a step of all lanes
        steps = min(settings.steps, max(0, int((settings.work - ranked.work) / price)))
        rng, found, step, work = np.random.default_rng([seed, len(spread)]), None, 0, ranked.work
        try:
            if settings.lead is not None:
                for now in islice(_led(problem, ranked, lanes, settings), steps):
                    step, ranked = step + 1, now
                    news(step, problem.mean_loss(ranked.values[0]), 0.0)
            for found in islice(relay(problem, ranked, lanes, rng, settings), steps - step):
                step += 1
                news(step, problem.mean_loss(found.values[0]), 0.0)
        except KeyboardInterrupt:
            best = ranked if found is None else found
            return Candidates(best.many_unknowns[:1], best.values[:1], interrupted=True)
    best = ranked.best(1) if found is None else found[:1] + found[1:].unvaried[: settings.finalists - 1]
    return Candidates(best.many_unknowns, best.values, work=work + step * price)


def _led(problem: Problem, ranked: Candidates, lanes: int, settings: Rescue) -> Iterator[Candidates]:
    """Yield the candidates after every step of a group of them on the first samples; in the end ranked again."""
    chosen = ranked.many_unknowns[: (settings.lead or Lead()).candidates]
    groups = np.array_split(chosen, -(-len(chosen) // lanes))
    for k, group in enumerate(groups):
        for now in led(problem, group, settings):
            groups[k] = now
            yield ranked
    again = rank(problem, np.concatenate(groups), settings).best(len(ranked.values))
    yield again if len(again.values) else ranked


def polished(problem: Problem, many_unknowns: np.ndarray, settings: Rescue) -> Candidates:
    """Candidates (candidates, experiments, width) after more steps at a closer tolerance, best first."""
    if not len(many_unknowns):
        return Candidates(many_unknowns, np.zeros(0))
    with np.errstate(all="ignore"):
        runners = begin(problem, many_unknowns, settings.closer, settings)
        ended = runners[runners.ended]
        for _ in range(settings.polishes):
            runners = advance(problem, runners[~runners.ended], settings.closer, settings.last, settings)
            ended += runners[runners.ended]
        found = _best_first(ended + runners[~runners.ended])
    return Candidates(found.many_unknowns, found.values)


def rank(problem: Problem, many_unknowns: np.ndarray, settings: Rescue) -> Candidates:
    """Candidates (candidates, experiments, width) and what they cost, after fitting all that needs no integration."""
    simulated = Simulated(problem, many_unknowns, settings.tolerance, settings.integration, False)
    states = simulated.states
    values, many_unknowns = np.full(len(many_unknowns), np.inf), many_unknowns.copy()
    outputs = measured(problem, many_unknowns, states)[..., : len(problem.model.observables)]
    sound = np.isfinite(outputs).all(axis=(1, 2))
    if sound.any():
        many_unknowns[sound] = fit_measured(problem, many_unknowns[sound], states[sound], settings)
        values[sound] = costs(problem, many_unknowns[sound], states[sound])
    return Candidates(many_unknowns, values, work=simulated.work)


def relay(
    problem: Problem, queue: Candidates, lanes: int, rng: np.random.Generator, settings: Rescue
) -> Iterator[Runners]:
    """Yield the best found so far after every step, best first.

    `lanes` candidates go downhill at a time, from the queue and from variations of the best. Free lanes are filled when
    they are a quarter. Half of them go to the queue as long as the best came from there, fewer when they began as
    variations. It ends when there has been no better leader for a while, in steps and in descents: after all lanes have
    come to an end at about the same time, the first variations are still on their way.
    """
    tolerance, little, kept = settings.tolerance, settings.little, settings.parents + settings.finalists
    runners = begin(problem, queue.many_unknowns[:lanes], tolerance, settings)
    waiting = queue.many_unknowns[lanes:]
    ended, leader, since, vain = runners[:0], np.inf, 0, 0
    while True:
        runners = advance(problem, runners, tolerance, little, settings)
        arrived = runners[runners.ended]
        ended = _best_first(ended + arrived)
        ended = _distinct(problem, ended, little)[:kept] + ended.unvaried[: settings.finalists]
        runners = runners[~runners.ended]
        found = _best_first(ended + runners)
        if not len(found):
            return
        yield found
        best = found.values[0]
        size = leader if problem.scatter is None else problem.measurements
        since = 0 if not np.isfinite(leader) or leader - best > little * size else since + 1
        leader, vain = min(best, leader), vain + len(arrived) if since else 0
        if since >= settings.patience and vain >= settings.vain * lanes:
            return
        free = lanes - len(runners)
        if 4 * free < lanes:
            continue
        parents = _distinct(problem, found, little)[: settings.parents]
        share = max(settings.queued, 0.5 * float(np.mean(~parents.varied)))
        fresh = waiting[: int(np.ceil(share * free))]
        waiting = waiting[len(fresh) :]
        tries = settings.variation.tries
        varied = variations(problem, parents, tries * (free - len(fresh)), rng, settings.variation)
        chosen = _best_of_each(rank(problem, varied, settings), tries) if len(varied) else varied
        if len(fresh) + len(chosen):  # none where no variation can be integrated
            runners += begin(problem, np.concatenate([fresh, chosen]), tolerance, settings, len(chosen))


def _distinct(problem: Problem, found: Runners, little: float) -> Runners:
    """The best of each group with nearly the same value, of runners that are sorted by it."""
    size = found.values if problem.scatter is None else np.full(len(found), float(problem.measurements))
    new = np.ones(len(found), bool)
    new[1:] = np.diff(found.values) > 3 * little * size[1:]
    return found[new]


def _best_of_each(found: Candidates, tries: int) -> np.ndarray:
    """(k, experiments, width): the best of every `tries` in a row."""
    groups = found.values.reshape(-1, tries)
    best = np.arange(len(groups)) * tries + groups.argmin(axis=1)
    chosen: np.ndarray = found.many_unknowns[best[np.isfinite(found.values[best])]]
    return chosen


def _best_first(found: Runners) -> Runners:
    """In order of their values, without those that failed."""
    found = found[np.argsort(found.values, kind="stable")]
    return found[np.isfinite(found.values)]
