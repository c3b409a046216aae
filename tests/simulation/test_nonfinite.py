"""A formula that cannot be evaluated is named, with its place and its values."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf

TIMES = np.linspace(0, 2, 21)


def complaint(*args, **options):
    with pytest.raises(pf.InputError) as caught:
        pf.simulate(*args, **options)
    return str(caught.value)


def test_only_the_branch_that_holds_is_examined():
    model = pf.Model("x' = where(x > 1, 1/(x*0.0 + x*x), -k/x)")
    text = complaint(model, {"k": 1.0}, {"x": 0.0}, TIMES)
    assert "`1/x` in `x'` is infinite" in text


def test_simulation_names_what_ends_it_on_the_way():
    text = complaint(pf.Model("x' = -sqrt(x) - a"), {"a": 0.1}, {"x": 1.0}, 2 * TIMES)
    assert text.startswith("`sqrt(x)` in `x'` is not a real number at t = 1.5")


def test_equations_of_a_function_are_named_by_state():
    def rate(t, x, p):
        return [p[0] / x[0] if x[0] < 1e9 else 0.0, -x[1]]

    model = pf.Model.from_function(rate, ["x", "y"], ["k"])
    text = complaint(model, {"k": 1.0}, {"x": 0.0, "y": 1.0}, TIMES)
    assert text.startswith("`x'` is ")
    assert "x = 0" in text
