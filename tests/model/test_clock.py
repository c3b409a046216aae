"""Models with modes and a clock."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.model.clock import CLOCK, moves, timed

SWITCH = pf.Model("x' = a*(t < ts) - k*x")


def test_a_condition_on_time_and_a_free_parameter_moves():
    assert moves(SWITCH, {"ts"})
    assert not moves(SWITCH, {"a", "k"})
    assert not moves(pf.Model("x' = a*(t < 3) - k*x"), {"a", "k"})


def test_a_condition_becomes_a_mode_that_two_events_change():
    made = timed(SWITCH)
    assert made.fitted.states == ("x", "mode of (t < ts)", CLOCK)
    assert [str(one.trigger) for one in made.simulated.events] == ["-t + ts", "t - ts"]


@pytest.mark.parametrize(("ts", "mode"), [(2.0, 1.0), (-1.0, 0.0)])
def test_modes_at_the_start(ts, mode):
    params = np.array([{"a": 1.0, "ts": ts, "k": 1.0}[name] for name in SWITCH.parameters])
    assert timed(SWITCH).modes(0.0, params, np.zeros(0)).tolist() == [mode]


@pytest.mark.parametrize("formula", ["max(t - lag, 0)", "abs(t - lag)", "min(t, lag)", "max(lag, t)"])
@pytest.mark.parametrize("t", [1.0, 3.0])
def test_kinks_in_time_are_written_with_their_mode(formula, t):
    model, params, nothing = pf.Model(f"x' = {formula}"), np.array([2.0]), np.zeros(0)
    made = timed(model)
    given = np.array([0.0, *made.modes(t, params, nothing), t])
    expected = model.rhs.value(t, np.zeros(1), params, nothing)
    assert made.fitted.rhs.value(0.0, given, params, nothing)[0] == expected[0]


def test_a_function_that_decides_on_values_is_refused():
    def f(t, x, p):
        return [-p[0] * x[0] if x[0] > 1 else 0.0]

    with pytest.raises(pf.InputError) as caught:
        timed(pf.Model.from_function(f, ["x"], ["k"], events=["when x < 1: x = 2"]))
    assert caught.value.code == "model.events_of_function"


def test_increments_are_refused():
    model = pf.Model("x' = k\nwhen x > 3: x = 0", observables={"y": "increment(x)"})
    with pytest.raises(pf.InputError) as caught:
        timed(model)
    assert caught.value.code == "model.events_with_increments"
