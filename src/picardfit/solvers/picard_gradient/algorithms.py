"""Algorithms 1-4 of the paper: projected gradient steps on (x, theta), Picard contraction of the path u.

All four descend on L(x, theta, u) with u held fixed (extended_loss.py) and then relax u <- (1 - sigma) u + sigma P u.
They differ in the order n of the iterate in L, in sigma (0: Algorithm 1 keeps u), and in whether the segments have
start states of their own (Algorithm 4) or are chained (Algorithms 1-3). Stopping is by the projected gradient norm
|z - Pi(z - gradient)|, as the plain norm does not fall at an active bound, and by |u - P u|, as the gradient of
Algorithm 2 may vanish at the start.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from picardfit.checks import check_positive
from picardfit.collocation.adaptation import even_knots, state_scale
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Mesh, Nodes, rule
from picardfit.errors import InputError, Status
from picardfit.model.parameters import is_number
from picardfit.problem.problem import Problem
from picardfit.problem.start import Start
from picardfit.solvers.loop import Solution
from picardfit.solvers.picard_gradient.extended_loss import (
    Gradient,
    Place,
    Scheme,
    Setting,
    applied,
    gradient,
    loss,
    taken_to,
)
from picardfit.solvers.picard_gradient.feasible import Feasible
from picardfit.solvers.picard_gradient.sets import ConvexSet, check_set

MOST_SEGMENTS = 1000  # of an experiment, when the segment length comes from an estimate of K_x
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring (Armijo)
SMALLEST_RATE = 1e-20


@dataclass(frozen=True)
class GradientDescent:
    """Algorithm 1: gradient descent on L(x, theta, P^n u_0) with u_0 = x_0 for good.

    `order`: n, large enough for P^n u_0 to be near the solution over the whole span. `rate`: alpha, None for
    a backtracking line search. `tolerance`: epsilon, for the projected gradient norm and |u - P u|.
    `segments`, `nodes`, `family`: the grid which holds the path.
    `parameter_set`: Theta, on the global parameters in natural units; None for their bounds.
    `state_set`: X, on start states in natural units; None for the bounds of the initial states.
    """

    order: int = 10
    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    segments: int = 10
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)

    def init(self, problem: Problem, start: Start) -> State:
        scheme = Scheme(self.order, 0.0, self.rate, self.tolerance)
        return begin(self, problem, start, scheme, _shares(problem, self.segments))

    def step(self, state: State) -> State:
        return advance(state)

    def solution(self, state: State) -> Solution:
        return finish(state)


@dataclass(frozen=True)
class GradientContractive:
    """Algorithm 2: the gradient sees only the explicit theta in g, u is contracted (n = 0).

    Its fixed point is feasible but not optimal: a parameter which g does not contain never moves, nor does x.
    Settings as in `GradientDescent`; `sigma`: the share of P u in the new path.
    """

    sigma: float = 0.5
    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    segments: int = 10
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)

    def init(self, problem: Problem, start: Start) -> State:
        scheme = Scheme(0, self.sigma, self.rate, self.tolerance)
        return begin(self, problem, start, scheme, _shares(problem, self.segments))

    def step(self, state: State) -> State:
        return advance(state)

    def solution(self, state: State) -> Solution:
        return finish(state)


@dataclass(frozen=True)
class GradientContractMultiplier:
    """Algorithm 3: gradient of L(x, theta, P^n u_k), then contraction of u_k over the whole span.

    The fixed point is biased for small `order` and approaches the optimum as it grows; the span must be short
    enough for P to contract. Settings as in `GradientDescent` and `GradientContractive`.
    """

    order: int = 2
    sigma: float = 0.5
    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    segments: int = 10
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)

    def init(self, problem: Problem, start: Start) -> State:
        scheme = Scheme(self.order, self.sigma, self.rate, self.tolerance)
        return begin(self, problem, start, scheme, _shares(problem, self.segments))

    def step(self, state: State) -> State:
        return advance(state)

    def solution(self, state: State) -> Solution:
        return finish(state)


@dataclass(frozen=True)
class ExtendedGradientContractMultiplier:
    """Algorithm 4: every segment has its own start state, `continuity` (lambda) penalises the jumps.

    `segment_length`: T, or `segments`: J for each experiment; with neither, T = 1/K_x by `lipschitz`. Jumps
    of inputs are knots in addition. `state_set`: X, on the start states of all segments; None bounds the
    initial states only. Other settings as in `GradientDescent` and `GradientContractive`.
    With `order` = 1 the iteration may leave the optimum when `continuity` is large: for the paper's Van der
    Pol problem (T = 0.25) it attracts at lambda = 1 and repels at lambda = 5; order 2 attracts at both.
    """

    order: int = 2
    sigma: float = 0.5
    continuity: float = 5.0
    segment_length: float | None = None
    segments: int | None = None
    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)
        if self.segments is not None and self.segment_length is not None:
            raise InputError("Both segment_length and segments are given: choose one, the other follows.")

    def init(self, problem: Problem, start: Start) -> State:
        scheme = Scheme(self.order, self.sigma, self.rate, self.tolerance, True, self.continuity)
        if self.segments is not None:
            lengths = _shares(problem, self.segments)
        else:
            given = self.segment_length
            length = 1 / max(lipschitz(problem, start), 1e-300) if given is None else given
            floors = _shares(problem, MOST_SEGMENTS) if given is None else np.zeros(len(problem.experiments))
            lengths = np.maximum(length, floors)
        return begin(self, problem, start, scheme, lengths)

    def step(self, state: State) -> State:
        return advance(state)

    def solution(self, state: State) -> Solution:
        return finish(state)


@dataclass(frozen=True)
class State:
    """Where the iteration stands; the gradient belongs to (place, path)."""

    setting: Setting
    place: Place
    path: np.ndarray  # (segments, nodes, states): u_k
    gradient: Gradient
    slope: float  # norm of the projected gradient
    gap: float  # largest |u - P u| of the last contraction
    rate: float
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


def begin(method, problem: Problem, start: Start, scheme: Scheme, lengths: np.ndarray) -> State:
    """u_0 = x_0, constant on every segment (lifted) or over the whole span (chained)."""
    if problem.scatter is not None:
        raise InputError(
            f"{type(method).__name__} is a method for least squares and knows no noise model: "
            f"leave noise= out of the problem, or use the default method."
        )
    knots = tuple(even_knots(problem, e, length) for e, length in enumerate(lengths))
    system = Discretisation(problem, Mesh(rule(method.nodes, method.family), knots))
    feasible = Feasible(problem.layout, method.parameter_set, method.state_set)
    setting = Setting(system, scheme, feasible, state_scale(problem, [t[1] for t in start.tables]))
    guessed = np.concatenate([start.states(k[1:-1], e) for e, k in enumerate(knots)])
    inner = guessed if scheme.lifted else guessed[:0]
    coordinates, inner = feasible.project(feasible.coordinates(start.unknowns), inner)
    unknowns = feasible.unknowns(coordinates)
    place = setting.place(unknowns, inner)
    nodes = len(system.mesh.rule.nodes)
    path = place.x[setting.at_nodes.owner].reshape(len(system.mesh), nodes, -1)
    state = _assess(setting, place, path, np.inf if scheme.sigma else 0.0, scheme.rate or 1.0, None)
    with np.errstate(all="ignore"):
        finite = np.isfinite(applied(setting, place, path)).all()  # of order 0 the gradient does not see f
    if not finite:
        return replace(state, status=Status.NOT_FINITE)
    overflows = state.status is Status.NOT_FINITE and scheme.order > 1 and _is_finite(setting, place, path)
    return replace(state, status=Status.DIVERGED) if overflows else state


def advance(state: State) -> State:
    """One iteration: theta and x by a projected gradient step at u_k, then u_{k+1} by contraction."""
    sigma, path, gap = state.setting.scheme.sigma, state.path, 0.0
    with np.errstate(all="ignore"):
        found = _search(state)
        if found is None:
            return replace(state, status=Status.STALLED)
        place, rate = found
        if sigma:
            move = applied(state.setting, place, path) - path
            path, gap = path + sigma * move, float(np.abs(move).max())
    return _assess(state.setting, place, path, gap, rate, state)


def finish(state: State) -> Solution:
    """The unknowns with their path; chained segments start where P u, which is continuous, stands."""
    setting, place, path = state.setting, state.place, state.path
    system, mesh = setting.system, setting.system.mesh
    if setting.scheme.lifted:
        return Solution(system, place.unknowns, place.x, path, state.gradient.jumps)
    with np.errstate(all="ignore"):
        for _ in range(0 if setting.scheme.sigma else setting.scheme.order):
            path = applied(setting, place, path)
        slopes = system.field.slopes(path, place.spread).reshape(-1, path.shape[-1])
    begins = taken_to(mesh, np.arange(len(mesh)), np.zeros((len(mesh), path.shape[1])), False)
    jumps = np.zeros((len(mesh.linked), path.shape[-1]))
    return Solution(system, place.unknowns, begins(place.x, slopes), path, jumps)


def lipschitz(problem: Problem, start: Start) -> float:
    """K_x: the largest spectral norm of f_x along the start path, with the start's parameters."""
    params, largest = problem.layout.model_values(start.unknowns), 0.0
    for e, one in enumerate(problem.experiments):
        times = np.union1d(np.linspace(*problem.span(e), 101), one.times)
        inputs = one.inputs_at(problem.model.inputs, times)
        _, wrt_x, _ = problem.model.rhs.linearise(times, start.states(times, e), params[e], inputs)
        finite = wrt_x[np.isfinite(wrt_x).all(axis=(1, 2))]
        largest = max(largest, np.linalg.norm(finite, 2, axis=(1, 2)).max(initial=0.0))
    return float(largest)


