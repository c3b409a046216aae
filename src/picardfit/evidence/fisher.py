"""Covariance of the estimates from the condensed Fisher information.

With exact continuity every inner state is a function of the unknowns, so that carrying derivatives from segment to
segment gives the Fisher information of the unknowns; it costs one more linearisation.

Fisher's information omits the residuals' share of the curvature. That is small where data determine something, but it
is all there is where two values of the unknowns coincide: in y'' + (a + b) y' + a b y = 0 at a = b the data do not
depend on a - b to first order, and determine it nevertheless. `observed_curvature` measures the whole curvature along
the few directions in which the information is next to nothing; along directions that are really free it is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from picardfit.checks import is_number
from picardfit.collocation.arrow import Arrow, Inverse, Observe, invert
from picardfit.collocation.condensing import reduced
from picardfit.collocation.linearisation import linearise
from picardfit.errors import InputError
from picardfit.problem.problem import Problem
from picardfit.problem.unknowns import unknowns_index
from picardfit.solvers.loop import Solution
from picardfit.solvers.refit import Expansion, expansion_at, gradient_at, over_unknowns, with_priors


@dataclass(frozen=True)
class FisherSettings:
    """When a direction counts as undetermined, and an unknown as being at a bound."""

    determined: float = 1e-12
    """Eigenvalues of the scaled information below this are directions that the data do not determine: they are the
    squares of derivatives whose relative error is near 1e-10."""
    at_bound: float = 1e-9  # distance from a bound, relative to the unknown and to the width of its bounds
    widths: tuple[float, float] = (5e-5, 1e-4)
    """Largest relative change of an unknown in central differences of the gradient; two of them show the error. With a
    relative error of the gradient near 1e-10, that of the differences is smallest near 1e-4."""


DEFAULT = FisherSettings()


@dataclass(frozen=True)
class AtBound:
    """An unknown at its bound: how the objective rises when it leaves the bound and the others are fitted again."""

    label: str
    index: tuple[int, int]  # experiment and column
    sign: int  # -1 on its lower bound, 1 on its upper bound
    slope: float  # away from the bound, at least 0
    curvature: float

    def reach(self, rise: float) -> float:
        """The distance from the bound at which the objective has risen by `rise`; inf where it never does."""
        root = np.sqrt(self.slope**2 + 2 * self.curvature * rise)
        return float(2 * rise / (self.slope + root)) if self.slope + root > 0 else np.inf

    def carried(self, follow: np.ndarray, variances: np.ndarray, rise: float, room: float) -> np.ndarray:
        """How far other unknowns get from their estimates until the objective has risen by `rise`.

        This one may move by 0 <= d <= `room` from its bound. `follow` (unknowns,): how far the others move with it, at
        least 0, for d = 1; `variances` (unknowns,): their own while this one stays at its bound. The result is the
        largest value of follow d + sqrt(2 variance (rise - slope d - curvature d^2 / 2)).
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            both = follow**2 + variances * self.curvature
            gain = np.maximum(2 * follow**2 * rise - variances * self.slope**2, 0.0)
            root = np.sqrt((self.slope * both) ** 2 + self.curvature * both * gain)
            step = np.minimum(np.where(gain > 0, gain / (self.slope * both + root), 0.0), room)
            left = np.maximum(rise - self.slope * step - 0.5 * self.curvature * step**2, 0.0)
            carried = np.where(step > 0, follow * step, 0.0) + np.sqrt(2 * variances * left)
        return np.where(np.isinf(step), np.inf, carried)


