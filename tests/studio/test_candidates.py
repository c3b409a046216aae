"""Times that a person plans or predicts to."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tomlkit")

import picardfit as pf
from picardfit.errors import InputError
from picardfit.studio import document
from picardfit.studio.candidates import candidate_times, horizon
from picardfit.studio.settings import StudioSettings

ONE = pf.Experiment([1, 22], {"x": [1, 2]})


@pytest.mark.parametrize("words, times", [("0:4:3", [0, 2, 4]), ("1, 5", [1, 5]), ("0.3", [0.3])])
def test_times_of_a_candidate(words, times):
    assert candidate_times(words, ONE) == times


@pytest.mark.parametrize(
    "words, code",
    [
        ("0:22:100000", "studio.many_times"),
        ("5:1:3", "studio.times_backwards"),
        ("-5, 3", "studio.times_backwards"),
        ("3, 3", "studio.times_backwards"),
        ("soon", "cli.times"),
    ],
)
def test_other_times_are_refused(words, code):
    with pytest.raises(InputError) as caught:
        candidate_times(words, ONE, StudioSettings(candidate_times=50))
    assert caught.value.code == code


@pytest.mark.parametrize("words, until", [("", None), ("30", 30), ("0,5", 0.5)])
def test_curves_end_where_somebody_says(words, until):
    assert horizon(words, 0.0, 22.0) == until


@pytest.mark.parametrize("words", ["-3", "0", "abc", "inf", "nan"])
def test_curves_cannot_end_before_they_begin(words):
    with pytest.raises(InputError) as caught:
        horizon(words, 0.0, 22.0)
    assert caught.value.code == "studio.until"


def test_a_long_list_is_written_as_a_short_one():
    times = np.linspace(0, 22, 2000).tolist()
    text = document.with_value("# mine\n", ("candidates", "plan"), {"times": times})
    assert document.value_at(text, "candidates", "plan", "times") == times
    assert text.startswith("# mine\n")
    short = document.with_value("", ("candidates", "plan"), {"times": [1.0, 2.5], "inputs": {"u": [1, "a"]}})
    assert document.value_at(short, "candidates", "plan") == {"times": [1, 2.5], "inputs": {"u": [1, "a"]}}
