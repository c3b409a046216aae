"""Independent integration against closed forms."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.model.inputs import Table, as_input
from picardfit.model.model import Model
from picardfit.simulation.trajectories import Integration, Run, last_time, observed, trajectories

DECAY = Model("x' = -a*x + u", inputs=["u"])
LOGISTIC = Model("x' = r*x*(1 - x/K)")
RICCATI = Model("x' = a*x^2")
LORENZ = Model("x1' = 10*s*(x2 - x1)\nx2' = 10*x1*(rho - x3) - x2\nx3' = 10*x1*x2 - beta*x3")
VAN_DER_POL = Model("x' = y\ny' = mu*(1 - x^2)*y - x")


def run(initial, params, times, inputs=None, t0=0.0):
    sources = {name: as_input(name, spec) for name, spec in (inputs or {}).items()}
    breaks = tuple(b for source in sources.values() for b in source.breakpoints)
    return Run(
        t0, np.array(initial, float), np.array(params, float), sources, np.asarray(times, float), breaks
    )


def lorenz_runs(count, horizon=2.0):
    rng = np.random.default_rng(3)
    return [run(rng.normal(size=3), [1, 2.8, 8 / 3], np.linspace(0, horizon, 21)) for _ in range(count)]


def logistic(t, x0, r, K):
    return K / (1 + (K / x0 - 1) * np.exp(-r * t))


def test_logistic_growth_has_its_closed_form():
    t = np.linspace(0, 10, 37)
    states = trajectories(LOGISTIC, [run([0.01], [1.3, 2.0], t)])[0]
    np.testing.assert_allclose(states[:, 0], logistic(t, 0.01, 1.3, 2.0), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_accuracy_does_not_depend_on_units(scale):
    t = np.linspace(0, 10, 11)
    states = trajectories(LOGISTIC, [run([0.01 * scale], [1.3, 2.0 * scale], t)])[0]
    np.testing.assert_allclose(states[:, 0] / scale, logistic(t, 0.01, 1.3, 2.0), rtol=1e-9)


def steps_response(t):
    """x' = -x + u from 0, u = 1 up to time 1, 0 up to 2, then 3."""
    first, second = 1 - np.exp(-1.0), (1 - np.exp(-1.0)) * np.exp(-1.0)
    return np.select(
        [t <= 1, t <= 2], [1 - np.exp(-t), first * np.exp(1 - t)], 3 + (second - 3) * np.exp(2 - t)
    )


@pytest.mark.parametrize(
    "u",
    [
        ([0, 1, 2], [1.0, 0.0, 3.0]),
        "where(t < 1, 1, where(t < 2, 0, 3))",
        "where(3*t < 3, 1, 3*heaviside(7*t - 14))",
    ],
)
def test_jumps_of_an_input_are_integrated_exactly(u):
    t = np.linspace(0, 3, 31)
    states = trajectories(DECAY, [run([0.0], [1.0], t, {"u": u})])[0]
    np.testing.assert_allclose(states[:, 0], steps_response(t), atol=1e-10)


def test_smooth_input_of_time():
    t = np.linspace(0, 5, 11)
    states = trajectories(DECAY, [run([1.0], [1.0], t, {"u": "cos(t)"})])[0]
    np.testing.assert_allclose(states[:, 0], 0.5 * (np.cos(t) + np.sin(t)) + 0.5 * np.exp(-t), atol=1e-10)


def test_stiff_decay_follows_its_slow_solution():
    k, t = 1e6, np.linspace(0.1, 2, 20)
    states = trajectories(Model("x' = -k*(x - cos(t))"), [run([2.0], [k], t)])[0]
    np.testing.assert_allclose(states[:, 0], (k * k * np.cos(t) + k * np.sin(t)) / (1 + k * k), atol=1e-10)


