"""The objective: a sum over sampling instants of a function of the predicted rows.

At predicted rows (samples, rows) every objective has a value, a slope and a factor of its curvature; the solvers need
nothing else. For least squares the rows are the outputs g. A likelihood has further rows, its levels:
[g | s] for independent noise of standard deviation (or scale) s, [g | s | degrees] when the degrees of Student's t are
estimated, and [g | a | v] for noise with one factor per instant, covariance diag(a^2) + v v'.

With e = (h(y) - h(g)) / s, h the identity or a logarithm, and rho = -log density of e, one measurement y costs
rho(e) + log s - log h'(y): the density of y itself. Curvatures are expected ones (Fisher scoring), in g and in s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from picardfit.formulas.kernels import Array
from picardfit.model.densities import Shape, as_normal, degrees_terms, information, rho
from picardfit.model.scatter import Column, Scatter, draw_independent, moved_by
from picardfit.problem.common_noise import CommonNoise
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
class LeastSquares:
    """1/2 sum |y - g|^2 over what was measured: N_s times the paper's L_ls."""

    data: Array  # (samples, outputs), NaN where not measured
    accuracy: Accuracy = field(default_factory=Accuracy)
    measured: Array = field(init=False, repr=False)  # 1 where measured, else 0
    filled: Array = field(init=False, repr=False)  # zero where not measured
    smooth = True  # there are second derivatives everywhere

    def __post_init__(self) -> None:
        object.__setattr__(self, "measured", np.isfinite(self.data).astype(float))
        object.__setattr__(self, "filled", np.nan_to_num(self.data, nan=0.0))

    def value(self, outputs: Array) -> float:
        residual = self.measured * (outputs - self.filled)
        return 0.5 * float(np.vdot(residual, residual))

    def terms(self, outputs: Array, expected: bool = False) -> Terms:
        residual = self.measured * (outputs - self.filled)
        return Terms(0.5 * float(np.vdot(residual, residual)), residual, self.measured)

    def curvature(self, size: Array, rows: Array | None = None) -> float:
        """Sum over measurements of curvature times size^2, with the sizes of the outputs (outputs,)."""
        return float(np.sum(self.measured * size**2))

    def size(self, rows: Array, value: float) -> float:
        """What changes of the value are compared with."""
        return value

    @property
    def nothing(self) -> float:
        """The value where all outputs are zero."""
        return 0.5 * float(np.vdot(self.filled, self.filled))

    @property
    def least(self) -> float:
        """The smallest value worth comparing with."""
        return self.accuracy.negligible * self.nothing

    def floor(self, rows: Array) -> float:
        """Values below this are errors of contraction."""
        return self.accuracy.contracted**2 * float(np.nansum(self.data**2)) + float(np.finfo(float).tiny)

    def nllh(self, outputs: Array) -> float:
        """Negative log-likelihood of normal noise with one common variance, the one that makes it smallest."""
        count = self.measured.sum()
        with np.errstate(divide="ignore"):
            return float(count / 2 * (np.log(2 * np.pi * 2 * self.value(outputs) / count) + 1))

    def residuals(self, outputs: Array) -> Array:
        """(samples, outputs): y - g over its root mean square; NaN where not measured."""
        gap = np.where(self.measured > 0, self.data - outputs, np.nan)
        size = np.sqrt(2 * self.value(outputs) / max(self.measured.sum(), 1.0))
        return gap / size if size > 0 else gap

    def gaps(self, outputs: Array) -> Array:
        """(samples, outputs): y - g, NaN where not measured."""
        return self.data - outputs

    def moved(self, outputs: Array, gaps: Array) -> Array:
        """Data (samples, outputs) with these gaps, NaN where not measured."""
        return np.where(self.measured > 0, outputs + gaps, np.nan)

    def rounded(self) -> None:
        """There are no kinks to round."""

    def sample(self, outputs: Array, rng: np.random.Generator, sd: float) -> Array:
        """New data (samples, outputs): normal noise of standard deviation sd, NaN where not measured."""
        return np.where(self.measured > 0, outputs + sd * rng.standard_normal(outputs.shape), np.nan)


