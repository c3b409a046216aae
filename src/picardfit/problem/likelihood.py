"""What is minimised: a sum over sampling instants of a function of the predicted rows.

Every objective gives, at predicted rows (samples, rows), its value, its slope and a factor of its curvature; the
solvers need nothing else. For least squares the rows are the outputs g. A likelihood has further rows, its levels:
[g | s] for independent noise of standard deviation (or scale) s, [g | s | degrees] when the degrees of Student's t are
estimated, and [g | a | v] for noise with one factor per instant, covariance diag(a^2) + v v'.

With e = (h(y) - h(g)) / s, h the identity or a logarithm, and rho = -log density of e, one measurement y costs
rho(e) + log s - log h'(y): the density of y itself. Curvatures are expected ones (Fisher scoring), in g and in s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.model.densities import Shape, as_normal, degrees_terms, information, rho
from picardfit.model.scatter import Column, Scatter, draw_independent, moved_by
from picardfit.problem.common_noise import CommonNoise
from picardfit.problem.objective import CONTRACTED, Terms, not_too_small, sum_of_medians

SHARP = 5e-5  # |e| of a Laplace density is sqrt(e^2 + w^2), with this w where the search ends
ROUND = 5e-3  # on the way there, and for fits around a fit
BLUNT = 1.0  # while levels are frozen
MAJORISING = 0.1  # least part of the majorising curvature of a Laplace density that the search uses


@dataclass(frozen=True)
class LeastSquares:
    """1/2 sum |y - g|^2 over what was measured: N_s times the paper's L_ls."""

    data: np.ndarray  # (samples, outputs), NaN where not measured
    known_level = False  # the size of the noise is only known from the residuals
    smooth = True  # there are second derivatives everywhere

    def __post_init__(self) -> None:
        object.__setattr__(self, "measured", np.isfinite(self.data).astype(float))
        object.__setattr__(self, "filled", np.nan_to_num(self.data, nan=0.0))

    def value(self, outputs: np.ndarray) -> float:
        residual = self.measured * (outputs - self.filled)
        return 0.5 * float(np.vdot(residual, residual))

    def terms(self, outputs: np.ndarray, expected: bool = False) -> Terms:
        residual = self.measured * (outputs - self.filled)
        return Terms(0.5 * float(np.vdot(residual, residual)), residual, self.measured)

    def curvature(self, size: np.ndarray, rows: np.ndarray | None = None) -> float:
        """Sum over measurements of curvature times size^2, with the sizes of the outputs (outputs,)."""
        return float(np.sum(self.measured * size**2))

    def size(self, rows: np.ndarray, value: float) -> float:
        """What changes of the value are compared with."""
        return value

    @property
    def nothing(self) -> float:
        """The value where all outputs are zero."""
        return 0.5 * float(np.vdot(self.filled, self.filled))

    @property
    def least(self) -> float:
        """The smallest value worth comparing with."""
        return 1e-12 * self.nothing

    def floor(self, rows: np.ndarray) -> float:
        """Values below this are errors of contraction."""
        return CONTRACTED**2 * float(np.nansum(self.data**2)) + 1e-300

    def nllh(self, outputs: np.ndarray) -> float:
        """Negative log-likelihood of normal noise with one common variance, the one that makes it smallest."""
        count = self.measured.sum()
        with np.errstate(divide="ignore"):
            return float(count / 2 * (np.log(2 * np.pi * 2 * self.value(outputs) / count) + 1))

    def residuals(self, outputs: np.ndarray) -> np.ndarray:
        """(samples, outputs): y - g over its root mean square; NaN where not measured."""
        gap = np.where(self.measured > 0, self.data - outputs, np.nan)
        size = np.sqrt(2 * self.value(outputs) / max(self.measured.sum(), 1.0))
        return gap / size if size > 0 else gap

    def gaps(self, outputs: np.ndarray) -> np.ndarray:
        """(samples, outputs): y - g, NaN where not measured."""
        return self.data - outputs

    def moved(self, outputs: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        """Data (samples, outputs) with these gaps, NaN where not measured."""
        return np.where(self.measured > 0, outputs + gaps, np.nan)

    def rounded(self) -> None:
        """There are no kinks to round."""

    def sample(self, outputs: np.ndarray, rng: np.random.Generator, sd: float) -> np.ndarray:
        """New data (samples, outputs): normal noise of standard deviation sd, NaN where not measured."""
        return np.where(self.measured > 0, outputs + sd * rng.standard_normal(outputs.shape), np.nan)


@dataclass(frozen=True)
class Likelihood:
    """Negative log-likelihood of measurements that are independent given the rows [g | s] or [g | s | degrees]."""

    data: np.ndarray  # (samples, outputs), NaN where not measured
    columns: tuple[Column, ...]
    frozen: np.ndarray | None = None  # (samples, rows - outputs): levels held, constants left out
    width: float = SHARP  # of the rounded kinks of Laplace densities
    known_level = True
    least = 0.0  # no value of a likelihood is too small to compare with

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
            "offset": float(offset),  # -sum log h'(y)
            "groups": {shape: np.array(index) for shape, index in groups.items()},
            "degrees": np.array(degrees),
            "free_degrees": np.array(free, bool),
            "outputs": outputs,
            "unit": max(0.5 * float(measured.sum()), 0.5),
        }.items():
            object.__setattr__(self, name, value)

    def value(self, rows: np.ndarray) -> float:
        return self._value(rows, self.width)

    def nllh(self, rows: np.ndarray) -> float:
        """The negative log-likelihood with Laplace densities as they are, not smoothed."""
        return self._value(rows, 0.0)

    def _value(self, rows: np.ndarray, width: float) -> float:
        with np.errstate(all="ignore"):
            e, s, _, degrees = self._standardised(rows)
            cost = self._by_shape(lambda shape, k: rho(shape, e[:, k], degrees[:, k], width)[0])
            if self.frozen is not None:
                return float(np.sum(cost - self._at_zero(degrees, width)))
            return float(np.sum(np.where(self.measured, cost + np.log(s), 0.0)) + self.offset)

    def terms(self, rows: np.ndarray, expected: bool = False) -> Terms:
        """`expected`: the Fisher information; else a curvature that suits the search.

        A Laplace density has its kinks where the search ends, and steps with the Fisher information zigzag there (more
        than 300 iterations where this takes 40): the search uses the second derivative of the rounded density, but at
        least a tenth of the curvature that majorises it.
        """
        width = self.width
        with np.errstate(all="ignore"):
            e, s, by_output, degrees = self._standardised(rows)
            slopes = self._by_shape(lambda shape, k: rho(shape, e[:, k], degrees[:, k], width)[1])
            weight, in_scale = (
                self._by_shape(lambda shape, k, i=i: information(shape, degrees[:, k])[i]) for i in (0, 1)
            )
            if not expected and Shape.LAPLACE in self.groups:
                k = self.groups[Shape.LAPLACE]
                majorising = 1 / np.sqrt(e[:, k] ** 2 + width**2)
                weight[:, k] = np.maximum(width**2 * majorising**3, MAJORISING * majorising)
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

    def _with_degrees(self, slope, factor, e, s, degrees) -> tuple[np.ndarray, np.ndarray]:
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

    def _standardised(self, rows: np.ndarray):
        """Residuals e, scales, h'(g) and degrees, each (samples, outputs); harmless where nothing was measured."""
        n = self.outputs
        g, levels = rows[:, :n], rows[:, n:] if self.frozen is None else self.frozen
        s = np.where(self.measured, levels[:, :n], 1.0)
        degrees = np.where(self.free_degrees, levels[:, n:], self.degrees) if levels.shape[1] > n else None
        degrees = np.broadcast_to(self.degrees, g.shape) if degrees is None else degrees
        g = np.where(
            self.measured, g, self.target if not self.log.any() else np.exp(self.target * self.bases)
        )
        predicted, by_output = g, np.ones_like(g)
        if self.log.any():
            predicted = np.where(self.log, np.log(g) / self.bases, g)
            by_output = np.where(self.log, 1 / (g * self.bases), 1.0)
        e = np.where(self.measured, (self.target - predicted) / s, 0.0)
        return e, np.where(s > 0, s, np.nan), by_output, degrees

    def _by_shape(self, function) -> np.ndarray:
        """function(shape, columns) for every group of columns: (samples, outputs)."""
        result = np.empty(self.data.shape)
        for shape, k in self.groups.items():
            result[:, k] = function(shape, k)
        return result

    def _at_zero(self, degrees: np.ndarray, width: float) -> np.ndarray:
        zero = np.zeros(self.data.shape)
        return self._by_shape(lambda shape, k: rho(shape, zero[:, k], degrees[:, k], width)[0])

    def excess(self, rows: np.ndarray) -> float:
        """What the residuals cost: the value above that of residuals zero at the same levels."""
        with np.errstate(all="ignore"):
            e, _, _, degrees = self._standardised(rows)
            cost = self._by_shape(lambda shape, k: rho(shape, e[:, k], degrees[:, k], 0.0)[0])
            return float(np.sum(cost - self._at_zero(degrees, 0.0)))

    def size(self, rows: np.ndarray, value: float) -> float:
        """What changes of the value are compared with: one half per measurement, or what the residuals cost."""
        return max(self.unit, self.excess(rows) if self.frozen is None else value)

    def floor(self, rows: np.ndarray) -> float:
        """Changes of the value below this are errors of contraction and rounding."""
        with np.errstate(all="ignore"):
            _, s, by_output, _ = self._standardised(rows)
            size = np.where(self.measured, by_output * self.data / s, 0.0)
        return 1e-13 * self.unit + CONTRACTED**2 * float(np.sum(size**2))

    def curvature(self, size: np.ndarray, rows: np.ndarray) -> float:
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

    def with_frozen(self, levels: np.ndarray) -> Likelihood:
        """The robust version for the way: levels (samples, rows - outputs) held, none much below its median."""
        return replace(self, frozen=not_too_small(levels, self.measured), width=BLUNT)

    def rounded(self) -> Likelihood | None:
        """The same with wider kinks, which steps do not stumble over; None if there are no kinks."""
        return replace(self, width=ROUND) if Shape.LAPLACE in self.groups else None

    def sharper(self) -> Likelihood | None:
        """The same with kinks a tenth as wide; None when the next ones are as wide as where the search ends."""
        return replace(self, width=0.1 * self.width) if self.width > 20 * SHARP else None

    def residuals(self, rows: np.ndarray) -> np.ndarray:
        """(samples, outputs): standard normal if the noise is as assumed; NaN where not measured."""
        with np.errstate(all="ignore"):
            e, _, _, degrees = self._standardised(rows)
            normal = self._by_shape(lambda shape, k: as_normal(shape, e[:, k], degrees[:, k]))
        return np.where(self.measured, normal, np.nan)

    def gaps(self, rows: np.ndarray) -> np.ndarray:
        """(samples, outputs): (h(y) - h(g)) / s, alike in all samples of an output; NaN where not measured."""
        return np.where(self.measured, self._standardised(rows)[0], np.nan)

    def moved(self, rows: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        """Data (samples, outputs) with these gaps, each in units of its own level; NaN where not measured."""
        return np.where(self.measured, moved_by(self.columns, rows, gaps), np.nan)

    def sample(self, rows: np.ndarray, rng: np.random.Generator, sd: float | None = None) -> np.ndarray:
        """New data (samples, outputs) from the likelihood at these rows, NaN where not measured."""
        return np.where(self.measured, draw_independent(self.columns, rows, rng), np.nan)


Objective = LeastSquares | Likelihood | CommonNoise


def likelihood(scatter: Scatter, data: np.ndarray) -> Likelihood | CommonNoise:
    """The likelihood of data (samples, observables), NaN where not measured, under a noise model."""
    return CommonNoise(data) if scatter.common else Likelihood(data, scatter.columns)
