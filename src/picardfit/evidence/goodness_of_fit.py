"""How well a solution fits: likelihood, criteria for choosing between models, and the size of the residuals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from picardfit.evidence.certificate import path_rows
from picardfit.evidence.correlations import (
    Correlogram,
    autocorrelation,
    cross_correlation,
    irregular,
    series_of,
)
from picardfit.evidence.fisher import Information
from picardfit.evidence.fitted_space import FittedSpace, fitted_space
from picardfit.evidence.residual_tests import (
    DEFAULT,
    Diagnostics,
    diagnose,
    freedom,
    has_fixed_degrees,
    named_residuals,
)
from picardfit.evidence.residual_variance import spare_measurements
from picardfit.problem.problem import Problem
from picardfit.solvers.loop import Solution

Residuals = Mapping[str, Mapping[str, np.ndarray]]  # experiment -> observable -> (samples,)


@dataclass(frozen=True)
class Criteria:
    """Criteria for choosing between models, from the negative log-likelihood of `count` measurements.

    `estimated`: how many numbers k were estimated; without a noise model its variance is one of them.
    """

    nllh: float
    estimated: int
    count: int

    @property
    def aic(self) -> float:
        """2 k - 2 log L (Akaike)."""
        return 2 * self.estimated + 2 * self.nllh

    @property
    def aicc(self) -> float | None:
        """AIC + 2 k (k + 1) / (n - k - 1), for few measurements n; None where that is not positive."""
        k, spare = self.estimated, self.count - self.estimated - 1
        return None if spare <= 0 else self.aic + 2 * k * (k + 1) / spare

    @property
    def bic(self) -> float:
        """k log n - 2 log L (Schwarz)."""
        return self.estimated * float(np.log(self.count)) + 2 * self.nllh


def least_squares_loss(solution: Solution) -> float:
    """The paper's L_ls: half the mean over sampling instants of the squared residual norm."""
    problem = solution.system.problem
    outputs = path_rows(solution)[:, : len(problem.model.observables)]
    return problem.least_squares.value(outputs) / len(problem.samples.times)


def negative_log_likelihood(solution: Solution) -> float | None:
    """That of the data, without priors.

    Without a noise model: of normal noise with one variance for all measurements, estimated from them. None where
    that is not defined: no more measurements than unknowns, or residuals that are all zero.
    """
    problem = solution.system.problem
    if problem.noise is None and spare_measurements(problem) <= 0:
        return None
    value = problem.objective.nllh(path_rows(solution))
    return None if value == -np.inf else value


def criteria(problem: Problem, nllh: float) -> Criteria:
    """The criteria of a fit with this negative log-likelihood."""
    return Criteria(nllh, estimated_numbers(problem), problem.measurements)


def estimated_numbers(problem: Problem) -> int:
    """How many numbers are estimated; without a noise model its variance is one of them."""
    return problem.layout.count() + (problem.noise is None)


def reduced_chi_square(solution: Solution) -> float | None:
    """Sum of squared standardised residuals over measurements minus unknowns.

    None without a noise model, and without more measurements than unknowns.
    """
    problem = solution.system.problem
    spare = spare_measurements(problem)
    if spare <= 0 or problem.noise is None:
        return None
    return float(np.nansum(problem.objective.residuals(path_rows(solution)) ** 2)) / spare


def diagnostics(solution: Solution, found: Information | None) -> Diagnostics:
    """Tests of the residuals along a solution; `found`: the information there, if the search converged."""
    problem = solution.system.problem
    residuals = named_residuals(problem, path_rows(solution))
    if problem.noise is not None:
        spare = freedom(problem, found)
        tested = diagnose(residuals, reduced_chi_square(solution), spare, has_fixed_degrees(problem))
    else:
        nothing = problem.mean_loss(problem.least_squares.nothing)
        exact = least_squares_loss(solution) <= DEFAULT.numerical**2 * nothing
        tested = replace(diagnose(residuals, None), exact=exact)
    if tested.exact or found is None:
        return tested
    return with_correlations(tested, problem, residuals, fitted_space(solution))


def with_correlations(
    tested: Diagnostics, problem: Problem, residuals: Residuals, space: FittedSpace | None
) -> Diagnostics:
    """The tests with the correlations of residuals among themselves and with the inputs.

    `space`: the directions that the fitted unknowns take.
    """
    inputs = problem.model.signals
    own: dict[str, Correlogram] = {}
    others: dict[str, dict[str, Correlogram]] = {}
    for column, name in enumerate(problem.model.observables):
        series = []
        for e, one in enumerate(problem.experiments):
            if name in residuals.get(one.name, {}):
                given = dict(zip(inputs, one.inputs_at(inputs, one.times).T, strict=True))
                series.append(series_of(e, column, residuals[one.name][name], given, space))
        found = autocorrelation(series)
        if found is not None:
            own[name] = found
            by_input = {by: cross_correlation(series, by) for by in inputs}
            others[name] = {by: one for by, one in by_input.items() if one is not None}
    uneven = tuple(one.name for one in problem.experiments if irregular(one.times))
    with_inputs = {name: several for name, several in others.items() if several}
    return replace(tested, autocorrelation=own, cross_correlation=with_inputs, irregular=uneven)
