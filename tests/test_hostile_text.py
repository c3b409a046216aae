"""Hostile or huge text is refused by a short sentence before anything expensive begins."""

import io

import numpy as np
import pytest

import picardfit as pf
from picardfit.importers import petab

EQUATIONS = {
    "x' = -x*min(" + ",".join(["x"] * 3000) + ")": "formulas.many_choices",
    "x' = -k*piecewise(" + ",".join(f"{i}, t<{i}" for i in range(1, 1500)) + ",0)": "formulas.many_choices",
    "x' = -k*piecewise("
    + ",".join(f"({i},t<{i})" for i in range(1, 1500))
    + ",(0,True))": "formulas.many_choices",
    "x' = " + "+".join(["x"] * 500_000): "formulas.long_text",
    "x' = " + "(" * 1_000_000: "formulas.long_text",
    "x' = " + "(" * 400_000: "formulas.never_closed",
    "x' = " + "a" * 400_000: "formulas.too_long",
    "x' = " + "a" * 15_000: "formulas.long_name",
    "x" * 5_000 + "' = -k": "formulas.long_name",
    "\n".join(f"y{i}' = -k*y{i}" for i in range(3000)): "formulas.large_model",
    "\n".join(f"y{i}' = -k{i}*y0 - l{i}" for i in range(900)): "formulas.large_model",
    "x' = -k\ud800*x": "formulas.unexpected_character",
    "x' = ((9*x)**900)**900": "formulas.exponent_too_large",
}


def refusal(call, *args):
    """The code of the InputError that a call raises, whose message has a few lines at most."""
    with pytest.raises(pf.InputError) as caught:
        call(*args)
    assert len(str(caught.value)) < 1200
    assert str(caught.value).count("\n") < 20
    return caught.value.code


@pytest.mark.parametrize("text, code", EQUATIONS.items(), ids=lambda one: one[:16])
def test_equations(text, code):
    assert refusal(pf.Model, text) == code


def test_oscillations_of_a_fixed_parameter_that_no_data_resolve():
    data = pf.Experiment(np.linspace(0, 10, 9), {"x": np.ones(9)})
    problem = pf.Problem(pf.Model("x' = sin(w*t) - k*x"), data, {"k": (0.1, 5), "w": 1e6})
    assert refusal(pf.fit, problem) == "formulas.fast_oscillation"


@pytest.mark.parametrize(
    "wave, bounds",
    [
        ("sin(w*t)", {"w": (1e5, 1e6)}),
        ("sin(-2*pi*t/period)", {"period": (1e-6, 1e-5)}),
        ("cos((w0 + dw)*t)", {"w0": 1e6, "dw": (-1e5, 1e5)}),
    ],
)
def test_oscillations_too_fast_for_all_values_within_bounds(wave, bounds):
    data = pf.Experiment(np.linspace(0, 10, 20), {"x": np.ones(20)})
    problem = pf.Problem(pf.Model(f"x' = -k*x*(1 + {wave})"), data, {"k": (0.1, 5), **bounds})
    assert refusal(pf.fit, problem) == "formulas.fast_oscillation"


@pytest.mark.parametrize(
    "wave, bounds", [("sin(w*t)", (1, 1e6)), ("sin(w*t)", (-1e6, 1e6)), ("sin(x*w*t)", (1e5, 1e6))]
)
def test_oscillations_that_may_be_slow_are_no_fault(wave, bounds):
    data = pf.Experiment(np.linspace(0, 10, 20), {"x": np.ones(20)})
    pf.Problem(pf.Model(f"x' = -k*x*(1 + {wave})"), data, {"k": (0.1, 5), "w": bounds}).check_inputs()


@pytest.mark.parametrize("in_equations", [True, False])
def test_oscillations_that_no_data_resolve(in_equations):
    model = pf.Model("x' = sin(1e6*t) - k*x") if in_equations else pf.Model("x' = u - k*x", inputs=["u"])
    inputs = {} if in_equations else {"u": "cos(1e6*t + 1)"}
    data = pf.Experiment(np.linspace(0, 10, 9), {"x": np.ones(9)}, inputs=inputs)
    assert refusal(pf.fit, pf.Problem(model, data, {"k": (0.1, 5)})) == "formulas.fast_oscillation"


def test_a_million_columns():
    text = "time," + ",".join(f"c{k}" for k in range(10**6)) + "\n"
    assert refusal(pf.read_table, io.StringIO(text)) == "files.many_columns"


def test_half_a_character_of_utf_16(tmp_path):
    (tmp_path / "a.csv").write_bytes("time,x\n0,1\n".encode("utf-16")[:-1])
    assert refusal(pf.read_table, tmp_path / "a.csv") == "files.truncated_text"


@pytest.mark.parametrize(
    "text, code",
    [
        ("a = " + "[" * 100_000, "files.nested_too_deeply"),
        ("a" + ".a" * 100_000 + " = 1", "files.nested_too_deeply"),
        ("#" * 3_000_000, "files.too_large"),
        ("\n".join(f"a{k} = 1" for k in range(50_000)), "files.faults"),
    ],
)
def test_problem_files(tmp_path, text, code):
    (tmp_path / "problem.toml").write_text(text)
    with pytest.raises(pf.InputError) as caught:
        pf.read_problem(tmp_path)
    assert caught.value.code == code
    assert str(caught.value).count("\n") < 20


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 20_000,
        "\n".join(" " * k + "a:" for k in range(2000)),
        "a0: &a0 [x, x]\n"
        + "\n".join(f"a{k}: &a{k} [*a{k - 1}, *a{k - 1}]" for k in range(1, 60))
        + "\nformat_version: *a59\n",
    ],
    ids=["flow", "block", "aliases"],
)
def test_yaml(tmp_path, text):
    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text(text)
    assert refusal(petab.load, tmp_path / "a.yaml") == "importers.not_yaml"


def test_a_name_of_a_hundred_thousand_letters():
    data = pf.Experiment([0, 1], {"x": [1, 2]})
    assert refusal(pf.Problem, pf.Model("x' = -k*x"), data, {"q" * 100_000: (0, 1)})


def test_a_saved_fit_of_brackets(tmp_path):
    (tmp_path / "fit.json").write_text("[" * 200_000)
    assert refusal(pf.load, tmp_path / "fit.json") == "files.not_json"
