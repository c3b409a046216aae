"""Priors of typical values and of spreads."""

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.inference.population.at_values import study_of
from picardfit.inference.population.objective import evaluate
from populations import linear_growth, log_random, wang

SLOPE = pf.priors.Normal(0.5, 0.05)


def with_priors():
    """Linear growth with correlated effects, and priors of a typical value, a noise level and a spread."""
    problem = linear_growth(random=pf.RandomEffects(correlated=[("b", "x(0)")]))
    parameters = {**problem.parameters, "b": replace(problem.parameters["b"], prior=SLOPE)}
    random = pf.RandomEffects(correlated=[("b", "x(0)")], priors={"x(0)": pf.priors.Gamma(3.0, 4.0)})
    return replace(problem, parameters=parameters, random=random)


def test_gradients_with_priors_are_exact():
    study = study_of(with_priors())
    point = np.array([0.7, 1.8, np.log(0.3), -1.0, -0.7, 0.1])
    here, step = evaluate(study, point), 1e-5
    differences = [
        (evaluate(study, point + step * e, here).value - evaluate(study, point - step * e, here).value)
        / (2 * step)
        for e in np.eye(len(point))
    ]
    assert here.gradient == pytest.approx(differences, abs=1e-6)


def test_the_penalty_is_the_density_of_the_priors():
    study = study_of(with_priors())
    point = np.array([0.7, 1.8, np.log(0.3), -1.0, -0.7, 0.1])
    found, sd = evaluate(study, point), float(np.sqrt(np.diag(study.covariance.matrix(point[3:])))[1])
    wanted = 0.5 * ((0.7 - 0.5) / 0.05) ** 2 - (2 * np.log(sd) - 4.0 * sd)
    other = np.array([0.5, 1.8, np.log(0.3), -1.0, -0.7, 0.1])
    base = evaluate(study, other)
    difference = (found.value - found.likelihood) - (base.value - base.likelihood)
    assert difference == pytest.approx(wanted + (2 * np.log(sd) - 4.0 * sd), abs=1e-9)


def test_a_narrow_prior_pulls_a_typical_value():
    fit, free = pf.fit(with_priors()), pf.fit(linear_growth())
    assert fit.success
    assert abs(fit.parameters["b"] - 0.5) < 0.8 * abs(free.parameters["b"] - 0.5)


def test_a_prior_of_a_spread_pulls_it():
    narrow = replace(wang(), random=pf.RandomEffects(priors={"ke": pf.priors.HalfNormal(0.02)}))
    fit, free = pf.fit(narrow), pf.fit(wang())
    assert fit.population.spreads["ke"].sd < 0.7 * free.population.spreads["ke"].sd
    assert fit.nllh > free.nllh
    assert fit.objective != fit.nllh


def test_an_even_prior_changes_nothing():
    prior = log_random(0.01, 10, prior=pf.priors.Uniform(0.01, 10))
    fit, free = pf.fit(replace(wang(), parameters={"ke": prior})), pf.fit(wang())
    assert fit.parameters["ke"] == pytest.approx(free.parameters["ke"], rel=1e-5)


def test_a_profile_counts_the_prior():
    fit = pf.fit(replace(wang(), random=pf.RandomEffects(priors={"ke": pf.priors.HalfNormal(0.1)})))
    free = pf.fit(wang())
    assert fit.profile("sd(ke)").interval()[1] < free.profile("sd(ke)").interval()[1]


def test_priors_are_saved(tmp_path):
    fit = pf.fit(replace(wang(), random=pf.RandomEffects(priors={"ke": pf.priors.HalfNormal(0.1)})))
    again = pf.load(fit.save(tmp_path / "fit.json"))
    assert again.objective == pytest.approx(fit.objective, abs=1e-6)
    assert again.problem.random == fit.problem.random