def _assess(setting: Setting, place: Place, path, gap: float, rate: float, before: State | None) -> State:
    """The state at a new point with its gradient; if that is not finite, the state before with a status."""
    with np.errstate(all="ignore"):
        slope = gradient(setting, place, path)
        feasible, at = setting.feasible, setting.feasible.coordinates(place.unknowns)
        ahead, knots_ahead = feasible.project(at - slope.unknowns, place.knots - slope.knots)
        norm = float(np.sqrt(feasible.square(at - ahead, place.knots - knots_ahead)))
    state = State(setting, place, path, slope, norm, gap, rate)
    if not (np.isfinite(slope.loss) and np.isfinite(norm) and np.isfinite(path).all()):
        if before is None:
            return replace(state, status=Status.NOT_FINITE)
        return replace(before, status=Status.DIVERGED)
    small = setting.scheme.tolerance
    return replace(state, status=Status.CONVERGED) if norm <= small and gap <= small else state


def _is_finite(setting: Setting, place: Place, path: np.ndarray) -> bool:
    """Whether model and observables can be evaluated and differentiated along the path."""
    with np.errstate(all="ignore"):
        points = setting.interpolation @ path.reshape(-1, path.shape[-1])
        parts = (
            *setting.system.field.linearise(path, place.spread),
            *setting.system.linearised_outputs(points, place.params),
        )
    return all(np.isfinite(part).all() for part in parts)


