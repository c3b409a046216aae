"""Censored measurements: which intervals hold them, and which intervals would hold other measurements of their series.

A measurement below a detection limit says that samples of the same series (observable and experiment) would have been
censored there as well. Expected information and simulated data take that into account: an exact measurement is
censored by the intervals of its series that do not hold it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from picardfit.formulas.kernels import Array
from picardfit.model.densities import Shape
from picardfit.model.intervals import (
    interval_loss,
    interval_scores,
    log_below,
    log_between,
    mean_degrees_score,
)
from picardfit.problem.experiment import runs

Interval = tuple[float, float]


@dataclass(frozen=True)
class CensoringSettings:
    """Limits of what is inferred about censoring."""

    most: int = 20  # intervals of a series that apply to its other samples, the most frequent ones; chosen


@dataclass(frozen=True)
class Cells:
    """Intervals of measurements, (cells,) each."""

    sample: NDArray[np.intp]
    column: NDArray[np.intp]
    low: Array
    high: Array

    def transformed(self, log: NDArray[np.bool_], bases: Array) -> Cells:
        """The intervals in units of h, the identity or a logarithm; a negative lower limit of a logarithm is -inf."""
        with np.errstate(all="ignore"):
            low, high = (
                np.where(log[self.column], np.log(np.maximum(one, 0.0)) / bases[self.column], one)
                for one in (self.low, self.high)
            )
        return Cells(self.sample, self.column, low, high)

    def part(self, chosen: NDArray[np.bool_]) -> Cells:
        return Cells(self.sample[chosen], self.column[chosen], self.low[chosen], self.high[chosen])

    @property
    def at(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return self.sample, self.column


@dataclass(frozen=True)
class Censoring:
    """The intervals of censored measurements, and of all that would be applied to measurements of their series."""

    own: Cells
    every: Cells

    def transformed(self, log: NDArray[np.bool_], bases: Array) -> Censoring:
        return Censoring(self.own.transformed(log, bases), self.every.transformed(log, bases))

    def applied(self, data: Array) -> Array:
        """(samples, outputs, 2): limits of those of new data that lie in an interval, NaN for the others."""
        limits = np.full((*data.shape, 2), np.nan)
        cells, values = self.every, data[self.every.at]
        inside = (values > cells.low) & (values < cells.high)
        hit = cells.part(inside)
        limits[hit.at] = np.stack([hit.low, hit.high], axis=1)
        return limits


def censoring(
    limits: Array,
    data: Array,
    experiment: NDArray[np.intp],
    settings: CensoringSettings = CensoringSettings(),
) -> Censoring:
    """The censoring of data (samples, outputs) with limits (samples, outputs, 2), NaN where exact."""
    sample, column = np.nonzero(~np.isnan(limits[..., 0]))
    own = Cells(sample, column, *limits[sample, column].T)
    found: list[tuple[int, int, float, float]] = []
    for k in np.unique(column):
        seen = Counter(map(tuple, limits[column_rows(own, k), k].tolist()))
        for _, mine in runs(experiment):
            rows = np.arange(len(data))[mine]
            rows = rows[np.isfinite(data[rows, k])]
            here = [tuple(one) for one in limits[rows, k].tolist() if one[0] == one[0]]
            series = _by_width((Counter(here) if here else seen).most_common(settings.most))
            for row in rows:
                censored = not np.isnan(limits[row, k, 0])
                held = [tuple(limits[row, k].tolist())] if censored else []
                found += [(int(row), int(k), *one) for one in _apart(series, held, float(data[row, k]))]
    rows_, columns_, lows, highs = (np.array(one) for one in zip(*found, strict=True))
    return Censoring(own, Cells(rows_, columns_, lows, highs))


def column_rows(cells: Cells, column: int) -> NDArray[np.intp]:
    """The samples of the cells of one column."""
    return np.asarray(cells.sample[cells.column == column])


def _by_width(counted: Sequence[tuple[Interval, int]]) -> list[Interval]:
    """The intervals, wide ones first; of two that reach to infinity on one side the one with more in it."""
    return sorted((one for one, _ in counted), key=lambda one: (-_width(one), -_reach(one)))


def _width(one: Interval) -> float:
    return one[1] - one[0]


def _reach(one: Interval) -> float:
    return one[1] if np.isinf(one[0]) else -one[0]


def _apart(series: Sequence[Interval], held: list[Interval], value: float) -> list[Interval]:
    """Intervals that do not overlap: the one that holds a censored value, or those that do not hold an exact one."""
    chosen = list(held)
    for low, high in series:
        free = all(high <= a or b <= low for a, b in chosen)
        if free and (held or not low < value < high):
            chosen.append((low, high))
    return chosen


# ---- what censored measurements add to a likelihood ----------------------------------------------------------------


@dataclass(frozen=True)
class Standardised:
    """Where a likelihood is evaluated: h(g), s, h'(g) and the degrees of freedom, each (samples, outputs)."""

    predicted: Array
    scale: Array
    by_output: Array
    degrees: Array

    def ends(self, cells: Cells) -> tuple[Array, Array]:
        """Both ends of the intervals as standardised residuals."""
        centre, scale = self.predicted[cells.at], self.scale[cells.at]
        with np.errstate(all="ignore"):
            return (cells.low - centre) / scale, (cells.high - centre) / scale


