"""Estimates of derived quantities: formulas of the unknowns, with errors by the delta method."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite, isnan, nan

import numpy as np

from picardfit.display.hook import shown
from picardfit.evidence.fisher import Information, Yardstick
from picardfit.problem.derived import derived_formulas, derived_units
from picardfit.problem.quantity import Quantity
from picardfit.solvers.loop import Solution


@shown
@dataclass(frozen=True)
class DerivedEstimate:
    """A formula of the unknowns at their estimates.

    Its variance is g' C g with its slopes g and the covariance C of the unknowns (delta method), which takes the
    formula as a straight line within the errors; `fit.profile(name)` does not.
    """

    name: str
    value: float
    standard_error: float  # NaN without convergence; infinite where the data do not determine it
    formula: str
    unit: str
    yardstick: Yardstick
    logarithmic: bool  # the interval is symmetric in the logarithm
    at_bound: tuple[str, ...] = ()  # unknowns of the formula at a bound, which the error takes as known
    fixed: bool = False  # it depends on no unknown

    def __float__(self) -> float:
        return self.value

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval by the delta method; symmetric in the logarithm if all its unknowns are logarithms."""
        reach = self.yardstick.errors(level) * self.standard_error
        if isnan(reach) or not isfinite(self.value):
            return nan, nan
        if not isfinite(reach):
            return (0.0 if self.logarithmic else -inf), inf
        if not self.logarithmic:
            return self.value - reach, self.value + reach
        factor = exp(min(reach / self.value, 700.0))  # the largest float is about e^709
        return self.value / factor, self.value * factor


@shown
class DerivedEstimates(dict[str, DerivedEstimate]):
    """Derived quantities by label. `print` them for a table."""


def derived_estimates(
    solution: Solution, found: Information | None, variance: float, yardstick: Yardstick
) -> DerivedEstimates:
    """The derived quantities of a solution by label; `found`: the information there, None without convergence."""
    problem = solution.system.problem
    units, formulas = derived_units(problem), derived_formulas(problem)
    estimates = DerivedEstimates()
    for label, one in problem.derived_quantities.items():
        with np.errstate(all="ignore"):
            value = one.value(problem.layout, solution.unknowns)
            error, at_bound, fixed = _error(solution, found, one, variance)
        estimates[label] = DerivedEstimate(
            label,
            value,
            error,
            formulas[label],
            units.get(label, ""),
            yardstick,
            one.logarithmic and value > 0,
            at_bound,
            fixed,
        )
    return estimates


def _error(
    solution: Solution, found: Information | None, one: Quantity, variance: float
) -> tuple[float, tuple[str, ...], bool]:
    """Standard error, the unknowns at a bound it depends on, and whether it depends on no unknown at all."""
    layout, unknowns = solution.system.problem.layout, solution.unknowns
    every = one.slope(layout, unknowns, np.argwhere(layout.exists))
    if not np.any(every != 0):
        return 0.0, (), True
    if found is None or isnan(variance):
        return nan, (), False
    slope = one.slope(layout, unknowns, found.index)
    touched = [b for b in found.bounded if np.any(one.slope(layout, unknowns, np.array([b.index])) != 0)]
    at_bound = tuple(b.label for b in touched)
    if not np.any(slope != 0):  # all its unknowns are at their bounds
        return nan, at_bound, False
    return found.error_of(slope, variance), at_bound, False