@dataclass(frozen=True)
class Likelihood:
    """Negative log-likelihood of measurements that are independent given the rows [g | s] or [g | s | degrees]."""

    data: Array  # (samples, outputs), NaN where not measured
    columns: tuple[Column, ...]
    frozen: Array | None = (
        None  # (samples, rows - outputs): fixed levels; constants of the value are left out
    )
    width: float | None = None  # of the rounded kinks of Laplace densities; None: the final one
    kinks: Kinks = field(default_factory=Kinks)
    accuracy: Accuracy = field(default_factory=Accuracy)
    measured: NDArray[np.bool_] = field(init=False, repr=False)
    log: NDArray[np.bool_] = field(init=False, repr=False)  # (outputs,): h is a logarithm
    bases: Array = field(init=False, repr=False)  # (outputs,): natural logarithm of its base, else 1
    target: Array = field(init=False, repr=False)  # h(y)
    offset: float = field(init=False, repr=False)  # -sum log h'(y)
    groups: dict[Shape, NDArray[np.intp]] = field(init=False, repr=False)  # outputs by their density
    degrees: Array = field(init=False, repr=False)  # (outputs,): known degrees of Student's t
    free_degrees: NDArray[np.bool_] = field(init=False, repr=False)  # (outputs,): the degrees are a row
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
            offset = np.where(measured & log, np.log(np.where(log, seen, 1.0) * bases), 0.0).sum()
        groups: dict[Shape, list[int]] = {}
        for k, column in enumerate(self.columns):
            groups.setdefault(column.shape, []).append(k)
        degrees = [np.nan if c.degrees is None else c.degrees for c in self.columns]
        free = [c.shape is Shape.STUDENT and c.degrees is None for c in self.columns]
        for name, value in {
            "measured": measured,
            "bases": bases,
            "log": log,
            "target": target,
            "offset": float(offset),
            "groups": {shape: np.array(index) for shape, index in groups.items()},
            "degrees": np.array(degrees),
            "free_degrees": np.array(free, bool),
            "outputs": outputs,
            "unit": max(0.5 * float(measured.sum()), 0.5),
        }.items():
            object.__setattr__(self, name, value)

    def value(self, rows: Array) -> float:
        return self._value(rows, self._width)

    def nllh(self, rows: Array) -> float:
        """The negative log-likelihood with Laplace densities as they are, not smoothed."""
        return self._value(rows, 0.0)

    @property
    def _width(self) -> float:
        return self.kinks.last if self.width is None else self.width

    def _value(self, rows: Array, width: float) -> float:
        with np.errstate(all="ignore"):
            e, s, _, degrees = self._standardised(rows)
            cost = self._by_shape(lambda shape, k: rho(shape, e[:, k], degrees[:, k], width)[0])
            if self.frozen is not None:
                return float(np.sum(cost - self._at_zero(degrees, width)))
            return float(np.sum(np.where(self.measured, cost + np.log(s), 0.0)) + self.offset)

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
            if self.frozen is None and self.free_degrees.any():
                return Terms(value, *self._with_degrees(slope, factor, e, s, degrees))
        return Terms(value, slope, factor)

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
        result = np.empty(self.data.shape)
        for shape, k in self.groups.items():
            result[:, k] = function(shape, k)
        return result

    def _at_zero(self, degrees: Array, width: float) -> Array:
        zero = np.zeros(self.data.shape)
        return self._by_shape(lambda shape, k: rho(shape, zero[:, k], degrees[:, k], width)[0])

    def excess(self, rows: Array) -> float:
        """The value minus the value of zero residuals at the same levels."""
        with np.errstate(all="ignore"):
            e, _, _, degrees = self._standardised(rows)
            cost = self._by_shape(lambda shape, k: rho(shape, e[:, k], degrees[:, k], 0.0)[0])
            return float(np.sum(cost - self._at_zero(degrees, 0.0)))

    def size(self, rows: Array, value: float) -> float:
        """The unit of changes of the value: one half per measurement, or the excess if that is larger."""
        return max(self.unit, self.excess(rows) if self.frozen is None else value)

    def floor(self, rows: Array) -> float:
        """Changes of the value below this are errors of contraction and rounding."""
        with np.errstate(all="ignore"):
            _, s, by_output, _ = self._standardised(rows)
            size = np.where(self.measured, by_output * self.data / s, 0.0)
        return self.accuracy.rounding * self.unit + self.accuracy.contracted**2 * float(np.sum(size**2))

    def curvature(self, size: Array, rows: Array) -> float:
        """Sum over measurements of curvature times size^2; each output counts with its median curvature."""
        with np.errstate(all="ignore"):
            _, s, by_output, degrees = self._standardised(rows)
            weight = self._by_shape(lambda shape, k: information(shape, degrees[:, k])[0])
            each = np.where(self.measured, weight * (by_output / s) ** 2, np.nan)
        return sum_of_medians(each, size)

    @property
    def smooth(self) -> bool:
        """Whether there are second derivatives everywhere."""
        return Shape.LAPLACE not in self.groups

    def with_frozen(self, levels: Array) -> Likelihood:
        """The objective while the search is far from the optimum: levels fixed, none much below its median."""
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
            e, _, _, degrees = self._standardised(rows)
            normal = self._by_shape(lambda shape, k: as_normal(shape, e[:, k], degrees[:, k]))
        return np.where(self.measured, normal, np.nan)

    def gaps(self, rows: Array) -> Array:
        """(samples, outputs): (h(y) - h(g)) / s, identically distributed for each output; NaN where not measured."""
        return np.where(self.measured, self._standardised(rows)[0], np.nan)

    def moved(self, rows: Array, gaps: Array) -> Array:
        """Data (samples, outputs) with these gaps, each in units of its own level; NaN where not measured."""
        return np.where(self.measured, moved_by(self.columns, rows, gaps), np.nan)

    def sample(self, rows: Array, rng: np.random.Generator, sd: float | None = None) -> Array:
        """New data (samples, outputs) from the likelihood at these rows, NaN where not measured."""
        return np.where(self.measured, draw_independent(self.columns, rows, rng), np.nan)


Objective = LeastSquares | Likelihood | CommonNoise


def likelihood(scatter: Scatter, data: Array) -> Likelihood | CommonNoise:
    """The likelihood of data (samples, observables), NaN where not measured, under a noise model."""
    return CommonNoise(data) if scatter.common else Likelihood(data, scatter.columns)
