"""Profiles belong to one fit: they are shown again after a restart, and not beside another fit."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tomlkit")

import picardfit as pf
from picardfit.studio.saved_profiles import outdated, records
from picardfit.studio.steps.keep import zipped
from picardfit.studio.worker import main

EQUATIONS = "x' = -k*x"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("decay")
    times = np.arange(6.0)
    values = 5 * np.exp(-0.4 * times) + 0.1 * np.cos(3 * times)
    rows = "".join(f"{t:g},{x:.4f}\n" for t, x in zip(times, values, strict=True))
    (made / "x.csv").write_text(f"time,x\n{rows}", encoding="utf-8")
    text = f'equations = "{EQUATIONS}"\ndata = "x.csv"\nparameters.k = [0.01, 9]\n'
    (made / "problem.toml").write_text(text, encoding="utf-8")
    (made / "results").mkdir()
    pf.fit(pf.read_problem(made), progress=False).save(made / "results" / "fit.json")
    return made


def test_profiles_are_those_of_their_fit(folder, capsys):
    results = folder / "results"
    for name in ("k", "x(0)"):  # the second call keeps what the first has written
        assert main(["profile", str(folder), name]) == 0
    fit = pf.load(results / "fit.json")
    found = records(results, fit)
    assert set(found) == {"k", "x(0)"}
    low, high = fit.profiles(["k"])["k"].interval(0.95)
    assert found["k"]["interval"] == pytest.approx([low, high])
    assert outdated(results, fit) == ()
    moved = (folder / "x.csv").read_text(encoding="utf-8").replace("5.1000", "9.1000")
    (folder / "x.csv").write_text(moved, encoding="utf-8")
    other = pf.fit(pf.read_problem(folder), progress=False)
    assert records(results, other) == {}
    assert outdated(results, other) == ("profiles.csv", "profile-intervals.csv")
    whole, part = zipped(folder), zipped(folder, [results / one for one in outdated(results, other)])
    assert b"results/profiles.csv" in whole
    assert b"profiles.csv" not in part
