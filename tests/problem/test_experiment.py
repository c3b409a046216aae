"""Experiments in canonical form."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from picardfit.errors import InputError
from picardfit.model.inputs import Constant, Table
from picardfit.model.parameters import Parameter
from picardfit.problem.experiment import Experiment

NAN = float("nan")


def fault(make, *args, **options):
    with pytest.raises(InputError) as caught:
        make(*args, **options)
    return str(caught.value)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, iter])
def test_any_sequence_is_accepted(kind):
    made = Experiment(kind([0, 1, 2]), {"prey": kind([3.0, 4.0, 5.0])})
    np.testing.assert_array_equal(made.values, [[3.0], [4.0], [5.0]])


def test_rows_are_sorted_by_time_and_replicates_keep_their_order():
    made = Experiment([2, 0, 2, 1], {"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]})
    np.testing.assert_array_equal(made.times, [0, 1, 2, 2])
    np.testing.assert_array_equal(made.values, [[2, 6], [4, 8], [1, 5], [3, 7]])


@pytest.mark.parametrize("blank", [None, "", "NA", NAN, pd.NA])
def test_blank_is_not_measured(blank):
    made = Experiment([0, 1], {"a": [1, blank], "b": [1, 2]})
    np.testing.assert_array_equal(made.values, [[1, 1], [NAN, 2]])


def test_nullable_series_is_accepted():
    made = Experiment([0, 1], {"a": pd.Series([1, pd.NA], dtype="Int64"), "b": [1, 2]})
    np.testing.assert_array_equal(made.values, [[1, 1], [NAN, 2]])


def test_rows_without_a_number_are_dropped():
    assert Experiment([0, 1, 2], {"a": [1, None, 3], "b": [1, None, None]}).times.tolist() == [0, 2]


def test_observables_keep_their_order():
    assert Experiment([0], {"b": [1], "a": [2]}).observables == ("b", "a")


def test_own_times_are_merged_to_rows():
    made = Experiment(None, {"a": ([0, 2], [1, 2]), "b": ([2, 1], [3, 4])})
    np.testing.assert_array_equal(made.times, [0, 1, 2])
    np.testing.assert_array_equal(made.values, [[1, NAN], [NAN, 4], [2, 3]])


def test_own_times_with_replicates_pair_the_first_with_the_first():
    made = Experiment(None, {"a": ([1, 1], [1, 2]), "b": ([1, 0, 1, 1], [3, 4, 5, 6])})
    np.testing.assert_array_equal(made.times, [0, 1, 1, 1])
    np.testing.assert_array_equal(made.values, [[NAN, 4], [1, 3], [2, 5], [NAN, 6]])


@pytest.mark.parametrize("times, expected", [([0, 1], 0.0), ([3, 4], 0.0), ([-2, 4], -2.0)])
def test_initial_time_is_zero_or_the_first_sample(times, expected):
    assert Experiment(times, {"a": [1, 2]}).t0 == expected


def test_given_initial_time_is_kept():
    assert Experiment([3, 4], {"a": [1, 2]}, t0=3).t0 == 3.0


def test_initial_values_are_numbers_formulas_or_parameters():
    given = {"a": 1, "b": "2*k", "c": (0, 5), "d": Parameter(0.1, 1, log=True), "e": Parameter(fixed=3)}
    made = Experiment([0], {"a": [1]}, initial=given)
    assert made.initial == {
        "a": 1.0,
        "b": "2*k",
        "c": Parameter(0, 5),
        "d": Parameter(0.1, 1, log=True),
        "e": 3.0,
    }


def test_inputs_are_evaluated_side_by_side_at_times_of_any_shape():
    made = Experiment([0], {"a": [1]}, inputs={"dose": 2, "light": "3*t"})
    np.testing.assert_array_equal(
        made.inputs_at(("light", "dose"), np.array([[0.0, 1.0]])), [[[0.0, 2.0], [3.0, 2.0]]]
    )


def test_no_inputs_have_no_columns():
    assert Experiment([0], {"a": [1]}).inputs_at((), np.zeros(3)).shape == (3, 0)


def test_inputs_are_understood():
    made = Experiment([0], {"a": [1]}, inputs={"dose": 2, "light": ([0, 1], [0, 1])})
    assert made.inputs == {"dose": Constant(2.0), "light": Table([0, 1], [0, 1])}


@pytest.mark.parametrize(
    "args, words",
    [
        (([0, 1], {"a": [1]}), "there are 2 times but 1 value of `a`"),
        (([0, NAN], {"a": [1, 2]}), "entry 2 of the times is nan"),
        (([0, np.inf], {"a": [1, 2]}), "entry 2 of the times is inf"),
        (([0, "noon"], {"a": [1, 2]}), "entry 2 of the times is 'noon', which is not a number"),
        (([0, 1], {"a": [1, np.inf]}), "entry 2 of the values of `a` is inf"),
        (([0, 1], {"a": [1, "many"]}), "entry 2 of the values of `a` is 'many', which is not a number"),
        (([0, 1], {"a": ["1", "two"]}), "entry 2 of the values of `a` is 'two', which is not a number"),
        ((0, {"a": [1]}), "the times must be a sequence of numbers, not 0"),
        (([0], {"a": 1}), "`a` must be a sequence of numbers, not 1"),
        (("01", {"a": [1, 2]}), "the times must be a sequence of numbers, not '01'"),
        (([0, 1], {"a": [[1, 2], [3, 4]]}), "`a` must be one flat sequence"),
        (([], {"a": []}), "nothing was measured"),
        (([0, 1], {"a": [None, NAN]}), "nothing was measured"),
        (([0, 1], {}), "there are no observations"),
        (([0, 1], [1, 2]), "`observations` must map names to values, not be a list"),
        (([0, 1], {1: [1, 2]}), "the name 1 in `observations` is not text"),
        ((None, {"a": [1, 2, 3]}), "`a` needs a pair (times, values)"),
        ((None, {"a": ([0, 1], [1])}), "`a` has 2 times but 1 value:"),
        ((None, {"a": ([0, NAN], [1, 2])}), "entry 2 of the times of `a` is nan"),
    ],
)
def test_bad_samples_are_named(args, words):
    assert words in fault(Experiment, *args)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"t0": 1}, "t0 = 1 is later than the sample at time 0"),
        ({"t0": NAN}, "initial time t0 is nan"),
        ({"t0": "0"}, "initial time t0 is '0', which is not a number"),
        ({"inputs": {"dose": "k*t"}}, "input `dose`: the formula 'k*t' uses `k`"),
        ({"inputs": 3}, "`inputs` must map names to values, not be an int"),
        ({"initial": {"a": (2, 1)}}, "initial value of `a`: the lower bound 2 is not below"),
        ({"initial": {"a": NAN}}, "initial value of `a` is nan"),
        ({"initial": {"a": "2*("}}, "`a`"),
    ],
)
def test_bad_options_name_the_experiment(options, words):
    message = fault(Experiment, [0, 1], {"a": [1, 2]}, name="pond 1", **options)
    assert message.startswith("Experiment `pond 1`: ")
    assert words in message


def test_bad_name_is_refused():
    assert "name {'dose': 0} is not text" in fault(Experiment, [0], {"a": [1]}, {"dose": 0})


@pytest.mark.parametrize(
    "times",
    [pd.to_datetime(["2020-01-02", "2020-01-01"]), np.array(["2020-01-02", "2020-01-01"], "datetime64[D]")],
)
def test_dates_count_in_days_from_the_first(times):
    one = Experiment(times, {"a": [1, 2]})
    assert (one.times.tolist(), one.t0, one.calendar.text(1.0)) == ([0, 1], 0, "2020-01-02")


@pytest.mark.parametrize("attribute", ["times", "values"])
def test_arrays_are_read_only(attribute):
    made = Experiment([0, 1], {"a": [1, 2]})
    with pytest.raises(ValueError, match="read-only"):
        getattr(made, attribute)[0] = 9


def test_columns_by_name_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        Experiment([0, 1], {"a": [1, 2]}).observations["a"][0] = 9


def test_experiment_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Experiment([0], {"a": [1]}).name = "b"


def test_changing_the_source_does_not_change_the_experiment():
    times, values = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    made = Experiment(times, {"a": values})
    times[0], values[0] = 9.0, 9.0
    assert (made.times[0], made.values[0, 0]) == (0.0, 1.0)


def test_pickle_keeps_everything():
    made = Experiment([1, 0], {"a": [1, None], "b": [2, 3]}, "p", {"u": 1}, {"a": (0, 1)}, t0=-1)
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.values, made.values)
    np.testing.assert_array_equal(again.times, made.times)
    assert not again.values.flags.writeable
    assert [again.name, again.inputs, again.initial, again.t0] == [
        made.name,
        made.inputs,
        made.initial,
        made.t0,
    ]


def test_replace_gives_another_name_to_the_same_data():
    made = Experiment([1, 0], {"a": [1, None], "b": [2, 3]})
    renamed = replace(made, name="pond 2")
    assert renamed.name == "pond 2"
    np.testing.assert_array_equal(renamed.values, made.values)


def test_text_of_an_experiment():
    made = Experiment([0, 1.25, 5, 5], {"prey": [1, 2, 3, 4], "pred": [1, None, 3, None]}, name="pond 1")
    assert str(made) == repr(made) == "pond 1: 3 times from 0 to 5, prey (4), pred (2)"


def test_text_of_a_nameless_experiment_with_one_time():
    assert str(Experiment([2], {"a": [1]})) == "experiment: 1 time, 2, a (1)"


def test_a_failing_input_names_the_experiment():
    one = Experiment([0, 1], {"x": [1, 2]}, name="pond", inputs={"u": lambda t: 1 / 0})
    assert fault(one.inputs_at, ["u"], np.array([0.0])).startswith("Experiment `pond`: input `u`: ")


def test_remarks_are_kept_in_copies_and_shown():
    one = Experiment([0, 1], {"a": [1, 2]}, name="pond", remarks="The first hour was lost.")
    assert [str(remark) for remark in one.remarks] == ["The first hour was lost."]
    assert pickle.loads(pickle.dumps(one)).remarks == replace(one, name="lake").remarks == one.remarks
    assert repr(one).endswith("a (2); The first hour was lost.")


@pytest.mark.parametrize("name", ["a\x1b[31m", "a\nb", "x" * 201])
def test_a_name_that_would_spoil_tables_is_refused(name):
    assert "control characters" in fault(Experiment, [0, 1], {"x": [1, 2]}, name)


def test_one_reset_needs_no_list():
    assert Experiment([0, 9], {"x": [1, 2]}, resets=5).resets == (5.0,)


def test_numbers_of_databases_are_numbers():
    assert Experiment([0, 1], {"x": [Decimal("1.5"), 2]}).values[:, 0].tolist() == [1.5, 2]
