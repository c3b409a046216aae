"""What a profile is taken of: one unknown, or a formula of unknowns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.formulas.grammar import BatchedMap, names, parse
from picardfit.problem.problem import Problem
from picardfit.problem.unknowns import UnknownsLayout

NAME = r"[\w.]+(\(0\))?(\[[^\]]*\])?"  # what looks like the label of one unknown


@dataclass(frozen=True)
class Quantity:
    """A number that depends on the unknowns: the unknown at `place` in its internal coordinate, or a formula."""

    label: str
    place: tuple[int, int] | None  # experiment and column of the unknown
    formula: BatchedMap | None  # of all parameters in the first experiment, then of `members`
    members: tuple[tuple[int, int], ...] = ()  # places of unknowns that belong to one experiment

    def value(self, layout: UnknownsLayout, unknowns: np.ndarray) -> float:
        if self.formula is None:
            return float(unknowns[self.place])
        empty = np.zeros((1, 0))
        return float(self.formula.value(np.zeros(1), empty, self._arguments(layout, unknowns), empty)[0, 0])

    def slope(self, layout: UnknownsLayout, unknowns: np.ndarray, index: np.ndarray) -> np.ndarray:
        """(unknowns,): derivative by the unknowns of `index`, internal coordinates."""
        if self.formula is None:
            return np.all(index == self.place, axis=1).astype(float)
        empty = np.zeros((1, 0))
        _, _, by_argument = self.formula.linearise(
            np.zeros(1), empty, self._arguments(layout, unknowns), empty
        )
        by_unknowns = np.zeros_like(unknowns)
        by_unknowns[:, layout.local :] = by_argument[0, 0, layout.global_parameters]
        for k, place in enumerate(self.members, len(layout.names)):
            by_unknowns[place] += by_argument[0, 0, k]
        return (by_unknowns * layout.slopes(unknowns))[tuple(index.T)]

    def _arguments(self, layout: UnknownsLayout, unknowns: np.ndarray) -> np.ndarray:
        """(1, arguments) in natural units."""
        natural = layout.natural(unknowns)
        own = [natural[place] for place in self.members]
        return np.concatenate([layout.parameters(unknowns)[0], own])[None]

    def bounds(self, layout: UnknownsLayout) -> tuple[float, float]:
        """Between which values it can lie, as far as that is known."""
        if self.formula is not None:
            return -np.inf, np.inf
        return float(layout.lower[self.place]), float(layout.upper[self.place])

    def natural(self, layout: UnknownsLayout, values: np.ndarray) -> np.ndarray:
        """Values of the quantity in natural units."""
        log = self.formula is None and bool(layout.log[self.place])
        with np.errstate(over="ignore"):
            return np.exp(values) if log else np.asarray(values, float)


def quantity(problem: Problem, text: object) -> Quantity:
    """The unknown of this name (`a`, `a[pond 1]`, `prey(0)[pond 1]`), or a formula of such names."""
    if not isinstance(text, str):
        raise InputError(f"{text!r} is not text: write the name of a parameter, or a formula such as 'a/b'.")
    layout = problem.layout
    places = {
        layout.label(e, c): (int(e) if c < layout.local else 0, int(c))
        for e, c in np.argwhere(layout.exists)[::-1]
    }
    label = text.strip()
    if len(problem.names) == 1:
        label = label.replace(f"(0)[{problem.names[0]}]", "(0)")
    if label in places:
        return Quantity(label, places[label], None)
    parameters = problem.parameters
    if label in parameters and parameters[label].local:
        raise InputError(
            f"`{label}` has a value in each experiment: write for example `{label}[{problem.names[0]}]`."
        )
    if label in parameters:
        raise InputError(
            f"`{label}` is fixed: free it in the problem to learn how well the data determine it."
        )
    if re.fullmatch(NAME, label):
        raise InputError(
            f"`{label}` is not an unknown of the problem: name one of {listing(places)}."
            + did_you_mean(label, places)
        )
    return _formula(problem, label, places)


def _formula(problem: Problem, text: str, places: Mapping[str, tuple[int, int]]) -> Quantity:
    """Unknowns whose labels a formula cannot hold, such as `prey(0)[pond 1]`, stand in it under other names."""
    parameters = problem.parameters
    own = {label: f"unknown_{k}_" for k, label in enumerate(places) if not label.isidentifier()}
    written = text
    if own:
        longest_first = "|".join(re.escape(label) for label in sorted(own, key=len, reverse=True))
        written = re.sub(rf"(?<![\w.])({longest_first})(?!\w)", lambda found: own[found[0]], text)
    for state in re.findall(r"(\w+)\s*\(\s*0\s*\)", written):
        if state in problem.model.states:
            known = [label for label in own if label.startswith(f"{state}(0)")]
            remedy = f"write for example `{known[0]}`" if known else "it is known: write its value"
            raise InputError(f"`{state}(0)` in `{text}` is not an unknown: {remedy}.")
    used = names(expression := parse(written, f"The quantity `{text}`"))
    shared = [n for n, p in parameters.items() if not p.local]
    members = {name: places[label] for label, name in own.items() if name in used}
    known = list(dict.fromkeys([*shared, *places]))
    for name in sorted(used - members.keys()):
        if name in parameters and parameters[name].local:
            raise InputError(
                f"`{name}` in `{text}` has a value in each experiment: "
                f"write for example `{name}[{problem.names[0]}]`."
            )
        if name not in shared:
            raise InputError(
                f"`{name}` in `{text}` is not an unknown of the problem: a formula may use {listing(known)}."
                + did_you_mean(name, known)
            )
    if not members and not any(parameters[n].fixed is None for n in used):
        raise InputError(f"`{text}` depends on no free parameter: use one that is estimated.")
    formula = BatchedMap([expression], parameters=(*parameters, *members))
    return Quantity(text, None, formula, tuple(members.values()))
