"""Residuals and their exact Jacobian for single shooting: states and forward sensitivities in one integration by LSODA.

    x' = f(t, x, p, u),    S' = f_x S + f_p dp/dz,    S = dx/dz

for the unknowns z of one experiment. The rows of [x; S^T] are blocks of the size of the model. LSODA's Newton iteration
gets the block-diagonal part of the Jacobian, f_x in every block, as a band: an implicit step then costs as much per
sensitivity as for the states alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.integrate import odeint

from compare.task import OutOfTime, Task, Watch
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.inputs import Constant, Table
from picardfit.model.model import Model

RTOL = 1e-8  # of states and sensitivities
FLOOR = 1e-4  # a component is followed with relative accuracy down to this part of its size
STEPS = 20_000  # of LSODA between two samples
EVERY = 200  # evaluations between two looks at the watch
SUCCESS = "Integration successful."
Linearised = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]  # (t, x, p, u) -> f, f_x, f_p


def residual_jacobian(task: Task, vector: np.ndarray, watch: Watch) -> np.ndarray:
    """(measurements, unknowns): derivative of `task.residuals`; 0 where the integration did not get."""
    problem, layout = task.problem, task.problem.layout
    unknowns = task.at(vector)
    parameters, slopes = layout.model_values(unknowns), layout.slopes(unknowns)
    initial, by_unknowns = layout.initial(unknowns)
    every = layout.column_parameters
    own = every < layout.model_parameters
    columns = len(layout.initial_states) + np.flatnonzero(own)
    shift = np.zeros((layout.model_parameters, layout.width))  # dp/dz
    place = {key: k for k, key in enumerate(zip(*map(np.ndarray.tolist, task.places), strict=True))}
    values, rows = [], []
    for e in range(len(problem.experiments)):
        shift[every[own], columns] = slopes[e, columns]
        free = np.flatnonzero(layout.exists[e])
        block = np.zeros((len(problem.experiments[e].times), len(problem.model.observables), len(vector)))
        targets = [place[(e if c < layout.local else 0, int(c))] for c in free]
        path = _Path(task, e, parameters[e], shift[:, free], watch)
        value, block[:, :, targets] = path.observables(initial[e], by_unknowns[e][:, free])
        values.append(value)
        rows.append(block)
    with np.errstate(invalid="ignore"):
        inside = np.abs(np.concatenate(values) - problem.samples.data) < task.wall  # not where it failed
    slopes = np.where(inside[:, :, None], np.concatenate(rows), 0.0)[np.isfinite(problem.samples.data)]
    return np.where(np.isfinite(slopes), slopes, 0.0)


class _Path:
    """States and sensitivities of one experiment."""

    def __init__(self, task: Task, e: int, parameters: np.ndarray, shift: np.ndarray, watch: Watch) -> None:
        self.task, self.e, self.parameters, self.shift, self.watch = task, e, parameters, shift, watch
        self.problem, self.one = task.problem, task.problem.experiments[e]
        self.linearised = _linearised(self.problem.model)
        self.calls = 0

    def observables(self, initial: np.ndarray, by_unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(samples, observables) and (samples, observables, unknowns): observables and their derivatives."""
        model, times = self.problem.model, self.one.times
        found = self._integrated(np.vstack([initial, by_unknowns.T]))  # (samples, 1 + unknowns, states)
        inputs = self.one.inputs_at(model.inputs, times)
        value, by_states, by_parameters = model.output.linearise(times, found[:, 0], self.parameters, inputs)
        with np.errstate(all="ignore"):
            return value, by_states @ found[:, 1:].transpose(0, 2, 1) + by_parameters @ self.shift

    def _integrated(self, first: np.ndarray) -> np.ndarray:
        times, (begin, end) = self.one.times, self.problem.span(self.e)
        found = np.full((len(times), *first.shape), np.nan)
        found[times <= begin] = first
        edges = np.unique([begin, *(b for b in self.problem.breaks(self.e) if begin < b < end), end])
        atol = RTOL * FLOOR * self._sizes(first.shape)
        for a, b in pairwise(edges):
            inside = np.flatnonzero((times > a) & (times <= b))
            grid = np.unique([a, *times[inside], b])
            path, report = self._odeint(a, b, first, grid, atol)
            if report["message"] != SUCCESS:
                reached = int(np.argmax(report["tcur"] < grid[1:]))  # the last place before the failure
                known = inside[np.searchsorted(grid, times[inside]) <= reached]
                found[known] = path[np.searchsorted(grid, times[known])]
                break
            found[inside] = path[np.searchsorted(grid, times[inside])]
            first = path[-1]
        return found

    def _sizes(self, shape: tuple[int, ...]) -> np.ndarray:
        """Typical sizes of states, and of their changes when an unknown moves through its reasonable range."""
        states = np.abs(self.task.start.states(self.one.times, self.e)).max(axis=0)
        states = np.where(np.isfinite(states) & (states > 0), states, 1.0)
        sizes = np.tile(states, (shape[0], 1))
        layout = self.problem.layout
        sizes[1:] /= layout.size(self.task.start.unknowns)[self.e, layout.exists[self.e]][:, None]
        return sizes

    def _odeint(
        self, a: float, b: float, first: np.ndarray, grid: np.ndarray, atol: np.ndarray
    ) -> tuple[np.ndarray, dict]:
        inputs, parameters, shape = self._inputs(a, b), self.parameters.tolist(), first.shape
        width, shift = shape[1], self.shift
        linearised = self.linearised
        rows = np.arange(width)[:, None] - np.arange(width) + width - 1  # of the band, (states, states)
        columns = np.tile(np.arange(width), (width, 1))

        def slopes(t: float, flat: np.ndarray) -> np.ndarray:
            self._tick()
            y = flat.reshape(shape)
            f, by_states, by_parameters = linearised(t, flat[:width].tolist(), parameters, inputs(t))
            change = np.empty(shape)
            change[0] = f
            change[1:] = y[1:] @ by_states.T + (by_parameters @ shift).T
            return change.ravel()

        def band(t: float, flat: np.ndarray) -> np.ndarray:
            by_states = linearised(t, flat[:width].tolist(), parameters, inputs(t))[1]
            one = np.zeros((2 * width - 1, width))
            one[rows, columns] = by_states
            return np.tile(one, shape[0])

        with np.errstate(all="ignore"):
            path, report = odeint(
                slopes,
                first.ravel(),
                grid,
                Dfun=band,
                ml=width - 1,
                mu=width - 1,
                tfirst=True,
                tcrit=[b],
                rtol=RTOL,
                atol=atol.ravel(),
                mxstep=STEPS,
                full_output=True,
            )
        return path.reshape(len(grid), *shape), report

    def _inputs(self, a: float, b: float) -> Callable[[float], list[float]]:
        """The inputs between two breaks: constants where they are, else functions of time."""
        names = self.problem.model.inputs
        sources = [self.one.inputs[name] for name in names]
        if all(isinstance(s, Constant) or (isinstance(s, Table) and s.kind != "linear") for s in sources):
            constant = self.one.inputs_at(names, np.array([(a + b) / 2]))[0].tolist()
            return lambda t: constant
        inset = min(4 * np.spacing(max(abs(a), abs(b))), (b - a) / 4)  # where the inputs have no jump
        return lambda t: self.one.inputs_at(names, np.array([min(max(t, a + inset), b - inset)]))[0].tolist()

    def _tick(self) -> None:
        self.calls += 1
        if self.calls % EVERY == 0 and self.watch.over:
            raise OutOfTime


def _linearised(model: Model) -> Linearised:
    """f and its Jacobians at one point; plain floats where there are formulas, which is many times faster."""
    rhs = model.rhs
    if not isinstance(rhs, BatchedMap):
        return rhs.linearise
    wrt_states, wrt_parameters = rhs.jacobian
    count = len(rhs.expressions)
    every = BatchedMap(
        [*rhs.expressions, *wrt_states.values(), *wrt_parameters.values()],
        rhs.states,
        rhs.parameters,
        rhs.inputs,
    )
    width = len(rhs.states)
    at_states = np.array([i * width + k for i, k in wrt_states], int)
    at_parameters = np.array([i * len(rhs.parameters) + k for i, k in wrt_parameters], int)
    by_states, by_parameters = np.zeros((count, width)), np.zeros((count, len(rhs.parameters)))
    flat_states, flat_parameters = by_states.reshape(-1), by_parameters.reshape(-1)
    middle = count + len(at_states)

    def at(t: float, x: list[float], p: list[float], u: list[float]) -> tuple:
        values = every.at_point(t, x, p, u)
        flat_states[at_states] = values[count:middle]
        flat_parameters[at_parameters] = values[middle:]
        return values[:count], by_states, by_parameters

    return at
