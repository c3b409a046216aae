"""Whether the mesh has seen what an input given as a Python function does between its nodes.

The mesh has a knot at every jump that is known. A jump, or a short pulse, of a function is not, and the integrators
that check the path may step over it as well. So the function is sampled finely and compared with the polynomial that
each segment has in its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.model.inputs import Signal
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class InputCheck:
    """How finely functions are sampled. Both are choices."""

    samples: int = 4096  # of an experiment: a pulse of 1/4000 of the time is seen
    per_segment: int = 16  # at least: several between two nodes


def input_errors(solution: Solution, check: InputCheck = InputCheck()) -> dict[tuple[str, str], float]:
    """(experiment, input) -> mean |u - polynomials| over mean |u|, of every input that is a Python function."""
    problem, mesh = solution.system.problem, solution.system.mesh
    found = {}
    for e, experiment in enumerate(problem.experiments):
        own = np.flatnonzero(mesh.experiment == e)
        per = max(check.per_segment, -(-check.samples // len(own)))
        fractions = (np.arange(per) + 0.5) / per
        times = mesh.start[own, None] + mesh.length[own, None] * fractions  # (segments, samples)
        weights = np.broadcast_to(mesh.length[own, None], times.shape)
        polynomials = mesh.rule.interpolation(fractions).T
        for column, name in enumerate(problem.model.inputs):
            source = experiment.inputs.get(name)
            if isinstance(source, Signal):
                values = source.at(times)
                error = np.abs(values - solution.system.field.inputs[own, :, column] @ polynomials)
                size = max(np.sum(weights * np.abs(values)), np.finfo(float).tiny)
                found[experiment.name, name] = float(np.sum(weights * error) / size)
    return found
