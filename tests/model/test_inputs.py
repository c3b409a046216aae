"""Inputs: every way to write one, values at and around jumps, breakpoints, saving."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest

import picardfit as pf
from picardfit.errors import InputError
from picardfit.model.inputs import (
    TABLE_KINDS,
    Constant,
    Formula,
    Signal,
    Table,
    as_input,
    check_finite,
    input_from_spec,
    values_at,
)
from picardfit.model.number_arrays import number_array

T = np.array([[-1.0, 0.0, 0.5], [1.0, 1.5, 9.0]])


def ramp(t):
    return np.maximum(t, 0.0)


@pytest.mark.parametrize(
    "spec, expected",
    [
        (2, np.full(T.shape, 2.0)),
        (np.float32(2), np.full(T.shape, 2.0)),
        ("2*t + 1", 2 * T + 1),
        ("3", np.full(T.shape, 3.0)),
        (([0, 1], [5, 7]), np.array([[5, 5, 5], [7, 7, 7]])),
        (np.array([[0, 1], [5, 7]]), np.array([[5, 5, 5], [7, 7, 7]])),
        (Table([0, 1], [5, 7], kind="linear"), np.array([[5, 5, 6], [7, 7, 7]])),
        (Table([1, 0], [7, 5]), np.array([[5, 5, 5], [7, 7, 7]])),
        (ramp, np.maximum(T, 0)),
        (lambda t: 1.0 if t > 1 else 0.0, (T > 1).astype(float)),
        (math.exp, np.exp(T)),
        (lambda t: 4, np.full(T.shape, 4.0)),
        (Signal(ramp, breakpoints=[0.0]), np.maximum(T, 0)),
    ],
)
def test_values_have_the_shape_of_the_times(spec, expected):
    values = as_input("dose", spec).at(T)
    assert (values.shape, values.dtype) == (T.shape, np.dtype(float))
    np.testing.assert_allclose(values, expected)


@pytest.mark.parametrize("spec", [2.0, "2*t", ([0, 1], [5, 7]), Table([0, 1], [5, 7], "linear"), math.exp])
def test_one_time_gives_one_value(spec):
    assert as_input("dose", spec).at(np.array(0.5)).shape == ()


def test_scalar_function_that_would_mix_the_times_is_called_time_by_time():
    np.testing.assert_array_equal(Signal(np.sum).at(T), T)


def test_input_passes_through():
    table = Table([0, 1], [2, 3])
    assert as_input("dose", table) is table


def test_table_jumps_to_the_new_value_at_the_time_itself():
    table = Table([0, 1], [5, 7])
    np.testing.assert_array_equal(table.at(np.array([np.nextafter(1, 0), 1.0])), [5.0, 7.0])


def test_held_table_breaks_only_where_the_value_changes():
    assert Table([0, 1, 2, 3], [0, 0, 5, 0]).breakpoints == (2.0, 3.0)


def test_linear_table_breaks_where_it_bends():
    assert Table([0, 1, 2, 3], [0, 1, 5, 9], kind="linear").breakpoints == (0.0, 1.0, 3.0)


def test_finely_held_table_breaks_at_every_change():
    times = np.linspace(0, 10, 2001)
    assert Table(times, np.sin(times)).breakpoints == tuple(times[1:])


def test_formula_breaks_where_its_condition_switches():
    formula = as_input("dose", "piecewise(1, t < 2, 0)")
    assert formula.breakpoints == (2.0,)


@pytest.mark.parametrize("spec", [1.0, "sin(t)", math.exp])
def test_smooth_inputs_have_no_breakpoints(spec):
    assert as_input("dose", spec).breakpoints == ()


def test_signal_breakpoints_are_sorted_and_distinct():
    assert Signal(ramp, breakpoints=[3, 1, 3]).breakpoints == (1.0, 3.0)


@pytest.mark.parametrize(
    "spec, words",
    [
        ("k*t", "Input `dose`: the formula 'k*t' uses `k`, but an input may use only the time `t`"),
        (math.nan, "Input `dose`: the value is nan"),
        (([0, 1], [1]), "Input `dose`: the table has 2 times but 1 value:"),
        (([0, 0], [1, 2]), "Input `dose`: the table has two values at time 0"),
        (([], []), "Input `dose`: the table is empty"),
        (([0, math.nan], [1, 2]), "Input `dose`: entry 2 of the times is nan"),
        (([0, 1], [1, math.inf]), "Input `dose`: entry 2 of the values is inf"),
        (([0, 1], [1, "x"]), "Input `dose`: entry 2 of the values is 'x', which is not a number"),
        ((0, 1), "Input `dose`: the times must be a sequence of numbers, not 0"),
        ((1, 2, 3), "Input `dose` is given as (1, 2, 3)"),
        (None, "Input `dose` is given as None"),
        (True, "Input `dose` is given as True"),
        ({0: 1}, "Input `dose` is given as {0: 1}"),
    ],
)
def test_bad_input_is_named_with_its_fault(spec, words):
    with pytest.raises(InputError) as caught:
        as_input("dose", spec)
    assert words in str(caught.value)


def test_unreadable_formula_is_an_input_error():
    with pytest.raises(InputError, match="`dose`"):
        as_input("dose", "2*(t")


def test_formula_text_is_not_executed():
    with pytest.raises(InputError):
        as_input("dose", "__import__('os').getcwd()")


def test_unknown_table_kind_names_the_known_ones():
    with pytest.raises(InputError, match="kind='hold', kind='linear' or kind='marks'"):
        Table([0], [1], kind="cubic")


@pytest.mark.parametrize("kind", ["Linear", "lineer", ["linear"]])
def test_a_near_table_kind_is_suggested(kind):
    with pytest.raises(InputError, match="Did you mean `linear`"):
        Table([0, 1], [1, 2], kind=kind)


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_every_kind_of_table_survives_its_description(kind):
    made = Table([0, 1], [1, 2], kind=kind)
    assert input_from_spec(made.spec()) == made


def test_signal_must_be_a_function():
    with pytest.raises(InputError, match="is not a function"):
        Signal(3.0)


@pytest.mark.parametrize("result", [None, "a", 1j, [1.0, 2.0]])
def test_signal_that_returns_no_number_is_refused(result):
    with pytest.raises(InputError, match="at t = -1: it must return one real number"):
        Signal(lambda t: result).at(T)


@pytest.mark.parametrize("spec", [2.0, "2*t", ([0, 1], [5, 7]), Table([0, 1], [5, 7], "linear")])
def test_saved_input_is_restored_from_json(spec):
    original = as_input("dose", spec)
    assert input_from_spec(json.loads(json.dumps(original.spec()))) == original


def test_saved_function_cannot_be_restored():
    description = json.loads(json.dumps(as_input("dose", ramp).spec()))
    with pytest.raises(InputError, match="function ramp, which a file cannot hold"):
        input_from_spec(description)


def test_unknown_saved_input_is_refused():
    with pytest.raises(InputError, match="is not known"):
        input_from_spec({"kind": "spline"})


@pytest.mark.parametrize("spec", [2.0, "2*t", ([0, 1], [5, 7]), ramp])
def test_input_survives_a_pickle(spec):
    original = as_input("dose", spec)
    assert pickle.loads(pickle.dumps(original)) == original


def test_table_stays_read_only_after_a_pickle():
    table = pickle.loads(pickle.dumps(Table([0, 1], [5, 7])))
    with pytest.raises(ValueError, match="read-only"):
        table.values[0] = 1.0


def test_table_does_not_share_memory_with_its_source():
    source = np.array([5.0, 7.0])
    table = Table([0, 1], source)
    source[0] = 99.0
    assert table.values[0] == 5.0


def test_equal_tables_have_equal_hashes():
    assert hash(Table([0, 1], [5, 7])) == hash(Table([1, 0], [7, 5]))


@pytest.mark.parametrize(
    "made, text",
    [
        (Constant(0.5), "0.5"),
        (Formula("2*t"), "2*t"),
        (Table([0, 1, 6], [1, 2, 3]), "steps: 3 times from 0 to 6"),
        (Table([0], [1.5]), "steps: 1.5"),
        (Signal(ramp), "function ramp"),
    ],
)
def test_description_is_short(made, text):
    assert made.describe() == text


@pytest.mark.parametrize("blank", [None, "", " ", "NA", "nan", float("nan")])
def test_blank_entries_are_missing(blank):
    np.testing.assert_array_equal(number_array([1, blank], "`prey`", missing=True), [1.0, np.nan])


def test_masked_entries_are_missing():
    masked = np.ma.masked_array([1, 2], mask=[False, True])
    np.testing.assert_array_equal(number_array(masked, "`prey`", missing=True), [1.0, np.nan])


@pytest.mark.parametrize("nested", [[[1, 2], [3, 4]], [[1], [2, 3]], np.ones((2, 1))])
def test_nested_sequences_are_refused(nested):
    with pytest.raises(InputError, match="`prey` must be one flat sequence"):
        number_array(nested, "`prey`")


def test_a_function_that_fails_is_named_with_the_time():
    with pytest.raises(InputError, match=r"Input `u`: function failing failed at t = 3 with ZeroDivision"):
        values_at({"u": as_input("u", failing)}, ["u"], np.array([1.0, 3.0]))


def failing(t):
    return 1.0 if t < 2 else 1 / 0


def test_two_values_at_one_time_are_a_jump_of_a_linear_table():
    table = Table([0, 1, 1, 2], [0, 1, 5, 2], kind="linear")
    before = np.nextafter(1.0, 0.0)
    np.testing.assert_allclose(table.at(np.array([0.5, before, 1.0, 1.5, 2.0])), [0.5, 1.0, 5.0, 3.5, 2.0])


def test_the_jump_of_a_linear_table_is_one_breakpoint():
    assert Table([0, 1, 1, 2], [0, 1, 5, 2], kind="linear").breakpoints == (0.0, 1.0, 2.0)


@pytest.mark.parametrize("kind, count", [("hold", 2), ("linear", 3)])
def test_too_many_values_at_one_time_are_refused(kind, count):
    with pytest.raises(InputError, match="values at time 1: keep"):
        Table([1] * count, range(count), kind=kind)


def test_marks_hold_the_nearest_value_and_break_nothing():
    table = Table([0, 2, 10], [1.0, 5.0, 7.0], kind="marks")
    assert table.at(np.array([-1, 0, 0.9, 2, 5.9, 6.1, 20])).tolist() == [1, 1, 1, 5, 5, 7, 7]
    assert table.breakpoints == ()
    assert input_from_spec(table.spec()) == table


# ---- inputs that are not finite -----------------------------------------------------------------------------

FED = pf.Model("x' = u - k*x", inputs=["u"])
GRID = np.linspace(0, 2, 21)


def fed(source):
    return pf.simulate(FED, {"k": 1.0}, {"x": 1.0}, GRID, {"u": source})


@pytest.mark.parametrize(
    "source, words",
    [
        ("1/t", r"`u` \(1/t\) is infinite at t = 0: make it finite from t = 0 to 2"),
        ("1/(t-1)", "is infinite at t = 1:"),
        ("log(t-1)", "is not a real number at t = 0:"),
        ("1/(t-1.03456)", r"grows without limit at t = 1\.03456:"),
        ("-3/(t-1.03456)**2", r"grows without limit at t = 1\.03456:"),
        ("tan(t)", r"grows without limit at t = 1\.5708:"),
        (
            lambda t: np.where(t > 1, np.nan, 1.0),
            "function <lambda>.* is not a real number at t = 1.*with an `if`",
        ),
        (lambda t: 1 / (t - 1.03456), "grows without limit"),
    ],
)
def test_inputs_that_are_not_finite_are_named(source, words):
    with pytest.raises(InputError, match=words):
        fed(source)
    problem = pf.Problem(FED, pf.Experiment(GRID, {"x": GRID}, name="run a", inputs={"u": source}))
    for use in (pf.fit, lambda p: p.loss({"k": 1.0}, {"x": 1.0})):
        with pytest.raises(InputError, match=f"Experiment `run a`: .*{words}"):
            use(problem)


@pytest.mark.parametrize(
    "source",
    ["exp(-((t-1.03)/0.01)**2)", "1/(t+1e-7)", "piecewise(1, t < 1, 100)"],
)
def test_steep_inputs_with_a_solution_are_taken(source):
    assert np.isfinite(fed(source).states["x"]).all()


def test_an_integrable_pole_is_not_taken_for_a_wall():
    grid = np.linspace(0, 2, 301)
    check_finite({"u": Formula("1/sqrt(abs(t-1.034567))")}, ["u"], 0.0, grid)
    with pytest.raises(InputError, match="grows without limit"):
        check_finite({"u": Formula("1/abs(t-1.034567)")}, ["u"], 0.0, grid)
