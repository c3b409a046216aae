"""identifiability(): what the data of a fit determine, unknown by unknown and in combinations.

All computations use relative coordinates: logarithms of unknowns that keep their sign; the others are divided by their
size. The covariance there, from the Fisher information, holds relative standard errors. An unknown is
determined      up to ± 20 %,
weakly          up to ± 100 %, if that is less than half the width of its bounds,
not determined  beyond, or when the data leave it free altogether.
An initial state that may be zero within its error is judged against the size of its state, not against itself.
Bounds do not count as information: an unknown that stopped at a bound gets the error that the data alone give it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import picture, shown
from picardfit.errors import InputError
from picardfit.evidence.fisher import Information
from picardfit.evidence.optima import DEFAULT as SAME_OPTIMUM
from picardfit.evidence.optima import SameOptimum
from picardfit.evidence.relative_coordinates import Covariance, Relative, in_relative_units
from picardfit.inference.combinations import (
    Combination,
    connected_groups,
    named,
    positive_first,
    reduced,
    simplified,
    tidy,
)
from picardfit.inference.refits import solution_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.fit import Fit


@dataclass(frozen=True)
class VerdictSettings:
    """What counts as determined; errors are relative standard errors."""

    sure: float = 0.2  # error up to which an unknown is determined: its first digit is known
    weak: float = 1.0  # error up to which it is weakly determined: its sign and order of magnitude are known
    unsure: float = 0.1  # error beyond which an unknown counts as poorly determined in search of combinations
    correlated: float = 0.8  # correlation that ties poorly determined unknowns together
    tied: float = 0.95  # correlation that ties unknowns together that are well determined one by one
    worth: float = 2.0  # factor by which the error of a combination must be smaller than those of its members
    touched: float = 1e-5  # component along a free direction that counts; less is rounding
    free: float = 1e-2  # overlap with a free direction beyond which a direction is free itself
    faint: float = 0.1  # component, relative to the largest, that is left out unless it moves by `weak`
    vast: float = 1e10  # variance along free directions, relative to the largest: infinite for linear algebra
    simpler_direction: float = 0.03  # change of the components of a direction that simple numbers may cost
    simpler_sum: float = 1e-3  # change of the factors of a sum that simple numbers may cost
    simpler_factor: float = 1.5  # factor by which simple exponents may enlarge the error of a combination
    simpler_error: float = 1e-4  # error that simple exponents may cost in any case
    together: int = 300  # unknowns up to which combinations of all are sought, by one eigendecomposition
    singly: int = 50  # experiments that are searched one by one where there are more unknowns than that


DEFAULT = VerdictSettings()


class Determination(StrEnum):
    """How well the data determine an unknown. Each compares equal to its text."""

    DETERMINED = "determined"
    WEAK = "weakly"
    NONE = "not determined"


@shown
@dataclass(frozen=True)
class Verdict:
    """What the data say about one unknown. `print` it for a sentence."""

    name: str
    kind: Determination
    error: float  # relative standard error: infinite if it is left free, NaN without an estimate of the noise
    value: float = np.nan  # the estimate
    unit: float = 1.0  # what `error` is relative to, in natural units
    relative: bool = True  # to the estimate itself, not to a size given by bounds or states
    exceeds_bounds: bool = False  # not determined only because the bounds are narrower than the error
    at_bound: bool = False
    state_size: float | None = None  # how large the state of an initial value becomes, if that is its `unit`
    alternatives: tuple[float, ...] = ()  # other values that fit as well

    @property
    def sentence(self) -> str:
        return str(self)


@shown
@dataclass(frozen=True)
class Identifiability:
    """What the data determine. `print` it for a table."""

    verdicts: dict[str, Verdict]
    undetermined: tuple[Combination, ...]
    """Directions with an error beyond 100 %: their members may move together along them."""
    determined: tuple[Combination, ...]
    """Combinations much better determined than their members, best first."""
    alternatives: tuple[dict[str, float], ...] = field(default=())
    """Parameters of other starts that fit as well and lie elsewhere."""
    settings: VerdictSettings = field(default=DEFAULT, repr=False)

    @property
    def identifiable(self) -> bool:
        """Whether every unknown is determined, at least weakly."""
        return not self.not_determined

    @property
    def not_determined(self) -> tuple[str, ...]:
        """The unknowns that the data do not determine."""
        return tuple(name for name, one in self.verdicts.items() if one.kind is Determination.NONE)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Relative standard errors as bars, with the thresholds; written to `path` if given."""
        return picture(self, path)


def identifiability(fit: Fit, settings: VerdictSettings = DEFAULT) -> Identifiability:
    """Verdicts, undetermined directions and determined combinations of a fit."""
    solution = solution_of(fit)
    if not fit.status.converged:
        raise InputError("inference.not_judged", ended=fit.conclusion)
    relative, covariance = in_relative_units(solution, fit.whole_information, fit.residual_variance)
    others = _alternatives(fit, relative)
    order = {name: k for k, name in enumerate(fit.parameters)}
    numbers = sorted(range(len(relative.labels)), key=lambda k: order.get(relative.labels[k], len(order)))
    shared, *own = _blocks(fit.whole_information, relative, settings)
    undetermined = [
        one
        for k in (shared, *own)
        for one in undetermined_directions(Group(relative, covariance, k, settings))
    ]
    # every experiment is searched together with the shared unknowns, so that theirs are found again and again
    determined = {
        (one.power, tuple(one.weights.items())): one
        for k in (shared, *(np.concatenate([k, shared]) for k in own))
        for one in determined_combinations(Group(relative, covariance, k, settings))
    }
    return Identifiability(
        {relative.labels[k]: _verdict(relative, k, others, settings) for k in numbers},
        tuple(sorted(undetermined, key=lambda c: -c.error)),
        tuple(sorted(determined.values(), key=lambda c: c.error)),
        others,
        settings,
    )


