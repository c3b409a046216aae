"""What users do wrong, and what they are told: one sentence with the culprit and the remedy, and never a warning."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

import picardfit as pf

TIMES = np.linspace(0, 3, 13)
DECAY = pf.Model("x' = -k*x")
DATA = 2 * np.exp(-0.7 * TIMES)
NAN = float("nan")


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def problem(model=DECAY, times=TIMES, data=None, **options):
    return pf.Problem(model, pf.Experiment(times, {"x": DATA} if data is None else data), **options)


def complaint(make, *args, **options):
    """The message of the InputError, which is one sentence (a suggestion may follow)."""
    with pytest.raises(pf.InputError) as caught:
        make(*args, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def says(text, *parts):
    missing = [part for part in parts if part not in text]
    return not missing or pytest.fail(f"{missing} not in: {text}")


def table(text, **options):
    return pf.read_table(io.StringIO(text), **options)


# names


def test_misspelt_observable():
    model = pf.Model("prey' = -k*prey")
    assert says(complaint(problem, model, data={"prei": DATA}), "`prei`", "rename it", "Did you mean `prey`?")


def test_observable_with_the_wrong_case():
    assert says(complaint(problem, data={"X": DATA}), "`X`", "Did you mean `x`?")


def test_misspelt_column_of_a_file_meets_the_model():
    ponds = table("time,prei\n0,1\n1,2\n")
    assert says(complaint(pf.Problem, pf.Model("prey' = -k*prey"), ponds), "`prei`", "Did you mean `prey`?")


def test_misspelt_column_in_the_call():
    assert says(complaint(table, "time,prey\n0,1\n", observables=["prei"]), "`prei`", "prey")


def test_misspelt_parameter():
    model = pf.Model("x' = -rate*x")
    assert says(complaint(problem, model, parameters={"rte": (0, 1)}), "`rte`", "Did you mean `rate`?")


def test_parameter_named_like_a_state():
    assert says(complaint(problem, parameters={"x": (0, 1)}), "`x`", "is a state", "initial=")


def test_initial_value_of_an_unknown_state():
    model = pf.Model("prey' = -k*prey")
    text = complaint(problem, model, data={"prey": DATA}, initial={"pray": 1.0})
    assert says(text, "`pray`", "Did you mean `prey`?")


def test_initial_value_of_an_unknown_state_in_an_experiment():
    one = pf.Experiment(TIMES, {"x": DATA}, name="pond 1", initial={"z": 1.0})
    assert says(complaint(pf.Problem, DECAY, one), "`z`", "`pond 1`", "`x`")


def test_initial_formula_with_an_unknown_name():
    assert says(complaint(problem, initial={"x": "2*dose"}), "`dose`", "parameters={...}")


def test_initial_formula_with_a_state():
    assert says(complaint(problem, initial={"x": "2*x"}), "`x`", "only parameters")


def test_start_of_an_unknown_parameter():
    assert says(complaint(pf.fit, problem(), start={"kk": 1.0}), "`kk`", "Did you mean `k`?")


def test_two_experiments_of_one_name():
    one = pf.Experiment(TIMES, {"x": DATA}, name="pond 1")
    assert says(complaint(pf.Problem, DECAY, [one, one]), "`pond 1`", "its own name")


def test_missing_input():
    model = pf.Model("x' = u - k*x", inputs=["u"])
    assert says(complaint(problem, model), "`u`", 'inputs={"u": ...}')


def test_input_the_model_does_not_have():
    one = pf.Experiment(TIMES, {"x": DATA}, name="pond 1", inputs={"dose": 1.0})
    assert says(complaint(pf.Problem, DECAY, one), "`dose`", "`pond 1`", "remove it")


# numbers


def test_unsorted_times_give_the_same_answer():
    shuffled = np.random.default_rng(0).permutation(len(TIMES))
    fit = pf.fit(problem(times=TIMES[shuffled], data={"x": DATA[shuffled]}))
    assert fit.parameters["k"] == pytest.approx(0.7, rel=1e-9)


def test_repeated_times_are_replicates():
    fit = pf.fit(problem(times=[0, 0, 1, 1], data={"x": [1.0, 2.0, 0.5, 0.6]}))
    assert fit.predict("experiment 1", [0, 1])["x"] == pytest.approx([1.5, 0.55])


@pytest.mark.parametrize("blank", [NAN, None, ""])
def test_cells_without_a_number_were_not_measured(blank):
    fit = pf.fit(problem(data={"x": [blank, *DATA[1:].tolist()]}))
    assert (fit.problem.measurements, fit.parameters["k"]) == (12, pytest.approx(0.7, rel=1e-9))


def test_blank_cells_of_a_file_were_not_measured():
    rows = "".join(f"{t},{'' if i == 3 else v}\n" for i, (t, v) in enumerate(zip(TIMES, DATA, strict=True)))
    fit = pf.fit(pf.Problem(DECAY, table("time,x\n" + rows)))
    assert (fit.problem.measurements, fit.parameters["k"]) == (12, pytest.approx(0.7, rel=1e-6))


def test_text_among_the_numbers():
    assert says(complaint(problem, times=[0, 1], data={"x": [1, "high"]}), "Entry 2", "`x`", "'high'")


def test_text_in_a_number_column_of_a_file():
    assert says(complaint(table, "time,prey\n0,1\n1,high\n"), "`prey`", "high", "line 3")


def test_infinite_value():
    assert says(complaint(problem, times=[0, 1], data={"x": [1, np.inf]}), "Entry 2", "`x`", "inf", "NaN")


def test_no_number_at_all():
    assert says(complaint(problem, data={"x": [NAN] * 13}), "no number", "leave the experiment out")


@pytest.mark.parametrize("factor, word", [(1e150, "large"), (1e-150, "small")])
def test_values_whose_squares_cannot_be_represented(factor, word):
    assert says(complaint(problem, data={"x": factor * DATA}), "`x`", f"too {word}", "another unit")


@pytest.mark.parametrize("factor", [1e60, 1e-12])
def test_values_of_unusual_size_are_fitted(factor):
    fit = pf.fit(problem(data={"x": factor * DATA}))
    assert (fit.success, fit.parameters["k"]) == (True, pytest.approx(0.7, rel=1e-6))


def test_values_too_small_for_the_search_are_not_called_a_success():
    fit = pf.fit(problem(data={"x": 1e-60 * DATA}))
    assert not fit.success or fit.parameters["k"] == pytest.approx(0.7, rel=1e-6)


def test_zero_data_have_the_zero_solution():
    fit = pf.fit(problem(data={"x": 0 * DATA}))
    assert (fit.loss, fit.initial_states["experiment 1"]["x"]) == pytest.approx((0, 0), abs=1e-12)


def test_constant_data_have_a_constant_solution():
    fit = pf.fit(problem(data={"x": 0 * DATA + 3}))
    assert fit.parameters["k"] == pytest.approx(0, abs=1e-9)


def test_one_sample_is_fitted_with_a_warning():
    fit = pf.fit(problem(times=[1.0], data={"x": [1.0]}))
    assert fit.loss == pytest.approx(0, abs=1e-15)
    assert says(fit.message, "fewer measurements (1) than unknowns (2)", "fix some parameters")


def test_one_sample_at_the_start_is_fitted():
    fit = pf.fit(problem(times=[0.0], data={"x": [1.5]}))
    assert fit.initial_states["experiment 1"]["x"] == pytest.approx(1.5)


def test_enough_samples_give_no_warning():
    assert pf.fit(problem()).warnings == ()


def test_times_far_from_t0_are_pointed_at():
    fit = pf.fit(problem(times=TIMES + 100), pf.LiftedGaussNewton(max_iterations=3))
    assert says(fit.message, "t0 = 0", "first sample at 100", "t0=100")


def test_known_initial_states_may_lie_far_from_the_data():
    fit = pf.fit(problem(times=TIMES + 100, initial={"x": 2.0}), pf.LiftedGaussNewton(max_iterations=3))
    assert "t0" not in fit.message


def test_an_unmeasured_observable_is_no_obstacle():
    model = pf.Model("x' = -k*x; z' = -k*z")
    fit = pf.fit(problem(model, initial={"z": 1.0}))
    assert fit.predict("experiment 1", [1.0])["z"] == pytest.approx(np.exp(-0.7))


# bounds and starts


def test_reversed_bounds():
    assert says(complaint(problem, parameters={"k": (2, 1)}), "2 of `k`", "swap them")


def test_equal_bounds():
    assert says(complaint(problem, parameters={"k": (1, 1)}), "`k`", "fixed=")


def test_reversed_bounds_of_an_initial_state():
    assert says(complaint(problem, initial={"x": (2, 1)}), "2 of `x(0)`", "swap them")


def test_start_outside_the_bounds():
    text = complaint(pf.fit, problem(parameters={"k": (0, 1)}), start={"k": 5.0})
    assert says(text, "`k`", "5", "[0, 1]", "widen the bounds")


def test_own_start_outside_the_bounds():
    assert says(complaint(pf.Parameter, 0, 1, start=5), "5", "[0, 1]", "widen the bounds")


def test_start_of_an_initial_state_outside_its_bounds():
    text = complaint(pf.fit, problem(initial={"x": (0, 1)}), start_initial={"x": 5.0})
    assert says(text, "`x(0)`", "5", "[0, 1]")


def test_negative_lower_bound_of_a_log_parameter():
    assert says(complaint(pf.Parameter, -1, 1, log=True), "-1", "log=True")


def test_negative_start_of_a_log_parameter():
    log = problem(parameters={"k": pf.Parameter(log=True)})
    assert says(complaint(pf.fit, log, start={"k": -1.0}), "`k`", "-1", "positive")


@pytest.mark.parametrize("value", [NAN, "fast", None, True])
def test_start_which_is_not_a_number(value):
    assert says(complaint(pf.fit, problem(), start={"k": value}), "`k`", "number")


def test_nothing_left_to_estimate():
    done = problem(parameters={"k": 1.0}, initial={"x": 1.0})
    assert says(complaint(pf.fit, done), "fixed", "free")


# formulas


def test_unknown_function():
    assert says(complaint(pf.Model, "x' = -exq(x)"), "`exq`", "exp")


def test_syntax_error_has_a_position():
    assert says(complaint(pf.Model, "y' = -y\nx' = -k*x +* 2"), "line 2", "column 7", "`*`")


def test_unclosed_parenthesis():
    assert says(complaint(pf.Model, "x' = -k*(x"), "line 1", "close it")


@pytest.mark.parametrize("formula", ["a/0 - x", "a/(b - b) - x"])
def test_division_by_zero_everywhere(formula):
    assert says(complaint(pf.Model, f"x' = {formula}"), "line 1", "divides by zero")


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os').system('true')",
        "x.__class__",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "open('/etc/passwd')",
        "x; import os",
        "9**9**9**9**9",
        "exec('1')",
        "f'{x}'",
        "(" * 5000 + "x" + ")" * 5000,
    ],
)
def test_hostile_formulas_are_refused(formula):
    assert complaint(pf.Model, f"x' = {formula}")


@pytest.mark.parametrize("formula", ["__import__('os')", "c.real", "9**9**9**9"])
def test_hostile_initial_formulas_are_refused(formula):
    assert complaint(problem, initial={"x": formula}, parameters={"c": (0, 1)})


# failures of the numbers


def test_division_by_zero_at_the_start_is_left_for_other_starts():
    model = pf.Model("x' = a/(b - 1) - x")
    fit = pf.fit(problem(model, parameters={"a": (0, 2), "b": pf.Parameter(0, 3, start=1.0)}))
    assert fit.success
    assert fit.starts[0].status is pf.Status.NOT_FINITE


def test_a_model_that_is_nowhere_finite_is_a_result_in_words():
    model = pf.Model("x' = log(-1 - k^2) - x")
    fit = pf.fit(problem(model))
    assert (fit.success, fit.status) == (False, pf.Status.NOT_FINITE)
    assert says(fit.message, "not finite", "give a start or bounds")


def test_a_fit_without_solution_can_be_printed():
    fit = pf.fit(problem(pf.Model("x' = log(-1 - k^2) - x")))
    assert says(str(fit), "no success", "not finite")


def test_a_fit_without_solution_has_no_values():
    fit = pf.fit(problem(pf.Model("x' = log(-1 - k^2) - x")))
    assert (fit.parameters, fit.initial_states, fit.standard_errors, fit.intervals()) == ({}, {}, {}, {})
    assert fit.loss == np.inf


def test_a_fit_without_solution_predicts_nothing():
    fit = pf.fit(problem(pf.Model("x' = log(-1 - k^2) - x")))
    assert says(complaint(fit.predict, "experiment 1", [1.0]), "no solution", "not finite")


@pytest.mark.parametrize(
    "equation, bounds",
    [
        ("exp(a*x)", {"a": (0, 1000)}),  # overflows
        ("-k*log(x - a)", {"a": (-5, 5), "k": (-10, 10)}),  # NaN where a > x
        ("-k*sqrt(x - a)", {"a": (-5, 5), "k": (0, 10)}),
        ("-k*x^a", {"a": (-20, 20), "k": (0, 10)}),
        ("-k/(x - a)", {"a": (-5, 5), "k": (0, 10)}),
    ],
)
def test_equations_that_fail_during_the_search_never_raise(equation, bounds):
    fit = pf.fit(problem(pf.Model(f"x' = {equation}"), parameters=bounds))
    assert np.isfinite(fit.loss) or not fit.success


@pytest.mark.parametrize(
    "method",
    [
        pf.GradientDescent(max_iterations=20),
        pf.GradientContractive(max_iterations=20),
        pf.GradientContractMultiplier(max_iterations=20),
        pf.ExtendedGradientContractMultiplier(max_iterations=20),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("equation", ["exp(1000*a*x)", "log(-1 - a^2) - x", "100*a*x^2", "a/(a - 1)"])
def test_the_papers_algorithms_never_raise_either(method, equation):
    fit = pf.fit(problem(pf.Model(f"x' = {equation}"), parameters={"a": (0, 2)}), method)
    assert np.isfinite(fit.loss) or not fit.success


@pytest.mark.parametrize("begin", [0.5, 9.0, 100.0])
def test_a_solution_that_explodes_is_found_from_starts_beyond(begin):
    """x' = a x^2 from 1 ends at t = 1/a: beyond a = 1.1 there is no solution over the data."""
    times = np.linspace(0, 0.9, 10)
    exploding = problem(pf.Model("x' = a*x^2"), times, {"x": 1 / (1 - times)})
    assert pf.fit(exploding, start={"a": begin}).parameters["a"] == pytest.approx(1.0, rel=1e-8)


