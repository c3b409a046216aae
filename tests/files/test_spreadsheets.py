"""Tables in .xlsx and .ods files."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from openpyxl import Workbook

import picardfit as pf
from complaints import complaint
from picardfit.files.tables import read_table

FRAME = pd.DataFrame({"day": [0, 1, 2], "x [mg/l]": [1.5, None, 2], "site": ["a", "b", "c"]})


def book(*rows, **sheets):
    """The bytes of an .xlsx file."""
    made = Workbook()
    for name, cells in {"Data": rows, **sheets}.items():
        sheet = made.create_sheet(name)
        for row in cells:
            sheet.append(row)
    del made["Sheet"]
    file = io.BytesIO()
    made.save(file)
    return io.BytesIO(file.getvalue())


def only(*rows, **options):
    (made,) = read_table(book(*rows), **options)
    return made


@pytest.mark.parametrize("ending", ["xlsx", "ods"])
def test_a_spreadsheet_is_read_like_a_text(tmp_path, ending):
    path = tmp_path / f"counts.{ending}"
    FRAME.to_excel(str(path), index=False)
    (made,) = read_table(path)
    assert (made.name, made.observables, made.times.tolist()) == ("counts", ("x",), [0, 2])
    np.testing.assert_array_equal(made.values[:, 0], [1.5, 2])
    assert made.remarks[0].values["columns"] == ["site"]


@pytest.mark.parametrize("ending", ["xlsx", "ods"])
def test_cells_with_dates(tmp_path, ending):
    path = tmp_path / f"counts.{ending}"
    pd.DataFrame({"date": pd.date_range("2021-03-04 08:00", periods=2), "x": [1, 2]}).to_excel(
        str(path), index=False
    )
    (made,) = read_table(path)
    assert (made.times.tolist(), made.calendar.text(1.0)) == ([0, 1], "2021-03-05 08:00")


def test_a_date_and_a_time_of_day_in_two_columns():
    day, early, late = pd.Timestamp("2021-03-04"), pd.Timestamp("08:00").time(), pd.Timestamp("20:00").time()
    made = only(["date", "time", "x"], [day, early, 1], [day, late, 2])
    assert made.times.tolist() == [0, 0.5]


def test_a_sheet_is_chosen_by_name():
    file = book(["time", "x"], [0, 1], Other=[["time", "x"], [0, 7]])
    assert read_table(file, sheet="other")[0].values.tolist() == [[7]]


def test_the_first_sheet_is_read_with_a_remark_on_others():
    made = read_table(book(["time", "x"], [0, 1], Other=[["note"]], Blank=[]))[0]
    (remark,) = made.remarks
    assert (remark.code, remark.values["others"]) == ("files.sheets_not_read", ["Other"])


def test_rows_are_counted_as_the_sheet_shows_them():
    error = complaint(read_table, book([], ["time", "x"], [0, 1], [], [1, "many"]))
    assert (error.code, error.place.row) == ("files.cell", 5)


def test_a_file_is_named_with_its_row(tmp_path):
    path = tmp_path / "counts.xlsx"
    path.write_bytes(book(["time", "x"], [0, 1], [1, "many"]).getvalue())
    assert str(complaint(read_table, path)).startswith(f"{path}:3: Column `x` has 'many'")


@pytest.mark.parametrize("word", ["#N/A", "#DIV/0!", "#REF!", "#NAME?"])
def test_the_error_of_a_formula_is_refused(word):
    error = complaint(read_table, book(["time", "x"], [0, 1], [1, word]))
    assert (error.code, error.subject, error.place.row) == ("files.error_cell", "x", 3)


@pytest.mark.parametrize("word", ["#N/A", "#DIV/0!"])
def test_the_error_of_a_formula_is_refused_in_an_ods_file(tmp_path, word):
    path = tmp_path / "counts.ods"
    pd.DataFrame({"time": [0, 1, 2], "x": [1, None, word]}).to_excel(str(path), index=False)
    error = complaint(read_table, path)
    assert (error.code, error.values["value"], error.place.line) == ("files.error_cell", word, 4)


def test_the_error_of_a_formula_is_told_in_a_text_as_well():
    error = complaint(read_table, io.StringIO("time,x\n0,1\n1,#DIV/0!\n"))
    assert (error.code, error.place.row) == ("files.error_cell", 3)


def test_errors_in_columns_that_nobody_reads_do_no_harm():
    assert only(["time", "x", "y"], [0, 1, "#N/A"], observables=["x"]).values.tolist() == [[1]]


def test_a_formula_that_was_never_calculated_is_not_a_blank_cell():
    error = complaint(read_table, book(["time", "x"], [0, 1], [1, "=B2*2"]))
    assert (error.code, error.values["value"]) == ("files.formula_cell", "=B2*2")


@pytest.mark.parametrize(
    "rows",
    [
        [["", "pond 1", None], ["time", "prey", "pred"], [0, 1, 2]],
        [["Counts of 2021", None, None], ["time", "prey", "pred"], [0, 1, 2]],
    ],
)
def test_a_header_of_two_rows_is_refused(rows):
    assert complaint(read_table, book(*rows)).code == "files.two_headers"


def test_a_column_without_a_name_is_skipped():
    assert only([None, "time", "x"], [0, 0, 1], [1, 1, 2]).observables == ("x",)


def test_a_sheet_that_does_not_exist_is_named_with_those_there_are():
    error = complaint(read_table, book(["time", "x"], [0, 1], Notes=[["a"]]), sheet="Dta")
    assert (error.code, error.subject) == ("files.no_sheet", "Dta")
    assert (error.values["sheets"], error.values["close"]) == (["Data", "Notes"], "Data")


def test_an_empty_sheet_is_named_with_those_that_are_not():
    error = complaint(read_table, book(Notes=[["a"]]))
    assert (error.code, error.subject, error.values["others"]) == ("files.empty_sheet", "Data", ["Notes"])


def test_a_sheet_with_names_only():
    assert complaint(read_table, book(["time", "x"])).code == "files.no_rows"


@pytest.mark.parametrize("source", [io.StringIO("time,x\n0,1\n"), pd.DataFrame({"time": [0], "x": [1]})])
def test_a_text_has_no_sheets(source):
    assert complaint(read_table, source, sheet="Data").code == "files.no_sheets"


def archive(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(name, "nothing")
    return file.getvalue()


@pytest.mark.parametrize(
    "content, code",
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old_excel"),
        (b"PK\x03\x04 and so on", "damaged_sheet"),
        (archive("readme.txt"), "other_archive"),
        (archive("xl/workbook.xml"), "damaged_sheet"),
        (archive("content.xml"), "damaged_sheet"),
    ],
)
def test_other_files_are_refused(content, code):
    assert complaint(read_table, io.BytesIO(content)).code == f"files.{code}"


@pytest.mark.parametrize("ending, package", [("xlsx", "openpyxl"), ("ods", "odf")])
def test_a_missing_package_is_named_with_the_extra(tmp_path, ending, package):
    path = tmp_path / f"counts.{ending}"
    FRAME.to_excel(str(path), index=False)
    code = (
        f"import sys; sys.modules[{package!r}] = None; import picardfit as pf; pf.read_table({str(path)!r})"
    )
    told = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stderr
    assert "pip install 'picardfit[excel]'" in told


def test_a_problem_file_names_the_sheet(tmp_path):
    file = book(Values=[["time", "X [mg]", "site"], [0, 3, "a"], [1, 2, "b"], [2, 1.5, "c"]])
    (tmp_path / "counts.xlsx").write_bytes(file.getvalue())
    text = "equations = \"x' = -k*x\"\ndata = { file = 'counts.xlsx', sheet = 'Values' }\n[parameters]\nk = [0, 5]\n"
    (tmp_path / "problem.toml").write_text(text)
    problem = pf.read_problem(tmp_path)
    assert problem.experiments[0].observations["x"].tolist() == [3, 2, 1.5]
    assert [one.values["columns"] for one in problem.remarks] == [["site"]]


def test_a_row_without_a_time_is_refused():
    error = complaint(read_table, book(["time", "x"], [0, 1], [1, 2], [None, 1.5]))
    assert (error.code, error.place.row) == ("files.time_cell", 4)


def test_hidden_rows_are_read_and_told():
    made = Workbook()
    for row in (["time", "x"], [0, 1], [1, 2], [2, 3]):
        made.active.append(row)
    made.active.row_dimensions[3].hidden = True
    file = io.BytesIO()
    made.save(file)
    (one,) = read_table(io.BytesIO(file.getvalue()))
    (remark,) = one.remarks
    assert (len(one.times), remark.code, remark.values["rows"]) == (3, "files.hidden_row", "3")


def test_a_first_sheet_of_notes_names_the_others():
    error = complaint(read_table, book(["hello"], ["world"], Counts=[["time", "x"], [0, 1]]))
    assert (error.code, error.values["others"]) == ("files.no_time_in_sheet", ["Counts"])


def test_a_small_file_that_unpacks_to_gigabytes_is_refused():
    plain = zipfile.ZipFile(book(["time", "x"], [0, 1]))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
        for name in plain.namelist():
            made.writestr(name, plain.read(name))
        made.writestr("xl/worksheets/sheet9.xml", b" " * 70_000_000)
    assert complaint(read_table, io.BytesIO(bomb.getvalue())).code == "files.huge_sheet"
