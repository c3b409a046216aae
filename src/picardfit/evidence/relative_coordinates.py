"""The unknowns of a fit in relative coordinates, and their covariance there.

Logarithms of unknowns that keep their sign, the others divided by their size: standard errors are relative ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.evidence.fisher import Information
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class RelativeSettings:
    """What counts as zero: rounding errors, relative to the largest of their kind (chosen)."""

    state: float = 1e-12  # a state that stays below this fraction of the largest is zero
    direction: float = 1e-9  # a direction shorter than this fraction of the longest is none


DEFAULT = RelativeSettings()


@dataclass(frozen=True)
class Relative:
    """Unknowns in relative coordinates."""

    labels: tuple[str, ...]
    values: np.ndarray  # natural units
    unit: np.ndarray  # natural units of one relative unit
    power: np.ndarray  # bool: the relative coordinate is the logarithm
    half_width: np.ndarray  # of the bounds in relative units, infinite without bounds
    at_bound: np.ndarray  # bool
    errors: np.ndarray  # relative standard errors, infinite where a free direction touches
    reached: np.ndarray  # how large the state of an initial value becomes, 0 for parameters


class Covariance:
    """The covariance in relative coordinates, of any unknowns."""

    def __init__(self, found: Information, stretch: np.ndarray, variance: float) -> None:
        """`stretch` (unknowns,): internal units of one relative unit."""
        self._found, self._stretch, self._variance = found, stretch, variance
        self._width = found.arrow.there.shape[1]

    def inside(self, chosen: np.ndarray) -> np.ndarray:
        """(chosen, chosen): without the directions that are left free."""
        if not self._found.arrow.finite:
            return np.full((len(chosen), len(chosen)), np.nan)
        stretch = self._stretch[chosen]
        return self._found.inverse.block(chosen) * self._variance / stretch[:, None] / stretch

    def variances(self) -> np.ndarray:
        """(unknowns,): the diagonal of that."""
        if not self._found.arrow.finite:
            return np.full(len(self._stretch), np.nan)
        return self._found.inverse.diagonal() * self._variance / self._stretch**2

    def touched(self) -> np.ndarray:
        """(unknowns,) bool: whether a free direction touches."""
        if not self._found.arrow.finite:
            return np.ones(len(self._stretch), bool)
        return self._found.inverse.lost()

    def free(self, chosen: np.ndarray) -> np.ndarray:
        """(chosen, directions): orthonormal directions that are left free, those which touch one of the chosen."""
        if not self._found.arrow.finite:
            return np.eye(len(self._stretch))[chosen]
        own, shared = self._free
        experiment = self._found.index[chosen, 0]
        column = self._found.index[chosen, 1]
        parts = [shared[chosen]]
        for e in np.unique(experiment[column < self._width]):
            mine = (experiment == e) & (column < self._width)
            part = np.zeros((len(chosen), own.shape[2]))
            part[mine] = own[e, column[mine]]
            parts.append(part[:, (own[e] != 0).any(axis=0)])
        return np.concatenate(parts, axis=1)

    @cached_property
    def _free(self) -> tuple[np.ndarray, np.ndarray]:
        """Orthonormal directions of single experiments (experiments, local, directions), and of all together.

        The latter are (unknowns, directions).
        """
        inverse, arrow = self._found.inverse, self._found.arrow
        felt, stretch = arrow.diagonal() > 0, inverse.scale / self._stretch
        stretch = np.where(felt, stretch, stretch[felt].max(initial=1.0)) * inverse.lost()
        own, _ = arrow.split(stretch)
        vectors, sizes, _ = np.linalg.svd(own[..., None] * inverse.own_null)
        vectors = vectors * (sizes > DEFAULT.direction * sizes.max(initial=0.0))[:, None, :]
        chained, null = arrow.split(stretch[:, None] * inverse.shared_directions())
        chained = chained - vectors @ (vectors.transpose(0, 2, 1) @ chained)
        return vectors, np.linalg.qr(arrow.join(chained, null))[0]


def in_relative_units(solution: Solution, found: Information, variance: float) -> tuple[Relative, Covariance]:
    """All unknowns of a solution, and the covariance of any of them; `variance`: that of one residual."""
    layout, (rows, columns) = solution.system.problem.layout, found.index.T
    unknowns = solution.unknowns
    values, lower, upper = (
        layout.natural(one)[rows, columns] for one in (unknowns, layout.lower, layout.upper)
    )
    log, slopes = layout.log[rows, columns], layout.slopes(unknowns)[rows, columns]
    variance = variance if variance > 0 else np.nan
    path = _path_size(solution)[rows, columns]
    largest = path.max(initial=0.0)
    positive = (lower > 0) | (upper < 0)
    with np.errstate(invalid="ignore"):
        half, size = 0.5 * (upper - lower), np.abs(values)
        power = log | positive | (size > _conditional(found, slopes, variance))
        power &= ~((lower < 0) & (upper > 0) & np.isfinite(half)) & (size > 0)
    own = np.where(path > DEFAULT.state * largest, path, largest)  # a state of zero takes the largest size
    wide = np.maximum(size, np.where((path > 0) | ~np.isfinite(half), own, half))
    for _ in range(2):  # a value that may be zero within its error has no logarithm
        unit = np.where(power, size, np.where(wide > 0, wide, 1.0))
        covariance = Covariance(found, unit / slopes, variance)
        errors = np.sqrt(covariance.variances())
        power &= log | (positive & (path == 0)) | ~(errors > 1)
    errors = np.where(covariance.touched(), np.inf, errors)
    at_bound = np.isin(found.labels, found.at_bound)
    return Relative(found.labels, values, unit, power, half / unit, at_bound, errors, path), covariance


def _path_size(solution: Solution) -> np.ndarray:
    """(experiments, width): how large the state of an unknown initial value becomes; 0 for parameters."""
    layout = solution.system.problem.layout
    largest = np.abs(solution.path).max(axis=1)  # (segments, states)
    states = np.maximum.reduceat(largest, solution.system.mesh.first)  # (experiments, states)
    sizes = np.zeros_like(layout.lower)
    sizes[:, : len(layout.initial_states)] = states[:, layout.initial_states]
    return sizes


def _conditional(found: Information, slopes: np.ndarray, variance: float) -> np.ndarray:
    """(unknowns,): standard errors in natural units if all others were known; 0 where that is unknown."""
    curvature = found.arrow.diagonal() / slopes**2
    return np.sqrt(np.nan_to_num(variance) / np.where(curvature > 0, curvature, np.inf))
