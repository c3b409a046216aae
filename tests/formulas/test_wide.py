"""Equal operations together give the numbers of straight-line code."""

import numpy as np
import pytest

from picardfit.formulas.algebra import symbol
from picardfit.formulas.codegen import wide
from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap

NAMES = (("x", "y", "z"), ("a", "b", "c"), ("u",))
FORMULAS = {
    "mass action": ["-a*x*y + b*z", "a*x*y - b*z", "b*z"],
    "sums": ["x + y + z - a - b - c + 1", "-(x + y)", "x - (y - (z - 2))"],
    "saturation": ["a*x/(b + x)", "a*x^2/(b^2 + x^2) - c*y", "u*x/(1 + y/c)"],
    "parameters alone": ["a*b + c", "a/b - x", "exp(-a)*exp(b)"],
    "time": ["sin(t)*x", "t*a - u", "cos(a*t)"],
    "functions": ["exp(-x)", "log(y + 2)*sqrt(z)", "tanh(x*y)^3"],
    "constants": ["0", "2.5", "x"],
    "negative constants": ["-1", "-2.5*x", "-1/(3 + y)"],
    "powers": ["x^a", "y^-2", "2^z"],
}


def arguments(points):
    rng = np.random.default_rng(1)
    return [rng.uniform(0.5, 2, shape) for shape in ((points,), (3, points), (3, points), (1, points))]


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("points", [1, 7])
def test_values_are_those_of_the_kernel(kind, points):
    rhs = BatchedMap([parse(text) for text in FORMULAS[kind]], *NAMES)
    t, x, p, u = arguments(points)
    out = np.empty((3, points))
    wide(rhs.expressions, NAMES).bind(p, points)(t, x, u, out)
    np.testing.assert_allclose(out.T, rhs.value(t, x.T, p.T, u.T), rtol=1e-13, atol=1e-15)


def test_parameters_may_be_common_to_all_points():
    rhs = BatchedMap([parse(text) for text in FORMULAS["saturation"]], *NAMES)
    t, x, p, u = arguments(5)
    out, many = np.empty((3, 5)), np.empty((3, 5))
    code = wide(rhs.expressions, NAMES)
    code.bind(p[:, :1], 5)(t, x, u, out)
    code.bind(np.repeat(p[:, :1], 5, axis=1), 5)(t, x, u, many)
    np.testing.assert_array_equal(out, many)


def test_a_function_can_be_called_again():
    rhs = BatchedMap([parse(text) for text in FORMULAS["mass action"]], *NAMES)
    t, x, p, u = arguments(4)
    bound, out = wide(rhs.expressions, NAMES).bind(p, 4), np.empty((3, 4))
    for scale in (1.0, 3.0):
        bound(t, scale * x, u, out)
        np.testing.assert_allclose(out.T, rhs.value(t, scale * x.T, p.T, u.T), rtol=1e-13, atol=1e-15)


def test_a_sum_of_a_thousand_terms_is_one_operation():
    total = sum((symbol("a") * symbol("x") * k for k in range(2, 1002)), symbol("y"))
    code = wide((total,), NAMES)
    assert sum(group.sums is not None for group in code.groups) == 1


@pytest.mark.parametrize("text", ["where(x > 1, a, b)", "where(t < 2, x, y) + 1", "x*(y > z)"])
def test_conditions_are_left_to_the_kernel(text):
    assert wide((parse(text),), NAMES) is None


def test_a_map_has_the_same_values_and_slopes_with_it():
    names = tuple(f"x{k}" for k in range(12))
    rates = [
        parse(f"a*{one} - b*{one}*{other}/(c + {other})")
        for one, other in zip(names, np.roll(names, 1), strict=True)
    ]
    rhs = BatchedMap(rates, names, ("a", "b", "c"), ())
    rng = np.random.default_rng(2)
    x, p, t = rng.uniform(0.5, 2, (len(names), 6)), rng.uniform(0.5, 2, (3, 6)), np.zeros(6)
    value, slopes = np.empty((len(names), 6)), np.empty((len(rhs.state_entries[0]), 6))
    rhs.evaluation(False, True, p, 6)(t, x, np.zeros((0, 6)), value)
    rhs.evaluation(True, True, p, 6)(t, x, np.zeros((0, 6)), slopes)
    np.testing.assert_allclose(value.T, rhs.value(t, x.T, p.T, np.zeros((6, 0))), rtol=1e-13)
    np.testing.assert_allclose(slopes, rhs.derivatives(t, x.T, p.T, np.zeros((6, 0)))[0], rtol=1e-13)
