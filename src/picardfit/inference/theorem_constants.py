"""The numerics of analyse(): sampled suprema of f, the contraction of P, and the curvature of L_lambda,n.

analysis.py states the theorems that use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from picardfit.collocation.adaptation import even_knots
from picardfit.collocation.curvature import Curvature
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import linearise
from picardfit.collocation.mesh import Mesh, rule
from picardfit.collocation.picard import apply
from picardfit.collocation.point import Point, point_at
from picardfit.errors import InputError
from picardfit.fit import Fit
from picardfit.problem.named_values import unknowns_from
from picardfit.problem.problem import Problem, Start
from picardfit.search.starts import make_start, search_box

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class AnalysisSettings:
    """How the constants of the theorems are sampled and measured."""

    continuity: float = 5.0  # lambda of the paper's examples
    wider: float = 0.2  # fraction by which the range of the states is widened to X on either side
    nodes: int = 5  # of a segment
    most_segments: int = 2000  # of the mesh on which the contraction is measured: about a second
    most_unknowns: int = 20_000  # of a Hessian whose eigenvalues are computed: about a second
    dense: int = 120  # unknowns up to which dense eigenvalues are faster than sparse ones
    eigenvalue: float = 1e-6  # relative tolerance of sparse eigenvalues
    shift: float = 1e-13  # of the factorised matrix, relative to its largest eigenvalue, to make it regular
    singular: float = 1e-12  # smallest eigenvalue, relative to the largest, that counts as zero: rounding
    climbers: int = 8  # best points, from which the local ascent begins
    rounds: int = 40  # of the local ascent
    trials: int = 12  # random steps of each climber in a round
    first_width: float = 0.5  # standard deviation of the first steps, in units of the box
    shrinking: float = 0.85  # ratio of the widths of neighbouring rounds: the last is 1e-3 of the first


DEFAULT = AnalysisSettings()


@dataclass(frozen=True)
class Constants:
    """Sampled suprema of f on a set of states, with the segment length T that the theorem derives from them."""

    radius: float  # a = 2 sup |x|
    state_slope: float  # K_x = sup |df/dx|
    parameter_slope: float  # K_theta = sup |df/dtheta|, natural units
    speed: float  # M = sup |f|

    @property
    def segment_length(self) -> float:
        """T = min(1/K_x, a/2M)."""
        by_slope = 1 / self.state_slope if self.state_slope > 0 else np.inf
        by_speed = self.radius / (2 * self.speed) if self.speed > 0 else np.inf
        return min(by_slope, by_speed)


def start_path(problem: Problem, start: Mapping[str, object] | Fit | None) -> Start:
    """The path of a fit, or one guessed from the data and the given parameters."""
    if not isinstance(start, Fit):
        return make_start(problem, unknowns_from(problem, start, missing="nan"))
    if start.problem is not problem or start.solution is None:
        raise InputError("inference.start_of_other_problem")
    solution, mesh = start.solution, start.solution.system.mesh
    tables = []
    for e, first in enumerate(mesh.first):
        mine = mesh.experiment == e
        times = np.append(mesh.knots[e][0], mesh.node_times[mine])
        tables.append((times, np.concatenate([solution.states[[first]], *solution.path[mine]])))
    return Start(solution.unknowns, tuple(tables), np.zeros(len(problem.solved_model.states), bool))


def constants_along(problem: Problem, start: Start) -> Constants:
    """The constants along the start's path."""
    params = problem.layout.measured_values(start.unknowns)
    largest, radius = np.zeros(3), 0.0
    for e, (grid, _) in enumerate(start.tables):
        times = np.interp(np.linspace(0, len(grid) - 1, 8 * len(grid) - 7), np.arange(len(grid)), grid)
        states = start.states(times, e)
        norms = _norms(problem, np.full(len(times), e), times, states, params[e])
        largest = np.maximum(largest, norms.max(axis=0))
        radius = max(radius, 2 * float(np.linalg.norm(states, axis=1).max()))
    return Constants(radius, *largest.tolist())


