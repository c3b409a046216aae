"""Random meshes: knots, breaks and the path survive splitting, carrying and merging; every time is located."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from picardfit.collocation.adaptation import carry, merge_breaks, split
from picardfit.collocation.mesh import Mesh, Nodes, rule, uniform_knots
from properties import Properties

meshes = Properties(few=40, many=3000)

gaps = st.lists(st.sampled_from([1.0, 0.3, 1e-3, 7.0, 50.0]), min_size=1, max_size=6)
rows = st.tuples(st.sampled_from([0.0, -3.0, 1e3]), gaps).map(lambda one: one[0] + np.cumsum([0.0, *one[1]]))
rules = st.builds(rule, st.integers(2, 9), st.sampled_from(list(Nodes)))


@st.composite
def random_meshes(draw) -> Mesh:
    return Mesh(draw(rules), tuple(draw(st.lists(rows, min_size=1, max_size=4))))


def random_path(mesh: Mesh, seed: int, states: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Start states and values at the nodes; where the start is a node it is the start state."""
    rng = np.random.default_rng(seed)
    path = rng.standard_normal((len(mesh), len(mesh.rule.nodes), states))
    first = path[:, 0] if mesh.rule.nodes[0] == 0 else rng.standard_normal((len(mesh), states))
    return first.copy(), path


def along(mesh: Mesh, states, path, times, experiment) -> np.ndarray:
    segment, fraction = mesh.locate(times, experiment)
    whole = np.concatenate([states[:, None], path], axis=1)[segment]
    return (mesh.rule.along(fraction)[:, None] @ whole)[:, 0]


