"""Dates in the time column of tables."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from complaints import complaint
from picardfit.files.tables import read_table


def table(text, **options):
    return read_table(io.StringIO(text), **options)


def only(text, **options):
    (made,) = table(text, **options)
    return made


TWO = "experiment,date,x\na,2021-03-04,1\na,2021-03-06,2\nb,2021-03-09,3\nb,2021-03-10,4\n"


@pytest.mark.parametrize(
    "header", ["time", "date", "Date", "datetime", "date_time", "timestamp", "DATE (UTC)"]
)
def test_dates_are_found_and_count_in_days(header):
    made = only(f"{header},x\n2021-03-04,1\n2021-03-06,2\n")
    assert made.times.tolist() == [0, 2]
    assert made.calendar.texts(made.times) == ["2021-03-04", "2021-03-06"]


def test_another_unit():
    assert only("time,x\n2021-03-04 08:00,1\n2021-03-04 20:30,2\n", time_unit="h").times.tolist() == [0, 12.5]


def test_time_begins_with_the_first_row_of_all_experiments():
    first, second = table(TWO)
    assert (first.times.tolist(), second.times.tolist()) == ([0, 2], [5, 6])
    assert (first.t0, second.t0) == (0, 5)  # the initial state of each is that of its first sample
    assert first.calendar == second.calendar


def test_time_begins_with_the_first_row_of_each_experiment():
    first, second = table(TWO, origin="each")
    assert (first.times.tolist(), second.times.tolist()) == ([0, 2], [0, 1])
    assert second.calendar.text(0.0) == "2021-03-09"


def test_time_begins_with_a_date():
    first, _ = table(TWO, origin="2021-03-01")
    assert (first.times.tolist(), first.t0) == ([3, 5], 3)


def test_numbers_may_count_from_a_date():
    made = only("time (h),x\n0,1\n36,2\n", origin="2021-03-01", time_unit="h")
    assert (made.t0, made.calendar.text(36)) == (0, "2021-03-02 12:00")


def test_numbers_that_count_from_a_date_in_another_unit_are_refused():
    error = complaint(table, "time (h),x\n0,1\n36,2\n", origin="2021-03-01")
    assert (error.code, error.subject) == ("files.two_time_units", "time (h)")


def test_an_input_column_keeps_its_time():
    _, second = table(TWO.replace(",x", ",x,u").replace("1\n", "1,0\n").replace("4\n", "4,1\n").replace("3\n", "3,0\n")
                      .replace("2\n", "2,1\n"), inputs=["u"], origin="each")  # fmt: skip
    assert second.inputs["u"].times.tolist() == [0, 1]


def test_a_long_table_with_dates():
    made = only("date,observable,value\n2021-03-04,x,1\n2021-03-05,y,2\n")
    assert (made.times.tolist(), made.observables) == ([0, 1], ("x", "y"))


def test_rows_need_no_order():
    assert only("date,x\n2021-03-06,2\n2021-03-04,1\n").values[:, 0].tolist() == [1, 2]


def test_one_date_decides_the_order_of_day_and_month():
    assert only("date,x\n3/4/2021,1\n13/4/2021,2\n").times.tolist() == [0, 10]


@pytest.mark.parametrize("order, days", [("dmy", 30), ("mdy", 1)])
def test_the_user_decides_the_order_of_day_and_month(order, days):
    assert only("date,x\n3/4/2021,1\n3/5/2021,2\n", date_order=order).times[-1] == days


def test_a_date_and_a_time_of_day_in_two_columns():
    made = only("date,time,x\n2021-03-04,22:00,1\n2021-03-05,01:00,2\n", time_unit="h")
    assert (made.times.tolist(), made.observables) == ([0, 3], ("x",))


def test_numbers_beside_dates_are_the_time():
    made = only("date,time,x\n2021-03-04,0,1\n2021-03-05,1.5,2\n", observables=["x"])
    assert (made.times.tolist(), made.calendar) == ([0, 1.5], None)


def test_compact_dates_are_dates():
    assert only("day,x\n20210331,1\n20210401,2\n").times.tolist() == [0, 1]
    frame = pd.DataFrame({"day": [20210331, 20210401], "x": [1, 2]})
    assert read_table(frame)[0].times.tolist() == [0, 1]


@pytest.mark.parametrize(
    "text, code, row",
    [
        ("date,x\n3/4/2021,1\n5/6/2021,2\n", "problem.date_order", 2),
        ("date,x\n13/4/2021,1\n4/14/2021,2\n", "problem.date_orders", 3),
        ("date,x\n2021-03-04,1\n12,2\n", "problem.date_among_numbers", 3),
        ("date,x\n2021-03-04,1\n\n,2\n", "problem.date_missing", 4),
        ("date,x\n2021-03-04,1\n0202-03-04,2\n", "problem.date_year", 3),
        ("date,x\n04.03.21,1\n", "problem.date_short_year", 2),
        ("date,x\n2021-02-29,1\n", "problem.date_impossible", 2),
        ("date,x\n2021-03-04,1\nsoon,2\n", "problem.date_unknown", 3),
        ("time,x\n10:30,1\n11:30,2\n", "files.times_of_day", 2),
        ("date,time,x\n2021-03-04,10:30,1\n,11:30,2\n", "problem.date_unknown", 3),
        ("time,x\n0,2021-03-04\n", "files.dates", 2),
    ],
)
def test_bad_dates_are_named_with_their_line(text, code, row):
    error = complaint(table, text)
    assert (error.code, error.place.row) == (code, row)


@pytest.mark.parametrize(
    "options, code",
    [
        ({"time_unit": "month"}, "problem.time_unit"),
        ({"origin": "frist"}, "files.origin"),
        ({"origin": 3}, "problem.not_a_date"),
        ({"date_order": "ymd"}, "problem.unknown_date_order"),
    ],
)
def test_bad_options(options, code):
    assert complaint(table, TWO, **options).code == code


# pandas


def test_a_frame_of_dates_in_a_time_zone():
    """The night of 28 March 2021 had 23 hours in Berlin."""
    days = pd.date_range("2021-03-27", periods=3, tz="Europe/Berlin")
    made = read_table(pd.DataFrame({"date": days, "x": [1, 2, 3]}), time_unit="h")[0]
    np.testing.assert_array_equal(made.times, [0, 24, 47])
    assert (made.calendar.zone, made.calendar.text(47)) == ("Europe/Berlin", "2021-03-29")


@pytest.mark.parametrize(
    "dates",
    [
        pd.period_range("2021-01", periods=2, freq="M"),
        pd.to_datetime(["2021-01-01", "2021-02-01"]),
        [pd.Timestamp("2021-01-01").date(), pd.Timestamp("2021-02-01").date()],
    ],
)
def test_frames_of_dates(dates):
    made = read_table(pd.DataFrame({"date": dates, "x": [1, 2]}))[0]
    assert made.times.tolist() == [0, 31]


def test_a_frame_with_dates_as_its_index():
    index = pd.date_range("2021-03-04", periods=2, name="date")
    assert read_table(pd.DataFrame({"x": [1, 2]}, index=index))[0].times.tolist() == [0, 1]


def test_a_missing_date_of_a_frame_is_named_with_its_row():
    frame = pd.DataFrame({"date": pd.to_datetime(["2021-03-04", None]), "x": [1, 2]})
    error = complaint(read_table, frame)
    assert error.code == "problem.date_missing"
    assert "In row 2: " in str(error)


def test_a_frame_of_other_dates_is_told_how_to_name_them():
    frame = pd.DataFrame({"time": [0, 1], "sampled": pd.to_datetime(["2021-03-04"] * 2)})
    assert complaint(read_table, frame).code == "files.column_of_dates"


@pytest.mark.parametrize(
    "dates, line",
    [
        (["2021-03-04", "2121-03-05", "2021-03-06"], 3),
        (["1921-03-04", "2021-03-05", "2021-03-06"], 2),
        (["1921-03-04", "1951-03-05", "2021-03-06"], None),  # decades apart
        (["1921-03-04", "2021-03-06"], None),
        (["2021-03-04", "2022-03-05", "2021-03-06"], None),
    ],
)
def test_a_date_many_years_from_the_others_is_named(dates, line):
    (one,) = table("date,x\n" + "".join(f"{date},1\n" for date in dates))
    assert [(r.code, r.values["line"]) for r in one.remarks] == (
        [] if line is None else [("files.far_date", line)]
    )


def test_a_time_of_day_that_is_missing_is_refused():
    error = complaint(read_table, io.StringIO("date,time,x\n2021-03-04,10:00,1\n2021-03-04,,2\n"))
    assert (error.code, error.values["dates"], error.place.row) == ("files.no_time_of_day", "date", 3)


def test_times_of_day_in_a_column_of_dates_are_refused():
    assert complaint(read_table, io.StringIO("date,x\n08:00,1\n09:30,2\n")).code == "files.times_of_day"


def test_dates_in_an_index_without_a_name():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.date_range("2021-03-04", periods=2))
    (made,) = read_table(frame)
    assert (made.times.tolist(), made.calendar.text(0.0)) == ([0, 1], "2021-03-04")


def test_24_00_is_the_end_of_the_day():
    (made,) = read_table(io.StringIO("time,x\n2021-03-04 23:00,1\n2021-03-04 24:00,2\n"), time_unit="h")
    assert made.times.tolist() == [0, 1]
