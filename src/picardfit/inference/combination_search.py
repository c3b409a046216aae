"""Directions that data leave open and combinations that they determine, from a covariance in relative coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.evidence.relative_coordinates import Relative
from picardfit.inference.combinations import (
    Combination,
    groups_of,
    named,
    positive_first,
    reduced,
    simplified,
    tidy,
)


@dataclass(frozen=True)
class VerdictSettings:
    """What counts as determined; errors are relative standard errors."""

    sure: float = 0.2  # error up to which an unknown is determined: its first digit is known
    weak: float = 1.0  # error up to which it is weakly determined: its sign and order of magnitude are known
    unsure: float = (
        0.1  # error from which on unknowns count as poorly determined, when combinations are sought
    )
    correlated: float = 0.8  # correlation that ties poorly determined unknowns together
    tied: float = 0.95  # correlation that ties unknowns together which are determined one by one
    worth: float = 2.0  # factor by which the error of a combination must be smaller than those of its members
    touched: float = 1e-5  # part of a free direction that counts; less is rounding
    free: float = 1e-2  # overlap with a free direction from which on a direction is free itself
    faint: float = (
        0.1  # part of a direction, relative to its largest, that is left out unless it moves by `weak`
    )
    vast: float = 1e10  # variance along free directions, relative to the largest: infinite for linear algebra
    simpler_direction: float = 0.03  # change of the parts of a direction that simple numbers may cost
    simpler_sum: float = 1e-3  # the same for the factors of a sum
    simpler_factor: float = 1.5  # factor by which simple exponents may enlarge the error of a combination
    simpler_error: float = 1e-4  # error that simple exponents may cost in any case
    together: int = (
        300  # unknowns up to which combinations of all are sought: an eigendecomposition of that size
    )
    singly: int = 50  # experiments that are searched one by one where there are more unknowns than that


DEFAULT = VerdictSettings()


@dataclass(frozen=True)
class Group:
    """Some of the unknowns with their covariance, among which combinations are sought."""

    relative: Relative
    unknowns: np.ndarray  # (members,): their numbers
    inside: np.ndarray  # covariance without the directions that are left free
    free: np.ndarray  # (members, directions): orthonormal directions over all unknowns that are left free
    settings: VerdictSettings

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance with something very large along free directions."""
        vast = self.settings.vast * max(float(np.nanmax(np.diag(self.inside), initial=0.0)), 1.0)
        return self.inside + vast * self.free @ self.free.T

    def error(self, weights: np.ndarray) -> float:
        """Relative standard error of a combination whose largest weight is made 1."""
        unit = weights / np.abs(weights).max()
        if (np.abs(unit @ self.free) > self.settings.touched).any():
            return float("inf")
        return float(np.sqrt(max(unit @ self.inside @ unit, 0.0)))


def undetermined_directions(group: Group) -> list[Combination]:
    """Directions with an error beyond 100 %, largest first."""
    if not np.isfinite(group.covariance).all() or not len(group.unknowns):
        return []
    settings = group.settings
    values, vectors = np.linalg.eigh(group.covariance)
    beyond = np.sqrt(np.maximum(values, 0.0)) > settings.weak
    if not beyond.any():
        return []
    chosen = []
    for row in reduced(vectors[:, beyond].T[::-1]):
        unit = row / np.linalg.norm(row)
        free = (np.abs(unit @ group.free) > settings.free).any()
        error = np.inf if free else float(np.sqrt(unit @ group.inside @ unit))
        part = np.abs(row) / np.abs(row).max()
        faint = (
            part < settings.touched
            if free
            else (part < settings.faint) & (np.abs(unit) * error < settings.weak)
        )
        strong = np.where(faint, 0.0, row)
        nice = simplified(strong, settings.simpler_direction)
        weights = tidy(strong) if nice is None else nice
        chosen.append(_combination(group, np.arange(len(row)), weights, error, direction=True))
    return sorted(chosen, key=lambda c: -c.error)


def determined_combinations(group: Group) -> list[Combination]:
    """Combinations of correlated unknowns that are much better determined than each of them, best first.

    Pairs come first; larger groups only for what their pairs do not say.
    """
    covariance, settings = group.covariance, group.settings
    if not np.isfinite(covariance).all():
        return []
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1.0)
    correlation = np.abs(covariance / np.outer(size, size))
    poor = size > settings.unsure
    linked = (np.outer(poor, poor) & (correlation > settings.correlated)) | (correlation > settings.tied)
    pairs = [np.array(pair) for pair in np.argwhere(np.triu(linked, 1))]
    found = [c for pair in pairs for c in _within(group, pair)]
    told = {frozenset(c.names) for c in found}
    for members in groups_of(linked):
        names = {group.relative.labels[k] for k in group.unknowns[members]}
        if len(members) > 2 and not any(one <= names for one in told):
            found += _within(group, members)
    return sorted(found, key=lambda c: c.error)


def _within(group: Group, members: np.ndarray) -> list[Combination]:
    """The well-determined combinations of these members."""
    settings = group.settings
    covariance = group.covariance[np.ix_(members, members)]
    size = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(size, size))
    good = values < 1 / settings.worth**2
    if not good.any():
        return []
    # gradients of well-determined combinations, in units in which every member has an error of 1
    found = []
    for row in reduced(vectors[:, good].T / size):
        limit = min(settings.sure, size.min() / settings.worth)
        weights, error = _readable(group, members, row, limit)
        if np.count_nonzero(weights) > 1 and error < limit:
            found.append(_combination(group, members, positive_first(weights), error))
    return found


def _readable(group: Group, members: np.ndarray, row: np.ndarray, limit: float) -> tuple[np.ndarray, float]:
    """The simplest weights that cost little accuracy, with the error for a largest weight of 1."""

    def error(weights: np.ndarray) -> float:
        whole = np.zeros(len(group.unknowns))
        whole[members] = weights
        return group.error(whole)

    exact = row / row[np.abs(row).argmax()]
    best = error(exact)
    for trial in (*(np.round(exact * d) for d in (1, 2, 3)), tidy(exact)):
        found = error(trial)
        if found < limit and not found > group.settings.simpler_factor * best + group.settings.simpler_error:
            return trial, found
    return exact, best


def _combination(
    group: Group, members: np.ndarray, weights: np.ndarray, error: float, direction: bool = False
) -> Combination:
    """The combination of members; unless all are powers it is a sum in natural units."""
    relative, every = group.relative, group.unknowns[members]
    names = [relative.labels[k] for k in every]
    if relative.power[every[weights != 0]].all():
        return Combination(named(positive_first(weights), names), True, error)
    unit = relative.unit[every] * np.where(relative.power[every], np.sign(relative.values[every]), 1.0)
    natural = weights * unit if direction else weights / unit
    natural = natural / natural[np.abs(weights).argmax()]
    nice = simplified(natural, group.settings.simpler_sum)
    return Combination(named(positive_first(natural if nice is None else nice), names), False, error)
