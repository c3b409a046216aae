"""Bootstrap: fits to data simulated from the fit, each started from the fit's solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from picardfit.checks import as_whole
from picardfit.display.hook import shown
from picardfit.errors import InputError
from picardfit.evidence.certificate import path_rows
from picardfit.evidence.fisher import quantile
from picardfit.inference.refits import Tools, named_unknowns, run_many, solution_of
from picardfit.model.densities import Shape
from picardfit.parallel.ordered_map import Written
from picardfit.problem.common_noise import CommonNoise
from picardfit.problem.json_values import array
from picardfit.problem.likelihood import Likelihood
from picardfit.problem.problem import Problem
from picardfit.search.searches import continue_from
from picardfit.solvers.gauss_newton.method import LiftedGaussNewton
from picardfit.solvers.loop import Solution
from picardfit.solvers.refit import expansion_at, refit

if TYPE_CHECKING:
    import pandas as pd

    from picardfit.fit import Fit


class Kind(Enum):
    """How new data are simulated."""

    PARAMETRIC = "parametric"  # the fitted curve plus noise drawn from the fitted noise model
    RESIDUAL = "residual"  # the fitted curve plus residuals drawn from those of the same observable


@shown
@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates from simulated data, without those of failed fits."""

    samples: dict[str, np.ndarray]  # unknown -> (samples,), natural units
    estimates: dict[str, float]  # of the fit
    unknowns: np.ndarray  # (samples, experiments, width): the unknowns in internal coordinates
    failures: int
    kind: Kind
    seed: int
    missing: int = 0  # fits that were not made, because of an interruption

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Percentile intervals."""
        quantile(level, np.inf)  # refuses a level that is not between 0 and 1
        ends = (0.5 - level / 2, 0.5 + level / 2)
        return {name: tuple(np.quantile(values, ends).tolist()) for name, values in self.samples.items()}

    @property
    def standard_errors(self) -> dict[str, float]:
        return {name: float(np.std(values, ddof=1)) for name, values in self.samples.items()}

    @property
    def bias(self) -> dict[str, float]:
        """Mean of the samples minus the estimate."""
        return {name: float(np.mean(values)) - self.estimates[name] for name, values in self.samples.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row for each sample."""
        import pandas as pd

        return pd.DataFrame(self.samples)


def bootstrap(
    fit: Fit,
    count: int,
    kind: Kind | str,
    seed: int,
    tools: Tools | None = None,
    refit_to: Callable[..., np.ndarray | None] | None = None,
) -> Bootstrap:
    """Fits to `count` new data sets; the same seed gives the same samples with every executor.

    `refit_to`: simulates one data set and fits it, by default `fit_to_new_data`.
    """
    count, seed = as_whole(count, "count", 2, 200), as_whole(seed, "seed", 0)
    if kind not in [*Kind, *(k.value for k in Kind)]:
        raise InputError("inference.bootstrap_kind", value=kind)
    kind, problem = Kind(kind), fit.problem
    if fit.solution is None or not fit.success:
        raise InputError("inference.bootstrap_of_failed_fit", ended=fit.conclusion)
    if kind is Kind.RESIDUAL:
        _check_residuals(problem)
    freedom, variance = _freedom(problem), fit.residual_variance
    if not np.isfinite(variance) or (kind is Kind.RESIDUAL and freedom <= 0):
        known = problem.noise is not None
        raise InputError("inference.no_freedom_residual" if known else "inference.no_freedom")
    shape = fit.solution.unknowns.shape
    work = run_many(
        fit,
        partial(refit_to or fit_to_new_data, problem, fit.solution, variance, freedom, kind, seed),
        {k: k for k in range(count)},
        {"kind": kind.value, "seed": seed},
        tools or Tools(),
        "bootstrap fits",
        Written(decode=lambda found: None if found is None else array(found, shape, "a bootstrap fit")),
    )
    good = [unknowns for unknowns in work.results.values() if unknowns is not None]
    done = len(work.results) + len(work.failures)
    if len(good) < 2:
        if work.interrupted:
            raise KeyboardInterrupt
        failed, reason = done - len(good), next(iter(work.failures.values()), None)
        if reason is None:
            raise InputError("inference.bootstrap_failed", failed=failed, count=done)
        raise InputError("inference.bootstrap_broke_down", failed=failed, count=done, reason=reason)
    many_unknowns = np.array(good)
    return Bootstrap(
        samples=named_unknowns(problem, many_unknowns),
        estimates=estimates(fit),
        unknowns=many_unknowns,
        failures=done - len(good),
        kind=kind,
        seed=seed,
        missing=count - done,
    )


def estimates(fit: Fit) -> dict[str, float]:
    """All unknowns of a fit by name, natural units."""
    found = named_unknowns(fit.problem, solution_of(fit).unknowns)
    return {name: float(value) for name, value in found.items()}


def fit_to_new_data(
    problem: Problem,
    solution: Solution,
    variance: float,
    freedom: int,
    kind: Kind,
    seed: int,
    index: int,
    tolerance: float = 1e-7,
) -> np.ndarray | None:
    """The unknowns (experiments, width) fitted to data set number `index`; None if the fit fails.

    A refit from the solution is tried first, then the whole method. `tolerance`: decrease of the objective that the
    refit may still promise, in units of the variance; far below the 0.5 that one standard error costs.
    """
    rng = np.random.default_rng([seed, index])
    rows, objective = path_rows(solution), problem.objective
    if kind is Kind.PARAMETRIC or isinstance(objective, CommonNoise):
        data = objective.sample(rows, rng, np.sqrt(variance))
    else:
        noises = () if problem.scatter is None else problem.scatter.columns
        robust = [k for k, noise in enumerate(noises) if noise.shape is not Shape.NORMAL]
        data = objective.moved(rows, draw_residuals(objective.gaps(rows), freedom, robust, rng))
    renewed = problem.with_data(data)
    expansion = expansion_at(renewed, solution)
    found = None if expansion is None else refit(expansion, variance, tolerance=tolerance)
    if found is not None:
        return found.point.unknowns
    outcome = continue_from(LiftedGaussNewton(), renewed, solution)
    solved = outcome.solution if outcome.status.success else None
    return None if solved is None else solved.unknowns


def _check_residuals(problem: Problem) -> None:
    """InputError if the data have no residuals that are alike and could be drawn again."""
    objective = problem.objective
    if isinstance(objective, CommonNoise):
        raise InputError("inference.common_residuals")
    if isinstance(objective, Likelihood) and (objective.counts or objective.cells is not None):
        raise InputError("inference.residuals_of_counts")


def _freedom(problem: Problem) -> int:
    """Measurements minus unknowns; noise levels do not count, because they do not make residuals smaller."""
    layout = problem.layout
    levels = layout.noise_columns & layout.exists
    noise = int(levels[:, : layout.local].sum() + levels[:1, layout.local :].sum())
    return problem.measurements - layout.count() + noise


def draw_residuals(
    residuals: np.ndarray, freedom: int, robust: Sequence[int], rng: np.random.Generator
) -> np.ndarray:
    """Residuals drawn with replacement from those of the same observable, with the variance of the noise.

    They are centred at their mean, or for `robust` observables at their median, which outliers do not move.
    """
    measured = np.isfinite(residuals)
    inflation = np.sqrt(measured.sum() / freedom)
    drawn = np.zeros_like(residuals)
    for k in np.flatnonzero(measured.any(axis=0)):
        pool = residuals[measured[:, k], k]
        centre = np.median(pool) if k in robust else pool.mean()
        drawn[:, k] = inflation * rng.choice(pool - centre, len(residuals))
    return drawn
