"""The table of a study: cells, roles of columns, cells that are left out."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

pytest.importorskip("tomlkit")

import picardfit as pf
from picardfit.files.raw_tables import read_raw_table
from picardfit.files.time_column import TimeSettings
from picardfit.studio.roles import roles_of, with_role
from picardfit.studio.sheet import Role, sheet_of
from studio.browsing import STARTERS

TABLE = "# from the lake\nyear;hare;note\n1900;30,5;cold\n1901;47,2;\n1902;;warm\n"


def written(tmp_path, text, name="x.csv"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return sheet_in(tmp_path / name)


def sheet_in(path):
    return sheet_of(read_raw_table(path), path.name, path.read_bytes())


def test_a_table_is_written_as_it_was_read(tmp_path):
    assert written(tmp_path, TABLE).content().decode() == TABLE


def test_a_cell_that_is_left_out_is_blank_and_comes_back(tmp_path):
    sheet = written(tmp_path, TABLE)
    out = written(tmp_path, sheet.toggled(0, "hare").content().decode())
    assert out.rows[0] == ("1900", "", "cold")
    assert out.left_out == {(0, "hare"): "30,5"}
    assert out.toggled(0, "hare").content() == sheet.content()
    assert out.restored().content() == sheet.content()


def test_readers_of_the_file_see_a_left_out_cell_as_not_measured(tmp_path):
    sheet = written(tmp_path, "time,x\n0,1\n1,2\n2,3\n")
    (tmp_path / "x.csv").write_bytes(sheet.toggled(1, "x").content())
    (one,) = pf.read_table(tmp_path / "x.csv")
    assert one.times[np.isfinite(one.values[:, 0])].tolist() == [0, 2]


def test_rows_that_are_removed_take_their_marks_along(tmp_path):
    sheet = written(tmp_path, "time,x\n0,1\n1,2\n2,3\n").toggled(2, "x").without_row(0)
    assert sheet.left_out == {(1, "x"): "3"}


def test_a_spreadsheet_is_edited_as_a_text_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    pandas.DataFrame({"time": [0, 1], "x": [1.5, 2.0]}).to_excel(tmp_path / "x.xlsx", index=False)
    sheet = sheet_in(tmp_path / "x.xlsx")
    assert sheet.file_name == "x.csv"
    assert sheet.with_cell(0, "x", "9").content().decode() == "time,x\n0,9\n1,2\n"


@pytest.mark.parametrize(
    ("starter", "table", "roles"),
    [
        ("lotka-volterra", "lynx_hare.csv", {"year": "time", "hare": "measured", "lynx": "measured"}),
        (
            "pharmacokinetics",
            "concentrations.csv",
            {"experiment": "experiment", "time": "time", "observable": "measured", "value": "measured"},
        ),
        (
            "population",
            "theophylline.csv",
            {"ID": "experiment", "AMT": "dose", "WT": "covariate", "EVID": "ignored"},
        ),
    ],
)
def test_columns_are_recognised(starter, table, roles):
    sheet = sheet_in(STARTERS / starter / table)
    found = roles_of(sheet, (STARTERS / starter / "problem.toml").read_text(encoding="utf-8"))
    assert {name: found[name].value for name in roles} == roles


def test_every_role_can_be_given_and_is_recognised_again(tmp_path):
    sheet = written(tmp_path, "when,pond,x,u,w,extra\n0,a,1,0,3,7\n1,a,2,1,3,8\n0,b,3,0,4,9\n")
    text = 'data = "x.csv"\n'
    wanted = {
        "when": Role.TIME,
        "pond": Role.EXPERIMENT,
        "u": Role.INPUT,
        "w": Role.COVARIATE,
        "extra": Role.IGNORED,
        "x": Role.MEASURED,
    }
    for column, role in wanted.items():
        text = with_role(sheet, text, column, role)
    assert roles_of(sheet, text) == {name: wanted[name] for name in sheet.header}
    data = tomllib.loads(text)["data"]
    assert (data["time"], data["experiment"], data["covariates"], data["observables"]) == (
        "when",
        "pond",
        ["w"],
        ["x"],
    )
    assert tomllib.loads(text)["inputs"] == {"u": {"column": "u"}}


def test_doses_of_a_column_are_those_of_the_table(tmp_path):
    sheet = written(tmp_path, "experiment,time,x,amount\na,0,,50\na,1,2,\nb,0,,80\nb,2,1,20\n")
    begin = 'data = "x.csv"\n[experiments.a.doses]\ninto = "gut"\ntimes = 0\namounts = 7\n'
    text = with_role(sheet, begin, "amount", Role.DOSE, "gut")
    assert "experiments" not in tomllib.loads(text)
    assert tomllib.loads(text)["data"]["dose"] == {"column": "amount", "into": "gut"}
    assert roles_of(sheet, text)["amount"] is Role.DOSE
    assert tomllib.loads(with_role(sheet, text, "amount", Role.IGNORED))["data"].get("dose") is None


def test_series_hold_the_values_that_are_left_out(tmp_path):
    sheet = written(tmp_path, "experiment,time,x\na,0,1\na,1,2\nb,0,3\n").toggled(1, "x")
    first, second = sheet.series(roles_of(sheet, ""), TimeSettings())
    assert (first.experiment, second.experiment) == ("a", "b")
    assert first.values.tolist() == [1, 2]
    assert first.left_out.tolist() == [False, True]
    assert second.rows.tolist() == [2]


def test_a_table_in_which_nothing_is_measured_any_more_says_so(tmp_path):
    sheet = written(tmp_path, "time,x\n0,1\n1,2\n")
    text = with_role(sheet, 'data = "x.csv"\n', "x", Role.IGNORED)
    assert roles_of(sheet, text)["x"] is Role.IGNORED
    assert roles_of(sheet, with_role(sheet, text, "x", Role.MEASURED))["x"] is Role.MEASURED


def test_censored_values_stand_at_their_limits(tmp_path):
    sheet = written(tmp_path, "time,x\n0,1.5\n1,<0.25\n2,>10\n3,1..3\n4,?\n5,\n")
    (series,) = sheet.series(roles_of(sheet, "", ["x"]), TimeSettings())
    assert series.times.tolist() == [0, 1, 2, 3]
    assert series.values.tolist() == [1.5, 0.25, 10, 2]
    assert series.marks.tolist() == ["", "below", "above", "between"]
