"""Whether the events of a solution are those of a simulation, and what follows where they are not."""

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.problem.problem import Scheduled
from picardfit.search.events.revision import revised, signature, start_along
from picardfit.solvers.loop import run
from sawtooth import EVENTS, TIMES, exact, sawtooth, unknowns_of

METHOD = pf.LiftedGaussNewton()


def test_a_signature_is_what_happens_in_which_order_and_between_which_samples():
    one = Scheduled(1.3, (0,), None, 12)
    assert signature(((one, Scheduled(2.0, (), 2.0, 20)), ())) == ((((0,), 12), ((), 20)), ())
    assert signature(((replace(one, knot=1.4),),)) == signature(((one,),))
    assert signature(((replace(one, before=13),),)) != signature(((one,),))


def test_a_start_lies_on_the_simulated_path():
    problem = sawtooth()
    start = start_along(problem, unknowns_of(problem))
    assert [one.knot for one in start.schedule[0]] == pytest.approx(EVENTS, abs=1e-9)
    times, states = start.tables[0]
    assert set(TIMES) <= set(times.tolist())
    away = np.abs(times[:, None] - EVENTS).min(axis=1) > 1e-6
    assert states[away, 0] == pytest.approx(exact(times[away]), abs=1e-7)
    assert states[:, -1] == pytest.approx(times)  # the clock


def test_there_is_no_start_where_there_is_no_solution():
    problem = pf.Problem(
        pf.Model("x' = a\nwhen x > c: x = 2*c"), pf.Experiment(TIMES, {"x": TIMES}), initial={"x": 0.0}
    )
    assert start_along(problem, np.array([[1.0, 1.0]])) is None  # the reset does not leave the trigger


def outcome_of(problem, schedule, **wrong):
    """A search with this schedule from the simulated path of other values."""
    start = start_along(problem, unknowns_of(problem, **wrong))
    return run(METHOD, METHOD.init(problem, replace(start, schedule=(schedule,))))


def test_events_that_were_missing_are_found():
    problem = sawtooth(TIMES[:25])  # two samples after the second event
    full = start_along(problem, unknowns_of(problem)).schedule[0]
    outcome = outcome_of(problem, full[:1])
    found = revised(METHOD, problem, outcome)
    assert [one.events for one in found.solution.system.mesh.schedule[0]] == [(0,), (0,)]
    assert found.status.success
    assert found.iterations >= outcome.iterations
    values = dict(
        zip(problem.layout.names, problem.layout.parameters(found.solution.unknowns)[0], strict=True)
    )
    assert values["a"] == pytest.approx(1.0, rel=1e-6)
    assert values["v"] == pytest.approx(1.0, rel=1e-6)
    assert 1.3 < values["c"] < 1.4  # nothing jumps but at the samples around it


@pytest.mark.parametrize("wrong", [12, 15])
def test_samples_go_to_the_side_that_a_simulation_shows(wrong):
    model = pf.Model("x' = r*on\non' = 0\nwhen t > lag: on = 1", observables=["x"])
    data = pf.Experiment(TIMES, {"x": np.maximum(0.7 * (TIMES - 1.33), 0)})
    problem = pf.Problem(model, data, {"r": (0.1, 3), "lag": (0.5, 2.5)}, {"x": 0.0, "on": 0.0})
    columns = {"r": 0.6, "lag": 1.4}
    unknowns = np.array([[columns[name] for name in problem.layout.names]])
    start = start_along(problem, unknowns)
    shifted = (replace(start.schedule[0][0], before=wrong),)
    outcome = run(METHOD, METHOD.init(problem, replace(start, schedule=(shifted,))))
    found = revised(METHOD, problem, outcome)
    assert found.solution.system.mesh.schedule[0][0].before == 13
    values = dict(
        zip(problem.layout.names, problem.layout.parameters(found.solution.unknowns)[0], strict=True)
    )
    assert values == pytest.approx({"r": 0.7, "lag": 1.33}, rel=1e-6)


def test_a_right_outcome_stays():
    problem = sawtooth()
    full = start_along(problem, unknowns_of(problem)).schedule[0]
    outcome = outcome_of(problem, full, a=1.02)
    assert outcome.status.success
    assert revised(METHOD, problem, outcome).solution is outcome.solution
