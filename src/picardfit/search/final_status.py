"""How a fit ended, decided from the evidence about its best solution."""

from __future__ import annotations

from dataclasses import dataclass

from picardfit.errors import Status
from picardfit.evidence.certificate import Certificate


@dataclass(frozen=True)
class Acceptance:
    """What a solution must meet to count as an optimum.

    `optimal`, `optimal_if_inexact` and `settled` limit `Certificate.gradient`: the decrease of the loss that a
    Gauss-Newton step still promises, relative to the loss.
    """

    optimal: float = 1e-3  # far below the statistical error of a loss; fits in flat valleys end at up to 1e-4
    optimal_if_inexact: float = (
        1e-5  # stricter, because a fixed point of Algorithms 1-4 need not be an optimum
    )
    settled: float = (
        1e-6  # with `closed`: a stalled search this close to an optimum was stopped by rounding only
    )
    closed: float = (
        1e-6  # largest jump of such a search over the states' scale: what contractions may leave (kinks)
    )
    rounding: float = (
        1e-13  # residuals relative to the data; machine precision times a few hundred operations
    )
    astray: float = 1e6  # loss relative to that of curves at zero, beyond which an iteration has diverged


@dataclass(frozen=True)
class SearchEvidence:
    """What is known when the best search has ended and its solution has been checked."""

    ended: Status  # how the search itself ended
    certificate: Certificate  # NOTHING_CERTIFIED without a finite solution
    exact_method: bool  # whether fixed points of the method are optima
    least_squares: bool  # whether the loss is a sum of squares, so that zero is its least value
    zero_curves_loss: float  # the least-squares loss of curves that are zero throughout
    switching: bool  # whether a free parameter only decides when something switches

    @property
    def has_solution(self) -> bool:
        return self.certificate.segments > 0


def decide_status(evidence: SearchEvidence, accept: Acceptance = Acceptance()) -> Status:
    """The status of a fit: that of its search, unless the certificate contradicts or corrects it."""
    if not evidence.ended.success and not _stopped_by_rounding(evidence, accept):
        return _status_of_failure(evidence, accept)
    if not evidence.has_solution:
        return Status.DIVERGED
    return _status_at_solution(evidence, accept)


def _status_at_solution(evidence: SearchEvidence, accept: Acceptance) -> Status:
    """Whether the solution at which a search ended is an optimum."""
    certificate, exact = evidence.certificate, evidence.exact_method
    if not certificate.agrees:
        return Status.INACCURATE if exact else Status.APPROXIMATE
    if not certificate.gradient <= (accept.optimal if exact else accept.optimal_if_inexact):
        return Status.STALLED if exact else Status.APPROXIMATE
    if evidence.switching:
        return Status.UNDECIDED
    return Status.CONVERGED_AT_BOUND if certificate.at_bound else Status.CONVERGED


def _status_of_failure(evidence: SearchEvidence, accept: Acceptance) -> Status:
    """How the search ended; an inexact least-squares method far above the loss of curves at zero has diverged."""
    if evidence.exact_method or not evidence.least_squares or not evidence.zero_curves_loss > 0:
        return evidence.ended
    diverged = evidence.certificate.loss > accept.astray * evidence.zero_curves_loss
    return Status.DIVERGED if diverged else evidence.ended


def is_settled(certificate: Certificate, accept: Acceptance = Acceptance()) -> bool:
    """Whether the optimality conditions are met by far, so that a search that stalled there is at an optimum."""
    return certificate.gradient <= accept.settled and certificate.largest_jump <= accept.closed


def _stopped_by_rounding(evidence: SearchEvidence, accept: Acceptance) -> bool:
    """Whether a search stalled at an optimum: the optimality conditions are met by far, or the loss is zero."""
    certificate = evidence.certificate
    if evidence.ended is not Status.STALLED or not certificate.agrees:
        return False
    if is_settled(certificate, accept):
        return True
    return evidence.least_squares and certificate.loss <= accept.rounding**2 * evidence.zero_curves_loss
