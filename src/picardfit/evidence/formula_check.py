"""Whether the compiled right-hand side computes what the user wrote: an independent look at a few points.

Path, integration and derivatives all use the same kernels, so a fault of theirs would never show as a mismatch.
Here the text of the equations is evaluated with 30 digits (`formulas.exact_values`), at nodes along the solution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

from picardfit.formulas.exact_values import exact_value, token_count
from picardfit.formulas.tracing import NumericMap
from picardfit.model.added_inputs import INFUSION, INPUT_TIME, SLOPE
from picardfit.solvers.loop import Solution

Point = dict[str, float]  # name -> value
Written = Sequence[tuple[str, str, bool]]  # (name, formula, whether it is a state), as `Model.written`


@dataclass(frozen=True)
class FormulaCheck:
    """How much is checked, and what rounding explains. All are choices."""

    points: int = 4  # along the solution, evenly over its nodes
    tokens: int = 600  # of formulas that are evaluated: a few milliseconds; larger models get fewer points
    most_tokens: int = 6000  # of one evaluation, beyond which a model is not checked
    rounded: float = 1e-9  # relative difference that needs no further explanation
    perturbation: float = (
        1e-12  # relative change of all values; a difference as large as its effect is rounding
    )


def formula_error(solution: Solution, check: FormulaCheck = FormulaCheck()) -> float | None:
    """Largest relative difference of f by text and by kernels, beyond rounding; None where it is not checked."""
    model = solution.system.problem.model
    if isinstance(model.rhs, NumericMap):
        return None
    written = model.written
    cost = sum(token_count(formula) for _, formula, _ in written)
    if cost > check.most_tokens:
        return None
    count = min(check.points, max(check.tokens // max(cost, 1), 1))
    errors = [difference_at(written, *one, check) for one in _points(solution, count)]
    return max(errors, default=0.0)


def _points(solution: Solution, count: int) -> list[tuple[Point, np.ndarray]]:
    """Values of all names, and f by the kernels (states,), at nodes spread evenly along the solution.

    Infusions, which are no part of equations given as text, are subtracted from f; running states of increments follow
    the states that are written.
    """
    system, point = solution.system, solution.point
    problem, mesh = system.problem, system.mesh
    model, names = problem.model, problem.layout.names
    _, nodes, _ = solution.path.shape
    found = []
    for k in np.unique(np.linspace(0, len(mesh) * nodes - 1, count + 2).astype(int)[1:-1]).tolist():
        segment, node = divmod(k, nodes)
        node = (
            min(node, nodes - 2) if problem.timed is not None and nodes > 1 else node
        )  # not where a mode changes
        clock = mesh.node_times if problem.timed is None else solution.path[..., -1]
        given = dict(
            zip(problem.solved_model.inputs, system.field.inputs[segment, node].tolist(), strict=True)
        )
        values = dict(zip(names, point.params[mesh.experiment[segment]].tolist(), strict=False))
        values |= _inputs_at(given, model.inputs, float(clock[segment, node]))
        values |= dict(zip(model.states, solution.path[segment, node].tolist(), strict=False))
        rates = values if model.text else {}
        infused = np.array([rates.get(f"{INFUSION}{state}", 0.0) for state in model.states])
        slopes = point.slopes[segment, node, : len(infused)] - infused
        found.append(({**values, "t": float(clock[segment, node])}, slopes))
    return found


def _inputs_at(given: Mapping[str, float], names: Sequence[str], now: float) -> Point:
    """The inputs that the kernels see at a time of the clock.

    Varying ones are lines through their value and slope where the node was before its knot moved (model/clock.py),
    which on an open path may be far from the inputs themselves.
    """
    since = now - given.get(INPUT_TIME, now)
    return {name: given[name] + given.get(SLOPE + name, 0.0) * since for name in names}


def difference_at(
    written: Written, values: Point, slopes: np.ndarray, check: FormulaCheck = FormulaCheck()
) -> float:
    """The largest relative difference at a point that rounding of the values does not explain.

    `slopes`: (states,), f at the point in the order of the written equations.
    """
    exact = _right_hand_side(written, values)
    worst = 0.0
    shifted: list[Mapping[str, Any]] = []
    for (state, here), slope in zip(exact.items(), slopes.tolist(), strict=True):
        if not mpmath.isfinite(here) or abs(here) > np.finfo(float).max:
            continue
        difference = abs(here - slope) if np.isfinite(slope) else mpmath.inf
        if difference <= check.rounded * abs(here):
            continue
        shifted = shifted or [_right_hand_side(written, one) for one in _shifted(values, check.perturbation)]
        rounding = sum(abs(one[state] - here) for one in shifted)
        if not difference <= rounding:
            worst = max(worst, float(difference / max(abs(here), abs(slope), np.finfo(float).tiny)))
    return worst


def _shifted(values: Point, size: float) -> list[Point]:
    """The point with its values moved up and down: all together, in turn, and in turns of two."""
    signs = ((1, 1, 1, 1), (1, -1, 1, -1), (1, 1, -1, -1))
    return [
        {name: value * (1 + size * sign[k % 4]) for k, (name, value) in enumerate(values.items())}
        for sign in signs
    ]


def _right_hand_side(written: Written, values: Point) -> dict[str, Any]:
    """State -> its derivative, helpers computed on the way."""
    known: dict[str, Any] = {name: mpmath.mpf(value) for name, value in values.items()}
    rates = {}
    for name, formula, is_state in written:
        if is_state:
            rates[name] = exact_value(formula, known)
        else:
            with suppress(KeyError):  # a helper that nothing uses may name parameters that do not exist
                known[name] = exact_value(formula, known)
    return rates
