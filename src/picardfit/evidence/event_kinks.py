"""Optima at which an event happens at the very time of a sample.

As an event passes a sample, the likelihood has a kink. Where it falls towards the kink from both sides, the optimum is
the kink itself: the time of the event is held there, and the other unknowns are fitted. The time must be a formula of
parameters, as that of a dose after a lag; the objective must be the same with the sample on either side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import sympy

from picardfit.collocation.point import followed
from picardfit.evidence.event_sides import Sides
from picardfit.evidence.residual_variance import residual_variance
from picardfit.formulas.algebra import TIME, names
from picardfit.formulas.kernels import BatchedMap
from picardfit.problem.event_runs import timed_model
from picardfit.problem.problem import Problem, Schedule, Scheduled
from picardfit.problem.quantity import Quantity
from picardfit.solvers.loop import Solution
from picardfit.solvers.refit import Expansion, Refit, expansion_at, on_sides, refined, refit


@dataclass(frozen=True)
class AtKink:
    """When an event is at a sample, and how it is held there."""

    close: float = 1e-9  # distance of their times, relative to the experiment; held events are closer
    settled: float = 1e-8  # decrease that the fit of the others may still promise, in units of the variance
    continuous: float = 1e-6  # difference of the objective between the sides, in units of the variance
    resolution: float = 1e-3  # largest unresolved component of a path, relative to the states' scale


@dataclass(frozen=True)
class Kink:
    """An event at the time of a sample."""

    experiment: int
    happening: int  # number in the schedule of the experiment
    sample: int
    at: float  # the time of the sample
    time: Quantity  # that of the event, exact where it is `at`; later events have larger values
    others: tuple[tuple[int, int, int], ...] = ()
    """Experiment, happening and sample of the other events that meet samples there, as where a lag is shared."""

    def schedule(self, whole: Schedule, after: bool) -> Schedule:
        """The schedule with the sample after the event, or before it; likewise for all that meet there."""
        for e, happening, sample in ((self.experiment, self.happening, self.sample), *self.others):
            whole = with_side(whole, e, happening, sample, after)
        return whole

    @property
    def happenings(self) -> frozenset[tuple[int, int]]:
        """Experiment and number of the events that meet samples there."""
        return frozenset({(self.experiment, self.happening), *((e, k) for e, k, _ in self.others)})


@dataclass(frozen=True)
class Held:
    """The best fit with an event at a sample, with the sample on either side of it."""

    kink: Kink
    after: Refit  # the sample shows the states after the event, which may happen earlier
    before: Refit

    @property
    def is_minimum(self) -> bool:
        """Whether the objective rises to both sides."""
        return self.after.last.slope <= 0 <= self.before.last.slope

    @property
    def lower(self) -> Refit:
        """The side to which the objective rises less, or falls."""
        return self.after if self.falls_after else self.before

    @property
    def falls_after(self) -> bool:
        """Whether the objective falls, or rises least, where the event happens earlier."""
        return -self.after.last.slope < self.before.last.slope


def kink_beside(solution: Solution, sides: Sides) -> Kink | None:
    """The first sample that an event has passed on its way to where it is, if its time can be held there."""
    schedule = solution.system.mesh.schedule
    for e, _, happening in sides:
        passed = [sample for one, sample, k in sides if (one, k) == (e, happening)]
        shown_before = passed[0] < schedule[e][happening].before
        found = kink_of(
            solution.system.problem, schedule, e, happening, max(passed) if shown_before else min(passed)
        )
        if found is not None:
            return found
    return None


def kink_at(solution: Solution) -> Kink | None:
    """The first sample at whose very time an event is."""
    return next(kinks_at(solution), None)


def kinks_at(solution: Solution) -> Iterator[Kink]:
    """The samples at whose very time an event is."""
    return _kinks_at(solution.system.problem, solution.system.mesh.schedule, solution.unknowns)


def _kinks_at(
    problem: Problem, schedule: Schedule, unknowns: np.ndarray, limits: AtKink = AtKink()
) -> Iterator[Kink]:
    model, params = timed_model(problem).simulated, problem.layout.model_values(unknowns)
    states, inputs = np.zeros(len(model.states)), np.zeros(len(model.inputs))
    for e, k, sample, _ in samples_around(problem, schedule):
        if _trigger(problem, schedule[e][k]) is None:
            continue
        time, (start, stop) = problem.experiments[e].times[sample], problem.span(e)
        distances = model.event_maps.triggers.value(time, states, params[e], inputs)
        if abs(distances[schedule[e][k].events[0]]) <= limits.close * (stop - start):
            found = kink_of(problem, schedule, e, k, sample)
            if found is not None:
                yield found


def samples_around(problem: Problem, schedule: Schedule) -> list[tuple[int, int, int, bool]]:
    """Experiment, number of an event, the last sample before it or the first after it, and whether it is the former."""
    found = []
    for e, own in enumerate(schedule):
        count = len(problem.experiments[e].times)
        for k, one in enumerate(own):
            for sample, shown_before in ((one.before - 1, True), (one.before, False)):
                if one.events and 0 <= sample < count:
                    found.append((e, k, sample, shown_before))
    return found


def with_side(whole: Schedule, e: int, happening: int, sample: int, after: bool) -> Schedule:
    """The schedule with a sample after an event, or before it."""
    own = list(whole[e])
    own[happening] = replace(own[happening], before=sample + (not after))
    return (*whole[:e], tuple(own), *whole[e + 1 :])


def kink_of(problem: Problem, schedule: Schedule, e: int, happening: int, sample: int) -> Kink | None:
    """The kink of an event and a sample; None where more than parameters and time decide when the event happens."""
    trigger = _trigger(problem, schedule[e][happening])
    if trigger is None:
        return None
    at = float(problem.experiments[e].times[sample])
    formula = sympy.Float(at, 17) - trigger.xreplace({TIME: sympy.Float(at, 17)})
    time = Quantity("", None, BatchedMap([formula], parameters=tuple(problem.parameters)), experiment=e)
    return Kink(e, happening, sample, at, time)


def _trigger(problem: Problem, one: Scheduled) -> sympy.Expr | None:
    """The trigger of a single event, if it holds time and parameters alone, a free one among them."""
    if len(one.events) != 1 or one.at is not None:
        return None
    trigger, parameters = timed_model(problem).simulated.events[one.events[0]].trigger, problem.parameters
    used = names(trigger) - {str(TIME)}
    known = used <= parameters.keys() and any(parameters[name].fixed is None for name in used)
    return trigger if known else None


def held_at(solution: Solution, kink: Kink, settings: AtKink = AtKink()) -> Held | None:
    """The best fits with the event held at the sample; None where the objective jumps there, or after a failure."""
    problem, unit = solution.system.problem, residual_variance(solution)
    here = expansion_at(problem, solution)
    if here is None or not (np.isfinite(unit) and unit > 0):
        return None
    first = _held(here, kink, True, unit, settings)
    if first is None:
        return None
    meeting = _kinks_at(problem, first.expansion.system.mesh.schedule, first.point.unknowns)
    every = [(one.experiment, one.happening, one.sample) for one in meeting]
    own = (kink.experiment, kink.happening, kink.sample)
    kink = replace(kink, others=tuple(one for one in every if one != own))
    after, before = (_held(here, kink, side, unit, settings) for side in (True, False))
    if after is None or before is None or abs(after.value - before.value) > settings.continuous * unit:
        return None
    return Held(kink, after, before)


def _held(here: Expansion, kink: Kink, after: bool, unit: float, settings: AtKink) -> Refit | None:
    sided = on_sides(here, kink.schedule(here.system.mesh.schedule, after))
    found = None if sided is None else refit(sided, unit, kink.time, kink.at, settings.settled)
    if found is None:
        return None
    finer = refined(found.expansion, settings.resolution)
    return found if finer is found.expansion else refit(finer, unit, kink.time, kink.at, settings.settled)


def solution_of(found: Refit) -> Solution:
    """The end of a refit as a solution."""
    system, point = followed(found.expansion.system, found.point)
    return Solution(system, point.unknowns, point.states, point.path, point.jumps)
