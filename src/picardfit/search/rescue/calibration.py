"""What can be fitted to given states without integrating again: noise levels, scales and offsets of measurements.

A candidate whose curves are right but whose scale is wrong by decades costs as much as one that is all wrong. So
candidates are compared at the best values of the parameters that only their measurements have.
"""

from __future__ import annotations

import numpy as np

from picardfit.problem.problem import Problem
from picardfit.problem.side_by_side import measured, measured_only, value_of
from picardfit.search.rescue.settings import Rescue
from picardfit.search.rescue.shooting import after, setting_out, stepped, terms_at
from picardfit.solvers.noise_levels import fit_noise_parameters


def fit_measured(
    problem: Problem, many_unknowns: np.ndarray, states: np.ndarray, settings: Rescue
) -> np.ndarray:
    """Candidates (candidates, experiments, width) with the parameters that only measurements have at their best.

    The states at the samples (candidates, samples, states) are held.
    """
    noise = problem.layout.noise_columns
    scales = measured_only(problem) & ~noise
    if scales.any():
        many_unknowns = _borrowed(problem, many_unknowns, states, scales, settings.lenders)
    if noise.any():
        many_unknowns = _with_levels(problem, many_unknowns, states)
    return _descended(problem, many_unknowns, states, settings) if scales.any() else many_unknowns


def costs(problem: Problem, many_unknowns: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(candidates,): the objective of candidates with given states at the samples."""
    rows = measured(problem, many_unknowns, states)
    return np.array([value_of(problem, *one) for one in zip(many_unknowns, rows, strict=True)])


def _borrowed(
    problem: Problem, many_unknowns: np.ndarray, states: np.ndarray, scales: np.ndarray, lenders: int
) -> np.ndarray:
    """Candidates with the scales (width,) of others where those serve better: far off they have no slope."""
    best, least = many_unknowns, costs(problem, many_unknowns, states)
    for shift in range(1, min(lenders, len(many_unknowns))):
        trial = np.where(scales, np.roll(many_unknowns, shift, axis=0), many_unknowns)
        values = costs(problem, trial, states)
        best, least = np.where((values < least)[:, None, None], trial, best), np.minimum(values, least)
    return best


def _with_levels(problem: Problem, many_unknowns: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Candidates with noise levels that fit their residuals."""
    noise, everything = problem.layout.noise_columns, np.ones(many_unknowns.shape[1:], bool)
    outputs = measured(problem, many_unknowns, states)[..., : len(problem.model.observables)]
    many_unknowns, levels = many_unknowns.copy(), many_unknowns[0][:, noise]
    for k in range(len(many_unknowns)):
        many_unknowns[k][:, noise] = levels  # those of the last one are not far away
        many_unknowns[k] = fit_noise_parameters(problem, many_unknowns[k], outputs[k], states[k], everything)
        levels = many_unknowns[k][:, noise]
    return many_unknowns


def _descended(
    problem: Problem, many_unknowns: np.ndarray, states: np.ndarray, settings: Rescue
) -> np.ndarray:
    """Candidates after steps downhill in all parameters that only measurements have."""
    descent, unlimited = settings.descent, np.full(len(many_unknowns), np.inf)
    runners = setting_out(many_unknowns, terms_at(problem, many_unknowns, unlimited, states), descent)
    for _ in range(settings.calibrations):
        trial = stepped(problem, runners, descent)
        ahead = terms_at(problem, trial, runners.values, states)
        runners = after(problem, runners, trial, ahead, settings.little, descent)
    return runners.many_unknowns
