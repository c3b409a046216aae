"""Initial states that follow from others: derivatives, the same optimum as with a parameter, circles."""

import numpy as np
import pytest

import picardfit as pf

MODEL = pf.Model("S' = -b*S*I\nI' = b*S*I - g*I\nR' = g*I", observables=["I"])
TIMES = np.linspace(0, 20, 15)
TRUTH = {"b": 0.0003, "g": 0.5}
BOUNDS = {"b": pf.Parameter(1e-5, 1e-2, log=True), "g": (0.01, 5)}


def data(infected=30.0, seed=0):
    initial = {"S": 5000 - infected, "I": infected, "R": 0.0}
    exact = pf.simulate(MODEL, TRUTH, initial, TIMES).observables["I"]
    return {"I": exact * (1 + 0.02 * np.random.default_rng(seed).standard_normal(len(TIMES)))}


def problem(initial, more=None, **options):
    runs = [pf.Experiment(TIMES, data(n), f"town {n}", **options) for n in (20, 50)]
    return pf.Problem(MODEL, runs, BOUNDS | (more or {}), initial=initial)


@pytest.mark.parametrize("written", ["5000 - I", "5000 - I(0)", "5000 - R - I ( 0 )"])
def test_a_state_follows_from_another(written):
    one = problem({"S": written, "I": (1, 500), "R": 0.0}).layout
    values, _ = one.initial(one.internal(np.array([[30.0, 1e-3, 1.0], [40.0, 1e-3, 1.0]])))
    np.testing.assert_allclose(values, [[4970, 30, 0], [4960, 40, 0]])


@pytest.mark.parametrize("log", [False, True])
def test_derivatives_are_those_of_central_differences(log):
    initial = {"S": "total - I - R", "I": pf.Parameter(1, 500, log=log), "R": "share*I^2"}
    one = problem(initial, {"total": (1000, 9000), "share": (0, 1)}).layout
    columns = [one.label(0, c).split("[")[0] for c in range(one.width)]
    place = {"I(0)": 30.0, "b": 1e-3, "g": 1.0, "total": 5000.0, "share": 0.25}
    point = one.internal(np.tile([place[name] for name in columns], (2, 1)))
    _, derivative = one.initial(point)
    for column in range(one.width):
        step = 1e-5 * np.eye(one.width)[column]
        difference = (one.initial(point + step)[0] - one.initial(point - step)[0]) / 2e-5
        np.testing.assert_allclose(derivative[..., column], difference, rtol=1e-6, atol=1e-6)


def test_the_fit_is_that_with_a_parameter_in_place_of_the_state():
    ours = pf.fit(problem({"S": "5000 - I", "I": (1, 500), "R": 0.0}))
    own = {"n": pf.Parameter(1, 500, local=True)}
    theirs = pf.fit(problem({"S": "5000 - n", "I": "n", "R": 0.0}, own))
    assert ours.success
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-8)
    for town in ("town 20", "town 50"):
        assert ours.standard_errors[f"I(0)[{town}]"] == pytest.approx(
            theirs.standard_errors[f"n[{town}]"], rel=1e-5
        )
        assert ours.initial_states[town]["S"] == pytest.approx(5000 - ours.initial_states[town]["I"])


def test_a_state_follows_from_one_at_rest():
    model = pf.Model("x' = k - x\ny' = x - y", observables=["y"])
    rest = pf.Rest(initial={"x": 0.0, "y": 0.0})
    one = pf.Experiment([1.0, 2.0], {"y": [1.0, 2.0]}, rest=rest, initial={"y": "3*x"})
    layout = pf.Problem(model, one, {"k": (0, 5)}).layout
    values, derivative = layout.initial(np.array([[2.0]]))
    np.testing.assert_allclose(values, [[2.0, 6.0]], rtol=1e-8)
    np.testing.assert_allclose(derivative[0, :, 0], [1.0, 3.0], rtol=1e-8)


def test_doses_at_the_beginning_come_after_the_formula():
    doses = pf.Doses([0.0], [100.0], into="I")
    one = problem({"S": "5000 - I", "I": (1, 500), "R": 0.0}, doses=doses).layout
    values, _ = one.initial(one.internal(np.array([[30.0, 1e-3, 1.0], [40.0, 1e-3, 1.0]])))
    np.testing.assert_allclose(values[:, :2], [[4970, 130], [4960, 140]])


@pytest.mark.parametrize("initial", [{"S": "2*S"}, {"S": "R - I", "R": "I + 1", "I": "S"}])
def test_formulas_in_a_circle_are_refused(initial):
    with pytest.raises(pf.InputError) as caught:
        problem(initial)
    assert caught.value.code == "problem.initial_circle"
