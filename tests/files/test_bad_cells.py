"""Cells that are no numbers are told with what was probably meant."""

import io

import numpy as np
import pytest

from complaints import complaint
from picardfit.files.measured_columns import MissingCodes
from picardfit.files.tables import read_table


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("1,5", "comma_cell"),
        ("<0,25", "comma_cell"),
        ("1,500", "grouped_cell"),
        ("1,500.5", "grouped_cell"),
        ("1 500", "grouped_cell"),
        ("1\u00a0500", "grouped_cell"),
        ("12'500", "grouped_cell"),
        ("1_500", "grouped_cell"),
        ("50%", "percent_cell"),
        ("0.1-0.25", "interval_cell"),
        ("BLQ", "limit_cell"),
        ("<LOD", "limit_cell"),
        ("n.d.", "limit_cell"),
        ("below detection", "limit_cell"),
        ("5 mg/l", "unit_cell"),
        ("1e400", "cell"),
        ("0x10", "cell"),
        ("1.5D+02", "cell"),
        ("5*", "cell"),
        ("=A1*2", "formula_cell"),
    ],
)
def test_a_measured_cell(cell, code):
    error = complaint(read_table, io.StringIO(f'time,x\n0,"{cell}"\n1,2\n'))
    assert (error.code, error.subject, error.values["value"]) == (f"files.{code}", "x", cell)


@pytest.mark.parametrize("cell", ["4. März 2021", "2021Q1", "today", "2021-W03", "50%"])
def test_a_time_that_is_neither_number_nor_date(cell):
    assert complaint(read_table, io.StringIO(f"time,x\n{cell},1\n1,2\n")).code == "files.time_cell"


def test_a_code_for_censoring_that_is_a_word():
    error = complaint(read_table, io.StringIO("time,x,cens\n0,1,left\n1,2,none\n"))
    assert (error.code, error.subject) == ("files.number_cell", "cens")


def test_signs_of_word_processors_are_understood():
    (made,) = read_table(io.StringIO("time,x\n0,≤0.25\n1,\u22124\n2,≥9\n"))
    assert made.observations["x"].tolist() == ["<0.25", -4.0, ">9.0"]


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["-999", "1", "2"], True),
        (["-99", "1", "-99"], True),
        (["-999", "-3", "2"], False),
        (["-1", "1", "2"], False),
    ],
)
def test_a_number_that_stands_for_a_missing_value_is_told(cells, told):
    (made,) = read_table(io.StringIO("time,x\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells))))
    assert ["files.coded_missing"] * told == [one.code for one in made.remarks]


def test_other_numbers_may_stand_for_a_missing_value():
    values = np.array([3.0, -1.0, 2.0, np.nan, -1.0])
    assert (MissingCodes().found(values), MissingCodes((-1.0,)).found(values)) == (None, -1.0)
