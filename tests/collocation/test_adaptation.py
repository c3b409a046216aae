"""Where knots stand, and that splitting and carrying a path loses nothing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import picardfit as pf
from picardfit.collocation.adaptation import (
    carry,
    even_knots,
    first_mesh,
    joined,
    merge,
    split,
    state_scale,
    unresolved,
)
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Mesh, Nodes, rule
from picardfit.collocation.picard import end_states
from picardfit.collocation.point import contract_from
from picardfit.search.starts import make_start

DOSED = pf.Model("x' = -k*x + dose; z' = k*x - q*z", inputs=["dose"])


def dosed(times, breaks=(), **options) -> pf.Problem:
    dose = (np.array([0.0, *breaks]), np.arange(len(breaks) + 1.0)) if breaks else 1.0
    data = {"x": 1 + np.asarray(times), "z": 2 + np.cos(times)}
    return pf.Problem(DOSED, pf.Experiment(times, data, inputs={"dose": dose}, **options))


def mesh_of(problem, nodes=5) -> Mesh:
    start = make_start(problem)
    return first_mesh(problem, start, rule(nodes), state_scale(problem, [s for _, s in start.tables]))


# the first mesh


def test_knots_cover_the_span():
    problem = dosed(np.linspace(1, 7, 12))
    knots = mesh_of(problem).knots[0]
    assert (knots[0], knots[-1]) == (0.0, 7.0)


def test_knots_ascend():
    assert np.all(np.diff(mesh_of(dosed(np.geomspace(1e-4, 1e3, 40), breaks=(1.0, 30.0))).knots[0]) > 0)


def test_knots_begin_at_t0():
    assert mesh_of(dosed([3.0, 4, 5], t0=2.5)).knots[0][0] == 2.5


def test_knots_stand_at_the_breaks():
    breaks = (0.5, 0.51, 3.0, 6.99)
    assert set(breaks) <= set(mesh_of(dosed(np.linspace(0, 7, 15), breaks)).knots[0].tolist())


def test_breaks_outside_the_span_are_no_knots():
    knots = mesh_of(dosed([0.0, 1, 2], breaks=(1.0, 2.5))).knots[0]
    assert (knots[-1], 1.0 in knots) == (2.0, True)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(breaks=st.lists(st.floats(0.3, 6.7), min_size=1, max_size=4, unique=True).map(sorted))
def test_no_slivers_beside_a_break(breaks):
    """A segment is short only between two breaks that are as close themselves."""
    knots = mesh_of(dosed(np.linspace(0, 7, 15), tuple(breaks))).knots[0]
    lengths, fixed = np.diff(knots), [0.0, *breaks, 7.0]
    for a, b in pairwise(knots):
        if not (a in fixed and b in fixed):
            assert b - a > 0.05 * np.median(lengths)


def test_a_mesh_of_several_experiments_has_a_row_of_knots_for_each():
    one, two = dosed(np.linspace(0, 1, 5)), dosed(np.linspace(0, 1000, 5))
    problem = pf.Problem(
        DOSED,
        [
            *one.experiments,
            *(pf.Experiment(e.times, e.observations, "far", e.inputs) for e in two.experiments),
        ],
    )
    assert [k[-1] for k in mesh_of(problem).knots] == [1.0, 1000.0]


def test_samples_all_at_the_initial_time_give_one_short_segment():
    knots = mesh_of(dosed([0.0, 0.0])).knots[0]
    assert len(knots) == 2
    assert 0 < knots[1] - knots[0] <= 1e-6


def test_first_mesh_follows_log_spaced_samples():
    """Each decade of time that was sampled gets segments of its own."""
    model, times = pf.Model("x' = -k*x; z' = k*x - q*z"), np.geomspace(1e-5, 1e4, 46)
    run = pf.simulate(model, {"k": 20.0, "q": 0.02}, {"x": 1.0, "z": 0.0}, times)
    rates = {name: pf.Parameter(1e-4, 1e4, log=True) for name in "kq"}
    knots = mesh_of(pf.Problem(model, pf.Experiment(times, run.observables), rates)).knots[0]
    per_decade = np.histogram(np.log10(knots[1:-1]), bins=np.arange(-5, 5))[0]
    assert per_decade.min() >= 1


def test_evenly_sampled_gentle_dynamics_get_a_nearly_even_mesh():
    problem = pf.Problem(
        pf.Model("x' = -k*x"), pf.Experiment(np.linspace(0, 1, 21), {"x": np.linspace(2, 1, 21)})
    )
    lengths = mesh_of(problem).length
    assert lengths.max() < 1.5 * lengths.min()


def test_even_knots_are_no_longer_than_asked():
    knots = even_knots(dosed(np.linspace(0, 7, 5), breaks=(1.0, 2.2)), 0, 0.4)
    assert np.diff(knots).max() <= 0.4 + 1e-12
    assert {1.0, 2.2} <= set(knots.tolist())


def test_state_scale_is_never_zero():
    scale = state_scale(dosed([0.0, 1, 2]), [np.array([[1e3, 0.0], [3e3, 0.0]])])
    assert scale == pytest.approx([1e3, 1e3])  # a state that is zero takes the scale of the largest


def test_state_scale_of_constant_states_is_a_part_of_their_size():
    assert state_scale(dosed([0.0, 1, 2]), [np.full((5, 2), [100.0, 200.0])]) == pytest.approx([1.0, 2.0])


# splitting and carrying


def test_split_halves_the_chosen_segments():
    mesh = Mesh(rule(3), (np.array([0.0, 1, 3]), np.array([10.0, 20])))
    fine, parent, half = split(mesh, np.array([False, True, True]))
    assert [k.tolist() for k in fine.knots] == [[0, 1, 2, 3], [10, 15, 20]]
    assert (parent.tolist(), half.tolist()) == ([0, 1, 1, 2, 2], [2, 0, 1, 0, 1])


def test_split_of_nothing_is_the_same_mesh():
    mesh = Mesh(rule(3), (np.array([0.0, 1, 3]),))
    fine, _, half = split(mesh, np.zeros(2, bool))
    np.testing.assert_array_equal(fine.knots[0], mesh.knots[0])
    assert np.all(half == 2)


POLYNOMIAL = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.3, -0.1])  # degree 4: five nodes hold it


@pytest.mark.parametrize("family", Nodes)
@pytest.mark.parametrize("finer", [None, 7])
def test_carry_is_exact_for_polynomials(family, finer):
    mesh = Mesh(rule(5, family), (np.array([0.0, 1, 2.5]), np.array([-1.0, 1])))
    fine, parent, half = split(mesh, np.array([True, False, True]), finer and rule(finer, family))
    before = POLYNOMIAL(mesh.start[:, None] + mesh.length[:, None] * mesh.rule.nodes)[..., None]
    states, path = carry(mesh, fine, POLYNOMIAL(mesh.start)[:, None], before, parent, half)
    times = fine.start[:, None] + fine.length[:, None] * fine.rule.nodes
    np.testing.assert_allclose(states[:, 0], POLYNOMIAL(fine.start), atol=1e-13)
    np.testing.assert_allclose(path[..., 0], POLYNOMIAL(times), atol=1e-13)


def test_carry_keeps_the_jumps_at_old_knots():
    mesh = Mesh(rule(4), (np.array([0.0, 1, 2]),))
    rng = np.random.default_rng(0)
    states, before = rng.standard_normal((2, 2)), rng.standard_normal((2, 4, 2))
    fine, parent, half = split(mesh, np.ones(2, bool))
    carried, path = carry(mesh, fine, states, before, parent, half)
    old = end_states(mesh, states, before)[0] - states[1]
    np.testing.assert_allclose(path[1, -1] - carried[2], old, atol=1e-13)  # the last Radau node is the end


def layer(segments) -> tuple[Mesh, np.ndarray, np.ndarray]:
    """Start states and path of the solution of x' = -100 (x - cos t), x(0) = 0, with its layer of width 0.01."""
    model = pf.Model("x' = -k*(x - cos(t))")
    problem = pf.Problem(
        model, pf.Experiment([0, 1], {"x": [0, 0.5]}), parameters={"k": 100.0}, initial={"x": 0.0}
    )
    system = Discretisation(problem, Mesh(rule(5), (np.linspace(0, 1, segments + 1),)))
    begin = pf.simulate(model, {"k": 100.0}, {"x": 0.0}, system.mesh.start).states["x"][:, None]
    point, _ = contract_from(system, np.zeros((1, 0)), begin, np.ones(1))
    return system.mesh, point.states, point.path


