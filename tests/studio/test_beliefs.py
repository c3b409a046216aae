"""Noise as rows of a table, and what is typed into fields."""

from __future__ import annotations

import tomllib

import pytest

pytest.importorskip("nicegui", reason="the studio needs NiceGUI: pip install 'picardfit[studio]'")

from picardfit.studio import fields
from picardfit.studio.steps import noise

BOTH = ("prey", "predator")


def test_no_noise_is_one_blank_row():
    assert noise.entries("", BOTH) == {"": {}}
    assert noise.with_entries("[noise]\nadditive = 1\n", {"": {}}) == ""


def test_levels_by_observable_are_taken_apart():
    text = "[noise]\nadditive = { prey = 2.0, predator = [0.1, 1] }\nproportional = 0.1\n"
    assert noise.entries(text, BOTH) == {
        "prey": {"type": "normal", "additive": 2.0, "proportional": 0.1},
        "predator": {"type": "normal", "additive": [0.1, 1], "proportional": 0.1},
    }


def test_noise_of_each_observable_is_read_and_written():
    given = {
        "prey": {"type": "normal", "additive": 0.5},
        "predator": {"type": "log-normal", "sigma": [0.01, 1]},
    }
    text = noise.with_entries('title = "x"\n[noise]\nadditive = 1\n', given)
    assert tomllib.loads(text)["noise"] == given
    assert noise.entries(text, BOTH) == given


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("", None),
        ("0,5", 0.5),
        ("0.01 to 1", [0.01, 1.0]),
        ("0.01 – 1", [0.01, 1.0]),
        ("s0 + s1*prey", "s0 + s1*prey"),
        ("inf", "inf"),
    ],
)
def test_levels_are_read_as_they_are_typed(words, value):
    assert fields.level_of(words) == value


def test_numbers_are_shown_short_but_never_rounded():
    assert [fields.words_of(one) for one in (None, 1e-4, 0.1234567890123, 3, "a*b")] == [
        "",
        "0.0001",
        "0.1234567890123",
        "3",
        "a*b",
    ]
    assert fields.words_of_level([0.01, 100.0]) == "0.01 to 100"
