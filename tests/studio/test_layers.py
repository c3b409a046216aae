"""What pictures of a problem show: exact and censored values, curves, gaps."""

from __future__ import annotations

import picardfit as pf
from picardfit.studio import charts, layers
from picardfit.studio.palette import LIGHT

MODEL = pf.Model("x' = -k*x")


def problem():
    one = pf.Experiment([0, 1, 2, 3, 4], {"x": [1.0, "<0.5", ">0.1", "0.1..0.3", float("nan")]}, name="a")
    return pf.Problem(MODEL, one, {"k": (0, 5)}, noise=pf.Noise(additive=0.1))


def test_censored_values_point_to_where_they_are():
    made = problem()
    found = layers.data(made, made.experiments[0], "x", "data", 1)
    assert [(one.mark, one.times.tolist(), one.values.tolist()) for one in found] == [
        ("", [0.0], [1.0]),
        ("below", [1.0], [0.5]),
        ("above", [2.0], [0.1]),
        ("between", [3.0], [0.2]),
    ]
    options = charts.panel(LIGHT, "t", found)
    assert [one["symbol"] for one in options["series"]] == ["circle", "triangle", "triangle", "rect"]
    assert [one["symbolRotate"] for one in options["series"]] == [0, 180, 0, 0]


def test_a_quantity_that_an_experiment_lacks_has_no_data():
    made = problem()
    assert layers.data(made, made.experiments[0], "y", "data", 1) == []


def test_curves_leave_gaps_out_and_bands_need_both_ends():
    columns = {
        "time": [0.0, 1.0, 2.0],
        "x": [1.0, float("nan"), 3.0],
        "x_lower": [0.0] * 3,
        "x_upper": [4.0] * 3,
    }
    band, line = layers.curve(columns, "x", "fit", 0, bands=True)
    assert (line.times, line.values) == ([0.0, 2.0], [1.0, 3.0])
    assert (band.low, band.high) == ([0.0, 0.0], [4.0, 4.0])
    endless = {**columns, "x_upper": [float("inf")] * 3}
    assert len(layers.curve(endless, "x", "fit", 0, bands=True)) == 1
    assert layers.curve(columns, "y", "fit", 0, bands=True) == []
