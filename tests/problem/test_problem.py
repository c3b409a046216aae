"""Problem: what is unknown, what is known, the samples, and the loss at given values."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint

CHAIN = pf.Model("x' = -k*x; z' = k*x - q*z")
TIMES = np.array([0.0, 1.0, 2.0])


def runs(**options):
    first = pf.Experiment(TIMES, {"x": [3, 2, 1], "z": [0, 1, np.nan]}, name="first")
    second = pf.Experiment([0.5, 1.5], {"z": [0.2, 0.6]}, name="second")
    return pf.Problem(CHAIN, [first, second], **options)


def exact(rate=0.7, size=2.0, **options):
    model = pf.Model("x' = -k*x")
    data = {"x": size * np.exp(-rate * TIMES)}
    return pf.Problem(model, pf.Experiment(TIMES, data), **options)


def test_samples_of_all_experiments_stand_in_order():
    samples = runs().samples
    np.testing.assert_array_equal(samples.times, [0, 1, 2, 0.5, 1.5])
    np.testing.assert_array_equal(samples.experiment, [0, 0, 0, 1, 1])


def test_samples_have_a_column_for_every_observable():
    nan = np.nan
    np.testing.assert_array_equal(runs().samples.data, [[3, 0], [2, 1], [1, nan], [nan, 0.2], [nan, 0.6]])


def test_columns_are_the_models_whatever_the_order_of_the_data():
    one = pf.Experiment(TIMES, {"z": [4, 5, 6], "x": [1, 2, 3]})
    np.testing.assert_array_equal(pf.Problem(CHAIN, one).samples.data, [[1, 4], [2, 5], [3, 6]])


def test_measurements_are_counted_without_gaps():
    assert runs().measurements == 7


@pytest.mark.parametrize(
    "options, count",
    [
        ({}, 6),  # two parameters, two initial states in each of two experiments
        ({"parameters": {"k": 1.0}}, 5),
        ({"parameters": {"k": pf.Parameter(local=True)}}, 7),
        ({"initial": {"z": 0.0}}, 4),
        ({"initial": {"x": "c", "z": 0.0}, "parameters": {"c": (0, 5)}}, 3),
    ],
)
def test_unknowns_are_counted(options, count):
    assert runs(**options).layout.count() == count


def test_an_experiment_alone_is_a_list_of_one():
    assert exact().names == ("experiment 1",)


def test_unnamed_experiments_are_numbered():
    one = pf.Experiment(TIMES, {"x": [1, 2, 3]})
    assert pf.Problem(CHAIN, [one, one]).names == ("experiment 1", "experiment 2")


def test_an_experiments_own_initial_value_wins():
    own = pf.Experiment(TIMES, {"x": [3, 2, 1]}, initial={"x": 3.0})
    problem = pf.Problem(CHAIN, own, initial={"x": 5.0, "z": 0.0})
    np.testing.assert_array_equal(problem.layout.known, [[3.0, 0.0]])


def test_span_begins_at_t0_and_ends_at_the_last_sample():
    assert runs().span(1) == (0.0, 1.5)


def test_breaks_are_jumps_of_inputs_inside_the_span():
    model = pf.Model("x' = u - x", inputs=["u"])
    one = pf.Experiment(TIMES, {"x": [0, 1, 1]}, inputs={"u": ([0, 0.4, 1.7, 9], [0, 1, 0, 1])})
    assert pf.Problem(model, one).breaks(0) == (0.4, 1.7)


def test_inputs_are_those_of_the_experiment_of_each_row():
    model = pf.Model("x' = u - x", inputs=["u"])
    runs = [pf.Experiment(TIMES, {"x": [0, 1, 1]}, inputs={"u": u}) for u in ("t", 5)]
    values = pf.Problem(model, runs).inputs_at(np.array([1, 0]), np.array([[0.0, 1.0], [2.0, 3.0]]))
    np.testing.assert_array_equal(values[..., 0], [[5, 5], [2, 3]])


def test_output_scale_is_the_spread_of_the_data():
    scale = runs().output_scale
    np.testing.assert_allclose(scale, [np.std([3, 2, 1]), np.std([0, 1, 0.2, 0.6])])


def test_output_scale_of_what_was_never_measured_is_zero():
    assert pf.Problem(CHAIN, pf.Experiment(TIMES, {"x": [3, 2, 1]})).output_scale[1] == 0


def test_loss_at_the_truth_of_exact_data_is_zero():
    assert exact().loss({"k": 0.7}, {"x": 2.0}) == pytest.approx(0, abs=1e-16)


def test_loss_is_half_the_mean_square_over_sampling_instants():
    problem = exact(size=0.0 + 1e-9)
    expected = 0.5 * np.mean(np.exp(-2 * TIMES))
    assert problem.loss({"k": 1.0}, {"x": 1.0}) == pytest.approx(expected, rel=1e-6)


def test_loss_leaves_out_what_was_not_measured():
    problem = pf.Problem(CHAIN, pf.Experiment([0, 1], {"x": [1, np.nan], "z": [np.nan, 0]}))
    loss = problem.loss({"k": 0.0, "q": 0.0}, {"x": 3.0, "z": 1.0})
    assert loss == pytest.approx(0.5 * ((3 - 1) ** 2 + 1**2) / 2)


def test_loss_takes_initial_states_by_experiment():
    initial = {"first": {"x": 3.0, "z": 0.0}, "second": {"x": 1.0, "z": 0.0}}
    values = {"k": 0.5, "q": 0.1}
    swapped = {"first": initial["second"], "second": initial["first"]}
    assert runs().loss(values, initial) < runs().loss(values, swapped)


def test_loss_takes_local_parameters_by_experiment():
    problem = runs(parameters={"k": pf.Parameter(local=True)}, initial={"x": 3.0, "z": 0.0})
    by_mapping = problem.loss({"k": {"first": 0.4, "second": 0.2}, "q": 0.1})
    assert by_mapping == problem.loss({"k[first]": 0.4, "k[second]": 0.2, "q": 0.1})


def test_loss_needs_no_value_for_what_is_settled():
    settled = pf.Problem(
        pf.Model("x' = -k*x"),
        pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES)}),
        parameters={"k": 0.7, "c": (0, 5)},
        initial={"x": "2*c"},
    )
    assert settled.loss({"c": 1.0}) == pytest.approx(0, abs=1e-16)


def test_loss_refuses_a_value_that_contradicts_the_problem():
    error = complaint(exact(parameters={"k": 0.7}).loss, {"k": 0.8}, {"x": 2.0})
    assert (error.code, error.subject) == ("problem.fixed_otherwise", "k")


def test_loss_asks_for_a_missing_initial_state():
    error = complaint(exact().loss, {"k": 0.7})
    assert (error.code, error.subject) == ("problem.initial_without_value", "x(0)")


def test_with_experiments_keeps_everything_else():
    problem = exact(parameters={"k": (0, 2)}, initial={"x": (0, 9)})
    other = problem.with_experiments([pf.Experiment([0, 5], {"x": [1, 2]}, name="other")])
    assert (other.names, other.parameters, other.initial) == (("other",), problem.parameters, problem.initial)


def test_a_problem_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        exact().model = CHAIN


def test_a_problem_survives_pickling():
    problem = runs(initial={"x": "c", "z": 0.0}, parameters={"c": (0, 5)})
    copy = pickle.loads(pickle.dumps(problem))
    values = {"k": 0.5, "q": 0.1, "c": 3.0}
    assert copy.loss(values) == problem.loss(values)


def test_text_tells_experiments_and_unknowns():
    text = str(runs())
    assert "first: 3 times" in text
    assert "6 unknowns" in text


def test_columns_without_a_number_are_unmeasured():
    one = pf.Experiment(TIMES, {"x": [3, 2, 1], "z": [np.nan] * 3}, name="first")
    assert pf.Problem(CHAIN, one).unmeasured == (("first", "z"),)


def test_a_column_with_a_gap_is_measured():
    assert runs().unmeasured == ()


@pytest.mark.parametrize("noise", [None, pf.Noise(additive=0.1)])
def test_an_observable_needs_a_value_only_where_it_is_measured(noise):
    model = pf.Model("a' = -k*a\nb' = k*a", {"part": "b/(b + 0*a)", "a": "a"})
    model = pf.Model("a' = -k*a\nb' = k*a\nc' = 0*c", {"part": "b/(b + c)", "a": "a"})  # 0/0 at t = 0
    data = {"part": ([1.0, 2.0], [1.0, 1.0]), "a": ([0.0, 1.0, 2.0], np.exp([0.0, -1.0, -2.0]))}
    one = pf.Experiment(None, data, initial={"a": 1.0, "b": 0.0, "c": 0.0})
    problem = pf.Problem(model, [one], {"k": (0.1, 3)}, noise=noise)
    assert problem.loss({"k": 1.0}) == pytest.approx(0.0, abs=1e-15)
    assert np.isfinite(problem.nllh({"k": 1.2}))
    fit = pf.fit(problem)
    assert fit.success
    assert fit.parameters["k"] == pytest.approx(1.0, rel=1e-6)
    measured = pf.Experiment([0.0, 1.0], {"part": [1.0, 1.0]}, initial={"a": 1.0, "b": 0.0, "c": 0.0})
    assert pf.Problem(model, [measured], {"k": (0.1, 3)}, noise=noise).nllh({"k": 1.0}) == np.inf
