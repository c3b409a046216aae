"""Fits of data with dates show dates: pictures, report, tables, saved fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import num2date

import picardfit as pf
from picardfit.display.program import program
from picardfit.display.text import time_words

DAYS = pd.date_range("2021-03-04", periods=9, freq="7D")
VALUES = 8 * np.exp(-0.05 * 7 * np.arange(9)) + 0.1 * np.array([1, -2, 1, 0, 2, -1, -1, 1, -1])


@pytest.fixture(scope="module")
def fit():
    ponds = [
        pf.Experiment(DAYS, {"x": VALUES}, name="early"),
        pf.Experiment(DAYS + pd.Timedelta(days=100), {"x": 2 * VALUES}, name="late"),
    ]
    return pf.fit(pf.Problem(pf.Model("x' = -k*x"), ponds, {"k": (0, 1)}))


@pytest.fixture(scope="module", params=["fitted", "loaded"])
def either(request, fit, tmp_path_factory):
    """The fit, and the same fit saved and loaded."""
    return (
        fit if request.param == "fitted" else pf.load(fit.save(tmp_path_factory.mktemp("fit") / "fit.json"))
    )


def test_dots_stand_at_their_dates(either):
    early, late = either.plot().axes
    for panel, first in ((early, "2021-03-04"), (late, "2021-06-12")):
        dots = next(one for one in panel.lines if one.get_label() == "data")
        assert f"{num2date(dots.get_xdata()[0]):%Y-%m-%d}" == first
        assert panel.get_xlabel() == "date"


def test_ticks_are_dates(either):
    panel = either.plot().axes[0]
    panel.figure.canvas.draw()
    assert "Apr" in [tick.get_text() for tick in panel.get_xticklabels()]


def test_residuals_stand_at_their_dates(either):
    panel = either.plot_residuals().axes[0]
    shown = np.concatenate([one.get_xdata() for one in panel.lines if one.get_linestyle() == "None"])
    assert f"{num2date(shown.max()):%Y-%m-%d}" == "2021-08-07"


def test_the_report_shows_dates(either, tmp_path):
    page = either.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert ">2021-03-04</td>" in page
    assert "t in d since a date of each experiment" in page
    assert "2021-08-07" in page


def test_predictions_take_dates(either):
    dates = ["2021-03-10", pd.Timestamp("2021-04-10"), np.datetime64("2021-12-01")]
    for which in (either.predict, either.states):
        np.testing.assert_allclose(which("early", dates)["x"], which("early", [6, 37, 272])["x"])
    np.testing.assert_allclose(either.predict("late", "2021-06-12")["x"], either.predict("late", 0)["x"])


def test_bands_have_dates(either):
    bands = either.bands("early", pd.to_datetime(["2021-03-10", "2021-03-11"]))
    assert "2021-03-11" in str(bands)
    frame = bands.to_frame()
    assert frame.date.dt.strftime("%d.%m.").tolist()[:2] == ["10.03.", "11.03."]


def test_the_program_that_repeats_a_fit_has_the_calendar(either):
    assert "calendar=pf.Calendar('2021-06-12T00:00:00', 'd')" in program(either)


def test_how_time_counts_in_words():
    model = pf.Model("x' = -k*x", units={"t": "h"})
    assert time_words(pf.Problem(model, pf.Experiment([0, 1], {"x": [2, 1]}))) == "h"
    calendar = pf.Calendar("2021-03-04", "h")
    one = pf.Experiment([0, 1], {"x": [2, 1]}, calendar=calendar)
    assert time_words(pf.Problem(model, one)) == "h since 2021-03-04"


def test_an_axis_in_a_time_zone():
    hours = pd.date_range("2021-03-27 22:00", periods=9, freq="h", tz="Europe/Berlin")
    one = pf.Experiment(hours, {"x": VALUES}, calendar=pf.Calendar(hours[0], "h", "Europe/Berlin"))
    panel = pf.fit(pf.Problem(pf.Model("x' = -k*x"), one, {"k": (0, 1)})).plot().axes[0]
    assert panel.get_xlabel() == "date (Europe/Berlin)"
    panel.figure.canvas.draw()
    shown = [tick.get_text() for tick in panel.get_xticklabels()]
    assert "02:00" not in shown  # the clock was put forward from 2 to 3


HOURS = pd.date_range("2024-05-01 09:00", periods=5, freq="3h")
SHORT = [9.1, 6.5, 5.2, 3.9, 2.8]
ELIMINATION = pf.Model("c' = -k*c")


def _shown_hours(panel):
    """The length of a time axis in hours."""
    return 24 * np.ptp(panel.get_xlim())


def test_a_single_dose_does_not_widen_an_axis_of_dates():
    given = pf.Doses(["2024-05-01 08:00"], 10, into="c")
    one = pf.Experiment(HOURS, {"c": SHORT}, calendar=pf.Calendar("2024-05-01 08:00", "h"), doses=given)
    for panel in pf.fit(pf.Problem(ELIMINATION, one, {"k": (0.01, 1)}, {"c": 0})).plot().axes:
        assert 13 < _shown_hours(panel) < 15


@pytest.mark.parametrize("day", [1, 3])
def test_a_single_sample_does_not_widen_an_axis_of_dates(day):
    noon = pd.to_datetime([f"2024-05-{day:02} 12:00"])
    several = [pf.Experiment(HOURS, {"c": SHORT}, "a"), pf.Experiment(noon, {"c": [6.4]}, "b")]
    fit = pf.fit(pf.Problem(ELIMINATION, several, {"k": (0.01, 10)}))
    many, single = fit.plot().axes
    assert 12 < _shown_hours(many) < 14
    assert _shown_hours(single) <= 48  # one day to each side
    assert 24 * np.ptp(fit.plot(experiments=["b"]).axes[0].get_xlim()) <= 48
    assert _shown_hours(fit.plot_residuals().axes[0]) < 24 * 4
