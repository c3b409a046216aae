"""Other tools on the same problem: what they are given, how they are judged, what happens when one fails."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import compare
import picardfit as pf
from compare import registry
from compare.isolation import Limits, start_method
from compare.registry import REMEDY, TOOLS, Tool
from compare.runner import common_start
from compare.sensitivities import residual_jacobian
from compare.study import Study, Trial, data_set
from compare.table import Comparison, Row, reaches
from compare.task import Answer, OutOfTime, Task, Unable, Watch, until_over
from compare.translate import translated
from compare.usage import UsageError

FORKS = pytest.mark.skipif(start_method() != "fork", reason="stand-in tools need a forked process")


def decay(**given):
    times = np.linspace(0, 4, 9)
    model = pf.Model("x' = -k*x")
    run = pf.Experiment(times, {"x": 2 * np.exp(-0.7 * times) + 0.01 * np.cos(9 * times)}, name="a")
    return pf.Problem(model, [run], parameters={"k": (0.1, 3.0)}, **given)


def mixed():
    """Two experiments, a log and a local parameter, one known initial state, gaps in the data."""
    model = pf.Model("x' = -k*x + s; y' = k*x - c*y", observables={"y": "g*y", "x": "x"})
    one = pf.Experiment(
        [0, 1, 2], {"y": [0.1, 0.4, np.nan], "x": [2, 1.2, 0.8]}, name="a", initial={"x": 2.0}
    )
    two = pf.Experiment([0, 1, 3], {"y": [0.0, 0.7, 0.8]}, name="b")
    return pf.Problem(
        model,
        [one, two],
        parameters={
            "k": pf.Parameter(0.1, 10, log=True),
            "c": (0, 2),
            "s": pf.Parameter(0, 1, local=True),
            "g": 1.5,
        },
    )


def stiff():
    """Time scales that differ by a million; one initial state is a formula."""
    model = pf.Model("p' = -k1*p; q' = k1*p - k2*q; r' = k2*q - k3*r")
    run = pf.Experiment([0.1, 1, 5], {"p": [1, 0.4, 0.1], "r": [0.1, 0.5, 0.4]}, name="a")
    bounds = {"k1": pf.Parameter(0.1, 10, log=True), "k2": pf.Parameter(1e5, 1e7, log=True), "k3": (0.1, 1)}
    return pf.Problem(model, [run], bounds | {"p0": (0.5, 2)}, {"p": "p0", "q": 0.0, "r": (0, 1)})


def task_of(problem, budget=10.0, seed=0):
    return Task(problem, common_start(problem, None, None, seed), seed, budget)


def has(tool):
    return TOOLS[tool].versions() is not None


def needs(tool):
    return pytest.mark.skipif(not has(tool), reason=f"{tool} is not installed")


def stand_in(monkeypatch, solve, packages=("numpy",)):
    """A tool of our own in the list."""
    module = SimpleNamespace(solve=solve)
    monkeypatch.setitem(sys.modules, "compare.tool_stand_in", module)
    monkeypatch.setitem(registry.TOOLS, "stand-in", Tool("stand-in", packages, "a stand-in", "tool_stand_in"))


# ---- judging -----------------------------------------------------------------------------------------------


def test_the_loss_of_a_row_is_that_of_the_problem():
    problem = decay()
    row = compare.run(problem, ["picardfit"])["picardfit"]
    assert row.loss == pytest.approx(problem.loss(row.parameters, row.initial_states), rel=1e-12)
    assert row.success


@pytest.mark.parametrize("tool", ["shooting", "fmincon", "evolution"])
def test_tools_of_scipy_reach_the_optimum(tool):
    found = compare.run(decay(), ["picardfit", tool], budget=5)
    assert found[tool].success
    assert found[tool].parameters["k"] == pytest.approx(found["picardfit"].parameters["k"], rel=1e-2)


def test_shooting_treats_gaps_logs_local_parameters_and_known_initial_states():
    found = compare.run(mixed(), ["picardfit", "shooting"])
    assert found["shooting"].loss == pytest.approx(found.best.loss, rel=1e-3)
    assert found["shooting"].initial_states["a"]["x"] == 2.0
    assert set(found["shooting"].parameters) == {"k", "c", "s[a]", "s[b]", "g"}


def test_success_is_the_best_loss_within_a_thousandth():
    assert reaches(1.0009, 1.0, 0.0)
    assert not reaches(1.0011, 1.0, 0.0)
    assert reaches(1e-30, 1e-31, 1e-25)
    assert not reaches(np.nan, 1.0, 0.0)


@FORKS
def test_an_answer_outside_the_bounds_is_judged_inside(monkeypatch):
    stand_in(monkeypatch, lambda task: Answer(task.upper + np.array([0.0, 5.0]), True, "far off"))
    assert compare.run(decay(initial={"x": (0, 5)}), ["stand-in"])["stand-in"].parameters["k"] == 3.0


def test_noise_and_priors_are_left_out():
    believed = pf.Parameter(0.1, 3.0, prior=pf.priors.Normal(2.9, 0.001))
    problem = replace(decay(), parameters={"k": believed}, noise=pf.Noise(additive=(0.001, 1.0)))
    row = compare.run(problem, ["picardfit"])["picardfit"]
    plain = compare.run(decay(), ["picardfit"])["picardfit"]
    assert set(row.parameters) == {"k"}
    assert row.parameters["k"] == pytest.approx(plain.parameters["k"], rel=1e-6)


# ---- the common start --------------------------------------------------------------------------------------


def test_parameters_are_drawn_from_the_bounds_by_the_seed():
    drawn = [task_of(decay(), seed=seed).first[-1] for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 4
    assert all(0.1 <= k <= 3 for k in drawn)


def test_given_starts_win_and_initial_states_come_from_the_data():
    problem = decay()
    start = common_start(problem, {"k": 1.25}, None, 0)
    assert Task(problem, start, 0, 1.0).first == pytest.approx([problem.samples.data[0, 0], 1.25])


def test_vector_and_unknowns_are_inverse_to_each_other():
    task = task_of(mixed())
    vector = task.first + 0.01 * np.arange(len(task.first))
    unknowns = task.at(vector)
    assert len(vector) == task.problem.layout.count() == 7
    assert np.array_equal(task.pack(unknowns), vector)
    assert np.array_equal(unknowns[0, task.problem.layout.local :], unknowns[1, task.problem.layout.local :])


def test_residuals_are_model_minus_what_was_measured():
    task = task_of(mixed())
    residuals = task.residuals(task.first, 1e-10)
    assert len(residuals) == task.problem.measurements
    unknowns = task.at(task.first)
    parameters = task.problem.layout.parameters(unknowns)
    values = {
        "k": parameters[0, 0],
        "s": {"a": parameters[0, 1], "b": parameters[1, 1]},
        "c": parameters[0, 2],
    }
    assert list(task.problem.parameters)[:3] == ["k", "s", "c"]
    states = {
        name: dict(zip(task.problem.model.states, row, strict=True))
        for name, row in zip(task.problem.names, task.problem.layout.initial(unknowns)[0], strict=True)
    }
    assert task.loss(task.first, 1e-10) == pytest.approx(task.problem.loss(values, states), rel=1e-7)


def test_a_simulation_that_explodes_gives_large_finite_residuals():
    model = pf.Model("x' = a*x^2")
    run = pf.Experiment([0, 1, 2], {"x": [1, 2, 3]}, name="a", initial={"x": 1.0})
    task = task_of(pf.Problem(model, [run], parameters={"a": (0, 20)}))
    residuals = task.residuals(np.array([20.0]), 1e-8)
    assert np.isfinite(residuals).all()
    assert np.abs(residuals).max() > 100


@pytest.mark.parametrize(
    "problem", [mixed(), pf.examples.tumor.generate(), stiff()], ids=["mixed", "tumor", "stiff"]
)
def test_sensitivities_are_the_derivative_of_the_residuals(problem):
    task = task_of(problem)
    jacobian = residual_jacobian(task, task.first, Watch(np.inf))
    steps = 1e-4 * np.diag(np.maximum(np.abs(task.first), 0.1))
    differences = [
        (task.residuals(task.first + h, 1e-11) - task.residuals(task.first - h, 1e-11)) / (2 * h.sum())
        for h in steps
    ]
    assert jacobian == pytest.approx(np.array(differences).T, abs=1e-5 * np.abs(jacobian).max())


def test_sensitivities_are_zero_where_the_simulation_does_not_get():
    model = pf.Model("x' = a*x^2")
    run = pf.Experiment([0, 0.1, 0.5, 2], {"x": [1, 1.2, 2, 3]}, name="a", initial={"x": 1.0})
    task = task_of(pf.Problem(model, [run], parameters={"a": (0, 20)}))
    slopes = residual_jacobian(task, np.array([1.0]), Watch(np.inf))[:, 0]
    assert slopes == pytest.approx([0.0, 0.1 / 0.9**2, 0.5 / 0.5**2, 0.0], rel=1e-6)  # x = 1/(1 - a t)


def test_missing_bounds_are_made_finite_for_tools_that_need_them():
    run = pf.Experiment([0, 1], {"x": [1, 2]})
    low, high = task_of(pf.Problem(pf.Model("x' = -k*x"), [run], parameters={"k": (0, None)})).box
    assert np.isfinite([low, high]).all()
    assert (low < high).all()


# ---- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tools": ["casady"]}, "Did you mean `casadi`"),
        ({"tools": []}, "leave `tools` out"),
        ({"budget": 0}, "positive number of seconds"),
        ({"start": {"k": 9.0}}, "`k` lies outside its bounds"),
        ({"start": {"q": 9.0}}, "`q` is not a parameter"),
    ],
)
def test_bad_input_names_the_culprit(given, words):
    with pytest.raises((UsageError, pf.InputError), match=words):
        compare.run(decay(), **{"tools": ["shooting"], **given})


def test_a_problem_is_needed():
    with pytest.raises(UsageError, match=r"pass a pf\.Problem"):
        compare.run("problem.toml")


# ---- tools that fail ---------------------------------------------------------------------------------------


def test_a_tool_that_is_not_installed_says_how_to_get_it(monkeypatch):
    stand_in(monkeypatch, None, ("no-such-package-anywhere",))
    row = compare.run(decay(), ["stand-in"])["stand-in"]
    assert row.sentence == REMEDY
    assert not row.success


@FORKS
def test_a_tool_that_sleeps_is_stopped_by_the_clock(monkeypatch):
    stand_in(monkeypatch, lambda task: time.sleep(600))
    row = compare.run(decay(), ["stand-in"], budget=0.01, limits=Limits(grace=0.3))["stand-in"]
    assert "on the clock" in row.sentence


@FORKS
def test_a_tool_that_computes_for_ever_is_stopped_by_the_system(monkeypatch):
    def solve(task):
        while True:
            pass

    stand_in(monkeypatch, solve)
    row = compare.run(decay(), ["stand-in"], budget=0.1, limits=Limits(grace=0.1, late=1e4))["stand-in"]
    assert row.sentence == "stopped from outside: it used more than 0.1 processor seconds"


@FORKS
def test_a_tool_that_raises_is_a_row_with_its_words(monkeypatch):
    stand_in(monkeypatch, lambda task: 1 / 0)
    assert (
        compare.run(decay(), ["stand-in"])["stand-in"].sentence
        == "failed: ZeroDivisionError: division by zero"
    )


@FORKS
def test_a_tool_that_dies_is_a_row(monkeypatch):
    stand_in(monkeypatch, lambda task: os._exit(3))
    assert "died" in compare.run(decay(), ["stand-in"])["stand-in"].sentence


@FORKS
def test_a_tool_that_cannot_says_why_and_the_others_go_on(monkeypatch):
    def solve(task):
        raise Unable("it cannot do decays")

    stand_in(monkeypatch, solve)
    found = compare.run(decay(), ["stand-in", "picardfit"])
    assert found["stand-in"].sentence == "it cannot do decays"
    assert found["picardfit"].success


@FORKS
def test_what_a_tool_prints_does_not_get_between_the_rows(monkeypatch, capfd):
    stand_in(monkeypatch, lambda task: (os.write(1, b"noise"), Answer(task.first, True, ""))[1])
    compare.run(decay(), ["stand-in"])
    assert capfd.readouterr().out == ""


def test_when_the_time_is_up_the_best_point_so_far_is_the_answer():
    task = task_of(decay())
    watch = Watch(np.inf)

    def search():
        watch.tick(np.array([1.0, 1.0]), 3.0)
        watch.tick(np.array([2.0, 2.0]), 1.0)
        watch.end = -np.inf
        watch.tick(np.array([3.0, 3.0]), 2.0)

    with pytest.raises(OutOfTime):
        search()
    watch.end = np.inf
    answer = until_over(watch, task, search)
    assert list(answer.vector) == [2.0, 2.0]
    assert not answer.converged


# ---- translation -------------------------------------------------------------------------------------------

NUMPY_WORDS = {
    name: getattr(np, name)
    for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sign", "sqrt", "abs", "where")
} | {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}
EVERYTHING = """
x' = exp(-x) + log(1 + x^2)*sin(a*t) - cos(x)/tan(1 + y^2) + sqrt(x^2 + a) + abs(x - y)^1.7 + x^-2
y' = where(x > y and t < 2 or not(a >= 1), min(x, y, a), max(x, 2*y)) + sign(y)*tanh(x)/(1 + x^4) - 2^x + u*atan(x)
"""


def everything():
    return pf.Model(EVERYTHING, inputs=["u"])


def sample_points():
    rng = np.random.default_rng(0)
    return (
        rng.uniform(0, 4, 40),
        rng.uniform(0.2, 2, (40, 2)),
        rng.uniform(0.5, 1.5, (40, 1)),
        rng.normal(size=(40, 1)),
    )


def test_a_translation_means_the_same():
    rhs = everything().rhs
    t, x, p, u = sample_points()
    rows = translated(rhs, NUMPY_WORDS)(t, x.T, p.T, u.T)
    assert np.allclose(np.stack(rows, -1), rhs.value(t, x, p, u), rtol=1e-13)


@needs("casadi")
def test_casadi_computes_the_same_on_rows_of_points():
    import casadi as ca

    from compare.tool_casadi import WORDS

    rhs = everything().rhs
    t, x, _, u = sample_points()
    states = [ca.SX.sym("x", 40), ca.SX.sym("y", 40)]
    a = ca.SX.sym("a")
    rows = translated(rhs, WORDS)(ca.DM(t), states, [a], [ca.DM(u[:, 0])])
    got = ca.Function("f", [*states, a], [ca.horzcat(*rows)])(x[:, 0], x[:, 1], 0.8)
    assert np.allclose(np.asarray(got), rhs.value(t, x, [0.8], u), rtol=1e-12)


def test_a_function_that_decides_cannot_be_translated():
    def f(t, x, p, u):
        return [-p[0] * x[0] if x[0] > 1 else -x[0]]

    model = pf.Model.from_function(f, states=["x"], parameters=["k"])
    with pytest.raises(Unable, match="needs equations as formulas"):
        translated(model.rhs, NUMPY_WORDS)


# ---- the tools ---------------------------------------------------------------------------------------------


@needs("casadi")
@pytest.mark.parametrize(
    "name", ["van_der_pol", "fitzhugh_nagumo", "rosenzweig_macarthur", "tumor", "lorenz"]
)
def test_collocation_and_picardfit_find_the_same_optimum(name):
    problem = pf.examples.ALL[name].generate(seed=2)
    found = compare.run(problem, ["picardfit", "casadi"], seed=1)
    assert found["casadi"].success
    assert found["picardfit"].success


@needs("casadi")
def test_collocation_treats_gaps_logs_local_parameters_and_known_initial_states():
    found = compare.run(mixed(), ["picardfit", "casadi"])
    assert found["casadi"].loss == pytest.approx(found["picardfit"].loss, rel=1e-3)


@needs("casadi")
def test_elements_end_at_samples_and_jumps():
    from compare.tool_casadi import LONGEST, elements

    model = pf.Model("x' = -k*x + u", inputs=["u"])
    run = pf.Experiment([1, 5], {"x": [1, 2]}, inputs={"u": "where(t < 2.345, 1, 0)"})
    knots = elements(pf.Problem(model, [run]), 0)
    assert {0.0, 1.0, 2.345, 5.0} <= set(knots)
    assert np.diff(knots).min() > 0
    assert np.diff(knots).max() <= 5 * LONGEST * (1 + 1e-9)


@needs("sindy")
@pytest.mark.parametrize(("tool", "error"), [("sindy", 0.2), ("sindy-smooth", 0.1)])
def test_sindy_recovers_lorenz_from_clean_data(tool, error):
    problem = pf.examples.lorenz.generate(seed=3, eps=0.0, samples=1001)
    row = compare.run(problem, [tool])[tool]
    for name, value in pf.examples.lorenz.TRUTH.items():
        assert row.parameters[name] == pytest.approx(value, rel=error)


@needs("sindy")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fitzhugh_nagumo", "every state measured"),
        ("rosenzweig_macarthur", "linear in"),
        ("tumor", "without inputs"),
    ],
)
def test_sindy_says_what_it_cannot_do(name, words):
    from compare.tool_sindy import solve

    with pytest.raises(Unable, match=words):
        solve(task_of(pf.examples.ALL[name].generate(seed=1)))


@needs("genetic")
def test_the_genetic_algorithm_improves_on_the_start():
    problem = decay(initial={"x": (0, 5)})
    task = task_of(problem)
    row = compare.run(problem, ["genetic"], budget=2)["genetic"]
    assert row.loss < 0.1 * task.loss(task.first, 1e-8)


@needs("scatter")
def test_scatter_search_reaches_the_optimum():
    found = compare.run(decay(initial={"x": (0, 5)}), ["picardfit", "scatter"], budget=4)
    assert found["scatter"].success


@pytest.mark.slow
@needs("diffrax")
@pytest.mark.parametrize("problem", [decay(), mixed(), pf.examples.tumor.generate(seed=1, inputs=(1, 2))])
def test_diffrax_and_picardfit_find_the_same_optimum(problem):
    found = compare.run(problem, ["picardfit", "diffrax"], budget=60)
    assert found["diffrax"].loss == pytest.approx(found["picardfit"].loss, rel=1e-3)


@pytest.mark.slow
@needs("adam-bfgs")
def test_adam_then_bfgs_reaches_the_optimum_of_a_decay():
    assert compare.run(decay(), ["picardfit", "adam-bfgs"], budget=60)["adam-bfgs"].success


# ---- the study ---------------------------------------------------------------------------------------------


def trial(tool, number, error, eps=0.1):
    names = pf.examples.lorenz.TRUTH
    return Trial(eps, number, Row(tool, "", ""), dict.fromkeys(names, error) if np.isfinite(error) else {})


def test_a_cell_is_the_mean_error_over_the_answers():
    found = Study((trial("a", 0, 0.1), trial("a", 1, 0.3), trial("a", 2, np.nan)), 1.0)
    cell = found.cell("a", 0.1, "rho")
    assert cell.mean == pytest.approx(0.2)
    assert cell.std == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert cell.standard_error == pytest.approx(cell.std / np.sqrt(2))
    assert (cell.answers, cell.data_sets) == (2, 3)


def trials_of(tool, *errors):
    return [trial(tool, k, e) for k, e in enumerate(errors)]


def test_behind_is_by_more_than_a_standard_error():
    mine = trials_of("picardfit", 0.1, 0.2, 0.3)  # standard error 0.058
    assert Study((*mine, *trials_of("b", 0.05, 0.14, 0.26)), 1.0).behind() == []
    assert len(Study((*mine, *trials_of("b", 0.0, 0.14, 0.2)), 1.0).behind()) == 3


def test_paired_differences_are_sharper():
    mine = trials_of("picardfit", 0.1, 0.2, 0.3)
    assert Study((*mine, *trials_of("b", 0.1, 0.19, 0.31)), 1.0).behind(paired=True) == []
    assert len(Study((*mine, *trials_of("b", 0.05, 0.14, 0.26)), 1.0).behind(paired=True)) == 3


def test_the_study_has_the_same_initial_states_at_all_levels():
    found = compare.study((0.01, 0.1), 2, ["picardfit"], seed=1)
    truths = [data_set(1, k, e, None, "std").truth for e in (0.01, 0.1) for k in (0, 1)]
    assert truths[:2] == truths[2:]
    assert truths[0] != truths[1]
    assert [(t.eps, t.data_set) for t in found.trials] == [(0.01, 0), (0.01, 1), (0.1, 0), (0.1, 1)]
    assert found.cell("picardfit", 0.01, "rho").mean < found.cell("picardfit", 0.1, "rho").mean < 0.2
    assert "picardfit" in str(found)


def test_the_study_takes_given_initial_states():
    found = compare.study((0.05,), [pf.examples.lorenz.EXAMPLE_INITIAL], ["picardfit"])
    row = found.trials[0].row
    assert row.initial_states["run 1"]["x1"] == pytest.approx(1.46, rel=0.1)


@pytest.mark.parametrize("given", [0, [], "ten"])
def test_a_study_of_nothing_is_refused(given):
    with pytest.raises(UsageError, match="initial_states"):
        compare.study((0.1,), given, ["picardfit"])


# ---- printing, command, imports ----------------------------------------------------------------------------


def some_comparison():
    rows = (
        Row("a", "a 1.0", "fine", 0.25, {"k": 0.5}, {"e": {"x": 1.0}}, 0.5, 0.6, True),
        Row("b", "", REMEDY),
    )
    return Comparison(rows, {"k": 1.5})


def test_the_table_shows_loss_parameters_time_and_success():
    lines = str(some_comparison()).splitlines()
    assert lines[0].split() == ["tool", "loss", "success", "seconds", "k"]
    assert lines[1].split() == ["start", "1.5"]
    assert lines[2].split() == ["a", "0.25", "yes", "0.50", "0.5", "fine"]
    assert lines[3].split()[:2] == ["b", "no"]
    assert REMEDY in lines[3]


def test_best_is_none_when_nothing_was_found():
    nothing = replace(some_comparison(), rows=some_comparison().rows[1:])
    assert nothing.best is None
    assert some_comparison().best.tool == "a"


def test_json_holds_what_the_table_shows():
    from compare.command import as_document

    record = json.loads(as_document(some_comparison()))
    assert record["rows"][0]["parameters"] == {"k": 0.5}
    assert record["rows"][1]["loss"] is None


@pytest.mark.skipif(
    importlib.util.find_spec("picardfit.files.problem_file") is None, reason="there are no problem files"
)
def test_the_command_compares_on_a_problem_file(monkeypatch):
    import typer

    import picardfit.files.problem_file as problem_file
    from compare.command import compare as command

    monkeypatch.setattr(problem_file, "read_problem", lambda path: decay())
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, ["my.toml", "-t", "picardfit", "-t", "shooting"])
    assert result.exit_code == 0
    assert "shooting" in result.output


def test_importing_the_comparison_imports_no_tool():
    foreign = ["casadi", "jax", "diffrax", "pysindy", "pypesto", "pygad"]
    code = f"import sys, compare; print([name for name in {foreign} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_every_tool_has_a_module_with_the_same_interface():
    for tool in TOOLS.values():
        if tool.versions() is not None and importlib.util.find_spec(f"compare.{tool.module}") is None:
            pytest.fail(tool.name)
    assert [t.name for t in TOOLS.values()] == list(TOOLS)
