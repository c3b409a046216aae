"""A check of the modes by integrators that are independent of the Picard operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.inference.population.objective import Evaluation
from picardfit.inference.population.predictions import predict


@dataclass(frozen=True)
class Confirmation:
    """How paths are confirmed; chosen."""

    individuals: int = 100  # that are integrated, evenly chosen: the others share the program
    apart: float = 1e-3  # largest difference of predictions, in standard deviations of the noise


def confirmed(at: Evaluation, settings: Confirmation = Confirmation()) -> bool:
    """Whether SciPy's integrators give the same predictions at the modes."""
    setting, count = at.study.setting, at.study.individuals
    problem = setting.problem
    chosen = np.unique(np.linspace(0, count - 1, min(count, settings.individuals)).round().astype(int))
    unknowns = at.paths.unknowns[chosen]
    fewer = problem.with_experiments([problem.experiments[k] for k in chosen])
    rows = fewer.predicted_rows(fewer.layout.measured_values(unknowns), fewer.layout.initial(unknowns)[0])
    if rows is None:
        return False
    ours, measured = predict(setting.measurements, at.paths), setting.measurements
    mine = np.flatnonzero(np.isin(measured.owner, chosen))
    samples = np.flatnonzero(np.isin(problem.samples.experiment, chosen))
    g = rows[np.searchsorted(samples, measured.sample[mine]), measured.output[mine]]
    with np.errstate(all="ignore"):
        means = np.where(measured.log[mine], np.log(g) / measured.base[mine], g)
        gaps = np.abs(means - ours.rows[mine, 0]) / ours.rows[mine, 1]
    return bool(np.nanmax(gaps, initial=0.0) < settings.apart)
