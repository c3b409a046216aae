"""The loss of Algorithms 1-4 (eq. extended_loss) and its gradient with the path u held fixed:

    L(x, theta, u) =  1/(2 N_s) sum_i |y_i - g(t_i, (P^n u)(t_i), theta)|^2
                    + lambda sum_j |(P^n u_j)(T) - x_{j+1}|^2

The segments have start states of their own (lifted: Algorithm 4) or are chained (Algorithms 1-3: one Picard operator
over the whole span, cut into segments only to hold its path). P is affine in x and f, so its adjoint is a transposed
sparse matrix, and the gradient goes backwards through the n applications of P.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Mesh
from picardfit.errors import InputError
from picardfit.problem.unknowns import UnknownsLayout
from picardfit.solvers.picard_gradient.sets import Feasible

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class LineSearch:
    """Backtracking along the projected gradient."""

    sufficient: float = 1e-4  # fraction of |z+ - z|^2 / alpha by which the loss must fall (Armijo, textbook)
    least_rate: float = 1e-20  # alpha below which no rate helps: z + alpha grad is z in double precision
    rounding: float = 1e-15  # relative rounding error of the loss: a few machine precisions
    visible: float = 100.0  # rounding errors by which the loss must fall for a good rate to be doubled


@dataclass(frozen=True)
class Scheme:
    """What the four algorithms differ in."""

    lifted: bool  # whether the segments have start states of their own
    rate: float | None  # alpha; None: by line search
    tolerance: float  # epsilon
    order: int = 0  # n
    sigma: float = 0.0  # 0: the path stays
    continuity: float = 0.0  # lambda
    segments: int | None = None  # J, of each experiment
    segment_length: float | None = None  # T, in units of time; with neither, T = 1/K_x
    most_segments: int = 1000  # of an experiment, where T = 1/K_x: chosen, to limit time and memory
    line_search: LineSearch = LineSearch()


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
        segment, node = np.divmod(np.arange(len(mesh) * len(mesh.rule.nodes)), len(mesh.rule.nodes))
        return taken_to(self.system, segment, mesh.rule.weights[node], self.scheme.lifted)

    @cached_property
    def at_points(self) -> Affine:
        """P u at the samples and then, if lifted, at the ends of the segments which have a successor."""
        mesh = self.system.mesh
        segment, fraction = self.system.located
        weights = mesh.rule.integrals(fraction)
        if self.scheme.lifted:
            segment = np.concatenate([segment, mesh.linked])
            weights = np.concatenate([weights, np.tile(mesh.rule.end, (len(mesh.linked), 1))])
        return taken_to(self.system, segment, weights, self.scheme.lifted)

    @cached_property
    def interpolation(self) -> csr_array:
        """u itself at the samples."""
        segment, fraction = self.system.located
        return _rows(self.system.mesh, segment, self.system.mesh.rule.interpolation(fraction))

    @cached_property
    def first_sample(self) -> np.ndarray:
        """(experiments,): index of each experiment's first sample."""
        samples = self.system.problem.samples
        return np.searchsorted(samples.experiment, np.arange(len(self.system.mesh.first)))

    @property
    def first(self) -> np.ndarray:
        """(experiments,): which start state is an experiment's initial state."""
        return self.system.mesh.first if self.scheme.lifted else np.arange(len(self.system.mesh.first))

    @property
    def inner(self) -> np.ndarray:
        """The start states which are unknowns of their own."""
        return self.system.mesh.linked + 1 if self.scheme.lifted else np.zeros(0, int)

    def candidate(self, unknowns: np.ndarray, knots: np.ndarray) -> Candidate:
        """The unknowns with the parameters and start states that follow from them."""
        params = self.system.parameters(unknowns)
        initial, by_unknowns = self.system.problem.layout.initial(unknowns)
        x = np.empty((len(initial) + len(knots), initial.shape[1]))
        x[self.first], x[self.inner] = initial, knots
        return Candidate(unknowns, knots, params, self.system.spread(params), x, by_unknowns)


