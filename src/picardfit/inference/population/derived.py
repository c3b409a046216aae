"""Derived quantities of a population: formulas of the typical values, with errors by the delta method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from picardfit.evidence.derived import DerivedEstimate, DerivedEstimates
from picardfit.evidence.fisher import Yardstick
from picardfit.inference.population.individual_problem import pooled_problem
from picardfit.inference.population.uncertainty import deviation
from picardfit.problem.derived import derived_formulas, derived_units

if TYPE_CHECKING:
    from picardfit.inference.population.answer import PopulationFit


def derived_of_typical(fit: PopulationFit) -> DerivedEstimates:
    """The derived quantities at the typical values, by label."""
    pooled, optimum = pooled_problem(fit.problem), fit.population.optimum
    layout, own = pooled.layout, optimum.at.study.setting.problem.layout
    order = [int(np.flatnonzero(own.column_parameters == k)[0]) for k in layout.column_parameters]
    theta = optimum.at.study.split(optimum.at.point)[0][order]
    unknowns = np.tile(theta, (len(layout.experiments), 1))
    columns = np.array([(0, c) for c in range(layout.width)])
    covariance = fit.population.errors.covariance() if fit.judged else None
    freedom = max(len(fit.population.individual_names) - len(fit.population.names), 1)
    units, formulas, found = derived_units(pooled), derived_formulas(pooled), DerivedEstimates()
    for label, one in pooled.derived_quantities.items():
        with np.errstate(all="ignore"):
            value, slope = one.value(layout, unknowns), one.slope(layout, unknowns, columns)
        outer = np.zeros(len(optimum.at.point))
        outer[order] = slope
        error = np.nan if covariance is None else deviation(covariance, outer)
        fixed = not slope.any()
        found[label] = DerivedEstimate(
            label,
            value,
            0.0 if fixed else error,
            formulas[label],
            units.get(label, ""),
            Yardstick(freedom),
            one.logarithmic and value > 0,
            (),
            fixed,
        )
    return found
