"""What is said about residuals holds its level: with many numbers or many observables chance is no news."""

from __future__ import annotations

import numpy as np
import pytest

from picardfit.diagnostics import BEYOND, DOUBTFUL, Diagnostics, diagnose, many_probability


def test_part_of_normal_numbers_beyond_four_standard_deviations():
    from scipy.special import ndtr

    assert pytest.approx(2 * ndtr(-4.0), rel=1e-12) == BEYOND


@pytest.mark.parametrize("number, expected", [(1, 0.3), (3, 0.3), (17, 6.3)])
def test_probability_of_many_rare_events(number, expected):
    from scipy.stats import poisson

    assert many_probability(number, expected) == pytest.approx(poisson.sf(number - 1, expected), rel=1e-10)


@pytest.mark.parametrize("outliers, count, said", [(17, 300_000, False), (17, 3_000, True), (1, 100, True)])
def test_outliers_are_told_when_they_are_more_than_expected(outliers, count, said):
    text = str(Diagnostics({"x": 0.5}, 0.5, outliers, 1.0, count))
    assert (f"{outliers} of {count} lie beyond four standard deviations" in text.lower()) == said
    assert ("nothing remarkable" in text) != said


def test_patterns_hold_their_level_over_observables():
    many = {f"y{k}": 0.5 for k in range(9)} | {"z": 0.004}
    assert Diagnostics(many, 0.5, 0, None).patterned == ()
    assert Diagnostics({"z": 0.004}, 0.5, 0, None).patterned == ("z",)
    assert Diagnostics({**many, "z": 0.0005}, 0.5, 0, None).patterned == ("z",)


def test_a_second_pattern_is_judged_among_those_left():
    assert Diagnostics({"a": 0.0001, "b": 0.008}, 0.5, 0, None).patterned == (
        "a",
        "b",
    )  # Holm, not Bonferroni


def test_false_alarms_are_rare_with_twenty_observables():
    rng = np.random.default_rng(0)
    alarms = sum(
        bool(diagnose({"e": {f"y{k}": rng.standard_normal(60) for k in range(20)}}, 1.0).patterned)
        for _ in range(300)
    )
    assert alarms <= 300 * DOUBTFUL + 3 * np.sqrt(300 * DOUBTFUL)
