"""Algorithms 1-4 with doses: the Picard operator has the simulated path as its fixed point."""

import numpy as np
import pytest

import picardfit as pf
from pharmacokinetics import EMPTY, MODEL, TRUTH, problem_of
from picardfit.evidence.expected_information import simulated
from picardfit.problem.named_values import unknowns_from
from picardfit.solvers.picard_gradient.extended_loss import applied, gradient, loss

TIMES = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 5.0])
DOSES = [pf.Doses([0, 3], 100, into="gut"), pf.Doses([1.5], 50, into="central")]


def at_the_truth(method, resets=()):
    """The setting of a method, and the candidate and the path that made the data."""
    problem = problem_of(TIMES, DOSES, resets=resets)
    unknowns = unknowns_from(problem, TRUTH)
    state = method.init(problem, simulated(problem, unknowns))
    (times,) = state.setting.system.mesh.knots
    found = pf.simulate(MODEL, TRUTH, EMPTY, times, doses=DOSES, resets=resets).states
    inner = np.stack([found[name] for name in MODEL.states], axis=-1)[1:-1]
    candidate = state.setting.candidate(unknowns, inner if state.setting.scheme.lifted else inner[:0])
    path = state.path
    for _ in range(150):
        path = applied(state.setting, candidate, path)
    return state.setting, candidate, path


@pytest.mark.parametrize(
    "method, resets",
    [
        (pf.GradientContractMultiplier(segments=40), ()),
        (pf.ExtendedGradientContractMultiplier(segments=40), ()),
        (pf.ExtendedGradientContractMultiplier(segments=40), (2.5,)),
    ],
)
def test_the_loss_vanishes_at_the_truth_and_so_does_its_gradient(method, resets):
    setting, candidate, path = at_the_truth(method, resets)
    assert loss(setting, candidate, path) < 1e-12
    found = gradient(setting, candidate, path)
    assert np.abs(found.jumps).max(initial=0.0) < 1e-6
    assert np.abs(found.unknowns).max() < 1e-5


def test_one_path_over_the_whole_experiment_cannot_be_reset():
    with pytest.raises(pf.InputError) as caught:
        at_the_truth(pf.GradientContractMultiplier(segments=40), (2.5,))
    assert caught.value.code == "solvers.reset_of_chain"
