"""Algorithm 4 on many data sets at once: the same steps as picardfit's, with one more axis.

A step on one data set is some forty NumPy calls on a few hundred numbers, and most of its time is spent on the calls.
Data sets of the same model, the same times and the same mesh go through them together; each has its own rate, its own
line search and its own end. Arrays are (points, components, data sets); the unknowns z of a data set are a column:
initial states and parameters, then the start states of the later segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import sympy

from picardfit.errors import Status
from picardfit.formulas.algebra import symbol
from picardfit.formulas.codegen import kernel
from picardfit.solvers.picard_gradient.algorithms import State
from picardfit.solvers.picard_gradient.extended_loss import Setting


@dataclass(frozen=True)
class End:
    """Where one data set stands: unknowns and what Algorithm 4 says of itself."""

    unknowns: np.ndarray  # (experiments, width)
    status: Status | None
    iterations: int
    slope: float
    jump: float


@dataclass(frozen=True)
class Common:
    """What all data sets share: mesh, equations and where the unknowns stand."""

    setting: Setting

    @cached_property
    def forward(self) -> Callable:
        rhs = self.setting.system.problem.model.rhs
        return _function(rhs.expressions, rhs.states, rhs.parameters, rhs.inputs)

    @cached_property
    def backward(self) -> Callable:
        """lambda' f_x and lambda' f_p as rows of expressions; lambda comes in as further inputs."""
        rhs = self.setting.system.problem.model.rhs
        weights = [f"adjoint_of_{s}" for s in rhs.states]
        rows = []
        for entries, names in zip(rhs.jacobian, (rhs.states, rhs.parameters), strict=True):
            for k in range(len(names)):
                terms = [symbol(w) * entries[i, k] for i, w in _having(entries, k, weights)]
                rows.append(sympy.Add(*terms))
        return _function(rows, rhs.states, rhs.parameters, (*rhs.inputs, *weights))

    @cached_property
    def node_times(self) -> np.ndarray:
        return self.setting.system.mesh.node_times.reshape(-1, 1)

    @cached_property
    def node_inputs(self) -> np.ndarray:
        inputs = self.setting.system.field.inputs
        return inputs.reshape(len(self.node_times), inputs.shape[-1], 1)

    @cached_property
    def measured(self) -> list[int]:
        """The states that are measured: the observables of the paper's problems are states."""
        model = self.setting.system.problem.model
        return [model.states.index(str(e)) for e in model.output.expressions]

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of z: of every start state (segments, states), and of every parameter (parameters,)."""
        setting = self.setting
        layout, count = setting.system.problem.layout, len(setting.first) + len(setting.inner)
        states = len(layout.states)
        of_states = np.full((count, states), -1)
        free = layout.exists[:, : len(layout.initial_states)]
        own = (
            np.cumsum(free).reshape(free.shape) - 1
        )  # rows of z: free initial states, experiment by experiment
        shared = int(free.sum()) + np.arange(len(layout.global_parameters))
        for e, first in enumerate(setting.first):
            for column in np.flatnonzero(free[e]):
                of_states[first, layout.initial_states[column]] = own[e, column]
        row_of = dict(zip(layout.global_parameters.tolist(), shared.tolist(), strict=True))
        for e, s in zip(*np.nonzero(layout.formula_of >= 0), strict=True):
            name = str(layout.formulas.expressions[layout.formula_of[e, s]])
            of_states[setting.first[e], s] = row_of[layout.names.index(name)]
        begin = int(free.sum()) + len(shared)
        inner = np.arange(len(setting.inner) * states).reshape(-1, states)
        of_states[setting.inner] = begin + inner
        if (of_states < 0).any() or layout.log.any() or len(layout.local_parameters):
            raise NotImplementedError(
                "Only problems without known initial states, logs and local parameters."
            )
        return of_states, np.array([row_of[k] for k in range(layout.model_parameters)])

    @cached_property
    def gather(self):
        """(rows of z, segments * states): adds the slopes of start states up in z."""
        from scipy.sparse import csr_array

        of_states = self.places[0].ravel()
        entries = (np.ones(len(of_states)), (of_states, np.arange(len(of_states))))
        return csr_array(entries, shape=(of_states.max() + 1, len(of_states)))

    def column(self, unknowns: np.ndarray, knots: np.ndarray) -> np.ndarray:
        """z of one data set."""
        layout = self.setting.system.problem.layout
        free = layout.exists[:, : len(layout.initial_states)]
        own = unknowns[:, : len(layout.initial_states)][free]
        return np.concatenate([own, unknowns[0, layout.local :], knots.ravel()])

    def unknowns(self, column: np.ndarray, like: np.ndarray) -> np.ndarray:
        """The unknowns of one data set from its z."""
        layout = self.setting.system.problem.layout
        free, unknowns = layout.exists[:, : len(layout.initial_states)], like.copy()
        count = int(free.sum())
        unknowns[:, : len(layout.initial_states)][free] = column[:count]
        unknowns[:, layout.local :] = column[count : count + len(layout.global_parameters)]
        return unknowns


def _having(entries: dict, column: int, weights: Sequence[str]) -> Iterable[tuple[int, str]]:
    return ((i, w) for i, w in enumerate(weights) if (i, column) in entries)


@dataclass(frozen=True)
class Herd:
    """The data sets that are still on their way; the last axis runs over them."""

    which: np.ndarray  # (sets,): number of each data set
    z: np.ndarray  # (unknowns, sets)
    lower: np.ndarray
    upper: np.ndarray
    weight: np.ndarray  # (sets,): lambda
    data: np.ndarray  # (samples, observables, sets)
    path: np.ndarray  # (nodes, states, sets): u
    rate: np.ndarray  # (sets,)
    loss: np.ndarray  # (sets,)
    slope: np.ndarray  # (unknowns, sets): gradient
    jumps: np.ndarray  # (knots, states, sets)
    norm: np.ndarray  # (sets,): of the projected gradient
    by_parameters: np.ndarray  # (sets,): the same, parameters only
    gap: np.ndarray  # (sets,): |u - P u|

    def part(self, chosen: np.ndarray) -> Herd:
        """Some of the data sets."""
        return Herd(**{f.name: getattr(self, f.name)[..., chosen] for f in fields(self)})


def descend(
    states: Sequence[State],
    steps: int,
    look: Callable[[int, str, int, np.ndarray], None],
    marks: Sequence[int] = (),
    slopes: Sequence[float] = (),
) -> list[End]:
    """Run Algorithm 4 from the states that its `init` gave for data sets of one shape.

    `look(number of the data set, name, steps, unknowns)` is called after the steps `marks`, and when the norm of the
    projected gradient by the parameters, by which the paper stops, is first below one of `slopes`.
    """
    common = Common(states[0].setting)
    ends: dict[int, End] = {}
    likes = [s.candidate.unknowns for s in states]
    for number, state in enumerate(states):
        if state.status is not None:
            ends[number] = End(state.candidate.unknowns, state.status, 0, state.slope, state.jump)
    running = [n for n in range(len(states)) if n not in ends]
    scale = np.stack([s.setting.scale for s in states])
    herd = _assemble(common, states, running)

    def leave(of: Herd, chosen: np.ndarray, status: Status | None, done: int) -> None:
        for k in np.flatnonzero(chosen):
            number = int(of.which[k])
            jump = float(np.abs(of.jumps[..., k] / scale[number]).max(initial=0.0))
            unknowns = common.unknowns(of.z[:, k], likes[number])
            ends[number] = End(unknowns, status, done, float(of.norm[k]), jump)

    done, open_slopes = 0, {limit: set(running) for limit in slopes}
    with np.errstate(all="ignore"):
        while len(herd.which) and done < steps:
            after, stalled = _advance(common, herd)
            done += 1
            lost = ~stalled & ~(
                np.isfinite(after.loss) & np.isfinite(after.norm) & np.isfinite(after.path).all(axis=(0, 1))
            )
            small = common.setting.scheme.tolerance
            arrived = ~stalled & ~lost & (after.norm <= small) & (after.gap <= small)
            leave(herd, stalled, Status.STALLED, done)
            leave(herd, lost, Status.DIVERGED, done)
            leave(after, arrived, Status.CONVERGED, done)
            left = stalled | lost | arrived
            herd = after.part(~left) if left.any() else after
            for name, chosen in _seen(herd, done, marks if done < steps else (), open_slopes):
                for k in chosen:
                    number = int(herd.which[k])
                    look(number, name, done, common.unknowns(herd.z[:, k], likes[number]))
    leave(herd, np.ones(len(herd.which), bool), None, done)
    return [ends[n] for n in range(len(states))]


def _seen(
    herd: Herd, done: int, marks: Sequence[int], open_slopes: dict[float, set[int]]
) -> Iterable[tuple[str, list[int]]]:
    """What there is to look at after a step: a name, and places in the herd."""
    if done in marks:
        yield str(done), list(range(len(herd.which)))
    for limit, waiting in open_slopes.items():
        if not waiting:
            continue
        small = [k for k in np.flatnonzero(herd.by_parameters < limit) if int(herd.which[k]) in waiting]
        waiting.difference_update(int(herd.which[k]) for k in small)
        if small:
            yield f"slope {limit:g}", small


def _assemble(common: Common, states: Sequence[State], running: Sequence[int]) -> Herd:
    """The first state of a herd."""
    chosen = [states[n] for n in running]
    layout = [s.setting.system.problem.layout for s in chosen]
    knots = [s.candidate.knots for s in chosen]

    def columns(many_unknowns: Iterable[np.ndarray], inner: Iterable[np.ndarray]) -> np.ndarray:
        made = [common.column(b, k) for b, k in zip(many_unknowns, inner, strict=True)]
        return np.stack(made, axis=1) if made else np.zeros((0, 0))

    z = columns([s.candidate.unknowns for s in chosen], knots)
    endless = [np.full_like(k, np.inf) for k in knots]
    none = np.zeros(len(chosen))
    herd = Herd(
        which=np.array(running, int),
        z=z,
        lower=columns([u.lower for u in layout], [-k for k in endless]),
        upper=columns([u.upper for u in layout], endless),
        weight=np.array([s.setting.scheme.continuity for s in chosen]),
        data=_stacked([s.setting.system.problem.samples.data for s in chosen]),
        path=_stacked([s.path.reshape(-1, s.path.shape[-1]) for s in chosen]),
        rate=np.array([s.rate for s in chosen]),
        loss=none,
        slope=z,
        jumps=_stacked([s.gradient.jumps for s in chosen]),
        norm=none,
        by_parameters=none,
        gap=np.full(len(chosen), np.inf),
    )
    return _assess(common, herd) if len(chosen) else herd


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(arrays, axis=-1) if arrays else np.zeros((0, 0, 0))


def _advance(common: Common, herd: Herd) -> tuple[Herd, np.ndarray]:
    """One iteration of all: line search, contraction, gradient. Also which data sets found no rate."""
    count = len(herd.which)
    z, next_rate, contracted = herd.z.copy(), herd.rate.copy(), herd.path.copy()
    pending, stalled, rate = np.arange(count), np.zeros(count, bool), herd.rate.copy()
    search = common.setting.scheme.line_search
    rounding = search.rounding * np.abs(herd.loss)
    while len(pending):
        own = herd if len(pending) == count else herd.part(pending)
        tried = np.clip(own.z - rate[pending] * own.slope, own.lower, own.upper)
        wanted = search.sufficient / rate[pending] * ((tried - own.z) ** 2).sum(axis=0)
        value, applied = _loss(common, own, tried)
        decrease = own.loss - value
        good = decrease >= wanted - rounding[pending]
        hit = pending[good]
        z[:, hit], contracted[..., hit] = tried[:, good], applied[..., good]
        grows = (rate[hit] == herd.rate[hit]) & (decrease[good] > search.visible * rounding[hit])
        next_rate[hit] = np.where(grows, 2, 1) * rate[hit]
        pending = pending[~good]
        rate[pending] /= 2
        tiny = rate[pending] <= search.least_rate
        stalled[pending[tiny]] = True
        pending = pending[~tiny]
    move = contracted - herd.path
    gap = np.abs(move).max(axis=(0, 1))
    sigma = common.setting.scheme.sigma
    return _assess(
        common, replace(herd, z=z, rate=next_rate, path=herd.path + sigma * move, gap=gap)
    ), stalled


def _starts(common: Common, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start states (segments, states, sets) and parameters (1, parameters, sets)."""
    of_states, of_parameters = common.places
    return z[of_states], z[of_parameters][None]


