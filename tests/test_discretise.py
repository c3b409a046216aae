"""Sums over the samples of segments, and observables that are states themselves, against the plain ways."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.discretise import Discretisation
from picardfit.lifted import contract_from, linearise
from picardfit.mesh import Mesh, rule


def system_of(times, observables=None, knots=(0.0, 0.5, 1.0, 1.5, 2.0)) -> Discretisation:
    model = pf.Model("x' = y; y' = -k*x", observables=observables or {"y": "y", "x": "x"})
    data = {name: np.sin(times) for name in model.observables}
    problem = pf.Problem(model, pf.Experiment(times, data), {"k": (0.1, 5.0)})
    return Discretisation(problem, Mesh(rule(4), (np.array(knots),)))


EVEN = np.linspace(0.1, 1.9, 9)
RAGGED = np.concatenate([np.linspace(0.01, 0.49, 30), [1.7]])


@pytest.mark.parametrize(("times", "padded"), [(EVEN, True), (RAGGED, True), (RAGGED[:1], False)])
@pytest.mark.parametrize("one", [True, False])
def test_products_are_summed_over_the_samples_of_each_segment(times, padded, one):
    knots = (0.0, 0.5, 1.0, 1.5, 2.0) if padded else np.linspace(0, 2, 9)
    system, rng = system_of(times, knots=knots), np.random.default_rng(0)
    assert (system.places is not None) == padded
    left = rng.normal(size=(len(times), 2, 3))
    right = left if one else rng.normal(size=(len(times), 2, 4))
    expected = np.zeros((len(knots) - 1, 3, right.shape[2]))
    for k, segment in enumerate(system.segment):
        expected[segment] += left[k].T @ right[k]
    np.testing.assert_allclose(system.products_by_segment(left, right), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("observables", "selected"),
    [
        ({"a": "x", "b": "y"}, slice(0, 2)),
        ({"b": "y"}, slice(1, 2)),
        ({"b": "y", "a": "x"}, [1, 0]),
        ({"a": "x", "again": "x"}, [0, 0]),
        ({"a": "x", "b": "2*y"}, None),
        ({"a": "x", "b": "k"}, None),
    ],
)
def test_observables_that_are_states_need_no_formula(observables, selected):
    system = system_of(EVEN, observables)
    found = system.selected
    if selected is None or isinstance(selected, slice):
        assert found == selected
    else:
        assert found.tolist() == selected
    border, states = np.array([[0.3, 0.8, 1.2]]), np.full((4, 2), 0.5)
    point, _ = contract_from(system, border, states, np.ones(2))
    outputs, by_states, by_parameters = system.linearised_outputs(point.sampled, point.params)
    np.testing.assert_array_equal(point.outputs, outputs)
    linear = linearise(system, point)
    plain = system_of(EVEN, {"a": "x", "b": "y"})
    at_samples = linearise(plain, contract_from(plain, border, states, np.ones(2))[0]).jacobian
    expected = by_states @ at_samples
    expected[..., 2:] += by_parameters
    np.testing.assert_allclose(linear.jacobian, expected, atol=1e-13)