def constants_on_ball(
    problem: Problem,
    start: Start,
    samples: int,
    rng: np.random.Generator,
    settings: AnalysisSettings = DEFAULT,
) -> Constants:
    """The constants on B_a x Theta and all times, from `samples` evenly spread points and a local ascent."""
    layout, states = problem.layout, len(problem.solved_model.states)
    radius = 2 * float(np.linalg.norm(np.abs(_state_box(problem, start, settings.wider)).max(axis=0)))
    columns, free = layout.columns.parameters, layout.free_parameters
    scales = layout.scales[0, columns]
    low, high = (bound[0, columns] for bound in search_box(layout, start.unknowns))
    spans = np.array([problem.span(e) for e in range(len(problem.experiments))])
    fixed = layout.measured_values(start.unknowns)

    def norms(points: np.ndarray) -> np.ndarray:
        """(points, 3) at points [time | x / a | theta], each coordinate scaled to its unit interval or ball."""
        where = points[:, 0] * len(spans)
        experiment = np.minimum(where.astype(int), len(spans) - 1)
        times = spans[experiment, 0] + (where - experiment) * np.diff(spans)[experiment, 0]
        params = fixed[experiment]
        params[:, free] = scales.natural(scales.between(low, high, points[:, 1 + states :]))
        return _norms(problem, experiment, times, radius * points[:, 1 : 1 + states], params)

    cube = _latin_hypercube(samples, 2 + states + len(free), rng)
    points = np.concatenate([cube[:, :1], _in_ball(cube[:, 1 : 2 + states]), cube[:, 2 + states :]], axis=1)
    found = norms(points)
    tops = [_ascend(norms, k, points, found[:, k], states, rng, settings) for k in range(3)]
    return Constants(radius, *tops)


def _latin_hypercube(count: int, dimensions: int, rng: np.random.Generator) -> np.ndarray:
    """(count, dimensions): points of the unit cube, one in each of `count` equal slices of every dimension."""
    slices = rng.permuted(np.tile(np.arange(count), (dimensions, 1)), axis=1).T
    return (slices + rng.uniform(size=(count, dimensions))) / count


def _state_box(problem: Problem, start: Start, wider: float) -> np.ndarray:
    """(2, states): X, the smallest box with the start's path, widened, and the finite bounds of the initial states."""
    layout = problem.layout
    every = np.concatenate([states for _, states in start.tables])
    low, high = every.min(axis=0), every.max(axis=0)
    margin = wider * (high - low)
    low, high = low - margin, high + margin
    bounds = np.stack([layout.natural(layout.lower), layout.natural(layout.upper)])
    for column, state in enumerate(layout.initial_states):
        given = bounds[:, layout.exists[:, column], column]
        given = given[np.isfinite(given)]
        low[state], high[state] = given.min(initial=low[state]), given.max(initial=high[state])
    return np.stack([low, high])


def _in_ball(cube: np.ndarray) -> np.ndarray:
    """Points of [0, 1]^(1 + n) as points of the unit ball in n dimensions, half of them on its surface."""
    from scipy.special import ndtri

    normal = ndtri(np.clip(cube[:, 1:], 1e-9, 1 - 1e-9))
    size = np.minimum(2 * cube[:, :1], 1.0) ** (1 / normal.shape[1])
    return size * normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)


