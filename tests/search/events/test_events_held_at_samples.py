"""Optima at which a lag is the time of a sample: the fit ends there, and profiles are those of the integrated loss."""

import numpy as np
import pytest
from scipy.optimize import least_squares

import picardfit as pf

MODEL = pf.Model(
    "gut' = -ka*gut\nc' = ka*gut/v - ke*c\nwhen t > lag: gut = gut + 10",
    observables=["c"],
)
TRUTH = {"ka": 1.2, "ke": 0.25, "v": 2.0, "lag": 1.3}
BOUNDS = {"ka": (0.4, 6), "ke": (0.05, 0.39), "v": (0.4, 10), "lag": (0.1, 5)}
OTHERS = ("ka", "ke", "v")
ZERO = {"gut": 0.0, "c": 0.0}
TIMES = np.linspace(0.25, 12, 24)  # one is at 1.272
SAMPLE = float(TIMES[2])


def curve(ka, ke, v, lag, times=TIMES):
    since = np.maximum(times - lag, 0.0)
    return 10 * ka / v / (ka - ke) * (np.exp(-ke * since) - np.exp(-ka * since))


def fitted(seeds):
    """A fit of one experiment for each seed."""
    clean = curve(**TRUTH)
    noises = [0.05 * np.random.default_rng(seed).standard_normal(len(TIMES)) for seed in seeds]
    data = [pf.Experiment(TIMES, {"c": clean + noise}) for noise in noises]
    problem = pf.Problem(MODEL, data, BOUNDS, ZERO, noise=pf.Noise(0.05))
    return pf.fit(problem, policy=pf.SearchPolicy(most=1), progress=False)


def lowest(fit, fixed):
    """Chi-squared at fixed values, the others fitted by SciPy."""
    free = [name for name in OTHERS if name not in fixed]
    measured = [np.asarray(one.values)[:, 0] for one in fit.problem.experiments]

    def residuals(values):
        now = curve(**dict(zip(free, values, strict=True)), **fixed)
        return np.concatenate([(now - one) / 0.05 for one in measured])

    bounds = np.transpose([BOUNDS[name] for name in free])
    return 2 * least_squares(residuals, [fit.parameters[name] for name in free], bounds=bounds).cost


def chi_squared(fit, value):
    return 2 * (value - fit.problem.measurements * np.log(0.05 * np.sqrt(2 * np.pi)))


@pytest.fixture(scope="module")
def held():
    return fitted([8])


@pytest.mark.parametrize("seeds", [[8], [21], [32], [40], [4], [3], [8, 21, 32]])
def test_no_lag_has_a_lower_integrated_loss_than_the_fit(seeds):
    fit = fitted(seeds)
    assert fit.success
    reached = chi_squared(fit, fit.nllh)
    simulated = chi_squared(fit, fit.problem.nllh(fit.parameters, fit.initial_states))
    assert reached == pytest.approx(simulated, abs=1e-5)
    grid = np.append(np.linspace(0.9, 1.7, 81), TIMES[1:4])
    assert min(lowest(fit, {"lag": lag}) for lag in grid) > reached - 1e-3


def test_the_lag_is_at_the_sample(held):
    assert held.parameters["lag"] == pytest.approx(SAMPLE, abs=1e-9)
    codes = [one.code for one in held.warnings]
    assert "search.event_at_sample" in codes
    assert "search.event_side" not in codes
    assert held.certificate.gradient < 1e-6


def test_an_event_at_a_sample_is_found_again_in_a_saved_fit(held, tmp_path):
    held.save(tmp_path / "fit.json")
    again = pf.load(tmp_path / "fit.json")
    assert again.profile("lag").interval() == pytest.approx(held.profile("lag").interval(), rel=1e-6)


@pytest.mark.parametrize("name", ["lag", "ka", "v"])
def test_profiles_are_those_of_the_integrated_loss_on_both_sides(held, name):
    """The lags of a grid stand for the best one, so the rise along another parameter may be a little lower."""
    profile, reached = held.profile(name), chi_squared(held, held.nllh)
    lags = np.append(np.linspace(1.1, 1.45, 176), SAMPLE)
    for value, rise in list(zip(profile.values, profile.rises, strict=True))[::2]:
        fixed = [{name: value}] if name == "lag" else [{name: value, "lag": lag} for lag in lags]
        assert min(lowest(held, one) for one in fixed) - reached == pytest.approx(rise, abs=5e-3)


def test_a_switching_time_is_held_at_a_sample():
    """Of x' = -k x after t_switch."""
    model = pf.Model("x' = -(t > t_switch)*k*x")
    times = np.linspace(0, 4, 21)
    clean = np.exp(-0.8 * np.maximum(times - 1.4, 0.0))
    values = clean + 0.02 * np.random.default_rng(2).standard_normal(len(times))
    values[7] += 0.004
    data = pf.Experiment(times, {"x": values})
    problem = pf.Problem(model, data, {"k": (0.1, 3), "t_switch": (0.5, 3)}, {"x": 1.0}, noise=pf.Noise(0.02))
    fit = pf.fit(problem, progress=False)
    assert fit.success
    assert fit.nllh == pytest.approx(problem.nllh(fit.parameters, fit.initial_states), abs=1e-5)


def test_a_lag_of_several_experiments_is_held_in_all():
    fit = fitted([8, 21, 32])
    codes = [one.code for one in fit.warnings]
    assert fit.parameters["lag"] == pytest.approx(SAMPLE, abs=1e-9)
    assert "search.event_side" not in codes
    profile, reached = fit.profile("lag"), chi_squared(fit, fit.nllh)
    for lag, rise in list(zip(profile.values, profile.rises, strict=True))[::3]:
        assert lowest(fit, {"lag": lag}) - reached == pytest.approx(rise, abs=5e-3)
