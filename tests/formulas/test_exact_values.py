"""Formulas straight from their text: known values, and agreement with the kernels, which share no code with them."""

import mpmath
import numpy as np
import pytest

import picardfit as pf
from picardfit.formulas.algebra import LIMITS
from picardfit.formulas.exact_values import exact_value
from picardfit.formulas.grammar import parse, to_text
from picardfit.formulas.kernels import BatchedMap

VALUES = {"x": 0.75, "y": -1.5, "k": 2.0, "t": 3.25}
FORMULAS = {
    "x - y - k": 0.25,
    "-x**2": -0.5625,
    "2**-x**2": 2 ** -(0.75**2),
    "x/y/k": -0.25,
    "k**x**y": 2 ** (0.75**-1.5),
    "min(x, y, k) + max(x, y)": -0.75,
    "x if y > 0 else k": 2.0,
    "where(x < 1 and not y > 0, 3, 4)": 3.0,
    "piecewise(1, x > 1, 2, x > 0.5, 3)": 2.0,
    "piecewise((1, x > 1), (2, True))": 2.0,
    "(0 < x <= 1) + (0 < y)": 1.0,
    "heaviside(t - 3)*pow(k, 3)": 8.0,
    "sqrt(k)*log10(1000)*log2(8)": 9 * np.sqrt(2),
    "arctan(x) + abs(y) + sign(y)": np.arctan(0.75) + 0.5,
    "tanh(exp(x))*sin(pi*x)": np.tanh(np.exp(0.75)) * np.sin(0.75 * np.pi),
    "x^2 − 3·y": 0.5625 + 4.5,
    "1 or x": 1.0,
    "2*(x - y) >= 4.5": 1.0,
}


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_has_its_value_both_ways(text):
    compiled = BatchedMap([parse(text)], ("x", "y"), ("k",))
    at = VALUES["t"], np.array([VALUES["x"], VALUES["y"]]), np.array([VALUES["k"]]), np.array([])
    assert float(exact_value(text, {n: mpmath.mpf(v) for n, v in VALUES.items()})) == pytest.approx(
        FORMULAS[text], rel=1e-14
    )
    assert compiled.value(*at)[0] == pytest.approx(FORMULAS[text], rel=1e-14)


@pytest.mark.parametrize("text", ["sqrt(y)", "log(y)", "1/(x - 0.75)", "asin(k)", "y**x", "0**y"])
def test_what_is_not_real_is_nan(text):
    value = exact_value(text, {n: mpmath.mpf(v) for n, v in VALUES.items()})
    assert mpmath.isnan(value) or mpmath.im(value) == 0


@pytest.mark.parametrize("text", ["exp(exp(exp(exp(k*4))))", "(k*1e9)**(1e9*k)", "cosh(1e300)"])
def test_huge_values_end_soon(text):
    assert exact_value(text, {n: mpmath.mpf(v) for n, v in VALUES.items()}) == mpmath.inf


@pytest.mark.parametrize("text", ["sqrt(y)**4", "min(x, log(y))**2", "k**log(y)"])
def test_a_power_of_what_is_not_real_is_nan(text):
    assert mpmath.isnan(exact_value(text, {n: mpmath.mpf(v) for n, v in VALUES.items()}))


POWERS = {
    "(x/1000)**120": lambda x, y: (x / 1000) ** 120,
    "(1000*x)**-150": lambda x, y: (1000 * x) ** -150.0,
    "(x*y)**50": lambda x, y: (x * y) ** 50,
    "1/(x/1000)**120": lambda x, y: 1 / (x / 1000) ** 120,
    "(x/1e200)**2.5": lambda x, y: (x / 1e200) ** 2.5,
    "sqrt(x/1e200)": lambda x, y: np.sqrt(x / 1e200),
    "(x/1000)**120*(x/1000)**2": lambda x, y: (x / 1000) ** 122,
}


@pytest.mark.parametrize("text", POWERS)
@pytest.mark.parametrize("x, y", [(990.0, 1e-3), (1.2e3, 1e-3), (1e10, 1e-10), (1e-3, 1e3)])
def test_a_power_is_kept_as_written(text, x, y):
    with np.errstate(all="ignore"):
        expected = POWERS[text](np.float64(x), np.float64(y))
    found = BatchedMap([parse(text)], ("x", "y")).value(0.0, np.array([x, y]), np.array([]), np.array([]))
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    again = BatchedMap([parse(to_text(parse(text)))], ("x", "y"))
    assert again.value(0.0, np.array([x, y]), np.array([]), np.array([]))[0] == found[0]


def test_the_slope_of_a_kept_power():
    rhs = BatchedMap([parse("(x/1000)**120")], ("x",))
    _, slope, _ = rhs.linearise(0.0, np.array([990.0]), np.array([]), np.array([]))
    np.testing.assert_allclose(slope, [[0.12 * 0.99**119]], rtol=1e-12)


@pytest.mark.parametrize("text", ["1e-400*x", "x*1e-200*1e-200", "10**-320*x", "x/1e200/1e200", "1e-310"])
def test_a_number_that_floats_cannot_hold_is_refused(text):
    with pytest.raises(pf.InputError) as caught:
        parse(text)
    assert caught.value.code == "formulas.number_vanishes"
    assert caught.value.values["smallest"] == LIMITS.smallest
