"""Checked values, and dictionaries that cannot be changed."""

from __future__ import annotations

import pickle

import pytest

import picardfit as pf
from picardfit.checks import FrozenDict


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.__setitem__("a", 2),
        lambda d: d.__delitem__("a"),
        lambda d: d.update(a=2),
        lambda d: d.pop("a"),
        lambda d: d.clear(),
        lambda d: d.setdefault("b", 1),
    ],
)
def test_changes_are_refused(change):
    one = FrozenDict(a=1)
    with pytest.raises(TypeError, match="make a new one"):
        change(one)
    assert one == {"a": 1}


def test_it_pickles_and_a_copy_may_change():
    one = pickle.loads(pickle.dumps(FrozenDict(a=1)))
    assert type(one) is FrozenDict
    other = one.copy()
    other["a"] = 2
    assert one["a"] == 1


def test_parameters_of_a_problem_cannot_be_changed():
    problem = pf.Problem(pf.Model("x' = -k*x"), pf.Experiment([0, 1, 2], {"x": [1.0, 0.5, 0.2]}))
    with pytest.raises(TypeError):
        problem.parameters["k"] = pf.Parameter(1, 5)
