"""The curvature that the objective really has along directions in which Fisher's information has next to none.

Fisher's information leaves out the residuals' share of the curvature. That is small where data determine something,
but it is all there is where two values of the unknowns fall together: in y'' + (a + b) y' + a b y = 0 at a = b the data
do not depend on a - b to first order, and determine it nevertheless. Along directions that are really free it is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.solvers.loop import Solution
from picardfit.solvers.refit import Place, gradient_at, place_at


@dataclass(frozen=True)
class DifferenceSteps:
    """Central differences of the gradient, whose own relative error is near 1e-10: the error is smallest near 1e-4."""

    widths: tuple[float, float] = (
        5e-5,
        1e-4,
    )  # largest relative change of an unknown; two of them show the error


def observed_curvature(
    solution: Solution,
    index: np.ndarray,
    directions: np.ndarray,
    steps: DifferenceSteps = DifferenceSteps(),
) -> tuple[np.ndarray, np.ndarray] | None:
    """D' H D, (k, k), from differences of the gradient over two widths of step; None where it cannot be had.

    `index` (unknowns, 2): experiment and column; `directions` D (unknowns, k) in internal coordinates.
    """
    place = place_at(solution.system.problem, solution)
    if place is None:
        return None
    row = {tuple(at): k for k, at in enumerate(place.index.tolist())}
    chosen = [row[tuple(at)] for at in index.tolist()]
    whole = np.zeros((len(place.index), directions.shape[1]))
    whole[chosen] = directions
    narrow, wide = (_products(place, whole, width) for width in steps.widths)
    return None if narrow is None or wide is None else (narrow, wide)


def _products(place: Place, directions: np.ndarray, width: float) -> np.ndarray | None:
    layout, unknowns, at = place.system.problem.layout, place.point.unknowns, tuple(place.index.T)
    size = np.where(unknowns == 0, layout.size(unknowns), np.abs(unknowns))
    size = np.where(layout.log, 1.0, size)[at]
    columns = []
    for direction in directions.T:
        length = width / np.abs(direction / size).max()
        below, above = (gradient_at(place, sign * length * direction) for sign in (-1, 1))
        if below is None or above is None:
            return None
        columns.append(directions.T @ (above - below) / (2 * length))
    return np.stack(columns, axis=1)
