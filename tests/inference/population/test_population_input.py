"""Bad input to populations: one record each."""

from dataclasses import replace

import pandas as pd
import pytest

import picardfit as pf
from complaints import complaint
from populations import linear_growth, log_random, theophylline, wang

MODEL = pf.Model("x' = -k*x")
DATA = [pf.Experiment([0, 1, 2], {"x": [1.0, 0.6, 0.3]}, name=name) for name in "abc"]
VARYING = {"k": log_random(0.1, 10)}
NOISE = pf.Noise(additive=(0.01, 1))


def population(**options):
    settings = {"parameters": VARYING, "initial": {"x": 1.0}, "noise": NOISE} | options
    return pf.Problem(MODEL, settings.pop("experiments", DATA), **settings)


def code_of(function, *arguments, **options):
    return complaint(function, *arguments, **options).code


def test_one_individual():
    assert code_of(pf.fit, population(experiments=DATA[:1])) == "inference.population_of_one"


def test_no_noise_model():
    assert code_of(pf.fit, population(noise=None)) == "inference.population_without_noise"


def test_heavy_tails_are_refused():
    assert code_of(pf.fit, population(noise=pf.StudentT(additive=(0.01, 1)))) == "inference.population_noise"


def test_an_individual_without_data():
    problem = population(experiments=[*DATA, pf.plan([0, 1], ["x"], "later")])
    found = complaint(problem.marginal_objective, {"k": 1.0, "noise.additive": 0.1}, {"k": 0.1})
    assert (found.code, found.subject) == ("inference.population_no_data", "later")


def test_a_random_effect_on_a_fixed_parameter():
    assert code_of(pf.Parameter, fixed=2.0, random=True) == "model.random_and_fixed"


def test_random_and_local():
    assert code_of(pf.Parameter, 0, 1, local=True, random=True) == "model.random_and_local"


def test_unknown_initial_state_without_distribution():
    found = complaint(pf.fit, population(initial={"x": (0, 5)}))
    assert (found.code, found.subject) == ("inference.population_initial", "x")


def test_local_parameter_without_distribution():
    model = pf.Model("x' = -k*x + b")
    problem = pf.Problem(
        model, DATA, VARYING | {"b": pf.Parameter(-1, 1, local=True)}, initial={"x": 1.0}, noise=NOISE
    )
    assert code_of(pf.fit, problem) == "inference.population_local"


def test_marginal_of_a_problem_without_random_effects():
    problem = population(parameters={"k": (0.1, 10)})
    assert code_of(pf.fit, problem, marginal=pf.FOCEI()) == "inference.marginal_without_random"
    assert code_of(problem.marginal_objective, {"k": 1.0}, {}) == "inference.population_without_random"


@pytest.mark.parametrize(
    ("marginal", "code"),
    [("focei", "inference.not_a_marginal"), (pf.FOCEI, "inference.marginal_is_a_class")],
)
def test_strange_marginals(marginal, code):
    assert code_of(pf.fit, population(), marginal=marginal) == code


def test_too_many_nodes():
    problem = theophylline()
    found = complaint(pf.fit, problem, marginal=pf.Quadrature(nodes=40))
    assert (found.code, found.values["points"]) == ("inference.too_many_nodes", 64000)


def test_fo_of_censored_values():
    censored = [replace(one, observations={"x": [1.0, 0.6, "<0.4"]}) for one in DATA]
    assert code_of(pf.fit, population(experiments=censored), marginal=pf.FO()) == "inference.censored_with_fo"


def test_proportional_noise_of_a_prediction_of_zero():
    early = [
        pf.Experiment([0, 1, 2], {"x": [0.0, 0.6, 0.3]}, name=name, doses=pf.Doses([0.5], [1.0], into="x"))
        for name in "ab"
    ]
    problem = population(experiments=early, initial={"x": 0.0}, noise=pf.Noise(proportional=(0.01, 1)))
    found = complaint(pf.fit, problem)
    assert (found.code, found.subject, found.values["time"]) == ("inference.population_zero_level", "a", 0.0)


