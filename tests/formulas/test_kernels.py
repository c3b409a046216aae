"""Expressions as code for arrays and for plain floats."""

import numpy as np
import pytest
import sympy

from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap

FORMULAS = (
    "k*x^3/(1 + x^2) - exp(-t)*y*u",
    "where(x > y, sqrt(x), y^2.5) + max(x, k*y)",
    "(x + y)^n*log(k + x)",
    "abs(x - y)*sin(u*t) - min(x, 1)/(n + y)",
)
RATES = BatchedMap([parse(one) for one in FORMULAS], ["x", "y", "z"], ["k", "n"], ["u"])


def points(count):
    rng = np.random.default_rng(0)
    return [[one.tolist() for one in rng.uniform(0.1, 3, (4, 3))] for _ in range(count)]


@pytest.mark.parametrize("t, x, p, u", points(5))
def test_float_jacobians_are_those_of_arrays(t, x, p, u):
    arguments = t[0], x, p[:2], u[:1]
    np.testing.assert_allclose(
        RATES.jacobian_at_point(*arguments), RATES.linearise(*arguments)[1], rtol=1e-13
    )


@pytest.mark.parametrize("t, x, p, u", points(5))
def test_float_values_are_those_of_arrays(t, x, p, u):
    arguments = t[0], x, p[:2], u[:1]
    np.testing.assert_allclose(RATES.at_point(*arguments), RATES.value(*arguments), rtol=1e-13)


def test_where_floats_fail_the_derivatives_are_those_of_arrays():
    root = BatchedMap([parse("sqrt(x) + 1/y")], ["x", "y"])
    np.testing.assert_array_equal(root.jacobian_at_point(0.0, [0.0, 0.0], [], []), [[np.inf, -np.inf]])


def test_formulas_deeper_than_the_parser_allows_are_evaluated():
    deep = sympy.Symbol("x", real=True)
    for k in range(150):
        deep = sympy.sin(deep) + (k % 7 + 1) * sympy.Symbol("y", real=True)
    one = BatchedMap([deep], ["x", "y"])
    np.testing.assert_allclose(
        one.at_point(0.0, [0.3, 0.7], [], []), one.value(0.0, [0.3, 0.7], [], []), rtol=1e-10
    )
