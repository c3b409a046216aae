"""Newton's contraction to the fixed point u = P u of the Picard operator.

Applying P itself contracts only where h |f_x| is small. Newton's method for u - P u = 0,

    u <- u + (I - h A (x) f_x)^-1 (P u - u),

has the same fixed point and contracts for stiff equations too. Matrices that are not quite those of u still contract,
only linearly; that is cheaper than new ones. Where they do not, fresh matrices and shorter steps on the segments
that failed help.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.mesh import Flags, Indices
from picardfit.collocation.picard import Field, apply, newton_matrix
from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class Newton:
    """How Newton's method is used: with which matrices, how often, and with which step lengths."""

    steps: int  # at most
    fresh: bool = (
        False  # whether each step has matrices of its own; else those of the first step serve for all
    )
    persist: bool = False  # whether to go on where some segments are not finite, for the sake of the others
    halvings: int = 0  # step lengths 1, 1/2, 1/4, ... that are tried on each segment; 0: whole steps only
    sufficient: float = (
        0.1  # fraction of the step length by which such a step must lower |u - P u| (Armijo's rule)
    )


@dataclass(frozen=True)
class Contraction:
    """When a contraction ends and when it has failed; |u - P u| is relative to the scale of each state.

    The counts and the rate are measured: more steps cost more than a fit gains from them.
    """

    quick: Newton = Newton(steps=7)  # of a path that moved a little
    first: Newton = Newton(steps=6, fresh=True, persist=True)  # of a guessed path
    careful: Newton = Newton(steps=10, fresh=True, halvings=4)  # on segments where the quick one failed
    tolerated: float = 1e-6  # |u - P u| at which a trial point still counts as a path
    slack: float = 10.0  # ... or this many times what was asked for, if that is more
    reusable: float = (
        0.02  # fraction of |u - P u| that a step may leave, if its matrices are to serve for derivatives
    )

    def limit(self, enough: float) -> float:
        """The |u - P u| that a path may have if `enough` was asked for."""
        return max(self.tolerated, self.slack * enough)


@dataclass(frozen=True)
class FixedPoint:
    """The equation u = P u on some segments."""

    field: Field
    start: Array  # (segments, states): x
    params: Array  # (segments, 1, parameters), or (parameters,) for all segments
    scale: Array  # (states,): what |u - P u| is measured by

    def part(self, chosen: Indices) -> FixedPoint:
        """The equation on the chosen segments."""
        params = self.params if self.params.ndim == 1 else self.params[chosen]
        return FixedPoint(self.field.part(chosen), self.start[chosen], params, self.scale)

    def gap(self, path: Array) -> tuple[Array, Array]:
        """f along the path, and P u - u at the nodes."""
        slopes = self.field.slopes(path, self.params)
        return slopes, apply(self.field.mesh, self.start, slopes) - path


@dataclass(frozen=True)
class Contracted:
    """Where a contraction ended."""

    path: Array  # (segments, nodes, states)
    slopes: Array  # f along it
    gap: Array  # P u - u
    error: float  # largest |u - P u| relative to the scale
    rate: float  # largest fraction of it that a step left
    inverse: Array | None  # of the Newton matrices that were used last


def contract(
    equation: FixedPoint,
    path: Array,
    enough: float,
    inverse: Array | None = None,
    settings: Contraction = Contraction(),
) -> Contracted:
    """Contract a path to |u - P u| < `enough`, first with one matrix for each segment.

    Segments on which that fails begin again with fresh matrices and step lengths. `inverse` of the result is None
    unless its matrices contract so fast that they serve for derivatives too.
    """
    quick = newton(equation, path, enough, settings.quick, inverse)
    if quick.error < settings.limit(enough):
        return quick if quick.rate < settings.reusable else replace(quick, inverse=None)
    failed = np.flatnonzero(~(sizes(quick.gap, equation.scale) < settings.limit(enough)))
    path, first = quick.path.copy(), path
    path[failed] = newton(equation.part(failed), first[failed], enough, settings.careful).path
    slopes, gap = equation.gap(path)
    return Contracted(path, slopes, gap, relative_size(gap, equation.scale), np.inf, None)


