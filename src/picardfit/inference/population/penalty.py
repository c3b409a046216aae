"""Priors of typical values, noise levels and spreads, as a penalty on top of -log L.

The optimum is then the most probable point. The density of a prior is that of the value in natural units, or of the
standard deviation of a random effect in the scale where it is normal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.inference.population.covariance import Covariance
from picardfit.model.prior_terms import terms
from picardfit.model.priors import Prior
from picardfit.model.scales import Scales
from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class Penalty:
    """-log density of all priors as a function of (theta, coordinates of the covariance)."""

    width: int  # of theta
    values: tuple[tuple[int, Scales, Prior], ...]  # (column of theta, scale, prior)
    spreads: tuple[tuple[int, Prior], ...]  # (effect, prior of its standard deviation)
    covariance: Covariance

    def __bool__(self) -> bool:
        return bool(self.values or self.spreads)

    def terms(self, point: Array) -> tuple[float, Array, Array]:
        """-log density with its slope (outer,) and a curvature (outer, outer) that is not negative."""
        cost, slope, curvature = 0.0, np.zeros(len(point)), np.zeros((len(point),) * 2)
        for column, scale, prior in self.values:
            found = terms(prior, point[column], scale)
            cost += float(found.cost)
            slope[column] += float(found.slope)
            curvature[column, column] += float(found.curvature)
        if self.spreads:
            coordinates = point[self.width :]
            factor, changes = self.covariance.factor(coordinates), self.covariance.factor_slopes(coordinates)
        for effect, prior in self.spreads:
            sd = float(np.sqrt(factor[effect] @ factor[effect]))
            by = np.zeros(len(point))
            by[self.width :] = changes[:, effect] @ factor[effect] / sd  # derivative of sd
            found = terms(prior, sd)
            cost += float(found.cost)
            slope += float(found.slope) * by
            curvature += float(found.curvature) * np.outer(by, by)
        return cost, slope, curvature


def penalty_of(problem: Problem, individual: Problem, covariance: Covariance) -> Penalty:
    """The priors of a problem with random effects; `individual`: its problem of the individuals."""
    layout = individual.layout
    names = [layout.names[k] for k in layout.column_parameters]
    values = [
        (column, layout.scales[0, column], prior)
        for column, name in enumerate(names)
        if (prior := problem.parameters[name].prior) is not None
    ]
    given = {} if problem.random is None else problem.random.priors
    spreads = [(covariance.names.index(name), prior) for name, prior in given.items()]
    return Penalty(layout.width, tuple(values), tuple(spreads), covariance)
