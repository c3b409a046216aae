"""The quadratic model of the lifted problem at a point: derivatives by segment states and free parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.condensing import Quadratic
from picardfit.collocation.curvature import data_curvature
from picardfit.collocation.discretisation import Chunk, Discretisation
from picardfit.collocation.elimination import Plan, Sources, inverted, sources
from picardfit.collocation.mesh import TINY
from picardfit.collocation.picard import (
    USUAL,
    Contraction,
    Field,
    defect,
    end_derivatives,
    newton_matrix,
    relative_size,
    right_sides,
)
from picardfit.collocation.point import Nearby, Point, evaluate
from picardfit.formulas.kernels import Array
from picardfit.problem.objective import curved, whitened


@dataclass(frozen=True)
class Reuse:
    """When derivatives from a point close by are reused (docs/decisions/005); the values are chosen."""

    rate: float = 0.02  # fraction of an error that a sweep with the old inverse may leave
    sweeps: int = 4  # of iterative refinement; beyond these, fresh matrices are cheaper
    error: float = 2e-6  # relative error of refined derivatives; less than what `moved` tolerates
    moved: float = 5e-6  # how far the path may move before derivatives are recomputed, relative to the scale


@dataclass(frozen=True)
class Positivity:
    """How states that cannot be negative are kept positive."""

    kept: float = 0.1  # smallest fraction of a state that a step may leave
    negligible: float = 1e-6  # fraction of its scale below which a state counts as zero


@dataclass(frozen=True)
class Linearisation:
    """The quadratic model at a point, and what is needed to move the path."""

    quadratic: Quadratic
    outputs: Array  # (samples, rows)
    jacobian: Array  # of the rows by [states | free parameters]: (blocks, slots * rows, columns)
    factor: Array  # square root of the objective's curvature, diagonal or full
    multipliers: Array  # S: (segments, nodes, states, columns)
    inverse: Array  # of Newton matrices here or close by (`Field.inverses`): (segments, ...)
    rate: float  # fraction of an error that a sweep with the inverse leaves here
    path: Array  # where the derivatives were made

    @property
    def nearby(self) -> Nearby:
        return Nearby(self.inverse, self.multipliers, self.rate)

    def moved(
        self, system: Discretisation, point: Point, scale: Array, reuse: Reuse = Reuse()
    ) -> Linearisation | None:
        """The model at a point close by with the same derivatives; None if it is not close.

        A relative error d of the derivatives leaves the loss too large by a fraction of about d^2 / samples.
        """
        if not relative_size(point.path - self.path, scale) < reuse.moved:
            return None
        terms = system.objective.terms(point.outputs, False)
        slope = _slope(system, terms.slope, self.jacobian)
        return replace(
            self, quadratic=replace(self.quadratic, slope=slope, jump=point.jumps), outputs=point.outputs
        )

    def at_samples(self, system: Discretisation) -> Array:
        """The jacobian of each sample: (samples, rows, columns)."""
        blocks, rows, columns = self.jacobian.shape
        width = system.blocks.width
        return system.blocks.unpadded(self.jacobian.reshape(blocks, width, rows // width, columns))


def linearise(
    system: Discretisation, point: Point, expected: bool = False, reuse: Reuse = Reuse()
) -> Linearisation:
    """Derivatives of data and jumps with respect to segment states and free parameters.

    `expected`: use the Fisher information even where the search prefers another curvature.
    """
    system = system.at(point.lengths)
    layout, room = system.problem.layout, _room(system)
    chain = None if layout.linear else layout.parameter_slopes(point.unknowns)
    groups = list(
        zip(*(_derivatives(system, point, chain, chunk, reuse, room) for chunk in system.chunks), strict=True)
    )
    rate, old = max(groups.pop()), None if point.nearby is None else point.nearby.inverse
    # drop each group once it is joined: keeping all of them twice would take most of the memory of a fit
    multipliers = _joined(groups.pop(0), room)
    inverse, at_samples, ends = (_joined(groups.pop(0), old) for _ in range(3))
    ends = system.felt(ends) if system.events is None else _after_events(system, point, chain, ends)
    outputs, jacobian = _outputs(system, point, chain, at_samples)
    terms = system.objective.terms(outputs, expected)
    white = _by_block(whitened(system.blocks.padded(terms.factor), jacobian))
    jacobian = _by_block(jacobian)
    hessian = data_curvature(system, white)
    slope = _slope(system, terms.slope, jacobian)
    quadratic = Quadratic(hessian, slope, ends, point.jumps, layout.initial_derivative(point.unknowns))
    return Linearisation(quadratic, outputs, jacobian, terms.factor, multipliers, inverse, rate, point.path)


def _after_events(system: Discretisation, point: Point, chain: Array | None, ends: Array) -> Array:
    """(linked, states, columns): derivatives of the ends of segments, which events move and change."""
    events, layout = system.events, system.problem.layout
    assert events is not None
    rows, states = events.segments, ends.shape[1]
    if not len(rows):
        return ends
    by_params = np.zeros((len(rows), point.params.shape[1], ends.shape[2]))
    free = layout.free_parameters
    slopes = np.ones((1, len(free))) if chain is None else chain
    columns = states + np.arange(len(free))
    by_params[:, free, columns] = slopes[events.owner if len(slopes) > 1 else np.zeros(len(rows), int)]
    result = ends.copy()
    result[events.links] = events.end_derivative(
        point.path[rows, -1],
        point.slopes[rows, -1],
        system.mesh.length[rows],
        point.params[events.owner],
        ends[events.links],
        by_params,
    )
    return result


def _by_block(per_slot: Array) -> Array:
    """(blocks, slots, rows, columns) -> (blocks, slots * rows, columns)."""
    blocks, slots, rows, columns = per_slot.shape
    return per_slot.reshape(blocks, slots * rows, columns)


def _slope(system: Discretisation, slope: Array, jacobian: Array) -> Array:
    """(segments, columns): slope' jacobian, summed over the samples (samples, rows) of each segment."""
    padded = system.blocks.padded(slope).reshape(len(jacobian), 1, -1)
    return system.blocks.by_segment((padded @ jacobian)[:, 0])


