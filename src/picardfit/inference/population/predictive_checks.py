"""The visual predictive check: quantiles of the data over time, and where simulations of the study have theirs.

Data are grouped into bins of time. In every bin the quantiles of the data are compared with the band in which the
same quantiles of simulated studies lie. `corrected` scales data and simulations by the typical prediction of their bin
over their own, so that different doses and covariates may share a bin (Bergstrand et al., AAPS J. 13:143, 2011). Values
below a limit of quantification count as lower than all others; their part is compared as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from picardfit.checks import as_whole, is_number
from picardfit.collocation.mesh import Flags, Indices
from picardfit.display.hook import shown
from picardfit.errors import InputError, closest
from picardfit.formulas.kernels import Array
from picardfit.inference.population.estimation import Optimum
from picardfit.inference.population.residuals import (
    Residuals,
    natural,
    normalised_errors,
    quantification_limits,
)
from picardfit.inference.population.simulation import Distribution, simulated_studies


@dataclass(frozen=True)
class VpcSettings:
    """How data are grouped; the values are chosen."""

    fewest: int = 8  # values in a bin, on average
    most: int = 20  # bins
    shift: float = 0.5  # of a bin: how far an edge may move to a gap between times


@dataclass(frozen=True)
class CheckSettings:
    """How often a study is simulated where nobody says so; the values are chosen."""

    most: int = 500
    least: int = 100
    over: int = 3  # multiple of the measurements of an individual, whose covariance is estimated
    individuals: int = 50_000  # in all simulations together: about ten seconds


@shown
@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """Quantiles of one observable in bins of time, of the data and of simulated studies."""

    observable: str
    corrected: bool
    level: float  # of the bands
    quantiles: tuple[float, ...]
    edges: Array  # (bins + 1,)
    times: Array  # (bins,): medians of the sampling times
    counts: Indices  # (bins,): values in each
    observed: Array  # (quantiles, bins); NaN where it lies below a limit of quantification
    low: Array  # (quantiles, bins): ends of the bands, and the median of the simulations
    middle: Array
    high: Array
    limit: float | None  # of quantification, the largest
    below: Array  # (4, bins): part of the data below the limit; low, middle and high of the simulations
    data: Array  # (2, values): times and values as compared; those below a limit are left out
    simulations: int

    @property
    def inside(self) -> Flags:
        """(quantiles, bins) bool: where the data's quantile lies inside its band, or is not known."""
        return ~((self.observed < self.low) | (self.observed > self.high))


