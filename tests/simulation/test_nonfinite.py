"""A formula that cannot be evaluated is named, with its place and its values."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf

TIMES = np.linspace(0, 2, 21)


def message(model, data, initial=None, parameters=None, **options):
    run = pf.Experiment(TIMES, data, name="run a", initial=initial)
    fit = pf.fit(pf.Problem(model, run, parameters or {"k": (1, 5)}, **options))
    assert fit.status is pf.Status.NOT_FINITE
    return fit.message


def complaint(*args, **options):
    with pytest.raises(pf.InputError) as caught:
        pf.simulate(*args, **options)
    return str(caught.value)


def test_division_by_zero_at_the_start_of_a_fit():
    text = message(pf.Model("x' = -k/x"), {"x": TIMES}, {"x": 0.0})
    assert "`1/x` in `x'` is infinite at t = 0, x = 0 (experiment `run a`)" in text
    assert "give a start or bounds where it is finite, change the initial values" in text
    assert text.count("finite at the start") == 1
    assert "starting values" not in text


def test_the_helper_is_named_not_the_equation_that_uses_it():
    text = message(pf.Model("q = log(x - 5)\nx' = -k*q"), {"x": 1 + TIMES})
    assert "`log(x - 5)` in the helper `q` is not a real number at t = 0, x = 1" in text


def test_observable_that_cannot_be_computed():
    model = pf.Model("x' = -k*x", observables={"y": "log(x)"})
    assert "`log(x)` in the observable `y` is not a real number" in message(model, {"y": TIMES}, {"x": -1.0})


def test_initial_formula_that_cannot_be_computed():
    text = message(
        pf.Model("x' = -k*x"), {"x": TIMES}, parameters={"k": (1, 5), "a": 0.0}, initial={"x": "1/a"}
    )
    assert "`1/a` in the initial formula of `x` is infinite at a = 0 (experiment `run a`)" in text


def test_only_the_branch_that_holds_is_blamed():
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
