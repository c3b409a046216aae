"""How large the states of each experiment are by what is known of them: (experiments, states), 0 if nothing tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from picardfit.formulas.kernels import BatchedMap

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem


def measured_sizes(problem: Problem) -> np.ndarray:
    """The largest measured value of each state that is an observable."""
    model, states = problem.model, problem.model.states
    sizes = np.zeros_like(problem.layout.known, dtype=float)
    rows = model.output.expressions if isinstance(model.output, BatchedMap) else ()
    for column, (name, row) in enumerate(zip(model.observables, rows, strict=False)):
        if row.is_Symbol and row.name in states and name not in model.increments:
            values = np.abs(np.nan_to_num(problem.samples.data[:, column]))
            np.maximum.at(sizes[:, states.index(row.name)], problem.samples.experiment, values)
    return sizes


def known_sizes(problem: Problem) -> np.ndarray:
    """The largest measured value of each state, or its known initial value if that is larger.

    Where a state is far smaller than others these sizes tell whether its units are large or whether it is zero.
    """
    return np.asarray(np.maximum(np.abs(problem.layout.known), problem.measured_sizes))
