"""The paper's noise: one factor for all outputs of an instant, y = (1 + n) g + m (pf.Noise(..., common=True))."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from picardfit.formulas.kernels import Array
from picardfit.model.scatter import draw_common
from picardfit.problem.objective import Accuracy, Terms, not_too_small, sum_of_medians


@dataclass(frozen=True)
class CommonNoise:
    """Normal noise with one factor n per instant for all outputs: y = g + n v + m, rows [g | a | v].

    The covariance of an instant is diag(a^2) + v v', restricted to what was measured then.
    """

    data: Array  # (samples, outputs), NaN where not measured
    frozen: Array | None = None  # (samples, 2 outputs): fixed levels
    accuracy: Accuracy = field(default_factory=Accuracy)
    measured: NDArray[np.bool_] = field(init=False, repr=False)
    filled: Array = field(init=False, repr=False)  # zero where not measured
    outputs: int = field(init=False, repr=False)
    unit: float = field(init=False, repr=False)  # one half per measurement
    smooth = True
    least = 0.0

    def __post_init__(self) -> None:
        measured = np.isfinite(self.data)
        object.__setattr__(self, "measured", measured)
        object.__setattr__(self, "filled", np.nan_to_num(self.data, nan=0.0))
        object.__setattr__(self, "outputs", self.data.shape[1])
        object.__setattr__(self, "unit", max(0.5 * float(measured.sum()), 0.5))

    def value(self, rows: Array) -> float:
        return float(np.sum(self.costs(rows)))

    def costs(self, rows: Array) -> Array:
        """(samples, 1): -log density of the measurements of each instant; their sum is `value`."""
        with np.errstate(all="ignore"):
            residual, a, v = self._residual_and_levels(rows)
            white, shrink = residual / a, v / a
            total = 1 + np.sum(shrink**2, axis=1)
            squares = np.sum(white**2, axis=1) - np.sum(shrink * white, axis=1) ** 2 / total
            if self.frozen is not None:
                return np.asarray(0.5 * squares[:, None])
            spread = np.log(total) + 2 * np.sum(np.log(a), axis=1)
            count = self.measured.sum(axis=1)
            return np.asarray(0.5 * (squares + spread + count * np.log(2 * np.pi))[:, None])

    nllh = value

    def terms(self, rows: Array, expected: bool = False) -> Terms:
        n, (residual, a, v) = self.outputs, self._residual_and_levels(rows)
        with np.errstate(all="ignore"):
            root = _rank_one_root(a, v)  # L^-1: (samples, outputs, outputs)
            inverse = root.transpose(0, 2, 1) @ root
            weighted = (inverse @ residual[..., None])[..., 0]
            slope = np.zeros_like(rows)
            seen = self.measured
            slope[:, :n] = -weighted
            masked = root * seen[:, None, :]
            if self.frozen is not None:
                factor = np.zeros((len(rows), n, rows.shape[1]))
                factor[:, :, :n] = masked
                return Terms(self.value(rows), slope * _tiled(seen, rows), factor)
            excess = inverse - weighted[:, :, None] * weighted[:, None, :]  # 2 d value / d covariance
            slope[:, n : 2 * n] = a * np.einsum("skk->sk", excess)
            slope[:, 2 * n :] = (excess @ v[..., None])[..., 0]
            by_a = np.einsum("sik,sjk->sijk", masked, masked) * (2 * a)[:, None, None, :]
            turned = (root @ v[..., None])[..., 0]
            by_v = np.einsum("sik,sj->sijk", masked, turned)
            by_v = by_v + by_v.transpose(0, 2, 1, 3)
            factor = np.zeros((len(rows), n + n * n, 3 * n))
            factor[:, :n, :n] = masked
            factor[:, n:, n : 2 * n] = by_a.reshape(len(rows), n * n, n) / np.sqrt(2)
            factor[:, n:, 2 * n :] = by_v.reshape(len(rows), n * n, n) / np.sqrt(2)
        return Terms(self.value(rows), slope * _tiled(seen, rows), factor)

    def _residual_and_levels(self, rows: Array) -> tuple[Array, Array, Array]:
        """Residuals, a and v, each (samples, outputs): 0, 1 and 0 where nothing was measured."""
        n = self.outputs
        levels = rows[:, n:] if self.frozen is None else self.frozen
        residual = np.where(self.measured, self.filled - rows[:, :n], 0.0)
        a = np.where(self.measured, levels[:, :n], 1.0)
        return residual, np.where(a > 0, a, np.nan), np.where(self.measured, levels[:, n:], 0.0)

    def excess(self, rows: Array) -> float:
        """The value minus the value of zero residuals at the same levels."""
        residuals = self.residuals(rows)
        return 0.5 * float(np.nansum(residuals**2))

    def size(self, rows: Array, value: float) -> float:
        """The unit of changes of the value: one half per measurement, or the excess if that is larger."""
        return max(self.unit, self.excess(rows) if self.frozen is None else value)

    def floor(self, rows: Array) -> float:
        """Changes of the value below this are errors of contraction and rounding."""
        _, a, v = self._residual_and_levels(rows)
        size = float(np.nansum(self.filled**2 / (a**2 + v**2)))
        return self.accuracy.rounding * self.unit + self.accuracy.contracted**2 * size

    def curvature(self, size: Array, rows: Array) -> float:
        """Sum over measurements of curvature times size^2; each output counts with its median curvature."""
        _, a, v = self._residual_and_levels(rows)
        return sum_of_medians(np.where(self.measured, 1 / (a**2 + v**2), np.nan), size)

    def with_frozen(self, levels: Array) -> CommonNoise:
        """The objective while the search is far from the optimum: levels fixed, and independent outputs.

        The directions v follow the predicted outputs; far from the optimum, wrong ones would dominate.
        """
        n = self.outputs
        total = not_too_small(np.hypot(levels[:, :n], levels[:, n:]), self.measured)
        return replace(self, frozen=np.concatenate([total, np.zeros_like(total)], axis=1))

    def rounded(self) -> None:
        """There are no kinks to round."""

    def residuals(self, rows: Array) -> Array:
        """(samples, outputs): L^-1 (y - g) with covariance L L', standard normal and independent; else NaN."""
        residual, a, v = self._residual_and_levels(rows)
        with np.errstate(all="ignore"):
            white = (_rank_one_root(a, v) @ residual[..., None])[..., 0]
        return np.where(self.measured, white, np.nan)

    def sample(self, rows: Array, rng: np.random.Generator, sd: float | None = None) -> Array:
        """New data (samples, outputs), NaN where not measured."""
        return np.where(self.measured, draw_common(rows, rng), np.nan)


def _rank_one_root(a: Array, v: Array) -> Array:
    """L^-1 of diag(a^2) + v v' = L L', one for each instant: (samples, outputs, outputs)."""
    n = a.shape[1]
    covariance = v[:, :, None] * v[:, None, :]
    covariance[:, np.arange(n), np.arange(n)] += a**2
    good: NDArray[np.bool_] = np.asarray(np.isfinite(covariance).all(axis=(1, 2)))
    root = np.full_like(covariance, np.nan)
    size = np.sqrt(np.where(good[:, None], np.einsum("skk->sk", covariance), 1.0))
    scaled = covariance / size[:, :, None] / size[:, None, :]
    scaled[~good] = np.eye(n)
    inverse = np.linalg.inv(np.linalg.cholesky(scaled)) / size[:, None, :]
    root[good] = inverse[good]
    return root


def _tiled(seen: NDArray[np.bool_], rows: Array) -> NDArray[np.bool_]:
    """What was measured, (samples, outputs), repeated for every block of the rows."""
    return np.tile(seen, rows.shape[1] // seen.shape[1])
