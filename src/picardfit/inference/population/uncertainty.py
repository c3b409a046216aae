"""Errors of typical values, noise levels and covariances, from the curvature of the marginal likelihood.

Fisher's covariance is H^-1 with H the second derivatives of -log L. The sandwich H^-1 (sum_i g_i g_i') H^-1, with the
gradients g_i of the individuals, also holds where the model of noise or of random effects is not right; it needs more
individuals than estimated numbers. It is the default of NONMEM, and of this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from picardfit.collocation.mesh import Flags
from picardfit.formulas.kernels import Array
from picardfit.inference.population.estimation import Optimum

Kind = Literal["sandwich", "fisher"]


@dataclass(frozen=True)
class ErrorSettings:
    """What counts as a direction that the data leave open; chosen."""

    open: float = 1e-8  # curvature relative to the largest, coordinates in their units
    at_bound: float = 1e-6  # distance of a typical value from its bound, in its unit


@dataclass(frozen=True)
class Errors:
    """The covariance of the outer coordinates."""

    optimum: Optimum
    settings: ErrorSettings = ErrorSettings()

    @cached_property
    def free(self) -> Flags:
        """(outer,): coordinates that are estimated and lie at no bound."""
        box, x = self.optimum.box, self.optimum.at.point
        margin = self.settings.at_bound * box.unit
        return np.asarray((x > box.lower + margin) & (x < box.upper - margin) & (box.lower < box.upper))

    @property
    def kind(self) -> Kind:
        """The covariance that is used: the sandwich where there are enough individuals, and no priors."""
        if self.optimum.at.study.penalty is not None:
            return "fisher"
        return "sandwich" if self.optimum.at.study.individuals > self.free.sum() else "fisher"

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and vectors of the scaled second derivatives of the free coordinates."""
        hessian, unit = self.optimum.hessian, self.optimum.box.unit
        assert hessian is not None
        inside = np.ix_(self.free, self.free)
        scaled = (hessian * unit * unit[:, None])[inside]
        values, vectors = np.linalg.eigh(scaled)
        return values, vectors

    @property
    def definite(self) -> bool:
        """Whether the data determine every direction."""
        values, _ = self._spectrum
        return bool(len(values) == 0 or values[0] > self.settings.open * max(values[-1], 0.0))

    def covariance(self, kind: Kind | None = None) -> Array:
        """(outer, outer): zero for coordinates that are held or at a bound; infinite where data leave them open.

        NaN before the second derivatives are known: the search was interrupted.
        """
        if self.optimum.hessian is None:
            return np.full((len(self.free),) * 2, np.nan)
        values, vectors = self._spectrum
        unit, count = self.optimum.box.unit[self.free], len(self.free)
        found = np.zeros((count, count))
        if not len(values):
            return found
        limit = self.settings.open * max(values[-1], 0.0)
        closed = values > limit
        inverse = (vectors[:, closed] / values[closed]) @ vectors[:, closed].T
        if (kind or self.kind) == "sandwich":
            slopes = self.optimum.at.slopes
            assert slopes is not None
            scores = slopes[:, self.free] * unit
            inverse = inverse @ (scores.T @ scores) @ inverse
        if not closed.all():
            touched = (np.abs(vectors[:, ~closed]) > np.sqrt(self.settings.open)).any(axis=1)
            inverse[touched, touched] = np.inf
        found[np.ix_(self.free, self.free)] = inverse * unit * unit[:, None]
        return found


def deviation(covariance: Array, slope: Array) -> float:
    """The standard error of a quantity with this slope; infinite where an open coordinate enters."""
    acting = slope != 0
    if not acting.any():
        return np.nan
    part = covariance[np.ix_(acting, acting)]
    if np.isinf(part).any():
        return np.inf
    variance = float(slope[acting] @ part @ slope[acting])
    return float(np.sqrt(variance)) if variance > 0 else np.nan
