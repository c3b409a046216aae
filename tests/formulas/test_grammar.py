"""Formulas: what they mean, what they refuse, and their derivatives."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from picardfit.errors import InputError
from picardfit.formulas.algebra import names
from picardfit.formulas.codegen import kernel
from picardfit.formulas.derivatives import breakpoints
from picardfit.formulas.grammar import names_in_order, parse, to_text
from picardfit.formulas.kernels import BatchedMap

NOTHING = np.zeros(0)


def at(text: str, **values: float) -> float:
    """The value of a formula, t among the values if it is needed."""
    t = values.pop("t", 0.0)
    row = BatchedMap([parse(text)], parameters=tuple(values))
    return row.value(t, NOTHING, np.array(list(values.values())), NOTHING)[0]


# ---- meaning -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("-x^2", -9.0),
        ("2^x^2", 512.0),
        ("2**-1", 0.5),
        ("x - 1 - 1", 1.0),
        ("12/x/2", 2.0),
        ("1 + 2*x", 7.0),
        ("-x**-1", -1 / 3),
        ("1.5e1*x", 45.0),
        (".5 + x", 3.5),
        ("x if x > 5 else 7", 7.0),
        ("1 < x <= 3", 1.0),
        ("1 < x < 3", 0.0),
        ("(x > 1) + (x > 2) + (x > 5)", 2.0),
        ("x > 1 & x < 2", 0.0),
        ("not x > 1 or x == 3", 1.0),
        ("x != 3", 0.0),
        ("min(x, 2, 5)", 2.0),
        ("max(x, 2, 5)", 5.0),
        ("piecewise(1, x < 2, 20, x < 4, 300)", 20.0),
        ("where(x >= 3, 10, 20)", 10.0),
        ("heaviside(x - 3)", 1.0),
        ("heaviside(x - 4)", 0.0),
        ("pow(x, 3)", 27.0),
        ("abs(-x) + sign(-x)", 2.0),
        ("2*pi", 2 * np.pi),
        ("log10(10*x/3)", 1.0),
        ("log2(8*x/3)", 3.0),
        ("arctan(x) - atan(x)", 0.0),
        ("x × 2 − 1", 5.0),
        ("True*x + False", 3.0),
    ],
)
def test_formulas_have_their_usual_meaning(text, expected):
    assert at(text, x=3.0) == pytest.approx(expected, rel=1e-15)


def test_every_word_but_functions_is_an_ordinary_name():
    words = (
        "I",
        "E",
        "S",
        "N",
        "O",
        "Q",
        "T",
        "beta",
        "gamma",
        "zeta",
        "lambda",
        "in",
        "is",
        "as",
        "del",
        "class",
    )
    assert names(parse(" + ".join(words))) == set(words)
    assert at(" * ".join(words), **dict.fromkeys(words, 2.0)) == 2.0 ** len(words)


def test_integer_literals_stay_exact():
    assert parse("x**2") == sympy.Symbol("x", real=True) ** sympy.Integer(2)


def test_a_float_exponent_without_fraction_is_an_integer():
    assert parse("x**2.0") == parse("x**2")


def test_names_in_order_of_appearance_with_those_that_cancel():
    assert names_in_order("b*exp(a) - a + 0*c + pi") == ("b", "a", "c")


def test_definitions_are_written_out():
    assert parse("2*h", definitions={"h": parse("a + b")}) == parse("2*(a + b)")


@pytest.mark.parametrize(
    "text",
    [
        "r*prey*(1 - prey/K) - a*prey*pred/(b + prey)",
        "where(t < 3 and x >= 2 or x == 5, min(x, y), max(x, 0.1))",
        "abs(x)**n + sign(x - 1)*sqrt(x)/3 + exp(-x)*0.30000000000000004",
        "tanh(x)**-2 + 1e-30*asin(x)",
        "lambda*I",
    ],
)
def test_printed_formulas_read_back_to_the_same_expression(text):
    expr = parse(text)
    assert parse(to_text(expr)) == expr


# ---- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "x.__class__",
        "(lambda: 1)()",
        "[1 for a in b]",
        'open("f")',
        "f'{x}'",
        "x[0]",
        "(y := 3)",
        "import os",
        "{1: 2}",
        "x; y",
        "exec(x)",
        "x if y",
        "1j",
        "0x10",
        "x²",
        "a %b",
        "()",
        "",
        "exp",
        "x = 3",
        "\x00",
    ],
)
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(InputError):
        parse(text)


@pytest.mark.parametrize(
    "text, culprit",
    [
        ("a*prey*+", "column 9 of `a*prey*+`"),
        ("a + * b", "column 5"),
        ("2x", "missing between `2` and `x`"),
        ("(a)(b)", "missing between `)` and `(`"),
        ("a(b + c)", "`a` is called like a function"),
        ("a(b + c)", "write `a*(...)` for a product"),
        ("exo(x)", "write `exp(...)` if you mean that function"),
        ("a + (b", "not closed"),
        ("a + b)", "unmatched `)`"),
        ("sin(x, y)", "`sin` takes 1 argument, not 2"),
        ("min(x)", "at least 2"),
        ("piecewise(1, x < 2, 3, x < 4)", "otherwise"),
        ("1/0", "divides by zero"),
        ("1/(a - a)", "divides by zero"),
        ("log(0)", "too large or undefined"),
        ("sqrt(-1)", "root of a negative"),
        ("1e400", "too large"),
    ],
)
def test_errors_name_the_culprit(text, culprit):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert culprit.lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9",
        "9^9^9^9*x",
        "((9*x)**900)**900",
        "exp(exp(exp(9)))",
        "9" * 400,
        "(" * 5000 + "x" + ")" * 5000,
        "-" * 19000 + "x",
        "x + " * 10000 + "x",
        "x**" * 1000 + "x",
    ],
)
def test_bombs_are_refused(text):
    with pytest.raises(InputError):
        parse(text)


def test_formulas_must_be_text():
    with pytest.raises(InputError, match="text"):
        parse(3)


@given(st.text(alphabet="xyt0129.+-*/^()<>=,& expmaxifelsandort", max_size=30))
def test_any_text_is_a_formula_or_an_input_error(text):
    try:
        expr = parse(text)
    except InputError:
        return
    assert names(expr) <= set(names_in_order(text))


# ---- breakpoints -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(t < 3)*exp(-t)", (3.0,)),
        ("2*t >= 5", (2.5,)),
        ("heaviside(t - 3) + abs(2*t - 1)", (0.5, 3.0)),
        ("min(t, 4) + max(2, 1 - t)", (-1.0, 4.0)),
        ("piecewise(1, t < 2, 2, 4 > t, 0)", (2.0, 4.0)),
        ("1 if 1 < t < 2 else 0", (1.0, 2.0)),
        ("sign(t - 0.1)", (0.1,)),
        ("x < 3", ()),
        ("a*t < 3", ()),
        ("exp(-t)", ()),
    ],
)
def test_breakpoints_are_the_switching_times(text, expected):
    assert breakpoints([parse(text)]) == expected


# ---- derivatives and arrays --------------------------------------------------------------------------------

EVERY_FUNCTION = [
    "exp(-a*x) + log(x) + ln(b*x) + log10(x) + log2(x + y)",
    "sqrt(x) + sin(a*x) + cos(x*y) + tan(x/3)",
    "asin(x/9) + acos(x/9) + atan(x) + sinh(x) + cosh(x) + tanh(b*x)",
    "abs(x - 5)*a + sign(y)*x + min(x, y, a) + max(x*a, y, b)",
    "x**n/(K**n + x**n) + pow(x, b) + 2**x + x**3 + x**-2 + x^1.5 + x^0.7 + (x/3)^20",
    "(x < 1)*y + (a*y if x > 0.5 and not y > 9 else b) + where(t < 1, x, y**2) + heaviside(x - y)*x",
    "piecewise(x, t < 0.1, x*y, t < 2, a) + dose*x*(x >= y) - (x != y)*a - (x == 7 or y <= 3)*b",
    "a*b",
    "3",
]
STATES, PARAMETERS, INPUTS = ("x", "y"), ("a", "b", "n", "K"), ("dose",)


@pytest.fixture(scope="module")
def everything() -> BatchedMap:
    return BatchedMap([parse(text) for text in EVERY_FUNCTION], STATES, PARAMETERS, INPUTS)


def points(*batch: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(3)
    shapes = (batch, (*batch, 2), (*batch, 4), (*batch, 1))
    return tuple(generator.uniform(0.3, 2.5, shape) for shape in shapes)


def test_jacobians_agree_with_central_differences(everything):
    t, x, p, u = points(20)
    _, wrt_x, wrt_p = everything.linearise(t, x, p, u)
    step = 1e-6
    for k in range(2):
        move = step * np.eye(2)[k]
        slope = (everything.value(t, x + move, p, u) - everything.value(t, x - move, p, u)) / (2 * step)
        np.testing.assert_allclose(wrt_x[..., k], slope, rtol=1e-6, atol=1e-7)
    for k in range(4):
        move = step * np.eye(4)[k]
        slope = (everything.value(t, x, p + move, u) - everything.value(t, x, p - move, u)) / (2 * step)
        np.testing.assert_allclose(wrt_p[..., k], slope, rtol=1e-6, atol=1e-7)


def test_linearise_returns_the_value(everything):
    arguments = points(5)
    np.testing.assert_allclose(everything.linearise(*arguments)[0], everything.value(*arguments), rtol=1e-14)


@pytest.mark.parametrize("batch", [(), (1,), (7,), (5, 3), (0,)])
def test_batches_come_first_and_components_last(everything, batch):
    value, wrt_x, wrt_p = everything.linearise(*points(*batch))
    rows = len(EVERY_FUNCTION)
    assert (value.shape, wrt_x.shape, wrt_p.shape) == ((*batch, rows), (*batch, rows, 2), (*batch, rows, 4))
    assert all(a.flags.c_contiguous for a in (value, wrt_x, wrt_p))


def test_batches_broadcast(everything):
    t, x, p, u = points(5, 3)
    wide = everything.linearise(t, x, np.broadcast_to(p[:, :1], p.shape), np.broadcast_to(u[0, 0], u.shape))
    for broad, full in zip(everything.linearise(t, x, p[:, :1], u[0, 0]), wide, strict=True):
        np.testing.assert_array_equal(broad, full)


def test_a_batch_is_its_points_one_by_one(everything):
    t, x, p, u = points(4)
    rows = [everything.value(t[k], x[k], p[k], u[k]) for k in range(4)]
    np.testing.assert_allclose(everything.value(t, x, p, u), rows, rtol=1e-14)


def test_pattern_marks_what_can_be_non_zero(everything):
    wrt_x, wrt_p = everything.jacobian_pattern
    assert wrt_x[-2:].tolist() == [[False, False], [False, False]]
    assert wrt_p[-2:].tolist() == [[True, True, False, False], [False] * 4]


def test_derivatives_are_the_marked_ones_row_by_row(everything):
    arguments = points(4)
    found, whole = everything.derivatives(*arguments), everything.linearise(*arguments)[1:]
    for entries, matrix, marked in zip(found, whole, everything.jacobian_pattern, strict=True):
        np.testing.assert_array_equal(np.moveaxis(entries, 0, -1), matrix[..., marked])


def test_hill_functions_have_finite_slopes_at_zero():
    hill = BatchedMap([parse("x**n/(K**n + x**n)")], ("x",), ("n", "K"))
    value, wrt_x, wrt_p = hill.linearise(0.0, np.zeros(1), np.array([2.0, 1.0]), NOTHING)
    assert (value.item(), wrt_x.item(), wrt_p.tolist()) == (0.0, 0.0, [[0.0, 0.0]])


def test_a_branch_that_is_not_taken_cannot_spoil_the_slope():
    safe = BatchedMap([parse("where(x > 0, x*log(x), 0)")], ("x",))
    value, wrt_x, _ = safe.linearise(0.0, np.array([0.0]), NOTHING, NOTHING)
    assert (value.item(), wrt_x.item()) == (0.0, 0.0)


def test_overflow_and_division_by_zero_are_silent_and_not_finite():
    wild = BatchedMap([parse("exp(x)"), parse("1/(x - 1000)"), parse("log(-x)"), parse("(-x)**0.3")], ("x",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (np.array([1000.0]), np.full((3, 1), 1000.0)):
            value, _, _ = wild.linearise(0.0, x, NOTHING, NOTHING)
            assert not np.isfinite(value).any()


def test_nan_passes_through_minimum():
    assert np.isnan(at("min(x, 1)", x=np.nan))


def test_integer_arguments_are_numbers(everything):
    t, x, p, u = 1, [1, 2], [1, 2, 3, 1], [1]
    expected = everything.value(1.0, np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0, 1.0]), np.ones(1))
    np.testing.assert_array_equal(everything.value(t, x, p, u), expected)


def test_names_that_are_not_declared_are_named():
    with pytest.raises(InputError, match="`k`"):
        BatchedMap([parse("k*x")], ("x",))


def test_a_name_has_one_role():
    with pytest.raises(InputError, match="`x`"):
        BatchedMap([parse("x")], ("x",), ("x",))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_equal_the_original_and_compute_the_same(everything, duplicate):
    arguments = points(3)
    everything.linearise(*arguments)
    twin = duplicate(everything)
    assert twin == everything
    assert hash(twin) == hash(everything)
    for a, b in zip(twin.linearise(*arguments), everything.linearise(*arguments), strict=True):
        np.testing.assert_array_equal(a, b)


def test_equal_maps_share_one_compiled_function():
    maps = [BatchedMap([parse("k*x + 1")], ("x",), ("k",)) for _ in range(2)]
    maps[0].value(0.0, np.ones(1), np.ones(1), NOTHING)
    before = kernel.cache_info()
    maps[1].value(0.0, np.ones(1), np.ones(1), NOTHING)
    after = kernel.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)


def test_thirty_states_build():
    lines = [
        f"v{i}*s{(i + 1) % 30}^2/(k{i}^2 + s{(i + 1) % 30}^2 + s{(i + 7) % 30}/1.5)*exp(-0.1*s{i})"
        f" - d*s{i}/(0.5 + s{i}) + h*s{(i + 7) % 30}**n/(k{i}**n + s{(i + 7) % 30}**n) - max(s{i} - 1, 0)"
        for i in range(30)
    ]
    states = tuple(f"s{i}" for i in range(30))
    exprs = [parse(line) for line in lines]
    parameters = tuple(sorted(set().union(*map(names, exprs)) - set(states)))
    value, _, _ = BatchedMap(exprs, states, parameters).linearise(
        0.0, np.ones(30), np.ones(len(parameters)), NOTHING
    )
    assert np.isfinite(value).all()


def test_piecewise_takes_pairs_as_sympy_prints_them():
    assert parse("piecewise((1, t<3), (2, t<5), (0, True))") == parse("piecewise(1, t<3, 2, t<5, 0)")


def test_parentheses_in_piecewise_are_not_taken_for_pairs():
    assert parse("piecewise((a + b)*2, (t<3), 0)") == parse("2*(a + b) if t < 3 else 0")


@pytest.mark.parametrize(
    "text", ["piecewise((1, t<3), (2, t<5))", "piecewise((1, t<3), 2)", "piecewise((1, t<3, 2))"]
)
def test_incomplete_pairs_show_how_to_write_piecewise(text):
    with pytest.raises(InputError, match="or none: `piecewise"):
        parse(text)


@pytest.mark.parametrize(
    "text, words",
    [
        ("floor(t)", "use one of the functions exp, log"),
        ("x % 2", "modulo `%` is not available"),
        ("1e400*x", "smaller than 1e308"),
        ("log(-1)", "`log(-1)` is not a real number: correct its argument"),
        ("x!", "the factorial `!` is not available"),
        ("!(x < 1)", "x >= 1 in place of"),
    ],
)
def test_what_is_not_available_comes_with_a_remedy(text, words):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert words in str(caught.value)


def test_a_delay_is_named():
    with pytest.raises(InputError) as error:
        parse("-k*x(t - 1)")
    assert (error.value.code, error.value.subject) == ("formulas.delay", "x")
