"""Integral matching: parameters from the guessed path, without solving the equations."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.integral_matching import match_parameters
from picardfit.search.starts import make_start

LOTKA = pf.Model("x' = a*x - b*x*y; y' = d*x*y - c*y")
LOTKA_TRUTH = {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}
DRIVEN = pf.Model("x' = -k*x + g*dose; z' = q*x - m*z", inputs=["dose"])
DRIVEN_TRUTH = {"k": 0.8, "g": 1.5, "q": 0.6, "m": 0.3}
TIMES = np.linspace(0, 10, 401)


def matched(model, truth, initial, bounds=None, begin=None, inputs=None, pinned=(), known=None, runs=1):
    """Parameters by name after matching along the exact path, from `begin` (1 where not given)."""
    one = pf.simulate(model, truth, initial, TIMES, inputs)
    experiments = [pf.Experiment(TIMES, one.observables, f"{e}", inputs) for e in range(runs)]
    problem = pf.Problem(model, experiments, parameters=bounds)
    layout = problem.layout
    states = np.stack([one.states[s] for s in model.states], axis=1)
    labels = [layout.label(0, c) for c in range(layout.width)]
    natural = [initial.get(n.split("(")[0], (begin or {}).get(n, 1.0)) for n in labels]
    unknowns = layout.internal(np.tile(natural, (runs, 1)))
    open_ = layout.exists & ~np.isin(labels, pinned)
    measured = np.tile(np.ones(len(model.states), bool) if known is None else known, (runs, 1))
    found = match_parameters(
        problem, unknowns, np.tile(TIMES, (runs, 1)), np.tile(states, (runs, 1, 1)), measured, open_
    )
    return found, unknowns, dict(zip(model.parameters, layout.model_values(found)[0].tolist(), strict=True))


PROBLEMS = {
    "lotka": (LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, None),
    "driven": (DRIVEN, DRIVEN_TRUTH, {"x": 1.0, "z": 0.5}, {"dose": "1 + sin(t)"}),
}


@pytest.mark.parametrize("model, truth, initial, inputs", PROBLEMS.values(), ids=PROBLEMS)
def test_recovers_parameters_that_enter_linearly(model, truth, initial, inputs):
    assert matched(model, truth, initial, inputs=inputs)[2] == pytest.approx(truth, rel=1e-2)


@pytest.mark.parametrize("begin", [0.01, 30.0])
def test_a_linear_model_is_matched_from_anywhere(begin):
    found = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, begin=dict.fromkeys(LOTKA_TRUTH, begin))[2]
    assert found == pytest.approx(LOTKA_TRUTH, rel=1e-2)


def test_recovers_log_parameters():
    bounds = {n: pf.Parameter(1e-3, 1e2, log=True) for n in LOTKA_TRUTH}
    found = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, bounds)[2]
    assert found == pytest.approx(LOTKA_TRUTH, rel=1e-2)


def test_recovers_parameters_that_enter_nonlinearly():
    model, truth = pf.Model("x' = r*x*(1 - x/K)"), {"r": 0.7, "K": 5.0}
    found = matched(model, truth, {"x": 0.2}, bounds={"r": (0.1, 3), "K": (1, 20)}, begin={"K": 10.0})[2]
    assert found == pytest.approx(truth, rel=1e-2)


def test_several_experiments_share_their_parameters():
    found, _, values = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, runs=3)
    assert values == pytest.approx(LOTKA_TRUTH, rel=1e-2)
    np.testing.assert_array_equal(found[:, 2:], np.tile(found[:1, 2:], (3, 1)))


def test_never_leaves_the_bounds():
    """The truth lies outside in every coordinate: the answer sits inside, on the near bounds."""
    bounds = {"a": (1.2, 3), "b": (0.1, 0.3), "c": (1.0, 2), "d": (0.01, 0.2)}
    begin = {n: (low + high) / 2 for n, (low, high) in bounds.items()}
    found = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, bounds, begin)[2]
    assert all(bounds[n][0] <= v <= bounds[n][1] for n, v in found.items())


def test_a_bound_that_cuts_off_the_truth_acts():
    found = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, {"a": (0.1, 0.8)}, {"a": 0.5})[2]
    assert found["a"] == pytest.approx(0.8)


def test_pinned_parameters_do_not_move():
    found = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, begin={"a": 1.7, "c": 0.2}, pinned=("a", "c"))[
        2
    ]
    assert (found["a"], found["c"]) == (1.7, 0.2)


def test_the_others_make_the_best_of_pinned_ones():
    found = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, begin={"a": 1.0}, pinned=("a",))[2]
    assert found == pytest.approx(LOTKA_TRUTH, rel=1e-2)


def test_initial_states_do_not_move():
    found, before, _ = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0})
    np.testing.assert_array_equal(found[:, :2], before[:, :2])


def test_everything_pinned_changes_nothing():
    found, before, _ = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, pinned=tuple(LOTKA_TRUTH))
    np.testing.assert_array_equal(found, before)


def test_nothing_measured_changes_nothing():
    found, before, _ = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, known=np.zeros(2, bool))
    np.testing.assert_array_equal(found, before)


def test_equations_of_states_that_were_not_measured_have_no_say():
    found = matched(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, known=np.array([True, False]))[2]
    assert (found["a"], found["b"]) == pytest.approx((1.0, 0.4), rel=1e-2)
    assert (found["c"], found["d"]) == (1.0, 1.0)


def test_a_model_that_is_not_finite_along_the_path_changes_nothing():
    problem = pf.Problem(pf.Model("x' = -k*sqrt(x)"), pf.Experiment([0, 1], {"x": [1, 1]}))
    unknowns, grid = np.array([[1.0, 0.5]]), np.linspace(0, 1, 21)[None]
    path = np.full((1, 21, 1), -1.0)
    found = match_parameters(problem, unknowns, grid, path, np.ones((1, 1), bool), np.ones((1, 2), bool))
    np.testing.assert_array_equal(found, unknowns)


def test_a_straight_path_gives_its_slope():
    problem = pf.Problem(pf.Model("x' = k"), pf.Experiment([0, 1], {"x": [1, 3]}))
    unknowns, grid, every = np.array([[1.0, 0.5]]), np.linspace(0, 1, 21)[None], np.ones((1, 2), bool)
    found = match_parameters(problem, unknowns, grid, 1 + 2 * grid[..., None], every[:, :1], every)
    assert found[0, 1] == pytest.approx(2.0, rel=1e-6)


def test_no_free_parameter_changes_nothing():
    problem = pf.Problem(pf.Model("x' = -k*x"), pf.Experiment([0, 1], {"x": [1, 2]}), parameters={"k": 1.0})
    unknowns, grid, every = np.array([[1.0]]), np.linspace(0, 1, 21)[None], np.ones((1, 1), bool)
    found = match_parameters(problem, unknowns, grid, np.ones((1, 21, 1)), every, every)
    np.testing.assert_array_equal(found, unknowns)


def test_a_start_from_dense_exact_data_is_near_the_truth():
    run = pf.simulate(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, TIMES)
    problem = pf.Problem(
        LOTKA, pf.Experiment(TIMES, run.observables), parameters=dict.fromkeys(LOTKA_TRUTH, (0.01, 10))
    )
    values = problem.layout.model_values(make_start(problem).unknowns)[0]
    assert dict(zip(LOTKA.parameters, values, strict=True)) == pytest.approx(LOTKA_TRUTH, rel=2e-2)
