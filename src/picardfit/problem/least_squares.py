"""Plain least squares, the objective without a noise model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.problem.objective import Accuracy, Terms


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
