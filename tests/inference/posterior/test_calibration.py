"""Calibration by simulation: the truth has any rank among the draws equally often (Talts and others, 2018)."""

import pytest

from benchmarks.calibration import CALIBRATIONS, ranks, uniformity


@pytest.mark.slow
@pytest.mark.parametrize("name", CALIBRATIONS)
def test_ranks_of_the_truth_are_uniform(name):
    found, failed = ranks(name, 50)
    assert failed <= 2
    for unknown, rank in found.items():
        assert uniformity(rank) > 0.01 / len(found), unknown
