"""Calibration by simulation: the truth has any rank among the draws equally often (Talts and others, 2018)."""

import pytest

from benchmarks.posterior import CALIBRATIONS, ranks, uniformity


@pytest.mark.slow
@pytest.mark.parametrize("name", CALIBRATIONS)
def test_ranks_of_the_truth_are_uniform(name):
    found, names, failed, _ = ranks(CALIBRATIONS[name](), 50)
    assert failed <= 2
    for k, unknown in enumerate(names):
        assert uniformity(found[:, k]) > 0.01 / len(names), unknown
