"""Single shooting of many candidates side by side: what they cost, with derivatives, and steps downhill.

Candidates are integrated at a loose tolerance (`picardfit.simulation.batched_rosenbrock`), and each takes bounded
Levenberg-Marquardt steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from picardfit.collocation.bounded_qp import solve_box
from picardfit.problem.objective import whitened
from picardfit.problem.problem import Problem
from picardfit.search.rescue.settings import Descent, Rescue
from picardfit.simulation.batched_rosenbrock import Course, Courses, RosenbrockSteps, Tracks, integrate


@dataclass(frozen=True)
class Terms:
    """The quadratic models of candidates that were integrated with derivatives."""

    values: np.ndarray  # (candidates,)
    slopes: np.ndarray  # (candidates, experiments, width)
    hessians: np.ndarray  # (candidates, experiments, width, width)

    def __getitem__(self, chosen: np.ndarray | slice) -> Terms:
        return Terms(self.values[chosen], self.slopes[chosen], self.hessians[chosen])

    def __add__(self, other: Terms) -> Terms:
        return Terms(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.slopes, other.slopes]),
            np.concatenate([self.hessians, other.hessians]),
        )

    def taking(self, better: np.ndarray, trial: Terms) -> Terms:
        """This with the trial's terms where that is better (candidates,)."""
        return Terms(
            np.where(better, trial.values, self.values),
            np.where(better[:, None, None], trial.slopes, self.slopes),
            np.where(better[:, None, None, None], trial.hessians, self.hessians),
        )


@dataclass(frozen=True)
class Runners:
    """Candidates on their way downhill."""

    many_unknowns: np.ndarray  # (runners, experiments, width)
    terms: Terms
    damping: np.ndarray  # (runners,)
    left: np.ndarray  # (runners,): steps that may still gain next to nothing; 0 where a runner has ended
    varied: np.ndarray  # (runners,) bool: those that began as a variation of another

    def __len__(self) -> int:
        return len(self.many_unknowns)

    def __getitem__(self, chosen: np.ndarray | slice) -> Runners:
        return Runners(
            self.many_unknowns[chosen],
            self.terms[chosen],
            self.damping[chosen],
            self.left[chosen],
            self.varied[chosen],
        )

    def __add__(self, other: Runners) -> Runners:
        return Runners(
            np.concatenate([self.many_unknowns, other.many_unknowns]),
            self.terms + other.terms,
            np.concatenate([self.damping, other.damping]),
            np.concatenate([self.left, other.left]),
            np.concatenate([self.varied, other.varied]),
        )

    @property
    def values(self) -> np.ndarray:
        return self.terms.values

    @property
    def unvaried(self) -> Runners:
        """Those that began at a candidate of their own."""
        return self[~self.varied]

    @property
    def ended(self) -> np.ndarray:
        """(runners,) bool: those that gain nothing any more."""
        return self.left <= 0


def begin(
    problem: Problem, many_unknowns: np.ndarray, rtol: float, settings: Rescue, varied: int = 0
) -> Runners:
    """Candidates (candidates, experiments, width) that set out; so many of them, the last, are variations."""
    least = np.full(len(many_unknowns), np.inf)
    terms = terms_of(problem, many_unknowns, least, rtol, settings)
    return setting_out(many_unknowns, terms, settings.descent, varied)


def setting_out(many_unknowns: np.ndarray, terms: Terms, descent: Descent, varied: int = 0) -> Runners:
    """Candidates (candidates, experiments, width) with their terms, at the first damping."""
    count = len(many_unknowns)
    return Runners(
        many_unknowns,
        terms,
        np.full(count, descent.damping),
        np.where(np.isfinite(terms.values), descent.idle, 0),
        np.arange(count) >= count - varied,
    )


