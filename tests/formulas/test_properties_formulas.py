"""Random formulas, printed and read back, against the same trees evaluated by NumPy; and text that is no formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import picardfit as pf
from picardfit.formulas.algebra import names
from picardfit.formulas.grammar import STRENGTH, parse
from picardfit.formulas.kernels import BatchedMap
from properties import Properties

formulas = Properties(few=40, many=3000)

NAMES = ("x", "y", "k", "lambda", "t")
POINTS = np.array([[0.7, -1.3, 0.4, 2.1, 0.9], [-0.45, 0.8, 1.7, 0.35, 3.2], [2.3, 1.9, 0.6, 1.1, 0.2]])
LARGEST = 1e5  # of what comes up on the way: beyond it rounding has a say
UNARY = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "atan": np.arctan,
    "abs": np.abs,
}
BINARY = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": np.power,
    "min": np.minimum,
    "max": np.maximum,
}
RELATIONS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


# A tree is a number, a name, (function, tree), ("neg", tree), (operator, tree, tree) or ("if", relation, name, number,
# tree, tree).

leaves = st.sampled_from(NAMES) | st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 0.1, 1e-2, 12.0])
trees = st.recursive(
    leaves,
    lambda inside: (
        st.tuples(st.sampled_from([*UNARY, "neg"]), inside)
        | st.tuples(st.sampled_from(list(BINARY)), inside, inside)
        | st.tuples(st.just("^"), inside, st.sampled_from([2.0, 3.0, 0.5, ("neg", 1.0)]))
        | st.tuples(
            st.just("if"),
            st.sampled_from(list(RELATIONS)),
            st.sampled_from(NAMES),
            st.sampled_from([0.0, 0.5]),
            inside,
            inside,
        )
    ),
    max_leaves=9,
)


def printed(tree, weakest: int = 0) -> str:
    """The formula with as few parentheses as the grammar allows, where something binds at least as `weakest`."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, float):
        return f"{tree:g}"
    head, *rest = tree
    if head == "if":
        relation, name, bound, first, second = rest
        text, strength = f"{printed(first, 2)} if {name} {relation} {bound:g} else {printed(second, 1)}", 1
    elif head == "neg":
        text, strength = f"-{printed(rest[0], 8)}", 8
    elif head in UNARY or head in ("min", "max"):
        return f"{head}({', '.join(printed(one) for one in rest)})"
    elif head == "^":
        text, strength = f"{printed(rest[0], 10)}^{printed(rest[1], 8)}", 9
    else:
        strength = STRENGTH[head]
        text = f"{printed(rest[0], strength)} {head} {printed(rest[1], strength + 1)}"
    return f"({text})" if strength < weakest else text


def evaluated(tree, values: dict[str, float], seen: list[float]) -> float:
    """The value by NumPy; everything on the way is added to `seen`."""
    if isinstance(tree, str):
        found = values[tree]
    elif isinstance(tree, float):
        found = tree
    elif tree[0] == "if":
        _, relation, name, bound, *branches = tree
        first, second = (evaluated(one, values, seen) for one in branches)
        found = first if RELATIONS[relation](values[name], bound) else second
    elif tree[0] == "neg":
        found = -evaluated(tree[1], values, seen)
    else:
        function = UNARY.get(tree[0]) or BINARY[tree[0]]
        found = function(*(np.float64(evaluated(one, values, seen)) for one in tree[1:]))
    seen.append(float(found))
    return float(found)


def value(tree, point: np.ndarray) -> tuple[float, bool]:
    """The value at a point, and whether everything on the way is of moderate size."""
    seen: list[float] = []
    with np.errstate(all="ignore"):
        found = evaluated(tree, dict(zip(NAMES, point, strict=True)), seen)
    return found, bool(np.all(np.abs(seen) < LARGEST))  # a NaN is not below


def read(text: str) -> BatchedMap | None:
    try:
        return BatchedMap([parse(text)], NAMES[:2], NAMES[2:4])
    except pf.InputError:
        return None


