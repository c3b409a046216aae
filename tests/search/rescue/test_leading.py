"""Candidates that are fitted to the first samples before they are fitted to all."""

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.rescue.leading import first_samples, led
from picardfit.search.rescue.relay import find_candidates, rank
from picardfit.search.rescue.settings import Lead, Rescue
from picardfit.search.starts import candidates
from prey import counted_prey


@pytest.fixture(scope="module")
def pendulum() -> pf.Problem:
    """Six periods of a pendulum of which only the position is measured."""
    times = np.linspace(0, 12, 60)
    data = np.cos(np.pi * times) + 0.02 * np.random.default_rng(3).standard_normal(60)
    model = pf.Model("x' = v\nv' = -stiff*x - friction*v", observables=["x"])
    one = pf.Experiment(times, {"x": data}, initial={"x": 1.0, "v": 0.0})
    wide = {"stiff": pf.Parameter(1e-3, 1e3, log=True), "friction": pf.Parameter(1e-3, 1e3, log=True)}
    return pf.Problem(model, [one], wide)


def test_the_first_samples_of_every_experiment_are_kept():
    times = [np.linspace(0, 10, 20), np.geomspace(1, 1000, 10)]
    runs = [pf.Experiment(t, {"x": np.exp(-t), "y": t}, name=str(k)) for k, t in enumerate(times)]
    problem = pf.Problem(pf.Model("x' = -k*x\ny' = k"), runs, {"k": (0.1, 10)})
    short = first_samples(problem, 0.35, 3)
    assert [one.times.tolist() for one in short.experiments] == [times[0][:7].tolist(), times[1][:4].tolist()]
    assert [len(one.times) for one in first_samples(problem, 0.01, 3).experiments] == [3, 3]
    assert short.layout.names == problem.layout.names


def test_no_experiment_gets_shorter_than_it_may():
    problem = counted_prey()
    count = len(problem.experiments[0].times)
    assert len(first_samples(problem, 0.1, count + 5).experiments[0].times) == count


def test_candidates_stay_as_many_and_in_their_bounds(pendulum):
    given = np.full(pendulum.layout.lower.shape, np.nan)
    spread = candidates(pendulum, given, 12, 0)
    steps = list(led(pendulum, spread, Rescue()))
    lead = Lead()
    assert len(steps) == lead.steps * len(lead.parts)
    assert all(one.shape == spread.shape for one in steps)
    assert (steps[-1] >= pendulum.layout.lower).all()
    assert (steps[-1] <= pendulum.layout.upper).all()


def test_led_candidates_find_the_period(pendulum):
    settings = Rescue(candidates=64, lanes=16)
    given = np.full(pendulum.layout.lower.shape, np.nan)
    spread = candidates(pendulum, given, 16, 0)
    *_, led_there = led(pendulum, spread, settings)
    noise = 0.5 * 0.02**2 * pendulum.measurements
    near = [(rank(pendulum, many, settings).values < 10 * noise).sum() for many in (spread, led_there)]
    assert near[0] == 0
    assert near[1] >= 4


def test_an_interrupt_while_they_are_led_leaves_the_best_candidate(pendulum):
    given = np.full(pendulum.layout.lower.shape, np.nan)

    def stop(step, loss, jump):
        raise KeyboardInterrupt

    settings = Rescue(candidates=32, lanes=12)
    nothing = np.zeros((0, *given.shape))
    found = find_candidates(pendulum, given, 0, nothing, settings, stop)
    assert found.interrupted
    assert len(found.values) == 1
    assert np.isfinite(found.values[0])


def test_work_bounds_the_steps(pendulum):
    given, steps = np.full(pendulum.layout.lower.shape, np.nan), []
    nothing = np.zeros((0, *given.shape))
    whole = Rescue(candidates=32, lanes=12)
    free = find_candidates(pendulum, given, 0, nothing, whole, lambda *one: steps.append(one))
    taken = len(steps)
    steps.clear()
    half = replace(whole, work=free.work / 2)
    bounded = find_candidates(pendulum, given, 0, nothing, half, lambda *one: steps.append(one))
    assert 0 < len(steps) < taken
    assert bounded.work <= half.work
