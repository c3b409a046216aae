"""pf.fit, which estimates the unknowns of a problem, and Fit, its answer with the evidence, by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from picardfit.checks import as_whole
from picardfit.display.hook import shown
from picardfit.errors import Conclusion, InputError, Notice, Status
from picardfit.evidence import goodness_of_fit
from picardfit.evidence.certificate import Certificate, path_rows, path_value
from picardfit.evidence.curves import checked_times, outputs_at, states_along
from picardfit.evidence.derived import DerivedEstimate, derived_estimates
from picardfit.evidence.fisher import Information, Yardstick, information, yardstick_of
from picardfit.evidence.intervals import correlation, interval_ends, natural_covariance, standard_errors
from picardfit.evidence.optima import (
    Optimum,
    SearchSummary,
    count_hits,
    margin_as_good,
    optima_of,
    unseen_share,
)
from picardfit.evidence.residual_tests import Diagnostics, diagnose, named_residuals
from picardfit.evidence.residual_variance import residual_variance
from picardfit.parallel.ordered_map import check_tools
from picardfit.problem.named_values import (
    experiment_index,
    initial_states_of,
    labels_of,
    parameters_in,
    parameters_of,
    start_values,
)
from picardfit.problem.problem import Problem
from picardfit.search.estimate import estimate
from picardfit.search.policy import START_LIMITS, SearchPolicy
from picardfit.search.searches import Request
from picardfit.solvers.gauss_newton.method import LiftedGaussNewton
from picardfit.solvers.loop import Method, Progress, Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.display.explore import Explorer
    from picardfit.inference.bands import Bands
    from picardfit.inference.bootstrap import Bootstrap, Kind
    from picardfit.inference.identifiability import Identifiability
    from picardfit.inference.posterior.methods import Method as PosteriorMethod
    from picardfit.inference.posterior.posterior import Posterior
    from picardfit.inference.posterior.run import News as PosteriorNews
    from picardfit.inference.profile import Profile
    from picardfit.inference.refits import News
    from picardfit.inference.validation import Initial, Validation
    from picardfit.problem.experiment import Experiment


def fit(
    problem: Problem,
    method: Method | None = None,
    *,
    start: Mapping[str, object] | None = None,
    start_initial: Mapping[str, object] | None = None,
    starts: int = 1,
    policy: SearchPolicy | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    ledger: str | Path | None = None,
    progress: Callable[[Progress], None] | Literal[False] | None = None,
    marginal: object = None,
) -> Fit:
    """Estimate the unknowns of a problem.

    `start`: values of parameters to begin with (`start_initial`: of initial states); values that are not given come
    from the bounds. This applies to the first of several `starts`; the others are spread evenly over the bounds
    (around `start` where there are none) by `seed`. The result is the same with every `executor`, which may be any
    `concurrent.futures.Executor`. With the default, one start, `policy` decides how many searches there are: until two
    that began elsewhere agree on the best optimum. `pf.SearchPolicy(most=1)` makes exactly one search.
    `ledger`: a file that keeps finished starts, so that the same call resumes an interrupted run, also with more
    starts. `progress` is called with a `Progress` after every iteration, or with an executor after every start. By
    default several starts show a progress bar on a terminal; False switches it off.

    A problem with random effects is fitted by its marginal likelihood: `marginal` is pf.FOCEI() by default, pf.FOCE(),
    pf.FO(), pf.MarginalLaplace() or pf.Quadrature(nodes=5). The answer is then a pf.PopulationFit, which has the same
    face and `population` beside it.
    """
    method = LiftedGaussNewton() if method is None else method
    starts, seed = as_whole(starts, "starts", 1, most=START_LIMITS.most), as_whole(seed, "seed", 0)
    policy = SearchPolicy() if policy is None else policy
    _check_arguments(problem, method, policy)
    check_tools(executor, ledger, progress, "a pf.Progress")
    if problem.random is not None:
        from picardfit.inference.population.fitting import fit_population

        tools = executor, ledger, progress
        answer = fit_population(problem, method, marginal, start, starts, policy, seed, *tools)
        return cast("Fit", answer)  # it has the face of a Fit, and callers need not tell them apart
    if marginal is not None:
        raise InputError("inference.marginal_without_random")
    began = time.perf_counter()
    problem.check_inputs()
    given = start_values(problem, start, start_initial)
    found = estimate(Request(problem, method, given, starts, seed, policy), executor, ledger, progress)
    return Fit(**vars(found), seconds=time.perf_counter() - began)


def _check_arguments(problem: object, method: object, policy: object) -> None:
    if not isinstance(problem, Problem):
        raise InputError("fit.not_a_problem", value=problem)
    if isinstance(method, type):
        raise InputError("fit.method_is_a_class", method.__name__)
    if not callable(getattr(method, "step", None)):
        raise InputError("fit.not_a_method", value=method)
    if not isinstance(policy, SearchPolicy):
        raise InputError("fit.not_a_policy", value=policy)
    if problem.layout.count() == 0:
        raise InputError("fit.nothing_unknown")
    for one in problem.experiments:
        if one.planned is not None:
            raise InputError("fit.planned", one.name, key=("experiments", one.name))


@shown
@dataclass(frozen=True, eq=False)
class Fit:
    """The result of `pf.fit`. Values are in natural units; local parameters are called `a[experiment]`."""

    problem: Problem
    method: Method
    solution: Solution | None
    status: Status
    certificate: Certificate  # NOTHING_CERTIFIED when there is no solution
    iterations: int
    seconds: float
    seed: int
    searches: tuple[SearchSummary, ...]
    trace: np.ndarray  # (iterations, 3): loss, largest relative jump, Picard residual (NaN: not known)
    warnings: tuple[Notice, ...] = ()
    policy: SearchPolicy = field(default=SearchPolicy())
    asked: int = 1  # how many searches were asked for; 1: as many as the policy needed

    @property
    def success(self) -> bool:
        return self.status.success

    @property
    def message(self) -> str:
        """How the fit ended, with its warnings; after a failure the likely causes come first."""
        return self.conclusion.sentence()

    @property
    def conclusion(self) -> Conclusion:
        """How the fit ended, as a record whose sentence is `message`."""
        return Conclusion(self.status, self.warnings)

    @cached_property
    def loss(self) -> float:
        """The paper's L_ls: half the mean over sampling instants of the squared residual norm."""
        return inf if self.solution is None else goodness_of_fit.least_squares_loss(self.solution)

    @cached_property
    def objective(self) -> float:
        """What was minimised: L_ls, or with a noise model the negative log-likelihood with the priors on top."""
        return inf if self.solution is None else self.problem.mean_loss(path_value(self.solution))

    @cached_property
    def nllh(self) -> float | None:
        """Negative log-likelihood of the data, without priors.

        Without a noise model: that of normal noise with one variance for all measurements, estimated from them. None
        where that is not defined: no more measurements than unknowns, or residuals that are all zero.
        """
        return inf if self.solution is None else goodness_of_fit.negative_log_likelihood(self.solution)

    @property
    def log_likelihood(self) -> float | None:
        return None if self.nllh is None else -self.nllh

    @property
    def estimated(self) -> int:
        """How many numbers were estimated; without a noise model its variance is one of them."""
        return goodness_of_fit.estimated_numbers(self.problem)

    @property
    def _criteria(self) -> goodness_of_fit.Criteria | None:
        return None if self.nllh is None else goodness_of_fit.criteria(self.problem, self.nllh)

    @property
    def aic(self) -> float | None:
        """Akaike's criterion: 2 k - 2 log-likelihood; None without a likelihood."""
        return None if self._criteria is None else self._criteria.aic

    @property
    def aicc(self) -> float | None:
        """Akaike's criterion corrected for few measurements; None when there are hardly more than unknowns."""
        return None if self._criteria is None else self._criteria.aicc

    @property
    def bic(self) -> float | None:
        """The Bayesian criterion: k log(measurements) - 2 log-likelihood; None without a likelihood."""
        return None if self._criteria is None else self._criteria.bic

    @property
    def reduced_chi_square(self) -> float | None:
        """Sum of squared standardised residuals over measurements minus unknowns: near 1 for the right noise levels.

        With levels that were estimated it is near measurements / (measurements - unknowns), and says nothing. None
        without a noise model, where `residual_variance` is the mean square, and without degrees of freedom.
        """
        return None if self.solution is None else goodness_of_fit.reduced_chi_square(self.solution)

    @cached_property
    def residuals(self) -> dict[str, dict[str, np.ndarray]]:
        """experiment -> observable -> standardised residuals at its times, NaN where not measured.

        They are standard normal if the noise model is right (Student's t and Laplace noise are mapped to normal
        numbers). Without a noise model: data minus fit over the root mean square of all.
        """
        return {} if self.solution is None else named_residuals(self.problem, path_rows(self.solution))

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """What the residuals say about model and noise: tests of runs, autocorrelation, inputs, normality and size."""
        if self.solution is None:
            return diagnose({}, None)
        found = self.information if self.status.converged else None
        return goodness_of_fit.diagnostics(self.solution, found)

    @property
    def hits(self) -> int:
        """How many of the searches ended in the best of `optima`."""
        return count_hits(self.searches)

    @property
    def unseen_share(self) -> float:
        """Estimated part of the starting points that leads to optima not found yet: those found once over searches."""
        return unseen_share(self.searches)

    @property
    def loss_tolerance(self) -> float:
        """Difference of losses up to which the data cannot tell another optimum from this one."""
        return 0.0 if self.solution is None else margin_as_good(self.problem, self.objective)

    @cached_property
    def parameters(self) -> dict[str, float]:
        """Estimated and fixed parameters by name."""
        return parameters_of(self.problem, None if self.solution is None else self.solution.unknowns)

    @cached_property
    def derived(self) -> dict[str, DerivedEstimate]:
        """The derived quantities of the problem by name, each with value, standard error and interval.

        By the delta method; `derived_profiles` has their profile likelihoods.
        """
        if self.solution is None or not self.problem.derived:
            return {}
        found = self.information if self.status.converged else None
        return derived_estimates(self.solution, found, self.residual_variance, self.yardstick)

    @cached_property
    def derived_profiles(self) -> dict[str, Profile]:
        """The profiles of derived quantities that tables and reports show, by name, up to intervals of 95 %.

        Large problems, or more than twelve quantities, have none: ask for one with `fit.profile("half_life")`.
        """
        from picardfit.inference.derived_profiles import derived_profiles

        return derived_profiles(self)

    @cached_property
    def initial_states(self) -> dict[str, dict[str, float]]:
        """experiment -> state -> value at the experiment's t0."""
        return {} if self.solution is None else initial_states_of(self.problem, self.solution.unknowns)

    @cached_property
    def residual_variance(self) -> float:
        """Variance of one measurement in units of the assumed one: 1 with a noise model.

        Else the sum of squares over measurements minus unknowns (NaN when none are left).
        """
        if self.solution is None:
            return nan if self.problem.noise is None else 1.0
        return residual_variance(self.solution)

    @property
    def yardstick(self) -> Yardstick:
        """How many standard errors an interval is wide, and how far a profile is followed."""
        return yardstick_of(self.problem)

    @cached_property
    def information(self) -> Information:
        """Fisher information of the unknowns that are not at a bound."""
        return information(self._solved)

    @cached_property
    def whole_information(self) -> Information:
        """Fisher information of all unknowns, those at a bound among them."""
        return information(self._solved, everything=True) if self.information.at_bound else self.information

    @cached_property
    def covariance(self) -> np.ndarray:
        """Covariance of the unknowns `covariance_labels`, in natural units; infinite where not determined.

        NaN when the search did not converge, because the curvature says nothing about errors then.
        """
        if self.solution is None:
            return np.zeros((0, 0))
        if not self.status.converged:
            return np.full((len(self.information.index),) * 2, nan)
        return natural_covariance(self.solution, self.information, self.residual_variance)

    @property
    def covariance_labels(self) -> tuple[str, ...]:
        return () if self.solution is None else self.information.labels

    @cached_property
    def standard_errors(self) -> dict[str, float]:
        """Standard error of every unknown, from the Fisher information.

        NaN at a bound, without convergence, and without a variance: no more measurements than unknowns.
        """
        found: dict[str, float] = {}
        if self.solution is not None and self.status.converged and not isnan(self.residual_variance):
            found = standard_errors(self.solution, self.information, self.residual_variance)
        return {name: found.get(name, nan) for name in self._estimated}

    @property
    def _estimated(self) -> list[str]:
        """Names of the unknowns: parameters, then initial states."""
        return [] if self.solution is None else labels_of(self.problem)

    @cached_property
    def optima(self) -> tuple[Optimum, ...]:
        """The different optima that the starts reached, the best first."""
        return optima_of(self.searches, self.standard_errors)

    @property
    def rivals(self) -> tuple[Optimum, ...]:
        """Optima elsewhere that fit as well as the best one."""
        return tuple(one for one in self.optima[1:] if one.loss - self.optima[0].loss <= self.loss_tolerance)

    def waterfall(self) -> np.ndarray:
        """The losses of all starts in ascending order; infinite where a start found no solution."""
        losses = np.array([one.loss for one in self.searches])
        return np.sort(np.where(np.isnan(losses), np.inf, losses))

    def searches_table(self, most: int = 40) -> str:
        """How the starts ended, as text: the optima they reached, then the starts by ascending loss."""
        from picardfit.display.text import optima_text, waterfall_text

        return f"{optima_text(self)}\n\n{waterfall_text(self, most)}"

    @cached_property
    def correlation(self) -> np.ndarray:
        """Correlation of the unknowns `covariance_labels`; NaN where one of them is not determined."""
        return self.correlation_of(self.covariance_labels)

    def correlation_of(self, names: Iterable[str]) -> np.ndarray:
        """Correlation of some of the unknowns `covariance_labels`, which costs little however many there are."""
        if self.solution is None:
            return np.zeros((0, 0))
        return correlation(self.information, names, self.residual_variance)

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Confidence intervals of the unknowns from the Fisher information, cut off at the bounds.

        Log parameters get one that is symmetric in the log, logits in the logit. An unknown at its bound gets a
        one-sided interval from there: as far as the quadratic model of its profile stays below the threshold of
        `level`. All are NaN when the search did not converge.
        """
        factor, ends = self.yardstick.errors(level), {}
        if self.solution is not None and self.status.converged:
            ends = interval_ends(self.solution, self.information, factor, self.residual_variance)
        return {name: ends.get(name, (nan, nan)) for name in self._estimated}

    def profile(
        self,
        name: str,
        level: float = 0.95,
        *,
        executor: Executor | None = None,
        ledger: str | Path | None = None,
        progress: News = None,
    ) -> Profile:
        """The profile likelihood of an unknown (`a`, `a[pond 1]`, `prey(0)[pond 1]`) or of a formula of them (`a/b`).

        It extends to both ends of the confidence interval of this level. For the other arguments see `profiles`.
        """
        from picardfit.inference.profile import Tools, profile

        return profile(self, name, level, Tools(executor, ledger, progress))

    def profiles(
        self,
        names: Iterable[str] | None = None,
        level: float = 0.95,
        *,
        executor: Executor | None = None,
        ledger: str | Path | None = None,
        progress: News = None,
    ) -> dict[str, Profile]:
        """Profiles of several unknowns or formulas, all parameters by default; the same with every executor.

        `ledger`: a file that keeps finished branches (below or above the estimate), so that the same call resumes an
        interrupted run, also with more names. Ctrl-C returns the profiles of which a branch is finished. `progress` is
        called with the numbers of finished branches and of all; by default long runs show a progress bar on a
        terminal, which False switches off.
        """
        from picardfit.inference.profile import Tools, profiles

        wanted = [n for n in self._estimated if n in self.parameters] if names is None else names
        if isinstance(wanted, str):
            raise InputError("fit.names_is_text", value=wanted)
        return profiles(self, list(wanted), level, Tools(executor, ledger, progress))

    def bootstrap(
        self,
        count: int = 200,
        *,
        kind: Kind | str = "parametric",
        seed: int = 0,
        executor: Executor | None = None,
        ledger: str | Path | None = None,
        progress: News = None,
    ) -> Bootstrap:
        """Fits to `count` data sets simulated from this fit, each started from its solution.

        `kind`: "parametric" draws noise from the estimated noise, "residual" draws from the residuals of each
        observable, each in units of the level of its measurement where there is a noise model. The same seed gives the
        same samples with every executor. `ledger`: a file that keeps finished fits, so that the same call resumes an
        interrupted run, also with a larger count. Ctrl-C returns what is finished. `progress` is called with the
        numbers of finished fits and of all; by default long runs show a progress bar, which False switches off.
        """
        from picardfit.inference.bootstrap import Tools, bootstrap

        return bootstrap(self, count, kind, seed, Tools(executor, ledger, progress))

    def posterior(
        self,
        method: PosteriorMethod | None = None,
        *,
        seed: int = 0,
        ledger: str | Path | None = None,
        progress: PosteriorNews = None,
    ) -> Posterior:
        """Draws of the posterior: likelihood times priors, flat where no prior is given, within the bounds.

        `method`: `pf.NUTS(draws=1000, chains=4)` by default, or `pf.LaplaceDraws(draws=4000)`, which answers at once.
        The same seed gives the same draws. Ctrl-C returns what all chains have drawn. `ledger` is a file that keeps the
        iterations of `pf.NUTS`, so that the same call goes on where an earlier one was interrupted and ends with the
        same draws. `progress` is called with the numbers of finished iterations, of all, and of divergences; by default
        long runs show a progress bar, which False switches off.
        """
        from picardfit.inference.posterior.run import posterior

        return posterior(self, method, seed, progress, ledger)

    def validate(
        self,
        experiments: Experiment | Iterable[Experiment] | None = None,
        *,
        initial: Initial = "fitted",
        leave_out: bool = False,
        executor: Executor | None = None,
        ledger: str | Path | None = None,
        progress: News = None,
    ) -> Validation:
        """How well these parameters predict other experiments: R², normalised error, tests of residuals, a picture.

        Parameters are held. `initial`: initial states that nothing gives, and local parameters, are "fitted" to the new
        data, or must be "given" in the experiments; numbers by state, {"x": 1.0}, give them for all. `leave_out=True`
        instead predicts each experiment of this fit with the parameters fitted to all others. The other arguments are
        those of `profiles`.
        """
        from picardfit.inference.validation import Tools, leave_one_out, validate

        if leave_out and experiments is not None:
            raise InputError("fit.validate_both")
        if not leave_out and experiments is None:
            raise InputError("fit.validate_nothing")
        tools = Tools(executor, ledger, progress)
        return (
            leave_one_out(self, initial, tools) if leave_out else validate(self, experiments, initial, tools)
        )

    def bands(
        self,
        experiment: str,
        times: ArrayLike,
        level: float = 0.95,
        *,
        noise: bool = False,
        inputs: Mapping[str, object] | None = None,
        initial: Mapping[str, float] | None = None,
        bootstrap: Bootstrap | None = None,
    ) -> Bands:
        """States and observables with pointwise confidence bands, at any times from t0 on.

        By the delta method from the covariance of the unknowns, or from the percentiles of a `bootstrap`. With `noise`
        the bands of the observables are those in which a new measurement lies. `inputs`, `initial`: a prediction with
        other inputs, from other (known) initial states; all that is not given stays as in the experiment.
        """
        from picardfit.inference.bands import bands

        e, _ = experiment_index(self.problem, experiment), self._solved
        if not self.status.converged and bootstrap is None:
            raise InputError("fit.no_bands", ended=self.conclusion)
        return bands(self, e, self._times(e, times), level, noise, inputs, initial, bootstrap)

    def parameters_of(self, experiment: str) -> dict[str, float]:
        """The parameters in one experiment under their plain names, as `pf.simulate` takes them.

        Those of the model, and those that only initial formulas use.
        """
        e = experiment_index(self.problem, experiment)
        return parameters_in(self.problem, self._solved.unknowns, e)

    def states(self, experiment: str, times: ArrayLike) -> dict[str, np.ndarray]:
        """All states of an experiment at any times or dates from its t0 on: measured and hidden, or extrapolated."""
        e = experiment_index(self.problem, experiment)
        at = self._times(e, times)
        return dict(zip(self.problem.model.states, states_along(self._solved, e, at).T, strict=True))

    @overload
    def predict(
        self, experiment: str, times: ArrayLike, *, bands: Literal[False] = False
    ) -> dict[str, np.ndarray]: ...

    @overload
    def predict(
        self,
        experiment: str,
        times: ArrayLike,
        *,
        bands: Literal[True],
        level: float = 0.95,
        noise: bool = False,
    ) -> Bands: ...

    def predict(
        self,
        experiment: str,
        times: ArrayLike,
        *,
        bands: bool = False,
        level: float | None = None,
        noise: bool = False,
    ) -> dict[str, np.ndarray] | Bands:
        """The observables of an experiment at any times, or dates where its data have dates, from its t0 on.

        With `bands` their confidence bands of this `level` (0.95 by default) as well, as `fit.bands` gives them; with
        `noise` those in which a new measurement lies. Increments are those since the time before, the first since t0.
        """
        if bands:
            return self.bands(experiment, times, 0.95 if level is None else level, noise=noise)
        if noise:
            raise InputError("fit.noise_without_bands")
        if level is not None:
            raise InputError("fit.level_without_bands", level=level)
        e = experiment_index(self.problem, experiment)
        at = self._times(e, times)
        outputs = outputs_at(self._solved, e, at, states_along(self._solved, e, at))
        return dict(zip(self.problem.model.observables, outputs.T, strict=True))

    def _times(self, e: int, times: object) -> np.ndarray:
        """Times (times,) of experiment e, which may be dates where its data had dates."""
        return checked_times(self.problem.experiments[e].times_at(times))

    def identifiability(self) -> Identifiability:
        """What the data determine: a verdict in words for each unknown, and combinations of them."""
        return self._identifiability

    @cached_property
    def _identifiability(self) -> Identifiability:
        from picardfit.inference.identifiability import identifiability

        return identifiability(self)

    def plot(
        self,
        path: str | Path | None = None,
        band: float | None = None,
        experiments: Iterable[str] | None = None,
    ) -> Figure:
        """Data and fit, a panel for each observable and hidden state of each experiment; written to `path` if given.

        `band`: the level of confidence bands to draw, for example 0.95. `experiments`: names of those to draw; by
        default of more than twelve those that fit worst, and typical ones.
        """
        from picardfit.display.plots import plot_fit

        return plot_fit(self, path, band, experiments)

    def plot_residuals(self, path: str | Path | None = None) -> Figure:
        """Residuals over time and over the fitted value, standardised by the noise model where there is one."""
        from picardfit.display.plots import plot_residuals

        return plot_residuals(self, path)

    def plot_autocorrelation(self, path: str | Path | None = None, level: float = 0.95) -> Figure:
        """Correlations of the residuals with later ones and with inputs before, by lag, with bands of this level."""
        from picardfit.display.plots import plot_autocorrelation

        return plot_autocorrelation(self.diagnostics, path, level)

    def plot_correlation(self, path: str | Path | None = None) -> Figure:
        """Correlations of the estimates as a coloured matrix."""
        from picardfit.display.plots import plot_correlation

        return plot_correlation(self, path)

    def plot_waterfall(self, path: str | Path | None = None) -> Figure:
        """The losses of all starts in ascending order, with the optima they reached."""
        from picardfit.display.plots import plot_waterfall

        return plot_waterfall(self, path)

    def plot_convergence(self, path: str | Path | None = None) -> Figure:
        """Loss, largest jump and Picard residual by iteration."""
        from picardfit.display.plots import plot_convergence

        return plot_convergence(self, path)

    def picture(self, name: str, path: str | Path | None = None) -> Figure:
        """A picture by the name that `picardfit plot --what` takes: fit, overlay, residuals, and others."""
        from picardfit.display.gallery import draw

        return draw(self, name, path)

    def plots(self, folder: str | Path, ending: str = "png", band: float | None = 0.95) -> list[Path]:
        """Write all figures of this fit into a folder, as files with this ending, and return their paths."""
        from picardfit.display.plots import write_plots

        return write_plots(self, folder, ending, band)

    def explore(self, experiment: str | None = None) -> Explorer:
        """Sliders over parameters and initial states between their bounds, and the curve that they give, in a notebook.

        `experiment`: the one to begin with. The result's `parameters` are the values of the sliders.
        """
        from picardfit.display.explore import explore

        return explore(self, experiment)

    def report(
        self, path: str | Path, title: str = "Report of a fit", posterior: Posterior | None = None
    ) -> Path:
        """Write a self-contained HTML report, with a section on draws of `fit.posterior()` if they are given."""
        from picardfit.display.report import write_report

        return write_report(self, path, title, posterior=posterior)

    def save(self, path: str | Path) -> Path:
        """Write the fit with its problem as JSON; `pf.load` reads it back."""
        from picardfit.files.fit_file import save

        return save(self, path)

    def export(self, path: str | Path, format: str | None = None, experiment: str | None = None) -> Path:
        """Write the fitted model for another program: `.py` (NumPy and SciPy), `.xml` (SBML), `.ant`, `.mo`, `.stan`.

        `format`: "python", "casadi", "sbml", "antimony", "modelica" or "stan", where the ending of the path does not
        say it; `_casadi.py` is CasADi. `experiment`: the one to write; by default all of them, or the first where a
        file holds only one. A Stan program has its data and starting values in two files beside it.
        """
        from picardfit.exporters.formats import export

        return export(self, path, format, experiment).paths[0]

    def to_petab(self, folder: str | Path) -> Path:
        """Write the problem with the estimates as PEtab version 2 into a folder; the path of its YAML file."""
        from picardfit.exporters.petab import write_petab

        return write_petab(self.problem, folder, self._solved.unknowns)

    def __repr__(self) -> str:
        from picardfit.display.text import fit_line

        return fit_line(self)

    @property
    def _solved(self) -> Solution:
        """The solution, for what cannot be given without one."""
        if self.solution is None:
            raise InputError("fit.no_solution", ended=self.conclusion)
        return self.solution
