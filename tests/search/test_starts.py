"""Starting values: what the data show is taken from them, what they do not show follows its equation."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.problem.named_values import unknowns_from
from picardfit.search.starts import draw, make_start, open_values, search_box, spread_evenly

TIMES = np.linspace(0, 4, 41)


def start(model, data, times=TIMES, given=None, rng=None, **options):
    problem = pf.Problem(
        pf.Model(model) if isinstance(model, str) else model, pf.Experiment(times, data), **options
    )
    return make_start(problem, None if given is None else unknowns_from(problem, given, missing="nan"), rng)


def natural(made, problem):
    return problem.layout.parameters(made.unknowns)[0]


def growth(parameter):
    return pf.Problem(
        pf.Model("x' = -k*x"), pf.Experiment([0, 1], {"x": [1, 2]}), parameters={"k": parameter}
    )


def box(parameter, around=np.nan):
    layout = growth(parameter).layout
    low, high = search_box(layout, np.full(layout.lower.shape, around))
    return low[0, -1], high[0, -1]


# measured and hidden states


def test_measured_state_is_interpolated():
    made = start("x' = -w*y; y' = w*x", {"x": np.cos(TIMES), "y": np.sin(TIMES)})
    np.testing.assert_allclose(made.states(TIMES, 0)[:, 0], np.cos(TIMES), atol=2e-3)


def test_hidden_state_follows_its_equation_along_the_measured_one():
    made = start("x' = -x; z' = x - q*z", {"x": np.exp(-TIMES)}, parameters={"q": 2.0}, initial={"z": 0.0})
    expected = np.exp(-TIMES) - np.exp(-2 * TIMES)  # of z' = exp(-t) - 2 z
    np.testing.assert_allclose(made.states(TIMES, 0)[:, 1], expected, atol=0.02)


def test_stiff_hidden_state_does_not_explode():
    made = start("x' = -x; z' = 1e6*(x - z)", {"x": np.exp(-TIMES)}, initial={"z": 0.0})
    np.testing.assert_allclose(made.states(TIMES[5:], 0)[:, 1], np.exp(-TIMES[5:]), atol=0.05)


def test_exploding_hidden_state_stays_finite():
    made = start("x' = -x; z' = z^2", {"x": np.exp(-TIMES)}, initial={"z": 5.0})
    assert np.isfinite(made.tables[0][1]).all()


def test_hidden_state_of_another_experiment_is_measured_there():
    model = pf.Model("x' = -x; z' = -z")
    first = pf.Experiment(TIMES, {"x": np.exp(-TIMES)})
    second = pf.Experiment(TIMES, {"z": 3 * np.exp(-TIMES)})
    made = make_start(pf.Problem(model, [first, second]))
    np.testing.assert_allclose(made.states(TIMES, 1)[:, 1], 3 * np.exp(-TIMES), rtol=0.02)


def test_replicates_are_averaged():
    made = start("x' = -k*x", {"x": [1.0, 3.0, 5.0]}, times=[0, 0, 1])
    assert made.states(np.array([0.0]), 0)[0, 0] == pytest.approx(2.0)


def test_gaps_are_bridged():
    made = start("x' = -x; z' = -z", {"x": [0.0, np.nan, 4.0], "z": [1, 1, 1]}, times=[0, 1, 2])
    assert made.states(np.array([1.0]), 0)[0, 0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "observable, shown",
    [
        ("log10(x)", np.log10),
        ("2*x + 1", lambda x: 2 * x + 1),
        ("x^3", lambda x: x**3),
        ("exp(-x)", lambda x: np.exp(-x)),
    ],
)
def test_observables_of_one_state_are_inverted(observable, shown):
    states = 2 + np.sin(TIMES)
    made = start(pf.Model("x' = -k*x", observables={"y": observable}), {"y": shown(states)})
    np.testing.assert_allclose(made.states(TIMES, 0)[:, 0], states, rtol=5e-3)


def test_observables_are_inverted_with_the_parameters_of_the_start():
    model = pf.Model("x' = -k*x", observables={"y": "gain*x"})
    made = start(model, {"y": 6 + 0 * TIMES}, parameters={"gain": pf.Parameter(start=3.0)})
    np.testing.assert_allclose(made.states(TIMES, 0)[:, 0], 2.0)


def test_observables_that_cannot_be_inverted_leave_the_state_hidden():
    model = pf.Model("x' = -0.5*x", observables={"y": "x^2"})
    made = start(model, {"y": -1 + 0 * TIMES}, initial={"x": 3.0})
    np.testing.assert_allclose(made.states(TIMES, 0)[:, 0], 3 * np.exp(-0.5 * TIMES), rtol=0.1)


# positivity


def test_negative_noise_on_a_population_is_clipped():
    data = np.where(np.arange(41) % 7 == 3, -0.2, 1.0)
    made = start("x' = r*x*(1 - x)", {"x": data}, parameters={"r": (0, 2)})
    assert made.tables[0][1].min() > 0


def test_negative_values_of_an_oscillator_are_kept():
    made = start("x' = -w*y; y' = w*x", {"x": np.cos(TIMES), "y": np.sin(TIMES)})
    assert made.tables[0][1].min() < -0.9


def test_known_zero_initial_state_is_kept():
    made = start("x' = k*(1 - x)", {"x": 1 - np.exp(-TIMES)}, initial={"x": 0.0}, parameters={"k": (0, 2)})
    assert made.states(np.array([0.0]), 0)[0, 0] == pytest.approx(0.0, abs=1e-12)


# initial states


def test_initial_state_is_read_off_the_data():
    assert start("x' = -k*x", {"x": 3 + TIMES}).unknowns[0, 0] == pytest.approx(3.0)


def test_initial_state_stays_in_its_bounds():
    assert start("x' = -k*x", {"x": 3 + TIMES}, initial={"x": (0, 2)}).unknowns[0, 0] == 2.0


def test_hidden_initial_state_is_near_the_middle_of_its_bounds():
    made = start("x' = -x; z' = -z", {"x": np.exp(-TIMES)}, initial={"z": (2, 6)})
    assert made.unknowns[0, 1] == pytest.approx(3.8)


def test_hidden_initial_state_without_bounds_has_the_size_of_the_measured_ones():
    made = start("x' = -x; z' = -z", {"x": 500 + 0 * TIMES})
    assert made.unknowns[0, 1] == pytest.approx(500)


def test_log_initial_state_with_negative_data_is_positive():
    made = start("x' = -k*x", {"x": -1 - TIMES}, initial={"x": pf.Parameter(log=True)})
    assert np.isfinite(made.unknowns).all()


# parameters


@pytest.mark.parametrize(
    "parameter, middle",
    [
        (pf.Parameter(2, 4), 2.9),
        (pf.Parameter(1e-2, 1e2, log=True), 10**-0.2),
        (pf.Parameter(), 0.91),
        (pf.Parameter(log=True), 10**-0.1),
    ],
)
def test_open_parameters_begin_near_the_middle(parameter, middle):
    problem = growth(parameter)
    opened = problem.layout.parameters(open_values(problem, problem.layout.start, None))
    assert opened[0, 0] == pytest.approx(middle)


def test_own_starts_are_kept():
    problem = growth(pf.Parameter(0, 10, start=9.0))
    assert natural(make_start(problem), problem)[0] == 9.0


def test_given_values_win_over_own_starts():
    problem = growth(pf.Parameter(0, 10, start=9.0))
    made = make_start(problem, unknowns_from(problem, {"k": 2.0}, missing="nan"))
    assert natural(made, problem)[0] == 2.0


@pytest.mark.parametrize(
    "parameter, around, expected",
    [
        (pf.Parameter(2, 4), 3.5, (2, 4)),
        (pf.Parameter(), np.nan, (0.1, 1.9)),
        (pf.Parameter(), 1e-5, (1e-6, 1.9e-5)),
        (pf.Parameter(), -200.0, (-380, -20)),
        (pf.Parameter(), 0.0, (-0.9, 0.9)),
        (pf.Parameter(lower=0), np.nan, (0, 1.8)),
        (pf.Parameter(lower=0), 50.0, (0, 100)),
        (pf.Parameter(upper=0), -50.0, (-100, 0)),
        (pf.Parameter(log=True), np.log(7), (np.log(0.7), np.log(70))),
    ],
)
def test_missing_bounds_are_replaced_by_an_interval_around_the_start(parameter, around, expected):
    assert box(parameter, around) == pytest.approx(expected)


def test_drawn_values_differ_from_each_other():
    problem = pf.examples.lorenz.generate(seed=1)
    first, second = (
        open_values(problem, problem.layout.start, draw(problem.layout, np.random.default_rng(s)))
        for s in (1, 2)
    )
    assert np.abs(first - second).max() > 0.01


def test_random_starts_repeat_with_their_seed():
    problem = pf.examples.lorenz.generate(seed=1)
    first, second = (make_start(problem, rng=np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first.unknowns, second.unknowns)
    np.testing.assert_array_equal(first.tables[0][1], second.tables[0][1])


def test_drawn_values_do_not_stay_at_the_given_ones():
    problem = growth(pf.Parameter(0, 10, start=9.0))
    drawn = [
        open_values(problem, problem.layout.start, draw(problem.layout, np.random.default_rng(s)))[0, -1]
        for s in range(20)
    ]
    assert min(drawn) < 4 < 6 < max(drawn)


def test_random_starts_lie_in_the_bounds():
    problem = pf.examples.tumor.generate(seed=1)
    for seed in range(5):
        made = make_start(problem, rng=np.random.default_rng(seed)).unknowns
        assert np.all((made >= problem.layout.lower) & (made <= problem.layout.upper))


def test_shared_parameters_agree_in_all_experiments():
    problem = pf.examples.rosenzweig_macarthur.generate(seed=1)
    made = make_start(problem, rng=np.random.default_rng(0)).unknowns[:, problem.layout.local :]
    np.testing.assert_array_equal(made, np.broadcast_to(made[:1], made.shape))


def test_grid_follows_log_spaced_samples():
    times = np.geomspace(1e-6, 1e3, 40)
    made = start("x' = -k*x", {"x": np.exp(-times)}, times=times)
    assert (made.tables[0][0] < 1e-2).sum() > 20


def test_even_starts_fill_every_part_of_the_bounds():
    """Of 64 scrambled Sobol points one lies in each 64th of every bound."""
    run = pf.Experiment(TIMES, {"x": np.exp(-TIMES)})
    model = pf.Model("x' = -k*x + q")
    layout = pf.Problem(model, run, {"k": (0, 1), "q": (1, 9)}, {"x": (0, 2)}).layout
    parts = spread_evenly(layout, 64, seed=5)
    assert parts.shape == (64, 1, 3)
    for column in range(3):
        assert sorted(np.floor(64 * parts[:, 0, column])) == list(range(64))


def test_even_starts_share_shared_parameters_and_extend_each_other():
    runs = [pf.Experiment(TIMES, {"x": np.exp(-TIMES)}, name=name) for name in "abc"]
    layout = pf.Problem(pf.Model("x' = -k*x"), runs, {"k": (0, 1)}, {"x": (0, 2)}).layout
    parts = spread_evenly(layout, 9, seed=5)
    assert (parts[:, :, 1] == parts[:, :1, 1]).all()
    assert len(np.unique(parts[:, :, 0])) == 27
    np.testing.assert_array_equal(parts[:4], spread_evenly(layout, 4, seed=5))
