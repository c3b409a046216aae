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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from picardfit.combinations import (
    Combination,
    groups_of,
    named,
    percent,
    positive_first,
    reduced,
    simplified,
    tidy,
)
from picardfit.errors import InputError
from picardfit.noise import LeastSquares
from picardfit.tables import number
from picardfit.uncertainty.fisher import DETERMINED, Information, information

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.result import Fit

SURE, WEAK = 0.2, 1.0  # relative standard errors up to which an unknown is determined, or weakly determined
CORRELATED = 0.8  # correlation that ties poorly determined unknowns together
TIED = 0.95  # correlation that ties unknowns together which are determined one by one
WORTH = 2.5  # a combination is told when its error is smaller than that of its members by this factor
AS_GOOD = 1.92  # difference of log-likelihoods that 95 % of data sets do not exceed
ELSEWHERE = 5.0  # standard errors between optima that are not the same
MOST = 12  # combinations shown
TOUCHED = 1e-5  # part of a free direction that counts
VAST = 1e10
FAINT = 0.1  # part of a direction, relative to its largest, that is left out of its text


@dataclass(frozen=True)
class Verdict:
    """What the data say about one unknown. `error` is its relative standard error, infinite if it is left free."""

    kind: str  # "determined", "weakly", "not determined"
    sentence: str
    error: float


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

    def plot(self, path=None) -> Figure:
        """Relative standard errors as bars, with the thresholds; written to `path` if given."""
        from picardfit.plots import plot_identifiability

        return plot_identifiability(self, path)

    def _repr_html_(self) -> str:
        from picardfit.notebook import identifiability_html

        return identifiability_html(self)

    def __str__(self) -> str:
        lines = [verdict.sentence for verdict in self.verdicts.values()]
        if self.undetermined:
            lines += ["", "Directions these data do not determine:"]
            lines += [f"  {c.text}: {percent(c.error)}" for c in self.undetermined[:MOST]]
        poor = {name for name, verdict in self.verdicts.items() if verdict.kind != "determined"}
        only = [c for c in self.determined if poor.issuperset(c.names)]
        better = [c for c in self.determined if c not in only]
        for title, found in (("Determined only together:", only), ("Better determined together:", better)):
            if found:
                lines += ["", title, *(f"  {_members(c)}: {c}" for c in found[:MOST])]
        for other in self.alternatives:
            values = ", ".join(f"{name} = {number(value, 4)}" for name, value in other.items())
            lines += ["", f"Another optimum fits as well (locally identifiable only): {values}"]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Relative:
    """Unknowns in relative coordinates."""

    labels: tuple[str, ...]
    values: np.ndarray  # natural units
    unit: np.ndarray  # natural units of one relative unit
    power: np.ndarray  # bool: the relative coordinate is the logarithm
    half_width: np.ndarray  # of the bounds in relative units, infinite without bounds
    at_bound: np.ndarray  # bool
    inside: np.ndarray  # covariance without the directions that are left free
    free: np.ndarray  # (unknowns, directions): orthonormal directions that are left free

    @property
    def errors(self) -> np.ndarray:
        """(unknowns,): relative standard errors, infinite where a free direction touches."""
        touched = (np.abs(self.free) > TOUCHED).any(axis=1)
        return np.where(touched, np.inf, np.sqrt(np.diag(self.inside)))

    @property
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
        raise InputError(f"There is no solution to judge: {fit.status.value}")
    if not fit.status.converged:
        raise InputError(
            f"The search did not converge, so that nothing can be said about what the data determine: {fit.message}"
        )
    relative = _relative(fit, information(fit.solution, everything=True))
    others = _alternatives(fit, relative)
    order = {name: k for k, name in enumerate(fit.parameters)}
    names = sorted(relative.labels, key=lambda n: order.get(n, len(order)))
    verdicts = {name: _verdict(relative, relative.labels.index(name), others) for name in names}
    return Identifiability(verdicts, _undetermined(relative), _determined(relative), others)


def _relative(fit: Fit, found: Information) -> _Relative:
    unknowns, (rows, columns) = fit.problem.unknowns, found.index.T
    border = fit.solution.border
    values, lower, upper = (
        unknowns.natural(one)[rows, columns] for one in (border, unknowns.lower, unknowns.upper)
    )
    log, slopes = unknowns.log[rows, columns], unknowns.slopes(border)[rows, columns]
    variance = fit.residual_variance
    variance = variance if variance > 0 else np.nan
    path = _path_size(fit)[rows, columns]
    positive = (lower > 0) | (upper < 0)
    with np.errstate(invalid="ignore"):
        half, size = 0.5 * (upper - lower), np.abs(values)
        power = log | positive | (size > _conditional(found, slopes, variance))
        power &= ~((lower < 0) & (upper > 0) & np.isfinite(half)) & (size > 0)
    for _ in range(2):  # a value that may be zero within its error has no logarithm
        wide = np.maximum(np.where(np.isfinite(half), np.maximum(size, half), size), path)
        unit = np.where(power, size, np.where(wide > 0, wide, 1.0))
        inside, free = _covariance(found.matrix * (unit / slopes)[:, None] * (unit / slopes), variance)
        power &= log | (positive & (path == 0)) | ~(np.sqrt(np.diag(inside)) > 1)
    at_bound = np.isin(found.labels, found.at_bound)
    return _Relative(found.labels, values, unit, power, half / unit, at_bound, inside, free)


