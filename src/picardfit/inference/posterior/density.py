"""The log-density of the posterior in unconstrained coordinates with its gradient, for many points at once.

Points are solved side by side. A lane is a copy of all experiments with unknowns of its own, on a mesh that all lanes
share and that does not change: costs and gradients are then those of one smooth function, whose energy a Hamiltonian
path keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Indices, Mesh, QuickIndex
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.attempt import Attempt, LaneSettings, Solved, Track
from picardfit.inference.posterior.coordinates import Coordinates
from picardfit.problem.problem import Problem
from picardfit.simulation.trajectories import Run, trajectories


@dataclass
class Work:
    """What was done so far."""

    calls: int = 0
    steps: int = 0
    integrations: int = 0
    failures: int = 0


@dataclass(frozen=True)
class Lanes:
    """Copies of a problem on one mesh, side by side."""

    problem: Problem
    mesh: Mesh  # of one lane
    scale: Array  # (states,)
    count: int
    settings: LaneSettings = field(default_factory=LaneSettings)
    work: Work = field(default_factory=Work)

    @property
    def exact(self) -> Lanes:
        """These lanes with gradients that are precise enough to be differenced."""
        rules = self.settings
        tolerance, gradient = rules.precise * rules.tolerance, rules.precise * rules.gradient
        return replace(self, settings=replace(rules, tolerance=tolerance, gradient=gradient))

    @property
    def apart(self) -> Lanes:
        """These lanes, or one at a time where a path is large."""
        numbers = len(self.mesh) * len(self.mesh.rule.nodes) * len(self.scale)
        return replace(self, count=1) if numbers >= self.settings.large else self

    @cached_property
    def system(self) -> Discretisation:
        """The problem with all its experiments once for each lane."""
        copies = [
            replace(one, name=f"{one.name} ({k})", table=None, remarks=())
            for k in range(self.count)
            for one in self.problem.experiments
        ]
        whole = self.problem.with_experiments(copies)
        return Discretisation(whole, Mesh(self.mesh.rule, self.mesh.knots * self.count))

    @cached_property
    def order(self) -> list[tuple[QuickIndex, QuickIndex, QuickIndex]]:
        """For each step along the knots: the segments, their successors and their links, of all lanes."""
        mesh, counts = self.system.mesh, self.system.mesh.counts
        link = np.full(len(mesh), -1)
        link[mesh.linked] = np.arange(len(mesh.linked))
        if (counts == counts[0]).all():
            n = int(counts[0])
            return [(slice(j, None, n), slice(j + 1, None, n), slice(j, None, n - 1)) for j in range(n - 1)]
        found: list[tuple[QuickIndex, QuickIndex, QuickIndex]] = []
        for step in range(int(counts.max()) - 1):
            segment = mesh.first[counts > step + 1] + step
            found.append((segment, segment + 1, link[segment]))
        return found

    def solve(self, unknowns: Array, tracks: Sequence[Track | None], gradient: bool = True) -> Solved:
        """Solve for unknowns (lanes, experiments, width), each lane from a track close by, or from an integration."""
        self.work.calls += 1
        with np.errstate(all="ignore"):
            return Attempt(self, unknowns, list(tracks)).solve(gradient)

    def tails(self, track: Track) -> Array:
        """(segments,): the last Legendre modes of a path, relative to the states' scale: what is not resolved."""
        rule = self.mesh.rule
        modes = rule.tail[:, :1] * track.states[:, None, :] + rule.tail[:, 1:] @ track.path
        found: Array = (np.abs(modes).max(axis=1) / self.scale).max(axis=1)
        return found

    @cached_property
    def even(self) -> int:
        """Segments of each experiment if all have equally many, and few; else 0."""
        counts, states = self.system.mesh.counts, len(self.scale)
        few = len(counts) * (int(counts[0]) * states) ** 2 <= self.settings.whole
        return int(counts[0]) if few and (counts == counts[0]).all() else 0

    @cached_property
    def first_samples(self) -> Indices:
        """(lanes * experiments,): the first sample of each."""
        owner = self.system.problem.samples.experiment
        return np.asarray(np.searchsorted(owner, np.arange(len(self.system.mesh.counts))))

    def integrated(self, unknowns: Array) -> tuple[Array, Array] | None:
        """States (segments, states) and path of one lane (experiments, width) by SciPy; None if it explodes."""
        self.work.integrations += 1
        problem, mesh = self.problem, self.mesh
        layout, model = problem.layout, problem.solved_model
        initial, params = layout.initial(unknowns)[0], layout.model_values(unknowns)
        tasks, wanted = [], []
        for e, one in enumerate(problem.experiments):
            mine = slice(mesh.first[e], mesh.first[e] + mesh.counts[e])
            times = np.unique(np.concatenate([mesh.start[mine], mesh.node_times[mine].ravel()]))
            events = problem.events(e)
            tasks.append(
                Run(one.t0, initial[e], params[e], one.signals, times, *events, sizes=problem.state_sizes[e])
            )
            wanted.append((times, mine))
        solved = trajectories(model, tasks, self.settings.integration)
        states = np.empty((len(mesh), len(model.states)))
        path = np.empty((*mesh.node_times.shape, len(model.states)))
        for found, (times, mine) in zip(solved, wanted, strict=True):
            if found is None:
                return None
            states[mine] = found[np.searchsorted(times, mesh.start[mine])]
            path[mine] = found[np.searchsorted(times, mesh.node_times[mine])]
        if problem.increments is not None:  # running states begin anew at every knot that resets them
            states, path = self._restarted(states, path)
        return states, path

    def _restarted(self, states: Array, path: Array) -> tuple[Array, Array]:
        """Running states since their last reset in place of since t0."""
        assert self.problem.increments is not None
        first, states, path = self.problem.increments.states, states.copy(), path.copy()
        for e, resets in enumerate(self.problem.increments.resets):
            mine = slice(self.mesh.first[e], self.mesh.first[e] + self.mesh.counts[e])
            for k, times in enumerate(resets):
                at = np.searchsorted(self.mesh.start[mine], times - 1e-12 * abs(times))
                last = np.searchsorted(at, np.arange(self.mesh.counts[e]), side="right") - 1
                base = np.where(
                    last >= 0, states[mine, first + k][at[np.maximum(last, 0)]] if len(at) else 0.0, 0.0
                )
                states[mine, first + k] -= base
                path[mine, :, first + k] -= base[:, None]
        return states, path


