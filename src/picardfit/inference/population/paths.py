"""The paths of all individuals in one batch, with first and second derivatives by their own parameters.

A path is a fixed point u = P u on a mesh (collocation/picard.py). Segments are solved one after the other in time, the
j-th segments of all individuals at once, so that continuity is exact and a failure concerns one individual alone.
Derivatives follow for all segments at once. With M = I - h A (x) f_x and the start state x of a segment,

    M u_a  = x_a  + h A f_a,
    M u_ab = x_ab + h A (D_b f_x u_a + D_b f_a),

where a and b are columns of the unknowns and D_b is the derivative along column b: a central difference of the exact
first derivatives. The mesh is kept while the parameters move a little, so that values are smooth functions of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from picardfit.collocation.adaptation import even_knots, split, state_scale, unresolved
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Flags, Indices, Mesh, rule
from picardfit.collocation.picard import (
    Contraction,
    FixedPoint,
    apply,
    contract,
    relative_size,
    right_sides,
    sizes,
)
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class PathSettings:
    """How accurate the paths of individuals are; the values are chosen."""

    nodes: int = 10  # of a segment: a high order, as paths are smooth
    resolved: float = 1e-5  # largest Legendre tail on a segment, relative to the size of a state there: the
    # error at samples is a thousandth of it and less (docs/decisions/020)
    smallest: float = 1e-4  # size of a state on a segment, over its scale, below which sizes do not count
    coarser: float = 10.0  # multiple of it that a path may reach before the mesh is refined again
    rounds: int = 16  # halvings of a segment on a new mesh
    segments: int = 400_000  # in all, at most
    step: float = 1e-5  # of central differences: the cube root of machine precision, in units of an unknown
    rough_step: float = 1e-3  # the same where first derivatives are differences themselves
    numbers: int = 4_000_000  # derivatives that are differenced at once, which bounds memory
    least_state: float = 1e-9  # scale of a state that is zero throughout, relative to the largest
    sweeps: int = 9  # with the matrices of paths nearby, before segments are solved one after the other
    halved: float = 0.5  # largest part of the error that such a sweep may leave
    contraction: Contraction = field(default=Contraction(tolerance=1e-12, acceptable=1e-9))


@dataclass(frozen=True)
class Columns:
    """Columns of the unknowns [random | shared]; those that act on a path, and the random ones among these."""

    random: int  # how many random ones there are
    width: int
    acting: Indices  # (acting,)

    @property
    def acting_random(self) -> Indices:
        return self.acting[self.acting < self.random]


@dataclass(frozen=True)
class Paths:
    """The paths of all individuals at given unknowns, and their derivatives by the acting columns."""

    system: Discretisation
    columns: Columns
    unknowns: Array  # (individuals, width)
    scale: Array  # (states,)
    states: Array  # (segments, states): start of each segment
    path: Array  # (segments, nodes, states)
    failed: Flags  # (individuals,): the path could not be computed
    unsolved: Flags  # (segments,): where that happened
    settings: PathSettings
    inverse: Array | None = None  # of the Newton matrices at this path
    multipliers: Array | None = None  # (segments, nodes, states, states + acting)
    starts: Array | None = None  # (segments, states, acting): derivatives of the start states
    by_unknowns: Array | None = None  # (segments, nodes, states, acting): u_a


@dataclass(frozen=True)
class Sampled:
    """States at the samples, with derivatives by the acting columns."""

    states: Array  # (samples, states)
    first: Array  # (samples, states, acting)


def columns_of(problem: Problem) -> Columns:
    """The columns of an individual problem, whose random parameters are local."""
    layout = problem.layout
    _, pattern = problem.solved_model.rhs.jacobian_pattern
    used = np.zeros(len(layout.names), bool)
    used[: layout.model_parameters] = np.asarray(pattern.any(axis=0))
    if layout.formulas is not None:
        used |= np.asarray(layout.formulas.jacobian_pattern[1].any(axis=0))
    if layout.steady_starts is not None:
        used[: layout.model_parameters] = True
    acting = np.flatnonzero(used[layout.column_parameters])
    return Columns(layout.local, layout.width, acting)


# ---- values --------------------------------------------------------------------------------------------------------


def new_paths(problem: Problem, unknowns: Array, settings: PathSettings, mesh: Mesh | None = None) -> Paths:
    """The paths on a new mesh: segments between breaks, halved where they do not contract or are not resolved.

    `mesh`: one to begin with.
    """
    if mesh is None:
        spans = [problem.span(e) for e in range(len(problem.experiments))]
        knots = tuple(even_knots(problem, e, max(b - a, 1e-300)) for e, (a, b) in enumerate(spans))
        mesh = Mesh(rule(settings.nodes), knots)
    columns, scale = columns_of(problem), _first_scale(problem)
    for _ in range(settings.rounds):
        found = _marched(Discretisation(problem, mesh), columns, unknowns, scale, None, settings)
        reached = ~found.failed[mesh.experiment]
        if reached.any():
            scale = state_scale(problem, [found.path[reached]], settings.least_state)
        chosen = found.unsolved | (_unresolved(found, scale, settings.resolved) & reached)
        if not chosen.any() or len(mesh) + chosen.sum() > settings.segments:
            break
        mesh, _, _ = split(mesh, chosen)
    return _marched(Discretisation(problem, mesh), columns, unknowns, scale, None, settings)


def moved_paths(near: Paths, unknowns: Array) -> Paths:
    """The paths at other unknowns on the same mesh, from those nearby."""
    found = None if near.failed.any() else _shifted(near, unknowns)
    if found is not None:
        return found
    return _marched(near.system, near.columns, unknowns, near.scale, near, near.settings)


def _shifted(near: Paths, unknowns: Array) -> Paths | None:
    """The paths nearby moved along their derivatives, then all segments contracted at once; None if that fails.

    With the matrices of the paths nearby, d = M^-1 (P u - u) closes the equations of each segment, and corrections of
    the start states close the jumps between segments (`_carried`).
    """
    if near.inverse is None or near.multipliers is None or near.starts is None or near.by_unknowns is None:
        return None
    system, settings, owner = near.system, near.settings, near.system.mesh.experiment
    mesh, layout, states = system.mesh, system.problem.layout, near.states.shape[1]
    with np.errstate(all="ignore"):
        step = (unknowns - near.unknowns)[:, near.columns.acting][owner]
        params = system.spread(layout.measured_values(unknowns))
        path = near.path + (near.by_unknowns @ step[:, None, :, None])[..., 0]
        begin = near.states + (near.starts @ step[..., None])[..., 0]
        begin[mesh.first] = layout.initial(unknowns)[0]
        keep, add = transitions(system)
        follow, ends = mesh.linked, near.multipliers[:, -1, :, :states]
        nothing, last = np.zeros((len(mesh.first), states, 1)), np.inf
        for _ in range(settings.sweeps):
            gap = apply(mesh, begin, system.field.slopes(path, params)) - path
            jump = np.zeros_like(begin)
            jump[follow] = keep[follow] * path[follow, -1] + add[follow] - begin[follow + 1]
            error = max(relative_size(gap, near.scale), float((np.abs(jump) / near.scale).max(initial=0.0)))
            if error < settings.contraction.tolerance:
                failed = np.zeros(len(mesh.first), bool)
                flags = np.zeros(len(mesh), bool)
                return Paths(system, near.columns, unknowns, near.scale, begin, path, failed, flags, settings)
            if not error < settings.halved * last:
                return None
            last = error
            change = system.field.solve(near.inverse, gap.reshape(len(path), -1, 1)).reshape(path.shape)
            added = change[:, -1, :, None] + np.where(keep != 0, jump, 0.0)[..., None]
            start = _carried(system, ends, nothing, added)
            forgotten = np.zeros_like(begin)
            forgotten[follow + 1] = np.where(keep[follow] == 0, jump[follow], 0.0)
            moved = start + forgotten[..., None]
            path = path + change + (near.multipliers[..., :states] @ moved[:, None])[..., 0]
            begin = begin + moved[..., 0]
    return None


def resolved_paths(paths: Paths) -> Paths:
    """The same paths if the mesh still resolves them, otherwise on a new mesh."""
    limit = paths.settings.coarser * paths.settings.resolved
    reached = ~paths.failed[paths.system.mesh.experiment]
    if not (_unresolved(paths, paths.scale, limit) & reached).any():
        return paths
    return new_paths(paths.system.problem, paths.unknowns, paths.settings)


def _unresolved(paths: Paths, scale: Array, tolerance: float) -> Flags:
    mesh = paths.system.mesh
    with np.errstate(all="ignore"):
        largest = np.maximum(np.abs(paths.states), np.abs(paths.path).max(axis=1))
        size = np.clip(largest, paths.settings.smallest * scale, scale)
        return unresolved(mesh, paths.states, paths.path, size, tolerance)


def _first_scale(problem: Problem) -> Array:
    """(states,): how large the states are by data, known initial values and doses, before any path is known."""
    size = np.array(problem.state_sizes.max(axis=0), float)
    size = np.concatenate([size, np.zeros(len(problem.solved_model.states) - len(size))])
    if problem.layout.dosed is not None:
        size = np.maximum(size, np.abs(problem.layout.dosed).max(axis=0))
    for jumps in problem.jumps:
        if jumps is not None:
            size = np.maximum(size, np.abs(jumps.add).max(axis=0))
    largest = float(size.max(initial=0.0)) or 1.0
    return np.where(size > 0, size, largest)


def _marched(
    system: Discretisation,
    columns: Columns,
    unknowns: Array,
    scale: Array,
    near: Paths | None,
    settings: PathSettings,
) -> Paths:
    """The paths, segment after segment; nearby ones are moved along their derivatives first."""
    mesh, layout = system.mesh, system.problem.layout
    with np.errstate(all="ignore"):
        params, (x, _) = layout.measured_values(unknowns), layout.initial(unknowns)
        keep, add = transitions(system)
        count, x = x.shape[1], x.copy()
        states = np.full((len(mesh), count), np.nan)
        path = np.full((len(mesh), len(mesh.rule.nodes), count), np.nan)
        guess = None if near is None else _predicted(near, unknowns)
        inverse = None if near is None else near.inverse
        failed, unsolved = ~np.isfinite(x).all(axis=1), np.zeros(len(mesh), bool)
        for j in range(int(mesh.counts.max())):
            owner = np.flatnonzero((mesh.counts > j) & ~failed)
            if not len(owner):
                break
            mine = mesh.first[owner] + j
            here = np.repeat(x[owner, None], path.shape[1], axis=1) if guess is None else guess[mine]
            equation = FixedPoint(system.field.part(mine), x[owner], params[owner][:, None, :], scale)
            found = contract(equation, here, None if inverse is None else inverse[mine], settings.contraction)
            bad = ~(sizes(found.gap, scale) < settings.contraction.limit)
            states[mine], path[mine] = x[owner], found.path
            unsolved[mine[bad]], failed[owner[bad]] = True, True
            x[owner] = keep[mine] * found.path[:, -1] + add[mine]
    return Paths(system, columns, unknowns, scale, states, path, failed, unsolved, settings)


def _predicted(near: Paths, unknowns: Array) -> Array:
    """The path nearby, moved along its derivatives; where that failed, the state at the start of each individual."""
    step = (unknowns - near.unknowns)[:, near.columns.acting][near.system.mesh.experiment]
    moved = near.path
    if near.by_unknowns is not None:
        moved = moved + (near.by_unknowns @ step[:, None, :, None])[..., 0]
    start = near.system.problem.layout.initial(unknowns)[0][near.system.mesh.experiment]
    return np.where(np.isfinite(moved), moved, start[:, None, :])


def transitions(system: Discretisation) -> tuple[Array, Array]:
    """keep and add (segments, states): the state after the knot that ends a segment is keep x + add."""
    mesh, states = system.mesh, len(system.problem.solved_model.states)
    keep, add = np.ones((len(mesh), states)), np.zeros((len(mesh), states))
    if system.doses is not None:
        at = mesh.linked[system.doses.links]
        keep[at], add[at] = system.doses.keep, system.doses.add
    if system.kept is not None:
        keep[mesh.linked] *= system.kept
        add[mesh.linked] *= system.kept
    return keep, add


# ---- derivatives ---------------------------------------------------------------------------------------------------


def with_derivatives(paths: Paths) -> Paths:
    """The paths with u_a and the inverses of their Newton matrices."""
    system, layout, acting = paths.system, paths.system.problem.layout, paths.columns.acting
    states = paths.states.shape[1]
    with np.errstate(all="ignore"):
        finite = np.where(paths.failed[system.mesh.experiment][:, None, None], 0.0, paths.path)
        wrt_x, wrt_a = _rates(paths, finite, paths.unknowns)
        broken = paths.failed[system.mesh.experiment]
        wrt_x[broken], wrt_a[broken] = 0.0, 0.0
        inverse = system.field.inverses(wrt_x)
        right = right_sides(system.mesh, wrt_a)
        multipliers = system.field.solve(inverse, right).reshape(*paths.path.shape, -1)
        first = layout.initial_derivative(paths.unknowns)[:, :, acting]
        starts = _carried(system, multipliers[:, -1, :, :states], first, multipliers[:, -1, :, states:])
        along = multipliers[..., :states] @ starts[:, None] + multipliers[..., states:]
    return replace(paths, inverse=inverse, multipliers=multipliers, starts=starts, by_unknowns=along)


def _rates(paths: Paths, path: Array, unknowns: Array) -> tuple[Array, Array]:
    """f_x and f_a at the nodes of paths (..., segments, nodes, states); unknowns (..., individuals, width)."""
    system, layout, acting = paths.system, paths.system.problem.layout, paths.columns.acting
    flat = unknowns.reshape(-1, *unknowns.shape[-2:])
    shape, owner = unknowns.shape[:-1], system.mesh.experiment
    params = np.array([layout.measured_values(one) for one in flat]).reshape(*shape, -1)
    chain = np.array([layout.slopes(one)[:, acting] for one in flat]).reshape(*shape, -1)
    _, wrt_x, wrt_p = system.field.linearise(path, params[..., owner, None, :])
    wrt_a, index = np.zeros((*wrt_p.shape[:-1], len(acting))), layout.column_parameters[acting]
    inside = index < layout.measured_parameters  # the others appear in initial formulas alone
    wrt_a[..., inside] = wrt_p[..., index[inside]] * chain[..., owner, None, None, :][..., inside]
    return wrt_x, wrt_a


def _carried(system: Discretisation, ends: Array, first: Array, added: Array) -> Array:
    """(segments, states, k): Z_(j+1) = keep (B_j Z_j + c_j) along each individual, from Z of its first segment."""
    mesh = system.mesh
    keep, _ = transitions(system)
    found = np.zeros((len(mesh), *first.shape[1:]))
    found[mesh.first] = first
    for j in range(int(mesh.counts.max()) - 1):
        mine = mesh.first[mesh.counts > j + 1] + j
        found[mine + 1] = keep[mine][..., None] * (ends[mine] @ found[mine] + added[mine])
    return found


def sampled(paths: Paths) -> Sampled:
    """States at the samples with first derivatives; the paths have theirs."""
    assert paths.by_unknowns is not None
    assert paths.starts is not None
    return Sampled(
        _at_samples(paths, paths.states, paths.path), _at_samples(paths, paths.starts, paths.by_unknowns)
    )


def sampled_states(paths: Paths) -> Array:
    """(samples, states): states at the samples; the paths need no derivatives."""
    return _at_samples(paths, paths.states, paths.path)


def _at_samples(paths: Paths, starts: Array, nodes: Array) -> Array:
    """(samples, ...): values at the samples from those at starts (segments, ...) and nodes (segments, nodes, ...)."""
    segment, fraction = paths.system.located
    weights = paths.system.mesh.rule.along(fraction)
    flat = nodes.reshape(*nodes.shape[:2], -1)[segment]
    found = (weights[:, None, 1:] @ flat)[:, 0].reshape(len(segment), *nodes.shape[2:])
    first = starts[segment]
    return found + weights[:, 0].reshape(-1, *[1] * (first.ndim - 1)) * first


def second_derivatives(paths: Paths, directions: Indices) -> Array:
    """(samples, states, acting random, directions): x_ab for the acting random columns a and acting directions b.

    `directions` are positions among the acting columns.
    """
    assert paths.multipliers is not None
    assert paths.by_unknowns is not None
    assert paths.inverse is not None
    system, columns, states = paths.system, paths.columns, paths.states.shape[1]
    random = np.flatnonzero(columns.acting < columns.random)
    each = 2 * paths.by_unknowns[..., 0].size * (states + len(columns.acting))
    size = max(1, paths.settings.numbers // max(each, 1))
    parts = []
    for group in np.array_split(directions, max(1, -(-len(directions) // size))):
        with np.errstate(all="ignore"):
            bent = _bent(paths, random, group)  # (segments, nodes, states, random * group)
            right = system.mesh.integral @ bent.reshape(*bent.shape[:2], -1)
            flat = right.reshape(len(bent), -1, bent.shape[-1])
            solved = system.field.solve(paths.inverse, flat).reshape(bent.shape)
            ends, first = paths.multipliers[:, -1, :, :states], _initial_second(paths, random, group)
            starts = _carried(system, ends, first, solved[:, -1])
            whole = paths.multipliers[..., :states] @ starts[:, None] + solved
        found = _at_samples(paths, starts, whole)
        parts.append(found.reshape(*found.shape[:2], len(random), len(group)))
    return np.concatenate(parts, axis=-1)


def displacement(paths: Paths) -> Array:
    """(individuals, width): the half step of central differences along each column."""
    problem = paths.system.problem
    exact = isinstance(problem.rhs, BatchedMap) and isinstance(problem.solved_model.output, BatchedMap)
    step = paths.settings.step if exact else paths.settings.rough_step
    return step * problem.layout.unit(paths.unknowns)


def _bent(paths: Paths, random: Indices, group: Indices) -> Array:
    """(segments, nodes, states, random * group): D_b f_x u_a + D_b f_a at the nodes."""
    assert paths.by_unknowns is not None
    owner, column = paths.system.mesh.experiment, paths.columns.acting[group]
    length = displacement(paths)[:, column].T  # (group, individuals)
    along = np.moveaxis(paths.by_unknowns[..., group], -1, 0)  # (group, segments, nodes, states)
    steps = length[:, owner][:, :, None, None] * along
    moved = np.zeros((len(group), *paths.unknowns.shape))
    moved[np.arange(len(group)), :, column] = length
    later_x, later_a = _rates(paths, paths.path + steps, paths.unknowns + moved)
    sooner_x, sooner_a = _rates(paths, paths.path - steps, paths.unknowns - moved)
    half = 0.5 / length[:, owner][:, :, None, None, None]
    by_x, by_a = (later_x - sooner_x) * half, (later_a - sooner_a)[..., random] * half
    found = by_x @ paths.by_unknowns[..., random] + by_a  # (group, segments, nodes, states, random)
    return np.moveaxis(found, 0, -1).reshape(*found.shape[1:4], -1)


def _initial_second(paths: Paths, random: Indices, group: Indices) -> Array:
    """(individuals, states, random * group): second derivatives of the initial states, by central differences."""
    layout, acting = paths.system.problem.layout, paths.columns.acting
    found = np.zeros((len(paths.unknowns), paths.states.shape[1], len(random), len(group)))
    if not layout.plain_initial:
        length = displacement(paths)
        for k, b in enumerate(acting[group]):
            moved = np.zeros_like(paths.unknowns)
            moved[:, b] = length[:, b]
            ends = [layout.initial_derivative(paths.unknowns + sign * moved) for sign in (1, -1)]
            change = (ends[0] - ends[1]) / (2 * length[:, b, None, None])
            found[..., k] = change[..., acting[random]]
    return found.reshape(*found.shape[:2], -1)