def test_what_is_unresolved_decreases_with_refinement():
    levels = 10.0 ** -np.arange(0, 11, 0.5)
    open_ = [sum(unresolved(*layer(n), np.ones(1), t).any() for t in levels) for n in (10, 20, 40, 80)]
    assert all(fine < coarse for coarse, fine in pairwise(open_))


def test_only_the_layer_is_unresolved():
    assert np.flatnonzero(unresolved(*layer(10), np.ones(1), 1e-2)).tolist() == [0]


def test_nothing_is_unresolved_along_a_polynomial():
    mesh = Mesh(rule(5), (np.array([0.0, 1, 2]),))
    cubic = np.polynomial.Polynomial([1, 1, 1, 1])  # the last two of its six modes vanish
    assert not unresolved(
        mesh, cubic(mesh.start)[:, None], cubic(mesh.node_times)[..., None], np.ones(1), 1e-10
    ).any()


# joining segments


def test_merge_drops_the_knots_after_the_chosen_segments():
    mesh = Mesh(rule(4), (np.array([0.0, 1.0, 2.0, 4.0]), np.array([5.0, 6.0, 7.0])))
    coarse, begin = merge(mesh, np.array([1, 3]))
    assert [knots.tolist() for knots in coarse.knots] == [[0.0, 1.0, 4.0], [5.0, 7.0]]
    assert begin.tolist() == [0, 1, 3]


@pytest.mark.parametrize("family", [Nodes.RADAU, Nodes.LOBATTO, Nodes.CHEBYSHEV])
def test_joined_paths_are_exact_for_polynomials(family):
    mesh = Mesh(rule(5, family), (np.array([0.0, 1.0, 1.5, 3.0]),))
    polynomial = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.3])
    states, path = (polynomial(t)[..., None] for t in (mesh.start, mesh.node_times))
    chosen = np.array([0, 1])
    found = joined(mesh, states, path, chosen)
    length = mesh.length[chosen] + mesh.length[chosen + 1]
    times = mesh.start[chosen, None] + length[:, None] * mesh.rule.nodes
    np.testing.assert_allclose(found[..., 0], polynomial(times), atol=1e-12)
