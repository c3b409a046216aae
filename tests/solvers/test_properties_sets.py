"""Random convex sets and points: the projection is inside, stays, and no point of the set is nearer."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from picardfit.solvers.picard_gradient.sets import Ball, Box, ConvexSet, HalfSpace, Product, Simplex
from properties import Properties

sets = Properties(few=60, many=5000)

numbers = st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, -1.0, 1e6, 1e-6])


def vectors(size: int, entries=numbers) -> st.SearchStrategy[np.ndarray]:
    return st.lists(entries, min_size=size, max_size=size).map(np.array)


@st.composite
def sets_of(draw, size: int, depth: int = 1) -> ConvexSet:
    """A set with `size` components."""
    kinds = ["box", "ball", "half-space", "simplex"] + ["product"] * (depth > 0 and size > 1)
    kind = draw(st.sampled_from(kinds))
    if kind == "box":
        one, two = draw(vectors(size)), draw(vectors(size, numbers | st.just(np.inf)))
        return Box(np.where(one <= two, one, two), np.where(one <= two, two, one))
    if kind == "ball":
        return Ball(draw(vectors(size)), draw(st.floats(0, 100)))
    if kind == "half-space":
        normal = draw(vectors(size).filter(lambda one: np.abs(one).max() > 1e-3))
        return HalfSpace(normal, draw(numbers))
    if kind == "simplex":
        return Simplex(draw(st.floats(1e-3, 1e3)))
    first = draw(st.integers(1, size - 1))
    parts = draw(sets_of(first, depth - 1)), draw(sets_of(size - first, depth - 1))
    return Product(parts, (first, size - first))


@st.composite
def cases(draw, points: int) -> tuple:
    """A set, points of its size, and what rounding may do at their size."""
    size = draw(st.integers(1, 5))
    convex, found = draw(sets_of(size)), [draw(vectors(size)) for _ in range(points)]
    largest = max(np.abs([*found, *(convex.project(one) for one in found)]).max(), 1.0)
    return convex, found, 1e-12 * largest


@sets.holds(case=cases(1))
def test_the_projection_is_inside_and_stays(case):
    convex, (point,), small = case
    nearest = convex.project(point)
    assert convex.contains(nearest, 10 * small)
    np.testing.assert_allclose(convex.project(nearest), nearest, rtol=0, atol=10 * small)


@sets.holds(case=cases(2))
def test_no_point_of_the_set_is_nearer(case):
    """|z - Pz| <= |z - x| for x of the set, with the angle between them at least a right one."""
    convex, (point, other), small = case
    nearest, inside = convex.project(point), convex.project(other)
    away, along = point - nearest, inside - nearest
    assert np.linalg.norm(away) <= np.linalg.norm(point - inside) + 100 * small
    length = np.linalg.norm(away) + np.linalg.norm(along)
    assert away @ along <= 100 * small * length


@sets.holds(case=cases(2))
def test_projections_bring_points_no_further_apart(case):
    convex, (point, other), small = case
    moved = np.linalg.norm(convex.project(point) - convex.project(other))
    assert moved <= np.linalg.norm(point - other) + 100 * small


@sets.holds(case=cases(1))
def test_a_point_that_is_inside_does_not_move(case):
    convex, (point,), small = case
    if convex.contains(point):
        np.testing.assert_allclose(convex.project(point), point, rtol=0, atol=10 * small)


@sets.holds(one=sets_of(2), two=sets_of(3), point=vectors(5))
def test_a_product_projects_block_by_block(one, two, point):
    both = Product((one, two), (2, 3))
    expected = np.concatenate([one.project(point[:2]), two.project(point[2:])])
    np.testing.assert_array_equal(both.project(point), expected)
    assert both.contains(point) == (one.contains(point[:2]) and two.contains(point[2:]))


test_many_sets = sets.many()