def inner_times(mesh: Mesh, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A few times inside every segment, where the later and the earlier segment cannot be confused; their owners."""
    fractions = np.random.default_rng(seed).uniform(0.05, 0.45, (len(mesh), 4)) + np.repeat([0.0, 0.5], 2)
    return (mesh.start[:, None] + mesh.length[:, None] * fractions).ravel(), np.repeat(mesh.experiment, 4)


def chosen_segments(mesh: Mesh, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(len(mesh)) < 0.5


@meshes.holds(mesh=random_meshes(), seed=st.integers(0, 9999))
def test_splitting_keeps_knots_and_adds_the_middles(mesh, seed):
    chosen = chosen_segments(mesh, seed)
    finer, parent, half = split(mesh, chosen)
    assert len(finer) == len(mesh) + chosen.sum() == len(parent) == len(half)
    for old, new in zip(mesh.knots, finer.knots, strict=True):
        assert set(old.tolist()) <= set(new.tolist())
        assert np.all(np.diff(new) > 0)
    middle = mesh.start + 0.5 * mesh.length
    begin = np.where(half == 1, middle[parent], mesh.start[parent])
    width = mesh.length[parent] * np.where(half == 2, 1.0, 0.5)
    np.testing.assert_allclose(finer.start, begin, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(finer.length, width, rtol=1e-9)
    np.testing.assert_array_equal(finer.experiment, mesh.experiment[parent])


@meshes.holds(mesh=random_meshes(), seed=st.integers(0, 9999), more=st.integers(0, 3))
def test_carrying_keeps_the_path(mesh, seed, more):
    """A polynomial on a segment is one on its halves: at any time the carried path has the old value."""
    states, path = random_path(mesh, seed)
    nodes = rule(len(mesh.rule.nodes) + more)  # Radau holds what the others hold
    finer, parent, half = split(mesh, chosen_segments(mesh, seed), nodes)
    carried = carry(mesh, finer, states, path, parent, half)
    times, owner = inner_times(mesh, seed)
    before, after = along(mesh, states, path, times, owner), along(finer, *carried, times, owner)
    np.testing.assert_allclose(after, before, atol=1e-8 * np.abs(before).max())
    whole = half != 1
    np.testing.assert_allclose(carried[0][whole], states[parent[whole]], atol=1e-9)


@meshes.holds(mesh=random_meshes(), seed=st.integers(0, 9999))
def test_every_time_is_located_in_its_experiment(mesh, seed):
    rng = np.random.default_rng(seed)
    times = np.concatenate([np.append(rng.uniform(k[0], k[-1], 5), k) for k in mesh.knots])
    owner = np.concatenate([np.full(5 + len(k), e) for e, k in enumerate(mesh.knots)])
    segment, fraction = mesh.locate(times, owner)
    np.testing.assert_array_equal(mesh.experiment[segment], owner)
    assert np.all((fraction >= 0) & (fraction <= 1))
    size = 1e-12 * (1 + np.abs(times))
    assert np.all(np.abs(mesh.start[segment] + fraction * mesh.length[segment] - times) <= size)
    last = np.array([mesh.knots[e][-1] for e in owner])
    on_knot = np.array([t in mesh.knots[e] for t, e in zip(times, owner, strict=True)]) & (times < last)
    np.testing.assert_array_equal(mesh.start[segment[on_knot]], times[on_knot])
    np.testing.assert_array_equal(fraction[times == last], 1.0)


@meshes.holds(mesh=random_meshes())
def test_nodes_are_inside_their_segments_and_links_join_neighbours(mesh):
    stop = np.concatenate([k[1:] for k in mesh.knots])
    assert np.all((mesh.node_times > mesh.start[:, None]) & (mesh.node_times < stop[:, None]))
    np.testing.assert_array_equal(stop[mesh.linked], mesh.start[mesh.inner])
    np.testing.assert_array_equal(mesh.experiment[mesh.linked], mesh.experiment[mesh.inner])
    assert len(mesh.linked) == len(mesh) - len(mesh.knots)
    first, owner = mesh.first_links
    np.testing.assert_array_equal(mesh.linked[first], mesh.first[owner])


@meshes.holds(nodes=rules, seed=st.integers(0, 9999))
def test_rules_integrate_polynomials(nodes, seed):
    rng = np.random.default_rng(seed)
    slope = np.polynomial.Polynomial(rng.standard_normal(len(nodes.nodes)))
    start, fractions = rng.standard_normal(), rng.uniform(0, 1, 5)
    solution = slope.integ() + start
    np.testing.assert_allclose(
        start + nodes.integrals(fractions) @ slope(nodes.nodes), solution(fractions), atol=1e-10
    )
    np.testing.assert_allclose(start + nodes.end @ slope(nodes.nodes), solution(1.0), atol=1e-10)
    if nodes.nodes[0] > 0:
        path = np.append(start, solution(nodes.nodes))
        np.testing.assert_allclose(nodes.along(fractions) @ path, solution(fractions), atol=1e-9)


@meshes.holds(
    start=st.sampled_from([0.0, -2.0, 1e4]),
    span=st.floats(0.01, 100),
    share=st.floats(0.02, 2),
    places=st.lists(st.floats(-0.2, 1.2), max_size=5),
)
def test_even_knots_keep_ends_and_breaks_and_are_short_enough(start, span, share, places):
    stop, length = start + span, share * span
    breaks = [start + place * span for place in places]
    knots = uniform_knots((start, stop), length, breaks)
    assert (knots[0], knots[-1]) == (start, stop)
    assert {b for b in breaks if start < b < stop} <= set(knots.tolist())
    lengths = np.diff(knots)
    assert np.all(lengths > 0)
    assert np.all(lengths <= length * (1 + 1e-8) + 1e-12 * abs(start))


@meshes.holds(knots=rows, places=st.lists(st.floats(0.01, 0.99), max_size=5, unique=True))
def test_merging_keeps_ends_and_breaks_and_adds_nothing_else(knots, places):
    # Breaks closer than rounding are one break.
    breaks = tuple(sorted({float(knots[0] + round(place, 9) * (knots[-1] - knots[0])) for place in places}))
    merged = merge_breaks(knots, breaks)
    assert np.all(np.diff(merged) > 0)
    assert {knots[0], *breaks, knots[-1]} <= set(merged.tolist()) <= {*knots.tolist(), *breaks}
    if not breaks:
        np.testing.assert_array_equal(merged, knots)


test_many_meshes = meshes.many()