@dataclass(frozen=True)
class Information:
    """Fisher information of the unknowns that exist and are not at a bound."""

    labels: tuple[str, ...]
    index: np.ndarray  # (unknowns, 2): experiment and column; global columns have experiment 0
    arrow: Arrow  # over the unknowns, internal; least squares: for residuals of unit variance
    slope: np.ndarray  # (unknowns,): gradient of the objective
    at_bound: tuple[str, ...]
    bounded: tuple[AtBound, ...] = ()  # the unknowns at a bound
    hessian: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(experiments, width, width), kept where unknowns are at a bound."""
    observe: Observe | None = None  # curvature of the objective along a few directions

    @cached_property
    def matrix(self) -> np.ndarray:
        """(unknowns, unknowns): the information as one matrix, quadratic in experiments."""
        return self.arrow.dense()

    @cached_property
    def undetermined(self) -> tuple[str, ...]:
        """Unknowns that these data do not determine."""
        return tuple(n for n, v in zip(self.labels, self.variances(), strict=True) if np.isinf(v))

    def variances(self, variance: float = 1.0) -> np.ndarray:
        """(unknowns,): diagonal of the covariance; infinite for what the data do not determine."""
        if not self.arrow.finite:
            return np.full(len(self.index), np.inf)
        return np.where(self.inverse.lost(), np.inf, self.inverse.diagonal() * variance)

    def covariance(self, variance: float = 1.0, chosen: np.ndarray | None = None) -> np.ndarray:
        """Inverse of the information; infinite variance for what the data do not determine.

        `chosen`: numbers of the unknowns whose rows and columns are wanted, by default all.
        """
        chosen = np.arange(len(self.index)) if chosen is None else np.asarray(chosen, int)
        if not self.arrow.finite:
            return np.full((len(chosen), len(chosen)), np.inf)
        covariance = self.inverse.block(chosen) * variance
        lost = self.inverse.lost()[chosen]
        covariance[lost, lost] = np.inf
        return covariance

    def spread(self, experiment: int, jacobian: np.ndarray, variance: float = 1.0) -> np.ndarray:
        """(...,): standard error of quantities whose derivatives by the unknowns of one experiment are (..., width).

        Infinite where a quantity depends on what the data do not determine.
        """
        if not self.arrow.finite:
            mine = (self.index[:, 1] >= self.arrow.there.shape[1]) | (self.index[:, 0] == experiment)
            return np.where(np.any(jacobian[..., self.index[mine, 1]] != 0, axis=-1), np.inf, 0.0)
        rows = jacobian.reshape(-1, jacobian.shape[-1])
        energy, lost = self.inverse.energies(np.full(len(rows), experiment), rows)
        return np.where(lost, np.inf, np.sqrt(energy * variance)).reshape(jacobian.shape[:-1])

    def error_of(self, slope: np.ndarray, variance: float = 1.0) -> float:
        """Standard error of a quantity with derivatives (unknowns,); infinite if the data do not determine it."""
        if not self.arrow.finite or self.inverse.is_lost(slope):
            return float("inf")
        return float(np.sqrt(self.inverse.energy(slope) * variance))

    def promised_decrease(self) -> float:
        """1/2 g' H^-1 g over the determined directions: what one more Gauss-Newton step would gain."""
        return 0.5 * self.inverse.energy(self.slope) if self.arrow.finite else np.nan

    def follow(self, one: AtBound) -> np.ndarray:
        """(unknowns,): how far the minimum moves when an unknown leaves its bound by 1."""
        (experiment, column), local = one.index, self.arrow.there.shape[1]
        if column < local:
            own = np.zeros(self.arrow.there.shape)
            own[experiment] = self.hessian[experiment, column, :local]
            shared = self.hessian[experiment, column, self.arrow.columns]
        else:
            own = self.hessian[:, column, :local]
            shared = self.hessian[:, column, self.arrow.columns].sum(axis=0)
        return one.sign * self.inverse.times(self.arrow.join(own, shared))

    @cached_property
    def inverse(self) -> Inverse:
        return invert(self.arrow, DEFAULT.determined, self.observe)


def quantile(level: float, freedom: float) -> float:
    """How many standard errors an interval of this level reaches to either side: of Student's t, or normal for inf."""
    if not is_number(level) or not 0 < level < 1:
        raise InputError("evidence.level", value=level)
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2) if np.isfinite(freedom) else ndtri(0.5 + level / 2))


@dataclass(frozen=True)
class Yardstick:
    """How far from the optimum an interval reaches, by what is known of the noise.

    A likelihood underestimates the noise level that it estimates by sqrt((n - p)/n), with n measurements and p unknowns
    of the curves. `inflation`, n/(n - p), corrects that: with one level for all measurements the intervals are those of
    least squares, which are exact for linear models.
    """

    freedom: float  # degrees of freedom of the variance; inf when it is known
    inflation: float = 1.0

    def errors(self, level: float) -> float:
        """Standard errors to either side."""
        return quantile(level, self.freedom) * self.inflation**0.5

    def rise(self, level: float) -> float:
        """2 (F - F_min) in units of the variance, which a profile may reach."""
        square = quantile(level, self.freedom) ** 2
        if self.inflation == 1:
            return square
        return float(self.freedom * self.inflation * np.log1p(square / self.freedom))


def yardstick_of(problem: Problem) -> Yardstick:
    """The yardstick of a problem: its variance is known, estimated, or that of estimated noise levels."""
    layout, count = problem.layout, problem.measurements
    levels = layout.count(layout.noise_columns)
    freedom = count - (layout.count() - levels)
    if freedom <= 0 or (problem.noise is not None and not levels):
        return Yardstick(float("inf"))
    return Yardstick(float(freedom), count / freedom if levels else 1.0)


