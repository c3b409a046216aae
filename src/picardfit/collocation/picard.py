"""The Picard operator on a mesh, its derivatives, and Newton's contraction to its fixed point u = P u.

On each segment, with h its length and A the integration weights of the rule:

    (P u)_i = x + h * sum_k A[i, k] f(t_k, u_k, p)

Axis order: path u (segments, nodes, states), start states x (segments, states), parameters p (segments, 1, parameters);
derivatives carry one more axis with the columns [states x | free parameters].

Applying P itself contracts only where h |f_x| is small. Newton's method for u - P u = 0,

    u <- u + (I - h A (x) f_x)^-1 (P u - u),

has the same fixed point and contracts for stiff equations too. With matrices from a path close by it still contracts,
only linearly, and that costs less than new matrices. Segments on which it does not contract are tried again with fresh
matrices and shorter steps.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from picardfit.collocation.elimination import Plan, inverted
from picardfit.collocation.mesh import TINY, AnySegments, Indices, Rule, Segments
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.model.measurement import Padded
from picardfit.problem.objective import CONTRACTED


@dataclass(frozen=True)
class Field:
    """The right-hand side bound to the nodes of a mesh and to the inputs there."""

    rhs: BatchedMap | NumericMap | Padded
    mesh: AnySegments
    inputs: Array  # (segments, nodes, inputs)
    plan: Plan | None = None  # how Newton matrices are eliminated state by state; None: they are inverted

    @property
    def kinked(self) -> bool:
        """Whether the right-hand side is known to have kinks, as formulas show."""
        return isinstance(self.rhs, BatchedMap) and self.rhs.kinked

    def part(self, segments: slice | Indices) -> Field:
        """The field on some of the segments."""
        mesh = self.mesh
        if isinstance(segments, slice) and segments == slice(0, len(mesh.length)):
            return self
        some = Segments(mesh.rule, mesh.length[segments], mesh.node_times[segments], mesh.integral[segments])
        return Field(self.rhs, some, self.inputs[segments], self.plan)

    def slopes(self, path: Array, params: Array) -> Array:
        """f at the nodes: (segments, nodes, states)."""
        return self.rhs.value(self.mesh.node_times, path, params, self.inputs)

    def linearise(self, path: Array, params: Array) -> tuple[Array, Array, Array]:
        """f, its derivatives with respect to states and to parameters, at the nodes."""
        return self.rhs.linearise(self.mesh.node_times, path, params, self.inputs)

    def inverses(self, wrt_x: Array) -> Array:
        """Inverses of the Newton matrices I - h A (x) f_x, or eliminated ones if there is a plan: (segments, ...)."""
        if self.plan is None:
            return inverted(newton_matrix(self.mesh, wrt_x))
        rows, columns = self.plan.entries.T
        return self.plan.eliminate(self.mesh.integral, wrt_x[:, :, rows, columns].transpose(2, 0, 1))

    def derivatives(self, path: Array, params: Array) -> tuple[Array, Array]:
        """Non-zero derivatives at the nodes with respect to states and to parameters: (entries, segments, nodes)."""
        assert isinstance(self.rhs, BatchedMap)  # others have no plan
        return self.rhs.derivatives(self.mesh.node_times, path, params, self.inputs)

    def inverses_along(self, path: Array, params: Array) -> Array:
        """`inverses` at a path."""
        if self.plan is None:
            return self.inverses(self.linearise(path, params)[1])
        return self.plan.eliminate(self.mesh.integral, self.derivatives(path, params)[0])

    def solve(self, inverses: Array, right: Array) -> Array:
        """(I - h A (x) f_x)^-1 right, with such `inverses`: (segments, nodes * states, columns)."""
        return inverses @ right if self.plan is None else self.plan.solve(inverses, right.copy())

    def newton_step(self, path: Array, params: Array, gap: Array) -> Array:
        """(I - h A (x) f_x)^-1 gap with matrices at a path that are not kept: cheaper than to invert them."""
        right = gap.reshape(len(path), -1, 1)
        if self.plan is not None:
            return self.solve(self.inverses_along(path, params), right).reshape(path.shape)
        matrix = newton_matrix(self.mesh, self.linearise(path, params)[1])
        if np.isfinite(matrix.sum()):
            with suppress(np.linalg.LinAlgError):
                return np.asarray(np.linalg.solve(matrix, right), float).reshape(path.shape)
        return (inverted(matrix) @ right).reshape(path.shape)

    def solve_transposed(self, inverses: Array, left: Array) -> Array:
        """left (I - h A (x) f_x)^-1 of rows (segments, 1, nodes * states)."""
        if self.plan is None:
            return left @ inverses
        return self.plan.solve_transposed(inverses, left.transpose(0, 2, 1).copy()).transpose(0, 2, 1)


def apply(mesh: AnySegments, x: Array, slopes: Array) -> Array:
    """P u at the nodes, given f along u."""
    return x[:, None, :] + mesh.integral @ slopes


def end_states(mesh: AnySegments, x: Array, path: Array) -> Array:
    """The path at the end of every segment: (segments, states)."""
    if mesh.rule.nodes[-1] == 1.0:  # the end is a node
        return path[:, -1]
    weights = mesh.rule.along(np.ones(1))[0]
    ends: Array = weights[0] * x + weights[1:] @ path
    return ends


def integrate(mesh: AnySegments, moved: Array) -> Array:
    """h A applied along the nodes of an array (segments, nodes, states, columns)."""
    return (mesh.integral @ moved.reshape(*moved.shape[:2], -1)).reshape(moved.shape)


def newton_matrix(mesh: AnySegments, wrt_x: Array) -> Array:
    """I - h A (x) f_x of each segment: (segments, nodes * states, nodes * states).

    Newton's contraction to u = P u and the exact multipliers (n = infinity) both solve with it.
    """
    segments, nodes, states, _ = wrt_x.shape
    size = nodes * states
    scaled = -mesh.length[:, None, None, None] * wrt_x
    rows = scaled.transpose(0, 2, 1, 3).reshape(segments, 1, states, size)  # long rows: fast to multiply
    matrix = _repeated_weights(mesh.rule, states) * rows
    matrix.reshape(segments, size * size)[:, :: size + 1] += 1
    return matrix.reshape(segments, size, size)


@lru_cache(maxsize=32)
def _repeated_weights(rule: Rule, states: int) -> Array:
    """(nodes, 1, nodes * states): each weight once for every state."""
    return np.repeat(rule.weights, states, axis=1)[:, None, :]


def defect(mesh: AnySegments, wrt_x: Array, right: Array, solved: Array) -> Array:
    """right - (I - h A (x) f_x) solved, without forming the matrix: (segments, nodes * states, columns)."""
    moved = wrt_x @ solved.reshape(*wrt_x.shape[:3], -1)
    return right - solved + integrate(mesh, moved).reshape(right.shape)


def exact_multipliers(field: Field, inverses: Array, wrt_p: Array) -> Array:
    """S = (I - h A (x) f_x)^-1 [I, h A f_p]: derivative of the fixed point u = P u by (x, p).

    `inverses` are those of the field. Returns (segments, nodes, states, states + parameters).
    """
    return field.solve(inverses, right_sides(field.mesh, wrt_p)).reshape(*wrt_p.shape[:3], -1)


@lru_cache
def _unit(states: int) -> Array:
    return np.eye(states)


def right_sides(mesh: AnySegments, wrt_p: Array) -> Array:
    """[I, h A f_p], the right-hand sides for `newton_matrix`: (segments, nodes * states, states + parameters)."""
    segments, nodes, states, columns = wrt_p.shape
    right = np.empty((segments, nodes, states, states + columns))
    right[..., :states] = _unit(states)
    right[..., states:] = integrate(mesh, wrt_p)
    return right.reshape(segments, nodes * states, states + columns)


def end_derivatives(mesh: AnySegments, linked: Indices, multipliers: Array) -> Array:
    """(linked, states, columns): derivative of the end state of the `linked` segments, from those of the path."""
    if mesh.rule.nodes[-1] == 1.0:
        last: Array = multipliers[linked, -1]
        return last
    weights = mesh.rule.along(np.ones(1))[0]
    flat = multipliers[linked].reshape(len(linked), len(weights) - 1, -1)
    ends: Array = (weights[1:] @ flat).reshape(len(linked), *multipliers.shape[2:])
    ends[..., : ends.shape[1]] += weights[0] * np.eye(ends.shape[1])
    return ends


def residual(field: Field, x: Array, path: Array, params: Array) -> Array:
    """u - P u at the nodes."""
    return path - apply(field.mesh, x, field.slopes(path, params))


def tails(mesh: AnySegments, slopes: Array) -> Array:
    """(segments, states): size of the last two Legendre modes of h f, an estimate of what the mesh does not resolve."""
    modes = mesh.rule.modes[-2:] @ slopes
    size: Array = mesh.length[:, None] * np.abs(modes).max(axis=1)
    return size


@dataclass(frozen=True)
class Newton:
    """How many steps Newton's method takes, with which matrices and which step lengths."""

    steps: int  # at most
    fresh: bool = False  # whether every step makes new matrices; otherwise all steps use the first ones
    persist: bool = False  # whether to continue on the other segments when some are not finite
    halvings: int = 0  # step lengths 1, 1/2, 1/4, ... that are tried on each segment; 0: full steps only
    sufficient: float = 0.0  # required decrease of |u - P u|, as a fraction of the step length (Armijo)
    kept: bool = True  # whether fresh matrices are inverted, to be used again
    reach: float = np.inf  # ends where half of the segments will not come to this |u - P u| in the steps left


