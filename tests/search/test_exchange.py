"""Starts at which fast and slow states have changed places, and the second explanations that they find."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.exchange import exchanged, exchanged_start, has_hidden_rates

TIMES = [0.25, 0.5, 1, 2, 3.5, 5, 7, 9, 12, 24]
WIDE = {name: pf.Parameter(0.01, 100, log=True) for name in ("ka", "ke", "cl", "v", "k1", "k2", "b", "d")}
ORAL = pf.Model("gut' = -ka*gut\nblood' = ka*gut - ke*blood", observables={"y": "blood/v"})
CLEARANCE = pf.Model("gut' = -ka*gut\nblood' = ka*gut - cl/v*blood", observables={"y": "blood/v"})
CHAIN = pf.Model("a' = -k1*a\nx' = k1*a - k2*x\nc' = k2*x", observables={"y": "c"})
SUM = pf.Model("x' = -b*x\nz' = -d*z", observables={"y": "x + z"})

# model, truth, initial states, and the other parameters that give the same observable
PAIRS = {
    "rates and volume": (
        ORAL,
        {"ka": 1.5, "ke": 0.1, "v": 30.0},
        {"gut": 300.0, "blood": 0.0},
        {"ka": 0.1, "ke": 1.5, "v": 2.0},
    ),
    "clearance and volume": (
        CLEARANCE,
        {"ka": 1.5, "cl": 3.0, "v": 30.0},
        {"gut": 300.0, "blood": 0.0},
        {"ka": 0.1, "cl": 3.0, "v": 2.0},
    ),
    "chain": (CHAIN, {"k1": 0.9, "k2": 0.25}, {"a": 1.0, "x": 0.0, "c": 0.0}, {"k1": 0.25, "k2": 0.9}),
    "sum": (SUM, {"b": 1.2, "d": 0.12}, {"x": 3.0, "z": 3.0}, {"b": 0.12, "d": 1.2}),
}


def problem_of(name, noise=0.01, seed=0):
    model, truth, initial, _ = PAIRS[name]
    exact = pf.simulate(model, truth, initial, TIMES, t0=0.0).observables["y"]
    values = exact * (1 + noise * np.random.default_rng(seed).standard_normal(len(exact)))
    data = pf.Experiment(TIMES, {"y": values}, initial=initial, t0=0.0)
    return pf.Problem(model, data, {one: WIDE[one] for one in truth})


@pytest.mark.parametrize("name", PAIRS)
def test_the_second_explanation_has_the_same_observable(name):
    model, truth, initial, mirror = PAIRS[name]
    one, other = (pf.simulate(model, p, initial, TIMES).observables["y"] for p in (truth, mirror))
    np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("seed", range(3))
def test_a_fit_finds_both_explanations(name, seed):
    fit = pf.fit(problem_of(name, seed=seed), seed=seed)
    _, truth, _, mirror = PAIRS[name]
    first, second = fit.optima[:2]
    assert second.loss == pytest.approx(first.loss, rel=1e-5)
    found = sorted((first.parameters, second.parameters), key=lambda p: abs(np.log(p[next(iter(p))])))
    wanted = sorted((truth, mirror), key=lambda p: abs(np.log(p[next(iter(p))])))
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, rel=0.2)
    assert fit.rivals


def test_rates_are_exchanged():
    best = pf.fit(problem_of("rates and volume"), policy=pf.SearchPolicy(most=1))
    there = exchanged(best.solution, np.random.default_rng(0))
    ka, ke, _ = best.problem.layout.natural(there)[0]
    was = best.parameters
    assert (ka, ke) == pytest.approx((was["ke"], was["ka"]), rel=0.02)


def test_what_the_data_determine_stays():
    """The area under the curve is dose/cl, so that the clearance hardly moves as the rates change by a factor of 15."""
    best = pf.fit(problem_of("clearance and volume", 0.001), policy=pf.SearchPolicy(most=1))
    there = exchanged(best.solution, np.random.default_rng(0))
    ka, cl, v = best.problem.layout.natural(there)[0]
    was = best.parameters
    assert (ka, cl / v) == pytest.approx((was["cl"] / was["v"], was["ka"]), rel=0.05)
    assert abs(np.log(cl / was["cl"])) < 0.5 * abs(np.log(v / was["v"]))


def test_states_that_are_measured_keep_their_rates():
    model = pf.Model("x' = -k1*x\nz' = k1*x - k2*z")
    run = pf.simulate(model, {"k1": 0.9, "k2": 0.25}, {"x": 1.0, "z": 0.0}, TIMES)
    data = pf.Experiment(TIMES, run.observables)
    problem = pf.Problem(model, data, {"k1": (0.01, 10), "k2": (0.01, 10)})
    fit = pf.fit(problem)
    assert not has_hidden_rates(fit.solution)
    assert len(fit.searches) == 2


def test_rates_that_change_with_the_states_stay():
    model = pf.Model("s' = -b*s*i\ni' = b*s*i - g*i", observables={"y": "i"})
    run = pf.simulate(model, {"b": 1.5, "g": 0.4}, {"s": 0.99, "i": 0.01}, TIMES)
    data = pf.Experiment(TIMES, {"y": run.observables["y"]}, initial={"s": 0.99, "i": 0.01}, t0=0.0)
    fit = pf.fit(pf.Problem(model, data, {"b": (0.1, 10), "g": (0.01, 10)}))
    assert not has_hidden_rates(fit.solution)


def test_equal_rates_have_nothing_to_exchange():
    model = pf.Model("x' = -k*x\nz' = k*x - k*z", observables={"y": "z"})
    run = pf.simulate(model, {"k": 0.5}, {"x": 1.0, "z": 0.0}, TIMES)
    data = pf.Experiment(TIMES, {"y": run.observables["y"]}, initial={"x": 1.0, "z": 0.0}, t0=0.0)
    fit = pf.fit(pf.Problem(model, data, {"k": (0.01, 10)}))
    assert exchanged_start(fit.solution, 0) is None


def test_the_same_seed_gives_the_same_start():
    best = pf.fit(problem_of("chain"), policy=pf.SearchPolicy(most=1)).solution
    one, other = (exchanged_start(best, 7) for _ in range(2))
    np.testing.assert_array_equal(one.unknowns, other.unknowns)


def test_both_explanations_stand_in_the_printed_table():
    text = str(pf.fit(problem_of("rates and volume")))
    assert "also" in text
