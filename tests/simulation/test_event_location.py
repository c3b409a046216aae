"""Simulation of models with events."""

import numpy as np
import pytest

import picardfit as pf

FALLING = pf.Model("x' = -k*x^2*t\nwhen x < c: x = x + v")
VALUES = {"k": 0.7, "c": 0.5, "v": 1.5}


def exact(times, k, c, v, first=2.0):
    """x' = -k x^2 t between events: 1/x = 1/a + k (t^2 - s^2)/2 after a at s."""
    found = []
    for t in times:
        a, s = first, 0.0
        while (end := np.sqrt(s**2 + 2 / k * (1 / c - 1 / a))) <= t:
            a, s = c + v, end
        found.append(1 / (1 / a + k * (t**2 - s**2) / 2))
    return np.array(found)


def test_the_closed_form_of_repeated_events():
    times = np.linspace(0, 8, 41)
    found = pf.simulate(FALLING, VALUES, {"x": 2.0}, times)
    np.testing.assert_allclose(found.states["x"], exact(times, **VALUES), rtol=1e-9)


def test_a_bouncing_ball_keeps_its_period():
    ball = pf.Model("h' = w\nw' = -g\nwhen h < 0: w = -e*w")
    period = 2 * np.sqrt(2 / 9.81)
    times = np.sqrt(2 / 9.81) + period * np.arange(4) + 0.3 * period
    found = pf.simulate(ball, {"g": 9.81, "e": 1.0}, {"h": 1.0, "w": 0.0}, times)
    np.testing.assert_allclose(found.states["h"], found.states["h"][0], rtol=1e-8)


def test_a_tank_switches_at_both_thresholds():
    tank = pf.Model(
        "level' = pump*q - k*level\npump' = 0\nwhen level > high: pump = 0\nwhen level < low: pump = 1"
    )
    values = {"q": 2.0, "k": 0.3, "high": 3.0, "low": 1.0}
    found = pf.simulate(tank, values, {"level": 2.0, "pump": 1.0}, np.linspace(0, 20, 2001))
    assert found.states["level"].max() == pytest.approx(3.0, abs=0.02)
    assert found.states["level"][200:].min() == pytest.approx(1.0, abs=0.02)


def test_the_state_at_the_time_of_an_event_is_the_one_after_it():
    found = pf.simulate(pf.Model("x' = 0\nwhen t > 1: x = x + 1"), {}, {"x": 0.0}, [0.5, 1.0, 2.0])
    assert found.states["x"].tolist() == [0.0, 1.0, 1.0]


def test_events_at_one_time_happen_in_the_order_in_which_they_are_written():
    found = pf.simulate(pf.Model("x' = 0\nwhen t > 1: x = 5\nwhen t > 1: x = 2*x"), {}, {"x": 0.0}, [2.0])
    assert found.states["x"][0] == 10.0


def test_a_condition_that_holds_at_the_start_has_not_become_true():
    found = pf.simulate(pf.Model("x' = -x\nwhen x > 3: x = 0"), {}, {"x": 5.0}, [1.0])
    assert found.states["x"][0] == pytest.approx(5 * np.exp(-1))


def test_an_event_at_the_first_instant_fires_there():
    found = pf.simulate(pf.Model("x' = 0\nwhen t > 0: x = x + 1"), {}, {"x": 1.0}, [0.5])
    assert found.states["x"][0] == 2.0


def test_a_dose_may_cause_an_event():
    model = pf.Model("x' = 0\ny' = 0\nwhen x > 3: y = 1")
    found = pf.simulate(model, {}, {"x": 0.0, "y": 0.0}, [0.5, 1.5], doses=pf.Doses([1.0], 5.0, into="x"))
    assert found.states["y"].tolist() == [0.0, 1.0]


def test_an_event_may_cause_another():
    model = pf.Model("x' = 1\ny' = 0\nwhen x > 1: y = y + 1\nwhen y > 0.5: x = 0; y = 0")
    assert pf.simulate(model, {}, {"x": 0.0, "y": 0.0}, [1.5]).states["x"][0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "initial", "code"),
    [
        ("x' = 1\nwhen x > 1: x = 2", {"x": 0.0}, "simulation.event_not_left"),
        (
            "x' = 1\ny' = 0\nwhen x > 1: x = 0; y = 1\nwhen y > 0.5: x = 2; y = 0",
            {"x": 0.0, "y": 0.0},
            "simulation.event_chain",
        ),
        ("h' = w\nw' = -9.81\nwhen h < 0: w = -0.8*w", {"h": 1.0, "w": 0.0}, "simulation.zeno"),
        ("x' = 1\nwhen x > 1: x = log(-x)", {"x": 0.0}, "simulation.event_not_finite"),
    ],
)
def test_events_without_end_are_named(text, initial, code):
    with pytest.raises(pf.InputError) as caught:
        pf.simulate(pf.Model(text), {}, initial, [10.0])
    assert caught.value.code == code


def test_a_stiff_model_with_events():
    model = pf.Model("x' = -1e6*(x - cos(t))\ny' = x\nwhen y > 0.5: y = 0")
    found = pf.simulate(model, {}, {"x": 1.0, "y": 0.0}, [1.0])
    assert found.states["y"][0] == pytest.approx(np.sin(1.0) - 0.5, abs=1e-5)


@pytest.mark.parametrize("kept", [0.45, 0.4, 0.3, 0.1, 0.01, 1e-4])
def test_bounces_that_shrink_fast_are_named_before_the_ball_falls_through(kept):
    ball = pf.Model("h' = w\nw' = -9.81\nwhen h < 0: w = -e*w")
    with pytest.raises(pf.InputError, match="again and again"):
        pf.simulate(ball, {"e": kept}, {"h": 1.0, "w": 0.0}, np.linspace(0.1, 10, 100))


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("t > 5 && t < 5.5", 1),
        ("t > 5 && t < 5.02", 1),
        ("sin(t) > 0.9", 2),
        ("sin(t) > 0.999", 2),
        ("s > 5 && s < 5.02", 1),
        ("s > 3 && s < 3.02 || t > 7 && t < 7.02", 2),
    ],
)
def test_a_condition_that_holds_for_a_moment_fires_however_long_the_steps_are(condition, count):
    model = pf.Model(f"x' = 0\ns' = 1\nwhen {condition}: x = x + 1")
    found = pf.simulate(model, {}, {"x": 0.0, "s": 0.0}, [1.0, 10.0])
    assert found.states["x"][-1] == count


def test_a_trigger_with_a_pole_goes_on_firing():
    times = np.linspace(0.25, 9.75, 39)
    found = pf.simulate(pf.Model("x' = 1\nwhen 1/(x - 1) > 5: x = 0"), {}, {"x": 0.0}, times)
    away = np.abs(times % 1.0) > 1e-9
    np.testing.assert_allclose(found.states["x"][away], (times % 1.0)[away], atol=1e-9)
