"""Enclosures of expressions contain all their values."""

from math import inf

import numpy as np
import pytest

from picardfit.formulas.algebra import symbol
from picardfit.formulas.enclosure import enclosure
from picardfit.formulas.grammar import parse

BOUNDS = {"a": (-2.0, 3.0), "b": (0.5, 4.0), "c": (-3.0, -1.0), "free": (-inf, inf)}
TEXTS = ["a*b", "a + c", "b**-2", "b**3 - a*c", "sqrt(b)*c", "2*pi/b", "-c*b + 1"]


@pytest.mark.parametrize("text", TEXTS)
def test_all_values_lie_in_the_enclosure(text):
    low, high = enclosure(parse(text), BOUNDS)
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = {symbol(name): rng.uniform(*BOUNDS[name]) for name in "abc"}
        assert low - 1e-12 <= float(parse(text).subs(values)) <= high + 1e-12


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a*b", (-8, 12)),
        ("1/b", (0.25, 2)),
        ("b*c", (-12, -0.5)),
        ("1/a", (-inf, inf)),
        ("free*b", (-inf, inf)),
    ],
)
def test_ends(text, expected):
    assert enclosure(parse(text), BOUNDS) == expected


def test_other_functions_are_not_enclosed():
    assert enclosure(parse("exp(a)"), BOUNDS) == (-inf, inf)
