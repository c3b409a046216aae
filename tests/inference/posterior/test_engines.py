"""Samplers of other packages on the same density: they find the posterior that is known in closed form."""

import signal
import sys
import threading

import numpy as np
import pytest

import picardfit as pf
from picardfit.inference.posterior.engines import common_draws

TIMES, VALUES, SD = np.array([0.0, 1.0, 2.0, 4.0]), np.array([1.1, 1.4, 2.1, 2.9]), 0.2
METHODS = {
    "nutpie": pf.Nutpie(draws=300, chains=2, warmup=150),
    "emcee": pf.Emcee(draws=400, walkers=12, warmup=100),
}


@pytest.fixture(scope="module")
def fit():
    parameters = {"p": pf.Parameter(prior=pf.priors.Normal(1.0, 0.5))}
    initial = {"x": pf.Parameter(prior=pf.priors.Normal(0.0, 1.0))}
    noise, data = pf.Noise(additive=SD), pf.Experiment(TIMES, {"x": VALUES})
    return pf.fit(pf.Problem(pf.Model("x' = p"), data, parameters, initial, noise=noise))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", METHODS)
def test_means_and_spreads_are_the_exact_ones(fit, name):
    pytest.importorskip(name)
    found = fit.posterior(METHODS[name], seed=2, progress=False)
    design = np.stack([TIMES, np.ones(4)], axis=1)
    covariance = np.linalg.inv(design.T @ design / SD**2 + np.diag([4.0, 1.0]))
    mean, table = covariance @ (design.T @ VALUES / SD**2 + [4.0, 0.0]), found.summary()
    for k, unknown in enumerate(("p", "x(0)")):
        assert table.loc[unknown, "mean"] == pytest.approx(mean[k], abs=4.5 * table.loc[unknown, "mcse"])
        assert table.loc[unknown, "sd"] == pytest.approx(np.sqrt(covariance[k, k]), rel=0.15)
    assert found.divergences == 0
    again = fit.posterior(METHODS[name], seed=2, progress=False)
    np.testing.assert_array_equal(found["p"], again["p"])


@pytest.mark.parametrize("name", METHODS)
def test_a_package_that_is_missing_is_named(fit, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(pf.InputError) as caught:
        fit.posterior(METHODS[name], progress=False)
    assert caught.value.code == "inference.no_sampler"
    assert caught.value.subject == name


def test_an_interrupted_ensemble_keeps_what_is_drawn(fit):
    pytest.importorskip("emcee")

    def stop(done, *_):
        if done == 150:
            raise KeyboardInterrupt

    found = fit.posterior(METHODS["emcee"], progress=stop)
    assert found.shape == (12, 50)
    assert "Interrupted: 4200 of 4800 draws are missing" in str(found)


def test_ctrl_c_within_an_iteration_of_the_ensemble_prints_no_traceback(fit, capsys):
    """emcee prints what its likelihood raises; SIGINT comes while that is computed."""
    pytest.importorskip("emcee")
    seen = 0

    def stop(done, *_):
        nonlocal seen
        seen = done
        if done == 150:  # reaches the main thread at its next instruction or a little later
            threading.Timer(0.001, signal.raise_signal, (signal.SIGINT,)).start()

    found = fit.posterior(METHODS["emcee"], progress=stop)
    assert found.shape[1] in (seen - 100, seen - 99)
    assert found.drawn.missing == 12 * (400 - found.shape[1])
    printed = capsys.readouterr()
    assert "Exception" not in printed.out + printed.err


@pytest.mark.parametrize(
    "lengths, chains, count",
    [([5, 5, 5], [0, 1, 2], 5), ([5, 3, 0], [0, 1], 3), ([5, 1, 0], [0], 5), ([0, 5, 4], [1, 2], 4)],
)
def test_ragged_chains_are_cut_to_where_most_draws_are_kept(lengths, chains, count):
    known = np.arange(5) < np.array(lengths)[:, None]
    found, kept = common_draws(known)
    assert (found.tolist(), kept) == (chains, count)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_interrupted_chains_of_nutpie_are_kept(fit):
    pytest.importorskip("nutpie")
    threading.Timer(1.5, signal.raise_signal, (signal.SIGINT,)).start()
    found = fit.posterior(pf.Nutpie(draws=3000, chains=4, warmup=20), progress=False)
    assert np.isfinite(found["p"]).all()
    assert found.drawn.missing == 12000 - found["p"].size > 0
    assert "Interrupted" in str(found)
