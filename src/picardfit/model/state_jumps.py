"""Where a right-hand side jumps as a state changes: `sign(w)`, `(w > 0)*c`.

The path of such a model has kinks at times that depend on the unknowns, and a state may stay on the jump for a while
(friction). Segments, derivatives and integrators all assume more smoothness than that, so a fit solves a model with
narrow smooth switches (`smooth`): with d what changes its sign and w a width,

    sign(d) -> tanh(d/w),   (d > 0) -> (1 + tanh(d/w))/2,   |d| -> sqrt(d^2 + w^2) where it causes a jump.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, Not, Or

from picardfit.formulas.algebra import Absolute, Sign, Where, as_number, is_condition, names
from picardfit.formulas.derivatives import switch_of, switching_nodes
from picardfit.formulas.grammar import to_text
from picardfit.formulas.kernels import BatchedMap


class StateJump(NamedTuple):
    """A formula that jumps as a state changes."""

    state: str  # in whose equation it is
    formula: str  # `sign(w)`
    difference: str  # what changes its sign there: `w`
    smooth: str  # what to write instead: `tanh(w/0.05)`

    def smooth_with(self, width: float) -> str:
        """What to write instead, with this width."""
        return self.smooth.replace("0.05", f"{width:.3g}")


@dataclass(frozen=True)
class JumpTest:
    """How a jump is distinguished from a kink (abs, max), which does no harm. All numbers are choices."""

    points: int = 8  # random states and parameters at which both sides of the switch are compared
    newton_steps: int = 20  # to a point where the switch happens
    reached: float = 1e-9  # of the difference there
    beside: float = 1e-7  # distance to both sides of it
    further: float = 100.0  # times that distance: another one, between which a jump stays as large as it is
    stays: float = (
        0.5  # fraction of the change further away: sqrt(max(x, 0)) leaves a tenth, as it only is steep
    )
    jump: float = (
        1e-4  # change of the right-hand side between them, relative to its size elsewhere, that is no slope
    )


def state_jumps(rhs: BatchedMap, settings: JumpTest = JumpTest()) -> tuple[StateJump, ...]:
    """The jumps of a right-hand side, each formula once."""
    found: dict[str, StateJump] = {}
    for row, expression in enumerate(rhs.expressions):
        for node in switching_nodes(expression):
            for difference in switch_of(node):
                if names(difference) & set(rhs.states) and _jumps(rhs, row, difference, settings):
                    jump = StateJump(
                        rhs.states[row], to_text(node), to_text(difference), _smooth(node, difference)
                    )
                    found.setdefault(jump.formula, jump)
    return tuple(found.values())


def _smooth(node: sympy.Basic, difference: sympy.Expr) -> str:
    """A formula that changes over a width in place of at once, as text: sign(d) becomes tanh(d/0.05)."""
    inside = to_text(difference) if difference.is_Symbol else f"({to_text(difference)})"
    if isinstance(node, Relational):
        return f"(1 {'-' if isinstance(node, sympy.Lt | sympy.Le) else '+'} tanh({inside}/0.05))/2"
    if isinstance(node, Sign | sympy.sign):
        return f"tanh({inside}/0.05)"
    return f"sqrt({inside}^2 + 0.05^2) for abs({to_text(difference)})"


def _jumps(rhs: BatchedMap, row: int, difference: sympy.Expr, settings: JumpTest) -> bool:
    """Whether a row differs on both sides of the zero of a difference, at any of some random points."""
    rng, count = np.random.default_rng(0), settings.points
    switch = BatchedMap((difference,), rhs.states, rhs.parameters, rhs.inputs)
    x, p, u = (
        rng.uniform(0.2, 2.0, (count, len(group))) for group in (rhs.states, rhs.parameters, rhs.inputs)
    )
    times = rng.uniform(0.2, 2.0, count)
    with np.errstate(all="ignore"):
        size = np.abs(rhs.value(times, x, p, u)[:, row])
        for _ in range(settings.newton_steps):
            value, slopes, _ = switch.linearise(times, x, p, u)
            direction = slopes[:, 0] / (slopes[:, 0] ** 2).sum(axis=1, keepdims=True)
            x = x - value * direction
        value, slopes, _ = switch.linearise(times, x, p, u)
        side = slopes[:, 0] / np.linalg.norm(slopes[:, 0], axis=1, keepdims=True)

        def change(distance: float) -> np.ndarray:
            above, below = (rhs.value(times, x + way * distance * side, p, u)[:, row] for way in (1, -1))
            return np.asarray(np.abs(above - below))

        near, far = change(settings.beside), change(settings.further * settings.beside)
        there = (np.abs(value[:, 0]) <= settings.reached) & (near > settings.stays * far)
        return bool((there & (near > settings.jump * size)).any())


# ---- smooth switches -----------------------------------------------------------------------------------------------

_SIGNS, _SIZES = (Sign, sympy.sign), (Absolute, sympy.Abs)
_BELOW, _ABOVE = (sympy.Lt, sympy.Le), (sympy.Gt, sympy.Ge)
_SMOOTHABLE = (*_SIGNS, *_SIZES, *_BELOW, *_ABOVE)


def smoothable(rhs: BatchedMap, jumps: tuple[StateJump, ...]) -> dict[str, sympy.Expr]:
    """What changes its sign at each of the jumps, by formula; empty if one of them has no smooth form here."""
    wanted, found = {one.formula for one in jumps}, {}
    for expression in rhs.expressions:
        for node in switching_nodes(expression):
            if (formula := to_text(node)) in wanted and isinstance(node, _SMOOTHABLE):
                (found[formula],) = switch_of(node)
    return found if found.keys() == wanted else {}


def smooth(expression: sympy.Basic, widths: Mapping[str, float]) -> sympy.Basic:
    """An expression with smooth switches of these widths in place of the formulas that jump."""
    if not expression.args:
        return expression
    if isinstance(expression, Where) and any(
        to_text(n) in widths for n in switching_nodes(expression.args[0])
    ):
        share = _share(expression.args[0], widths)
        one, other = (smooth(arg, widths) for arg in expression.args[1:])
        return share * one + (1 - share) * other
    width = widths.get(to_text(expression)) if isinstance(expression, _SMOOTHABLE) else None
    if width is None:
        return expression.func(*(smooth(arg, widths) for arg in expression.args))
    if isinstance(expression, Relational):
        return _share(expression, widths)
    inside = smooth(expression.args[0], widths)
    return sympy.tanh(inside / width) if isinstance(expression, _SIGNS) else sympy.sqrt(inside**2 + width**2)


def _share(condition: sympy.Basic, widths: Mapping[str, float]) -> sympy.Expr:
    """How far a condition holds, from 0 to 1: of jumps smoothly, of other comparisons 0 or 1."""
    width = widths.get(to_text(condition)) if isinstance(condition, Relational) else None
    if width is not None:
        towards = -1 if isinstance(condition, _BELOW) else 1
        return (1 + towards * sympy.tanh((condition.lhs - condition.rhs) / width)) / 2
    if isinstance(condition, And):
        return prod((_share(one, widths) for one in condition.args), start=sympy.S.One)
    if isinstance(condition, Or):
        return 1 - prod((1 - _share(one, widths) for one in condition.args), start=sympy.S.One)
    if isinstance(condition, Not):
        return 1 - _share(condition.args[0], widths)
    return as_number(condition) if is_condition(condition) else condition