def advance(problem: Problem, runners: Runners, rtol: float, little: float, settings: Rescue) -> Runners:
    """Every runner after one step, or with more damping where that did not go down.

    A gain is little below this part of the loss, or below this per measurement of a likelihood.
    """
    if not len(runners):
        return runners
    trial = stepped(problem, runners, settings.descent)
    ahead = terms_of(problem, trial, runners.values, rtol, settings)
    return after(problem, runners, trial, ahead, little, settings.descent)


def stepped(problem: Problem, runners: Runners, descent: Descent) -> np.ndarray:
    """(runners, experiments, width): where the steps of the runners lead."""
    layout, terms = problem.layout, runners.terms
    trial = runners.many_unknowns.copy()
    for k in np.flatnonzero(np.isfinite(terms.values)):
        step = _step(problem, trial[k], terms.slopes[k], terms.hessians[k], runners.damping[k], descent)
        trial[k] = np.clip(trial[k] + step, layout.lower, layout.upper)
    return trial


def after(
    problem: Problem, runners: Runners, trial: np.ndarray, ahead: Terms, little: float, descent: Descent
) -> Runners:
    """The runners at their trial points where those are better, else with more damping."""
    terms = runners.terms
    better = ahead.values < terms.values
    gain = np.where(better, terms.values - ahead.values, 0.0)
    idle = gain <= little * (terms.values if problem.scatter is None else problem.measurements)
    lower = np.maximum(descent.decrease * runners.damping, descent.least_damping)
    damping = np.where(better, lower, descent.increase * runners.damping)
    left = np.where(better, np.where(idle, runners.left - 1, descent.idle), runners.left)
    return Runners(
        np.where(better[:, None, None], trial, runners.many_unknowns),
        terms.taking(better, ahead),
        damping,
        np.where(damping > descent.most_damping, 0, left),
        runners.varied,
    )


def _step(
    problem: Problem,
    unknowns: np.ndarray,
    slope: np.ndarray,
    hessian: np.ndarray,
    damping: float,
    descent: Descent,
) -> np.ndarray:
    """A bounded Levenberg-Marquardt step (experiments, width)."""
    layout = problem.layout
    size = layout.size(unknowns)
    damped, index = hessian.copy(), np.arange(layout.width)
    diagonal = hessian[:, index, index].copy()
    diagonal[:, layout.local :] = diagonal[:, layout.local :].sum(axis=0) / len(diagonal)
    largest = float((diagonal * size**2).max(initial=np.finfo(float).tiny))
    least = descent.weakest * largest / size**2
    damped[:, index, index] += damping * np.maximum(diagonal, least)
    reach = np.where(layout.scales.curved, descent.reach, np.inf)
    lower = np.maximum(layout.lower - unknowns, -reach)
    upper = np.minimum(layout.upper - unknowns, reach)
    try:
        step = solve_box(damped, slope, layout.local, lower, upper)
    except np.linalg.LinAlgError:
        return np.zeros_like(unknowns)
    return np.where(np.isfinite(step), step, 0.0)


def terms_of(
    problem: Problem, many_unknowns: np.ndarray, least: np.ndarray, rtol: float, settings: Rescue
) -> Terms:
    """Values, slopes and Gauss-Newton curvatures of candidates (candidates, experiments, width).

    Those that do not fall below `least` (candidates,) get no slopes.
    """
    found = Simulated(problem, many_unknowns, rtol, settings)
    return terms_at(problem, many_unknowns, least, found.states, found.slopes)


