"""The marginal likelihood of a population, approximated, with its exact gradient.

For each individual, with q(z) = cost(theta + L z) + z'z / 2, its mode z and A = I + L' G L,

    -log int p(y | z) N(z; 0, I) dz  ~  q(z) + 1/2 log det A,

where G is the expected curvature of the cost by the effects (FOCEI, FOCE, FO) or the observed one (Laplace). Adaptive
Gauss-Hermite quadrature evaluates q at z + K^-T t_k with A = K K' and nodes t_k. The mode is a function of theta and L:
its derivative follows from the stationarity of q (implicit function theorem; Almquist et al. 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from picardfit.collocation.mesh import Flags
from picardfit.formulas.kernels import Array
from picardfit.inference.population.covariance import Covariance
from picardfit.inference.population.marginals import FO, FOCE, Marginal, MarginalLaplace, Quadrature
from picardfit.inference.population.modes import Modes, Setting, find_modes, in_z, paths_at
from picardfit.inference.population.paths import Paths, displacement, moved_paths, with_derivatives
from picardfit.inference.population.penalty import Penalty
from picardfit.inference.population.predictions import Predictions, predict
from picardfit.inference.population.views import (
    Sums,
    View,
    full_view,
    linear_view,
    sums,
    typical_levels,
)


@dataclass(frozen=True)
class Study:
    """A population, its covariance and an approximation of its marginal likelihood."""

    setting: Setting
    covariance: Covariance
    marginal: Marginal
    penalty: Penalty | None = None  # None without priors

    @property
    def individuals(self) -> int:
        return self.setting.measurements.individuals

    def split(self, point: Array) -> tuple[Array, Array]:
        """theta and the coordinates of the covariance."""
        width = self.setting.problem.layout.width
        return point[:width], point[width:]


@dataclass(frozen=True)
class Evaluation:
    """The marginal likelihood at a point (theta, coordinates of the covariance)."""

    study: Study
    point: Array  # (outer,)
    z: Array  # (individuals, effects)
    paths: Paths  # at the modes
    typical: Paths | None  # at eta = 0, for FO and FOCE
    values: Array  # (individuals,): -log L, without constants
    slopes: Array | None  # (individuals, outer)
    mode_slopes: Array | None  # (individuals, effects, outer): derivatives of z
    curvature: Array  # (individuals, effects, effects): A
    converged: Flags  # (individuals,)
    steps: int  # of the inner problem

    @cached_property
    def likelihood(self) -> float:
        """Half of NONMEM's objective: -log L without n log(2 pi) / 2."""
        total = float(self.values.sum()) + self.study.setting.measurements.offset
        return total if np.isfinite(total) else np.inf

    @cached_property
    def value(self) -> float:
        """What is minimised: `likelihood`, with -log density of the priors."""
        penalty = self.study.penalty
        total = self.likelihood + (0.0 if penalty is None else penalty.terms(self.point)[0])
        return total if np.isfinite(total) else np.inf

    @property
    def gradient(self) -> Array:
        """(outer,): of `value`."""
        assert self.slopes is not None
        penalty, slopes = self.study.penalty, np.asarray(self.slopes.sum(axis=0))
        return slopes if penalty is None else slopes + penalty.terms(self.point)[1]

    @property
    def eta(self) -> Array:
        """(individuals, effects)."""
        factor = self.study.covariance.factor(self.study.split(self.point)[1])
        return np.asarray(self.z @ factor.T)


def evaluate(study: Study, point: Array, near: Evaluation | None = None, gradient: bool = True) -> Evaluation:
    """The marginal likelihood at a point, with modes that start from those nearby, moved along their derivatives."""
    with np.errstate(all="ignore"):
        return _Marginal(study, point, near, gradient).evaluation()


