"""Tables as they come from spreadsheets, loggers and colleagues."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.errors import InputError
from picardfit.files.tables import read_table
from picardfit.model.inputs import Constant

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


# forms of text

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


# experiments, long form, inputs


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


# what is refused


@pytest.mark.parametrize(
    "text, code, subject, row",
    [
        ("", "empty_table", "", None),
        ("# only a remark\n\n", "empty_table", "", None),
        ("time,a\n", "no_rows", "", None),
        ("time,a\n,\n", "no_rows", "", None),
        ("0,1\n1,2\n", "no_column_names", "", None),
        ("time,a\n0,1\n#\n\n1,many\n", "cell", "a", 5),
        ("time,a\n0,1\n1,inf\n", "cell", "a", 3),
        ("time,a\n0,1\n,2\n", "time_cell", "time", 3),
        ("time,a\n0,1\nnoon,2\n", "time_cell", "time", 3),
        ("time;a\n0.5;1,5\n", "comma_cell", "a", 2),
        ("time;a\n0;1,5\n1;x\n", "cell", "a", 3),
        ("time,a\n0,1\n1,2,3\n", "long_row", "", 3),
        ('time,a,note\n0,1,"two\nlines"\n1,many,x\n', "cell", "a", 4),
        ('time,a\n0,"9"9\n', "quotes", "", None),
        ("time,a\n0,1\n1,1_000\n", "grouped_cell", "a", 3),
        ("time,a,a\n0,1,2\n", "two_columns", "a", None),
        ("time\n0\n", "no_measured_column", "", None),
        ("age,a\n0,1\n", "no_time_column", "", None),
        ("day,hour,a\n0,1,2\n", "times_could_be", "", None),
        ("experiment,time,a\nx,0,1\n,1,2\n", "unnamed_experiment", "experiment", 3),
        ("experiment,time,a,b\nx,0,,\ny,1,,\n", "no_measurement", "", None),
        ("time,observable,value\n0,a,1\n1,,2\n", "unnamed_observable", "observable", 3),
    ],
)
def test_bad_table_is_named_with_its_place(text, code, subject, row):
    error = complaint(table, text)
    assert (error.code, error.subject) == (f"files.{code}", subject)
    assert error.place.row == row


@pytest.mark.parametrize(
    "text, code, line",
    [
        ("time,a\n0,1\n1,many\n", "cell", 3),
        ("time,a\n0,1\n1,2,3\n", "long_row", 3),
        ("experiment,time,a\n,1,2\n", "unnamed_experiment", 2),
        ("age,a\n0,1\n", "no_time_column", None),
        ("", "empty_table", None),
    ],
)
def test_what_is_wrong_in_a_file_has_its_file_and_line(tmp_path, text, code, line):
    path = tmp_path / "counts.csv"
    path.write_text(text)
    error = complaint(read_table, path)
    assert (error.code, error.place.file, error.place.line) == (f"files.{code}", str(path), line)
    assert " = [" not in error.remedy  # Python words: the file is a table


def test_a_missing_file_is_the_place_of_the_error(tmp_path):
    place = complaint(read_table, tmp_path / "counts.csv").place
    assert (place.file, place.line) == (str(tmp_path / "counts.csv"), None)


@pytest.mark.parametrize(
    "options, code, subject, values",
    [
        ({"time": "tme"}, "no_column", "tme", {"role": "time", "close": "time"}),
        ({"experiment": "pond"}, "no_column", "pond", {"role": "experiment", "close": ""}),
        ({"inputs": ["dose"]}, "no_column", "dose", {"role": "input", "close": ""}),
        ({"observables": ["pry"]}, "no_column", "pry", {"role": "observable", "close": "prey"}),
        ({"observables": []}, "no_measured_column", "", {}),
    ],
)
def test_bad_option_is_named_with_the_columns(options, code, subject, values):
    error = complaint(table, PLAIN, **options)
    assert (error.code, error.subject) == (f"files.{code}", subject)
    assert values.items() <= error.values.items()


def test_unknown_observable_of_a_long_table():
    text = "time,observable,value\n0,prey,1\n"
    assert "There is no observable `pry`: the table has `prey`" in fault(table, text, observables=["pry"])


def test_long_experiment_without_a_wanted_observable():
    text = "experiment,time,observable,value\nx,0,a,1\ny,0,b,1\n"
    assert "Experiment `y` of the table was left out" in str(only(text, observables=["a"]).remarks[0])


def test_two_values_of_an_input_at_one_time():
    text = "time,a,dose\n0,1,0\n1,1,1\n1,1,2\n"
    assert "two values for input `dose` at time 1" in fault(table, text, inputs=["dose"])


def test_input_column_without_numbers():
    text = "experiment,time,a,dose\nx,0,1,1\ny,0,1,\n"
    assert "Experiment `y`: there is no number for input `dose`" in fault(table, text, inputs=["dose"])


def test_name_for_a_table_that_names_its_experiments():
    assert "leave name='pond' out" in fault(table, "experiment,time,a\nx,0,1\n", name="pond")


def test_missing_file_suggests_a_close_one(tmp_path):
    (tmp_path / "counts.csv").write_text(PLAIN)
    assert "count.csv: There is no such file" in fault(read_table, tmp_path / "count.csv")
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


def test_frame_names_the_row():
    frame = pd.DataFrame({"time": [0, 1], "a": [1, "many"]})
    assert "In row 2: column `a` has 'many'" in fault(read_table, frame)


# cost


def test_a_long_file_is_read_whole():
    rows = 200_000
    text = "time,a,experiment\n" + "\n".join(f"{n},{n % 7},{n % 50}" for n in range(rows))
    made = table(text)
    assert sum(len(e.times) for e in made) == rows


def test_import_does_not_load_pandas():
    code = "import sys, picardfit.files.tables; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "text, options, words",
    [
        ("time,x\n0,1\n", {"time": "Tme"}, "Did you mean `time`?"),
        ("tiem,x\n0,1\n", {}, "Did you mean `tiem`?"),
    ],
)
def test_faults_of_the_time_column_come_with_a_remedy(text, options, words):
    with pytest.raises(InputError) as caught:
        read_table(io.StringIO(text), **options)
    assert words in str(caught.value)


# what is left out is told


def test_columns_of_a_long_table_that_nothing_uses_are_told():
    made = only("time,observable,value,operator\n0,a,1,Ada\n1,a,2,Bob\n")
    assert made.remarks[0].values["columns"] == ["operator"]
    assert only("time,observable,value,operator\n0,a,1,Ada\n", observables=["a"]).remarks == ()


def test_a_column_of_names_is_ignored_unless_it_may_name_experiments():
    assert only("time,site,a\n0,x,1\n1,y,2\n").remarks[0].values["columns"] == ["site"]
    error = complaint(table, "time,site,a\n0,x,1\n1,x,2\n0,y,1\n1,y,2\n")
    assert (error.code, error.subject) == ("files.cell_of_names", "site")
    assert only("time,note,a\n0,fine,1\n0,odd,2\n").values.tolist() == [[1], [2]]


def test_units_in_headers_are_not_part_of_the_name():
    assert only("time (h),theta [rad],w (kg)\n0,1,2\n").observables == ("theta", "w")
    assert only("time,w [g],w [kg]\n0,1,2\n").observables == ("w [g]", "w [kg]")


def test_an_experiment_without_a_number_is_left_out_with_a_remark():
    found = table("experiment,time,a,dose\nx,0,,\ny,0,1,3\ny,1,2,3\nz,0,NA,\n", inputs=["dose"])
    assert [one.name for one in found] == ["y"]
    assert tuple(map(str, found[0].remarks)) == (
        "Experiments `x`, `z` of the table were left out because they have no measured value: "
        "fill in what was measured, or remove the rows.",
    )


def test_an_experiment_without_a_number_in_a_long_table_is_left_out():
    found = table("experiment,time,observable,value\nx,0,a,\ny,0,a,1\nz,0,b,5\n", observables=["a"])
    assert [one.name for one in found] == ["y"]
    assert found[0].remarks[0].values["experiments"] == ["x", "z"]


def test_a_fit_repeats_what_was_left_out(tmp_path):
    (tmp_path / "ponds.csv").write_text("experiment,time,x\na,0,3\na,1,2\na,2,1.4\nb,0,\n")
    problem = pf.Problem(pf.Model("x' = -k*x"), read_table(tmp_path / "ponds.csv"), {"k": (0, 2)})
    remark = "Experiment `b` of `ponds.csv` was left out because it has no measured value"
    assert remark in str(problem)
    fit = pf.fit(problem)
    assert fit.success
    assert remark in fit.message
    assert pf.load(fit.save(tmp_path / "fit.json")).problem.remarks == problem.remarks


# names as they were asked for


def test_columns_asked_for_in_another_case_keep_the_name_asked_for():
    one = only("Time,Prey , Dose\n0,1,5\n1,2,5\n", observables=["prey"], inputs=["dose"])
    assert (one.observables, list(one.inputs)) == (("prey",), ["dose"])


def test_observables_of_a_long_table_are_found_in_another_case():
    assert only("time,observable,value\n0,Prey,1\n1,Pred,2\n", observables=["prey"]).observables == ("prey",)


def test_columns_that_differ_by_case_only_are_not_confused():
    assert fault(table, "time,A,a\n0,1,2\n", observables=["b"]).startswith(
        "There is no observable column `b`"
    )
    assert only("time,A,a\n0,1,2\n", observables=["a"]).values.tolist() == [[2.0]]


def test_a_wide_table_of_one_observable_may_have_a_censoring_column(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("time,x,cens\n0,4.1,0\n1,2.2,0\n2,0.25,1\n")
    (run,) = pf.read_table(path)
    assert run.observables == ("x",)
    assert run.observations["x"].tolist()[-1] == "<0.25"


def test_a_censoring_column_beside_several_observables_is_refused(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("time,x,y,cens\n0,4.1,1,0\n1,2.2,2,1\n")
    with pytest.raises(pf.InputError) as caught:
        pf.read_table(path)
    assert caught.value.code == "files.censoring_of_which"


def test_dates_with_points_stand_beside_decimal_commas(tmp_path):
    path = tmp_path / "brewery.csv"
    path.write_text("day;yeast;sugar\n02.09.2024;0,409;108,86\n03.09.2024;0,969;102,99\n04.09.2024;1,5;\n")
    found = pf.read_table(path)[0]
    np.testing.assert_allclose(found.observations["yeast"], [0.409, 0.969, 1.5])
    np.testing.assert_allclose(found.times, [0, 1, 2])


def test_numbers_with_points_are_no_decimal_commas(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("time;a;b\n0;1,5;2.5\n1;2,5;3.5\n")
    (one,) = pf.read_table(path)
    assert one.values.tolist() == [[2.5], [3.5]]
    assert complaint(pf.Problem, pf.Model("a' = -k*a"), one).code == "files.comma_cell"


NOTES = ["57\nabc", "57\n\nok 5", "<5\nabc", "2021-03-04\n2021-03-05", "5 mg\n7"]


@pytest.mark.parametrize("notes", NOTES)
def test_a_column_that_is_not_all_numbers_is_an_error_only_where_it_is_used(tmp_path, notes):
    path = tmp_path / "pond.csv"
    lines = [f"{k},{3 - k},{note}" for k, note in enumerate(notes.split("\n"))]
    path.write_text("\n".join(["time,x,Note", *lines]))
    (one,) = pf.read_table(path)
    assert [remark.code for remark in one.remarks] == ["problem.column_unread"]
    unused = pf.Problem(pf.Model("x' = -k*x"), one)
    assert [remark.code for remark in unused.remarks] == ["problem.column_ignored"]
    error = complaint(pf.Problem, pf.Model("x' = -k*x\nnote' = k"), one)
    assert (error.subject, error.place.file) == ("Note", str(path))
    assert repr(
        next(note for note in notes.split("\n") if not note.isdigit() and note not in ("", "<5"))
    ) in str(error)


def test_names_are_an_error_only_where_they_are_used():
    (one,) = table("time,x,sky\n0,3,grey\n1,2,blue\n")
    assert pf.Problem(pf.Model("x' = -k*x"), one).remarks
    error = complaint(pf.Problem, pf.Model("x' = -k*x\nsky' = k"), one)
    assert (error.code, error.subject, error.place.row) == ("files.cell_of_names", "sky", 2)


def test_a_column_of_lost_counts_is_no_column_of_names():
    (one,) = table("time,x,c\n0,3,?\n1,2,?\n")
    assert one.observables == ("x", "c")
    assert not one.remarks


def test_names_of_experiments_that_begin_with_a_digit_are_not_left_out():
    assert complaint(table, "time,x,pond\n0,3,1a\n0,2,2b\n1,4,1a\n1,5,2b\n").subject == "pond"


def test_a_column_of_numbers_does_not_name_many_experiments():
    text = "experiment,time,x\n" + "".join(f"{k},0,1\n" for k in range(20_001))
    error = complaint(read_table, io.StringIO(text))
    assert (error.code, error.subject) == ("files.many_experiments", "experiment")
