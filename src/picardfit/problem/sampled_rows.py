"""The rows of the objective at the samples, finite wherever nothing was sampled: B/t at t = 0 harms no other number."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from picardfit.formulas.kernels import Array
from picardfit.model.measurement import Measurement, Rows


@dataclass(frozen=True)
class SampledRows:
    """A map at the samples, with the interface of BatchedMap.

    A cell where nothing is sampled is 0 if it is not finite, and so are its derivatives: multiplied by a slope of
    zero they would be NaN.
    """

    inner: Rows
    sampled: NDArray[np.bool_]  # (samples, rows)

    def value(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> Array:
        """(*batch, samples, rows)."""
        return self._kept(self.inner.value(t, x, p, u))

    def linearise(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> tuple[Array, Array, Array]:
        """Value and derivatives: (*batch, samples, rows), (..., states), (..., parameters)."""
        rows, by_x, by_p = self.inner.linearise(t, x, p, u)
        return self._kept(rows), self._kept(by_x, 1), self._kept(by_p, 1)

    def _kept(self, values: Array, further: int = 0) -> Array:
        """The values, 0 in cells that are neither sampled nor finite; `further`: axes after the rows."""
        wrong = ~np.isfinite(values)
        if not wrong.any():
            return values
        return np.where(wrong & ~self.sampled.reshape(*self.sampled.shape, *[1] * further), 0.0, values)


def sampled_rows(measurement: Rows, sampled: NDArray[np.bool_]) -> Rows:
    """The map from states to rows at the samples; `sampled` (samples, observables) says which cells count.

    Noise levels are formulas of the observables: these are made finite before levels are computed from them.
    """
    if sampled.all():
        return measurement
    if isinstance(measurement, Measurement):
        measurement = replace(measurement, output=SampledRows(measurement.output, sampled))
        rows = sampled.shape[1] + len(measurement.levels.expressions)
        return SampledRows(measurement, np.tile(sampled, rows // sampled.shape[1]))
    return SampledRows(measurement, sampled)
