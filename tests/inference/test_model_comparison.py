"""Models compared: known values of the criteria, weights, and which comparisons are refused."""

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.errors import Status

SATURATED, LINEAR = pf.Model("x' = -vmax*x/(km + x)"), pf.Model("x' = -k*x")
BOUNDS = {"vmax": (0.01, 10), "km": (0.01, 50)}
TIMES = np.linspace(0, 8, 25)


def data(scale=1.0, count=25, name="run"):
    clean = pf.simulate(SATURATED, {"vmax": 1.0, "km": 1.0}, {"x": 4.0}, TIMES).observables["x"]
    noisy = clean * np.exp(0.05 * np.random.default_rng(3).standard_normal(25))
    return pf.Experiment(TIMES[:count], {"x": scale * noisy[:count]}, name=name)


def fit(model=SATURATED, runs=None, bounds=None, **fields):
    bounds = bounds or (BOUNDS if model is SATURATED else {"k": (0, 5)})
    return pf.fit(pf.Problem(model, runs or data(), bounds, **fields))


@pytest.fixture(scope="module")
def fits():
    return {
        "squares": fit(),
        "additive": fit(noise=pf.Noise(additive=(0.001, 1))),
        "log-normal": fit(noise=pf.LogNormal(sigma=(0.001, 1))),
        "linear": fit(LINEAR),
    }


def test_criteria_of_least_squares_are_those_of_the_profiled_variance(fits):
    """AIC = n log(2 pi e RSS / n) + 2 (unknowns + 1)."""
    one = pf.compare_models(fits)["linear"]
    squares = 2 * fits["linear"].loss * 25
    assert one.aic == pytest.approx(25 * (np.log(2 * np.pi * squares / 25) + 1) + 2 * 3, rel=1e-8)
    assert one.bic == pytest.approx(one.aic - 2 * 3 + 3 * np.log(25), rel=1e-12)
    assert one.aicc == pytest.approx(one.aic + 2 * 3 * 4 / (25 - 3 - 1), rel=1e-12)


def test_least_squares_equal_one_estimated_additive_level(fits):
    found = pf.compare_models(fits)
    assert found["squares"].aicc == pytest.approx(found["additive"].aicc, rel=1e-7)


def test_density_of_log_normal_noise_is_that_of_the_data_themselves(fits):
    """By hand: log y is normal, and dlog y / dy = 1 / y."""
    one, sigma = fits["log-normal"], fits["log-normal"].parameters["noise.sigma"]
    values = one.problem.experiments[0].values[:, 0]
    gaps = np.log(values) - np.log(one.predict("run", TIMES)["x"])
    by_hand = np.sum(-0.5 * (gaps / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi)) - np.log(values))
    assert pf.compare_models(fits)["log-normal"].log_likelihood == pytest.approx(by_hand, rel=1e-7)


def test_the_model_that_made_the_data_is_best(fits):
    found = pf.compare_models(fits)
    assert found.best == "log-normal"
    assert found.candidates[-1].name == "linear"


def test_weights_are_those_of_akaike(fits):
    found = pf.compare_models({name: fits[name] for name in ("squares", "linear")})
    gap = found["linear"].aicc - found["squares"].aicc
    assert found["linear"].difference == pytest.approx(gap)
    assert found["linear"].weight == pytest.approx(np.exp(-gap / 2) / (1 + np.exp(-gap / 2)))
    assert sum(one.weight for one in found.candidates) == pytest.approx(1)


def test_differences_name_equations_parameters_and_noise(fits):
    found = pf.compare_models(fits)
    linear = found["linear"].differs
    assert (linear.equations, linear.added, linear.removed) == (("x",), ("k",), ("km", "vmax"))
    assert found["squares"].differs.noise
    assert found["squares"].differs.equations == ()


def test_a_list_of_fits_is_numbered(fits):
    found = pf.compare_models([fits["linear"], fits["squares"]])
    assert [one.name for one in found.candidates] == ["model 2", "model 1"]


def test_experiments_and_observables_may_have_other_names(fits):
    renamed = pf.Model("x' = -k*x", observables={"level": "x"})
    other = pf.Experiment(TIMES, {"level": data().values[:, 0]}, name="another")
    found = pf.compare_models([fits["linear"], fit(renamed, other, {"k": (0, 5)})])
    assert found.candidates[1].difference == pytest.approx(0, abs=1e-6)


def test_tables_text_and_html(fits):
    found = pf.compare_models(fits)
    assert found.to_frame().index[0] == "log-normal"
    assert "linear differs from log-normal in: equations of x" in str(found)
    assert "log-normal" in found._repr_html_()


def test_ranking_is_by_aic_where_a_model_has_no_aicc():
    few = data(count=4)
    found = pf.compare_models([fit(LINEAR, few), fit(LINEAR, few, initial={"x": 4.0})])
    assert found.criterion == "AIC"
    assert [one.code for one in found.remarks] == ["inference.compared_without_aicc"]


def test_priors_and_bounds_are_remarked(fits):
    bounds = {"vmax": (0.01, 0.5), "km": pf.Parameter(0.01, 50, prior=pf.priors.Normal(1, 0.1))}
    other = fit(bounds=bounds, noise=pf.LogNormal(sigma=(0.001, 1)))
    codes = [one.code for one in pf.compare_models([fits["log-normal"], other]).remarks]
    assert codes == ["inference.compared_with_priors", "inference.compared_at_bound"]


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (lambda: fit(LINEAR, data(count=24)), "inference.other_measurements"),
        (lambda: fit(LINEAR, data(scale=1000.0)), "inference.other_data"),
        (lambda: fit(LINEAR, data(count=2)), "inference.compare_without_likelihood"),
        (lambda: 3, "inference.not_a_fit"),
    ],
)
def test_wrong_comparisons_are_refused(fits, other, code):
    with pytest.raises(pf.InputError) as caught:
        pf.compare_models({"one": fits["linear"], "other": other()})
    assert (caught.value.code, caught.value.subject) == (code, "other")


def test_failed_fits_are_refused(fits):
    failed = replace(fits["linear"], status=Status.ITERATION_LIMIT)
    with pytest.raises(pf.InputError) as caught:
        pf.compare_models({"one": fits["squares"], "other": failed})
    assert (caught.value.code, caught.value.subject) == ("inference.compare_failed_fit", "other")


def test_counts_and_densities_are_refused():
    counts = pf.Experiment(TIMES, {"x": np.round(10 * data().values[:, 0])})
    poisson = fit(LINEAR, counts, noise=pf.Poisson())
    normal = fit(LINEAR, counts)
    with pytest.raises(pf.InputError) as caught:
        pf.compare_models({"normal": normal, "poisson": poisson})
    assert (caught.value.code, caught.value.subject) == ("inference.counts_and_densities", "poisson")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "inference.one_model"),
        ([], "inference.one_model"),
        ("fits", "inference.not_fits"),
        (3, "inference.not_fits"),
    ],
)
def test_fewer_than_two_fits_are_refused(given, code):
    with pytest.raises(pf.InputError) as caught:
        pf.compare_models(given)
    assert caught.value.code == code
