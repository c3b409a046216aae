"""Delimited text in the encodings and with the first lines that programs write."""

import gzip
import io

import pytest

from complaints import complaint
from picardfit.files.tables import read_table

PLAIN = "time,x\n0,1.5\n1,2.5\n"


def only(content):
    source = io.StringIO(content) if isinstance(content, str) else io.BytesIO(content)
    (made,) = read_table(source)
    return made


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode("utf-32"),
        PLAIN.replace(",", "|"),
        "sep=;\n" + PLAIN.replace(",", ";"),
        '"sep=,"\n' + PLAIN,
        "# measured on Monday\n# " + PLAIN,
        "#time x\n0 1.5\n1 2.5\n",
        "TABLE NO.  1\n TIME  x\n 0.0000E+00  1.5000E+00\n 1.0000E+00  2.5000E+00\n",
    ],
)
def test_what_programs_write(content):
    made = only(content)
    assert (made.observables, made.times.tolist(), made.values[:, 0].tolist()) == (("x",), [0, 1], [1.5, 2.5])


def test_a_comment_of_another_width_names_no_columns():
    assert complaint(only, "# a, b, c\n0,1\n").code == "files.no_column_names"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (gzip.compress(PLAIN.encode(), mtime=0), "compressed"),
        (PLAIN.encode("utf-16-le"), "not_text"),
        (PLAIN.encode("utf-32")[:-2], "truncated_text"),
        ("time," + "x" * 200_000 + "\n0,1\n", "huge_cell"),
        ("time,x\n0," + "9" * 200_000 + "\n", "huge_cell"),
        ('time,x\n0,"1\n', "quotes"),
    ],
)
def test_what_is_refused(content, code):
    assert complaint(only, content).code == f"files.{code}"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("time,x,\n0,1,a\n", "3"),
        ("time,,x,\n0,7,1,2\n1,8,2,\n", "2, 4"),
    ],
)
def test_columns_without_a_name_are_told(text, columns):
    (remark,) = only(text).remarks
    assert (remark.code.removesuffix("s"), remark.values["columns"]) == ("files.unnamed_column", columns)


@pytest.mark.parametrize("text", ["time,x,\n0,1,\n", ",time,x\n0,5,1\n1,6,2\n", ",time,x\n1,5,1\n2,6,2\n"])
def test_blank_columns_and_numbers_of_rows_are_not(text):
    assert only(text).remarks == ()


def test_names_are_read_without_line_breaks():
    (made,) = read_table(io.StringIO('"time",experiment,"x\n[mg/l]"\n0,"pond\nA",1\n'))
    assert (made.name, made.observables) == ("pond A", ("x",))
