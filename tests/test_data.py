"""Experiments in canonical form, and tables as they come from spreadsheets, loggers and colleagues."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import time
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest

from picardfit.data import Experiment, read_table
from picardfit.errors import InputError
from picardfit.inputs import Constant, Table
from picardfit.parameters import Parameter

NAN = float("nan")


def table(text, **options):
    return read_table(io.StringIO(text), **options)


def only(text, **options):
    (experiment,) = table(text, **options)
    return experiment


def fault(make, *args, **options):
    with pytest.raises(InputError) as caught:
        make(*args, **options)
    return str(caught.value)


# Experiment


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


def test_inputs_are_understood():
    made = Experiment([0], {"a": [1]}, inputs={"dose": 2, "light": ([0, 1], [0, 1])})
    assert made.inputs == {"dose": Constant(2.0), "light": Table([0, 1], [0, 1])}


@pytest.mark.parametrize(
    "args, words",
    [
        (([0, 1], {"a": [1]}), "There are 2 times but 1 values of `a`"),
        (([0, NAN], {"a": [1, 2]}), "Entry 2 of the times is nan"),
        (([0, np.inf], {"a": [1, 2]}), "Entry 2 of the times is inf"),
        (([0, "noon"], {"a": [1, 2]}), "Entry 2 of the times is 'noon', which is not a number"),
        (([0, 1], {"a": [1, np.inf]}), "Entry 2 of `a` is inf"),
        (([0, 1], {"a": [1, "many"]}), "Entry 2 of `a` is 'many', which is not a number"),
        (([0, 1], {"a": ["1", 2]}), "Entry 1 of `a` is '1', which is not a number"),
        ((0, {"a": [1]}), "The times must be a sequence of numbers, not 0"),
        (([0], {"a": 1}), "`a` must be a sequence of numbers, not 1"),
        (("01", {"a": [1, 2]}), "The times must be a sequence of numbers, not '01'"),
        (([0, 1], {"a": [[1, 2], [3, 4]]}), "`a` must be one flat sequence"),
        (([], {"a": []}), "There is no number in it"),
        (([0, 1], {"a": [None, NAN]}), "There is no number in it"),
        (([0, 1], {}), "There are no observations"),
        (([0, 1], [1, 2]), "`observations` must map names to values, not be a list"),
        (([0, 1], {1: [1, 2]}), "The name 1 in `observations` is not text"),
        ((None, {"a": [1, 2, 3]}), "`a` needs a pair (times, values)"),
        ((None, {"a": ([0, 1], [1])}), "`a` has 2 times but 1 values"),
        ((None, {"a": ([0, NAN], [1, 2])}), "Entry 2 of the times of `a` is nan"),
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
        ({"inputs": {"dose": "k*t"}}, "Input `dose`: The formula 'k*t' uses `k`"),
        ({"inputs": 3}, "`inputs` must map names to values, not be a int"),
        ({"initial": {"a": (2, 1)}}, "lower bound 2 of `a` is not below"),
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


def test_dates_as_times_are_refused():
    assert "Entry 1 of the times" in fault(Experiment, pd.to_datetime(["2020-01-01"]), {"a": [1]})


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


# read_table: forms of text

PLAIN = "time,prey,pred\n0,1.5,2\n1,,3\n2.5,4,NA\n"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", ";").replace(".", ","),
        PLAIN.replace(",", "\t").replace(".", ","),
        PLAIN.replace(",", " , "),
        PLAIN.replace(",,", ",nan,").replace(",", "  "),
        PLAIN.replace("time,prey", '"time","prey"'),
        PLAIN.replace("\n", ",\n"),
        PLAIN + "\n,,\n\n",
        "# from the lab\n\n" + PLAIN.replace("1,,3", "# a remark, with commas, and, more\n1,,3"),
        PLAIN.replace("NA", "NaN"),
        PLAIN.replace("NA", "n/a "),
        PLAIN.replace("NA", "."),
        PLAIN.replace(",NA", ""),
        ",".join(["", *PLAIN.replace("\n", "\n7,").split(",")]).removesuffix("7,"),
    ],
)
def test_forms_of_the_same_table(text):
    made = only(text)
    assert made.observables == ("prey", "pred")
    np.testing.assert_array_equal(made.times, [0, 1, 2.5])
    np.testing.assert_array_equal(made.values, [[1.5, 2], [NAN, 3], [4, NAN]])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_of_a_file(tmp_path, encoding):
    path = tmp_path / "pond.csv"
    path.write_bytes("time,µ\n0,1\n".encode(encoding))
    assert read_table(path)[0].observables == ("µ",)


@pytest.mark.parametrize(
    "wrap", [str, lambda path: path, lambda path: path.open(), lambda path: path.open("rb")]
)
def test_sources_of_a_file(tmp_path, wrap):
    path = tmp_path / "pond.csv"
    path.write_text(PLAIN)
    np.testing.assert_array_equal(read_table(wrap(path))[0].times, [0, 1, 2.5])


def test_experiment_is_named_after_the_file(tmp_path):
    (tmp_path / "pond 7.tsv").write_text("time\ta\n0\t1\n")
    assert read_table(tmp_path / "pond 7.tsv")[0].name == "pond 7"


def test_name_can_be_given():
    assert only(PLAIN, name="pond 8").name == "pond 8"


def test_parquet_file(tmp_path):
    pd.read_csv(io.StringIO(PLAIN)).to_parquet(tmp_path / "pond.parquet")
    made = read_table(tmp_path / "pond.parquet")[0]
    np.testing.assert_array_equal(made.values, [[1.5, 2], [NAN, 3], [4, NAN]])


def test_parquet_without_pyarrow_names_the_extra(monkeypatch):
    def absent(*_):
        raise ImportError

    monkeypatch.setattr(pd, "read_parquet", absent)
    assert "pip install 'picardfit[parquet]'" in fault(read_table, io.BytesIO(b"PAR1"))


def test_damaged_parquet_is_refused():
    assert "damaged" in fault(read_table, io.BytesIO(b"PAR1 and then nothing"))


def test_data_frame():
    made = read_table(pd.DataFrame({"time": [1, 0], "a": [2, None]}))[0]
    np.testing.assert_array_equal(made.values, [[2]])


def test_data_frame_with_time_as_index():
    made = read_table(pd.DataFrame({"time": [1, 0], "a": [2, 3]}).set_index("time"))[0]
    np.testing.assert_array_equal(made.times, [0, 1])


def test_data_frame_is_left_as_it_was():
    frame = pd.DataFrame({" time ": [1, 0], "a": ["2", None]})
    before = frame.copy()
    read_table(frame)
    pd.testing.assert_frame_equal(frame, before)


# read_table: experiments, long form, inputs


def test_experiments_come_in_order_of_appearance():
    made = table("experiment,time,a\nb,0,1\na,0,2\nb,1,3\n")
    assert [(e.name, e.values[:, 0].tolist()) for e in made] == [("b", [1, 3]), ("a", [2])]


def test_numeric_experiment_names_stay_text():
    assert [e.name for e in table("experiment,time,a\n01,0,1\n2,0,2\n")] == ["01", "2"]


def test_float_experiment_names_of_a_frame_are_written_as_integers():
    frame = pd.DataFrame({"experiment": [1.0, 2.0], "time": [0, 0], "a": [1, 2]})
    assert [e.name for e in read_table(frame)] == ["1", "2"]


@pytest.mark.parametrize("word", ["None", "NA", "null"])
def test_words_for_missing_can_name_an_experiment(word):
    assert only(f"experiment,time,a\n{word},0,1\n").name == word


def test_another_experiment_column():
    assert [e.name for e in table("pond,time,a\nx,0,1\ny,0,2\n", experiment="pond")] == ["x", "y"]


def test_experiment_column_can_be_ignored():
    made = only("experiment,time,a\nx,0,1\ny,1,2\n", experiment=None, observables=["a"])
    assert made.times.tolist() == [0, 1]


def test_long_table_pairs_replicates():
    made = only("time,observable,value\n0,a,1\n0,b,2\n0,a,3\n1,b,4\n")
    assert made.observables == ("a", "b")
    np.testing.assert_array_equal(made.values, [[1, 2], [3, NAN], [NAN, 4]])


def test_petab_table():
    header = "observableId\tsimulationConditionId\tmeasurement\ttime\tnoiseParameters\n"
    text = header + "a\tc1\t1\t0\tsd\nb\tc2\t2\t1\tsd\n"
    assert [(e.name, e.observables, e.values.tolist()) for e in table(text)] == [
        ("c1", ("a",), [[1.0]]),
        ("c2", ("b",), [[2.0]]),
    ]


def test_long_and_wide_tables_agree():
    wide = pd.read_csv(io.StringIO(PLAIN))
    long = wide.melt(id_vars="time")
    np.testing.assert_array_equal(read_table(long)[0].values, read_table(wide)[0].values)


def test_observables_select_columns_in_their_order():
    assert only("time,site,a,b\n0,north,1,2\n", observables=["b", "a"]).observables == ("b", "a")


def test_observables_select_from_a_long_table():
    made = only("time,observable,value\n0,a,1\n0,b,2\n1,c,3\n", observables=["b"])
    assert (made.observables, made.values.tolist()) == (("b",), [[2.0]])


def test_input_column_is_held_from_row_to_row():
    made = only("time,a,dose\n0,1,0\n1,,5\n2,3,\n3,4,5\n", inputs=["dose"])
    np.testing.assert_array_equal(made.inputs["dose"].at(np.array([0.5, 1.0, 9.0])), [0, 5, 5])
    assert made.observables == ("a",)


def test_constant_input_column_is_a_number_for_each_experiment():
    made = table("experiment,time,a,dose\nx,0,1,2\nx,1,1,2\ny,0,1,3\n", inputs="dose")
    assert [e.inputs["dose"] for e in made] == [Constant(2.0), Constant(3.0)]


@pytest.mark.parametrize(
    "header", ["time", "Time", "TIME", "t", "T", "hours", "Day", "time (h)", "Time [min]", "weeks", "year"]
)
def test_time_column_is_found(header):
    assert only(f"{header},a\n3,1\n4,2\n").times.tolist() == [3, 4]


def test_time_goes_before_units_and_states_called_T():
    assert only("T,day,time\n1,2,3\n").observables == ("T", "day")


def test_state_called_T_is_not_mistaken_for_the_time():
    assert only("day,T\n3,1\n").observables == ("T",)


def test_time_column_can_be_named():
    assert only("age,time\n3,1\n", time="age").observables == ("time",)


# read_table: what is refused


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "There is nothing in the table"),
        ("# only a remark\n\n", "There is nothing in the table"),
        ("time,a\n", "There are column names but no rows"),
        ("time,a\n,\n", "There are column names but no rows"),
        ("0,1\n1,2\n", "There are no column names"),
        ("time,a\n0,1\n#\n\n1,many\n", "Column `a` has 'many' in line 5 of the table"),
        ("time,a\n0,1\n1,inf\n", "Column `a` has 'inf' in line 3 of the table"),
        ("time,a\n0,1\n,2\n", "Column `time` has nothing in line 3 of the table"),
        ("time,a\n0,1\nnoon,2\n", "Column `time` has 'noon' in line 3 of the table"),
        ("time;a;b\n0;1,5;2.5\n", "Column `a` has '1,5' in line 2 of the table"),
        ("time;a\n0;1,5\n1;x\n", "Column `a` has 'x' in line 3 of the table"),
        ("time,a\n0,1\n1,2,3\n", "Line 3 of the table has 3 cells, but there are 2 column names"),
        ("time,a,a\n0,1,2\n", "There are two columns called `a`"),
        ("time\n0\n", "There is no column of measurements"),
        ("age,a\n0,1\n", "Of the columns `age`, `a` in the table none is called time: pass time='...'"),
        ("day,hour,a\n0,1,2\n", "`day`, `hour` could each be the time: pass time='...'"),
        ("experiment,time,a\nx,0,1\n,1,2\n", "Column `experiment` is blank in line 3 of the table"),
        ("experiment,time,a\nx,0,1\ny,1,\n", "Experiment `y`: There is no number in it"),
        ("time,observable,value\n0,a,1\n1,,2\n", "Column `observable` is blank in line 3 of the table"),
    ],
)
def test_bad_table_is_named_with_its_place(text, words):
    assert words in fault(table, text)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"time": "tme"}, "There is no time column `tme` in the table"),
        ({"time": "tme"}, "Did you mean `time`?"),
        ({"experiment": "pond"}, "There is no experiment column `pond`"),
        ({"inputs": ["dose"]}, "There is no input column `dose`"),
        ({"observables": ["pry"]}, "Did you mean `prey`?"),
        ({"observables": []}, "There is no column of measurements"),
    ],
)
def test_bad_option_is_named_with_the_columns(options, words):
    assert words in fault(table, PLAIN, **options)


def test_unknown_observable_of_a_long_table():
    text = "time,observable,value\n0,prey,1\n"
    assert "There is no observable `pry` in the table: it has `prey`" in fault(
        table, text, observables=["pry"]
    )


def test_long_experiment_without_a_wanted_observable():
    text = "experiment,time,observable,value\nx,0,a,1\ny,0,b,1\n"
    assert "Experiment `y`: There is no number in it" in fault(table, text, observables=["a"])


def test_two_values_of_an_input_at_one_time():
    text = "time,a,dose\n0,1,0\n1,1,1\n1,1,2\n"
    assert "two values for input `dose` at time 1" in fault(table, text, inputs=["dose"])


def test_input_column_without_numbers():
    text = "experiment,time,a,dose\nx,0,1,1\ny,0,1,\n"
    assert "no number for input `dose` of experiment `y`" in fault(table, text, inputs=["dose"])


def test_name_for_a_table_that_names_its_experiments():
    assert "leave name='pond' out" in fault(table, "experiment,time,a\nx,0,1\n", name="pond")


def test_missing_file_suggests_a_close_one(tmp_path):
    (tmp_path / "counts.csv").write_text(PLAIN)
    assert "no file `count.csv`" in fault(read_table, tmp_path / "count.csv")
    assert "Did you mean `counts.csv`?" in fault(read_table, tmp_path / "count.csv")


def test_missing_folder_is_named(tmp_path):
    assert f"no folder `{tmp_path / 'nowhere'}`" in fault(read_table, tmp_path / "nowhere" / "counts.csv")


def test_folder_instead_of_file(tmp_path):
    assert "cannot be read" in fault(read_table, tmp_path)


def test_file_that_is_not_text(tmp_path):
    (tmp_path / "counts.xlsx").write_bytes(b"PK\x03\x04\x00\x00")
    assert "save it as CSV" in fault(read_table, tmp_path / "counts.xlsx")


def test_table_text_instead_of_path():
    assert "io.StringIO" in fault(read_table, PLAIN)


def test_source_of_another_kind():
    assert "pass a path" in fault(read_table, 3)


def test_frame_with_dates():
    frame = pd.DataFrame({"time": pd.to_datetime(["2020-01-01"]), "a": [1]})
    assert "Column `time` of the table holds dates" in fault(read_table, frame)


def test_frame_names_the_row():
    frame = pd.DataFrame({"time": [0, 1], "a": [1, "many"]})
    assert "Column `a` has 'many' in row 2 of the table" in fault(read_table, frame)


# cost


def test_a_long_file_is_read_in_seconds():
    rows = 200_000
    text = "time,a,experiment\n" + "\n".join(f"{n},{n % 7},{n % 50}" for n in range(rows))
    start = time.process_time()
    made = table(text)
    assert time.process_time() - start < 3
    assert sum(len(e.times) for e in made) == rows


def test_import_does_not_load_pandas():
    code = "import sys, picardfit.data; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