def test_stiff_runs_can_be_stacked():
    k, t = 1e6, np.linspace(0.1, 2, 20)
    model = Model("x' = -k*(x - cos(t))\ny' = x")
    runs = [run([x0, 0.0], [k], t) for x0 in (2.0, 1.0, 0.0, -1.0, 3.0)]
    for states in trajectories(model, runs):
        np.testing.assert_allclose(states[:, 0], (k * k * np.cos(t) + k * np.sin(t)) / (1 + k * k), atol=1e-9)


def test_stiff_chemistry_conserves_mass_over_nine_decades():
    model = Model("x' = -a*x + b*y*z\ny' = a*x - b*y*z - c*y^2\nz' = c*y^2")
    states = trajectories(model, [run([1, 0, 0], [0.04, 1e4, 3e7], [0.4, 4e1, 4e3, 4e5])])[0]
    np.testing.assert_allclose(states.sum(axis=1), 1.0, atol=1e-9)


def test_stiff_chemistry_has_its_published_value():
    model = Model("x' = -a*x + b*y*z\ny' = a*x - b*y*z - c*y^2\nz' = c*y^2")
    states = trajectories(model, [run([1, 0, 0], [0.04, 1e4, 3e7], [40.0])])[0]
    np.testing.assert_allclose(states[0], [0.7158270688, 9.185534764e-6, 0.2841637457], rtol=1e-8)


def test_explosion_gives_none():
    assert trajectories(RICCATI, [run([1.0], [1.0], [0.5, 2.0])]) == [None]


def test_last_time_is_where_the_solution_explodes():
    assert last_time(RICCATI, run([2.0], [1.0], [0.1, 2.0])) == pytest.approx(0.5, rel=1e-3)


def test_last_time_is_where_the_right_hand_side_ends():
    end = 2 - 4 * np.log(1.5)  # integral of 1/(2 + sqrt(x)) from 0 to 1
    model = Model("x' = -2 - a*sqrt(x)")
    assert last_time(model, run([1.0], [1.0], [5.0])) == pytest.approx(end, rel=0.05)


def test_hundreds_of_jumps_are_within_the_budget():
    jumps = (np.arange(500) / 100, np.arange(500) % 2)
    states = trajectories(DECAY, [run([0.0], [0.0], [5.0], {"u": jumps})])[0]
    assert states[0, 0] == pytest.approx(2.5, abs=1e-9)


def test_one_exploding_run_leaves_the_others_alone():
    t = np.linspace(0, 2, 5)
    starts = [0.1, 0.2, 1.0, 0.3, -1.0]
    solved = trajectories(RICCATI, [run([x0], [1.0], t) for x0 in starts])
    assert solved[2] is None
    for x0, states in zip(starts, solved, strict=True):
        if x0 != 1.0:
            np.testing.assert_allclose(states[:, 0], x0 / (1 - x0 * t), rtol=1e-9)


def test_undefined_right_hand_side_gives_none():
    assert trajectories(Model("x' = -1 - a*sqrt(x)"), [run([1.0], [1.0], [5.0])]) == [None]


@pytest.mark.parametrize("initial, params", [([np.nan], [1.0]), ([1.0], [np.inf])])
def test_values_that_are_not_finite_give_none(initial, params):
    assert trajectories(RICCATI, [run(initial, params, [0.1])]) == [None]