def test_negative_values_with_lognormal_noise():
    negative = [replace(one, observations={"x": [1.0, -0.6, 0.3]}) for one in DATA]
    assert code_of(population, experiments=negative, noise=pf.LogNormal((0.01, 1))) == "problem.not_positive"


@pytest.mark.parametrize(
    ("covariance", "code"),
    [
        (0.04, "inference.not_a_covariance"),
        ({"b": 0.1}, "inference.covariance_missing"),
        ({"b": 0.1, "x(0)": 0.1, "c": 1.0}, "inference.covariance_name"),
        ({"b": -0.1, "x(0)": 0.1}, "inference.covariance_not_definite"),
        (pd.DataFrame([[1, 2], [2, 1]], ["b", "x(0)"], ["b", "x(0)"]), "inference.covariance_not_definite"),
        (pd.DataFrame([[1, 2], [0, 1]], ["b", "x(0)"], ["b", "x(0)"]), "inference.covariance_not_symmetric"),
    ],
)
def test_bad_covariances(covariance, code):
    values = {"b": 1.0, "x(0)": 2.0, "noise.additive": 0.2}
    assert code_of(linear_growth().marginal_objective, values, covariance) == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"correlated": "cl"}, "model.random_groups"),
        ({"correlated": [("cl",)]}, "model.random_groups"),
        ({"correlated": [("cl", "v"), ("v", "ka")]}, "model.random_group_twice"),
        ({"start": {"ka": -1.0}}, "model.random_variance"),
        ({"start": {"ka": 0.0}}, "model.random_variance"),
        ({"fixed": {"ka": -1.0}}, "model.random_variance"),
        ({"correlated": [("cl", "v")], "fixed": {"v": 0.1}}, "model.random_fixed_in_group"),
        ({"start": {"ka": 0.1}, "fixed": {"ka": 0.1}}, "model.random_start_and_fixed"),
        ({"priors": {"ka": 0.5}}, "model.random_prior"),
        (
            {"priors": {"ka": pf.priors.HalfNormal(0.5)}, "fixed": {"ka": 0.1}},
            "model.random_prior_and_fixed",
        ),
    ],
)
def test_bad_random_effects(options, code):
    assert code_of(pf.RandomEffects, **options) == code


@pytest.mark.parametrize(
    ("random", "code"),
    [
        (True, "problem.not_random_effects"),
        (pf.RandomEffects(start={"q": 0.1}), "problem.random_unknown"),
        (pf.RandomEffects(start={"noise.additive": 0.1}), "problem.random_not_declared"),
    ],
)
def test_random_effects_that_do_not_fit_the_problem(random, code):
    assert code_of(population, random=random) == code


def test_random_effects_without_a_random_parameter():
    options = {"parameters": {"k": (0.1, 10)}, "random": pf.RandomEffects()}
    assert code_of(population, **options) == "problem.no_random_parameter"


def test_profile_of_an_unknown_name():
    assert code_of(pf.fit(wang()).profile, "kee") == "inference.unknown_profile"


def test_likelihood_ratios_that_make_no_sense():
    fit = pf.fit(wang())
    assert code_of(fit.likelihood_ratio, fit) == "inference.ratio_order"
    assert code_of(fit.likelihood_ratio, 3) == "inference.ratio_of"
    prior = pf.RandomEffects(priors={"ke": pf.priors.HalfNormal(0.5)})
    assert code_of(fit.likelihood_ratio, pf.fit(replace(wang(), random=prior))) == "inference.ratio_priors"
    assert code_of(fit.likelihood_ratio, pf.fit(linear_growth())) == "inference.ratio_data"
    assert code_of(fit.likelihood_ratio, pf.fit(wang(), marginal=pf.FO())) == "inference.ratio_marginal"