def _ascend(
    norms: Callable[[np.ndarray], np.ndarray],
    k: int,
    points: np.ndarray,
    found: np.ndarray,
    states: int,
    rng: np.random.Generator,
    settings: AnalysisSettings,
) -> float:
    """The largest norm number k that random steps of shrinking size from the best points find."""
    order = np.argsort(found)[::-1][: settings.climbers]
    best, top = points[order], found[order]
    rows = np.arange(len(best))
    for width in settings.first_width * settings.shrinking ** np.arange(settings.rounds):
        if np.isinf(top[0]):
            break
        shape = (len(best), settings.trials, best.shape[1])
        step = width * rng.standard_normal(shape) * (rng.uniform(size=shape) < 0.5)
        trial = _project(best[:, None, :] + step, states)
        values = norms(trial.reshape(-1, shape[2]))[:, k].reshape(shape[:2])
        winner = values.argmax(axis=1)
        better = values[rows, winner] > top
        best = np.where(better[:, None], trial[rows, winner], best)
        top = np.where(better, values[rows, winner], top)
    return float(top.max())


def _project(points: np.ndarray, states: int) -> np.ndarray:
    """Times and parameters into [0, 1], states into the unit ball."""
    inside = np.clip(points, 0.0, 1.0)
    x = points[..., 1 : 1 + states]
    inside[..., 1 : 1 + states] = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1.0)
    return inside


def _norms(problem: Problem, experiment, times, states, params) -> np.ndarray:
    """(points, 3): spectral norms of df/dx and df/dtheta, and |f|; infinite where they are not finite."""
    free = problem.layout.free_parameters
    inputs = problem.inputs_at(experiment, times)
    slopes, wrt_x, wrt_p = problem.rhs.linearise(times, states, params, inputs)
    return np.stack([_size(m) for m in (wrt_x, wrt_p[..., free], slopes[..., None])], axis=1)


def _size(matrices: np.ndarray) -> np.ndarray:
    """Spectral norms of (points, rows, columns), infinite where not finite."""
    if matrices.shape[2] == 0:
        return np.zeros(len(matrices))
    finite, size = np.isfinite(matrices).all(axis=(1, 2)), np.full(len(matrices), np.inf)
    largest = np.abs(np.where(finite[:, None, None], matrices, 0.0)).max(axis=(1, 2), keepdims=True)
    scale = np.where(largest > 0, largest, 1.0)  # no overflow in the squares
    size[finite] = np.linalg.norm((matrices / scale)[finite], 2, axis=(1, 2)) * scale[finite, 0, 0]
    return size


def on_segments(
    problem: Problem, start: Start, length: float, nodes: int = DEFAULT.nodes
) -> tuple[Discretisation, Point]:
    """The start's path on segments of this length."""
    knots = tuple(even_knots(problem, e, length) for e in range(len(problem.experiments)))
    mesh = Mesh(rule(nodes), knots)
    system = Discretisation(problem, mesh)
    states = np.concatenate([start.states(k[:-1], e) for e, k in enumerate(knots)])
    parts = [start.states(mesh.node_times[mesh.experiment == e].ravel(), e) for e in range(len(knots))]
    path = np.concatenate(parts).reshape(len(mesh), nodes, -1)
    return system, point_at(system, start.unknowns, states, path)


def contraction(system: Discretisation, point: Point, step: float = 1e-6) -> float:
    """The largest |P v - P u| / |v - u| over the segments, for v = u + the constant that P amplifies most."""
    mesh, spread = system.mesh, system.spread(system.parameters(point.unknowns))
    slopes, wrt_x, _ = system.field.linearise(point.path, spread)
    if not all(np.isfinite(part).all() for part in (point.path, slopes, wrt_x)):
        return np.inf
    integral = mesh.length[:, None, None] * np.einsum("k,skij->sij", mesh.rule.end, wrt_x)
    direction = np.linalg.svd(integral)[2][:, 0]
    shift = step * (float(np.abs(point.path).max()) or 1.0) * direction
    moved = system.field.slopes(point.path + shift[:, None, :], spread)
    if not np.isfinite(moved).all():
        return np.inf
    gap = apply(mesh, point.states, moved) - apply(mesh, point.states, slopes)
    return float((np.linalg.norm(gap, axis=2).max(axis=1) / np.linalg.norm(shift, axis=1)).max())


