"""What is minimised: a sum over sampling instants of a function of the predicted outputs.

Every objective gives, at predicted outputs (samples, outputs), its value, its slope and a factor of its (expected)
curvature; the solvers need nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Terms:
    """Value, slope (samples, outputs) and a square root of the curvature, diagonal: (samples, outputs)."""

    value: float
    slope: np.ndarray
    factor: np.ndarray


@dataclass(frozen=True)
class LeastSquares:
    """1/2 sum |y - g|^2 over what was measured: N_s times the paper's L_ls."""

    data: np.ndarray  # (samples, outputs), NaN where not measured

    def __post_init__(self) -> None:
        object.__setattr__(self, "measured", np.isfinite(self.data).astype(float))
        object.__setattr__(self, "filled", np.nan_to_num(self.data, nan=0.0))

    def value(self, outputs: np.ndarray) -> float:
        residual = self.measured * (outputs - self.filled)
        return 0.5 * float(np.vdot(residual, residual))

    def terms(self, outputs: np.ndarray) -> Terms:
        residual = self.measured * (outputs - self.filled)
        return Terms(0.5 * float(np.vdot(residual, residual)), residual, self.measured)

    def curvature(self, size: np.ndarray) -> float:
        """Sum over measurements of curvature times size^2, with the sizes of the outputs (outputs,)."""
        return float(np.sum(self.measured * size**2))
