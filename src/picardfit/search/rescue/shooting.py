"""Single shooting of many candidates side by side: what they cost, with derivatives, and steps downhill.

Candidates are integrated at a loose tolerance (`picardfit.problem.side_by_side`), and each takes bounded
Levenberg-Marquardt steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from picardfit.collocation.bounded_qp import solve_box
from picardfit.problem.objective import whitened
from picardfit.problem.problem import Problem
from picardfit.problem.side_by_side import Simulated, inputs_of, measured_only, value_of
from picardfit.search.rescue.settings import Descent, Rescue


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
    found = Simulated(problem, many_unknowns, rtol, settings.integration)
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
    rows = problem.measurement_at_samples.value(samples.times, states, params, inputs_of(problem))
    values = np.array([value_of(problem, b, r) for b, r in zip(many_unknowns, rows, strict=True)])
    slopes, hessians = np.zeros((count, experiments, width)), np.zeros((count, experiments, width, width))
    better = np.flatnonzero(values < least)
    if not len(better):
        return Terms(values, slopes, hessians)
    rows, wrt_x, wrt_p = problem.measurement_at_samples.linearise(
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