def information(solution: Solution, everything: bool = False) -> Information:
    """The information at a solution; with `everything` also of the unknowns at a bound."""
    system = solution.system
    layout, bound = system.problem.layout, at_bound(solution)
    with np.errstate(over="ignore", invalid="ignore"):  # exploding derivatives end as an infinite variance
        hessian, gradient = reduced(system, linearise(system, solution.point, expected=True).quadratic)
    hessian, gradient = with_priors(system, solution.unknowns, hessian, gradient)
    chosen = layout.exists & (everything | ~bound)
    index, arrow, slope = over_unknowns(chosen, system, hessian, gradient)
    labels = tuple(layout.label(e, c) for e, c in index)
    on_bounds = tuple(layout.label(e, c) for e, c in unknowns_index(bound, layout.local))
    observe = partial(observed_curvature, solution, index)
    inner = Information(labels, index, arrow, slope, on_bounds, observe=observe)
    if everything or not bound.any():
        return inner
    return replace(inner, bounded=_bounded(solution, inner, hessian, gradient, bound), hessian=hessian)


def _bounded(
    solution: Solution, inner: Information, hessian: np.ndarray, gradient: np.ndarray, bound: np.ndarray
) -> tuple[AtBound, ...]:
    """The unknowns at a bound, each released alone: its curvature is the Schur complement against the free ones."""
    if not np.isfinite(hessian).all():
        return ()
    layout = solution.system.problem.layout
    index = unknowns_index(bound, layout.local)
    experiment, column = index.T
    local = column < layout.local
    curvature = np.where(local, hessian[experiment, column, column], 0.0)
    explained = np.zeros(len(index))
    explained[local], _ = inner.inverse.energies(experiment[local], hessian[experiment[local], column[local]])
    slope = np.where(local, gradient[experiment, column], gradient.sum(axis=0)[column])
    total = hessian.sum(axis=0)
    for k in np.flatnonzero(~local):
        c = column[k]
        own = hessian[:, c, : inner.arrow.there.shape[1]]
        explained[k] = inner.inverse.energy(inner.arrow.join(own, total[c, inner.arrow.columns]))
        curvature[k] = total[c, c]
    middle = 0.5 * (layout.lower[experiment, column] + layout.upper[experiment, column])
    sign = np.where(solution.unknowns[experiment, column] > middle, 1, -1)
    away, curvature = np.maximum(-sign * slope, 0.0), np.maximum(curvature - explained, 0.0)
    return tuple(
        AtBound(layout.label(e, c), (int(e), int(c)), int(sign[k]), float(away[k]), float(curvature[k]))
        for k, (e, c) in enumerate(index)
    )


def at_bound(solution: Solution) -> np.ndarray:
    """(experiments, width): unknowns that sit on a bound."""
    layout = solution.system.problem.layout
    return layout.at_bounds(solution.unknowns, DEFAULT.at_bound) & layout.exists


def observed_curvature(
    solution: Solution, index: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """D' H D, (k, k), from differences of the gradient over two widths of step; None where it cannot be computed.

    `index` (unknowns, 2): experiment and column; `directions` D (unknowns, k) in internal coordinates.
    """
    expansion = expansion_at(solution.system.problem, solution)
    if expansion is None:
        return None
    row = {tuple(at): k for k, at in enumerate(expansion.index.tolist())}
    whole = np.zeros((len(expansion.index), directions.shape[1]))
    whole[[row[tuple(at)] for at in index.tolist()]] = directions
    narrow, wide = (_products(expansion, whole, width) for width in DEFAULT.widths)
    return None if narrow is None or wide is None else (narrow, wide)


def _products(expansion: Expansion, directions: np.ndarray, width: float) -> np.ndarray | None:
    """D' H D by central differences in which an unknown changes by at most `width` of its size."""
    layout, unknowns = expansion.system.problem.layout, expansion.point.unknowns
    size = np.where(unknowns == 0, layout.size(unknowns), np.abs(unknowns))
    size = np.where(layout.scales.curved, 1.0, size)[tuple(expansion.index.T)]
    columns = []
    for direction in directions.T:
        length = width / np.abs(direction / size).max()
        below, above = (gradient_at(expansion, sign * length * direction) for sign in (-1, 1))
        if below is None or above is None:
            return None
        columns.append(directions.T @ (above - below) / (2 * length))
    return np.stack(columns, axis=1)
