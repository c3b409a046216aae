"""What a problem predicts for its samples, by integration that is independent of the Picard operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from picardfit.model.inputs import values_at
from picardfit.simulation.trajectories import Run, trajectories

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem


def predict(
    problem: Problem, parameters: np.ndarray, initial: np.ndarray, rtol: float = 1e-10
) -> np.ndarray | None:
    """Rows (samples, rows) of a problem, observables first, in the order of `problem.samples`; None if a run fails.

    `parameters`: (experiments, parameters of model and noise); `initial`: (experiments, states).
    """
    model, own = problem.model, len(problem.model.parameters)
    runs = [
        Run(one.t0, initial[e], parameters[e, :own], one.inputs, one.times, problem.breaks(e))
        for e, one in enumerate(problem.experiments)
    ]
    rows = []
    for run, states, params in zip(runs, trajectories(model, runs, rtol), parameters, strict=True):
        if states is None:
            return None
        inputs = values_at(run.inputs, model.inputs, run.times)
        rows.append(problem.measurement.value(run.times, states, params, inputs))
    outputs = np.concatenate(rows)
    return outputs if np.isfinite(outputs[:, : len(model.observables)]).all() else None
