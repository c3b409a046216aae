"""Places for samples, and observables that are states themselves, against the plain ways."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.collocation.discretisation import Discretisation, sample_blocks
from picardfit.collocation.linearisation import linearise
from picardfit.collocation.mesh import Mesh, rule
from picardfit.collocation.point import contract_from


def system_of(times, observables=None, knots=(0.0, 0.5, 1.0, 1.5, 2.0)) -> Discretisation:
    model = pf.Model("x' = y; y' = -k*x", observables=observables or {"y": "y", "x": "x"})
    data = {name: np.sin(times) for name in model.observables}
    problem = pf.Problem(model, pf.Experiment(times, data), {"k": (0.1, 5.0)})
    return Discretisation(problem, Mesh(rule(4), (np.array(knots),)))


EVEN = np.linspace(0.1, 1.9, 9)
LAYOUTS = {
    "one line a segment, full": ([0, 0, 1, 1, 2, 2], 3, 2, 3),
    "one block for each segment, some slots empty": ([0, 0, 1, 2, 2], 3, 2, 3),
    "a segment without samples": ([0, 0, 2, 2], 3, 2, 3),
    "few segments hold all samples": ([2, 2, 7], 9, 2, 2),
    "a crowded segment has several blocks": ([1] * 9 + [5, 7], 20, 4, 5),
}


@pytest.mark.parametrize(("segment", "segments", "width", "blocks"), LAYOUTS.values(), ids=LAYOUTS)
def test_samples_find_their_slots_and_come_back(segment, segments, width, blocks):
    segment, rng = np.array(segment), np.random.default_rng(0)
    found = sample_blocks(segment, segments)
    assert (found.width, len(found.segment)) == (width, blocks)
    values = rng.normal(size=(len(segment), 2))
    filled = found.padded(values)
    assert filled.shape == (blocks, width, 2)
    np.testing.assert_array_equal(found.unpadded(filled), values)
    np.testing.assert_allclose(np.abs(filled).sum(), np.abs(values).sum())
    np.testing.assert_array_equal(found.unpadded(found.padded(segment)), segment)
    of_blocks = np.broadcast_to(found.of_blocks(np.arange(segments))[:, None], (blocks, width))
    np.testing.assert_array_equal(found.unpadded(of_blocks), segment)
    expected = np.zeros((segments, 2))
    np.add.at(expected, segment, values)
    np.testing.assert_allclose(found.by_segment(filled.sum(axis=1)), expected, atol=1e-14)


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
    unknowns, states = np.array([[0.3, 0.8, 1.2]]), np.full((4, 2), 0.5)
    point, _ = contract_from(system, unknowns, states, np.ones(2))
    outputs, by_states, by_parameters = system.linearised_outputs(point.sampled, point.params)
    np.testing.assert_array_equal(point.outputs, outputs)
    linear = linearise(system, point)
    plain = system_of(EVEN, {"a": "x", "b": "y"})
    at_samples = linearise(plain, contract_from(plain, unknowns, states, np.ones(2))[0]).at_samples(plain)
    expected = by_states @ at_samples
    expected[..., 2:] += by_parameters
    np.testing.assert_allclose(linear.at_samples(system), expected, atol=1e-13)


def driven_states(knots, rows, values, nodes=5) -> tuple[Discretisation, np.ndarray]:
    """x' = u - x from 1 with u a table of lines: the states at the knots, made continuous segment by segment."""
    model = pf.Model("x' = u - k*x", inputs=["u"])
    table = pf.Table(rows, values, "linear")
    data = pf.Experiment([knots[-1]], {"x": [1.0]}, inputs={"u": table})
    problem = pf.Problem(model, data, {"k": (0.1, 5.0)}, {"x": 1.0})
    system = Discretisation(problem, Mesh(rule(nodes), (knots,)))
    inverse = np.linalg.inv(np.eye(nodes) + system.mesh.integral)  # of u = x + h A (input - u)
    states = [1.0]
    for k, forced in enumerate(system.field.inputs[..., 0]):
        states.append((inverse[k] @ (states[-1] + system.mesh.integral[k] @ forced))[-1])
    return system, np.array(states)


def exact_states(rows, values) -> np.ndarray:
    """The solution of x' = u - x from 1 at the rows, line by line in closed form."""
    states = [1.0]
    for h, u, slope in zip(np.diff(rows), values, np.diff(values) / np.diff(rows), strict=False):
        states.append(u - slope + slope * h + (states[-1] - u + slope) * np.exp(-h))
    return np.array(states)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_integral_of_a_table_is_exact_across_its_kinks(noise):
    rows = np.linspace(0, 8, 1601)
    values = np.sin(rows) + noise * np.random.default_rng(0).standard_normal(len(rows))
    _, states = driven_states(rows[::50], rows, values, nodes=8)
    np.testing.assert_allclose(states, exact_states(rows, values)[::50], atol=1e-11)


def test_a_segment_between_two_rows_sees_the_table_itself():
    rows = np.linspace(0, 2, 21)
    system, states = driven_states(rows, rows, np.cos(rows))
    np.testing.assert_array_equal(
        system.field.inputs[..., 0], np.interp(system.mesh.node_times, rows, np.cos(rows))
    )
    np.testing.assert_allclose(states, exact_states(rows, np.cos(rows)), atol=1e-12)
