"""Times at which conditions that are not linear in time switch."""

import numpy as np
import pytest

from picardfit.formulas.derivatives import ZeroSearch, curved_in_time, zeros_between
from picardfit.formulas.grammar import parse


def waves(t):
    return np.stack([np.sin(t), t**2 - 2], axis=1)


def test_zeros_of_several_functions():
    expected = sorted([np.pi, 2 * np.pi, 2**0.5])
    assert zeros_between(waves, 0.5, 7.0) == pytest.approx(expected, abs=1e-14)


def test_what_switches_too_often_is_left_out():
    assert zeros_between(lambda t: np.sin(t)[:, None], 0.5, 100.0, ZeroSearch(most=5)) == ()


@pytest.mark.parametrize(
    ("text", "count"), [("x*(sin(t) > c)", 1), ("x*(t > c)", 0), ("x*(t*x > c)", 0), ("t^2", 0)]
)
def test_which_conditions_are_not_linear_in_time(text, count):
    assert len(curved_in_time([parse(text)], ["c"])) == count
