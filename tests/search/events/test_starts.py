"""Where events begin: read off the data, on time, or simulated."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.events.starts import event_start, simulated_events
from sawtooth import EVENTS, TIMES, TRUTH, sawtooth, unknowns_of


def knots(problem, unknowns, measured=None):
    """The times of events in the start of a problem whose first state is measured."""
    one = problem.experiments[0]
    shown = {0: (one.times, one.values[:, 0])} if measured is None else measured
    start = event_start(problem, unknowns, [shown], np.zeros_like(problem.layout.exists))
    return [entry.knot for entry in start.schedule[0]]


def test_resets_of_measured_states_are_seen_in_the_data():
    problem = sawtooth()
    found = knots(problem, unknowns_of(problem, a=2.5, c=2.9, v=0.4))  # values that have other events
    assert found == pytest.approx(EVENTS, abs=0.06)  # between two samples, which are 0.1 apart


def test_events_of_hidden_states_are_simulated():
    problem = sawtooth()
    found = knots(problem, unknowns_of(problem), measured={})
    assert found == pytest.approx(EVENTS, abs=1e-6)


def test_events_on_time_follow_from_the_parameters():
    model = pf.Model("x' = -k*x\nwhen t > s: x = x + 1")
    problem = pf.Problem(model, pf.Experiment(TIMES, {"x": TIMES}), {"k": (0, 2), "s": (0, 3)}, {"x": 1.0})
    columns = {"k": 0.5, "s": 1.234}
    unknowns = np.array([[columns[name] for name in problem.layout.names]])
    assert knots(problem, unknowns) == pytest.approx([1.234], abs=1e-9)


def test_a_fall_at_a_reset_is_no_event():
    problem = sawtooth(resets=[0.95])
    data = problem.simulate_data(TRUTH, {}, sd=1e-9)
    found = knots(data, unknowns_of(data, c=2.5))
    assert found == pytest.approx([0.95, 0.95 + 1.33], abs=0.06)
    schedule = simulated_events(data, unknowns_of(data))[0].happenings
    assert [one.time for one in schedule] == pytest.approx([0.95 + 1.33])


@pytest.mark.parametrize(
    ("text", "bounds", "code"),
    [
        ("x' = 1\nwhen x > 0: x = x - 1; y = 1\ny' = 0", {}, "search.event_at_start"),
        ("x' = 1\ny' = 0\nwhen x > 1: x = x + 1", {}, "simulation.event_not_left"),
        (
            "x' = 1\ny' = 0\nwhen x > 1: y = 1\nwhen y > 0.5: y = 0; x = 0\nwhen x < 0.5: x = 2",
            {},
            "simulation.event_chain",
        ),
    ],
)
def test_events_that_no_parameter_could_mend(text, bounds, code):
    data = pf.Experiment(TIMES, {"x": TIMES})
    problem = pf.Problem(pf.Model(text), data, bounds, initial={"x": 0.0, "y": (-1, 1)})
    unknowns = np.zeros((1, problem.layout.width))
    with pytest.raises(pf.InputError) as caught:
        event_start(problem, unknowns, [{}], np.zeros_like(problem.layout.exists))
    assert caught.value.code == code
