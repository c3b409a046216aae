"""Draws of posteriors that are known in closed form, determinism, warnings, and output."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.inference.posterior.mixing import Mixing
from picardfit.inference.posterior.predictive import prior_draws
from picardfit.inference.posterior.run import posterior

TIMES = np.array([0.0, 1.0, 2.0, 4.0])
VALUES = np.array([1.1, 1.4, 2.1, 2.9])
SD = 0.2


def line(**options):
    """x = x0 + p t with normal noise and normal priors: the posterior is normal, with a known mean and covariance."""
    parameters = {"p": pf.Parameter(prior=pf.priors.Normal(1.0, 0.5))}
    initial = {"x": pf.Parameter(prior=pf.priors.Normal(0.0, 1.0))}
    given = {"parameters": parameters, "initial": initial, "noise": pf.Noise(additive=SD)} | options
    return pf.Problem(pf.Model("x' = p"), pf.Experiment(TIMES, {"x": VALUES}), **given)


def exact():
    """Mean and covariance of (p, x0)."""
    design = np.stack([TIMES, np.ones(4)], axis=1)
    precision = design.T @ design / SD**2 + np.diag([1 / 0.5**2, 1.0])
    covariance = np.linalg.inv(precision)
    return covariance @ (design.T @ VALUES / SD**2 + [1.0 / 0.5**2, 0.0]), covariance


@pytest.fixture(scope="module")
def fit():
    return pf.fit(line())


@pytest.fixture(scope="module")
def chains(fit):
    return fit.posterior(pf.NUTS(draws=250, warmup=150), seed=1, progress=False)


@pytest.fixture(scope="module")
def weighted(fit):
    return fit.posterior(pf.LaplaceDraws(draws=2000), seed=1, progress=False)


@pytest.mark.parametrize("kind", ["chains", "weighted"])
def test_means_and_covariances_are_the_exact_ones(kind, request):
    draws = request.getfixturevalue(kind)
    mean, covariance = exact()
    table = draws.summary()
    for k, name in enumerate(("p", "x(0)")):
        assert table.loc[name, "mean"] == pytest.approx(mean[k], abs=4.5 * table.loc[name, "mcse"])
        assert table.loc[name, "sd"] == pytest.approx(np.sqrt(covariance[k, k]), rel=0.12)
    found = np.corrcoef(draws["p"].ravel(), draws["x(0)"].ravel())[0, 1]
    assert found == pytest.approx(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]), abs=0.08)


def test_chains_have_mixed_and_nothing_diverged(chains):
    assert chains.shape == (4, 250)
    assert chains["p"].shape == (4, 250)
    assert chains.divergences == 0
    assert chains.summary()["r_hat"].max() < 1.03
    assert chains.error < 1e-4
    assert min(chains.e_bfmi) > 0.5


def test_summary_has_the_promised_columns(chains):
    wanted = ["mean", "sd", "q2.5", "q50", "q97.5", "mcse", "ess_bulk", "ess_tail", "r_hat"]
    assert list(chains.summary().columns) == wanted
    assert list(chains.summary().index) == ["p", "x(0)"]


def test_a_gaussian_posterior_has_trusted_weights(weighted):
    assert weighted.khat < 0.5
    assert weighted.trusted
    assert weighted.warnings == ()


def test_the_same_seed_gives_the_same_draws(fit):
    method = pf.NUTS(draws=10, chains=2, warmup=10)
    one, two, other = (fit.posterior(method, seed=seed, progress=False) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one["p"], two["p"])
    assert not np.array_equal(one["p"], other["p"])


def test_a_bounded_unknown_stays_inside_and_fills_its_interval():
    # one measurement that says nothing: the posterior of p is its uniform prior
    problem = pf.Problem(
        pf.Model("x' = p"),
        pf.Experiment([1.0], {"x": [0.0]}, t0=0.0, initial={"x": 0.0}),
        {"p": (0.0, 2.0)},
        noise=pf.Noise(additive=1e3),
    )
    draws = pf.fit(problem).posterior(pf.NUTS(draws=300, chains=4, warmup=200), seed=0, progress=False)["p"]
    assert draws.min() > 0
    assert draws.max() < 2
    np.testing.assert_allclose(np.quantile(draws, [0.1, 0.5, 0.9]), [0.2, 1.0, 1.8], atol=0.13)


def test_a_mode_at_its_bound_is_said_and_drawn():
    problem = line(initial={"x": pf.Parameter(1.5, 5.0)})
    found = pf.fit(problem).posterior(pf.LaplaceDraws(500), seed=0, progress=False)
    assert "inference.mode_at_bound" in [one.code for one in found.warnings]
    assert found["x(0)"].min() > 1.5


def test_points_without_a_solution_are_rejected_counted_and_said():
    model = pf.Model("x' = k*x^2")
    problem = pf.Problem(
        model, pf.Experiment([0.5, 1.0], {"x": [0.6, 0.9]}, t0=0.0), {"k": (0, 9)}, {"x": 0.5},
        noise=pf.Noise(additive=0.5),
    )  # fmt: skip
    found = pf.fit(problem).posterior(pf.LaplaceDraws(300), seed=0, progress=False)
    assert found.drawn.exploded > 0
    assert "inference.exploded" in [one.code for one in found.warnings]
    assert found["k"].max() < 2.05  # x explodes before t = 1 beyond k = 2


def test_short_chains_are_warned_of(fit):
    draws = fit.posterior(pf.NUTS(draws=6, chains=2, warmup=5), seed=0, progress=False)
    assert "inference.few_effective" in [one.code for one in draws.warnings]
    assert not draws.trusted
    few = fit.posterior(pf.NUTS(draws=2, chains=2, warmup=5), seed=0, progress=False)
    assert "inference.no_diagnostics" in [one.code for one in few.warnings]


def test_interruption_keeps_what_is_drawn(fit):
    def stop(done, total, divergent):
        assert total == 2 * 60
        if done >= 2 * 45:
            raise KeyboardInterrupt

    found = fit.posterior(pf.NUTS(draws=40, chains=2, warmup=20), seed=0, progress=stop)
    assert 15 <= found.shape[1] < 40
    assert found.drawn.missing == 2 * (40 - found.shape[1])
    assert "inference.resumable_interrupted" in [one.code for one in found.warnings]


def test_interruption_before_any_draw_is_passed_on(fit):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit.posterior(pf.NUTS(draws=5, chains=1, warmup=50), progress=stop)


def test_another_optimum_gets_chains_and_a_warning():
    # x' = -k^2 x: k and -k fit equally well
    problem = pf.Problem(
        pf.Model("x' = -k^2*x"),
        pf.Experiment([0.0, 1.0, 2.0], {"x": [1.0, 0.4, 0.14]}, initial={"x": 1.0}),
        {"k": (-3.0, 3.0)},
        noise=pf.Noise(additive=0.05),
    )
    fit = pf.fit(problem, starts=6)
    assert len(fit.optima) == 2
    found = fit.posterior(pf.NUTS(draws=20, chains=2, warmup=20), progress=False)
    assert found.modes == 2
    assert "inference.several_modes" in [one.code for one in found.warnings]
    assert sorted(np.sign(found["k"].mean(axis=1))) == [-1, 1]


def test_predictions_hold_the_data_and_noise_widens_them(chains):
    name = chains.problem.names[0]
    curve = chains.predict(name, [0, 2, 6])["x"]
    wide = chains.predict(name, [0, 2, 6], noise=True)["x"]
    mean, covariance = exact()
    spread = np.sqrt([(np.array([t, 1]) @ covariance @ [t, 1]) for t in (0, 2, 6)])
    np.testing.assert_allclose(curve.value, mean[1] + mean[0] * np.array([0, 2, 6]), atol=0.05)
    np.testing.assert_allclose(curve.standard_error, spread, rtol=0.2)
    np.testing.assert_allclose(wide.standard_error, np.hypot(spread, SD), rtol=0.2)


def test_predictions_of_the_only_experiment_need_no_name(chains):
    named = chains.predict(chains.problem.names[0], [0, 2, 6])["x"]
    for found in (chains.predict([0, 2, 6]), chains.predict(times=[0, 2, 6])):
        np.testing.assert_array_equal(found["x"].value, named.value)
    with pytest.raises(pf.InputError, match="`times` is missing"):
        chains.predict(chains.problem.names[0])


def test_new_data_scatter_by_posterior_and_noise(chains):
    data = chains.new_data(400)
    assert data.shape == (400, 4, 1)
    mean, covariance = exact()
    spread = np.sqrt(np.array([1.0, 1]) @ covariance @ [1.0, 1] + SD**2)
    assert data[:, 1, 0].mean() == pytest.approx(mean.sum(), abs=0.05)
    assert data[:, 1, 0].std() == pytest.approx(spread, rel=0.15)


def test_prior_data_scatter_by_the_priors(chains):
    data = chains.prior_data(400)[:, 3, 0]
    assert data.mean() == pytest.approx(4.0, abs=0.4)
    assert data.std() == pytest.approx(np.sqrt((4 * 0.5) ** 2 + 1 + SD**2), rel=0.15)


def test_data_from_the_priors_need_no_fit():
    data = pf.prior_predictive(line(), 300, seed=1)[:, 0, 0]
    assert data.shape == (300,)
    assert data.std() == pytest.approx(np.sqrt(1 + SD**2), rel=0.2)
    with pytest.raises(pf.InputError) as caught:
        pf.prior_predictive(line(noise=None, parameters={"p": (0, 1)}, initial={"x": (0, 1)}))
    assert caught.value.code == "inference.posterior_without_noise"


def test_an_unknown_that_data_leave_open_at_infinity_is_said():
    # x = e^(-k t) is as good as 0 for all large k, and noise is as large as x itself: flat to infinity
    times = np.array([0.5, 1.0, 2.0])

    def codes(noise):
        data = pf.Experiment(times, {"x": np.exp(-0.7 * times)}, t0=0.0, initial={"x": 1.0})
        problem = pf.Problem(
            pf.Model("x' = -k*x"), data, {"k": pf.Parameter(0)}, noise=pf.Noise(additive=noise)
        )
        found = pf.fit(problem).posterior(pf.LaplaceDraws(50), progress=False)
        return [one.code for one in found.warnings]

    assert "inference.posterior_open" in codes(0.8)
    assert "inference.posterior_open" not in codes(0.05)


def test_nothing_is_drawn_from_an_open_prior(fit):
    problem = line(parameters={"p": pf.Parameter()})
    with pytest.raises(pf.InputError) as caught:
        prior_draws(problem, 1, np.random.default_rng(0))
    assert caught.value.code == "inference.prior_open"
    assert caught.value.subject == "p"


@pytest.mark.parametrize("k", [1, 2])
def test_leave_one_out_of_a_linear_model_is_the_exact_one(fit, k):
    from scipy.stats import norm

    kept = np.arange(4) != k
    design, row = np.stack([TIMES[kept], np.ones(3)], axis=1), np.array([TIMES[k], 1.0])
    covariance = np.linalg.inv(design.T @ design / SD**2 + np.diag([4.0, 1.0]))
    mean = covariance @ (design.T @ VALUES[kept] / SD**2 + [4.0, 0.0])
    expected = norm.logpdf(VALUES[k], row @ mean, np.sqrt(row @ covariance @ row + SD**2))
    many = fit.posterior(pf.NUTS(draws=1000, warmup=150), seed=1, progress=False)
    assert many.loo().pointwise[k] == pytest.approx(expected, abs=0.04)
    assert many.waic().pointwise[k] == pytest.approx(expected, abs=0.1)


def test_a_measurement_that_decides_alone_is_warned_of(chains):
    from dataclasses import replace

    doubled = replace(chains, drawn=replace(chains.drawn, z=chains.drawn.z * 3 - 2 * chains.drawn.z.mean()))
    assert "inference.loo_not_trusted" in [one.code for one in doubled.loo().warnings]
    assert "k-hat of 0.7 or more" in str(doubled.loo())


def test_csv_holds_every_draw(chains, tmp_path):
    import pandas as pd

    table = pd.read_csv(chains.save(tmp_path / "draws.csv"))
    assert len(table) == 1000
    assert list(table.columns[:4]) == ["chain", "draw", "p", "x(0)"]
    np.testing.assert_allclose(table["p"].to_numpy().reshape(4, 250), chains["p"])


def test_arviz_reads_the_draws(chains, tmp_path):
    pytest.importorskip("arviz_base")
    pytest.importorskip("netCDF4")
    xarray = pytest.importorskip("xarray")
    tree = chains.to_arviz()
    np.testing.assert_array_equal(tree["posterior"]["p"], chains["p"])
    again = xarray.open_datatree(chains.save(tmp_path / "draws.nc"))
    np.testing.assert_array_equal(again["posterior"]["x(0)"], chains["x(0)"])
    assert not again["sample_stats"]["diverging"].any()


def test_arviz_computes_the_same_numbers_from_the_draws(chains):
    arviz = pytest.importorskip("arviz_stats")
    tree = chains.to_arviz(log_likelihood=True)
    table = chains.summary()
    for name in ("p", "x(0)"):
        ours, theirs = table.loc[name], tree["posterior"][name].values
        assert arviz.rhat(theirs, chain_axis=0, draw_axis=1) == pytest.approx(ours["r_hat"], rel=1e-6)
        for kind in ("bulk", "tail"):
            more = {"prob": (0.05, 0.95)} if kind == "tail" else {}
            found = arviz.ess(theirs, chain_axis=0, draw_axis=1, method=kind, **more)
            assert found == pytest.approx(ours[f"ess_{kind}"], rel=1e-6)
    found, ours = arviz.loo(tree), chains.loo()
    assert found.elpd == pytest.approx(ours.value, abs=0.05)
    assert found.se == pytest.approx(ours.standard_error, rel=0.05)


def test_files_need_a_known_ending(chains, tmp_path):
    with pytest.raises(pf.InputError) as caught:
        chains.save(tmp_path / "draws.txt")
    assert caught.value.code == "inference.draws_ending"


@pytest.mark.parametrize(
    "make, code",
    [
        (lambda: pf.NUTS(draws=0), "errors.not_whole"),
        (lambda: pf.LaplaceDraws(draws=0), "errors.not_whole"),
        (lambda: pf.NUTS(accept=1.0), "inference.accept"),
        (lambda: pf.NUTS(spread=-1.0), "inference.spread"),
    ],
)
def test_impossible_settings_are_refused(make, code):
    with pytest.raises(pf.InputError) as caught:
        make()
    assert caught.value.code == code


def test_what_is_no_method_is_refused(fit):
    with pytest.raises(pf.InputError) as caught:
        fit.posterior("nuts")
    assert caught.value.code == "inference.posterior_method"


def test_unknown_names_are_refused_with_a_suggestion(chains):
    with pytest.raises(pf.InputError) as caught:
        chains["P"]
    assert caught.value.code == "inference.no_draws_of"


def test_a_fit_that_did_not_converge_has_no_posterior():
    failed = pf.fit(line(), pf.LiftedGaussNewton(max_iterations=1), policy=pf.SearchPolicy(most=1))
    with pytest.raises(pf.InputError) as caught:
        failed.posterior()
    assert caught.value.code == "inference.posterior_of_failed_fit"


def test_models_with_events_have_no_posterior():
    times = np.linspace(0.5, 6, 10)
    model = pf.Model("v' = g - k*v\nwhen v > 3: v = 1")
    v = pf.simulate(model, {"g": 2.0, "k": 0.3}, {"v": 1.0}, times).observables["v"]
    data = pf.Experiment(times, {"v": v + 0.05 * np.cos(9 * times)}, t0=0.0, initial={"v": 1.0})
    problem = pf.Problem(model, data, {"g": (0.5, 5), "k": (0.01, 0.6)}, noise=pf.Noise(additive=0.05))
    with pytest.raises(pf.InputError) as caught:
        pf.fit(problem, progress=False).posterior()
    assert caught.value.code == "inference.posterior_events"


def test_weights_of_a_far_posterior_are_not_trusted(fit):
    from dataclasses import replace

    found = posterior(fit, pf.LaplaceDraws(2000), progress=False)
    far = replace(found, drawn=replace(found.drawn, khat=0.9))
    assert [one.code for one in far.warnings] == ["inference.weights_not_trusted"]


def test_divergences_low_energies_and_deep_paths_are_said(chains):
    from dataclasses import replace

    divergent = chains.drawn.divergent.copy()
    divergent[0, :3] = True
    drawn = replace(
        chains.drawn,
        divergent=divergent,
        depth=np.full((4, 250), 10),
        energy=np.cumsum(np.ones((4, 250)), axis=1),
    )
    said = {one.code for one in replace(chains, drawn=drawn).warnings}
    assert {"inference.divergent", "inference.deep", "inference.low_energy"} <= said


def test_chains_that_disagree_are_said(chains):
    from dataclasses import replace

    z = chains.drawn.z.copy()
    z[0] += 5
    moved = replace(chains, drawn=replace(chains.drawn, z=z), limits=Mixing())
    assert "inference.not_mixed" in [one.code for one in moved.warnings]


def halved(formula, **options):
    """Weighted draws of a decay with a derived quantity `d`."""
    times = np.linspace(0, 4, 9)
    data = pf.Experiment(times, {"x": np.exp(-0.7 * times) + 0.02 * np.cos(5 * times)}, t0=0.0)
    problem = pf.Problem(
        pf.Model("x' = -k*x"),
        data,
        {"k": (0.01, 5)},
        {"x": (0, 5)},
        noise=pf.Noise(additive=0.05),
        derived={"d": formula},
    )
    return pf.fit(problem, progress=False).posterior(progress=False, **options)


@pytest.mark.parametrize("method", [pf.LaplaceDraws(500), pf.NUTS(draws=40, chains=2, warmup=40)])
def test_derived_quantities_have_draws(method, tmp_path):
    posterior = halved("log(2)/k + x(0)", method=method)
    wanted = np.log(2) / posterior["k"] + posterior["x(0)"]
    np.testing.assert_allclose(posterior["d"], wanted, rtol=1e-12)
    row = posterior.summary().loc["d"]
    assert row["mean"] == pytest.approx(wanted.mean())
    assert row["ess_tail"] > 0
    assert "d" in posterior.save(tmp_path / "draws.csv").read_text().splitlines()[0].split(",")
    assert posterior.plot("marginals", names=["d"]).axes[0].get_xlabel() == "d"


def test_a_derived_quantity_without_a_value_is_told():
    posterior = halved("sqrt(k - 0.7)", method=pf.LaplaceDraws(500))
    lost = int(np.sum(posterior["k"] < 0.7))
    (notice,) = (one for one in posterior.warnings if one.code == "inference.derived_not_finite")
    assert notice.values == {"count": lost, "draws": 500}
    assert np.isfinite(posterior.summary().loc["d", "mean"])


def test_a_constant_says_nothing_about_the_chains():
    posterior = halved("2*3", method=pf.NUTS(draws=400, chains=4, warmup=100))
    assert (posterior["d"] == 6.0).all()
    assert all(one.subject != "d" for one in posterior.warnings)


@pytest.mark.parametrize(
    "method, code",
    [
        (pf.NUTS(draws=1, chains=1, warmup=0), "inference.no_diagnostics"),
        (pf.LaplaceDraws(draws=1), "inference.few_draws"),
    ],
)
def test_a_single_draw_is_said_to_be_too_few_and_nothing_else(fit, method, code):
    found = fit.posterior(method, progress=False)
    assert [one.code for one in found.warnings] == [code]
    assert not found.trusted


def product(a, b):
    """A fit of x' = -a*b*x, where data see the product only."""
    times = np.linspace(0.5, 6, 8)
    values = 10 * np.exp(-0.4 * times) + np.random.default_rng(0).normal(0, 0.3, 8)
    data = pf.Experiment(times, {"x": values}, initial={"x": 10.0})
    problem = pf.Problem(pf.Model("x' = -a*b*x"), data, {"a": a, "b": b}, noise=pf.Noise(additive=0.3))
    return pf.fit(problem, progress=False)


