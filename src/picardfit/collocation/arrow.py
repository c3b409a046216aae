"""Symmetric arrowhead matrices over all unknowns, and their inverses in time linear in experiments.

Unknowns of one experiment are coupled to those of another only through the shared ones, so a matrix over all of them is
    [ A_1          B_1 ]
    [      A_2     B_2 ]
    [          ..   .. ]
    [ B_1' B_2' ..  C  ]
With K_e = A_e^+ B_e and the Schur complement S = C - sum_e B_e' A_e^+ B_e its inverse is
blockdiag(A_e^+, 0) + R S^+ R',   R = [-K_1; -K_2; ..; I].
Vectors over the unknowns are in the order of `unknowns_index`: experiment after experiment, then shared ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from picardfit.collocation.mesh import Flags, Indices
from picardfit.formulas.kernels import Array

Scalar = TypeVar("Scalar", bound=np.generic)
Observe = Callable[[Array], tuple[Array, Array] | None]


@dataclass(frozen=True)
class Judgement:
    """Which directions count as determined; curvatures are eigenvalues relative to the largest, in unit scale.

    The values are chosen, except `rounding` (machine precision).
    """

    negligible: float = 1e-6  # component of an unknown along a direction that counts as none
    folded: float = (
        1e5  # variance that a direction of almost no curvature may add, over that with the others known
    )
    faint: float = 1e-8  # curvature below which the observed curvature is computed
    seen: float = 1e-6  # smallest observed curvature that counts: less may come from the remaining slope
    observed: int = 6  # most directions whose observed curvature is computed: each costs four gradients
    agreement: float = 0.3  # relative difference of two estimates of a curvature that agree
    rounding: float = 2e-16  # curvature that rounding alone may cause


@dataclass(frozen=True)
class Arrow:
    """A symmetric arrowhead matrix; a single experiment has shared unknowns only."""

    own: Array  # (experiments, local, local): A_e, zero for unknowns that an experiment does not have
    cross: Array  # (experiments, local, shared): B_e
    shared: Array  # (shared, shared): C
    there: Flags  # (experiments, local) bool: unknowns that an experiment has
    columns: Indices  # (shared,): column of each shared unknown

    def __len__(self) -> int:
        return int(self.there.sum()) + len(self.shared)

    @cached_property
    def finite(self) -> bool:
        return all(bool(np.isfinite(part).all()) for part in (self.own, self.cross, self.shared))

    def split(self, vector: NDArray[Scalar]) -> tuple[NDArray[Scalar], NDArray[Scalar]]:
        """(unknowns, ...) as (experiments, local, ...), 0 for missing unknowns, and (shared, ...)."""
        count = len(vector) - len(self.shared)
        own = np.zeros((*self.there.shape, *vector.shape[1:]), vector.dtype)
        own[self.there] = vector[:count]
        return own, vector[count:]

    def join(self, own: Array, shared: Array) -> Array:
        """The inverse of `split`: (unknowns, ...)."""
        return np.concatenate([own[self.there], shared])

    def diagonal(self) -> Array:
        """(unknowns,)."""
        return self.join(self.own.diagonal(axis1=1, axis2=2), self.shared.diagonal())

    def __matmul__(self, vector: Array) -> Array:
        """The product with a vector (unknowns,)."""
        own, shared = self.split(vector)
        along = (self.own @ own[..., None])[..., 0] + self.cross @ shared
        return self.join(along, self.shared @ shared + np.einsum("els,el->s", self.cross, own))

    def absolute(self) -> Arrow:
        """The absolute values of all entries."""
        return replace(self, own=np.abs(self.own), cross=np.abs(self.cross), shared=np.abs(self.shared))

    def raised(self, extra: Array) -> Arrow:
        """The matrix with (unknowns,) added to its diagonal."""
        own, shared = self.split(extra)
        eye = np.eye(self.own.shape[1])
        return replace(self, own=self.own + own[..., None] * eye, shared=self.shared + np.diag(shared))

    def scaled(self, scale: Array) -> Arrow:
        """The matrix with rows and columns multiplied by (unknowns,)."""
        own, shared = self.split(scale)
        return replace(
            self,
            own=self.own * own[:, :, None] * own[:, None, :],
            cross=self.cross * own[:, :, None] * shared,
            shared=self.shared * shared[:, None] * shared,
        )

    def restricted(self, chosen: Flags) -> Arrow:
        """Rows and columns of some unknowns, (unknowns,) bool."""
        if chosen.all():
            return self
        own, shared = self.split(chosen)
        return Arrow(
            self.own * (own[:, :, None] & own[:, None, :]),
            self.cross[..., shared] * own[..., None],
            self.shared[np.ix_(shared, shared)],
            own,
            self.columns[shared],
        )

    def dense(self) -> Array:
        """(unknowns, unknowns): quadratic in experiments."""
        count = int(self.there.sum())
        experiment, column = np.nonzero(self.there)
        matrix = np.zeros((len(self), len(self)))
        block = self.own[experiment[:, None], column[:, None], column]
        matrix[:count, :count] = np.where(experiment[:, None] == experiment, block, 0.0)
        matrix[:count, count:] = self.cross[self.there]
        matrix[count:, :count] = self.cross[self.there].T
        matrix[count:, count:] = self.shared
        return matrix

    def solve(self, right: Array) -> Array:
        """Solve for (unknowns, k); raises numpy.linalg.LinAlgError unless the matrix is positive definite."""
        from scipy.linalg import cho_factor, cho_solve

        own_right, shared_right = self.split(right)
        if not self.own.size:
            return cho_solve(cho_factor(self.shared), shared_right) if len(self.shared) else right.copy()
        count = right.shape[1]
        lower = np.linalg.cholesky(self._filled)
        both = np.linalg.solve(lower, np.concatenate([own_right, self.cross], axis=2))
        first, chain = both[..., :count], both[..., count:]
        shared = shared_right - np.einsum("els,elk->sk", chain, first)
        if len(self.shared):
            schur = self.shared - np.einsum("els,elt->st", chain, chain)
            shared = cho_solve(cho_factor(schur), shared)
        return self.join(np.linalg.solve(lower.transpose(0, 2, 1), first - chain @ shared), shared)

    @property
    def _filled(self) -> Array:
        """A_e with 1 on the diagonal for missing unknowns."""
        return self.own + ~self.there[..., None] * np.eye(self.own.shape[1])


def arrow_of(hessian: Array, local: int, chosen: Flags) -> Arrow:
    """The arrow of sum_e 1/2 b_e' H_e b_e over chosen unknowns; shapes (experiments, width, width) and (.., width).

    Global columns, from `local` on, are the same unknowns in all experiments.
    """
    if len(hessian) == 1:
        local = 0  # nothing to gain from eliminating the columns of a single experiment first
    there, columns = chosen[:, :local], local + np.flatnonzero(chosen[0, local:])
    return Arrow(
        hessian[:, :local, :local] * (there[:, :, None] & there[:, None, :]),
        hessian[:, :local, columns] * there[..., None],
        hessian.sum(axis=0)[np.ix_(columns, columns)],
        there,
        columns,
    )


@dataclass(frozen=True)
class Inverse:
    """The Moore-Penrose inverse of an arrow that is scaled to a unit diagonal first.

    With N the orthonormal directions without curvature, of single experiments (`own_null`) and of all together (`null`,
    extended to the experiments by -K), it is P F F' P, P = 1 - N N'.
    """

    arrow: Arrow
    scale: Array  # (unknowns,)
    own_root: Array  # (experiments, local, local): A_e^(+1/2), F of the experiments
    own_null: Array  # (experiments, local, local): directions in the columns, 0 where there is none
    chain: Array  # (experiments, local, shared): -K_e
    root: Array  # (shared, directions): S^(+1/2)
    null: Array  # (shared, lost)
    own_slack: Array  # (experiments, local): squared component in a direction that counts as zero
    slack: Array  # (lost,): likewise for the directions of all together

    @cached_property
    def _chained_null(self) -> Array:
        """(experiments, local, lost): components of the shared directions without curvature in the experiments."""
        return self.chain @ self.null

    @cached_property
    def _leak(self) -> Array:
        """(experiments, lost, local): N' F, which P removes."""
        return self._chained_null.transpose(0, 2, 1) @ self.own_root

    @cached_property
    def _leaks(self) -> Array:
        """(lost, lost): N' F F' N."""
        both: Array = np.einsum("ekl,eml->km", self._leak, self._leak)
        return both

    def diagonal(self) -> Array:
        """(unknowns,): of the inverse."""
        null = self._chained_null
        own = np.sum((self.own_root - null @ self._leak) ** 2, axis=2)
        others = self._leaks - self._leak @ self._leak.transpose(0, 2, 1)  # what P moves between experiments
        moved: Array = np.einsum("elk,ekm,elm->el", null, others, null)
        own += np.sum((self.chain @ self.root) ** 2, axis=2) + moved
        shared = np.sum(self.root**2, axis=1) + np.einsum("sk,km,sm->s", self.null, self._leaks, self.null)
        return self.scale**2 * self.arrow.join(own, shared)

    def lost(self) -> Flags:
        """(unknowns,) bool: unknowns that take part in a direction without curvature."""
        own = np.sum(self.own_null**2 / self.own_slack[:, None, :], axis=2)
        own += np.sum(self._chained_null**2 / self.slack, axis=2)
        part = self.arrow.join(own, np.sum(self.null**2 / self.slack, axis=1))
        return (part > 1) | (self.arrow.diagonal() <= 0)

    def shared_directions(self) -> Array:
        """(unknowns, lost): orthonormal directions without curvature that are not those of single experiments."""
        return self.arrow.join(self._chained_null, self.null)

    def block(self, unknowns: Indices) -> Array:
        """(chosen, chosen): rows and columns of the inverse."""
        there, shared = self.arrow.there, np.full(len(self.arrow.shared), -1)
        experiment, column = (np.concatenate([index, shared])[unknowns] for index in np.nonzero(there))
        count, local = len(unknowns), experiment >= 0
        shared = unknowns[~local] - (len(self.arrow) - len(self.arrow.shared))
        at = experiment[local], column[local]
        reach, null = np.zeros((count, self.root.shape[1])), np.zeros((count, self.null.shape[1]))
        reach[local], reach[~local] = (self.chain @ self.root)[at], self.root[shared]
        null[local], null[~local] = self._chained_null[at], self.null[shared]
        found = reach @ reach.T
        root, seen = np.zeros((count, self.own_root.shape[2])), np.zeros_like(null)
        root[local] = self.own_root[at]
        same = (experiment[:, None] == experiment) & local
        found += np.where(same, root @ root.T, 0.0)
        seen[local] = np.einsum("il,ikl->ik", root[local], self._leak[experiment[local]])
        both = null @ seen.T
        found += null @ self._leaks @ null.T - both - both.T
        scale = self.scale[unknowns]
        return found * scale[:, None] * scale

    def energy(self, vector: Array) -> float:
        """v' inverse v of a vector (unknowns,)."""
        along, across = self._projected(vector)
        return float(np.sum(along**2) + np.sum(across**2))

    def is_lost(self, vector: Array) -> bool:
        """Whether a vector (unknowns,) has a component along a direction without curvature; see `energies`."""
        own, gathered = self._gathered(vector)
        _, shared = self.arrow.split(self.scale * vector)
        lost = np.sum(np.einsum("elk,el->ek", self.own_null, own) ** 2 / self.own_slack)
        lost += np.sum((gathered @ self.null) ** 2 / self.slack)
        return bool(lost > np.sum(own**2) + np.sum(shared**2))

    def times(self, vector: Array) -> Array:
        """(unknowns,): the inverse times a vector."""
        along, across = self._projected(vector)
        shared = self.root @ across
        own = np.einsum("elm,em->el", self.own_root, along) + self.chain @ shared
        lost = np.einsum("elk,el->k", self._chained_null, own) + self.null.T @ shared
        return self.scale * self.arrow.join(own - self._chained_null @ lost, shared - self.null @ lost)

    def coordinates(self, vector: Array) -> tuple[Array, Array]:
        """F' times a vector (unknowns,): (experiments, local) and (directions,)."""
        own, gathered = self._gathered(vector)
        return np.einsum("elm,el->em", self.own_root, own), gathered @ self.root

    def _projected(self, vector: Array) -> tuple[Array, Array]:
        """F' P times a vector (unknowns,): (experiments, local) and (directions,)."""
        (along, across), (_, gathered) = self.coordinates(vector), self._gathered(vector)
        return along - np.einsum("ekm,k->em", self._leak, gathered @ self.null), across

    def _gathered(self, vector: Array) -> tuple[Array, Array]:
        """A scaled vector (unknowns,) in the experiments, (experiments, local), and along R, (shared,)."""
        own, shared = self.arrow.split(self.scale * vector)
        return own, shared + np.einsum("els,el->s", self.chain, own)

    @property
    def own_half(self) -> Array:
        """(experiments, local, local): F' H for the unknowns of single experiments, A_e^(1/2)."""
        scale, _ = self.arrow.split(self.scale)
        return (self.own_root * scale[..., None]).transpose(0, 2, 1) @ self.arrow.own

    def energies(self, experiment: Indices, rows: Array) -> tuple[Array, Flags]:
        """(q,): v' inverse v of vectors v (q, width), each over the columns of one experiment.

        Also (q,) bool: whether v has a component along a direction without curvature.
        """
        local, there = self.arrow.there.shape[1], self.arrow.there
        own_scale, shared_scale = self.arrow.split(self.scale)
        shared = rows[:, self.arrow.columns] * shared_scale
        own = rows[:, :local] * own_scale[experiment] * there[experiment]
        gathered = shared + (own[:, None, :] @ self.chain[experiment])[:, 0]
        along = (own[:, None, :] @ self.own_root[experiment])[:, 0]
        own_lost = (own[:, None, :] @ self.own_null[experiment])[:, 0]
        lost = np.sum(own_lost**2 / self.own_slack[experiment], axis=1)
        energy = np.sum((gathered @ self.root) ** 2, axis=1)
        if self.null.size:
            across = gathered @ self.null
            lost += np.sum(across**2 / self.slack, axis=1)
            energy += np.einsum("qk,km,qm->q", across, self._leaks, across)
            leak = (across[:, None, :] @ self._leak[experiment])[:, 0]
            along, energy = along - leak, energy - np.sum(leak**2, axis=1)
        energy += np.sum(along**2, axis=1)
        size = np.sum(own**2, axis=1) + np.sum(shared**2, axis=1)
        return energy, lost > size


