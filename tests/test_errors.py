"""Names and files that were meant: near ones are suggested, others are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from picardfit.errors import did_you_mean, did_you_mean_file


@pytest.mark.parametrize(
    "name, known, meant",
    [
        ("pray", ["prey", "pred"], "prey"),
        ("PREY", ["prey", "PRED"], "prey"),
        (" x ", ["x", "y"], "x"),
        ("X", ["y", "x"], "x"),
        ("Cell_Count", ["cell count", "cells"], "cell count"),
        ("k ", ["K", "k"], "k"),
        ("K\t", ["K", "k"], "K"),
    ],
)
def test_case_blanks_and_slips_of_the_pen(name, known, meant):
    assert did_you_mean(name, known) == f" Did you mean `{meant}`?"


@pytest.mark.parametrize("name, known", [("dose", ["prey", "pred"]), ("x", ["y"]), ("x", [])])
def test_nothing_is_suggested_when_nothing_is_near(name, known):
    assert did_you_mean(name, known) == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("counts.csv", "hdr.csv", "empty.csv", "doses.tsv"):
        (tmp_path / name).touch()
    (tmp_path / "counting").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "name, meant",
    [
        ("count.csv", "counts.csv"),
        ("Counts.CSV", "counts.csv"),
        ("counts.txt", "counts.csv"),
        ("counts", "counts.csv"),
        ("dosse.csv", "doses.tsv"),
        ("hrd.csv", "hdr.csv"),
    ],
)
def test_a_file_of_nearly_that_name_is_suggested(folder, name, meant):
    assert did_you_mean_file(folder / name) == f" Did you mean `{meant}`?"


@pytest.mark.parametrize("name", ["ponds.csv", "nothere.csv", "data.csv", "head.csv", "x.csv", ".csv"])
def test_an_ending_alone_makes_no_file_near(folder, name):
    assert did_you_mean_file(folder / name) == ""


def test_a_folder_that_is_not_there_has_no_files(tmp_path):
    assert did_you_mean_file(tmp_path / "nowhere" / "counts.csv") == ""
