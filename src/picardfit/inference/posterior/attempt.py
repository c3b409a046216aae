"""One solution of all lanes: Newton's method on every segment, and the adjoint equations of its end.

A Newton step for u = P u with continuity at the knots is, with M = I - h A (x) f_x,

    w = M^-1 (P u - u),   d_(j+1) = E_j d_j + w_j(end) + c_j,   u <- u + w + S d,   x <- x + d,

where S = M^-1 [I] is the derivative of a segment's path by its start state, E its last node and c the jumps. Lanes
start from the path, and the matrices, of a point close by. The gradient comes from the adjoint equations,
y_j = g_j + E_j' y_(j+1) along the knots and v = b M^-1 on each segment, solved with the same matrices and refined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from picardfit.collocation.mesh import Flags
from picardfit.collocation.picard import Field, apply
from picardfit.formulas.kernels import Array
from picardfit.problem.least_squares import LeastSquares

if TYPE_CHECKING:
    from picardfit.inference.posterior.density import Lanes


@dataclass(frozen=True)
class LaneSettings:
    """When a lane has been solved; errors are relative to the states' scale. The values are chosen."""

    tolerance: float = (
        1e-5  # |u - P u| and jumps at which a lane is solved; adjoints correct the cost for what is left
    )
    alone: float = 1e-7  # the same for a cost without a gradient, which nothing corrects
    steps: int = 12  # of Newton's method at most; beyond these an integration starts the lane again
    fresh: int = 4  # steps with new matrices at most
    slow: float = 0.25  # fraction of the error that a step may leave before new matrices are made
    gradient: float = 1e-4  # relative defect of the adjoint equations at which the gradient is taken
    refined: int = 4  # corrections of the adjoints with older matrices at most, before new ones are made
    whole: int = (
        100_000  # numbers in the products of all E, up to which these are formed: fewer calls, more flops
    )
    integration: float = 1e-8  # relative tolerance of that integration
    precise: float = 1e-4  # factor of both tolerances where gradients are differenced for second derivatives
    large: int = (
        5_000  # numbers of a path from which lanes are solved one by one, for side by side is no quicker
    )


@dataclass(frozen=True)
class Track:
    """The solution of one lane, from which another one close by can start."""

    states: Array  # (segments, states): start state of each segment
    path: Array  # (segments, nodes, states)
    inverse: Array  # (segments, ...): inverses of the Newton matrices (`Field.inverses`)
    by_start: Array  # (segments, nodes * states, states): S
    products: Array | None = None  # (experiments, ...): products of all E, where they are formed


@dataclass(frozen=True)
class Solved:
    """Lanes side by side. Where a lane has no solution, its cost is infinite and its slope zero."""

    cost: Array  # (lanes,): -log likelihood
    slope: (
        Array | None
    )  # (lanes, experiments, width): by the unknowns; shared ones have a part in every experiment
    rows: Array  # (lanes, samples, rows)
    tracks: tuple[Track | None, ...]


