"""identifiability(): what the data of a fit determine, parameter by parameter and in combinations, in words.

Everything is in relative coordinates: logarithms of unknowns that keep their sign, and the others divided by their
size. The covariance there, from the Fisher information, holds relative standard errors. An unknown is
determined      up to ± 20 %,
weakly          up to ± 100 %, if that is less than half the width of its bounds,
not determined  beyond, or when the data leave it free altogether.
An initial state that may be zero within its error is judged against the size of its state, not against itself.
Bounds do not count as information: an unknown that stopped at a bound gets the error that the data alone give it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import picture, shown
from picardfit.errors import InputError
from picardfit.evidence.fisher import Information
from picardfit.evidence.optima import SameOptimum
from picardfit.evidence.relative_coordinates import Relative, in_relative_units
from picardfit.inference.combinations import (
    Combination,
    groups_of,
    named,
    positive_first,
    reduced,
    simplified,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.fit import Fit

SURE, WEAK = 0.2, 1.0  # relative standard errors up to which an unknown is determined, or weakly determined
CORRELATED = 0.8  # correlation that ties poorly determined unknowns together
UNSURE = SURE / 2  # relative standard error from which unknowns count as poorly determined then
TIED = 0.95  # correlation that ties unknowns together which are determined one by one
WORTH = 2.0  # a combination is told when its error is smaller than that of its members by this factor
TOUCHED = 1e-5  # part of a free direction that counts
VAST = 1e10
TOGETHER = 300  # unknowns up to which combinations of all are sought
SINGLY = 50  # experiments that are looked into one by one beyond that
FAINT = (
    0.1  # part of a direction, relative to its largest, that is left out of its text unless it moves by 100 %
)


@shown
@dataclass(frozen=True)
class Verdict:
    """What the data say about one unknown. `print` it for a sentence."""

    name: str
    kind: str  # "determined", "weakly", "not determined"
    error: float  # relative standard error: infinite if it is left free, NaN without an estimate of the noise
    value: float = np.nan  # the estimate
    unit: float = 1.0  # what `error` is relative to, in natural units
    relative: bool = (
        True  # the error is relative to the estimate itself, not to a size given by bounds or states
    )
    exceeds_bounds: bool = False  # not determined only because the bounds are narrower than the error
    at_bound: bool = False
    state_size: float | None = (
        None  # how large the state of an initial value becomes, where that is its `unit`
    )
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

    @property
    def identifiable(self) -> bool:
        """Whether no unknown is left undetermined."""
        return all(v.kind != "not determined" for v in self.verdicts.values())

    def plot(self, path: str | Path | None = None) -> Figure:
        """Relative standard errors as bars, with the thresholds; written to `path` if given."""
        return picture(self, path)


@dataclass(frozen=True)
class _Group:
    """Some of the unknowns with their covariance, among which combinations are sought."""

    relative: Relative
    unknowns: np.ndarray  # (members,): their numbers
    inside: np.ndarray  # covariance without the directions that are left free
    free: np.ndarray  # (members, directions): orthonormal directions over all unknowns that are left free

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance with something very large along free directions."""
        vast = VAST * max(float(np.nanmax(np.diag(self.inside), initial=0.0)), 1.0)
        return self.inside + vast * self.free @ self.free.T

    def error(self, weights: np.ndarray) -> float:
        """Relative standard error of a combination whose largest weight is made 1."""
        unit = weights / np.abs(weights).max()
        if (np.abs(unit @ self.free) > TOUCHED).any():
            return float("inf")
        return float(np.sqrt(max(unit @ self.inside @ unit, 0.0)))