def _search(state: State) -> tuple[Place, float] | None:
    """Projected gradient step: the next place and rate, None when no rate lowers the loss.

    Backtracking: L(z+) <= L(z) - 1e-4/alpha |z+ - z|^2 up to rounding. The rate doubles when the first one
    tried is good, unless the decrease drowned in rounding errors and so says nothing about the rate.
    """
    setting, here, slope, rate = state.setting, state.place, state.gradient, state.rate
    feasible, at = setting.feasible, setting.feasible.coordinates(here.unknowns)
    rounding = 1e-15 * abs(slope.loss)
    while rate > SMALLEST_RATE:
        ahead, knots = feasible.project(at - rate * slope.unknowns, here.knots - rate * slope.knots)
        place = setting.place(feasible.unknowns(ahead), knots)
        if setting.scheme.rate is not None:
            return place, rate
        wanted = SUFFICIENT / rate * feasible.square(ahead - at, knots - here.knots)
        decrease = slope.loss - loss(setting, place, state.path)
        if decrease >= wanted - rounding:
            return place, 2 * rate if rate == state.rate and decrease > 100 * rounding else rate
        rate /= 2
    return None


def _shares(problem: Problem, segments: int) -> np.ndarray:
    """(experiments,): length of a segment when every experiment has so many."""
    return np.array([np.subtract(*problem.span(e)[::-1]) / segments for e in range(len(problem.experiments))])


def _check(method: object) -> None:
    """InputError for settings out of range; each algorithm has some of them."""
    optional = {f.name for f in fields(method) if "None" in f.type}
    names = [f.name for f in fields(method) if getattr(method, f.name) is not None or f.name not in optional]
    check_positive(
        method,
        whole=tuple(n for n in names if n in ("order", "max_iterations", "segments", "nodes")),
        real=tuple(n for n in names if n in ("sigma", "rate", "tolerance", "segment_length")),
    )
    rules = [
        ("sigma", lambda v: v <= 1, "a number above 0 and at most 1"),
        ("nodes", lambda v: v >= 2, "a whole number of at least 2"),
        ("continuity", lambda v: is_number(v) and 0 <= v < np.inf, "a number which is not negative"),
        *((n, lambda v: v < np.inf, "a finite number") for n in ("rate", "tolerance", "segment_length")),
    ]
    for name, holds, words in rules:
        if name in names and not holds(getattr(method, name)):
            raise InputError(f"{name} = {getattr(method, name)!r} is out of range: give {words}.")
    if not isinstance(method.family, Nodes):
        raise InputError(
            f"family = {method.family!r} is not a family of nodes: give one such as {Nodes.RADAU}."
        )
    for name in ("parameter_set", "state_set"):
        if getattr(method, name) is not None:
            check_set(getattr(method, name), name)
