"""Projections: idempotent, non-expansive, and the variational inequality which characterises the argmin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from complaints import complaint
from picardfit.solvers.picard_gradient.sets import Ball, Box, HalfSpace, Product, Simplex

SETS = [
    Box((-1.0, 0.0, 2.0), (1.0, 0.0, np.inf)),
    Box(-2, 0.5),
    Ball((1.0, -1.0, 0.0), 1.5),
    Ball(0, 0),
    HalfSpace((3.0, 0.0, -4.0), 2.0),
    Simplex(),
    Simplex(2.5),
    Product((Ball((0.0, 1.0), 1.0), Box(0, 1)), (2, 1)),
]
every_set = pytest.mark.parametrize("convex", SETS, ids=str)
points = st.lists(st.floats(-10, 10), min_size=3, max_size=3).map(np.array)
quick = settings(max_examples=40, deadline=None)


@every_set
@quick
@given(point=points)
def test_projection_lands_in_the_set(convex, point):
    assert convex.contains(convex.project(point), 1e-9)


@every_set
@quick
@given(point=points)
def test_projection_is_idempotent(convex, point):
    once = convex.project(point)
    np.testing.assert_allclose(convex.project(once), once, atol=1e-12)


@every_set
@quick
@given(point=points, other=points)
def test_projection_is_non_expansive(convex, point, other):
    moved = np.linalg.norm(convex.project(point) - convex.project(other))
    assert moved <= np.linalg.norm(point - other) + 1e-9


@every_set
@quick
@given(point=points, other=points)
def test_variational_inequality(convex, point, other):
    """<z - Pz, x - Pz> <= 0 for every x of the set."""
    nearest, inside = convex.project(point), convex.project(other)
    assert np.dot(point - nearest, inside - nearest) <= 1e-8


@every_set
@quick
@given(point=points)
def test_points_of_the_set_stay(convex, point):
    inside = convex.project(point)
    assert np.linalg.norm(convex.project(inside) - inside) <= 1e-12


@every_set
def test_batches_are_projected_point_by_point(convex):
    batch = np.random.default_rng(0).normal(0, 3, (4, 2, 3))
    single = [[convex.project(point) for point in row] for row in batch]
    np.testing.assert_allclose(convex.project(batch), single, atol=1e-14)


@every_set
def test_contains_answers_for_every_point_of_a_batch(convex):
    batch = np.random.default_rng(0).normal(0, 3, (4, 2, 3))
    assert convex.contains(batch).shape == (4, 2)


@pytest.mark.parametrize(
    "convex, point, expected",
    [
        (Box((0, 0), (1, 1)), [2, -3], [1, 0]),
        (Ball((0, 0), 5), [6, 8], [3, 4]),
        (HalfSpace((1, 1), 0), [1, 3], [-1, 1]),
        (HalfSpace((2, 0), 4), [5, 7], [2, 7]),
        (Simplex(), [2, 0], [1, 0]),
        (Simplex(), [0.6, 0.6], [0.5, 0.5]),
        (Simplex(3), [1, 1, 1], [1, 1, 1]),
        (Simplex(), [0.5, 0.25, -9], [0.625, 0.375, 0]),
    ],
    ids=str,
)
def test_known_projections(convex, point, expected):
    np.testing.assert_allclose(convex.project(np.array(point, float)), expected, atol=1e-15)


def test_simplex_survives_huge_components():
    np.testing.assert_allclose(Simplex().project(np.array([1e20, 0.0])), [1.0, 0.0])


def test_a_point_outside_is_not_contained():
    assert not Ball((0, 0), 1).contains(np.array([1.0, 0.1]))


def test_tolerance_is_a_distance_from_the_half_space():
    assert HalfSpace((10, 0), 0).contains(np.array([0.5, 0.0]), tolerance=0.5)


def test_sets_of_equal_content_are_equal():
    assert Box([0, 1], np.array([1, 2])) == Box((0.0, 1.0), (1.0, 2.0))


@pytest.mark.parametrize(
    "make, code",
    [
        (lambda: Box((1, 0), (0, 1)), "solvers.box_empty"),
        (lambda: Box((0, 0), (1,)), "solvers.box_sizes"),
        (lambda: Box((0, np.nan), (1, 1)), "errors.not_finite"),
        (lambda: Box("ab", 1), "errors.not_a_number"),
        (lambda: Box((), ()), "solvers.not_a_vector"),
        (lambda: Ball(0, -1), "solvers.ball_radius"),
        (lambda: Ball((0, np.inf), 1), "errors.not_finite"),
        (lambda: HalfSpace((0, 0), 1), "solvers.half_space_normal"),
        (lambda: HalfSpace(1, 1), "solvers.half_space_normal"),
        (lambda: Simplex(0), "solvers.simplex_total"),
        (lambda: Product((Simplex(),), (1, 2)), "solvers.product_sizes"),
        (lambda: Product((Simplex(),), (0,)), "errors.not_whole"),
        (lambda: Product(("ball",), (2,)), "solvers.not_a_set"),
        (lambda: Ball((0, 0), 1).project(np.zeros(3)), "solvers.point_size"),
        (lambda: Product((Simplex(),), (2,)).project(np.zeros(3)), "solvers.point_size"),
        (lambda: Simplex().project(np.float64(1)), "solvers.point_is_a_number"),
    ],
)
def test_bad_arguments_are_named(make, code):
    assert complaint(make).code == code


@pytest.mark.parametrize(
    "make, subject",
    [
        (lambda: Box((0, np.nan), (1, 1)), "lower"),
        (lambda: Box((), ()), "lower"),
        (lambda: Ball((0, np.inf), 1), "centre"),
        (lambda: Product((Simplex(),), (0,)), "size of a factor of Product"),
        (lambda: Product(("ball",), (2,)), "factor of Product"),
    ],
)
def test_the_bad_entry_is_named(make, subject):
    assert complaint(make).subject == subject
