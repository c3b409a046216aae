"""The covariance of the random effects as a function of free coordinates, in which it is always positive definite.

A group of correlated effects has the Cholesky factor L = D + C with a diagonal D > 0 and C strictly lower triangular.
The coordinates are log D and the entries of C. Effects are eta = L z with z standard normal, so that neither a variance
of zero nor a correlation of one needs an inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.collocation.mesh import Flags
from picardfit.formulas.kernels import Array
from picardfit.model.random_effects import RandomEffects


@dataclass(frozen=True)
class Entry:
    """One coordinate: log D of an effect (row == column), or an entry of C."""

    row: int
    column: int


@dataclass(frozen=True)
class Covariance:
    """Which entries of the covariance are estimated."""

    names: tuple[str, ...]
    groups: tuple[
        tuple[int, ...], ...
    ]  # effects whose covariance is estimated; single ones are groups of one
    fixed: dict[int, float]  # effect -> variance
    given: Array | None = None  # L, where the whole covariance is known

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The coordinates, in order: each effect's log D, then its entries of C."""
        return tuple(
            Entry(row, column)
            for group in self.groups
            for k, row in enumerate(group)
            for column in (row, *group[:k])
        )

    @property
    def diagonal(self) -> Flags:
        """(coordinates,) bool: those that are log D."""
        return np.array([one.row == one.column for one in self.entries], bool)

    @property
    def pattern(self) -> Flags:
        """(effects, effects) bool: where the covariance may differ from zero."""
        found = np.zeros((len(self.names),) * 2, bool)
        for group in self.groups:
            found[np.ix_(group, group)] = True
        for k in self.fixed:
            found[k, k] = True
        return found

    def factor(self, coordinates: Array) -> Array:
        """L (effects, effects) with L L' the covariance; its rows are lower triangular within a group."""
        if self.given is not None:
            return self.given
        factor = np.diag([np.sqrt(self.fixed.get(k, 1.0)) for k in range(len(self.names))])
        for one, value in zip(self.entries, coordinates, strict=True):
            if one.row == one.column:
                factor[one.row, one.row] = np.exp(value)
            else:
                factor[one.row, one.column] = value
        return factor

    def factor_slopes(self, coordinates: Array) -> Array:
        """(coordinates, effects, effects): derivatives of L."""
        factor = self.factor(coordinates)
        slopes = np.zeros((len(coordinates), *factor.shape))
        for k, one in enumerate(self.entries):
            if one.row == one.column:
                slopes[k, one.row, one.row] = factor[one.row, one.row]
            else:
                slopes[k, one.row, one.column] = 1.0
        return slopes

    def matrix(self, coordinates: Array) -> Array:
        factor = self.factor(coordinates)
        return np.asarray(factor @ factor.T)

    def coordinates(self, matrix: Array) -> Array:
        """The coordinates of a covariance, which is positive definite in every group."""
        found = np.zeros(len(self.entries))
        for group in self.groups:
            root = np.linalg.cholesky(matrix[np.ix_(group, group)])
            place = {effect: k for k, effect in enumerate(group)}
            for k, one in enumerate(self.entries):
                if one.row in place:
                    value = root[place[one.row], place[one.column]]
                    found[k] = np.log(value) if one.row == one.column else value
        return found


def covariance_of(random: RandomEffects, names: Sequence[str]) -> Covariance:
    """The covariance of these effects, in the order of their columns."""
    index = {name: k for k, name in enumerate(names)}
    groups = [tuple(index[name] for name in group) for group in random.correlated]
    grouped = {k for group in groups for k in group}
    fixed = {index[name]: value for name, value in random.fixed.items()}
    alone = [(k,) for k in range(len(names)) if k not in grouped and k not in fixed]
    return Covariance(tuple(names), (*groups, *alone), fixed)
