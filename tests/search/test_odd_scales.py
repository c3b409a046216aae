"""Units that differ by many powers of ten, amplitudes that differ between experiments, and a tank that runs empty."""

import numpy as np
import pytest

import picardfit as pf

TIMES = np.linspace(0.25, 5, 20)
CHAIN = "x' = -k*x\ny' = c*x - d*y"


def chain(unit_x, unit_y, seed):
    """Noisy data of a chain x -> y whose states have these units."""
    truth = {"k": 0.7, "c": unit_y / unit_x, "d": 0.3}
    curves = pf.simulate(pf.Model(CHAIN), truth, {"x": 2 * unit_x, "y": unit_y}, TIMES).observables
    rng = np.random.default_rng(seed)
    data = pf.Experiment(TIMES, {n: v * (1 + 0.02 * rng.standard_normal(len(v))) for n, v in curves.items()})
    bounds = {"k": (0.01, 10), "c": pf.Parameter(truth["c"] / 50, truth["c"] * 50, log=True), "d": (0.01, 10)}
    return pf.fit(pf.Problem(pf.Model(CHAIN), data, bounds, noise=pf.Noise(proportional=0.02)))


@pytest.mark.parametrize("units", [(1e-9, 1e9), (1e9, 1e-9), (1e-12, 1e12)])
def test_a_change_of_units_changes_no_answer(units):
    plain, scaled = chain(1.0, 1.0, 0), chain(*units, 0)
    assert plain.success
    assert scaled.success
    ratio = {"k": 1.0, "c": units[1] / units[0], "d": 1.0}
    for name, one in ratio.items():
        assert scaled.parameters[name] == pytest.approx(one * plain.parameters[name], rel=1e-4)
        assert scaled.standard_errors[name] == pytest.approx(one * plain.standard_errors[name], rel=1e-3)


@pytest.mark.parametrize("ratio", [1e3, 1e9])
def test_experiments_of_very_different_amplitude(ratio):
    """A linear model: the larger experiment is the smaller one in other units."""
    model = pf.Model("x' = -k*x\ny' = k*x - d*y")
    curves = pf.simulate(model, {"k": 0.7, "d": 0.3}, {"x": 2.0, "y": 1.0}, TIMES).observables
    rng = np.random.default_rng(1)
    data = {n: v * (1 + 0.02 * rng.standard_normal(len(v))) for n, v in curves.items()}
    pair = [
        pf.Experiment(TIMES, data, name="small"),
        pf.Experiment(TIMES, {n: ratio * v for n, v in data.items()}, name="large"),
    ]
    noise, bounds = pf.Noise(proportional=0.02), {"k": (0.01, 10), "d": (0.01, 10)}
    alone, both = (pf.fit(pf.Problem(model, one, bounds, noise=noise)) for one in (pair[0], pair))
    assert both.success
    for name in bounds:
        error = alone.standard_errors[name]
        assert both.parameters[name] == pytest.approx(alone.parameters[name], abs=0.1 * error)
        assert both.standard_errors[name] == pytest.approx(alone.standard_errors[name] / np.sqrt(2), rel=1e-2)


def test_simulation_in_mixed_units():
    """y' = c x with x in units of 1e12 and y in units of 1e-12: y = y0 + c (1 - exp(-k t)) x0 / k."""
    model = pf.Model("x' = -k*x\ny' = c*x")
    found = pf.simulate(model, {"k": 0.7, "c": 1e-24}, {"x": 1e12, "y": 1e-12}, TIMES).observables["y"]
    np.testing.assert_allclose(found, 1e-12 * (1 + (1 - np.exp(-0.7 * TIMES)) / 0.7), rtol=1e-8)


# ---- x' = -a sqrt(max(x, 0)) is empty at 2 sqrt(x0) / a -------------------------------------------------------------

TANK = pf.Model("x' = -a*sqrt(max(x, 0))")


def test_the_slope_of_an_empty_tank_is_zero():
    x = np.array([[4.0], [0.0], [-1.0]])
    _, slope, _ = TANK.rhs.linearise(np.zeros(3), x, np.array([0.5]), np.empty((3, 0)))
    np.testing.assert_array_equal(slope.ravel(), [-0.125, 0, 0])


def test_an_empty_tank_stays_empty():
    times = np.linspace(0, 8, 33)
    found = pf.simulate(TANK, {"a": 0.5}, {"x": 1.0}, times).observables["x"]
    np.testing.assert_allclose(found, np.maximum(1 - times / 4, 0) ** 2, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_tank_is_fitted_past_the_time_when_it_is_empty(seed):
    times, rng = np.linspace(0, 6, 25), np.random.default_rng(seed)
    data = np.maximum(1 - times / 4, 0) ** 2 + 0.01 * rng.standard_normal(len(times))
    fit = pf.fit(pf.Problem(TANK, pf.Experiment(times, {"x": data}), {"a": (0.01, 10)}))
    assert fit.success
    assert fit.parameters["a"] == pytest.approx(0.5, rel=0.05)
