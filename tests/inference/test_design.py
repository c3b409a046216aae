"""Design against closed forms, exhaustive search, fits with the added data, and simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.inference.design import choose, scores
from picardfit.inference.design_information import Stage

DECAY = pf.Model("x' = -k*x")
GRID = np.linspace(0, 5, 51)
DOSED = pf.Model("x' = -k*x + s*u", inputs=["u"])
TUMOR = pf.examples.tumor


def decay(**plan) -> pf.Problem:
    return pf.Problem(DECAY, pf.plan(GRID, ["x"], "run", **plan), {"k": pf.Parameter(start=0.7)})


def dosed(u: float, name: str, sd: float = 0.05, seed: int = 0) -> pf.Experiment:
    """Data of a run from a known start."""
    times = np.linspace(0, 4, 9)
    run = pf.simulate(DOSED, {"k": 0.8, "s": 0.5}, {"x": 1.0}, times, {"u": u})
    noise = sd * np.random.default_rng(seed).standard_normal(len(times))
    return pf.Experiment(times, {"x": run.observables["x"] + noise}, name, {"u": u}, {"x": 1.0})


def planned(u: float, name: str, **options) -> pf.Experiment:
    options = {"initial": {"x": 1.0}} | options
    return pf.plan(np.linspace(0, 4, 9), ["x"], name, {"u": u}, **options)


@pytest.fixture(scope="module")
def undosed() -> pf.Fit:
    """k is determined, s is not."""
    return pf.fit(pf.Problem(DOSED, dosed(0.0, "no dose")))


# ---- sampling times ----


def test_the_best_time_for_a_decay_is_its_time_constant():
    """The sensitivity t exp(-k t) is largest at t = 1/k."""
    found = pf.design_times(decay(initial={"x": 2.0}), "run", 1, sd=0.1)
    assert found.times == pytest.approx((1.4,))
    assert found.plan.times == pytest.approx([1.4])


def test_repeats_are_taken_at_the_best_time():
    found = pf.design_times(decay(initial={"x": 2.0}), "run", 3, sd=0.1, repeat=True)
    np.testing.assert_allclose(found.plan.times, [1.4, 1.4, 1.4])
    assert found.times == tuple(found.plan.times)
    assert str(found).splitlines()[-1] == "sample at: 1.4 (3 times)"
    assert "Sample at 1.4 (3 times)" in found._repr_html_()
    assert found.after["k"] == pytest.approx(0.1 / (np.sqrt(3) * 2 * 0.7 * 1.4 * np.exp(-0.98)), rel=1e-4)


def test_an_unknown_start_is_measured_too():
    found = pf.design_times(decay(), "run", 2, initial={"x": 2.0}, sd=0.1)
    assert found.times[0] == 0
    assert found.times[1] > 1 / 0.7


@pytest.mark.parametrize("criterion", ["D", "A", "E", "c:k*s"])
def test_times_are_the_best_of_all_choices(criterion):
    model = pf.Model("x' = -k*x", observables={"y": "s*x"})
    plan = pf.plan(np.linspace(0, 5, 7), ["y"], "run", initial={"x": 1.0})
    problem = pf.Problem(model, plan, {"k": pf.Parameter(start=0.7), "s": pf.Parameter(start=3.0)})
    found = pf.design_times(problem, "run", 3, criterion, sd=0.1)
    every = []
    for chosen in combinations(plan.times, 3):
        part = pf.plan(chosen, ["y"], "part", initial={"x": 1.0})
        every.append(pf.design(problem.with_experiments([part]), None, criterion, sd=0.1).value_after)
    assert found.value_after == pytest.approx(min(every), rel=1e-9)


def test_a_parameter_of_an_initial_formula_counts():
    """A exp(-k t): the best two times are 0 and 1/k, as both parameters are asked for."""
    plan = pf.plan(np.arange(0, 6.1, 0.25), ["x"], "run", initial={"x": "A"})
    bounds = {"k": pf.Parameter(0.05, 5, log=True), "A": pf.Parameter(0.1, 10, log=True)}
    problem = pf.Problem(DECAY, plan, bounds, noise=pf.Noise(additive=(0.01, 1.0)))
    at = {"k": 0.5, "A": 1.0, "noise.additive": 0.05}
    found = pf.design_times(problem, "run", 4, at=at, repeat=True)
    assert found.times == (0, 0, 2, 2)
    assert set(found.after) == {"k", "A"}
    assert "sample at: 0 (twice), 2 (twice)" in str(found)


@pytest.mark.parametrize("log, expected", [(True, np.log(100) / 2), (False, 0.5 * (10 - 0.1) / 2)])
def test_bounds_of_log_parameters_are_knowledge_in_logs(log, expected):
    """s does not matter without a dose: its error stays half the width of its bounds."""
    bounds = {"k": pf.Parameter(start=0.8), "s": pf.Parameter(0.1, 10, log=log, start=2.0)}
    found = pf.design(pf.Problem(DOSED, planned(0.0, "no dose"), bounds), sd=0.1)
    assert found.after["s"] == pytest.approx(expected, rel=1e-9)


def test_observables_keep_their_own_times():
    model = pf.Model("x' = -k*x; z' = k*x - q*z")
    plan = pf.plan(None, {"x": [0, 1, 2], "z": [2, 3]}, "run", initial={"x": 1.0, "z": 0.0})
    found = pf.design_times(pf.Problem(model, plan), "run", 4, sd=0.1)
    assert found.times == (0, 1, 2, 3)
    np.testing.assert_array_equal(found.plan.sampled, plan.sampled)


# ---- experiments ----


def test_what_determines_a_lost_parameter_wins(undosed):
    found = pf.design(undosed, [planned(0.0, "again"), planned(1.0, "dose")])
    assert list(found.values) == ["dose", "again"]
    assert found.chosen == ("dose",)
    assert found.before["s"] > 5
    assert found.after["s"] < 0.1


def test_expected_errors_are_those_of_the_fit_with_the_new_data(undosed):
    """Up to the residual variance, which is estimated again."""
    found = pf.design(undosed, planned(1.0, "dose"), sd=1e-3)
    both = pf.Problem(DOSED, [dosed(0.0, "no dose", 1e-3), dosed(1.0, "dose", 1e-3, seed=1)])
    fit = pf.fit(both)
    again = pf.design(undosed, planned(1.0, "dose"), sd=fit.residual_variance**0.5, at=fit.parameters)
    for name in ("k", "s"):
        assert again.after[name] == pytest.approx(fit.standard_errors[name] / fit.parameters[name], rel=1e-4)
    assert found.chosen == ("dose",)


def test_four_equal_experiments_halve_the_error():
    problem = pf.Problem(DOSED, planned(1.0, "dose"))
    one, four = (pf.design(problem, budget=n, repeat=True, at={"k": 0.8, "s": 0.5}, sd=1e-3) for n in (1, 4))
    assert four.chosen == ("dose",) * 4
    for name in ("k", "s"):
        assert one.after[name] / four.after[name] == pytest.approx(2, rel=1e-6)


def test_an_unknown_initial_state_costs_information(undosed):
    plans = [planned(1.0, "known"), planned(1.0, "unknown", initial={"x": pf.Parameter(0, 9, start=1.0)})]
    found = pf.design(undosed, plans)
    assert list(found.values) == ["known", "unknown"]
    assert found.values["known"] < 0.999 * found.values["unknown"]


def test_a_formula_has_the_error_of_the_delta_method(undosed):
    """s/k by error propagation from the covariance of a fit with both experiments."""
    fit = pf.fit(pf.Problem(DOSED, [dosed(0.0, "no dose"), dosed(1.0, "dose", seed=1)]))
    sd = fit.residual_variance**0.5
    found = pf.design(undosed, planned(1.0, "dose"), "c:s/k", at=fit.parameters, sd=sd)
    order = [fit.covariance_labels.index(n) for n in ("s", "k")]
    covariance = fit.covariance[np.ix_(order, order)]
    gradient = np.array([1, -1]) / [fit.parameters["s"], fit.parameters["k"]]
    assert found.value_after == pytest.approx(np.sqrt(gradient @ covariance @ gradient), rel=1e-4)


@pytest.mark.parametrize("criterion", ["D", "A", "E"])
def test_criteria_are_those_of_the_covariance(criterion):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 3))
    stage = Stage(rows.T @ rows, np.zeros((1, 3, 3)), np.eye(3), np.eye(3))
    covariance = np.linalg.inv(rows.T @ rows)
    values = {
        "D": np.log(np.linalg.det(covariance)) / 3,
        "A": np.trace(covariance) / 3,
        "E": np.linalg.eigvalsh(covariance)[-1],
    }
    assert scores(criterion, [stage], [stage.items])[0] == pytest.approx(values[criterion])


def test_a_direction_that_nothing_determines_does_not_decide_the_worst_one():
    """a and b act only as a*b: the error that is told is that of the product, not that of a/b."""
    model = pf.Model("x' = -a*b*x")
    plans = [
        pf.plan(t, ["x"], n, initial={"x": 1.0}) for n, t in (("one", [1.0]), ("four", [1.0, 1.1, 1.2, 1.3]))
    ]
    found = pf.design(pf.Problem(model, plans, {"a": (0.1, 1.9), "b": (0.1, 1.9)}), criterion="E", sd=0.01)
    product = 0.01 / np.sqrt(2 * sum((t * np.exp(-t)) ** 2 for t in (1.0, 1.1, 1.2, 1.3)))
    assert found.values["four"] == pytest.approx(product, rel=1e-2)
    assert found.values["four"] < 0.6 * found.values["one"]


@pytest.mark.parametrize("seed", range(6))
def test_exchange_finds_nearly_the_best_set(seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((10, 2, 4))
    items = rows.transpose(0, 2, 1) @ rows
    stage = Stage(1e-3 * np.eye(4), items, np.eye(4), np.eye(4))
    chosen = choose([stage], "D", 3, repeat=False)
    assert len(set(chosen)) == 3
    every = {
        c: scores("D", [stage], [items[list(c)].sum(axis=0)[None]])[0] for c in combinations(range(10), 3)
    }
    assert every[tuple(sorted(chosen))] <= min(every.values()) + 0.1


def test_the_criterion_is_averaged_over_sets_of_values():
    sets = [{"k": 0.3}, {"k": 1.2}]
    problem = decay(initial={"x": 2.0})
    single = [pf.design(problem, sd=0.1, at=one) for one in sets]
    both = pf.design(problem, sd=0.1, at=sets)
    assert both.value_after == pytest.approx(np.sqrt(np.prod([one.value_after for one in single])))


def test_a_robust_choice_of_times_lies_between_those_of_the_extremes():
    problem = decay(initial={"x": 2.0})
    early, late, between = (
        pf.design_times(problem, "run", 1, sd=0.1, at=at).times[0]
        for at in ({"k": 2.0}, {"k": 0.25}, [{"k": 2.0}, {"k": 0.25}])
    )
    assert early < between < late


def test_scenarios_are_drawn_by_the_seed(undosed):
    plans = [planned(1.0, "dose"), planned(2.0, "double")]
    first, again, other = (pf.design(undosed, plans, scenarios=3, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first.values != other.values


def test_bounds_count_as_knowledge():
    """Before any data the error is half the width of the bounds."""
    problem = pf.Problem(
        DECAY, pf.plan([1.0], ["x"], "run", initial={"x": 1.0}), {"k": pf.Parameter(0.5, 1.5, start=1.0)}
    )
    found = pf.design(problem, sd=0.1)
    assert found.before["k"] == pytest.approx(0.5)


def believed(prior, **options) -> pf.Problem:
    return pf.Problem(
        DECAY,
        pf.plan([1.0], ["x"], "run", initial={"x": 1.0}),
        {"k": pf.Parameter(0.01, 100, prior=prior, **options)},
        noise=pf.Noise(additive=0.1),
    )


@pytest.mark.parametrize(
    "prior, error",
    [
        (pf.priors.Normal(2.0, 0.4), 0.2),
        (pf.priors.Normal(np.log10(2.0), 0.1, base=10), 0.1 * np.log(10)),
        (pf.priors.LogNormal(np.log(2.0), 0.2), 0.2),
        (pf.priors.Laplace(2.0, 0.4 / np.sqrt(2)), 0.2),
        (pf.priors.LogLaplace(np.log(2.0), 0.2 / np.sqrt(2)), 0.2),
    ],
)
@pytest.mark.parametrize("log", [False, True])
def test_priors_count_as_knowledge(prior, error, log):
    """Before any data the error is that of the prior, and the plan is looked at around its mean."""
    found = pf.design(believed(prior, log=log))
    assert found.before["k"] == pytest.approx(error, rel=2e-3)  # bounds count a little
    told = (2.0 * np.exp(-2.0) / 0.1) ** 2  # by one measurement at t = 1, relative
    assert found.after["k"] == pytest.approx((1 / error**2 + told) ** -0.5, rel=1e-3)


def test_a_uniform_prior_knows_what_bounds_do():
    plain, uniform = (pf.design(believed(one, start=2.0)) for one in (None, pf.priors.Uniform(0.01, 100)))
    assert plain.before == uniform.before


def test_scenarios_of_a_problem_are_drawn_from_its_priors():
    problem = believed(pf.priors.LogNormal(np.log(2.0), 1e-6), log=True)
    assert pf.design(problem, scenarios=5).after == pytest.approx(pf.design(problem).after, rel=1e-4)


def test_the_forecast_with_a_prior_is_that_of_the_fit():
    """s is known from its prior only."""
    model = pf.Model("x' = -k*x", observables={"y": "s*x"})
    times = np.linspace(0, 3, 13)
    data = pf.Experiment(times, {"y": 2 * np.exp(-0.7 * times) + 0.05 * np.cos(9 * times)}, "run")
    known = pf.Parameter(0.01, 100, log=True, prior=pf.priors.LogNormal(np.log(2.0), 0.3))
    fit = pf.fit(pf.Problem(model, data, {"s": known}, {"x": (0.01, 100)}, noise=pf.Noise(additive=0.05)))
    found = pf.design(fit, pf.plan(times, ["y"], "more"))
    assert found.before["s"] == pytest.approx(fit.standard_errors["s"] / fit.parameters["s"], rel=0.05)
    assert found.after["s"] == pytest.approx(found.before["s"], rel=0.05)
    assert found.after["k"] < 0.8 * found.before["k"]


def test_a_noise_model_and_sd_contradict_each_other():
    assert (
        complaint(lambda: pf.design(believed(None, start=2.0), sd=0.1)).code
        == "inference.sd_with_noise_model"
    )


def test_a_likelihood_brings_its_own_noise():
    """The same plan again doubles the information; an estimated level is no parameter of the model."""
    times, rng = np.linspace(0, 5, 20), np.random.default_rng(0)
    exact = 2 * np.exp(-0.7 * times)
    data = pf.Experiment(
        times, {"x": exact * (1 + 0.1 * rng.standard_normal(20)) + 0.02 * rng.standard_normal(20)}
    )
    noise = pf.Noise(additive=pf.Parameter(1e-3, 1, log=True), proportional=0.1)
    fit = pf.fit(pf.Problem(DECAY, data, initial={"x": 2.0}, noise=noise))
    found = pf.design(fit, pf.plan(times, ["x"], "again"))
    assert list(found.before) == ["k"]
    assert found.before["k"] == pytest.approx(fit.standard_errors["k"] / fit.parameters["k"], rel=1e-2)
    assert found.before["k"] / found.after["k"] == pytest.approx(np.sqrt(2), rel=1e-2)
    assert set(pf.structural(fit.problem, points=2).unknowns) == {"k"}


def test_local_parameters_of_a_candidate_are_eliminated():
    times = np.linspace(0, 3, 13)
    model = pf.Model("x' = -k*x", observables={"y": "s*x"})
    data = [
        pf.Experiment(times, {"y": s * np.exp(-0.7 * times) + 0.01 * np.cos(9 * times)}, f"run {s}")
        for s in (1.0, 2.0)
    ]
    fit = pf.fit(pf.Problem(model, data, {"s": pf.Parameter(0.1, 9, local=True)}, {"x": 1.0}))
    found = pf.design(fit, pf.plan(times, ["y"], "next"))
    assert list(found.before) == ["k"]
    assert found.after["k"] < 0.9 * found.before["k"]


def test_the_table_names_candidates_and_choice(undosed):
    text = str(pf.design(undosed, [planned(0.0, "again"), planned(1.0, "dose")]))
    assert "+ dose" in text
    assert text.endswith("chosen: dose")
    assert "sample at: 1.4" in str(pf.design_times(decay(initial={"x": 2.0}), "run", 1, sd=0.1))


def test_a_choice_that_does_not_help_says_so(undosed):
    again, dose = planned(0.0, "again"), planned(1.0, "dose")
    assert "adds next to nothing" in str(pf.design(undosed, [again], "c:s"))
    assert pf.design(undosed, [again, dose], "c:s").worthwhile


@pytest.mark.parametrize(
    "call, code, subject",
    [
        (lambda fit: pf.design(fit, []), "inference.no_candidate", ""),
        (lambda fit: pf.design(fit, {"dose": planned(1.0, "dose")}), "inference.candidates_are_a_dict", ""),
        (lambda fit: pf.design(fit, [3]), "inference.candidate_not_an_experiment", ""),
        (lambda fit: pf.design(fit, 3), "inference.candidate_not_an_experiment", ""),
        (lambda fit: pf.design("fit", [planned(1.0, "dose")]), "inference.design_for", ""),
        (lambda fit: pf.design(fit, planned(1.0, "no dose")), "inference.candidate_name_taken", "no dose"),
        (lambda fit: pf.design(fit, planned(1.0, "dose"), "T"), "inference.criterion", ""),
        (lambda fit: pf.design(fit, planned(1.0, "dose"), "c:q"), "inference.criterion_uses", "q"),
        (lambda fit: pf.design(fit, planned(1.0, "dose"), "c:3"), "inference.criterion_constant", "3"),
        (
            lambda fit: pf.design(fit, planned(1.0, "dose"), budget=2),
            "inference.more_than_candidates",
            "budget",
        ),
        (lambda fit: pf.design(fit, planned(1.0, "dose"), budget=0), "errors.not_whole", "budget"),
        (lambda fit: pf.design(fit, planned(1.0, "dose"), interest=["z"]), "inference.interest_unknown", "z"),
        (lambda fit: pf.design(fit, planned(1.0, "dose"), sd=-1), "inference.sd_not_positive", ""),
        (lambda fit: pf.design(fit.problem, planned(1.0, "dose")), "inference.sd_missing", ""),
        (
            lambda fit: pf.design(fit, planned(1.0, "dose"), at={"z": 1.0}),
            "problem.value_of_unknown_name",
            "z",
        ),
        (lambda fit: pf.design(fit, planned(1.0, "dose"), at=[]), "inference.at_is_empty", ""),
        (lambda fit: pf.design(fit, planned(1.0, "dose"), scenarios=0), "errors.not_whole", "scenarios"),
        (lambda fit: pf.design_times(fit, "nothing", 1), "inference.no_such_plan", "nothing"),
        (
            lambda fit: pf.design_times(fit, [planned(1.0, "dose")], 1),
            "inference.design_times_of",
            "",
        ),
    ],
)
def test_bad_input_names_the_culprit(undosed, call, code, subject):
    error = complaint(lambda: call(undosed))
    assert (error.code, error.subject) == (code, subject)


def test_a_candidate_without_solution_is_named():
    model = pf.Model("x' = k*x^2")
    plans = [
        pf.plan([0, 0.5], ["x"], "short", initial={"x": 1.0}),
        pf.plan([0, 2], ["x"], "long", initial={"x": 1.0}),
    ]
    error = complaint(lambda: pf.design(pf.Problem(model, plans), at={"k": 1.0}, sd=0.1))
    assert (error.code, error.values["names"]) == ("inference.no_solution_at_values", ["long"])


# ---- the lesson of the paper's Table 2 ----


def tumor_plans() -> list[pf.Experiment]:
    times = np.linspace(0, TUMOR.HORIZON, TUMOR.SAMPLES)
    return [pf.plan(times, ["N", "T", "I"], f"u{k}", {"u": TUMOR.dose(k)}) for k in (2, 3, 4, 5)]


def test_every_dosing_adds_to_no_dosing():
    problem = TUMOR.generate(inputs=(1,))
    found = pf.design(problem, tumor_plans(), "A", 4, at=problem.truth["parameters"], sd=0.2)
    assert all(value < found.value_before for value in found.values.values())
    assert found.value_after < min(found.values.values())
    assert found.after["theta1"] < 0.5 * found.before["theta1"]
    assert found.after["rho"] > 0.95 * found.before["rho"]  # not determined by any of them


@pytest.mark.slow
def test_the_forecast_for_the_next_dosing_is_what_simulation_brings():
    """Root mean square of the relative errors over 24 data sets for each dosing beside u1; see benchmarks/design.py."""
    problem, plans = TUMOR.generate(inputs=(1,)), tumor_plans()
    found = pf.design(
        problem, plans, "A", at=problem.truth["parameters"], interest=list(TUMOR.TRUTH), sd=0.16
    )
    for number in (2, 3, 4, 5):
        fits = [pf.fit(TUMOR.generate(seed=s, inputs=(1, number))) for s in range(24)]
        errors = [[fit.parameters[n] / v - 1 for n, v in TUMOR.TRUTH.items()] for fit in fits]
        realised = np.sqrt(np.mean(np.square(errors)))
        assert 0.75 < realised / found.values[f"u{number}"] < 1.25
