"""The damped loop: when steps are taken, how damping follows, and how a search ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from picardfit.solvers.levenberg_marquardt import Damping, Proposal, minimise


def rosenbrock(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals and Jacobian."""
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([[-20 * x[0], 10.0], [-1.0, 0.0]])


def search(damping: Damping, log: list[float] | None = None, tolerance: float = 1e-20):
    def value(x: np.ndarray) -> float:
        return 0.5 * float(np.sum(rosenbrock(x)[0] ** 2))

    def propose(x: np.ndarray, strength: float) -> Proposal[np.ndarray]:
        if log is not None:
            log.append(strength)
        residual, jacobian = rosenbrock(x)
        hessian, slope = jacobian.T @ jacobian, jacobian.T @ residual
        step = -np.linalg.solve(hessian + strength * np.diag(np.diag(hessian)), slope)
        promised = -float(slope @ step + 0.5 * step @ hessian @ step)
        return Proposal(x + step, value(x) - value(x + step), promised, last=promised <= tolerance)

    return minimise(np.array([-1.2, 1.0]), propose, lambda proposal: proposal.point, damping)


def test_the_valley_of_rosenbrock_is_followed_to_its_end():
    ended = search(Damping(least_increased=1e-3, negligible=1e-4, sufficient=1e-3))
    assert ended.converged
    assert ended.taken
    np.testing.assert_allclose(ended.proposal.point, 1.0, atol=1e-9)


def test_damping_grows_after_failures_and_shrinks_after_steps():
    log: list[float] = []
    search(Damping(least_increased=1e-3, negligible=1e-4, sufficient=1e-3), log)
    assert log[0] == 0.0
    after = {later / now for now, later in pairwise(log) if now and later}
    assert all(min(abs(ratio - 10), abs(ratio - 0.1)) < 1e-9 for ratio in after)
    assert max(after) == pytest.approx(10)
    assert min(after) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "limits", [{"steps": 2}, {"trials": 3}, {"strongest": 1e-4}], ids=["steps", "trials", "strongest"]
)
def test_a_search_at_its_limits_has_not_converged(limits):
    ended = search(Damping(least_increased=1e-3, negligible=1e-4, sufficient=1e-3, **limits))
    assert not ended.converged
    assert ended.steps <= 2


def test_a_model_without_a_minimum_ends_the_search_where_it_is():
    ended = minimise(3.0, lambda state, damping: None, lambda proposal: proposal.point, Damping())
    assert (ended.state, ended.proposal, ended.converged, ended.steps) == (3.0, None, False, 0)


def test_a_last_step_that_does_not_gain_is_not_taken():
    ended = minimise(
        3.0, lambda state, damping: Proposal(4.0, -1.0, last=True), lambda proposal: proposal.point, Damping()
    )
    assert (ended.state, ended.taken, ended.converged) == (3.0, False, True)
