"""Weighted draws on posteriors with heavy tails, whose quantiles are known from integrals on a grid."""

import numpy as np
import pytest

import picardfit as pf
from benchmarks.posterior import michaelis, michaelis_exact, quiet, quiet_exact

CASES = {"Michaelis constant": (michaelis, michaelis_exact), "variance near zero": (quiet, quiet_exact)}


@pytest.mark.parametrize("name", CASES)
def test_quantiles_of_heavy_tails_are_right_or_a_warning_says_so(name):
    make, exact = CASES[name]
    found = pf.fit(make()).posterior(pf.LaplaceDraws(), seed=0, progress=False)
    for unknown, below in exact().items():
        parts = [below(one) for one in np.quantile(found[unknown], [0.025, 0.5, 0.975])]
        if found.trusted:
            gaps = np.abs(np.subtract(parts, [0.025, 0.5, 0.975]))
            assert (gaps < [0.0125, 0.04, 0.0125]).all()
    assert found.trusted == (name == "Michaelis constant")


def test_hopeless_weights_end_the_drawing_and_have_no_error():
    settings = pf.LaplaceDraws(draws=256, batch=16, group=1, hopeless=-10.0)
    found = pf.fit(quiet()).posterior(settings, seed=0, progress=False)
    assert found.shape == (1, 16)
    assert "inference.weights_hopeless" in [one.code for one in found.warnings]
    assert found.drawn.missing == 0


def test_effective_draws_of_untrusted_weights_are_bounded_and_errors_unknown():
    found = pf.fit(quiet()).posterior(pf.LaplaceDraws(draws=300), seed=2, progress=False)
    table = found.summary()
    assert (table["ess_bulk"] <= 300).all()
    assert table["mcse"].isna().all() == (not found.khat < 0.7)
