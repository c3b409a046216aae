"""Inputs given as Python functions: what a mesh may miss is told, and what it has missed is no success."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.evidence.input_check import input_errors

TIMES = np.linspace(0, 10, 21)


def pulse(t):
    """A pulse of 0.02 that no sample and few nodes see."""
    return np.where((t > 3.7123) & (t < 3.7323), 100.0, 0.0)


def wave(t):
    return 1 + np.sin(t)


def fitted(source):
    model = pf.Model("x' = u - k*x", inputs=["u"])
    known = pf.Signal(pulse, breakpoints=[3.7123, 3.7323]) if source is pulse else source
    truth = pf.simulate(model, {"k": 0.5}, {"x": 1.0}, TIMES, inputs={"u": known}).observables["x"]
    data = pf.Experiment(TIMES, {"x": truth}, initial={"x": 1.0}, inputs={"u": source})
    return pf.fit(pf.Problem(model, data, {"k": (0.01, 5)}))


def codes(fit):
    return [one.code for one in fit.warnings if "input" in one.code]


@pytest.mark.parametrize(
    "source, warned",
    [
        (wave, ["search.function_input"]),
        (pf.Signal(wave), ["search.function_input"]),
        (pf.Signal(wave, breakpoints=[]), []),
        ("1 + sin(t)", []),
    ],
)
def test_a_function_whose_jumps_are_not_named_is_told(source, warned):
    fit = fitted(source)
    assert fit.success
    assert codes(fit) == warned
    assert fit.certificate.input_error < 1e-6


def test_a_pulse_that_the_mesh_missed_is_no_success():
    fit = fitted(pulse)
    assert fit.certificate.input_error == pytest.approx(1.0)
    assert fit.certificate.mismatch < 1e-6  # the integrators missed it, too
    assert codes(fit) == ["search.input_unresolved"]
    assert not fit.success


def test_a_pulse_with_named_ends_is_fitted():
    fit = fitted(pf.Signal(pulse, breakpoints=[3.7123, 3.7323]))
    assert fit.success
    assert fit.parameters["k"] == pytest.approx(0.5, rel=1e-6)
    assert input_errors(fit.solution)[fit.problem.names[0], "u"] < 1e-14
    assert codes(fit) == []


def test_functions_get_read_only_arrays():
    def changed(t):
        if np.ndim(t):
            t[...] = 0.0  # raises: the function is then called time by time
        return t

    times = np.array([1.0, 2.0])
    np.testing.assert_array_equal(pf.Signal(changed, []).at(times), [1.0, 2.0])
    np.testing.assert_array_equal(times, [1.0, 2.0])


def test_equations_cannot_change_their_arguments():
    def f(t, x, p):
        x = np.asarray(x)
        x[0] = 0.0
        return [-p[0] * x[0]]

    with pytest.raises(pf.InputError, match="read-only"):
        pf.Model.from_function(f, ["x"], ["k"])


def test_equations_may_change_values_of_their_own():
    def f(t, x, p):
        y = x[0]
        y *= -p[0] if y > -10 else 0.0
        return [y]

    model = pf.Model.from_function(f, ["x"], ["k"])
    x = np.array([[1.0], [2.0]])
    np.testing.assert_array_equal(
        model.rhs.value(np.zeros(2), x, np.array([3.0]), np.empty((2, 0)))[:, 0], [-3, -6]
    )
    np.testing.assert_array_equal(x, [[1.0], [2.0]])
