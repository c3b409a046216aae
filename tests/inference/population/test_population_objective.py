"""The marginal objective: published values, closed forms, and its exact gradient."""

import numpy as np
import pandas as pd
import pytest

import picardfit as pf
from picardfit.inference.population.at_values import study_of
from picardfit.inference.population.objective import evaluate
from populations import linear_growth, linear_objective, log_random, theophylline, wang

WANG = {"ke": 0.5, "noise.proportional": 0.1**0.5}
THEOPHYLLINE = {
    "ka": np.exp(0.46445),
    "cl": np.exp(1.01205),
    "v": np.exp(3.45997),
    "noise.additive": 0.69384,
}
OMEGA = {"ka": 0.40463, "cl": 0.06880, "v": 0.019222}


@pytest.mark.parametrize(
    ("marginal", "published"),
    [
        (pf.FOCEI(), 39.458),
        (pf.FOCE(), 39.207),
        (pf.FO(), 39.213),
        (pf.Quadrature(nodes=15), 39.355),
    ],
    ids=lambda one: type(one).__name__,
)
def test_values_of_wang(marginal, published):
    assert wang().marginal_objective(WANG, {"ke": 0.04}, marginal) == pytest.approx(published, abs=6e-4)


def test_focei_of_theophylline():
    assert theophylline().marginal_objective(THEOPHYLLINE, OMEGA) == pytest.approx(116.8038, abs=2e-4)


def test_quadrature_of_theophylline():
    value = theophylline().marginal_objective(THEOPHYLLINE, OMEGA, pf.Quadrature(nodes=3))
    assert value == pytest.approx(118.13, abs=0.04)


@pytest.mark.parametrize(
    "marginal", [pf.FOCEI(), pf.FOCE(), pf.FO(), pf.MarginalLaplace(), pf.Quadrature(nodes=2)], ids=repr
)
def test_linear_models_are_exact(marginal):
    problem = linear_growth()
    covariance = np.array([[0.09, 0.03], [0.03, 0.25]])
    table = pd.DataFrame(covariance, ["b", "x(0)"], ["b", "x(0)"])
    values = {"b": 0.9, "x(0)": 2.2, "noise.additive": 0.25}
    found = problem.marginal_objective(values, table, marginal)
    assert found == pytest.approx(linear_objective(problem, 2.2, 0.9, 0.25, covariance), abs=1e-7)


def test_a_variance_of_zero_leaves_the_pooled_likelihood():
    problem = wang()
    pooled = 2 * problem.nllh(WANG) - problem.measurements * np.log(2 * np.pi)
    assert problem.marginal_objective(WANG, {"ke": 0.0}) == pytest.approx(pooled, abs=1e-6)


def gradient_error(problem, marginal, step=1e-4, seed=1):
    """Largest difference of the gradient from differences of the objective, at a random point."""
    study = study_of(problem, marginal)
    layout = study.setting.problem.layout
    rng = np.random.default_rng(seed)
    theta = layout.internal(np.array([[1.6, 2.8, 32.0, 0.7][: layout.width]]))[0]
    count = len(study.covariance.entries)
    point = np.concatenate(
        [theta + 0.1 * rng.standard_normal(len(theta)), -1 + 0.2 * rng.standard_normal(count)]
    )
    here = evaluate(study, point)
    found = []
    for k in range(len(point)):
        moved = np.zeros(len(point))
        moved[k] = step
        ends = [evaluate(study, point + sign * moved, here, gradient=False).value for sign in (1, -1)]
        found.append((ends[0] - ends[1]) / (2 * step))
    return np.abs(here.gradient - found).max()


@pytest.mark.parametrize(
    ("marginal", "tolerance"),
    [
        (pf.FOCEI(), 1e-5),
        (pf.FOCE(), 1e-5),
        (pf.FO(), 1e-5),
        (pf.MarginalLaplace(), 2e-3),
        (pf.Quadrature(2), 1e-5),
    ],
    ids=repr,
)
def test_gradient_is_exact(marginal, tolerance):
    noise = pf.Noise(additive=0.3, proportional=(0.01, 1))
    assert gradient_error(theophylline(noise=noise), marginal) < tolerance


