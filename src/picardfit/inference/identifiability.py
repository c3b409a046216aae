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
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import picture, shown
from picardfit.errors import InputError
from picardfit.evidence.fisher import Information
from picardfit.evidence.optima import SameOptimum
from picardfit.evidence.relative_coordinates import Relative, in_relative_units
from picardfit.inference.combination_search import (
    DEFAULT,
    Group,
    VerdictSettings,
    determined_combinations,
    undetermined_directions,
)
from picardfit.inference.combinations import Combination

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.fit import Fit


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


def identifiability(fit: Fit, settings: VerdictSettings = DEFAULT) -> Identifiability:
    """Verdicts, directions and combinations of a fit."""
    if fit.solution is None:
        raise InputError("inference.no_solution", message=fit.status.sentence().rstrip("."))
    if not fit.status.converged:
        raise InputError("inference.not_judged", message=fit.message.rstrip("."))
    found = fit.whole_information
    relative, covariance = in_relative_units(fit.solution, found, fit.residual_variance)
    others = _alternatives(fit, relative)
    verdicts = _verdicts(fit, relative, others, settings)
    shared, *own = _blocks(found, relative, settings)
    together = [shared, *(np.concatenate([one, shared]) for one in own)]
    undetermined, determined = (
        [
            c
            for k in blocks
            for c in search(Group(relative, k, covariance.inside(k), covariance.free(k), settings))
        ]
        for search, blocks in ((undetermined_directions, [shared, *own]), (determined_combinations, together))
    )
    return Identifiability(
        verdicts,
        tuple(sorted(undetermined, key=lambda c: -c.error)),
        tuple(sorted(_unlike(determined) if own else determined, key=lambda c: c.error)),
        others,
    )


def _verdicts(
    fit: Fit, relative: Relative, others: tuple[dict[str, float], ...], settings: VerdictSettings
) -> dict[str, Verdict]:
    order = {name: k for k, name in enumerate(fit.parameters)}
    numbers = sorted(range(len(relative.labels)), key=lambda k: order.get(relative.labels[k], len(order)))
    return {relative.labels[k]: _verdict(relative, k, others, settings) for k in numbers}


def _blocks(found: Information, relative: Relative, settings: VerdictSettings) -> list[np.ndarray]:
    """Numbers of unknowns among which directions are sought: all together.

    Of very many: the shared ones, then those of single experiments that have the least determined ones.
    """
    every = np.arange(len(found.index))
    if len(every) <= settings.together:
        return [every]
    own = found.index[:, 1] < found.arrow.there.shape[1]
    worst = np.zeros(len(found.arrow.there))
    np.maximum.at(worst, found.index[own, 0], np.nan_to_num(relative.errors[own], nan=0.0))
    chosen = np.sort(np.argsort(-worst, kind="stable")[: settings.singly])
    return [every[~own], *(every[own & (found.index[:, 0] == e)] for e in chosen)]


def _unlike(found: Sequence[Combination]) -> list[Combination]:
    """Each combination once."""
    return list({(c.power, tuple(c.weights.items())): c for c in found}.values())


def _verdict(
    relative: Relative, k: int, others: tuple[dict[str, float], ...], settings: VerdictSettings
) -> Verdict:
    name, error, narrow = relative.labels[k], float(relative.errors[k]), False
    value, unit, half = (float(one[k]) for one in (relative.values, relative.unit, relative.half_width))
    if error <= min(settings.sure, half):
        kind = "determined"
    elif error <= min(settings.weak, half):
        kind = "weakly"
    else:
        kind, narrow = "not determined", error <= settings.weak
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
