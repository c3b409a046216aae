"""Bootstrap samples: reproducible, as wide as theory says, gaps kept."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.evidence.certificate import path_rows
from picardfit.inference.bootstrap import bootstrap, draw_residuals, fit_to_new_data

DECAY = pf.Model("x' = -k*x")
TIMES = np.linspace(0, 3, 25)


def problem(seed=0, sd=0.05) -> pf.Problem:
    noise = sd * np.random.default_rng(seed).standard_normal(len(TIMES))
    values = 2 * np.exp(-0.7 * TIMES) + noise
    values[[3, 8]] = np.nan
    return pf.Problem(DECAY, pf.Experiment(TIMES, {"x": values}), {"k": (0, 5)})


@pytest.fixture(scope="module")
def fit():
    return pf.fit(problem())


@pytest.mark.parametrize("kind", ["parametric", "residual"])
def test_samples_spread_as_fishers_standard_errors(fit, kind):
    """200 samples: a standard deviation is known to 5 %."""
    found = fit.bootstrap(200, kind=kind)
    for name, error in fit.standard_errors.items():
        assert found.standard_errors[name] == pytest.approx(error, rel=0.2)
        assert abs(found.bias[name]) < 4 * error / np.sqrt(200) + 0.05 * error
    assert found.failures == 0


def test_intervals_are_percentiles(fit):
    found = fit.bootstrap(50, seed=3)
    assert found.intervals(0.8)["k"] == pytest.approx(np.quantile(found.samples["k"], [0.1, 0.9]))
    assert found.estimates["k"] == pytest.approx(fit.parameters["k"])


def test_samples_depend_on_the_seed_only(fit):
    serial = fit.bootstrap(6, seed=1)
    assert not np.array_equal(serial.samples["k"], fit.bootstrap(6, seed=2).samples["k"])
    np.testing.assert_array_equal(serial.samples["k"], fit.bootstrap(8, seed=1).samples["k"][:6])


@pytest.mark.parametrize("pool, workers", [(ThreadPoolExecutor, 1), (ProcessPoolExecutor, 2)])
def test_samples_are_the_same_with_an_executor(fit, pool, workers):
    with pool(workers) as executor:
        found = fit.bootstrap(30, seed=1, executor=executor)
    np.testing.assert_array_equal(found.unknowns, fit.bootstrap(30, seed=1).unknowns)


@pytest.mark.parametrize("lines", [1, 2, 5, 7])
def test_a_bootstrap_goes_on_after_any_line(fit, tmp_path, lines):
    path, done = tmp_path / "run.jsonl", []
    serial = fit.bootstrap(6, ledger=path)
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:lines]) + b"".join(whole[lines : lines + 1])[:20])
    found = fit.bootstrap(6, ledger=path, progress=lambda *news: done.append(news))
    np.testing.assert_array_equal(found.unknowns, serial.unknowns)
    assert done == [(k, 6) for k in range(lines, 7)]


def test_a_ledger_of_a_bootstrap_may_get_more_samples(fit, tmp_path):
    fit.bootstrap(4, ledger=tmp_path / "run.jsonl")
    with ProcessPoolExecutor(2) as executor:
        found = fit.bootstrap(9, ledger=tmp_path / "run.jsonl", executor=executor)
    np.testing.assert_array_equal(found.unknowns, fit.bootstrap(9).unknowns)


@pytest.mark.parametrize(
    "change, culprit",
    [({"seed": 1}, "seed"), ({"kind": "residual"}, "kind")],
)
def test_a_ledger_of_another_bootstrap_is_refused(fit, tmp_path, change, culprit):
    fit.bootstrap(3, ledger=tmp_path / "run.jsonl")
    error = complaint(lambda: fit.bootstrap(3, ledger=tmp_path / "run.jsonl", **change))
    assert (error.code, error.values["names"]) == ("parallel.ledger_of_another_run", [culprit])


def test_a_ledger_of_profiles_is_refused(fit, tmp_path):
    fit.profile("k", ledger=tmp_path / "run.jsonl")
    error = complaint(lambda: fit.bootstrap(3, ledger=tmp_path / "run.jsonl"))
    assert (error.code, error.values["names"]) == (
        "parallel.ledger_of_another_run",
        ["work", "kind", "seed", "level"],
    )


def test_an_interrupt_keeps_the_samples_that_are_done(fit, tmp_path):
    def stop(done, total):
        if done == 4:
            raise KeyboardInterrupt

    found = fit.bootstrap(9, ledger=tmp_path / "run.jsonl", progress=stop)
    assert (len(found.unknowns), found.missing) == (4, 5)
    assert "5 not done (interrupted)" in str(found)
    whole = fit.bootstrap(9, ledger=tmp_path / "run.jsonl")
    assert whole.missing == 0
    np.testing.assert_array_equal(whole.unknowns, fit.bootstrap(9).unknowns)


def test_an_interrupt_before_two_samples_is_passed_on(fit):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit.bootstrap(9, progress=stop)


def test_fits_that_break_down_are_counted(fit):
    def fragile(*args):
        if args[-1] % 2:
            raise ArithmeticError("too fast")
        return fit_to_new_data(*args)

    found = bootstrap(fit, 6, "parametric", 0, refit_to=fragile)
    assert (len(found.unknowns), found.failures) == (3, 3)
    error = complaint(lambda: bootstrap(fit, 2, "parametric", 0, refit_to=fragile))
    assert (error.code, error.values["failed"], error.values["count"]) == (
        "inference.bootstrap_broke_down",
        1,
        2,
    )
    assert error.values["reason"].values == {"kind": "ArithmeticError", "message": "too fast"}


def test_one_sample_is_the_fit_to_its_data(fit):
    sd = np.sqrt(fit.residual_variance)
    noise = sd * np.random.default_rng([4, 0]).standard_normal((23, 1))
    times = fit.problem.experiments[0].times
    data = fit.predict("experiment 1", times)["x"] + noise[:, 0]
    expected = pf.fit(pf.Problem(DECAY, pf.Experiment(times, {"x": data}), {"k": (0, 5)}))
    assert fit.bootstrap(2, seed=4).samples["k"][0] == pytest.approx(expected.parameters["k"], rel=1e-5)


def test_a_noise_model_is_drawn_from():
    """Proportional noise: the spread of k is that of Fisher's information with it."""
    values = 2 * np.exp(-0.7 * TIMES) * (1 + 0.1 * np.random.default_rng(2).standard_normal(len(TIMES)))
    given = pf.Problem(
        DECAY, pf.Experiment(TIMES, {"x": values}), noise=pf.Noise(additive=1e-3, proportional=0.1)
    )
    fit = pf.fit(given)
    assert fit.bootstrap(100).standard_errors["k"] == pytest.approx(fit.standard_errors["k"], rel=0.25)


