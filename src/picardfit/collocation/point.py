"""The lifted problem at a point: a contracted path with its jumps at the knots, outputs and objective."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.event_links import EventLinks
from picardfit.collocation.mesh import Flags, Indices, Mesh, Segments
from picardfit.collocation.picard import (
    USUAL,
    Contracted,
    Contraction,
    FixedPoint,
    contract,
    newton,
    relative_size,
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
    lengths: Array | None = None  # (segments,): where events decide about them


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
        jumps = system.end_states(states, path, params) - states[mesh.inner_rows]
        sampled = system.at_samples(states, path)
        outputs = system.outputs(sampled, params)
        data = system.value(unknowns, outputs)
    lengths = None if system.events is None else mesh.length
    return Point(
        unknowns, params, states, path, slopes, jumps, sampled, outputs, data, residual, nearby, lengths
    )


def followed(system: Discretisation, point: Point) -> tuple[Discretisation, Point]:
    """The system and the point with every sample in the segment in which its time is by the clock; as they are
    without events.
    """
    if system.events is None or point.lengths is None:
        return system, point
    system = system.following(point.lengths, point.states[:, -1])
    sampled = system.at_samples(point.states, point.path)
    outputs = system.outputs(sampled, point.params)
    data = system.value(point.unknowns, outputs)
    return system, replace(point, sampled=sampled, outputs=outputs, data=data)


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
    if system.events is not None:
        located = _with_event_times(system, equation, found, contraction)
        if located is None:
            return None
        system, found = located
    point = point_at(system, unknowns, states, found.path, params, found.slopes, found.error, nearby)
    return point if np.isfinite(point.data) and np.isfinite(point.jumps).all() else None


def _with_event_times(
    system: Discretisation, equation: FixedPoint, found: Contracted, contraction: Contraction
) -> tuple[Discretisation, Contracted] | None:
    """The system with segments that end where triggers are zero, and the path contracted on these.

    Newton's method for g(X(h)) = 0: the path moves with its length h by c_i F_i dh at the nodes, and is contracted.
    None where that fails.
    """
    events = system.events
    assert events is not None
    mesh, rules = system.mesh, events.settings
    rows = np.concatenate([events.segments, mesh.first + mesh.counts - 1])
    between = mesh.between_knots[rows]
    low, high = rules.shortest * between, rules.longest * between
    params = equation.params if equation.params.ndim == 1 else equation.params[rows][:, 0]
    params = np.broadcast_to(params, (len(rows), params.shape[-1]))
    own, lengths, path = equation.part(rows), mesh.length[rows], found.path[rows]
    slopes, gap = own.gap(path)
    for _ in range(rules.steps):
        value, rate = _to_trigger(events, path, slopes, params)
        ahead = np.clip(lengths + events.step(value, rate, lengths), low, high)
        change = ahead - lengths
        if not (np.abs(change) > rules.tolerance * np.maximum(np.abs(path[:, -1, -1]), between)).any():
            break
        lengths, path = ahead, path + mesh.rule.nodes[:, None] * change[:, None, None] * slopes
        own = _of_lengths(own, lengths)
        again = newton(own, path, contraction.tolerance, contraction.first)
        path, slopes, gap = again.path, again.slopes, again.gap
    error = max(found.error, relative_size(gap, equation.scale))
    if not error < contraction.limit:
        return None
    every, whole, along = mesh.length.copy(), found.path.copy(), found.slopes.copy()
    every[rows], whole[rows], along[rows] = lengths, path, slopes
    return system.at(every), replace(found, path=whole, slopes=along, error=error)


def _to_trigger(events: EventLinks, path: Array, slopes: Array, params: Array) -> tuple[Array, Array]:
    """Triggers at the ends of segments, with their rates; experiments end at their last sample."""
    count = len(events.segments)
    value, rate = path[:, -1, -1].copy(), np.ones(len(path))
    value[count:] -= events.ends
    value[:count], by_x, _ = events.trigger(path[:count, -1], params[:count])
    rate[:count] = (by_x * slopes[:count, -1]).sum(axis=1)
    return value, rate


def _of_lengths(equation: FixedPoint, lengths: Array) -> FixedPoint:
    """The equation on segments of other lengths."""
    field, mesh = equation.field, equation.field.mesh
    integral = lengths[:, None, None] * mesh.rule.weights
    moved = Segments(mesh.rule, lengths, mesh.node_times, integral)
    return replace(equation, field=replace(field, mesh=moved))


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
    if system.events is not None:  # what was before an event is not known
        following[system.events.segments] = states[system.events.segments]
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