class _Marginal:
    """One evaluation."""

    def __init__(self, study: Study, point: Array, near: Evaluation | None, gradient: bool) -> None:
        self.study, self.setting, self.point, self.near, self.gradient = (
            study,
            study.setting,
            point,
            near,
            gradient,
        )
        self.theta, self.coordinates = study.split(point)
        self.factor = study.covariance.factor(self.coordinates)
        self.factor_slopes = study.covariance.factor_slopes(self.coordinates)
        self.typical: Paths | None = None
        self.typical_predictions: Predictions | None = None

    def evaluation(self) -> Evaluation:
        marginal = self.study.marginal
        if isinstance(marginal, FO | FOCE):
            self._see_typical()
        modes = self._linear_modes() if isinstance(marginal, FO) else self._modes()
        curved, slopes = self._curvature(modes)
        matrix = in_z(self.factor, curved)
        lower, definite = _cholesky(matrix)
        values = modes.joint + np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        outer = mode_slopes = None
        if self.gradient:
            assert slopes is not None
            mode_slopes = self._mode_slopes(modes)
            changes = self._matrix_changes(modes, curved, slopes, mode_slopes)
            outer = self._explicit(modes.z, modes.sums)
            outer += 0.5 * np.einsum("ief,ifep->ip", np.linalg.inv(matrix), changes)
            if isinstance(marginal, Quadrature):
                values, outer = self._quadrature(marginal, modes, lower, mode_slopes, changes)
        elif isinstance(marginal, Quadrature):
            values, _ = self._quadrature(marginal, modes, lower, None, None)
        values = np.where(definite & np.isfinite(values), values, np.inf)
        return Evaluation(
            self.study,
            self.point,
            modes.z,
            modes.paths,
            self.typical,
            values,
            outer,
            mode_slopes,
            matrix,
            modes.converged,
            modes.steps,
        )

    # ---- modes -----------------------------------------------------------------------------------------------------

    def _see_typical(self) -> None:
        """Predictions of the typical individual for every one's design."""
        zero = np.zeros((self.study.individuals, self.setting.effects))
        near = None if self.near is None else self.near.typical
        self.typical = paths_at(self.setting, self.setting.unknowns(self.theta, zero), near)
        columns = np.arange(len(self.theta)) if isinstance(self.study.marginal, FO) else None
        self.typical_predictions = predict(self.setting.measurements, self.typical, columns)

    def _look(self, found: Predictions, eta: Array) -> View:
        view = full_view(found, self.setting.effects)
        if self.typical_predictions is None:
            return view
        return typical_levels(view, self.typical_predictions)

    def _modes(self) -> Modes:
        z, near = np.zeros((self.study.individuals, self.setting.effects)), self.near
        if near is not None:
            z = near.z
            if near.mode_slopes is not None:
                ahead = near.mode_slopes @ (self.point - near.point)
                z = np.where(np.isfinite(ahead), z + np.clip(ahead, -1.0, 1.0), z)
        paths = None if near is None else near.paths
        return find_modes(self.setting, self.theta, self.factor, z, paths, self._look, self.gradient)

    def _linear_modes(self) -> Modes:
        """The modes of linear predictions, in closed form: one Gauss-Newton step from eta = 0."""
        typical, owner = self.typical_predictions, self.setting.measurements.owner
        assert typical is not None
        assert self.typical is not None
        zero = np.zeros((self.study.individuals, self.setting.effects))
        first = sums(self.setting.measurements, linear_view(typical, zero[owner]), False)
        matrix, slope = in_z(self.factor, first.information), first.by_eta @ self.factor
        z = np.asarray(-np.linalg.solve(matrix, slope[..., None])[..., 0], float)
        view = linear_view(typical, (z @ self.factor.T)[owner])
        total = sums(self.setting.measurements, view, self.gradient)
        return Modes(z, self.typical, typical, view, total, np.isfinite(z).all(axis=1), 1)

    # ---- curvature of the log-determinant --------------------------------------------------------------------------

    def _curvature(self, modes: Modes) -> tuple[Array, tuple[Array, Array] | None]:
        """G, and its derivatives by eta and by theta if they are wanted."""
        if not isinstance(self.study.marginal, MarginalLaplace):
            eta, theta = modes.sums.information_eta, modes.sums.information_theta
            slopes = None if eta is None or theta is None else (eta, theta)
            return modes.sums.information, slopes
        if not self.gradient:
            return modes.sums.eta_eta, None
        by_theta = np.stack([self._observed_slope(modes, w) for w in range(len(self.theta))], axis=-1)
        return modes.sums.eta_eta, (by_theta[..., : self.setting.effects], by_theta)

    def _observed_slope(self, modes: Modes, column: int) -> Array:
        """(individuals, effects, effects): central difference of the observed curvature along a column."""
        paths, effects = modes.paths, np.arange(self.setting.effects)
        # second derivatives are differences themselves: a longer step balances their rounding
        step = (paths.settings.rough_step * displacement(paths) / paths.settings.step)[:, column]
        ends = []
        for sign in (1, -1):
            moved = paths.unknowns.copy()
            moved[:, column] += sign * step
            there = with_derivatives(moved_paths(paths, moved))
            view = full_view(predict(self.setting.measurements, there, effects), len(effects))
            ends.append(sums(self.setting.measurements, view, False).eta_eta)
        return np.asarray((ends[0] - ends[1]) / (2 * step[:, None, None]))

    # ---- gradient --------------------------------------------------------------------------------------------------

    def _explicit(self, z: Array, total: Sums) -> Array:
        """(individuals, outer): derivative of q by theta and the covariance with z held."""
        moved = np.einsum("pef,if->ipe", self.factor_slopes, z)
        return np.concatenate([total.by_theta, np.einsum("ie,ipe->ip", total.by_eta, moved)], axis=1)

    def _mode_slopes(self, modes: Modes) -> Array:
        """(individuals, effects, outer): dz = -Q^-1 d(L' C_eta), with Q = I + L' C_etaeta L."""
        total = modes.sums
        assert total.eta_theta is not None
        moved = np.einsum("pef,if->iep", self.factor_slopes, modes.z)  # dL z
        by_factor = np.einsum("pef,ie->ifp", self.factor_slopes, total.by_eta)
        by_factor += self.factor.T @ total.eta_eta @ moved
        right = np.concatenate([self.factor.T @ total.eta_theta, by_factor], axis=2)
        return -_solved(in_z(self.factor, total.eta_eta), right)

    def _matrix_changes(self, modes: Modes, curved: Array, slopes: tuple[Array, Array], dz: Array) -> Array:
        """(individuals, effects, effects, outer): dA = dL' G L + L' G dL + L' dG L."""
        width, factor = len(self.theta), self.factor
        moved = np.einsum("pef,if->iep", self.factor_slopes, modes.z)
        eta = np.einsum("ef,ifp->iep", factor, dz)
        eta[..., width:] += moved
        change = np.einsum("iefg,igp->iefp", slopes[0], eta)
        change[..., :width] += slopes[1]
        found = np.einsum("ea,iefp,fb->iabp", factor, change, factor, optimize=True)
        half = np.einsum("pea,ief,fb->iabp", self.factor_slopes, curved, factor, optimize=True)
        found[..., width:] += half + half.transpose(0, 2, 1, 3)
        return np.asarray(found)

    # ---- quadrature ------------------------------------------------------------------------------------------------

    def _quadrature(
        self, marginal: Quadrature, modes: Modes, lower: Array, dz: Array | None, changes: Array | None
    ) -> tuple[Array, Array | None]:
        """-log of the integral by quadrature around the modes, and its gradient."""
        nodes, log_weights = hermite(marginal.nodes, self.setting.effects)
        root = np.asarray(np.linalg.inv(lower).transpose(0, 2, 1), float)  # K^-T
        turned = None if changes is None else _root_changes(lower, root, changes)
        exponents, slopes = [], []
        for t, weight in zip(nodes, log_weights, strict=True):
            z = modes.z + root @ t
            paths = moved_paths(modes.paths, self.setting.unknowns(self.theta, z @ self.factor.T))
            found = predict(self.setting.measurements, with_derivatives(paths))
            total = sums(self.setting.measurements, full_view(found, self.setting.effects), False)
            exponents.append(weight + 0.5 * t @ t - total.cost - 0.5 * np.sum(z**2, axis=1))
            if dz is not None and turned is not None:
                shift = dz + np.einsum("iefp,f->iep", turned, t)
                by_z = total.by_eta @ self.factor + z
                slopes.append(self._explicit(z, total) + np.einsum("ie,iep->ip", by_z, shift))
        stacked = np.array(exponents)
        top = np.nanmax(np.where(np.isfinite(stacked), stacked, -np.inf), axis=0)
        shares = np.where(np.isfinite(stacked), np.exp(stacked - top), 0.0)
        total_share = shares.sum(axis=0)
        value = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1) - top - np.log(total_share)
        if changes is None:
            return value, None
        mean = np.einsum("ki,kip->ip", shares / total_share, np.where(shares[..., None] > 0, slopes, 0.0))
        inverse = root @ root.transpose(0, 2, 1)
        return value, mean + 0.5 * np.einsum("ief,ifep->ip", inverse, changes)