def test_failures_are_silent(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trajectories(RICCATI, [run([1.0], [1.0], [2.0])])
        trajectories(Model("x' = -1 - a*sqrt(x)"), [run([1.0], [1.0], [5.0])])
    assert capfd.readouterr() == ("", "")


def test_stack_agrees_with_single_runs():
    runs = lorenz_runs(12)
    single = [trajectories(LORENZ, [one])[0] for one in runs]
    np.testing.assert_allclose(trajectories(LORENZ, runs), single, atol=2e-9)


def test_runs_with_different_horizons_breaks_and_times_keep_their_order():
    rng = np.random.default_rng(1)
    runs, answers = [], []
    for k in range(11):
        t = np.sort(rng.uniform(0, 1 + k, 4 + k))
        inputs = ([0.0, 0.5], [0.0, 2.0]) if k % 2 else 0.0
        runs.append(run([1.0 + k], [1.0], t, {"u": inputs}))
        late = 2.0 * (1 - np.exp(-np.maximum(t - 0.5, 0))) if k % 2 else 0.0
        answers.append((1.0 + k) * np.exp(-t) + late)
    for states, answer in zip(trajectories(DECAY, runs), answers, strict=True):
        np.testing.assert_allclose(states[:, 0], answer, atol=1e-9)


def test_repeated_times_and_the_initial_time_are_samples_too():
    states = trajectories(RICCATI, [run([0.5], [1.0], [0, 0, 1, 1])])[0]
    np.testing.assert_allclose(states[:, 0], [0.5, 0.5, 1.0, 1.0], rtol=1e-9)


def test_time_need_not_start_at_zero():
    states = trajectories(RICCATI, [run([0.5], [1.0], [-3.0, -2.0], t0=-3.0)])[0]
    np.testing.assert_allclose(states[:, 0], [0.5, 1.0], rtol=1e-9)


def test_run_of_no_length_is_its_initial_state():
    np.testing.assert_array_equal(trajectories(RICCATI, [run([0.5], [1.0], [0.0, 0.0])])[0], [[0.5], [0.5]])


def test_component_that_starts_at_zero_is_accurate():
    model = Model("x' = -a*x\ny' = a*x - b*y")
    t = np.array([1e-6, 1e-3, 1.0])
    states = trajectories(model, [run([1.0, 0.0], [2.0, 1.0], t)])[0]
    np.testing.assert_allclose(states[:, 1], 2 * (np.exp(-t) - np.exp(-2 * t)), rtol=1e-8)


def test_relaxation_oscillation_is_integrated():
    states = trajectories(VAN_DER_POL, [run([2.0, 0.0], [1000.0], [2000.0])])[0]
    assert states[0, 0] == pytest.approx(1.706167732, abs=1e-7)  # test set for IVP solvers, vdpol


def test_python_functions_are_integrated():
    def f(t, x, p):
        return [-p[0] * x[0] if x[0] > 0 else 0.0]

    model = Model.from_function(f, states=["x"], parameters=["a"])
    states = trajectories(model, [run([1.0], [2.0], [0.5, 1.0])])[0]
    np.testing.assert_allclose(states[:, 0], np.exp([-1.0, -2.0]), rtol=1e-9)


def test_observables_see_the_new_value_of_an_input_at_its_jump():
    model = Model("x' = -a*x", observables={"y": "x + u"}, inputs=["u"])
    one = run([0.0], [1.0], [0.5, 1.0], {"u": ([0, 1], [0.0, 5.0])})
    np.testing.assert_allclose(observed(model, one, np.zeros((2, 1)))[:, 0], [0.0, 5.0])


def test_threads_do_not_disturb_each_other():
    runs = lorenz_runs(8)
    single = [trajectories(LORENZ, [one])[0] for one in runs]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(lambda one: trajectories(LORENZ, [one])[0], runs))
    np.testing.assert_array_equal(threaded, single)


def test_many_runs_are_fast():
    runs = lorenz_runs(100)
    trajectories(LORENZ, runs[:5])
    trajectories(LORENZ, runs)


def test_the_kinks_of_a_fine_table_need_no_restart():
    rows = np.linspace(0, 8, 1601)
    table, times = Table(rows, np.sin(3 * rows), "linear"), np.linspace(0, 8, 9)
    one = run([0.2], [1.0], times, {"u": table})
    assert len(one.edges) < 60
    everywhere = replace(one, breaks=tuple(rows))
    restarted = trajectories(DECAY, [everywhere], rtol=1e-10)[0]
    np.testing.assert_allclose(trajectories(DECAY, [one], rtol=1e-10)[0], restarted, rtol=1e-8, atol=1e-8)


