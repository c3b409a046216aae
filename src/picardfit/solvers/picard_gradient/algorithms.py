"""Algorithms 1-4 of the paper: projected gradient steps on z = (x, theta), Picard contraction of the path u.

One step is the paper's map (eqn:contractive_map):

    z_{k+1} = Pi[z_k - alpha grad_z L(z_k, P^n u_k)]             Pi projects onto X and Theta
    u_{k+1} = (1 - sigma) u_k + sigma P u_k                      with P at z_{k+1}

The gradient holds u fixed (extended_loss.py). The algorithms differ in the order n, in sigma (0: Algorithm 1 keeps u),
and in whether the segments have start states of their own (Algorithm 4) or are chained (Algorithms 1-3).
The iteration stops by the projected gradient norm |z - Pi(z - grad_z L)|, as the plain norm does not fall at an active
bound, and by |u - P u|, as the gradient of Algorithm 2 may vanish at the start.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from picardfit.checks import as_number, as_whole, check_positive, is_number
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
from picardfit.solvers.picard_gradient.sets import ConvexSet, Feasible, check_set


@dataclass(frozen=True, kw_only=True)
class PicardGradient:
    """The settings that Algorithms 1-4 share, which `GradientDescent` describes, and their iteration."""

    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    segments: int | None = 10
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False
    lifted: ClassVar[bool] = False  # whether the segments have start states of their own

    def __post_init__(self) -> None:
        _check(self)

    @property
    def scheme(self) -> Scheme:
        """What distinguishes the algorithm: settings that it does not have keep the defaults of `Scheme`."""
        known = {one.name for one in fields(Scheme)}
        mine = {one.name: getattr(self, one.name) for one in fields(self) if one.name in known}
        return Scheme(lifted=self.lifted, **mine)

    def init(self, problem: Problem, start: Start) -> State:
        """u_0 = x_0, constant on every segment (lifted) or over the whole span (chained)."""
        if problem.scatter is not None:
            raise InputError("solvers.least_squares_only", type(self).__name__)
        for name in problem.model.increments:
            raise InputError("solvers.no_increments", name, method=type(self).__name__)
        scheme, lengths = self.scheme, segment_lengths(problem, start, self.scheme)
        knots = tuple(even_knots(problem, e, length) for e, length in enumerate(lengths))
        system = Discretisation(problem, Mesh(rule(self.nodes, self.family), knots))
        feasible = Feasible(problem.layout, self.parameter_set, self.state_set)
        setting = Setting(system, scheme, feasible, state_scale(problem, [t[1] for t in start.tables]))
        guessed = np.concatenate([start.states(k[1:-1], e) for e, k in enumerate(knots)])
        inner = guessed if scheme.lifted else guessed[:0]
        coordinates, inner = feasible.project(feasible.coordinates(start.unknowns), inner)
        first = setting.candidate(feasible.unknowns(coordinates), inner)
        path = first.x[setting.at_nodes.owner].reshape(len(system.mesh), len(system.mesh.rule.nodes), -1)
        state = _assessed(setting, first, path, np.inf if scheme.sigma else 0.0, scheme.rate or 1.0)
        return _checked_start(state)

    def step(self, state: State) -> State:
        """z_{k+1} by a projected gradient step at u_k, then u_{k+1} by contraction."""
        sigma, path, gap = state.setting.scheme.sigma, state.path, 0.0
        with np.errstate(all="ignore"):
            found = projected_step(state)
            if found is None:
                return replace(state, status=Status.STALLED)
            candidate, rate = found
            if sigma:
                move = applied(state.setting, candidate, path) - path
                path, gap = path + sigma * move, float(np.abs(move).max())
        after = _assessed(state.setting, candidate, path, gap, rate)
        return replace(state, status=Status.DIVERGED) if after.status is Status.NOT_FINITE else after

    def solution(self, state: State) -> Solution:
        """The unknowns with their path; chained segments start at the values of P u, which is continuous."""
        setting, candidate, path = state.setting, state.candidate, state.path
        system, mesh = setting.system, setting.system.mesh
        if setting.scheme.lifted:
            return Solution(system, candidate.unknowns, candidate.x, path, state.gradient.jumps)
        with np.errstate(all="ignore"):
            for _ in range(0 if setting.scheme.sigma else setting.scheme.order):
                path = applied(setting, candidate, path)
            slopes = system.field.slopes(path, candidate.spread).reshape(-1, path.shape[-1])
        starts = taken_to(system, np.arange(len(mesh)), np.zeros((len(mesh), path.shape[1])), False)
        jumps = np.zeros((len(mesh.linked), path.shape[-1]))
        return Solution(system, candidate.unknowns, starts(candidate.x, slopes), path, jumps)


@dataclass(frozen=True)
class GradientDescent(PicardGradient):
    """Algorithm 1: gradient descent on L(x, theta, P^n u_0) with u_0 = x_0 for good.

    `order`: n, large enough for P^n u_0 to be near the solution over the whole span. `rate`: alpha, None for
    a backtracking line search. `tolerance`: epsilon, for the projected gradient norm and |u - P u|.
    `segments`, `nodes`, `family`: the grid that holds the path.
    `parameter_set`: Theta, on the global parameters in natural units; None for their bounds.
    `state_set`: X, on start states in natural units; None for the bounds of the initial states.
    """

    order: int = 10


@dataclass(frozen=True)
class GradientContractive(PicardGradient):
    """Algorithm 2: the gradient sees only the explicit theta in g, u is contracted (n = 0).

    Its fixed point is feasible but not optimal: a parameter that g does not contain never moves, nor does x.
    Settings as in `GradientDescent`; `sigma`: the share of P u in the new path.
    """

    sigma: float = 0.5


@dataclass(frozen=True)
class GradientContractMultiplier(PicardGradient):
    """Algorithm 3: gradient of L(x, theta, P^n u_k), then contraction of u_k over the whole span.

    The fixed point is biased for small `order` and approaches the optimum as it grows; the span must be short
    enough for P to contract. Settings as in `GradientDescent` and `GradientContractive`.
    """

    order: int = 2
    sigma: float = 0.5


@dataclass(frozen=True)
class ExtendedGradientContractMultiplier(PicardGradient):
    """Algorithm 4: every segment has its own start state, `continuity` (lambda) penalises the jumps.

    `segment_length`: T, or `segments`: J for each experiment; with neither, T = 1/K_x, estimated along the start path.
    Jumps of inputs are knots in addition. `state_set`: X, on the start states of all segments; None bounds the
    initial states only. Other settings as in `GradientDescent` and `GradientContractive`.
    With `order` = 1 the iteration may leave the optimum when `continuity` is large: for the paper's Van der
    Pol problem (T = 0.25) it attracts at lambda = 1 and repels at lambda = 5; order 2 attracts at both.
    """

    order: int = 2
    sigma: float = 0.5
    continuity: float = 5.0
    segment_length: float | None = None
    segments: int | None = None
    lifted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self)
        if not is_number(self.continuity) or self.continuity < 0:
            raise InputError("solvers.negative", "continuity", value=self.continuity, example=1)
        as_number(self.continuity, "continuity")
        if self.segments is not None and self.segment_length is not None:
            raise InputError("solvers.both_segments")


def _check(method: PicardGradient) -> None:
    """InputError for settings out of range; an algorithm has only some of those that are named here."""
    given = _given(method)
    whole = tuple(name for name in ("order", "max_iterations", "segments") if name in given)
    real = tuple(name for name in ("sigma", "rate", "tolerance", "segment_length") if name in given)
    check_positive(method, whole=whole, real=real)
    as_whole(method.nodes, "nodes", 2, 5)
    for name in real:
        as_number(getattr(method, name), name)
    if (sigma := getattr(method, "sigma", 0.0)) > 1:
        raise InputError("solvers.above_one", "sigma", value=sigma, example=given["sigma"])
    if not isinstance(method.family, Nodes):
        raise InputError("solvers.not_a_family", value=method.family)
    for subject, convex in (("parameter_set", method.parameter_set), ("state_set", method.state_set)):
        if convex is not None:
            check_set(convex, subject)


def _given(method: PicardGradient) -> dict[str, object]:
    """The settings of a method with their defaults, without optional ones that are None."""
    usual = {one.name: one.default for one in fields(method)}
    return {k: v for k, v in usual.items() if v is not None or getattr(method, k) is not None}


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
    def value(self) -> float:
        """The objective of the problem: half the sum of squared residuals."""
        return self.gradient.loss * len(self.setting.system.problem.samples.times)

    @property
    def jump(self) -> float:
        return float(np.abs(self.gradient.jumps / self.setting.scale).max(initial=0.0))

    @property
    def residual(self) -> float:
        """Largest |u - P u| before the last contraction; NaN for methods without a path of their own."""
        return self.gap if self.setting.scheme.sigma else float("nan")

    @property
    def segments(self) -> int:
        return len(self.path)

    @property
    def block(self) -> int:
        """Nodes times states of a segment."""
        return self.path.shape[1] * self.path.shape[2]


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


def _assessed(setting: Setting, candidate: Candidate, path: np.ndarray, gap: float, rate: float) -> State:
    """The state at a new point with its gradient, and with a status where it is not finite or has converged."""
    with np.errstate(all="ignore"):
        slope = gradient(setting, candidate, path)
        feasible, at = setting.feasible, setting.feasible.coordinates(candidate.unknowns)
        ahead, knots_ahead = feasible.project(at - slope.unknowns, candidate.knots - slope.knots)
        norm = float(np.sqrt(feasible.square(at - ahead, candidate.knots - knots_ahead)))
    status = None
    if not (np.isfinite(slope.loss) and np.isfinite(norm) and np.isfinite(path).all()):
        status = Status.NOT_FINITE
    elif max(norm, gap) <= setting.scheme.tolerance:
        status = Status.CONVERGED
    return State(setting, candidate, path, slope, norm, gap, rate, status)


def _checked_start(state: State) -> State:
    """The first state; a model that cannot be evaluated is NOT_FINITE, iterates P^n u_0 that overflow have DIVERGED."""
    setting, candidate, path = state.setting, state.candidate, state.path
    with np.errstate(all="ignore"):
        if not np.isfinite(
            applied(setting, candidate, path)
        ).all():  # the gradient of order 0 does not contain f
            return replace(state, status=Status.NOT_FINITE)
        if state.status is not Status.NOT_FINITE or setting.scheme.order <= 1:
            return state
        points = setting.interpolation @ path.reshape(-1, path.shape[-1])
        field = setting.system.field.linearise(path, candidate.spread)
        outputs = setting.system.linearised_outputs(points, candidate.params)
    overflows = all(np.isfinite(one).all() for one in (*field, *outputs))
    return replace(state, status=Status.DIVERGED) if overflows else state
