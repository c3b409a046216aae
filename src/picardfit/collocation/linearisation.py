"""The lifted problem at a point: path, jumps and data, and their derivatives by segment states and parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.condensing import Quadratic
from picardfit.collocation.discretisation import Discretisation, Part
from picardfit.collocation.mesh import Segments
from picardfit.collocation.picard import (
    apply,
    defect,
    end_derivatives,
    end_states,
    newton_matrix,
    right_sides,
)
from picardfit.problem.objective import CONTRACTED, curved, whitened

CONTRACTIONS = 8  # with one Newton matrix, before a trial point is given up
NEWTON_STEPS = 6  # with fresh matrices, for the first path
DAMPED_STEPS = 10  # with fresh matrices and step lengths, where one matrix is not enough
HALVINGS = 4  # of such a step
TOLERATED = 1e-6  # |u - P u| of a trial point
TIMES_ENOUGH = 10  # or this many times what was asked for
SMALL = 1e-6  # part of its scale below which a positive state is as good as zero
NEAR = 0.02  # part of |u - P u| that a contraction leaves, if its matrices are to serve for derivatives too
SWEEPS = 4  # of iterative refinement of the derivatives, before fresh matrices are cheaper
EXACT = 2e-6  # relative error of the derivatives, less than what SAME lets pass
SAME = 5e-6  # of the states' scale: how far the path may move until derivatives are made anew


@dataclass(frozen=True)
class Nearby:
    """What is known of the derivatives of the path from a point close by."""

    inverse: np.ndarray  # of the Newton matrices: (segments, nodes * states, nodes * states)
    multipliers: np.ndarray | None = None  # S: (segments, nodes, states, columns)
    rate: float = 0.0  # part of an error that a sweep with the inverse left there

    def part(self, segments: slice) -> Nearby:
        own = None if self.multipliers is None else self.multipliers[segments]
        return Nearby(self.inverse[segments], own, self.rate)


@dataclass(frozen=True)
class Point:
    """Unknowns of the lifted problem with everything evaluated there."""

    unknowns: np.ndarray  # (experiments, width)
    params: np.ndarray  # (experiments, parameters of model and noise), natural units
    states: np.ndarray  # (segments, states): start state of each segment
    path: np.ndarray  # (segments, nodes, states), contracted: u = P u
    slopes: np.ndarray  # f along the path
    jumps: np.ndarray  # (linked, states): end of a segment minus start of the next
    sampled: np.ndarray  # (samples, states)
    outputs: np.ndarray  # (samples, rows): observables, then levels of the noise
    data: float  # value of the objective, with priors
    residual: float = np.nan  # largest |u - P u| relative to the states' scale
    nearby: Nearby | None = None


@dataclass(frozen=True)
class Linearisation:
    """The quadratic model at a point, and what is needed to move the path."""

    quadratic: Quadratic
    outputs: np.ndarray  # (samples, rows)
    jacobian: np.ndarray  # of the rows by [states | free parameters]: (lines, places * rows, columns)
    factor: np.ndarray  # square root of the objective's curvature, diagonal or full
    multipliers: np.ndarray  # S: (segments, nodes, states, columns)
    inverse: np.ndarray  # of Newton matrices here or close by: (segments, nodes * states, nodes * states)
    rate: float  # part of an error that a sweep with the inverse leaves here
    path: np.ndarray  # where the derivatives were made

    @property
    def nearby(self) -> Nearby:
        return Nearby(self.inverse, self.multipliers, self.rate)

    def moved(self, system: Discretisation, point: Point, scale: np.ndarray) -> Linearisation | None:
        """The model at a point close by with the same derivatives; None if it is not close.

        Derivatives that are off by a part d leave the loss too large by a part of about d^2 / samples.
        """
        if not relative_size(point.path - self.path, scale) < SAME:
            return None
        terms = system.objective.terms(point.outputs, False)
        slope = _slope(system, terms.slope, self.jacobian)
        return replace(
            self, quadratic=replace(self.quadratic, slope=slope, jump=point.jumps), outputs=point.outputs
        )

    def at_samples(self, system: Discretisation) -> np.ndarray:
        """The jacobian of each sample: (samples, rows, columns)."""
        lines, rows, columns = self.jacobian.shape
        width = system.places.width
        return system.places.taken(self.jacobian.reshape(lines, width, rows // width, columns))


def linearise(system: Discretisation, point: Point, expected: bool = False) -> Linearisation:
    """Derivatives of data and jumps with respect to segment states and free parameters.

    `expected`: with the Fisher information where the search prefers another curvature.
    """
    layout = system.problem.layout
    chain = None if layout.linear else layout.parameter_slopes(point.unknowns)
    groups = list(zip(*(_derivatives(system, point, chain, part) for part in system.parts), strict=True))
    rate, old = max(groups.pop()), point.nearby and point.nearby.inverse
    # each group is let go once it is joined: all of them twice would be most of the memory of a fit
    multipliers, inverse, at_samples, ends = (_joined(groups.pop(0), old) for _ in range(4))
    outputs, jacobian = _outputs(system, point, chain, at_samples)
    terms = system.objective.terms(outputs, expected)
    white = _by_line(whitened(system.places.filled(terms.factor), jacobian))
    jacobian = _by_line(jacobian)
    hessian = system.places.by_segment(white.transpose(0, 2, 1) @ white)
    slope = _slope(system, terms.slope, jacobian)
    quadratic = Quadratic(hessian, slope, ends, point.jumps, layout.initial_derivative(point.unknowns))
    return Linearisation(quadratic, outputs, jacobian, terms.factor, multipliers, inverse, rate, point.path)


def _by_line(per_place: np.ndarray) -> np.ndarray:
    """(lines, places, rows, columns) -> (lines, places * rows, columns)."""
    lines, places, rows, columns = per_place.shape
    return per_place.reshape(lines, places * rows, columns)


def _slope(system: Discretisation, slope: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """(segments, columns): slope' jacobian, summed over the samples (samples, rows) of each segment."""
    lines = system.places.filled(slope).reshape(len(jacobian), 1, -1)
    return system.places.by_segment((lines @ jacobian)[:, 0])


