"""Points of rest and their derivatives: conserved totals, volumes as parameters, systems that never rest."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.simulation.side_by_side import SideBySide
from picardfit.simulation.steady_states import SteadySearch, steady_state, steady_states

NOTHING = np.zeros(0)
ALONE = SteadySearch(side_by_side=SideBySide(least_size=10**9))


def by_differences(model, start, params, h=1e-5):
    """Derivatives of the point of rest by central differences."""

    def at(s, p):
        return steady_state(model.rhs, 0.0, s, p, NOTHING).states

    by_params = [(at(start, params + d) - at(start, params - d)) / (2 * h) for d in h * np.eye(len(params))]
    by_start = [(at(start + d, params) - at(start - d, params)) / (2 * h) for d in h * np.eye(len(start))]
    return np.array(by_params).T, np.array(by_start).T


MODELS = {
    "no conserved total": ("x' = a - b*x; y' = b*x - c*y*y", [1.0, 0.5], [2.0, 0.7, 0.3]),
    "from nothing": ("x' = a - b*x; y' = b*x - c*y*y", [0.0, 0.0], [2.0, 0.7, 0.3]),
    "a total": ("x' = -a*x + b*y; y' = a*x - b*y", [1.0, 0.5], [2.0, 0.7]),
    "a total that depends on a volume": ("x' = (-a*x + b*y)/V; y' = a*x - b*y", [1.0, 0.5], [2.0, 0.7, 1.7]),
    "two totals, nonlinear": (
        "e' = -a*e*s + (b + c)*z; s' = -a*e*s + b*z + d*q; z' = a*e*s - (b + c)*z; q' = c*z - d*q",
        [1.0, 3.0, 0.1, 0.2],
        [2.0, 0.7, 0.4, 0.9],
    ),
    "rates over eight decades": ("x' = a - b*x; y' = c*x - d*y", [0.1, 5.0], [1e4, 1e4, 2e-4, 1e-4]),
}


@pytest.mark.parametrize("name", MODELS)
def test_rest_and_its_derivatives(name):
    text, start, params = MODELS[name]
    model = pf.Model(text)
    start, params = np.array(start), np.array(params)
    steady = steady_state(model.rhs, 0.0, start, params, NOTHING)
    scale = np.abs(model.rhs.linearise(0.0, steady.states, params, NOTHING)[1]).max()
    assert np.abs(model.rhs.value(0.0, steady.states, params, NOTHING)).max() < 1e-10 * scale
    by_params, by_start = by_differences(model, start, params, 1e-9 if "decades" in name else 1e-5)
    tolerance = {"rel": 1e-2, "abs": 1e-2} if "decades" in name else {"rel": 1e-6, "abs": 1e-8}
    assert steady.by_params == pytest.approx(by_params, **tolerance)
    assert steady.by_start == pytest.approx(by_start, **tolerance)


def test_the_start_decides_between_two_points_of_rest():
    rhs = pf.Model("x' = x - x^3").rhs
    found = [steady_state(rhs, 0.0, np.array([x]), NOTHING, NOTHING).states[0] for x in (-0.1, 0.1, 3.0)]
    assert found == pytest.approx([-1, 1, 1])


@pytest.mark.parametrize("text", ["x' = y; y' = -x", "x' = x", "x' = x^2"])
def test_no_rest(text):
    model = pf.Model(text)
    assert steady_state(model.rhs, 0.0, np.ones(len(model.states)), NOTHING, NOTHING) is None


def problem(data=(0.5, 0.45)):
    model = pf.Model("A' = -k*d*A + b*B; B' = k*d*A - b*B", ["A"], inputs=["d"])
    one = pf.Experiment(
        [1.0, 10.0],
        {"A": list(data)},
        inputs={"d": 0.8},
        rest=pf.Rest({"d": 0.3}, {"A": "a0", "B": 0.2}),
    )
    return pf.Problem(model, one, {"k": (0.1, 10), "b": (0.1, 10), "a0": 1.0})


def test_an_experiment_starts_from_rest():
    one = problem()
    unknowns = np.array([[1.0, 0.6]])
    values, slope = one.layout.initial(unknowns)
    total = 1.2
    assert values[0] == pytest.approx([total * 0.6 / 0.9, total * 0.3 / 0.9])
    h = 1e-6
    for column in range(2):
        up, down = unknowns.copy(), unknowns.copy()
        up[0, column] += h
        down[0, column] -= h
        change = (one.layout.initial(up)[0] - one.layout.initial(down)[0]) / (2 * h)
        assert slope[0, :, column] == pytest.approx(change[0], rel=1e-6)


def test_rest_is_fitted_and_saved(tmp_path):
    truth = problem().experiments[0]
    start = problem().layout.initial(np.array([[1.0, 0.6]]))[0][0]
    model = problem().model
    data = pf.simulate(
        model, {"k": 1.0, "b": 0.6}, dict(zip("AB", start, strict=True)), truth.times, {"d": 0.8}
    )
    fit = pf.fit(problem(data.observables["A"]))
    assert fit.parameters["k"] == pytest.approx(1.0, rel=1e-5)
    assert fit.parameters["b"] == pytest.approx(0.6, rel=1e-5)
    fit.save(tmp_path / "fit.json")
    again = pf.load(tmp_path / "fit.json")
    assert again.problem.loss(fit.parameters) == fit.problem.loss(fit.parameters)


def test_what_a_rest_must_say():
    model = pf.Model("x' = d - x", inputs=["d"])
    with pytest.raises(pf.InputError, match="where `x` started"):
        pf.Problem(model, pf.Experiment([1], {"x": [1]}, inputs={"d": 1}, rest=pf.Rest({"d": 2})))
    with pytest.raises(pf.InputError, match="what the input `d` was"):
        pf.Problem(model, pf.Experiment([1], {"x": [1]}, inputs={"d": 1}, rest=pf.Rest({}, {"x": 0})))
    with pytest.raises(pf.InputError, match="is unknown"):
        pf.Rest({"d": 2}, {"x": (0, 1)})


CASCADE = pf.Model("\n".join(["x0' = a - b*x0", *(f"x{k}' = x{k - 1} - c*x{k}*x{k}" for k in range(1, 10))]))


def test_side_by_side_states_come_to_the_same_rest_as_alone():
    rng = np.random.default_rng(1)
    points = [(0.0, rng.uniform(0, 2, 10), rng.uniform(0.5, 2, 3), NOTHING) for _ in range(8)]
    together = steady_states(CASCADE.rhs, [*points, points[2]])
    assert together[8] is together[2]
    for point, found in zip(points, together, strict=False):
        assert found.states == pytest.approx(
            steady_state(CASCADE.rhs, *point, settings=ALONE).states, rel=1e-12
        )
        a, b, c = point[2]
        assert found.states[:2] == pytest.approx([a / b, np.sqrt(a / b / c)], rel=1e-12)


def test_one_large_state_alone_in_the_array_comes_to_rest():
    point = 0.0, np.ones(10), np.array([1.0, 0.5, 2.0]), NOTHING
    found = steady_states(CASCADE.rhs, [point], SteadySearch(side_by_side=SideBySide(alone=1)))
    assert found[0].states[:2] == pytest.approx([2.0, 1.0], rel=1e-12)


def test_among_several_the_one_that_never_rests_is_named():
    oscillator = pf.Model(
        "x' = y\ny' = -x + k*(1 - x^2)*y\n" + "\n".join(f"z{k}' = 1 - z{k}" for k in range(8))
    )
    points = [(0.0, np.full(10, 0.1), np.array([k]), NOTHING) for k in (-1.0, 1.0, -2.0, -0.5, -3.0)]
    found = steady_states(oscillator.rhs, points)
    assert [one is None for one in found] == [False, True, False, False, False]
