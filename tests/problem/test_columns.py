"""Columns of tables meet the observables of a model."""

from __future__ import annotations

import io

import pytest

import picardfit as pf
from complaints import complaint
from picardfit.problem.columns import observed, plain_name, unit_in, without_unit

SWING = pf.Model("theta' = omega\nomega' = -k*theta")


@pytest.mark.parametrize(
    "header, name, unit",
    [
        ("theta [rad]", "theta", "rad"),
        ("theta (rad)", "theta", "rad"),
        ("Body weight(kg)", "Body weight", "kg"),
        ("theta", "theta", ""),
        ("(rad)", "(rad)", ""),
    ],
)
def test_a_header_has_a_name_and_a_unit(header, name, unit):
    assert (without_unit(header), unit_in(header)) == (name, unit)
    assert plain_name(header) == name.replace(" ", "").lower()


def test_columns_are_matched_to_observables():
    assert observed(["Theta [rad]", "x", "X "], ["theta", "x"]) == {"Theta [rad]": "theta", "x": "x"}
    assert complaint(observed, ["theta [rad]", "theta [deg]"], ["theta"]).code == "problem.columns_alike"


def problem(text, **options):
    return pf.Problem(SWING, pf.read_table(io.StringIO(text), **options), {"k": (0, 5)})


def test_a_table_in_python_is_matched_as_in_a_problem_file():
    made = problem("time (s),Theta [rad],OMEGA (rad/s)\n0,1,0\n1,0,-1\n")
    assert made.experiments[0].observables == ("theta", "omega")
    assert made.remarks == ()


def test_unused_columns_are_one_remark():
    made = problem("time,theta [rad],operator,temperature\n0,1,Ada,20\n1,0,Bob,21\n")
    (remark,) = made.remarks
    assert remark.values["columns"] == ["operator", "temperature"]
    assert made.experiments[0].observables == ("theta",)
    assert [one.code for one in pf.fit(made).warnings].count("problem.columns_ignored") == 1


def test_an_experiment_without_a_used_column_is_left_out():
    text = "experiment,time,observable,value\na,0,theta,1\na,1,theta,0\nb,0,mood,3\n"
    made = problem(text)
    assert made.names == ("a",)
    assert [one.code for one in made.remarks] == ["problem.column_ignored", "problem.experiments_ignored"]


def test_columns_that_the_user_names_must_be_observables():
    error = complaint(problem, "time,theta,mood\n0,1,3\n", observables=["theta", "mood"])
    assert (error.code, error.subject) == ("problem.unknown_observable", "mood")


def test_a_misspelt_name_is_proposed_where_an_observable_has_no_column():
    (remark,) = problem("time,theta,omga\n0,1,3\n1,2,3\n").remarks
    assert remark.values["close"] == "omega"