def _path_size(fit: Fit) -> np.ndarray:
    """(experiments, width): how large the state of an unknown initial value becomes; 0 for parameters."""
    unknowns, solution = fit.problem.unknowns, fit.solution
    largest = np.abs(solution.path).max(axis=1)  # (segments, states)
    states = np.maximum.reduceat(largest, solution.system.mesh.first)  # (experiments, states)
    sizes = np.zeros_like(unknowns.lower)
    sizes[:, : len(unknowns.initial_states)] = states[:, unknowns.initial_states]
    return sizes


def _conditional(found: Information, slopes: np.ndarray, variance: float) -> np.ndarray:
    """(unknowns,): standard errors in natural units if all others were known; 0 where that cannot be told."""
    curvature = np.diag(found.matrix) / slopes**2
    return np.sqrt(np.nan_to_num(variance) / np.where(curvature > 0, curvature, np.inf))


def _covariance(matrix: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """The inverse without the directions that are left free, and these: (unknowns, directions), orthonormal."""
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan), np.eye(len(matrix))
    diagonal = np.diag(matrix)
    felt = diagonal > 0
    scale = 1 / np.sqrt(np.where(felt, diagonal, 1.0))
    values, vectors = np.linalg.eigh(matrix * scale[:, None] * scale)
    lost = values <= DETERMINED * values.max(initial=1e-300)
    inverse = np.where(lost, 0.0, variance / np.where(lost, 1.0, values))
    inside = scale[:, None] * scale * ((vectors * inverse) @ vectors.T)
    directions = np.where(felt, scale, scale[felt].max(initial=1.0))[:, None] * vectors[:, lost]
    return inside, np.linalg.qr(directions)[0]


def _verdict(relative: _Relative, k: int, others: tuple[dict[str, float], ...]) -> Verdict:
    name, error = relative.labels[k], float(relative.errors[k])
    value = number(float(relative.values[k]), 4)
    spread = percent(error) if relative.power[k] else f"± {number(error * float(relative.unit[k]), 2)}"
    if np.isinf(error):
        kind, words = "not determined", "not determined by these data: any value fits as well"
    elif np.isnan(error):
        kind, words = "not determined", f"{value}, but no measurement is left to tell the noise"
    elif error <= min(SURE, relative.half_width[k]):
        kind, words = "determined", f"determined, {value} {spread}"
    elif error <= min(WEAK, relative.half_width[k]):
        kind, words = "weakly", f"weakly, {value} {spread}"
    elif error <= WEAK:
        kind, words = "not determined", f"not determined within its bounds by these data ({spread})"
    else:
        kind, words = "not determined", f"not determined by these data ({spread})"
    if relative.at_bound[k]:
        words += "; its estimate sits at a bound"
    apart = [other[name] for other in others if name in other and _differs(relative, k, other[name])]
    if apart:
        words += f"; {', '.join(number(v, 4) for v in apart)} fits as well"
    return Verdict(kind, f"{name}: {words}", error)


def _undetermined(relative: _Relative) -> tuple[Combination, ...]:
    """Directions with an error beyond 100 %, largest first."""
    if not np.isfinite(relative.covariance).all() or not len(relative.labels):
        return ()
    values, vectors = np.linalg.eigh(relative.covariance)
    beyond = np.sqrt(np.maximum(values, 0.0)) > WEAK
    if not beyond.any():
        return ()
    chosen = []
    for row in reduced(vectors[:, beyond].T[::-1]):
        unit = row / np.linalg.norm(row)
        free = (np.abs(unit @ relative.free) > 1e-2).any()
        error = np.inf if free else float(np.sqrt(unit @ relative.inside @ unit))
        strong = np.where(np.abs(row) < (TOUCHED if free else FAINT), 0.0, row)
        nice = simplified(strong, 0.03)
        weights = tidy(strong) if nice is None else nice
        chosen.append(_combination(relative, np.arange(len(row)), weights, error, direction=True))
    return tuple(sorted(chosen, key=lambda c: -c.error))


