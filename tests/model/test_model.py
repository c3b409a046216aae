"""Models from text and from Python functions."""

import copy
import math
import pickle
import time

import numpy as np
import pytest

from picardfit.errors import InputError
from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.model.inputs import as_input
from picardfit.model.model import Model
from picardfit.simulation.simulate import simulate

PONDS = """
    prey' = r*prey*(1 - prey/K) - a*prey*pred/(b + prey)
    pred' = k*a*prey*pred/(b + prey) - c*pred
"""
NOTHING = np.zeros(0)


def derivatives(model: Model, x, p, t: float = 0.0, u=NOTHING) -> np.ndarray:
    return model.rhs.value(
        t, np.asarray(x, dtype=float), np.asarray(p, dtype=float), np.asarray(u, dtype=float)
    )


# ---- text --------------------------------------------------------------------------------------------------


def test_states_and_parameters_come_in_order_of_appearance():
    model = Model(PONDS)
    assert (model.states, model.parameters) == (("prey", "pred"), ("r", "K", "a", "b", "k", "c"))


def test_every_state_is_observed_by_default():
    model = Model(PONDS)
    x = np.array([1.5, 2.5])
    assert model.observables == ("prey", "pred")
    np.testing.assert_array_equal(model.output.value(0.0, x, np.ones(6), NOTHING), x)


def test_the_right_hand_side_is_what_is_written():
    r, K, a, b, k, c = p = [1.1, 2.0, 0.7, 0.5, 0.9, 0.3]
    x, y = 1.5, 2.5
    expected = [r * x * (1 - x / K) - a * x * y / (b + x), k * a * x * y / (b + x) - c * y]
    np.testing.assert_allclose(derivatives(Model(PONDS), [x, y], p), expected, rtol=1e-14)


def test_helpers_are_written_out():
    helped = Model("uptake = a*prey*pred/(b + prey)\nprey' = r*prey - uptake\npred' = k*uptake - c*pred")
    plain = Model("prey' = r*prey - a*prey*pred/(b + prey)\npred' = k*a*prey*pred/(b + prey) - c*pred")
    assert helped == plain
    assert helped.parameters == ("r", "a", "b", "k", "c")


@pytest.mark.parametrize(
    "text",
    [
        "x' = -a*x; y' = x - b*y",
        "dx/dt = -a*x\r\ndy/dt = x - b*y\r\n",
        "d(x)/dt = -a*x\nd(y)/dt = x - b*y",
        "x’ = -a*x\ny′ = x - b*y",
        "# two pools\nx' = (-a\n   *x)  # decay\n\n\ny' = x - \\\n   b*y",
        "x ' = - a * x\n\ty'=x-b*y",
    ],
)
def test_ways_to_write_the_same_model(text):
    assert Model(text) == Model("x' = -a*x\ny' = x - b*y")


def test_any_word_can_be_a_name():
    model = Model("S' = -beta*S*I/N\nE' = beta*S*I/N - lambda*E\nI' = lambda*E - gamma*I - Q*T*I")
    assert model.states == ("S", "E", "I")
    assert model.parameters == ("beta", "N", "lambda", "gamma", "Q", "T")
    np.testing.assert_allclose(derivatives(model, [2, 3, 4], [1, 2, 3, 4, 5, 6]), [-4, -5, -127])


def test_a_parameter_that_cancels_is_still_a_parameter():
    assert Model("x' = a*x + 0*b").parameters == ("a", "b")


def test_observables_may_use_helpers_inputs_and_new_parameters():
    model = Model(
        "total = x + y\nx' = -a*x + dose\ny' = a*x", observables={"signal": "scale*total"}, inputs=["dose"]
    )
    assert (model.observables, model.parameters) == (("signal",), ("a", "scale"))
    value = model.output.value(0.0, np.array([1.0, 2.0]), np.array([9.0, 10.0]), np.ones(1))
    assert value.tolist() == [30.0]


