"""Calendars: times and dates, there and back; experiments that have one."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import picardfit as pf
from complaints import complaint
from picardfit.problem.json_values import plain
from picardfit.problem.serialisation import problem_digest, problem_from, problem_record

DAYS = pd.date_range("2021-03-04", periods=3)
DECAY = pf.Model("x' = -k*x")


@pytest.mark.parametrize(
    "unit, size", [("s", 86400), ("min", 1440), ("hours", 24), ("d", 1), ("week", 1 / 7)]
)
def test_dates_count_in_a_unit(unit, size):
    calendar = pf.Calendar("2021-03-04", unit)
    np.testing.assert_allclose(calendar.times(DAYS), size * np.arange(3))


def test_a_year_has_365_and_a_quarter_days():
    assert pf.Calendar("2021-01-01", "year").times(["2025-01-01"])[0] == 4


@given(
    st.datetimes(min_value=pd.Timestamp("1600-01-01"), max_value=pd.Timestamp("2190-01-01")),
    st.sampled_from(["s", "min", "h", "d"]),
)
def test_dates_come_back_to_the_microsecond_nearby(moment, unit):
    """Over a century a double of days resolves a microsecond, 1e-11 days, where the origin is near."""
    calendar = pf.Calendar(moment.replace(microsecond=0), unit)
    assert calendar.dates(calendar.times([moment])).item() == moment


def test_texts_are_as_short_as_they_can_be():
    calendar = pf.Calendar("2021-03-04")
    assert calendar.texts([0, 1]) == ["2021-03-04", "2021-03-05"]
    assert calendar.texts([0, 0.25]) == ["2021-03-04 00:00", "2021-03-04 06:00"]
    assert calendar.texts([1 / 86400]) == ["2021-03-04 00:00:01"]
    assert calendar.texts([1 / 3]) == ["2021-03-04 08:00"]


def test_exact_texts_can_be_read_again():
    for calendar in (pf.Calendar("2021-03-27", "d"), pf.Calendar("2021-03-27", "d", "Europe/Berlin")):
        times = np.array([0, 0.3, 1 / 7, 1.5])
        texts = calendar.texts(times, exact=True)
        np.testing.assert_allclose(calendar.times(texts), times, atol=1e-11)


def test_days_with_a_time_zone_are_elapsed_time():
    """The night of 28 March 2021 had 23 hours in Berlin."""
    calendar = pf.Calendar("2021-03-27", "h", "Europe/Berlin")
    days = pd.date_range("2021-03-27", periods=3, tz="Europe/Berlin")
    np.testing.assert_array_equal(calendar.times(days), [0, 24, 47])
    assert calendar.texts([47]) == ["2021-03-29"]


def test_dates_without_a_zone_are_in_that_of_the_calendar():
    calendar = pf.Calendar("2021-03-27", "h", "Europe/Berlin")
    assert calendar.times(["2021-03-27 06:00", "2021-03-29"]).tolist() == [6, 47]
    assert complaint(pf.Calendar("2021-03-27").times, ["2021-03-27T06:00Z"]).code == "problem.calendar_zones"


def test_days_without_a_time_zone_have_24_hours():
    days = pd.date_range("2021-03-27", periods=3)
    np.testing.assert_array_equal(pf.Calendar("2021-03-27", "h").times(days), [0, 24, 48])


def test_a_calendar_is_its_record_its_pickle_and_its_code():
    for calendar in (pf.Calendar("2021-03-04T10:30", "h"), pf.Calendar("2021-03-04", "d", "Europe/Berlin")):
        assert pf.Calendar.from_record(calendar.record()) == calendar
        assert pickle.loads(pickle.dumps(calendar)) == calendar
        assert eval(repr(calendar), {"pf": pf}) == calendar


@pytest.mark.parametrize(
    "arguments, code",
    [
        ((3,), "not_a_date"),
        (("spring",), "date_unknown"),
        (("3/4/2021",), "date_order"),
        (("2021-03-04", "month"), "time_unit"),
        (("2021-03-04", "d", "Europe/Bonn"), "unknown_zone"),
    ],
)
def test_bad_calendars(arguments, code):
    assert complaint(pf.Calendar, *arguments).code == f"problem.{code}"


# experiments


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        DAYS.to_series(),
        list(DAYS),
        DAYS.to_numpy(),
        DAYS.to_period("D"),
        [one.date() for one in DAYS],
        ["2021-03-04", "2021-03-05", "2021-03-06"],
        ["04.03.2021", "05.03.2021", "06.03.2021"],
        DAYS.tz_localize("Asia/Tokyo"),
    ],
)
def test_an_experiment_takes_dates(times):
    one = pf.Experiment(times, {"x": [3.0, 2.0, 1.0]})
    assert (one.times.tolist(), one.t0) == ([0, 1, 2], 0)
    assert "3 times from 2021-03-04 to 2021-03-06" in str(one)


def test_each_observable_may_have_its_own_dates():
    one = pf.Experiment(None, {"x": (DAYS[1:], [1.0, 2.0]), "y": (DAYS[:1], [3.0])})
    assert (one.times.tolist(), one.calendar.text(0.0)) == ([0, 1, 2], "2021-03-04")


def test_a_calendar_sets_origin_and_unit():
    one = pf.Experiment(DAYS, {"x": [3.0, 2.0, 1.0]}, calendar=pf.Calendar("2021-03-01", "h"))
    assert (one.times.tolist(), one.t0) == ([72, 96, 120], 72)


def test_numbers_with_a_calendar_keep_their_initial_time():
    one = pf.Experiment([1, 2], {"x": [3.0, 2.0]}, calendar=pf.Calendar("2021-03-04"))
    assert (one.t0, str(one)) == (0.0, "experiment: 2 times from 2021-03-05 to 2021-03-06, x (2)")


def test_the_initial_time_and_tables_of_inputs_may_be_dates():
    one = pf.Experiment(
        DAYS, {"x": [3.0, 2.0, 1.0]}, inputs={"u": (["2021-03-02", "2021-03-05"], [0, 1])}, t0="2021-03-01"
    )
    assert one.t0 == -3
    assert one.inputs["u"].times.tolist() == [-2, 1]


def test_a_date_without_a_calendar_is_refused():
    error = complaint(pf.Experiment, [0, 1], {"x": [1.0, 2.0]}, t0="2021-03-01")
    assert error.code == "problem.no_calendar"


def test_the_entry_of_a_bad_date_is_named():
    error = complaint(pf.Experiment, ["2021-03-04", "12"], {"x": [1.0, 2.0]}, name="pond")
    assert error.code == "problem.date_among_numbers"
    assert "Experiment `pond`: entry 2 of the times" in str(error)


def test_times_of_day_are_refused():
    assert complaint(pf.Experiment, ["10:30", "11:30"], {"x": [1.0, 2.0]}).code == "problem.time_of_day"


def test_a_plan_takes_dates():
    planned = pf.plan(DAYS, ["x"])
    assert (planned.times.tolist(), planned.calendar.text(2.0)) == ([0, 1, 2], "2021-03-06")


def test_copies_keep_the_calendar():
    one = pf.Experiment(DAYS, {"x": [3.0, 2.0, 1.0]}, t0="2021-03-01")
    for copy in (replace(one, name="b"), pickle.loads(pickle.dumps(one))):
        assert (copy.calendar, copy.t0) == (one.calendar, -3)


def test_the_unit_of_the_model_must_be_that_of_the_dates():
    hours = pf.Model("x' = -k*x", units={"t": "hours"})
    one = pf.Experiment(DAYS, {"x": [3.0, 2.0, 1.0]})
    assert complaint(pf.Problem, hours, one).code == "problem.unit_of_dates"
    right = pf.Experiment(DAYS, {"x": [3.0, 2.0, 1.0]}, calendar=pf.Calendar("2021-03-04", "h"))
    assert pf.Problem(hours, right).experiments[0].calendar.unit == "h"


# records


def test_a_record_of_a_problem_keeps_dates_and_its_digest_tells_them_apart():
    dates = pf.Problem(DECAY, pf.Experiment(DAYS, {"x": [3.0, 2.0, 1.0]}))
    later = pf.Problem(DECAY, pf.Experiment(DAYS + pd.Timedelta(days=1), {"x": [3.0, 2.0, 1.0]}))
    numbers = pf.Problem(DECAY, pf.Experiment([0, 1, 2], {"x": [3.0, 2.0, 1.0]}))
    assert (
        problem_from(plain(problem_record(dates), "problem")).experiments[0].calendar
        == dates.experiments[0].calendar
    )
    assert len({problem_digest(one) for one in (dates, later, numbers)}) == 3
    assert "calendar" not in problem_record(numbers)["experiments"][0]
