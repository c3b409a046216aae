"""Long recordings, thinned before their structure is examined."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.inference.thinning import held_extremes, thinned

TIMES = np.linspace(0, 10, 5001)


def test_a_short_pulse_stays():
    values = np.where(np.abs(TIMES - 7) < 0.005, 3.0, 0.0)
    table = held_extremes(pf.Table(TIMES, values), 100)
    assert table.values.max() == 3.0
    assert table.at(np.array([2.0, 7.0])) == pytest.approx([0.0, 3.0])


def test_a_fast_oscillation_keeps_its_size():
    table = held_extremes(pf.Table(TIMES, np.sin(300 * TIMES), "linear"), 100)
    assert np.abs(table.values).min() > 0.9


def test_there_are_no_more_rows_than_wanted():
    run = pf.Experiment(TIMES, {"x": TIMES}, inputs={"u": (TIMES, np.sin(TIMES))})
    found = thinned(run, 100)
    assert (len(found.times), len(found.inputs["u"].times)) == (100, 100)
    assert (found.times[0], found.times[-1]) == (0, 10)


def test_a_short_experiment_stays_as_it_is():
    run = pf.Experiment([0, 1, 2], {"x": [1, 2, 3]}, inputs={"u": ([0, 1], [1, 2])})
    assert thinned(run, 100) is run


def test_ten_thousand_rows_of_input_have_the_structure_of_few():
    """x' = -a*b*x + c*u: only the product a*b is determined."""
    rng = np.random.default_rng(0)
    times = np.linspace(0, 10, 10_000)
    model = pf.Model("x' = -a*b*x + c*u", inputs=["u"])
    plan = pf.plan(times, ["x"], inputs={"u": (times, rng.standard_normal(len(times)))})
    found = pf.structural(model, plan, parameters=dict.fromkeys("abc", (0.1, 3)), points=2)
    assert (found.rank, len(found.unknowns)) == (3, 4)
    assert found.groups[0].names == ("a", "b")


def test_values_between_wide_bounds_that_explode_are_replaced_by_those_near_the_data():
    times = np.linspace(0, 2, 9)
    values = 1 / (1 - 0.4 * times)  # of x' = k x^2
    problem = pf.Problem(pf.Model("x' = k*x**2"), pf.Experiment(times, {"x": values}), {"k": (0, 50)})
    found = pf.structural(problem)
    assert (found.points, found.identifiable) == (5, True)
