"""Parameters matched to a guessed path with events, on a sawtooth: no equation is solved."""

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.events.matching import match_events
from picardfit.search.events.revision import start_along
from sawtooth import TIMES, TRUTH, sawtooth, unknowns_of


@pytest.fixture(scope="module")
def guess():
    """A problem, and the start on its exact path with wrong parameters."""
    problem = sawtooth()
    start = start_along(problem, unknowns_of(problem))
    return problem, replace(start, unknowns=unknowns_of(problem, a=2.5, c=2.0, v=0.4))


def named(problem, unknowns):
    return dict(zip(problem.layout.names, problem.layout.parameters(unknowns)[0].tolist(), strict=True))


def test_rates_thresholds_and_resets_are_read_off_the_path(guess):
    problem, start = guess
    found = match_events(problem, start, [[0]], problem.layout.exists)
    assert named(problem, found) == pytest.approx(TRUTH, rel=1e-4)


def test_parameters_that_are_not_open_stay(guess):
    problem, start = guess
    open_ = problem.layout.exists & (np.array(problem.layout.names) == "v")
    found = match_events(problem, start, [[0]], open_)
    assert named(problem, found) == pytest.approx({"a": 2.5, "c": 2.0, "v": 1.0}, rel=1e-4)
    assert match_events(problem, start, [[0]], np.zeros_like(open_)) is start.unknowns


def test_what_nobody_measures_is_not_matched(guess):
    problem, start = guess
    assert match_events(problem, start, [[]], problem.layout.exists) == pytest.approx(start.unknowns)


def test_parameters_stay_inside_their_bounds(guess):
    problem, start = guess
    narrow = pf.Problem(
        problem.model, problem.experiments, {"a": (1.5, 3), "c": (1.5, 3), "v": (0.3, 0.6)}, {"x": 0.0}
    )
    unknowns = unknowns_of(narrow, a=2.5, c=2.0, v=0.4)
    found = match_events(narrow, replace(start, unknowns=unknowns), [[0]], narrow.layout.exists)
    assert named(narrow, found) == pytest.approx({"a": 1.5, "c": 1.5, "v": 0.6}, abs=1e-3)


def test_a_path_of_two_experiments_shares_its_parameters(guess):
    problem, _ = guess
    other = pf.Experiment(TIMES, {"x": problem.experiments[0].values[:, 0]}, name="second")
    both = pf.Problem(
        problem.model,
        [*problem.experiments, other],
        {"a": (0.3, 3), "c": (1.05, 3), "v": (0.3, 2)},
        {"x": 0.0},
    )
    start = start_along(both, unknowns_of(both))
    wrong = replace(start, unknowns=unknowns_of(both, a=2.0, c=1.5, v=0.7))
    found = match_events(both, wrong, [[0], [0]], both.layout.exists)
    assert (found[0] == found[1]).all()
    assert named(both, found) == pytest.approx(TRUTH, rel=1e-4)
