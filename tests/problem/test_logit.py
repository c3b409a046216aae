"""Parameters on the logit scale: fits, intervals, profiles, files."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.starts import candidates

MODEL = pf.Model("x' = -k*x + f; y' = k*x - 0.5*y")


def problem_with(fraction, truth=0.3, initial=None, noise=None):
    times, rng = np.linspace(0, 5, 20), np.random.default_rng(1)
    found = pf.simulate(MODEL, {"k": 0.8, "f": truth}, {"x": 2.0, "y": 0.0}, times)
    data = {
        name: found.observables[name] + 0.02 * rng.standard_normal(len(times)) for name in MODEL.observables
    }
    known = {"x": 2.0, "y": 0.0} if initial is None else initial
    return pf.Problem(MODEL, pf.Experiment(times, data), {"k": (0, 5), "f": fraction}, known, noise=noise)


@pytest.fixture(scope="module")
def fits():
    return {logit: pf.fit(problem_with(pf.Parameter(0, 1, logit=logit))) for logit in (False, True)}


def test_optimum_and_standard_errors_do_not_depend_on_the_scale(fits):
    assert fits[True].parameters == pytest.approx(fits[False].parameters, rel=1e-6)
    assert fits[True].standard_errors == pytest.approx(fits[False].standard_errors, rel=1e-4)


def test_interval_is_symmetric_in_the_logit(fits):
    low, high = fits[True].intervals()["f"]
    logits = [np.log(v / (1 - v)) for v in (low, fits[True].parameters["f"], high)]
    assert logits[1] - logits[0] == pytest.approx(logits[2] - logits[1], rel=1e-4)


def test_profile_does_not_depend_on_the_scale(fits):
    expected = fits[False].profile("f").interval()
    assert fits[True].profile("f").interval() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("truth", [-0.2, 1.2])
def test_bound_is_reached_with_the_one_sided_interval_of_natural_units(truth):
    logit, natural = (pf.fit(problem_with(pf.Parameter(0, 1, logit=one), truth)) for one in (True, False))
    assert logit.certificate.at_bound == ("f",)
    assert logit.parameters["f"] == natural.parameters["f"]
    assert logit.intervals()["f"] == pytest.approx(natural.intervals()["f"], abs=1e-6)


def test_prior_is_a_density_of_the_value():
    prior, noise = pf.priors.Normal(0.35, 0.004), pf.Noise(additive=0.02)
    logit, natural = (
        pf.fit(problem_with(pf.Parameter(0, 1, logit=one, prior=prior), noise=noise)) for one in (True, False)
    )
    assert logit.parameters == pytest.approx(natural.parameters, rel=1e-6)


def test_starts_are_spread_evenly_over_the_values():
    problem = problem_with(pf.Parameter(0, 1, logit=True))
    column = problem.layout.width - 1
    points = candidates(problem, np.full(problem.layout.lower.shape, np.nan), 64, seed=0)
    values = np.sort(problem.layout.natural(points)[:, 0, column])
    np.testing.assert_allclose(values, (np.arange(64) + 0.5) / 64, atol=0.02)


def test_initial_states_may_be_logits():
    bounded = {"x": pf.Parameter(1, 3, logit=True), "y": 0.0}
    fit = pf.fit(problem_with((0, 1), initial=bounded))
    assert fit.initial_states["experiment 1"]["x"] == pytest.approx(2.0, abs=0.05)


def test_saved_fit_keeps_the_scale(fits, tmp_path):
    again = pf.load(fits[True].save(tmp_path / "fit.json"))
    assert again.problem.parameters["f"].logit
    assert again.parameters == fits[True].parameters


def test_value_outside_the_bounds_has_no_logit():
    with pytest.raises(pf.InputError) as caught:
        problem_with(pf.Parameter(0, 1, logit=True)).loss({"k": 0.8, "f": 1.5})
    assert (caught.value.code, caught.value.subject) == ("problem.logit_needs_inside", "f")


def test_value_at_a_bound_has_a_loss():
    logit, natural = (problem_with(pf.Parameter(0, 1, logit=one)) for one in (True, False))
    at = {"k": 0.8, "f": 0.0}
    assert logit.loss(at) == natural.loss(at)


def test_problem_file_takes_logits(tmp_path):
    (tmp_path / "data.csv").write_text("t,x\n0,2\n1,1\n2,0.6\n")
    (tmp_path / "problem.toml").write_text(
        'equations = "x\' = -k*x"\ndata = "data.csv"\n[parameters]\nk = { lower = 0, upper = 1, logit = true }\n'
    )
    assert pf.read_problem(tmp_path).parameters["k"] == pf.Parameter(0, 1, logit=True)
