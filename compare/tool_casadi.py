"""Direct collocation in CasADi, solved by IPOPT with exact derivatives: the strongest peer.

Radau points on every element; elements end at the samples and at jumps of the inputs and are no longer than a
fiftieth of the experiment. Measured states start on the data, hidden ones on their own equations along the data.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import casadi as ca
import numpy as np

from compare.task import Answer, Task
from compare.translate import translated
from picardfit.problem.problem import Problem

DEGREE = 3
LONGEST = 1 / 50  # of an element, as part of the experiment
PLAIN = "exp log sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sign sqrt"
WORDS = {name: getattr(ca, name) for name in PLAIN.split()} | {
    "abs": ca.fabs,
    "min": ca.fmin,
    "max": ca.fmax,
    "and": ca.logic_and,
    "or": ca.logic_or,
    "not": ca.logic_not,
    "where": ca.if_else,
}


def solve(task: Task) -> Answer:
    return prepare(task)()


def prepare(task: Task) -> Callable[[], Answer]:
    """The search with everything built, to be run once or again."""
    problem = task.problem
    vector = ca.SX.sym("z", len(task.first))
    parameters, initial = _unknowns(task, vector)
    pieces = [_experiment(task, e, parameters[e], initial[e]) for e in range(len(problem.experiments))]
    variables = ca.vertcat(vector, *(piece[0] for piece in pieces))
    equations = ca.vertcat(*(piece[1] for piece in pieces))
    loss = sum(piece[2] for piece in pieces)
    solver = ca.nlpsol(
        "fit",
        "ipopt",
        {"x": variables, "f": loss, "g": equations},
        {
            "print_time": False,
            "ipopt.print_level": 0,
            "ipopt.sb": "yes",
            "ipopt.max_iter": 3000,
            "ipopt.max_cpu_time": float(task.budget),
        },
    )
    free = np.full(variables.numel() - len(task.first), np.inf)
    first = np.concatenate([task.first, *(piece[3] for piece in pieces)])
    lower, upper = np.concatenate([task.lower, -free]), np.concatenate([task.upper, free])

    def search() -> Answer:
        found = solver(x0=first, lbx=lower, ubx=upper, lbg=0, ubg=0)
        vector = np.asarray(found["x"]).ravel()[: len(task.first)]
        done = solver.stats()
        words = f"{done['return_status']} after {done['iter_count']} iterations"
        return Answer(vector, bool(done["success"]), words)

    return search


def _unknowns(task: Task, vector: ca.SX) -> tuple[list[list], list[list]]:
    """Model parameters and initial states of every experiment, as expressions of the vector."""
    problem, layout = task.problem, task.problem.layout
    place = {(int(e), int(c)): k for k, (e, c) in enumerate(zip(*task.places, strict=True))}
    log = task.log

    def entry(e: int, column: int):
        row = e if column < layout.local else 0
        if (row, column) not in place:
            return float(layout.natural(task.start.unknowns)[row, column])
        value = vector[place[row, column]]
        return ca.exp(value) if log[row, column] else value

    columns = np.concatenate([layout.local_parameters, layout.global_parameters])
    skip = len(layout.initial_states)
    parameters, initial = [], []
    for e in range(len(problem.experiments)):
        values: list = layout.base[e].tolist()
        for k, index in enumerate(columns):
            values[index] = entry(e, skip + k)
        states: list = layout.known[e].tolist()
        for column, state in enumerate(layout.initial_states):
            if layout.exists[e, column]:
                states[state] = entry(e, column)
        if layout.formulas is not None:
            rows = translated(layout.formulas, WORDS)(0.0, (), values, ())
            for state in np.flatnonzero(layout.formula_of[e] >= 0):
                states[state] = rows[layout.formula_of[e, state]]
        parameters.append(values[: layout.model_parameters])
        initial.append(states)
    return parameters, initial


def _experiment(
    task: Task, e: int, parameters: list, initial: list
) -> tuple[ca.SX, ca.SX, ca.SX, np.ndarray]:
    """Variables, equations, loss and first values of one experiment.

    A state is one row of expressions over all points of all elements, so that Python loops over states only.
    """
    problem = task.problem
    model, one = problem.model, problem.experiments[e]
    knots = elements(problem, e)
    lengths, count, width = np.diff(knots), len(knots) - 1, len(model.states)
    tau = np.array(ca.collocation_points(DEGREE, "radau"))
    slopes = np.asarray(ca.collocation_coeff(list(tau))[0])  # (DEGREE + 1, DEGREE): derivatives at the points
    times = knots[:-1, None] + lengths[:, None] * tau  # (elements, points)
    inside = np.minimum(times, np.nextafter(knots[1:], knots[:-1])[:, None])  # the left value at a jump
    inputs = problem.inputs_at(np.array([e]), inside[None])[0].reshape(count * DEGREE, -1)
    path = [ca.SX.sym(f"x{s}", DEGREE, count) for s in range(width)]  # points of one element in one column
    slope = translated(model.rhs, WORDS)(
        ca.DM(inside.ravel()), [ca.vec(x) for x in path], parameters, [ca.DM(u) for u in inputs.T]
    )
    begin = [ca.horzcat(x0, x[-1, :-1]) for x0, x in zip(initial, path, strict=True)]
    equations = [
        ca.vec(ca.mtimes(slopes.T, ca.vertcat(x0, x))) - np.repeat(lengths, DEGREE) * f
        for x0, x, f in zip(begin, path, slope, strict=True)
    ]
    place = np.searchsorted(knots, one.times).tolist()
    seen = translated(model.output, WORDS)(
        ca.DM(one.times),
        [ca.horzcat(x0, x[-1, :]).T[place] for x0, x in zip(initial, path, strict=True)],
        parameters,
        [ca.DM(u) for u in one.inputs_at(model.inputs, one.times).T],
    )
    loss = 0
    for column, name in zip(one.values.T, one.observables, strict=True):
        measured = np.flatnonzero(np.isfinite(column)).tolist()
        row = seen[model.observables.index(name)] * ca.DM.ones(len(column))
        loss += 0.5 * ca.sumsqr(row[measured] - column[measured])
    first = task.start.states(times.ravel(), e).T.ravel()
    return ca.vertcat(*map(ca.vec, path)), ca.vertcat(*equations), loss, first


def elements(problem: Problem, e: int) -> np.ndarray:
    """The ends of the elements of an experiment: samples, breaks, and cuts in between."""
    begin, end = problem.span(e)
    knots = np.unique([begin, *problem.experiments[e].times, *problem.breaks(e)])
    longest = LONGEST * (end - begin)
    parts = [np.linspace(a, b, int(np.ceil((b - a) / longest - 1e-9)) + 1)[:-1] for a, b in pairwise(knots)]
    return np.concatenate([*parts, knots[-1:]])
