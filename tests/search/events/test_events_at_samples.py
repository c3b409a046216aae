"""Events beside samples: the likelihood has a kink there; the fit says so and its profile follows the kink."""

import numpy as np
import pytest
from scipy.optimize import minimize

import picardfit as pf

MODEL = pf.Model("gut' = -ka*gut\nc' = ka*gut/v - 0.25*c\nwhen t > lag: gut = gut + 10", observables=["c"])
TIMES = np.linspace(0.25, 12, 24)
ZERO = {"gut": 0.0, "c": 0.0}


def fitted(lag: float) -> pf.Fit:
    clean = pf.simulate(MODEL, {"ka": 1.2, "v": 2.0, "lag": lag}, ZERO, TIMES).observables["c"]
    noise = 0.05 * np.random.default_rng(3).standard_normal(len(TIMES))
    bounds = {"ka": (0.4, 6), "v": (0.4, 10), "lag": (0.1, 5)}
    problem = pf.Problem(
        MODEL, pf.Experiment(TIMES, {"c": clean + noise}), bounds, ZERO, noise=pf.Noise(0.05)
    )
    return pf.fit(problem, policy=pf.SearchPolicy(most=1), progress=False)


@pytest.fixture(scope="module")
def beside():
    return fitted(1.3)  # a sample is at 1.272


def test_a_lag_beside_a_sample_is_said(beside):
    (told,) = [one for one in beside.warnings if one.code == "search.event_at_sample"]
    assert told.values["time"] == pytest.approx(beside.parameters["lag"])
    assert told.values["error"] == pytest.approx(beside.standard_errors["lag"], rel=1e-6)
    assert told.values["sample"] == pytest.approx(TIMES[2])


def test_a_lag_between_two_samples_is_not():
    assert "search.event_at_sample" not in [one.code for one in fitted(1.5).warnings]


def test_a_profile_follows_the_kink(beside):
    """The rise is that of the integrated likelihood, minimised over the others, on both sides of the sample."""
    found, start = beside.profile("lag"), [beside.parameters["ka"], beside.parameters["v"]]
    below, above = found.values < TIMES[2], found.values > TIMES[2]
    assert below.any()
    assert above.any()
    for lag, rise in list(zip(found.values, found.rises, strict=True))[::3]:

        def objective(values, lag=lag):
            return beside.problem.nllh({"ka": values[0], "v": values[1], "lag": lag})

        lowest = minimize(objective, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-7}).fun
        assert 2 * (lowest - beside.nllh) == pytest.approx(rise, abs=2e-3)