def test_observables_by_name_of_state_or_helper():
    model = Model("total = x + y\nx' = -x\ny' = x", observables=["y", "total"])
    assert model.output.value(0.0, np.array([1.0, 2.0]), NOTHING, NOTHING).tolist() == [2.0, 3.0]


def test_a_parameter_next_to_the_state_it_resembles_is_allowed():
    assert Model("prey' = -prey", observables={"y": "prey/prey0"}).parameters == ("prey0",)


def test_breakpoints_are_those_of_the_right_hand_side():
    model = Model("x' = -x*(t >= 2) + where(t < 5, 1, 0)", observables={"y": "x*(t < 7)"})
    assert model.breakpoints == (2.0, 5.0)


@pytest.mark.parametrize(
    "text, culprit",
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("a = 3", "no state equation"),
        ("x' = -x\nx' = x", "line 2: `x` already has an equation, in line 1"),
        ("h = 1\nh = 2\nx' = h", "`h` already has a definition"),
        ("x' = h*x\nh = 3", "line 1: `h` is used here but only defined in line 2"),
        ("p = q\nq = p\nx' = p", "circular"),
        ("h = h + 1\nx' = h", "`h` is defined in terms of itself"),
        ("x = 3\nx' = x", "both a state and a helper"),
        ("x' = -x\nx + y", "line 2: `x + y` has no `=`"),
        ("x' = y = 3", "more than one `=`"),
        ("2*x = 3", "left side `2*x` is not a name"),
        ("x'' = -x", "second derivative"),
        ("x' = y'", "`y` has no equation"),
        ("x' = -x\ny' = 2*x'", "line 2: `x'` cannot be used on the right side"),
        ("dx/dt = -x\ndy/dt = dx/dt", "line 2: `dx/dt` cannot be used on the right side"),
        ("t' = 1", "`t` is time"),
        ("exp' = 1", "`exp` has a fixed meaning"),
        ("x' = a*(x + 1", "line 1: the parenthesis at column 3 of `a*(x + 1` is never closed"),
        ("y' = 1\nx' = a*x*+", "line 2: column 6 of `a*x*+`"),
        ("x' = ", "the formula is empty"),
    ],
)
def test_errors_in_the_text_name_line_and_culprit(text, culprit):
    with pytest.raises(InputError) as caught:
        Model(text)
    assert culprit in str(caught.value)


@pytest.mark.parametrize(
    "options, culprit",
    [
        ({"inputs": ["dose"]}, "Input `dose` is declared but no equation uses it"),
        ({"inputs": ["prey"]}, "Input `prey` is also a state"),
        ({"inputs": "dose"}, "['dose']"),
        ({"inputs": ["t"]}, "`t` is time"),
        ({"inputs": ["a", "a"]}, "twice"),
        ({"inputs": [3]}, "not a name"),
        ({"observables": {}}, "`observables` is empty"),
        ({"observables": "prey"}, "['prey']"),
        ({"observables": ["pray"]}, "Did you mean `prey`?"),
        ({"observables": {"y": "2*preyy"}}, "Did you mean `prey`?"),
        ({"observables": {"y": "k*prex"}}, "Did you mean `prey`?"),
        ({"observables": {"y": "scale"}}, "`scale` is not a name of the model"),
        ({"observables": {"y": "2*"}}, "Observable `y`: column 3"),
        ({"observables": {"": "prey"}}, "not a name"),
        ({"observables": {"y": 3}}, "a formula is text"),
    ],
)
def test_errors_in_options_name_the_culprit(options, culprit):
    with pytest.raises(InputError) as caught:
        Model(PONDS, **options)
    assert culprit in str(caught.value)


def test_text_is_required():
    with pytest.raises(InputError, match="from_function"):
        Model(lambda t, x: x)