def terms_at(
    problem: Problem,
    many_unknowns: np.ndarray,
    least: np.ndarray,
    states: np.ndarray,
    slopes_of: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Terms:
    """Values, slopes and curvatures of candidates whose states at the samples (candidates, samples, states) are known.

    `slopes_of` gives their derivatives (chosen, samples, states, width). Without it the states are held, and only the
    parameters that nothing but the measurements have (`measured_only`) get slopes.
    """
    layout, samples = problem.layout, problem.samples
    count, (experiments, width) = len(many_unknowns), layout.lower.shape
    params = np.array([layout.measured_values(b) for b in many_unknowns])[:, samples.experiment]
    rows = problem.measurement.value(samples.times, states, params, inputs_of(problem))
    values = np.array([value_of(problem, b, r) for b, r in zip(many_unknowns, rows, strict=True)])
    slopes, hessians = np.zeros((count, experiments, width)), np.zeros((count, experiments, width, width))
    better = np.flatnonzero(values < least)
    if not len(better):
        return Terms(values, slopes, hessians)
    rows, wrt_x, wrt_p = problem.measurement.linearise(
        samples.times, states[better], params[better], inputs_of(problem)
    )
    chain = np.array([layout.parameter_slopes(b) for b in many_unknowns[better]])[:, samples.experiment, None]
    jacobian = np.zeros((*rows.shape, width))  # (better, samples, rows, width)
    jacobian[..., layout.columns.parameters] = wrt_p[..., layout.free_parameters] * chain
    moved = measured_only(problem) if slopes_of is None else np.ones(width, bool)
    jacobian[..., ~moved] = 0.0
    if slopes_of is not None:
        jacobian += wrt_x @ slopes_of(better)
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
            slope, curvature = problem.priors.terms(many_unknowns[k])
            slopes[k] += slope * moved
            hessians[k] += (curvature * moved)[:, :, None] * np.eye(width)
    return Terms(values, slopes, hessians)


def measured_only(problem: Problem) -> np.ndarray:
    """(width,) bool: unknown parameters on which no state depends."""
    layout = problem.layout
    only = np.zeros(layout.width, bool)
    only[layout.columns.parameters] = np.asarray(layout.exists.any(axis=0))[layout.columns.parameters]
    if layout.formulas is not None:
        every = np.concatenate([layout.local_parameters, layout.global_parameters])
        _, pattern = layout.formulas.jacobian_pattern
        only[len(layout.initial_states) :] &= ~np.asarray(pattern.any(axis=0))[every]
    return np.asarray(only & ~_in_equations(problem))


def value_of(problem: Problem, unknowns: np.ndarray, rows: np.ndarray) -> float:
    value = problem.objective.value(rows) + (
        0.0 if problem.priors is None else problem.priors.value(unknowns)
    )
    return value if np.isfinite(value) else np.inf


def courses_of(problem: Problem) -> Courses:
    """What all candidates share."""
    courses = [
        Course(
            problem.span(e), one.times, problem.breaks(e), problem.jumps[e], bool(problem.signal_breaks(e))
        )
        for e, one in enumerate(problem.experiments)
    ]
    return Courses(problem.solved_model, courses, problem.inputs_at)


class Simulated:
    """Candidates (candidates, experiments, width) integrated to their samples, as many at a time as memory allows."""

    def __init__(
        self,
        problem: Problem,
        many_unknowns: np.ndarray,
        rtol: float,
        settings: Rescue,
        differentiable: bool = True,
    ) -> None:
        size = len(problem.experiments) * len(problem.solved_model.states)
        count = max(1, -(-len(many_unknowns) * size // settings.descent.memory))
        groups = np.array_split(np.arange(len(many_unknowns)), count)
        options = (rtol, settings.integration, differentiable)
        self._parts = [_Part(problem, many_unknowns[few], *options) for few in groups]
        self._edges = np.cumsum([0, *map(len, groups)])
        self.work = sum(part.integrated.work for part in self._parts)  # without derivatives
        self.states = np.concatenate([part.states for part in self._parts])  # (candidates, samples, states)

    def slopes(self, chosen: np.ndarray) -> np.ndarray:
        """(chosen, samples, states, width): derivatives by the unknowns of candidates (ascending) that did not fail."""
        found = []
        for part, (first, end) in zip(self._parts, pairwise(self._edges), strict=True):
            found.append(part.slopes(chosen[(chosen >= first) & (chosen < end)] - first))
        return np.concatenate(found)


class _Part:
    """Candidates that are integrated side by side; their states are NaN where one failed."""

    def __init__(
        self,
        problem: Problem,
        many_unknowns: np.ndarray,
        rtol: float,
        integration: RosenbrockSteps,
        differentiable: bool,
    ) -> None:
        layout = problem.layout
        self.problem, self.many_unknowns = problem, many_unknowns
        self.count, self.experiments = len(many_unknowns), len(problem.experiments)
        initial = np.array([layout.initial(b)[0] for b in many_unknowns])
        params = np.array([layout.model_values(b) for b in many_unknowns])
        owner = np.repeat(np.arange(self.experiments), self.count)
        tracks = Tracks(owner, *(_by_experiment(a) for a in (initial, params)))
        self.integrated = integrate(courses_of(problem), tracks, rtol, integration, differentiable)
        self.states = self._by_sample(
            [self.integrated.states(track) for track in range(len(owner))], self.count
        )

    def slopes(self, chosen: np.ndarray) -> np.ndarray:
        layout, width = self.problem.layout, self.problem.layout.width
        if not len(chosen):
            return np.zeros((0, *self.states.shape[1:], width))
        by_unknowns = np.array([layout.initial_derivative(b) for b in self.many_unknowns[chosen]])
        acting = np.flatnonzero(_in_equations(self.problem) | (by_unknowns != 0).any(axis=(0, 1, 2)))
        ways = np.array([_by_unknowns(self.problem, b) for b in self.many_unknowns[chosen]])
        tracks = (np.arange(self.experiments)[:, None] * self.count + chosen).ravel()
        found = self.integrated.slopes(tracks, *(_by_experiment(a[..., acting]) for a in (by_unknowns, ways)))
        wide = np.zeros((len(chosen), *self.states.shape[1:], width))
        wide[..., acting] = self._by_sample(found, len(chosen))
        return wide

    def _by_sample(self, tracks: list[np.ndarray], count: int) -> np.ndarray:
        """(count, samples, ...) from tracks (times, ...), ordered by experiment."""
        parts = [np.stack(tracks[e * count : (e + 1) * count]) for e in range(self.experiments)]
        return self.problem.since_last_sample(np.concatenate(parts, axis=1), axis=1)


def _by_experiment(values: np.ndarray) -> np.ndarray:
    """(experiments * candidates, ...) from (candidates, experiments, ...)."""
    count = values.shape[0] * values.shape[1]
    return values.swapaxes(0, 1).reshape(count, *values.shape[2:])


def _in_equations(problem: Problem) -> np.ndarray:
    """(width,) bool: parameters that appear in the right-hand side."""
    layout = problem.layout
    _, pattern = problem.solved_model.rhs.jacobian_pattern
    every = np.concatenate([layout.local_parameters, layout.global_parameters])
    own = every < layout.model_parameters
    appears = np.zeros(layout.width, bool)
    appears[len(layout.initial_states) + np.flatnonzero(own)] = np.asarray(pattern.any(axis=0))[every[own]]
    return np.asarray(appears & layout.exists.any(axis=0))


def _by_unknowns(problem: Problem, unknowns: np.ndarray) -> np.ndarray:
    """(experiments, model parameters, width): derivative of the model's parameters by the unknowns."""
    layout = problem.layout
    every = np.concatenate([layout.local_parameters, layout.global_parameters])
    own = np.flatnonzero(every < layout.model_parameters)
    columns = len(layout.initial_states) + own
    derivative = np.zeros((len(unknowns), layout.model_parameters, layout.width))
    derivative[:, every[own], columns] = layout.slopes(unknowns)[:, columns]
    return derivative


def measured(problem: Problem, many_unknowns: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(candidates, samples, rows) from states at the samples."""
    samples = problem.samples
    params = np.array([problem.layout.measured_values(b) for b in many_unknowns])[:, samples.experiment]
    return problem.measurement.value(samples.times, states, params, inputs_of(problem))


def inputs_of(problem: Problem) -> np.ndarray:
    return problem.inputs_at(problem.samples.experiment, problem.samples.times)
