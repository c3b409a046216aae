"""Events as text."""

import numpy as np
import pytest

from picardfit.errors import InputError
from picardfit.formulas.events import event_text, split_events, trigger_of
from picardfit.formulas.kernels import BatchedMap


def test_an_event_is_taken_out_of_the_text_and_lines_keep_their_numbers():
    text = "x' = 1\nwhen x > 3: x = 0  # reset\ny' = x"
    rest, events = split_events(text)
    assert rest.split("\n") == ["x' = 1", "", "y' = x"]
    assert (events[0].line, events[0].condition, events[0].assignments) == (2, "x > 3", (("x", "0"),))


def test_an_event_continues_after_a_colon_and_a_semicolon():
    _, (one,) = split_events("when x > 3:\n  x = 0;\n  y = y + (1\n + 2)\nz' = 1")
    assert one.assignments == (("x", "0"), ("y", "y + (1 + 2)"))


def test_several_assignments_stand_in_one_line():
    one = event_text("when v > 30: v = -65; w = w + d")
    assert one.assignments == (("v", "-65"), ("w", "w + d"))


@pytest.mark.parametrize(
    ("condition", "trigger"),
    [("x > c", "-c + x"), ("x >= c", "-c + x"), ("x < c", "c - x"), ("x <= c", "c - x")],
)
def test_the_trigger_rises_when_the_condition_becomes_true(condition, trigger):
    assert str(trigger_of(condition, {})) == trigger


def test_several_comparisons_have_one_trigger():
    both, either = (trigger_of(f"x > 3 {word} y < 2", {}) for word in ("and", "or"))
    points = np.array([[2.0, 1.0], [4.0, 1.0], [4.0, 5.0], [0.0, 9.0]])
    nothing = np.zeros(0)
    found = BatchedMap([both, either], ("x", "y")).value(0.0, points, nothing, nothing) > 0
    assert found[:, 0].tolist() == [x > 3 and y < 2 for x, y in points]
    assert found[:, 1].tolist() == [x > 3 or y < 2 for x, y in points]


@pytest.mark.parametrize("condition", ["x", "x > 3 and y == 2", "x == 3", "1 > 0"])
def test_a_condition_can_become_true(condition):
    with pytest.raises(InputError) as caught:
        trigger_of(condition, {})
    assert caught.value.code == "formulas.event_condition"


@pytest.mark.parametrize(
    "text", ["when x > 3 x = 0", "when x > 3:", "when : x = 0", "when x > 3: x", "when x > 3: = 0"]
)
def test_what_is_no_event_is_refused_with_its_line(text):
    with pytest.raises(InputError) as caught:
        split_events("y' = 1\n" + text)
    assert (caught.value.code, caught.value.place.row) == ("formulas.event_form", 2)