def test_definitions_that_multiply_are_refused_at_once():
    lines = [
        "h0 = a + b",
        *(f"h{i + 1} = sin(h{i})*cos(h{i}) + h{i}*tan(h{i})" for i in range(60)),
        "x' = h60",
    ]
    start = time.perf_counter()
    with pytest.raises(InputError, match="simplify"):
        Model("\n".join(lines))
    assert time.perf_counter() - start < 2.0


def test_models_do_not_change():
    with pytest.raises(AttributeError):
        Model(PONDS).states = ("x",)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_equal_and_hash_equal(duplicate):
    model = Model(PONDS + "z' = -z*(t < 3)*min(z, 1)", observables={"y": "abs(prey)"})
    twin = duplicate(model)
    assert twin == model
    assert hash(twin) == hash(model)
    assert twin.text == model.text


def test_models_with_other_observables_differ():
    assert Model(PONDS) != Model(PONDS, observables=["prey"])


def test_equations_can_be_read_back():
    model = Model(PONDS)
    again = Model("\n".join(f"{name}' = {text}" for name, text in model.equations.items()))
    assert again.rhs.expressions == model.rhs.expressions


def test_printing_shows_equations_and_names():
    shown = str(Model("prey' = -a*prey + dose\nz' = 1", observables={"y": "2*prey"}, inputs=["dose"]))
    assert shown.splitlines() == [
        "equations",
        "  prey' = -a*prey + dose",
        "  z'    = 1",
        "observables",
        "  y = 2*prey",
        "states      prey, z",
        "parameters  a",
        "inputs      dose",
    ]


def test_printing_shows_helpers_where_they_were_written():
    shown = str(Model("q = a*x/(b + x)  # uptake\nw = 2*q\nx' = w - q", observables={"y": "q"}))
    assert shown.splitlines()[:4] == ["equations", "  q  = a*x/(b + x)", "  w  = 2*q", "  x' = -q + w"]


@pytest.mark.parametrize(
    "text",
    [
        "x' = -a*x +\n  b\ny' = x",
        "x' = -a*x\n  + b\ny' = x",
        "x' = -a*x  # decay\n\n  # and source\n  + b\ny' = x",
        "x' = -a*x \\\n  + b\ny' = x",
        "x' = (-a*x\n  + b)\ny' = x",
        "x' =\n  b - a*x\ny' = x",
        "x' = b\n  - a\n  *x; y' =\r\n x",
    ],
)
def test_a_formula_may_go_on_in_the_next_line(text):
    assert Model(text).equations == Model("x' = -a*x + b\ny' = x").equations


@pytest.mark.parametrize(
    "text", ["x' = a if t < 3\n else b", "x' = a if t < 3 else\n b", "x' = a if\nt < 3 else b"]
)
def test_a_formula_may_be_broken_at_words(text):
    assert Model(text).equations == Model("x' = a if t < 3 else b").equations


@pytest.mark.parametrize(
    "text, words",
    [
        ("x' = a +\ny' = x", "In line 1: column 4 of `a \\+`: a number or name is missing at the end"),
        ("x' = a\n\ny", "In line 3: `y` has no `=`: .*continues on the next line after an operator"),
        ("x' = a\n- y' = x", "In line 2: the left side `- y'` is not a name"),
        ("x' = a +\n  b +\n  c c\ny' = 2 2", "In line 1: column [0-9]+ of `a \\+ +b \\+ +c c`"),
        ("x' = a\n + b\ny' = 2 2", "In line 3: column 3 of `2 2`"),
    ],
)
def test_what_no_line_goes_on_with_keeps_its_line(text, words):
    with pytest.raises(InputError, match=words):
        Model(text)


def test_repr_is_one_line():
    assert repr(Model("x' = -a*x")) == "Model(states=['x'], parameters=['a'], observables=['x'])"


# ---- functions ---------------------------------------------------------------------------------------------


def by_index(t, x, p):
    return [p[0] * x[0] * (1 - x[0] / p[1]) - p[2] * x[0] * x[1], p[2] * x[0] * x[1] - x[1]]


