"""The iteration of Algorithms 1-4: projected gradient steps on z = (x, theta), Picard contraction of the path u.

One step is the paper's map (eqn:contractive_map):

    z_{k+1} = Pi[z_k - alpha grad_z L(z_k, P^n u_k)]             Pi projects onto X and Theta
    u_{k+1} = (1 - sigma) u_k + sigma P u_k                      with P at z_{k+1}

It stops by the projected gradient norm |z - Pi(z - grad_z L)|, as the plain norm does not fall at an active bound, and
by |u - P u|, as the gradient of Algorithm 2 may vanish at the start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from picardfit.collocation.adaptation import even_knots, state_scale
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Mesh, Nodes, rule
from picardfit.errors import InputError, Status
from picardfit.problem.problem import Problem, Start
from picardfit.solvers.loop import Solution
from picardfit.solvers.picard_gradient.extended_loss import (
    Candidate,
    Gradient,
    Scheme,
    Setting,
    applied,
    gradient,
    loss,
    taken_to,
)
from picardfit.solvers.picard_gradient.feasible import Feasible
from picardfit.solvers.picard_gradient.sets import ConvexSet


class PicardGradient(Protocol):
    """What the iteration needs of an algorithm."""

    @property
    def scheme(self) -> Scheme: ...

    @property
    def nodes(self) -> int: ...

    @property
    def family(self) -> Nodes: ...

    @property
    def parameter_set(self) -> ConvexSet | None: ...

    @property
    def state_set(self) -> ConvexSet | None: ...


@dataclass(frozen=True)
class State:
    """Where the iteration stands; the gradient belongs to (candidate, path)."""

    setting: Setting
    candidate: Candidate  # z_k
    path: np.ndarray  # (segments, nodes, states): u_k
    gradient: Gradient
    slope: float  # norm of the projected gradient
    gap: float  # largest |u - P u| of the last contraction
    rate: float  # alpha
    status: Status | None = None

    @property
    def loss(self) -> float:
        return self.gradient.loss

    @property
    def jump(self) -> float:
        return float(np.abs(self.gradient.jumps / self.setting.scale).max(initial=0.0))

    @property
    def residual(self) -> float:
        """Largest |u - P u| before the last contraction; NaN for methods without a path of their own."""
        return self.gap if self.setting.scheme.sigma else float("nan")


def init(method: PicardGradient, problem: Problem, start: Start) -> State:
    """u_0 = x_0, constant on every segment (lifted) or over the whole span (chained)."""
    if problem.scatter is not None:
        raise InputError("solvers.least_squares_only", type(method).__name__)
    scheme = method.scheme
    knots = tuple(
        even_knots(problem, e, one) for e, one in enumerate(segment_lengths(problem, start, scheme))
    )
    system = Discretisation(problem, Mesh(rule(method.nodes, method.family), knots))
    feasible = Feasible(problem.layout, method.parameter_set, method.state_set)
    setting = Setting(system, scheme, feasible, state_scale(problem, [t[1] for t in start.tables]))
    guessed = np.concatenate([start.states(k[1:-1], e) for e, k in enumerate(knots)])
    inner = guessed if scheme.lifted else guessed[:0]
    coordinates, inner = feasible.project(feasible.coordinates(start.unknowns), inner)
    first = setting.candidate(feasible.unknowns(coordinates), inner)
    path = first.x[setting.at_nodes.owner].reshape(len(system.mesh), len(system.mesh.rule.nodes), -1)
    state = _assessed(setting, first, path, np.inf if scheme.sigma else 0.0, scheme.rate or 1.0, None)
    return _checked_start(state)


def step(_: PicardGradient, state: State) -> State:
    """One iteration: z_{k+1} by a projected gradient step at u_k, then u_{k+1} by contraction."""
    sigma, path, gap = state.setting.scheme.sigma, state.path, 0.0
    with np.errstate(all="ignore"):
        found = projected_step(state)
        if found is None:
            return replace(state, status=Status.STALLED)
        candidate, rate = found
        if sigma:
            move = applied(state.setting, candidate, path) - path
            path, gap = path + sigma * move, float(np.abs(move).max())
    return _assessed(state.setting, candidate, path, gap, rate, state)


def solution(_: PicardGradient, state: State) -> Solution:
    """The unknowns with their path; chained segments start where P u, which is continuous, stands."""
    setting, candidate, path = state.setting, state.candidate, state.path
    system, mesh = setting.system, setting.system.mesh
    if setting.scheme.lifted:
        return Solution(system, candidate.unknowns, candidate.x, path, state.gradient.jumps)
    with np.errstate(all="ignore"):
        for _k in range(0 if setting.scheme.sigma else setting.scheme.order):
            path = applied(setting, candidate, path)
        slopes = system.field.slopes(path, candidate.spread).reshape(-1, path.shape[-1])
    starts = taken_to(mesh, np.arange(len(mesh)), np.zeros((len(mesh), path.shape[1])), False)
    jumps = np.zeros((len(mesh.linked), path.shape[-1]))
    return Solution(system, candidate.unknowns, starts(candidate.x, slopes), path, jumps)


def projected_step(state: State) -> tuple[Candidate, float] | None:
    """z_{k+1} = Pi[z_k - alpha grad L] and the next rate alpha; None when no rate lowers the loss.

    A given rate stays. Otherwise backtracking: L(z+) <= L(z) - c/alpha |z+ - z|^2 up to rounding. The rate doubles when
    the first one tried is good, unless rounding errors hide the decrease, which then tells nothing about the rate.
    """
    setting, here, slope, rate = state.setting, state.candidate, state.gradient, state.rate
    feasible, search = setting.feasible, setting.scheme.line_search
    at = feasible.coordinates(here.unknowns)
    rounding = search.rounding * abs(slope.loss)
    while rate > search.least_rate:
        ahead, knots = feasible.project(at - rate * slope.unknowns, here.knots - rate * slope.knots)
        candidate = setting.candidate(feasible.unknowns(ahead), knots)
        if setting.scheme.rate is not None:
            return candidate, rate
        wanted = search.sufficient / rate * feasible.square(ahead - at, knots - here.knots)
        decrease = slope.loss - loss(setting, candidate, state.path)
        if decrease >= wanted - rounding:
            doubles = rate == state.rate and decrease > search.visible * rounding
            return candidate, 2 * rate if doubles else rate
        rate /= 2
    return None


def segment_lengths(problem: Problem, start: Start, scheme: Scheme) -> np.ndarray:
    """(experiments,): length of the segments of each experiment, T = 1/K_x where neither T nor J is given."""
    spans = np.array([np.subtract(*problem.span(e)[::-1]) for e in range(problem.layout.lower.shape[0])])
    if scheme.segments is not None:
        return spans / scheme.segments
    if scheme.segment_length is not None:
        return np.full(len(spans), scheme.segment_length)
    length = 1 / max(lipschitz(problem, start), np.finfo(float).tiny)
    return np.maximum(length, spans / scheme.most_segments)


def lipschitz(problem: Problem, start: Start, points: int = 101) -> float:
    """K_x: the largest spectral norm of f_x at points along the start path, with the start's parameters."""
    params, largest = problem.layout.model_values(start.unknowns), 0.0
    for e, one in enumerate(problem.experiments):
        times = np.union1d(np.linspace(*problem.span(e), points), one.times)
        inputs = one.inputs_at(problem.model.inputs, times)
        _, wrt_x, _ = problem.model.rhs.linearise(times, start.states(times, e), params[e], inputs)
        finite = wrt_x[np.isfinite(wrt_x).all(axis=(1, 2))]
        largest = max(largest, np.linalg.norm(finite, 2, axis=(1, 2)).max(initial=0.0))
    return float(largest)


