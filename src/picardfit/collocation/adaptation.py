"""Where the knots go: a first mesh from data and dynamics, and refinement from the resolution of the path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from picardfit.collocation.mesh import TINY, Flags, Indices, Mesh, Rule, uniform_knots
from picardfit.formulas.kernels import Array
from picardfit.problem.problem import Problem, Start

Result = TypeVar("Result")


@dataclass(frozen=True)
class FirstMesh:
    """The first mesh of an experiment; the values are chosen, not derived."""

    fewest: int = 6  # segments
    most: int = 60  # segments, unless there are more than half as many samples
    share: float = 1.5  # length of a segment times the norm of the Jacobian there
    steepest: float = 5.0  # norm of the Jacobian over its median, beyond which segments get no shorter
    sliver: float = 0.3  # shortest distance of a knot to a break, relative to the median segment


def state_scale(problem: Problem, tables: list[Array], least: float = 0.0) -> Array:
    """(states,): the size of variation of each state along paths, at least the fraction `least` of the largest.

    Units may differ by many powers of ten; only a state that stays zero takes the scale of the largest, unless its data
    or its known initial value tell how large it is.
    """
    every = np.concatenate([t.reshape(-1, len(problem.solved_model.states)) for t in tables])
    highest = np.abs(every).max(axis=0)
    every -= every.sum(axis=0) / len(every)
    scale = np.maximum(np.sqrt(np.einsum("ij,ij->j", every, every) / len(every)), 1e-2 * highest)
    if problem.timed is not None:
        scale[-1] = problem.clock_unit
        largest = float(scale[:-1].max(initial=0.0))
    else:
        largest = float(scale.max(initial=0.0))
    if not largest > 0:
        return np.ones_like(scale)
    told = problem.state_sizes.max(axis=0)
    size = np.minimum(largest, np.where(told > 0, told, np.inf))
    return np.maximum(np.where(scale > 1e-12 * size, scale, largest), least * size)


def segment_scales(mesh: Mesh, states: Array, path: Array, scale: Array, smallest: float = 1e-4) -> Array:
    """(segments, states): the states' scale, or the value at the start of a segment where that is smaller.

    The latter applies to states that keep one sign in an experiment and may span many powers of ten; `smallest` is the
    fraction of the scale (of the whole path) below which values are not distinguished.
    """
    flat = path.reshape(len(mesh), -1)
    size = (len(mesh.first), *path.shape[1:])
    low = np.minimum.reduceat(flat, mesh.first).reshape(size).min(axis=1)
    high = np.maximum.reduceat(flat, mesh.first).reshape(size).max(axis=1)
    signed = (low > 0) | (high < 0)
    if not signed.any():
        return np.broadcast_to(scale, states.shape)
    own = np.minimum(np.maximum(np.abs(states), smallest * scale), scale)
    return np.where(signed[mesh.experiment], own, scale)


def first_mesh(
    problem: Problem, start: Start, rule: Rule, scale: Array, settings: FirstMesh = FirstMesh()
) -> Mesh:
    """Segments with about equal shares of the Jacobian's norm, of the samples and of time; breaks are knots."""
    model, params, knots = problem.solved_model, problem.layout.model_values(start.unknowns), []
    for e, (grid, path) in enumerate(start.tables):
        inputs = problem.experiments[e].inputs_at(model.inputs, grid)
        _, wrt_x, _ = model.rhs.linearise(grid, path, params[e], inputs)
        with np.errstate(over="ignore", invalid="ignore"):  # the scaled Jacobian is the local estimate of K_x
            norm = np.sqrt(np.sum((wrt_x * scale / scale[:, None]) ** 2, axis=(1, 2)))
        stiffness = np.where(np.isfinite(norm), norm, 0.0)
        breaks = tuple(one.knot for one in start.schedule[e]) if start.schedule else problem.knots(e)
        knots.append(_knots(problem, e, grid, stiffness, breaks, settings))
    return Mesh(rule, tuple(knots), start.schedule)


def even_knots(problem: Problem, experiment: int, length: float) -> Array:
    """Knots of an experiment with segments of at most `length`; breaks are knots."""
    start, stop = problem.span(experiment)
    if stop <= start:
        return _instant(start)
    return uniform_knots((start, stop), length, problem.knots(experiment))


def _instant(time: float) -> Array:
    """One segment too short for any dynamics, for an experiment whose samples are all at its initial time."""
    return np.array([time, time + 64 * np.spacing(max(abs(time), 1e-30))])


def _knots(
    problem: Problem,
    experiment: int,
    grid: Array,
    stiffness: Array,
    breaks: tuple[float, ...],
    settings: FirstMesh,
) -> Array:
    """Knots at equal steps of the mean of two fractions: of the integral of the stiffness, and of the grid.

    The grid follows the samples; `stiffness` (grid,) is the norm of the scaled Jacobian along it.
    """
    start, stop = problem.span(experiment)
    if stop <= start:
        return _instant(start)
    samples = 1 + np.count_nonzero(np.diff(problem.experiments[experiment].times))
    gaps = np.diff(grid)
    ceiling = settings.steepest * np.median(stiffness) + TINY
    local = np.minimum(0.5 * (stiffness[1:] + stiffness[:-1]), ceiling)
    wanted = float(np.sum(local * gaps))
    most = max(settings.most, 2 * int(samples))
    count = min(max(int(np.ceil(wanted / settings.share)), settings.fewest), most)
    mass = 0.5 * local * gaps / max(wanted, TINY) + 0.5 / len(gaps)
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    inside = np.interp(np.linspace(0, cumulative[-1], count + 1)[1:-1], cumulative, grid)
    return merge_breaks(np.concatenate([[start], inside, [stop]]), breaks, settings.sliver)