def identifiability(fit: Fit) -> Identifiability:
    """Verdicts, directions and combinations of a fit."""
    if fit.solution is None:
        raise InputError("inference.no_solution", message=fit.status.sentence().rstrip("."))
    if not fit.status.converged:
        raise InputError("inference.not_judged", message=fit.message.rstrip("."))
    found = fit.whole_information
    relative, covariance = in_relative_units(fit, found)
    others = _alternatives(fit, relative)
    verdicts = _verdicts(fit, relative, others)
    shared, *own = _blocks(found, relative)
    together = [shared, *(np.concatenate([one, shared]) for one in own)]
    undetermined, determined = (
        [c for k in blocks for c in search(_Group(relative, k, covariance.inside(k), covariance.free(k)))]
        for search, blocks in ((_undetermined, [shared, *own]), (_determined, together))
    )
    return Identifiability(
        verdicts,
        tuple(sorted(undetermined, key=lambda c: -c.error)),
        tuple(sorted(_unlike(determined) if own else determined, key=lambda c: c.error)),
        others,
    )


def _verdicts(fit: Fit, relative: Relative, others: tuple[dict[str, float], ...] = ()) -> dict[str, Verdict]:
    order = {name: k for k, name in enumerate(fit.parameters)}
    numbers = sorted(range(len(relative.labels)), key=lambda k: order.get(relative.labels[k], len(order)))
    return {relative.labels[k]: _verdict(relative, k, others) for k in numbers}


def _blocks(found: Information, relative: Relative) -> list[np.ndarray]:
    """Numbers of unknowns among which directions are sought: all together.

    Of very many: the shared ones, then those of single experiments that have the least determined ones.
    """
    every = np.arange(len(found.index))
    if len(every) <= TOGETHER:
        return [every]
    own = found.index[:, 1] < found.arrow.there.shape[1]
    worst = np.zeros(len(found.arrow.there))
    np.maximum.at(worst, found.index[own, 0], np.nan_to_num(relative.errors[own], nan=0.0))
    chosen = np.sort(np.argsort(-worst, kind="stable")[:SINGLY])
    return [every[~own], *(every[own & (found.index[:, 0] == e)] for e in chosen)]


def _unlike(found: Sequence[Combination]) -> list[Combination]:
    """Each combination once."""
    return list({(c.power, tuple(c.weights.items())): c for c in found}.values())


def _verdict(relative: Relative, k: int, others: tuple[dict[str, float], ...]) -> Verdict:
    name, error, narrow = relative.labels[k], float(relative.errors[k]), False
    value, unit, half = (float(one[k]) for one in (relative.values, relative.unit, relative.half_width))
    if error <= min(SURE, half):
        kind = "determined"
    elif error <= min(WEAK, half):
        kind = "weakly"
    else:
        kind, narrow = "not determined", error <= WEAK
    reached = float(relative.reached[k])
    own_size = not relative.power[k] and unit == reached > 2 * abs(value)
    return Verdict(
        name,
        kind,
        error,
        value,
        unit,
        relative=bool(relative.power[k]),
        exceeds_bounds=narrow,
        at_bound=bool(relative.at_bound[k]),
        state_size=reached if own_size else None,
        alternatives=tuple(
            other[name] for other in others if name in other and _differs(relative, k, value, other[name])
        ),
    )


def _undetermined(group: _Group) -> list[Combination]:
    """Directions with an error beyond 100 %, largest first."""
    if not np.isfinite(group.covariance).all() or not len(group.unknowns):
        return []
    values, vectors = np.linalg.eigh(group.covariance)
    beyond = np.sqrt(np.maximum(values, 0.0)) > WEAK
    if not beyond.any():
        return []
    chosen = []
    for row in reduced(vectors[:, beyond].T[::-1]):
        unit = row / np.linalg.norm(row)
        free = (np.abs(unit @ group.free) > 1e-2).any()
        error = np.inf if free else float(np.sqrt(unit @ group.inside @ unit))
        part = np.abs(row) / np.abs(row).max()
        faint = part < TOUCHED if free else (part < FAINT) & (np.abs(unit) * error < WEAK)
        strong = np.where(faint, 0.0, row)
        nice = simplified(strong, 0.03)
        weights = tidy(strong) if nice is None else nice
        chosen.append(_combination(group, np.arange(len(row)), weights, error, direction=True))
    return sorted(chosen, key=lambda c: -c.error)


