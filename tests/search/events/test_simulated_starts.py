"""Starts on the simulated events of what is known, where noise hides or adds events in the data."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.events.simulated_starts import given_start, scanned_start, with_known_parameters
from picardfit.search.searches import value_at
from picardfit.search.starts import make_start
from sawtooth import sawtooth, unknowns_of

ROOM = pf.Model(
    "T' = on*heat - loss*T\non' = 0\nwhen T > 21.5: on = 0\nwhen T < 19.5: on = 1", observables=["T"]
)
HELD = {"heat": 3.0, "loss": 0.06}
BOUNDS = {"heat": (0.5, 10), "loss": (0.01, 0.3)}
TIMES = np.arange(0, 16, 0.25)
SD = 0.15
ONE = pf.SearchPolicy(most=1)


def room(begin: float, seed: int, parameters=HELD) -> pf.Problem:
    """A heated room, its first temperature unknown, with noise that makes turns of its curve uncertain."""
    clean = pf.simulate(ROOM, HELD, {"T": begin, "on": 1.0}, TIMES).observables["T"]
    noisy = clean + SD * np.random.default_rng(seed).standard_normal(len(TIMES))
    data = pf.Experiment(TIMES, {"T": noisy})
    return pf.Problem(ROOM, data, parameters, {"T": (15, 25), "on": 1.0}, noise=pf.Noise(SD))


def worth_in(problem):
    return lambda unknowns: value_at(problem, unknowns)


def test_only_unknowns_of_the_equations_count():
    assert with_known_parameters(room(18.0, 0))
    assert not with_known_parameters(room(18.0, 0, BOUNDS))
    level = pf.Problem(
        ROOM,
        room(18.0, 0).experiments,
        HELD,
        {"T": (15, 25), "on": 1.0},
        noise=pf.Noise(additive=(0.01, 2)),
    )
    assert with_known_parameters(level)


def test_a_scan_finds_the_initial_state_whose_events_fit():
    problem = room(18.0, 0)
    start = make_start(problem)
    far = make_start(problem, np.array([[24.0]]))
    free = np.zeros_like(problem.layout.exists)
    found = [scanned_start(problem, far, free, rank, worth_in(problem), 0) for rank in range(3)]
    values = [value_at(problem, one.unknowns) for one in found]
    assert values == sorted(values)
    assert abs(found[0].unknowns[0, 0] - 18.0) < 0.7
    assert scanned_start(problem, start, free, 1000, worth_in(problem), 0) is None


def test_what_the_user_gives_is_kept():
    problem = room(18.0, 0)
    start = make_start(problem, np.array([[18.3]]))
    found = scanned_start(problem, start, np.isfinite(start.unknowns), 0, worth_in(problem), 0)
    assert found.unknowns == pytest.approx(np.array([[18.3]]))


def test_the_better_of_given_and_matched_values():
    problem = sawtooth()
    right, wrong = make_start(problem, unknowns_of(problem)), make_start(problem, unknowns_of(problem, a=2.5))
    assert given_start(problem, right, wrong, worth_in(problem)).unknowns == pytest.approx(right.unknowns)
    assert given_start(problem, wrong, right, worth_in(problem)) is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("begin", [18.0, 20.5])
def test_an_unknown_beginning_of_a_held_thermostat(begin, seed):
    problem = room(begin, seed)
    for start in (None, {"T": begin}):
        fit = pf.fit(problem, start_initial=start, progress=False)
        assert fit.success
        assert fit.nllh <= problem.nllh({}, {"T": begin}) + 1e-6
        assert abs(fit.initial_states["experiment 1"]["T"] - begin) < 0.3


def test_a_thermostat_from_the_truth():
    problem = room(18.0, 1, BOUNDS)
    fit = pf.fit(problem, start=HELD, start_initial={"T": 18.0}, policy=ONE, progress=False)
    assert fit.success
    assert fit.nllh <= problem.nllh(HELD, {"T": 18.0}) + 1e-6


def test_validation_fits_the_beginning_of_another_day():
    fit = pf.fit(room(18.0, 1, BOUNDS), start=HELD, policy=ONE, progress=False)
    other = pf.Experiment(TIMES, room(20.5, 2).experiments[0].observations, name="other")
    found = fit.validate(other)
    assert found.scores["other"]["T"].r_squared > 0.9
    assert abs(found.initial_states["other"]["T"] - 20.5) < 0.3
