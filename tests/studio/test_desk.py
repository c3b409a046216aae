"""What reading a folder says, and what the desk remembers."""

from __future__ import annotations

import asyncio
import os
import shutil
import time

import pytest

pytest.importorskip("tomlkit")

from picardfit.errors import InputError
from picardfit.studio import document
from picardfit.studio.desk import Desk
from picardfit.studio.folder import read_folder
from picardfit.studio.reading import in_editor
from picardfit.studio.roles import with_role
from picardfit.studio.sheet import Role
from picardfit.studio.study import Study
from studio.browsing import STARTERS


@pytest.fixture
def lynx(tmp_path):
    return Study(shutil.copytree(STARTERS / "lotka-volterra", tmp_path / "lynx"))


def test_a_folder_is_read_with_its_table(lynx):
    reading = read_folder(lynx, 0)
    assert reading.file is not None
    (table,) = reading.tables
    assert table.roles == {"year": Role.TIME, "hare": Role.MEASURED, "lynx": Role.MEASURED}
    assert [one.name for one in table.series] == ["hare", "lynx"]


def test_the_model_is_known_where_other_parts_are_wrong(lynx):
    lynx.write_text(document.with_belief(lynx.text, ("parameters", "birth"), lower=9.0), "bounds")
    reading = read_folder(lynx, 0)
    assert reading.file is None
    assert reading.model.states == ("hare", "lynx")
    assert [one.code for one in reading.about("parameters")] == ["model.bounds_swapped"]


def test_lines_of_messages_are_those_that_a_person_sees(tmp_path):
    study = Study(tmp_path)
    (tmp_path / "nan.csv").write_text("# mine\nt,x\n0,NaN\n1,0.6\n,0.4\n3,inf\n", encoding="utf-8")
    text = document.with_equations('title = "a"\ndata = "nan.csv"\n', "x' = -k*x\n\nx' = 1")
    study.write_text(text, "begin")
    reading = read_folder(study, 0)
    (twice,) = map(in_editor, reading.about("equations"))
    assert (twice.place.row, twice.values["other_row"]) == (3, 1)
    (cell,), unseen = reading.about("data"), reading.tables[0].unseen
    assert (cell.place.line, unseen.place.line) == (5, 5)


def test_what_is_not_begun_is_no_mistake(tmp_path):
    study = Study(tmp_path)
    study.write_text(document.new("new"), "begin")
    reading = read_folder(study, 0)
    assert reading.faults
    assert reading.mistakes == ()


@pytest.mark.parametrize("name", ["../secret.csv", "/etc/passwd"])
def test_data_outside_of_the_folder_are_not_read(tmp_path, name):
    (tmp_path / "secret.csv").write_text("time,x\n0,1\n1,2\n", encoding="utf-8")
    study = Study(tmp_path / "study")
    study.write_text(f"equations = \"x' = -k*x\"\ndata = '{name}'\n[parameters]\nk = [0, 1]\n", "evil")
    reading = read_folder(study, 0)
    assert reading.file is None
    assert reading.tables == ()
    assert [one.code for one in reading.about("data")] == ["studio.outside"]


def test_a_column_that_needs_a_formula_is_mended_with_the_equations(tmp_path):
    study = Study(tmp_path)
    (tmp_path / "x.csv").write_text("time,conc\n0,1\n1,2\n", encoding="utf-8")
    study.write_text('data = "x.csv"\nequations = "body\' = -k*body"\nparameters.k = [0.1, 1]\n', "begin")
    reading = read_folder(study, 0)
    assert [one.code for one in reading.about("observables")] == ["files.column_not_observed"]
    assert reading.about("data") == []


def test_doses_follow_the_cells_of_their_column(tmp_path):
    rows = "".join(f"{one},0,,{10 * k}\n{one},1,{k},\n{one},2,{k / 2},\n" for k, one in enumerate("AB", 1))
    (tmp_path / "x.csv").write_text(f"experiment,time,body,Dose (mg)\n{rows}", encoding="utf-8")
    study = Study(tmp_path)
    text = 'data = "x.csv"\nequations = "body\' = -k*body"\n[parameters]\nk = [0.1, 9]\n[initial]\nbody = 0\n'
    (sheet,) = (one.sheet for one in read_folder(_written(study, text), 0).tables)
    study.write_text(with_role(sheet, study.text, "Dose (mg)", Role.DOSE, "body"), "dose")
    desk = Desk(study)
    reading = asyncio.run(desk.read())
    assert amounts_of(reading) == [[10], [20]]
    assert reading.remarks == ()  # nothing is ignored
    desk.edit_sheet(0, reading.tables[0].sheet.with_cell(0, "Dose (mg)", "500"), "cell")
    again = asyncio.run(desk.read())
    assert amounts_of(again) == [[500], [20]]
    assert again.tables[0].roles["Dose (mg)"] is Role.DOSE


