"""What can be fitted to given states without integrating again: noise levels, scales and offsets of measurements.

A candidate whose curves are right but whose scale is wrong by decades costs as much as one that is all wrong. So
candidates are compared at the best values of the parameters that only their measurements have.
"""

from __future__ import annotations

import numpy as np

from picardfit.problem.problem import Problem
from picardfit.search.shooting import after, measured, measured_only, setting_out, stepped, terms_at, value_of
from picardfit.solvers.noise_levels import fit_levels

LENDERS = 24  # candidates whose scales and offsets are tried on each other
STEPS = 10  # of the descent in scales and offsets
LITTLE = 1e-3  # a gain that hardly counts: of the loss, or per measurement of a likelihood


def fit_measured(problem: Problem, borders: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Candidates (candidates, experiments, width) with the parameters that only measurements have at their best.

    The states at the samples (candidates, samples, states) are held.
    """
    noise = problem.unknowns.noise_columns
    scales = measured_only(problem) & ~noise
    if scales.any():
        borders = _borrowed(problem, borders, states, scales)
    if noise.any():
        borders = _with_levels(problem, borders, states)
    return _descended(problem, borders, states) if scales.any() else borders


def costs(problem: Problem, borders: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(candidates,): the objective of candidates with given states at the samples."""
    rows = measured(problem, borders, states)
    return np.array([value_of(problem, *one) for one in zip(borders, rows, strict=True)])


def _borrowed(problem: Problem, borders: np.ndarray, states: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Candidates with the scales (width,) of others where those serve better: far off they have no slope."""
    best, least = borders, costs(problem, borders, states)
    for shift in range(1, min(LENDERS, len(borders))):
        trial = np.where(scales, np.roll(borders, shift, axis=0), borders)
        values = costs(problem, trial, states)
        best, least = np.where((values < least)[:, None, None], trial, best), np.minimum(values, least)
    return best


def _with_levels(problem: Problem, borders: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Candidates with noise levels that fit their residuals."""
    noise, everything = problem.unknowns.noise_columns, np.ones(borders.shape[1:], bool)
    outputs = measured(problem, borders, states)[..., : len(problem.model.observables)]
    borders, levels = borders.copy(), borders[0][:, noise]
    for k in range(len(borders)):
        borders[k][:, noise] = levels  # those of the last one are not far away
        borders[k] = fit_levels(problem, borders[k], outputs[k], states[k], everything)
        levels = borders[k][:, noise]
    return borders


def _descended(problem: Problem, borders: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Candidates after steps downhill in all parameters that only measurements have."""
    runners = setting_out(borders, terms_at(problem, borders, np.full(len(borders), np.inf), states))
    for _ in range(STEPS):
        trial = stepped(problem, runners)
        runners = after(problem, runners, trial, terms_at(problem, trial, runners.values, states), LITTLE)
    return runners.borders
