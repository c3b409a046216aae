"""Errors of equations as records: code, subject, key, line, and other lines as values."""

import pytest

from picardfit.errors import Audience, InputError
from picardfit.formulas.equations import equation_faults, read_equations


@pytest.mark.parametrize(
    "text, code, subject, row, other_row",
    [
        ("x' = a*x\ny = ", "formulas.empty_formula", "", 2, None),
        ("x' = r*x\n\nr = 2*a", "formulas.used_before", "r", 1, 3),
        ("x' = 1\nx' = 2", "formulas.second_equation", "x", 2, 1),
        ("h = 1\nh = 2\nx' = h", "formulas.second_definition", "h", 2, 1),
        ("x' = 1\nx = 2", "formulas.state_and_helper", "x", 2, 1),
        ("x' = 1\nexp = 2", "formulas.reserved", "exp", 2, None),
        ("x' = 1\ny'' = 2", "formulas.second_derivative", "y''", 2, None),
        ("x' = 1\n\ny' = (1 + \n 2", "formulas.never_closed", "(1 +", 3, None),
        ("x' = 1\ny' = x'", "formulas.derivative_on_right", "x'", 2, None),
    ],
)
def test_an_error_has_its_line(text, code, subject, row, other_row):
    with pytest.raises(InputError) as caught:
        read_equations(text, ())
    error = caught.value
    assert (error.code, error.subject, error.place.row) == (code, subject, row)
    assert error.place.key == ("equations",)
    assert error.values.get("other_row") == other_row
    assert str(error).startswith(f"In line {row}: ")
    assert not error.sentence(Audience.FILE).startswith("In line")


def test_the_line_of_a_file_replaces_another_line():
    with pytest.raises(InputError) as caught:
        read_equations("x' = r*x\nr = 2*a", ())
    assert "defined in line 12:" in caught.value.with_values(other_row=12).sentence(Audience.FILE)


def test_an_input_with_an_equation_is_at_fault_itself():
    with pytest.raises(InputError) as caught:
        read_equations("x' = u\nu' = 1", ("u",))
    assert (caught.value.code, caught.value.values["other_row"]) == ("formulas.input_is_state", 2)
    assert caught.value.place.key == ("inputs", "u")


def test_every_wrong_statement_is_found():
    faults = equation_faults("x' = a +\ny' = 1\nz = 2x\nw = [1]")
    assert [(one.place.row, one.code) for one in faults] == [
        (1, "formulas.missing_at_end"),
        (3, "formulas.no_operator"),
        (4, "formulas.bracket"),
    ]