@formulas.holds(tree=trees)
def test_a_formula_printed_and_read_has_the_same_value(tree):
    expected = [value(tree, point) for point in POINTS]
    assume(any(fine for _, fine in expected))
    formula = read(printed(tree))
    assert formula is not None, printed(tree)
    found = formula.value(POINTS[:, 4], POINTS[:, :2], POINTS[:, 2:4], np.zeros((3, 0)))[:, 0]
    for one, point, (wanted, fine) in zip(found, POINTS, expected, strict=True):
        if fine:
            assert abs(one - wanted) <= 1e-7 * (1 + abs(wanted)), printed(tree)
            (alone,) = formula.at_point(point[4], list(point[:2]), list(point[2:4]), [])
            assert abs(alone - wanted) <= 1e-7 * (1 + abs(wanted)), printed(tree)


@pytest.mark.parametrize(
    "tree",
    [
        ("^", 1.5, ("^", 2.0, "k")),
        ("^", ("^", 1.5, 2.0), "k"),
        ("^", 2.0, ("neg", ("^", "k", 2.0))),
        ("neg", ("^", "x", 2.0)),
        ("^", ("neg", "x"), 2.0),
        ("-", "x", ("-", "y", "k")),
        ("/", "x", ("*", "y", "k")),
    ],
    ids=lambda tree: printed(tree),
)
def test_operators_bind_as_they_are_printed(tree):
    formula = read(printed(tree))
    found = formula.value(POINTS[:, 4], POINTS[:, :2], POINTS[:, 2:4], np.zeros((3, 0)))[:, 0]
    np.testing.assert_allclose(found, [value(tree, point)[0] for point in POINTS], rtol=1e-12)


@formulas.holds(tree=trees, column=st.integers(0, 3))
def test_derivatives_are_those_of_the_tree(tree, column):
    """Central differences of two lengths, wherever they agree."""
    formula = read(printed(tree))
    assume(formula is not None)
    _, wrt_x, wrt_p = formula.linearise(POINTS[:, 4], POINTS[:, :2], POINTS[:, 2:4], np.zeros((3, 0)))
    slopes = np.concatenate([wrt_x, wrt_p], axis=2)[:, 0, column]
    compared = 0
    for found, point in zip(slopes, POINTS, strict=True):
        quotients = []
        for step in (1e-4, 3e-5):
            shift = step * (np.arange(5) == column)
            (above, fine), (below, too) = value(tree, point + shift), value(tree, point - shift)
            quotients.append((above - below) / (2 * step) if fine and too else np.nan)
        wide, narrow = quotients
        if abs(wide - narrow) <= 1e-5 * (1 + abs(narrow)):
            compared += 1
            assert abs(found - narrow) <= 1e-4 * (1 + abs(narrow)), printed(tree)
    assume(compared)


@formulas.holds(tree=trees)
def test_a_formula_has_no_other_names(tree):
    formula = read(printed(tree))
    assume(formula is not None)
    assert names(formula.expressions[0]) <= set(NAMES)


WORDS = [
    "x",
    "k",
    "t",
    "u",
    "1",
    ".5",
    "2e3",
    "1e999",
    "exp",
    "min",
    "if",
    "else",
    "and",
    "not",
    "piecewise",
    "pi",
    "λ",
]
SIGNS = [*"+-*/^()<>=,&|'\"[]{}.;:#!%\\_$\n ", "**", "<=", "&&", "x' = ", "’", "\0", "\t", "²", "∞"]
nonsense = st.text(max_size=30) | st.lists(st.sampled_from(WORDS + SIGNS), max_size=16).map("".join)


@formulas.holds(text=nonsense)
def test_any_text_is_a_formula_or_an_input_error(text):
    formula = read(text)
    if formula is not None:
        formula.value(POINTS[:, 4], POINTS[:, :2], POINTS[:, 2:4], np.zeros((3, 0)))


@formulas.holds(text=nonsense, more=nonsense)
def test_any_text_is_a_model_or_an_input_error(text, more):
    for equations in (text, f"x' = {text}", f"x' = {text}\n{more}", f"x' = k*x\n{text} = {more}"):
        try:
            model = pf.Model(equations)
        except pf.InputError:
            continue
        assert model.states
        ones = np.ones(len(model.states)), np.ones(len(model.parameters))
        assert model.rhs.value(0.0, *ones, np.ones(len(model.inputs))).shape == (len(model.states),)


test_many_formulas = formulas.many()
