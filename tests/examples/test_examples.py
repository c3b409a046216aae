"""The paper's five problems: their truth solves their equations, their data are what the paper says."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from picardfit.errors import InputError
from picardfit.examples import ALL, fitzhugh_nagumo, lorenz, rosenzweig_macarthur, tumor, van_der_pol

EVERY = pytest.mark.parametrize("name", ALL)


def van_der_pol_by_hand(t, x):
    return [x[1], -x[0] + (1 - x[0] ** 2) * x[1]]


def fitzhugh_nagumo_by_hand(t, x):
    return [10 * (x[0] - x[0] ** 3 / 3 - x[1] + 1), 10 * (0.08 * x[0] - 0.064 * x[1] + 0.056)]


def rosenzweig_macarthur_by_hand(t, x):
    eaten = 2.8 * x[0] * x[1] / (0.7 + x[0])
    return [3.5 * x[0] * (1 - x[0] / 1.4) - eaten, 1.5 * eaten - 1.35 * x[1]]


def tumor_by_hand(t, x):  # without treatment
    N, T, I, v = x  # noqa: E741
    kill = 1 - np.exp(-v)
    return [
        N * (1 - N) - N * T - kill * N,
        1.5 * T * (1 - T) - 0.5 * T * I - T * N - 3 * kill * T,
        0.33 + 0.01 * I * T / (0.3 + T) - I * T - 0.2 * I - 2 * kill * I,
        -v,
    ]


def lorenz_by_hand(t, x):
    return [10 * (x[1] - x[0]), 10 * x[0] * (2.8 - x[2]) - x[1], 10 * x[0] * x[1] - 8 / 3 * x[2]]


BY_HAND = {
    "van_der_pol": van_der_pol_by_hand,
    "fitzhugh_nagumo": fitzhugh_nagumo_by_hand,
    "rosenzweig_macarthur": rosenzweig_macarthur_by_hand,
    "tumor": tumor_by_hand,
    "lorenz": lorenz_by_hand,
}


@EVERY
def test_data_without_noise_solve_the_equations_written_by_hand(name):
    problem = ALL[name].generate(seed=3, eps=0.0)
    one = problem.experiments[0]
    start = list(problem.truth["initial"][one.name].values())
    path = solve_ivp(
        BY_HAND[name], (0, one.times[-1]), start, "DOP853", one.times, rtol=1e-11, atol=1e-13
    ).y.T
    np.testing.assert_allclose(one.values, path[:, : one.values.shape[1]], atol=1e-7)


@EVERY
def test_loss_at_the_truth_is_the_loss_of_the_noise(name):
    problem, exact = ALL[name].generate(seed=5), ALL[name].generate(seed=5, eps=0.0)
    noise = problem.samples.data - exact.samples.data
    loss = problem.loss(problem.truth["parameters"], problem.truth["initial"])
    assert loss == pytest.approx(0.5 * np.mean(np.sum(noise**2, axis=1)), rel=1e-8)
    assert loss > 1e-4


@EVERY
def test_truth_lies_inside_the_bounds(name):
    problem = ALL[name].generate()
    for parameter, value in problem.truth["parameters"].items():
        lower, upper = problem.parameters[parameter].bounds
        assert lower <= value <= upper


@EVERY
def test_same_seed_gives_the_same_data(name):
    first, second = (ALL[name].generate(seed=7).samples.data for _ in range(2))
    np.testing.assert_array_equal(first, second)


@EVERY
def test_another_seed_gives_other_data(name):
    assert np.all(ALL[name].generate(seed=7).samples.data != ALL[name].generate(seed=8).samples.data)


@EVERY
def test_variance_is_the_square_of_the_standard_deviation(name):
    by_variance = ALL[name].generate(seed=2, eps=0.04, eps_is="variance")
    by_deviation = ALL[name].generate(seed=2, eps=0.2, eps_is="std")
    np.testing.assert_allclose(by_variance.samples.data, by_deviation.samples.data)


@EVERY
def test_a_pair_of_factors_sets_the_bounds(name):
    problem = ALL[name].generate(bounds=(0.2, 3.0))
    for parameter, value in ALL[name].TRUTH.items():
        assert problem.parameters[parameter].bounds == pytest.approx((0.2 * value, 3.0 * value))


@pytest.mark.parametrize(
    "problem, samples, numbers",
    [
        (van_der_pol.generate(), 101, 202),
        (van_der_pol.generate(samples=51), 51, 102),
        (fitzhugh_nagumo.generate(), 114, 114),
        (rosenzweig_macarthur.generate(ponds=4), 20, 40),
        (rosenzweig_macarthur.generate(ponds=1), 5, 10),
        (tumor.generate(inputs=(1, 2, 3, 4, 5)), 255, 765),
        (lorenz.generate(), 101, 303),
    ],
    ids=str,
)
def test_number_of_samples_is_that_of_the_paper(problem, samples, numbers):
    assert (len(problem.samples.times), problem.measurements) == (samples, numbers)


@pytest.mark.parametrize(
    "module, settings",
    [
        (van_der_pol, (0.25, 1)),
        (fitzhugh_nagumo, (0.1, 2)),
        (rosenzweig_macarthur, (0.2, 2)),
        (tumor, (0.1, 2)),
        (lorenz, (0.05, 2)),
    ],
)
def test_segment_length_and_order_are_those_of_the_paper(module, settings):
    assert (module.SETTINGS.segment_length, module.SETTINGS.order) == settings


def test_noise_has_the_standard_deviation_asked_for():
    exact = lorenz.generate(seed=1, eps=0.0, experiments=12).samples.data
    noise = lorenz.generate(seed=1, eps=0.1, experiments=12).samples.data - exact
    whitened = noise / np.sqrt(1 + exact**2)
    assert np.sqrt(np.mean(whitened**2)) == pytest.approx(0.1, rel=0.05)


# ---- each one ------------------------------------------------------------------------------------


def test_fewer_van_der_pol_samples_are_a_subsample():
    full, half = van_der_pol.generate(seed=4), van_der_pol.generate(seed=4, samples=51)
    np.testing.assert_array_equal(half.samples.data, full.samples.data[::2])


def test_van_der_pol_starts_inside_the_limit_cycle():
    starts = [van_der_pol.generate(seed=s, eps=0, samples=2).truth["initial"]["run 1"] for s in range(20)]
    assert max(np.hypot(x["x1"], x["x2"]) for x in starts) < 1.5


def test_both_values_of_rho_give_the_same_loss():
    problem = van_der_pol.generate(reparametrised=True)
    losses = [problem.loss({"rho": rho, "theta2": 1.0}, problem.truth["initial"]) for rho in (0.0, 2.0)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


def test_reparametrised_data_are_the_same():
    plain, other = van_der_pol.generate(seed=1), van_der_pol.generate(seed=1, reparametrised=True)
    np.testing.assert_allclose(plain.samples.data, other.samples.data, atol=1e-8)


def test_neuron_is_sampled_densely_where_it_spikes():
    times = fitzhugh_nagumo.sampling_times()
    assert np.sum((times >= 1.55) & (times <= 2.25)) == 57
    assert np.min(np.diff(times)) == pytest.approx(0.0125)


def test_first_ponds_do_not_depend_on_their_number():
    two, four = rosenzweig_macarthur.generate(ponds=2), rosenzweig_macarthur.generate(ponds=4)
    np.testing.assert_array_equal(two.samples.data, four.samples.data[:10])


def final_tumour(**options):
    problem = tumor.generate(eps=0.0, inputs=(1, 2, 3, 4, 5), **options)
    return {one.name: one.observations["T"][-1] for one in problem.experiments}


def test_treatments_3_4_5_clear_the_tumour_and_1_2_do_not():
    final = final_tumour()
    assert {name for name, size in final.items() if size < 0.1} == {"u3", "u4", "u5"}


def test_fourth_dose_as_printed_makes_the_tumour_grow():
    assert final_tumour(u4="3 - t")["u4"] > 2.0


def test_fourth_dose_early_clears_the_tumour():
    assert final_tumour(u4=tumor.Dose4.EARLY)["u4"] < 0.1


def test_data_of_a_dose_do_not_depend_on_the_others():
    alone, among = tumor.generate(inputs=(3,)), tumor.generate(inputs=(1, 3))
    np.testing.assert_array_equal(alone.experiments[0].values, among.experiments[1].values)


@pytest.mark.parametrize(
    "options, unknowns",
    [
        ({"shared_initial": True}, 7 + 4),
        ({"shared_initial": False}, 7 + 3 * 4),
        ({"shared_initial": True, "v_known": True}, 7 + 3),
        ({"shared_initial": False, "v_known": True}, 7 + 3 * 3),
    ],
)
def test_tumour_initial_state_is_shared_or_free(options, unknowns):
    assert tumor.generate(inputs=(1, 2, 3), **options).layout.count() == unknowns


def test_lorenz_initial_states_are_bounded_around_the_truth():
    problem = lorenz.generate(seed=2, experiments=2)
    for name, specs in zip(problem.names, problem.initial_by_experiment, strict=True):
        for state, value in problem.truth["initial"][name].items():
            assert specs[state].bounds == pytest.approx(tuple(sorted((0.5 * value, 1.5 * value))))


def test_lorenz_initial_states_can_be_free():
    problem = lorenz.generate(bounded_initial=False)
    assert problem.initial_by_experiment[0]["x1"].bounds == (-np.inf, np.inf)


def test_lorenz_can_start_where_it_is_told():
    problem = lorenz.generate(eps=0, initial=lorenz.EXAMPLE_INITIAL, horizon=1.0)
    np.testing.assert_allclose(problem.samples.data[0], lorenz.EXAMPLE_INITIAL)
    assert problem.samples.times[-1] == 1.0


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: lorenz.generate(eps=-1), "eps is -1"),
        (lambda: lorenz.generate(eps_is="sd"), "eps_is='sd' is unknown"),
        (lambda: lorenz.generate(bounds={"sigm": (0, 1)}), "`sigm` in bounds.*Did you mean `sigma`"),
        (lambda: lorenz.generate(bounds=2.0), "bounds=2.0 is not understood"),
        (lambda: lorenz.generate(initial=(1, 2)), "give three numbers"),
        (lambda: lorenz.generate(horizon=0), "horizon = 0.0 is not a positive number"),
        (lambda: rosenzweig_macarthur.generate(ponds=0), "ponds = 0 is not a whole number of at least 1"),
        (lambda: tumor.generate(inputs=(6,)), "no dosing 6"),
        (lambda: tumor.generate(inputs=(1, 1)), "each once"),
        (lambda: tumor.generate(u4="t"), "u4='t' is not a reading"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("module", [tumor, rosenzweig_macarthur])
def test_docstring_and_code_agree_on_the_default_bounds(module):
    assert "+-50 %" in module.__doc__
    assert {name: pytest.approx((0.5 * v, 1.5 * v)) for name, v in module.TRUTH.items()} == module.BOUNDS
