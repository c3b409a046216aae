"""Formulas at which a right-hand side jumps as a state changes are found, and kinks are not."""

import numpy as np
import pytest

import picardfit as pf


@pytest.mark.parametrize(
    ("equation", "formula", "smooth"),
    [
        ("w' = -b*w - c*sign(w)", "sign(w)", "tanh(w/0.05)"),
        ("w' = -b*w - c*sign(2*w - d)", None, "tanh((2*w - d)/0.05)"),
        ("w' = -b*w + c*(w > 1)", None, "(1 + tanh((w - 1)/0.05))/2"),
        ("w' = -b*w + c*(w < 1)", None, "(1 - tanh((w - 1)/0.05))/2"),
        ("w' = -c*w/abs(w)", "abs(w)", "sqrt(w^2 + 0.05^2) for abs(w)"),
    ],
)
def test_a_jump_is_named_with_a_smooth_formula(equation, formula, smooth):
    (found,) = pf.Model(equation).state_jumps
    assert found.state == "w"
    assert formula in (None, found.formula)
    written = found.smooth.split(" for ")[0]
    assert (
        pf.Model(f"w' = {written}", inputs=[]).equations
        == pf.Model(f"w' = {smooth.split(' for ')[0]}").equations
    )


@pytest.mark.parametrize(
    "equation",
    [
        "w' = -b*abs(w)*w",  # a kink in the second derivative
        "w' = -b*max(w, 0)",
        "w' = -b*w*(w > 0)",  # continuous although it is a comparison
        "w' = -b*w + c*(t > 2)",  # at a known time
        "w' = -b*w + c*sign(u)",  # of an input
        "w' = -b*tanh(w/0.01)",
    ],
)
def test_kinks_and_switches_in_time_are_no_jumps(equation):
    assert pf.Model(equation, inputs=["u"] if "u" in equation else ()).state_jumps == ()


def test_functions_are_not_examined():
    assert pf.Model.from_function(lambda t, x, p, u: [-p[0] * x[0]], ["x"], ["k"]).state_jumps == ()


def friction(law: str) -> pf.Problem:
    """A wheel driven to and fro that sticks when it stops."""
    times, drive = np.linspace(0, 10, 100), {"u": "sin(1.3*t)"}
    exact = pf.Model("w' = (u - b*w - c*tanh(w/0.001))/j", inputs=["u"])
    run = pf.simulate(exact, {"b": 0.5, "c": 0.4, "j": 0.3}, {"w": 0.5}, times, inputs=drive)
    data = np.asarray(run.observables["w"]) + 0.02 * np.random.default_rng(0).standard_normal(100)
    model = pf.Model(f"w' = (u - b*w - c*{law})/j", inputs=["u"])
    bounds = {"b": (0.05, 5), "c": (0.01, 2), "j": (0.03, 3)}
    return pf.Problem(model, pf.Experiment(times, {"w": data}, inputs=drive), bounds)


def test_a_fit_puts_a_smooth_switch_there():
    fit = pf.fit(friction("sign(w)"))
    assert fit.success
    assert fit.parameters["c"] == pytest.approx(0.4, rel=0.1)


def test_the_remedy_works():
    fit = pf.fit(friction("tanh(w/0.05)"))
    assert fit.success
    assert fit.parameters["c"] == pytest.approx(0.4, rel=0.1)