def _outputs(
    system: Discretisation, point: Point, chain: Array | None, at_samples: Array
) -> tuple[Array, Array]:
    """Rows of the objective (samples, rows) and their derivatives (blocks, slots, rows, columns).

    `at_samples` are the derivatives of the states there (blocks, slots, states, columns).
    """
    if system.selected is not None:
        return point.outputs, at_samples[:, :, system.selected]
    outputs, out_x, out_p = system.linearised_outputs(point.sampled, point.params)
    jacobian = system.blocks.padded(out_x) @ at_samples
    out_p = out_p[..., system.problem.layout.free_columns]
    if chain is not None:
        out_p *= system.of_samples(chain)[..., None, :]
    jacobian[..., point.states.shape[1] :] += system.blocks.padded(out_p)
    return outputs, jacobian


def _joined(parts: tuple[Array, ...], whole: Array | None) -> Array:
    """The parts as one array: `whole` itself where they are its parts."""
    if whole is not None and all(part.base is whole for part in parts):
        return whole
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _room(system: Discretisation) -> Array | None:
    """Memory for all multipliers if they are solved for in place; joining large parts would cost as much as solving."""
    if system.field.plan is None:
        return None
    mesh, states = system.mesh, len(system.problem.solved_model.states)
    columns = states + len(system.problem.layout.columns.parameters)
    return np.empty((len(mesh), len(mesh.rule.nodes), states, columns))


def _derivatives(
    system: Discretisation, point: Point, chain: Array | None, chunk: Chunk, reuse: Reuse, room: Array | None
) -> tuple[Array, Array, Array, Array, float]:
    """Derivatives of path, samples and ends on a chunk of the mesh: (S, inverse, at samples, ends, rate).

    `chain` (experiments, free parameters) is d natural / d internal, or None where that is 1 everywhere. S is a part of
    `room` if that is given.
    """
    mine = chunk.segments
    field, params = system.field.part(mine), system.spread(point.params, mine)
    slopes = None if chain is None else system.spread(chain, mine)
    if room is None or field.plan is None:
        nearby = point.nearby and point.nearby.part(mine)
        _, wrt_x, wrt_p = field.linearise(point.path[mine], params)
        wrt_p = wrt_p[..., system.problem.layout.free_columns]
        if slopes is not None:
            wrt_p *= slopes[..., None, :]
        solved, inverse, rate = _solved(field, wrt_x, right_sides(field.mesh, wrt_p), nearby, reuse)
        multipliers = solved.reshape(*wrt_p.shape[:3], -1)
    else:
        multipliers, rate = room[mine], 0.0
        chosen, entries = system.parameter_entries
        wrt_x, wrt_p = field.derivatives(point.path[mine], params)
        wrt_p = np.ascontiguousarray(wrt_p[chosen].transpose(1, 2, 0))
        if slopes is not None:
            wrt_p *= slopes[..., entries[:, 1]]
        given = sources(entries, field.plan.states, field.mesh.integral @ wrt_p)
        inverse = _eliminated(field, field.plan, wrt_x, given, multipliers, reuse)
    ends = end_derivatives(field.mesh, chunk.linked, multipliers)
    at_samples = system.derivatives_at_samples(multipliers, chunk, point.states, point.path)
    return multipliers, inverse, at_samples, ends, rate


