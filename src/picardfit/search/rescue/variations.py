"""Variations of optima: further starts that are likely to lead to better ones.

Unknowns that the data hardly determine may be anywhere without changing the curves, and where they are decides which
optimum is next. So besides random moves and mixtures there are moves along the eigenvectors of the curvature, as far as
the data allow; and unknowns that are at a bound are drawn again.
"""

from __future__ import annotations

import numpy as np

from picardfit.problem.problem import Problem
from picardfit.problem.unknowns import unknowns_index
from picardfit.search.rescue.settings import Variation
from picardfit.search.rescue.shooting import Runners
from picardfit.search.starts import open_values


def variations(
    problem: Problem, parents: Runners, count: int, rng: np.random.Generator, settings: Variation
) -> np.ndarray:
    """(count, experiments, width): parents (best first) with their unknowns moved, in turn `tries` of each kind.

    Some are moved far; all are moved as far as the data allow; the same, less far, with those at a bound drawn again;
    or mixed with others. Moves are in logarithms, or in units of the unknown's own size. The better a parent the more
    often it is taken.
    """
    layout, made = problem.layout, []
    # one unit of a log-likelihood, or what that is in squares of residuals as large as those of the best
    cost = 1.0 if problem.scatter is not None else 2 * parents.values[0] / problem.measurements
    pairs = zip(parents.many_unknowns, parents.terms.hessians, strict=True)
    loose = [Loose(problem, *one, settings.least_size) for one in pairs]
    for k in range(count):
        other, third = parents.many_unknowns[rng.integers(len(parents), size=2)]
        index = rng.integers(1 + rng.integers(len(parents)))
        one, unit = parents.many_unknowns[index], loose[index].unit
        chance, normal = rng.uniform(size=one.shape), rng.standard_normal(one.shape)
        kind = k // settings.tries % 4
        if kind == 0:
            move = np.where(chance < settings.moved, settings.far * unit * normal, 0.0)
        elif kind == 1:
            move = loose[index].move(normal, settings.loose_cost * cost, settings.loose_reach)
        elif kind == 2:
            pinned = layout.at_bounds(one)
            move = np.where(
                pinned, open_values(problem, one, chance) - one, loose[index].move(normal, cost, 1.0)
            )
        else:
            move = np.where(chance < settings.mixed, other - third, 0.0) + settings.jitter * unit * normal
        move[:, layout.local :] = move[:1, layout.local :]
        made.append(np.clip(one + move, layout.lower, layout.upper))
    return np.array(made).reshape(-1, *layout.lower.shape)


class Loose:
    """How the unknowns of an optimum can move together: far where the data say little, hardly where they say much.

    `unknowns` (experiments, width) and the curvature there, `hessian` (experiments, width, width).
    """

    def __init__(
        self, problem: Problem, unknowns: np.ndarray, hessian: np.ndarray, least_size: float
    ) -> None:
        layout = problem.layout
        experiment, column = unknowns_index(layout.exists, layout.local).T
        self.number = np.full(unknowns.shape, -1)  # of the unknown, -1 where there is none
        self.number[experiment, column] = np.arange(len(column))
        self.number[:, layout.local :] = self.number[0, layout.local :]
        size = np.maximum(np.abs(unknowns), least_size * layout.size(unknowns))
        self.unit = np.where(layout.scales.curved, 1.0, size)
        whole = np.zeros((len(column), len(column)))
        for one, numbers, unit in zip(hessian, self.number, self.unit, strict=True):
            there = np.flatnonzero(numbers >= 0)
            part = unit[there, None] * one[there[:, None], there] * unit[there]
            whole[numbers[there, None], numbers[there]] += part
        self.curvatures, self.ways = np.linalg.eigh(np.where(np.isfinite(whole), whole, 0.0))

    def move(self, normal: np.ndarray, cost: float, longest: float) -> np.ndarray:
        """(experiments, width) from that many random numbers: every direction at this cost, or of `longest` units."""
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.fmin(np.sqrt(2 * cost / np.maximum(self.curvatures, 0.0)), longest)
        way = self.ways @ (lengths * normal.ravel()[: len(lengths)])
        return np.where(self.number >= 0, way[self.number], 0.0) * self.unit
