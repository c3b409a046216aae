"""Derivatives of a solution by its initial state and by the parameters, at any times and for any inputs.

The path comes from independent integration; on a mesh that resolves it the exact multipliers give the derivatives on
each segment, and these are chained from segment to segment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.adaptation import resolve
from picardfit.collocation.condensing import forward
from picardfit.collocation.mesh import TINY, Flags, Mesh, rule
from picardfit.collocation.picard import (
    Field,
    end_derivatives,
    exact_multipliers,
    tails,
)
from picardfit.formulas.kernels import Array
from picardfit.model.inputs import values_at
from picardfit.model.model import Model
from picardfit.simulation.trajectories import Run, trajectories


@dataclass(frozen=True)
class SensitivityMesh:
    """The mesh for derivatives of a solution, fine enough for errors of about 1e-8."""

    nodes: int = 9
    fewest: int = 24  # segments to begin with
    resolution: float = 1e-7  # last Legendre modes of h f, relative to the size of each state
    rounds: int = 30  # halvings of a segment
    segments: int = 20_000  # meshes with more are not split again
    room: float = 1e-9  # smallest distance of a knot from an edge, relative to the time span
    closest: float = 1e-12  # smallest distance of two knots, relative to the time span
    difference: float = 1e-6  # relative step of differences, for models with events
    after: float = (
        1e-6  # how far a run goes on after a dose at its last time, relative to its length; a choice
    )


@dataclass(frozen=True)
class Sensitivity:
    """A solution with its derivatives by [initial states | model parameters], in natural units."""

    states: Array  # (times, states)
    derivatives: Array  # (times, states, states + parameters)


def sensitivity(
    model: Model, run: Run, knots: Array | None = None, settings: SensitivityMesh = SensitivityMesh()
) -> Sensitivity | None:
    """Solution and derivatives at the times of a run; None if there is no solution up to the last of them.

    `knots` are where segments may begin, for example those of a fit.
    """
    if model.events or model.switch_times(run.params, run.inputs, run.span):
        return _by_differences(model, run, settings)
    last = float(run.times[-1]) if len(run.times) else run.t0
    if run.jumps is not None and last in run.jumps.times:  # the last states wanted are those after a dose
        later = np.append(run.times, last + settings.after * (last - run.t0))
        longer = sensitivity(model, replace(run, times=later), knots, settings)
        return None if longer is None else Sensitivity(longer.states[:-1], longer.derivatives[:-1])
    if last <= run.t0:
        states, count = len(run.initial), len(run.times)
        fixed = np.concatenate([np.eye(states), np.zeros((states, len(run.params)))], axis=1)
        return Sensitivity(np.tile(run.initial, (count, 1)), np.repeat(fixed[None], count, axis=0))

    path = _Path(model, run)

    def attempt(mesh: Mesh) -> tuple[_Solved | None, Flags]:
        found = _solved(path, mesh)
        return found, np.zeros(len(mesh), bool) if found is None else found.tails > settings.resolution

    first = Mesh(rule(settings.nodes), (_first_knots(run, knots, settings),))
    found = resolve(first, attempt, settings.rounds, settings.segments)
    return None if found is None else _chain(model, run, found)


def _first_knots(run: Run, knots: Array | None, settings: SensitivityMesh) -> Array:
    edges, count = run.edges, settings.fewest + 1
    even = np.linspace(run.t0, edges[-1], count)
    given = even if knots is None else knots[(knots > run.t0) & (knots < edges[-1])]
    if knots is not None and (last := max(knots[-1], run.t0)) < edges[-1]:
        given = np.concatenate([given, np.linspace(last, edges[-1], count)])
    every, span = np.unique(np.concatenate([edges, given])), edges[-1] - edges[0]
    near = np.abs(every[:, None] - edges).min(axis=1)
    every = every[(near == 0) | (near > settings.room * span)]
    apart: Array = every[np.concatenate([[True], np.diff(every) > settings.closest * span])]
    return apart


@dataclass(frozen=True)
class _Solved:
    """A solution on a mesh."""

    mesh: Mesh
    states: Array  # (segments, states): at the starts of the segments
    path: Array  # (segments, nodes, states)
    tails: Array  # (segments,): largest of the last Legendre modes of h f, relative to the size of each state


class _Path:
    """The states of a run at all times asked for so far, by independent integration."""

    def __init__(self, model: Model, run: Run) -> None:
        self.model, self.run = model, run
        self.times, self.states = np.zeros(0), np.zeros((0, len(run.initial)))

    def at(self, wanted: Array, knots: Array) -> Array | None:
        """(wanted, states); None if there is no solution.

        The first call integrates the whole run. Later ones begin at the knots before times that are new, between which
        nothing jumps: where a mesh is refined that takes far fewer steps.
        """
        new = wanted[~np.isin(wanted, self.times)]
        begins = knots[:-1][np.isin(knots[:-1], self.times)]
        tasks = [replace(self.run, times=new)]
        if len(self.times):
            mine = np.searchsorted(begins, new, side="right") - 1
            tasks = [self._from(begins[k], new[mine == k]) for k in np.unique(mine)]
        solved = trajectories(self.model, tasks)
        found = [states for states in solved if states is not None]
        if len(found) < len(solved):
            return None
        times = np.concatenate([self.times, new])
        order = np.argsort(times)
        self.times, self.states = times[order], np.concatenate([self.states, *found])[order]
        return self.states[np.searchsorted(self.times, wanted)]

    def _from(self, begin: float, times: Array) -> Run:
        initial = self.states[np.searchsorted(self.times, begin)]
        return replace(self.run, t0=float(begin), initial=initial, times=times, breaks=(), jumps=None)


def _solved(solution: _Path, mesh: Mesh) -> _Solved | None:
    """The solution at the knots and nodes of a mesh; None if there is none."""
    (knots,), model, run = mesh.knots, solution.model, solution.run
    wanted = np.unique(np.concatenate([knots, mesh.node_times.ravel()]))
    values = solution.at(wanted, knots)
    if values is None:
        return None
    states = values[np.searchsorted(wanted, knots[:-1])]
    path = values[np.searchsorted(wanted, mesh.node_times)]
    size = np.maximum(np.abs(path).max(axis=(0, 1)), TINY)
    slopes = _field(model, run, mesh).slopes(path, run.params)
    return _Solved(mesh, states, path, (tails(mesh, slopes) / size).max(axis=1))


def _field(model: Model, run: Run, mesh: Mesh) -> Field:
    return Field(model.rhs, mesh, values_at(run.inputs, model.inputs, mesh.node_times))


def _kept(run: Run, mesh: Mesh, ends: Array) -> Array:
    """Derivatives (linked, states, columns) of the ends of segments; states that a reset forgets have none."""
    if run.jumps is not None:
        for time, keep in zip(run.jumps.times, run.jumps.keep, strict=True):
            ends[mesh.knots[0][1:-1] == time] *= keep[:, None]
    return ends


def _chain(model: Model, run: Run, found: _Solved) -> Sensitivity:
    """Chain the derivatives from segment to segment; evaluate solution and derivatives at the times of the run."""
    mesh, states, path = found.mesh, found.states, found.path
    count, parameters, field = states.shape[1], len(run.params), _field(model, run, mesh)
    with np.errstate(all="ignore"):
        slopes, wrt_x, wrt_p = field.linearise(path, run.params)
        multipliers = exact_multipliers(field, field.inverses(wrt_x), wrt_p)
        columns = np.zeros((len(mesh), count + parameters, count + parameters))
        columns[0, :count, :count] = np.eye(count)
        columns[:, count:, count:] = np.eye(parameters)
        forward(mesh, _kept(run, mesh, end_derivatives(mesh, mesh.linked, multipliers)), columns)
        segment, fraction = mesh.locate(run.times, np.zeros(len(run.times), int))
        moved = wrt_x @ multipliers  # derivative of f along the path by [start of the segment | parameters]
        moved[..., count:] += wrt_p
        weights = mesh.length[segment][:, None] * mesh.rule.integrals(fraction)  # exactly zero at the start
        inside = np.einsum("tn,tnij->tij", weights, moved[segment])
        inside[..., :count] += np.eye(count)
        derivatives = inside @ columns[segment]
        values = states[segment] + np.einsum("tn,tni->ti", weights, slopes[segment])
    return Sensitivity(values, derivatives)


def _by_differences(model: Model, run: Run, settings: SensitivityMesh) -> Sensitivity | None:
    """Solution and derivatives of a model whose states or equations jump at times that depend on its parameters.

    They are differences of integrations with event location, to the side where the state changes less: beside an event
    the other one spans a jump of the state.
    """
    values = np.concatenate([run.initial, run.params])
    states, steps = len(run.initial), settings.difference * np.where(values == 0, 1.0, np.abs(values))
    tasks = [run]
    for k, step in enumerate(steps):
        for sign in (1, -1):
            moved = values.copy()
            moved[k] += sign * step
            tasks.append(replace(run, initial=moved[:states], params=moved[states:]))
    found = [one for one in trajectories(model, tasks) if one is not None]
    if len(found) < len(tasks):
        return None
    ahead, behind = np.array(found[1::2]) - found[0], found[0] - np.array(found[2::2])
    least = np.where(np.abs(ahead) < np.abs(behind), ahead, behind)
    return Sensitivity(found[0], np.moveaxis(least / steps[:, None, None], 0, -1))