def curvature(
    system: Discretisation, point: Point, settings: AnalysisSettings = DEFAULT
) -> tuple[int, tuple[float, float]]:
    """The number of unknowns of L_lambda,n, and mu and K_L: the extreme eigenvalues of its Gauss-Newton Hessian."""
    from scipy.sparse import block_diag

    mesh, states = system.mesh, point.states.shape[1]
    chart = _chart(system, system.problem.layout.initial(point.unknowns)[1])
    count = chart.shape[1]
    if count > settings.most_unknowns or not np.isfinite(point.data) or not np.isfinite(point.jumps).all():
        return count, (np.nan, np.nan)
    try:
        quadratic = linearise(system, point).quadratic
    except np.linalg.LinAlgError:  # a segment on which u = P u has no unique solution
        return count, (np.nan, np.nan)
    known = quadratic.hessian
    whole = known.dense(mesh) if isinstance(known, Curvature) else known
    if not all(np.isfinite(part).all() for part in (whole, quadratic.end)):
        return count, (np.nan, np.nan)
    rows = np.arange(chart.shape[0]).reshape(len(mesh), -1)
    segments = block_diag(whole, format="csr")
    hessian = chart.T @ segments @ chart / len(system.problem.samples.times)
    if len(mesh.linked):
        ends = block_diag(quadratic.end, format="csr") @ chart[rows[mesh.linked].ravel()]
        jumps = ends - chart[rows[mesh.linked + 1, :states].ravel()]
        hessian = hessian + 2 * settings.continuity * (jumps.T @ jumps)
    low, high = extreme_eigenvalues(hessian, settings)
    return count, (low if low > settings.singular * high else 0.0, high)


def extreme_eigenvalues(matrix: csr_array, settings: AnalysisSettings) -> tuple[float, float]:
    """Smallest and largest eigenvalue of a symmetric positive semi-definite matrix."""
    from scipy.sparse.linalg import eigsh

    if matrix.shape[0] <= settings.dense:
        values = np.linalg.eigvalsh(matrix.toarray())
        return float(values[0]), float(values[-1])
    accuracy = {"v0": np.ones(matrix.shape[0]), "tol": settings.eigenvalue, "return_eigenvectors": False}
    high = float(eigsh(matrix, 1, which="LA", **accuracy)[0])
    shift = -settings.shift * high  # just below zero, so that the factorised matrix is regular
    return float(eigsh(matrix.tocsc(), 1, sigma=shift, **accuracy)[0]), high


def _chart(system: Discretisation, initial: np.ndarray) -> csr_array:
    """(segments * columns, unknowns): derivative of [states | free parameters] of every segment by all unknowns.

    The unknowns are the start states of inner segments, the local unknowns of each experiment and the shared ones.
    """
    from scipy.sparse import csr_array

    mesh, layout = system.mesh, system.problem.layout
    states, columns, local = initial.shape[1], layout.columns.parameters, layout.local
    inner = np.setdiff1d(np.arange(len(mesh)), mesh.first)
    own = np.cumsum(layout.exists[:, :local]).reshape(len(mesh.first), local) - 1
    shared = own.max(initial=-1) + 1 + np.tile(np.arange(layout.width - local), (len(own), 1))
    number = len(inner) * states + np.concatenate([own, shared], axis=1)  # (experiments, width)
    rows = np.arange(len(mesh) * (states + len(columns))).reshape(len(mesh), -1)
    e, state, column = np.nonzero(initial)
    by_state, by_parameter = np.arange(len(inner) * states), number[mesh.experiment][:, columns].ravel()
    row = np.concatenate([rows[inner, :states].ravel(), rows[:, states:].ravel(), rows[mesh.first[e], state]])
    value = np.concatenate([np.ones(len(by_state) + len(by_parameter)), initial[e, state, column]])
    unknown = np.concatenate([by_state, by_parameter, number[e, column]])
    return csr_array(
        (value, (row, unknown)), shape=(rows.size, int(number.max(initial=len(by_state) - 1)) + 1)
    )
