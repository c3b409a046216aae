"""The marginal objective of a problem at values that a user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from picardfit.checks import as_number
from picardfit.errors import InputError, closest
from picardfit.formulas.kernels import Array
from picardfit.inference.population.covariance import Covariance, covariance_of
from picardfit.inference.population.individual_problem import individual_problem
from picardfit.inference.population.marginals import FO, Marginal, Quadrature, as_marginal
from picardfit.inference.population.modes import InnerSettings, Setting
from picardfit.inference.population.objective import Study, evaluate
from picardfit.inference.population.paths import PathSettings
from picardfit.inference.population.penalty import penalty_of
from picardfit.inference.population.predictions import measurements_of
from picardfit.problem.named_values import unknowns_from
from picardfit.problem.problem import Problem


def study_of(problem: Problem, marginal: object = None) -> Study:
    """The population of a problem, or an InputError where it has none."""
    chosen, inner = as_marginal(marginal), individual_problem(problem)
    names = [inner.layout.names[k] for k in inner.layout.local_parameters]
    assert problem.random is not None
    covariance = covariance_of(problem.random, names)
    setting = Setting(inner, measurements_of(inner), len(names), PathSettings(), InnerSettings())
    _check_marginal(setting, chosen)
    return Study(setting, covariance, chosen, penalty_of(problem, inner, covariance) or None)


def _check_marginal(setting: Setting, marginal: Marginal) -> None:
    if isinstance(marginal, FO) and len(setting.measurements.censored):
        raise InputError("inference.censored_with_fo")
    if isinstance(marginal, Quadrature) and marginal.nodes**setting.effects > marginal.most:
        points = marginal.nodes**setting.effects
        raise InputError(
            "inference.too_many_nodes", nodes=marginal.nodes, effects=setting.effects, points=points
        )


def marginal_objective(
    problem: Problem, parameters: Mapping[str, object], covariance: object, marginal: object = None
) -> float:
    """NONMEM's objective at given values: -2 log L - n log(2 pi); infinite where there is no solution."""
    study = study_of(problem, marginal)
    theta = unknowns_from(study.setting.problem, parameters)[0]
    names = study.covariance.names
    known = Covariance(names, (), {}, root_of(given_covariance(covariance, names), names))
    return 2 * evaluate(replace(study, covariance=known, penalty=None), theta, gradient=False).likelihood


def given_covariance(given: object, names: Sequence[str]) -> Array:
    """The covariance (effects, effects) that a mapping of variances or a DataFrame means."""
    if isinstance(given, pd.DataFrame):
        return _from_table(given, names)
    if not isinstance(given, Mapping):
        raise InputError("inference.not_a_covariance", value=given)
    for name in given:
        if name not in names:
            close = closest(str(name), names)
            raise InputError("inference.covariance_name", str(name), known=list(names), close=close)
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError("inference.covariance_missing", missing[0], known=list(names))
    return np.diag([as_number(given[name], "variance", name) for name in names])


def _from_table(given: pd.DataFrame, names: Sequence[str]) -> Array:
    for name in (*given.index, *given.columns):
        if name not in names:
            close = closest(str(name), names)
            raise InputError("inference.covariance_name", str(name), known=list(names), close=close)
    missing = [name for name in names if name not in given.index or name not in given.columns]
    if missing:
        raise InputError("inference.covariance_missing", missing[0], known=list(names))
    return np.asarray(given.loc[list(names), list(names)], float)


def root_of(matrix: Array, names: Sequence[str], rounding: float = 1e-10) -> Array:
    """L with L L' = matrix, which is symmetric and has no negative eigenvalue; InputError otherwise."""
    size = float(np.abs(matrix).max(initial=0.0))
    if not np.isfinite(matrix).all() or np.abs(matrix - matrix.T).max(initial=0.0) > rounding * size:
        raise InputError("inference.covariance_not_symmetric", known=list(names))
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    if values[0] < -rounding * size:
        raise InputError("inference.covariance_not_definite", known=list(names), least=float(values[0]))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