def test_gradient_of_correlated_effects():
    problem = theophylline(random=pf.RandomEffects(correlated=[("v", "ka", "cl")]))
    assert gradient_error(problem, pf.FOCEI()) < 1e-5


def test_gradient_with_lognormal_noise_of_censored_values():
    subjects = [
        pf.Experiment([1, 2, 4], {"x": [2.0 * (1 + 0.1 * k), 0.9, "<0.3"]}, name=f"s{k}") for k in range(4)
    ]
    problem = pf.Problem(
        pf.Model("x' = -k*x"),
        subjects,
        {"k": log_random(0.1, 10)},
        initial={"x": log_random(0.1, 10)},
        noise=pf.LogNormal((0.01, 3)),
    )
    study = study_of(problem, pf.FOCEI())
    point = np.array([-0.5, 1.1, -1.0, -1.2, -0.8])
    here, step = evaluate(study, point), 1e-4
    found = [
        (evaluate(study, point + d, here, False).value - evaluate(study, point - d, here, False).value)
        / (2 * step)
        for d in step * np.eye(5)
    ]
    assert np.abs(here.gradient - found).max() < 1e-5


def test_censored_values_agree_with_quadrature_of_the_exact_likelihood():
    """One random effect: many nodes give the integral of the probability that a value lies below its limit."""
    from scipy.integrate import quad
    from scipy.stats import norm

    y, limit, times = np.array([2.0, 0.9]), 0.3, np.array([1.0, 2.0, 4.0])
    subjects = [pf.Experiment(times, {"x": [*y, f"<{limit}"]}, name=name) for name in "ab"]
    problem = pf.Problem(
        pf.Model("x' = -k*x"), subjects, {"k": log_random(0.1, 10)}, initial={"x": 4.0}, noise=pf.Noise(0.2)
    )

    def integrand(eta):
        x = 4 * np.exp(-0.8 * np.exp(0.3 * eta) * times)
        return norm.pdf(y, x[:2], 0.2).prod() * norm.cdf(limit, x[2], 0.2) * norm.pdf(eta)

    exact = -4 * np.log(quad(integrand, -8, 8, epsabs=1e-12)[0]) - 4 * np.log(2 * np.pi)
    found = problem.marginal_objective({"k": 0.8}, {"k": 0.09}, pf.Quadrature(nodes=25))
    assert found == pytest.approx(exact, abs=1e-6)


def test_effects_on_a_logit_scale():
    """A bounded fraction with normal effects in its logit: the mode of an individual stays within the bounds."""
    times = np.array([1.0, 2.0, 4.0])
    subjects = [
        pf.Experiment(times, {"x": share * 5 * np.exp(-0.3 * times)}, name=f"s{k}")
        for k, share in enumerate((0.2, 0.5, 0.9))
    ]
    problem = pf.Problem(
        pf.Model("u' = -0.3*u", observables={"x": "share*u"}),
        subjects,
        {"share": pf.Parameter(0, 1, logit=True, random=True)},
        initial={"u": 5.0},
        noise=pf.Noise(additive=0.05),
    )
    study = study_of(problem)
    here, step = evaluate(study, np.array([0.1, 0.2])), 1e-4
    found = [
        (
            evaluate(study, here.point + d, here, False).value
            - evaluate(study, here.point - d, here, False).value
        )
        / (2 * step)
        for d in step * np.eye(2)
    ]
    assert np.abs(here.gradient - found).max() < 1e-5
    shares = study.setting.problem.layout.natural(here.paths.unknowns)[:, 0]
    assert shares == pytest.approx([0.2, 0.5, 0.9], abs=0.03)
