"""A mesh whose knots follow the clock, on a sawtooth whose path is known."""

from dataclasses import replace

import numpy as np
import pytest

from picardfit.collocation.anchoring import Anchoring, anchored
from picardfit.collocation.condensing import closing_step
from picardfit.collocation.linearisation import advance, linearise
from picardfit.collocation.point import followed
from sawtooth import TIMES, exact, sawtooth, solved, unknowns_of


def moved(c: float):
    """A system at the truth with the point at another threshold, the jumps closed, so that events have moved."""
    problem = sawtooth()
    system, point, scale = solved(problem)
    quiet = np.zeros(len(scale), bool)
    goal = unknowns_of(problem, c=c)
    for _ in range(12):
        linear = linearise(system, point)
        step = goal - point.unknowns
        closing = closing_step(system.mesh, linear.quadratic, point.jumps)
        point = advance(system, point, linear, step, closing, scale, quiet)
        assert point is not None
        system, point = followed(system, point)
    assert np.abs(point.jumps).max() < 1e-9
    return system, point, scale


def test_nothing_changes_where_the_clock_is_at_its_knots():
    system, point, scale = solved(sawtooth())
    system, point, _ = anchored(system, point, scale)
    again, same, spread = anchored(system, point, scale)
    assert (again, same, spread) == (system, point, False)


def test_knots_follow_the_clock():
    system, point, scale = moved(1.31)
    found, there, spread = anchored(system, point, scale)
    assert not spread
    assert [one.knot for one in found.mesh.schedule[0]] == pytest.approx([1.31, 2.31], abs=1e-8)
    assert found.mesh.knots[0][:-1] == pytest.approx(there.states[:, -1], abs=1e-8)
    assert there.outputs[:, 0] == pytest.approx(exact(TIMES, c=1.31), abs=1e-7)


def test_segments_are_spread_where_one_has_become_long():
    system, point, scale = moved(1.37)
    rules = replace(Anchoring(), uneven=1.01)
    found, there, spread = anchored(system, point, scale, settings=rules)
    assert spread
    knots = found.mesh.knots[0]
    first = int(np.abs(knots - 1.37).argmin())
    assert knots[first] == pytest.approx(1.37, abs=1e-7)
    before = np.diff(system.mesh.knots[0][: first + 1])
    assert np.diff(knots[: first + 1]) == pytest.approx(before * 1.37 / 1.33, rel=1e-6)
    assert there.outputs[:, 0] == pytest.approx(exact(TIMES, c=1.37), abs=1e-6)


def test_knots_out_of_order_stay():
    system, point, scale = moved(1.31)
    states = point.states.copy()
    states[1:, -1] = states[1:, -1][::-1]
    again, _, _ = anchored(system, replace(point, states=states), scale)
    assert again is system
