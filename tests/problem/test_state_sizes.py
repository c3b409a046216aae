"""How large states are by their data and known initial values, and fits of experiments that differ by powers of ten."""

import numpy as np
import pytest

import picardfit as pf

MODEL = pf.Model("x' = v\nv' = -k*x - c*v", observables={"x": "x"}, covariates=["size"])
TIMES = np.linspace(0, 10, 31)


def oscillators(ratio, seed=0):
    """Two damped oscillators whose amplitudes differ by a ratio, each measured to 5 % of its amplitude."""
    rng, runs = np.random.default_rng(seed), []
    for name, size in (("small", ratio**-0.5), ("large", ratio**0.5)):
        known = {"covariates": {"size": size}}
        exact = pf.simulate(MODEL, {"k": 2.0, "c": 0.3}, {"x": size, "v": 0.0}, TIMES, **known).observables
        data = {"x": exact["x"] + 0.05 * size * rng.standard_normal(len(TIMES))}
        runs.append(pf.Experiment(TIMES, data, name, **known))
    return pf.Problem(MODEL, runs, {"k": (0.1, 20), "c": (0.01, 5)}, noise=pf.Noise(additive="0.05*size"))


def test_sizes_are_those_of_data_and_of_known_initial_values():
    runs = [
        pf.Experiment([1, 2], {"x": [3.0, -4.0]}, "a"),
        pf.Experiment([1, 2], {"x": [0.1, 0.2]}, "b", initial={"x": 7.0}),
    ]
    problem = pf.Problem(pf.Model("x' = v; v' = -x*k", observables=["x"]), runs, {"k": (0, 1)})
    assert problem.measured_sizes.tolist() == [[4.0, 0.0], [0.2, 0.0]]
    assert problem.state_sizes.tolist() == [[4.0, 0.0], [7.0, 0.0]]


@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e9, 1e18])
def test_experiments_whose_amplitudes_differ_are_fitted_as_if_they_did_not(ratio):
    alike, apart = pf.fit(oscillators(1.0)), pf.fit(oscillators(ratio))
    assert apart.success
    for name, error in alike.standard_errors.items():
        if name in alike.problem.parameters:
            assert apart.parameters[name] == pytest.approx(alike.parameters[name], abs=0.01 * error)
            assert apart.standard_errors[name] == pytest.approx(error, rel=1e-3)
