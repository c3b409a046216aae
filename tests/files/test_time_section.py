"""The section [time] of a problem file, and dates in other places of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import picardfit as pf
from complaints import complaint
from picardfit.cli import app
from picardfit.files.problem_file import read_problem_file

TABLE = """experiment,date,X [mg],weather
a,2021-03-04,8,fair
a,2021-03-05,6,fair
b,2021-03-09,4,rain
b,2021-03-11,2,rain
"""
HEAD = "equations = \"x' = -k*x\"\ndata = 'counts.csv'\n"
TAIL = "[parameters]\nk = [0, 5]\n"


@pytest.fixture
def write(tmp_path):
    def write(head="", tail="", table=TABLE, **others):
        (tmp_path / "counts.csv").write_text(table)
        for name, text in others.items():
            (tmp_path / f"{name}.csv").write_text(text)
        (tmp_path / "problem.toml").write_text(HEAD + head + TAIL + tail)
        return tmp_path

    return write


def fault(folder):
    return complaint(read_problem_file, folder)


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_dates_count_in_days_from_the_first_of_all(write):
    first, second = pf.read_problem(write()).experiments
    assert (first.times.tolist(), second.times.tolist()) == ([0, 1], [5, 7])
    assert (first.t0, second.t0) == (0, 5)


@pytest.mark.parametrize(
    "section, times",
    [
        ("[time]\nunit = 'h'\n", [120, 168]),
        ("[time]\norigin = 'each'\n", [0, 2]),
        ("[time]\norigin = 2021-03-01\n", [8, 10]),
        ("[time]\norigin = '2021-03-01'\nunit = 'week'\n", [8 / 7, 10 / 7]),
        ("[units]\nt = 'hours'\n", [120, 168]),
    ],
)
def test_the_section_says_how_time_counts(write, section, times):
    second = pf.read_problem(write(tail=section)).experiments[1]
    np.testing.assert_allclose(second.times, times)


def test_the_unit_is_that_of_the_model(write):
    assert pf.read_problem(write(tail="[time]\nunit = 'h'\n")).model.unit("t") == "h"


def test_several_files_have_one_origin(write):
    folder = write(
        table="date,x,u\n2021-03-04,1,0\n2021-03-05,2,1\n", later="date,x,u\n2021-03-10,1,0\n2021-03-12,2,1\n"
    )
    path = folder / "problem.toml"
    path.write_text(
        path.read_text()
        .replace("'counts.csv'", "['counts.csv', 'later.csv']\ninputs = ['u']")
        .replace("-k*x", "u - k*x")
    )
    early, late = pf.read_problem(folder).experiments
    assert early.calendar == late.calendar
    assert (late.times.tolist(), late.t0, late.inputs["u"].times.tolist()) == ([6, 8], 6, [6, 8])


def test_the_order_of_day_and_month(write):
    table = "date,x\n3/4/2021,1\n5/4/2021,2\n"
    error = fault(write(table=table))
    assert (error.code, error.place.file[-10:], error.place.line) == ("problem.date_order", "counts.csv", 2)
    assert 'date_order = "dmy"' in str(error)
    assert pf.read_problem(write(table=table, tail="[time]\ndate_order = 'dmy'\n")).span(0) == (0, 2)


def test_the_initial_time_may_be_a_date(write):
    for head in ("t0 = 2021-03-01\n", "t0 = '2021-03-01'\n"):
        assert [one.t0 for one in pf.read_problem(write(head)).experiments] == [-3, -3]
    own = pf.read_problem(write(tail="[experiments.b]\nt0 = 2021-03-08\n"))
    assert [one.t0 for one in own.experiments] == [0, 4]


def test_inputs_and_candidates_may_have_dates_where_the_origin_is_one(write):
    text = "[time]\norigin = 2021-03-01\n[candidates.later]\ntimes = [2021-04-01, 2021-04-02]\n"
    head = "inputs = { u = { times = [2021-03-01, 2021-03-05], values = [0, 1] } }\n"
    path = write(head, text) / "problem.toml"
    path.write_text(path.read_text().replace("-k*x", "u - k*x"))
    file = read_problem_file(path)
    assert file.inputs["u"].times.tolist() == [0, 4]
    assert file.candidates["later"].times == (31, 32)


@pytest.mark.parametrize(
    "section, code, line",
    [
        ("[time]\nunit = 'month'\n", "problem.time_unit", 6),
        ("[time]\norigin = 'frist'\n", "files.origin", 6),
        ("[time]\norigin = 3\n", "problem.not_a_date", 6),
        ("[time]\ndate_order = 'ymd'\n", "problem.unknown_date_order", 6),
        ("[time]\nunti = 'h'\n", "files.unknown_key", 6),
        ("[time]\nunit = 'h'\n[units]\nt = 'd'\n", "files.units_differ", 6),
        ("[units]\nt = 'month'\n", "problem.unit_of_dates", 6),
        ("[candidates.later]\ntimes = [2021-04-01]\n", "problem.no_calendar", 6),
    ],
)
def test_bad_sections_are_named_with_their_line(write, section, code, line):
    error = fault(write(tail=section))
    assert (error.code, error.place.line) == (code, line)


def test_a_date_where_times_are_numbers_is_refused(write):
    error = fault(write("t0 = 2021-03-01\n", table="time,x\n0,1\n1,2\n"))
    assert (error.code, error.place.line) == ("problem.no_calendar", 3)


# the command line


def test_check_shows_dates_and_one_remark(write):
    output = run("check", write(), "--quick").output
    assert "2021-03-09  2021-03-11" in output
    assert output.count("`weather`") == 1
    record = json.loads(run("check", write(), "--quick", "--json").output)
    assert record["experiments"]["b"]["origin"] == "2021-03-04T00:00:00"


def test_fit_tells_of_ignored_columns_once(write, tmp_path):
    result = run("fit", write(), "--no-report", "--out", tmp_path / "results")
    assert result.output.count("`weather`") == 1
    header, first, *_ = (tmp_path / "results" / "predictions.csv").read_text().splitlines()
    assert header.startswith("experiment,date,time,x,")
    assert first.startswith("a,2021-03-04 00:00:00,0.0,")


def test_simulated_data_have_dates_and_can_be_read_again(write, tmp_path):
    folder = write()
    out = tmp_path / "simulated.csv"
    assert run("simulate", folder, "--set", "k=0.2", "--set", "x=8", "--out", out).exit_code == 0
    assert out.read_text().splitlines()[:2] == ["experiment,date,x", "a,2021-03-04,8.0"]
    for given, made in zip(pf.read_problem(folder).experiments, pf.read_table(out), strict=True):
        np.testing.assert_array_equal(given.times, made.times)


def test_a_plan_with_an_origin_is_simulated_with_dates(tmp_path):
    text = 'equations = "x\' = -k*x"\nparameters = { k = [0, 1] }\n[time]\norigin = 2021-03-04\n'
    (tmp_path / "problem.toml").write_text(text)
    result = run("simulate", tmp_path, "--times", "0:1:3", "--set", "k=0.2", "--set", "x=8")
    assert [row.split(",")[1] for row in result.output.splitlines()[1:]] == [
        "2021-03-04 00:00",
        "2021-03-04 12:00",
        "2021-03-05 00:00",
    ]


def test_dates_of_doses_count_from_a_date_as_the_origin(write):
    doses = "doses = { into = 'x', times = ['2021-03-02', '2021-03-10'], amounts = 1 }\n"
    again = "[experiments.b]\nresets = [2021-03-10]\n[initial]\nx = 1\n"
    first, second = pf.read_problem(write(doses, again + "[time]\norigin = 2021-03-01\n")).experiments
    assert first.doses[0].times.tolist() == second.doses[0].times.tolist() == [1, 9]
    assert (first.t0, second.t0, second.resets) == (1, 1, (9,))


def test_dates_of_doses_and_resets_count_from_the_first_date_of_the_data(write):
    doses = "doses = { into = 'x', times = ['2021-03-02', 2021-03-10], amounts = 1 }\n"
    path = write(doses, "[initial]\nx = 1\n[experiments.b]\nresets = [2021-03-10]\n")
    first, second = pf.read_problem(path).experiments
    days = first.calendar.times(["2021-03-02", "2021-03-10"]).tolist()
    assert first.doses[0].times.tolist() == second.doses[0].times.tolist() == days
    assert second.resets == (days[1],)


def test_dates_of_doses_need_dates_in_the_data(write):
    doses = "doses = { into = 'x', times = ['2021-03-02', '2021-03-10'], amounts = 1 }\n"
    error = fault(write(doses, "[initial]\nx = 1\n", "experiment,t,x\na,0,1\na,1,2\n"))
    assert (error.code, error.place.key) == ("problem.no_calendar", ("doses",))
