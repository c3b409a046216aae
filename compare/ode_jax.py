"""A task as a function of JAX: all experiments simulated at once by diffrax, bounds by a change of variables."""

from __future__ import annotations

from collections.abc import Callable

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from compare.task import Task, Unable
from compare.translate import translated
from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.inputs import Constant, Formula, Input, Table

RTOL, ATOL = 1e-8, 1e-10
STEPS = 8192
WORDS = {
    name: getattr(jnp, name)
    for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sign", "sqrt", "abs", "where")
} | {
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "asinh": jnp.arcsinh,
    "acosh": jnp.arccosh,
    "atanh": jnp.arctanh,
    "min": jnp.minimum,
    "max": jnp.maximum,
    "and": jnp.logical_and,
    "or": jnp.logical_or,
    "not": jnp.logical_not,
}


def residual_function(task: Task, adjoint: diffrax.AbstractAdjoint) -> Callable:
    """residuals(free vector) -> (measurements,), with 1e3 spreads of the data where a simulation fails."""
    jax.config.update("jax_enable_x64", True)
    problem, layout = task.problem, task.problem.layout
    model = problem.model
    right, output = translated(model.rhs, WORDS), translated(model.output, WORDS)
    inputs = _inputs(task)
    longest = max(len(one.times) for one in problem.experiments)
    times = np.stack(
        [
            np.append(one.times, np.full(longest - len(one.times), one.times[-1]))
            for one in problem.experiments
        ]
    )
    data = np.full((len(times), longest, len(model.observables)), np.nan)
    for e, one in enumerate(problem.experiments):
        for k, name in enumerate(one.observables):
            data[e, : len(one.times), model.observables.index(name)] = one.values[:, k]
    measured = np.isfinite(data)
    wall = 1e3 * np.where(problem.output_scale > 0, problem.output_scale, 1.0)
    begins = jnp.array([one.t0 for one in problem.experiments])
    breaks = sorted({b for e in range(len(times)) for b in problem.breaks(e)})
    control = diffrax.PIDController(rtol=RTOL, atol=ATOL)
    if breaks:
        control = diffrax.ClipStepSizeController(control, jump_ts=jnp.array(breaks))

    def field(t, x, args):
        p, e = args
        return jnp.stack([jnp.asarray(r, float) for r in right(t, x, p, inputs(t, e))])

    def one_run(e, begin, ts, p, x0):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            begin,
            jnp.maximum(ts[-1], begin + 1e-12),
            None,
            x0,
            args=(p, e),
            saveat=diffrax.SaveAt(ts=ts),
            stepsize_controller=control,
            adjoint=adjoint,
            max_steps=STEPS,
            throw=False,
        )
        rows = jax.vmap(
            lambda t, x: jnp.stack([jnp.asarray(r, float) for r in output(t, x, p, inputs(t, e))])
        )
        return rows(ts, found.ys)

    unknowns = unknowns_function(task)
    initial = initial_function(task)

    def residuals(free):
        values = parameters_at(task, unknowns(free))
        starts = initial(unknowns(free), values)
        args = (
            jnp.arange(len(times)),
            begins,
            jnp.asarray(times),
            values[:, : layout.model_parameters],
            starts,
        )
        if len(times) == 1:  # a batch of one costs several times a plain run
            seen = one_run(*(a[0] for a in args))[None]
        else:
            seen = jax.vmap(one_run)(*args)
        gap = seen - np.where(measured, data, 0.0)
        gap = jnp.where(jnp.isfinite(gap), jnp.clip(gap, -wall, wall), wall)
        return gap[measured]

    return residuals


def unknowns_function(task: Task) -> Callable:
    """free vector -> unknowns (experiments, width), internal coordinates, always inside the bounds."""
    rows, columns = task.places
    local = task.problem.layout.local
    owner = np.where(columns < local, rows, 0)
    base = jnp.asarray(task.start.unknowns)

    def unknowns(free):
        filled = base.at[owner, columns].set(inside(task, free))
        return filled.at[:, local:].set(filled[:1, local:])

    return unknowns


def inside(task: Task, free):
    """Logistic between two bounds, exponential beyond one, in units of the size of an unknown."""
    low, high = task.lower, task.upper
    both, below, above = _kinds(low, high)
    a, b = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 1.0)
    size = task.size
    value = free * size
    value = jnp.where(both, a + (b - a) * jax.nn.sigmoid(4 * free), value)
    value = jnp.where(below, a + size * jnp.exp(jnp.where(below, free, 0.0)), value)
    return jnp.where(above, b - size * jnp.exp(jnp.where(above, free, 0.0)), value)


def free_start(task: Task) -> np.ndarray:
    """The free vector of the start; one on a bound is moved one percent inside."""
    low, high, size = task.lower, task.upper, task.size
    both, below, above = _kinds(low, high)
    with np.errstate(all="ignore"):
        part = np.clip((task.first - low) / (high - low), 0.01, 0.99)
        free = np.where(both, np.log(part / (1 - part)) / 4, task.first / size)
        free = np.where(below, np.log(np.maximum((task.first - low) / size, 0.01)), free)
        return np.where(above, np.log(np.maximum((high - task.first) / size, 0.01)), free)


def _kinds(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lower, upper = np.isfinite(low), np.isfinite(high)
    return lower & upper, lower & ~upper, ~lower & upper


def parameters_at(task: Task, unknowns):
    """(experiments, parameters): all parameters in natural units."""
    layout = task.problem.layout
    natural = jnp.where(task.log, jnp.exp(jnp.where(task.log, unknowns, 0.0)), unknowns)
    columns = np.concatenate([layout.local_parameters, layout.global_parameters])
    return jnp.asarray(layout.base).at[:, columns].set(natural[:, len(layout.initial_states) :])


def initial_function(task: Task) -> Callable:
    """(unknowns, parameters) -> initial states (experiments, states)."""
    layout = task.problem.layout
    free, column = np.nonzero(layout.exists[:, : len(layout.initial_states)])
    state = layout.initial_states[column]
    rows = None if layout.formulas is None else translated(layout.formulas, WORDS)

    def initial(unknowns, values):
        natural = jnp.where(task.log, jnp.exp(jnp.where(task.log, unknowns, 0.0)), unknowns)
        states = jnp.asarray(layout.known).at[free, state].set(natural[free, column])
        if rows is not None:
            for e, s in zip(*np.nonzero(layout.formula_of >= 0), strict=True):
                states = states.at[e, s].set(rows(0.0, (), values[e], ())[layout.formula_of[e, s]])
        return states

    return initial


def _inputs(task: Task) -> Callable:
    """(t, experiment) -> the inputs, each computed for all experiments and chosen by number."""
    problem = task.problem
    columns = [[_signal(one.inputs[name]) for one in problem.experiments] for name in problem.model.inputs]

    def inputs(t, e):
        return [jnp.stack([jnp.asarray(signal(t), float) for signal in column])[e] for column in columns]

    return inputs


def _signal(given: Input) -> Callable:
    if isinstance(given, Constant):
        return lambda t: given.value
    if isinstance(given, Formula):
        rows = translated(BatchedMap([parse(given.text)]), WORDS)
        return lambda t: rows(t, (), (), ())[0]
    if isinstance(given, Table) and given.kind == "linear":
        return lambda t: jnp.interp(t, given.times, given.values)
    if isinstance(given, Table):
        return lambda t: jnp.asarray(given.values)[
            jnp.clip(jnp.searchsorted(given.times, t, side="right") - 1, 0, len(given.times) - 1)
        ]
    raise Unable("JAX needs inputs as numbers, formulas or tables, and one here is a Python function")
