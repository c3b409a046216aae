"""Increments: running states, differences at samples, and what a fit does with samples of several observables."""

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.evidence.expected_information import expected
from picardfit.model.increments import since_last, solved_model

GROWTH = pf.Model(
    "x' = r*x*(1 - x/K)", observables={"new": "increment(x**2 + t)", "size": "x", "more": "increment(K*x)"}
)
VALUES = {"r": 0.8, "K": 10.0}


def _x(t):
    return 10 / (1 + 9 * np.exp(-0.8 * np.asarray(t, float)))


def test_the_running_state_grows_like_the_formula():
    model = solved_model(GROWTH)
    assert model.states == ("x", "increment of new", "increment of more")
    x, p = np.array([[2.0, 0.0, 0.0]]), np.array([[0.8, 10.0]])
    rate = 0.8 * 2 * (1 - 0.2)
    found = model.rhs.value(np.zeros(1), x, p, np.zeros((1, 0)))[0]
    assert found == pytest.approx([rate, 4 * rate + 1, 10 * rate])


def test_changes_are_since_the_last_earlier_time():
    times = np.array([1.0, 2.0, 2.0, 5.0])
    assert since_last(times, np.array([[3.0], [4.0], [4.5], [9.0]]))[:, 0].tolist() == [3.0, 1.0, 1.5, 4.5]


def test_simulated_increments():
    times = [3.0, 1.0, 2.0]  # in any order
    found = pf.simulate(GROWTH, VALUES, {"x": 1.0}, times)
    g = lambda t: _x(t) ** 2 + t  # noqa: E731
    assert found.observables["new"] == pytest.approx([g(3) - g(2), g(1) - g(0), g(2) - g(1)], rel=1e-8)


def _problem(noise=None):
    """Observables with sampling times of their own, a replicate, a sample at t0."""
    data = {
        "new": ([0.0, 1.0, 3.0, 3.0, 6.0], [0.0, 5.0, 40.0, 42.0, 60.0]),
        "size": ([0.5, 2.0, 4.0, 6.0], [1.4, 3.5, 7.0, 9.3]),
        "more": ([2.0, 6.0], [25.0, 58.0]),
    }
    run = pf.Experiment(None, data, "run", t0=0.0)
    return pf.Problem(GROWTH, run, {"r": (0.1, 3), "K": (5, 20)}, {"x": (0.1, 5)}, noise=noise)


def test_each_observable_counts_from_its_own_last_sample():
    problem = _problem()
    times, x = problem.samples.times, {"x": 1.0}
    gaps = {"new": [(0, 0), (1, 0), (3, 1), (3, 1), (6, 3)], "more": [(2, 0), (6, 2)]}
    expected_loss = 0.0
    for name, (_, values) in {
        "new": (None, [0.0, 5.0, 40.0, 42.0, 60.0]),
        "more": (None, [25.0, 58.0]),
    }.items():
        g = (lambda t: _x(t) ** 2 + t) if name == "new" else (lambda t: 10 * _x(t))
        expected_loss += sum((g(b) - g(a) - y) ** 2 for (b, a), y in zip(gaps[name], values, strict=True))
    expected_loss += np.sum((_x([0.5, 2, 4, 6]) - [1.4, 3.5, 7.0, 9.3]) ** 2)
    assert problem.loss(VALUES, x) == pytest.approx(expected_loss / 2 / len(times), rel=1e-8)


def test_derivatives_by_the_unknowns_are_exact():
    """Those that are carried from segment to segment, against differences of an independent integration."""
    problem = _problem(pf.Noise(additive=1.0, proportional=0.1))
    unknowns, step = np.array([[1.0, 0.8, 10.0]]), 1e-5
    found = expected(problem, unknowns)
    layout = problem.layout
    for c in range(3):
        rows = []
        for sign in (-1, 1):
            moved = unknowns.copy()
            moved[0, c] += sign * step
            rows.append(problem.predicted_rows(layout.measured_values(moved), layout.initial(moved)[0]))
        difference = (rows[1] - rows[0]) / (2 * step)
        assert found.jacobian[:, :, c] == pytest.approx(difference, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("noise", [None, pf.Noise(additive=(0.1, 10), proportional=0.05)])
def test_a_fit_agrees_with_integration(noise):
    fit = pf.fit(_problem(noise))
    assert fit.success
    assert fit.certificate.mismatch < 1e-7
    assert fit.certificate.gradient < 1e-8
    times = np.array([0.0, 1.0, 3.0, 6.0])
    again = pf.simulate(GROWTH, fit.parameters_of("run"), fit.initial_states["run"], times, t0=0.0)
    assert fit.predict("run", times)["new"] == pytest.approx(again.observables["new"], rel=1e-6)
    assert list(fit.states("run", times)) == ["x"]


def test_several_experiments():
    runs = [
        pf.Experiment([1, 2, 4.0], {"new": [5.0, 12, 50]}, "a", initial={"x": 1.0}),
        pf.Experiment([0.5, 3.0], {"size": [3.0, 8.0]}, "b", initial={"x": 2.0}),
        pf.Experiment([2.0, 3.0], {"new": [16.0, 19.0]}, "c", initial={"x": 1.0}),
    ]
    fit = pf.fit(pf.Problem(GROWTH, runs, {"r": (0.1, 3), "K": (5, 20)}))
    assert fit.success
    assert fit.certificate.mismatch < 1e-7


def test_formulas_with_inputs_and_functions_are_refused():
    model = pf.Model("x' = -k*x + u", observables={"y": "increment(x*u)"}, inputs=["u"])
    run = pf.Experiment([0, 1], {"y": [0, 1]}, inputs={"u": 1.0})
    assert complaint(lambda: pf.Problem(model, run, {"k": (0, 1)}).layout).code == "model.increment_of_input"


def test_gradient_methods_are_refused():
    error = complaint(pf.fit, _problem(), pf.GradientDescent())
    assert error.code == "solvers.no_increments"


def test_models_with_increments_are_equal_by_content():
    same = pf.Model(GROWTH.text, GROWTH.observable_formulas)
    assert same == GROWTH
    assert same != pf.Model(GROWTH.text, {"new": "x**2 + t", "size": "x", "more": "K*x"})


def test_a_single_segment_needs_no_reset():
    """All of the increments belong to one sample at the end: nothing is reset between segments."""
    model = pf.Model("c' = b", observables={"cases": "increment(c)"})
    run = pf.Experiment([0.0, 1.0], {"cases": [0.0, 2.0]}, initial={"c": 0.0}, t0=0.0)
    fit = pf.fit(pf.Problem(model, run, {"b": (0.01, 30.0)}))
    assert fit.parameters["b"] == pytest.approx(2.0, rel=1e-6)


def test_a_change_at_the_initial_time_is_refused():
    model = pf.Model("c' = b", observables={"cases": "increment(c)"})
    run = pf.Experiment([0.0, 1.0, 2.0], {"cases": [5.0, 8.0, 11.0]}, initial={"c": 0.0}, t0=0.0)
    error = complaint(pf.Problem, model, run, {"b": (0.01, 30.0)}, noise=pf.Poisson())
    assert error.code == "problem.increment_at_t0"
    pf.Problem(model, replace(run, t0=-1.0), {"b": (0.01, 30.0)}, noise=pf.Poisson())