@pytest.mark.parametrize("prior", [pf.priors.HalfNormal(1), pf.priors.HalfCauchy(1)])
@pytest.mark.parametrize("method", [pf.LaplaceDraws(), pf.NUTS()])
def test_unknowns_that_run_off_together_are_refused(prior, method):
    """The integral of p(a)/a over a diverges at zero unless p vanishes there."""
    fit = product(pf.Parameter(0, prior=prior), (0, None))
    with pytest.raises(pf.InputError, match="no finite integral") as caught:
        fit.posterior(method, progress=False)
    assert caught.value.values["names"] == ["a", "b"]


@pytest.mark.parametrize(
    "a, b",
    [
        (pf.Parameter(0, prior=pf.priors.LogNormal(0, 1)), (0, None)),
        (pf.Parameter(0, prior=pf.priors.Gamma(1.1, 1)), (0, None)),  # p(a)/a is a^-0.9: just integrable
        (pf.Parameter(0, prior=pf.priors.HalfCauchy(1)), pf.Parameter(0, prior=pf.priors.HalfCauchy(1))),
    ],
)
def test_a_prior_that_vanishes_at_zero_or_two_priors_close_a_product(a, b):
    product(a, b).posterior(pf.LaplaceDraws(draws=64), progress=False)


def test_draws_that_run_off_are_not_trusted(recwarn):
    """A signed factor: the ridge is a hyperbola, which no axis of the optimum follows."""
    fit = product(pf.Parameter(None, None, prior=pf.priors.Cauchy(0, 1)), (0, None))
    found = fit.posterior(pf.NUTS(draws=20, chains=2, warmup=40), seed=0, progress=False)
    assert not found.trusted
    assert "inference.draws_run_off" in [one.code for one in found.warnings]
    assert "few" not in " ".join(one.sentence() for one in found.warnings if one.code == "inference.deep")
    assert not recwarn.list
