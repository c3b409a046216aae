"""Many sets of unknowns of a problem simulated side by side, to their samples, with derivatives.

The integration is loose and batched (`picardfit.simulation.batched_rosenbrock`): a set that fails is NaN, and the
others go on.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from picardfit.problem.problem import Problem
from picardfit.simulation.batched_rosenbrock import Course, Courses, RosenbrockSteps, Tracks, integrate


class Simulated:
    """Candidates (candidates, experiments, width) integrated to their samples, as many at a time as memory allows."""

    def __init__(
        self,
        problem: Problem,
        many_unknowns: np.ndarray,
        rtol: float,
        settings: RosenbrockSteps,
        differentiable: bool = True,
    ) -> None:
        size = len(problem.experiments) * len(problem.solved_model.states)
        count = max(1, -(-len(many_unknowns) * size // settings.together))
        groups = np.array_split(np.arange(len(many_unknowns)), count)
        options = (rtol, settings, differentiable)
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


def courses_of(problem: Problem) -> Courses:
    """What all candidates share."""
    courses = [
        Course(
            problem.span(e), one.times, problem.breaks(e), problem.jumps[e], bool(problem.signal_breaks(e))
        )
        for e, one in enumerate(problem.experiments)
    ]
    return Courses(problem.solved_model, courses, problem.inputs_at)


def measured(problem: Problem, many_unknowns: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(candidates, samples, rows) from states at the samples."""
    samples = problem.samples
    params = np.array([problem.layout.measured_values(b) for b in many_unknowns])[:, samples.experiment]
    return problem.measurement_at_samples.value(samples.times, states, params, inputs_of(problem))


def inputs_of(problem: Problem) -> np.ndarray:
    return problem.inputs_at(problem.samples.experiment, problem.samples.times)


def value_of(problem: Problem, unknowns: np.ndarray, rows: np.ndarray) -> float:
    value = problem.objective.value(rows) + (
        0.0 if problem.priors is None else problem.priors.value(unknowns)
    )
    return value if np.isfinite(value) else np.inf


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
