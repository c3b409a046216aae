"""The quantity of interest of a profile: one unknown, or a formula of unknowns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from picardfit.errors import InputError, closest
from picardfit.formulas.algebra import names
from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.scales import LINEAR, Scales
from picardfit.problem.unknowns import UnknownsLayout

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem

LABEL = r"[\w.]+(\(0\))?(\[[^\]]*\])?"  # what looks like the label of one unknown


@dataclass(frozen=True)
class Quantity:
    """A number that depends on the unknowns: one unknown in its internal coordinate, or a formula."""

    label: str
    place: tuple[int, int] | None  # experiment and column of the unknown
    formula: (
        BatchedMap | None
    )  # of all parameters in `experiment`, of `members`, initial `states`, and of `known`
    members: tuple[tuple[int, int], ...] = ()  # experiment and column of unknowns of one experiment
    experiment: int = 0
    states: tuple[int, ...] = ()  # whose initial values in `experiment` the formula takes
    known: tuple[float, ...] = ()  # covariates
    logarithmic: bool = (
        False  # positive, and made of logarithms: its intervals are symmetric in the logarithm
    )

    def value(self, layout: UnknownsLayout, unknowns: np.ndarray) -> float:
        if self.formula is None:
            return float(unknowns[self.place])
        return float(self.formula.value(*self._arguments(layout, unknowns))[0, 0])

    def values(self, layout: UnknownsLayout, many_unknowns: np.ndarray) -> np.ndarray:
        """(k,): its values in natural units at many sets of unknowns (k, experiments, width)."""
        if self.formula is None:
            return self.natural(layout, np.array([unknowns[self.place] for unknowns in many_unknowns]))
        each = [self._arguments(layout, unknowns) for unknowns in many_unknowns]
        return np.asarray(self.formula.value(*map(np.concatenate, zip(*each, strict=True)))[:, 0])

    def slope(self, layout: UnknownsLayout, unknowns: np.ndarray, index: np.ndarray) -> np.ndarray:
        """(unknowns,): derivative by the unknowns of `index`, internal coordinates."""
        if self.formula is None:
            return np.asarray(np.all(index == self.place, axis=1), float)
        by_argument = self.formula.linearise(*self._arguments(layout, unknowns))[2][0, 0]
        by_unknowns = np.zeros_like(unknowns)
        by_unknowns[:, layout.local :] = by_argument[layout.global_parameters]
        own = slice(len(layout.initial_states), layout.local)
        by_unknowns[self.experiment, own] = by_argument[layout.local_parameters]
        for k, place in enumerate(self.members, len(layout.names)):
            by_unknowns[place] += by_argument[k]
        by_unknowns = by_unknowns * layout.slopes(unknowns)
        if self.states:
            derivative = layout.initial_derivative(unknowns)[self.experiment, list(self.states)]
            added = by_argument[-len(self.states) :] @ derivative  # (width,)
            by_unknowns[self.experiment, : layout.local] += added[: layout.local]
            by_unknowns[:, layout.local :] += added[layout.local :]
        return np.asarray(by_unknowns[tuple(index.T)])

    def _arguments(self, layout: UnknownsLayout, unknowns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Time, states, parameters and inputs as the formula takes them, in natural units."""
        natural, params = layout.natural(unknowns), layout.parameters(unknowns)[self.experiment]
        own = [natural[place] for place in self.members]
        begin = (
            layout.before_doses(unknowns)[0][self.experiment, list(self.states)] if self.states else own[:0]
        )
        arguments = np.concatenate([params, own, begin])
        return np.zeros(1), np.zeros((1, 0)), arguments[None], np.array(self.known, float)[None]

    def bounds(self, layout: UnknownsLayout) -> tuple[float, float]:
        """The bounds of an unknown; those of a formula are not known."""
        if self.formula is not None:
            return -np.inf, np.inf
        return float(layout.lower[self.place]), float(layout.upper[self.place])

    def natural(self, layout: UnknownsLayout, values: np.ndarray) -> np.ndarray:
        """Values of the quantity in natural units."""
        return self.scale(layout).natural(values)

    def scale(self, layout: UnknownsLayout) -> Scales:
        """The scale of an unknown; formulas are followed in their own values."""
        return LINEAR if self.place is None else layout.scales[self.place]