@pytest.mark.parametrize(
    "noise",
    [
        pf.Noise(additive=(0.001, 1.0)),
        pf.Noise(additive=0.02, proportional=0.1),
        pf.Noise(additive="0.02 + 0.1*x"),
        pf.LogNormal(sigma=0.05, base=10),
        pf.StudentT(additive=0.1),
        pf.Laplace(scale=(0.001, 1.0)),
    ],
    ids=lambda noise: type(noise).__name__,
)
def test_residuals_are_exchanged_in_units_of_their_levels(noise):
    """New data differ from the curve by one of the standardised residuals, at the level of their own sample."""
    values = 2 * np.exp(-0.7 * TIMES) * (1 + 0.1 * np.random.default_rng(2).standard_normal(len(TIMES)))
    fit = pf.fit(pf.Problem(DECAY, pf.Experiment(TIMES, {"x": values}), noise=noise))
    objective, rows = fit.problem.objective, path_rows(fit.solution)
    gaps = objective.gaps(rows)
    np.testing.assert_allclose(objective.moved(rows, gaps)[:, 0], values, rtol=1e-10)
    shuffled = np.roll(gaps, 7, axis=0)
    renewed = fit.problem.with_data(objective.moved(rows, shuffled)).objective
    np.testing.assert_allclose(renewed.gaps(rows), shuffled, atol=1e-10)
    found = fit.bootstrap(60, kind="residual", seed=1)
    assert found.failures == 0
    assert 0.5 < found.standard_errors["k"] / fit.standard_errors["k"] < 2


def test_residuals_take_the_size_of_the_noise_from_the_data():
    """The level given is ten times too small: a residual bootstrap sees it, a parametric one believes it."""
    values = 2 * np.exp(-0.7 * TIMES) * (1 + 0.1 * np.random.default_rng(2).standard_normal(len(TIMES)))
    noise = pf.Noise(proportional=0.01)
    fit = pf.fit(pf.Problem(DECAY, pf.Experiment(TIMES, {"x": values}), noise=noise))
    spread = {kind: fit.bootstrap(60, kind=kind).standard_errors["k"] for kind in ("residual", "parametric")}
    assert 6 < spread["residual"] / spread["parametric"] < 14


def test_residuals_that_belong_together_are_not_exchanged():
    noise = pf.Noise(additive=0.02, proportional=0.1, common=True)
    fit = pf.fit(pf.Problem(DECAY, pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES)}), noise=noise))
    assert complaint(lambda: fit.bootstrap(5, kind="residual")).code == "inference.common_residuals"


def test_an_outlier_does_not_move_the_centre_of_robust_residuals():
    residuals = np.r_[np.arange(-5.0, 6.0), 1000.0][:, None]
    drawn = draw_residuals(residuals, 12, [0], np.random.default_rng(0))
    assert np.abs(drawn).min() == pytest.approx(0.5)


def test_residuals_are_drawn_from_their_own_observable():
    rng = np.random.default_rng(0)
    residuals = np.stack([rng.standard_normal(40), 100 * rng.standard_normal(40)], axis=1)
    residuals[5, 0] = np.nan
    drawn = draw_residuals(residuals, 70, [], rng)
    pool = residuals[np.isfinite(residuals[:, 0]), 0]
    allowed = np.sqrt(79 / 70) * (pool - pool.mean())
    assert np.abs(drawn[:, 0][:, None] - allowed).min(axis=1).max() < 1e-12


def test_text_and_table(fit):
    found = fit.bootstrap(4)
    assert "parametric bootstrap: 4 fits" in str(found)
    assert list(found.to_frame().columns) == list(found.samples)
    assert len(found.to_frame()) == 4


@pytest.mark.parametrize(
    "options, code, subject",
    [
        ({"count": 1}, "errors.not_whole", "count"),
        ({"count": 2.5}, "errors.not_whole", "count"),
        ({"kind": "wild"}, "inference.bootstrap_kind", ""),
        ({"seed": -1}, "errors.not_whole", "seed"),
    ],
)
def test_bad_settings_are_named(fit, options, code, subject):
    error = complaint(lambda: fit.bootstrap(**options))
    assert (error.code, error.subject) == (code, subject)


def test_no_degrees_of_freedom_are_said():
    exact = pf.fit(pf.Problem(DECAY, pf.Experiment([0, 1], {"x": [2.0, 1.0]})))
    assert complaint(lambda: exact.bootstrap(5)).code == "inference.no_freedom"
    known = pf.fit(pf.Problem(DECAY, pf.Experiment([0, 1], {"x": [2.0, 1.0]}), noise=pf.Noise(additive=0.1)))
    assert complaint(lambda: known.bootstrap(5, kind="residual")).code == "inference.no_freedom_residual"
