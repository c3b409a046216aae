"""SINDy on first differences, threshold 0.25, as in the paper.

SINDy finds a coefficient for every function of its library and every equation; the parameters of the model are read
off them by bounded least squares. It knows no initial states: they are the first measured values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pysindy
import sympy
from scipy.optimize import lsq_linear

from compare.task import Answer, Task, Unable
from compare.translate import formulas
from picardfit.formulas.algebra import symbol
from picardfit.formulas.kernels import BatchedMap
from picardfit.problem.problem import Problem

THRESHOLD = 0.25


def solve(task: Task) -> Answer:
    return regress(task, pysindy.FiniteDifference(order=1), "first differences")


@dataclass(frozen=True)
class Library:
    """The functions of the states that occur, and how their coefficients depend on the parameters: A theta + b."""

    terms: tuple[sympy.Expr, ...]
    slopes: np.ndarray  # (states, terms, parameters)
    constant: np.ndarray  # (states, terms)

    @property
    def present(self) -> np.ndarray:
        """(states, terms): which functions occur in which equation."""
        return (self.constant != 0) | (self.slopes != 0).any(axis=2)


def regress(task: Task, differences: object, words: str, own_terms: bool = False) -> Answer:
    """Coefficients by pysindy, then the parameters that explain them best inside their bounds.

    `own_terms`: each equation may only use the functions that occur in it; else the whole library.
    """
    problem = task.problem
    library = library_of(problem)
    runs, times = zip(*(states_of(problem, e) for e in range(len(problem.experiments))), strict=True)
    slopes = np.concatenate([differences(x, t) for x, t in zip(runs, times, strict=True)])
    values = np.concatenate([_functions(library, problem, x) for x in _smoothed(differences, runs, times)])
    allowed = library.present if own_terms else np.ones(library.constant.shape, bool)
    coefficients = np.zeros(library.constant.shape)  # (states, terms)
    for s, terms in enumerate(allowed):
        if terms.any():
            found = pysindy.STLSQ(threshold=THRESHOLD).fit(values[:, terms], slopes[:, s : s + 1])
            coefficients[s, terms] = found.coef_[0]
    vector = _parameters(task, library, coefficients)
    used = int(np.count_nonzero(coefficients))
    return Answer(vector, True, f"{used} terms kept of {allowed.sum()}, {words}")


def library_of(problem: Problem) -> Library:
    """All monomials up to the degree of the model, or its own functions where they are not polynomials."""
    rhs = formulas(problem.model.rhs)
    if rhs.inputs or symbol("t") in set().union(*(e.free_symbols for e in rhs.expressions)):
        raise Unable("SINDy is run on equations without inputs and without time only")
    if any(p.fixed is None and p.local for p in problem.parameters.values()):
        raise Unable("SINDy gives all experiments the same equations, and this problem has local parameters")
    parameters = [symbol(n) for n in rhs.parameters]
    expanded = [sympy.expand(e) for e in rhs.expressions]
    pieces = [dict(_split(e, parameters)) for e in expanded]
    own = list(dict.fromkeys(term for piece in pieces for term in piece))
    states = [symbol(n) for n in rhs.states]
    if all(term.is_polynomial(*states) for term in own):
        degree = max(2, *(int(sympy.Poly(term, *states).total_degree()) for term in own))
        own = sorted(sympy.itermonomials(states, degree), key=sympy.default_sort_key)
    slopes = np.zeros((len(states), len(own), len(parameters)))
    constant = np.zeros((len(states), len(own)))
    for s, piece in enumerate(pieces):
        for term, factor in piece.items():
            k = own.index(term)
            gradient = [sympy.diff(factor, p) for p in parameters]
            if any(g.free_symbols for g in gradient):
                raise Unable(
                    "SINDy needs coefficients that are linear in the parameters, and these equations are not"
                )
            slopes[s, k] = [float(g) for g in gradient]
            constant[s, k] = float(factor.subs(dict.fromkeys(parameters, 0)))
    return Library(tuple(own), slopes, constant)


def _split(expr: sympy.Expr, parameters: list[sympy.Symbol]) -> list[tuple[sympy.Expr, sympy.Expr]]:
    """Pairs (function of the states, coefficient with the parameters) of a sum."""
    found: dict[sympy.Expr, sympy.Expr] = {}
    for part in sympy.Add.make_args(expr):
        coefficient, term = sympy.S.One, sympy.S.One
        for factor in sympy.Mul.make_args(part):
            mixed = factor.free_symbols & set(parameters)
            if mixed and factor.free_symbols - set(parameters):
                raise Unable(
                    "SINDy needs coefficients that are linear in the parameters, and these equations are not"
                )
            if mixed or not factor.free_symbols:
                coefficient *= factor
            else:
                term *= factor
        found[term] = found.get(term, sympy.S.Zero) + coefficient
    return list(found.items())


def states_of(problem: Problem, e: int) -> tuple[np.ndarray, np.ndarray]:
    """States (samples, states) and times of an experiment in which every state was measured."""
    model, one = problem.model, problem.experiments[e]
    shown = formulas(model.output).expressions
    columns = []
    for state in model.states:
        rows = [
            k
            for k, name in enumerate(one.observables)
            if shown[model.observables.index(name)] == symbol(state)
        ]
        if not rows:
            raise Unable(f"SINDy needs every state measured, and `{state}` is not in `{one.name}`")
        columns.append(one.values[:, rows[0]])
    states = np.stack(columns, axis=1)
    complete = np.isfinite(states).all(axis=1) & np.append(True, np.diff(one.times) > 0)
    if complete.sum() < 5:
        raise Unable(f"SINDy needs at least five complete samples, and `{one.name}` has {complete.sum()}")
    return states[complete], one.times[complete]


def _smoothed(differences: object, runs: tuple, times: tuple) -> list[np.ndarray]:
    """The states as the differentiation sees them."""
    found = []
    for x, t in zip(runs, times, strict=True):
        differences(x, t)
        found.append(differences.smoothed_x_)
    return found


def _functions(library: Library, problem: Problem, states: np.ndarray) -> np.ndarray:
    """(samples, terms): the library at given states."""
    nothing = np.empty(0)
    mapping = BatchedMap(library.terms, states=problem.model.states)
    return mapping.value(np.zeros(len(states)), states, nothing, nothing)


def _parameters(task: Task, library: Library, coefficients: np.ndarray) -> np.ndarray:
    """The start vector with parameters that explain the coefficients."""
    problem, layout = task.problem, task.problem.layout
    index = [k for k in layout.global_parameters if k < layout.model_parameters]
    matrix = library.slopes[..., index].reshape(-1, len(index))
    fixed = library.slopes @ layout.base[0, : layout.model_parameters]
    target = (coefficients - library.constant - fixed).ravel()
    specs = [list(problem.parameters.values())[k].bounds for k in index]
    found = lsq_linear(matrix, target, bounds=tuple(np.array(specs, float).T)).x
    values = layout.parameters(task.start.unknowns)[:1, layout.global_parameters]
    values[0, [list(layout.global_parameters).index(k) for k in index]] = found
    natural = layout.natural(task.start.unknowns)
    natural[:, layout.local :] = values
    return np.clip(task.pack(layout.internal(natural)), task.lower, task.upper)
