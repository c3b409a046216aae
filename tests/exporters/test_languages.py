"""Formulas in other languages mean what they mean here."""

import numpy as np
import pytest

from picardfit.errors import InputError
from picardfit.exporters.languages import CASADI, MODELICA, NUMPY, STAN
from picardfit.formulas.grammar import names_in_order, parse
from picardfit.formulas.kernels import BatchedMap

FORMULAS = [
    "-x^2*(a - b)/(x*b)",
    "a - (b - x) - (a + b)*x",
    "a/(b/x)/2 - x/3",
    "(-x)^2 + (a + b)^1.5 + 2^x + x^-2 + (a/b)^(x/2)",
    "-(a + b) - x*-b",
    "exp(-x) + log(1 + x^2)*sin(a*t) - cos(x)/tan(1 + b^2) + sqrt(x^2 + a)",
    "asin(x/9) + acos(x/9) + atan(x) + sinh(x) - cosh(b)*tanh(a)",
    "asinh(x) + acosh(1 + a) + atanh(b/9) + abs(x - a)*sign(b - x)",
    "min(x, a, b) - max(x, 2*b) + log10(a) + log2(b)",
    "where(x > b and t < 2 or not(a >= 1), x, -b)",
    "piecewise(1, x < 0.5, 2, x < 1, 3) + heaviside(t - 1) + (x != a) + 0*(x == b)",
    "pi*x + 1e-7*a + 123456789012",
]


def points():
    return np.random.default_rng(0).uniform(0.2, 2.0, (20, 4))


@pytest.mark.parametrize("text", FORMULAS)
def test_numpy(text):
    names = ("x", "a", "b")
    written = compile(NUMPY.write(parse(text), {n: n for n in names}), "formula", "eval")
    ours = BatchedMap([parse(text)], names)
    for t, *values in points():
        found = eval(written, {"np": np, "t": t, **dict(zip(names, values, strict=True))})
        assert found == pytest.approx(float(ours.value(t, values, [], [])[0]), rel=1e-13)


@pytest.mark.parametrize("text", FORMULAS)
def test_casadi(text):
    ca = pytest.importorskip("casadi")
    names = ("x", "a", "b")
    symbols = {n: ca.SX.sym(n) for n in (*names, "t")}
    written = eval(CASADI.write(parse(text), {n: n for n in names}), {"ca": ca, **symbols})
    function, ours = ca.Function("f", list(symbols.values()), [written]), BatchedMap([parse(text)], names)
    for t, *values in points():
        found = float(function(*values, t))
        assert found == pytest.approx(float(ours.value(t, values, [], [])[0]), rel=1e-12)


@pytest.mark.parametrize(
    "text, modelica, stan",
    [
        ("x^2*3", "3*x^2", "3.0*x^2.0"),
        ("x^(a*b)", "x^(a*b)", "x^(a*b)"),
        ("(x^a)^b", "(x^a)^b", "(x^a)^b"),
        ("-x/2", "-x/2", "-x/2.0"),
        ("a - b*x", "a - b*x", "a - b*x"),
        ("where(t < 1, 2, x)", "(if (time < 1) then 2 else x)", "((t < 1.0) ? 2.0 : x)"),
        ("max(x, 0)", "max(x, 0)", "fmax(x, 0.0)"),
        ("x*(a == b)", "x*(if (not (a < b or a > b)) then 1 else 0)", "x*((a == b) ? 1.0 : 0.0)"),
        ("sign(x)", "sign(x)", "(1.0*((x > 0) - (x < 0)))"),
        ("atanh(x)", "(0.5*log((1 + x)/(1 - (x))))", "atanh(x)"),
    ],
)
def test_modelica_and_stan(text, modelica, stan):
    names = {n: n for n in names_in_order(text)}
    assert MODELICA.write(parse(text), names) == modelica
    assert STAN.write(parse(text), names) == stan


def test_stan_never_divides_whole_numbers():
    """1/2 is 0 in Stan."""
    assert STAN.write(parse("x*(1/2) + 1/x"), {"x": "x"}) in ("x/2.0 + 1.0/x", "1.0/x + x/2.0")


def test_names_are_replaced():
    assert NUMPY.write(parse("lambda*x"), {"lambda": "lambda_1", "x": "x"}) == "lambda_1*x"


def test_a_number_that_is_not_finite_is_refused():
    with pytest.raises(InputError) as caught:
        MODELICA.number(float("nan"))
    assert (caught.value.code, caught.value.subject) == ("exporters.not_finite", "modelica")
