"""The Cramér–Rao value: how small the mean relative error of an unbiased estimate can be.

The paper's noise is y = (1 + n) g + m with one n per sampling instant, so that y is normal with mean g and
covariance C = sd^2 (I + g g'). With J the derivative of g by the unknowns (initial states included), the
Fisher information of one instant is

    F_ab = J_a' C^-1 J_b + 1/2 tr(C^-1 C_a C^-1 C_b),    C_a = sd^2 (J_a g' + g J_a')

and the covariance that plain least squares (the paper's L_ls) reaches is (J'J)^-1 (sum J' C J) (J'J)^-1. The
mean absolute error of a normal estimate is sqrt(2/pi) times its standard deviation. Bounds are ignored.
"""

from __future__ import annotations

import numpy as np

import picardfit as pf
from compare.usage import UsageError
from picardfit.collocation.adaptation import even_knots, state_scale
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import linearise
from picardfit.collocation.mesh import Mesh, rule
from picardfit.collocation.point import Point, evaluate
from picardfit.problem.named_values import unknowns_from
from picardfit.problem.unknowns import unknowns_index
from picardfit.simulation.trajectories import Run, trajectories

MEAN_ABSOLUTE = np.sqrt(2 / np.pi)
NODES = 8
DETERMINED = 1e-13  # eigenvalues of the information, scaled to unit diagonal, below this count as zero


def relative_errors(problem: pf.Problem, sd: float, length: float) -> dict[str, dict[str, float]]:
    """Cramér–Rao values of the relative errors at the truth: {"likelihood" or "least squares": {parameter: value}}.

    `sd`: standard deviation of n and m; `length`: of the mesh's segments. inf for what is not determined.
    """
    labels, outputs, jacobian = sensitivities(problem, length)
    truth = problem.truth["parameters"]
    found = {}
    for name, covariance in (
        ("likelihood", _inverse(information(outputs, jacobian, sd))),
        ("least squares", least_squares_covariance(outputs, jacobian, sd)),
    ):
        deviation = np.sqrt(np.diag(covariance))
        found[name] = {
            label: float(MEAN_ABSOLUTE * s / abs(truth[label]))
            for label, s in zip(labels, deviation, strict=True)
            if label in problem.model.parameters
        }
    return found


def sensitivities(problem: pf.Problem, length: float) -> tuple[list[str], np.ndarray, np.ndarray]:
    """At the truth: labels of the unknowns, outputs (samples, outputs), their slopes (samples, outputs, unknowns)."""
    system, point = _at_truth(problem, length)
    layout, mesh = problem.layout, system.mesh
    linear = linearise(system, point)
    unknowns = layout.columns
    parameters = np.zeros((len(unknowns.parameters), unknowns.width))
    parameters[np.arange(len(parameters)), unknowns.parameters] = 1
    columns = np.empty((len(mesh), point.states.shape[1] + len(parameters), unknowns.width))
    columns[:, point.states.shape[1] :] = parameters
    columns[mesh.first, : point.states.shape[1]] = linear.quadratic.initial
    for end, segment in zip(linear.quadratic.end, mesh.linked, strict=True):  # continuity is exact
        columns[segment + 1, : point.states.shape[1]] = end @ columns[segment]
    jacobian = (
        linear.at_samples(system) @ columns[system.segment]
    )  # (samples, outputs, width) of the own experiment
    index = unknowns_index(layout.exists, layout.local)
    own = index[:, 1] >= layout.local
    mine = problem.samples.experiment[:, None] == index[:, 0]
    chosen = np.where((own | mine)[:, None, :], jacobian[:, :, index[:, 1]], 0.0)
    slopes = layout.slopes(point.unknowns)[index[:, 0], index[:, 1]]
    return [layout.label(e, c) for e, c in index], linear.outputs, chosen / slopes


def information(outputs: np.ndarray, jacobian: np.ndarray, sd: float) -> np.ndarray:
    """(unknowns, unknowns): Fisher information of the paper's noise, mean and variance terms."""
    total = np.zeros((jacobian.shape[2], jacobian.shape[2]))
    for g, by in zip(outputs, jacobian, strict=True):
        inverse = np.linalg.inv(sd**2 * (np.eye(len(g)) + np.outer(g, g)))
        total += by.T @ inverse @ by
        change = sd**2 * (np.einsum("ia,j->aij", by, g) + np.einsum("i,ja->aij", g, by))
        weighted = inverse @ change  # (unknowns, outputs, outputs)
        total += 0.5 * np.einsum("aij,bji->ab", weighted, weighted)
    return total


def least_squares_covariance(outputs: np.ndarray, jacobian: np.ndarray, sd: float) -> np.ndarray:
    """(unknowns, unknowns): covariance of the least-squares estimate under the paper's noise."""
    plain = _inverse(np.einsum("sia,sib->ab", jacobian, jacobian))
    along = np.einsum("si,sia->sa", outputs, jacobian)
    middle = sd**2 * (np.einsum("sia,sib->ab", jacobian, jacobian) + along.T @ along)
    if not np.isfinite(plain).all():
        return plain
    return plain @ middle @ plain


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """The inverse; inf on the diagonal where the matrix has a direction of no information."""
    scale = 1 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    values, vectors = np.linalg.eigh(matrix * scale[:, None] * scale)
    lost = values <= DETERMINED * values[-1]
    inverse = (vectors / np.where(lost, np.inf, values)) @ vectors.T * scale[:, None] * scale
    hidden = (np.abs(vectors[:, lost]) > 1e-3).any(axis=1)
    inverse[hidden, hidden] = np.inf
    return inverse


def _at_truth(problem: pf.Problem, length: float) -> tuple[Discretisation, Point]:
    """The true path on an even mesh, by independent integration and then contraction."""
    truth, model = problem.truth, problem.model
    unknowns = unknowns_from(problem, truth["parameters"], truth["initial"])
    knots = tuple(even_knots(problem, e, length) for e in range(len(problem.experiments)))
    system = Discretisation(problem, Mesh(rule(NODES), knots))
    params, initial = system.parameters(unknowns), problem.layout.initial(unknowns)[0]
    times = [
        np.sort(np.concatenate([k[:-1], t])) for k, t in zip(knots, _node_times(system.mesh), strict=True)
    ]
    runs = [
        Run(one.t0, initial[e], params[e], one.inputs, times[e], problem.breaks(e))
        for e, one in enumerate(problem.experiments)
    ]
    solutions = trajectories(model, runs)
    states = np.concatenate(
        [x[np.searchsorted(t, k[:-1])] for x, t, k in zip(solutions, times, knots, strict=True)]
    )
    path = np.concatenate(
        [x[np.searchsorted(t, n)] for x, t, n in zip(solutions, times, _node_times(system.mesh), strict=True)]
    ).reshape(len(system.mesh), NODES, -1)
    point = evaluate(system, unknowns, states, path, state_scale(problem, [path]))
    if point is None:
        raise UsageError(f"The true path does not contract on segments of {length:g}: shorten them.")
    return system, point


def _node_times(mesh: Mesh) -> list[np.ndarray]:
    """Per experiment: the times of all nodes."""
    return [t.ravel() for t in np.split(mesh.node_times, mesh.first[1:])]