def _root_changes(lower: Array, root: Array, changes: Array) -> Array:
    """d(K^-T) of A = K K' from dA: dK = K Phi(K^-1 dA K^-T), with Phi the lower half and half of the diagonal."""
    back = root.transpose(0, 2, 1)
    middle = np.einsum("iea,iabp,ibf->iefp", back, changes, root, optimize=True)
    half = np.tril(np.ones(lower.shape[1:])) - 0.5 * np.eye(lower.shape[1])
    phi = middle * half[None, :, :, None]
    return -np.einsum("iea,ibap->iebp", root, phi)


@lru_cache(maxsize=8)
def hermite(nodes: int, effects: int) -> tuple[Array, Array]:
    """Points (points, effects) and log weights of the product rule for a standard normal distribution."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    logs = np.log(weights / weights.sum())
    grid = np.array(list(product(points, repeat=effects)))
    return grid, np.array([sum(one) for one in product(logs, repeat=effects)])


def _cholesky(matrix: Array) -> tuple[Array, Flags]:
    """Lower factors, and where there is one; the unit matrix elsewhere."""
    finite: Flags = np.asarray(np.isfinite(matrix).all(axis=(1, 2)))
    unit = np.eye(matrix.shape[1])
    usable = np.where(finite[:, None, None], matrix, unit)
    definite = finite & (np.linalg.eigvalsh(usable)[:, 0] > 0)
    return np.linalg.cholesky(np.where(definite[:, None, None], usable, unit)), definite


def _solved(matrix: Array, right: Array) -> Array:
    """matrix^-1 right; NaN where that does not exist."""
    sizes = np.asarray(np.abs(np.linalg.det(np.nan_to_num(matrix))))
    finite: Flags = np.isfinite(matrix).all(axis=(1, 2)) & (sizes > 0)
    found = np.linalg.solve(np.where(finite[:, None, None], matrix, np.eye(matrix.shape[1])), right)
    return np.where(finite[:, None, None], found, np.nan)
