"""Noise levels at given residuals: first values for a search, and frozen weights for its early stages."""

from __future__ import annotations

import numpy as np

from picardfit.collocation.bounded_qp import solve_box
from picardfit.problem.experiment import neighbour_noise, runs
from picardfit.problem.likelihood import Objective
from picardfit.problem.objective import whitened
from picardfit.problem.problem import Problem

STEPS = 40
LONGEST = 2.0  # step in the logarithm of a level, and in its own size for others
DONE = 1e-6  # promised decrease per measurement at which the levels fit


def fit_noise_parameters(
    problem: Problem, unknowns: np.ndarray, outputs: np.ndarray, states: np.ndarray, movable: np.ndarray
) -> np.ndarray:
    """The unknowns with its movable noise columns where the likelihood of given residuals is largest.

    `outputs` (samples, observables) and `states` (samples, states) are held; `movable` (experiments, width) bool.
    Fisher scoring with steps of at most `LONGEST`, halved until the likelihood grows.
    """
    layout = problem.layout
    movable = movable & layout.noise_columns & layout.exists
    if not movable.any():
        return unknowns
    value, slope, hessian = _terms(problem, unknowns, outputs, states)
    for _ in range(STEPS):
        if not np.isfinite(value):
            return unknowns
        reach = np.where(layout.log, LONGEST, LONGEST * np.maximum(np.abs(unknowns), 1e-3))
        lower = np.where(movable, np.maximum(layout.lower - unknowns, -reach), 0.0)
        upper = np.where(movable, np.minimum(layout.upper - unknowns, reach), 0.0)
        step = solve_box(hessian, slope, layout.local, lower, upper)
        promised = -float(np.sum(slope * step)) / 2
        for _ in range(12):
            trial = _terms(problem, unknowns + step, outputs, states)
            if trial[0] <= value:
                break
            step = step / 2
        else:
            return unknowns
        unknowns, (value, slope, hessian) = unknowns + step, trial
        if promised < DONE * problem.measurements:
            break
    return unknowns


def smoothed(problem: Problem) -> np.ndarray:
    """(samples, observables): data less a guess of their noise, from how each differs from its neighbours.

    Lonely ones are taken to be off by a tenth of the data's spread.
    """
    samples, data = problem.samples, problem.samples.data
    result = np.array(data)
    for k, spread in enumerate(problem.output_scale):
        for _, mine in runs(samples.experiment):
            rows = mine.start + np.flatnonzero(np.isfinite(data[mine, k]))
            y, t = data[rows, k], samples.times[rows]
            noise = np.full(len(rows), 0.1 * spread)
            if len(rows) > 2:
                noise[1:-1] = neighbour_noise(t, y)
                noise[[0, -1]] = np.median(np.abs(noise[1:-1]))
            same_sign = np.where(y != 0, 0.2 * y, -np.inf)  # logarithms must stay possible
            result[rows, k] = np.where(y > 0, np.maximum(y - noise, same_sign), y - noise)
    return np.where(np.isfinite(result), result, 0.0)


def frozen_objective(
    problem: Problem, unknowns: np.ndarray, outputs: np.ndarray, states: np.ndarray
) -> Objective | None:
    """The objective with its levels held at what they are for these outputs; None for least squares."""
    if problem.scatter is None:
        return None
    levels, _ = _levels(problem, unknowns, outputs, states)
    return problem.objective.with_frozen(levels)


def _levels(problem: Problem, unknowns: np.ndarray, outputs: np.ndarray, states: np.ndarray):
    samples = problem.samples
    params = problem.layout.measured_values(unknowns)[samples.experiment]
    inputs = problem.inputs_at(samples.experiment, samples.times)
    return problem.measurement.levels_at(samples.times, outputs, states, params, inputs)


def _terms(problem: Problem, unknowns: np.ndarray, outputs: np.ndarray, states: np.ndarray):
    """Value, slope (experiments, width) and curvature (experiments, width, width) by the noise columns."""
    layout, owner = problem.layout, problem.samples.experiment
    levels, wrt_p = _levels(problem, unknowns, outputs, states)
    terms = problem.objective.terms(np.concatenate([outputs, levels], axis=1), expected=True)
    columns, count = layout.columns.parameters, outputs.shape[1]
    jacobian = np.zeros((len(outputs), count + levels.shape[1], len(columns)))
    jacobian[:, count:] = (
        wrt_p[..., layout.free_parameters] * layout.parameter_slopes(unknowns)[owner][:, None]
    )
    jacobian *= layout.noise_columns[columns]
    white = whitened(terms.factor, jacobian)
    slope, hessian = np.zeros(unknowns.shape), np.zeros((*unknowns.shape, unknowns.shape[1]))
    for e in range(len(unknowns)):
        mine = owner == e
        slope[e, columns] = np.einsum("si,sic->c", terms.slope[mine], jacobian[mine])
        hessian[e, columns[:, None], columns] = np.einsum("sic,sid->cd", white[mine], white[mine])
    return terms.value, slope, hessian