@dataclass(frozen=True, eq=False)
class Checks:
    """The checks of one fit, which share simulated studies."""

    optimum: Optimum
    source: Distribution
    settings: CheckSettings = CheckSettings()
    _studies: dict[tuple[int, int], Array] = field(default_factory=dict)

    @cached_property
    def residuals(self) -> Residuals:
        return Residuals(self.optimum, self.source)

    def studies(self, count: object, seed: int) -> Array:
        """(count, measurements): the study simulated so many times, by default as often as is useful; kept."""
        key = self._usual if count is None else as_whole(count, "simulations", 2), seed
        if key not in self._studies:
            drawn = simulated_studies(self.source, key[0], np.random.default_rng(seed))
            self._studies.clear()
            self._studies[key] = drawn
        return self._studies[key]

    @property
    def _usual(self) -> int:
        m, settings = self.residuals.measurements, self.settings
        least = max(settings.least, settings.over * int(np.bincount(m.owner).max()))
        return int(np.clip(settings.individuals // m.individuals, least, max(least, settings.most)))

    def npde(self, simulations: object, seed: int) -> pd.DataFrame:
        studies, rng = self.studies(simulations, seed), np.random.default_rng([seed, 1])
        found = normalised_errors(self.residuals.measurements, studies, rng)
        return self.residuals.table().assign(npde=found)

    def vpc(
        self,
        observable: str | None,
        bins: object,
        quantiles: Iterable[float],
        corrected: bool,
        level: float,
        simulations: object,
        seed: int,
    ) -> PredictiveCheck:
        studies = self.studies(simulations, seed)
        return check_of(self.residuals, studies, observable, bins, quantiles, corrected, level)


def check_of(
    residuals: Residuals,
    studies: Array,
    observable: str | None = None,
    bins: object = None,
    quantiles: Iterable[float] = (0.05, 0.5, 0.95),
    corrected: bool = False,
    level: float = 0.95,
    settings: VpcSettings = VpcSettings(),
) -> PredictiveCheck:
    """The check of an observable, by default of the first that was measured, from studies (K, measurements)."""
    m, problem = residuals.measurements, residuals.source.study.setting.problem
    output = _output(problem.model.observables, observable, m.output)
    wanted = tuple(sorted(quantiles)) if isinstance(quantiles, Iterable) else (quantiles,)
    if not wanted or not all(is_number(one) and 0 < one < 1 for one in (*wanted, level)):
        raise InputError("inference.vpc_quantiles", value=[*wanted, level])
    mine = m.output == output
    times, limits = problem.samples.times[m.sample[mine]], natural(m, quantification_limits(m))[mine]
    pred = natural(m, residuals.typical.rows[:, 0])[mine]
    data = natural(m, m.target)[mine]
    data = np.where(np.isfinite(m.high[mine]), -np.inf, np.where(np.isnan(m.low[mine]), data, np.inf))
    drawn = studies[:, mine]
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    edges = _edges(times, bins, int(np.bincount(m.owner[mine]).max()), settings)
    group = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)
    low_data, low_drawn = data == -np.inf, drawn < limits
    if corrected:
        data, drawn = (_corrected(one, pred, group) for one in (data, drawn))
    ends = [(1 - level) / 2, 0.5, (1 + level) / 2]
    found, parts, kept = [], [], []
    for k in range(len(edges) - 1):
        inside = group == k
        if not inside.any():
            continue
        exact = np.isfinite(data[inside]).all()  # quantiles between a number and minus infinity have no value
        ours, theirs = (
            np.quantile(one, wanted, axis=-1, method="linear" if exact else "inverted_cdf")
            for one in (data[inside], drawn[:, inside])
        )
        found.append([np.where(np.isfinite(ours), ours, np.nan), *np.quantile(theirs, ends, axis=1)])
        parts.append([low_data[inside].mean(), *np.quantile(low_drawn[:, inside].mean(axis=1), ends)])
        kept.append(k)
    table, known = np.array(found), np.isfinite(data)  # (bins, 4, quantiles)
    limited = bool(np.isfinite(limits[limits > -np.inf]).any()) and bool(low_data.any())
    return PredictiveCheck(
        observable=problem.model.observables[output],
        corrected=corrected,
        level=level,
        quantiles=wanted,
        edges=edges,
        times=np.array([np.median(times[group == k]) for k in kept]),
        counts=np.array([np.sum(group == k) for k in kept]),
        observed=table[:, 0].T,
        low=table[:, 1].T,
        middle=table[:, 2].T,
        high=table[:, 3].T,
        limit=float(limits[low_data].max()) if limited else None,
        below=np.array(parts).T,
        data=np.stack([times[known], data[known]]),
        simulations=len(drawn),
    )


def _output(names: tuple[str, ...], wanted: str | None, measured: Indices) -> int:
    if wanted is None:
        return int(measured.min())
    known = [names[k] for k in np.unique(measured)]
    if wanted not in known:
        raise InputError(
            "inference.vpc_observable", str(wanted), known=known, close=closest(str(wanted), known)
        )
    return names.index(wanted)


def _edges(times: Array, bins: object, samples: int, settings: VpcSettings) -> Array:
    """Edges of the bins: those given, or so many, or one for each sample of an individual, with as many values each.

    An edge moves to the widest gap between times nearby, so that nominal times stay together.
    """
    if isinstance(bins, Iterable) and not isinstance(bins, str):
        given = np.unique(np.asarray(list(bins), float))
        if len(given) < 2 or not np.isfinite(given).all():
            raise InputError("inference.vpc_bins", value=given.tolist())
        return given
    ordered = np.sort(times)
    distinct = np.unique(ordered)
    number = min(samples, len(times) // settings.fewest, settings.most) if bins is None else None
    number = as_whole(bins, "bins", 1) if number is None else max(number, 1)
    planned = bins is None and len(distinct) <= min(
        samples, settings.most
    )  # all have the same sampling times
    if planned or number >= len(distinct):
        inner = (distinct[1:] + distinct[:-1]) / 2
        return np.concatenate([distinct[:1], inner, distinct[-1:]])
    size, edges = len(ordered) / number, []
    for k in range(1, number):
        reach = settings.shift * size
        near = np.arange(max(1, round(k * size - reach)), min(len(ordered), round(k * size + reach) + 1))
        gaps = ordered[near] - ordered[near - 1]
        best = near[gaps >= gaps.max()]
        place = int(best[np.argmin(np.abs(best - k * size))])
        edges.append((ordered[place] + ordered[place - 1]) / 2)
    return np.unique(np.concatenate([ordered[:1], edges, ordered[-1:]]))


def _corrected(values: Array, pred: Array, group: Indices) -> Array:
    """Values (..., n) times the median prediction of their bin over their own; shifted where predictions change sign.

    A value whose prediction is zero stays as it is.
    """
    middle = np.array(
        [np.median(pred[group == k]) if (group == k).any() else 0.0 for k in range(group.max() + 1)]
    )
    if (pred < 0).any():
        return values + (middle[group] - pred)
    with np.errstate(all="ignore"):
        factor = np.where(pred > 0, middle[group] / pred, 1.0)
    return np.where(np.isfinite(values), values * np.where(factor > 0, factor, 1.0), values)
