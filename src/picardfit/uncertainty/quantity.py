"""What a profile is taken of: one unknown, or a formula of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.expressions import BatchedMap, names, parse
from picardfit.problem import Problem
from picardfit.unknowns import Unknowns


@dataclass(frozen=True)
class Quantity:
    """A number that depends on the unknowns: the unknown at `place` in its internal coordinate, or a formula."""

    label: str
    place: tuple[int, int] | None  # experiment and border column of the unknown
    formula: BatchedMap | None

    def value(self, unknowns: Unknowns, border: np.ndarray) -> float:
        if self.formula is None:
            return float(border[self.place])
        empty = np.zeros((1, 0))
        return float(self.formula.value(np.zeros(1), empty, unknowns.parameters(border)[:1], empty)[0, 0])

    def slope(self, unknowns: Unknowns, border: np.ndarray, index: np.ndarray) -> np.ndarray:
        """(unknowns,): derivative by the unknowns of `index`, internal coordinates."""
        if self.formula is None:
            return np.all(index == self.place, axis=1).astype(float)
        empty = np.zeros((1, 0))
        _, _, by_parameter = self.formula.linearise(
            np.zeros(1), empty, unknowns.parameters(border)[:1], empty
        )
        by_column = np.zeros(unknowns.width)
        by_column[unknowns.local :] = by_parameter[0, 0, unknowns.global_parameters]
        return (by_column * unknowns.slopes(border)[0])[index[:, 1]]

    def bounds(self, unknowns: Unknowns) -> tuple[float, float]:
        """Between which values it can lie, as far as that is known."""
        if self.formula is not None:
            return -np.inf, np.inf
        return float(unknowns.lower[self.place]), float(unknowns.upper[self.place])

    def natural(self, unknowns: Unknowns, values: np.ndarray) -> np.ndarray:
        """Values of the quantity in natural units."""
        log = self.formula is None and bool(unknowns.log[self.place])
        with np.errstate(over="ignore"):
            return np.exp(values) if log else np.asarray(values, float)


def quantity(problem: Problem, text: object) -> Quantity:
    """The unknown of this name (`a`, `a[pond 1]`, `prey(0)[pond 1]`), or a formula of the shared parameters."""
    if not isinstance(text, str):
        raise InputError(f"{text!r} is not text: write the name of a parameter, or a formula such as 'a/b'.")
    unknowns = problem.unknowns
    places = {unknowns.label(e, c): (int(e), int(c)) for e, c in np.argwhere(unknowns.exists)[::-1]}
    label = text.strip()
    if len(problem.names) == 1:
        label = label.replace(f"(0)[{problem.names[0]}]", "(0)")
    if label in places:
        e, c = places[label]
        return Quantity(label, (e if c < unknowns.local else 0, c), None)
    parameters = problem.parameters
    if label in parameters and parameters[label].local:
        raise InputError(
            f"`{label}` has a value in each experiment: write for example `{label}[{problem.names[0]}]`."
        )
    if label in parameters:
        raise InputError(
            f"`{label}` is fixed: free it in the problem to learn how well the data determine it."
        )
    if label.endswith(("]", "(0)")) or label.isidentifier():
        raise InputError(
            f"`{label}` is not an unknown of the problem: name one of {listing(places)}."
            + did_you_mean(label, places)
        )
    return _formula(problem, label)


def _formula(problem: Problem, text: str) -> Quantity:
    expression = parse(text, f"The quantity `{text}`")
    shared = [n for n, p in problem.parameters.items() if not p.local]
    for name in sorted(names(expression)):
        if name not in shared:
            raise InputError(
                f"`{name}` in `{text}` is not a parameter that all experiments share ({listing(shared)})."
                + did_you_mean(name, shared)
            )
    if not any(problem.parameters[n].fixed is None for n in names(expression)):
        raise InputError(f"`{text}` depends on no free parameter: use one that is estimated.")
    return Quantity(text, None, BatchedMap([expression], parameters=tuple(problem.parameters)))