def test_loss_where_there_is_no_solution_is_infinite():
    exploding = problem(pf.Model("x' = a*x^2"))
    assert exploding.loss({"a": 10.0}, {"x": 1.0}) == np.inf


def test_iteration_limit_is_a_result_in_words():
    fit = pf.fit(problem(), pf.LiftedGaussNewton(max_iterations=1))
    assert (fit.success, fit.status) == (False, pf.Status.ITERATION_LIMIT)


# files


def test_empty_file(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("")
    assert says(complaint(pf.read_table, path), "counts.csv", "nothing", "first line")


def test_file_that_does_not_exist(tmp_path):
    assert says(complaint(pf.read_table, tmp_path / "cuonts.csv"), "cuonts.csv")


def test_windows_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "counts.csv"
    rows = "".join(f"{t},{v}\r\n" for t, v in zip(TIMES, DATA, strict=True))
    path.write_bytes(b"\xef\xbb\xbf" + ("time,x\r\n" + rows).encode())
    assert pf.fit(pf.Problem(DECAY, pf.read_table(path))).parameters["k"] == pytest.approx(0.7, rel=1e-9)


def test_a_hundred_thousand_rows_are_fitted_in_seconds(tmp_path):
    path, times = tmp_path / "long.csv", np.linspace(0, 3, 100_000)
    noise = 0.1 * np.random.default_rng(0).standard_normal(len(times))
    np.savetxt(
        path,
        np.stack([times, 2 * np.exp(-0.7 * times) + noise], 1),
        "%.9g",
        ",",
        header="time,x",
        comments="",
    )
    fit = pf.fit(pf.Problem(DECAY, pf.read_table(path)))
    assert fit.parameters["k"] == pytest.approx(0.7, abs=5 * fit.standard_errors["k"])


# arguments


@pytest.mark.parametrize("method", ["LiftedGaussNewton", pf.LiftedGaussNewton, 3])
def test_method_which_is_none(method):
    assert says(complaint(pf.fit, problem(), method), "not a method", "pf.LiftedGaussNewton()")


@pytest.mark.parametrize("starts", [0, -1, 2.0, "3", True, None])
def test_starts_which_are_no_count(starts):
    assert says(complaint(pf.fit, problem(), starts=starts), f"starts = {starts!r}", "whole number")


def test_starts_may_be_a_numpy_integer():
    assert len(pf.fit(problem(), starts=np.int64(2)).starts) == 2


@pytest.mark.parametrize("seed", [-1, None, 0.5])
def test_seed_which_is_none(seed):
    assert says(complaint(pf.fit, problem(), seed=seed), f"seed = {seed!r}", "whole number")


def test_executor_which_is_none():
    assert says(complaint(pf.fit, problem(), executor=4), "4 is not an executor", "ProcessPoolExecutor")


def test_progress_which_cannot_be_called():
    assert says(complaint(pf.fit, problem(), progress=True), "progress = True", "function")


@pytest.mark.parametrize("thing", [None, DECAY, "problem.toml"])
def test_something_else_than_a_problem(thing):
    assert says(complaint(pf.fit, thing), type(thing).__name__, "pf.Problem")


def test_something_else_than_a_model():
    assert says(complaint(pf.Problem, "x' = -x", []), "str", "pf.Model")


@pytest.mark.parametrize("thing", [None, 3, "counts.csv", {"x": [1, 2]}])
def test_something_else_than_experiments(thing):
    assert says(complaint(pf.Problem, DECAY, thing), type(thing).__name__, "pf.read_table")


def test_something_else_than_an_experiment_in_the_list():
    assert says(complaint(pf.Problem, DECAY, [[1, 2]]), "[1, 2]", "pf.Experiment")


def test_no_experiment():
    assert says(complaint(pf.Problem, DECAY, []), "no experiment", "pf.Experiment")


@pytest.mark.parametrize("name", ["parameters", "initial"])
def test_lists_in_place_of_names_and_values(name):
    assert says(complaint(problem, **{name: ["k"]}), f"`{name}`", "list", "{'name': (0, 1)}")


def test_start_is_a_list():
    assert says(complaint(pf.fit, problem(), start=[1.0]), "list", "{'name': 1.0}")


@pytest.mark.parametrize("level", [0, 1, 95, "95 %"])
def test_level_which_is_none(level):
    assert says(complaint(pf.fit(problem()).intervals, level), f"{level!r}", "0.95")


@pytest.mark.parametrize("times", [["soon"], [NAN], [[0, 1]], None])
def test_times_which_are_none(times):
    assert says(complaint(pf.fit(problem()).predict, "experiment 1", times), "finite numbers")


def test_time_before_t0():
    assert says(complaint(pf.fit(problem()).states, "experiment 1", [-1]), "-1", "t0 = 0", "`experiment 1`")


def test_experiment_which_is_not_there():
    assert says(complaint(pf.fit(problem()).predict, "experiment 2", [1]), "`experiment 2`", "Did you mean")
