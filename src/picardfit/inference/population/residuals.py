"""Predictions and residuals of a population fit, as the field knows them, one row for each measurement.

`pred` is the typical individual, `ipred` the individual itself, `iwres` the residual around it over the standard
deviation of the noise. With the effects eta at their mode, predictions f and their derivatives G by the effects there,

    cwres = C^(-1/2) (y - (f - G eta)),   C = G Omega G' + diag(s^2),

the conditional weighted residuals of Hooker, Staatz and Karlsson (Pharm. Res. 24:2187, 2007) with interaction. `npde`
are the normalised prediction distribution errors of Brendel et al. (Pharm. Res. 23:2036, 2006) and Comets et al.
(Comput. Methods Programs Biomed. 90:154, 2008): with the mean and the covariance of K simulations of an individual,
data and simulations are decorrelated, and the npde is the normal quantile of the part of simulations below the datum.
Both are standard normal where the model is right, npde also where it is not linear. Log-normal noise: in logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.special import ndtri

from picardfit.collocation.mesh import Flags
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.inference.population.estimation import Optimum
from picardfit.inference.population.modes import paths_at
from picardfit.inference.population.predictions import Measurements, Predictions, predict
from picardfit.inference.population.simulation import Distribution


@dataclass(frozen=True, eq=False)
class Residuals:
    """Predictions and conditional residuals at an optimum."""

    optimum: Optimum
    source: Distribution

    @property
    def measurements(self) -> Measurements:
        return self.source.study.setting.measurements

    @cached_property
    def individual(self) -> Predictions:
        return self._predictions(self.optimum.at.eta)

    @cached_property
    def typical(self) -> Predictions:
        return self._predictions(np.zeros_like(self.optimum.at.eta))

    def _predictions(self, eta: Array) -> Predictions:
        setting, near = self.source.study.setting, self.optimum.at.paths
        return predict(
            setting.measurements, paths_at(setting, setting.unknowns(self.source.theta, eta), near)
        )

    @cached_property
    def conditional(self) -> Array:
        """(measurements,): cwres; NaN for censored values."""
        m, found, eta = self.measurements, self.individual, self.optimum.at.eta
        effects, result = eta.shape[1], np.full(len(m.sample), np.nan)
        slopes = found.first[:, 0, :effects]
        expected = found.rows[:, 0] - np.einsum("ne,ne->n", slopes, eta[m.owner])
        for rows in _exact_rows(m):
            g = slopes[rows]
            spread = g @ self.source.covariance @ g.T + np.diag(found.rows[rows, 1] ** 2)
            values, vectors = np.linalg.eigh(spread)
            root = (vectors / np.sqrt(values)) @ vectors.T
            result[rows] = root @ (m.target[rows] - expected[rows])
        return result

    def table(self) -> pd.DataFrame:
        """individual, time, observable, value, censored, pred, ipred, iwres, cwres; a row for each measurement."""
        m, problem = self.measurements, self.source.study.setting.problem
        rows, exact = self.individual.rows, np.isnan(m.low)
        limit = np.where(np.isfinite(m.high), m.high, m.low)
        return pd.DataFrame(
            {
                "individual": np.array(problem.names, object)[m.owner],
                "time": problem.samples.times[m.sample],
                "observable": np.array(problem.model.observables, object)[m.output],
                "value": natural(m, np.where(exact, m.target, limit)),
                "censored": ~exact,
                "pred": natural(m, self.typical.rows[:, 0]),
                "ipred": natural(m, rows[:, 0]),
                "iwres": np.where(exact, (m.target - rows[:, 0]) / rows[:, 1], np.nan),
                "cwres": self.conditional,
            }
        )


def natural(m: Measurements, values: Array) -> Array:
    """Values in units of h (..., measurements) in natural units."""
    with np.errstate(all="ignore"):
        return np.where(m.log, np.exp(values * m.base), values)


def in_units(m: Measurements, values: Array) -> Array:
    """Natural values (..., measurements) in units of h: their logarithm where noise is log-normal."""
    with np.errstate(all="ignore"):
        return np.where(m.log, np.log(np.maximum(values, 0.0)) / m.base, values)


def quantification_limits(m: Measurements) -> Array:
    """(measurements,): the limit of quantification of each, in units of h; -inf without one.

    That of a censored value is its upper limit; of the others the largest of their observable.
    """
    below = np.isfinite(m.high)
    limit = np.where(below, m.high, -np.inf)
    for output in np.unique(m.output):
        mine = m.output == output
        limit[mine & ~below] = limit[mine].max(initial=-np.inf)
    return limit


def normalised_errors(m: Measurements, studies: Array, rng: np.random.Generator) -> Array:
    """(measurements,): npde from simulated studies (K, measurements) in natural units; NaN for values above a limit.

    Values below a limit of quantification, also simulated ones, are drawn from the simulated distribution below it
    (Nguyen, Comets and Mentre, J. Pharmacokinet. Pharmacodyn. 39:499, 2012).
    """
    studies = in_units(m, studies)
    limits, data = quantification_limits(m), m.target.copy()
    data[np.isfinite(m.high)] = -np.inf
    usable = np.isnan(m.low) | np.isfinite(m.high)
    result = np.full(len(data), np.nan)
    for k in range(m.individuals):
        rows = np.flatnonzero((m.owner == k) & usable)
        drawn = studies[:, rows]
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
        if len(rows) and len(drawn) <= len(rows):
            raise InputError("inference.few_simulations", count=len(studies), least=len(rows) + 1)
        if len(rows):
            filled = _imputed(drawn, data[rows], limits[rows], rng)
            result[rows] = _decorrelated(filled[1:], filled[0])
    return result


def _imputed(drawn: Array, data: Array, limits: Array, rng: np.random.Generator) -> Array:
    """(1 + K, n): data, then simulations, with values below limits drawn from what simulations have there."""
    every = np.concatenate([data[None], drawn])
    for j in np.flatnonzero(np.isfinite(limits)):
        low, pool = every[:, j] < limits[j], np.sort(drawn[:, j][drawn[:, j] < limits[j]])
        low[0] = data[j] == -np.inf
        pool = pool if len(pool) else np.array([limits[j]])
        every[low, j] = rng.choice(pool, size=int(low.sum()))
    return every


def _decorrelated(drawn: Array, data: Array) -> Array:
    """(n,): normal quantiles of the part of decorrelated simulations (K, n) below the decorrelated data."""
    count, size = drawn.shape
    middle, spread = drawn.mean(axis=0), np.atleast_2d(np.cov(drawn, rowvar=False))
    scale = np.sqrt(np.maximum(np.diag(spread), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    correlation = spread / scale / scale[:, None] + 1e-12 * np.eye(size)
    lower = np.linalg.cholesky(correlation + np.diag((np.diag(spread) <= 0).astype(float)))
    ours = np.linalg.solve(lower, (data - middle) / scale)
    theirs = np.linalg.solve(lower, ((drawn - middle) / scale).T)
    part = ((theirs < ours[:, None]).mean(axis=1) + (theirs <= ours[:, None]).mean(axis=1)) / 2
    return np.asarray(ndtri(np.clip(part, 0.5 / count, 1 - 0.5 / count)))


def _exact_rows(m: Measurements) -> list[np.ndarray]:
    """The rows of the exact measurements of each individual who has some."""
    exact: Flags = np.isnan(m.low)
    found = [np.flatnonzero((m.owner == k) & exact) for k in range(m.individuals)]
    return [rows for rows in found if len(rows)]
