"""Rules integrate and interpolate polynomials exactly; meshes know where segments, nodes and samples are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import legendre

from complaints import complaint
from picardfit.collocation.mesh import Mesh, Nodes, rule, uniform_knots

RULES = [(count, family) for family in Nodes for count in (2, 3, 5, 8)]
every_rule = pytest.mark.parametrize("count, family", RULES, ids=lambda v: getattr(v, "value", v))

# Degree of the highest power which the weights of the whole segment integrate exactly.
EXACT_DEGREE = {
    Nodes.RADAU: lambda count: 2 * count - 2,
    Nodes.LOBATTO: lambda count: 2 * count - 3,
    Nodes.CHEBYSHEV: lambda count: count - 1 + count % 2,  # a symmetric rule gains a degree when count is odd
}


def two_experiments(count=3, family=Nodes.RADAU) -> Mesh:
    return Mesh(rule(count, family), (np.array([0.0, 1.0, 1.5, 4.0]), np.array([-1.0, 2.0])))


# rules


@every_rule
def test_nodes_rise_inside_the_segment(count, family):
    nodes = rule(count, family).nodes
    assert len(nodes) == count
    assert np.all(np.diff(nodes) > 0)
    assert nodes[0] >= 0
    assert nodes[-1] <= 1


@pytest.mark.parametrize(
    "count, family, expected",
    [
        (1, Nodes.RADAU, [1]),
        (2, Nodes.RADAU, [1 / 3, 1]),
        (3, Nodes.RADAU, [(4 - np.sqrt(6)) / 10, (4 + np.sqrt(6)) / 10, 1]),
        (2, Nodes.LOBATTO, [0, 1]),
        (3, Nodes.LOBATTO, [0, 0.5, 1]),
        (4, Nodes.LOBATTO, [0, (5 - np.sqrt(5)) / 10, (5 + np.sqrt(5)) / 10, 1]),
        (2, Nodes.CHEBYSHEV, [(2 - np.sqrt(2)) / 4, (2 + np.sqrt(2)) / 4]),
    ],
)
def test_nodes_of_the_textbook(count, family, expected):
    np.testing.assert_allclose(rule(count, family).nodes, expected, atol=1e-14)


def test_weights_of_radau_with_two_nodes_are_those_of_the_textbook():
    np.testing.assert_allclose(rule(2).weights, [[5 / 12, -1 / 12], [3 / 4, 1 / 4]], atol=1e-15)


@every_rule
def test_weights_integrate_polynomials_exactly(count, family):
    one = rule(count, family)
    for power in range(count):
        exact = one.nodes ** (power + 1) / (power + 1)
        np.testing.assert_allclose(one.weights @ one.nodes**power, exact, atol=1e-13)


@every_rule
def test_integrals_to_any_point_are_exact(count, family):
    one, points = rule(count, family), np.array([0.0, 0.123, 0.77, 1.0])
    power = count - 1
    np.testing.assert_allclose(
        one.integrals(points) @ one.nodes**power, points ** (power + 1) / (power + 1), atol=1e-13
    )


@every_rule
def test_end_weights_reach_the_degree_of_their_family(count, family):
    one, degree = rule(count, family), EXACT_DEGREE[family](count)
    for power in range(degree + 1):
        assert one.end @ one.nodes**power == pytest.approx(1 / (power + 1), abs=1e-13)


@every_rule
def test_end_weights_do_not_reach_further(count, family):
    one, power = rule(count, family), EXACT_DEGREE[family](count) + 1
    beyond = legendre.Legendre.basis(power, domain=[0, 1])
    defect = one.end @ beyond(one.nodes) - (beyond.integ()(1) - beyond.integ()(0))
    assert abs(defect) > 1e-4


@every_rule
def test_interpolation_is_exact_for_polynomials(count, family):
    one, points = rule(count, family), np.linspace(0, 1, 7)
    np.testing.assert_allclose(
        one.interpolation(points) @ one.nodes ** (count - 1), points ** (count - 1), atol=1e-13
    )


@every_rule
def test_interpolation_at_the_nodes_changes_nothing(count, family):
    one = rule(count, family)
    np.testing.assert_allclose(one.interpolation(one.nodes), np.eye(count), atol=1e-13)


@every_rule
def test_modes_are_legendre_coefficients(count, family):
    one, coefficients = rule(count, family), np.arange(1.0, count + 1)
    values = legendre.legval(2 * one.nodes - 1, coefficients)
    np.testing.assert_allclose(one.modes @ values, coefficients, atol=1e-12)


def test_nodes_of_a_shared_rule_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        rule(3).nodes[0] = 0.5


@pytest.mark.parametrize("count, family", [(0, Nodes.RADAU), (1, Nodes.LOBATTO), (0, Nodes.CHEBYSHEV)])
def test_too_few_nodes_are_refused(count, family):
    error = complaint(rule, count, family)
    assert (error.code, error.subject) == ("collocation.too_few_nodes", "nodes")


# knots


@pytest.mark.parametrize("span, length, segments", [((0, 10), 0.25, 40), ((0, 1), 0.3, 4), ((2, 3), 9, 1)])
def test_segments_are_equal_and_not_longer_than_asked(span, length, segments):
    knots = uniform_knots(span, length)
    np.testing.assert_allclose(knots, np.linspace(*span, segments + 1), atol=1e-14)


def test_rounding_does_not_add_a_segment():
    """0.3 / 0.1 is slightly more than 3 in floating point numbers."""
    assert len(uniform_knots((0, 0.3), 0.1)) == 4


@pytest.mark.parametrize("length", [0.1, 0.35, 5.0])
def test_every_break_inside_is_a_knot(length):
    breaks = (0.7, 0.1, 0.7, 2.0, -1.0)
    knots = uniform_knots((0, 1), length, breaks)
    assert {0.0, 0.1, 0.7, 1.0} <= set(knots.tolist())


def test_breaks_make_a_mesh_of_unequal_segments():
    np.testing.assert_allclose(
        uniform_knots((0, 1), 0.25, (0.1,)), [0, 0.1, 0.325, 0.55, 0.775, 1], atol=1e-15
    )


def test_breaks_outside_are_ignored():
    assert uniform_knots((0, 1), 2, (0, 1, 5)).tolist() == [0, 1]


def test_every_piece_between_breaks_is_at_least_one_segment():
    assert uniform_knots((0, 3), 1.5, (1.0,)).tolist() == [0, 1, 2, 3]


# meshes


def test_segments_of_all_experiments_are_numbered_in_a_row():
    mesh = two_experiments()
    assert (len(mesh), mesh.counts.tolist(), mesh.first.tolist()) == (4, [3, 1], [0, 3])


def test_start_and_length_of_segments():
    mesh = two_experiments()
    assert (mesh.start.tolist(), mesh.length.tolist()) == ([0, 1, 1.5, -1], [1, 0.5, 2.5, 3])


def test_only_segments_with_a_successor_are_linked():
    assert two_experiments().linked.tolist() == [0, 1]


@every_rule
def test_nodes_stand_where_the_rule_puts_them(count, family):
    mesh = two_experiments(count, family)
    expected = mesh.start[:, None] + mesh.length[:, None] * mesh.rule.nodes
    np.testing.assert_allclose(mesh.node_times, expected, rtol=1e-15, atol=1e-300)


@every_rule
def test_no_node_stands_on_a_knot(count, family):
    mesh = two_experiments(count, family)
    assert np.all(mesh.node_times > mesh.start[:, None])
    assert np.all(mesh.node_times < (mesh.start + mesh.length)[:, None])


@every_rule
def test_every_node_is_located_in_its_own_segment(count, family):
    mesh = two_experiments(count, family)
    segment, _ = mesh.locate(mesh.node_times.ravel(), np.repeat(mesh.experiment, count))
    np.testing.assert_array_equal(segment, np.repeat(np.arange(len(mesh)), count))


@every_rule
def test_every_node_is_located_at_its_own_fraction(count, family):
    mesh = two_experiments(count, family)
    _, fraction = mesh.locate(mesh.node_times.ravel(), np.repeat(mesh.experiment, count))
    np.testing.assert_allclose(fraction, np.tile(mesh.rule.nodes, len(mesh)), atol=1e-14)


@pytest.mark.parametrize(
    "time, experiment, segment, fraction",
    [
        (0.0, 0, 0, 0.0),
        (1.0, 0, 1, 0.0),  # on a knot: the later segment
        (1.25, 0, 1, 0.5),
        (4.0, 0, 2, 1.0),  # the last knot: still the last segment
        (2.0, 1, 3, 1.0),
        (0.5, 1, 3, 0.5),
    ],
)
def test_location_of_a_time(time, experiment, segment, fraction):
    found = two_experiments().locate(np.array([time]), np.array([experiment]))
    assert (found[0].tolist(), found[1].tolist()) == ([segment], [fraction])


def test_last_knot_of_a_uniform_mesh_never_overruns():
    """floor(t/T) + 1 of the paper gives J + 1 at t = J T."""
    for segments in (3, 7, 10, 49):
        mesh = Mesh(rule(2), (uniform_knots((0, 1), 1 / segments),))
        assert mesh.locate(np.array([1.0]), np.array([0]))[0] == segments - 1
