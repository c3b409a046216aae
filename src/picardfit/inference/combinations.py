"""Combinations of unknowns in words: products of powers and sums, with simple exponents where they serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from picardfit.display.hook import shown


@dataclass(frozen=True)
class Simplicity:
    """Which numbers read well in a formula."""

    denominator: int = 4  # largest of an exponent
    whole: int = 6  # largest whole exponent
    negligible: float = 0.02  # exponents below this part of the largest are left out of rounded formulas
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


def power_text(exponents: Mapping[str, float]) -> str:
    """`a*b^2/c`: what stands below the line comes after the slash."""
    above = [_factor(n, w) for n, w in exponents.items() if w > 0]
    below = [_factor(n, -w) for n, w in exponents.items() if w < 0]
    bottom = f"({'*'.join(below)})" if len(below) > 1 else "".join(below)
    return "*".join(above or ["1"]) + (f"/{bottom}" if below else "")


def sum_text(factors: Mapping[str, float]) -> str:
    """`a + 2*b - c`."""
    text = ""
    for name, factor in factors.items():
        size = _plain(abs(factor))
        term = name if size == "1" else f"{size}*{name}"
        sign = "-" if factor < 0 else "+"
        text += f" {sign} {term}" if text else (f"-{term}" if factor < 0 else term)
    return text


def _factor(name: str, exponent: float) -> str:
    size = _plain(exponent)
    return name if size == "1" else f"{name}^{f'({size})' if '/' in size else size}"


def _plain(value: float) -> str:
    near = Fraction(value).limit_denominator(DEFAULT.denominator)
    return str(near) if abs(float(near) - value) < DEFAULT.exact else f"{value:.2g}"


def simplified(weights: np.ndarray, tolerance: float = 0.1) -> np.ndarray | None:
    """Small whole numbers proportional to the weights, each within the tolerance of the largest; None without any."""
    largest = np.abs(weights).max(initial=0.0)
    if not largest > 0:
        return None
    parts = [Fraction(float(w / largest)).limit_denominator(DEFAULT.denominator) for w in weights]
    if max(abs(float(p) - w / largest) for p, w in zip(parts, weights, strict=True)) > tolerance:
        return None
    whole = lcm(*(p.denominator for p in parts))
    numbers = np.array([float(p * whole) for p in parts])
    return None if np.abs(numbers).max() > DEFAULT.whole else numbers


def reduced(basis: np.ndarray) -> np.ndarray:
    """Reduced echelon form of independent rows (count, unknowns).

    Pivots are the first unknowns that are not small; they depend on the space, not on its basis.
    """
    rest, pivots = np.linalg.qr(np.asarray(basis, float).T)[0].T, []
    while len(rest):
        size = np.linalg.norm(rest, axis=0)
        pivots.append(int(np.argmax(size >= DEFAULT.pivot * size.max())))
        rest = np.linalg.svd(rest[:, pivots[-1]][None])[2][1:] @ rest  # what is left of the space at 0 there
    return np.linalg.solve(basis[:, pivots], basis)


def tidy(weights: np.ndarray) -> np.ndarray:
    """Two digits relative to the largest, which becomes 1; small ones are left out."""
    scaled = weights / weights[np.abs(weights).argmax()]
    return np.where(np.abs(scaled) < DEFAULT.negligible, 0.0, np.round(scaled, 2))


def positive_first(weights: np.ndarray) -> np.ndarray:
    """The sign for which the first entry that is not zero is positive."""
    nonzero = weights[weights != 0]
    return -weights if len(nonzero) and nonzero[0] < 0 else weights


def groups_of(linked: np.ndarray) -> list[np.ndarray]:
    """Connected components of a symmetric boolean matrix; only unknowns linked to themselves count."""
    left, groups = set(np.flatnonzero(np.diag(linked)).tolist()), []
    while left:
        group, front = set(), {min(left)}
        while front:
            group |= front
            front = {j for i in front for j in np.flatnonzero(linked[i]).tolist() if j in left} - group
        left -= group
        groups.append(np.array(sorted(group)))
    return groups


def named(weights: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """The weights that are not zero, by name."""
    return {n: float(w) for n, w in zip(names, weights, strict=True) if w != 0}
