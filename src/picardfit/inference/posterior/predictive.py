"""What draws predict: costs of the measurements, new data from the posterior or the prior, and models compared by it.

Models are compared by how well they predict data that they have not seen, by PSIS-LOO and WAIC (Vehtari, Gelman and
Gabry, Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC, 2017). Values are expected log
pointwise predictive densities; -2 times them are on the scale of AIC.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.checks import as_whole
from picardfit.errors import InputError, Notice
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.coordinates import coordinates_of
from picardfit.inference.posterior.mixing import TRUSTED, smoothed
from picardfit.model.prior_terms import draws
from picardfit.model.priors import Prior
from picardfit.problem.common_noise import CommonNoise
from picardfit.problem.least_squares import LeastSquares
from picardfit.problem.problem import Problem
from picardfit.simulation.trajectories import Integration

ENOUGH = 1e-6  # relative accuracy of curves that are compared with noisy data


def some_of(unknowns: Array, most: int) -> Array:
    """At most this many of the draws, evenly spread over them."""
    if len(unknowns) <= most:
        return unknowns
    chosen: Array = unknowns[np.linspace(0, len(unknowns) - 1, most).astype(int)]
    return chosen


def rows_of(problem: Problem, unknowns: Array) -> Array | None:
    """(samples, rows) by independent integration; None without a solution."""
    layout = problem.layout
    values, initial = layout.measured_values(unknowns), layout.initial(unknowns)[0]
    if not np.isfinite(initial).all():
        return None
    return problem.predicted_rows(values, initial, ENOUGH, Integration())


def data_costs(problem: Problem, many_unknowns: Array) -> Array:
    """(draws, measurements): -log density of each measurement; NaN for draws without a solution.

    With noise that the outputs of an instant share, an instant counts as one measurement.
    """
    objective, found = problem.objective, []
    assert not isinstance(objective, LeastSquares), "draws need a likelihood"
    measured = np.isfinite(problem.samples.data)
    chosen = measured.any(axis=1, keepdims=True) if isinstance(objective, CommonNoise) else measured
    for unknowns in many_unknowns:
        rows = rows_of(problem, unknowns)
        count = int(chosen.sum())
        found.append(np.full(count, np.nan) if rows is None else objective.costs(rows)[chosen])
    return np.array(found)


def new_data(problem: Problem, many_unknowns: Array, seed: int) -> Array:
    """(draws, samples, observables): measurements drawn at each set of unknowns, NaN where nothing is measured."""
    rng = np.random.default_rng([seed, 4])
    shape, found = problem.samples.data.shape, []
    objective = problem.objective
    assert not isinstance(objective, LeastSquares), "draws need a likelihood"
    for unknowns in many_unknowns:
        rows = rows_of(problem, unknowns)
        found.append(np.full(shape, np.nan) if rows is None else objective.sample(rows, rng))
    return np.array(found)


def prior_predictive(problem: Problem, draws: int = 400, seed: int = 0) -> Array:
    """(draws, samples, observables): data as the priors expect them before anything is measured.

    Unknowns without a prior are drawn evenly between their bounds (on their own scale); NaN where nothing is measured,
    and for draws without a solution.
    """
    if problem.scatter is None:
        raise InputError("inference.posterior_without_noise")
    rng = np.random.default_rng([as_whole(seed, "seed", 0), 3])
    return new_data(problem, prior_draws(problem, as_whole(draws, "draws", 1), rng), seed)


def priors_by_label(problem: Problem) -> dict[str, tuple[Prior, float, float]]:
    """unknown -> its prior and its bounds in natural units."""
    layout = problem.layout
    entries = () if problem.priors is None else problem.priors.entries
    lower, upper = layout.natural(layout.lower), layout.natural(layout.upper)
    return {layout.label(e, c): (prior, float(lower[e, c]), float(upper[e, c])) for e, c, _, prior in entries}


def prior_draws(problem: Problem, count: int, rng: np.random.Generator) -> Array:
    """(count, experiments, width): unknowns from their priors; flat where there is none, logarithms in themselves."""
    coordinates = coordinates_of(problem)
    believed, scales = priors_by_label(problem), coordinates.scales
    y = np.empty((count, coordinates.count))
    for k, label in enumerate(coordinates.labels):
        low, high, scale = coordinates.lower[k], coordinates.upper[k], scales[k]
        if label in believed:
            y[:, k] = scale.internal(draws(*believed[label], rng, count))
        elif not np.isfinite(high - low):
            raise InputError("inference.prior_open", label)
        else:
            y[:, k] = scale.between(low, high, rng.uniform(size=count))
    return coordinates.unknowns(y)


@dataclass(frozen=True)
class Comparison:
    """An expected log predictive density with its standard error over measurements; larger is better."""

    kind: str  # "loo" or "waic"
    value: float
    standard_error: float
    effective_parameters: float
    pointwise: Array  # (measurements,)
    khat: Array | None = None  # (measurements,): of LOO
    warnings: tuple[Notice, ...] = ()

    def __str__(self) -> str:
        said = "".join(f"\n{one.sentence()}" for one in self.warnings)
        return (
            f"{self.kind}: {self.value:.2f} ± {self.standard_error:.2f}, "
            f"{self.effective_parameters:.2f} effective parameters{said}"
        )


def _made(kind: str, pointwise: Array, full: Array, khat: Array | None, notices: list[Notice]) -> Comparison:
    spread = float(np.sqrt(len(pointwise) * np.var(pointwise)))
    return Comparison(
        kind,
        float(pointwise.sum()),
        spread,
        float(full.sum() - pointwise.sum()),
        pointwise,
        khat,
        tuple(notices),
    )


def loo(log_densities: Array) -> Comparison:
    """From log densities (draws, measurements), without refitting: importance weights leave each one out in turn."""
    from scipy.special import logsumexp

    count = len(log_densities)
    full = logsumexp(log_densities, axis=0) - np.log(count)
    found = [smoothed(-column) for column in log_densities.T]
    khat = np.array([k for _, k in found])
    pointwise = np.array(
        [logsumexp(weights + column) for (weights, _), column in zip(found, log_densities.T, strict=True)]
    )
    bad = int(np.sum(~(khat < TRUSTED)))
    notices = [Notice("inference.loo_not_trusted", "", {"count": bad, "all": len(khat)})] if bad else []
    return _made("loo", pointwise, np.asarray(full), khat, notices)


def waic(log_densities: Array, largest: float = 0.4) -> Comparison:
    """From log densities (draws, measurements); `largest`: variance of one beyond which WAIC is not trusted."""
    from scipy.special import logsumexp

    full = logsumexp(log_densities, axis=0) - np.log(len(log_densities))
    variances = np.var(log_densities, axis=0, ddof=1)
    bad = int(np.sum(variances > largest))
    notices = [Notice("inference.waic_not_trusted", "", {"count": bad, "all": len(variances)})] if bad else []
    return _made("waic", np.asarray(full - variances), np.asarray(full), None, notices)