def _blocks(found: Information, relative: Relative, settings: VerdictSettings) -> list[np.ndarray]:
    """Indices of the unknowns among which directions are sought: all together if they are not too many.

    Otherwise first the shared unknowns, then those of each of the experiments with the least determined unknowns.
    """
    every = np.arange(len(found.index))
    if len(every) <= settings.together:
        return [every]
    own = found.index[:, 1] < found.arrow.there.shape[1]
    worst = np.zeros(len(found.arrow.there))
    np.maximum.at(worst, found.index[own, 0], np.nan_to_num(relative.errors[own], nan=0.0))
    chosen = np.sort(np.argsort(-worst, kind="stable")[: settings.singly])
    return [every[~own], *(every[own & (found.index[:, 0] == e)] for e in chosen)]


def _verdict(
    relative: Relative, k: int, others: tuple[dict[str, float], ...], settings: VerdictSettings
) -> Verdict:
    name, error, reached = relative.labels[k], float(relative.errors[k]), float(relative.reached[k])
    value, unit, half = (float(one[k]) for one in (relative.values, relative.unit, relative.half_width))
    if error <= min(settings.sure, half):
        kind = Determination.DETERMINED
    else:
        kind = Determination.WEAK if error <= min(settings.weak, half) else Determination.NONE
    own_size = not relative.power[k] and unit == reached > 2 * abs(value)
    return Verdict(
        name,
        kind,
        error,
        value,
        unit,
        relative=bool(relative.power[k]),
        exceeds_bounds=kind is Determination.NONE and error <= settings.weak,
        at_bound=bool(relative.at_bound[k]),
        state_size=reached if own_size else None,
        alternatives=tuple(
            other[name] for other in others if name in other and _differs(relative, k, value, other[name])
        ),
    )


def _differs(
    relative: Relative, k: int, value: float, other: float, same: SameOptimum = SAME_OPTIMUM
) -> bool:
    """Whether two values of an unknown are clearly different; never for one that is left free."""
    error = float(relative.errors[k])
    least = max(same.elsewhere * error, same.least_difference) * relative.unit[k]
    return bool(np.isfinite(error) and abs(value - other) > least)


def _alternatives(fit: Fit, relative: Relative) -> tuple[dict[str, float], ...]:
    """Parameters of other optima that fit as well and differ clearly in a determined parameter."""
    numbers = {name: k for k, name in enumerate(relative.labels) if name in fit.parameters}
    found = [fit.parameters]
    for one in fit.rivals:
        if all(
            any(_differs(relative, k, one.parameters[name], other[name]) for name, k in numbers.items())
            for other in found
        ):
            found.append(dict(one.parameters))
    return tuple(found[1:])


# ---- combinations ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Some of the unknowns with their covariance, among which combinations are sought."""

    relative: Relative
    whole: Covariance  # of all unknowns
    unknowns: np.ndarray  # (members,): their indices
    settings: VerdictSettings

    @cached_property
    def inside(self) -> np.ndarray:
        """(members, members): covariance without the directions that are left free."""
        return self.whole.inside(self.unknowns)

    @cached_property
    def free(self) -> np.ndarray:
        """(members, directions): orthonormal directions over all unknowns that are left free."""
        return self.whole.free(self.unknowns)

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance with a very large variance along free directions."""
        vast = self.settings.vast * max(float(np.nanmax(np.diag(self.inside), initial=0.0)), 1.0)
        return self.inside + vast * self.free @ self.free.T

    def error(self, weights: np.ndarray) -> float:
        """Relative standard error of a combination whose largest weight is made 1."""
        unit = weights / np.abs(weights).max()
        if (np.abs(unit @ self.free) > self.settings.touched).any():
            return float("inf")
        return float(np.sqrt(max(unit @ self.inside @ unit, 0.0)))


def undetermined_directions(group: Group) -> list[Combination]:
    """Directions with an error beyond `weak`, the largest first."""
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
        size = np.abs(row) / np.abs(row).max()
        if free:
            faint = size < settings.touched
        else:
            faint = (size < settings.faint) & (np.abs(unit) * error < settings.weak)
        strong = np.where(faint, 0.0, row)
        simple = simplified(strong, settings.simpler_direction)
        weights = tidy(strong) if simple is None else simple
        chosen.append(_combination(group, np.arange(len(row)), weights, error, direction=True))
    return sorted(chosen, key=lambda c: -c.error)


def determined_combinations(group: Group) -> list[Combination]:
    """Combinations of correlated unknowns that are much better determined than each of them, best first.

    Pairs come first; larger groups are searched only where no pair among them was found.
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
    told = {frozenset(c.weights) for c in found}
    for members in connected_groups(linked):
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
    simple = simplified(natural, group.settings.simpler_sum)
    return Combination(named(positive_first(natural if simple is None else simple), names), False, error)
