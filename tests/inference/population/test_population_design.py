"""Expected information on the parameters of a population."""

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.inference.population.design import information
from populations import linear_growth, theophylline


@pytest.fixture(scope="module")
def fit():
    return pf.fit(theophylline())


def schedule(times, name):
    return pf.plan(times, ["conc"], name, doses=pf.Doses([0], [320], into="gut"))


def test_information_of_a_linear_model_is_that_of_its_normal_distribution():
    fit = pf.fit(linear_growth())
    one = fit.problem.experiments[0]
    design = np.stack([one.times, np.ones_like(one.times)], axis=1)
    noise, omega = fit.parameters["noise.additive"], fit.population.covariance.to_numpy()
    inverse = np.linalg.inv(design @ omega @ design.T + noise**2 * np.eye(len(one.times)))
    (found,) = information(fit.population.distribution, [one])
    np.testing.assert_allclose(found[:2, :2], design.T @ inverse @ design, rtol=1e-6)
    # the logarithm of the noise's standard deviation, then those of the spreads
    noisy = inverse @ (2 * noise**2 * np.eye(len(one.times)))
    assert found[2, 2] == pytest.approx(0.5 * np.trace(noisy @ noisy), rel=1e-6)
    slope = inverse @ (2 * omega[0, 0] * np.outer(design[:, 0], design[:, 0]))
    assert found[3, 3] == pytest.approx(0.5 * np.trace(slope @ slope), rel=1e-6)


def test_errors_before_the_design_are_those_of_the_fit(fit):
    before, errors = pf.design(fit, [schedule([1, 5], "a")]).before, fit.errors("fisher")
    for name in ("ka", "cl", "v", "noise.additive"):
        assert before[name] == pytest.approx(errors[name] / fit.parameters[name], rel=0.05)
    for name, one in fit.population.spreads.items():
        assert before[f"sd({name})"] == pytest.approx(errors[f"sd({name})"] / one.sd, rel=0.15)


def test_early_samples_tell_of_absorption_and_late_ones_of_clearance(fit):
    offered = [schedule([0.25, 0.5, 1], "early"), schedule([9, 12, 24], "late")]
    assert pf.design(fit, offered, interest=["ka"]).chosen == ("early",)
    assert pf.design(fit, offered, interest=["cl"]).chosen == ("late",)


def test_many_individuals_shrink_errors_by_the_root_of_their_number(fit):
    same = pf.design(fit, [schedule(fit.problem.experiments[0].times, "a")], budget=36, repeat=True)
    assert same.after["cl"] == pytest.approx(same.before["cl"] / 2, rel=0.05)


@pytest.mark.parametrize(
    "call, code",
    [
        (lambda f: pf.design(f.problem, [schedule([1], "a")]), "inference.population_design_of_problem"),
        (lambda f: pf.design(f), "inference.no_candidate"),
        (lambda f: pf.design(f, [schedule([1], "a")], "c:cl/v"), "inference.population_criterion"),
        (lambda f: pf.design(f, [schedule([1], "a")], scenarios=3), "inference.population_design_takes"),
        (lambda f: pf.design(f, [schedule([1], "a")], interest=["kel"]), "inference.interest_unknown"),
        (lambda f: pf.design(f, [schedule([1], "a")], interest="ka"), "inference.interest"),
        (lambda f: pf.design_times(f, schedule([1, 2], "a"), 1), "inference.population_times"),
    ],
)
def test_what_a_design_for_a_population_does_not_take(fit, call, code):
    assert complaint(call, fit).code == code