def invert(
    arrow: Arrow, least: float, observe: Observe | None = None, judgement: Judgement = Judgement()
) -> Inverse:
    """The inverse; eigenvalues of the scaled matrix below `least` times the largest count as zero.

    `observe` computes the curvature along a few directions (unknowns, k) in which the matrix has almost none. It
    returns two estimates (k, k), from steps of one and two lengths, which count if they agree; or None.
    """
    diagonal = arrow.diagonal()
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    unit = arrow.scaled(scale)
    if not unit.own.size:
        values, vectors = np.linalg.eigh(unit.shared)
        largest = max(values.max(initial=0.0), 1e-300)
        values, vectors = _observed(values, vectors, largest, scale[:, None] * vectors, observe, judgement)
        root, null, slack = _parts(values, vectors, least, largest, judgement)
        nothing = np.zeros(unit.own.shape[:2])
        return Inverse(arrow, scale, unit.own, unit.own, unit.cross, root, null, nothing, slack)
    values, vectors = np.linalg.eigh(unit._filled)
    largest = np.linalg.eigvalsh(unit.shared).max(initial=values.max(initial=1e-300))
    weak = (values <= least * largest)[:, None, :]
    own_root = np.where(weak, 0.0, vectors / np.sqrt(np.where(weak, 1.0, values[:, None, :])))
    own_null, own_slack = np.where(weak, vectors, 0.0), _slack(values, largest, judgement)
    half = own_root.transpose(0, 2, 1) @ unit.cross
    chain = -own_root @ half
    schur = unit.shared - np.einsum("els,elt->st", half, half)
    # curvature along (-K w, w) relative to its length, which is that of the whole matrix
    length = np.linalg.cholesky(np.eye(len(schur)) + np.einsum("els,elt->st", chain, chain))
    inner = np.linalg.solve(length, np.linalg.solve(length, schur).T)
    values, turned = np.linalg.eigh(0.5 * (inner + inner.T))
    vectors = np.linalg.solve(length.T, turned)
    everything = scale[:, None] * arrow.join(chain @ vectors, vectors)
    values, vectors = _observed(values, vectors, largest, everything, observe, judgement)
    root, null, slack = _parts(values, vectors, least, largest, judgement)
    return Inverse(arrow, scale, own_root, own_null, chain, root, null, own_slack, slack)


