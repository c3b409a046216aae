"""The directions of the standardised residuals that the fitted unknowns take: residuals have no part in them.

To first order the residuals of a fit are M e, with the errors e of the measurements and M = I - G G', where G is an
orthonormal basis of the slopes of the standardised predictions by the unknowns. Residuals of neighbouring samples are
therefore correlated even if the errors are not, the more so the more unknowns there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.collocation.condensing import start_derivatives
from picardfit.collocation.linearisation import linearise
from picardfit.evidence.fisher import at_bound
from picardfit.problem.objective import whitened
from picardfit.problem.problem import Problem
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class FittedSpace:
    """G, by experiment: its rows are the samples times the observables, 0 where nothing was measured.

    The columns of `own` belong to that experiment alone, those of `shared` to all experiments.
    """

    own: tuple[np.ndarray, ...]  # (samples of the experiment, observables, its own directions)
    shared: tuple[np.ndarray, ...]  # (samples of the experiment, observables, shared directions)

    def of(self, experiment: int, rows: np.ndarray, column: int) -> np.ndarray:
        """(rows, own + shared directions): the part of some samples of one observable."""
        parts = self.own[experiment][rows, column], self.shared[experiment][rows, column]
        return np.concatenate(parts, axis=1)

    def own_size(self, experiment: int) -> int:
        return int(self.own[experiment].shape[2])


def fitted_space(solution: Solution) -> FittedSpace | None:
    """G at a solution; None where the slopes are not finite."""
    system = solution.system
    with np.errstate(all="ignore"):
        linear = linearise(system, solution.point, expected=True)
        slopes = linear.at_samples(system) @ start_derivatives(system, linear.quadratic)[system.segment]
    free = system.problem.layout.exists & ~at_bound(solution)
    return space_of(system.problem, slopes, free, linear.outputs)


def space_of(
    problem: Problem, slopes: np.ndarray, free: np.ndarray, rows: np.ndarray, negligible: float = 1e-8
) -> FittedSpace | None:
    """G from the slopes (samples, rows, width) of the rows of the objective by the unknowns.

    Local columns are projected first, experiment by experiment, so that the cost is linear in experiments. `free`
    (experiments, width): the fitted unknowns. A direction shorter than `negligible` times the longest is none.
    """
    layout, owner = problem.layout, problem.samples.experiment
    outputs, measured = len(problem.model.observables), np.isfinite(problem.samples.data)
    with np.errstate(all="ignore"):
        slopes = whitened(problem.objective.terms(rows, expected=True).factor, slopes)[:, :outputs]
    if slopes.shape[1] != outputs:
        return None
    slopes = np.where(measured[..., None], slopes, 0.0)  # (samples, observables, width)
    if not np.isfinite(slopes).all():
        return None
    own, rest = [], []
    for e in range(len(problem.experiments)):
        mine = slopes[owner == e]
        flat = mine.reshape(-1, layout.width)
        basis = _basis(flat[:, : layout.local][:, free[e, : layout.local]], negligible)
        across = flat[:, layout.local :][:, free[0, layout.local :]]
        own.append(basis.reshape(*mine.shape[:2], -1))
        rest.append(across - basis @ (basis.T @ across))
    whole = _basis(np.concatenate(rest), negligible)
    ends = np.cumsum([len(one) for one in rest])[:-1]
    shared = [part.reshape(*one.shape[:2], -1) for part, one in zip(np.split(whole, ends), own, strict=True)]
    return FittedSpace(tuple(own), tuple(shared))


def _basis(columns: np.ndarray, negligible: float) -> np.ndarray:
    """(rows, rank): an orthonormal basis of the columns, each of which counts by its direction."""
    length = np.linalg.norm(columns, axis=0)
    columns = columns[:, length > 0] / length[length > 0]
    if not columns.size:
        return np.zeros((len(columns), 0))
    vectors, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(vectors[:, sizes > negligible * sizes[0]])