@dataclass(frozen=True)
class CellTerms:
    """Mean scores of intervals by location, scale and degrees, and the curvature that a search uses, (cells,) each."""

    by_location: Array
    by_scale: Array
    by_degrees: Array
    log_p: Array
    curvature: Array


def cell_costs(cells: Cells, shapes: Sequence[Shape], here: Standardised) -> Array:
    """(cells,): -log P."""
    cost = np.empty(len(cells.sample))
    for shape, chosen in _by_shape(cells, shapes):
        part = cells.part(chosen)
        cost[chosen] = -log_between(shape, *here.ends(part), here.degrees[part.at])
    return cost


def cell_terms(
    cells: Cells, shapes: Sequence[Shape], here: Standardised, free: NDArray[np.bool_]
) -> CellTerms:
    """Scores of censored measurements; `free` (outputs,): the degrees of freedom are estimated."""
    found = np.zeros((5, len(cells.sample)))
    for shape, chosen in _by_shape(cells, shapes):
        part = cells.part(chosen)
        (a, b), degrees = here.ends(part), here.degrees[part.at]
        log_p, location, scale, curvature = interval_scores(shape, a, b, degrees)
        own = np.zeros(len(a))
        if (estimated := free[part.column]).any():
            own[estimated] = mean_degrees_score(
                a[estimated], b[estimated], degrees[estimated], log_p[estimated]
            )
        found[:, chosen] = location, scale, own, log_p, curvature
    return CellTerms(*found)


def cell_normals(cells: Cells, shapes: Sequence[Shape], here: Standardised, part_of: Array) -> Array:
    """(cells,): standard normal numbers at the fraction `part_of` (cells,) of the probability of each interval.

    In logarithms, as a value far beyond its limit has a probability that is no float.
    """
    from scipy.special import ndtri_exp

    found = np.empty(len(cells.sample))
    for shape, chosen in _by_shape(cells, shapes):
        part = cells.part(chosen)
        (a, b), degrees, u = here.ends(part), here.degrees[part.at], part_of[chosen]
        upper = a + b > 0  # probabilities keep their digits in the lower tail
        low, high = np.where(upper, -b, a), np.where(upper, -a, b)
        below, above = (log_below(shape, one, degrees) for one in (low, high))
        with np.errstate(divide="ignore"):
            log_p = np.logaddexp(np.log1p(-u) + below, np.log(u) + above)
        found[chosen] = np.where(upper, -1.0, 1.0) * ndtri_exp(np.minimum(log_p, 0.0))
    return found


def without_losses(
    full: Array, cells: Cells, shapes: Sequence[Shape], here: Standardised, free: NDArray[np.bool_]
) -> Array:
    """A full factor (samples, rows, rows) of Fisher's information without what censoring takes from it.

    Rows are [g | s] or [g | s | degrees]; the information of an output at a sample is a block of two or three of them.
    """
    outputs = len(shapes)
    for shape, chosen in _by_shape(cells, shapes):
        for estimated in (False, True):
            part = cells.part(chosen & (free[cells.column] == estimated))
            if not len(part.sample):
                continue
            loss = interval_loss(shape, *here.ends(part), here.degrees[part.at], estimated)
            unit = [here.by_output[part.at] / here.scale[part.at], 1 / here.scale[part.at]]
            unit += [np.ones(len(loss))] if estimated else []
            scale = np.stack(unit, axis=-1)
            pairs, index = np.unique(np.stack(part.at, axis=1), axis=0, return_inverse=True)
            rows = pairs[:, 1:] + outputs * np.arange(scale.shape[1])
            block = full[pairs[:, 0, None, None], rows[:, :, None], rows[:, None, :]]
            information = block.transpose(0, 2, 1) @ block
            np.subtract.at(information, index.ravel(), scale[:, :, None] * loss * scale[:, None, :])
            full[pairs[:, 0, None, None], rows[:, :, None], rows[:, None, :]] = _root(information)
    return full


def _root(matrices: Array) -> Array:
    """F with F' F the positive part of symmetric matrices (..., n, n); NaN where these are not finite."""
    finite = np.asarray(np.isfinite(matrices).all(axis=(-1, -2)))
    values, vectors = np.linalg.eigh(np.where(finite[..., None, None], matrices, 0.0))
    root = np.sqrt(np.maximum(values, 0.0))[..., :, None] * np.swapaxes(vectors, -1, -2)
    return np.where(finite[..., None, None], root, np.nan)


def _by_shape(cells: Cells, shapes: Sequence[Shape]) -> list[tuple[Shape, NDArray[np.bool_]]]:
    """The densities of the cells' outputs, and the cells that each has."""
    every = np.array([list(Shape).index(shape) for shape in shapes])[cells.column]
    return [(list(Shape)[k], every == k) for k in np.unique(every)]
