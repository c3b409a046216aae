"""Knots that move, on a sawtooth whose events are known."""

import numpy as np
import pytest

from picardfit.collocation.event_links import as_clocked, event_clocks
from sawtooth import EVENTS, TIMES, sawtooth, solved


@pytest.fixture(scope="module")
def place():
    return solved(sawtooth())


def ends_of(system, point):
    """States (happenings, states) at the ends of segments before events, with slopes and parameters there."""
    events = system.events
    mine = events.segments
    return point.path[mine, -1], point.slopes[mine, -1], system.parameters(point.unknowns)[events.owner]


def test_events_happen_where_the_path_reaches_the_threshold(place):
    system, point, _ = place
    assert event_clocks(system.mesh, system.mesh.schedule, point.states) == [pytest.approx(EVENTS, abs=1e-9)]
    ends, _, params = ends_of(system, point)
    value, by_x, by_p = system.events.trigger(ends, params)
    assert value == pytest.approx(0, abs=1e-9)
    assert by_x == pytest.approx(np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert by_p[:, system.problem.measured_names.index("c")] == pytest.approx([-1.0, -1.0])


def test_states_after_an_event_are_those_of_its_formulas(place):
    system, point, _ = place
    ends, _, params = ends_of(system, point)
    after = system.events.after(ends, params)
    assert after[:, 0] == pytest.approx(ends[:, 0] - 1.0)
    assert after[:, 1] == pytest.approx(ends[:, 1])


def test_the_end_of_a_segment_moves_with_the_event(place):
    """From x0 at s: the event is at s + (c - x0)/a, and x is c - v after it, whatever x0 and s are."""
    system, point, _ = place
    names = system.problem.measured_names
    ends, slopes, params = ends_of(system, point)
    lengths = system.mesh.length[system.events.segments]
    count = len(ends)
    fixed = np.zeros((count, 2, 5))  # columns: x0, s, then a, c, v
    fixed[:, 0, 0] = fixed[:, 1, 1] = 1.0
    fixed[:, 0, 2 + names.index("a")] = lengths
    by_params = np.zeros((count, len(names), 5))
    for k in range(3):
        by_params[:, k, 2 + k] = 1.0
    found = system.events.end_derivative(ends, slopes, lengths, params, fixed, by_params)
    expected = np.zeros((count, 2, 5))
    expected[:, 0, 2 + names.index("c")], expected[:, 0, 2 + names.index("v")] = 1.0, -1.0
    expected[:, 1, 0], expected[:, 1, 1] = -1.0, 1.0
    expected[:, 1, 2 + names.index("a")] = -lengths
    expected[:, 1, 2 + names.index("c")] = 1.0
    assert found == pytest.approx(expected, abs=1e-8)


def test_a_knot_whose_trigger_is_not_zero_is_held(place):
    system, point, _ = place
    ends, slopes, params = ends_of(system, point)
    lengths = system.mesh.length[system.events.segments]
    low = ends - np.array([[0.2, 0.0]])
    value, by_x, _ = system.events.trigger(low, params)
    assert system.events.held(value, (by_x * slopes).sum(axis=1), lengths).all()
    fixed, by_params = np.ones((len(ends), 2, 1)), np.zeros((len(ends), 3, 1))
    found = system.events.end_derivative(low, slopes, lengths, params, fixed, by_params)
    assert found == pytest.approx(fixed)  # its length stays, and x - v moves as x


@pytest.mark.parametrize(
    ("value", "rate", "step"),
    [
        (-0.1, 2.0, 0.05),  # Newton's step
        (-9.0, 1.0, 1.0),  # at most one length ahead
        (9.0, 1.0, -0.5),  # and half of one back
        (0.3, -1.0, -0.5),  # a trigger that falls: the event was before
        (-0.3, -1.0, 0.0),
    ],
)
def test_steps_of_the_lengths(place, value, rate, step):
    events = place[0].events
    assert events.step(np.array([value]), np.array([rate]), np.array([1.0])) == pytest.approx([step])


def test_samples_go_to_the_side_of_the_clock(place):
    system, point, _ = place
    times, mine = [TIMES], system.mesh.schedule
    assert [one.before for one in mine[0]] == [13, 23]
    assert as_clocked(system.mesh, point.states, times, ()) == mine
    late = point.states.copy()
    late[:, -1] += 0.1
    assert [one.before for one in as_clocked(system.mesh, late, times, ())[0]] == [14, 24]
    assert [one.before for one in as_clocked(system.mesh, late, times, {(0, 1)})[0]] == [14, 23]