def _observed(
    values: Array, vectors: Array, largest: float, whole: Array, observe: Observe | None, judgement: Judgement
) -> tuple[Array, Array]:
    """Eigenvalues and vectors, where observed curvature replaces tiny eigenvalues if two estimates of it agree.

    `whole` (unknowns, vectors): the same vectors over all unknowns.
    """
    faint = values <= judgement.faint * largest
    if observe is None or not 0 < faint.sum() <= judgement.observed:
        return values, vectors
    found = observe(whole[:, faint])
    if found is None or not all(np.isfinite(one).all() for one in found):
        return values, vectors
    first, second = (0.5 * (one + one.T) for one in found)
    curvature, turn = np.linalg.eigh((4 * first - second) / 3)
    again = np.einsum("ij,ik,kj->j", turn, second, turn)
    least = max(values[faint].max(), judgement.seen * largest)
    seen = (curvature > least) & (np.abs(again - curvature) <= judgement.agreement * curvature)
    kept = turn[:, ~seen]
    expected, turned = np.linalg.eigh(kept.T * values[faint] @ kept)
    values, vectors = values.copy(), vectors.copy()
    values[faint] = np.concatenate([expected, curvature[seen]])
    vectors[:, faint] = vectors[:, faint] @ np.concatenate([kept @ turned, turn[:, seen]], axis=1)
    return values, vectors


def _parts(
    values: Array, vectors: Array, least: float, largest: float, judgement: Judgement
) -> tuple[Array, Array, Array]:
    """Directions over the root of their curvature, those without, and their slack."""
    weak = values <= least * largest
    root, null = vectors[:, ~weak] / np.sqrt(values[~weak]), vectors[:, weak]
    return root, null, _slack(values[weak], largest, judgement)


def _slack(values: Array, largest: float, judgement: Judgement) -> Array:
    """The squared component of an unknown in a direction of this curvature that counts as zero.

    Where two parameters coincide (x'' + (a + b) x' + a b x = 0 at a = b), the curvature along their difference vanishes
    like the square of their distance, and the components of all other unknowns in that direction like the distance
    itself: the others stay determined.
    """
    curvature = np.maximum(values, judgement.rounding * largest)
    return np.maximum(judgement.negligible**2, judgement.folded * curvature)