def _solved(
    field: Field, wrt_x: Array, right: Array, nearby: Nearby | None, reuse: Reuse
) -> tuple[Array, Array, float]:
    """(I - h A (x) f_x)^-1 right, inverses of the matrices, and the fraction of an error that a sweep with them leaves.

    The inverse from nearby is used if a few sweeps with it are accurate enough: products of small matrices are much
    cheaper than inverses. The sweeps start from the derivatives there, whose error is about that of the matrices.
    """
    if nearby is not None:
        old, near, states = nearby.inverse, nearby.multipliers, wrt_x.shape[2]
        solved = old @ right if near is None else near.reshape(right.shape)
        first, last = (np.maximum.reduce(np.abs(solved[:, k])) for k in (slice(states), slice(-states, None)))
        unit, before = np.maximum(np.maximum(first, last), TINY), 1.0  # each derivative has its own unit
        for sweep in range(reuse.sweeps):
            gap = defect(field.mesh, wrt_x, right, solved)
            error = relative_size(gap.reshape(len(gap), -1, *unit.shape), unit)
            rate = nearby.rate + error if near is not None and not sweep else error / before
            if not rate < reuse.rate:
                break
            solved = solved + old @ gap
            if error * rate < reuse.error:
                return solved, old, rate
            before = error
    inverse = field.inverses(wrt_x)
    return inverse @ right, inverse, 0.0


def _eliminated(
    field: Field, plan: Plan, wrt_x: Array, given: Sources, multipliers: Array, reuse: Reuse
) -> Array:
    """Matrices that are eliminated state by state, which is cheaper than to reuse those from nearby; S is filled in.

    Their pivots are not chosen by size. Whether that cost digits shows in the sum of all columns of S, each in its own
    unit: segments on which the sum does not solve the equations are solved again with the whole matrix.
    """
    mesh, (segments, nodes, states, columns) = field.mesh, multipliers.shape
    inverse = plan.eliminate(mesh.integral, wrt_x)
    plan.multipliers(inverse, given, multipliers)
    weights = 1 / np.maximum(np.abs(multipliers[:, -1]).max(axis=1), TINY)
    flat = multipliers.reshape(segments, nodes * states, columns)
    total = (flat @ weights[..., None]).reshape(segments, nodes, states)
    gap = given.total(weights) - total + mesh.integral @ plan.times(wrt_x, total)
    wrong = np.flatnonzero(~(np.abs(gap).max(axis=(1, 2)) <= reuse.error * np.abs(total).max(axis=(1, 2))))
    if len(wrong):
        matrix = newton_matrix(field.part(wrong).mesh, plan.dense(wrt_x[:, wrong]))
        flat[wrong] = inverted(matrix) @ given.dense(wrong, columns)
    return inverse


def advance(
    system: Discretisation,
    point: Point,
    linear: Linearisation,
    unknowns_step: Array,
    states_step: Array,
    scale: Array,
    positive: Array,
    contraction: Contraction = USUAL,
    positivity: Positivity = Positivity(),
) -> Point | None:
    """Move along the multipliers S, then contract; a step takes at most nine tenths of a `positive` state."""
    system = system.at(point.lengths)
    mesh, layout = system.mesh, system.problem.layout
    unknowns = np.minimum(np.maximum(point.unknowns + unknowns_step, layout.lower), layout.upper)
    states = point.states + states_step
    if positive.any():
        small = positivity.negligible * scale
        least = np.where(point.states > small, positivity.kept * point.states, -small)
        states = np.where(positive, np.maximum(states, least), states)
    states[mesh.first], _ = layout.initial(unknowns)
    columns = mesh.columns(states - point.states, (unknowns - point.unknowns)[:, layout.columns.index])
    multipliers = linear.multipliers.reshape(len(mesh), -1, columns.shape[1])
    path = point.path + (multipliers @ columns[:, :, None]).reshape(point.path.shape)
    return evaluate(system, unknowns, states, path, scale, linear.nearby, contraction)


def curvature_of_step(
    system: Discretisation,
    point: Point,
    linear: Linearisation,
    trial: Point,
    ahead: Linearisation | None = None,
) -> tuple[Array, Array]:
    """The error of the linear model between a point and a trial: as slope (segments, columns) and as jumps.

    With the step d it is e = r(trial) - r - J d for the data, likewise for the jumps; the slope is J' e. A second solve
    with the same factors corrects the step (second-order correction; for small steps, geodesic acceleration). The model
    need not have been made at the point. `ahead`: the model with which the slope is made, if not the same.
    """
    slopes = linear if ahead is None else ahead
    mesh, layout = system.mesh, system.problem.layout
    moved = trial.states - point.states
    step = mesh.columns(moved, (trial.unknowns - point.unknowns)[:, layout.columns.index])
    jumps = point.jumps + (linear.quadratic.end @ step[mesh.linked_rows][..., None])[..., 0]
    jumps -= moved[mesh.inner_rows]
    change = linear.jacobian @ system.blocks.of_blocks(step)[..., None]
    outputs = point.outputs + system.blocks.unpadded(change.reshape(len(change), system.blocks.width, -1))
    slope = _slope(system, curved(slopes.factor, trial.outputs - outputs), slopes.jacobian)
    return slope, trial.jumps - jumps
