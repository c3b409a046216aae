"""Algorithms 1-4 of the paper: projected gradient steps on (x, theta), Picard contraction of the path u.

All four minimise, with u held fixed in the gradient (eq. extended_loss),

    L(x, theta, u) =  1/(2 N_s) sum_i |y_i - g(t_i, (P^n u)(t_i), theta)|^2
                    + lambda sum_j |(P^n u_j)(T) - x_{j+1}|^2

and then relax u <- (1 - sigma) u + sigma P u. They differ in n, in sigma (0: Algorithm 1 keeps u), and in
whether the segments have start states of their own (Algorithm 4) or are chained (Algorithms 1-3: one Picard
operator over the whole span, cut into segments only to hold its path). The gradient goes backwards through
the n applications of P. Stopping is by the projected gradient norm |z - Pi(z - gradient)|, as the plain norm
does not fall at an active bound, and by |u - P u|, as the gradient of Algorithm 2 may vanish at the start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from picardfit.discretise import Discretisation
from picardfit.errors import InputError, Status
from picardfit.mesh import Mesh, Nodes, rule, uniform_knots
from picardfit.meshing import state_scale
from picardfit.parameters import is_number, natural_slope, to_internal, to_natural
from picardfit.problem import Problem
from picardfit.sets import ConvexSet, check_set
from picardfit.solvers.iterate import Solution
from picardfit.starts import Start
from picardfit.unknowns import Unknowns

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_SEGMENTS = 1000  # of an experiment, when the segment length comes from an estimate of K_x
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring (Armijo)
SMALLEST_RATE = 1e-20
TINY = np.finfo(float).tiny


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
class Scheme:
    """What the four algorithms differ in."""

    order: int  # n
    sigma: float  # 0: the path stays
    rate: float | None  # alpha
    tolerance: float  # epsilon
    lifted: bool = False  # whether the segments have start states of their own
    continuity: float = 0.0  # lambda


@dataclass(frozen=True)
class Feasible:
    """X and Theta: coordinates of the search, and the projection in them.

    Unknowns under a given set are searched in the natural units of that set, all others in internal
    coordinates (logarithms of log parameters) and clipped to their bounds.
    """

    unknowns: Unknowns
    parameter_set: ConvexSet | None
    state_set: ConvexSet | None

    def __post_init__(self) -> None:
        unknowns = self.unknowns
        if self.parameter_set is not None:
            self.parameter_set.project(np.zeros(unknowns.width - unknowns.local))  # refuses another size
        if self.state_set is None:
            return
        self.state_set.project(np.zeros(len(unknowns.states)))
        free = unknowns.exists[:, : len(unknowns.initial_states)].sum(axis=1)
        for name, count in zip(unknowns.experiments, free, strict=True):
            if 0 < count < len(unknowns.states):
                raise InputError(
                    f"state_set needs initial states which are all free or all given, but `{name}` has "
                    f"{count} free of {len(unknowns.states)}: bound these with initial= instead of state_set."
                )

    @cached_property
    def _own(self) -> np.ndarray:
        """(width,): columns under a given set."""
        column = np.arange(self.unknowns.width)
        states = (column < len(self.unknowns.initial_states)) & (self.state_set is not None)
        return states | ((column >= self.unknowns.local) & (self.parameter_set is not None))

    @cached_property
    def _exp(self) -> np.ndarray:
        """(experiments, width): log columns which are searched in natural units."""
        return self.unknowns.log & self._own

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        free = self._own & self.unknowns.exists
        return np.where(free, -np.inf, self.unknowns.lower), np.where(free, np.inf, self.unknowns.upper)

    def coordinates(self, border: np.ndarray) -> np.ndarray:
        """Internal coordinates (experiments, width) -> coordinates of the search."""
        return to_natural(border, self._exp) if self._exp.any() else border

    def border(self, coordinates: np.ndarray) -> np.ndarray:
        """The inverse; a set which lets a log parameter reach 0 is cut off just above it."""
        if not self._exp.any():
            return coordinates
        return to_internal(np.maximum(coordinates, np.where(self._exp, TINY, -np.inf)), self._exp)

    def slopes(self, border: np.ndarray) -> np.ndarray | float:
        """d internal / d coordinate."""
        return 1 / natural_slope(self.coordinates(border), self._exp) if self._exp.any() else 1.0

    def project(self, coordinates: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """argmin |z - x| over x in X and Theta."""
        unknowns, projected = self.unknowns, np.minimum(np.maximum(coordinates, self._box[0]), self._box[1])
        if self.parameter_set is not None:
            projected[:, unknowns.local :] = self.parameter_set.project(projected[0, unknowns.local :])
        if self.state_set is not None:
            states = len(unknowns.initial_states)
            whole = unknowns.exists[:, :states].all(axis=1) & (states > 0)
            projected[whole, :states] = self.state_set.project(projected[whole, :states])
            knots = self.state_set.project(knots)
        return projected, knots

    def square(self, border: np.ndarray, knots: np.ndarray) -> float:
        """|z|^2 over all unknowns: shared columns count once."""
        own, shared = border[:, : self.unknowns.local], border[0, self.unknowns.local :]
        return float(np.vdot(own, own) + np.vdot(shared, shared) + np.vdot(knots, knots))


@dataclass(frozen=True)
class Setting:
    """What does not change during a run."""

    system: Discretisation
    scheme: Scheme
    feasible: Feasible
    scale: np.ndarray  # (states,)

    @cached_property
    def at_nodes(self) -> Affine:
        """P u at the nodes."""
        mesh = self.system.mesh
        segment, place = np.divmod(np.arange(len(mesh) * len(mesh.rule.nodes)), len(mesh.rule.nodes))
        return _taken_to(mesh, segment, mesh.rule.weights[place], self.scheme.lifted)

    @cached_property
    def at_points(self) -> Affine:
        """P u at the samples and then, if lifted, at the ends of the segments which have a successor."""
        mesh = self.system.mesh
        segment, fraction = self.system.located
        weights = mesh.rule.integrals(fraction)
        if self.scheme.lifted:
            segment = np.concatenate([segment, mesh.linked])
            weights = np.concatenate([weights, np.tile(mesh.rule.end, (len(mesh.linked), 1))])
        return _taken_to(mesh, segment, weights, self.scheme.lifted)

    @cached_property
    def interpolation(self) -> csr_array:
        """u itself at the samples."""
        segment, fraction = self.system.located
        return _rows(self.system.mesh, segment, self.system.mesh.rule.interpolation(fraction))

    @cached_property
    def first_sample(self) -> np.ndarray:
        """(experiments,): index of each experiment's first sample."""
        samples = self.system.problem.samples
        return np.searchsorted(samples.experiment, np.arange(len(self.system.problem.experiments)))

    @property
    def first(self) -> np.ndarray:
        """(experiments,): which start state is an experiment's initial state."""
        return self.system.mesh.first if self.scheme.lifted else np.arange(len(self.system.mesh.first))

    @property
    def inner(self) -> np.ndarray:
        """The start states which are unknowns of their own."""
        return self.system.mesh.linked + 1 if self.scheme.lifted else np.zeros(0, int)

    def place(self, border: np.ndarray, knots: np.ndarray) -> Place:
        """The unknowns with the parameters and start states that follow from them."""
        params = self.system.parameters(border)
        initial, by_border = self.system.problem.unknowns.initial(border)
        x = np.empty((len(initial) + len(knots), initial.shape[1]))
        x[self.first], x[self.inner] = initial, knots
        return Place(border, knots, params, self.system.spread(params), x, by_border)


