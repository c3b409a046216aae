"""Names and files that were meant: near ones are suggested, others are not."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from picardfit.errors import (
    LONGEST_WORDS,
    Conclusion,
    InputError,
    Notice,
    Place,
    Status,
    catalogue_entry,
    closest,
    closest_file,
)


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
    assert closest(name, known) == meant


@pytest.mark.parametrize("name, known", [("dose", ["prey", "pred"]), ("x", ["y"]), ("x", [])])
def test_nothing_is_suggested_when_nothing_is_near(name, known):
    assert closest(name, known) == ""


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
    assert closest_file(folder / name) == meant


@pytest.mark.parametrize("name", ["ponds.csv", "nothere.csv", "data.csv", "head.csv", "x.csv", ".csv"])
def test_an_ending_alone_makes_no_file_near(folder, name):
    assert closest_file(folder / name) == ""


def test_a_folder_that_is_not_there_has_no_files(tmp_path):
    assert closest_file(tmp_path / "nowhere" / "counts.csv") == ""


def test_a_code_from_a_file_never_leaves_the_catalogue():
    with pytest.raises(KeyError):
        catalogue_entry("../../pyproject.project")


def test_an_error_survives_a_pickle_with_its_place_and_context():
    error = InputError("errors.not_a_number", key=("parameters", "a"), what="lower bound", value="low")
    error = error.within("problem.in_experiment", "pond").at(file="problem.toml", line=3)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.code, again.place) == (error.code, error.place)


def test_a_sentence_of_a_user_is_shown_as_it_is():
    error = InputError("The pump was off: leave out this run.")
    assert (str(error), error.remedy) == ("The pump was off: leave out this run.", "")


@pytest.mark.parametrize(
    "status, code, order",
    [
        (Status.CONVERGED, "search.other_warning", "status first"),
        (Status.STALLED, "search.other_warning", "warning first"),
        (Status.NOT_FINITE, "simulation.nonfinite_start", "warning only"),
        (Status.NOT_FINITE, "simulation.no_solution_at_estimates", "warning first"),
        (Status.INACCURATE, "simulation.no_solution_at_estimates", "warning only"),
    ],
)
def test_after_a_failure_its_causes_come_first(status, code, order):
    class Warned(Notice):
        def sentence(self, audience=None):
            return "W."

    ended = status.sentence()
    expected = {"status first": f"{ended} W.", "warning first": f"W. {ended}", "warning only": "W."}
    assert Conclusion(status, (Warned(code),)).sentence() == expected[order]


def test_an_error_carries_the_end_of_a_fit_as_a_record():
    error = InputError("inference.profile_of_failed_fit", ended=Conclusion(Status.STALLED))
    assert error.values["ended"].status is Status.STALLED
    assert str(error).endswith(Status.STALLED.sentence())


def test_known_names_are_listed_only_where_there_are_some():
    said = InputError("files.unknown_input", "y", known=[]).sentence()
    assert said == "`y` is not an input: add it to `inputs`."
    assert "(`u`, `v`)" in InputError("files.unknown_input", "y", known=["u", "v"]).sentence()


def test_a_long_file_name_is_cut_at_its_beginning():
    place = Place(file="/folder" * 500 + "/counts.csv", line=3)
    assert len(str(place)) < 2 * LONGEST_WORDS
    assert str(place).endswith("/counts.csv:3")
