"""fit(): the truth from exact data in many settings, repeatability, uncertainty, predictions."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import picardfit as pf

TIMES = np.linspace(0, 3, 13)
DECAY = pf.Model("x' = -k*x")
CHAIN = pf.Model("x' = -k*x; z' = k*x - q*z")
LOTKA = pf.Model("x' = a*x - b*x*y; y' = d*x*y - c*y")
LOTKA_TRUTH = {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}


def decay(rate=0.7, size=2.0, times=TIMES, **options):
    return pf.Experiment(times, {"x": size * np.exp(-rate * np.asarray(times))}, **options)


def simulated(model, parameters, begin, times=TIMES, inputs=None, sd=0.0, seed=0, only=None, **options):
    """An experiment from a simulation, with noise of one standard deviation."""
    run, rng = pf.simulate(model, parameters, begin, times, inputs), np.random.default_rng(seed)
    shown = only or list(run.observables)
    noisy = {n: run.observables[n] + sd * rng.standard_normal(len(times)) for n in shown}
    return pf.Experiment(times, noisy, inputs=inputs or {}, **options)


def noisy_decay(seed=0, sd=0.05, **options):
    return pf.Problem(DECAY, simulated(DECAY, {"k": 0.7}, {"x": 2.0}, sd=sd, seed=seed), **options)


@pytest.fixture(scope="module")
def van_der_pol():
    return pf.fit(pf.problems.van_der_pol.generate(seed=1, eps=0.1))


# the truth from exact data


@pytest.mark.parametrize("name", ["van_der_pol", "lorenz", "fitzhugh_nagumo", "rosenzweig_macarthur"])
def test_exact_data_give_the_truth(name):
    problem = getattr(pf.problems, name).generate(seed=3, eps=0.0)
    fit = pf.fit(problem)
    assert {k: fit.parameters[k] for k in problem.truth["parameters"]} == pytest.approx(
        problem.truth["parameters"], rel=1e-6
    )


def test_exact_data_give_the_initial_states():
    problem = pf.problems.van_der_pol.generate(seed=3, eps=0.0)
    assert pf.fit(problem).initial_states["run 1"] == pytest.approx(
        problem.truth["initial"]["run 1"], rel=1e-6
    )


def test_no_bounds_at_all():
    bounded = pf.problems.van_der_pol.generate(seed=2, eps=0.1)
    free = pf.Problem(bounded.model, bounded.experiments)
    assert pf.fit(free).parameters == pytest.approx(pf.fit(bounded).parameters, rel=1e-6)


def test_log_parameters_over_four_decades():
    truth, times = {"k": 20.0, "q": 0.02}, np.geomspace(1e-3, 300, 40)
    problem = pf.Problem(
        CHAIN,
        simulated(CHAIN, truth, {"x": 1.0, "z": 0.0}, times),
        parameters={n: pf.Parameter(1e-3, 1e2, log=True) for n in truth},
        initial={"x": 1.0, "z": 0.0},
    )
    assert pf.fit(problem).parameters == pytest.approx(truth, rel=1e-6)


def test_local_parameters_are_those_of_their_experiments():
    rates = {"a": 0.3, "b": 0.7, "c": 1.1}
    runs = [decay(rate, name=name) for name, rate in rates.items()]
    fit = pf.fit(pf.Problem(DECAY, runs, parameters={"k": pf.Parameter(0, 5, local=True)}))
    assert fit.parameters == pytest.approx({f"k[{n}]": r for n, r in rates.items()}, rel=1e-6)


def test_local_and_shared_parameters_together():
    runs = [
        simulated(CHAIN, {"k": k, "q": 0.4}, {"x": 2.0, "z": 0.0}, name=name, initial={"z": 0.0})
        for name, k in (("a", 0.5), ("b", 1.5))
    ]
    fit = pf.fit(pf.Problem(CHAIN, runs, parameters={"k": pf.Parameter(0, 5, local=True), "q": (0, 2)}))
    assert fit.parameters == pytest.approx({"k[a]": 0.5, "k[b]": 1.5, "q": 0.4}, rel=1e-6)


def test_known_initial_states_are_held_exactly():
    fit = pf.fit(pf.Problem(DECAY, decay(size=2.0), initial={"x": 1.9}))
    assert fit.initial_states["experiment 1"]["x"] == 1.9


def test_initial_states_by_formulas_of_a_shared_parameter():
    runs = [
        decay(size=2.0, name="a", initial={"x": "c"}),
        decay(size=4.0, name="b", initial={"x": "2*c"}),
        decay(size=3.0, name="c", initial={"x": "c + 1"}),
    ]
    fit = pf.fit(pf.Problem(DECAY, runs, parameters={"c": (0, 10)}))
    assert fit.parameters == pytest.approx({"k": 0.7, "c": 2.0}, rel=1e-6)


def test_initial_states_by_a_formula_of_a_local_parameter():
    runs = [decay(size=size, name=name, initial={"x": "c"}) for name, size in (("a", 2.0), ("b", 5.0))]
    fit = pf.fit(pf.Problem(DECAY, runs, parameters={"c": pf.Parameter(0, 10, local=True)}))
    assert fit.parameters == pytest.approx({"k": 0.7, "c[a]": 2.0, "c[b]": 5.0}, rel=1e-6)


def test_steady_state_as_initial_formula():
    model = pf.Model("x' = s*u - d*x", inputs=["u"])
    run = simulated(
        model, {"s": 3.0, "d": 1.5}, {"x": 2.0}, inputs={"u": "where(t < 1, 1, 2)"}, initial={"x": "s/d"}
    )
    fit = pf.fit(pf.Problem(model, run, parameters={"s": (0.1, 10), "d": (0.1, 10)}))
    assert fit.parameters == pytest.approx({"s": 3.0, "d": 1.5}, rel=1e-6)


@pytest.mark.parametrize(
    "dose", ["where(t < 1, 0, where(t < 2, 3, 1))", ([0, 0.9, 2.1], [0, 3, 1]), "1 + sin(4*t)", 2.0]
)
def test_inputs_of_every_kind(dose):
    model = pf.Model("x' = u - k*x", inputs=["u"])
    run = simulated(model, {"k": 0.7}, {"x": 1.0}, inputs={"u": dose})
    assert pf.fit(pf.Problem(model, run)).parameters["k"] == pytest.approx(0.7, rel=1e-6)


def test_input_given_by_a_function():
    model = pf.Model("x' = u - k*x", inputs=["u"])
    run = simulated(model, {"k": 0.7}, {"x": 1.0}, inputs={"u": lambda t: 1 + np.cos(t)})
    assert pf.fit(pf.Problem(model, run)).parameters["k"] == pytest.approx(0.7, rel=1e-6)


def test_missing_data_are_no_obstacle():
    full = pf.problems.lorenz.generate(seed=1, eps=0.0)
    one, rng = full.experiments[0], np.random.default_rng(0)
    holes = {n: np.where(rng.uniform(size=len(v)) < 0.4, np.nan, v) for n, v in one.observations.items()}
    fit = pf.fit(full.with_experiments([pf.Experiment(one.times, holes, name=one.name)]))
    assert fit.parameters == pytest.approx(full.truth["parameters"], rel=1e-6)


def test_observables_with_sampling_times_of_their_own():
    run = pf.simulate(CHAIN, {"k": 0.7, "q": 0.3}, {"x": 2.0, "z": 0.5}, np.arange(0, 4, 0.25))
    pairs = {"x": (run.times[::4], run.states["x"][::4]), "z": (run.times[1::3], run.states["z"][1::3])}
    fit = pf.fit(pf.Problem(CHAIN, pf.Experiment(None, pairs)))
    assert fit.parameters == pytest.approx({"k": 0.7, "q": 0.3}, rel=1e-6)


def test_hidden_state():
    run = simulated(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.5}, np.linspace(0, 12, 41), only=["x"])
    bounds = dict.fromkeys(LOTKA_TRUTH, (0.05, 3.0)) | {"b": 0.4}
    fit = pf.fit(pf.Problem(LOTKA, run, parameters=bounds, initial={"y": (0, 5)}))
    assert fit.parameters == pytest.approx(LOTKA_TRUTH, rel=1e-6)


def test_initial_state_before_the_first_sample():
    fit = pf.fit(pf.Problem(DECAY, decay(times=TIMES[4:])))
    assert fit.initial_states["experiment 1"]["x"] == pytest.approx(2.0, rel=1e-6)


def test_time_may_begin_anywhere():
    run = pf.Experiment(TIMES + 1900, {"x": 2 * np.exp(-0.7 * TIMES)}, t0=1900)
    assert pf.fit(pf.Problem(DECAY, run)).initial_states["experiment 1"]["x"] == pytest.approx(2.0, rel=1e-6)


def test_an_observable_of_two_states():
    model = pf.Model("x' = -k*x; z' = -q*z", observables={"total": "x + z"})
    run = pf.Experiment(TIMES, {"total": 2 * np.exp(-0.7 * TIMES) + np.exp(-3 * TIMES)})
    fit = pf.fit(pf.Problem(model, run, parameters={"k": (0, 1.5), "q": (1.5, 9)}))
    assert fit.parameters == pytest.approx({"k": 0.7, "q": 3.0}, rel=1e-5)


def test_a_model_from_a_function():
    model = pf.Model.from_function(lambda t, x, p, u: [-p[0] * x[0]], states=["x"], parameters=["k"])
    assert pf.fit(pf.Problem(model, decay())).parameters["k"] == pytest.approx(0.7, rel=1e-6)


def test_a_bound_that_acts_is_named():
    fit = pf.fit(pf.Problem(DECAY, decay(), parameters={"k": (1.0, 3.0)}))
    assert (fit.status, fit.certificate.at_bound) == (pf.Status.CONVERGED_AT_BOUND, ("k",))


def test_loss_of_the_fit_is_that_of_an_independent_integration(van_der_pol):
    independent = van_der_pol.problem.loss(van_der_pol.parameters, van_der_pol.initial_states)
    assert van_der_pol.loss == pytest.approx(independent, rel=1e-7)


def test_no_neighbour_has_a_smaller_loss(van_der_pol):
    for name, step in van_der_pol.standard_errors.items():
        if name not in van_der_pol.parameters:
            continue
        for sign in (-0.1, 0.1):
            moved = van_der_pol.parameters | {name: van_der_pol.parameters[name] + sign * step}
            assert van_der_pol.problem.loss(moved, van_der_pol.initial_states) > van_der_pol.loss


# starts, seeds, executors


def test_same_seed_same_result():
    first, second = (pf.fit(noisy_decay(), starts=3, seed=5) for _ in range(2))
    assert (first.parameters, first.loss, first.iterations) == (
        second.parameters,
        second.loss,
        second.iterations,
    )


def test_every_start_is_reported():
    fit = pf.fit(pf.problems.van_der_pol.generate(seed=1), starts=3)
    assert [s.start for s in fit.starts] == [0, 1, 2]
    assert [s.loss for s in fit.starts] == pytest.approx([fit.loss] * 3, rel=1e-6)


def test_best_start_wins():
    """x = sin(k t) has many local optima in k."""
    times = np.linspace(0, 6, 25)
    run = pf.Experiment(times, {"x": np.sin(3 * times)})
    problem = pf.Problem(pf.Model("x' = k*cos(k*t)"), run, parameters={"k": (0, 8)}, initial={"x": 0.0})
    fit = pf.fit(problem, starts=8)
    assert len({round(s.loss, 6) for s in fit.starts}) > 1
    assert fit.parameters["k"] == pytest.approx(3.0, rel=1e-6)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_give_the_serial_result(pool):
    problem = pf.problems.van_der_pol.generate(seed=1)
    serial = pf.fit(problem, starts=3)
    with pool(2) as executor:
        parallel = pf.fit(problem, starts=3, executor=executor)
    assert (parallel.parameters, parallel.initial_states) == (serial.parameters, serial.initial_states)
    assert [s.parameters for s in parallel.starts] == [s.parameters for s in serial.starts]


def test_given_start_is_where_the_first_search_begins():
    method = pf.GradientDescent(tolerance=1e9)  # ends at once
    fit = pf.fit(noisy_decay(), method, start={"k": 1.7}, start_initial={"x": 3.0})
    found = fit.parameters["k"], fit.initial_states["experiment 1"]["x"]
    assert found == pytest.approx((1.7, 3.0), rel=1e-6)


def test_other_starts_are_drawn_although_one_is_given():
    method = pf.GradientDescent(tolerance=1e9)  # ends at once
    fit = pf.fit(noisy_decay(parameters={"k": (0, 3)}), method, start={"k": 1.7}, starts=4)
    stayed = [abs(s.parameters["k"] - 1.7) < 1e-3 for s in fit.starts]
    assert stayed == [True, False, False, False]


def test_a_failing_start_is_followed_by_others():
    problem = pf.Problem(
        pf.Model("x' = -k*x/(b - 1)"), decay(), parameters={"b": pf.Parameter(0, 3, start=1.0), "k": 0.7}
    )
    fit = pf.fit(problem)
    assert len(fit.starts) > 1
    assert fit.parameters["b"] == pytest.approx(2.0, rel=1e-6)


def test_progress_is_told_every_iteration():
    news = []
    fit = pf.fit(noisy_decay(), progress=news.append)
    assert [n.iteration for n in news] == list(range(1, len(news) + 1))
    assert (news[-1].start, news[-1].starts, news[-1].loss) == (0, 1, pytest.approx(fit.loss, rel=1e-6))


def test_an_interrupt_keeps_the_best_so_far():
    def stop(news):
        if news.iteration == 4:
            raise KeyboardInterrupt

    fit = pf.fit(noisy_decay(), progress=stop)
    assert (fit.status, fit.success, fit.iterations) == (pf.Status.INTERRUPTED, False, 4)
    assert np.isfinite(fit.loss)


def test_message_says_how_it_ended(van_der_pol):
    assert van_der_pol.message == pf.Status.CONVERGED.value


def test_an_optimum_promises_no_further_decrease(van_der_pol):
    assert van_der_pol.certificate.gradient < 1e-9


# uncertainty


def hessian(problem, labels, centre, steps):
    """Second differences of the sum of squares / 2, by independent integration."""

    def value(point):
        named = dict(zip(labels, point, strict=True))
        initial = {n.removesuffix("(0)"): v for n, v in named.items() if n.endswith("(0)")}
        loss = problem.loss({n: v for n, v in named.items() if not n.endswith("(0)")}, initial)
        return loss * len(problem.samples.times)

    count = len(labels)
    matrix = np.zeros((count, count))
    for i in range(count):
        for j in range(i + 1):
            ei, ej = steps * np.eye(count)[i], steps * np.eye(count)[j]
            corners = [value(centre + a * ei + b * ej) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
            mixed = corners[0] - corners[1] - corners[2] + corners[3]
            matrix[i, j] = matrix[j, i] = mixed / (4 * steps[i] * steps[j])
    return matrix


def test_covariance_is_the_inverse_hessian_of_the_loss():
    """With residuals this small Gauss-Newton and the full Hessian agree."""
    problem = noisy_decay(sd=1e-3)
    fit = pf.fit(problem)
    labels = fit.covariance_labels
    values = fit.parameters | {"x(0)": fit.initial_states["experiment 1"]["x"]}
    curvature = hessian(problem, labels, np.array([values[n] for n in labels]), np.full(len(labels), 1e-2))
    np.testing.assert_allclose(fit.covariance, fit.residual_variance * np.linalg.inv(curvature), rtol=5e-3)


@pytest.fixture(scope="module")
def repeated():
    """Fits of 40 data sets with fresh noise."""
    return [pf.fit(noisy_decay(seed=s)) for s in range(40)]


def test_standard_errors_match_the_scatter_of_the_estimates(repeated):
    scatter = np.std([f.parameters["k"] for f in repeated], ddof=1)
    claimed = np.sqrt(np.mean([f.standard_errors["k"] ** 2 for f in repeated]))
    assert 0.7 < scatter / claimed < 1.4  # a chi distribution of 39 degrees of freedom spreads by 11 %


def test_intervals_cover_the_truth_as_often_as_they_say(repeated):
    intervals = [f.intervals(0.8)["k"] for f in repeated]
    inside = sum(low < 0.7 < high for low, high in intervals)
    assert 25 <= inside <= 39  # binomial of 40 and 0.8: mean 32, standard deviation 2.5


def test_intervals_are_symmetric_around_the_estimate():
    fit = pf.fit(noisy_decay())
    low, high = fit.intervals()["k"]
    assert (low + high) / 2 == pytest.approx(fit.parameters["k"])


def test_intervals_of_a_log_parameter_are_symmetric_in_the_log():
    fit = pf.fit(noisy_decay(parameters={"k": pf.Parameter(log=True)}))
    low, high = fit.intervals()["k"]
    assert np.sqrt(low * high) == pytest.approx(fit.parameters["k"])


def test_standard_error_of_a_log_parameter_is_in_natural_units():
    plain, log = pf.fit(noisy_decay()), pf.fit(noisy_decay(parameters={"k": pf.Parameter(log=True)}))
    assert log.standard_errors["k"] == pytest.approx(plain.standard_errors["k"], rel=1e-4)


def test_intervals_stay_in_the_bounds():
    fit = pf.fit(noisy_decay(parameters={"k": (0.69, 0.73)}))
    assert fit.intervals(0.999)["k"] == pytest.approx((0.69, 0.73))


def test_intervals_use_students_factor():
    fit = pf.fit(noisy_decay())
    low, high = fit.intervals(0.95)["k"]
    assert (high - low) / 2 == pytest.approx(
        2.200985 * fit.standard_errors["k"], rel=1e-5
    )  # 11 degrees of freedom


def test_residual_variance_estimates_that_of_the_noise():
    times = np.linspace(0, 3, 400)
    fit = pf.fit(pf.Problem(DECAY, simulated(DECAY, {"k": 0.7}, {"x": 2.0}, times, sd=0.05)))
    assert fit.residual_variance == pytest.approx(0.05**2, rel=0.2)


@pytest.mark.parametrize("equation, lost", [("-k*q*x", {"k", "q"}), ("-(k + q)*x", {"k", "q"})])
def test_what_the_data_do_not_determine_has_an_infinite_standard_error(equation, lost):
    errors = pf.fit(pf.Problem(pf.Model(f"x' = {equation}"), noisy_decay().experiments)).standard_errors
    assert {n for n, e in errors.items() if np.isinf(e)} == lost


def test_text_flags_what_is_not_determined():
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x; z' = -q*z"), noisy_decay().experiments))
    rows = [
        line
        for line in str(fit).splitlines()
        if "not determined by" in line and not line.startswith("picardfit")
    ]
    assert [row.split()[0] for row in rows] == ["q", "z(0)"]


# predictions


def test_states_along_the_data_are_the_solution():
    fit = pf.fit(pf.Problem(DECAY, decay()))
    times = np.linspace(0, 3, 50)
    np.testing.assert_allclose(fit.states("experiment 1", times)["x"], 2 * np.exp(-0.7 * times), rtol=1e-7)


def test_states_beyond_the_data_are_the_solution():
    fit = pf.fit(pf.Problem(DECAY, decay()))
    times = np.array([4.0, 9.0])
    np.testing.assert_allclose(fit.states("experiment 1", times)["x"], 2 * np.exp(-0.7 * times), rtol=1e-6)


def test_predictions_inside_and_beyond_agree_with_simulate(van_der_pol):
    times = np.array([12.0, 0.0, 3.3, 3.3, 10.0, 11.0])
    run = pf.simulate(
        van_der_pol.problem.model, van_der_pol.parameters, van_der_pol.initial_states["run 1"], times
    )
    for name, values in van_der_pol.predict("run 1", times).items():
        np.testing.assert_allclose(values, run.observables[name], rtol=1e-6, atol=1e-7)


def test_predictions_beyond_the_data_see_later_jumps_of_the_input():
    model = pf.Model("x' = u - k*x", inputs=["u"])
    dose = {"u": ([0, 4.0], [0, 3])}
    fit = pf.fit(pf.Problem(model, simulated(model, {"k": 0.7}, {"x": 2.0}, inputs=dose)))
    run = pf.simulate(model, {"k": 0.7}, {"x": 2.0}, [3.5, 6.0], dose)
    np.testing.assert_allclose(fit.states("experiment 1", [3.5, 6.0])["x"], run.states["x"], rtol=1e-6)


def test_predictions_of_derived_observables():
    model = pf.Model("x' = -k*x", observables={"y": "gain*x + t"})
    run = pf.Experiment(TIMES, {"y": 6 * np.exp(-0.7 * TIMES) + TIMES})
    fit = pf.fit(pf.Problem(model, run, parameters={"gain": 3.0}))
    assert fit.predict("experiment 1", [5.0])["y"] == pytest.approx([6 * np.exp(-3.5) + 5], rel=1e-6)


def test_a_single_time_may_be_asked_for():
    fit = pf.fit(pf.Problem(DECAY, decay()))
    assert fit.predict("experiment 1", 0.0)["x"] == pytest.approx([2.0], rel=1e-9)


def test_no_times_give_empty_answers():
    assert pf.fit(pf.Problem(DECAY, decay())).states("experiment 1", [])["x"].shape == (0,)


def test_predictions_after_an_explosion_are_nan():
    times = np.linspace(0, 0.9, 10)
    fit = pf.fit(pf.Problem(pf.Model("x' = a*x^2"), pf.Experiment(times, {"x": 1 / (1 - times)})))
    assert np.isnan(fit.states("experiment 1", [1.5])["x"]).all()


# what is said about a fit


def test_other_methods_get_no_further_starts():
    fit = pf.fit(noisy_decay(), pf.GradientContractMultiplier(max_iterations=2))
    assert (fit.status, len(fit.starts)) == (pf.Status.ITERATION_LIMIT, 1)


def test_a_failed_fit_does_not_blame_the_data():
    run = pf.Experiment([0, 1, 2, 3], {"x": [1, 0.62, 0.35, 0.22]}, initial={"x": 1.0})
    problem = pf.Problem(pf.Model("x' = -a*b*x"), run, {"a": (0.1, 10), "b": (0.1, 10)})
    assert "do not determine" in pf.fit(problem).message
    assert "do not determine" not in pf.fit(problem, pf.LiftedGaussNewton(max_iterations=1)).message


def test_an_observable_without_data_is_named():
    run = pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES), "z": np.full(13, np.nan)}, initial={"z": 0.0})
    fit = pf.fit(pf.Problem(CHAIN, run, {"q": 0.5}))
    assert "`z` was never measured in `experiment 1`." in fit.warnings


@pytest.fixture(scope="module")
def switched():
    model = pf.Model("x' = where(t < ts, -k*x, 0)")
    data = {"x": 2 * np.exp(-0.7 * np.minimum(TIMES, 1.6))}
    return model, pf.Experiment(TIMES, data)


def test_a_switching_parameter_leaves_the_fit_undecided(switched):
    fit = pf.fit(pf.Problem(*switched, {"ts": (0.5, 2.5)}), start={"ts": 1.6})
    assert (fit.status, fit.success) == (pf.Status.UNDECIDED, False)
    assert "`ts` only decides when something switches" in fit.message


def test_a_switching_parameter_is_not_also_called_undetermined(switched):
    fit = pf.fit(pf.Problem(*switched, {"ts": (0.5, 2.5)}), start={"ts": 1.6})
    assert "do not determine" not in fit.message


def test_a_fixed_switching_parameter_is_no_trouble(switched):
    assert pf.fit(pf.Problem(*switched, {"ts": 1.6})).status is pf.Status.CONVERGED


def test_an_early_t0_is_the_first_warning():
    late = TIMES + 2000
    run = pf.Experiment(late, {"x": 2 * np.exp(-0.7 * TIMES)}, t0=0.0)
    fit = pf.fit(pf.Problem(DECAY, run, {"k": (0.1, 2.0)}), pf.LiftedGaussNewton(max_iterations=1))
    assert fit.message.startswith("The initial state of `experiment 1` is sought at t0 = 0")


def test_data_that_are_all_zero_are_fitted():
    fit = pf.fit(pf.Problem(pf.Model("x' = -a*x"), pf.Experiment([0, 1, 2, 3], {"x": np.zeros(4)})))
    assert (fit.success, fit.loss) == (True, 0.0)


# a fit by name


def test_repr_is_one_short_line():
    fit = pf.fit(pf.Problem(DECAY, decay()))
    assert repr(fit).startswith("Fit(success, loss=")
    assert repr(fit).endswith("k=0.7)")
    assert len(repr(fit.solution)) < 500


def test_parameters_of_an_experiment_simulate_it():
    model = pf.Model("x' = -k*x + c")
    runs = [
        pf.Experiment(TIMES, pf.simulate(model, {"k": k, "c": 0.3}, {"x": 2.0}, TIMES).observables, name)
        for name, k in (("slow", 0.4), ("fast", 1.1))
    ]
    fit = pf.fit(pf.Problem(model, runs, {"k": pf.Parameter(0, 5, local=True)}))
    assert fit.parameters_of("fast") == pytest.approx({"k": 1.1, "c": 0.3}, rel=1e-6)
    again = pf.simulate(model, fit.parameters_of("fast"), fit.initial_states["fast"], TIMES)
    assert again.observables["x"] == pytest.approx(runs[1].values[:, 0], rel=1e-6)


def test_parameters_of_an_unknown_experiment_is_an_error():
    with pytest.raises(pf.InputError, match="There is no experiment `pond`"):
        pf.fit(pf.Problem(DECAY, decay())).parameters_of("pond")


def test_unknowns_at_a_bound_have_no_error_and_a_one_sided_interval():
    fit = pf.fit(pf.Problem(DECAY, decay(), {"k": (0.8, 2.0)}))
    assert list(fit.standard_errors) == list(fit.intervals()) == ["k", "x(0)"]
    assert np.isnan(fit.standard_errors["k"])
    low, high = fit.intervals()["k"]
    assert low == 0.8
    assert low < high < 2.0
    assert fit.standard_errors["x(0)"] > 0


@pytest.mark.parametrize("name, unit", [("k", "1/h"), ("x(0)", "mg")])
def test_units_are_printed(name, unit):
    parameters, initial = {"k": pf.Parameter(0, 5, unit="1/h")}, {"x": pf.Parameter(0, 9, unit="mg")}
    text = str(pf.fit(pf.Problem(DECAY, decay(), parameters, initial)))
    assert any(line.startswith(f"{name} ") and line.endswith(unit) for line in text.splitlines())


def test_units_of_local_parameters_are_printed():
    runs = [decay(0.4, name="slow"), decay(1.1, name="fast")]
    fit = pf.fit(pf.Problem(DECAY, runs, {"k": pf.Parameter(0, 5, local=True, unit="1/h")}))
    assert str(fit).count("1/h") == 2


def test_there_is_no_unit_column_without_units():
    assert "unit" not in str(pf.fit(pf.Problem(DECAY, decay()))).splitlines()[3]


def test_one_of_a_thing_is_singular():
    text = str(pf.fit(pf.Problem(DECAY, decay(), initial={"x": 2.0})))
    assert "1 experiment, 13 measurements, 1 unknown;" in text


def test_a_failed_fit_does_not_count_its_starts():
    fit = pf.fit(noisy_decay(), pf.LiftedGaussNewton(max_iterations=1), starts=3)
    assert not fit.success
    assert "starts reached this loss" not in str(fit)
