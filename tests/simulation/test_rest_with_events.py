"""States of rest behind events, against closed forms and differences."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.simulation.rest_with_events import EventfulRest, rest_with_events

NOTHING = np.zeros(0)


def rest(model, start, params, **options):
    return rest_with_events(model, 0.0, np.array(start, float), np.array(params, float), NOTHING, **options)


def test_a_rest_that_remembers_its_events():
    """x' = y, y' = 0 until x reaches c, where both are set: the rest is (s, 0) with s = p c + q y0."""
    model = pf.Model("x' = y\ny' = 0*c\nwhen x > c: x = p*x + q*y; y = 0")
    found = rest(model, [0.5, 2.0], [1.5, -3.0, 1.0])  # c, p, q
    assert model.parameters == ("c", "p", "q")
    assert found.states == pytest.approx([-3.0 * 1.5 + 1.0 * 2.0, 0.0])
    assert found.by_params == pytest.approx(np.array([[-3.0, 1.5, 2.0], [0, 0, 0]]), abs=1e-8)
    assert found.by_start == pytest.approx(np.array([[0.0, 1.0], [0.0, 0.0]]), abs=1e-8)


def test_derivatives_through_several_events_are_those_of_differences():
    """The order of the pieces matters: z keeps what flows while the level is high."""
    model = pf.Model(
        """
        level' = q*on - k*level
        on'    = 0
        z'     = on*level^2/10 - k*(z - level)*0
        when level > high: on = 0; level = level - 0.2
        when z > 0.35: z = z + level
        """
    )
    values, start = np.array([2.0, 0.4, 1.5]), np.array([0.3, 1.0, 0.1])
    assert model.parameters == ("q", "k", "high")
    found = rest(model, start, values)
    assert found.states[:2] == pytest.approx([0.0, 0.0], abs=1e-8)
    step = 1e-5
    for k in range(3):
        ahead, behind = (rest(model, start, values + s * np.eye(3)[k]).states for s in (step, -step))
        assert found.by_params[:, k] == pytest.approx((ahead - behind) / (2 * step), abs=1e-6)
        ahead, behind = (rest(model, start + s * np.eye(3)[k], values).states for s in (step, -step))
        assert found.by_start[:, k] == pytest.approx((ahead - behind) / (2 * step), abs=1e-6)


def test_a_system_that_fires_for_ever_has_no_rest():
    model = pf.Model("x' = k\nwhen x > 1: x = 0")
    assert rest(model, [0.0], [1.0], settings=EventfulRest(most=50)) is None


def test_a_rate_that_switches_where_an_event_waits():
    """PEtab's case 0023: x' = 1 up to 500, where an event adds 1000."""
    model = pf.Model("x' = where(x <= 500, k, 0)\nwhen x >= 500: x = x + 1000 - 2000*(x > 900)")
    ends = pf.simulate(
        pf.Model("x' = where(x <= 5, k, 0)\nwhen x >= 5: x = 3"), {"k": 2.0}, {"x": 4.0}, [0.4, 0.75]
    )
    assert ends.states["x"] == pytest.approx([4.8, 3.5])
    with pytest.raises(pf.InputError) as caught:
        pf.simulate(model, {"k": 1.0}, {"x": 499.0}, [2.0])
    assert caught.value.code == "simulation.event_not_left"


def test_time_stands_still_on_the_way_to_rest():
    model = pf.Model("x' = k*(1 - x)\nwhen t > 3: x = 7")
    assert rest(model, [0.2], [2.0]).states == pytest.approx([1.0])