def positions_of(problem: Problem) -> dict[str, tuple[int, int]]:
    """Experiment and column of every unknown, by label; experiment 0 for shared ones."""
    layout = problem.layout
    return {
        layout.label(e, c): (int(e) if c < layout.local else 0, int(c))
        for e, c in np.argwhere(layout.exists)[::-1]
    }


def renamed(text: str, labels: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The formula with names for labels that are no identifiers, such as `prey(0)[pond 1]`, and these by label."""
    own = {label: f"unknown_{k}_" for k, label in enumerate(labels) if not label.isidentifier()}
    if not own:
        return text, own
    longest_first = "|".join(re.escape(label) for label in sorted(own, key=len, reverse=True))
    return re.sub(rf"(?<![\w.])({longest_first})(?!\w)", lambda found: own[found[0]], text), own


def quantity(problem: Problem, text: object) -> Quantity:
    """The unknown of this name (`a`, `a[pond 1]`, `prey(0)[pond 1]`), or a formula of such names."""
    if not isinstance(text, str):
        raise InputError("problem.quantity_not_text", value=text)
    parameters = problem.parameters
    positions = positions_of(problem)
    label = text.strip()
    if label in problem.derived_quantities:
        return problem.derived_quantities[label]
    if label in problem.derived:
        raise InputError("problem.quantity_local", label, experiment=problem.names[0])
    if len(problem.names) == 1:
        label = label.replace(f"(0)[{problem.names[0]}]", "(0)")
    if label in positions:
        return Quantity(label, positions[label], None)
    if label in parameters and parameters[label].local:
        raise InputError("problem.quantity_local", label, experiment=problem.names[0])
    if label in parameters:
        raise InputError("problem.quantity_fixed", label)
    if re.fullmatch(LABEL, label):
        known = [*positions, *problem.derived_quantities]
        raise InputError("problem.quantity_unknown", label, known=known, close=closest(label, known))
    return _formula(problem, label, positions)


def _formula(problem: Problem, text: str, positions: Mapping[str, tuple[int, int]]) -> Quantity:
    """A formula of unknowns."""
    parameters = problem.parameters
    written, own = renamed(text, positions)
    _check_initial(problem, text, written, own)
    used = names(expression := parse(written))
    members = {name: positions[label] for label, name in own.items() if name in used}
    _check_names(problem, text, used - members.keys(), positions)
    if not members and not any(parameters[n].fixed is None for n in used):
        raise InputError("problem.quantity_constant", text)
    formula = BatchedMap([expression], parameters=(*parameters, *members))
    return Quantity(text, None, formula, tuple(members.values()))


def _check_initial(problem: Problem, text: str, written: str, labels: Iterable[str]) -> None:
    """InputError if a formula names an initial state that is not estimated."""
    for state in re.findall(r"(\w+)\s*\(\s*0\s*\)", written):
        if state not in problem.model.states:
            continue
        unknown = [label for label in labels if label.startswith(f"{state}(0)")]
        if unknown:
            raise InputError("problem.quantity_initial_of", state, text=text, label=unknown[0])
        raise InputError("problem.quantity_initial_known", state, text=text)


def _check_names(problem: Problem, text: str, used: Iterable[str], labels: Iterable[str]) -> None:
    """InputError unless a formula uses only parameters that all experiments share, or unknowns."""
    parameters = problem.parameters
    shared = [name for name, one in parameters.items() if not one.local]
    known = list(dict.fromkeys([*shared, *labels]))
    for name in sorted(used):
        if name in parameters and parameters[name].local:
            raise InputError("problem.formula_local", name, text=text, experiment=problem.names[0])
        if name not in shared:
            close = closest(name, known)
            raise InputError("problem.formula_unknown", name, text=text, known=known, close=close)
