"""The lifted problem at a point: a contracted path with its jumps at the knots, outputs and objective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Flags, Indices, Mesh
from picardfit.collocation.picard import (
    USUAL,
    Contraction,
    FixedPoint,
    contract,
    newton,
    sizes,
)
from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class Nearby:
    """Derivatives of the path at a point close by, to be reused."""

    inverse: Array  # of the Newton matrices (`Field.inverses`): (segments, ...)
    multipliers: Array | None = None  # S: (segments, nodes, states, columns)
    rate: float = 0.0  # fraction of an error that a sweep with the inverse left there

    def part(self, segments: slice) -> Nearby:
        """The derivatives on some of the segments."""
        own = None if self.multipliers is None else self.multipliers[segments]
        return Nearby(self.inverse[segments], own, self.rate)


@dataclass(frozen=True)
class Point:
    """A point of the lifted problem, with everything that is evaluated there."""

    unknowns: Array  # (experiments, width)
    params: Array  # (experiments, parameters of model and noise), natural units
    states: Array  # (segments, states): start state of each segment
    path: Array  # (segments, nodes, states), contracted: u = P u
    slopes: Array  # f along the path
    jumps: Array  # (linked, states): end of a segment, after a dose there, minus start of the next
    sampled: Array  # (samples, states)
    outputs: Array  # (samples, rows): observables, then levels of the noise
    data: float  # value of the objective, with priors
    residual: float = np.nan  # largest |u - P u| relative to the states' scale
    nearby: Nearby | None = None


def point_at(
    system: Discretisation,
    unknowns: Array,
    states: Array,
    path: Array,
    params: Array | None = None,
    slopes: Array | None = None,
    residual: float = np.nan,
    nearby: Nearby | None = None,
) -> Point:
    """The point with these unknowns and this path, which need not be contracted."""
    mesh = system.mesh
    with np.errstate(all="ignore"):
        if params is None:
            params = system.parameters(unknowns)
        if slopes is None:
            slopes = system.field.slopes(path, system.spread(params))
        jumps = system.end_states(states, path) - states[mesh.inner_rows]
        sampled = system.at_samples(states, path)
        outputs = system.outputs(sampled, params)
        data = system.value(unknowns, outputs)
    return Point(unknowns, params, states, path, slopes, jumps, sampled, outputs, data, residual, nearby)


def evaluate(
    system: Discretisation,
    unknowns: Array,
    states: Array,
    path: Array,
    scale: Array,
    nearby: Nearby | None = None,
    contraction: Contraction = USUAL,
) -> Point | None:
    """Contract the path and evaluate jumps and data; None if it does not contract or is not finite.

    Without `nearby`, Newton matrices are computed along the path.
    """
    params = system.parameters(unknowns)
    equation = FixedPoint(system.field, states, system.spread(params), scale)
    with np.errstate(all="ignore"):
        found = contract(equation, path, None if nearby is None else nearby.inverse, contraction)
    if not found.error < contraction.limit:
        return None
    if found.inverse is None:
        nearby = None
    elif nearby is None:
        nearby = Nearby(found.inverse)
    point = point_at(system, unknowns, states, found.path, params, found.slopes, found.error, nearby)
    return point if np.isfinite(point.data) and np.isfinite(point.jumps).all() else None


def contract_from(
    system: Discretisation,
    unknowns: Array,
    states: Array,
    scale: Array,
    contraction: Contraction = USUAL,
    borrow: bool = False,
) -> tuple[Point | None, Flags]:
    """Contract straight lines between guessed knot states with fresh Newton matrices.

    With `borrow`, segments that do not contract are tried again from the start of the one before them that does: at a
    pole of f no segment would be short enough. Returns the point, or None and (segments,) bool: the segments that are
    too long.
    """
    mesh, layout = system.mesh, system.problem.layout
    states = states.copy()
    states[mesh.first], _ = layout.initial(unknowns)
    following, ahead = states.copy(), states[mesh.linked + 1]
    following[mesh.linked] = ahead if system.doses is None else system.doses.before(ahead)
    path = states[:, None, :] + mesh.rule.nodes[:, None] * (following - states)[:, None, :]
    point, failed = _contracted(system, unknowns, states, path, scale, contraction)
    if point is None and borrow:
        chosen = np.flatnonzero(failed)
        states = states[_contracting_before(mesh, failed)]
        path[chosen] = states[chosen, None, :]
        point, failed = _contracted(system, unknowns, states, path, scale, contraction)
    return point, failed


def _contracted(
    system: Discretisation,
    unknowns: Array,
    states: Array,
    path: Array,
    scale: Array,
    contraction: Contraction,
) -> tuple[Point | None, Flags]:
    """The point after Newton's contraction, or None and the segments that failed."""
    equation = FixedPoint(system.field, states, system.spread(system.parameters(unknowns)), scale)
    with np.errstate(all="ignore"):
        found = newton(equation, path, contraction.tolerance, contraction.first)
        failed = ~(sizes(found.gap, scale) < max(contraction.acceptable, contraction.tolerance))
        if failed.any():
            return None, failed
        nearby = None if found.inverse is None else Nearby(found.inverse)
        point = evaluate(system, unknowns, states, found.path, scale, nearby, contraction)
        if point is None:
            failed = _without_outputs(system, unknowns, states, found.path)
    return point, failed


def _contracting_before(mesh: Mesh, failed: Flags) -> Indices:
    """(segments,): the last segment up to each that did not fail; the first one of the experiment if all did."""
    usable = np.where(failed, 0, np.arange(len(mesh)))
    return np.maximum(np.maximum.accumulate(usable), mesh.first[mesh.experiment])


def _without_outputs(system: Discretisation, unknowns: Array, states: Array, path: Array) -> Flags:
    """(segments,) bool: segments with outputs that are not finite, such as the logarithm of a negative state.

    All segments if all outputs are finite.
    """
    outputs = system.outputs(system.at_samples(states, path), system.parameters(unknowns))
    found = np.zeros(len(system.mesh), bool)
    found[system.segment[~np.isfinite(outputs).all(axis=1)]] = True
    return found if found.any() else ~found