def _determined(group: _Group) -> list[Combination]:
    """Combinations of correlated unknowns that are much better determined than each of them, best first.

    Pairs come first; larger groups only for what their pairs do not say.
    """
    covariance = group.covariance
    if not np.isfinite(covariance).all():
        return []
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1.0)
    correlation = np.abs(covariance / np.outer(size, size))
    poor = size > UNSURE
    linked = (np.outer(poor, poor) & (correlation > CORRELATED)) | (correlation > TIED)
    pairs = [np.array(pair) for pair in np.argwhere(np.triu(linked, 1))]
    found = [c for pair in pairs for c in _within(group, pair)]
    told = {frozenset(c.names) for c in found}
    for members in groups_of(linked):
        names = {group.relative.labels[k] for k in group.unknowns[members]}
        if len(members) > 2 and not any(one <= names for one in told):
            found += _within(group, members)
    return sorted(found, key=lambda c: c.error)


def _within(group: _Group, members: np.ndarray) -> list[Combination]:
    """The well-determined combinations of these members."""
    covariance = group.covariance[np.ix_(members, members)]
    size = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(size, size))
    good = values < 1 / WORTH**2
    if not good.any():
        return []
    # gradients of well-determined combinations, in units in which every member has an error of 1
    found = []
    for row in reduced(vectors[:, good].T / size):
        limit = min(SURE, size.min() / WORTH)
        weights, error = _readable(group, members, row, limit)
        if np.count_nonzero(weights) > 1 and error < limit:
            found.append(_combination(group, members, positive_first(weights), error))
    return found


def _readable(group: _Group, members: np.ndarray, row: np.ndarray, limit: float) -> tuple[np.ndarray, float]:
    """The simplest weights that cost little accuracy, with the error for a largest weight of 1."""

    def error(weights: np.ndarray) -> float:
        whole = np.zeros(len(group.unknowns))
        whole[members] = weights
        return group.error(whole)

    exact = row / row[np.abs(row).argmax()]
    best = error(exact)
    for trial in (*(np.round(exact * d) for d in (1, 2, 3)), tidy(exact)):
        found = error(trial)
        if found < limit and not found > 1.5 * best + 1e-4:
            return trial, found
    return exact, best


def _combination(group: _Group, members, weights: np.ndarray, error: float, direction: bool = False):
    """The combination of members; unless all are powers it is a sum in natural units."""
    relative, every = group.relative, group.unknowns[members]
    names = [relative.labels[k] for k in every]
    if relative.power[every[weights != 0]].all():
        return Combination(named(positive_first(weights), names), True, error)
    unit = relative.unit[every] * np.where(relative.power[every], np.sign(relative.values[every]), 1.0)
    natural = weights * unit if direction else weights / unit
    natural = natural / natural[np.abs(weights).argmax()]
    nice = simplified(natural, 1e-3)
    return Combination(named(positive_first(natural if nice is None else nice), names), False, error)


def _differs(relative: Relative, k: int, value: float, other: float) -> bool:
    """Whether two values of an unknown are clearly different; never for one that is left free."""
    error = float(relative.errors[k])
    least = max(SameOptimum.elsewhere * error, SameOptimum.least_difference) * relative.unit[k]
    return bool(np.isfinite(error) and abs(value - other) > least)


def _alternatives(fit: Fit, relative: Relative) -> tuple[dict[str, float], ...]:
    """Parameters of other optima that fit as well, as far as a determined one of them is clearly different."""
    numbers = {name: k for k, name in enumerate(relative.labels) if name in fit.parameters}
    found = [fit.parameters]
    for one in fit.rivals:
        if all(
            any(_differs(relative, k, one.parameters[name], other[name]) for name, k in numbers.items())
            for other in found
        ):
            found.append(dict(one.parameters))
    return tuple(found[1:])