def by_attribute(t, x, p, u):
    return {"y": p.a * x.x * x.y - x.y, "x": p.r * x.x * (1 - x.x / p.K) - p.a * x.x * x.y}


def by_unpacking(t, x, p):
    (a, b), (r, k, c) = x, p
    return np.array([r * a * (1 - a / k) - c * a * b, c * a * b - b])


def by_key(t, x, p, u=None):
    flow = p["a"] * x["x"] * x["y"]
    return p["r"] * x["x"] * (1 - x["x"] / p["K"]) - flow, flow - x["y"]


@pytest.mark.parametrize("function", [by_index, by_attribute, by_unpacking, by_key])
def test_functions_are_traced_to_the_model_of_the_text(function):
    traced = Model.from_function(function, ["x", "y"], ["r", "K", "a"])
    written = Model("x' = r*x*(1 - x/K) - a*x*y\ny' = a*x*y - y")
    assert traced == written


def numpy_words(t, x, p, u):
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    rates = np.exp(-np.array([x[0], x[1]])) * p.T
    first = np.where((x[0] > 1) & (t < 3), np.sqrt(x[0]), np.maximum(x[1], 0.5)) + rates[0] + u.dose
    first += (
        np.tanh(x[0]) * np.log1p(x[1] ** 2) / (1 + np.square(x[0])) + np.heaviside(t - 1, 1.0) + np.sum(2 * x)
    )
    second = np.clip(x[1], 0.2, p.T) + np.sum(x) + np.dot([1.0, 2.0], x) + (matrix @ x)[0] - abs(-x[0]) ** 1.5
    return first, second + np.float64(2.0) * x[0] + 1 / x[1] + -x[0] - np.sign(x[1]) + (x * x).sum()


def test_numpy_functions_are_traced():
    model = Model.from_function(numpy_words, ["a", "b"], ["T"], ["dose"])
    assert isinstance(model.rhs, BatchedMap)
    assert model.breakpoints == (1.0, 3.0)


def test_traced_functions_compute_what_the_function_computes():
    model = Model.from_function(numpy_words, ["a", "b"], ["T"], ["dose"])
    numeric = NumericMap(numpy_words, True, ("a", "b"), ("a", "b"), ("T",), ("dose",))
    generator = np.random.default_rng(1)
    t, x, p, u = (generator.uniform(0.3, 4.0, shape) for shape in ((6,), (6, 2), (1,), (6, 1)))
    for traced, differenced in zip(
        model.rhs.linearise(t, x, p, u), numeric.linearise(t, x, p, u), strict=True
    ):
        np.testing.assert_allclose(traced, differenced, rtol=1e-7, atol=1e-7)


def decides(t, x, p):
    if x[0] > 1:
        return [-p[0] * x[0]]
    return [p[0] * math.sqrt(x[0])]


def interpolates(t, x, p):
    return [np.interp(t, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0]) * p[0] * x[0] ** 2]


@pytest.mark.parametrize("function, vectorised", [(decides, False), (interpolates, True)])
def test_what_cannot_be_traced_is_evaluated(function, vectorised):
    model = Model.from_function(function, ["x"], ["k"])
    assert isinstance(model.rhs, NumericMap)
    assert model.rhs.vectorised == vectorised


def test_numeric_jacobians_are_accurate():
    model = Model.from_function(interpolates, ["x"], ["k"])
    value, wrt_x, wrt_p = model.rhs.linearise(
        np.full((2, 3), 1.5), np.full((2, 3, 1), 3.0), np.array([2.0]), NOTHING
    )
    np.testing.assert_allclose(value, np.full((2, 3, 1), 2.5 * 2 * 9), rtol=1e-14)
    np.testing.assert_allclose(wrt_x, np.full((2, 3, 1, 1), 2.5 * 2 * 6), rtol=1e-9)
    np.testing.assert_allclose(wrt_p, np.full((2, 3, 1, 1), 2.5 * 9), rtol=1e-9)