def _written(study, text):
    study.write_text(text, "begin")
    return study


def amounts_of(reading):
    return [one.doses[0].amounts.tolist() for one in reading.file.problem.experiments]


def test_a_table_that_has_not_changed_is_not_read_again(lynx):
    first = read_folder(lynx, 0)
    lynx.write_text(document.with_belief(lynx.text, ("parameters", "birth"), upper=9.0), "bounds")
    second = read_folder(lynx, 1, first)
    assert second.tables[0].sheet is first.tables[0].sheet
    assert second.tables[0].series is first.tables[0].series


def test_listeners_are_told_who_made_a_change(lynx):
    async def walk():
        desk, heard = Desk(lynx), []
        desk.listeners.append(heard.append)
        assert desk.edit(lambda text: document.with_value(text, ("title",), "other"), "title", by="me")
        assert not desk.edit(lambda text: text, "nothing", by="me")
        desk.undo()
        assert (await desk.read()).revision == lynx.revision
        return heard

    assert asyncio.run(walk()) == ["me", None]


def test_a_field_keeps_what_another_program_wrote_meanwhile(lynx):
    desk = Desk(lynx)
    heard = []
    desk.listeners.append(heard.append)
    theirs = "# mine\n" + document.with_belief(lynx.text, ("parameters", "birth"), upper=7.0)
    (lynx.folder / "problem.toml").write_text(theirs, encoding="utf-8")
    desk.edit(lambda text: document.with_belief(text, ("parameters", "birth"), lower=0.1), "lower", by="me")
    assert desk.text.startswith("# mine\n")
    birth = document.value_at(desk.text, "parameters", "birth")
    assert (birth["lower"], birth["upper"]) == (0.1, 7)
    assert heard == [None, "me"]
    desk.undo()
    assert desk.text == theirs


def test_a_plan_does_not_age_the_fit(lynx):
    desk = Desk(lynx)
    desk.results.mkdir()
    (desk.results / "fit.json").write_text("{}", encoding="utf-8")
    assert not desk.is_stale
    substance = desk.substance
    os.utime(desk.results / "fit.json", ns=(1, lynx.path("problem.toml").stat().st_mtime_ns))
    assert not desk.is_stale
    time.sleep(0.02)
    desk.edit(lambda text: document.with_value(text, ("candidates", "plan", "times"), [1, 2]), "plan")
    assert not desk.is_stale
    assert desk.substance == substance
    desk.edit(lambda text: document.with_belief(text, ("parameters", "birth"), upper=9.0), "upper")
    assert desk.is_stale
    assert desk.substance != substance


def test_cells_that_another_program_changed_are_not_written_over(lynx):
    desk = Desk(lynx)
    sheet = asyncio.run(desk.read()).tables[0].sheet
    table = lynx.folder / "lynx_hare.csv"
    theirs = table.read_text(encoding="utf-8") + "1921,1,2\n"
    table.write_text(theirs, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        desk.edit_sheet(0, sheet.with_cell(0, "hare", "99"), "cell")
    assert caught.value.code == "studio.changed_elsewhere"
    assert table.read_text(encoding="utf-8") == theirs
    assert len(asyncio.run(desk.read()).tables[0].sheet.rows) == 22


def test_curves_of_experiments_and_of_individuals_are_read(lynx):
    desk = Desk(lynx)
    assert asyncio.run(desk.predictions()) == {}
    desk.results.mkdir()
    table = desk.results / "predictions.csv"
    table.write_text("experiment,date,time,x\none,2020-01-01,0,1.5\none,2020-01-02,1,\n", encoding="utf-8")
    found = asyncio.run(desk.predictions())["one"]
    assert found["x"][0] == 1.5
    assert found["x"][1] != found["x"][1]  # a gap
    table.write_text("individual,time,x_measured,x_individual,x_typical\n7,0,,2.5,3\n", encoding="utf-8")
    os.utime(table, (1, 1))
    assert asyncio.run(desk.predictions())["7"]["x"] == [2.5]


def test_every_table_is_read_and_one_that_is_missing_is_told(lynx):
    (lynx.folder / "other.csv").write_text("year,hare,lynx\n1900,1,2\n1901,3,4\n", encoding="utf-8")
    lynx.write_text(document.with_another_file(lynx.text, "other.csv"), "add")
    reading = read_folder(lynx, 0)
    assert [one.sheet.name for one in reading.tables] == ["lynx_hare.csv", "other.csv"]
    assert reading.rows == 23
    assert [one.name for one in reading.file.problem.experiments] == ["lynx_hare", "other"]
    lynx.write_text(document.with_another_file(lynx.text, "gone.csv"), "add")
    again = read_folder(lynx, 1, reading)
    assert again.tables[1] is reading.tables[1]
    assert len(again.tables) == 2
    assert again.about("data")
