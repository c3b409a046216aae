"""A formula that cannot be evaluated where a search begins is named, with its place and its values."""

from __future__ import annotations

import numpy as np

import picardfit as pf

TIMES = np.linspace(0, 2, 21)


def message(model, data, initial=None, parameters=None, **options):
    run = pf.Experiment(TIMES, data, name="run a", initial=initial)
    fit = pf.fit(pf.Problem(model, run, parameters or {"k": (1, 5)}, **options))
    assert fit.status is pf.Status.NOT_FINITE
    return fit.message


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