class Attempt:
    """One solution of all lanes; arrays over segments are lane after lane."""

    def __init__(self, lanes: Lanes, unknowns: Array, tracks: list[Track | None]) -> None:
        self.lanes, self.system, self.settings = lanes, lanes.system, lanes.settings
        self.count, self.segments = lanes.count, len(lanes.mesh)
        self.unknowns = unknowns.reshape(-1, unknowns.shape[-1])
        self.given, self.tracks = unknowns, tracks
        layout = self.system.problem.layout
        self.params = layout.measured_values(self.unknowns)
        self.initial, self.by_unknowns = layout.initial(self.unknowns)
        self.spread = self.system.spread(self.params)
        self.whole: Array | None = None
        self.fresh: tuple[Array, Array] | None = None  # derivatives of f at the path, where they are known
        self.alive = np.isfinite(self.initial).reshape(self.count, -1).all(axis=1)

    def solve(self, gradient: bool) -> Solved:
        self._begin()
        enough = self.settings.tolerance if gradient else self.settings.alone
        for attempt in range(2):
            error = self._contract(enough)
            lost = self.alive & ~(error <= enough)
            if not lost.any():
                break
            if attempt == 1:
                self.alive &= ~lost
            else:
                self._again(np.flatnonzero(lost).tolist())
        rows, cost = self._costs()
        alive = self.alive & np.isfinite(cost)
        self.lanes.work.failures += int((~alive).sum())
        slope = None
        if gradient:
            slope, correction = self._slope(rows, alive)
            cost = cost + correction
        shape = (self.count, self.segments)
        states, path = (a.reshape(*shape, *a.shape[1:]) for a in (self.x, self.path))
        inverse, by_start = (a.reshape(*shape, *a.shape[1:]) for a in (self.inverse, self.by_start))
        whole: list[Array | None] = [None] * self.count
        if self.whole is not None:
            whole = [*np.split(self.whole, self.count)]
        tracks = tuple(
            Track(states[k], path[k], inverse[k], by_start[k], whole[k]) if alive[k] else None
            for k in range(self.count)
        )
        return Solved(
            np.where(alive, cost, np.inf), slope, rows.reshape(self.count, -1, rows.shape[1]), tracks
        )

    def _begin(self) -> None:
        """Start every lane from its track, and those without one from an integration."""
        usable: Track | None = next((track for track in self.tracks if track is not None), None)
        fresh = [k for k, track in enumerate(self.tracks) if track is None]
        if usable is None:
            self.x, self.path = (np.concatenate(parts) for parts in self._integrated(fresh))
            self._place_initial()
            self._linearise()
            return
        every = [track or usable for track in self.tracks]
        self.x = np.concatenate([track.states for track in every])
        self.path = np.concatenate([track.path for track in every])
        self.inverse = np.concatenate([track.inverse for track in every])
        self.by_start = np.concatenate([track.by_start for track in every])
        if self.lanes.even and all(track.products is not None for track in every):
            self.whole = np.concatenate([track.products for track in every if track.products is not None])
        if fresh:
            self._again(fresh)
        else:
            self._place_initial()

    def _integrated(self, chosen: Sequence[int]) -> tuple[list[Array], list[Array]]:
        """States and paths of lanes; those that explode are given up and stay at their initial states.

        Lanes that nobody needs repeat another one, which is integrated once.
        """
        states, paths = [], []
        known: dict[bytes, tuple[Array, Array] | None] = {}
        for k in chosen:
            point = self.given[k].tobytes()
            if self.alive[k] and point not in known:
                known[point] = self.lanes.integrated(self.given[k])
            found = known.get(point)
            if found is None:
                self.alive[k] = False
                mesh = self.lanes.mesh
                first = self.initial.reshape(self.count, -1, self.initial.shape[1])[k][mesh.experiment]
                found = first, np.repeat(first[:, None, :], len(mesh.rule.nodes), axis=1)
            states.append(found[0])
            paths.append(found[1])
        return states, paths

    def _again(self, chosen: Sequence[int]) -> None:
        """Start lanes from integrations with fresh matrices."""
        for k, states, path in zip(chosen, *self._integrated(chosen), strict=True):
            mine = slice(k * self.segments, (k + 1) * self.segments)
            self.x[mine], self.path[mine] = states, path
        self._place_initial()
        self._linearise()

    def _place_initial(self) -> None:
        self.x[self.system.mesh.first] = self.initial

    def _linearise(self) -> None:
        """Newton matrices and S along the path."""
        self.whole = None
        wrt_x, _ = self.fresh = self.system.field.linearise(self.path, self.spread)[1:]
        self.inverse, self.by_start = self._matrices(self.system.field, wrt_x)

    def _matrices(self, field: Field, wrt_x: Array) -> tuple[Array, Array]:
        """Inverses of the Newton matrices, and S."""
        inverse = field.inverses(wrt_x)
        unit = np.tile(np.eye(self.x.shape[1]), (len(field.mesh.rule.nodes), 1))
        if field.plan is None:
            return inverse, inverse @ unit
        return inverse, field.solve(inverse, np.repeat(unit[None], len(wrt_x), axis=0))

    def _contract(self, enough: float) -> Array:
        """(lanes,): the error after Newton steps.

        The first step uses the matrices of the track. New ones are made whenever a step leaves too much of the error.
        """
        system, rules = self.system, self.settings
        mesh, left, before = system.mesh, rules.fresh, np.inf
        for step in range(rules.steps + 1):
            slopes = system.field.slopes(self.path, self.spread)
            gap = apply(mesh, self.x, slopes) - self.path
            jump = system.end_states(self.x, self.path, self.params) - self.x[mesh.inner_rows]
            error = self._errors(gap, jump)
            worst = float(np.max(np.where(self.alive, error, 0.0)))
            if worst <= enough or not np.isfinite(worst) or step == rules.steps:
                break
            if left and step and worst > rules.slow * before:
                self._linearise()
                left -= 1
            before = worst
            self._step(gap, jump)
            self.lanes.work.steps += 1
        self.left = gap, jump
        return error

    def _errors(self, gap: Array, jump: Array) -> Array:
        """(lanes,): largest gap or jump, relative to the states' scale."""
        scale = self.lanes.scale
        own = (np.abs(gap) / scale).reshape(self.count, -1).max(axis=1)
        if not len(jump):
            return own
        return np.maximum(own, (np.abs(jump) / scale).reshape(self.count, -1).max(axis=1))

    def _step(self, gap: Array, jump: Array) -> None:
        """One Newton step of path and start states."""
        states = self.x.shape[1]
        change = self.system.field.solve(self.inverse, gap.reshape(len(gap), -1, 1))[..., 0]
        added = self.system.felt(change[self.system.mesh.linked_rows, -states:]) + jump
        move = self._forward(added)
        change += (self.by_start @ move)[..., 0]
        self.x = self.x + move[..., 0]
        self.path, self.fresh = self.path + change.reshape(self.path.shape), None

    def _links(self) -> Array:
        """(linked, states, states): E, the derivative of the start of the next segment by that of each one."""
        return self.system.felt(self.by_start[self.system.mesh.linked_rows, -self.x.shape[1] :])

    def _products(self) -> Array:
        """(experiments, segments * states, segments * states): derivative of start states by earlier ones.

        Those of all experiments, with as many segments each; made once for each set of matrices.
        """
        if self.whole is None:
            even, states = self.lanes.even, self.x.shape[1]
            links = self._links().reshape(-1, even - 1, states, states)
            whole, unit = np.zeros((len(links), even, states, even * states)), np.eye(states)
            whole[:, 0, :, :states] = unit
            for j in range(1, even):
                np.matmul(links[:, j - 1], whole[:, j - 1], out=whole[:, j])
                whole[:, j, :, j * states : (j + 1) * states] = unit
            self.whole = whole.reshape(len(links), even * states, even * states)
        return self.whole

    def _forward(self, added: Array) -> Array:
        """(segments, states, 1): d with d_(j+1) = E_j d_j + added_j (linked, states), zero at the first segments."""
        move = np.zeros((*self.x.shape, 1))
        if self.lanes.even:
            states = self.x.shape[1]
            flat = added.reshape(len(self.unknowns), -1, 1)
            return np.asarray(self._products()[:, :, states:] @ flat).reshape(move.shape)
        links, added = self._links(), added[..., None]
        for here, after, link in self.lanes.order:
            move[after] = links[link] @ move[here] + added[link]
        return move

    def _backward(self, total: Array) -> Array:
        """(segments, states): y_j = g_j + E_j' y_(j+1) from g (segments, states)."""
        if self.lanes.even:
            flat = total.reshape(len(self.unknowns), 1, -1)
            return np.asarray(flat @ self._products()).reshape(total.shape)
        links, total = self._links().transpose(0, 2, 1), total[..., None].copy()
        for here, after, link in reversed(self.lanes.order):
            total[here] += links[link] @ total[after]
        return total[..., 0]

    def _costs(self) -> tuple[Array, Array]:
        """Rows at the samples (all samples, rows) and the cost of each lane."""
        system = self.system
        self.sampled = system.at_samples(self.x, self.path)
        rows = system.outputs(self.sampled, self.params)
        assert not isinstance(system.objective, LeastSquares), "draws need a likelihood"
        each = system.objective.costs(rows)
        cost = each.reshape(self.count, -1).sum(axis=1)
        return rows, cost

    def _slope(self, rows: Array, alive: Flags) -> tuple[Array, Array]:
        """Adjoint derivative of the costs by the unknowns (lanes, experiments, width); what the costs miss (lanes,)."""
        system, layout = self.system, self.system.problem.layout
        by_rows = system.objective.terms(rows).slope
        if system.selected is not None:
            by_states, direct = np.zeros_like(self.sampled), None
            by_states[:, system.selected] = by_rows
        else:
            _, out_x, out_p = system.linearised_outputs(self.sampled, self.params)
            by_states = (by_rows[:, None, :] @ out_x)[:, 0]
            direct = (by_rows[:, None, :] @ out_p[..., layout.free_columns])[:, 0]
        by_params, by_initial, correction = self._adjoint(by_states, alive)
        slope = (self.by_unknowns.transpose(0, 2, 1) @ by_initial[..., None])[..., 0]
        if direct is not None:
            by_params += np.add.reduceat(direct, self.lanes.first_samples)
        chain = 1.0 if layout.linear else layout.parameter_slopes(self.unknowns)
        slope[:, layout.columns.index] += by_params * chain
        slope = slope.reshape(self.given.shape)
        slope[~alive] = 0.0
        return slope, correction

    def _adjoint(self, by_states: Array, alive: Flags) -> tuple[Array, Array, Array]:
        """Derivatives by free parameters (all experiments, parameters) and initial states (all experiments, states).

        The third are the costs' changes (lanes,) by a last Newton step, to first order: v . (P u - u) + y . jumps. So
        costs are exact to second order in what the contraction left, and as smooth as if it had gone on.
        """
        system, mesh = self.system, self.system.mesh
        blocks, (of_start, of_nodes) = system.blocks, system.along
        padded = blocks.padded(by_states)
        on_path = blocks.by_segment(of_nodes.transpose(0, 2, 1) @ padded)
        on_start = blocks.by_segment((of_start.transpose(0, 2, 1) @ padded)[:, 0])
        v, weights, total = self._refined(on_path, on_start, alive)
        assert self.fresh is not None, "the refinement needs derivatives at this path"
        by_p = self.fresh[1][..., system.problem.layout.free_columns]
        found = (weights.reshape(len(weights), 1, -1) @ by_p.reshape(len(by_p), -1, by_p.shape[-1]))[:, 0]
        gap, jump = self.left
        missed = (v * gap).reshape(self.count, -1).sum(axis=1)
        missed += (total[mesh.inner_rows] * jump).reshape(self.count, -1).sum(axis=1)
        return np.add.reduceat(found, mesh.first), total[mesh.first], missed

    def _refined(self, on_path: Array, on_start: Array, alive: Flags) -> tuple[Array, Array, Array]:
        """v, h A' v at the nodes, and y: solutions of v M = b with y = on_start + sum of v, at this very path.

        Matrices that were made close by give a first solution; what it leaves of the equations is solved again with
        them until little is left. So inverses, the most expensive part of large problems, are seldom made.
        """
        system, mesh, rules = self.system, self.system.mesh, self.settings
        if self.fresh is None:
            self.fresh = system.field.linearise(self.path, self.spread)[1:]
        wrt_x, _ = self.fresh
        v, y = self._transposed(on_path, on_start)
        for correction in range(rules.refined + 1):
            weights = mesh.integral.transpose(0, 2, 1) @ v
            rest = on_path - v + (weights[:, :, None, :] @ wrt_x)[:, :, 0]
            rest[mesh.linked_rows, -1] += system.felt(y[mesh.inner_rows])
            left, size = (
                (np.abs(one) * self.lanes.scale).reshape(self.count, -1).max(axis=1) for one in (rest, v)
            )
            if (left <= rules.gradient * size)[alive].all():
                break
            if correction == rules.refined:
                self._linearise()
                v, y = self._transposed(on_path, on_start)
                return v, mesh.integral.transpose(0, 2, 1) @ v, y
            more, further = self._transposed(rest, np.zeros_like(on_start))
            v, y = v + more, y + further
        return v, weights, y

    def _transposed(self, on_path: Array, on_start: Array) -> tuple[Array, Array]:
        """v (segments, nodes, states) and y (segments, states) with the matrices at hand."""
        system, mesh = self.system, self.system.mesh
        flat = on_path.reshape(len(on_path), 1, -1)
        y = self._backward(on_start + (flat @ self.by_start)[:, 0])
        pulled = on_path.copy()
        pulled[mesh.linked_rows, -1] += system.felt(y[mesh.inner_rows])
        v = system.field.solve_transposed(self.inverse, pulled.reshape(flat.shape))
        return v.reshape(on_path.shape), y
