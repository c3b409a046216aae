"""What users do wrong, and the error they get: by its code, subject and place; some by their sentence."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pandas as pd
import pytest

import picardfit as pf
from complaints import complaint, record

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


def says(told, *parts):
    """Whether a sentence holds all these words."""
    text = str(told)
    assert "\n" not in text or not isinstance(told, pf.InputError)
    missing = [part for part in parts if part not in text]
    return not missing or pytest.fail(f"{missing} not in: {text}")


def table(text, **options):
    return pf.read_table(io.StringIO(text), **options)


# names


def test_misspelt_observable():
    model = pf.Model("prey' = -k*prey")
    assert record(complaint(problem, model, data={"prei": DATA})) == (
        "problem.unknown_observable",
        "prei",
        ("data",),
    )


def test_observable_with_the_wrong_case():
    assert record(complaint(problem, data={"X": DATA})) == ("problem.unknown_observable", "X", ("data",))


def test_an_observable_without_a_state_names_all_that_could_be_meant():
    error = complaint(pf.Model, "S' = -b*S", observables={"y": "rho*Q"})
    assert record(error) == ("model.no_state_in_formula", "y", ("observables", "y"))
    assert error.values["names"] == ["rho", "Q"]


def test_misspelt_column_of_a_file_meets_the_model():
    ponds = table("time,prei\n0,1\n1,2\n")
    assert record(complaint(pf.Problem, pf.Model("prey' = -k*prey"), ponds)) == (
        "problem.unknown_observable",
        "prei",
        ("data",),
    )


def test_misspelt_column_in_the_call():
    assert record(complaint(table, "time,prey\n0,1\n", observables=["prei"])) == (
        "files.no_column",
        "prei",
        ("observables",),
    )


def test_misspelt_parameter():
    model = pf.Model("x' = -rate*x")
    assert record(complaint(problem, model, parameters={"rte": (0, 1)})) == (
        "problem.unknown_parameter",
        "rte",
        ("parameters", "rte"),
    )


def test_parameter_named_like_a_state():
    assert record(complaint(problem, parameters={"x": (0, 1)})) == (
        "problem.parameter_is_state",
        "x",
        ("parameters", "x"),
    )


def test_initial_value_of_an_unknown_state():
    model = pf.Model("prey' = -k*prey")
    text = complaint(problem, model, data={"prey": DATA}, initial={"pray": 1.0})
    assert says(text, "`pray`", "Did you mean `prey`?")


def test_initial_value_of_an_unknown_state_in_an_experiment():
    one = pf.Experiment(TIMES, {"x": DATA}, name="pond 1", initial={"z": 1.0})
    assert record(complaint(pf.Problem, DECAY, one)) == ("problem.unknown_state", "z", ("initial", "z"))


def test_initial_formula_with_an_unknown_name():
    assert record(complaint(problem, initial={"x": "2*dose"})) == (
        "problem.unknown_in_initial",
        "dose",
        ("initial", "x"),
    )


def test_initial_formula_with_the_time():
    assert record(complaint(problem, initial={"x": "2*t"})) == (
        "problem.initial_formula_uses",
        "t",
        ("initial", "x"),
    )


def test_start_of_an_unknown_parameter():
    assert record(complaint(pf.fit, problem(), start={"kk": 1.0})) == (
        "problem.value_of_unknown_name",
        "kk",
        (),
    )


def test_two_experiments_of_one_name():
    one = pf.Experiment(TIMES, {"x": DATA}, name="pond 1")
    assert record(complaint(pf.Problem, DECAY, [one, one])) == (
        "problem.same_name",
        "pond 1",
        ("experiments", "pond 1"),
    )


def test_missing_input():
    model = pf.Model("x' = u - k*x", inputs=["u"])
    assert record(complaint(problem, model)) == ("problem.missing_input", "u", ("inputs", "u"))


def test_input_the_model_does_not_have():
    one = pf.Experiment(TIMES, {"x": DATA}, name="pond 1", inputs={"dose": 1.0})
    assert record(complaint(pf.Problem, DECAY, one)) == ("problem.unknown_input", "dose", ("inputs", "dose"))


@pytest.mark.parametrize(
    "make, meant",
    [
        (lambda: problem(data={"X": DATA}), "x"),
        (lambda: problem(pf.Model("prey' = -k*prey"), data={"prei": DATA}), "prey"),
        (lambda: problem(pf.Model("x' = -rate*x"), parameters={"rte": (0, 1)}), "rate"),
        (lambda: problem(pf.Model("prey' = -k*prey"), data={"prey": DATA}, initial={"pray": 1.0}), "prey"),
        (lambda: pf.fit(problem(), start={"kk": 1.0}), "k"),
        (lambda: pf.fit(problem()).predict("experiment 2", [1]), "experiment 1"),
    ],
)
def test_what_was_probably_meant_is_proposed(make, meant):
    assert str(complaint(make)).endswith(f" Did you mean `{meant}`?")


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
    assert record(complaint(problem, times=[0, 1], data={"x": [1, "high"]})) == (
        "model.entry_not_number",
        "x",
        (),
    )


def test_text_in_a_number_column_of_a_file():
    assert record(complaint(table, "time,prey\n0,1\n1,high\n")) == ("files.cell", "prey", (), 3)


def test_infinite_value():
    assert record(complaint(problem, times=[0, 1], data={"x": [1, np.inf]})) == (
        "model.entry_infinite",
        "x",
        (),
    )


def test_no_number_at_all():
    assert record(complaint(problem, data={"x": [NAN] * 13})) == ("problem.nothing_measured", "", ("data",))


@pytest.mark.parametrize("factor, word", [(1e150, "large"), (1e-150, "small")])
def test_values_whose_squares_cannot_be_represented(factor, word):
    assert record(complaint(problem, data={"x": factor * DATA})) == ("problem.measured_size", "x", ("data",))


def test_times_whose_squares_cannot_be_represented():
    found = record(complaint(problem, times=[0, 1, 1e308], data={"x": [1.0, 0.5, 0.2]}))
    assert found == ("problem.times_size", "experiment 1", ("data",))


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
    assert record(complaint(problem, parameters={"k": (2, 1)})) == (
        "model.bounds_swapped",
        "k",
        ("parameters", "k"),
    )


def test_equal_bounds():
    assert record(complaint(problem, parameters={"k": (1, 1)})) == (
        "model.bounds_equal",
        "k",
        ("parameters", "k"),
    )


def test_reversed_bounds_of_an_initial_state():
    assert record(complaint(problem, initial={"x": (2, 1)})) == (
        "model.bounds_swapped",
        "x",
        ("initial", "x"),
    )


def test_reversed_bounds_of_a_declared_initial_state():
    with pytest.raises(pf.InputError) as caught:
        problem(initial={"x": pf.Parameter(2, 1)})
    assert record(caught.value) == ("model.bounds_swapped", "x", ("initial", "x"))


def test_start_outside_the_bounds():
    text = complaint(pf.fit, problem(parameters={"k": (0, 1)}), start={"k": 5.0})
    assert says(text, "`k`", "5", "[0, 1]", "widen the bounds")


def test_own_start_outside_the_bounds():
    assert record(complaint(pf.Parameter, 0, 1, start=5)) == ("model.outside_bounds", "start", ())


def test_start_of_an_initial_state_outside_its_bounds():
    text = complaint(pf.fit, problem(initial={"x": (0, 1)}), start_initial={"x": 5.0})
    assert says(text, "`x(0)`", "5", "[0, 1]")


def test_negative_lower_bound_of_a_log_parameter():
    assert record(complaint(pf.Parameter, -1, 1, log=True)) == ("model.log_lower_bound", "", ())


def test_negative_start_of_a_log_parameter():
    log = problem(parameters={"k": pf.Parameter(log=True)})
    assert record(complaint(pf.fit, log, start={"k": -1.0})) == ("problem.log_needs_positive", "k", ())


@pytest.mark.parametrize("value", [NAN, "fast", None, True])
def test_start_which_is_not_a_number(value):
    assert says(complaint(pf.fit, problem(), start={"k": value}), "`k`", "number")


def test_nothing_left_to_estimate():
    done = problem(parameters={"k": 1.0}, initial={"x": 1.0})
    assert record(complaint(pf.fit, done)) == ("fit.nothing_unknown", "", ())


# formulas


def test_unknown_function():
    assert record(complaint(pf.Model, "x' = -exq(x)")) == (
        "formulas.misspelt_function",
        "exq",
        ("equations",),
        1,
    )


def test_syntax_error_has_a_position():
    assert record(complaint(pf.Model, "y' = -y\nx' = -k*x +* 2")) == (
        "formulas.operand_expected",
        "*",
        ("equations",),
        2,
    )


def test_unclosed_parenthesis():
    assert record(complaint(pf.Model, "x' = -k*(x")) == ("formulas.never_closed", "-k*(x", ("equations",), 1)


@pytest.mark.parametrize("formula", ["a/0 - x", "a/(b - b) - x"])
def test_division_by_zero_everywhere(formula):
    assert record(complaint(pf.Model, f"x' = {formula}")) == (
        "formulas.division_by_zero",
        formula,
        ("equations",),
        1,
    )


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


# things in the wrong place


def test_a_frame_is_not_an_experiment():
    frame = pd.DataFrame({"time": [0, 1], "x": [1, 2]})
    assert record(complaint(pf.Problem, DECAY, frame)) == ("problem.not_experiments", "", ("experiments",))


def test_lists_of_experiments_must_be_joined():
    ponds = table("time,x\n0,1\n1,2")
    assert record(complaint(pf.Problem, DECAY, [ponds, ponds])) == (
        "problem.nested_experiments",
        "",
        ("experiments",),
    )


def test_a_class_is_not_a_method():
    text = str(complaint(pf.fit, problem(), pf.LiftedGaussNewton))
    assert says(text, "LiftedGaussNewton is a class", "method=pf.LiftedGaussNewton()")
    assert "picardfit." not in text


def test_an_unknown_kind_of_bootstrap():
    assert record(complaint(pf.fit(problem()).bootstrap, 3, kind=["x"])) == (
        "inference.bootstrap_kind",
        "",
        (),
    )


# failures of the numbers


def test_division_by_zero_at_the_start_is_left_for_other_starts():
    model = pf.Model("x' = a/(b - 1) - x")
    fit = pf.fit(problem(model, parameters={"a": (0, 2), "b": pf.Parameter(0, 3, start=1.0)}))
    assert fit.success
    assert fit.searches[0].status is pf.Status.NOT_FINITE


def test_a_model_that_is_nowhere_finite_is_a_result_in_words():
    model = pf.Model("x' = log(-1 - k^2) - x")
    fit = pf.fit(problem(model))
    assert (fit.success, fit.status) == (False, pf.Status.NOT_FINITE)
    assert says(fit.message, "not finite", "give a start or bounds")


def test_a_fit_without_solution_can_be_printed():
    fit = pf.fit(problem(pf.Model("x' = log(-1 - k^2) - x")))
    assert says(str(fit), "unsuccessful", "not finite")


def test_a_fit_without_solution_has_a_certificate_of_nothing():
    certificate = pf.fit(problem(pf.Model("x' = log(-1 - k^2) - x"))).certificate
    assert not certificate.agrees
    assert (certificate.loss, certificate.mismatch, certificate.largest_jump) == (np.inf, np.inf, np.inf)
    assert certificate.undetermined is None
    assert "no finite answer" in str(certificate)


def test_a_start_that_is_not_finite_is_told_once():
    message = pf.fit(problem(pf.Model("x' = log(-1 - k^2) - x"))).message
    assert message.startswith("The model is not finite at the start of the search, where `log(")
    assert message.count("finite at the start") == 1
    assert pf.Status.NOT_FINITE.value not in message


def test_a_fit_without_solution_has_no_values():
    fit = pf.fit(problem(pf.Model("x' = log(-1 - k^2) - x")))
    assert (fit.parameters, fit.initial_states, fit.standard_errors, fit.intervals()) == ({}, {}, {}, {})
    assert fit.loss == np.inf


def test_a_fit_without_solution_predicts_nothing():
    fit = pf.fit(problem(pf.Model("x' = log(-1 - k^2) - x")))
    assert record(complaint(fit.predict, "experiment 1", [1.0])) == ("fit.no_solution", "", ())


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
    assert record(complaint(pf.read_table, path)) == ("files.empty_table", "counts.csv", ())


def test_file_that_does_not_exist(tmp_path):
    assert record(complaint(pf.read_table, tmp_path / "cuonts.csv")) == ("files.no_table", "cuonts.csv", ())


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


@pytest.mark.parametrize("starts", [0, -1, 2.0, "3", True])
def test_starts_which_are_no_count(starts):
    assert record(complaint(pf.fit, problem(), starts=starts)) == ("errors.not_whole", "starts", ())


def test_more_starts_than_can_ever_end():
    found = complaint(pf.fit, problem(), starts=1_000_000_000)
    assert record(found) == ("errors.too_many", "starts", ())
    assert found.values["most"] == 100_000


def test_starts_may_be_a_numpy_integer():
    assert len(pf.fit(problem(), starts=np.int64(2)).searches) == 2


@pytest.mark.parametrize("seed", [-1, None, 0.5])
def test_seed_which_is_none(seed):
    assert record(complaint(pf.fit, problem(), seed=seed)) == ("errors.not_whole", "seed", ())


def test_executor_which_is_none():
    assert record(complaint(pf.fit, problem(), executor=4)) == ("parallel.not_an_executor", "", ())


def test_progress_which_cannot_be_called():
    assert record(complaint(pf.fit, problem(), progress=True)) == ("parallel.not_a_progress_function", "", ())


@pytest.mark.parametrize("thing", [None, DECAY, "problem.toml"])
def test_something_else_than_a_problem(thing):
    assert record(complaint(pf.fit, thing)) == ("fit.not_a_problem", "", ())


def test_something_else_than_a_model():
    assert record(complaint(pf.Problem, "x' = -x", [])) == ("problem.not_a_model", "", ())


@pytest.mark.parametrize("thing", [None, 3, "counts.csv", {"x": [1, 2]}])
def test_something_else_than_experiments(thing):
    assert record(complaint(pf.Problem, DECAY, thing)) == ("problem.not_experiments", "", ("experiments",))


def test_something_else_than_an_experiment_in_the_list():
    assert record(complaint(pf.Problem, DECAY, [[1, 2]])) == (
        "problem.not_an_experiment",
        "",
        ("experiments",),
    )


def test_no_experiment():
    assert record(complaint(pf.Problem, DECAY, [])) == ("problem.no_experiments", "", ("experiments",))


@pytest.mark.parametrize("name", ["parameters", "initial"])
def test_lists_in_place_of_names_and_values(name):
    assert says(complaint(problem, **{name: ["k"]}), f"`{name}`", "list", "{'name': (0, 1)}")


def test_start_is_a_list():
    assert record(complaint(pf.fit, problem(), start=[1.0])) == ("errors.not_a_mapping", "start", ("start",))


@pytest.mark.parametrize("level", [0, 1, 95, "95 %"])
def test_level_which_is_none(level):
    assert record(complaint(pf.fit(problem()).intervals, level)) == ("evidence.level", "", ())


@pytest.mark.parametrize("times", [["soon"], [NAN], [[0, 1]], None])
def test_times_which_are_none(times):
    assert record(complaint(pf.fit(problem()).predict, "experiment 1", times)) == ("evidence.times", "", ())


def test_time_before_t0():
    assert record(complaint(pf.fit(problem()).states, "experiment 1", [-1])) == (
        "evidence.before_t0",
        "experiment 1",
        (),
    )


def test_experiment_which_is_not_there():
    assert record(complaint(pf.fit(problem()).predict, "experiment 2", [1])) == (
        "problem.no_such_experiment",
        "experiment 2",
        (),
    )


# a search that did not converge


@pytest.fixture(scope="module")
def unfinished():
    times = np.linspace(0, 60, 101)
    model = pf.Model("x' = y\ny' = mu*(1 - x*x)*y - x", observables=["x"])
    data = pf.simulate(model, {"mu": 20.0}, {"x": 2.0, "y": 0.0}, times).observables
    run = pf.Experiment(times, data)
    return pf.fit(pf.Problem(model, run, {"mu": (0.1, 100)}), pf.LiftedGaussNewton(max_iterations=3))


def test_no_errors_without_convergence(unfinished):
    assert not unfinished.status.converged
    assert set(unfinished.standard_errors) == set(unfinished.intervals()) == {"mu", "x(0)", "y(0)"}
    assert np.isnan([*unfinished.standard_errors.values()]).all()
    assert np.isnan([*unfinished.intervals().values()]).all()
    assert np.isnan(unfinished.covariance).all()
    assert unfinished.certificate.undetermined is None


def test_text_without_convergence_states_nothing_about_the_data(unfinished):
    text = str(unfinished)
    assert says(text, "intervals are not given, because the fit did not converge", "not judged")
    for claim in ("inf", "not determined by these data", "follow a pattern", "AIC"):
        assert claim not in text


def test_report_without_convergence(unfinished, tmp_path):
    text = unfinished.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert says(text, "intervals are not given, because the fit did not converge")
    assert "What the data determine" not in text
    assert "Shade:" not in text


def test_judging_what_did_not_converge_is_refused(unfinished):
    assert record(complaint(unfinished.identifiability)) == ("inference.not_judged", "", ())
    assert record(complaint(unfinished.bands, "experiment 1", [1.0])) == ("fit.no_bands", "", ())


def test_what_did_not_converge_is_saved_and_loaded(unfinished, tmp_path):
    assert str(pf.load(unfinished.save(tmp_path / "fit.json"))) == str(unfinished)


# no more numbers than unknowns


def test_one_sample_leaves_everything_open():
    one = problem(times=[1.0], data={"x": [0.5]}, parameters={"k": (0, 5)}, initial={"x": (0, 3)})
    fit = pf.fit(one)
    assert set(fit.certificate.undetermined) == {"k", "x(0)"}
    assert (fit.nllh, fit.log_likelihood, fit.aic, fit.aicc, fit.bic) == (None,) * 5
    text = str(fit)
    assert says(text, "not defined with 1 measurement and 2 unknowns", "not determined by these data")
    assert "inf" not in text


def test_as_many_samples_as_unknowns():
    fit = pf.fit(problem(times=[1.0, 2.0], data={"x": [0.5, 0.2]}, parameters={"k": (0, 5)}))
    assert fit.certificate.undetermined == ()
    assert (fit.nllh, fit.aicc) == (None, None)
    assert says(str(fit), "Standard errors are not defined with 2 measurements and 2 unknowns")


def test_hardly_more_samples_than_unknowns_have_no_corrected_criterion():
    fit = pf.fit(problem(times=[1.0, 2.0, 3.0], data={"x": [0.5, 0.2, 0.12]}, parameters={"k": (0, 5)}))
    assert np.isfinite(fit.aic)
    assert fit.aicc is None
    assert says(str(fit), "AICc is not defined with 3 measurements and 2 unknowns")


def test_an_unknown_pushed_against_its_bound_is_not_open():
    fit = pf.fit(problem(parameters={"k": (1.0, 5.0)}))
    assert (fit.certificate.at_bound, fit.certificate.undetermined) == (("k",), ())


# words that name the culprit and the remedy


@pytest.mark.parametrize("lower", [-1.0, 0.0])
def test_lower_bound_of_a_log_parameter(lower):
    text = complaint(pf.Parameter, lower, 3.0, log=True)
    assert says(text, f"[{lower:g}, 3]", "write for example 3e-06", "log=True")


def test_set_of_another_size_names_its_argument():
    method = pf.GradientDescent(parameter_set=pf.Ball((0.0, 0.0, 0.0), 1.0))
    assert record(complaint(pf.fit, problem(), method)) == ("solvers.parameter_set_size", "", ())


def test_initial_formula_names_state_and_experiment():
    one = pf.Experiment(TIMES, {"x": DATA}, name="pond 1", initial={"x": "2*dose"})
    assert record(complaint(pf.Problem, DECAY, one)) == (
        "problem.unknown_in_initial",
        "dose",
        ("initial", "x"),
    )
    one = pf.Experiment(TIMES, {"x": DATA}, name="pond 1", initial={"x": "2*x"})
    assert record(complaint(pf.Problem, DECAY, one)) == (
        "problem.initial_circle",
        "x",
        ("initial", "x"),
    )


def test_unknown_state_comes_with_the_states_and_a_remedy():
    assert record(complaint(problem, initial={"z": 1.0})) == ("problem.unknown_state", "z", ("initial", "z"))


def test_noise_of_an_unknown_observable():
    text = complaint(problem, noise=pf.Noise(additive={"y": 0.1}))
    assert says(text, "`y` in additive", "(`x`)", "rename or remove it")


def test_settings_out_of_range_come_with_an_example():
    assert record(complaint(pf.GradientDescent, order=0)) == ("errors.not_whole", "order", ())


def test_start_of_a_local_parameter_as_a_list():
    runs = [pf.Experiment(TIMES, {"x": DATA}, name=f"run{k}") for k in range(2)]
    local = pf.Problem(DECAY, runs, {"k": pf.Parameter(0, 5, local=True)})
    assert record(complaint(pf.fit, local, start={"k": [0.5, 0.6]})) == (
        "problem.sequence_for_local",
        "k",
        ("parameters", "k"),
    )
    assert record(complaint(pf.fit, problem(), start={"k": [0.5]})) == (
        "problem.sequence_for_shared",
        "k",
        ("parameters", "k"),
    )


def test_misspelt_function_comes_with_its_name_first():
    text = str(complaint(pf.Model, "x' = sinn(t) - k*x"))
    assert text.index("`sin(...)`") < text.index("`sinn*(...)`")


def test_formula_nested_too_deeply():
    text = complaint(pf.Model, f"x' = {'(' * 200}k{')' * 200}*x")
    assert says(text, "nested", "define inner parts as helpers")


def test_parameters_of_a_helper_that_nothing_uses():
    model = pf.Model("q = c*x\nx' = -k*x")
    assert model.dropped == {"c": "q"}
    assert says(str(model), "not used", "c (only in q)")
    assert record(complaint(problem, model, parameters={"c": (0, 1)})) == (
        "problem.parameter_of_unused_helper",
        "c",
        ("parameters", "c"),
    )
    assert says(pf.fit(problem(model)).message, "`c` is not estimated", "`q = ...`")


def test_extra_column_is_ignored_with_a_remark():
    (remark,) = pf.Problem(DECAY, table("time,x,note\n0,1,3\n")).remarks
    assert (remark.code, remark.values["columns"]) == ("problem.column_ignored", ["note"])


def test_wrong_kinds_are_named_with_their_article():
    one = pf.Experiment(TIMES, {"x": DATA})
    assert record(complaint(pf.Problem, one, one)) == ("problem.not_a_model", "", ())


def test_column_of_time_spans():
    import pandas as pd

    frame = pd.DataFrame({"time": pd.to_timedelta([0, 1], "h"), "x": [1.0, 2.0]})
    assert record(complaint(pf.read_table, frame)) == ("files.column_of_time_spans", "time", ())


def test_misspelt_file_of_a_fit(tmp_path):
    (tmp_path / "fit.json").write_text("{}")
    error = complaint(pf.load, tmp_path / "fits.json")
    assert record(error) == ("files.no_fit_file", str(tmp_path / "fits.json"), ())
    assert says(error, "Did you mean `fit.json`?")


# initial states


def test_initial_state_near_zero_is_judged_by_its_state():
    times = np.linspace(0, 10, 60)
    model = pf.Model("x' = v\nv' = -w*x", observables=["x"])
    data = pf.simulate(model, {"w": 1.0}, {"x": 0.0, "v": 1.0}, times).observables["x"]
    data = data + 0.02 * np.random.default_rng(0).standard_normal(60)
    found = pf.fit(pf.Problem(model, pf.Experiment(times, {"x": data}))).identifiability()
    assert {name: one.kind for name, one in found.verdicts.items()} == dict.fromkeys(
        ["w", "x(0)", "v(0)"], "determined"
    )


def test_parameters_of_initial_formulas_are_told_by_experiment():
    runs = [pf.Experiment(TIMES, {"x": s * DATA}, name=f"run{s}") for s in (1, 2)]
    parameters = {"k": (0, 5), "x0": pf.Parameter(0, 9, local=True)}
    fit = pf.fit(pf.Problem(DECAY, runs, parameters, initial={"x": "x0"}))
    assert fit.parameters_of("run2") == pytest.approx({"k": 0.7, "x0": 4.0}, rel=1e-6)
    again = pf.simulate(DECAY, fit.parameters_of("run2"), fit.initial_states["run2"], TIMES)
    assert again.observables["x"] == pytest.approx(2 * DATA, rel=1e-6)


def test_start_that_is_no_mapping_is_called_by_its_name():
    assert record(complaint(pf.fit, problem(), start=[1.0])) == ("errors.not_a_mapping", "start", ("start",))
    assert record(complaint(pf.fit, problem(), start_initial={"z": 1.0})) == (
        "problem.unknown_state",
        "z",
        (),
    )


def test_frame_instead_of_experiments():
    import pandas as pd

    text = complaint(pf.Problem, DECAY, pd.DataFrame({"time": TIMES, "x": DATA}))
    assert says(text, "a DataFrame", "pf.read_table")


def test_notebook_and_table_of_what_did_not_converge(unfinished, tmp_path):
    from picardfit.cli.fit import record, write_fit

    assert says(unfinished._repr_html_(), "intervals are not given, because the fit did not converge")
    list(write_fit(unfinished, tmp_path, report=False))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("parameters")] == []
    estimates = record(unfinished, 0.95, "title", [])["estimates"]
    assert estimates["mu"]["remark"] == "the fit did not converge"


def test_a_pole_at_the_initial_time_is_named():
    fit = pf.fit(
        pf.Problem(pf.Model("x' = -a*x/t"), pf.Experiment([0, 1, 2], {"x": [1, 0.5, 0.3]}), {"a": (0, 5)})
    )
    assert not fit.success
    assert fit.message.startswith("The equations are not finite at the initial time 0 of `experiment 1`")
    assert "`1/t` in `x'`" in fit.message
    assert "t0=" in fit.message
    assert pf.Status.ITERATION_LIMIT.value not in fit.message


def test_an_initial_state_among_the_parameters_is_told_where_it_belongs():
    one = problem(pf.Model("x' = -k*x"))
    for name in ("x", "x(0)"):
        with pytest.raises(pf.InputError, match=r"start_initial=\{'x'"):
            pf.fit(one, start={name: 1.0})


def test_residuals_of_an_exact_fit_are_not_tested():
    times = np.linspace(0, 3, 30)
    fit = pf.fit(
        pf.Problem(pf.Model("x' = -b*x"), pf.Experiment(times, {"x": np.exp(-0.7 * times)}), {"b": (0, 5)})
    )
    assert fit.diagnostics.exact
    assert "accuracy of the computation" in str(fit.diagnostics)


def test_a_search_that_went_astray_is_said_to_diverge():
    fit = pf.fit(pf.examples.van_der_pol.generate(seed=1), pf.GradientDescent(order=8))
    assert fit.status is pf.Status.DIVERGED
    assert "more starts" not in fit.message


@pytest.mark.parametrize("formula", ["a/sqrt(t) - x", "a*exp(-1/t)/t^1.5 - x"])
def test_a_pole_that_can_be_integrated_is_fitted(formula):
    times = np.array([0, 0.2, 0.5, 1, 1.5, 2, 3])
    model = pf.Model(f"x' = {formula}")
    later = pf.simulate(model, {"a": 2.0}, {"x": 1.0}, np.append(1e-9, times[1:]), t0=1e-9)
    one = pf.Experiment(times, {"x": later.states["x"]})
    fit = pf.fit(pf.Problem(model, one, {"a": (0.1, 10)}), start={"a": 9.0})
    assert "not finite" not in fit.message
    assert fit.parameters["a"] == pytest.approx(2.0, rel=1e-2)
