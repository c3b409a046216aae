"""Derived quantities of a problem: formulas of its unknowns, checked, one value in all or one for each experiment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import sympy

from picardfit.checks import is_number
from picardfit.errors import InputError, closest, concerning
from picardfit.formulas.algebra import names, symbol
from picardfit.formulas.grammar import RESERVED, parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.parameters import Parameter
from picardfit.problem.dose_checks import covariates_of
from picardfit.problem.quantity import Quantity, positions_of, renamed

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem

INITIAL = "initial_{}_"  # what `x(0)` is called inside a formula


def derived_quantities(problem: Problem) -> dict[str, Quantity]:
    """Every derived quantity by label: `half_life`, or `half_life[pond 1]` where each experiment has its own."""
    if not problem.derived:
        return {}
    found: dict[str, Quantity] = {}
    reader = _Reader(problem)
    for name in problem.derived:
        with concerning("problem.in_derived", name, key=("derived", name)):
            _check_name(problem, name)
            found |= reader.quantities(name)
    return found


def _check_name(problem: Problem, name: object) -> None:
    """InputError unless a derived quantity may have this name."""
    model = problem.model
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED or name == "t":
        raise InputError("problem.derived_name", str(name))
    kinds = {
        "a parameter": problem.parameters,
        "a state": model.states,
        "an input": model.signals,
        "a covariate": model.covariates,
        "an observable": model.observables,
    }
    for kind, taken in kinds.items():
        if name in taken:
            raise InputError("problem.derived_clash", name, kind=kind)


class _Reader:
    """Reads the formulas of a problem; those that use others are expanded."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.positions = problem, positions_of(problem)
        self.expressions: dict[str, sympy.Expr] = {}
        self.members: dict[
            str, tuple[int, int]
        ] = {}  # name in formulas -> experiment and column of an unknown

    def quantities(self, name: str) -> dict[str, Quantity]:
        """The quantity of this name, or that of each experiment."""
        problem, expression = self.problem, self.expression(name, ())
        used, parameters = names(expression), problem.parameters
        states = tuple(k for k in range(len(problem.model.states)) if INITIAL.format(k) in used)
        members = {one: place for one, place in self.members.items() if one in used}
        own = [n for n in used if n in parameters and parameters[n].local]
        covariates = tuple(n for n in problem.model.covariates if n in used)
        arguments = (*parameters, *members, *(INITIAL.format(k) for k in states))
        formula = BatchedMap([expression], (), arguments, covariates)
        logarithmic = self._logarithmic(expression, members, states)
        several = len(problem.names) > 1 and bool(own or covariates or states)
        found = {}
        for e, one in enumerate(problem.experiments[: None if several else 1]):
            label = f"{name}[{one.name}]" if several else name
            given = covariates_of(problem.model, one)
            known = tuple(float(given[n]) for n in covariates)
            found[label] = Quantity(
                label, None, formula, tuple(members.values()), e, states, known, logarithmic
            )
        return found

    def expression(self, name: str, inside: tuple[str, ...]) -> sympy.Expr:
        """The formula of a quantity with those it uses put in; `inside`: the quantities that led here."""
        if name in inside:
            raise InputError("problem.derived_circle", name, names=[*inside, name])
        if name not in self.expressions:
            text = self.problem.derived[name].formula
            written, members = renamed(text, self.positions)
            self.members |= {one: self.positions[label] for label, one in members.items()}
            for k, state in enumerate(self.problem.model.states):
                written = re.sub(rf"(?<![\w.]){re.escape(state)}\s*\(\s*0\s*\)", INITIAL.format(k), written)
            expression = parse(written)
            others = [n for n in names(expression) if n in self.problem.derived]
            put = {symbol(n): self.expression(n, (*inside, name)) for n in others}
            expression = sympy.sympify(expression.xreplace(put))
            self._check_symbols(name, text, names(expression))
            self.expressions[name] = expression
        return self.expressions[name]

    def _check_symbols(self, own: str, text: str, used: set[str]) -> None:
        model = self.problem.model
        initial = {INITIAL.format(k) for k in range(len(model.states))}
        others = [name for name in self.problem.derived if name != own]
        known = [*self.problem.parameters, *model.covariates, *others]
        for name in sorted(used - initial - self.members.keys()):
            if name in model.states:
                raise InputError("problem.derived_state", name, text=text)
            if name not in known:
                close = closest(name, known)
                raise InputError("problem.derived_unknown", name, text=text, known=known, close=close)

    def _logarithmic(
        self, expression: sympy.Expr, members: Mapping[str, tuple[int, int]], states: tuple[int, ...]
    ) -> bool:
        """Whether the formula is positive for all positive values and all its unknowns are logarithms.

        Its interval is then symmetric in the logarithm, as those of its unknowns are.
        """
        parameters, layout, used = self.problem.parameters, self.problem.layout, names(expression)
        for name in used:
            one = parameters.get(name)
            if one is not None and not one.log and (one.fixed is None or one.fixed <= 0):
                return False
        if not all(layout.log[place] for place in members.values()):
            return False
        beliefs = [
            one[self.problem.model.states[k]] for one in self.problem.initial_by_experiment for k in states
        ]
        if not all(one.log if isinstance(one, Parameter) else is_number(one) and one > 0 for one in beliefs):
            return False
        if used & set(self.problem.model.covariates):
            return False
        positive = {symbol(name): sympy.Dummy(positive=True) for name in used}
        return bool(used) and expression.xreplace(positive).is_positive is True


def derived_units(problem: Problem) -> dict[str, str]:
    """The units that were given of derived quantities, by label."""
    units = {label: problem.derived[label.split("[")[0]].unit for label in problem.derived_quantities}
    return {label: unit for label, unit in units.items() if unit}


def derived_formulas(problem: Problem) -> dict[str, str]:
    """The formula of every derived quantity as it was written, by label."""
    return {label: problem.derived[label.split("[")[0]].formula for label in problem.derived_quantities}


def derived_values(problem: Problem, unknowns: np.ndarray) -> dict[str, float]:
    """Derived quantities at unknowns (experiments, width), by label; NaN or infinite where a formula is not defined."""
    with np.errstate(all="ignore"):
        return {
            label: one.value(problem.layout, unknowns) for label, one in problem.derived_quantities.items()
        }