@dataclass(frozen=True)
class Contraction:
    """When a contraction ends and when it has failed; |u - P u| is relative to the scale of each state.

    Newton's method keeps its matrices on a path that moved a little (`quick`), makes new ones on a guessed path
    (`first`), and also tries shorter steps on segments where the quick one failed (`careful`). A right-hand side with
    kinks, such as sqrt(max(x, 0)), gets more and shorter ones (`patient`), also where the quick steps go to and fro.
    """

    tolerance: float = CONTRACTED  # |u - P u| that counts as a fixed point, where the contraction ends
    acceptable: float = 1e-6  # |u - P u| at which a trial point is still accepted
    slack: float = 10.0  # ... or this multiple of the tolerance, if that is more
    reusable: float = 0.02  # fraction of |u - P u| that a step may leave if derivatives reuse its matrices
    cycling: float = (
        1.0  # fraction of |u - P u| that a step leaves where Newton's method goes to and fro across a kink
    )
    doubtful: float = (
        30.0  # times that, promised by the pace of a quick step: later ones are faster (x' = -a x: 27)
    )
    quick_steps: int = 7  # at most; this and the numbers below are chosen
    first_steps: int = 6
    careful_steps: int = 10
    careful_lengths: int = 4  # 1, 1/2, 1/4, ... that are tried in each of them
    patient_steps: int = 40  # of a right-hand side with kinks, at which slopes may be infinite
    patient_lengths: int = 8
    sufficient: float = 0.1  # required decrease of |u - P u|, as a fraction of the step length (Armijo)

    @cached_property
    def limit(self) -> float:
        """The largest |u - P u| that is accepted."""
        return max(self.acceptable, self.slack * self.tolerance)

    @cached_property
    def quick(self) -> Newton:
        return Newton(self.quick_steps, reach=self.doubtful * self.limit)

    @cached_property
    def first(self) -> Newton:
        return Newton(self.first_steps, fresh=True, persist=True)

    @cached_property
    def careful(self) -> Newton:
        lengths, least = self.careful_lengths, self.sufficient
        return Newton(self.careful_steps, fresh=True, halvings=lengths, sufficient=least, kept=False)

    @cached_property
    def patient(self) -> Newton:
        return replace(self.careful, steps=self.patient_steps, halvings=self.patient_lengths)