@dataclass(frozen=True)
class Candidate:
    """The unknowns z = (unknowns, knots), and what follows from them."""

    unknowns: np.ndarray  # (experiments, width), internal coordinates
    knots: np.ndarray  # (knots, states): start states of segments after the first, if lifted
    params: np.ndarray  # (experiments, parameters)
    spread: np.ndarray  # (segments, 1, parameters)
    x: np.ndarray  # (starts, states): initial states, and the knots between them
    by_unknowns: np.ndarray  # (experiments, states, width): derivative of the initial states


@dataclass(frozen=True)
class Affine:
    """x, f -> x[owner] + W f + doses: the Picard operator taken to some points; arrays are (points, states)."""

    owner: np.ndarray  # (points,): start state of each point
    weights: csr_array  # (points, segments * nodes)
    starts: int
    added: np.ndarray | float = 0.0  # (points, states): doses since the start state

    @cached_property
    def _adjoint(self) -> tuple[csr_array, csr_array]:
        from scipy.sparse import csr_array

        points = len(self.owner)
        owner = csr_array((np.ones(points), self.owner, np.arange(points + 1)), shape=(points, self.starts))
        return owner.T.tocsr(), self.weights.T.tocsr()

    def __call__(self, x: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        return x[self.owner] + self.weights @ slopes + self.added

    def pull(self, adjoint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Adjoints of the points -> adjoints of x and of f."""
        to_x, to_slopes = self._adjoint
        return to_x @ adjoint, to_slopes @ adjoint


@dataclass(frozen=True)
class Gradient:
    """L with its derivatives in the coordinates of the search."""

    loss: float
    unknowns: np.ndarray  # (experiments, width)
    knots: np.ndarray  # (knots, states)
    jumps: np.ndarray  # (knots, states)


def applied(setting: Setting, candidate: Candidate, path: np.ndarray) -> np.ndarray:
    """P u at the nodes: (segments, nodes, states)."""
    slopes = setting.system.field.slopes(path, candidate.spread)
    return setting.at_nodes(candidate.x, slopes.reshape(-1, path.shape[-1])).reshape(path.shape)


def loss(setting: Setting, candidate: Candidate, path: np.ndarray) -> float:
    """L(x, theta, u)."""
    system, scheme = setting.system, setting.scheme
    count, states = len(system.problem.samples.times), path.shape[-1]
    if scheme.order == 0:
        points = setting.interpolation @ path.reshape(-1, states)
    else:
        for _ in range(scheme.order - 1):
            path = applied(setting, candidate, path)
        slopes = system.field.slopes(path, candidate.spread).reshape(-1, states)
        points = setting.at_points(candidate.x, slopes)
    jumps = _dosed(setting, points[count:]) - candidate.knots
    data = system.problem.objective.value(system.outputs(points[:count], candidate.params))
    return system.problem.mean_loss(data) + scheme.continuity * float(np.vdot(jumps, jumps))


def gradient(setting: Setting, candidate: Candidate, path: np.ndarray) -> Gradient:
    """L and its gradient by (unknowns, knots) with u held fixed, backwards through the n applications of P."""
    system, scheme = setting.system, setting.scheme
    problem, states = system.problem, path.shape[-1]
    count = len(problem.samples.times)
    tape = []
    for k in range(scheme.order):
        slopes, wrt_x, wrt_p = system.field.linearise(path, candidate.spread)
        slopes = slopes.reshape(-1, states)
        tape.append((wrt_x.reshape(-1, states, states), wrt_p.reshape(-1, states, wrt_p.shape[-1])))
        if k < scheme.order - 1:
            path = setting.at_nodes(candidate.x, slopes).reshape(path.shape)
    if tape:
        points = setting.at_points(candidate.x, slopes)
    else:
        points = setting.interpolation @ path.reshape(-1, states)
    jumps = _dosed(setting, points[count:]) - candidate.knots

    outputs, out_x, out_p = system.linearised_outputs(points[:count], candidate.params)
    terms = problem.objective.terms(outputs)
    residual = terms.slope / count  # the mean over sampling instants; there is no noise model here
    by_params = np.add.reduceat(_times(residual, out_p), setting.first_sample)  # (experiments, parameters)
    by_x, by_knots = np.zeros_like(candidate.x), -2 * scheme.continuity * jumps
    if tape:
        by_x, by_slopes = setting.at_points.pull(
            np.concatenate([_times(residual, out_x), _kept(setting, -by_knots)])
        )
        first_node = system.mesh.first * path.shape[1]
        for k, (wrt_x, wrt_p) in reversed(list(enumerate(tape))):
            by_params += np.add.reduceat(_times(by_slopes, wrt_p), first_node)
            if k:
                more_x, by_slopes = setting.at_nodes.pull(_times(by_slopes, wrt_x))
                by_x += more_x
    value = problem.mean_loss(terms.value) + scheme.continuity * float(np.vdot(jumps, jumps))
    by_unknowns = _by_unknowns(problem.layout, candidate, by_params, by_x[setting.first])
    by_unknowns = by_unknowns * setting.feasible.slopes(candidate.unknowns)
    return Gradient(value, by_unknowns, by_x[setting.inner] + by_knots, jumps)


def _by_unknowns(
    layout: UnknownsLayout, candidate: Candidate, by_params: np.ndarray, by_initial: np.ndarray
) -> np.ndarray:
    """Chain rule to the unknowns (experiments, width); shared columns hold the sum over the experiments."""
    total = _times(by_initial, candidate.by_unknowns)
    slopes = layout.parameter_slopes(candidate.unknowns)
    total[:, layout.columns.parameters] += by_params[:, layout.free_parameters] * slopes
    total[:, layout.local :] = total[:, layout.local :].sum(axis=0)
    return np.where(layout.exists, total, 0.0)


def _times(adjoint: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """(points, rows) and (points, rows, columns) -> (points, columns)."""
    return np.einsum("pi,pij->pj", adjoint, jacobian)


def _dosed(setting: Setting, ends: np.ndarray) -> np.ndarray:
    """Ends of segments (knots, states) after a dose there; a chained path has none, its doses are in the operator."""
    doses = setting.system.doses
    return ends if doses is None or not len(ends) else doses.apply(ends)


def _kept(setting: Setting, adjoint: np.ndarray) -> np.ndarray:
    """Adjoints of the ends of segments (knots, states): none of what a reset forgets."""
    doses = setting.system.doses
    return adjoint if doses is None or not len(adjoint) else doses.masked(adjoint)


def taken_to(system: Discretisation, segment: np.ndarray, weights: np.ndarray, lifted: bool) -> Affine:
    """The operator at points given by segment (points,) and weights (points, nodes) on [0, 1].

    Chained: the integrals over all earlier segments of the experiment and the doses between them are added, x is the
    initial state.
    """
    mesh = system.mesh
    here = _rows(mesh, segment, mesh.length[segment][:, None] * weights)
    if lifted:
        return Affine(segment, here, len(mesh))
    from scipy.sparse import csr_array

    whole = _rows(mesh, np.arange(len(mesh)), mesh.length[:, None] * mesh.rule.end)
    same = mesh.experiment[segment][:, None] == mesh.experiment
    earlier = csr_array((same & (np.arange(len(mesh)) < segment[:, None])).astype(float))
    added: np.ndarray | float = 0.0
    if system.doses is not None:
        if not system.doses.keep.all():
            raise InputError("solvers.reset_of_chain", key=("resets",))
        given = np.zeros((len(mesh), system.doses.add.shape[1]))
        given[mesh.linked[system.doses.links] + 1] = system.doses.add
        total = np.cumsum(given, axis=0)
        first = mesh.first[mesh.experiment]
        added = (total - total[first])[segment]
    return Affine(mesh.experiment[segment], (here + earlier @ whole).tocsr(), len(mesh.knots), added)


def _rows(mesh: Mesh, segment: np.ndarray, weights: np.ndarray) -> csr_array:
    """A sparse matrix which acts with weights (points, nodes) on the nodes of each point's segment."""
    from scipy.sparse import csr_array

    points, nodes = weights.shape
    columns = segment[:, None] * nodes + np.arange(nodes)
    rows = np.arange(points + 1) * nodes
    return csr_array((weights.ravel(), columns.ravel(), rows), shape=(points, len(mesh) * nodes))
