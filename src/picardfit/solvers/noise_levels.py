"""Noise parameters at given residuals: first values for a search, and frozen noise levels for its early stages.

A noise level is the standard deviation (or scale) that the noise model gives to one measurement; it follows from
unknown noise parameters, outputs and states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from picardfit.collocation.bounded_qp import solve_box
from picardfit.model.measurement import Measurement
from picardfit.problem.experiment import neighbour_noise, runs
from picardfit.problem.least_squares import LeastSquares
from picardfit.problem.likelihood import Objective
from picardfit.problem.objective import whitened
from picardfit.problem.problem import Problem
from picardfit.solvers.levenberg_marquardt import Damping, Proposal, minimise


@dataclass(frozen=True)
class NoiseScoring:
    """Fisher scoring for the noise parameters; the values are chosen."""

    steps: int = 40  # at most
    longest: float = 2.0  # step of a logarithm, or of another parameter relative to its size
    least_size: float = 1e-3  # of a parameter near zero, in its own unit
    halvings: int = 12  # of a step until the likelihood grows
    done: float = 1e-6  # predicted decrease of the objective, for each measurement, at which to stop


@dataclass(frozen=True)
class NoiseGuess:
    """What is assumed about noise before anything is fitted; the values are chosen."""

    single: float = 0.1  # error of data without two neighbours, as a fraction of the data's spread
    least: float = (
        0.2  # fraction of a positive value that is left when noise is subtracted: its logarithm exists
    )


class _Model(NamedTuple):
    """The negative log-likelihood with slope and Fisher information by the noise parameters."""

    unknowns: np.ndarray  # (experiments, width)
    value: float
    slope: np.ndarray  # (experiments, width)
    hessian: np.ndarray  # (experiments, width, width)


def fit_noise_parameters(
    problem: Problem,
    unknowns: np.ndarray,
    outputs: np.ndarray,
    states: np.ndarray,
    movable: np.ndarray,
    rules: NoiseScoring = NoiseScoring(),
) -> np.ndarray:
    """The unknowns with their movable noise parameters where the likelihood of given residuals is largest.

    `outputs` (samples, observables) and `states` (samples, states) stay fixed; `movable` is (experiments, width) bool.
    The damping of the search is the number by which a step is divided.
    """
    layout = problem.layout
    movable = movable & layout.noise_columns & layout.exists
    if not movable.any():
        return unknowns

    def propose(here: _Model, divisor: float) -> Proposal[_Model] | None:
        if not np.isfinite(here.value):
            return None
        step = _bounded_step(problem, here, movable, rules)
        predicted = -float(np.sum(here.slope * step)) / 2
        ahead = _model(problem, here.unknowns + step / divisor, outputs, states)
        gain = here.value - ahead.value if ahead.value <= here.value else -np.inf
        return Proposal(ahead, gain, last=gain >= 0 and predicted < rules.done * problem.measurements)

    strongest = 2.0 ** (rules.halvings - 1)
    halving = Damping(1.0, 2.0, least=1.0, negligible=np.inf, strongest=strongest, steps=rules.steps)
    first = _model(problem, unknowns, outputs, states)
    ended = minimise(first, propose, lambda proposal: proposal.point, halving)
    found = ended.proposal.point if ended.converged and ended.proposal else ended.state
    return found.unknowns


def _bounded_step(problem: Problem, here: _Model, movable: np.ndarray, rules: NoiseScoring) -> np.ndarray:
    """(experiments, width): the step to the minimum of the quadratic model, within bounds and not too long."""
    layout, unknowns = problem.layout, here.unknowns
    size = np.maximum(np.abs(unknowns), rules.least_size)
    reach = np.where(layout.scales.curved, rules.longest, rules.longest * size)
    lower = np.where(movable, np.maximum(layout.lower - unknowns, -reach), 0.0)
    upper = np.where(movable, np.minimum(layout.upper - unknowns, reach), 0.0)
    return solve_box(here.hessian, here.slope, layout.local, lower, upper)


def smoothed(problem: Problem, guess: NoiseGuess = NoiseGuess()) -> np.ndarray:
    """(samples, observables): data minus a guess of their noise, from how each differs from its neighbours."""
    samples, data = problem.samples, problem.samples.data
    result = np.array(data)
    for k, spread in enumerate(problem.output_scale):
        for _, mine in runs(samples.experiment):
            rows = mine.start + np.flatnonzero(np.isfinite(data[mine, k]))
            result[rows, k] = _without_noise(samples.times[rows], data[rows, k], guess.single * spread, guess)
    return np.where(np.isfinite(result), result, 0.0)


def _without_noise(times: np.ndarray, values: np.ndarray, single: float, guess: NoiseGuess) -> np.ndarray:
    """Values of one observable minus a guess of their noise; `single`: that of values without two neighbours."""
    noise = np.full(len(values), single)
    if len(values) > 2:
        noise[1:-1] = neighbour_noise(times, values)
        noise[[0, -1]] = np.median(np.abs(noise[1:-1]))
    return np.where(values > 0, np.maximum(values - noise, guess.least * values), values - noise)


def frozen_objective(
    problem: Problem, unknowns: np.ndarray, outputs: np.ndarray, states: np.ndarray
) -> Objective | None:
    """The objective with its noise levels frozen at their values for these outputs; None for least squares."""
    if isinstance(problem.objective, LeastSquares):
        return None
    return problem.objective.with_frozen(_levels(problem, unknowns, outputs, states)[0])


def _levels(
    problem: Problem, unknowns: np.ndarray, outputs: np.ndarray, states: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Noise levels (samples, rows) and their derivatives by the parameters."""
    samples, measurement = problem.samples, problem.measurement
    assert isinstance(measurement, Measurement), "only problems with a noise model have noise levels"
    params = problem.layout.measured_values(unknowns)[samples.experiment]
    inputs = problem.inputs_at(samples.experiment, samples.times)
    return measurement.levels_at(samples.times, outputs, states, params, inputs)


def _model(problem: Problem, unknowns: np.ndarray, outputs: np.ndarray, states: np.ndarray) -> _Model:
    layout, owner = problem.layout, problem.samples.experiment
    levels, wrt_p = _levels(problem, unknowns, outputs, states)
    terms = problem.objective.terms(np.concatenate([outputs, levels], axis=1), expected=True)
    columns, count = layout.columns.parameters, outputs.shape[1]
    jacobian = np.zeros((len(outputs), count + levels.shape[1], len(columns)))
    chain = layout.parameter_slopes(unknowns)[owner][:, None]
    jacobian[:, count:] = wrt_p[..., layout.free_parameters] * chain
    jacobian *= layout.noise_columns[columns]
    white = whitened(terms.factor, jacobian)
    slope, hessian = np.zeros(unknowns.shape), np.zeros((*unknowns.shape, unknowns.shape[1]))
    for e in range(len(unknowns)):
        mine = owner == e
        slope[e, columns] = np.einsum("si,sic->c", terms.slope[mine], jacobian[mine])
        hessian[e, columns[:, None], columns] = np.einsum("sic,sid->cd", white[mine], white[mine])
    return _Model(unknowns, terms.value, slope, hessian)
