"""Derivatives of a solution by its initial state and by the parameters, at any times and for any inputs.

The path comes from independent integration; on a mesh that resolves it the exact multipliers give the derivatives on
each segment, and these are chained from segment to segment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.mesh import Mesh, rule
from picardfit.collocation.picard import Field, end_derivatives, exact_multipliers, newton_matrix, tails
from picardfit.collocation.recursion import forward
from picardfit.model.inputs import values_at
from picardfit.model.model import Model
from picardfit.simulation.trajectories import Run, trajectories

NODES = 9
FEWEST = 24  # segments to begin with
RESOLVED = 1e-7  # last Legendre modes of h f, relative to the size of each state
ROUNDS = 30  # of halving segments
MOST_SEGMENTS = 20_000


@dataclass(frozen=True)
class Sensitivity:
    """A solution with its derivatives; columns are [initial states | model parameters], natural units."""

    states: np.ndarray  # (times, states)
    derivatives: np.ndarray  # (times, states, states + parameters)


def sensitivity(model: Model, run: Run, knots: np.ndarray | None = None) -> Sensitivity | None:
    """Solution and derivatives at the times of a run; None if there is no solution up to the last of them.

    `knots` are where segments may begin, for example those of a fit.
    """
    width = len(run.initial) + len(run.params)
    last = float(run.times[-1]) if len(run.times) else run.t0
    if last <= run.t0:
        fixed = np.concatenate(
            [np.eye(len(run.initial)), np.zeros((len(run.initial), len(run.params)))], axis=1
        )
        count = len(run.times)
        return Sensitivity(
            np.tile(run.initial, (count, 1)), np.tile(fixed, (count, 1, 1)).reshape(count, -1, width)
        )
    found = _resolved(model, run, _first_knots(run, knots))
    if found is None:
        return None
    mesh, states, path = found
    return _chain(model, run, mesh, states, path)


def _first_knots(run: Run, knots: np.ndarray | None) -> np.ndarray:
    edges = run.edges
    even = np.linspace(run.t0, edges[-1], FEWEST + 1)
    given = even if knots is None else knots[(knots > run.t0) & (knots < edges[-1])]
    if knots is not None and (last := max(knots[-1], run.t0)) < edges[-1]:
        given = np.concatenate([given, np.linspace(last, edges[-1], FEWEST + 1)])
    every = np.unique(np.concatenate([edges, given]))
    room = 1e-9 * (edges[-1] - edges[0])
    near = np.abs(every[:, None] - edges).min(axis=1)
    every = every[(near == 0) | (near > room)]
    return every[np.concatenate([[True], np.diff(every) > 1e-3 * room])]


def _resolved(model: Model, run: Run, knots: np.ndarray) -> tuple[Mesh, np.ndarray, np.ndarray] | None:
    """A mesh that resolves the solution, its states at the knots (segments, states) and nodes."""
    for _ in range(ROUNDS):
        mesh = Mesh(rule(NODES), (knots,))
        wanted = np.unique(np.concatenate([knots, mesh.node_times.ravel()]))
        solved = trajectories(model, [replace(run, times=wanted)])[0]
        if solved is None:
            return None
        states = solved[np.searchsorted(wanted, knots[:-1])]
        path = solved[np.searchsorted(wanted, mesh.node_times)]
        field = Field(model.rhs, mesh, values_at(run.inputs, model.inputs, mesh.node_times))
        size = np.maximum(np.abs(path).max(axis=(0, 1)), 1e-300)
        open_ = (tails(mesh, field.slopes(path, run.params)) / size).max(axis=1) > RESOLVED
        if not open_.any() or len(knots) > MOST_SEGMENTS:
            break
        knots = np.sort(np.concatenate([knots, 0.5 * (knots[1:] + knots[:-1])[open_]]))
    return mesh, states, path


def _chain(model: Model, run: Run, mesh: Mesh, states: np.ndarray, path: np.ndarray) -> Sensitivity:
    """Carry the derivatives from segment to segment and evaluate solution and derivatives at the times of the run."""
    count, parameters = states.shape[1], len(run.params)
    field = Field(model.rhs, mesh, values_at(run.inputs, model.inputs, mesh.node_times))
    with np.errstate(all="ignore"):
        slopes, wrt_x, wrt_p = field.linearise(path, run.params)
        multipliers = exact_multipliers(mesh, np.linalg.inv(newton_matrix(mesh, wrt_x)), wrt_p)
        columns = np.zeros((len(mesh), count + parameters, count + parameters))
        columns[0, :count, :count] = np.eye(count)
        columns[:, count:, count:] = np.eye(parameters)
        forward(mesh, end_derivatives(mesh, mesh.linked, multipliers), columns)
        segment, fraction = mesh.locate(run.times, np.zeros(len(run.times), int))
        moved = wrt_x @ multipliers  # derivative of f along the path by [start of the segment | parameters]
        moved[..., count:] += wrt_p
        weights = mesh.length[segment][:, None] * mesh.rule.integrals(fraction)  # exactly zero at the start
        inside = np.einsum("tn,tnij->tij", weights, moved[segment])
        inside[..., :count] += np.eye(count)
        derivatives = inside @ columns[segment]
        values = states[segment] + np.einsum("tn,tni->ti", weights, slopes[segment])
    return Sensitivity(values, derivatives)
