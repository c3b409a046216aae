"""Files that a person drops on the page."""

from __future__ import annotations

import tomllib

import pytest

pytest.importorskip("tomlkit")

from picardfit.errors import InputError
from picardfit.studio import opening
from picardfit.studio.settings import StudioSettings

NEW = 'title = "new"\n\nequations = """\n"""\n'


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("x.csv", "x.csv"),
        ("../../x.csv", "x.csv"),
        ("C:\\data\\x y.csv", "x y.csv"),
        ("<script>.csv", "_script_.csv"),
        ("...", "table.csv"),
        ("a\x00b.csv", "a_b.csv"),
    ],
)
def test_names_of_files_are_bare_and_harmless(given, name):
    assert opening.plain_name(given) == name


def test_a_table_becomes_the_data():
    files, text = opening.opened({"x.csv": b"time,x\n0,1\n"}, NEW)
    assert files == {"x.csv": b"time,x\n0,1\n"}
    assert tomllib.loads(text)["data"] == "x.csv"


def test_a_problem_file_replaces_everything():
    files, text = opening.opened({"problem.toml": b"title = 'other'\n", "x.csv": b"time,x\n0,1\n"}, NEW)
    assert text == "title = 'other'\n"
    assert set(files) == {"x.csv"}


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"notes.docx": b"PK"}, "studio.what_is_it"),
        ({"x.csv": b""}, "files.empty_table"),
        ({"x.csv": b"\0\0\0"}, "files.not_text"),
        ({"x.csv": b"time,x\n" * 50}, "studio.too_large"),
    ],
)
def test_what_is_no_table_is_refused(files, code):
    with pytest.raises(InputError) as caught:
        opening.opened(files, NEW, StudioSettings(upload_bytes=100))
    assert caught.value.code == code


def test_cells_of_a_spreadsheet_are_a_table():
    files, text = opening.pasted("time\tx\n0\t1\n", NEW)
    assert files == {"pasted.tsv": b"time\tx\n0\t1\n"}
    assert tomllib.loads(text)["data"] == "pasted.tsv"


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("Subject,time,x\nA,0,1\nB,0,2\n", "Subject"),
        ("ID,time,x\n1,0,1\n1,1,2\n2,0,3\n", "ID"),
        ("Run,time,x\n1,0,1\n2,1,2\n", None),  # it counts the rows
        ("id,experiment,time,x\n1,a,0,1\n1,a,1,2\n", None),
        ("ID,TIME,AMT,DV\n1,0,5,\n1,1,,2\n", None),
    ],
)
def test_a_column_with_a_usual_name_tells_experiments_apart(table, column):
    _, text = opening.opened({"a.csv": b"time,x\n0,1\n1,2\n", "b.csv": table.encode()}, NEW)
    first, second = tomllib.loads(text)["data"]
    assert first == "a.csv"
    assert second == ("b.csv" if column is None else {"file": "b.csv", "experiment": column})


def test_every_starter_opens():
    from picardfit.cli.new import Starter

    for one in Starter:
        files, text = opening.starter(one.value)
        assert tomllib.loads(text)["equations"]
        assert any(name.endswith(".csv") for name in files)
