"""A smooth function of a few coordinates with bounds, minimised by quasi-Newton steps within a trust region.

The model of the function is f + g'd + d'Bd/2. Its matrix B begins with what the caller knows and learns from changes of
exact gradients (BFGS, damped after Powell so that it stays positive definite). Steps solve the model exactly within the
bounds and a box around the point. Points where the function is infinite are steps that were too long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from scipy.optimize import lsq_linear

from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class OuterSettings:
    """When the search ends; differences of the function are log-likelihoods. The values are chosen."""

    steps: int = 200
    enough: float = 1e-7  # promised decrease at which the search ends
    roughly: float = 1e-2  # the same before the exact matrix of second derivatives is known
    radius: float = 1.0  # first trust region, in units of the coordinates (1 in a logarithm)
    widest: float = 3.0
    least_radius: float = 1e-9
    accepted: float = 1e-4  # least part of the promised decrease that a step must bring
    good: float = 0.75  # part of it after which the region grows
    poor: float = 0.25  # and below which it shrinks
    grow: float = 2.0
    shrink: float = 0.3
    damping: float = 0.2  # Powell's: least curvature along a step, relative to the matrix's
    ridge: float = 1e-8  # of the matrix, relative to its diagonal
    rounding: float = 1e-11  # change of the function, relative to 1 + |f|, that may be rounding


State = TypeVar("State")


@dataclass(frozen=True)
class Valued(Generic[State]):
    """A point with the value and gradient there, and whatever the function keeps beside them."""

    x: Array
    value: float
    gradient: Array
    state: State


@dataclass(frozen=True)
class Minimum(Generic[State]):
    """Where a search ended."""

    at: Valued[State]
    matrix: Array
    steps: int
    converged: bool


def minimise(
    function: Callable[[Array, State], Valued[State]],
    start: Valued[State],
    matrix: Array,
    bounds: tuple[Array, Array],
    unit: Array,
    settings: OuterSettings,
    enough: float,
    news: Callable[[int, Valued[State]], None],
) -> Minimum[State]:
    """Minimise from a start; `unit` (n,): lengths in which the trust region is a cube."""
    at, radius, count = start, settings.radius, 0
    while count < settings.steps:
        step = model_step(at, matrix, bounds, radius * unit, settings)
        promised = -float(at.gradient @ step + 0.5 * step @ matrix @ step)
        within = np.abs(step / unit).max(initial=0.0) < 0.99 * radius
        if promised < enough and (within or promised < settings.rounding):
            return Minimum(at, matrix, count, True)
        count += 1
        there = function(np.clip(at.x + step, *bounds), at.state)
        slack = settings.rounding * (1 + abs(at.value))
        ratio = (at.value - there.value + slack) / (promised + slack) if np.isfinite(there.value) else -np.inf
        if np.isfinite(there.gradient).all() and np.isfinite(there.value):
            matrix = updated(matrix, there.x - at.x, there.gradient - at.gradient, settings.damping)
        if ratio > settings.good and not within:
            radius = min(settings.grow * radius, settings.widest)
        elif ratio < settings.poor:
            radius = settings.shrink * min(radius, float(np.abs(step / unit).max(initial=0.0)))
        if ratio > settings.accepted:
            at = there
            news(count, at)
        elif radius < settings.least_radius:
            break
    return Minimum(at, matrix, count, False)


def model_step(
    at: Valued[State], matrix: Array, bounds: tuple[Array, Array], reach: Array, settings: OuterSettings
) -> Array:
    """The step that minimises the model within the bounds and within `reach` (n,)."""
    low, high = np.maximum(bounds[0] - at.x, -reach), np.minimum(bounds[1] - at.x, reach)
    scale = 1 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    scaled = matrix * scale * scale[:, None] + settings.ridge * np.eye(len(scale))
    values, vectors = np.linalg.eigh(scaled)
    root = np.sqrt(np.maximum(values, settings.ridge))[:, None] * vectors.T  # root' root = scaled
    right = np.linalg.solve(root.T, -at.gradient * scale)
    free = low < high
    step = np.zeros_like(at.x)
    found = lsq_linear(
        root[:, free], right, (low[free] / scale[free], high[free] / scale[free]), method="bvls"
    )
    step[free] = scale[free] * found.x
    return step


def updated(matrix: Array, step: Array, change: Array, damping: float) -> Array:
    """The matrix after a BFGS update with a change of the gradient, damped after Powell (1978)."""
    moved = matrix @ step
    length, curved = float(step @ moved), float(step @ change)
    if not length > 0 or not np.isfinite(curved):
        return matrix
    if curved < damping * length:
        part = (1 - damping) * length / (length - curved)
        change = part * change + (1 - part) * moved
        curved = float(step @ change)
    found = matrix - np.outer(moved, moved) / length + np.outer(change, change) / curved
    return np.asarray(0.5 * (found + found.T))
