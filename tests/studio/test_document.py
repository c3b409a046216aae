"""Changes of a problem file that keep what a person wrote there."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tomlkit")

from picardfit.errors import InputError
from picardfit.studio import document
from studio.browsing import STARTERS

TEXT = (STARTERS / "lotka-volterra" / "problem.toml").read_text(encoding="utf-8")


def lines_of(text: str) -> set[str]:
    return set(text.splitlines())


def test_a_changed_bound_changes_one_line_only():
    changed = document.with_belief(TEXT, ("parameters", "birth"), upper=9.0)
    assert lines_of(TEXT) - lines_of(changed) == {
        'birth = { lower = 0.05, upper = 5, log = true, unit = "1/year" }'
    }
    assert tomllib.loads(changed)["parameters"]["birth"] == {
        "lower": 0.05,
        "upper": 9,
        "log": True,
        "unit": "1/year",
    }


def test_comments_stay():
    changed = document.with_equations(TEXT, "x' = -k*x")
    changed = document.with_data(changed, time=None, file="other.csv")
    changed = document.with_value(changed, ("noise",), {"type": "normal", "additive": [0.1, 1]})
    assert {line for line in lines_of(TEXT) if line.startswith("#")} <= lines_of(changed)
    assert 'file = "other.csv"      # one column per observable; blank cells were not measured' in changed


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=60))
def test_equations_come_back_as_they_were_typed(typed):
    changed = document.with_equations(TEXT, typed)
    kept = "".join(c for c in typed if c in "\n\t" or not (ord(c) < 32 or ord(c) == 127))
    assert document.equations_of(changed) == kept
    assert tomllib.loads(changed)["equations"] == kept + "\n"


def test_new_parameters_get_wide_bounds_and_lose_them_when_they_go():
    text = document.with_parameters('equations = """\n"""\n', ["a", "b"])
    assert set(document.value_at(text, "parameters")) == {"a", "b"}
    text = document.with_belief(text, ("parameters", "a"), upper=3.0)
    text = document.with_parameters(text, ["c"])
    assert set(document.value_at(text, "parameters")) == {"a", "c"}  # a was changed by hand, b was not


@pytest.mark.parametrize(
    ("now", "changes", "then"),
    [
        (None, {"fixed": 2.0}, 2),
        ([1, 100], {"upper": 50.0}, [1, 50]),
        ([1, 100], {"log": True}, {"lower": 1, "upper": 100, "log": True}),
        (3.0, {"fixed": None}, None),
        ({"bounds": [0, 1], "unit": "h"}, {"upper": 2.0}, {"unit": "h", "lower": 0, "upper": 2}),
    ],
)
def test_a_belief_stays_as_short_as_it_can(now, changes, then):
    text = document.with_value("", ("initial", "x"), now)
    assert document.value_at(document.with_belief(text, ("initial", "x"), **changes), "initial", "x") == then


def test_the_first_of_several_data_files_is_changed():
    text = 'data = ["a.csv", "b.csv"]\n'
    changed = tomllib.loads(document.with_data(text, time="day"))
    assert changed["data"] == [{"file": "a.csv", "time": "day"}, "b.csv"]


def test_input_columns_are_added_and_removed():
    header = ["time", "dose rate (mg)"]
    text = document.with_inputs("[inputs]\npump = 2.0\n", ["dose rate (mg)"], header)
    assert tomllib.loads(text)["inputs"] == {"pump": 2.0, "dose_rate": {"column": "dose rate (mg)"}}
    assert tomllib.loads(document.with_inputs(text, [], header))["inputs"] == {"pump": 2.0}


def test_a_text_that_is_no_toml_is_refused():
    with pytest.raises(InputError) as caught:
        document.with_value("a = = 1", ("title",), "x")
    assert caught.value.code == "studio.not_toml"


@pytest.mark.parametrize(
    "text",
    [
        '# mine\ndata = ["a.csv", { file = "b.csv", time = "day" }]\n',
        '# mine\n[[data]]\nfile = "a.csv"\n[[data]]\nfile = "b.csv"\ntime = "day"\n',
    ],
)
def test_a_list_of_files_is_changed_in_place(text):
    changed = document.with_data(text, 1, time="week")
    changed = document.with_another_file(changed, "c.csv")
    assert [one["file"] for one in document.data_files(changed)] == ["a.csv", "b.csv", "c.csv"]
    assert document.data_of(changed, 1)["time"] == "week"
    assert document.with_another_file(changed, "c.csv") == changed
    left = document.without_file(document.without_file(changed, 0), 0)
    assert [one["file"] for one in document.data_files(left)] == ["c.csv"]
    assert document.data_files(document.without_file(left, 0)) == []
    assert changed.startswith("# mine")


def test_one_file_becomes_a_list():
    text = document.with_another_file('data = { file = "a.csv", time = "day" }\n', "b.csv")
    assert tomllib.loads(text)["data"] == [{"file": "a.csv", "time": "day"}, "b.csv"]
