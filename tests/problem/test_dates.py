"""Dates as texts and objects: what they mean, and which are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from complaints import complaint
from picardfit.problem.dates import Order, are_compact_dates, looks_like_date, read_moments, zone_info


def moments(cells, order=None):
    return read_moments(cells, "when", lambda row, error: error.with_values(row=row), order)


def fault(cells, order=None):
    error = complaint(moments, cells, order)
    return error.code.removeprefix("problem."), error.values.get("row")


@pytest.mark.parametrize(
    "text, meant",
    [
        ("2021-03-04", "2021-03-04"),
        (" 2021/3/4 ", "2021-03-04"),
        ("2021.03.04", "2021-03-04"),
        ("20210304", "2021-03-04"),
        ("2021-03", "2021-03-01"),
        ("04.03.2021", "2021-03-04"),
        ("04.03.2021 07:05", "2021-03-04T07:05"),
        ("2021-03-04T10:30:01.25", "2021-03-04T10:30:01.250"),
        ("13/4/2021", "2021-04-13"),
        ("4/13/2021", "2021-04-13"),
        ("4-13-2021, 12:15 am", "2021-04-13T00:15"),
        ("4/13/2021 12:15 PM", "2021-04-13T12:15"),
        ("4/13/2021 3:15:30 p.m.", "2021-04-13T15:15:30"),
        ("4/4/2021", "2021-04-04"),
        ("4 Mar 2021", "2021-03-04"),
        ("04-MAR-2021 08:00", "2021-03-04T08:00"),
        ("March 4, 2021", "2021-03-04"),
        ("29.02.2020", "2020-02-29"),
    ],
)
def test_a_text_means_one_date(text, meant):
    found = moments([text])
    assert (found.at[0], found.zone) == (np.datetime64(meant), "")


@pytest.mark.parametrize(
    "cell",
    [
        date(2021, 3, 4),
        datetime(2021, 3, 4),
        np.datetime64("2021-03-04"),
        pd.Timestamp("2021-03-04"),
        pd.Period("2021-03-04", "D"),
    ],
)
def test_an_object_is_a_date(cell):
    assert looks_like_date(cell)
    assert moments([cell]).at[0] == np.datetime64("2021-03-04")


@pytest.mark.parametrize(
    "cell", ["", "3", "2021.03", "1.5", "1/2", "10:30", "spring", "4 Foo 2021", 3, None, pd.NaT]
)
def test_what_is_no_date(cell):
    assert not looks_like_date(cell)


def test_one_value_decides_the_order_of_a_column():
    assert moments(["3/4/2021", "13/4/2021"]).at[0] == np.datetime64("2021-04-03")
    assert moments(["3/4/2021", "4/13/2021"]).at[0] == np.datetime64("2021-03-04")


def test_the_user_decides_the_order():
    assert moments(["3/4/2021"], Order.DMY).at[0] == np.datetime64("2021-04-03")
    assert moments(["3/4/2021"], Order.MDY).at[0] == np.datetime64("2021-03-04")
    assert moments(["03.04.2021"], Order.MDY).at[0] == np.datetime64("2021-03-04")


@pytest.mark.parametrize(
    "cells, code, row",
    [
        (["4/4/2021", "3/4/2021"], "date_order", 1),
        (["13/4/2021", "1/1/2021", "4/13/2021"], "date_orders", 2),
        (["2021-03-04", "5"], "date_among_numbers", 1),
        (["2021-03-04", "44259.5"], "date_among_numbers", 1),
        (["2021-03-04", ""], "date_missing", 1),
        (["2021-03-04", None], "date_missing", 1),
        ([pd.Timestamp("2021-03-04"), pd.NaT], "date_missing", 1),
        (["2021-03-04", "later"], "date_unknown", 1),
        (["0202-03-04"], "date_year", 0),
        (["2021-03-04", "2201-03-04"], "date_year", 1),
        (["202-03-04"], "date_year", 0),
        (["4.3.20211"], "date_year", 0),
        (["04.03.21"], "date_short_year", 0),
        (["2021-02-30"], "date_impossible", 0),
        (["2021-03-04 24:30"], "date_impossible", 0),
        (["4/13/2021 13:15 PM"], "date_impossible_in_order", 0),
        (["2021-03-04T10:00Z", "2021-03-05T10:00"], "date_zones", 1),
    ],
)
def test_what_is_refused_and_where(cells, code, row):
    assert fault(cells) == (code, row)


def test_a_year_of_an_array_must_be_plausible():
    assert fault(np.array(["2021-03-04", "0202-03-04"], "datetime64[D]")) == ("date_year", 1)


def test_an_order_that_the_dates_contradict_is_refused():
    assert fault(["13/4/2021"], Order.MDY) == ("date_impossible_in_order", 0)


# time zones


@pytest.mark.parametrize(
    "cells, zone",
    [
        (["2021-03-04T10:00Z", "2021-03-04T10:00+00:00"], "UTC"),
        (["2021-03-04T11:00+01:00", "2021-03-04 11:00+0100"], "+01:00"),
        (["2021-03-04T11:00+01:00", "2021-03-04 05:30-04:30"], "UTC"),
        ([pd.Timestamp("2021-03-04 11:00", tz="Europe/Berlin")] * 2, "Europe/Berlin"),
        ([datetime(2021, 3, 4, 10, tzinfo=UTC)] * 2, "UTC"),
        ([datetime(2021, 3, 4, 5, 30, tzinfo=zone_info("-04:30"))] * 2, "-04:30"),
    ],
)
def test_moments_with_a_zone_are_in_utc(cells, zone):
    found = moments(cells)
    assert found.zone == zone
    assert (found.at == np.datetime64("2021-03-04T10:00")).all()


def test_an_unknown_zone_is_refused():
    assert complaint(zone_info, "Europe/Bonn").code == "problem.unknown_zone"


@pytest.mark.parametrize(
    "numbers, compact",
    [
        ([20210304, 20210305], True),
        ([20210304.5], False),
        ([20211304], False),
        ([0, 1, 2], False),
        ([], False),
    ],
)
def test_numbers_that_are_dates(numbers, compact):
    assert are_compact_dates(np.array(numbers, float)) is compact
