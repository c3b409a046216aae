"""Residuals, predictive checks and simulations of populations: their distributions under the truth."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, kstest

import picardfit as pf
from complaints import complaint
from picardfit.inference.population.at_values import study_of
from picardfit.inference.population.predictive_checks import Checks, check_of
from picardfit.inference.population.residuals import Residuals, normalised_errors
from picardfit.inference.population.simulation import Distribution, simulated_studies
from populations import linear_growth, log_random, theophylline, wang

MODEL = pf.Model("gut' = -ka*gut\ncentral' = ka*gut - cl/v*central", observables={"conc": "central/v"})
TIMES = np.array([0.25, 0.5, 1, 2, 4, 8, 12, 24])
THETA, OMEGA = np.log([1.5, 2.7, 31.0]), np.diag([0.3, 0.07, 0.02])


def study(individuals=30):
    """Patients with doses of two sizes of an oral drug, whose measurements are still to be drawn."""
    patients = [
        pf.Experiment(
            TIMES, {"conc": np.ones(8)}, f"p{k}", doses=pf.Doses([0], [(200, 400)[k % 2]], into="gut")
        )
        for k in range(individuals)
    ]
    return pf.Problem(
        MODEL,
        patients,
        {"ka": log_random(0.05, 20), "cl": log_random(0.1, 50), "v": log_random(1, 500)},
        initial={"gut": 0, "central": 0},
        noise=pf.Noise(additive=0.3),
    )


def truth(problem):
    return Distribution(study_of(problem), THETA, OMEGA, np.zeros((0, 3, 3)))


def drawn_truth(seed, limit=-np.inf):
    """The same truth, with data that were drawn from it and cut off at a limit of quantification."""
    problem = study()
    data = simulated_studies(truth(problem), 1, np.random.default_rng(seed))[0].reshape(
        len(problem.names), -1
    )
    patients = [
        replace(one, observations={"conc": [f"<{limit}" if y < limit else y for y in row]})
        for one, row in zip(problem.experiments, data.tolist(), strict=True)
    ]
    return truth(problem.with_experiments(patients))


def npde_of(source, studies, seed=0):
    return normalised_errors(source.study.setting.measurements, studies, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def oral():
    """A study drawn from the truth, and 300 simulations."""
    source = drawn_truth(5)
    return source, simulated_studies(source, 300, np.random.default_rng(1))


@pytest.fixture(scope="module")
def fitted():
    return pf.fit(theophylline(covariates=["WT"]))


# ---- npde -----------------------------------------------------------------------------------------------


def test_npde_are_standard_normal_under_the_truth(oral):
    source, studies = oral
    assert kstest(npde_of(source, studies), "norm").pvalue > 0.01


def test_npde_of_an_individual_are_not_correlated(oral):
    source, studies = oral
    errors = npde_of(source, studies).reshape(30, 8)
    off = np.corrcoef(errors, rowvar=False)[np.triu_indices(8, 1)]
    # 28 correlations of 30 pairs each: their squares times 40 sum to about chi-squared
    assert chi2.sf(30 * np.sum(off**2), 28) > 0.01


def test_npde_see_a_wrong_typical_value(oral):
    source, _ = oral
    wrong = replace(source, theta=source.theta + np.array([0.0, 0.5, 0.0]))
    studies = simulated_studies(wrong, 300, np.random.default_rng(1))
    assert kstest(npde_of(source, studies), "norm").pvalue < 1e-6


def test_npde_are_standard_normal_with_values_below_a_limit():
    source = drawn_truth(5, limit=2.0)
    censored = np.isfinite(source.study.setting.measurements.high)
    assert 0.1 < censored.mean() < 0.6
    studies = simulated_studies(source, 300, np.random.default_rng(1))
    assert kstest(npde_of(source, studies), "norm").pvalue > 0.01


def test_npde_need_more_simulations_than_measurements(oral):
    source, studies = oral
    error = complaint(npde_of, source, studies[:8])
    assert error.code == "inference.few_simulations"
    assert error.values["least"] == 9


# ---- conditional weighted residuals ---------------------------------------------------------------------


def test_cwres_of_a_linear_model_are_its_whitened_residuals():
    """Where predictions are linear in the effects, f - G eta is the typical prediction whatever eta is."""
    fit = pf.fit(linear_growth())
    table, p = fit.population.residuals(), fit.parameters
    omega = fit.population.covariance.loc[["b", "x(0)"], ["b", "x(0)"]].to_numpy()
    one = fit.problem.experiments[3]
    design = np.stack([one.times, np.ones_like(one.times)], axis=1)
    spread = design @ omega @ design.T + p["noise.additive"] ** 2 * np.eye(len(one.times))
    values, vectors = np.linalg.eigh(spread)
    gap = one.values[:, 0] - design @ [p["b"], p["x(0)"]]
    expected = vectors @ (vectors.T @ gap / np.sqrt(values))
    mine = table[table.individual == one.name]
    np.testing.assert_allclose(mine.cwres, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(mine.pred, design @ [p["b"], p["x(0)"]], rtol=1e-6)


def test_residuals_are_those_of_the_curves(fitted):
    table = fitted.population.residuals()
    mine = table[table.individual == "3"]
    own = fitted.predict("3", mine.time)["conc"]
    np.testing.assert_allclose(mine.ipred, own, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(mine.pred, fitted.predict("3", mine.time, typical=True)["conc"], atol=1e-6)
    sd = fitted.parameters["noise.additive"]
    np.testing.assert_allclose(mine.iwres, (mine.value - own) / sd, rtol=1e-6, atol=1e-6)


def test_cwres_of_theophylline_have_variance_one(fitted):
    assert fitted.population.residuals().cwres.std() == pytest.approx(1.0, abs=0.1)


# ---- visual predictive check ----------------------------------------------------------------------------


def residuals_at(source):
    """Residuals without an optimum: checks need typical predictions only."""
    from types import SimpleNamespace

    eta = np.zeros((source.study.individuals, source.study.setting.effects))
    return Residuals(SimpleNamespace(at=SimpleNamespace(eta=eta, paths=None)), source)


@pytest.mark.parametrize("corrected", [False, True])
def test_quantiles_lie_inside_their_bands_under_the_truth(corrected):
    inside = []
    for seed in range(5):
        source = drawn_truth(seed)
        studies = simulated_studies(source, 120, np.random.default_rng(seed + 100))
        inside.append(check_of(residuals_at(source), studies, corrected=corrected).inside.mean())
    assert 0.88 < np.mean(inside) <= 1.0


def test_quantiles_leave_their_bands_where_the_spread_is_wrong(oral):
    source, _ = oral
    wrong = replace(source, covariance=0.01 * OMEGA)
    studies = simulated_studies(wrong, 120, np.random.default_rng(1))
    assert check_of(residuals_at(source), studies).inside.mean() < 0.6


def test_correction_removes_the_effect_of_doses(oral):
    """Doses differ by a factor of two; with the typical prediction of the bin the band of the 95 % quantile narrows."""
    source, studies = oral
    plain, corrected = (check_of(residuals_at(source), studies, corrected=one) for one in (False, True))
    gap = [one.middle[2, 4] - one.middle[0, 4] for one in (plain, corrected)]
    assert gap[1] < 0.8 * gap[0]


def test_bins_are_the_nominal_times(fitted):
    check = fitted.population.vpc(simulations=20)
    assert list(check.counts) == [12] * 11


def test_times_that_all_share_have_bins_of_their_own(oral):
    np.testing.assert_array_equal(check_of(residuals_at(oral[0]), oral[1]).times, TIMES)


def test_bins_may_be_given(fitted):
    check = fitted.population.vpc(bins=[0, 2.5, 10, 30], simulations=20)
    assert check.counts.sum() == 132
    assert list(check.edges) == [0, 2.5, 10, 30]


def test_part_below_the_limit_lies_in_its_band():
    source = drawn_truth(3, limit=2.0)
    studies = simulated_studies(source, 120, np.random.default_rng(1))
    check = check_of(residuals_at(source), studies)
    data, low, _, high = check.below
    assert check.limit == 2.0
    assert data[-1] > 0.5
    assert np.mean((data >= low) & (data <= high)) >= 0.8
    assert np.isnan(check.observed[0, -1])  # the lower quantile is not known


@pytest.mark.parametrize(
    "options, code",
    [
        ({"observable": "conz"}, "inference.vpc_observable"),
        ({"quantiles": (5, 50, 95)}, "inference.vpc_quantiles"),
        ({"level": 95}, "inference.vpc_quantiles"),
        ({"quantiles": "median"}, "inference.vpc_quantiles"),
        ({"bins": [3.0]}, "inference.vpc_bins"),
        ({"bins": 0}, "errors.not_whole"),
        ({"simulations": 0}, "errors.not_whole"),
    ],
)
def test_wrong_wishes_are_named(fitted, options, code):
    assert complaint(fitted.population.vpc, **({"simulations": 20} | options)).code == code


def test_checks_and_populations_are_printed(fitted):
    text = str(fitted.population.vpc(simulations=20))
    assert "conc: quantiles of the data" in text
    assert len(text.splitlines()) == 1 + 1 + 11 + 1
    assert "3 simulated individuals with 33 measurements" in str(fitted.population.simulate(3))


def test_checks_share_simulations(fitted):
    checks = Checks(fitted.optimum, fitted.population.distribution)
    assert checks.studies(20, 3) is checks.studies(20, 3)


# ---- new populations ------------------------------------------------------------------------------------


def test_new_individuals_have_the_moments_of_the_distribution(fitted):
    new = fitted.population.simulate(400, seed=4)
    logs = np.log(new.individuals)
    typical = np.log([fitted.parameters[name] for name in logs])
    spread = np.sqrt(np.diag(fitted.population.covariance))
    np.testing.assert_allclose((logs.mean() - typical) / (spread / 20), 0, atol=3.5)
    np.testing.assert_allclose(logs.std() / spread, 1, atol=0.13)


def test_new_individuals_take_designs_of_the_data(fitted):
    new = fitted.population.simulate(5, seed=1)
    by_name = dict(zip(fitted.problem.names, fitted.problem.experiments, strict=True))
    for one, origin in zip(new.experiments, new.designs, strict=True):
        np.testing.assert_array_equal(one.times, by_name[origin].times)
        assert one.covariates == by_name[origin].covariates
        assert one.doses[0].amounts == by_name[origin].doses[0].amounts


def test_the_same_seed_gives_the_same_population(fitted):
    first, second = (fitted.population.simulate(3, seed=9).to_frame() for _ in range(2))
    assert first.equals(second)
    assert not first.equals(fitted.population.simulate(3, seed=8).to_frame())


def test_a_planned_design_is_simulated(fitted):
    plan = pf.plan([1, 5], ["conc"], "new", doses=pf.Doses([0], [300], into="gut"), covariates={"WT": 70})
    new = fitted.population.simulate(4, designs=[plan])
    assert new.designs == ("new",) * 4
    assert len(new.to_frame()) == 8


def test_a_new_population_can_be_fitted():
    fit = pf.fit(wang())
    new = fit.population.simulate(60, seed=2)
    again = pf.fit(fit.problem.with_experiments(new.experiments))
    assert again.parameters["ke"] == pytest.approx(fit.parameters["ke"], rel=0.15)


def test_designs_are_experiments(fitted):
    assert complaint(fitted.population.simulate, 3, designs=["1"]).code == "inference.simulate_designs"
    assert complaint(fitted.population.simulate, 3, designs=5).code == "inference.simulate_designs"
    assert complaint(fitted.population.simulate, 0).code == "errors.not_whole"