def test_numeric_maps_take_single_points_and_broadcast():
    model = Model.from_function(decides, ["x"], ["k"])
    assert derivatives(model, [2.0], [3.0]).tolist() == [-6.0]
    p = np.array([[[1.0]], [[2.0]]])
    assert model.rhs.value(0.0, np.full((3, 1), 2.0), p, NOTHING)[..., 0].tolist() == [[-2.0] * 3, [-4.0] * 3]


def test_a_failing_function_is_nan_at_that_point_only():
    model = Model.from_function(decides, ["x"], ["k"])
    value = model.rhs.value(0.0, np.array([[-1.0], [0.25]]), np.ones(1), NOTHING)
    np.testing.assert_array_equal(value, [[np.nan], [0.5]])


def test_one_sided_slopes_at_the_edge_of_the_domain():
    model = Model.from_function(
        lambda t, x, p: [math.sqrt(x[0]) ** 3 if x[0] >= 0 else math.sqrt(x[0])], ["x"], []
    )
    _, wrt_x, _ = model.rhs.linearise(0.0, np.zeros(1), NOTHING, NOTHING)
    assert wrt_x.item() == pytest.approx(0.0, abs=1e-3)


def test_a_function_with_a_hidden_branch_is_not_trusted_as_traced():
    def hidden(t, x, p):
        return [x[0] if isinstance(x[0], float) else 2 * x[0]]

    assert derivatives(Model.from_function(hidden, ["x"], []), [3.0], []).tolist() == [3.0]


def test_numeric_models_pickle_with_their_function():
    model = Model.from_function(decides, ["x"], ["k"])
    assert pickle.loads(pickle.dumps(model)) == model


def test_printing_a_numeric_model_names_the_function():
    assert Model.from_function(decides, ["x"], ["k"]).equations == {"x": "computed by the function decides"}


@pytest.mark.parametrize(
    "observables, names, expected",
    [
        (None, ("x", "y"), [2.0, 3.0]),
        (["y"], ("y",), [3.0]),
        ({"total": "x + r*y"}, ("total",), [32.0]),
        (lambda t, x, p: {"z": x.x * x.y, "w": 1}, ("z", "w"), [6.0, 1.0]),
        (lambda t, x, p: [x[1], x[0]], ("y1", "y2"), [3.0, 2.0]),
        (lambda t, x, p: x[0] * p.r, ("y1",), [20.0]),
        (lambda t, x, p: [x[0] if x[0] > 0 else 0.0], ("y1",), [2.0]),
    ],
)
def test_observables_of_function_models(observables, names, expected):
    model = Model.from_function(by_index, ["x", "y"], ["r", "K", "a"], observables=observables)
    assert model.observables == names
    value = model.output.value(0.0, np.array([2.0, 3.0]), np.array([10.0, 1.0, 1.0]), NOTHING)
    np.testing.assert_allclose(value, expected)


@pytest.mark.parametrize(
    "function, options, culprit",
    [
        (lambda t, x, p: [x[0]], {"states": ["x", "y"]}, "returned 1 value for 2 states"),
        (lambda t, x, p: None, {}, "returned nothing"),
        (lambda t, x, p: {"z": 1}, {}, "return `x`"),
        (lambda t, x, p: [[1, 2]], {}, "flat sequence"),
        (lambda t, x, p: ["a"], {}, "flat sequence"),
        (lambda t, x, p: [1 / 0], {}, "ZeroDivisionError"),
        (lambda t, x, p: [p.missing], {}, "missing"),
        (lambda t, x, p: [p["missing"]], {}, "asks for `missing`, which is not among `k`"),
        (lambda t, x, p: [x[3]], {}, "IndexError"),
        (lambda t, x: [x[0]], {}, "takes 2 arguments"),
        (lambda t, x, p: [x[0]], {"inputs": ["dose"]}, "no argument for the inputs `dose`"),
        ("x", {}, "not a function"),
        (decides, {"states": []}, "at least one state"),
        (decides, {"parameters": ["x"]}, "`x` is declared twice"),
        (decides, {"states": "x"}, "['x']"),
        (decides, {"parameters": ["a b"]}, "not a name"),
        (decides, {"observables": {"y": "scale*x"}}, "declare it in `parameters`"),
    ],
)
def test_errors_of_functions_name_the_culprit(function, options, culprit):
    with pytest.raises(InputError) as caught:
        Model.from_function(function, **{"states": ["x"], "parameters": ["k"], **options})
    assert culprit in str(caught.value)


