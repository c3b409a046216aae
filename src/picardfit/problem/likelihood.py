"""The objective: a sum over sampling instants of a function of the predicted rows.

At predicted rows (samples, rows) every objective has a value, a slope and a factor of its curvature; the solvers need
nothing else. For least squares the rows are the outputs g. A likelihood has further rows, its levels:
[g | s] for independent noise of standard deviation (or scale) s, [g | s | degrees] when the degrees of Student's t are
estimated, and [g | a | v] for noise with one factor per instant, covariance diag(a^2) + v v'.

With e = (h(y) - h(g)) / s, h the identity or a logarithm, and rho = -log density of e, one measurement y costs
rho(e) + log s - log h'(y): the density of y itself. Curvatures are expected ones (Fisher scoring), in g and in s.
A censored measurement costs -log of the probability of its interval (censoring.py), a count -log of its probability
(model/counts.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from picardfit.formulas.kernels import Array
from picardfit.model.counts import DEFAULT as COUNTING
from picardfit.model.counts import count_below, count_cost, count_terms, count_variance
from picardfit.model.densities import COUNTS, Shape, as_normal, degrees_terms, information, rho
from picardfit.model.scatter import Column, Scatter, draw_independent, moved_by
from picardfit.problem.censoring import (
    Censoring,
    Standardised,
    cell_costs,
    cell_normals,
    cell_terms,
    without_losses,
)
from picardfit.problem.common_noise import CommonNoise
from picardfit.problem.least_squares import LeastSquares
from picardfit.problem.objective import Accuracy, Terms, not_too_small, sum_of_medians


@dataclass(frozen=True)
class Kinks:
    """How the kink |e| of a Laplace density is rounded: to sqrt(e^2 + width^2). The widths are chosen."""

    last: float = 5e-5  # width where the search ends: the cost is then at most 1e-4 above the smallest
    around: float = 5e-3  # width on the way there, and of fits around a fit (profiles, bootstraps)
    frozen: float = 1.0  # width while levels are frozen: as wide as the density itself
    narrowing: float = 0.1  # ratio of each width to the one before
    majorising: float = 0.1  # smallest curvature used by the search, over the one that majorises the density


@dataclass(frozen=True)
class Likelihood:
    """Negative log-likelihood of measurements that are independent given the rows [g | s] or [g | s | degrees]."""

    data: Array  # (samples, outputs), NaN where not measured; of binomial counts the fraction of successes
    columns: tuple[Column, ...]
    frozen: Array | None = (
        None  # (samples, rows - outputs): fixed levels; constants of the value are left out
    )
    censored: Censoring | None = None  # in the units of the data
    trials: Array | None = None  # (samples, outputs): of binomial counts
    width: float | None = None  # of the rounded kinks of Laplace densities; None: the final one
    kinks: Kinks = field(default_factory=Kinks)
    accuracy: Accuracy = field(default_factory=Accuracy)
    measured: NDArray[np.bool_] = field(init=False, repr=False)
    log: NDArray[np.bool_] = field(init=False, repr=False)  # (outputs,): h is a logarithm
    bases: Array = field(init=False, repr=False)  # (outputs,): natural logarithm of its base, else 1
    target: Array = field(init=False, repr=False)  # h(y)
    offset: Array = field(init=False, repr=False)  # (samples, outputs): -log h'(y)
    groups: dict[Shape, NDArray[np.intp]] = field(init=False, repr=False)  # outputs by their density
    degrees: Array = field(init=False, repr=False)  # (outputs,): known degrees of Student's t
    free_degrees: NDArray[np.bool_] = field(init=False, repr=False)  # (outputs,): the degrees are a row
    counts: dict[Shape, NDArray[np.intp]] = field(init=False, repr=False)  # outputs that are counts
    cells: Censoring | None = field(init=False, repr=False)  # the censoring in units of h
    outputs: int = field(init=False, repr=False)
    unit: float = field(init=False, repr=False)  # one half per measurement
    least = 0.0  # a likelihood may have any value

    def __post_init__(self) -> None:
        measured = np.isfinite(self.data)
        outputs = self.data.shape[1]
        bases = np.array([np.log(c.base) if c.base else 1.0 for c in self.columns])
        log = np.array([c.base is not None for c in self.columns], bool)
        seen = np.where(measured, self.data, 1.0)
        with np.errstate(all="ignore"):
            target = np.where(log, np.log(np.where(log, seen, 1.0)) / bases, seen)
            offset = np.where(measured & log, np.log(np.where(log, seen, 1.0) * bases), 0.0)
        if self.censored is not None:
            offset[self.censored.own.at] = 0.0
        groups: dict[Shape, list[int]] = {}
        for k, shape in enumerate(self._shapes):
            groups.setdefault(shape, []).append(k)
        indices = {shape: np.array(index) for shape, index in groups.items()}
        degrees = [np.nan if c.degrees is None else c.degrees for c in self.columns]
        free = [c.shape is Shape.STUDENT and c.degrees is None for c in self.columns]
        for name, value in {
            "measured": measured,
            "bases": bases,
            "log": log,
            "target": target,
            "offset": offset,
            "groups": {shape: index for shape, index in indices.items() if shape not in COUNTS},
            "counts": {shape: index for shape, index in indices.items() if shape in COUNTS},
            "cells": None if self.censored is None else self.censored.transformed(log, bases),
            "degrees": np.array(degrees),
            "free_degrees": np.array(free, bool),
            "outputs": outputs,
            "unit": max(0.5 * float(measured.sum()), 0.5),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def _shapes(self) -> list[Shape]:
        """The density of each output; counts are normal around their expectation while levels are frozen."""
        frozen = self.frozen is not None
        return [Shape.NORMAL if frozen and c.shape in COUNTS else c.shape for c in self.columns]

    def value(self, rows: Array) -> float:
        return self._value(rows, self._width)

    def nllh(self, rows: Array) -> float:
        """The negative log-likelihood with Laplace densities as they are, not smoothed."""
        return self._value(rows, 0.0)

    @property
    def _width(self) -> float:
        return self.kinks.last if self.width is None else self.width

    def _value(self, rows: Array, width: float) -> float:
        return float(np.sum(self._costs(rows, width)))

    def costs(self, rows: Array) -> Array:
        """(samples, outputs): -log density of each measurement, 0 where nothing was measured; their sum is `value`."""
        return self._costs(rows, self._width)

    def _costs(self, rows: Array, width: float) -> Array:
        with np.errstate(all="ignore"):
            e, s, by_output, degrees = self._standardised(rows)
            cost = self._by_shape(lambda shape, k: rho(shape, e[:, k], degrees[:, k], width)[0])
            if self.frozen is not None:
                cost -= self._at_zero(degrees, width)
            else:
                cost += np.log(s)
            if self.cells is not None:
                here = self._here(rows, s, by_output, degrees)
                cost[self.cells.own.at] = cell_costs(self.cells.own, self._shapes, here)
            for shape, k in self.counts.items():
                cost[:, k] = count_cost(shape, *self._counted(rows, k))
            if self.frozen is not None:
                return cost
            return np.where(self.measured, cost + self.offset, 0.0)

    def terms(self, rows: Array, expected: bool = False) -> Terms:
        """Value, slope and curvature: the Fisher information if `expected`, otherwise one that suits the search.

        The optimum of a Laplace likelihood lies at kinks, where steps with the Fisher information zigzag. There the
        search uses the second derivative of the rounded density, but at least a tenth of the curvature that majorises
        it.
        """
        width = self._width
        with np.errstate(all="ignore"):
            e, s, by_output, degrees = self._standardised(rows)
            slopes = self._by_shape(lambda shape, k: rho(shape, e[:, k], degrees[:, k], width)[1])
            weight = self._by_shape(lambda shape, k: information(shape, degrees[:, k])[0])
            in_scale = self._by_shape(lambda shape, k: information(shape, degrees[:, k])[1])
            if not expected and Shape.LAPLACE in self.groups:
                k = self.groups[Shape.LAPLACE]
                majorising = 1 / np.sqrt(e[:, k] ** 2 + width**2)
                weight[:, k] = np.maximum(width**2 * majorising**3, self.kinks.majorising * majorising)
            there = self.measured / s
            slope, factor = np.zeros_like(rows), np.zeros_like(rows)
            n = self.outputs
            slope[:, :n] = -slopes * by_output * there
            factor[:, :n] = np.sqrt(weight) * by_output * there
            if self.frozen is None:
                slope[:, n : 2 * n] = (1 - e * slopes) * there
                factor[:, n : 2 * n] = np.sqrt(in_scale) * there
            value = self._value(rows, width)
            if self.counts:
                self._fill_counts(rows, slope, factor, expected)
            if self.frozen is None and self.free_degrees.any():
                slope, factor = self._with_degrees(slope, factor, e, s, degrees)
            if self.cells is not None:
                here = self._here(rows, s, by_output, degrees)
                factor = self._with_censoring(here, slope, factor, expected)
        return Terms(value, slope, factor)

    def _fill_counts(self, rows: Array, slope: Array, factor: Array, expected: bool) -> None:
        """Slope and factor of the outputs that are counts, in place."""
        for shape, k in self.counts.items():
            found, there = count_terms(shape, *self._counted(rows, k), expected), self.measured[:, k]
            slope[:, k], slope[:, self.outputs + k] = found.slope * there, found.level_slope * there
            factor[:, k] = np.sqrt(found.weight) * there
            factor[:, self.outputs + k] = np.sqrt(found.level_weight) * there

    def _with_censoring(self, here: Standardised, slope: Array, factor: Array, expected: bool) -> Array:
        """The factor with censored measurements; their slopes are filled in.

        The search takes the curvature of -log P by location, at least the information of an exact measurement times
        the probability that it lies elsewhere. With `expected` every measurement of the series loses what censoring
        takes from it.
        """
        assert self.cells is not None, "there are censored measurements"
        n, cells = self.outputs, self.cells.own
        found = cell_terms(cells, self._shapes, here, self.free_degrees)
        scale, by_output = here.scale[cells.at], here.by_output[cells.at]
        slope[cells.at] = -found.by_location * by_output / scale
        if self.frozen is None:
            slope[cells.sample, n + cells.column] = -found.by_scale / scale
            for k in np.flatnonzero(self.free_degrees):
                mine = cells.column == k
                slope[cells.sample[mine], 2 * n + k] = -found.by_degrees[mine]
        if expected and self.frozen is None:
            if factor.ndim == 2:
                factor = factor[:, :, None] * np.eye(factor.shape[1])
            return without_losses(factor, self.cells.every, self._shapes, here, self.free_degrees)
        elsewhere = -np.expm1(found.log_p)
        if factor.ndim == 2:
            own = factor[cells.at] * np.sqrt(elsewhere)
            bent = np.sqrt(np.maximum(found.curvature, 0.0)) * np.abs(by_output) / scale
            factor[cells.at] = np.maximum(np.abs(own), bent)
            if self.frozen is None:
                factor[cells.sample, n + cells.column] *= np.sqrt(elsewhere)
            return factor
        for first in range(0, factor.shape[1], n):
            factor[cells.sample, first + cells.column] *= np.sqrt(elsewhere)[:, None]
        return factor

    def _here(self, rows: Array, s: Array, by_output: Array, degrees: Array) -> Standardised:
        """What censored measurements need to know of the predictions."""
        predicted = rows[:, : self.outputs]
        if self.log.any():
            predicted = np.where(self.log, np.log(predicted) / self.bases, predicted)
        return Standardised(predicted, s, by_output, degrees)

    def _counted(self, rows: Array, k: NDArray[np.intp]) -> tuple[Array, Array, Array, Array]:
        """Counts, means, levels and trials of some outputs, (samples, k) each; 1 where nothing was measured."""
        trials = np.ones((len(rows), len(k))) if self.trials is None else self.trials[:, k]
        binomial = np.array([self.columns[i].shape is Shape.BINOMIAL for i in k])
        y = np.round(np.where(binomial, self.target[:, k] * trials, self.target[:, k]))
        there = self.measured[:, k]
        mean = np.where(there, rows[:, k], 0.5)
        return np.where(there, y, 1.0), mean, np.where(there, rows[:, self.outputs + k], 1.0), trials

    def _with_degrees(
        self, slope: Array, factor: Array, e: Array, s: Array, degrees: Array
    ) -> tuple[Array, Array]:
        """Slope by the degrees, and the full factor: scale and degrees are correlated."""
        n, index = self.outputs, np.arange(factor.shape[1])
        full = np.zeros((*factor.shape, factor.shape[1]))
        full[:, index, index] = factor
        for k in np.flatnonzero(self.free_degrees):
            there = self.measured[:, k]
            by_degrees, own, cross = degrees_terms(e[:, k], s[:, k], degrees[:, k])
            slope[:, 2 * n + k] = np.where(there, by_degrees, 0.0)
            scale = np.where(there, factor[:, n + k], 1.0)
            full[:, n + k, 2 * n + k] = np.where(there, cross / scale, 0.0)
            rest = np.sqrt(np.maximum(own - (cross / scale) ** 2, 0.0))
            full[:, 2 * n + k, 2 * n + k] = np.where(there, rest, 0.0)
        return slope, full

    def _standardised(self, rows: Array) -> tuple[Array, Array, Array, Array]:
        """Residuals e, scales, h'(g) and degrees, each (samples, outputs); finite where nothing was measured."""
        n = self.outputs
        g, levels = rows[:, :n], rows[:, n:] if self.frozen is None else self.frozen
        s = np.where(self.measured, levels[:, :n], 1.0)
        for k in self.counts.values():
            s[:, k] = 1.0
        degrees = np.broadcast_to(self.degrees, g.shape)
        if levels.shape[1] > n:
            degrees = np.where(self.free_degrees, levels[:, n:], self.degrees)
        logarithms = self.log.any()
        g = np.where(self.measured, g, np.exp(self.target * self.bases) if logarithms else self.target)
        predicted, by_output = g, np.ones_like(g)
        if logarithms:
            predicted = np.where(self.log, np.log(g) / self.bases, g)
            by_output = np.where(self.log, 1 / (g * self.bases), 1.0)
        e = np.where(self.measured, (self.target - predicted) / s, 0.0)
        return e, np.where(s > 0, s, np.nan), by_output, degrees

    def _by_shape(self, function: Callable[[Shape, NDArray[np.intp]], Array | float]) -> Array:
        """function(shape, columns) for every group of columns: (samples, outputs)."""
        result = np.zeros(self.data.shape) if self.counts else np.empty(self.data.shape)
        for shape, k in self.groups.items():
            result[:, k] = function(shape, k)
        return result

    def _at_zero(self, degrees: Array, width: float) -> Array:
        zero = np.zeros(self.data.shape)
        return self._by_shape(lambda shape, k: rho(shape, zero[:, k], degrees[:, k], width)[0])

    def excess(self, rows: Array) -> float:
        """The value minus the value of zero residuals at the same levels."""
        with np.errstate(all="ignore"):
            e, s, by_output, degrees = self._standardised(rows)
            cost = self._by_shape(lambda shape, k: rho(shape, e[:, k], degrees[:, k], 0.0)[0])
            cost -= self._at_zero(degrees, 0.0)
            if self.cells is not None:
                here = self._here(rows, s, by_output, degrees)
                cost[self.cells.own.at] = cell_costs(self.cells.own, self._shapes, here)
            for shape, k in self.counts.items():
                y, mean, level, trials = self._counted(rows, k)
                best = y / trials if shape is Shape.BINOMIAL else y
                gap = count_cost(shape, y, mean, level, trials) - count_cost(shape, y, best, level, trials)
                cost[:, k] = np.where(self.measured[:, k], gap, 0.0)
            return float(np.sum(cost))

    def size(self, rows: Array, value: float) -> float:
        """The unit of changes of the value: one half per measurement, or the excess if that is larger."""
        return max(self.unit, self.excess(rows) if self.frozen is None else value)

    def floor(self, rows: Array) -> float:
        """Changes of the value below this are errors of contraction and rounding."""
        with np.errstate(all="ignore"):
            _, s, by_output, _ = self._standardised(rows)
            self._fill_spreads(rows, s)
            size = np.where(self.measured, by_output * self.data / s, 0.0)
        return self.accuracy.rounding * self.unit + self.accuracy.contracted**2 * float(np.sum(size**2))

    def curvature(self, size: Array, rows: Array) -> float:
        """Sum over measurements of curvature times size^2; each output counts with its median curvature."""
        with np.errstate(all="ignore"):
            _, s, by_output, degrees = self._standardised(rows)
            self._fill_spreads(rows, s)
            weight = self._by_shape(lambda shape, k: information(shape, degrees[:, k])[0])
            for k in self.counts.values():
                weight[:, k] = 1.0
            each = np.where(self.measured, weight * (by_output / s) ** 2, np.nan)
        return sum_of_medians(each, size)

    def _fill_spreads(self, rows: Array, s: Array) -> None:
        """Standard deviations of counts at their means, but at least at half a count, in place."""
        for shape, k in self.counts.items():
            _, mean, level, trials = self._counted(rows, k)
            s[:, k] = _deviation(shape, mean, level, trials)

    @property
    def smooth(self) -> bool:
        """Whether there are second derivatives everywhere."""
        return Shape.LAPLACE not in self.groups

    def with_frozen(self, levels: Array) -> Likelihood:
        """The objective while the search is far from the optimum: levels fixed, none much below its median.

        Counts are normal with the variance that their own size suggests, so that no mean is impossible.
        """
        levels = np.array(levels, float)
        for shape, k in self.counts.items():
            y, _, _, trials = self._counted(np.tile(self.target, 2), k)
            mean = y / trials if shape is Shape.BINOMIAL else y
            levels[:, k] = _deviation(shape, mean, levels[:, k], trials)
        return replace(self, frozen=not_too_small(levels, self.measured), width=self.kinks.frozen)

    def rounded(self) -> Likelihood | None:
        """The objective with wider kinks, where Gauss-Newton steps do not zigzag; None if there are no kinks."""
        return replace(self, width=self.kinks.around) if Shape.LAPLACE in self.groups else None

    def sharper(self) -> Likelihood | None:
        """The objective with narrower kinks; None when these would be about as wide as where the search ends."""
        narrower = self.kinks.narrowing * self._width
        return replace(self, width=narrower) if narrower > 2 * self.kinks.last else None

    def residuals(self, rows: Array) -> Array:
        """(samples, outputs): standard normal if the noise is as assumed; NaN where not measured."""
        with np.errstate(all="ignore"):
            e, s, by_output, degrees = self._standardised(rows)
            normal = self._by_shape(lambda shape, k: as_normal(shape, e[:, k], degrees[:, k]))
            if self.cells is not None or self.counts:
                self._fill_quantiles(rows, normal, self._here(rows, s, by_output, degrees))
        return np.where(self.measured, normal, np.nan)

    def _fill_quantiles(self, rows: Array, normal: Array, here: Standardised, seed: int = 0) -> None:
        """Randomised quantile residuals of censored measurements and counts (Dunn and Smyth 1996), in place.

        A number drawn evenly between the probabilities of less and of at most what was measured, as a normal one.
        """
        from scipy.special import ndtri

        part = np.random.default_rng(seed).random(self.data.shape)
        if self.cells is not None:
            own = self.cells.own
            normal[own.at] = cell_normals(own, self._shapes, here, part[own.at])
        rounding = np.finfo(float).eps
        for shape, k in self.counts.items():
            below, most = count_below(shape, *self._counted(rows, k))
            normal[:, k] = ndtri(np.clip(below + part[:, k] * (most - below), rounding, 1 - rounding))

    def gaps(self, rows: Array) -> Array:
        """(samples, outputs): (h(y) - h(g)) / s, identically distributed for each output; NaN where not measured."""
        return np.where(self.measured, self._standardised(rows)[0], np.nan)

    def moved(self, rows: Array, gaps: Array) -> Array:
        """Data (samples, outputs) with these gaps, each in units of its own level; NaN where not measured."""
        return np.where(self.measured, moved_by(self.columns, rows, gaps), np.nan)

    def sample(self, rows: Array, rng: np.random.Generator, sd: float | None = None) -> Array:
        """New data (samples, outputs) from the likelihood at these rows, counts as counts; NaN where not measured."""
        return np.where(self.measured, draw_independent(self.columns, rows, rng, self.trials), np.nan)


def _deviation(shape: Shape, mean: Array, level: Array, trials: Array) -> Array:
    """Standard deviation of counts, or of fractions of successes, at least that of half a count."""
    least = COUNTING.surrogate
    if shape is Shape.BINOMIAL:
        mean = np.clip(mean, least / trials, 1 - least / trials)
    return np.sqrt(
        count_variance(shape, np.maximum(mean, least if shape is not Shape.BINOMIAL else 0), level, trials)
    )


Objective = LeastSquares | Likelihood | CommonNoise


def likelihood(
    scatter: Scatter, data: Array, censored: Censoring | None = None, trials: Array | None = None
) -> Likelihood | CommonNoise:
    """The likelihood of data (samples, observables), NaN where not measured, under a noise model.

    `censored`: the censoring of these data; `trials` (samples, observables): of binomial counts.
    """
    if scatter.common:
        return CommonNoise(data)
    return Likelihood(data, scatter.columns, censored=censored, trials=trials)
