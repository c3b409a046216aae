"""Logarithmic axes that a reader wishes and that cannot be drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.marks import measured_of
from picardfit.display.plots.style import Look
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.problem.problem import Problem


def check_axes(
    fit: Fit, look: Look, experiments: Iterable[str] | None = None, quantities: Iterable[str] | None = None
) -> None:
    """InputError for a logarithmic axis of dates, of times before zero, or of values below zero.

    Zeros are allowed and not drawn: a concentration is zero before the first dose. By default of all experiments
    and observables.
    """
    problem = fit.problem
    names = problem.names if experiments is None else set(experiments)
    wanted = set(problem.model.observables if quantities is None else quantities)
    for one in (one for one in problem.experiments if one.name in names):
        if look.log_x and one.calendar is not None:
            raise InputError("display.log_of_dates", one.name)
        if look.log_x and float(one.times[-1]) <= 0:
            raise InputError("display.log_of_times", one.name, value=float(one.times[-1]))
        for quantity in (name for name in one.observables if look.log_y and name in wanted):
            _check_values(problem, one.name, quantity)


def _check_values(problem: Problem, experiment: str, quantity: str) -> None:
    data = measured_of(problem, problem.experiments[problem.names.index(experiment)], quantity)
    data = data[np.isfinite(data)]
    if len(data) and (data.min() < 0 or data.max() <= 0):
        raise InputError("display.log_of_values", quantity, value=float(data.min()), experiment=experiment)
