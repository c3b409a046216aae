"""simulate(), the paper's noise, and values by name for problem.loss."""

from math import inf

import numpy as np
import pytest

import picardfit as pf
from picardfit.errors import InputError
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter
from picardfit.problem.experiment import Experiment
from picardfit.problem.named_values import unknowns_from
from picardfit.problem.problem import Problem
from picardfit.simulation.simulate import noisy, simulate

DECAY = Model("x' = -rate*x + dose", observables={"y": "2*x"}, inputs=["dose"])
PAIR = Model("prey' = -a*prey\npred' = -b*pred")


# ---- simulate ------------------------------------------------------------------------------------


def test_states_have_the_closed_form():
    t = np.linspace(0, 3, 7)
    result = simulate(DECAY, {"rate": 2.0}, {"x": 1.0}, t, {"dose": 0.0})
    np.testing.assert_allclose(result.states["x"], np.exp(-2 * t), rtol=1e-9)


def test_observables_are_formulas_of_the_states():
    result = simulate(DECAY, {"rate": 2.0}, {"x": 1.0}, [0.5], {"dose": 0.0})
    assert result.observables["y"] == pytest.approx(2 * result.states["x"])


def test_inputs_may_jump():
    result = simulate(DECAY, {"rate": 1.0}, {"x": 0.0}, [1.0, 2.0], {"dose": ([0, 1], [0.0, 1.0])})
    np.testing.assert_allclose(result.states["x"], [0.0, 1 - np.exp(-1)], atol=1e-10)


