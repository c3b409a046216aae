"""One table of functions: SymPy, NumPy, plain floats and derivatives agree."""

import numpy as np
import pytest
import sympy

from picardfit.formulas.algebra import symbol
from picardfit.formulas.derivatives import Slopes
from picardfit.formulas.functions import BY_KIND, FUNCTIONS, NAMES

ELEMENTARY = [name for name, one in FUNCTIONS.items() if one.slope is not None]
X = symbol("x")


def inside(name: str) -> float:
    return 1.7 if name == "acosh" else 0.3


@pytest.mark.parametrize("name", ELEMENTARY)
def test_arrays_and_floats_agree(name):
    one, x = FUNCTIONS[name], inside(name)
    assert one.plain(x) == pytest.approx(float(one.array(x)), rel=1e-15)
    assert float(one.build(sympy.Float(x))) == pytest.approx(one.plain(x), rel=1e-15)


@pytest.mark.parametrize("name", ELEMENTARY)
def test_the_slope_is_the_derivative(name):
    one, x, step = FUNCTIONS[name], inside(name), 1e-6
    slope = Slopes().slope(one.build(X), X)
    value = FUNCTIONS["sign"].plain(x) if name == "abs" else float(slope.subs(X, x))
    assert value == pytest.approx((one.plain(x + step) - one.plain(x - step)) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("kind", BY_KIND)
def test_a_class_has_its_first_name(kind):
    assert kind in FUNCTIONS[NAMES[kind]].kinds
    assert NAMES[kind] not in ("ln", "arcsin", "arccos", "arctan")


def test_minimum_and_maximum_of_nan_are_nan_as_in_numpy():
    for name in ("min", "max"):
        one = FUNCTIONS[name]
        for pair in ((np.nan, 1.0), (2.0, 1.0), (1.0, 2.0)):
            assert one.plain(*pair) == pytest.approx(float(one.array(*pair)), nan_ok=True)
