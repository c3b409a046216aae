"""pf.fit of problems with random effects: published optima, closed forms, and everything on the answer."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2

import picardfit as pf
from complaints import complaint
from picardfit.inference.population.objective import evaluate
from populations import linear_growth, linear_objective, log_random, theophylline, wang


@pytest.fixture(scope="module")
def theophylline_fit():
    return pf.fit(theophylline())


@pytest.fixture(scope="module")
def wang_fit():
    return pf.fit(wang())


def test_objective_of_wang(wang_fit):
    assert wang_fit.population.objective == pytest.approx(-4.34035, abs=1e-4)


def test_estimates_of_wang(wang_fit):
    assert wang_fit.success
    assert wang_fit.parameters["ke"] == pytest.approx(0.477423, rel=1e-3)
    assert wang_fit.parameters["noise.proportional"] == pytest.approx(0.0347459, rel=1e-3)
    assert wang_fit.population.covariance.loc["ke", "ke"] == pytest.approx(0.0793466, rel=2e-3)


def test_standard_errors_of_wang_are_those_of_nonmem(wang_fit):
    assert wang_fit.standard_errors["ke"] == pytest.approx(0.0430, abs=2e-4)
    assert wang_fit.standard_errors["noise.proportional"] == pytest.approx(0.00737, abs=2e-5)
    assert wang_fit.population.covariance_errors.loc["ke", "ke"] == pytest.approx(0.0504, abs=2e-4)


def test_optimum_of_theophylline(theophylline_fit):
    found = theophylline_fit
    assert found.success
    assert found.population.objective == pytest.approx(116.8038, abs=1e-3)
    logs = [np.log(found.parameters[name]) for name in ("ka", "cl", "v")]
    assert logs == pytest.approx([0.46445, 1.01205, 3.45997], abs=2e-3)
    assert found.parameters["noise.additive"] == pytest.approx(0.69384, abs=1e-3)
    omega = np.diag(found.population.covariance)
    assert omega == pytest.approx([0.40463, 0.06880, 0.019222], rel=0.01)


def test_nllh_has_the_constants_that_the_objective_lacks(theophylline_fit):
    n = theophylline_fit.problem.measurements
    whole = theophylline_fit.population.objective + n * np.log(2 * np.pi)
    assert 2 * theophylline_fit.nllh == pytest.approx(whole)
    assert theophylline_fit.aic == pytest.approx(whole + 2 * 7)


def test_start_does_not_matter(theophylline_fit):
    start = {"ka": 0.16, "cl": 27.0, "v": 3.2}
    assert pf.fit(theophylline(), start=start).population.objective == pytest.approx(
        theophylline_fit.population.objective, abs=1e-4
    )


def test_linear_model_has_the_optimum_of_its_exact_likelihood():
    problem = linear_growth()
    found = pf.fit(problem)

    def objective(x):
        a, b, noise, sd_b, sd_a = x
        return linear_objective(problem, a, b, np.exp(noise), np.diag(np.exp([2 * sd_b, 2 * sd_a])))

    best = minimize(objective, [2, 1, -1.5, -1.0, -1.0], tol=1e-10)
    assert found.population.objective == pytest.approx(best.fun, abs=1e-5)
    assert found.parameters["x(0)"] == pytest.approx(best.x[0], abs=1e-4)
    assert found.population.covariance.loc["b", "b"] == pytest.approx(np.exp(2 * best.x[3]), rel=1e-3)


def test_a_spread_that_data_do_not_show_goes_to_zero_and_is_said():
    found = pf.fit(linear_growth(slope_sd=0.0, seed=5))
    assert found.population.covariance.loc["b", "b"] == 0
    assert "inference.no_spread" in [one.code for one in found.warnings]
    assert found.identifiability().verdicts["spread of b"].kind == "not determined"


def test_fixed_variances_stay():
    random = pf.RandomEffects(fixed={"b": 0.04, "x(0)": 0.0})
    found = pf.fit(linear_growth(random=random))
    assert np.diag(found.population.covariance) == pytest.approx([0.04, 0.0])
    assert found.estimated == 3


def test_correlated_effects_are_estimated_together():
    problem = linear_growth(random=pf.RandomEffects(correlated=[("x(0)", "b")]))
    found = pf.fit(problem)
    low, high = found.population.correlation_intervals()[("b", "x(0)")]
    rho = found.population.correlation.loc["b", "x(0)"]
    assert low < rho < high
    assert found.population.objective < pf.fit(linear_growth()).population.objective


def test_conditional_modes_of_a_linear_model_are_known():
    problem = linear_growth()
    found = pf.fit(problem)
    one, omega = problem.experiments[3], found.population.covariance.to_numpy()
    design = np.stack([one.times, np.ones_like(one.times)], axis=1)
    noise = found.parameters["noise.additive"]
    gap = one.values[:, 0] - design @ [found.parameters["b"], found.parameters["x(0)"]]
    precision = np.linalg.inv(omega) + design.T @ design / noise**2
    mode = np.linalg.solve(precision, design.T @ gap / noise**2)
    assert found.population.effects.loc["s3"].to_numpy() == pytest.approx(mode, abs=1e-6)
    spread = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert found.population.effect_errors.loc["s3"].to_numpy() == pytest.approx(spread, rel=1e-4)


def test_individuals_are_in_natural_units(theophylline_fit):
    population, typical = theophylline_fit.population, theophylline_fit.parameters
    expected = typical["ka"] * np.exp(population.effects["ka"])
    assert population.individuals["ka"].to_numpy() == pytest.approx(expected.to_numpy())
    shrunk = 1 - population.effects["v"].std() / np.sqrt(population.covariance.loc["v", "v"])
    assert population.shrinkage["v"] == pytest.approx(shrunk)


def test_curves_of_an_individual_follow_the_closed_form(theophylline_fit):
    own, times = theophylline_fit.population.individuals.loc["1"], np.array([0.5, 3.0, 20.0])
    rate = own["cl"] / own["v"]
    scale = 319.992 * own["ka"] / (own["v"] * (own["ka"] - rate))
    exact = scale * (np.exp(-rate * times) - np.exp(-own["ka"] * times))
    assert theophylline_fit.predict("1", times)["conc"] == pytest.approx(exact, rel=1e-7)
    typical = theophylline_fit.predict("1", times, typical=True)["conc"]
    assert not np.allclose(typical, exact, rtol=1e-2)


def test_a_saved_fit_is_read_back(theophylline_fit, tmp_path):
    again = pf.load(theophylline_fit.save(tmp_path / "fit.json"))
    assert again.parameters == theophylline_fit.parameters
    assert again.standard_errors == pytest.approx(theophylline_fit.standard_errors, rel=1e-3)
    assert str(again.population) == str(theophylline_fit.population)


def test_a_damaged_file_is_noticed(theophylline_fit, tmp_path):
    path = theophylline_fit.save(tmp_path / "fit.json")
    content = json.loads(path.read_text())
    content["optimum"]["point"][0] += 0.1
    path.write_text(json.dumps(content))
    assert complaint(pf.load, path).code == "files.saved_solution"


def test_print_tells_typical_values_and_spreads(theophylline_fit):
    text = str(theophylline_fit)
    for words in ("objective (-2 log L without constants, FOCEI) = 116.8034", "log ka", "shrinkage %"):
        assert words in text


def test_report_is_written(theophylline_fit, tmp_path):
    page = theophylline_fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 2
    assert "116.8034" in page


def test_profile_of_a_typical_value_meets_the_chi_squared_threshold(wang_fit):
    found = wang_fit.profile("ke")
    low, high = found.interval()
    assert low < wang_fit.parameters["ke"] < high
    assert max(found.rises) == pytest.approx(3.84, rel=0.1)


def test_profiles_come_from_a_ledger(wang_fit, tmp_path):
    ledger = tmp_path / "profiles.jsonl"
    first = wang_fit.profiles(["ke"], ledger=ledger, progress=False)
    again = wang_fit.profiles(["ke"], ledger=ledger, progress=False)
    assert again["ke"].interval() == first["ke"].interval()
    narrow, wide = again["ke"].interval(0.5), again["ke"].interval()
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_profile_of_a_spread_is_asymmetric(wang_fit):
    low, high = wang_fit.profile("sd(ke)").interval()
    sd = wang_fit.population.spreads["ke"].sd
    assert low < sd < high
    assert high - sd > sd - low


def test_likelihood_ratio_of_a_covariate():
    model = pf.Model(
        "gut' = -ka*gut\ncentral' = ka*gut - cl*(WT/70)**power/v*central",
        observables={"conc": "central/v"},
    )
    parameters = dict(theophylline().parameters)
    parameters = {name: parameters[name] for name in ("ka", "cl", "v")}
    options = {"model": model, "covariates": ["WT"]}
    larger = pf.fit(theophylline(**options, parameters=parameters | {"power": (-2, 3)}))
    smaller = pf.fit(theophylline(**options, parameters=parameters | {"power": 0.0}))
    found = larger.likelihood_ratio(smaller)
    assert smaller.population.objective == pytest.approx(116.8034, abs=1e-3)
    assert found.freedom == 1
    assert found.statistic == pytest.approx(smaller.population.objective - larger.population.objective)
    assert not found.boundary


def test_likelihood_ratio_of_a_random_effect_is_a_mixture():
    larger = pf.fit(linear_growth(slope_sd=0.05, seed=2))
    smaller = pf.fit(linear_growth(slope_sd=0.05, seed=2, random=pf.RandomEffects(fixed={"b": 0.0})))
    found = larger.likelihood_ratio(smaller)
    from scipy.stats import chi2

    assert found.boundary
    assert found.p_value == pytest.approx(0.5 * chi2.sf(found.statistic, 1))


def test_censored_values_lower_the_bias():
    rng = np.random.default_rng(4)
    times = np.array([0.5, 1.0, 2.0, 3.0])
    subjects, limit = [], 0.5
    for k in range(30):
        rate = 0.8 * np.exp(0.3 * rng.standard_normal())
        values = 4 * np.exp(-rate * times) + 0.1 * rng.standard_normal(4)
        subjects.append(
            pf.Experiment(times, {"x": [v if v > limit else f"<{limit}" for v in values]}, name=f"s{k}")
        )
    problem = pf.Problem(
        pf.Model("x' = -k*x"),
        subjects,
        {"k": log_random(0.05, 10)},
        initial={"x": 4.0},
        noise=pf.Noise(additive=(0.01, 2)),
    )
    found = pf.fit(problem)
    assert found.parameters["k"] == pytest.approx(0.8, rel=0.15)
    assert found.population.spreads["k"].sd == pytest.approx(0.3, rel=0.4)


@pytest.mark.parametrize("marginal", [pf.FO(), pf.FOCE(), pf.MarginalLaplace(), pf.Quadrature(3)], ids=repr)
def test_every_approximation_finds_the_optimum_of_wang(marginal):
    found = pf.fit(wang(), marginal=marginal)
    assert found.success
    assert np.abs(found.optimum.at.gradient).max() < 0.05
    if isinstance(marginal, pf.Quadrature | pf.MarginalLaplace):
        assert found.population.objective == pytest.approx(-4.3, abs=0.2)


def test_several_starts_agree_with_a_ledger(tmp_path):
    ledger = tmp_path / "starts.jsonl"
    first = pf.fit(wang(), starts=3, ledger=ledger, progress=False)
    again = pf.fit(wang(), starts=3, ledger=ledger, progress=False)
    assert len(first.searches) == 3
    assert again.population.objective == pytest.approx(first.population.objective, abs=1e-6)


def test_progress_is_told_and_an_interruption_returns_the_best_so_far():
    seen = []

    def stop(news):
        seen.append(news.loss)
        if len(seen) == 2:
            raise KeyboardInterrupt

    found = pf.fit(theophylline(), progress=stop)
    assert found.status is pf.Status.INTERRUPTED
    assert found.population.objective == pytest.approx(seen[-1])
    assert not found.success


def test_several_outputs_have_noise_of_their_own():
    rng = np.random.default_rng(0)
    times, subjects = np.linspace(0.5, 8, 8), []
    for k in range(12):
        a, b = np.exp(0.3 * rng.standard_normal(2))
        x, y = 5 * np.exp(-0.4 * a * times), 100 * b * (1 - np.exp(-0.4 * a * times))
        subjects.append(
            pf.Experiment(
                times,
                {"x": x * (1 + 0.1 * rng.standard_normal(8)), "y": y + 3 * rng.standard_normal(8)},
                name=f"s{k}",
            )
        )
    problem = pf.Problem(
        pf.Model("u' = -k*u", observables={"x": "u", "y": "20*gain*(5 - u)"}),
        subjects,
        {"k": log_random(0.01, 10), "gain": log_random(0.1, 10)},
        initial={"u": 5.0},
        noise={"x": pf.Noise(proportional=(0.01, 1)), "y": pf.Noise(additive=(0.1, 50))},
    )
    found = pf.fit(problem)
    assert found.parameters["noise.proportional.x"] == pytest.approx(0.1, rel=0.25)
    assert found.parameters["noise.additive.y"] == pytest.approx(3.0, rel=0.25)


def test_the_same_problem_gives_the_same_bits():
    first, second = pf.fit(wang()), pf.fit(wang())
    assert first.parameters == second.parameters


def test_fewer_data_than_effects_are_allowed_and_said():
    problem = linear_growth()
    short = replace(problem.experiments[0], times=[1.0], observations={"x": [3.0]})
    found = pf.fit(problem.with_experiments([short, *problem.experiments[1:]]))
    assert found.success
    assert "inference.fewer_data_than_effects" in [one.code for one in found.warnings]


def test_the_other_side_of_a_flip_flop_is_told(theophylline_fit):
    (notice,) = [one for one in theophylline_fit.warnings if one.code == "inference.population_rival"]
    assert notice.values["own"] == pytest.approx(116.8034, abs=1e-3)
    assert notice.values["objective"] == pytest.approx(110.33, abs=0.1)


def test_intervals_of_spreads_are_those_of_chi_squared():
    fit = pf.fit(linear_growth(individuals=40, samples=12, noise=0.01))  # individuals are known exactly
    sd, (low, high) = fit.population.spreads["b"].sd, fit.population.spread_intervals()["b"]
    wanted = sd * np.sqrt(40 / chi2.ppf([0.975, 0.025], 39))
    assert (low, high) == pytest.approx(tuple(wanted), rel=0.02)


def test_a_fresh_evaluation_has_the_value_of_the_optimum(theophylline_fit):
    at = theophylline_fit.optimum.at
    assert evaluate(at.study, at.point).value == pytest.approx(at.value, abs=1e-6)


def test_derived_quantities_of_typical_values():
    fit = pf.fit(theophylline(derived={"half_life": "log(2)*v/cl"}))
    found, errors = fit.derived["half_life"], fit.population.errors.covariance()
    assert found.value == pytest.approx(np.log(2) * fit.parameters["v"] / fit.parameters["cl"])
    slope = np.zeros(len(errors))
    slope[[1, 2]] = -found.value, found.value  # of log cl and log v
    assert found.standard_error == pytest.approx(np.sqrt(slope @ errors @ slope))
    assert "half_life" in str(fit)


def test_what_only_other_fits_have_is_said(wang_fit):
    with pytest.raises(AttributeError, match=r"no `bootstrap`: .*simulate"):
        wang_fit.bootstrap(10)


def test_every_observable_is_in_the_first_stage():
    """Individuals 3, 7, 11, ... alone measure y: an even choice of some would miss them."""
    model = pf.Model("x' = -k*x\ny' = q - k*y")
    rng, times, people = np.random.default_rng(0), np.array([0.5, 1.0, 2.0]), []
    for e in range(100):
        k, q = np.exp(0.2 * rng.standard_normal()), 2.0
        x, y = np.exp(-k * times), q / k * (1 - np.exp(-k * times))
        data = (
            {"y": y + 0.05 * rng.standard_normal(3)}
            if e in (3, 50)
            else {"x": x + 0.05 * rng.standard_normal(3)}
        )
        people.append(pf.Experiment(times, data, f"{e}", t0=0))
    parameters = {"k": log_random(0.05, 20), "q": pf.Parameter(0.01, 100, log=True)}
    noise = pf.Noise(additive=(0.001, 1))
    fit = pf.fit(pf.Problem(model, people, parameters, initial={"x": 1.0, "y": 0.0}, noise=noise))
    assert fit.success
    assert fit.parameters["q"] == pytest.approx(2.0, rel=0.15)
