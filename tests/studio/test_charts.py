"""What charts show: thinned points that do not lie, gaps, bands."""

from __future__ import annotations

import numpy as np

from picardfit.studio import charts
from picardfit.studio.palette import LIGHT


def test_few_points_are_all_shown():
    assert charts.thinned(np.arange(10), np.arange(10.0), 10).tolist() == list(range(10))


def test_the_ends_of_an_interval_are_not_rounded():
    record = {"values": [0.02, 0.03, 0.04], "rises": [9, 0, 9], "interval": [0.02328, None]}
    (series,) = charts.profile(LIGHT, "gain", record)["series"]
    assert series["markLine"]["data"] == [{"xAxis": 0.02328}]
    assert series["markLine"]["precision"] == 20  # decimals


def test_thinned_points_keep_the_extremes_of_every_stretch():
    rng = np.random.default_rng(1)
    times, values = np.sort(rng.uniform(0, 100, 100_000)), rng.normal(size=100_000)
    values[77_777] = 50.0
    kept = charts.thinned(times, values, 2000)
    assert len(kept) <= 2002
    assert 77_777 in kept
    assert {0, 99_999} <= set(kept.tolist())
    for part in np.array_split(np.arange(100_000), 999):
        assert values[part].max() in values[kept]
        assert values[part].min() in values[kept]


def test_what_is_not_finite_is_a_gap():
    assert charts.pairs([0, 1], [np.nan, 2.0]) == [[0.0, None], [1.0, 2.0]]


def test_a_band_lies_between_its_ends():
    options = charts.panel(LIGHT, "t", [charts.Shade("band", [0, 1], [1, 2], [3, 5])])
    low, height = (one["data"] for one in options["series"])
    assert [a[1] + b[1] for a, b in zip(low, height, strict=True)] == [3, 5]


def test_residuals_stand_below_their_curves():
    two = [charts.Points(name, np.array([1.0, 2.0]), np.zeros(2)) for name in "ab"]
    above = [charts.Curve("a", [0, 1, 4], [1, 1, 1]), *two]
    low = charts.panel(LIGHT, "t", two, below=charts.span(above))
    assert (low["xAxis"][":min"], low["xAxis"][":max"]) == ("0.0", "4.0")
    assert "legend" not in low
    assert "legend" in charts.panel(LIGHT, "t", above)


def test_a_logarithmic_axis_begins_where_time_is_positive():
    assert charts.span([charts.Curve("a", [0, 0.5, 4], [1, 1, 1])], positive=True) == (0.5, 4.0)
