"""Combinations of unknowns as formulas: products of powers and sums, with simple exponents where those suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from picardfit.display.hook import shown


@dataclass(frozen=True)
class Simplicity:
    """Which numbers read well in a formula. All are choices."""

    denominator: int = 4  # largest denominator of an exponent
    whole: int = 6  # largest whole exponent
    negligible: float = 0.02  # exponents below this fraction of the largest are left out of rounded formulas
    exact: float = 1e-9  # difference from a fraction that is rounding
    pivot: float = 0.5  # size of a column, relative to the largest, that may be a pivot


DEFAULT = Simplicity()


@shown
@dataclass(frozen=True)
class Combination:
    """A product of powers (`power`) or a weighted sum of unknowns, and its relative standard error.

    The error of a product of powers is that of its logarithm; that of a sum is relative to the sizes of its terms.
    """

    weights: dict[str, float]  # exponents, or factors in natural units
    power: bool
    error: float

    @property
    def text(self) -> str:
        """The combination as a formula: `a*b^2/c` or `a + 2*b`."""
        return power_text(self.weights) if self.power else sum_text(self.weights)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.weights)


def power_text(exponents: Mapping[str, float], numbers: Simplicity = DEFAULT) -> str:
    """`a*b^2/c`: unknowns with negative exponents stand after the slash."""

    def factor(name: str, exponent: float) -> str:
        size = _number_text(exponent, numbers)
        return name if size == "1" else f"{name}^{f'({size})' if '/' in size else size}"

    above = [factor(name, w) for name, w in exponents.items() if w > 0]
    below = [factor(name, -w) for name, w in exponents.items() if w < 0]
    bottom = f"({'*'.join(below)})" if len(below) > 1 else "".join(below)
    return "*".join(above or ["1"]) + (f"/{bottom}" if below else "")


def sum_text(factors: Mapping[str, float], numbers: Simplicity = DEFAULT) -> str:
    """`a + 2*b - c`."""
    text = ""
    for name, factor in factors.items():
        size = _number_text(abs(factor), numbers)
        term = name if size == "1" else f"{size}*{name}"
        sign = "-" if factor < 0 else "+"
        text += f" {sign} {term}" if text else (f"-{term}" if factor < 0 else term)
    return text


def _number_text(value: float, numbers: Simplicity) -> str:
    near = Fraction(value).limit_denominator(numbers.denominator)
    return str(near) if abs(float(near) - value) < numbers.exact else f"{value:.2g}"


def simplified(
    weights: np.ndarray, tolerance: float = 0.1, numbers: Simplicity = DEFAULT
) -> np.ndarray | None:
    """Small whole numbers proportional to the weights, each within the tolerance of the largest; None without any."""
    largest = np.abs(weights).max(initial=0.0)
    if not largest > 0:
        return None
    fractions = [Fraction(float(w / largest)).limit_denominator(numbers.denominator) for w in weights]
    if max(abs(float(f) - w / largest) for f, w in zip(fractions, weights, strict=True)) > tolerance:
        return None
    common = lcm(*(f.denominator for f in fractions))
    whole = np.array([float(f * common) for f in fractions])
    return None if np.abs(whole).max() > numbers.whole else whole


def reduced(basis: np.ndarray, numbers: Simplicity = DEFAULT) -> np.ndarray:
    """Reduced echelon form of independent rows (count, unknowns).

    Pivots are the first unknowns that are not small; they depend on the space, not on its basis.
    """
    rows, pivots = np.linalg.qr(np.asarray(basis, float).T)[0].T, []
    while len(rows):
        size = np.linalg.norm(rows, axis=0)
        pivots.append(int(np.argmax(size >= numbers.pivot * size.max())))
        rows = (
            np.linalg.svd(rows[:, pivots[-1]][None])[2][1:] @ rows
        )  # the subspace that vanishes at the pivot
    return np.linalg.solve(basis[:, pivots], basis)


def tidy(weights: np.ndarray, numbers: Simplicity = DEFAULT) -> np.ndarray:
    """Two digits relative to the largest, which becomes 1; small ones become 0."""
    scaled = weights / weights[np.abs(weights).argmax()]
    return np.where(np.abs(scaled) < numbers.negligible, 0.0, np.round(scaled, 2))


def positive_first(weights: np.ndarray) -> np.ndarray:
    """The weights with the sign that makes the first nonzero one positive."""
    nonzero = weights[weights != 0]
    return -weights if len(nonzero) and nonzero[0] < 0 else weights


def connected_groups(linked: np.ndarray) -> list[np.ndarray]:
    """Connected components of a symmetric boolean matrix, without unknowns that are not linked to themselves."""
    from scipy.sparse.csgraph import connected_components

    members = np.flatnonzero(np.diag(linked))
    count, number = connected_components(linked[np.ix_(members, members)], directed=False)
    return [members[number == k] for k in range(count)]


def named(weights: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """The nonzero weights by name."""
    return {n: float(w) for n, w in zip(names, weights, strict=True) if w != 0}
