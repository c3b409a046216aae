"""The unknowns: how unknowns become parameters and initial states, with derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf

MODEL = pf.Model("x' = -k*x; z' = k*x - q*z; w' = -r*w")
TIMES = [0.0, 1.0]
DATA = {"x": [1.0, 0.5]}


def problem():
    """Two experiments: k log, q local, r fixed; x(0) free, z(0) a formula, w(0) free only in `b`."""
    return pf.Problem(
        MODEL,
        [
            pf.Experiment(TIMES, DATA, name="a", initial={"w": 4.0}),
            pf.Experiment(TIMES, DATA, name="b", initial={"z": "c^2 + q"}),
        ],
        parameters={
            "k": pf.Parameter(0.1, 10, log=True),
            "q": pf.Parameter(0, 5, local=True),
            "r": 0.25,
            "c": pf.Parameter(0.5, 8, log=True),
        },
        initial={"z": "k*c", "x": pf.Parameter(0, 20)},
    )


def unknowns(seed=0):
    """A point inside the bounds; shared columns agree."""
    layout, rng = problem().layout, np.random.default_rng(seed)
    low, high = np.maximum(layout.lower, -5), np.minimum(layout.upper, 5)
    point = low + rng.uniform(0.2, 0.8, low.shape) * (high - low)
    point[:, layout.local :] = point[0, layout.local :]
    return point


def test_columns_are_initial_states_then_local_then_shared_parameters():
    layout = problem().layout
    labels = [layout.label(1, c) for c in range(layout.width)]
    assert labels == ["x(0)[b]", "w(0)[b]", "q[b]", "k", "c"]


def test_labels_name_no_experiment_when_there_is_only_one():
    alone = pf.Problem(MODEL, pf.Experiment(TIMES, DATA, name="a"))
    layout = alone.layout
    assert [layout.label(0, c) for c in range(layout.width)] == ["x(0)", "z(0)", "w(0)", "k", "q", "r"]


def test_a_column_exists_only_where_it_is_unknown():
    np.testing.assert_array_equal(
        problem().layout.exists, [[True, False, True, True, True], [True, True, True, True, True]]
    )


def test_shared_unknowns_count_once():
    assert problem().layout.count() == 7


def test_parameters_are_natural_values_of_the_unknowns():
    layout, point = problem().layout, unknowns()
    k, c = np.exp(point[0, 3:])
    q = point[:, 2]
    np.testing.assert_allclose(layout.parameters(point), [[k, q[0], 0.25, c], [k, q[1], 0.25, c]])


def test_parameters_of_the_model_come_before_those_of_formulas():
    layout = problem().layout
    assert (layout.names, layout.model_parameters) == (("k", "q", "r", "c"), 3)


def test_initial_states_are_free_known_or_formulas():
    layout, point = problem().layout, unknowns()
    k, c = np.exp(point[0, 3:])
    values, _ = layout.initial(point)
    np.testing.assert_allclose(
        values, [[point[0, 0], k * c, 4.0], [point[1, 0], c**2 + point[1, 2], point[1, 1]]]
    )


@pytest.mark.parametrize("column", range(5))
def test_derivative_of_the_initial_states_is_that_of_central_differences(column):
    layout, point, step = problem().layout, unknowns(), 1e-6
    moved = np.zeros_like(point)
    moved[:, column] = step * layout.exists[:, column]
    difference = (layout.initial(point + moved)[0] - layout.initial(point - moved)[0]) / (2 * step)
    np.testing.assert_allclose(layout.initial(point)[1][..., column], difference, rtol=1e-8, atol=1e-8)


def test_slopes_are_those_of_central_differences():
    layout, point, step = problem().layout, unknowns(), 1e-6
    difference = (layout.natural(point + step) - layout.natural(point - step)) / (2 * step)
    np.testing.assert_allclose(layout.slopes(point), difference, rtol=1e-8)


def test_internal_inverts_natural():
    layout, point = problem().layout, unknowns()
    np.testing.assert_allclose(layout.internal(layout.natural(point)), point)


def test_bounds_are_internal():
    layout = problem().layout
    np.testing.assert_allclose(layout.upper[1, [0, 2, 3]], [20, 5, np.log(10)])
    np.testing.assert_allclose(layout.lower[1, [0, 2, 3]], [0, 0, np.log(0.1)])


def test_missing_lower_bound_of_a_log_parameter_is_open():
    one = pf.Problem(
        MODEL, pf.Experiment(TIMES, DATA), parameters={"k": pf.Parameter(upper=3, log=True)}
    ).layout
    column = [one.label(0, c) for c in range(one.width)].index("k")
    assert (one.lower[0, column], one.upper[0, column]) == (-np.inf, np.log(3))


def test_starts_are_internal_and_nan_where_none_was_given():
    one = pf.Problem(
        MODEL,
        pf.Experiment(TIMES, DATA),
        parameters={"k": pf.Parameter(log=True, start=2.0)},
        initial={"x": pf.Parameter(start=7.0)},
    ).layout
    np.testing.assert_allclose(one.start, [[7.0, np.nan, np.nan, np.log(2), np.nan, np.nan]])


def test_derivative_columns_are_the_free_parameters_of_the_model():
    layout = problem().layout
    assert [layout.names[k] for k in layout.free_parameters] == ["q", "k"]
    assert layout.columns.parameters.tolist() == [2, 3]


def test_one_formula_for_many_experiments_is_compiled_once():
    many = [pf.Experiment(TIMES, DATA, initial={"x": "c"}) for _ in range(5)]
    shared = pf.Problem(MODEL, many, parameters={"c": (0, 1)})
    assert len(shared.layout.formulas.expressions) == 1


def test_a_log_parameter_at_a_bound_is_reported_as_the_bound():
    from picardfit.problem.named_values import parameters_of, unknowns_from

    one = problem()
    inside = unknowns()
    for edge, k, c in ((one.layout.lower, 0.1, 0.5), (one.layout.upper, 10.0, 8.0)):
        at_edge = np.where(one.layout.log, edge, inside)
        found = parameters_of(one, at_edge)
        assert (found["k"], found["c"]) == (k, c)
    tiny = pf.Problem(
        pf.Model("x' = -k*x"), [pf.Experiment(TIMES, DATA)], {"k": pf.Parameter(1e-5, 1e3, log=True)}
    )
    for edge, k in ((tiny.layout.lower, 1e-5), (tiny.layout.upper, 1e3)):
        column = tiny.layout.width - 1
        at_edge = np.where(np.arange(tiny.layout.width) == column, edge, 1.0)
        assert tiny.layout.parameters(at_edge)[0, 0] != k  # the exponential alone misses it
        assert parameters_of(tiny, at_edge)["k"] == k
        again = unknowns_from(tiny, parameters_of(tiny, at_edge), {"x": 1.0})
        assert np.array_equal(again, at_edge)


@pytest.mark.parametrize(
    "value, within, expected", [(1.0, 0.0, True), (1.001, 0.0, False), (1.001, 0.01, True)]
)
def test_at_bounds_counts_what_is_within_a_distance(value, within, expected):
    run = pf.Experiment([0, 1, 2], {"x": [1.0, 0.5, 0.2]}, initial={"x": 1.0})
    layout = pf.Problem(pf.Model("x' = -k*x"), run, {"k": (1, 5)}).layout
    assert layout.at_bounds(np.array([[value]]), within).all() == expected
