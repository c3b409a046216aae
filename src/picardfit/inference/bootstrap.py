"""Bootstrap: fits to data made anew from the fit, each started from the fit's solution."""

from __future__ import annotations

from collections.abc import Callable
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
from picardfit.inference.refits import Tools, run_many, solution_of
from picardfit.model.densities import Shape
from picardfit.parallel.ordered_map import Work, Written
from picardfit.problem.common_noise import CommonNoise
from picardfit.problem.problem import Problem
from picardfit.problem.records import array
from picardfit.problem.unknowns import unknowns_index
from picardfit.solvers.gauss_newton.method import LiftedGaussNewton
from picardfit.solvers.loop import Solution, run
from picardfit.solvers.refit import place_at, refit

if TYPE_CHECKING:
    import pandas as pd

    from picardfit.fit import Fit


class Kind(Enum):
    """Where new data come from."""

    PARAMETRIC = "parametric"  # the fitted curve plus noise drawn from the fitted noise
    RESIDUAL = "residual"  # the fitted curve plus residuals drawn from those of the same observable


@shown
@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates from data made anew. `samples`: unknown -> (samples,), natural units, failed fits left out."""

    samples: dict[str, np.ndarray]
    estimates: dict[str, float]  # of the fit
    unknowns: np.ndarray  # (samples, experiments, width): the unknowns in internal coordinates
    failures: int
    kind: Kind
    seed: int
    missing: int = 0  # fits that were not done, because it was interrupted

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Percentile intervals."""
        quantile(level, np.inf)  # refuses a level that is none
        parts = (0.5 - level / 2, 0.5 + level / 2)
        return {name: tuple(np.quantile(values, parts).tolist()) for name, values in self.samples.items()}

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

    `refit_to`: makes one data set and fits it, by default `fit_to_new_data`.
    """
    tools = tools or Tools()
    count, seed = as_whole(count, "count", 2, 200), as_whole(seed, "seed", 0)
    if kind not in [*Kind, *(k.value for k in Kind)]:
        raise InputError("inference.bootstrap_kind", value=kind)
    kind = Kind(kind)
    if fit.solution is None or not fit.success:
        raise InputError("inference.bootstrap_of_failed_fit", message=fit.message.rstrip("."))
    if kind is Kind.RESIDUAL and isinstance(fit.problem.objective, CommonNoise):
        raise InputError("inference.common_residuals")
    freedom = _freedom(fit.problem)
    if not np.isfinite(fit.residual_variance) or (kind is Kind.RESIDUAL and freedom <= 0):
        known = fit.problem.noise is not None
        raise InputError("inference.no_freedom_residual" if known else "inference.no_freedom")
    shape = solution_of(fit).unknowns.shape
    work = run_many(
        fit,
        partial(
            refit_to or fit_to_new_data, fit.problem, fit.solution, fit.residual_variance, freedom, kind, seed
        ),
        {k: k for k in range(count)},
        {"kind": kind.value, "seed": seed},
        tools,
        "bootstrap fits",
        Written(decode=lambda found: None if found is None else array(found, shape, "a bootstrap fit")),
    )
    return _collect(fit, work, kind, seed, count)


def estimates(fit: Fit) -> dict[str, float]:
    """All unknowns of a fit by name, natural units."""
    layout = fit.problem.layout
    index = unknowns_index(layout.exists, layout.local)
    values = layout.natural(solution_of(fit).unknowns)[tuple(index.T)]
    return {layout.label(e, c): value for (e, c), value in zip(index, values.tolist(), strict=True)}


def _collect(fit: Fit, work: Work, kind: Kind, seed: int, count: int) -> Bootstrap:
    good = [unknowns for unknowns in work.results.values() if unknowns is not None]
    done = len(work.results) + len(work.failures)
    if len(good) < 2 and work.interrupted:
        raise KeyboardInterrupt
    if len(good) < 2:
        reason = next((f" ({why})" for why in work.failures.values()), "")
        raise InputError("inference.bootstrap_failed", failed=done - len(good), count=done, reason=reason)
    many_unknowns, layout = np.array(good), fit.problem.layout
    index = unknowns_index(layout.exists, layout.local)
    values = layout.natural(many_unknowns)[:, index[:, 0], index[:, 1]]
    known = estimates(fit)
    return Bootstrap(
        samples=dict(zip(known, values.T, strict=True)),
        estimates=known,
        unknowns=many_unknowns,
        failures=done - len(good),
        kind=kind,
        seed=seed,
        missing=count - done,
    )


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
    """The unknowns (experiments, width) fitted to the data set number `index`; None where that fails.

    `tolerance`: decrease of the objective that the refit may still promise, in units of the variance; far below the
    0.5 that one standard error costs.
    """
    rng = np.random.default_rng([seed, index])
    rows, objective = path_rows(solution), problem.objective
    if kind is Kind.PARAMETRIC or isinstance(objective, CommonNoise):
        data = objective.sample(rows, rng, np.sqrt(variance))
    else:
        drawn = draw_residuals(objective.gaps(rows), freedom, _robust(problem), rng)
        data = objective.moved(rows, drawn)
    renewed = problem.with_data(data)
    place = place_at(renewed, solution)
    found = None if place is None else refit(place, variance, tolerance=tolerance)
    if found is not None:
        return found.point.unknowns
    method = LiftedGaussNewton()
    outcome = run(method, method.resume(renewed, solution))
    solved = outcome.solution if outcome.status.success else None
    return None if solved is None else solved.unknowns


def _freedom(problem: Problem) -> int:
    """Measurements minus unknowns; levels of the noise do not make residuals smaller."""
    levels = problem.layout.noise_columns & problem.layout.exists
    own = int(levels[:, : problem.layout.local].sum() + levels[:1, problem.layout.local :].sum())
    return problem.measurements - problem.layout.count() + own


def _robust(problem: Problem) -> np.ndarray:
    """(observables,) bool: those whose noise may have outliers."""
    if problem.scatter is None:
        return np.zeros(len(problem.model.observables), bool)
    return np.array([column.shape is not Shape.NORMAL for column in problem.scatter.columns])


def draw_residuals(
    residuals: np.ndarray, freedom: int, robust: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Residuals drawn with replacement from those of the same observable, centred, spread as much as the noise is.

    They are centred at their mean, or at their median where an outlier would move the mean (`robust`).
    """
    measured = np.isfinite(residuals)
    inflation = np.sqrt(measured.sum() / freedom)
    drawn = np.zeros_like(residuals)
    for k in np.flatnonzero(measured.any(axis=0)):
        pool = residuals[measured[:, k], k]
        centre = np.median(pool) if robust[k] else pool.mean()
        drawn[:, k] = inflation * rng.choice(pool - centre, len(residuals))
    return drawn