def _taken(affine, x: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """x[owner] + W f for all data sets: (points, states, sets)."""
    found = (affine.weights @ slopes.reshape(len(slopes), -1)).reshape(-1, *slopes.shape[1:])
    found += x[affine.owner]
    return found


def _loss(common: Common, herd: Herd, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L of every data set at z with its path, and P u."""
    setting = common.setting
    x, p = _starts(common, z)
    path, first = herd.path, None
    for k in range(setting.scheme.order):
        slopes = common.forward(common.node_times, path, p, common.node_inputs)
        if k == 0 or k < setting.scheme.order - 1:
            path = _taken(setting.at_nodes, x, slopes)
            first = path if first is None else first
    points = _taken(setting.at_points, x, slopes)
    return _value(common, herd, points, x)[0], first


def _value(common: Common, herd: Herd, points: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """L, what the outputs miss (samples, observables, sets) and the jumps (knots, states, sets)."""
    setting, count = common.setting, len(herd.data)
    missed = points[:count, common.measured] - herd.data
    jumps = points[count:] - x[setting.inner]
    data = 0.5 / count * np.einsum("kip,kip->p", missed, missed)
    return data + herd.weight * np.einsum("kip,kip->p", jumps, jumps), missed, jumps


def _assess(common: Common, herd: Herd) -> Herd:
    """Loss, gradient by z with the path held, and the norm of the projected gradient."""
    setting = common.setting
    order, states = setting.scheme.order, herd.path.shape[1]
    x, p = _starts(common, herd.z)
    paths = [herd.path]
    for k in range(order):
        slopes = common.forward(common.node_times, paths[-1], p, common.node_inputs)
        if k < order - 1:
            paths.append(_taken(setting.at_nodes, x, slopes))
    points = _taken(setting.at_points, x, slopes)
    loss, missed, jumps = _value(common, herd, points, x)
    adjoint = np.zeros_like(points)
    adjoint[: len(missed), common.measured] = missed / len(missed)
    pushed = 2 * herd.weight * jumps
    adjoint[len(missed) :] = pushed
    by_x, by_slopes = _pulled(setting.at_points, adjoint)
    by_p = 0.0
    for k in range(order - 1, -1, -1):
        both = _with_inputs(common.node_inputs, by_slopes)
        back = common.backward(common.node_times, paths[k], p, both)
        by_p = by_p + back[:, states:].sum(axis=0)
        if k:
            more_x, by_slopes = _pulled(setting.at_nodes, np.ascontiguousarray(back[:, :states]))
            by_x += more_x
    by_x[setting.inner] -= pushed
    slope = common.gather @ by_x.reshape(-1, by_x.shape[-1])
    slope[common.places[1]] += by_p
    ahead = np.clip(herd.z - slope, herd.lower, herd.upper)
    square = (herd.z - ahead) ** 2
    by_parameters = np.sqrt(square[common.places[1]].sum(axis=0))
    norm = np.sqrt(square.sum(axis=0))
    return replace(herd, loss=loss, slope=slope, jumps=jumps, norm=norm, by_parameters=by_parameters)


def _pulled(affine, adjoint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adjoints of the points -> adjoints of x and of f."""
    to_x, to_slopes = affine.pull(adjoint.reshape(len(adjoint), -1))
    return to_x.reshape(-1, *adjoint.shape[1:]), to_slopes.reshape(-1, *adjoint.shape[1:])


def _with_inputs(inputs: np.ndarray, adjoint: np.ndarray) -> np.ndarray:
    """Known inputs (nodes, inputs, 1) and adjoints (nodes, states, sets) in one array."""
    if not inputs.shape[1]:
        return adjoint
    wide = np.broadcast_to(inputs, (*inputs.shape[:2], adjoint.shape[-1]))
    return np.concatenate([wide, adjoint], axis=1)


def _function(rows: Sequence[sympy.Expr], *names: Sequence[str]) -> Callable:
    """A kernel as a function of arrays (points, components, sets) and t (points, 1)."""
    compiled = kernel((tuple(((i,), row) for i, row in enumerate(rows)),), tuple(tuple(n) for n in names))

    def value(t: np.ndarray, x: np.ndarray, p: np.ndarray, u: np.ndarray) -> np.ndarray:
        found = np.empty((len(x), len(rows), x.shape[-1]))
        compiled(t, *(group.transpose(1, 0, 2) for group in (x, p, u)), found.transpose(0, 2, 1))
        return found

    return value
