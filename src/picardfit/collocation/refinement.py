"""A point on another mesh: more nodes, shorter segments where its path is not resolved, longer ones where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from picardfit.collocation.adaptation import carry, joined, merge, segment_scales, split, unresolved
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Flags, Indices, Mesh, Rule
from picardfit.collocation.picard import USUAL, Contraction, FixedPoint, end_states
from picardfit.collocation.point import Nearby, Point, evaluate, followed
from picardfit.formulas.kernels import Array


@dataclass(frozen=True)
class Joining:
    """When neighbouring segments become one (docs/decisions/006); `rounds` and `length_ratio` are chosen."""

    rounds: int = 6  # times that neighbours are joined in one go: one segment replaces up to 2^6
    worthwhile: float = 0.7  # largest fraction of the segments that may remain, or the mesh stays as it is
    length_ratio: float = 4.0  # longest segment relative to the neighbour that it is joined with
    value_change: float = 1e-5  # largest change of the objective, relative to its size
    ease: float = 0.1  # fraction of the resolution's tolerance that a joined path may leave unresolved


@dataclass(frozen=True)
class Resolution:
    """Requirements on a mesh: its nodes, how well it resolves a path, and limits."""

    rule: Rule | None  # None: keep the nodes of the mesh
    tolerance: float  # last Legendre modes of the path, relative to its scale
    rounds: int  # times that nodes may be raised or a segment halved
    segments: int  # in all, at most
    by_value: bool = True  # whether a segment's scale may be the value of a state there (`segment_scales`)


class Refined(NamedTuple):
    """A point on another mesh, and the knot of the old mesh that each knot was, or -1."""

    system: Discretisation
    point: Point
    origin: Indices  # (linked,)


class _Carried(NamedTuple):
    """A path interpolated to a finer mesh, not yet contracted there."""

    mesh: Mesh
    states: Array
    path: Array
    origin: Indices  # (linked,): the old knot that each knot was, or -1
    source: Indices  # (segments,): the old segment that each segment still is, or -1


def refined(
    system: Discretisation,
    point: Point,
    scale: Array,
    wanted: Sequence[Resolution],
    contraction: Contraction = USUAL,
) -> Refined:
    """Refine the mesh until the path is resolved; returns the same system and point if it is.

    For each of the `wanted` resolutions, nodes are raised before segments are halved. The path is interpolated until it
    is resolved and only then contracted again; that may show more to resolve. A refinement that leaves as much of the
    time unresolved as before is not made: where the states at knots lie off a slow manifold, every new knot makes
    another layer, and finer meshes have more of them.
    """
    found, rounds = Refined(system, point, np.arange(len(point.jumps))), [one.rounds for one in wanted]
    begin = _uncarried(found)
    while any(rounds):
        ahead = begin
        for k, one in enumerate(wanted):
            ahead, rounds[k] = _halved(ahead, scale, one, rounds[k])
        if ahead is begin:
            break
        system, point, _ = found
        finer, nearby = replace(system, mesh=ahead.mesh), None
        if point.nearby is not None and _same_nodes(ahead.mesh.rule, system.mesh.rule):
            inverse, fresh = point.nearby.inverse[ahead.source], np.flatnonzero(ahead.source < 0)
            every = FixedPoint(finer.field, ahead.states, finer.spread(point.params), scale)
            equation = every.part(fresh)
            inverse[fresh] = equation.field.inverses_along(ahead.path[fresh], equation.params)
            nearby = Nearby(inverse)
        moved = evaluate(finer, point.unknowns, ahead.states, ahead.path, scale, nearby, contraction)
        if moved is None:
            break
        finer, moved = followed(finer, moved)
        following = Refined(finer, moved, ahead.origin)
        before, begin = begin, _uncarried(following)
        if len(finer.mesh) > len(system.mesh) and not (
            _unresolved_time(begin, scale, wanted) < _unresolved_time(before, scale, wanted)
        ):
            break
        found = following
    return found


def _uncarried(at: Refined) -> _Carried:
    """The path on its own mesh."""
    return _Carried(at.system.mesh, at.point.states, at.point.path, at.origin, np.arange(len(at.system.mesh)))


def _same_nodes(rule: Rule, other: Rule) -> bool:
    """Whether two rules have the same nodes; a rule from another process is a copy."""
    return np.array_equal(rule.nodes, other.nodes)


def _to_halve(at: _Carried, scale: Array, wanted: Resolution) -> Flags:
    """(segments,): those on which the path is not resolved."""
    scales = segment_scales(at.mesh, at.states, at.path, scale) if wanted.by_value else scale
    return unresolved(at.mesh, at.states, at.path, scales, wanted.tolerance)


def _unresolved_time(at: _Carried, scale: Array, wanted: Sequence[Resolution]) -> float:
    """The length of the segments on which the path is not resolved, summed over all that is wanted."""
    return sum(float(at.mesh.length[_to_halve(at, scale, one)].sum()) for one in wanted)


def _halved(at: _Carried, scale: Array, wanted: Resolution, rounds: int) -> tuple[_Carried, int]:
    """The path with the wanted nodes and with halved segments as far as it needs them, and the rounds left."""
    while rounds:
        chosen = _to_halve(at, scale, wanted)
        if not chosen.any() or len(at.mesh) + chosen.sum() > wanted.segments:
            break
        if wanted.rule is None or _same_nodes(wanted.rule, at.mesh.rule):
            at = _cut(at, chosen, at.mesh.rule)
        else:
            at = _cut(at, np.zeros(len(at.mesh), bool), wanted.rule)
        rounds -= 1
    return at, rounds


def _cut(at: _Carried, chosen: Flags, rule: Rule) -> _Carried:
    """The chosen segments halved, all of them with the nodes of the rule."""
    mesh, parent, half = split(at.mesh, chosen, rule)
    states, path = carry(at.mesh, mesh, at.states, at.path, parent, half)
    kept = half[mesh.linked] != 0  # the knot after this segment was a knot before
    origin = np.full(len(mesh.linked), -1)
    origin[kept] = at.origin[np.searchsorted(at.mesh.linked, parent[mesh.linked[kept]])]
    return _Carried(mesh, states, path, origin, np.where(half == 2, at.source[parent], -1))


def coarsened(
    system: Discretisation,
    point: Point,
    scale: Array,
    tolerance: float,
    joining: Joining = Joining(),
    contraction: Contraction = USUAL,
) -> Refined:
    """Join segments that resolve the path better than needed; returns the same system and point if they are few.

    After a path has moved, it no longer needs some of the knots that it needed before.
    """
    mesh, states, path, origin = system.mesh, point.states, point.path, np.arange(len(point.jumps))
    same = Refined(system, point, origin)
    for _ in range(joining.rounds):
        chosen = _to_join(mesh, states, path, scale, tolerance, system.at_breaks[origin], joining)
        if not len(chosen):
            break
        together = joined(mesh, states, path, chosen)
        coarse, begin = merge(mesh, chosen)
        path = path[begin]
        path[np.searchsorted(begin, chosen)] = together
        origin = np.delete(origin, np.searchsorted(mesh.linked, chosen))
        mesh, states = coarse, states[begin]
    if len(mesh) > joining.worthwhile * len(system.mesh):
        return same
    fewer = replace(system, mesh=mesh)
    moved = evaluate(fewer, point.unknowns, states, path, scale, contraction=contraction)
    size = system.objective.size(point.outputs, point.data)
    if moved is None or abs(moved.data - point.data) > joining.value_change * size:
        return same
    return Refined(*followed(fewer, moved), origin)


def _to_join(
    mesh: Mesh,
    states: Array,
    path: Array,
    scale: Array,
    tolerance: float,
    needed: Flags,
    joining: Joining,
) -> Indices:
    """Segments to join with their successors, no two of them neighbours; the `needed` knots (linked,) stay."""
    linked, scales = mesh.linked, segment_scales(mesh, states, path, scale)
    jumps = np.abs(end_states(mesh, states, path)[linked] - states[linked + 1]) / scales[linked]
    ratio = mesh.length[linked] / mesh.length[linked + 1]
    alike = (ratio < joining.length_ratio) & (ratio > 1 / joining.length_ratio)
    first: Indices = linked[~needed & alike & (jumps.max(axis=1, initial=0.0) < tolerance)]
    if not len(first):
        return first
    together = joined(mesh, states, path, first)
    good = first[~unresolved(mesh, states[first], together, scales[first], joining.ease * tolerance)]
    chosen, last = [], -2
    for one in good.tolist():
        if one > last + 1:
            chosen.append(one)
            last = one
    return np.array(chosen, int)