def _determined(relative: _Relative) -> tuple[Combination, ...]:
    """Combinations of correlated unknowns that are much better determined than each of them, best first.

    Pairs come first; larger groups only for what their pairs do not say.
    """
    covariance = relative.covariance
    if not np.isfinite(covariance).all():
        return ()
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1.0)
    correlation = np.abs(covariance / np.outer(size, size))
    poor = size > SURE
    linked = (np.outer(poor, poor) & (correlation > CORRELATED)) | (correlation > TIED)
    pairs = [np.array(pair) for pair in np.argwhere(np.triu(linked, 1))]
    found = [c for pair in pairs for c in _within(relative, pair, covariance)]
    told = {frozenset(c.names) for c in found}
    for members in groups_of(linked):
        inside = [names for names in told if names <= {relative.labels[k] for k in members}]
        if len(members) > 2 and not inside:
            found += _within(relative, members, covariance)
    return tuple(sorted(found, key=lambda c: c.error))


def _within(relative: _Relative, members: np.ndarray, covariance: np.ndarray) -> list[Combination]:
    """The well-determined combinations of these unknowns."""
    size = np.sqrt(np.diag(covariance))[members]
    values, vectors = np.linalg.eigh(covariance[np.ix_(members, members)] / np.outer(size, size))
    good = values < 1 / WORTH**2
    if not good.any():
        return []
    # gradients of well-determined combinations, in units in which every member has an error of 1
    found = []
    for row in reduced(vectors[:, good].T / size):
        limit = min(SURE, size.min() / WORTH)
        weights, error = _readable(relative, members, row, limit)
        if np.count_nonzero(weights) > 1 and error < limit:
            found.append(_combination(relative, members, positive_first(weights), error))
    return found


def _readable(
    relative: _Relative, members: np.ndarray, row: np.ndarray, limit: float
) -> tuple[np.ndarray, float]:
    """The simplest weights that cost little accuracy, with the error for a largest weight of 1."""

    def error(weights: np.ndarray) -> float:
        whole = np.zeros(len(relative.labels))
        whole[members] = weights
        return relative.error(whole)

    exact = row / row[np.abs(row).argmax()]
    best = error(exact)
    for trial in (*(np.round(exact * d) for d in (1, 2, 3)), tidy(exact)):
        found = error(trial)
        if found < limit and not found > 1.5 * best + 1e-4:
            return trial, found
    return exact, best


def _combination(relative: _Relative, members, weights: np.ndarray, error: float, direction: bool = False):
    """The combination of members; unless all are powers it is a sum in natural units."""
    used = members[weights != 0]
    names = [relative.labels[k] for k in members]
    if relative.power[used].all():
        return Combination(named(positive_first(weights), names), True, error)
    unit = relative.unit[members] * np.where(relative.power[members], np.sign(relative.values[members]), 1.0)
    natural = weights * unit if direction else weights / unit
    natural = natural / natural[np.abs(weights).argmax()]
    nice = simplified(natural, 1e-3)
    return Combination(named(positive_first(natural if nice is None else nice), names), False, error)


def _differs(relative: _Relative, k: int, value: float) -> bool:
    """Whether a value lies well away from the estimate of an unknown that is determined."""
    error, unit = float(relative.errors[k]), relative.unit[k]
    return bool(np.isfinite(error) and abs(value - relative.values[k]) > max(ELSEWHERE * error, 1e-3) * unit)


def _alternatives(fit: Fit, relative: _Relative) -> tuple[dict[str, float], ...]:
    """Distinct optima among the starts that the data cannot tell from the best one."""
    freedom = fit.problem.measurements - fit.problem.unknowns.count()
    if freedom <= 0:
        return ()
    best = min((one.loss for one in fit.starts if one.status.success), default=np.nan)
    # a sum of squares has the unit of its residuals, a likelihood none
    margin = AS_GOOD * (2 * best / freedom if isinstance(fit.problem.objective, LeastSquares) else 1.0)
    found: list[dict[str, float]] = []
    for one in fit.starts:
        if not one.status.success or not one.loss - best <= margin:
            continue
        known = [k for k, name in enumerate(relative.labels) if name in one.parameters]
        away = [k for k in known if _differs(relative, k, one.parameters[relative.labels[k]])]
        seen = any(
            all(
                abs(one.parameters[relative.labels[k]] - other[relative.labels[k]])
                <= max(ELSEWHERE * relative.errors[k], 1e-3) * relative.unit[k]
                for k in known
            )
            for other in found
        )
        if away and not seen:
            found.append(dict(one.parameters))
    return tuple(found)


def _members(combination: Combination) -> str:
    names = combination.names
    return f"{', '.join(names[:-1])} and {names[-1]}"
