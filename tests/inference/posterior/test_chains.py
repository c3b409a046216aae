"""Runs of chains: in blocks, with a ledger, interrupted and resumed, in threads."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.inference.posterior.attempt import LaneSettings
from picardfit.inference.posterior.chains import run_nuts
from picardfit.inference.posterior.setup import mode_of, target_of

TIMES = np.linspace(0.5, 4.0, 8)
METHOD = pf.NUTS(draws=25, chains=3, warmup=30, block=10)


@pytest.fixture(scope="module")
def fit():
    values = 2 * np.exp(-0.7 * TIMES) + 0.05 * np.sin(9 * TIMES)
    data = pf.Experiment(TIMES, {"x": values}, t0=0.0)
    noise = pf.Noise(additive=pf.Parameter(0.001, prior=pf.priors.HalfNormal(0.2)))
    return pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0.1, 3)}, {"x": (0, 9)}, noise=noise))


@pytest.fixture(scope="module")
def whole(fit):
    return fit.posterior(METHOD, seed=4, progress=False)


def same(one, other):
    np.testing.assert_array_equal(one.drawn.z, other.drawn.z)
    np.testing.assert_array_equal(one.drawn.energy, other.drawn.energy)
    np.testing.assert_array_equal(one.drawn.steps, other.drawn.steps)
    assert one.drawn.leaps == other.drawn.leaps
    assert one.drawn.exploded == other.drawn.exploded


class Stop:
    """Interrupts after so many iterations of all chains."""

    def __init__(self, after):
        self.after = after

    def __call__(self, done, total, divergent):
        if done >= self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [3 * 12, 3 * 34, 3 * 48], ids=["warm-up", "first draws", "last block"])
def test_a_resumed_run_has_the_digits_of_one_that_was_not_interrupted(fit, whole, tmp_path, after):
    ledger = tmp_path / "draws.jsonl"
    try:
        partial = fit.posterior(METHOD, seed=4, ledger=ledger, progress=Stop(after))
        assert 0 < partial.shape[1] < 25
        np.testing.assert_array_equal(partial["k"], whole["k"][:, : partial.shape[1]])
    except KeyboardInterrupt:
        assert after < 3 * METHOD.warmup
    steps = []
    again = fit.posterior(METHOD, seed=4, ledger=ledger, progress=lambda done, *_: steps.append(done))
    same(again, whole)
    assert steps[0] > after - 3 * 15  # what the ledger holds is not done again


def test_a_finished_ledger_gives_the_draws_at_once(fit, whole, tmp_path):
    ledger, calls = tmp_path / "draws.jsonl", []
    fit.posterior(METHOD, seed=4, ledger=ledger, progress=False)
    same(fit.posterior(METHOD, seed=4, ledger=ledger, progress=lambda *_: calls.append(1)), whole)
    assert not calls


def test_a_ledger_of_another_run_is_refused(fit, tmp_path):
    ledger = tmp_path / "draws.jsonl"
    fit.posterior(METHOD, seed=4, ledger=ledger, progress=False)
    for method, seed in ((METHOD, 5), (pf.NUTS(draws=26, chains=3, warmup=30, block=10), 4)):
        with pytest.raises(pf.InputError) as caught:
            fit.posterior(method, seed=seed, ledger=ledger, progress=False)
        assert caught.value.code == "parallel.ledger_of_another_run"


def test_weighted_draws_keep_no_ledger(fit, tmp_path):
    with pytest.raises(pf.InputError) as caught:
        fit.posterior(pf.LaplaceDraws(10), ledger=tmp_path / "draws.jsonl")
    assert caught.value.code == "inference.posterior_ledger"


def test_lanes_in_threads_give_the_digits_of_lanes_one_after_the_other(fit):
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace

    mode = mode_of(fit)
    target = target_of(fit, mode, 3, np.random.default_rng(0))
    assert target.lanes.count == 3
    apart = replace(target.lanes, settings=replace(LaneSettings(), large=1)).apart
    assert apart.count == 1
    alone = run_nuts(METHOD, replace(target, lanes=apart), [mode], 0, lambda *_: None)
    with ThreadPoolExecutor(3) as pool:
        target = replace(target, lanes=apart, pool=pool)
        np.testing.assert_array_equal(run_nuts(METHOD, target, [mode], 0, lambda *_: None).z, alone.z)