USUAL = Contraction()


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
    inverse: Array | None  # of the Newton matrices that were used last (`Field.inverses`)


def contract(
    equation: FixedPoint, path: Array, inverse: Array | None = None, settings: Contraction = USUAL
) -> Contracted:
    """Contract a path to the tolerance of the settings, first with one matrix for each segment.

    Segments on which that fails go on with fresh matrices and shorter steps, where |u - P u| is smaller: at the path
    given or at the one reached. Across a kink neither the pace nor the size of |u - P u| tells how far a path is from
    its end, so there they begin at the path given. `inverse` of the result is None unless its matrices contract fast
    enough to be reused for derivatives.
    """
    kinked = equation.field.kinked
    hasty = replace(settings.quick, reach=np.inf) if kinked else settings.quick
    quick = newton(equation, path, settings.tolerance, hasty, inverse)
    cycles = kinked and quick.error > settings.tolerance and quick.rate > settings.cycling
    if quick.error < settings.limit and not cycles:
        return quick if quick.rate < settings.reusable else replace(quick, inverse=None)
    allowed = settings.tolerance if cycles else settings.limit
    reached = sizes(quick.gap, equation.scale)
    failed = np.flatnonzero(~(reached < allowed))
    some, begin, path = equation.part(failed), path[failed], quick.path.copy()
    if not kinked:
        closer = reached[failed] < sizes(some.gap(begin)[1], equation.scale)
        begin[closer] = path[failed][closer]
    careful = settings.patient if kinked else settings.careful
    path[failed] = newton(some, begin, settings.tolerance, careful).path
    slopes, gap = equation.gap(path)
    return Contracted(path, slopes, gap, relative_size(gap, equation.scale), np.inf, None)


