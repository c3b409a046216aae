"""A mesh whose knots follow the clock: after events have moved, samples find their segments again.

Between two meshes a knot that moves takes the later segments with it, and only the segment before the next event
changes its length. Here the knots are put where the clock says; where the segment before an event has become short or
long beside its neighbours, all knots since the event before are spread again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Indices, Mesh
from picardfit.collocation.picard import USUAL, Contraction
from picardfit.collocation.point import Point, evaluate, followed
from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class Anchoring:
    """When the mesh follows the clock; all are choices."""

    moved: float = 1e-6  # distance of the clock from a knot, in lengths of the segments beside it
    uneven: float = (
        1.8  # change of length, as a factor, of a segment before an event that spreads its neighbours
    )
    shortest: float = 1e-9  # length of a segment, relative to its experiment, that a knot may leave


def anchored(
    system: Discretisation,
    point: Point,
    scale: Array,
    contraction: Contraction = USUAL,
    settings: Anchoring = Anchoring(),
) -> tuple[Discretisation, Point, bool]:
    """The system and point on a mesh whose knots are where the clock is, and whether knots were spread.

    The same system where the clock is at its knots, or where that is impossible: out of order, or without a path.
    """
    mesh = system.mesh
    spread = _uneven(system, settings)
    knots = [_clock(system, point, e) for e in range(len(mesh.knots))]
    order = all((np.diff(k) > settings.shortest * (k[-1] - k[0])).all() for k in knots)
    moved = np.concatenate([np.abs(k - old)[1:] for k, old in zip(knots, mesh.knots, strict=True)])
    if not order or not ((moved > settings.moved * mesh.between_knots).any() or spread):
        return system, point, False
    times = [k.copy() for k in knots]
    for e, first, last in spread:
        old = mesh.knots[e]
        share = (old[first : last + 1] - old[first]) / (old[last] - old[first])
        times[e][first : last + 1] = knots[e][first] + share * (knots[e][last] - knots[e][first])
    schedule = tuple(
        tuple(replace(one, knot=float(times[e][np.abs(mesh.knots[e] - one.knot).argmin()])) for one in own)
        for e, own in enumerate(mesh.schedule)
    )
    fresh = replace(mesh, knots=tuple(times), schedule=schedule, lengths=None, clock=None)
    states, path = _carried(mesh, fresh, knots, point, spread)
    there = replace(system, mesh=fresh)
    found = evaluate(there, point.unknowns, states, path, scale, contraction=contraction)
    if found is None:
        return system, point, False
    there, found = followed(there, found)
    return there, found, bool(spread)


def _clock(system: Discretisation, point: Point, e: int) -> Array:
    """(segments + 1,): the times of the knots of an experiment by the clock."""
    mesh = system.mesh
    mine = slice(mesh.first[e], mesh.first[e] + mesh.counts[e])
    times = point.states[mine, -1].copy()
    times[0] = mesh.knots[e][0]
    stop = max(mesh.knots[e][-1], times[-1] + 0.5 * mesh.between_knots[mine][-1])
    end = times[-1] + mesh.length[mine][-1]
    # the last segment ends where the experiment does, wherever its start has moved
    last = system.problem.span(e)[1]
    return np.append(times, last if last > times[-1] else min(end, stop))


def _uneven(system: Discretisation, settings: Anchoring) -> list[tuple[int, int, int]]:
    """(experiment, first knot, last knot) of pieces between events to be spread again."""
    events, mesh, found = system.events, system.mesh, []
    assert events is not None
    ratio = mesh.length[events.segments] / mesh.between_knots[events.segments]
    for row in np.flatnonzero((ratio > settings.uneven) | (ratio < 1 / settings.uneven)):
        e, segment = int(events.owner[row]), int(events.segments[row])
        last = segment - int(mesh.first[e]) + 1
        earlier = [int(s) - int(mesh.first[e]) + 1 for s in events.segments[events.owner == e] if s < segment]
        first = max(earlier, default=0)
        if last - first > 1:
            found.append((e, first, last))
    return found


def _carried(
    old: Mesh, new: Mesh, knots: list[Array], point: Point, spread: list[tuple[int, int, int]]
) -> tuple[Array, Array]:
    """States and path on the new mesh: those of the old one, interpolated where knots were spread."""
    states, path = point.states.copy(), point.path.copy()
    whole = np.concatenate([point.states[:, None, :], point.path], axis=1)
    for e, first, last in spread:
        begin, mine = int(old.first[e]), np.arange(first, last)
        starts = knots[e][first:last]
        at = np.concatenate([new.knots[e][first:last, None], _nodes(new, e, mine)], axis=1)
        owner = np.clip(np.searchsorted(starts, at, side="right") - 1, 0, len(mine) - 1)
        rows = begin + first + owner
        fraction = np.clip((at - point.states[rows, -1]) / old.length[rows], -0.2, 1.2)
        weights = old.rule.along(fraction.ravel()).reshape(*fraction.shape, 1, -1)
        values = (weights @ whole[rows])[:, :, 0]
        values[..., -1] = at
        keep = point.states[begin + first].copy()
        states[begin + mine], path[begin + mine] = values[:, 0], values[:, 1:]
        states[begin + first] = keep
    return states, path


def _nodes(mesh: Mesh, e: int, segments: Indices) -> Array:
    knots = mesh.knots[e]
    return knots[segments, None] + np.diff(knots)[segments, None] * mesh.rule.nodes
