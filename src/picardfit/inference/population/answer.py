"""PopulationFit: the answer of pf.fit for a problem with random effects, with the face of every fit."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from picardfit.display.hook import shown
from picardfit.errors import Conclusion, InputError, Notice, Status
from picardfit.evidence.certificate import NOTHING_CERTIFIED
from picardfit.evidence.derived import DerivedEstimate
from picardfit.evidence.goodness_of_fit import Criteria
from picardfit.fit import Fit
from picardfit.formulas.kernels import Array
from picardfit.hooks import handed_on
from picardfit.inference.identifiability import DEFAULT as VERDICTS
from picardfit.inference.identifiability import Determination, Identifiability, Verdict
from picardfit.inference.population.distribution import Population
from picardfit.inference.population.estimation import Optimum
from picardfit.inference.population.marginals import Marginal
from picardfit.inference.population.paths import Paths, new_paths
from picardfit.inference.population.uncertainty import Kind, deviation
from picardfit.problem.named_values import parameters_of
from picardfit.problem.problem import Problem
from picardfit.solvers.loop import Method, Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.inference.population.profiles import PopulationProfile
    from picardfit.inference.population.structures import LikelihoodRatio
    from picardfit.inference.refits import News


@dataclass(frozen=True)
class PopulationSearch:
    """How one search ended."""

    index: int
    objective: float  # NONMEM's number
    status: Status
    iterations: int
    seconds: float


@shown
@dataclass(frozen=True, eq=False)
class PopulationFit:
    """The result of `pf.fit` for a problem with random effects. Parameters are typical values, in natural units."""

    problem: Problem
    method: Method  # of the first fit, without random effects
    marginal: Marginal
    optimum: Optimum | None
    status: Status
    searches: tuple[PopulationSearch, ...]
    iterations: int
    seconds: float
    seed: int
    warnings: tuple[Notice, ...] = ()

    @property
    def success(self) -> bool:
        return self.status.success

    @property
    def message(self) -> str:
        """How the fit ended, with its warnings."""
        return self.conclusion.sentence()

    @property
    def conclusion(self) -> Conclusion:
        return Conclusion(self.status, self.warnings)

    @cached_property
    def population(self) -> Population:
        """The distribution of the parameters, and the individuals."""
        return Population(self._found)

    @property
    def _found(self) -> Optimum:
        """The optimum, for what cannot be given without one."""
        if self.optimum is None:
            raise InputError("fit.no_solution", ended=self.conclusion)
        return self.optimum

    @property
    def solution(self) -> Solution | None:
        """The paths of the individuals at their most probable parameters; None where nothing was found."""
        return None if self.optimum is None else self.individual_fit.solution

    # ---- likelihood ------------------------------------------------------------------------------------------------

    @property
    def nllh(self) -> float:
        """Negative log of the marginal likelihood, by the approximation `marginal`; infinite without a solution."""
        if self.optimum is None:
            return inf
        exact = self.optimum.at.study.setting.measurements.exact
        return self.optimum.at.likelihood + 0.5 * exact * float(np.log(2 * np.pi))

    @property
    def objective(self) -> float:
        """What was minimised: the negative log-likelihood, with -log density of the priors."""
        penalty = None if self.optimum is None else self.optimum.at.study.penalty
        return self.nllh if penalty is None else self.nllh + penalty.terms(self._found.at.point)[0]

    @property
    def log_likelihood(self) -> float:
        return -self.nllh

    @property
    def loss(self) -> float:
        """Half the mean over sampling instants of the squared residuals, at the parameters of each individual."""
        return inf if self.optimum is None else self.individual_fit.loss

    @property
    def estimated(self) -> int:
        """How many numbers were estimated: typical values, noise levels, entries of the covariance."""
        if self.optimum is None:
            return 0
        study = self.optimum.at.study
        return study.setting.problem.layout.width + len(study.covariance.entries)

    @property
    def _criteria(self) -> Criteria:
        return Criteria(self.nllh, self.estimated, self.problem.measurements)

    @property
    def aic(self) -> float:
        """Akaike's criterion: 2 k - 2 log-likelihood."""
        return self._criteria.aic

    @property
    def aicc(self) -> float | None:
        return self._criteria.aicc

    @property
    def bic(self) -> float:
        """The Bayesian criterion: k log(measurements) - 2 log-likelihood."""
        return self._criteria.bic

    # ---- estimates -------------------------------------------------------------------------------------------------

    @cached_property
    def parameters(self) -> dict[str, float]:
        """Typical values of random parameters, and all other parameters, by name."""
        if self.optimum is None:
            return {}
        layout = self.problem.layout
        place = {layout.names[k]: c for c, k in enumerate(layout.column_parameters)}
        unknowns = np.empty((len(layout.experiments), layout.width))
        for name, value in zip(self._columns, self._theta, strict=True):
            unknowns[:, place[name]] = value
        return parameters_of(self.problem, unknowns)

    @property
    def _theta(self) -> Array:
        at = self._found.at
        return at.study.split(at.point)[0]

    @property
    def _columns(self) -> list[str]:
        """Names of typical values and other parameters, in the order of theta."""
        layout = self._found.at.study.setting.problem.layout
        return [layout.names[k] for k in layout.column_parameters]

    @cached_property
    def derived(self) -> dict[str, DerivedEstimate]:
        """The derived quantities of the problem at the typical values, each with value, standard error and interval."""
        from picardfit.inference.population.derived import derived_of_typical

        return {} if self.optimum is None or not self.problem.derived else derived_of_typical(self)

    @property
    def initial_states(self) -> dict[str, dict[str, float]]:
        """individual -> state -> value at its t0, at its most probable parameters."""
        return {} if self.optimum is None else self.individual_fit.initial_states

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what there is instead of what only other fits have."""
            if hasattr(Fit, name):
                raise AttributeError(str(InputError("fit.not_of_populations", name)))
            raise AttributeError(f"'PopulationFit' object has no attribute '{name}'")

    @property
    def judged(self) -> bool:
        """Whether there are standard errors: the search converged."""
        return self.optimum is not None and self.status.converged and self.optimum.hessian is not None

    def errors(self, kind: Kind | None = None) -> dict[str, float]:
        """Standard errors in natural units, of the kind "sandwich" or "fisher"; `sd(ka)` is the spread of ka.

        By default the sandwich, if there are more individuals than estimated numbers. NaN at a bound and without
        convergence.
        """
        if self.optimum is None:
            return {}
        names = [*self._columns, *(f"sd({name})" for name in self.population.names)]
        if not self.judged:
            return dict.fromkeys(names, nan)
        covariance, population = self.population.errors.covariance(kind), self.population
        width, layout = len(self._theta), self._found.at.study.setting.problem.layout
        scaled = [deviation(covariance, one) for one in np.eye(len(covariance))[:width]]
        slopes = np.abs(layout.slopes(np.tile(self._theta, (len(layout.experiments), 1)))[0])
        found = dict(zip(self._columns, (slopes * scaled).tolist(), strict=True))
        deviations = population.covariance_deviations(kind)
        for k, (name, one) in enumerate(population.spreads.items()):
            estimated = one.sd > 0 and one.state == "estimated"
            found[f"sd({name})"] = float(deviations[k, k] / (2 * one.sd)) if estimated else nan
        return found

    @cached_property
    def standard_errors(self) -> dict[str, float]:
        """`errors()`: of typical values, noise levels and spreads `sd(ka)`."""
        return self.errors()

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Confidence intervals, symmetric in the scale of the search and cut off at the bounds; also of `sd(ka)`."""
        if self.optimum is None:
            return {}
        names = [*self._columns, *(f"sd({name})" for name in self.population.names)]
        if not self.judged:
            return dict.fromkeys(names, (nan, nan))
        layout, population = self._found.at.study.setting.problem.layout, self.population
        covariance, reach = population.errors.covariance(), population.reach(level)
        error = np.array([deviation(covariance, one) for one in np.eye(len(covariance))[: len(self._theta)]])
        ends = [
            layout.natural(
                np.tile(np.clip(end, layout.lower[0], layout.upper[0]), (len(layout.experiments), 1))
            )
            for end in (self._theta - reach * error, self._theta + reach * error)
        ]
        pairs = zip(ends[0][0].tolist(), ends[1][0].tolist(), strict=True)
        found = dict(zip(self._columns, pairs, strict=True))
        spreads = {f"sd({name})": pair for name, pair in population.spread_intervals(level).items()}
        return found | spreads

    def identifiability(self) -> Identifiability:
        """What the data determine: a verdict in words for each typical value and each spread."""
        if not self.judged:
            raise InputError("inference.no_solution", ended=self.status)
        errors, verdicts = self.errors(), {}
        for name in self._columns:
            value = self.parameters[name]
            log = self.problem.parameters[name].log
            unit = abs(value) or 1.0
            verdicts[name] = _verdict(name, value, errors[name] / unit, unit, log or value != 0)
        for name, one in self.population.spreads.items():
            if one.state != "fixed":
                error = inf if one.state == "zero" else one.log_error
                verdicts[f"spread of {name}"] = _verdict(
                    f"spread of {name}", one.sd, error, one.sd or 1.0, one.sd > 0
                )
        return Identifiability(verdicts, (), ())

    # ---- individuals -----------------------------------------------------------------------------------------------

    @cached_property
    def individual_fit(self) -> Fit:
        """The curves of the individuals at their most probable parameters, as a fit with a value for each."""
        return self._fit_along(self._found.at.paths)

    @cached_property
    def typical_fit(self) -> Fit:
        """The curves of all individuals at the typical values, as a fit."""
        at = self._found.at
        setting, count = at.study.setting, at.study.individuals
        unknowns = setting.unknowns(self._theta, np.zeros((count, setting.effects)))
        return self._fit_along(new_paths(setting.problem, unknowns, setting.paths))

    def _fit_along(self, paths: Paths) -> Fit:
        states, linked = paths.states, paths.system.mesh.linked
        solution = Solution(paths.system, paths.unknowns, states, paths.path, np.zeros_like(states[linked]))
        return Fit(
            problem=paths.system.problem,
            method=self.method,
            solution=solution,
            status=self.status,
            certificate=NOTHING_CERTIFIED,
            iterations=self.iterations,
            seconds=self.seconds,
            seed=self.seed,
            searches=(),
            trace=np.zeros((0, 3)),
        )

    def states(self, experiment: str, times: ArrayLike, *, typical: bool = False) -> dict[str, np.ndarray]:
        """All states of an individual at any times, with its most probable or the typical parameters."""
        return (self.typical_fit if typical else self.individual_fit).states(experiment, times)

    def predict(self, experiment: str, times: ArrayLike, *, typical: bool = False) -> dict[str, np.ndarray]:
        """The observables of an individual at any times, with its most probable or the typical parameters."""
        return (self.typical_fit if typical else self.individual_fit).predict(experiment, times)

    def parameters_of(self, experiment: str) -> dict[str, float]:
        """The most probable parameters of one individual under their plain names, as `pf.simulate` takes them."""
        return self.individual_fit.parameters_of(experiment)

    @property
    def residuals(self) -> dict[str, dict[str, np.ndarray]]:
        """individual -> observable -> standardised residuals around the individual's own curve."""
        return self.individual_fit.residuals

    # ---- what needs further fits -----------------------------------------------------------------------------------

    def profile(self, name: str, level: float = 0.95) -> PopulationProfile:
        """The profile likelihood of a typical value or other parameter (`ka`), or of a spread (`sd(ka)`)."""
        from picardfit.inference.population.profiles import profile

        return profile(self, name, level)

    def profiles(
        self,
        names: Iterable[str] | None = None,
        level: float = 0.95,
        *,
        executor: Executor | None = None,
        ledger: str | Path | None = None,
        progress: News = None,
    ) -> dict[str, PopulationProfile]:
        """Profiles of several, by default of all typical values and spreads that are estimated.

        `executor`, `ledger` and `progress` are those of every profile.
        """
        from picardfit.inference.population.profiles import profiles
        from picardfit.inference.refits import Tools

        wanted = [n for n, error in self.errors().items() if not isnan(error)] if names is None else names
        if isinstance(wanted, str):
            raise InputError("fit.names_is_text", value=wanted)
        return profiles(self, list(wanted), level, Tools(executor, ledger, progress))

    def likelihood_ratio(self, smaller: PopulationFit) -> LikelihoodRatio:
        """The likelihood-ratio test against a fit with fewer covariates, parameters or random effects."""
        from picardfit.inference.population.structures import likelihood_ratio

        return likelihood_ratio(self, smaller)

    # ---- pictures and files ----------------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None, experiments: Iterable[str] | None = None) -> Figure:
        """Data with the curve of each individual and of the typical one, at most twelve individuals."""
        return cast("Figure", handed_on("plot_individuals")(self, path, experiments))

    def picture(self, name: str, path: str | Path | None = None) -> Figure:
        """A picture by name: individuals, observed, residuals, cwres, npde, vpc, pcvpc or effects."""
        return cast("Figure", handed_on("draw")(self, name, path))

    def plot_residuals(self, path: str | Path | None = None) -> Figure:
        """Data minus the individual curves, over time and over the fitted value."""
        return self.individual_fit.plot_residuals(path)

    def plots(self, folder: str | Path, ending: str = "png") -> list[Path]:
        """Write all figures of this fit into a folder, as files with this ending, and return their paths."""
        return list(handed_on("write_plots")(self, folder, ending))

    def report(self, path: str | Path, title: str = "Report of a population fit") -> Path:
        """Write a self-contained HTML report."""
        return Path(handed_on("write_population_report")(self, path, title))

    def save(self, path: str | Path) -> Path:
        """Write the fit with its problem as JSON; `pf.load` reads it back."""
        return Path(handed_on("save_population")(self, path))

    def __repr__(self) -> str:
        return str(handed_on("population_line")(self))


def _verdict(name: str, value: float, error: float, unit: float, relative: bool) -> Verdict:
    """The verdict of one estimate with a relative standard error."""
    kind = Determination.NONE
    if error <= VERDICTS.sure:
        kind = Determination.DETERMINED
    elif error <= VERDICTS.weak:
        kind = Determination.WEAK
    return Verdict(name, kind, error, value, unit, relative)