@dataclass(frozen=True)
class Place:
    """The unknowns z = (border, knots), and what follows from them."""

    border: np.ndarray  # (experiments, width), internal coordinates
    knots: np.ndarray  # (knots, states): start states of segments after the first, if lifted
    params: np.ndarray  # (experiments, parameters)
    spread: np.ndarray  # (segments, 1, parameters)
    x: np.ndarray  # (starts, states): initial states, and the knots between them
    by_border: np.ndarray  # (experiments, states, width): derivative of the initial states


@dataclass(frozen=True)
class Affine:
    """x, f -> x[owner] + W f: the Picard operator taken to some points; arrays are (points, states)."""

    owner: np.ndarray  # (points,): start state of each point
    weights: csr_array  # (points, segments * nodes)
    starts: int

    @cached_property
    def _adjoint(self) -> tuple[csr_array, csr_array]:
        from scipy.sparse import csr_array

        points = len(self.owner)
        owner = csr_array((np.ones(points), self.owner, np.arange(points + 1)), shape=(points, self.starts))
        return owner.T.tocsr(), self.weights.T.tocsr()

    def __call__(self, x: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        return x[self.owner] + self.weights @ slopes

    def pull(self, adjoint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Adjoints of the points -> adjoints of x and of f."""
        to_x, to_slopes = self._adjoint
        return to_x @ adjoint, to_slopes @ adjoint


@dataclass(frozen=True)
class Gradient:
    """L with its derivatives in the coordinates of the search."""

    loss: float
    border: np.ndarray  # (experiments, width)
    knots: np.ndarray  # (knots, states)
    jumps: np.ndarray  # (knots, states)


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


def begin(method, problem: Problem, start: Start, scheme: Scheme, lengths: np.ndarray) -> State:
    """u_0 = x_0, constant on every segment (lifted) or over the whole span (chained)."""
    knots = tuple(_knots(problem, e, length) for e, length in enumerate(lengths))
    system = Discretisation(problem, Mesh(rule(method.nodes, method.family), knots))
    feasible = Feasible(problem.unknowns, method.parameter_set, method.state_set)
    setting = Setting(system, scheme, feasible, state_scale(problem, [t[1] for t in start.tables]))
    guessed = np.concatenate([start.states(k[1:-1], e) for e, k in enumerate(knots)])
    inner = guessed if scheme.lifted else guessed[:0]
    coordinates, inner = feasible.project(feasible.coordinates(start.border), inner)
    border = feasible.border(coordinates)
    place = setting.place(border, inner)
    nodes = len(system.mesh.rule.nodes)
    path = place.x[setting.at_nodes.owner].reshape(len(system.mesh), nodes, -1)
    return _assess(setting, place, path, np.inf if scheme.sigma else 0.0, scheme.rate or 1.0, None)


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
        return Solution(system, place.border, place.x, path, state.gradient.jumps)
    with np.errstate(all="ignore"):
        for _ in range(0 if setting.scheme.sigma else setting.scheme.order):
            path = applied(setting, place, path)
        slopes = system.field.slopes(path, place.spread).reshape(-1, path.shape[-1])
    begins = _taken_to(mesh, np.arange(len(mesh)), np.zeros((len(mesh), path.shape[1])), False)
    jumps = np.zeros((len(mesh.linked), path.shape[-1]))
    return Solution(system, place.border, begins(place.x, slopes), path, jumps)


def lipschitz(problem: Problem, start: Start) -> float:
    """K_x: the largest spectral norm of f_x along the start path, with the start's parameters."""
    unknowns, largest = problem.unknowns, 0.0
    params = unknowns.parameters(start.border)[:, : unknowns.model_parameters]
    for e, one in enumerate(problem.experiments):
        times = np.union1d(np.linspace(*problem.span(e), 101), one.times)
        inputs = [one.inputs[name].at(times) for name in problem.model.inputs]
        inputs = np.stack(inputs, axis=-1) if inputs else np.zeros((len(times), 0))
        _, wrt_x, _ = problem.model.rhs.linearise(times, start.states(times, e), params[e], inputs)
        finite = wrt_x[np.isfinite(wrt_x).all(axis=(1, 2))]
        largest = max(largest, np.linalg.norm(finite, 2, axis=(1, 2)).max(initial=0.0))
    return float(largest)


def applied(setting: Setting, place: Place, path: np.ndarray) -> np.ndarray:
    """P u at the nodes: (segments, nodes, states)."""
    slopes = setting.system.field.slopes(path, place.spread)
    return setting.at_nodes(place.x, slopes.reshape(-1, path.shape[-1])).reshape(path.shape)


def loss(setting: Setting, place: Place, path: np.ndarray) -> float:
    """L(x, theta, u)."""
    system, scheme = setting.system, setting.scheme
    count, states = len(system.problem.samples.times), path.shape[-1]
    if scheme.order == 0:
        points = setting.interpolation @ path.reshape(-1, states)
    else:
        for _ in range(scheme.order - 1):
            path = applied(setting, place, path)
        points = setting.at_points(place.x, system.field.slopes(path, place.spread).reshape(-1, states))
    jumps = points[count:] - place.knots
    data = system.problem.objective.value(system.outputs(points[:count], place.params))
    return system.problem.mean_loss(data) + scheme.continuity * float(np.vdot(jumps, jumps))


def gradient(setting: Setting, place: Place, path: np.ndarray) -> Gradient:
    """L and its gradient by (border, knots) with u held fixed, backwards through the n applications of P."""
    system, scheme = setting.system, setting.scheme
    problem, states = system.problem, path.shape[-1]
    count = len(problem.samples.times)
    tape = []
    for k in range(scheme.order):
        slopes, wrt_x, wrt_p = system.field.linearise(path, place.spread)
        slopes = slopes.reshape(-1, states)
        tape.append((wrt_x.reshape(-1, states, states), wrt_p.reshape(-1, states, wrt_p.shape[-1])))
        if k < scheme.order - 1:
            path = setting.at_nodes(place.x, slopes).reshape(path.shape)
    points = setting.at_points(place.x, slopes) if tape else setting.interpolation @ path.reshape(-1, states)
    jumps = points[count:] - place.knots

    outputs, out_x, out_p = system.linearised_outputs(points[:count], place.params)
    terms = problem.objective.terms(outputs)
    residual = problem.mean_loss(terms.slope)
    by_params = np.add.reduceat(_times(residual, out_p), setting.first_sample)  # (experiments, parameters)
    by_x, by_knots = np.zeros_like(place.x), -2 * scheme.continuity * jumps
    if tape:
        by_x, by_slopes = setting.at_points.pull(np.concatenate([_times(residual, out_x), -by_knots]))
        first_node = system.mesh.first * path.shape[1]
        for k, (wrt_x, wrt_p) in reversed(list(enumerate(tape))):
            by_params += np.add.reduceat(_times(by_slopes, wrt_p), first_node)
            if k:
                more_x, by_slopes = setting.at_nodes.pull(_times(by_slopes, wrt_x))
                by_x += more_x
    value = problem.mean_loss(terms.value) + scheme.continuity * float(np.vdot(jumps, jumps))
    by_border = _by_border(problem.unknowns, place, by_params, by_x[setting.first])
    by_border = by_border * setting.feasible.slopes(place.border)
    return Gradient(value, by_border, by_x[setting.inner] + by_knots, jumps)


def _by_border(unknowns: Unknowns, place: Place, by_params: np.ndarray, by_initial: np.ndarray) -> np.ndarray:
    """Chain rule to the border (experiments, width); shared columns hold the sum over the experiments."""
    total = _times(by_initial, place.by_border)
    slopes = unknowns.parameter_slopes(place.border)
    total[:, unknowns.border.parameters] += by_params[:, unknowns.free_parameters] * slopes
    total[:, unknowns.local :] = total[:, unknowns.local :].sum(axis=0)
    return np.where(unknowns.exists, total, 0.0)


def _assess(setting: Setting, place: Place, path, gap: float, rate: float, before: State | None) -> State:
    """The state at a new point with its gradient; if that is not finite, the state before with a status."""
    with np.errstate(all="ignore"):
        slope = gradient(setting, place, path)
        feasible, at = setting.feasible, setting.feasible.coordinates(place.border)
        ahead, knots_ahead = feasible.project(at - slope.border, place.knots - slope.knots)
        norm = float(np.sqrt(feasible.square(at - ahead, place.knots - knots_ahead)))
    state = State(setting, place, path, slope, norm, gap, rate)
    if not (np.isfinite(slope.loss) and np.isfinite(norm) and np.isfinite(path).all()):
        return replace(before or state, status=Status.NOT_FINITE)
    small = setting.scheme.tolerance
    return replace(state, status=Status.CONVERGED) if norm <= small and gap <= small else state


def _search(state: State) -> tuple[Place, float] | None:
    """Projected gradient step: the next place and rate, None when no rate lowers the loss.

    Backtracking: L(z+) <= L(z) - 1e-4/alpha |z+ - z|^2 up to rounding. The rate doubles when the first one
    tried is good, unless the decrease drowned in rounding errors and so says nothing about the rate.
    """
    setting, here, slope, rate = state.setting, state.place, state.gradient, state.rate
    feasible, at = setting.feasible, setting.feasible.coordinates(here.border)
    rounding = 1e-15 * abs(slope.loss)
    while rate > SMALLEST_RATE:
        ahead, knots = feasible.project(at - rate * slope.border, here.knots - rate * slope.knots)
        place = setting.place(feasible.border(ahead), knots)
        if setting.scheme.rate is not None:
            return place, rate
        wanted = SUFFICIENT / rate * feasible.square(ahead - at, knots - here.knots)
        decrease = slope.loss - loss(setting, place, state.path)
        if decrease >= wanted - rounding:
            return place, 2 * rate if rate == state.rate and decrease > 100 * rounding else rate
        rate /= 2
    return None


def _times(adjoint: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """(points, rows) and (points, rows, columns) -> (points, columns)."""
    return np.einsum("pi,pij->pj", adjoint, jacobian)


def _taken_to(mesh: Mesh, segment: np.ndarray, weights: np.ndarray, lifted: bool) -> Affine:
    """The operator at points given by segment (points,) and weights (points, nodes) on [0, 1].

    Chained: the integrals over all earlier segments of the experiment are added, x is the initial state.
    """
    here = _rows(mesh, segment, mesh.length[segment][:, None] * weights)
    if lifted:
        return Affine(segment, here, len(mesh))
    from scipy.sparse import csr_array

    whole = _rows(mesh, np.arange(len(mesh)), mesh.length[:, None] * mesh.rule.end)
    same = mesh.experiment[segment][:, None] == mesh.experiment
    earlier = csr_array((same & (np.arange(len(mesh)) < segment[:, None])).astype(float))
    return Affine(mesh.experiment[segment], (here + earlier @ whole).tocsr(), len(mesh.knots))


def _rows(mesh: Mesh, segment: np.ndarray, weights: np.ndarray) -> csr_array:
    """A sparse matrix which acts with weights (points, nodes) on the nodes of each point's segment."""
    from scipy.sparse import csr_array

    points, nodes = weights.shape
    columns = segment[:, None] * nodes + np.arange(nodes)
    return csr_array(
        (weights.ravel(), columns.ravel(), np.arange(points + 1) * nodes), shape=(points, len(mesh) * nodes)
    )


def _shares(problem: Problem, segments: int) -> np.ndarray:
    """(experiments,): length of a segment when every experiment has so many."""
    return np.array([np.subtract(*problem.span(e)[::-1]) / segments for e in range(len(problem.experiments))])


def _knots(problem: Problem, experiment: int, length: float) -> np.ndarray:
    start, stop = problem.span(experiment)
    if stop <= start:
        return np.array([start, start + 1e-6 * max(1.0, abs(start))])
    return uniform_knots((start, stop), length, problem.breaks(experiment))


def _check(method: object) -> None:
    """InputError for settings out of range; each algorithm has some of them."""
    rules = {
        "order": (lambda v: isinstance(v, int) and v >= 1, "a whole number of at least 1"),
        "sigma": (lambda v: 0 < v <= 1, "a number above 0 and at most 1"),
        "rate": (lambda v: 0 < v < np.inf, "a positive number, or None for a line search"),
        "tolerance": (lambda v: 0 < v < np.inf, "a positive number"),
        "max_iterations": (lambda v: isinstance(v, int) and v >= 1, "a whole number of at least 1"),
        "segments": (lambda v: isinstance(v, int) and v >= 1, "a whole number of at least 1"),
        "segment_length": (lambda v: 0 < v < np.inf, "a positive length of time"),
        "continuity": (lambda v: 0 <= v < np.inf, "a number which is not negative"),
        "nodes": (lambda v: isinstance(v, int) and v >= 2, "a whole number of at least 2"),
    }
    optional = {name for name, kind in type(method).__annotations__.items() if "None" in kind}
    for name, (holds, words) in rules.items():
        value = getattr(method, name, None)
        if name not in type(method).__annotations__ or (value is None and name in optional):
            continue
        if not is_number(value) or not holds(value):
            raise InputError(f"{name}={value!r} of {type(method).__name__} is out of range: give {words}.")
    if not isinstance(method.family, Nodes):
        raise InputError(
            f"family={method.family!r} is not a family of nodes: give one such as {Nodes.RADAU}."
        )
    for name in ("parameter_set", "state_set"):
        if getattr(method, name) is not None:
            check_set(getattr(method, name), name)
