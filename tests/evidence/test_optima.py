"""What the optima of several searches say about those that were not found."""

import pytest

import picardfit as pf
from picardfit.evidence.optima import SearchSummary, count_hits, unseen_share


def searches(*clusters):
    return [
        SearchSummary(k, 1.0, pf.Status.CONVERGED, 5, 0.1, {}, cluster) for k, cluster in enumerate(clusters)
    ]


@pytest.mark.parametrize(
    ("clusters", "share"),
    [
        ((), 1.0),
        ((None, None), 1.0),
        ((0,), 1.0),
        ((0, 0), 0.0),
        ((0, 1), 1.0),
        ((0, 0, 1), 1 / 3),
        ((0, 0, 1, 1, 2, None), 1 / 5),
    ],
)
def test_optima_found_once_estimate_the_share_of_those_not_found(clusters, share):
    assert unseen_share(searches(*clusters)) == pytest.approx(share)


def test_hits_are_searches_of_the_best_optimum():
    assert count_hits(searches(0, 1, None, 0)) == 2