def test_a_pulse_of_one_row_is_never_stepped_across():
    rows = np.linspace(0, 80, 8001)
    table = Table(rows, np.where(np.arange(8001) == 5003, 100.0, 0.0), "linear")
    states = trajectories(DECAY, [run([2.0], [1e-3], [80.0], {"u": table})])[0]
    expected = 2 * np.exp(-0.08) + 100 * 0.01 * np.exp(-1e-3 * (80 - rows[5003]))
    np.testing.assert_allclose(states[0, 0], expected, rtol=1e-8)


RING = Model(
    "; ".join(f"x{i}' = k*x{i - 1 if i else 9}/(1 + x{i}^2) + u - d*x{i}" for i in range(10)), inputs=["u"]
)


def ring_runs(count):
    rng = np.random.default_rng(5)
    return [
        run(
            rng.uniform(0, 2, 10), [30.0, 20.0], np.linspace(0, 3 + k, 7), {"u": lambda t, k=k: np.cos(t + k)}
        )
        for k in range(count)
    ]


@pytest.mark.parametrize("few", [1, 100], ids=["stacked", "one by one"])
def test_stacks_and_single_runs_have_the_accuracy_asked_for(few):
    runs = ring_runs(4)
    exact = trajectories(RING, runs, 1e-12, settings=Integration(smallest_stack=100))
    chosen = Integration(smallest_stack=few, stack_per_state=0.0)
    for one, wanted in zip(trajectories(RING, runs, settings=chosen), exact, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=1e-11)


def test_flows_that_cancel_are_integrated_as_accurately_as_floats_allow():
    """A and B of 1e9 exchange at rates of 1e13; the difference of their flows drives a small state.

    With s = k + b, A = e + (A0 - e) exp(-s t) and y' = -c A' - m y, whose solution is below.
    """
    k, b, m, c = 1.7e4, 2.3e4, 0.1, 1e-3
    model = Model("A' = -k*A + b*B; B' = k*A - b*B; y' = c*(k*A - b*B) - m*y")
    t = np.linspace(0, 500, 11)
    values = {"k": k, "b": b, "m": m, "c": c}
    found = trajectories(model, [run([1e9, 3e8, 1e-3], [values[n] for n in model.parameters], t)])[0]
    rate, gone = k + b, 1e9 - b * 1.3e9 / (k + b)
    driven = c * rate * gone / (rate - m)
    exact = (1e-3 + driven) * np.exp(-m * t) - driven * np.exp(-rate * t)
    noise = np.finfo(float).eps * c * k * 1e9 / m
    np.testing.assert_allclose(found[:, 2], exact, rtol=1e-8, atol=noise)


def test_unbounded_growth_is_still_an_explosion():
    assert trajectories(RICCATI, [run([1e9], [1.0], [0, 1.0])])[0] is None


def test_a_small_difference_of_large_states():
    """b sees the difference of two states of 1e9, whose rounding is larger than any tolerance of b's own size."""
    model = Model("a' = -k*(a - c); c' = k*(a - c); b' = d*(a - c) - 0.1*b")
    t, values = np.array([0.0, 1.0, 10.0]), {"k": 100.0, "d": 1.0}
    found = trajectories(model, [run([1.0000001e9, 1e9, 0.0], [values[n] for n in model.parameters], t)])[0]
    exact = 100.0 / (200 - 0.1) * (np.exp(-0.1 * t) - np.exp(-200 * t))
    np.testing.assert_allclose(
        found[:, 2], exact, rtol=1e-3
    )  # 14 digits of 1e9 leave a few of the difference


@pytest.mark.parametrize("first", [0.0, 1e-6, 1.0])
def test_a_state_that_sleeps_until_another_one_crosses_a_threshold(first):
    """Its size is not known to begin with: relative accuracy at its kink would need steps shorter than rounding."""
    model = pf.Model("a' = -a\nb' = where(a < 0.5, 1, 0) - b")
    times = np.linspace(0.1, 10, 50)
    found = pf.simulate(model, {}, {"a": 1.0, "b": first}, times).states["b"]
    awake = np.maximum(times - np.log(2), 0.0)
    np.testing.assert_allclose(found, first * np.exp(-times) + 1 - np.exp(-awake), atol=1e-9)