def test_times_come_back_in_the_order_given():
    result = simulate(DECAY, {"rate": 1.0}, {"x": 1.0}, [2.0, 0.0, 1.0, 1.0], {"dose": 0.0})
    np.testing.assert_array_equal(result.times, [2.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(result.states["x"], np.exp([-2.0, 0.0, -1.0, -1.0]), rtol=1e-9)


@pytest.mark.parametrize(
    "t0, times, expected", [(None, [1.0], 1.0), (None, [-1.0, 0.0], 1.0), (0.5, [1.0], 0.5)]
)
def test_initial_state_holds_at_zero_or_the_first_time_or_t0(t0, times, expected):
    result = simulate(DECAY, {"rate": 1.0}, {"x": 1.0}, times, {"dose": 0.0}, t0=t0)
    assert result.states["x"][-1] == pytest.approx(np.exp(-expected), rel=1e-9)


def test_frame_has_time_states_and_observables():
    frame = simulate(DECAY, {"rate": 1.0}, {"x": 1.0}, [0.0, 1.0], {"dose": 0.0}).to_frame()
    assert list(frame.columns) == ["time", "x", "y"]
    assert frame["y"].iloc[0] == 2.0


@pytest.mark.parametrize(
    "parameters, initial, times, inputs, words",
    [
        ({"rat": 1.0}, {"x": 1.0}, [1.0], {"dose": 0.0}, "`rat` in parameters.*Did you mean `rate`"),
        ({}, {"x": 1.0}, [1.0], {"dose": 0.0}, "parameter `rate` has no value"),
        ({"rate": 1.0}, {"z": 1.0}, [1.0], {"dose": 0.0}, "`z` in initial is not one of the model's states"),
        ({"rate": 1.0}, {}, [1.0], {"dose": 0.0}, "state `x` has no value"),
        ({"rate": 1.0}, {"x": 1.0}, [1.0], {}, "input `dose` has no value"),
        ({"rate": 1.0}, {"x": 1.0}, [1.0], {"dose": 0, "dos": 0}, "`dos` in inputs.*Did you mean `dose`"),
        ({"rate": "1"}, {"x": 1.0}, [1.0], {"dose": 0.0}, "value of `rate` is '1'"),
        ({"rate": 1.0}, {"x": np.nan}, [1.0], {"dose": 0.0}, "value of `x` is nan"),
        ({"rate": 1.0}, {"x": 1.0}, [], {"dose": 0.0}, "no times"),
        ([1.0], {"x": 1.0}, [1.0], {"dose": 0.0}, "`parameters` must map names to values, not be a list"),
    ],
)
def test_bad_values_are_named(parameters, initial, times, inputs, words):
    with pytest.raises(InputError, match=words):
        simulate(DECAY, parameters, initial, times, inputs)


def test_t0_after_a_time_is_refused():
    with pytest.raises(InputError, match="t0 = 2 is later than the time 1"):
        simulate(DECAY, {"rate": 1.0}, {"x": 1.0}, [1.0, 3.0], {"dose": 0.0}, t0=2.0)


def test_explosion_names_the_time_reached():
    with pytest.raises(InputError, match=r"grows without bound near t = 0\.5:"):
        simulate(Model("x' = a*x^2"), {"a": 1.0}, {"x": 2.0}, [0.1, 3.0])


# ---- noise ---------------------------------------------------------------------------------------


def test_proportional_noise_is_common_to_all_outputs():
    exact = np.array([[1.0, 5.0, -2.0]] * 4)
    data = noisy(np.random.default_rng(0), exact, additive_sd=0.0, proportional_sd=0.3)
    factors = data / exact
    np.testing.assert_allclose(factors, np.tile(factors[:, :1], 3))
    assert np.ptp(factors[:, 0]) > 0.01


def test_additive_noise_is_independent_between_outputs():
    data = noisy(np.random.default_rng(0), np.zeros((20_000, 2)), additive_sd=1.0, proportional_sd=0.3)
    assert abs(np.corrcoef(data.T)[0, 1]) < 0.03


def test_noise_has_the_covariance_of_the_paper():
    g, sd = np.array([2.0, -1.0]), 0.2
    data = noisy(np.random.default_rng(1), np.tile(g, (100_000, 1)), sd, sd)
    np.testing.assert_allclose(np.cov(data.T), sd**2 * (np.eye(2) + np.outer(g, g)), atol=0.005)


# ---- values by name: problem.loss and unknowns_from ------------------------------------------------


def ponds(**changes):
    t = np.array([0.0, 1.0])
    experiments = [
        Experiment(t, {"prey": [1.0, np.exp(-1.0)], "pred": [2.0, 2.0]}, name="pond 1"),
        Experiment(
            t, {"prey": [3.0, 3 * np.exp(-1.0)], "pred": [np.nan, 2.0]}, name="pond 2", initial={"pred": 2.0}
        ),
    ]
    settings = {"parameters": {"a": (0.1, 10), "b": 0.0}, **changes}
    return Problem(PAIR, experiments, **settings)


STARTS = {"pond 1": {"prey": 1.0, "pred": 2.0}, "pond 2": {"prey": 3.0}}


def test_loss_is_zero_where_the_data_come_from():
    assert ponds().loss({"a": 1.0}, STARTS) == pytest.approx(0.0, abs=1e-18)


def test_loss_is_half_the_sum_of_squares_by_sampling_instant():
    moved = {**STARTS, "pond 1": {"prey": 1.0, "pred": 2.5}}
    assert ponds().loss({"a": 1.0}, moved) == pytest.approx(0.5 * (0.5**2 + 0.5**2) / 4)


def test_one_initial_value_can_hold_for_all_experiments():
    problem, each = ponds(), {name: {"prey": 1.5} for name in ("pond 1", "pond 2")}
    each["pond 1"]["pred"] = 2.0
    assert problem.loss({"a": 1.0}, {"prey": 1.5, "pred": 2.0}) == pytest.approx(
        problem.loss({"a": 1.0}, each)
    )


def test_own_initial_value_wins_over_the_common_one():
    assert ponds().loss({"a": 1.0}, {"prey": 7.0, "pred": 2.0, **STARTS}) == pytest.approx(0.0, abs=1e-18)


@pytest.mark.parametrize(
    "given", [{"a": {"pond 1": 1.0, "pond 2": 2.0}}, {"a[pond 1]": 1.0, "a[pond 2]": 2.0}]
)
def test_local_parameters_have_a_value_for_each_experiment(given):
    problem = ponds(parameters={"a": Parameter(0.1, 10, local=True), "b": 0.0})
    expected = 0.5 * (3 * (np.exp(-2.0) - np.exp(-1.0))) ** 2 / 4
    assert problem.loss(given, STARTS) == pytest.approx(expected, rel=1e-8)


def test_loss_is_infinite_without_a_solution():
    model = Model("x' = a*x^2")
    problem = Problem(model, Experiment([0.0, 2.0], {"x": [1.0, 1.0]}))
    assert problem.loss({"a": 1.0}, {"x": 1.0}) == inf


def test_formula_initial_states_follow_their_parameters():
    problem = Problem(
        Model("x' = -a*x"), Experiment([0.0], {"x": [5.0]}), parameters={"x0": (0, 9)}, initial={"x": "2*x0"}
    )
    assert problem.loss({"a": 1.0, "x0": 2.0}) == pytest.approx(0.5)


def test_log_parameters_are_given_in_natural_units():
    problem = ponds(parameters={"a": Parameter(0.1, 10, log=True), "b": 0.0})
    unknowns = unknowns_from(problem, {"a": 2.0}, STARTS)
    assert unknowns[0, -1] == pytest.approx(np.log(2.0))
    assert problem.layout.parameters(unknowns)[1, 0] == pytest.approx(2.0)


def test_what_is_not_given_can_be_nan():
    problem = ponds()
    unknowns = unknowns_from(problem, {}, {"pond 2": {"prey": 3.0}}, missing="nan")
    values = {problem.layout.label(e, c): unknowns[e, c] for e, c in np.argwhere(problem.layout.exists)}
    assert values["prey(0)[pond 2]"] == 3.0
    assert np.isnan([values["prey(0)[pond 1]"], values["pred(0)[pond 1]"], values["a"]]).all()


@pytest.mark.parametrize(
    "parameters, initial, words",
    [
        ({}, STARTS, "`a` has no value"),
        (
            {"a": 1.0},
            {"pond 1": {"prey": 1.0, "pred": 2.0}},
            r"`prey\(0\)\[pond 2\]` is unknown and has no value",
        ),
        ({"aa": 1.0}, STARTS, "`aa` is not a parameter.*Did you mean `a`"),
        ({"prey": 1.0}, STARTS, "`prey` is an initial state: give it in initial="),
        ({"a": {"pond 1": 1.0}}, STARTS, "`a` is shared by all experiments"),
        ({"a": 1.0, "b": 1.0}, STARTS, "`b` is fixed at 0"),
        ({"a": 1.0}, {"prey": 1.0, "pred": 3.0}, r"`pred\(0\)` is set to 2 in `pond 2`"),
        ({"a": 1.0}, {"pond 3": {"prey": 1.0}}, "no experiment `pond 3`.*Did you mean `pond"),
        ({"a": 1.0}, {"pray": 1.0}, "`pray` in initial is not a state.*Did you mean `prey`"),
        ({"a": "1"}, STARTS, "value of `a` is '1'"),
        (None, [1.0], "`initial` must map names to values, not be a list"),
    ],
)
def test_values_that_do_not_fit_are_named(parameters, initial, words):
    with pytest.raises(InputError, match=words):
        ponds().loss(parameters, initial)


def test_log_parameter_must_be_positive():
    with pytest.raises(InputError, match="`a` is -1 but was declared with log=True"):
        ponds(parameters={"a": Parameter(0.1, 10, log=True), "b": 0.0}).loss({"a": -1.0}, STARTS)


@pytest.mark.parametrize("common", [False, True])
def test_simulated_measurements_follow_the_noise_model(common):
    model = pf.Model("x' = 0*x\ny' = 0*y")
    noise = pf.Noise(additive=0.3, proportional=0.1, common=common)
    times = np.arange(4000.0)
    exact = {"x": 4.0, "y": 8.0}
    seen = pf.simulate(model, {}, exact, times, noise=noise, seed=1)
    data = np.stack([seen.observables["x"], seen.observables["y"]])
    np.testing.assert_allclose(data.mean(axis=1), [4.0, 8.0], atol=0.07)
    cross = 0.01 * 32 if common else 0.0
    expected = [[0.09 + 0.01 * 16, cross], [cross, 0.09 + 0.01 * 64]]
    np.testing.assert_allclose(np.cov(data), expected, atol=0.06)
    np.testing.assert_array_equal(seen.states["x"], np.full(4000, 4.0))
    again = pf.simulate(model, {}, exact, times, noise=noise, seed=1)
    np.testing.assert_array_equal(again.observables["x"], seen.observables["x"])


def test_simulation_needs_known_levels():
    with pytest.raises(pf.InputError, match="has no value"):
        pf.simulate(pf.Model("x' = -x"), {}, {"x": 1.0}, [1.0], noise=pf.Noise(additive=(0.1, 1.0)))


def test_relative_noise_leaves_zeros_alone():
    model = pf.Model("x' = -a*x\ny' = a*x")
    noise = pf.Noise(proportional=0.2)
    found = pf.simulate(model, {"a": 1.0}, {"x": 1.0, "y": 0.0}, [0.0, 1.0], noise=noise)
    assert found.observables["y"][0] == 0.0
    assert (found.observables["x"] != found.states["x"]).all()


def test_a_long_run_with_many_samples_ends():
    """Two hundred periods of Van der Pol at a tight tolerance take more evaluations than a short run may."""
    model = pf.Model("x' = y; y' = (1 - x^2)*y - w*x")
    times = np.linspace(0, 1340, 4000)
    run = pf.simulate(model, {"w": 1.0}, {"x": 1.0, "y": 1.0}, times)
    assert np.abs(run.states["x"]).max() == pytest.approx(2.009, abs=5e-3)
