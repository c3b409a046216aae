"""Long curves are thinned to their extremes."""

from __future__ import annotations

import numpy as np

from picardfit.studio.predicted import read_predictions

ROWS = 20_000


def test_a_long_curve_keeps_its_extremes_and_its_ends(tmp_path):
    rng = np.random.default_rng(0)
    times, x, y = np.arange(ROWS), rng.normal(size=ROWS), rng.normal(size=ROWS)
    x[7_777], y[12_345] = 40, -40
    rows = [f"one,{t},{a},{b}" for t, a, b in zip(times, x, y, strict=True)]
    (tmp_path / "p.csv").write_text("experiment,time,x,y\n" + "\n".join(rows), encoding="utf-8")
    found = read_predictions(tmp_path / "p.csv", 3000)["one"]
    assert len(found["time"]) <= 3000
    assert {0.0, 7_777.0, 12_345.0, ROWS - 1.0} <= set(found["time"])
    at = found["time"].index(7_777.0)
    assert (found["x"][at], found["y"][at]) == (40, y[7_777])


def test_a_quantity_that_is_known_at_few_times_keeps_them(tmp_path):
    rows = [f"one,{t},{t},{t if t % 5000 == 0 else ''}" for t in range(ROWS)]
    (tmp_path / "p.csv").write_text("experiment,time,x,count\n" + "\n".join(rows), encoding="utf-8")
    found = read_predictions(tmp_path / "p.csv", 600)["one"]
    assert [one for one in found["count"] if one == one] == [0, 5000, 10000, 15000]