def merge_breaks(knots: Array, breaks: tuple[float, ...], sliver: float = FirstMesh.sliver) -> Array:
    """Add the breaks as knots and drop knots that would leave a sliver beside a break or each other."""
    span = knots[-1] - knots[0]
    fixed = np.unique(np.array([knots[0], *breaks, knots[-1]]))
    after = np.clip(np.searchsorted(fixed, knots), 1, len(fixed) - 1)
    nearest = np.minimum(np.abs(knots - fixed[after - 1]), np.abs(fixed[after] - knots))
    room = sliver * np.median(np.diff(knots)) if len(breaks) else 0.0
    kept = knots[nearest > max(min(room, span), 1e-12 * span)]
    merged = np.unique(np.concatenate([fixed, kept]))
    return merged[np.concatenate([[True], np.diff(merged) > 1e-13 * span])] if len(merged) > 2 else merged


def unresolved(mesh: Mesh, states: Array, path: Array, scale: Array, tolerance: float) -> Flags:
    """(segments,): whether the last Legendre modes of the path are too large on a segment.

    `scale` is (segments, states), or (states,) for all alike.
    """
    of_start, of_nodes = mesh.rule.tail[:, :1], mesh.rule.tail[:, 1:]
    modes = of_start * states[:, None, :] + of_nodes @ path
    found: Flags = (np.abs(modes).max(axis=1) / scale).max(axis=1) > tolerance
    return found


def split(mesh: Mesh, chosen: Flags, rule: Rule | None = None) -> tuple[Mesh, Indices, Indices]:
    """Halve the chosen segments, with the nodes of `rule` if one is given.

    Returns the mesh, and for each new segment its parent and a code: 0 its first half, 1 its second half, 2 all of it.
    """
    parts = np.where(chosen, 2, 1)
    parent = np.repeat(np.arange(len(mesh)), parts)
    second = np.concatenate([[False], parent[1:] == parent[:-1]])
    half = np.where(chosen[parent], np.where(second, 1, 0), 2)
    knots = []
    for e, old in enumerate(mesh.knots):
        mine = chosen[mesh.first[e] : mesh.first[e] + mesh.counts[e]]
        knots.append(np.sort(np.concatenate([old, 0.5 * (old[:-1] + old[1:])[mine]])))
    lengths = None if mesh.lengths is None else mesh.lengths[parent] / parts[parent]
    return (
        replace(mesh, rule=rule or mesh.rule, knots=tuple(knots), lengths=lengths, clock=None),
        parent,
        half,
    )


@lru_cache(maxsize=32)
def _carrying_weights(old: Rule, new: Rule) -> tuple[Array, Array]:
    """Weights of the old path at the start (3, 1 + nodes) and at the nodes (3, new nodes, 1 + nodes) of a new segment.

    The new segment is the first half, the second half or the whole of the old one.
    """
    begin, width = np.array([0.0, 0.5, 0.0]), np.array([0.5, 0.5, 1.0])
    points = begin[:, None] + width[:, None] * new.nodes
    return old.along(begin), old.along(points.ravel()).reshape(*points.shape, -1)


def resolve(
    mesh: Mesh, attempt: Callable[[Mesh], tuple[Result, Flags]], rounds: int, segments: int
) -> Result:
    """The result of `attempt` on the first mesh on which it needs no shorter segments, or on the finest one allowed.

    attempt(mesh) returns its result and (segments,) bool: the segments to halve before it tries again, at most `rounds`
    times and not beyond a mesh of more than `segments`. Here a new path is made on each mesh; `refinement.refined`
    carries a known path to the finer mesh.
    """
    for _ in range(rounds - 1):
        found, chosen = attempt(mesh)
        if not chosen.any() or len(mesh) > segments:
            return found
        mesh, _, _ = split(mesh, chosen)
    return attempt(mesh)[0]


def carry(
    old: Mesh, new: Mesh, states: Array, path: Array, parent: Indices, half: Indices
) -> tuple[Array, Array]:
    """Start states and path on a finer mesh (split, or with more nodes), from the path on the old one."""
    at_begin, at_nodes = _carrying_weights(old.rule, new.rule)
    whole = np.concatenate([states[:, None, :], path], axis=1)[parent]
    return (at_begin[half][:, None, :] @ whole)[:, 0], at_nodes[half] @ whole


def merge(mesh: Mesh, chosen: Indices) -> tuple[Mesh, Indices]:
    """The mesh without the knots after the chosen segments, and for each new segment the first of its old ones."""
    whole = np.ones(len(mesh), bool)
    whole[np.asarray(chosen, int) + 1] = False  # these begin inside a new segment
    knots = []
    for e, old in enumerate(mesh.knots):
        mine = whole[mesh.first[e] : mesh.first[e] + mesh.counts[e]]
        knots.append(old[np.append(mine, True)])
    begin = np.flatnonzero(whole)
    lengths = None if mesh.lengths is None else np.add.reduceat(mesh.lengths, begin)
    return replace(mesh, knots=tuple(knots), lengths=lengths, clock=None), begin


def joined(mesh: Mesh, states: Array, path: Array, chosen: Indices) -> Array:
    """(chosen, nodes, states): the path at the nodes of segments made of the chosen ones and their successors."""
    here, there = mesh.length[chosen, None], mesh.length[chosen + 1, None]
    since = mesh.rule.nodes * (here + there)  # time since the start: (chosen, nodes)
    second = since > here
    fraction = np.where(second, (since - here) / there, since / here)
    weights = mesh.rule.along(fraction.ravel()).reshape(*fraction.shape, 1, -1)
    whole = np.concatenate([states[:, None, :], path], axis=1)
    path_there: Array = (weights @ whole[chosen[:, None] + second])[:, :, 0]
    return path_there