def newton(
    equation: FixedPoint, path: Array, enough: float, how: Newton, inverse: Array | None = None
) -> Contracted:
    """Newton's method for u = P u, until |u - P u| <= `enough`, or as far as `how` allows.

    `inverse` is that of Newton matrices here or close by; without it they are made along the path.
    """
    error, rate, left = np.inf, 0.0, how.steps
    while True:
        slopes, gap = equation.gap(path)
        before, error = error, relative_size(gap, equation.scale)
        rate = max(rate, error / before)
        if error <= enough or not left or not (how.persist or np.isfinite(error)):
            return Contracted(path, slopes, gap, error, rate, inverse)
        if inverse is None or how.fresh:
            inverse = newton_inverses(equation.field, path, equation.params)
        step, left = (inverse @ gap.reshape(len(path), -1, 1)).reshape(path.shape), left - 1
        if not how.halvings:
            path = path + step
            continue
        path, lower = _shortened(equation, path, gap, step, enough, how)
        if not lower:
            left = 0


def _shortened(
    equation: FixedPoint, path: Array, gap: Array, step: Array, enough: float, how: Newton
) -> tuple[Array, bool]:
    """The path after a step whose length is halved on each segment until |u - P u| falls; whether it did on all."""
    error, length = sizes(gap, equation.scale), np.ones(len(path))
    done = error < enough
    for _ in range(how.halvings):
        trial = path + np.where(done, 0.0, length)[:, None, None] * step
        found = sizes(equation.gap(trial)[1], equation.scale)
        taken = ~done & (found < (1 - how.sufficient * length) * error)
        path, done = np.where(taken[:, None, None], trial, path), done | taken
        if done.all():
            break
        length = 0.5 * length
    return path, bool(done.all())


def relative_size(path: Array, scale: Array) -> float:
    """The largest value of an array (segments, nodes, states) relative to the scale of each state."""
    largest = np.maximum.reduce(np.abs(path.reshape(len(path), -1)))
    return float(np.maximum.reduce(largest.reshape(path.shape[1:]) / scale, axis=None))


def sizes(path: Array, scale: Array) -> Array:
    """(segments,): the largest relative value of each segment, infinite where a value is not a number."""
    largest: Array = (np.abs(path) / scale).max(axis=(1, 2))
    return np.nan_to_num(largest, nan=np.inf)


def newton_inverses(field: Field, path: Array, params: Array) -> Array:
    """(segments, nodes * states, nodes * states): inverses of the Newton matrices along a path."""
    return inverted(newton_matrix(field.mesh, field.linearise(path, params)[1]))


def inverted(matrix: Array, worst: float = 1e15) -> Array:
    """Inverses of matrices (k, n, n); not-a-number where one is not finite or its condition number exceeds `worst`.

    (Beyond 1e15 no digit of an inverse is right; this is only asked where some matrix is exactly singular.)
    """
    try:
        if np.isfinite(matrix.sum()):
            return np.asarray(np.linalg.inv(matrix), float)
        return _some_inverses(matrix, _finite(matrix))
    except np.linalg.LinAlgError:
        finite = _finite(matrix)
        regular = finite & (np.linalg.cond(np.where(finite[:, None, None], matrix, 0.0)) < worst)
        return _some_inverses(matrix, regular)


def _finite(matrix: Array) -> Flags:
    return np.asarray(np.isfinite(matrix).all(axis=(1, 2)))


def _some_inverses(matrix: Array, chosen: Flags) -> Array:
    result = np.full_like(matrix, np.nan)
    result[chosen] = np.linalg.inv(matrix[chosen])
    return result