@dataclass(frozen=True)
class Position:
    """A point with the log-density there; `track` is its solution, from which points close by are solved."""

    z: Array  # (d,)
    log_density: float
    slope: Array  # (d,)
    track: Track | None

    @property
    def possible(self) -> bool:
        return bool(np.isfinite(self.log_density))

    def at(self, z: Array) -> Position:
        """Another point, where nothing is known yet."""
        return Position(z, np.nan, np.zeros_like(z), None)


@dataclass(frozen=True)
class Target:
    """log p(z | data) up to a constant: log likelihood + log prior + log |dy/dz|.

    Where no prior is given the density is flat in the value, or in its logarithm for a log parameter.
    """

    coordinates: Coordinates
    lanes: Lanes
    pool: Executor | None = None  # threads that solve the lanes, where each has a batch of its own

    def positions(
        self, points: Sequence[tuple[Array, Track | None]], gradient: bool = True
    ) -> list[Position]:
        """The density at points (z, track of a point close by), as many at a time as there are lanes."""
        count = self.lanes.count
        groups = [points[first : first + count] for first in range(0, len(points), count)]
        every = map if self.pool is None or len(groups) == 1 else self.pool.map
        return [one for some in every(lambda group: self._some(group, gradient), groups) for one in some]

    def _some(self, points: Sequence[tuple[Array, Track | None]], gradient: bool) -> list[Position]:
        missing = self.lanes.count - len(points)
        every = [*points, *[points[0]] * missing]  # lanes that nobody needs repeat the first one
        z = np.array([one for one, _ in every])
        log_density, slope, tracks = self.evaluate(z, [track for _, track in every], gradient)
        return [Position(*one) for one in zip(z, log_density.tolist(), slope, tracks, strict=True)][
            : len(points)
        ]

    def evaluate(
        self, z: Array, tracks: Sequence[Track | None], gradient: bool = True
    ) -> tuple[Array, Array, tuple[Track | None, ...]]:
        """Log-density (lanes,), gradient (lanes, d) and solutions at z (lanes, d); -inf without a solution."""
        y, by_z, volume, by_volume = self.coordinates.internal(z)
        unknowns = self.coordinates.unknowns(y)
        solved = self.lanes.solve(unknowns, tracks, gradient)
        priors = self.lanes.problem.priors
        cost, slope = solved.cost, solved.slope
        with np.errstate(all="ignore"):  # values that overflow are rejected below
            if priors is not None:
                prior_cost, prior_slope = priors.density(unknowns)
                cost = cost + prior_cost
                slope = None if slope is None else slope + prior_slope
            flat, by_flat = self.coordinates.flat_density(y)
            log_density = volume.sum(axis=1) + flat.sum(axis=1) - cost
            if slope is None:
                found = np.zeros(z.shape)
            else:
                found = by_volume + (by_flat - self.coordinates.gathered(slope)) * by_z
        fine = np.isfinite(log_density) & np.isfinite(found).all(axis=1) & ~self.coordinates.beyond(z)
        log_density = np.where(fine, log_density, -np.inf)
        return log_density, np.where(fine[:, None], found, 0.0), solved.tracks
