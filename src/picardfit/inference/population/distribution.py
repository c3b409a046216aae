"""Population: the distribution of the parameters between individuals, and the individuals themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.special import gammaincinv

from picardfit.display.hook import shown
from picardfit.evidence.fisher import quantile
from picardfit.formulas.kernels import Array
from picardfit.inference.population.estimation import Optimum
from picardfit.inference.population.predictive_checks import Checks, PredictiveCheck
from picardfit.inference.population.simulation import Distribution, SimulatedPopulation, simulate_population
from picardfit.inference.population.uncertainty import Errors, Kind, deviation
from picardfit.problem.experiment import Experiment


@dataclass(frozen=True)
class Spread:
    """The standard deviation of one random effect, in the scale where it is normal."""

    name: str
    sd: float
    log_error: float  # standard error of log sd; NaN where it is held
    cv: float  # coefficient of variation of the parameter, in per cent
    shrinkage: float
    state: str  # "estimated", "fixed" or "zero"


@shown
@dataclass(frozen=True, eq=False)
class Population:
    """What a fit says about a population: effects in the scale where they are normal, individuals in natural units."""

    optimum: Optimum

    @property
    def objective(self) -> float:
        """NONMEM's objective: -2 log L - n log(2 pi) for n exact measurements."""
        return 2 * self.optimum.at.likelihood

    @cached_property
    def errors(self) -> Errors:
        return Errors(self.optimum)

    def reach(self, level: float) -> float:
        """Standard errors to either side of an interval: Student's t, as individuals are what varies."""
        return quantile(level, max(len(self.individual_names) - len(self.names), 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The random parameters."""
        return self.optimum.at.study.covariance.names

    @property
    def individual_names(self) -> tuple[str, ...]:
        return self.optimum.at.study.setting.problem.names

    @cached_property
    def _matrix(self) -> Array:
        study = self.optimum.at.study
        matrix = study.covariance.matrix(study.split(self.optimum.at.point)[1])
        gone = np.array(self._states) == "zero"
        matrix[gone], matrix[:, gone] = 0.0, 0.0
        return matrix

    @cached_property
    def _states(self) -> tuple[str, ...]:
        """Whether each spread is estimated, fixed or was found to be zero."""
        covariance = self.optimum.at.study.covariance
        factor = covariance.factor(self.optimum.at.study.split(self.optimum.at.point)[1])
        found = ["estimated"] * len(self.names)
        for k in covariance.fixed:
            found[k] = "fixed"
        for k in self._held:
            beside = np.delete(factor[k], k)
            found[k] = "zero" if np.abs(beside).max(initial=0.0) <= factor[k, k] else "estimated"
        return tuple(found)

    @property
    def _held(self) -> list[int]:
        """Effects whose entry of D is held at its smallest value."""
        study, box = self.optimum.at.study, self.optimum.box
        width = study.setting.problem.layout.width
        return [
            one.row
            for k, one in enumerate(study.covariance.entries, width)
            if one.row == one.column and not box.lower[k] < box.upper[k]
        ]

    @property
    def degenerate(self) -> tuple[str, ...]:
        """Effects that the others of their group determine: correlations of one."""
        return tuple(self.names[k] for k in self._held if self._states[k] == "estimated")

    @property
    def covariance(self) -> pd.DataFrame:
        """The covariance of the random effects."""
        return self._table(self._matrix)

    @property
    def correlation(self) -> pd.DataFrame:
        """Correlations of the random effects; NaN where one does not vary."""
        with np.errstate(all="ignore"):
            root = np.sqrt(np.diag(self._matrix))
            return self._table(self._matrix / root / root[:, None])

    @property
    def covariance_errors(self) -> pd.DataFrame:
        """Standard errors of the entries of `covariance`; NaN where an entry is not estimated."""
        return self._table(self.covariance_deviations())

    def covariance_deviations(self, kind: Kind | None = None) -> Array:
        """(effects, effects): standard errors of the covariance, of the kind "sandwich" or "fisher"."""
        slopes = self._matrix_slopes
        found = np.full(self._matrix.shape, np.nan)
        for a, b in np.argwhere(self.optimum.at.study.covariance.pattern):
            found[a, b] = deviation(self.errors.covariance(kind), slopes[:, a, b])
        return found

    @cached_property
    def _matrix_slopes(self) -> Array:
        """(outer, effects, effects): derivatives of the covariance."""
        study = self.optimum.at.study
        theta, coordinates = study.split(self.optimum.at.point)
        factor = study.covariance.factor(coordinates)
        half = study.covariance.factor_slopes(coordinates) @ factor.T
        whole = half + half.transpose(0, 2, 1)
        return np.concatenate([np.zeros((len(theta), *factor.shape)), whole])

    @cached_property
    def spreads(self) -> dict[str, Spread]:
        """The standard deviation of each effect, with its error."""
        layout, covariance = self.optimum.at.study.setting.problem.layout, self.errors.covariance()
        theta = self.optimum.at.study.split(self.optimum.at.point)[0]
        typical = np.tile(theta, (len(layout.experiments), 1))
        natural, slopes = layout.natural(typical)[0], layout.slopes(typical)[0]
        shrinkage, found = self.shrinkage, {}
        for k, name in enumerate(self.names):
            variance = float(self._matrix[k, k])
            error = np.nan
            if variance > 0 and self._states[k] == "estimated":
                error = deviation(covariance, self._matrix_slopes[:, k, k]) / (2 * variance)
            if layout.log[0, k]:
                cv = 100 * float(np.sqrt(np.expm1(variance)))
            else:
                cv = 100 * float(np.sqrt(variance) * slopes[k] / abs(natural[k])) if natural[k] else np.nan
            sd = float(np.sqrt(variance))
            found[name] = Spread(name, sd, error, cv, float(shrinkage[name]), self._states[k])
        return found

    def spread_intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Confidence intervals of the standard deviations: the variance is distributed as chi-squared.

        Its degrees of freedom come from Fisher's error e of the logarithm of the standard deviation, 1 / (2 e^2)
        (Satterthwaite 1946), and are less than the individuals. Intervals that are symmetric in the logarithm, and
        those by the sandwich, hold the truth too seldom with 50 individuals (benchmarks/population_studies.py).
        """
        count, errors = len(self.individual_names), self.covariance_deviations("fisher")
        found = {}
        for k, (name, one) in enumerate(self.spreads.items()):
            variance = one.sd**2
            if one.state != "estimated" or not np.isfinite(errors[k, k]):
                found[name] = (np.nan, np.nan) if one.state != "estimated" else (0.0, np.inf)
                continue
            freedom = min(2 * (variance / errors[k, k]) ** 2, count - 1)
            total = freedom * variance * count / (count - 1)  # the mean is estimated too
            ends = 2 * gammaincinv(freedom / 2, [0.5 + level / 2, 0.5 - level / 2])  # of chi-square
            with np.errstate(divide="ignore"):
                low, high = np.sqrt(total / ends).tolist()
            found[name] = (low, high)
        return found

    def correlation_intervals(self, level: float = 0.95) -> dict[tuple[str, str], tuple[float, float]]:
        """Confidence intervals of the estimated correlations, symmetric in Fisher's z = artanh."""
        found, factor, outer = {}, self.reach(level), self.errors.covariance()
        for a, b in np.argwhere(self.optimum.at.study.covariance.pattern):
            if a >= b or not self._matrix[a, a] * self._matrix[b, b] > 0:
                continue
            size = np.sqrt(self._matrix[a, a] * self._matrix[b, b])
            rho, slopes = self._matrix[a, b] / size, self._matrix_slopes
            slope = slopes[:, a, b] / size - 0.5 * rho * (
                slopes[:, a, a] / self._matrix[a, a] + slopes[:, b, b] / self._matrix[b, b]
            )
            error = deviation(outer, slope / (1 - rho**2))
            middle = np.arctanh(rho)
            found[self.names[a], self.names[b]] = (
                float(np.tanh(middle - factor * error)),
                float(np.tanh(middle + factor * error)),
            )
        return found

    @property
    def effects(self) -> pd.DataFrame:
        """The most probable effects eta of each individual."""
        return self._by_individual(self.optimum.at.eta)

    @property
    def effect_errors(self) -> pd.DataFrame:
        """Conditional standard deviations of the effects, given the data of each individual."""
        return self._by_individual(np.sqrt(self._conditional))

    @cached_property
    def _conditional(self) -> Array:
        """(individuals, effects): conditional variances, the diagonal of L A^-1 L'."""
        study = self.optimum.at.study
        factor = study.covariance.factor(study.split(self.optimum.at.point)[1])
        within = factor @ np.linalg.inv(self.optimum.at.curvature) @ factor.T
        return np.asarray(np.diagonal(within, axis1=1, axis2=2))

    @property
    def individuals(self) -> pd.DataFrame:
        """The most probable value of each random parameter of each individual, in natural units."""
        setting = self.optimum.at.study.setting
        natural = setting.problem.layout.natural(self._unknowns)
        return self._by_individual(natural[:, : setting.effects])

    @property
    def individual_errors(self) -> pd.DataFrame:
        """Their conditional standard deviations, in natural units (to first order)."""
        setting = self.optimum.at.study.setting
        slopes = setting.problem.layout.slopes(self._unknowns)[:, : setting.effects]
        return self._by_individual(np.abs(slopes) * np.sqrt(self._conditional))

    @property
    def _unknowns(self) -> Array:
        study = self.optimum.at.study
        return study.setting.unknowns(study.split(self.optimum.at.point)[0], self.optimum.at.eta)

    @property
    def shrinkage(self) -> pd.Series:
        """1 - sd(eta) / omega of each effect: near 1 where individuals' data say little; NaN for no spread."""
        with np.errstate(all="ignore"):
            found = 1 - self.optimum.at.eta.std(axis=0, ddof=1) / np.sqrt(np.diag(self._matrix))
        gone = np.diag(self._matrix) == 0
        return pd.Series(np.where(gone, np.nan, found), index=list(self.names))

    # ---- predictions and simulations -------------------------------------------------------------------------------

    @cached_property
    def distribution(self) -> Distribution:
        """Typical values and covariance, from which individuals are drawn."""
        study = self.optimum.at.study
        theta = study.split(self.optimum.at.point)[0]
        return Distribution(study, theta, self._matrix, self._matrix_slopes[len(theta) :])

    @cached_property
    def _checks(self) -> Checks:
        return Checks(self.optimum, self.distribution)

    def residuals(self) -> pd.DataFrame:
        """A row for each measurement: individual, time, observable, value, censored, pred, ipred, iwres, cwres."""
        return self._checks.residuals.table()

    def npde(self, simulations: int | None = None, seed: int = 0) -> pd.DataFrame:
        """`residuals()` with the column npde: normalised prediction distribution errors by simulation.

        `simulations`: of the study; by default 500, fewer of large studies.
        """
        return self._checks.npde(simulations, seed)

    def vpc(
        self,
        observable: str | None = None,
        bins: int | Iterable[float] | None = None,
        quantiles: Iterable[float] = (0.05, 0.5, 0.95),
        corrected: bool = False,
        level: float = 0.95,
        simulations: int | None = None,
        seed: int = 0,
    ) -> PredictiveCheck:
        """The visual predictive check of an observable, by default of the first; `corrected`: for its prediction.

        `bins`: how many, or their edges in time; `level`: of the bands in which simulations have their quantiles.
        """
        return self._checks.vpc(observable, bins, quantiles, corrected, level, simulations, seed)

    def simulate(
        self, n: int, seed: int = 0, designs: Iterable[Experiment] | Experiment | None = None
    ) -> SimulatedPopulation:
        """`n` new individuals with measurements; doses, times and covariates of one drawn from the data each.

        `designs`: experiments, also planned ones (`pf.plan`), to draw from instead.
        """
        return simulate_population(self.distribution, n, seed, designs)

    def _table(self, matrix: Array) -> pd.DataFrame:
        return pd.DataFrame(matrix, index=list(self.names), columns=list(self.names))

    def _by_individual(self, values: Array) -> pd.DataFrame:
        return pd.DataFrame(values, index=list(self.individual_names), columns=list(self.names))