def _outputs(
    system: Discretisation, point: Point, chain: np.ndarray | None, at_samples: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the objective (samples, rows) and their derivatives (lines, places, rows, columns).

    `at_samples` are the derivatives of the states there (lines, places, states, columns).
    """
    if system.selected is not None:
        return point.outputs, at_samples[:, :, system.selected]
    outputs, out_x, out_p = system.linearised_outputs(point.sampled, point.params)
    jacobian = system.places.filled(out_x) @ at_samples
    out_p = out_p[..., system.problem.layout.free_columns]
    if chain is not None:
        out_p *= system.of_samples(chain)[..., None, :]
    jacobian[..., point.states.shape[1] :] += system.places.filled(out_p)
    return outputs, jacobian


def _joined(parts: tuple[np.ndarray, ...], whole: np.ndarray | None) -> np.ndarray:
    """The parts as one array: `whole` itself where they are its parts."""
    if whole is not None and all(part.base is whole for part in parts):
        return whole
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _derivatives(system: Discretisation, point: Point, chain: np.ndarray | None, part: Part):
    """Derivatives of path, samples and ends on a part of the mesh: (S, inverse, at samples, ends, rate).

    `chain` (experiments, free parameters) is d natural / d internal, or None where that is 1 everywhere.
    """
    mine = part.segments
    params = system.spread(point.params)
    field, nearby = system.field.part(mine), point.nearby and point.nearby.part(mine)
    _, wrt_x, wrt_p = field.linearise(point.path[mine], params if params.ndim == 1 else params[mine])
    wrt_p = wrt_p[..., system.problem.layout.free_columns]
    if chain is not None:
        chain = system.spread(chain)
        wrt_p *= (chain if chain.ndim == 1 else chain[mine])[..., None, :]
    solved, inverse, rate = _solved(field.mesh, wrt_x, right_sides(field.mesh, wrt_p), nearby)
    multipliers = solved.reshape(*wrt_p.shape[:3], -1)
    ends = end_derivatives(field.mesh, part.linked, multipliers)
    return multipliers, inverse, system.derivatives_at_samples(multipliers, part), ends, rate


def _solved(
    mesh: Segments, wrt_x: np.ndarray, right: np.ndarray, nearby: Nearby | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """(I - h A (x) f_x)^-1 right, an inverse of the matrix, and the part of an error that a sweep with it leaves.

    The inverse is the one from nearby where a few sweeps with it are exact enough: products of small matrices are much
    cheaper than inverses. They begin with the derivatives from there, which differ by about as much as the matrices do.
    """
    if nearby is not None:
        old, known, states = nearby.inverse, nearby.multipliers is not None, wrt_x.shape[2]
        solved = nearby.multipliers.reshape(right.shape) if known else old @ right
        first, last = (np.maximum.reduce(np.abs(solved[:, k])) for k in (slice(states), slice(-states, None)))
        unit, before = np.maximum(np.maximum(first, last), 1e-300), 1.0  # each derivative has its own unit
        for sweep in range(SWEEPS):
            gap = defect(mesh, wrt_x, right, solved)
            error = relative_size(gap.reshape(len(gap), -1, *unit.shape), unit)
            rate = nearby.rate + error if known and not sweep else error / before
            if not rate < NEAR:
                break
            solved = solved + old @ gap
            if error * rate < EXACT:
                return solved, old, rate
            before = error
    inverse = _inverse(newton_matrix(mesh, wrt_x))
    return inverse @ right, inverse, 0.0


def point_at(
    system: Discretisation, unknowns, states, path, params=None, slopes=None, residual=np.nan, nearby=None
) -> Point:
    """The point with these unknowns and this path, whether it is contracted or not."""
    mesh = system.mesh
    with np.errstate(all="ignore"):
        if params is None:
            params = system.parameters(unknowns)
        if slopes is None:
            slopes = system.field.slopes(path, system.spread(params))
        jumps = end_states(mesh, states, path)[mesh.linked_rows] - states[mesh.inner_rows]
        sampled = system.at_samples(states, path)
        outputs = system.outputs(sampled, params)
        data = system.value(unknowns, outputs)
    return Point(unknowns, params, states, path, slopes, jumps, sampled, outputs, data, residual, nearby)


def evaluate(
    system: Discretisation,
    unknowns,
    states,
    path,
    scale,
    nearby: Nearby | None = None,
    enough: float = CONTRACTED,
) -> Point | None:
    """Contract the path and evaluate jumps and data; None when it does not contract or is not finite.

    Without `nearby` Newton matrices are inverted where the path is. `enough` is the |u - P u| relative to
    the scale at which to stop.
    """
    params = system.parameters(unknowns)
    spread = system.spread(params)
    with np.errstate(all="ignore"):
        path, slopes, error, nearby = _contracted(system, states, path, spread, scale, nearby, enough)
    if not error < max(TOLERATED, TIMES_ENOUGH * enough):
        return None
    point = point_at(system, unknowns, states, path, params, slopes, error, nearby)
    return point if np.isfinite(point.data) and np.isfinite(point.jumps).all() else None


def _contracted(system: Discretisation, states, path, spread, scale, nearby: Nearby | None, enough: float):
    """The contracted path, f along it, the largest |u - P u| that is left, and what is nearby if it is of use.

    First with one Newton matrix a segment; where that fails, from the beginning with fresh matrices and short steps.
    """
    first, limit = path, max(TOLERATED, TIMES_ENOUGH * enough)
    error, rate = np.inf, 0.0
    for left in reversed(range(CONTRACTIONS)):
        slopes = system.field.slopes(path, spread)
        gap = apply(system.mesh, states, slopes) - path
        before, error = error, relative_size(gap, scale)
        rate = max(rate, error / before)
        if error < enough or not np.isfinite(error) or not left:
            break
        if nearby is None:
            matrix = newton_matrix(system.mesh, system.field.linearise(path, spread)[1])
            nearby = Nearby(_inverse(matrix))
        path = path + (nearby.inverse @ gap.reshape(len(path), -1, 1)).reshape(path.shape)
    if error < limit:
        return path, slopes, error, nearby if rate < NEAR else None
    failed = np.flatnonzero(~((np.abs(gap) / scale).max(axis=(1, 2)) < limit))
    path = path.copy()
    path[failed] = _damped_newton(system, failed, states, first, spread, scale, enough)
    slopes = system.field.slopes(path, spread)
    return path, slopes, relative_size(apply(system.mesh, states, slopes) - path, scale), None


def relative_size(path: np.ndarray, scale: np.ndarray) -> float:
    """The largest value of an array (segments, nodes, states) relative to the scale of each state."""
    largest = np.maximum.reduce(np.abs(path.reshape(len(path), -1)))
    return float(np.maximum.reduce(largest.reshape(path.shape[1:]) / scale, axis=None))


def _damped_newton(system: Discretisation, chosen, states, path, spread, scale, enough: float) -> np.ndarray:
    """Newton's method for u = P u on the chosen segments, with fresh matrices and a step length for each segment."""
    field = system.field.part(chosen)
    states, path = states[chosen], path[chosen]
    spread = spread if spread.ndim == 1 else spread[chosen]

    def residual(path: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gap = apply(field.mesh, states, field.slopes(path, spread)) - path
        return gap, np.nan_to_num((np.abs(gap) / scale).max(axis=(1, 2)), nan=np.inf)

    gap, error = residual(path)
    for _ in range(DAMPED_STEPS):
        if error.max() < enough or not np.isfinite(error).all():
            break
        inverse = _inverse(newton_matrix(field.mesh, field.linearise(path, spread)[1]))
        step = (inverse @ gap.reshape(len(path), -1, 1)).reshape(path.shape)
        length, done = np.ones(len(path)), error < enough
        for _ in range(HALVINGS):
            trial = path + np.where(done, 0.0, length)[:, None, None] * step
            new_gap, new_error = residual(trial)
            taken = ~done & (new_error < (1 - 0.1 * length) * error)
            path, gap = (np.where(taken[:, None, None], a, b) for a, b in ((trial, path), (new_gap, gap)))
            error, done = np.where(taken, new_error, error), done | taken
            if done.all():
                break
            length = 0.5 * length
        if not done.all():
            break
    return path


def advance(
    system: Discretisation,
    point: Point,
    linear: Linearisation,
    unknowns_step: np.ndarray,
    states_step: np.ndarray,
    scale: np.ndarray,
    positive: np.ndarray,
    enough: float = CONTRACTED,
) -> Point | None:
    """Move along the multipliers S, then contract; `positive` states lose at most nine tenths until they are small."""
    mesh, layout = system.mesh, system.problem.layout
    unknowns = np.minimum(np.maximum(point.unknowns + unknowns_step, layout.lower), layout.upper)
    states = point.states + states_step
    if positive.any():
        least = np.where(point.states > SMALL * scale, 0.1 * point.states, -SMALL * scale)
        states = np.where(positive, np.maximum(states, least), states)
    states[mesh.first], _ = layout.initial(unknowns)
    columns = mesh.columns(states - point.states, (unknowns - point.unknowns)[:, layout.columns.index])
    multipliers = linear.multipliers.reshape(len(mesh), -1, columns.shape[1])
    path = point.path + (multipliers @ columns[:, :, None]).reshape(point.path.shape)
    return evaluate(system, unknowns, states, path, scale, linear.nearby, enough)


def curvature_of_step(system: Discretisation, point: Point, linear: Linearisation, trial: Point):
    """What the linear model missed on the way from a point to a trial: slope (segments, columns) and jumps.

    The point need not be where the model was made.

    A second solve with the same factors takes it back (a second-order correction; for small steps this is geodesic
    acceleration): e = r(trial) - r - J d for the data, likewise for the jumps.
    """
    mesh, layout = system.mesh, system.problem.layout
    moved = trial.states - point.states
    step = mesh.columns(moved, (trial.unknowns - point.unknowns)[:, layout.columns.index])
    jumps = point.jumps + (linear.quadratic.end @ step[mesh.linked_rows][..., None])[..., 0]
    jumps -= moved[mesh.inner_rows]
    change = linear.jacobian @ system.places.of_lines(step)[..., None]
    outputs = point.outputs + system.places.taken(change.reshape(len(change), system.places.width, -1))
    slope = _slope(system, curved(linear.factor, trial.outputs - outputs), linear.jacobian)
    return slope, trial.jumps - jumps


def contract_from(
    system: Discretisation, unknowns, states, scale, enough: float = CONTRACTED
) -> tuple[Point | None, np.ndarray]:
    """Contract straight lines between guessed knot states with fresh Newton matrices.

    `enough` is the |u - P u| relative to the scale at which to stop. Returns the point, or None and the segments that
    are too long for one.
    """
    mesh, layout = system.mesh, system.problem.layout
    states = states.copy()
    states[mesh.first], _ = layout.initial(unknowns)
    spread = system.spread(system.parameters(unknowns))
    following = states.copy()
    following[mesh.linked] = states[mesh.linked + 1]
    path = states[:, None, :] + mesh.rule.nodes[:, None] * (following - states)[:, None, :]
    nearby = None
    with np.errstate(all="ignore"):
        for _ in range(NEWTON_STEPS):
            slopes, wrt_x, _ = system.field.linearise(path, spread)
            gap = apply(mesh, states, slopes) - path
            if np.abs(gap / scale).max() < enough:
                break
            nearby = Nearby(_inverse(newton_matrix(mesh, wrt_x)))
            path = path + (nearby.inverse @ gap.reshape(len(path), -1, 1)).reshape(path.shape)
        else:
            gap = apply(mesh, states, system.field.slopes(path, spread)) - path
        failed = ~(np.abs(gap / scale).max(axis=(1, 2)) < max(TOLERATED, enough))
        if failed.any():
            return None, failed
        point = evaluate(system, unknowns, states, path, scale, nearby, enough)
        if point is None:
            failed = _unmeasured(system, unknowns, states, path)
    return point, failed


def _unmeasured(system: Discretisation, unknowns, states, path) -> np.ndarray:
    """(segments,) bool: segments whose samples have no finite outputs, as the logarithm of a state that overshot zero.

    All of them where there is no such sample.
    """
    outputs = system.outputs(system.at_samples(states, path), system.parameters(unknowns))
    found = np.zeros(len(system.mesh), bool)
    found[system.segment[~np.isfinite(outputs).all(axis=1)]] = True
    return found if found.any() else ~found


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Batched inverse; not-a-number where a matrix is singular or not finite."""
    try:
        if np.isfinite(matrix.sum()):
            return np.linalg.inv(matrix)
        return _some_inverses(matrix, np.isfinite(matrix).all(axis=(1, 2)))
    except np.linalg.LinAlgError:
        finite = np.isfinite(matrix).all(axis=(1, 2))
        regular = finite & (np.linalg.cond(np.where(finite[:, None, None], matrix, 0.0)) < 1e15)
        return _some_inverses(matrix, regular)


def carried_inverse(
    system: Discretisation, unknowns: np.ndarray, path: np.ndarray, inverse: np.ndarray, fresh: np.ndarray
) -> np.ndarray:
    """The inverses of the Newton matrices with those of the `fresh` segments (bool) made anew: in place."""
    chosen, spread = np.flatnonzero(fresh), system.spread(system.parameters(unknowns))
    field = system.field.part(chosen)
    _, wrt_x, _ = field.linearise(path[chosen], spread if spread.ndim == 1 else spread[chosen])
    inverse[chosen] = _inverse(newton_matrix(field.mesh, wrt_x))
    return inverse


def _some_inverses(matrix: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    result = np.full_like(matrix, np.nan)
    result[chosen] = np.linalg.inv(matrix[chosen])
    return result
