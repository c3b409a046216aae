"""Predicted means and standard deviations of all measurements, with derivatives by the unknowns of their individuals.

A measurement y has the mean m and the standard deviation s, both in units of h: the identity, or the logarithm for
log-normal noise. `rows` are the pairs (m, s), so that derivatives have the shape (measurements, 2, columns).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.collocation.mesh import Flags, Indices
from picardfit.formulas.kernels import Array
from picardfit.inference.population.paths import (
    Paths,
    Sampled,
    displacement,
    sampled,
    second_derivatives,
)
from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class Measurements:
    """All measured numbers of a problem, ordered by individual."""

    sample: Indices  # (measurements,)
    output: Indices
    owner: Indices  # the individual of each
    individuals: int
    target: Array  # h(y)
    low: Array  # in units of h; NaN for exact measurements
    high: Array
    log: Flags  # (measurements,): h is a logarithm
    base: Array  # natural logarithm of its base, else 1
    offset: float  # -sum log h'(y) over exact measurements

    @cached_property
    def censored(self) -> Indices:
        return np.flatnonzero(~np.isnan(self.low))

    @cached_property
    def exact(self) -> int:
        """How many measurements are exact."""
        return len(self.sample) - len(self.censored)

    def by_individual(self, values: Array) -> Array:
        """(individuals, ...): sums over the measurements of each."""
        counts = np.bincount(self.owner, minlength=self.individuals)
        total = np.zeros((self.individuals, *values.shape[1:]))
        begins = np.cumsum(counts) - counts
        total[counts > 0] = np.add.reduceat(values, begins[counts > 0])
        return total


def measurements_of(problem: Problem) -> Measurements:
    """The measured numbers of a problem with normal or log-normal noise."""
    assert problem.scatter is not None
    data, columns = problem.samples.data, problem.scatter.columns
    sample, output = np.nonzero(np.isfinite(data))
    log = np.array([c.base is not None for c in columns], bool)[output]
    base = np.array([np.log(c.base) if c.base else 1.0 for c in columns])[output]
    y, limits = data[sample, output], np.full((len(sample), 2), np.nan)
    if problem.samples.limits is not None:
        limits = problem.samples.limits[sample, output]
    exact = np.isnan(limits[:, 0])
    with np.errstate(all="ignore"):
        low, high = (np.where(log, np.log(np.maximum(one, 0.0)) / base, one) for one in limits.T)
        target = np.where(log, np.log(np.where(log, y, 1.0)) / base, y)
        offset = float(np.sum(np.where(log & exact, np.log(np.where(log, y, 1.0) * base), 0.0)))
    owner = problem.samples.experiment[sample]
    return Measurements(sample, output, owner, len(problem.experiments), target, low, high, log, base, offset)


@dataclass(frozen=True)
class Predictions:
    """(m, s) of every measurement, with derivatives by the columns of its individual's unknowns."""

    rows: Array  # (measurements, 2)
    first: Array  # (measurements, 2, width)
    second: Array | None = None  # (measurements, 2, random, directions)


def predict(measurements: Measurements, paths: Paths, directions: Indices | None = None) -> Predictions:
    """Predictions along paths that have their first derivatives.

    `directions`: columns b of the second derivatives by random columns a; None: no second derivatives.
    """
    return _Rows(measurements, paths).predictions(directions)


class _Rows:
    """Rows [g | s] of the measurement map at the samples."""

    def __init__(self, measurements: Measurements, paths: Paths) -> None:
        self.measurements, self.paths = measurements, paths
        self.problem = paths.system.problem
        self.layout, self.columns = self.problem.layout, paths.columns
        self.at: Sampled = sampled(paths)
        self.owner = self.problem.samples.experiment

    def predictions(self, directions: Indices | None) -> Predictions:
        with np.errstate(all="ignore"):
            rows, by_x, by_own = self._linearised(self.at.states, self.paths.unknowns)
            first = by_own.copy()
            first[..., self.columns.acting] += by_x @ self.at.first
            value, slope = self._chosen(rows), self._chosen(first)
            second = None
            if directions is not None:
                second = self._chosen(self._second(by_x, directions))
            return self._in_units(value, slope, second, directions)

    def _linearised(self, states: Array, unknowns: Array) -> tuple[Array, Array, Array]:
        """Rows (samples, rows), and derivatives by the states and by the columns of the unknowns."""
        layout, width = self.layout, self.columns.width
        params, chain = layout.measured_values(unknowns)[self.owner], layout.slopes(unknowns)[self.owner]
        rows, by_x, by_p = self.problem.measurement_at_samples.linearise(
            self.problem.samples.times, states, params, self.paths.system.sample_inputs
        )
        index = layout.column_parameters
        inside = index < layout.measured_parameters
        by_own = np.zeros((*rows.shape, width))
        by_own[..., inside] = by_p[..., index[inside]] * chain[:, None, inside]
        return rows, by_x, by_own

    def _second(self, by_x: Array, directions: Indices) -> Array:
        """(samples, rows, random, directions)."""
        columns, at, unknowns = self.columns, self.at, self.paths.unknowns
        acting = np.full(columns.width, -1)
        acting[columns.acting] = np.arange(len(columns.acting))
        random = columns.acting_random
        length = displacement(self.paths)
        found = np.zeros((*by_x.shape[:2], columns.random, len(directions)))
        for k, b in enumerate(directions):
            moved = np.zeros_like(unknowns)
            moved[:, b] = length[:, b]
            step = length[self.owner, b]
            along = step[:, None] * at.first[..., acting[b]] if acting[b] >= 0 else 0.0
            ends = [self._by_random(at.states + sign * along, unknowns + sign * moved) for sign in (1, -1)]
            found[..., k] = (ends[0] - ends[1]) / (2 * step[:, None, None])
        inside = np.flatnonzero(acting[directions] >= 0)
        if len(inside) and len(random):
            bent = second_derivatives(self.paths, acting[directions[inside]])
            flat = by_x @ bent.reshape(*bent.shape[:2], -1)
            block = flat.reshape(*by_x.shape[:2], *bent.shape[2:])
            found[:, :, random[:, None], inside] += block
        return found

    def _by_random(self, states: Array, unknowns: Array) -> Array:
        """(samples, rows, random): first derivatives, with the derivatives of the states held."""
        _, by_x, by_own = self._linearised(states, unknowns)
        count = len(self.columns.acting_random)
        by_own[..., self.columns.acting_random] += by_x @ self.at.first[..., :count]
        return by_own[..., : self.columns.random]

    def _chosen(self, rows: Array) -> Array:
        """(measurements, 2, ...) from (samples, [g | s], ...)."""
        m, outputs = self.measurements, len(self.problem.model.observables)
        return np.stack([rows[m.sample, m.output], rows[m.sample, outputs + m.output]], axis=1)

    def _in_units(
        self, rows: Array, first: Array, second: Array | None, directions: Indices | None
    ) -> Predictions:
        """Means in units of h: m = log(g) / base where the noise is log-normal."""
        log = np.flatnonzero(self.measurements.log)
        if not len(log):
            return Predictions(rows, first, second)
        g, base = rows[log, 0].copy(), self.measurements.base[log]
        rows[log, 0] = np.log(g) / base
        relative = first[log, 0] / g[:, None]
        if second is not None and directions is not None:
            count = second.shape[2]
            bent = relative[:, :count, None] * relative[:, None, directions]
            second[log, 0] = (second[log, 0] / g[:, None, None] - bent) / base[:, None, None]
        first[log, 0] = relative / base[:, None]
        return Predictions(rows, first, second)