def _assessed(
    setting: Setting,
    candidate: Candidate,
    path: np.ndarray,
    gap: float,
    rate: float,
    before: State | None,
) -> State:
    """The state at a new point with its gradient; if that is not finite, the state before it with a status."""
    with np.errstate(all="ignore"):
        slope = gradient(setting, candidate, path)
        feasible, at = setting.feasible, setting.feasible.coordinates(candidate.unknowns)
        ahead, knots_ahead = feasible.project(at - slope.unknowns, candidate.knots - slope.knots)
        norm = float(np.sqrt(feasible.square(at - ahead, candidate.knots - knots_ahead)))
    state = State(setting, candidate, path, slope, norm, gap, rate)
    if not (np.isfinite(slope.loss) and np.isfinite(norm) and np.isfinite(path).all()):
        if before is None:
            return replace(state, status=Status.NOT_FINITE)
        return replace(before, status=Status.DIVERGED)
    small = setting.scheme.tolerance
    return replace(state, status=Status.CONVERGED) if norm <= small and gap <= small else state


def _checked_start(state: State) -> State:
    """The first state, which tells a model that cannot be evaluated from iterates P^n u_0 that overflow."""
    setting, candidate, path = state.setting, state.candidate, state.path
    with np.errstate(all="ignore"):
        finite = np.isfinite(
            applied(setting, candidate, path)
        ).all()  # the gradient of order 0 does not contain f
    if not finite:
        return replace(state, status=Status.NOT_FINITE)
    iterated = state.status is Status.NOT_FINITE and setting.scheme.order > 1
    overflows = iterated and _is_finite(setting, candidate, path)
    return replace(state, status=Status.DIVERGED) if overflows else state


def _is_finite(setting: Setting, candidate: Candidate, path: np.ndarray) -> bool:
    """Whether model and observables can be evaluated and differentiated along the path."""
    with np.errstate(all="ignore"):
        points = setting.interpolation @ path.reshape(-1, path.shape[-1])
        parts = (
            *setting.system.field.linearise(path, candidate.spread),
            *setting.system.linearised_outputs(points, candidate.params),
        )
    return all(np.isfinite(part).all() for part in parts)
