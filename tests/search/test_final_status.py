"""How a fit ended, as a table: evidence -> status."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.errors import Status
from picardfit.evidence.certificate import NOTHING_CERTIFIED, Certificate
from picardfit.search.final_status import Acceptance, SearchEvidence, decide_status

CLEAN = Certificate(
    picard_residual=1e-12,
    largest_jump=1e-10,
    loss=0.01,
    reintegrated_loss=0.01,
    mismatch=1e-9,
    gradient=1e-9,
    at_bound=(),
    undetermined=(),
    segments=10,
    nodes=5,
)
FOUND = SearchEvidence(
    ended=Status.CONVERGED,
    certificate=CLEAN,
    exact_method=True,
    least_squares=True,
    zero_curves_loss=1.0,
    switching=False,
)
AT_BOUND = {"at_bound": ("a",)}
EXACT, INEXACT = {"exact_method": True}, {"exact_method": False}


def evidence(changes: dict, certificate: dict | None) -> SearchEvidence:
    checked = NOTHING_CERTIFIED if certificate is None else replace(CLEAN, **certificate)
    return replace(FOUND, certificate=checked, **changes)


@pytest.mark.parametrize(
    ("changes", "certificate", "status"),
    [
        ({}, {}, Status.CONVERGED),
        ({}, AT_BOUND, Status.CONVERGED_AT_BOUND),
        ({"ended": Status.CONVERGED_AT_BOUND}, {}, Status.CONVERGED),
        ({"switching": True}, AT_BOUND, Status.UNDECIDED),
        # a certificate that contradicts the search
        ({}, None, Status.DIVERGED),
        (EXACT, {"mismatch": 1e-2}, Status.INACCURATE),
        (INEXACT, {"mismatch": 1e-2}, Status.APPROXIMATE),
        (EXACT, {"gradient": 1e-4}, Status.CONVERGED),
        (EXACT, {"gradient": 1e-2}, Status.STALLED),
        (INEXACT, {"gradient": 1e-4}, Status.APPROXIMATE),
        (EXACT, {"gradient": float("nan")}, Status.STALLED),
        # a search that failed keeps its status
        ({"ended": Status.ITERATION_LIMIT}, {}, Status.ITERATION_LIMIT),
        ({"ended": Status.INTERRUPTED}, AT_BOUND, Status.INTERRUPTED),
        ({"ended": Status.NOT_FINITE}, None, Status.NOT_FINITE),
        # unless it went astray
        ({"ended": Status.ITERATION_LIMIT, **INEXACT}, {"loss": 1e7}, Status.DIVERGED),
        ({"ended": Status.ITERATION_LIMIT, **INEXACT}, {"loss": 1e5}, Status.ITERATION_LIMIT),
        ({"ended": Status.ITERATION_LIMIT, **EXACT}, {"loss": 1e7}, Status.ITERATION_LIMIT),
        (
            {"ended": Status.ITERATION_LIMIT, **INEXACT, "least_squares": False},
            {"loss": 1e7},
            Status.ITERATION_LIMIT,
        ),
        (
            {"ended": Status.ITERATION_LIMIT, **INEXACT, "zero_curves_loss": 0.0},
            {"loss": 1e7},
            Status.ITERATION_LIMIT,
        ),
        # a search that only rounding stopped
        ({"ended": Status.STALLED}, {}, Status.CONVERGED),
        ({"ended": Status.STALLED}, AT_BOUND, Status.CONVERGED_AT_BOUND),
        ({"ended": Status.STALLED}, {"gradient": 1e-4}, Status.STALLED),
        ({"ended": Status.STALLED}, {"largest_jump": 1e-5}, Status.STALLED),
        ({"ended": Status.STALLED}, {"mismatch": 1e-2}, Status.STALLED),
        ({"ended": Status.STALLED}, {"gradient": 1e-4, "loss": 1e-27}, Status.CONVERGED),
        (
            {"ended": Status.STALLED, "least_squares": False},
            {"gradient": 1e-4, "loss": 1e-27},
            Status.STALLED,
        ),
    ],
)
def test_status_follows_from_the_evidence(changes, certificate, status):
    assert decide_status(evidence(changes, certificate)) is status


def test_other_limits_decide_otherwise():
    lenient = Acceptance(optimal=0.1)
    assert decide_status(evidence({}, {"gradient": 1e-2}), lenient) is Status.CONVERGED


def test_a_threshold_that_no_path_reaches_is_not_determined():
    """The curves fit, and the loss has no slope in the threshold: a smooth switch far away changes nothing."""
    model, times = pf.Model("x' = 1 - k*x + (x > threshold)"), np.linspace(0.1, 6, 20)
    data = pf.Experiment(times, {"x": (1 - np.exp(-0.8 * times)) / 0.8 + 0.01 * np.sin(17 * times)})
    problem = pf.Problem(model, data, {"k": (0.1, 3), "threshold": (3, 8)}, initial={"x": 0.0})
    fit = pf.fit(problem, progress=False)
    assert fit.success
    assert fit.certificate.undetermined == ("threshold",)