def newton(
    equation: FixedPoint, path: Array, enough: float, how: Newton, inverse: Array | None = None
) -> Contracted:
    """Newton's method for u = P u, until |u - P u| <= `enough` or the limits of `how` are reached.

    `inverse`: inverses of the Newton matrices of this path or one close by; computed here if None.
    """
    error, rate, left = np.inf, 0.0, how.steps
    slopes, gap = equation.gap(path)
    last = gap
    while True:
        before, error = error, relative_size(gap, equation.scale)
        rate = max(rate, error / before)
        if error <= enough or not left or not (how.persist or np.isfinite(error)):
            break
        if error * min(1.0, error / before) ** left > how.reach and _hopeless(
            equation, gap, last, left, how.reach
        ):
            break
        last = gap
        if how.fresh and not how.kept:
            step = equation.field.newton_step(path, equation.params, gap)
        else:
            if inverse is None or how.fresh:
                inverse = equation.field.inverses_along(path, equation.params)
            step = equation.field.solve(inverse, gap.reshape(len(path), -1, 1)).reshape(path.shape)
        left -= 1
        if not how.halvings:
            path = path + step
            slopes, gap = equation.gap(path)
            continue
        path, slopes, gap, lower = _shortened(equation, path, slopes, gap, step, enough, how)
        if not lower:
            left = 0
    return Contracted(path, slopes, gap, error, rate, inverse)


def _hopeless(equation: FixedPoint, gap: Array, last: Array, left: int, reach: float) -> bool:
    """Whether at their present pace half of the segments will not reach |u - P u| <= `reach` in the steps left."""
    now, before = sizes(gap, equation.scale), sizes(last, equation.scale)
    there = now * np.minimum(1.0, now / np.maximum(before, TINY)) ** left
    return bool(2 * np.count_nonzero(there > reach) > len(now))


def _shortened(
    equation: FixedPoint, path: Array, slopes: Array, gap: Array, step: Array, enough: float, how: Newton
) -> tuple[Array, Array, Array, bool]:
    """Path, slopes and gap after a step that is halved on each segment until |u - P u| falls; whether it did on all."""
    error, length = sizes(gap, equation.scale), np.ones(len(path))
    done = error < enough
    for _ in range(how.halvings):
        trial = path + np.where(done, 0.0, length)[:, None, None] * step
        slopes_there, gap_there = equation.gap(trial)
        found = sizes(gap_there, equation.scale)
        taken = ~done & (found < (1 - how.sufficient * length) * error)
        here = taken[:, None, None]
        path, slopes = np.where(here, trial, path), np.where(here, slopes_there, slopes)
        gap, done = np.where(here, gap_there, gap), done | taken
        if done.all():
            break
        length = 0.5 * length
    return path, slopes, gap, bool(done.all())


def relative_size(path: Array, scale: Array) -> float:
    """The largest value of an array (segments, nodes, states) relative to the scale of each state."""
    largest = np.maximum.reduce(np.abs(path.reshape(len(path), -1)))
    return float(np.maximum.reduce(largest.reshape(path.shape[1:]) / scale, axis=None))


def sizes(path: Array, scale: Array) -> Array:
    """(segments,): the largest relative value of each segment, infinite where a value is not a number."""
    largest: Array = (np.abs(path) / scale).max(axis=(1, 2))
    return np.nan_to_num(largest, nan=np.inf)