def test_printed_model_shows_observed_states():
    assert "observables x" in str(Model("x' = -a*x")).splitlines()


@pytest.mark.parametrize("text", ["__import__('os').system('ls')", "eval( 'x' )", "x + 'y'"])
def test_quoted_text_is_not_taken_for_a_prime(text):
    with pytest.raises(InputError, match="contains text in quotes"):
        Model(f"x' = {text}")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("x' = (t < ts)*2 - a*x", ("ts",)),
        ("x' = where(t < tau, 1, 0)", ("tau",)),
        ("x' = tau*heaviside(t - tau)", ()),
        ("x' = sign(t - q) + max(x, c)", ("q",)),
    ],
)
def test_parameters_that_occur_in_conditions_only(text, expected):
    assert Model(text).switching_parameters == expected


def test_a_misspelt_parameter_of_a_function_is_corrected():
    with pytest.raises(InputError, match="Did you mean `alpha`"):
        Model.from_function(lambda t, x, p: [-p.alpa * x[0]], ["x"], ["alpha"])


def test_inputs_that_decide_when_something_switches_give_breaks():
    model = Model("x' = -k*x if t < 2*on else d - x", inputs=["on", "d"])
    sources = {"on": as_input("on", 1.5), "d": as_input("d", ([0, 7], [1, 2]))}
    assert model.breakpoints == ()
    assert model.breaks(sources) == (3.0, 7.0)
    found = simulate(model, {"k": 1.0}, {"x": 1.0}, [3.0, 5.0], sources).states["x"]
    assert found == pytest.approx([np.exp(-3), 1 + (np.exp(-3) - 1) * np.exp(-2)], rel=1e-8)


# ---- units -------------------------------------------------------------------------------------------------


def test_an_observable_that_is_a_state_alone_has_its_unit():
    model = Model("x' = -a*x", observables={"y": "x", "z": "2*x"}, units={"x": "mg", "t": "h"})
    assert [model.unit(name) for name in ("x", "y", "z", "t", "a")] == ["mg", "mg", "", "h", ""]


def test_units_do_not_make_models_different():
    assert Model("x' = -a*x", units={"x": "mg"}) == Model("x' = -a*x")


@pytest.mark.parametrize(
    "units, words",
    [
        ({"xx": "mg"}, "`xx` in units is not a name of the model"),
        ({"x": 3}, "not text"),
        ("mg", "not a mapping"),
    ],
)
def test_bad_units_are_explained(units, words):
    with pytest.raises(InputError, match=words):
        Model("x' = -a*x", units=units)


def test_a_function_that_fails_far_from_the_start_says_where():
    def f(t, x, p):
        if float(x[0]) < 0.7:
            x[0] = 0.0
        return [-p[0] * float(x[0])]

    model = Model.from_function(f, ["x"], ["k"])
    with pytest.raises(InputError) as caught:
        simulate(model, {"k": 1.0}, {"x": 1.0}, [0, 1])
    assert (caught.value.code, caught.value.subject) == ("formulas.function_failed", "f")
    assert caught.value.values["x"][0] < 0.7
    assert isinstance(caught.value.__cause__, TypeError)
